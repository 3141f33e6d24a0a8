"""Clients over libfabric: messages, the cache area, and every other port of the same server."""

import itertools

import pytest

from harness import native
from harness.native import Header, Kind, Opcode, Request, Status
from harness.native.endpoint import HISTORY, FabricServer
from harness.poll import until
from harness.server import leave

KEYS = (b"key-%d" % number for number in itertools.count())


@pytest.fixture
def server(provider):
    with FabricServer(provider, "-m", "64") as server:
        yield server


@pytest.fixture
def client(server):
    with server.client() as client:
        yield client


def memcached(server, command):
    """A command of memcached's text protocol, and all that answers it."""
    with server.connect() as connection:
        return leave(connection, command + b"\r\n")


def put(server, key, value):
    assert memcached(server, b"set %s 0 0 %d\r\n%s" % (key, len(value), value)) == b"STORED\r\n"


def test_a_hello_tells_what_the_server_has(server, client):
    facts = client.facts
    assert (client.status, facts["workers"], facts["worker"]) == (Status.OK, 1, 0)
    assert facts["area_bytes"] >= facts["pages"] * facts["page_bytes"] > 0
    assert (facts["lease_ns"], facts["frozen_ns"], facts["push_ms"]) == (100_000_000, 60_000_000_000, 10)
    assert facts["value_bytes_max"] == 1 << 20
    assert server.count("clients") == 1


def test_operations_of_the_native_protocol(client):
    key = next(KEYS)
    assert client.one(Opcode.NOOP).status == Status.OK
    assert client.get(key).status == Status.NOT_FOUND
    assert client.one(Opcode.REPLACE, key, value=b"x").status == Status.NOT_STORED
    assert client.set(key, b"5", flags=7).status == Status.OK
    found = client.get(key, wants_cas=True)
    assert (found.value, found.flags) == (b"5", 7) and found.cas
    assert client.one(Opcode.INCREMENT, key, argument=3).number == 8
    assert client.one(Opcode.APPEND, key, value=b"0").status == Status.OK
    assert client.get(key).value == b"80"
    assert client.one(Opcode.CAS, key, value=b"x", argument=1).status == Status.EXISTS
    assert client.delete(key).status == Status.OK
    assert client.get(key).status == Status.NOT_FOUND


def test_replies_tell_the_second(client):
    header, _ = client.ask(Request(Opcode.NOOP))
    assert 0 <= header.cookie - client.facts["second"] < 60


def test_one_message_has_many_requests_and_one_reply_in_their_order(client):
    keys = [next(KEYS) for _ in range(300)]
    sets = [Request(Opcode.SET, key, client.hash(key), value=b"v" + key) for key in keys]
    gets = [Request(Opcode.GET, key, client.hash(key), wants_entry=True) for key in keys]
    _, replies = client.ask(*(one for pair in zip(sets, gets, strict=True) for one in pair))
    assert len(replies) == 600 and all(reply.status == Status.OK for reply in replies)
    assert [reply.value for reply in replies[1::2]] == [b"v" + key for key in keys]


