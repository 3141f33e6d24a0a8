"""Requests with an id are executed once, however often they arrive, wherever they arrive, and whoever owns
the key."""

import random

import pytest

from harness import native
from harness.native import Header, Opcode, Status
from harness.native.server import Difference


@pytest.fixture(scope="module", params=("erew", "crcw"))
def server(port, request):
    with port.server("-t", port.workers, "-m", 64, "--access", request.param) as running:
        yield running


@pytest.fixture
def client(server):
    with server.client() as client:
        yield client


def numbered(client, key, number):
    """One request of each operation with an id, what precedes it, and what its only execution answers."""
    start = client.request(Opcode.SET, key, value=b"10")
    return {
        "increment": (start, client.request(Opcode.INCREMENT, key, argument=5, id=number), b"15", 15),
        "decrement": (start, client.request(Opcode.DECREMENT, key, argument=3, id=number), b"7 ", 7),
        "append": (start, client.request(Opcode.APPEND, key, value=b"x", id=number), b"10x", None),
        "prepend": (start, client.request(Opcode.PREPEND, key, value=b"x", id=number), b"x10", None),
        "add": (
            client.request(Opcode.DELETE, key), client.request(Opcode.ADD, key, value=b"a", id=number), b"a",
            None
        ),
    }


@pytest.mark.parametrize("name", ["increment", "decrement", "append", "prepend", "add"])
@pytest.mark.parametrize("flags", [0, Header.RESENT])
def test_a_second_arrival_is_answered_from_memory(server, client, key, name, flags):
    start, request, value, number = numbered(client, key, next(client.ids))[name]
    again = Difference(server, "answered_again")
    client.ask(start)
    for arrival in range(4):
        # From the second on also through ports of other workers: the same owner answers, or what it
        # remembers.
        port = client.directory.cores[arrival % len(client.directory.cores)][0] if arrival else None
        _, (reply,) = client.ask(request, flags=flags if arrival else 0, port=port)
        assert (reply.status, reply.number) == (Status.OK, number)
        assert client.get(key) == value
    assert again("answered_again") == 3


def test_a_second_cas_has_not_lost_to_the_first(client, key):
    client.set(key, b"one")
    unique = client.do(Opcode.GET, key, wants_cas=True).cas
    request = client.request(Opcode.CAS, key, argument=unique, value=b"two")
    for flags in (0, Header.RESENT, Header.RESENT):
        _, (reply,) = client.ask(request, flags=flags)
        assert reply.status == Status.OK
    other = client.request(Opcode.CAS, key, argument=unique, value=b"three")
    for flags in (0, Header.RESENT):
        _, (reply,) = client.ask(other, flags=flags)
        assert reply.status == Status.EXISTS
    assert client.get(key) == b"two"


def test_failures_are_remembered_as_well(client, key):
    """A repeated request gets its first reply, though the item is there by now."""
    requests = {
        Status.NOT_FOUND: client.request(Opcode.INCREMENT, key, argument=1),
        Status.NOT_STORED: client.request(Opcode.APPEND, key, value=b"1"),
    }
    for status, request in requests.items():
        assert client.ask(request)[1][0].status == status
    client.set(key, b"1")
    for status, request in requests.items():
        assert client.ask(request, flags=Header.RESENT)[1][0].status == status
    assert client.get(key) == b"1"


def test_the_same_request_twice_in_one_datagram(client, key):
    client.set(key, b"0")
    request = client.request(Opcode.INCREMENT, key, argument=1)
    _, replies = client.ask(*[request] * 15)
    assert [(reply.status, reply.number) for reply in replies] == [(Status.OK, 1)] * 15
    assert client.get(key) == b"1"


def test_ids_are_of_a_client_not_of_all(server, client, key):
    """Another number, or another address with the same number, is another client."""
    client.set(key, b"0")
    request = client.request(Opcode.INCREMENT, key, argument=1)
    for expected, number in enumerate((client.number, client.number ^ 1, client.number ^ 2), 1):
        _, (reply,) = client.ask_as(number, request)
        assert reply.number == expected
    with server.client(number=client.number) as other:
        assert other.ask(request)[1][0].number == 4
    assert client.ask(request, flags=Header.RESENT)[1][0].number == 1


