"""Throughput of one server with two workers at one interface and at two, in interleaved rounds.

    .venv/bin/python tests/native/bench_nics.py [ROUNDS [SECONDS]]

EREW, uniform GETs and SETs of 8 bytes (95 % GET), 16 per datagram; the interfaces are veth pairs. Cases: one
interface; two, and a client that finds both; two, and a client that reaches only the first one, so that half
of the datagrams cross. Needs root and MICANITE_BIN; prints a line for each case: operations per second (least
and greatest of the rounds), datagrams and those that crossed."""

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.network.nics import Nics, NicsServer
from harness.tools.load import load

WORKERS = 2
ITEMS = ("--items", 100_000, "--batch", 16, "--pipeline", 512)


class OneNic(NicsServer):
    """Both workers at the first interface."""

    def __init__(self, nics, kind, *options):
        names, nics.names = nics.names, nics.names[:1]
        try:
            super().__init__(nics, kind, *options)
        finally:
            nics.names = names


def measure(kind, case, seconds):
    """Operations per second, datagrams, and those that crossed."""
    queues = WORKERS if case == "one" else 1
    with Nics(2, queues=queues) as nics:
        if kind == "xdp" and queues > 1:
            nics.direct(0)
        if case == "crossing":
            nics.clients.ip("link", "set", "far1", "down")
            nics.clients.ip("route", "add", "blackhole", "10.93.1.0/24")
        server = OneNic if case == "one" else NicsServer
        with server(nics, kind, "-t", WORKERS, "-m", 128, "--access", "erew") as running:
            url = f"native://{nics.address(0)}:{running.native_port}"
            with nics.clients.inside():
                load(url, "--fill", *ITEMS, "--duration", "100ms")
                before = running.count("datagrams_received"), running.count("crossed")
                report = load(url, *ITEMS, "--warmup", "500ms", "--duration", f"{seconds}s")
            after = running.count("datagrams_received"), running.count("crossed")
    return report["throughput_ops"], after[0] - before[0], after[1] - before[1]


def main(rounds=5, seconds=2):
    cases = [(kind, case) for kind in ("kernel", "xdp") for case in ("one", "two", "crossing")]
    runs = {case: [] for case in cases}
    for number in range(rounds):
        for case in cases if number % 2 == 0 else cases[::-1]:
            runs[case].append(measure(*case, seconds))
    for case, found in runs.items():
        rates = [rate / 1e6 for rate, _, _ in found]
        received, crossed = (sum(run[at] for run in found) for at in (1, 2))
        spread = f"{statistics.median(rates):.3f} ({min(rates):.3f} .. {max(rates):.3f}) M/s"
        print(f"{case[0]:7}{case[1]:9} {spread}, {received} datagrams, {crossed} crossed")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
