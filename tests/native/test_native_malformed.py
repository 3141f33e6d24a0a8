"""Datagrams that are wrong leave counters and no damage: mutated, cut, repeated, from the wrong kind of
sender."""

import random

import pytest

from harness import native
from harness.memory import resident_bytes
from harness.native import Header, Kind, Opcode, Request, Status
from harness.native import words as native_words
from harness.native.server import Difference, NativeServer
from harness.poll import until
from harness.server import run

MUTATIONS = 30_000
BURST = 50
GROWTH_BYTES_MAX = 8 << 20
OUTCOMES = ("not_ours", "bad_datagrams", "other_versions", "directories")


@pytest.fixture(scope="module")
def server(port):
    with port.server("-t", port.workers, "-m", 64) as running:
        yield running


@pytest.fixture
def client(server):
    with server.client() as client:
        yield client


def mutants(seeds, generator, longest):
    """Without end: datagrams with bits turned, bytes replaced, cut, prolonged or put together."""
    while True:
        data = bytearray(generator.choice(seeds))
        for _ in range(generator.randrange(1, 6)):
            at = generator.randrange(len(data) + 1)
            match generator.randrange(6):
                case 0 if at < len(data):
                    data[at] ^= 1 << generator.randrange(8)
                case 1 if at < len(data):
                    data[at] = generator.randrange(256)
                case 2:
                    del data[at:]
                case 3:
                    data += generator.randbytes(generator.randrange(64))
                case 4:
                    data[at : at + 4] = b"\xff" * 4
                case _:
                    data[at:at] = generator.choice(seeds)[at:]
        yield bytes(data[:longest])


def seeds_for(client):
    """Good datagrams of this server: their hashes, generation and cookie hold, so that mutants come far."""
    seeds = [data for _, _, data in native_words.datagrams()] + [
        data for _, _, data in native_words.refused() if data
    ]
    values = {opcode: {"value": b"v" * 20} if opcode in native.WITH_VALUE else {} for opcode in Opcode}
    for opcode in Opcode:
        key = b"" if opcode == Opcode.NOOP else b"fuzz-%d" % opcode
        request = client.request(opcode, key, **values[opcode])
        partition = client.partition_of(key) if key else 0
        seeds.append(native.requests_datagram(client.header(partition=partition), [request, request]))
        seeds.append(native.requests_datagram(client.header(cookie=0), [request]))
    return seeds


def drain(client):
    """Returns the answers so far, without waiting."""
    answers = []
    while (answer := client.receive(0)) is not None:
        answers.append(answer)
    return answers


