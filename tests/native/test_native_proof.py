"""Addresses are proved: nobody is amplified, and nobody writes in the name of another."""

import os

import pytest

from harness import native
from harness.native import Header, Kind, Opcode, Request, Status
from harness.native.client import refusal
from harness.native.server import Difference, NativeServer

COOKIE_OF_NOBODY = 0x0123456789ABCDEF


@pytest.fixture(scope="module")
def server(port):
    with port.server("-t", port.workers, "-m", 64) as running:
        yield running


@pytest.fixture
def client(server):
    with server.client() as client:
        yield client


def every_write(client, key):
    """A request of each operation that writes."""
    return [
        client.request(opcode, key, **({"argument": 1} if opcode in native.WITH_ARGUMENT else {}),
                       **({"value": b"new"} if opcode in native.WITH_VALUE else {}))
        for opcode in Opcode
        if opcode not in native.READS
    ]  # fmt: skip


@pytest.mark.parametrize("cookie", [0, COOKIE_OF_NOBODY, 2**64 - 1])
def test_nothing_is_written_without_proof(server, client, key, cookie):
    client.set(key, b"5")
    unproven = Difference(server, "unproven")
    unique = client.do(Opcode.GET, key, wants_cas=True).cas
    requests = every_write(client, key)
    assert len(requests) == 11
    for request in requests:
        header, (reply,) = client.ask(request, cookie=cookie)
        assert reply.status == Status.UNPROVEN, request
        assert header.cookie == client.cookie != 0, "the reply carries the cookie"
    assert unproven("unproven") == len(requests)
    found = client.do(Opcode.GET, key, wants_cas=True)
    assert (found.value, found.cas) == (b"5", unique)


@pytest.mark.parametrize("size", [0, 1, 24, 40, 41, 100, 400, 1300])
@pytest.mark.parametrize("count", [1, 3])
def test_no_reply_is_longer_than_its_request_without_proof(client, key, size, count):
    """A value is told when it fits into as many bytes as the request had, and padding makes room for it."""
    client.set(key, b"v" * size)
    request = client.request(Opcode.GET, key)
    port = client.port_for(request)
    for padding in range(0, client.directory.payload_bytes_max - 40 - count * len(request.pack()), 56):
        datagram = native.requests_datagram(
            client.header(cookie=0, partition=client.partition_of(key)), [request] * count
        )
        datagram += bytes(padding)
        _, replies, length = client.exchange(datagram, port)
        assert length <= len(datagram)
        for reply in replies:
            assert reply.status in (Status.OK, Status.UNPROVEN)
            assert reply.value == (b"v" * size if reply.status == Status.OK else b"")
        if len(datagram) >= 40 + count * (16 + size + 7) + 24 * count:
            assert {reply.status for reply in replies} == {Status.OK}


def test_misses_need_no_proof(client, key):
    header, (reply,) = client.ask(client.request(Opcode.GET, key), cookie=0)
    assert reply.status == Status.NOT_FOUND and header.cookie
    header, (reply,) = client.ask(client.request(Opcode.GET, key, wants_cas=True), cookie=0)
    assert reply.status == Status.NOT_FOUND


def test_a_proof_is_good_for_all_workers_and_not_given_again(client, key):
    for port, _ in client.directory.cores:
        for _ in range(2):  # once in 64 seconds there are new ones, which the client takes
            header, (reply,) = client.ask(client.request(Opcode.SET, key, value=b"v"), port=port)
            assert reply.status == Status.OK
            if not header.cookie:
                break
        assert header.cookie == 0, "it is the one that the client has"


def test_a_cookie_of_another_address_proves_nothing(server, client, key):
    with server.client() as other:
        assert client.cookie != other.cookie
        _, (reply,) = other.ask(other.request(Opcode.SET, key, value=b"v"), cookie=client.cookie)
        assert reply.status == Status.UNPROVEN
        _, (reply,) = other.ask(other.request(Opcode.SET, key, value=b"v"))
        assert reply.status == Status.OK


def test_a_cookie_of_another_server_proves_nothing(port, client, key):
    with port.server("-m", 64) as second:
        there = second.client(learn=False)
        there.socket.close()
        there.socket = client.socket
        there.learn()
        assert there.cookie != client.cookie, "the same address"
        _, (reply,) = there.ask(there.request(Opcode.SET, key, value=b"v"), cookie=client.cookie)
        assert reply.status == Status.UNPROVEN
        _, (reply,) = there.ask(there.request(Opcode.SET, key, value=b"v"))
        assert reply.status == Status.OK


