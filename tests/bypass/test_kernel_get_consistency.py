"""Every reply beside writers is a value that its key had at that time, whoever gives it: `micanite-test-tools
consistency`."""

import json
import os
import subprocess

import pytest

from harness.failures import nothing_wrong
from harness.network.kernel_get import AnsweringLink, KernelServer, Moved
from harness.network.ports import TCP_PORT
from harness.tools.programs import tools

# MICANITE_CONSISTENCY_REPLIES: as many in each case (make soak).
REPLIES = int(os.environ.get("MICANITE_CONSISTENCY_REPLIES", "125000"))
WRITES = 500
DEADLINE_S = 300 + REPLIES // 2000

CASES = {
    "cache": (("-m", 256, "-t", 2), "native", ()),
    "generic": (("-m", 256, "-t", 2, "--access", "crew"), "generic", ()),
    "erew": (("-m", 256, "-t", 2, "--access", "erew"), "native", ()),
    "crcw": (("-m", 256, "-t", 2, "--access", "crcw", "--eviction", "fifo"), "native", ()),
    "store": (("-m", 256, "-t", 2, "--semantics", "store"), "native", ()),
    "store-crcw": (("-m", 256, "-t", 2, "--semantics", "store", "--access", "crcw"), "native", ()),
    "evicts-fifo": (("-m", 8, "-t", 1, "--eviction", "fifo"), "native", ("--evicts",)),
    "evicts-lru": (("-m", 8, "-t", 1, "--eviction", "lru"), "native", ("--evicts",)),
    "evicts-clock": (("-m", 8, "-t", 1, "--eviction", "clock"), "native", ("--evicts",)),
    "evicts-s3-fifo": (("-m", 8, "-t", 2, "--eviction", "s3-fifo"), "native", ("--evicts",)),
}  # fmt: skip
# One of each kind.
IN_GATE = ("generic", "erew", "crcw", "store", "evicts-s3-fifo")


@pytest.fixture(scope="module")
def link():
    with AnsweringLink() as link:
        yield link


def check(server, *options):
    """Runs the checker on the clients' host: its report, when nothing was wrong."""
    address = server.link.server.address
    words = [
        tools(), "consistency", "--tcp", f"{address}:{TCP_PORT}", "--udp", f"{address}:{server.udp_port}"
    ]
    with server.link.clients.inside():
        ended = subprocess.run(
            [*words, "--replies", str(REPLIES), "--writes", str(WRITES), *map(str, options)],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )  # fmt: skip
    report = json.loads(ended.stdout) if ended.stdout.strip() else {}
    nothing_wrong(report.get("wrong"))
    assert ended.returncode == 0, f"{ended.stderr}{ended.stdout}"
    return report


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in IN_GATE else pytest.mark.full) for name in CASES]
)
def test_every_reply_is_a_value_of_its_time(link, name):
    options, mode, words = CASES[name]
    with KernelServer(link, *options, mode=mode) as server:
        moved = Moved(server)
        report = check(server, *words)
        counted = moved()
        print(report, counted)  # shown where it fails
        assert report["replies"] >= REPLIES
        assert counted["answered"] > report["replies"] / 2, "most of them were the kernel's"
        assert report["hits"] > REPLIES / 20 and report["writes"] >= WRITES and report["flushes"] >= 1, report
        assert report["misses"]["deleted"] and report["misses"]["flushed"], report
        assert server.alive()
