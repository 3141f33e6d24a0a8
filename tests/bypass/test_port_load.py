"""Both ends around the kernel: `micanite load --port` against `serve --bypass`, over AF_XDP on veth and over
DPDK's memif."""

import json
import os
import signal
import subprocess
import uuid

import pytest

from harness.native.server import Difference, NativeServer
from harness.network.links import BASE, Link
from harness.network.ports import DPDK, XDP, PortServer, dpdk_binary, why_not
from harness.poll import until
from harness.server import command, environment
from harness.tools.load import ENDLESS, is_right

SHORT = ("--warmup", "0s", "--duration", "500ms", "--items", 5000, "--fill", "--quiet", "--json", "-")
LONG = ("--warmup", "0s", *ENDLESS, "--items", 5000, "--fill", "--quiet", "--json", "-")
SERVER_IP, LOAD_IP = "10.93.0.1", "10.93.0.2"


def start(binary, *words):
    """Starts the generator."""
    return subprocess.Popen(
        [binary, "load", *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def report(process, deadline_s=120):
    """Returns the report of a load, whose values were right."""
    try:
        said, wrong = process.communicate(timeout=deadline_s)
    finally:
        process.kill()
    assert process.returncode == 0, wrong
    found = json.loads(said)
    assert is_right(found), found
    return found


@pytest.fixture
def link():
    """A link of the test's own."""
    with Link() as link:
        yield link


@pytest.mark.parametrize("dataset", ["tiny", "large", "20/1300"])
def test_both_ends_over_af_xdp(link, dataset):
    """Values are compared; every reply leaves in its request's frame."""
    with PortServer(XDP, link, "-m", 64) as server:
        counted = Difference(server, "requests", "replies_copied", "replies_no_frame")
        with link.clients.inside():
            words = ("--port", f"xdp:{link.far}", f"native://{link.server.address}:{BASE}")
            running = start(command()[0], *words, *SHORT, "--dataset", dataset)
        report(running)
        assert counted("requests") > 5000
        assert counted("replies_copied") == counted("replies_no_frame") == 0


def test_the_generators_kernel_reaches_the_server_too(link):
    """The other end stays with the kernel; and the other way round."""
    words = (f"native://{link.server.address}:{BASE}", *SHORT)
    with PortServer(XDP, link, "-m", 64), link.clients.inside():
        report(start(command()[0], *words))
    with link.server.inside():
        server = NativeServer(
            "-m", 64, "-t", 1, "-p", 11200, "--native", BASE, "-l", f"127.0.0.1,{link.server.address}"
        )
    try:
        with link.clients.inside():
            report(start(command()[0], "--port", f"xdp:{link.far}", *words))
    finally:
        with link.server.inside():
            server.end()


def test_both_ends_over_ipv6(link):
    with PortServer(XDP, link, "-m", 64), link.clients.inside():
        report(
            start(
                command()[0], "--port", f"xdp:{link.far}", f"native://[{link.server.address6}]:{BASE}", *SHORT
            )
        )


def test_a_generator_finds_no_interface(link):
    with link.clients.inside():
        ended = start(command()[0], "--port", "xdp:nosuch0", f"native://{link.server.address}:{BASE}", *SHORT)
    _, wrong = ended.communicate(timeout=60)
    assert ended.returncode > 0 and "nosuch0" in wrong and "panicked" not in wrong


def test_a_server_over_dpdks_own_af_xdp():
    """The driver net_af_xdp takes every frame of its queue; the suites of the native protocol run over
    net_af_packet."""
    if why := why_not(DPDK):
        pytest.skip(why)
    with (
        Link(addressed=False, whole_checksums=True) as link,
        PortServer(DPDK, link, "-m", 64, driver="net_af_xdp0") as server,
        link.clients.inside(),
    ):
        counted = Difference(server, "requests", "replies_copied")
        report(start(command()[0], f"native://{link.server.address}:{BASE}", *SHORT))
        assert counted("requests") > 5000
        assert counted("replies_copied") == 0


class MemifServer(NativeServer):
    """A server at one end of a memif, whose other end is nobody's yet."""

    def __init__(self, socket, *options, role="server"):
        device = f"dpdk:net_memif0,role={role},socket={socket}"
        addresses = ["--bypass", device, "--bypass-ip", f"{SERVER_IP}/24", "--native", BASE]
        super().__init__(*addresses, "-t", 1, "-m", 64, *options)

    def words(self):
        return [dpdk_binary(), "serve"]


def memif_load(socket, *words):
    """The generator at the other end."""
    device = f"dpdk:net_memif0,role=client,socket={socket}"
    return start(
        dpdk_binary(), "--port", device, "--port-ip", f"{LOAD_IP}/24", f"native://{SERVER_IP}:{BASE}", *words
    )


@pytest.fixture
def memif():
    """The name of an abstract socket."""
    if why := why_not(DPDK):
        pytest.skip(why)
    return f"/micanite-{uuid.uuid4().hex}"


@pytest.mark.parametrize("dataset", ["tiny", "large", "20/1300"])
def test_both_ends_over_memif(memif, dataset):
    with MemifServer(memif) as server:
        counted = Difference(server, "requests", "replies_copied", "replies_no_frame")
        report(memif_load(memif, *SHORT, "--dataset", dataset))
        assert counted("requests") > 5000
        assert counted("replies_copied") == counted("replies_no_frame") == 0


@pytest.mark.full
def test_a_memif_peer_leaves_and_returns(memif):
    """The peer ends by itself, or a signal ends it in the middle of its work; values are compared each time.
    """
    with MemifServer(memif) as server:
        for ending in (None, signal.SIGKILL, signal.SIGTERM):
            report(memif_load(memif, *SHORT))
            if ending is None:
                continue
            before = server.count("requests")
            running = memif_load(memif, *LONG)
            try:
                until(lambda before=before: server.count("requests") > before + 10_000, "requests")
                os.kill(running.pid, ending)
                running.communicate(timeout=60)
            finally:
                running.kill()
            assert server.alive()
        report(memif_load(memif, *SHORT))
        with server.connect() as connection:
            connection.set(b"key", b"v")
            assert connection.get(b"key") == b"v"


def test_a_memif_server_leaves_and_returns(memif):
    """The generator goes on with the next one."""
    with MemifServer(memif) as server:
        running = memif_load(memif, *LONG)
        try:
            until(lambda: server.count("requests") > 10_000, "requests")
            os.kill(server.pid, signal.SIGKILL)
            server.wait_for_end()
            with MemifServer(memif) as second:
                until(
                    lambda: second.count("requests") > 5000 or running.poll() is not None,
                    "requests to the second one",
                )
                assert running.poll() is None, running.communicate()
                assert second.alive()
        finally:
            running.kill()
            running.communicate()