@pytest.mark.parametrize("length", [88, 96, 100, 256, 1232, 1472])
def test_the_directory_is_not_longer_than_its_request(server, client, length):
    length = min(length, client.directory.payload_bytes_max)
    for first in (0, 1, len(client.directory.cores)):
        for _ in range(2):  # once in 64 seconds there are new cookies, which the client takes
            answer, page, answered = client.page(first, length)
            if not answer.cookie:
                break
        assert answered <= length and page.first == first
        assert page.cores or page.owners
        assert answer.cookie == 0, "it is the one that the client has"


@pytest.mark.parametrize("cookie", [0, COOKIE_OF_NOBODY, 2**64 - 1])
def test_the_seed_is_not_told_to_an_address_that_is_not_proved(server, client, cookie):
    """Such a directory request is answered by the cookie alone, whichever worker it comes to."""
    seed = client.directory.hash_seed.to_bytes(8, "little")
    unproven = Difference(server, "unproven", "directories")
    for port, _ in client.directory.cores:
        header = Header(
            Kind.DIRECTORY_REQUEST, sequence=next(client.sequences), client=client.number, cookie=cookie
        )
        client.send(native.directory_request(header, 0, 1232), port)
        answer = client.receive()
        told = Header.parse(answer)
        assert (told.kind, told.status, told.count, len(answer)) == (
            Kind.DIRECTORY, Status.UNPROVEN, 0, native.HEADER_BYTES
        )
        assert seed not in answer
        client.cookie = told.cookie
        assert client.page(0)[1].hash_seed == client.directory.hash_seed, "the cookie is good"
    count = len(client.directory.cores)
    assert unproven("unproven") == count and unproven("directories") >= count


def test_a_page_beyond_the_last_entry_is_empty(client):
    entries = client.directory.core_count + client.directory.partitions
    for first in (entries, entries + 1, 2**32 - 1):
        _, page, _ = client.page(first)
        assert (page.cores, page.owners) == ([], [])


def test_a_directory_request_too_short_for_a_reply(client):
    """The answer is a header alone."""
    for length in (48, 56, 80, 87):
        client.send(native.directory_request(Header(Kind.DIRECTORY_REQUEST, client=1), 0, length))
        answer = client.receive()
        assert answer is not None and refusal(answer) == Status.BAD_REQUEST and len(answer) <= length


def test_refusals_are_not_longer_than_the_request(client):
    for version, flags in [(9, 0), (1, 0x80)]:
        datagram = Header(Kind.REQUESTS, client=1, version=version, flags=flags).pack()
        client.send(datagram)
        answer = client.receive()
        assert refusal(answer) == (Status.VERSION if version != 1 else Status.BAD_REQUEST)
        assert len(answer) <= len(datagram)


def test_the_directory_equals_the_routes_of_ctl(server, client):
    printed = server.ctl("directory")
    assert printed.returncode == 0, printed.stderr
    facts = dict(line.split() for line in printed.stdout.split("\n\n")[0].splitlines())
    directory = client.directory
    for name in (
        "hash_seed", "partitions", "stream_port", "payload_bytes_max", "value_bytes_max", "ids_window",
        "cookie_s"
    ):
        assert int(facts[name]) == getattr(directory, name), name
    assert int(facts["cores"]) == directory.core_count
    assert int(facts["generation"]) == client.generation
    tables = [[line.split() for line in part.splitlines()[1:]] for part in printed.stdout.split("\n\n")[1:]]
    assert [(int(port), int(node)) for _, port, node in tables[0]] == directory.cores
    assert [(int(owner), mode) for _, mode, owner in tables[1]] == [
        (owner, access.name.lower()) for owner, access in directory.owners
    ]
    assert [(mode, owner) for _, mode, owner in tables[1]] == [(m, str(o)) for m, o in server.routes()]


def test_the_protocol_is_not_spoken_unless_asked_for(start):
    """No UDP socket is open, and the words about the protocol say why there is nothing."""
    server = start("-m", 64)
    assert udp_sockets(server.pid) == 0
    assert server.stats("native") == {}
    refused = server.ctl("directory")
    assert refused.returncode != 0 and "--native" in refused.stderr
    with NativeServer("-m", 64, "-t", 3) as speaking:
        assert udp_sockets(speaking.pid) == 3


def udp_sockets(pid):
    """Returns the number of UDP sockets that a process has open."""
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except FileNotFoundError:  # closed since it was listed
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    count = 0
    for table in ("udp", "udp6"):
        with open(f"/proc/{pid}/net/{table}") as lines:
            count += sum(line.split()[9] in inodes for line in list(lines)[1:])
    return count


def test_an_unproved_client_learns_its_cookie(server, key):
    """The client knows only the base port: it gets a directory first, then sends requests by it."""
    with server.client(learn=False) as client:
        header, (_,) = client.ask(Request(Opcode.NOOP))
        assert header.cookie == client.cookie != 0 and header.generation
        client.learn()
        client.set(key, b"v")
        assert client.get(key) == b"v"
