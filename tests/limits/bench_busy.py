"""Measures a server whose CPUs others want too: one line per case, and the same as JSON in
`target/bench/busy.json`. After `make build deps`:
`PYTHONPATH=tests .venv/bin/python tests/limits/bench_busy.py`

A server with two workers and `micanite load` share the CPUs with four busy loops, or the server has a CPU
quota of half a CPU. Writes: as many as can be done by 5 connections, in each access mode. Delays: 2,000 GETs
a second in an open loop, by the way of pinning. Cases take turns, three times (QUICK=1: once)."""

import contextlib
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from harness.server import PROJECT, Server
from harness.tools.load import start_load

ROUNDS = 1 if os.environ.get("QUICK") == "1" else 3
SECONDS = 10
BUSY_LOOPS = 4
PERIOD_US, QUOTA_US = 100_000, 50_000
CONTROL_GROUPS = Path("/sys/fs/cgroup")
WRITES = ("--get", "0", "--connections", "5", "--pipeline", "10")
DELAYS = ("--get", "100", "--connections", "4", "--rate", "2000")
MODES = [("--access", mode) for mode in ("crcw", "crew", "erew")]
PINS = [("--pin", pin) for pin in ("off", "on", "auto")]


@contextlib.contextmanager
def busy_loops(server):
    """Programs that want all CPUs."""
    del server
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY_LOOPS)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@contextlib.contextmanager
def quota(server):
    """Half a CPU for the server, by the control groups of either version."""
    is_second = (CONTROL_GROUPS / "cgroup.controllers").exists()
    group = CONTROL_GROUPS / ("" if is_second else "cpu") / f"micanite-{server.pid}"
    group.mkdir()
    try:
        if is_second:
            (group / "cpu.max").write_text(f"{QUOTA_US} {PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(QUOTA_US))
        (group / "cgroup.procs").write_text(str(server.pid))
        yield
    finally:
        (group.parent / "cgroup.procs").write_text(str(server.pid))
        group.rmdir()


def run(options, place, words):
    """The report of a load on a server with these options."""
    server = Server("-t", 2, "-m", 64, *options)
    try:
        with place(server):
            data = ["--dataset", "16/100", "--items", 10_000, "--warmup", "1s", "--duration", f"{SECONDS}s"]
            address = f"memcached://127.0.0.1:{server.port}"
            running = start_load(address, *data, *words, "--quiet", "--json", "-")
            out, err = running.communicate(timeout=SECONDS + 120)
        assert running.returncode == 0, err
        report = json.loads(out)
        assert report["wrong_values"] == 0 and report["answered"] > 0
        return report
    finally:
        server.end()


def main():
    """Runs all cases."""
    os.environ.setdefault("MICANITE_BIN", str(PROJECT / "target/release/micanite"))
    record = {}
    for place in (busy_loops, quota):
        for words, cases in ((WRITES, MODES), (DELAYS, PINS)):
            found = {case: [] for case in cases}
            for _ in range(ROUNDS):
                for case in cases:
                    found[case].append(run(case, place, words))
            for case, reports in found.items():
                row = {"answered_per_s": statistics.median(r["answered"] for r in reports) / SECONDS}
                for quantile in ("p50", "p99", "max"):
                    row[f"{quantile}_us"] = statistics.median(r["latency_us"][quantile] for r in reports)
                record[f"{place.__name__} {' '.join(case)}"] = row
                print(place.__name__, *case, {name: round(value) for name, value in row.items()}, flush=True)
    where = Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target")) / "bench/busy.json"
    where.parent.mkdir(parents=True, exist_ok=True)
    where.write_text(json.dumps(record, indent=2) + "\n")
    print(f"written: {where}")


if __name__ == "__main__":
    main()
