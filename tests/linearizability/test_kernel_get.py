"""GETs that the kernel answers, beside clients of memcached's and of the native protocol on the same keys.

Each operation takes effect at one moment between its call and its return (`micanite-test-tools
linearizability`)."""

import os

import pytest

from harness.network.kernel_get import AnsweringLink, KernelServer, Moved
from harness.network.ports import TCP_PORT
from harness.tools.linearizability import check

# MICANITE_LINEARIZABILITY_SECONDS: of each case (make soak).
SECONDS = float(os.environ.get("MICANITE_LINEARIZABILITY_SECONDS", "1"))
SEED = int(os.environ.get("MICANITE_LINEARIZABILITY_SEED", "1"))
NATIVE_PORT = 11300
# Room for all that is written: a miss has another reason than eviction.
MEMORY = int(256 * max(1, SECONDS / 2))


# Each semantics and each access once.
IN_GATE = [("cache", "crew"), ("store", "erew"), ("store", "crcw")]


@pytest.fixture(scope="module")
def link():
    with AnsweringLink() as link:
        yield link


MODES = [
    pytest.param(semantics, access, marks=() if (semantics, access) in IN_GATE else pytest.mark.full)
    for semantics in ("cache", "store")
    for access in ("erew", "crew", "crcw")
]


@pytest.mark.parametrize(("semantics", "access"), MODES)
def test_every_history_is_linearizable(link, semantics, access):
    options = ("-m", MEMORY, "-t", 2, "--semantics", semantics, "--access", access, "--native", NATIVE_PORT)
    with KernelServer(link, *options, mode="native") as server:
        moved = Moved(server)
        host = link.server.address
        ports = [f"text={host}:{TCP_PORT}", f"udp={host}:{server.udp_port}", f"native={host}:{NATIVE_PORT}"]
        with link.clients.inside():
            report = check(*ports, seconds=SECONDS, seed=SEED)
        counted = moved()
        print(report, counted)  # shown where it fails
        for reply in ("udp get value", "udp get missing", "text set done", "native set done"):
            assert report["replies"].get(reply, 0) > 0, reply
        assert counted["answered"] > 0
        assert server.alive()
