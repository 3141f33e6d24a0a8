"""`micanite trace`, run to its end."""

import subprocess

from harness.server import command, environment


def run_trace(*words, deadline_s=60):
    """Runs the command with these words."""
    return subprocess.run(
        [command()[0], "trace", *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=deadline_s,
        env=environment(),
    )
