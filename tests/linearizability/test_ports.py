"""Clients of memcached's and of the native protocol write and read the same few keys at once. Each operation
takes effect at one moment between its call and its return: `micanite-test-tools linearizability`."""

import os
import tempfile

import pytest

from harness.native.server import NativeServer
from harness.network.claims import free_port, free_ports
from harness.tools.linearizability import Clients, assert_met, check

# MICANITE_LINEARIZABILITY_SECONDS: of each case (make soak).
SECONDS = float(os.environ.get("MICANITE_LINEARIZABILITY_SECONDS", "1"))
SEED = int(os.environ.get("MICANITE_LINEARIZABILITY_SEED", "1"))
# Operations of each client.
LEAST = 400
# Between two kills. Whatever a killed client has left open may have happened at any time since, so that each
# makes the search longer.
KILL_MS = int(100 * max(1, SECONDS / 3))
# Room for all that is written: a miss has another reason than eviction.
MEMORY = int(256 * max(1, SECONDS / 2))

CASES = {
    f"{semantics}-{access}": ("--semantics", semantics, "--access", access)
    for semantics in ("cache", "store")
    for access in ("erew", "crew", "crcw")
}


def ports(server):
    return [f"text=127.0.0.1:{server.port}", f"native=127.0.0.1:{server.native_port}"]


REPLIES = ("get value", "get missing", "set done", "delete done", "add refused", "cas done")
ENDURING = ("text get value", "text set done", "native get value", "native set done")


@pytest.mark.parametrize("case", CASES)
def test_every_history_is_linearizable(case):
    """Short values, which native datagrams carry."""
    with NativeServer("-t", 2, "-m", MEMORY, *CASES[case]) as server:
        options = {"seconds": SECONDS, "seed": SEED, "least": LEAST}
        report = check(*ports(server), replies=REPLIES, until=["text flush_all done"], **options)
        assert report["unknown"] == 0, report


def test_a_short_run_meets_every_reply():
    """Where clients execute few operations in the time, rare replies did not come."""
    with NativeServer("-t", 2, "-m", 64) as server:
        check(*ports(server), seconds=0.01, seed=SEED, gets=95, replies=REPLIES)


@pytest.mark.parametrize("case", ["cache-crcw", "store-crcw", "store-erew"])
def test_long_values(case):
    """Values of up to 40 KiB are copied outside of locks; the native protocol says that they are there."""
    with NativeServer("-t", 2, "-m", MEMORY, *CASES[case]) as server:
        options = {"seconds": SECONDS, "seed": SEED, "least": LEAST}
        there = "native get something"
        check(*ports(server), value_bytes=40_000, replies=REPLIES, until=[there], **options)


def test_eviction_never_brings_an_old_value_back():
    """A cache that is full of other items: a miss needs no reason, an old value has none."""
    with NativeServer("-t", 2, "-m", 16, "--eviction", "fifo", "--access", "crcw") as server:
        options = {"seconds": SECONDS, "seed": SEED, "least": LEAST, "keys": 1024, "evicts": True}
        long = {"flushes": 0, "value_bytes": 300_000}
        check(f"text=127.0.0.1:{server.port}", clients=4, replies=REPLIES, **long, **options)
        assert int(server.stats()["evictions"]) > 0


def test_killed_clients():
    """A request of a killed client happens once, or never."""
    with NativeServer("-t", 2, "-m", MEMORY, "--access", "crcw") as server:
        options = {"seconds": SECONDS, "seed": SEED, "least": LEAST, "kill_ms": KILL_MS}
        report = check(*ports(server), killed=ports(server), clients=1, replies=REPLIES, **options)
        assert report["clients_killed"] > 2, report


@pytest.fixture
def image():
    """A folder for an image, in memory."""
    with tempfile.TemporaryDirectory(prefix="micanite-test-", dir="/dev/shm") as folder:
        yield f"{folder}/image"


@pytest.mark.parametrize("case", ["cache-crew", "store-crcw"])
def test_restarts_in_place_lose_and_repeat_nothing(case, image):
    with NativeServer("-t", 2, "-m", 64, "--image", image, *CASES[case]) as server:
        with Clients(*ports(server), clients=1, commands=True, seconds=600, seed=SEED) as clients:
            for _ in range(4):
                clients.command("progress")
                done = server.ctl("restart")
                assert done.returncode == 0, done
            clients.command("progress")
            clients.command("end")
            report = clients.report()
        assert_met(report, ENDURING)


@pytest.mark.parametrize("case", ["cache-crew", "store-crcw"])
def test_recovery_serves_no_old_value(case, image):
    """The server is killed and recovers what the kernel kept: an item may be lost, none goes back."""
    options = ("-t", 2, "-m", 64, "--image", image, "-p", free_port(), "--native", free_ports(2)[0])
    server = NativeServer(*options, *CASES[case])
    try:
        with Clients(*ports(server), clients=1, commands=True, seconds=600, seed=SEED) as clients:
            for _ in range(4):
                clients.command("progress")
                with clients.loss():
                    server.process.kill()
                    server.end()
                    server = NativeServer(*options, *CASES[case])
            clients.command("progress")
            clients.command("end")
            report = clients.report()
        assert report["losses"] == 4, report
        assert_met(report, ENDURING)
    finally:
        server.end()

