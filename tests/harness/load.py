"""Running `micanite load` and reading its report."""

import json
import subprocess

from harness.server import command, environment

# Options of a run that is over soon.
SHORT = ("--warmup", "0s", "--duration", "300ms")


def run_load(*words, deadline_s=120):
    """Runs `micanite load` with these words, to its end."""
    return subprocess.run(
        [command()[0], "load", *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=deadline_s,
        env=environment(),
    )


def start_load(*words):
    """Starts it, for a test that does something meanwhile."""
    return subprocess.Popen(
        [command()[0], "load", *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def load(*words, status=0):
    """Runs it and returns its report."""
    ended = run_load(*words, "--quiet", "--json", "-")
    assert ended.returncode == status, ended.stderr
    return json.loads(ended.stdout)


def is_clean(report):
    """Whether everything was answered, rightly, and found."""
    return (
        report["sent"] == report["answered"] > 0
        and report["lost"] == report["unsent"] == report["refused"] == report["wrong_values"] == 0
        and report["loss_ratio"] == 0
        and report["hit_ratio"] == 1
    )


def is_right(report):
    """The same where datagrams may be lost: a busy machine drops some."""
    return (
        report["sent"] == report["answered"] + report["lost"]
        and report["answered"] > 0
        and report["unsent"] == report["refused"] == report["wrong_values"] == 0
        and report["hit_ratio"] > 0.9
    )
