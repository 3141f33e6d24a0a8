"""Measures a cache whose items change their size: one line per change, and the same as JSON in
`target/bench/shapes.json`. After `make build deps`:
`PYTHONPATH=tests .venv/bin/python tests/limits/bench_shapes.py`

A server of 64 MB is filled with values of one length. Then a client asks for keys with values of another
one, which fit the memory three times over, and stores each that is missing. The hit ratio is that of the
fifth pass: after the change, of a fresh server, and of memcached with its automover, there also after a
minute."""

import json
import sys
import time

from harness.memcached import peer
from harness.memcached.wire import Connection
from harness.server import PROJECT, Server

MEMORY_MB = 64
FIRST_BYTES = 72 << 20
SECOND_BYTES = 20 << 20
# Header, key and rounding of an item in either server.
MORE_BYTES = 64
PASSES = 5
MINUTE_S = 60
CHANGES = [
    (20_000, 100),
    (5_000, 60),
    (900_000, 100),
    (1_000, 20),
    (250_000, 8),
    (100_000, 300),
    (300, 20_000),
    (20, 2_000),
]


def fill(client, value_bytes):
    """Stores values of this length, more than fit."""
    value = b"x" * value_bytes
    for number in range(FIRST_BYTES // (value_bytes + MORE_BYTES)):
        client.send(b"set a%d 0 0 %d noreply\r\n%b\r\n" % (number, value_bytes, value))
    client.send(b"mn\r\n")
    assert client.line() == b"MN"


def look_aside(client, value_bytes):
    """A pass over all keys; returns the hit ratio."""
    value = b"y" * value_bytes
    count = SECOND_BYTES // (value_bytes + MORE_BYTES)
    step = max(1, min(100, (1 << 20) // (value_bytes + MORE_BYTES)))
    hits = 0
    for first in range(0, count, step):
        keys = [b"b%d" % number for number in range(first, min(first + step, count))]
        client.send(b"get %b\r\n" % b" ".join(keys))
        found = set()
        while (line := client.line()) != b"END":
            found.add(line.split()[1])
            assert client.exactly(value_bytes + 2) == value + b"\r\n"
        hits += len(found)
        missing = [key for key in keys if key not in found]
        stores = [b"set %b 0 0 %d noreply\r\n%b\r\n" % (key, value_bytes, value) for key in missing]
        client.send(b"".join(stores) + b"mn\r\n")
        assert client.line() == b"MN"
    return hits / count


def passes(client, value_bytes, more_s=0):
    """Hit ratios of the fifth pass, and of the last one within some seconds more."""
    ratio = [look_aside(client, value_bytes) for _ in range(PASSES)][-1]
    last, end_s = ratio, time.monotonic() + more_s
    while more_s and time.monotonic() < end_s:
        last = look_aside(client, value_bytes)
    return ratio, last


def ours(first, second):
    server = Server("-t", 1, "-m", MEMORY_MB)
    try:
        with server.connect() as client:
            if first:
                fill(client, first)
            return passes(client, second)[0]
    finally:
        server.end()


def theirs(path, first, second):
    with peer.running(path, "-t", "1", "-m", str(MEMORY_MB)) as address, Connection(address) as client:
        fill(client, first)
        return passes(client, second, MINUTE_S)


def main():
    path, why = peer.path_of_current_memcached()
    if path is None:
        sys.exit(f"no memcached: {why}")
    rows = []
    print("first life -> second | ours | fresh | memcached | after a minute")
    for first, second in CHANGES:
        row = {"first_bytes": first, "second_bytes": second}
        row["ours"], row["fresh"] = ours(first, second), ours(None, second)
        row["memcached"], row["memcached_minute"] = theirs(path, first, second)
        rows.append(row)
        ratios = " | ".join(f"{row[name]:.2f}" for name in ("ours", "fresh", "memcached", "memcached_minute"))
        print(f"{first} -> {second} B | {ratios}", flush=True)
    target = PROJECT / "target/bench/shapes.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"written: {target.relative_to(PROJECT)}")


if __name__ == "__main__":
    main()
