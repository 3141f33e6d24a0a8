"""Clients that read one-sided, clients that do not, memcached's and native ones write and read the same few
keys at once. Each operation takes effect at one moment: `micanite-test-tools linearizability`.

libfabric 1.17 can crash when clients leave on a busy machine (it posts a receive to a closed connection,
docs/fabric.md), so these tests are no part of the gate."""

import os
import tempfile

import pytest

from harness.native.endpoint import PROVIDERS, FabricServer, free_places
from harness.network.claims import free_port, free_ports
from harness.tools.linearizability import Clients, assert_met, check

# MICANITE_LINEARIZABILITY_SECONDS: of each case (make soak).
SECONDS = float(os.environ.get("MICANITE_LINEARIZABILITY_SECONDS", "1.5"))
SEED = int(os.environ.get("MICANITE_LINEARIZABILITY_SEED", "1"))
# Operations of each client.
LEAST = 400
# Room for all that is written: a miss has another reason than eviction.
MEMORY = int(128 * max(1, SECONDS))
LARGE = ("-m", MEMORY, "-I", "64k", "--fabric-cache", "128m", "--native", -1)
# The cache area has a few pages: values of other lengths push each other out of it.
SMALL = ("-m", MEMORY, "-I", "64k", "--fabric-cache", "9m", "--native", -1)
NET, TCP, SHM = PROVIDERS
pytestmark = pytest.mark.full

CASES = [
    (NET, "back", "cache", "erew"),
    (NET, "back", "cache", "crew"),
    (NET, "back", "cache", "crcw"),
    (TCP, "back", "cache", "crcw"),
    (SHM, "back", "cache", "crcw"),
    (NET, "through", "cache", "crcw"),
    (TCP, "through", "cache", "erew"),
    (SHM, "through", "cache", "crew"),
    (NET, "back", "store", "crcw"),
    (TCP, "back", "store", "crew"),
    (SHM, "back", "store", "erew"),
    (NET, "through", "store", "erew"),
    (SHM, "through", "store", "crcw"),
]


@pytest.fixture
def image():
    """A folder for an image, in memory."""
    with tempfile.TemporaryDirectory(prefix="micanite-test-", dir="/dev/shm") as folder:
        yield f"{folder}/image"


def url(server):
    provider, _, where = server.fabric_address.partition(",")
    return f"fabric://{where}?provider={provider}"


def ports(server):
    native_port = int(server.stats("native")["native_port"])
    return [
        f"text=127.0.0.1:{server.port}",
        f"native=127.0.0.1:{native_port}",
        f"one-sided={url(server)}",
        f"two-sided={url(server)}",
    ]


REPLIES = ("get value", "get missing", "set done", "delete done")
ENDURING = [
    f"{kind} {reply}"
    for kind in ("text", "native", "one-sided", "two-sided")
    for reply in ("get value", "set done")
]


@pytest.mark.parametrize(
    ("provider", "write", "semantics", "access"),
    [pytest.param(*case, id="-".join(case).replace(";ofi_rxm", "")) for case in CASES],
)
def test_every_history_is_linearizable(provider, write, semantics, access):
    options = ("--fabric-write", write, "--semantics", semantics, "--access", access)
    with FabricServer(provider, *LARGE, *options, workers=2) as server:
        words = {"seconds": SECONDS, "seed": SEED, "clients": 1, "least": LEAST}
        report = check(*ports(server), gets=90, keys=8, replies=REPLIES, **words)
        assert report["one_sided"]["one-sided"] > 0, report
        assert report["one_sided"]["two-sided"] == 0, report


@pytest.mark.parametrize("write", ["back", "through"])
@pytest.mark.parametrize("semantics", ["cache", "store"])
def test_eviction_from_the_cache_area(semantics, write):
    """Long and short values on more keys: chunks leave the cache area all the time, dirty ones too. A cache
    evicts items as well; a store loses none."""
    options = ("--fabric-write", write, "--semantics", semantics, "--access", "crcw")
    with FabricServer(NET, *SMALL, *options, workers=2) as server:
        words = {"seconds": SECONDS, "seed": SEED, "clients": 1, "least": LEAST, "flushes": 5}
        evicts = {"evicts": True} if semantics == "cache" else {}
        options = {"keys": 256, "value_bytes": 60_000, "gets": 40}
        check(*ports(server), replies=REPLIES, **options, **evicts, **words)
        assert server.count("chunks_evicted") + server.count("pages_emptied") > 0


@pytest.mark.parametrize(
    ("provider", "write"), [(NET, "back"), (TCP, "through")], ids=("net", "tcp")
)
def test_killed_clients(provider, write):
    """A client stands still for more than a lease, goes on, and is killed: it writes once or never. Over shm
    it may hold a lock of the provider, for which the server then waits for ever."""
    with FabricServer(provider, *LARGE, "--fabric-write", write, workers=2) as server:
        words = {"seconds": SECONDS, "seed": SEED, "clients": 1, "least": LEAST}
        killed = [f"one-sided={url(server)}"]
        killing = {"killed": killed, "kill_ms": 200, "stop_ms": 150}
        report = check(*ports(server), gets=80, replies=REPLIES, **killing, **words)
        assert report["clients_killed"] > 1, report


@pytest.mark.parametrize("write", ["back", "through"])
def test_restarts_in_place_lose_and_repeat_nothing(write, image):
    options = (*SMALL, "--image", image, "--fabric-write", write)
    with FabricServer(NET, *options, workers=2) as server:
        with Clients(*ports(server), clients=1, commands=True, seconds=600, seed=SEED) as clients:
            for _ in range(2):
                clients.command("progress")
                done = server.ctl("restart")
                assert done.returncode == 0, done
            clients.command("progress")
            clients.command("end")
            report = clients.report()
        assert_met(report, ENDURING)


@pytest.mark.parametrize("semantics", ["cache", "store"])
@pytest.mark.parametrize("write", ["back", "through"])
def test_recovery_serves_no_old_value(semantics, write, image):
    """The server is killed with newest values in the cache area alone: items may be lost, none goes back."""
    own = ("--image", image, "-p", free_port(), "--native", free_ports(2)[0], "--semantics", semantics)
    options = (*SMALL[:-2], *own, "--fabric-write", write)
    again = {"workers": 2, "address": free_places(NET, 2)}
    server = FabricServer(NET, *options, **again)
    try:
        with Clients(*ports(server), clients=1, commands=True, seconds=600, seed=SEED) as clients:
            for _ in range(2):
                clients.command("progress")
                with clients.loss():
                    server.process.kill()
                    server.end()
                    server = FabricServer(NET, *options, **again)
            clients.command("progress")
            clients.command("end")
            report = clients.report()
        assert report["losses"] == 2, report
        assert_met(report, ENDURING)
    finally:
        server.end()