def test_the_window(client, key):
    """The last ids of the window are remembered, in whatever order they come; an older one is forgotten, not
    executed."""
    window = client.directory.ids_window
    client.set(key, b"0")
    ids = list(range(1, window + 1))
    random.Random(1).shuffle(ids)
    ids.insert(0, ids.pop(ids.index(1)))
    requests = {
        number: client.request(Opcode.INCREMENT, key, argument=1, id=number)
        for number in range(1, window + 2)
    }
    answers = {number: client.ask(requests[number])[1][0].number for number in ids}
    assert sorted(answers.values()) == list(range(1, window + 1))
    for number in ids:
        _, (reply,) = client.ask(requests[number], flags=Header.RESENT)
        assert (reply.status, reply.number) == (Status.OK, answers[number])
    assert client.ask(requests[window + 1])[1][0].number == window + 1
    for flags in (0, Header.RESENT):
        assert client.ask(requests[1], flags=flags)[1][0].status == Status.FORGOTTEN
    assert client.ask(requests[2], flags=Header.RESENT)[1][0].status == Status.OK
    assert client.get(key) == b"%d" % (window + 1)


def test_an_unknown_client_that_sends_again_is_told_so(server, client, key):
    """It cannot be known whether its request was executed; it is not executed now."""
    client.set(key, b"0")
    forgotten = Difference(server, "forgotten")
    request = client.request(Opcode.INCREMENT, key, argument=1)
    assert client.ask(request, flags=Header.RESENT)[1][0].status == Status.FORGOTTEN
    assert forgotten("forgotten") == 1 and client.get(key) == b"0"
    # Once it is known, an id that never arrived before is executed although its datagram says that it may
    # have.
    assert client.ask(client.request(Opcode.INCREMENT, key, argument=1))[1][0].number == 1
    assert client.ask(request, flags=Header.RESENT)[1][0].number == 2


def test_clients_that_were_quiet_are_forgotten_not_mistaken(client, key):
    """More clients than are remembered: none of them is executed twice, each learns the truth or that nobody
    knows."""
    client.set(key, b"0")
    request = client.request(Opcode.INCREMENT, key, argument=1, id=1)
    numbers = range(10_000, 13_000)
    first = {number: client.ask_as(number, request)[1][0].number for number in numbers}
    assert sorted(first.values()) == list(range(1, len(numbers) + 1))
    known = 0
    for number in numbers:
        _, (reply,) = client.ask_as(number, request, flags=Header.RESENT)
        if reply.status == Status.OK:
            assert reply.number == first[number]
            known += 1
        else:
            assert reply.status == Status.FORGOTTEN
    assert 0 < known < len(numbers)
    assert client.get(key) == b"%d" % len(numbers)


def test_ids_hold_when_the_owner_changes(server, client, key):
    """A request that the old owner has executed is answered from memory by the new one."""
    client.set(key, b"0")
    partition = client.partition_of(key)
    total = 0
    for turn in range(3 * len(client.directory.cores)):
        request = client.request(Opcode.INCREMENT, key, argument=1)
        old = client.generation
        total += 1
        assert client.ask(request)[1][0].number == total
        if len(client.directory.cores) > 1:
            moved = server.ctl("move", partition, turn % len(client.directory.cores))
            assert moved.returncode == 0, moved.stderr
        for generation in (old, 0, client.learn().generation):
            header, (reply,) = client.ask(request, flags=Header.RESENT, generation=generation)
            assert (reply.status, reply.number) == (Status.OK, total)
            assert header.generation == client.generation
    assert client.get(key) == b"%d" % total


def test_increments_in_any_order_and_number_are_exact(server, client, key):
    """Every request of a window arrives up to three times, mixed with the others: each counts once."""
    generator = random.Random(5)
    client.set(key, b"0")
    total, rounds = 0, 40
    window = client.directory.ids_window
    client.ask(client.request(Opcode.INCREMENT, key, argument=0))
    for _ in range(rounds):
        batch = [
            client.request(Opcode.INCREMENT, key, argument=generator.randrange(100))
            for _ in range(window // 2)
        ]
        total += sum(request.argument for request in batch)
        arrivals = [
            (request, flags) for request in batch for flags in (0, *[Header.RESENT] * generator.randrange(3))
        ]
        generator.shuffle(arrivals)
        for start in range(0, len(arrivals), 16):
            part = arrivals[start : start + 16]
            header = client.header(partition=client.partition_of(key), flags=max(flags for _, flags in part))
            client.send(
                native.requests_datagram(header, [request for request, _ in part]),
                client.port_for(part[0][0]),
            )
        for request in batch:
            _, (reply,) = client.ask(request, flags=Header.RESENT)
            assert reply.status == Status.OK
        while client.receive(0) is not None:
            pass
    assert client.get(key) == b"%d" % total
