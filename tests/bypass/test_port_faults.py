"""Bad networks before ports around the kernel: loss, overflow, interfaces that go down, vanish, or have
another MTU."""

import os
import signal

import pytest

from harness import native
from harness.native import Header, Opcode, Request, Status
from harness.network.links import BASE, Link
from harness.network.ports import DPDK, XDP, PortServer, ports
from harness.poll import until
from harness.tools.programs import Increments, Relay

# The af_packet driver of DPDK 22.11 tells neither what the kernel has dropped before it nor the MTU, nor that
# its interface is gone; and a frame beyond the MTU stops its ring for good.
XDP_ALONE = pytest.mark.parametrize("port_around", ports((XDP, 1)), indirect=True, ids=str)
FLOOD = 20_000
SOME, ENDLESS = 10_000, 1_000_000_000
FLAPS = 6


def options_of(kind):
    """Returns the options of a port's link."""
    return {"addressed": False, "whole_checksums": True} if kind == DPDK else {}


@pytest.fixture
def link(port_around):
    """A link of the test's own."""
    with Link(**options_of(port_around.kind)) as link:
        yield link


@pytest.fixture
def server(port_around, link):
    with PortServer(port_around.kind, link, "-m", 64) as server:
        yield server


def increments(link, count, clients=8):
    """Increments by the client library, from the clients' host."""
    with link.clients.inside():
        return Increments(f"{link.server.address}:{BASE}", count=count, clients=clients)


def test_increments_are_exact_though_a_third_gets_lost(link, server):
    link.lose(0.3)
    with increments(link, count=20_000, clients=32) as running:
        report = running.report(200)
    assert report["done"] == 20_000 and report["datagrams_resent"] > 0
    assert server.count("answered_again") > 0


def test_increments_are_exact_in_a_network_that_doubles_and_reorders(link, server):
    """The relay has the clients' host between the clients and the port."""
    bad = {"loss": 0.2, "duplicate": 0.3, "reorder": 0.2, "reorder_ms": 3, "seed": 7}
    with link.clients.inside(), Relay(BASE, 1, host=link.server.address, **bad) as relay:
        with Increments(f"127.0.0.1:{relay.port}", count=20_000, clients=32) as running:
            assert running.report(200)["done"] == 20_000
        assert server.count("answered_again") > 0
    assert relay.counters["duplicated"] > 0 and relay.counters["reordered"] > 0


def test_increments_while_the_link_goes_down_and_up(link, server):
    """Each end in turn; whatever was on the wire is lost."""
    with increments(link, count=ENDLESS) as running:
        for flap in range(FLAPS):
            before = server.count("requests")
            until(
                lambda before=before: server.count("requests") > before + SOME or not running.runs(),
                "requests",
            )
            change = link.far_state if flap % 2 else link.near_state
            change("down")
            change("up")
        assert running.runs(), running.process.communicate()
        before = server.count("requests")
        until(lambda: server.count("requests") > before + SOME, "requests once it is up")
        running.process.kill()
    assert server.alive()


@XDP_ALONE
def test_a_queue_that_overflows_makes_replies_say_slow_down(link, server):
    """The server stands still while more arrives than its queue holds; what it says ends when nothing is lost
    any more."""
    with server.client() as client:
        noop = native.requests_datagram(client.header(), [Request(Opcode.NOOP)])

        def says_slow_down():
            os.kill(server.pid, signal.SIGSTOP)
            try:
                for _ in range(FLOOD):
                    client.send(noop)
            finally:
                os.kill(server.pid, signal.SIGCONT)
            answers = [Header.parse(client.receive())]
            while (answer := client.receive(0.2)) is not None:
                answers.append(Header.parse(answer))
            assert len(answers) < FLOOD
            return [answer for answer in answers if answer.slow_down]

        slow = until(says_slow_down, "a reply that says so")
        assert all(answer.pressure > 0 for answer in slow)
        assert server.count("dropped_by_kernel") > 0
        until(lambda: not client.ask(Request(Opcode.NOOP))[0].slow_down, "the end of it")
        assert client.ask(Request(Opcode.NOOP))[0].pressure == 0


