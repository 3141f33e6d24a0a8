"""Waiting: always for a condition, always with a deadline."""

import time

from harness.failures import Hang

# Longer than a machine that is busy with other work lets anything wait.
DEADLINE_S = 60.0
INTERVAL_S = 0.005


def until(condition, what, deadline_s=DEADLINE_S):
    """Calls `condition` until it answers something true, and returns that; fails with `what` after the
    deadline."""
    end = time.monotonic() + deadline_s
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise Hang(f"waited {deadline_s} s in vain for {what}")
        time.sleep(INTERVAL_S)
