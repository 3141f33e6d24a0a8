"""`make bench-attacks`: what others feel of each attack. A table, the longest delay and its cause, and the same as JSON in
`target/bench/attacks.json`. `--document docs/limits.md` (`make bench-attacks ARGS=...`) also draws the table there anew, between its marks.

One worker on the first CPU. On the last one: `micanite load`, 500 requests a second by 4 connections, in an open loop, latency from
the schedule; and the attacker, at a lower priority. So what is measured is the delay in the server. On a machine that does something else meanwhile,
run it under `nice -n -20`."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import attacks
from harness.load import load
from harness.memory import resident_bytes
from harness.server import PROJECT, Server

MIB = 1 << 20
RATE = 500
SECONDS = "2s" if os.environ.get("QUICK") == "1" else "8s"
CPU = max(os.sched_getaffinity(0))


def measured(server, address, name):
    """The load's report while the attack goes on; none for no attack."""
    words = [address, "--rate", RATE, "--connections", 4, "--cpu", CPU, "--warmup", "500ms", "--duration", SECONDS, "--items", 1000, "--fill"]
    if name is None:
        return load(*words)
    where = ["127.0.0.1", str(server.ports()["TCP"]), str(server.ports().get("UDP", 0))]
    attacker = subprocess.Popen(
        ["nice", "-n", "10", "taskset", "-c", str(CPU), sys.executable, attacks.__file__, name, *where], stdout=subprocess.PIPE
    )
    try:
        assert attacker.stdout.readline() == b"going\n", name
        return load(*words)
    finally:
        attacker.kill()
        attacker.wait()


BEGIN, END = "<!-- attacks: drawn by make bench-attacks -->\n", "<!-- /attacks -->\n"


def drawn(rows):
    """The table of the document."""
    lines = ["| attack | p50 | p99 | longest |", "|---|---|---|---|"]
    for title, row in rows.items():
        lines.append(f"| {title} | " + " | ".join(f"{row[quantile] / 1000:.2f} ms" for quantile in ("p50", "p99", "max")) + " |")
    return "\n".join([*lines, "", worst(rows), ""])


def worst(rows):
    """The longest delay of all attacks, and what it is without one."""
    title = max((title for title in rows if title != "none"), key=lambda title: rows[title]["max"])
    return f"The longest delay is {rows[title]['max'] / 1000:.2f} ms, under the attack {title}; without an attack it is {rows['none']['max'] / 1000:.2f} ms."


def main():
    """Runs them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--document", type=Path, help="draw the table in this file anew")
    document = parser.parse_args().document
    rows = {}
    print(f"{'attack':32}{'p50 us':>10}{'p99 us':>10}{'max us':>10}{'answered':>10}{'MiB':>8}")
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        # Attackers may take all connections but those that are there already, so the load has places of its own.
        plain = ["-t", "1", "-m", "64", "-c", "400"]
        cases = [("none", None, [*plain, "-U", "-1"]), *((name, name, [*plain, "-U", "-1"]) for name in attacks.PLAIN[1:])]
        in_tls = [*plain, "-p", "-1", "-s", place / "socket", *attacks.certificate(place)]
        cases += [(name, name, in_tls) for name in attacks.TLS]
        for title, name, options in cases:
            server = Server(*options)
            try:
                address = f"unix://{server.unix_socket}" if server.unix_socket else f"memcached://127.0.0.1:{server.port}"
                report = measured(server, address, name)
                rows[title] = {
                    **{quantile: report["latency_us"][quantile] for quantile in ("p50", "p99", "max")},
                    "answered_ratio": report["answered"] / report["sent"],
                    "resident_mib": resident_bytes(server.pid) / MIB,
                }
            finally:
                server.end()
            row = rows[title]
            print(f"{title:32}{row['p50']:10.0f}{row['p99']:10.0f}{row['max']:10.0f}{row['answered_ratio']:10.1%}{row['resident_mib']:8.1f}", flush=True)
    print(worst(rows))
    if document:
        before, rest = document.read_text().split(BEGIN)
        document.write_text(before + BEGIN + "\n" + drawn(rows) + "\n" + END + rest.split(END)[1])
    where = Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target")) / "bench/attacks.json"
    where.parent.mkdir(parents=True, exist_ok=True)
    said = {"rate": RATE, "connections": 4, "seconds": SECONDS, "cpus": os.cpu_count(), "worst": worst(rows), "attacks": rows}
    where.write_text(json.dumps(said, indent=2) + "\n")
    print(f"written: {where}")


if __name__ == "__main__":
    main()