@pytest.mark.parametrize("length", [0, 1, 4096, 70_000, 1 << 20])
def test_values_of_every_length(client, length):
    key, value = next(KEYS), bytes(range(256)) * (length // 256) + bytes(length % 256)
    assert client.set(key, value).status == Status.OK
    found = client.get(key, wants_entry=True)
    assert found.value == value and found.entry
    assert client.chunk(key, found.entry) == value


def test_a_value_that_is_too_large_is_refused(client):
    reply = client.set(next(KEYS), bytes((1 << 20) + 1))
    assert (reply.status, reply.limit_bytes) == (Status.TOO_LARGE, 1 << 20)


def test_all_ports_agree(server, client):
    """Each port sees what another one did last, and no chunk outlives a change."""
    key = next(KEYS)
    assert client.set(key, b"fabric").status == Status.OK
    assert memcached(server, b"get " + key) == b"VALUE %s 0 6\r\nfabric\r\nEND\r\n" % key
    first = client.entry(key)
    assert client.chunk(key, first) == b"fabric"
    put(server, key, b"other")
    assert client.chunk(key, first) is None
    second = client.get(key, wants_entry=True)
    assert second.value == b"other" and client.chunk(key, second.entry) == b"other"
    assert client.set(key, b"again").status == Status.OK
    assert client.chunk(key, second.entry) is None
    assert memcached(server, b"get " + key) == b"VALUE %s 0 5\r\nagain\r\nEND\r\n" % key
    third = client.entry(key)
    assert memcached(server, b"delete " + key) == b"DELETED\r\n"
    assert client.chunk(key, third) is None and client.get(key).status == Status.NOT_FOUND


@pytest.mark.parametrize("flush", [b"flush_all", b"flush_namespace ours"])
def test_a_flush_ends_all_chunks(server, client, flush):
    key = b"ours:" + next(KEYS)
    assert client.set(key, b"value").status == Status.OK
    entry = client.entry(key)
    assert client.chunk(key, entry) == b"value"
    assert memcached(server, flush) == b"OK\r\n"
    assert client.chunk(key, entry) is None
    assert client.get(key, wants_entry=True).status == Status.NOT_FOUND


def test_pushes_have_the_entries_of_own_sets_only(server, client):
    keys = [next(KEYS) for _ in range(20)]
    with server.client() as other:
        for key in keys:
            assert client.set(key, b"value " + key).status == Status.OK
        until(lambda: len(client.pushes()) == len(keys), "all entries")
        assert set(client.pushed) == set(map(client.hash, keys))
        for key in keys:
            assert client.chunk(key, client.pushed[client.hash(key)]) == b"value " + key
        assert other.pushes(0.1) == {}
    counts = server.stats("fabric")
    assert int(counts["entries_pushed"]) == len(keys)
    assert int(counts["bytes_pushed"]) == 40 * int(counts["pushes"]) + 32 * len(keys)
    assert int(counts["bytes_of_broadcasts"]) == 2 * int(counts["bytes_pushed"])


def test_what_a_client_reports_is_loaded_for_it(server, client):
    """An item without a chunk that was read twice gets one, and its entry is pushed."""
    wanted, seldom = next(KEYS), next(KEYS)
    put(server, wanted, b"wanted")
    put(server, seldom, b"seldom")
    client.report((seldom, 1), (wanted, 2))
    pushed = client.pushes()
    assert client.chunk(wanted, pushed[client.hash(wanted)]) == b"wanted"
    assert client.hash(seldom) not in pushed
    until(lambda: server.count("prefetched") == 1, "the count of prefetched items")
    counts = server.stats("fabric")
    assert (counts["histories"], counts["accesses"]) == ("1", "2")


def test_a_numbered_request_is_executed_once(client):
    key = next(KEYS)
    assert client.set(key, b"0").status == Status.OK
    for flags in (0, Header.RESENT, Header.RESENT):
        request = Request(Opcode.INCREMENT, key, client.hash(key), argument=1, id=77)
        _, (reply,) = client.ask(request, flags=flags)
        assert (reply.status, reply.number) == (Status.OK, 1)
    assert client.get(key).value == b"1"


def test_messages_that_make_no_sense_harm_nobody(server, client):
    with server.client() as hostile:
        hostile.send(b"\xff" * 100)
        hostile.send(Header(Kind.PUSH).pack())
        assert hostile.one(Opcode.NOOP).status == Status.OK
        header, replies = hostile.ask(Request(Opcode.GET, b"", 0))
        assert (header.status, replies) == (Status.BAD_REQUEST, [])
        hostile.send(b"\xff" * 100, HISTORY)
        hostile.send(Header(Kind.HISTORY, count=9).pack(), HISTORY)
        # To nobody's session.
        hostile.end.do("send", 1 << 40, b"lost".hex())
        assert hostile.one(Opcode.NOOP).status == Status.OK
    assert client.one(Opcode.NOOP).status == Status.OK


@pytest.mark.parametrize("provider", ["net;ofi_rxm", "tcp;ofi_rxm"])
def test_a_message_that_is_too_long_ends_its_sender_only(provider):
    """Over shm it stops the endpoint, which only processes of one user that are trusted reach."""
    with FabricServer(provider, "--fabric-frozen", 3) as server, server.client() as client:
        hostile = server.client()
        message = bytes(client.facts["message_bytes_max"] + 4096)
        hostile.end.post("send", hostile.facts["session"], message.hex())

        def is_alone():
            assert client.one(Opcode.NOOP).status == Status.OK
            return server.count("clients") == 1

        until(is_alone, "the end of the hostile client")
        hostile.end.kill()
        assert client.one(Opcode.NOOP).status == Status.OK


def test_a_client_that_does_not_wait_is_answered_in_order(client):
    """Two messages at once are against the protocol: the second one waits for the first one's reply."""
    answers = [client.post_receive(0, 4096) for _ in range(2)]
    for number in range(2):
        header = Header(Kind.REQUESTS, client=1, sequence=number)
        client.send(native.requests_datagram(header, [Request(Opcode.NOOP)]))
    for number, answer in enumerate(answers):
        header, _ = native.parse_any(client.end.wait(answer))
        assert header.sequence == number
