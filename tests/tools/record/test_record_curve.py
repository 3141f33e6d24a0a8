"""The miss-ratio curve of a server's traffic, from a sample of its keys: beside the exact one.

How good a sample is depends on how many keys it has: 20,000 of them here, as a hundredth of two million."""

import csv
import itertools
import random
import subprocess
from collections import OrderedDict

import pytest

from harness.memcached.wire import received
from harness.server import command, environment

KEYS = 200_000
REQUESTS = 1_000_000
SKEW = 0.9
# Bytes of key and value of each item, eight each.
ITEM_BYTES = 16
FRACTION = 0.1
SHARES = (0.005, 0.02, 0.1, 0.3)
POINTS_MAX = 0.02


def stream():
    """Keys in the order in which they are asked for."""
    weights = [1 / rank**SKEW for rank in range(1, KEYS + 1)]
    chosen = random.Random(5).choices(
        range(KEYS), cum_weights=list(itertools.accumulate(weights)), k=REQUESTS
    )
    return [b"%08d" % number for number in chosen]


def ask(connection, keys):
    """Reads keys that are all there."""
    connection.send(b"get " + b" ".join(keys) + b"\r\n")
    assert received(connection.socket, b"END\r\n").count(b"VALUE ") == len(keys)


def exact(keys, items):
    """The miss ratio of LRU with room for so many items."""
    cache, misses = OrderedDict(), 0
    for key in keys:
        if key in cache:
            cache.move_to_end(key)
            continue
        misses += 1
        cache[key] = True
        if len(cache) > items:
            cache.popitem(last=False)
    return misses / len(keys)


def simulated(file, sizes, directory):
    """Miss ratios of LRU by `micanite trace simulate`."""
    table = directory / "curve.csv"
    words = ["--policy", "lru", "--accounting", "payload", "--bytes", ",".join(str(size) for size in sizes)]
    ended = subprocess.run(
        [command()[0], "trace", "simulate", str(file), *words, "--csv", str(table)],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(),
    )
    assert ended.returncode == 0, ended.stderr
    with table.open() as rows:
        found = {int(row["bytes"]): float(row["object_miss_ratio"]) for row in csv.DictReader(rows)}
    return [found[size] for size in sizes]


def test_a_sample_of_the_keys_gives_the_curve_of_all(start, tmp_path):
    # The sample depends on the seed, and this is to end the same way each time.
    server = start("-t", "2", "-m", "128", "--hash-seed", "1")
    keys = stream()
    file = tmp_path / "sample.rec"
    with server.connect() as connection:
        for at in range(0, KEYS, 1000):
            sets = (b"set %08d 0 0 8 noreply\r\n%08d\r\n" % (n, n) for n in range(at, at + 1000))
            connection.send(b"".join(sets))
        assert connection.ask(b"mn\r\n") == b"MN"
        ended = server.ctl("record", file, "--fraction", FRACTION)
        assert ended.returncode == 0, ended.stderr
        for at in range(0, REQUESTS, 500):
            ask(connection, keys[at : at + 500])
        ended = server.ctl("record", "--stop")
        assert f" requests of {REQUESTS} in " in ended.stdout and "none dropped" in ended.stdout, ended
    curve = [exact(keys, int(share * KEYS)) for share in SHARES]
    sizes = [int(share * KEYS) * ITEM_BYTES for share in SHARES]
    sample = simulated(file, sizes, tmp_path)
    print(f"exact {curve}, of a sample of the keys {sample}")
    assert sample == pytest.approx(curve, abs=POINTS_MAX)
    assert file.stat().st_size < 24 * REQUESTS / 5