def test_mutated_datagrams(server, client, key):
    """After each burst a good request is answered rightly; every answer parses, none is of a kind that
    clients send."""
    generator = random.Random(server.native_port)
    client.set(key, b"unharmed")
    source, seen = mutants(seeds_for(client), generator, client.directory.payload_bytes_max), set()
    with server.client(learn=False) as hostile:
        hostile.cookie = hostile.learn().cookie
        for _ in range(MUTATIONS // BURST):
            port = generator.choice(client.directory.cores)[0]
            for _ in range(BURST):
                hostile.send(next(source), port)
            assert client.get(key) == b"unharmed"
            for answer in drain(hostile):
                header, _ = native.parse(answer)
                assert header.kind in (Kind.REPLIES, Kind.DIRECTORY)
                seen.add(header.status)
    assert {Status.OK, Status.BAD_REQUEST, Status.VERSION} <= seen
    assert server.alive()
    for name in OUTCOMES:
        assert server.count(name) > 0, name


def test_malformed_datagrams_cost_no_memory(server, client, key):
    """The second half of many finds as much memory in use as the first half left; the counters count each of
    them."""
    bad = [data for _, outcome, data in native_words.refused() if data and outcome != "dropped"]

    def send(rounds):
        for _ in range(rounds):
            for data in bad:
                client.send(data)
            assert client.ask(Request(Opcode.NOOP))[0].status == Status.OK
            assert len(drain(client)) <= len(bad)

    send(200)
    before, counted = resident_bytes(server.pid), Difference(server, "bad_datagrams", "other_versions")
    send(600)
    assert resident_bytes(server.pid) - before < GROWTH_BYTES_MAX
    received = counted("bad_datagrams") + counted("other_versions")
    dropped = server.count("dropped_by_kernel")
    assert received + dropped >= 600 * len(bad) and received <= 600 * len(bad)


def test_clients_without_end_cost_no_memory(server, client):
    """Every client number is a new client that writes: the server remembers as many as it may, no more."""
    request = client.request(Opcode.INCREMENT, b"nobody", argument=1, id=1)
    numbers = iter(range(1, 1 << 20))

    def introduce(count):
        for _ in range(count):
            _, (reply,) = client.ask_as(next(numbers), request)
            assert reply.status == Status.NOT_FOUND

    introduce(4000)
    before = resident_bytes(server.pid)
    introduce(12_000)
    assert resident_bytes(server.pid) - before < GROWTH_BYTES_MAX


def test_datagrams_of_servers_are_never_answered(port, server, client, key):
    """Two servers that are made to talk to each other fall silent at once: nothing that one sends is answered
    by the other."""
    client.set(key, b"v")
    with port.server("-m", 64) as other, other.client() as sender:
        for data in seeds_for(client):
            client.send(data)
        answers = []

        def have_all_kinds():
            answers.extend(drain(client))
            return {Header.parse(answer).kind for answer in answers} == {Kind.REPLIES, Kind.DIRECTORY}

        until(have_all_kinds, "answers")
        counted = Difference(other, "not_ours", "datagrams_received", "datagrams_sent")
        for answer in answers:
            for version in (native.VERSION, 2):
                assert sender.is_silent_to(answer[:2] + bytes([version]) + answer[3:])
        probes = 2 * len(answers)
        until(lambda: counted("datagrams_sent") >= probes, "the last answer to be counted")
        assert counted("datagrams_sent") == probes and counted("datagrams_received") == 2 * probes


def test_a_wrong_hash_of_a_write_is_refused(server, client, key):
    client.set(key, b"5")
    bad = Difference(server, "bad_requests")
    written = [opcode for opcode in Opcode if opcode not in native.READS]
    for opcode in written:
        value = {"value": b"x"} if opcode in native.WITH_VALUE else {}
        request = client.request(opcode, key, hash=client.hash(key) ^ 1, **value)
        _, (reply,) = client.ask(request)
        assert reply.status == Status.BAD_REQUEST, opcode
    assert bad("bad_requests") == len(written)
    assert client.get(key) == b"5"
    # One bad request does not keep the others of its datagram from being executed.
    good, wrong = client.request(Opcode.SET, key, value=b"6"), client.request(Opcode.DELETE, key, hash=7)
    _, replies = client.ask(good, wrong, client.request(Opcode.GET, key))
    assert [reply.status for reply in replies] == [Status.OK, Status.BAD_REQUEST, Status.OK]
    assert replies[2].value == b"6"


def test_the_hash_of_a_get_is_trusted_and_can_only_miss(client, key):
    client.set(key, b"v")
    others = [client.hash(key) ^ 1 << bit for bit in range(64)] + [0, 2**64 - 1]
    with_hash = [client.request(Opcode.GET, key, hash=hashed) for hashed in others]
    statuses = [client.ask(request)[1][0].status for request in with_hash]
    # Every bit is mixed into the place in the index.
    assert set(statuses) == {Status.NOT_FOUND}
    # A key is never answered by the item of another one under whose hash it is asked for.
    client.set(key + b"?", b"other")
    _, (reply,) = client.ask(client.request(Opcode.GET, key + b"?", hash=client.hash(key)))
    assert reply.status == Status.NOT_FOUND or reply.value == b"other"


@pytest.mark.parametrize("gro", ["on", "off"])
def test_datagrams_longer_than_the_limit_are_dropped(key, gro):
    """At the owner's port and at one that would have to hand them over, one by one and in bursts.

    Longer than a frame, they reach a port around the kernel as fragments: test_port_frames.py."""
    with (
        NativeServer("-t", 2, "-m", 64, "--access", "erew", "--native-gro", gro) as server,
        server.client() as client,
    ):
        limit = client.directory.payload_bytes_max
        request = client.request(Opcode.SET, key, value=b"v" * 1000)
        datagram = native.requests_datagram(client.header(partition=client.partition_of(key)), [request])
        for port in (client.port_for(request), client.other_port(key)):
            for length in (limit + 1, limit + 8, 2048, 2049, 8000, 60_000):
                bad = Difference(server, "bad_datagrams")
                assert client.is_silent_to(datagram + bytes(length - len(datagram)), port)
                assert bad("bad_datagrams") == 1
            for number in range(2000):
                client.send(datagram + bytes((31_000, 60_000)[number % 2] - len(datagram)), port)
            # All of them are behind it once a no-op to the same port is answered, which a full queue may lose
            # as well.
            noop = native.requests_datagram(client.header(), [Request(Opcode.NOOP)])
            client.exchange(noop, port)
        until(lambda: client.get(key) is None, "the server to answer")
        # As long as the limit is not longer.
        _, (reply,), _ = client.exchange(datagram + bytes(limit - len(datagram)), client.port_for(request))
        assert reply.status == Status.OK and client.get(key) == b"v" * 1000


def test_a_server_is_started_only_with_ports_and_limits_that_exist():

    for options in (["--native", "70000"], ["--native", "x"], ["--native-payload", "100", "--native", "-1"]):
        ended = run("-p", "-1", *options)
        assert ended.returncode != 0 and options[0] in ended.stderr
