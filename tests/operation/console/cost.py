"""Measures what an open page of the console costs a server.

    .venv/bin/python tests/operation/console/cost.py [--rounds N] [--seconds S] [--program FILE]

Rounds with the page open in a headless Chromium, and with an empty page in the same browser, take turns
under one load: 50 connections to one worker, one GET or SET in flight each. The page is served by threads
beside the worker. The figure is their CPU time, in parts of a core: what the worker would lose if they all
shared its core. (The rate itself moves by several percent between rounds of such a machine, which has the
browser, too.)
Exit status 0: the median costs less than 1 %; 1: more.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(PROJECT / "tests"))

COST_MAX = 0.01
# The page begins with the history, which is not what an open page costs.
SETTLING_S = 3


def cpu_ns(pid):
    """Returns the CPU time of the threads that are no workers."""
    threads = [thread for thread in Path(f"/proc/{pid}/task").iterdir() if not is_worker(thread)]
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads)


def is_worker(thread):
    return (thread / "comm").read_text().startswith("worker")


def share(server, seconds):
    """Returns the CPU time in parts of a core, over so many seconds."""
    before_ns, began = cpu_ns(server.pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_ns(server.pid) - before_ns) / (time.monotonic() - began) / 1e9


def shares(server, rounds, seconds):
    """Yields the shares of each pair of rounds, open and closed. Which one comes first changes."""
    from harness.admin import Admin
    from harness.tools.browser import Browser

    url = f"http://localhost:{Admin(server).address[1]}/"
    with Browser() as browser:
        for number in range(rounds):
            found = {}
            for is_open in (number % 2 == 0, number % 2 == 1):
                page = browser.open(url if is_open else "about:blank", 1280)
                time.sleep(SETTLING_S)
                found[is_open] = share(server, seconds)
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

    server = Server("-t", 1, "-m", "256", "--admin", "-1")
    assert any(is_worker(thread) for thread in Path(f"/proc/{server.pid}/task").iterdir())
    words = ["load", f"memcached://127.0.0.1:{server.port}", "-c", "50", "-d", "1h"]
    load = subprocess.Popen([options.program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        # The items are stored first.
        while int(server.stats()["cmd_get"]) == 0:
            time.sleep(0.1)
        found = []
        for with_page, without in shares(server, options.rounds, options.seconds):
            found.append((with_page, without))
            print(f"open {with_page:.4%} of a core, closed {without:.4%}", flush=True)
    finally:
        load.kill()
        load.wait()
        server.end()
    for name, of_one in zip(("open", "closed"), zip(*found, strict=True), strict=True):
        print(f"{name}: {statistics.median(of_one):.3%} ({min(of_one):.3%} .. {max(of_one):.3%}) of a core")
    return 0 if statistics.median(with_page for with_page, _ in found) < COST_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
