"""Measures what an open page of the console costs a server.

    .venv/bin/python tests/operation/console/cost.py [--rounds N] [--seconds S] [--program FILE]

Rounds with the page open in a headless Chromium, and with an empty page in the same browser, take turns
under one load: 50 connections to one worker, one GET or SET in flight each. The server has the first CPU
for itself. The load has a real-time priority on the last one, and the browser has what is left there: it
would be on another machine. The figure is requests per second of CPU time of the whole server, admin thread
included. Prints the ratio open/closed of each pair of rounds. Exit status 0: the median costs less than 1
%; 1: more. Nothing else may run on the machine, which needs two CPUs and root.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

FIRST, LAST = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))
PROJECT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(PROJECT / "tests"))

COST_MAX = 0.01
# The page begins with the history, which is not what an open page costs.
SETTLING_S = 3


def cpu_ns(pid):
    """Returns the CPU time of all threads that the process has."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads)


def pin(pid, cpu):
    """Pins all threads of a process."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), {cpu})


def rate(server, seconds):
    """Returns requests per second of CPU time, over so many seconds."""

    def now():
        stats = server.stats()
        return int(stats["cmd_get"]) + int(stats["cmd_set"]), cpu_ns(server.pid)

    requests, spent_ns = now()
    time.sleep(seconds)
    requests_after, spent_after_ns = now()
    return (requests_after - requests) / (spent_after_ns - spent_ns) * 1e9


def ratios(server, rounds, seconds):
    """Yields the ratio of each pair of rounds. Which one comes first changes."""
    from harness.admin import Admin
    from harness.tools.browser import Browser

    url = "http://localhost:%d/" % Admin(server).address[1]
    with Browser() as browser:
        for number in range(rounds):
            found = {}
            for is_open in (number % 2 == 0, number % 2 == 1):
                page = browser.open(url if is_open else "about:blank", 1280)
                time.sleep(SETTLING_S)
                found[is_open] = rate(server, seconds)
                if is_open:
                    assert page.value("return document.querySelectorAll('.cells li').length") > 0
                page.close()
            yield found[True], found[False]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--program", default=str(PROJECT / "target/release/micanite"))
    options = parser.parse_args()
    os.environ["MICANITE_BIN"] = options.program
    from harness.server import Server

    # What starts from here on inherits it.
    os.sched_setaffinity(0, {LAST})
    server = Server("-t", 1, "-m", "256", "--admin", "-1")
    pin(server.pid, FIRST)
    words = ["load", f"memcached://127.0.0.1:{server.port}", "-c", "50", "-d", "1h", "--cpu", LAST]
    load = subprocess.Popen(
        ["chrt", "-r", "1", options.program, *map(str, words)], stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        # The items are stored first.
        while int(server.stats()["cmd_get"]) == 0:
            time.sleep(0.1)
        found = []
        for with_page, without in ratios(server, options.rounds, options.seconds):
            found.append(with_page / without)
            print(f"open {with_page:,.0f}  closed {without:,.0f}  ratio {found[-1]:.4f}", flush=True)
    finally:
        load.kill()
        load.wait()
        server.end()
    median = statistics.median(found)
    print(f"requests per CPU second, page open / closed: {median:.4f} ({min(found):.4f} .. {max(found):.4f})")
    return 0 if median > 1 - COST_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
