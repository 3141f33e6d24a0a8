"""`make bench-kernel-spread`: what clients gain when the core that answers has other work, too, and `--kernel-get-spread 70` lets
another core help. A table, and the same as JSON in `target/bench/bench-kernel-spread.json`.

The thread that polls the server's end of the cable is on the first CPU, and so is a process that never rests; the load is on the last one: memcached's
protocol over UDP, a closed loop of some clients, in turns without the option and with it."""

import contextlib
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from harness.kernel_get import AnsweringLink, KernelServer
from harness.links import NEAR
from harness.load import load
from harness.server import PROJECT

CPUS = sorted(os.sched_getaffinity(0))
CLIENTS = (4, 16)
QUICK = os.environ.get("QUICK") == "1"
ROUNDS = 1 if QUICK else 3
DURATION = "500ms" if QUICK else "2s"


def poll_by_thread(host, interface, cpu):
    """Frames of an interface are taken by a thread of its own, on one CPU."""
    host.run("ethtool", "-K", interface, "gro", "on")
    host.run("sh", "-c", f"echo 1 > /sys/class/net/{interface}/threaded")
    threads = subprocess.run(["pgrep", "-f", rf"^\[?napi/{interface}-"], capture_output=True, text=True).stdout.split()
    assert threads, f"no thread polls {interface}"
    for thread in threads:
        os.sched_setaffinity(int(thread), [cpu])


@contextlib.contextmanager
def busy(cpu):
    """Somebody else has work for this CPU."""
    work = subprocess.Popen(["taskset", "-c", str(cpu), sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        work.kill()
        work.wait()


def measured(link, percent, clients):
    """The load's report, and how many of the answers another core gave."""
    with KernelServer(link, "-t", "1", "--kernel-get-spread", str(percent), mode="native") as server:
        address = f"memcached+udp://{link.server.address}:{server.udp_port}"
        words = [address, "--get", 100, "--connections", clients, "--cpu", CPUS[-1], "--warmup", "2s", "--duration", DURATION]
        with link.clients.inside(), busy(CPUS[0]):
            report = load(*words, "--items", 10_000, "--fill")
        counters = server.kernel()
        return report, counters["spread"] / max(counters["answered"], 1)


def print_table(lines):
    """Columns as wide as what is in them, with space between."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def main():
    """All numbers of clients, in turns."""
    with AnsweringLink() as link:
        poll_by_thread(link.server, NEAR, CPUS[0])
        poll_by_thread(link.clients, link.far, CPUS[-1])
        rows = {}
        for _ in range(ROUNDS):
            for clients in CLIENTS:
                for percent in (0, 70):
                    report, share = measured(link, percent, clients)
                    row = {"per_s": report["throughput_ops"], **{name: report["latency_us"][name] for name in ("mean", "p50", "p99")}, "lost": report["loss_ratio"], "moved": share}
                    rows.setdefault((clients, percent), []).append(row)
    names = ("per_s", "mean", "p50", "p99", "lost", "moved")
    lines, table = [("clients", "spread", *names)], []
    for (clients, percent), rounds in rows.items():
        medians = {name: statistics.median(row[name] for row in rounds) for name in names}
        ranges = {name: (min(row[name] for row in rounds), max(row[name] for row in rounds)) for name in names}
        cells = (f"{medians[name]:.4g} ({ranges[name][0]:.4g} .. {ranges[name][1]:.4g})" for name in names)
        lines.append((str(clients), str(percent), *cells))
        table.append({"clients": clients, "spread_percent": percent, **medians, "rounds": rounds})
    print_table(lines)
    where = Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target")) / "bench/bench-kernel-spread.json"
    where.parent.mkdir(parents=True, exist_ok=True)
    where.write_text(json.dumps(table, indent=2) + "\n")
    print(f"written: {where}")


if __name__ == "__main__":
    main()
