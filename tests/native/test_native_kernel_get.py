"""Native GETs with `--kernel-get`: which of them the program in the kernel answers, and which go on to a
worker. That both answer the same is what the tests show that take the fixture `port`."""

import pytest

from harness.native import Opcode, Status
from harness.native.server import Difference
from harness.network.ports import KERNEL_GET, Port, why_not


@pytest.fixture(scope="module")
def server(links):
    if why := why_not(KERNEL_GET):
        pytest.skip(why)
    with Port(KERNEL_GET, 2, links).server("-t", 2, "-m", 64) as running:
        yield running


@pytest.fixture
def client(server):
    with server.client() as client:
        yield client


class Moved:
    """Growth of the program's counters of native requests since the object was made."""

    def __init__(self, server):
        self.server, self.before = server, self.counters(server)

    @staticmethod
    def counters(server):
        names = ("native_hits", "native_misses")
        return [int(server.stats("kernel")[f"kernel_get_{name}"]) for name in names]

    def __call__(self):
        return [after - before for before, after in zip(self.before, self.counters(self.server), strict=True)]


def test_bursts_of_gets_do_not_reach_a_worker(server, client, key):
    keys = [key + b"%d" % number for number in range(16)]
    for present in keys[:12]:
        client.set(present, b"value of " + present)
    moved, workers = Moved(server), Difference(server, "requests")
    _, replies = client.ask(*(client.request(Opcode.GET, each) for each in keys))
    assert [reply.value for reply in replies[:12]] == [b"value of " + each for each in keys[:12]]
    assert {reply.status for reply in replies[12:]} == {Status.NOT_FOUND}
    assert moved() == [12, 4]
    assert workers("requests") == 0


def test_a_datagram_with_another_request_goes_to_a_worker(server, client, key):
    client.set(key, b"v")
    moved, workers = Moved(server), Difference(server, "requests")
    get, no_op = client.request(Opcode.GET, key), client.request(Opcode.NOOP)
    _, replies = client.ask(get, no_op, get)
    assert [reply.status for reply in replies] == [Status.OK] * 3
    assert moved() == [0, 0]
    assert workers("requests") == 3


def test_gets_of_the_longest_keys_do_not_reach_a_worker(server, client, key):
    """A key that differs from another one of its hash in its last byte alone is another key."""
    longest = key.ljust(250, b"k")
    client.set(longest, b"v")
    moved, workers = Moved(server), Difference(server, "requests")
    _, replies = client.ask(client.request(Opcode.GET, longest), client.request(Opcode.GET, longest[:-1]))
    assert replies[0].value == b"v" and replies[1].status == Status.NOT_FOUND
    assert moved() == [1, 1]
    assert workers("requests") == 0
    other = client.request(Opcode.GET, longest[:-1] + b"j", hash=client.hash(longest))
    assert all(reply.value != b"v" for reply in client.ask(other)[1])


def test_a_cas_value_is_given_by_the_owner_and_told_by_the_program(server, client, key):
    client.set(key, b"v")
    moved = Moved(server)
    first = client.do(Opcode.GET, key, wants_cas=True)
    assert moved() == [0, 0]
    again = client.do(Opcode.GET, key, wants_cas=True)
    assert (first.value, first.cas) == (again.value, again.cas)
    assert moved() == [1, 0]


def test_the_cookie_is_that_of_the_workers(server, client, key):
    """Each takes what the other has given, and neither tells more than was asked without it."""
    client.set(key, b"v" * 100)
    moved = Moved(server)
    header, (reply,) = client.ask(client.request(Opcode.GET, key), cookie=0)
    assert (reply.status, header.cookie) == (Status.UNPROVEN, client.cookie)
    assert moved()[0] == 1
    moved = Moved(server)
    for _ in range(2):  # once in 64 seconds there are new ones, which the client takes
        header, (reply,) = client.ask(client.request(Opcode.GET, key))
        if not header.cookie:
            break
    assert (reply.value, header.cookie) == (b"v" * 100, 0)
    assert moved()[0] >= 1
