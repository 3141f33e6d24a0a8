"""The native protocol between two hosts: namespaces with a veth pair, the server in one, its clients in the
other."""

import random
import time

import pytest

from harness.native import Opcode, Status
from harness.native.client import NativeClient
from harness.native.server import NativeServer
from harness.network.hosts import two_hosts
from harness.tools.programs import Increments

COUNT = 200_000
FLAPS = 10
DEADLINE_S = 200


class FarServer(NativeServer):
    """A server at an address of its host. Connections to it come from its host too."""

    def __init__(self, host, *options):
        self.host = host
        with host.inside():
            super().__init__("-l", host.address, *options)

    @property
    def address(self):
        return (self.host.address, self.port)

    def connect(self, **options):
        with self.host.inside():
            return super().connect(**options)


@pytest.fixture
def hosts():
    with two_hosts() as pair:
        yield pair


@pytest.fixture(
    params=[(1, "on"), (2, "on"), (2, "off"), (4, "on")], ids=lambda p: f"workers{p[0]}-gro-{p[1]}"
)
def server(request, hosts):
    workers, gro = request.param
    options = ("-t", workers, "-m", 64, "--access", "erew", "--native-gro", gro)
    with FarServer(hosts[0], *options) as running:
        yield running


def client_in(host, server):
    """A client of the other host."""
    with host.inside():
        return NativeClient(server.native_port, host=server.host.address).learn()


def test_operations_between_hosts(hosts, server, key):
    with client_in(hosts[1], server) as client:
        values = {
            b"%b-%d" % (key, number): random.Random(number).randbytes(number * 13) for number in range(100)
        }
        for one, value in values.items():
            client.set(one, value)
        assert all(client.get(one) == value for one, value in values.items())
        client.set(key, b"0")
        for number in range(1, 100):
            assert client.do(Opcode.INCREMENT, key, argument=1).number == number
        with server.connect() as connection:
            assert connection.get(key) == b"99"
        assert server.count("forwarded") == 0
    with client_in(hosts[0], server) as local:
        _, (reply,) = local.ask(local.request(Opcode.DELETE, key), cookie=client.cookie)
        assert reply.status == Status.UNPROVEN, "the cookie of the other host"


def test_the_longest_datagrams_are_not_fragmented(hosts, server, key):
    """One Ethernet frame each, in both directions."""
    with client_in(hosts[1], server) as client:
        limit = client.directory.payload_bytes_max
        request = client.request(Opcode.SET, key, value=b"")
        room = limit - 40 - len(request.pack())
        client.set(key, b"v" * room)
        whole = limit - 40 - 16
        with server.connect() as connection:
            connection.set(key + b"2", b"w" * whole)
        assert client.get(key) == b"v" * room and client.get(key + b"2") == b"w" * whole
    for host in hosts:
        counted = host.counters("Ip")
        assert counted["FragCreates"] == counted["ReasmReqds"] == 0


def test_increments_between_hosts(hosts, server):
    """The client library sends, with GRO and GSO across the pair where the kernel has them."""
    with hosts[1].inside(), Increments(f"{hosts[0].address}:{server.native_port}", count=COUNT) as increments:
        assert increments.report(DEADLINE_S)["done"] == COUNT


def test_increments_while_the_link_goes_down_and_up(hosts):
    """Each time whole bursts of datagrams in flight are lost."""
    with FarServer(hosts[0], "-t", 2, "-m", 64, "--access", "erew") as server:
        address = f"{hosts[0].address}:{server.native_port}"
        with hosts[1].inside(), Increments(address, count=10 * COUNT, clients=8) as increments:
            flaps = 0
            while increments.runs() and flaps < FLAPS:
                before = server.count("requests")
                while increments.runs() and server.count("requests") < before + COUNT // 4:
                    time.sleep(0.01)
                hosts[flaps % 2].link("down")
                hosts[flaps % 2].link("up")
                flaps += 1
            assert flaps >= 2, "each end"
            report = increments.report(DEADLINE_S)
        assert report["done"] == 10 * COUNT and report["datagrams_resent"] > 0
