"""Servers with several interfaces: each worker at one, and clients that find the interface of an owner.

Two and four interfaces, over the kernel's sockets and over AF_XDP."""

import random

import pytest

from harness import native
from harness.native import Opcode, Status
from harness.native.server import Difference
from harness.network.nics import Nics, NicsServer
from harness.poll import until
from harness.server import run
from harness.tools.load import ENDLESS, is_clean, load, start_load

KEYS = 100
LOAD = ("--items", 1000, "--batch", 8, "--pipeline", 64, "--duration", "500ms", "--timeout", "30s")
# A client probes an address within milliseconds, where machines do not stand still.
STEADY = (*LOAD, "--warmup", "1s")
ERRORS = ("forwarded", "crossed", "ring_full", "bad_requests", "bad_datagrams")
COUNTS = [2, pytest.param(4, marks=pytest.mark.full)]


@pytest.fixture(scope="module", params=COUNTS, ids=lambda count: f"nics{count}")
def nics(request):
    with Nics(request.param) as made:
        yield made


@pytest.fixture(params=["kernel", "xdp"])
def kind(request):
    return request.param


def started(nics, kind, access="erew", **settings):
    return NicsServer(nics, kind, "-t", nics.count, "-m", 128, "--access", access, **settings)


def url(server, address=None):
    return f"native://{address or server.nics.address(0)}:{server.native_port}"


def loaded(server, *options, address=None):
    """Loads the server from the clients' host; the report, in which nothing is wrong."""
    with server.nics.clients.inside():
        report = load(url(server, address), *(options or STEADY))
    assert is_clean(report), report
    return report


def steady(server, *options, address=None):
    """Loads the server; returns how many datagrams of each error there were meanwhile, and how many each
    worker received."""
    before = [server.count(name) for name in ERRORS], server.counts("datagrams_received")
    loaded(server, *options, address=address)
    after = [server.count(name) for name in ERRORS], server.counts("datagrams_received")
    errors = [new - old for new, old in zip(after[0], before[0], strict=True)]
    return errors, [new - old for new, old in zip(after[1], before[1], strict=True)]


def is_steady(server, *options, address=None):
    """Returns whether little of a load crosses. On a loaded machine a client may lose an interface for a
    moment."""
    errors, received = steady(server, *options, address=address)
    return sum(errors) < 64 and min(received) > 20


@pytest.mark.parametrize("family", ["ipv4", pytest.param("ipv6", marks=pytest.mark.full)])
def test_requests_come_by_the_interface_of_their_owner(nics, kind, family):
    """What crosses is what was sent before a client had found the paths, and does not grow with the load."""
    address = nics.address(0) if family == "ipv4" else f"[{nics.address6(0)}]"
    with started(nics, kind) as server:
        loaded(server, "--fill", *STEADY, address=address)
        until(lambda: is_steady(server, address=address), "the client to find the interfaces")


def test_a_page_does_not_begin_within_an_address(nics, kind):
    """The entries that it listed were shifted."""
    with started(nics, kind) as server, server.client() as client:
        client.learn_interfaces()
        addresses = client.directory.entry_count + nics.count
        for number in range(client.directory.entry_count, client.directory.all_count):
            answer, page, _ = client.page(number)
            if number < addresses or (number - addresses) % 5 == 0:
                places, ips = number - client.directory.entry_count, max(0, number - addresses) // 5
                assert answer.status == Status.OK
                assert page.places == client.directory.places[places:]
                assert page.ips == client.directory.ips[ips:]
            else:
                assert answer.status == Status.BAD_REQUEST


def test_forwarded_requests_are_none_while_a_client_goes_on(nics, kind):
    with started(nics, kind) as server, nics.clients.inside():
        loaded(server, "--fill", *STEADY)
        running = start_load(url(server), *STEADY, *ENDLESS, "--quiet")
        try:
            received = Difference(server, "datagrams_received")
            until(lambda: received("datagrams_received") > 1000, "a client at work")
            until(lambda: stands_still(server), "no more crossing")
        finally:
            running.kill()
            running.communicate()


def stands_still(server):
    """Returns whether nothing crosses while a thousand datagrams come."""
    counted = Difference(server, *ERRORS, "datagrams_received")
    until(lambda: counted("datagrams_received") > 1000, "datagrams")
    return all(counted(name) == 0 for name in ERRORS)


