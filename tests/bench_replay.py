"""`make bench-replay`: what a live server of ours misses, beside Debian's memcached with the same `-m`. A table, and the same as JSON in
`target/bench/replay.json`.

Ten million requests of Twitter's cluster 52 (scripts/fetch-traces) are replayed look-aside by `micanite trace replay`, as fast as possible: keys of 11
characters, key and value together as long as the trace says. Servers take turns at each `-m`. The resident memory is that of the
whole process, at its end, and of the same process before anything was stored."""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
from pathlib import Path

from harness.peer import running
from harness.server import PROJECT, Server, command, environment

QUICK = os.environ.get("QUICK") == "1"
SIZES_MIB = (24, 64) if QUICK else (24, 32, 48, 64)
REQUESTS = 2_000_000 if QUICK else 10_000_000
# Of memcached's misses, those that there should be fewer of at least.
AIM = 0.05


def resident_bytes(process):
    """What of the process is in memory."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no VmRSS")


@contextlib.contextmanager
def ours(*options):
    """A server of ours: its address and process."""
    server = Server(*options)
    try:
        yield f"127.0.0.1:{server.port}", server.process.pid
    finally:
        server.end()


@contextlib.contextmanager
def memcached(*options):
    """Debian's."""
    path = subprocess.run([PROJECT / "scripts/peer-memcached"], check=True, capture_output=True, text=True).stdout.strip()
    with running(path, *options) as (host, port):
        owners = subprocess.run(["ss", "-Hltnp", f"sport = :{port}"], check=True, capture_output=True, text=True).stdout
        yield f"{host}:{port}", int(owners.split("pid=")[1].split(",")[0])


SERVERS = {
    "memcached": (memcached, ()),
    "micanite": (ours, ()),
    "micanite -t 1": (ours, ("-t", "1")),
}


def measured(trace, requests, start, *options):
    """One server from its start to its end: what the replay reports, and the memory."""
    with start(*options) as (address, process):
        empty_bytes = resident_bytes(process)
        words = ("--speed", "max", "--requests", requests, "--connections", 4, "--pipeline", 32, "--quiet", "--json", "-")
        ran = subprocess.run([command()[0], "trace", "replay", trace, f"memcached://{address}", *map(str, words)], capture_output=True, text=True, env=environment())
        assert ran.returncode == 0, ran.stderr
        report = json.loads(ran.stdout)
        return {
            "miss_ratio": report["miss_ratio"],
            "byte_miss_ratio": report["byte_miss_ratio"],
            "requests_per_second": report["requests_per_second"],
            "not_stored": report["not_stored_after_misses"],
            "refused": report["refused"],
            "resident_bytes": resident_bytes(process),
            "resident_bytes_empty": empty_bytes,
        }


def medians(rounds):
    """Of every figure, over the rounds."""
    return {name: statistics.median(row[name] for row in rounds) for name in rounds[0]}


def main():
    """All sizes, servers in turns."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", help="in MiB, comma-separated", default=",".join(map(str, SIZES_MIB)))
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--trace")
    parser.add_argument("--server", action="append", metavar="OPTIONS", help="further options of a server of ours, in turn with the others")
    options = parser.parse_args()
    servers = SERVERS | {f"micanite {words}": (ours, tuple(words.split())) for words in options.server or ()}
    trace = options.trace or subprocess.run([PROJECT / "scripts/fetch-traces"], check=True, capture_output=True, text=True).stdout.split()[-1]
    table = []
    print(f"{'-m':>4}  {'server':<28}{'misses':>9}{'of bytes':>10}{'beside':>9}{'requests/s':>12}{'resident':>11}{'empty':>10}")
    for mib in map(int, options.sizes.split(",")):
        rounds = {}
        for _ in range(options.rounds):
            for name, (start, words) in servers.items():
                rounds.setdefault(name, []).append(measured(trace, options.requests, start, "-m", str(mib), *words))
        theirs = medians(rounds["memcached"])["miss_ratio"]
        for name, rows in rounds.items():
            row = {"mib": mib, "server": name, "requests": options.requests, **medians(rows), "rounds": rows}
            row["relative"] = row["miss_ratio"] / theirs - 1
            table.append(row)
            print(
                f"{mib:>4}  {name:<28}{row['miss_ratio']:>9.4f}{row['byte_miss_ratio']:>10.4f}{row['relative']:>+9.1%}{row['requests_per_second']:>12,.0f}"
                f"{row['resident_bytes'] / 2**20:>7.1f} MiB{row['resident_bytes_empty'] / 2**20:>6.1f} MiB",
                flush=True,
            )
    where = Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target")) / "bench/replay.json"
    where.parent.mkdir(parents=True, exist_ok=True)
    where.write_text(json.dumps(table, indent=2) + "\n")
    print(f"written: {where}")
    short = [row for row in table if row["server"] == "micanite" and row["relative"] > -AIM]
    for row in short:
        print(f"at -m {row['mib']} ours misses {row['relative']:+.1%} beside memcached: the aim is {-AIM:.0%}")


if __name__ == "__main__":
    main()
