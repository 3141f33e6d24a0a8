"""Several queues: a director in front of them brings each datagram to its worker, without one they are handed
over."""

import pytest

from harness import native
from harness.native import Opcode, Request, Status
from harness.native.server import Difference
from harness.network import bpf
from harness.network.links import BASE, Link
from harness.network.ports import XDP, PortServer
from harness.poll import until
from harness.tools.programs import Increments

CLIENTS = 100
EACH = 20


@pytest.fixture
def link():
    """Two queues, not directed."""
    with Link(queues=2) as link:
        yield link


@pytest.fixture
def server(link):
    with PortServer(XDP, link, "-t", 2, "-m", 64, "--access", "erew") as server:
        yield server


def work(server, key):
    """Requests of many clients, each to the port of its key's owner: how far the counters have gone."""
    names = (
        "forwarded", "forwarded_in", "datagrams_sent", "requests", "replies_reused", "replies_copied",
        "replies_no_frame"
    )
    counted = Difference(server, *names)
    for number in range(CLIENTS):
        with server.client() as client:
            for each in range(EACH):
                client.set(b"%b-%d" % (key, each), b"%d" % number)
                assert client.get(b"%b-%d" % (key, each)) == b"%d" % number

    def settled():
        """A worker counts behind what it sends."""
        now = {name: counted(name) for name in names}
        sent = now["replies_reused"] + now["replies_copied"] == now["datagrams_sent"]
        return now if sent and now["forwarded"] == now["forwarded_in"] else None

    return until(settled, "the workers to have counted all")


def test_directed_datagrams_are_not_forwarded(link, server, key):
    link.direct()
    counted = work(server, key)
    # On a busy machine a client sends again what took long.
    assert counted["requests"] >= CLIENTS * EACH * 2
    assert counted["forwarded"] == counted["forwarded_in"] == 0
    assert counted["replies_reused"] == counted["datagrams_sent"] and counted["replies_copied"] == 0
    per_worker = [int(server.stats("native")[f"{worker}:requests"]) for worker in range(2)]
    assert min(per_worker) > CLIENTS, "both have worked"


def test_half_of_undirected_datagrams_are_forwarded(link, server, key):
    """The kernel chooses a queue by addresses and ports."""
    counted = work(server, key)
    assert 0.3 < counted["forwarded"] / counted["requests"] < 0.7, counted
    assert counted["forwarded_in"] == counted["forwarded"]
    # The owner answers in a frame of its own what was handed to it, the others leave in their requests'
    # frames.
    assert counted["replies_copied"] == counted["forwarded"] and counted["replies_no_frame"] == 0
    assert counted["replies_reused"] + counted["replies_copied"] == counted["datagrams_sent"]


def test_increments_are_exact_while_the_director_comes_and_goes(link, server):
    turns = 0
    while turns <= 2:
        with server.connect() as connection:
            assert connection.ask(b"flush_all\r\n") == b"OK"
        with (
            link.clients.inside(),
            Increments(f"{link.server.address}:{BASE}", count=50_000, clients=16) as increments,
        ):
            while increments.runs():
                link.direct(turns % 2 == 0)
                turns += 1
            assert increments.report(60)["done"] == 50_000


def test_queues_without_a_worker_are_left_to_the_kernel(key):
    """Four queues, two workers: what arrives on the others finds nobody, and the server says so."""
    with Link(queues=4) as link:
        link.direct()
        with (
            PortServer(XDP, link, "-t", 2, "-m", 64, "--access", "erew") as server, server.client() as client
        ):
            client.set(key, b"v")
            assert client.get(key) == b"v"
            counted = server.count("datagrams_received")
            assert server.count("forwarded") == server.count("filter_no_socket") == 0
            assert "4 receive queues, and 2 of them are served" in server.stderr()
            bpf.attach(
                link.clients, link.far, "egress", "direct", BASE=BASE - 2, QUEUES=4
            )  # to queues 2 and 3
            noop = Request(Opcode.NOOP)
            client.send(native.requests_datagram(client.header(), [noop]))
            until(lambda: server.count("filter_no_socket") > 0, "the filter to count it")
            assert server.count("datagrams_received") == counted
            link.direct()
            assert client.ask(noop)[1][0].status == Status.OK