def test_moved_partitions_are_followed_to_another_interface(nics, kind):
    with started(nics, kind) as server, nics.clients.inside():
        loaded(server, "--fill", *STEADY)
        running = start_load(url(server), *STEADY, *ENDLESS, "--quiet")
        try:
            for partition, (_, owner) in enumerate(server.routes()):
                moved = server.ctl("move", partition, (owner + 1) % nics.count)
                assert moved.returncode == 0, moved.stderr
            until(lambda: stands_still(server), "no more crossing after the moves")
            for mode in ("crew", "crcw", "erew"):
                assert server.ctl("mode", mode).returncode == 0
            until(lambda: stands_still(server), "no more crossing after the modes")
        finally:
            running.kill()
            running.communicate()


@pytest.mark.full
def test_balancing_moves_partitions_between_interfaces(kind):
    """All of the load is for partitions of one interface; a client follows those that move."""
    with Nics(2) as nics, NicsServer(nics, kind, "-t", 2, "-m", 128, "--access", "erew") as server:
        for partition, (_, owner) in enumerate(server.routes()):
            if owner != 0:
                assert server.ctl("move", partition, 0).returncode == 0
        with nics.clients.inside():
            loaded(server, "--fill", *STEADY)
            assert server.ctl("balance", "auto").returncode == 0
            running = start_load(url(server), *STEADY, *ENDLESS, "--quiet")
            try:
                until(lambda: len({owner for _, owner in server.routes()}) == 2, "partitions that move", 90)
                until(lambda: stands_still(server), "no more crossing")
            finally:
                running.kill()
                running.communicate()


def test_the_directory_names_interfaces(nics, kind):
    with started(nics, kind) as server, server.client() as client:
        known = client.learn_interfaces().directory
        assert known.addresses == 2 * nics.count
        assert known.places == [(server.native_port + core, core) for core in range(nics.count)]
        own = [(number, of(number)) for number in range(nics.count) for of in (nics.address, nics.address6)]
        assert sorted((number, str(ip)) for number, ip in known.ips) == own
        assert {port for port, _ in known.cores} == {server.native_port}, "substitutes at the first interface"
        listed = server.ctl("directory").stdout
        assert all(name in listed for name in nics.names) and nics.address(1) in listed


def test_clients_that_know_no_interfaces_are_served_by_the_given_one(nics, kind):
    """They read cores and partitions alone, as before there were interfaces."""
    with started(nics, kind) as server, server.client() as client:
        crossed = Difference(server, "crossed")
        for number in range(KEYS):
            key = b"old-%d" % number
            client.set(key, key)
            assert client.get(key) == key
        assert crossed("crossed") > 0
        assert client.resent == 0


def test_datagrams_for_another_interface_are_answered_from_the_address_that_was_asked(nics, kind):
    with started(nics, kind) as server, server.client() as client:
        client.learn_interfaces()
        for number in range(KEYS):
            key = b"wrong-%d" % number
            owner, _ = client.directory.owners[client.partition_of(key)]
            wrong = client.place_of((owner + 1) % nics.count)
            with server.client(learn=False, host=wrong[0]) as stranger:
                stranger.directory, stranger.generation = client.directory, client.generation
                stranger.socket.connect(wrong)  # hears nobody else
                for _ in range(2):
                    request = stranger.request(Opcode.SET, key, value=key)
                    header = stranger.header(partition=client.partition_of(key))
                    stranger.socket.send(native.requests_datagram(header, [request]))
                    answer, (reply,) = native.parse(stranger.receive())
                    stranger.cookie = answer.cookie or stranger.cookie
                assert reply.status == Status.OK


def test_a_cookie_proves_one_path(nics, kind):
    """The client's address differs by interface, and the proof of one is none for another."""
    with started(nics, kind) as server, server.client() as client:
        client.learn_interfaces()
        key = b"proof"
        request = client.request(Opcode.SET, key, value=b"1")
        replies = {}
        for core in range(nics.count):
            to = client.place_of(core)
            header = client.header(partition=client.partition_of(key))
            client.socket.sendto(native.requests_datagram(header, [request]), to)
            answer, (reply,) = native.parse(client.receive())
            replies[core] = reply.status
            assert (answer.cookie == 0) == (core == 0)
        assert replies == {core: Status.UNPROVEN if core else Status.OK for core in range(nics.count)}


def test_a_client_around_the_kernel_finds_the_interface_of_an_owner():
    """Its interface reaches both networks, through a switch."""
    with (
        Nics(2, switched=True) as nics,
        NicsServer(nics, "xdp", "-t", 2, "-m", 128, "--access", "erew") as server,
    ):
        options = (*STEADY, "--port", f"xdp:{nics.far}")
        loaded(server, "--fill", *options)
        until(lambda: is_steady(server, *options), "the client to find the interfaces")
        with nics.clients.inside():
            running = start_load(url(server), *options, *ENDLESS, "--quiet")
            try:
                until(lambda: stands_still(server), "no more crossing")
            finally:
                running.kill()
                running.communicate()