@XDP_ALONE
def test_an_interface_that_vanishes_leaves_the_server_serving_tcp(port_around, link, tmp_path, key):
    """Said once; a restart has the port again when the interface is back."""
    with PortServer(port_around.kind, link, "-m", 64, "--image", tmp_path / "image") as server:
        with server.client() as client:
            client.set(key, b"v")
        lose_the_interface(link, server, key)


def lose_the_interface(link, server, key):
    """And get it back."""
    link.server.ip("link", "delete", link.server.interface)
    with server.connect() as connection:
        for number in range(100):
            connection.set(b"%b-%d" % (key, number), b"v")
        assert connection.get(key) == b"v"
    until(lambda: server.count("failed") == 1, "the worker to notice")
    assert server.stderr().count("the interface is gone") == 1 and server.alive()
    link.plug_in()
    done = server.ctl("restart")
    assert done.returncode == 0, done.stderr
    with server.client() as client:
        client.set(key, b"again")
        assert client.get(key) == b"again"


def test_frames_longer_than_the_servers_mtu(link, server, key):
    """The client's end has the longer frames: they are lost, and nothing else is."""
    link.set_mtu(1500, 3000)
    with server.client() as client:
        for length in (1473, 2000, 2972):
            datagram = native.requests_datagram(client.header(), [Request(Opcode.NOOP)])
            assert client.is_silent_to(datagram + bytes(length - len(datagram)))
        client.set(key, b"v" * 1300)
        assert client.get(key) == b"v" * 1300


@XDP_ALONE
def test_replies_longer_than_the_clients_mtu(link, key):
    """The server's end has the longer frames: what the client's cannot take is lost, shorter values come."""
    link.set_mtu(3000, 1500)
    with PortServer(XDP, link, "-m", 64, "--native-payload", 2900) as server, server.client() as client:
        assert client.directory.payload_bytes_max == 2900
        with server.connect() as connection:
            connection.set(key, b"v" * 2500)
            connection.set(key + b"-short", b"v" * 1000)
        get = client.request(Opcode.GET, key)
        datagram = native.requests_datagram(client.header(partition=client.partition_of(key)), [get])
        assert client.is_silent_to(datagram)
        assert client.get(key + b"-short") == b"v" * 1000
        link.set_mtu(3000, 3000)
        assert client.get(key) == b"v" * 2500


@XDP_ALONE
def test_a_small_mtu_lowers_the_payload(port_around, link, key):
    """To what fits an IPv6 frame; the directory says it."""
    link.set_mtu(1300)
    with PortServer(port_around.kind, link, "-m", 64) as server, server.client() as client:
        assert client.directory.payload_bytes_max == 1300 - 48
        longest = (client.directory.payload_bytes_max - 56) // 8 * 8
        with server.connect() as connection:
            connection.set(key, b"v" * longest)
            connection.set(key + b"-long", b"v" * (longest + 1))
        assert client.get(key) == b"v" * longest
        assert client.status(Opcode.GET, key + b"-long") == Status.USE_STREAM


@XDP_ALONE
def test_an_mtu_that_changes_under_a_running_server(link, server, key):
    """Smaller: long replies are lost, short ones come; and back."""
    with server.client() as client:
        client.set(key, b"v" * 1300)
        client.set(key + b"-short", b"v" * 100)
        link.set_mtu(1400, 1280)
        get = client.request(Opcode.GET, key)
        datagram = native.requests_datagram(client.header(partition=client.partition_of(key)), [get])
        assert client.is_silent_to(datagram)
        assert client.get(key + b"-short") == b"v" * 100
        link.set_mtu(1500)
        assert client.get(key) == b"v" * 1300
