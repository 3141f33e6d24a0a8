"""Values that are read one-sided beside writers of two ports, flushes, eviction and restarts are whole, and
not outdated: `micanite-test-tools one-sided`."""

import json
import os

import pytest

from harness.failures import WrongValue, nothing_wrong
from harness.native.endpoint import FabricServer
from harness.network.claims import free_port
from harness.poll import until
from harness.tools.programs import Tool

# MICANITE_ONE_SIDED_READS: as many in each case (make soak).
READS = int(os.environ.get("MICANITE_ONE_SIDED_READS", "1000"))
DEADLINE_S = 240 + READS // 500
# Chunks of the hot keys and of few others fit.
SMALL = ("-m", 64, "--fabric-cache", "8m")


class Readers(Tool):
    """The clients at work, until they have read enough."""

    def __init__(self, server, *options):
        provider, place = server.fabric_address.split(",")
        words = [
            "--tcp", f"127.0.0.1:{server.port}", "--fabric", f"fabric://{place}?provider={provider}",
            "--reads", READS, "--seconds", DEADLINE_S, "--flush-every", READS // 4, *options
        ]  # fmt: skip
        super().__init__("one-sided", *words)

    def report(self):
        """Returns what was counted; no value may be wrong."""
        said, wrong = self.ended(DEADLINE_S + 60)
        report = json.loads(said) if said else {"wrong": 0}
        nothing_wrong(report["wrong"])
        if self.process.returncode != 0:
            raise WrongValue(f"{wrong}{said}")
        return report


@pytest.mark.parametrize("write", ["back", pytest.param("through", marks=pytest.mark.full)])
def test_no_value_is_torn_or_outdated(provider, write):
    with FabricServer(provider, *SMALL, "--fabric-write", write, workers=2) as server:
        with Readers(server) as readers:
            report = readers.report()
        print(report)  # shown where it fails
        assert report["writes"] > 100 and report["two_sided"] > 0 and report["flushes"] > 0, report
        assert server.alive()


@pytest.mark.parametrize(
    ("write", "is_kept"),
    [
        ("through", False), ("back", True),
        pytest.param("back", False, marks=pytest.mark.full),
        pytest.param("through", True, marks=pytest.mark.full),
    ],
    ids=["through-volatile", "back-image", "back-volatile", "through-image"],
)  # fmt: skip
def test_restarts_bring_no_old_value_back(write, is_kept, tmp_path):
    """The server is killed while clients read and write; it forgets items, or recovers those of its image."""
    options = (*SMALL, "-p", free_port(), "--fabric-write", write)
    options += ("--image", tmp_path / "image") if is_kept else ()
    server = FabricServer("tcp;ofi_rxm", *options)
    try:
        restarts = 0
        with Readers(server) as readers:
            while readers.runs() and restarts < 5:
                before = gets(server)
                until(lambda: gets(server) > before + 50 or not readers.runs(), "GETs of the clients")
                server.process.kill()
                server.end()
                server = FabricServer("tcp;ofi_rxm", *options, address=server.fabric_address)
                restarts += 1
            report = readers.report()
        print(report)
        assert restarts > 0 and report["writes"] > 100, report
    finally:
        server.end()


def gets(server):
    """Returns how many GETs the server has answered."""
    return int(server.stats()["cmd_get"])
