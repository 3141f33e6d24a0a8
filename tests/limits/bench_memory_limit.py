"""Measures what clients feel while the limit of the memory changes: a table, and the same as JSON in
`target/bench/memory_limit.json`. After `make build deps`:
`PYTHONPATH=tests .venv/bin/python tests/limits/bench_memory_limit.py [KIND..]`

A full server of 1 GiB with one worker runs on the first CPU, at real-time priority. On the last one runs
`micanite load`: 2,000 GETs a second by 4 connections in an open loop, latency from the schedule. During a
run the limit falls to 256 MiB, or rises to 1 GiB again; the run is longer than the server needs to follow.
Runs without a change, with a lower and with a higher limit take turns, several times (QUICK=1: once). The
delay of a change is in each of its runs, and the machine's is not: the longest delay of the quietest run is
that of the change."""

import contextlib
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path

from harness.memory import MIB, resident_bytes
from harness.server import PROJECT, Server
from harness.tools.load import load, start_load

RUNS = 1 if os.environ.get("QUICK") == "1" else 3
FIRST, LAST = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))
MOST_MIB, LEAST_MIB = 1024, 256
# What the limit becomes, and seconds in which the server follows.
LIMITS = {"no change": (None, 30), "to 256 MiB": (LEAST_MIB, 30), "to 1 GiB": (MOST_MIB, 30)}
# Bytes of a value, and items that fill 1 GiB.
FILLS = ((1000, 1_000_000), (100, 7_000_000))
# Threads of the server that nobody waits for, and that take the processor for long.
BACKGROUND = ("pages",)
WARMUP_S, ASKED_EVERY_S = 0.5, 1


def has_followed(server):
    """Returns whether the server has followed its limit. `micanite ctl` would take time from the others."""
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(str(server.directory / "micanite" / f"{server.port}.ctl"))
        control.sendall(b"memory\n")
        answer = control.makefile().read()
    assert answer.startswith("OK\n"), answer
    return "followed to" not in answer


def place(pid, cpu):
    """Pins the threads of a process, those that serve or send with a real-time priority where that is
    permitted: the server's other threads must not take such a slice from its worker."""
    for thread in map(int, os.listdir(f"/proc/{pid}/task")):
        os.sched_setaffinity(thread, {cpu})
        if Path(f"/proc/{pid}/task/{thread}/comm").read_text().strip() in BACKGROUND:
            continue
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(1))


def run(server, words, limit_mib, seconds):
    """The figures of a run, during which the limit becomes this one."""
    running = start_load(*words, "--warmup", f"{WARMUP_S}s", "--duration", f"{seconds}s")
    time.sleep(WARMUP_S)
    place(running.pid, LAST)
    time.sleep(WARMUP_S)
    began = time.monotonic()
    if limit_mib is not None:
        with server.connect() as connection:
            assert connection.ask(b"cache_memlimit %d\r\n" % limit_mib) == b"OK"
        while not has_followed(server):
            time.sleep(ASKED_EVERY_S)
    followed_s = time.monotonic() - began
    assert followed_s < seconds - WARMUP_S, "the run is too short"
    out, err = running.communicate(timeout=120)
    assert running.returncode == 0, err
    report = json.loads(out)
    assert report["wrong_values"] == 0 and report["answered"] == report["sent"] > 0
    delays = {quantile: report["latency_us"][quantile] for quantile in ("p50", "p99", "p999", "max")}
    return delays | {"followed_s": followed_s, "resident_mib": resident_bytes(server.pid) / MIB}


def runs(options, value_bytes, items):
    """The runs of one server, by the limit that they change to."""
    server = Server("-t", 1, "-m", MOST_MIB, "--memory-max", MOST_MIB, *options)
    try:
        place(server.pid, FIRST)
        data = [f"memcached://127.0.0.1:{server.port}", "--dataset", f"16/{value_bytes}", "--items", items]
        words = [*data, "--rate", 2000, "--connections", 4, "--get", 100, "--cpu", LAST]
        words += ["--quiet", "--json", "-"]
        found = {title: [] for title in LIMITS}
        for _ in range(RUNS):
            # The server is full again.
            load(*data, "--fill", "--pipeline", 64, "--warmup", "0s", "--duration", "100ms")
            for title, change in LIMITS.items():
                found[title].append(run(server, words, *change))
        return found
    finally:
        server.end()


def summary(of_one):
    """One row out of the runs of a case."""
    of = lambda name: [run[name] for run in of_one]  # noqa: E731
    names = ("p50", "p99", "p999", "followed_s", "resident_mib")
    middle = {name: statistics.median(of(name)) for name in names}
    return middle | {"max": min(of("max")), "max_of_all": max(of("max"))}


def main():
    """Runs all cases."""
    os.environ.setdefault("MICANITE_BIN", str(PROJECT / "target/release/micanite"))
    heads = ["p50", "p99", "p99.9", "longest of the quietest run", "longest of all runs"]
    heads += ["followed after", "resident"]
    print(f"| case | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|", sep="\n")
    rows = {}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        kinds = {
            "cache": [],
            "store": ["--semantics", "store"],
            "cache, image": ["--image", Path(place) / "image"]
        }
        wanted = sys.argv[1:] or list(kinds)
        if unknown := set(wanted) - set(kinds):
            sys.exit(f"unknown kind {min(unknown)!r}: one of {'; '.join(kinds)}")
        for kind, options in ((kind, kinds[kind]) for kind in wanted):
            for value_bytes, items in FILLS:
                count = items // 6 if kind == "store" else items
                for title, of_one in runs(options, value_bytes, count).items():
                    name = f"{kind}, {value_bytes}-byte values, {title}"
                    rows[name] = row = summary(of_one)
                    keys = ("p50", "p99", "p999", "max", "max_of_all")
                    delays = [f"{row[key] / 1000:.2f} ms" for key in keys]
                    others = [f"{row['followed_s']:.1f} s", f"{row['resident_mib']:.0f} MiB"]
                    print(f"| {name} | {' | '.join(delays + others)} |", flush=True)
    where = Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target")) / "bench/memory_limit.json"
    where.parent.mkdir(parents=True, exist_ok=True)
    record = {"rate": 2000, "connections": 4, "runs": RUNS, "cases": rows}
    where.write_text(json.dumps(record, indent=2) + "\n")
    print(f"written: {where}")


if __name__ == "__main__":
    main()
