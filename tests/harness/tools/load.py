"""Running `micanite load` and reading its report."""

import json
import subprocess

from harness.failures import nothing_wrong
from harness.poll import DEADLINE_S, until
from harness.server import command, environment

# Options of a run that the test ends.
ENDLESS = ("--duration", "1h")
# Options of a run that is over soon.
SHORT = ("--warmup", "0s", "--duration", "300ms")
# The same over streams, where nothing is lost: a reply may take as long as the machine stands still.
PATIENT = (*SHORT, "--timeout", "30s")
# And with 300 requests, however long that is.
STEADY = (*PATIENT, "--rate", 1000, "--arrivals", "even")


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
    """Runs it and returns its report; again where the machine stood still for the whole run, so that nothing
    was sent."""
    for _ in range(3):
        ended = run_load(*words, "--quiet", "--json", "-")
        report = json.loads(ended.stdout) if ended.stdout else None
        if report is None or report["sent"] > 0:
            break
    if status == 0 and report:
        nothing_wrong(report.get("wrong_values"))
    assert ended.returncode == status, ended.stderr
    return report


def load_some(*words, least, before=lambda: None):
    """
    Runs it until a run has had `least` answers, which a slow machine, or one that stands still, can keep a
    short one from: each run is three times as long as the one before, up to ten seconds. Its report, and what
    `before` said ahead of it.
    """
    words, duration_ms = list(words), 300
    place = words.index("--duration") + 1

    def run():
        nonlocal duration_ms
        told = before()
        words[place] = f"{duration_ms}ms"
        duration_ms = min(3 * duration_ms, 10_000)
        ended = run_load(*words, "--quiet", "--json", "-")
        print(ended.stderr)
        report = json.loads(ended.stdout) if ended.returncode == 0 else {"answered": 0}
        return report["answered"] >= least and (report, told)

    return until(run, f"a run with {least} answers", 4 * DEADLINE_S)


def is_clean(report):
    """Returns whether every request was answered, with the right value, and hit."""
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