def test_a_client_stays_at_the_given_address_where_the_others_do_not_answer(kind):
    """As behind a translation of addresses: the second network does not lead to the server."""
    with Nics(2) as nics, NicsServer(nics, kind, "-t", 2, "-m", 128, "--access", "erew") as server:
        nics.clients.ip("link", "set", "far1", "down")
        nics.clients.ip("route", "add", "blackhole", "10.93.1.0/24")
        loaded(server, "--fill", *STEADY)
        loaded(server)
        received = server.counts("datagrams_received")
        assert received[1] == 0 and server.count("crossed") > 0


def test_a_client_goes_on_when_an_interface_falls_silent(kind):
    with Nics(2) as nics, NicsServer(nics, kind, "-t", 2, "-m", 128, "--access", "erew") as server:
        loaded(server, "--fill", *STEADY)
        with nics.clients.inside():
            running = start_load(url(server), *STEADY, *ENDLESS, "--quiet")
            try:
                received = Difference(server, "datagrams_received")
                until(lambda: received("datagrams_received") > 1000, "a client at work")
                nics.clients.ip("link", "set", "far1", "down")
                crossed = Difference(server, "crossed")
                until(lambda: crossed("crossed") > 100, "requests through the other interface")
                nics.clients.ip("link", "set", "far1", "up")
                until(lambda: stands_still(server), "the way by the interface")
            finally:
                running.kill()
                running.communicate()


def test_every_value_is_found_after_a_restart_in_place(nics, tmp_path):
    """The sockets of each interface stay open."""
    options = ("-t", nics.count, "-m", 128, "--access", "erew", "--image", tmp_path / "image")
    with NicsServer(nics, "kernel", *options) as server, server.client() as client:
        values = {b"%d" % number: random.Random(number).randbytes(100) for number in range(KEYS)}
        for key, value in values.items():
            client.set(key, value)
        before = server.ctl("directory").stdout
        restarted = server.ctl("restart")
        assert restarted.returncode == 0, restarted.stderr
        until(lambda: "nic1" in server.ctl("directory").stdout, "the next program")
        assert server.ctl("directory").stdout.split("core  ")[1][:200] == before.split("core  ")[1][:200]
        client.learn()
        assert {key: client.get(key) for key in values} == values


def test_addresses_stand_for_interfaces(nics):
    at = ",".join(f"{nics.address(number)}+{nics.address6(number)}" for number in range(nics.count))
    with started(nics, "kernel", at=at) as server:
        loaded(server, "--fill", *STEADY)
        until(lambda: is_steady(server), "the client to find the interfaces")
        assert "twice" not in server.stderr()


@pytest.mark.parametrize(
    "at, said",
    [
        ("nothing0", "neither an interface nor an address"),
        ("127.0.0.2,127.0.0.2", "named twice"),
        ("127.0.0.1,127.0.0.2,127.0.0.3", "3 interfaces for 2 workers"),
        ("0.0.0.0", "no address of one interface"),
        ("127.0.0.1+nothing0", "joins what is no address"),
        ("", "names no interface"),
    ],
)
def test_wrong_interfaces_are_refused(at, said):
    ended = run("-p", "-1", "-t", 2, "--native", "-1", "--native-at", at)
    assert ended.returncode == 64 and said in ended.stderr, ended.stderr


def test_interfaces_are_for_the_native_protocol_over_sockets():
    alone = run("-p", "-1", "-t", 2, "--native-at", "127.0.0.1")
    assert alone.returncode == 64 and "--native" in alone.stderr
    around = run("-p", "-1", "-t", 2, "--bypass", "xdp:nic0", "--native-at", "127.0.0.1")
    assert around.returncode == 64 and "--bypass" in around.stderr


def test_layouts_that_cross_are_warned_of():
    with Nics(2) as nics:
        with started(nics, "kernel") as server:
            assert "warning: nic" not in server.stderr()
        with started(nics, "kernel", at=f"{nics.address(0)},{nics.address6(0)}") as server:
            assert "--native-at names nic0 twice" in server.stderr()
        with started(nics, "kernel", at=f"nic0,{nics.address(1)}") as server:
            assert f"{nics.address(1)} has no IPv6 address" in server.stderr()
        nics.server.ip("address", "add", "10.93.0.77/24", "dev", "nic1")
        with started(nics, "kernel") as server:
            assert "nic0 and nic1 are in the network of 10.93.0." in server.stderr()
