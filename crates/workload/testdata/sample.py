#!/usr/bin/env python3
"""Writes the sample of a trace that tests read, and libCacheSim's miss ratios on it, into this folder.

    sample.py TRACE        # scripts/fetch-traces fetches it: target/traces/twitter_cluster52.csv

Needs `zstd` and libcachesim 0.3.5 (from PyPI). libCacheSim reads the sample as oracleGeneral, because
Belady's MIN needs the next access of each request within the sample.
"""

import collections
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import libcachesim

FOLDER = Path(__file__).parent
# As many as fit into the 256 KiB that a file of the tree may have.
REQUESTS = 130_000
POLICIES = {
    "fifo": libcachesim.FIFO, "lru": libcachesim.LRU, "sieve": libcachesim.Sieve,
    "s3fifo": libcachesim.S3FIFO, "twoq": libcachesim.TwoQ, "arc": libcachesim.ARC,
    "wtinylfu": libcachesim.WTinyLFU, "belady": libcachesim.Belady,
}
PERCENTS = (0.1, 1, 5, 10, 25, 50)
HEADING = (
    f"# Object miss ratios of the first {REQUESTS:,} requests of Twitter's cluster 52, keys and values alone "
    "counted, cold misses counted, as libCacheSim 0.3.5 computes them (sample.py).\n"
    "policy,bytes,object_miss_ratio\n"
)


def requests(trace):
    """Object and size of each request; the commonest object is 0, since short numbers compress best."""
    with open(trace) as lines:
        rows = [line.split(",")[1:3] for line in lines if not line.startswith("#")][:REQUESTS]
    commonest = collections.Counter(name for name, _ in rows).most_common()
    ranks = {name: rank for rank, (name, _) in enumerate(commonest)}
    return [(ranks[name], int(size)) for name, size in rows]


def oracle(sample):
    """The sample in libCacheSim's own format: time, object, size, next access."""
    following, records = {}, []
    for number, (item, size) in reversed(list(enumerate(sample))):
        records.append(struct.pack("<IQIq", 0, item, size, following.get(item, -1)))
        following[item] = number
    return b"".join(reversed(records))


def main():
    sample = requests(sys.argv[1])
    text = "".join(f"0,{item},{size}\n" for item, size in sample)
    words = ["zstd", "--ultra", "-22", "--force", "-o", FOLDER / "twitter_cluster52_sample.csv.zst"]
    subprocess.run(words, input=text.encode(), check=True)
    footprint = sum(dict(sample).values())
    print(f"{len(sample)} requests, {len(dict(sample))} objects, {footprint} bytes")
    table = HEADING
    with tempfile.NamedTemporaryFile(suffix=".oracleGeneral") as file:
        file.write(oracle(sample))
        file.flush()
        for name, policy in POLICIES.items():
            for size in (int(footprint * percent / 100) for percent in PERCENTS):
                reader = libcachesim.TraceReader(file.name, libcachesim.TraceType.ORACLE_GENERAL_TRACE)
                ratio, _ = policy(cache_size=size, reader=reader).process_trace(reader)
                table += f"{name},{size},{ratio:.4f}\n"
    (FOLDER / "miss_ratios_twitter_sample.csv").write_text(table)


if __name__ == "__main__":
    main()
