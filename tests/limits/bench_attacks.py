"""Measures what others feel of each attack: a table, the longest delay with its cause, and the same as JSON
in `target/bench/attacks.json`. After `make build deps`:
`PYTHONPATH=tests MICANITE_BIN=$PWD/target/release/micanite .venv/bin/python tests/limits/bench_attacks.py`

One worker runs on the first CPU. On the last one run `micanite load`, 500 requests a second by 4 connections
in an open loop with latency from the schedule, and the attacker at a lower priority. So the delay is that of
the server. All attacks run in turn, several times (QUICK=1: once). The delay of an attack is in each of its
runs, and the machine's is not: the longest delay of the quietest run is that of the attack."""

import contextlib
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from harness import attacks
from harness.memory import resident_bytes
from harness.server import PROJECT, Server
from harness.tools.load import load

MIB = 1 << 20
RATE = 500
SECONDS, RUNS = ("2s", 1) if os.environ.get("QUICK") == "1" else ("4s", 3)
CPU = max(os.sched_getaffinity(0))


def measured(server, address, name):
    """The load's report while the attack goes on; none for no attack."""
    words = [address, "--rate", RATE, "--connections", 4, "--cpu", CPU, "--warmup", "500ms"]
    words += ["--duration", SECONDS, "--items", 1000, "--fill"]
    if name is None:
        return load(*words)
    command = ["nice", "-n", "39", "taskset", "-c", str(CPU), *attacks.command(name, server)]
    attacker = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert attacker.stdout.readline() == b"going\n", name
        return load(*words)
    finally:
        attacker.kill()
        attacker.wait()


COLUMNS = ("p50", "p99", "max", "max_of_all")


def drawn(rows):
    """The table of the document."""
    heads = ["attack", "p50", "p99", "longest of the quietest run", "longest of all runs"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for title, row in rows.items():
        delays = " | ".join(f"{row[quantile] / 1000:.2f} ms" for quantile in COLUMNS)
        lines.append(f"| {title} | {delays} |")
    return "\n".join([*lines, "", worst(rows), ""])


def worst(rows):
    """The longest delay of all attacks, and what it is without one."""
    title = max((title for title in rows if title != "none"), key=lambda title: rows[title]["max"])
    return (
        f"The longest delay is {rows[title]['max'] / 1000:.2f} ms, under the attack {title}; without an"
        f" attack it is {rows['none']['max'] / 1000:.2f} ms (each of the quietest of {RUNS} runs)."
    )


def attacked(options, name):
    """Returns the figures of one run: the report's quantiles, the share that was answered, and the memory."""
    server = Server(*options)
    try:
        tcp = f"memcached://127.0.0.1:{server.port}"
        address = f"unix://{server.unix_socket}" if server.unix_socket else tcp
        report = measured(server, address, name)
        return {
            **{quantile: report["latency_us"][quantile] for quantile in ("p50", "p99", "max")},
            "answered_ratio": report["answered"] / report["sent"],
            "resident_mib": resident_bytes(server.pid) / MIB,
        }
    finally:
        server.end()


def summary(runs):
    """One row out of the runs of an attack."""
    of = lambda name: [run[name] for run in runs]  # noqa: E731
    return {
        **{name: statistics.median(of(name)) for name in ("p50", "p99")},
        "max": min(of("max")),
        "max_of_all": max(of("max")),
        "answered_ratio": min(of("answered_ratio")),
        "resident_mib": max(of("resident_mib")),
    }


def cases(place):
    """Titles, attacks and options of servers; the first one is no attack."""
    plain = ["-t", "1", "-m", "64", "-c", "400"]
    in_the_clear = [*plain, "-U", "-1", "--native", "-1"]
    in_tls = [*plain, "-p", "-1", "-s", place / "socket", *attacks.certificate(place)]
    # One attack takes all connections: the load is not to wait for one.
    names = [name for name in attacks.PLAIN if name != "connections-beyond-the-limit"]
    found = [("none", None, in_the_clear), *((name, name, in_the_clear) for name in names)]
    return found + [(name, name, in_tls) for name in attacks.TLS]


# Attacks by clients that a restart could wait for.
RESTARTED = (None, "half-open", "slow-lines", "slow-writers", "slow-readers", "deep-pipelines")


def restart_ms(place, name):
    """The time of a restart in place under an attack, or without one."""
    server = Server("-t", "1", "-m", "64", "-c", "400", "--image", place / f"image-{name}")
    attacker = None
    try:
        if name is not None:
            attacker = subprocess.Popen(attacks.command(name, server), stdout=subprocess.PIPE)
            assert attacker.stdout.readline() == b"going\n", name
        began = time.monotonic()
        done = server.ctl("restart")
        assert done.returncode == 0, done.stderr
        return 1000 * (time.monotonic() - began)
    finally:
        if attacker is not None:
            attacker.kill()
            attacker.wait()
        server.end()


def restarts():
    """The times of restarts by attack, each the longest of all runs."""
    with tempfile.TemporaryDirectory() as place:
        times = {
            str(name).lower(): max(restart_ms(Path(place), name) for _ in range(RUNS)) for name in RESTARTED
        }
    for name, took_ms in times.items():
        print(f"restart, {name:22}{took_ms:10.0f} ms")
    return times


def main():
    """Runs them all."""
    with contextlib.suppress(PermissionError):
        os.nice(-20)
    runs = {}
    print(f"{'attack':32}{'p50 us':>10}{'p99 us':>10}{'max us':>10}{'answered':>10}{'MiB':>8}")
    with tempfile.TemporaryDirectory() as place:
        for _ in range(RUNS):
            for title, name, options in cases(Path(place)):
                run = attacked(options, name)
                runs.setdefault(title, []).append(run)
                print(
                    f"{title:32}{run['p50']:10.0f}{run['p99']:10.0f}{run['max']:10.0f}"
                    f"{run['answered_ratio']:10.1%}{run['resident_mib']:8.1f}",
                    flush=True,
                )
    rows = {title: summary(of_one) for title, of_one in runs.items()}
    print(drawn(rows))
    where = Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target")) / "bench/attacks.json"
    where.parent.mkdir(parents=True, exist_ok=True)
    record = {"rate": RATE, "connections": 4, "seconds": SECONDS, "runs": RUNS, "cpus": os.cpu_count()}
    record |= {"worst": worst(rows), "attacks": rows, "restarts_ms": restarts()}
    where.write_text(json.dumps(record, indent=2) + "\n")
    print(f"written: {where}")


if __name__ == "__main__":
    main()
