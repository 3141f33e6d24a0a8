"""The native protocol, operation by operation and status by status, as docs/protocol.md has them."""

import random
import socket

import pytest

from harness.native import Header, Opcode, Request, Status
from harness.native.client import NativeClient
from harness.native.server import NativeServer
from harness.poll import until

ITEM_BYTES_MAX = 65536
NUMBER_MAX = 2**64 - 1


@pytest.fixture(scope="module")
def server(port):
    with port.server("-t", port.workers, "-m", 64, "-I", ITEM_BYTES_MAX) as running:
        yield running


@pytest.fixture
def client(server):
    with server.client() as client:
        yield client


def test_noop(client):
    header, (reply,) = client.ask(Request(Opcode.NOOP))
    assert (reply.opcode, reply.status, header.generation) == (Opcode.NOOP, Status.OK, client.generation)


def test_set_get_delete(client, key):
    assert client.get(key) is None
    client.set(key, b"value", flags=0xFFFFFFFF)
    reply = client.do(Opcode.GET, key)
    assert (reply.status, reply.value, reply.flags, reply.cas) == (Status.OK, b"value", 0xFFFFFFFF, None)
    assert client.status(Opcode.DELETE, key) == Status.OK
    assert client.status(Opcode.DELETE, key) == Status.NOT_FOUND
    assert client.get(key) is None


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 250, 1000])
def test_values_of_any_length_and_bytes(client, key, count):
    value = random.Random(count).randbytes(count)
    client.set(key, value)
    assert client.get(key) == value


@pytest.mark.parametrize("count", [1, 7, 8, 9, 249, 250])
def test_keys_of_any_length_and_bytes(client, count):
    """Also bytes that memcached's text does not allow."""
    keys = [random.Random(count).randbytes(count), b"\0" * count, b"\r" * count, b" " * count]
    for key in keys:
        client.set(key, b"of " + key[:1])
    for key in keys:
        assert client.get(key) == b"of " + key[:1]
        assert client.status(Opcode.DELETE, key) == Status.OK


def test_add_and_replace(client, key):
    assert client.status(Opcode.REPLACE, key, value=b"1") == Status.NOT_STORED
    assert client.status(Opcode.ADD, key, value=b"2", flags=3) == Status.OK
    assert client.status(Opcode.ADD, key, value=b"4") == Status.NOT_STORED
    assert client.status(Opcode.REPLACE, key, value=b"5", flags=6) == Status.OK
    reply = client.do(Opcode.GET, key)
    assert (reply.value, reply.flags) == (b"5", 6)


def test_append_and_prepend(client, key):
    assert client.status(Opcode.APPEND, key, value=b"x") == Status.NOT_STORED
    assert client.status(Opcode.PREPEND, key, value=b"x") == Status.NOT_STORED
    client.set(key, b"middle", flags=9)
    assert client.status(Opcode.APPEND, key, value=b"-end") == Status.OK
    assert client.status(Opcode.PREPEND, key, value=b"start-") == Status.OK
    reply = client.do(Opcode.GET, key)
    assert (reply.value, reply.flags) == (b"start-middle-end", 9)


def test_increment_and_decrement(client, key):
    assert client.status(Opcode.INCREMENT, key, argument=1) == Status.NOT_FOUND
    assert client.status(Opcode.DECREMENT, key, argument=1) == Status.NOT_FOUND
    client.set(key, b"10")
    for opcode, argument, expected in [
        (Opcode.INCREMENT, 5, 15),
        (Opcode.DECREMENT, 6, 9),
        (Opcode.DECREMENT, 10, 0),
        (Opcode.INCREMENT, NUMBER_MAX, NUMBER_MAX),
        (Opcode.INCREMENT, 3, 2),
        (Opcode.INCREMENT, 0, 2),
    ]:
        reply = client.do(opcode, key, argument=argument)
        assert (reply.status, reply.number) == (Status.OK, expected)
    client.set(key, b"no number")
    assert client.status(Opcode.INCREMENT, key, argument=1) == Status.NOT_A_NUMBER
    assert client.get(key) == b"no number"


def test_cas(client, key):
    assert client.status(Opcode.CAS, key, argument=1, value=b"x") == Status.NOT_FOUND
    client.set(key, b"one", flags=1)
    reply = client.do(Opcode.GET, key, wants_cas=True)
    assert reply.cas and reply.flags == 1
    assert client.status(Opcode.CAS, key, argument=reply.cas + 1, value=b"two") == Status.EXISTS
    assert client.status(Opcode.CAS, key, argument=reply.cas, value=b"two", flags=2) == Status.OK
    again = client.do(Opcode.GET, key, wants_cas=True)
    assert (again.value, again.flags) == (b"two", 2) and again.cas != reply.cas
    assert client.status(Opcode.CAS, key, argument=reply.cas, value=b"three") == Status.EXISTS


def test_cas_is_the_same_over_tcp(server, client, key):
    client.set(key, b"native", flags=4)
    with server.connect() as connection:
        unique = client.do(Opcode.GET, key, wants_cas=True).cas
        assert connection.values(b"gets " + key + b"\r\n") == {key: (4, b"native", unique)}
        assert connection.ask(b"cas %b 5 0 4 %d\r\ntext\r\n" % (key, unique)) == b"STORED"
        assert client.status(Opcode.CAS, key, argument=unique, value=b"late") == Status.EXISTS
        reply = client.do(Opcode.GET, key, wants_cas=True)
        assert (reply.value, reply.flags, reply.cas) == (b"text", 5, connection.cas(key))
        assert client.status(Opcode.CAS, key, argument=reply.cas, value=b"native again") == Status.OK
        assert connection.get(key) == b"native again"


def test_touch_and_expiry(client, key):
    assert client.status(Opcode.TOUCH, key, expiry_s=5) == Status.NOT_FOUND
    assert client.status(Opcode.GET_AND_TOUCH, key, expiry_s=5) == Status.NOT_FOUND
    keys = {name: key + name.encode() for name in ("set", "add", "replace", "touch", "gat", "cas")}
    for one in keys.values():
        if one != keys["add"]:
            client.set(one, b"v", flags=2)
    unique = client.do(Opcode.GET, keys["cas"], wants_cas=True).cas
    client.set(keys["set"], b"v", expiry_s=1)
    for name, opcode, fields in [
        ("add", Opcode.ADD, {"value": b"v"}),
        ("replace", Opcode.REPLACE, {"value": b"v"}),
        ("touch", Opcode.TOUCH, {}),
        ("cas", Opcode.CAS, {"value": b"v", "argument": unique}),
    ]:
        assert client.status(opcode, keys[name], expiry_s=1, **fields) == Status.OK
    reply = client.do(Opcode.GET_AND_TOUCH, keys["gat"], expiry_s=1, wants_cas=True)
    assert (reply.status, reply.value, reply.flags) == (Status.OK, b"v", 2) and reply.cas
    for name, one in keys.items():
        until(lambda one=one: client.get(one) is None, f"the item of {name} to end")


def test_touch_takes_an_expiry_away(client, key):
    client.set(key + b"3", b"v", expiry_s=2)
    # In one datagram, so at one time.
    for number, opcode in ((b"1", Opcode.TOUCH), (b"2", Opcode.GET_AND_TOUCH)):
        short = client.request(Opcode.SET, key + number, value=b"v", expiry_s=2)
        _, (stored, touched) = client.ask(short, client.request(opcode, key + number))
        assert stored.status == touched.status == Status.OK
    assert touched.value == b"v"
    until(lambda: client.get(key + b"3") is None, "the item that was not touched to end")
    assert client.get(key + b"1") == client.get(key + b"2") == b"v"


def test_the_farthest_expiry_is_kept(client, key):
    """Seconds from now, however many: never a point in time, as memcached's text has it above thirty days."""
    for seconds in (60 * 60 * 24 * 30, 60 * 60 * 24 * 31, 2**31, 2**32 - 1):
        client.set(key, b"v", expiry_s=seconds)
        assert client.get(key) == b"v"


def test_too_large_names_the_limit(port_of_each_kind, key):
    with port_of_each_kind.server("-I", 1024, "-m", 64) as small, small.client() as other:
        limit = other.directory.value_bytes_max
        other.set(key, b"a" * limit)
        for opcode in (Opcode.SET, Opcode.ADD, Opcode.REPLACE, Opcode.CAS):
            reply = other.do(opcode, key, value=b"b" * (limit + 1))
            assert (reply.status, reply.limit_bytes) == (Status.TOO_LARGE, limit), opcode
        assert other.status(Opcode.APPEND, key, value=b"c") == Status.TOO_LARGE
        assert other.status(Opcode.PREPEND, key, value=b"c") == Status.TOO_LARGE


def test_out_of_space_changes_nothing(port_of_each_kind, key):
    """A store that is full says so; what was stored stays, and deleting makes room again."""
    with port_of_each_kind.server("-m", 8, "--semantics", "store") as store, store.client() as client:
        stored = 0
        while (status := client.status(Opcode.SET, b"%b-%d" % (key, stored), value=b"v" * 1200)) == Status.OK:
            stored += 1
            assert stored < 20_000
        assert status == Status.OUT_OF_SPACE
        assert all(client.get(b"%b-%d" % (key, number)) == b"v" * 1200 for number in range(stored))
        for number in range(stored):
            assert client.status(Opcode.DELETE, b"%b-%d" % (key, number)) == Status.OK
        client.set(key, b"room again")


def test_values_beyond_a_datagram_go_over_the_stream(server, client, key):
    fits = (client.directory.payload_bytes_max - 40 - 16) // 8 * 8
    assert client.directory.stream_port == server.port
    with server.connect() as connection:
        connection.set(key, b"x" * fits)
        assert client.get(key) == b"x" * fits
        reply = client.do(Opcode.GET, key, wants_cas=True)
        assert (reply.status, reply.value) == (Status.USE_STREAM, b"")
        connection.set(key, b"y" * (fits + 1))
        assert client.status(Opcode.GET, key) == Status.USE_STREAM
        assert client.status(Opcode.GET_AND_TOUCH, key, expiry_s=1) == Status.USE_STREAM
        until(lambda: client.status(Opcode.GET, key) == Status.NOT_FOUND, "what was touched to end")
        connection.set(key, b"z" * 60_000)
        assert client.status(Opcode.APPEND, key, value=b"!") == Status.OK
        assert connection.get(key) == b"z" * 60_000 + b"!"


def test_no_room_beside_the_other_replies(server, client, key):
    """Two values that fit a datagram each, but not both; the others are answered all the same."""
    client.set(key, b"v" * 800)
    number = key + b"n"
    get = client.request(Opcode.GET, key)
    _, replies = client.ask(get, get, get, Request(Opcode.NOOP))
    assert [reply.status for reply in replies] == [Status.OK, Status.NO_ROOM, Status.NO_ROOM, Status.OK]
    assert replies[0].value == b"v" * 800
    client.set(number, b"0")
    touch = client.request(Opcode.GET_AND_TOUCH, key, expiry_s=1)
    _, replies = client.ask(touch, touch)
    assert [reply.status for reply in replies] == [Status.OK, Status.NO_ROOM]


def test_requests_of_a_datagram_take_effect_in_their_order(client, key):
    request = client.request
    requests = [
        request(Opcode.GET, key),
        request(Opcode.ADD, key, value=b"1"),
        request(Opcode.INCREMENT, key, argument=41),
        request(Opcode.APPEND, key, value=b"0"),
        request(Opcode.GET, key),
        request(Opcode.DECREMENT, key, argument=20),
        request(Opcode.PREPEND, key, value=b"9"),
        Request(Opcode.NOOP),
        request(Opcode.GET_AND_TOUCH, key, expiry_s=100),
        request(Opcode.DELETE, key),
        request(Opcode.GET, key),
        request(Opcode.SET, key, value=b"end"),
    ]
    _, replies = client.ask(*requests)
    seen = [(reply.status, reply.number, reply.value) for reply in replies]
    ok = Status.OK
    assert seen == [
        (Status.NOT_FOUND, None, b""),
        (ok, None, b""),
        (ok, 42, b""),
        (ok, None, b""),
        (ok, None, b"420"),
        (ok, 400, b""),
        (ok, None, b""),
        (ok, None, b""),
        (ok, None, b"9400"),
        (ok, None, b""),
        (Status.NOT_FOUND, None, b""),
        (ok, None, b""),
    ]
    assert client.get(key) == b"end"


def test_as_many_requests_as_fit_a_datagram(client, key):
    """More than the engine takes at a time, and keys of all owners."""
    keys = [b"%b%d" % (key[-4:], number) for number in range(44)]
    _, replies = client.ask(*[client.request(Opcode.GET, one) for one in keys])
    assert {reply.status for reply in replies} == {Status.NOT_FOUND}
    for start in range(0, len(keys), 20):
        stored = [client.request(Opcode.SET, one, value=one) for one in keys[start : start + 20]]
        _, replies = client.ask(*stored)
        assert {reply.status for reply in replies} == {Status.OK}
    _, replies = client.ask(*[client.request(Opcode.GET, one) for one in keys[:32]])
    assert [reply.value for reply in replies] == keys[:32]
    _, replies = client.ask(*[Request(Opcode.NOOP)] * ((client.directory.payload_bytes_max - 40) // 24))
    assert {reply.status for reply in replies} == {Status.OK}


def test_the_clients_own_fields_come_back(client, key):
    for echo, sequence in [(0, 0), (2**64 - 1, 2**32 - 1), (7, 1)]:
        header, _ = client.ask(client.request(Opcode.GET, key), echo=echo, sequence=sequence)
        assert (header.echo, header.sequence, header.client) == (echo, sequence, client.number)
        assert header.partition == client.partition_of(key) and header.status == Status.OK
        assert header.flags & ~Header.SLOW_DOWN == 0


def test_bytes_behind_the_last_request_are_padding(client, key):
    client.set(key, b"v")
    request = client.request(Opcode.GET, key)
    padded = (
        client.header(count=1, partition=client.partition_of(key)).pack() + request.pack() + b"\xff" * 100
    )
    _, (reply,), _ = client.exchange(padded, client.port_for(request))
    assert reply.value == b"v"


def test_namespaces_and_statistics_see_native_requests(server, client, key):
    before = {name: int(server.stats()[name]) for name in ("cmd_get", "cmd_set", "get_hits", "get_misses")}
    client.set(key, b"v")
    client.get(key)
    client.get(key + b"?")
    after = {name: int(server.stats()[name]) - before[name] for name in before}
    assert after == {"cmd_get": 2, "cmd_set": 1, "get_hits": 1, "get_misses": 1}


def test_every_listening_address_speaks_it(key):
    """IPv4 and IPv6 lead to the same items; a cookie belongs to one of the client's addresses.

    The addresses of ports around the kernel are those of their interface: test_port_addresses.py."""
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    with NativeServer("-t", 2, "-m", 64, "-l", "127.0.0.1,::1") as server:
        with server.client() as four, NativeClient(server.native_port, host="::1") as six:
            six.learn()
            assert six.directory == four.directory and six.cookie != four.cookie
            four.set(key, b"by IPv4")
            assert six.get(key) == b"by IPv4"
            six.set(key, b"by IPv6")
            assert four.get(key) == b"by IPv6"
            for number in range(50):
                six.set(b"%b-%d" % (key, number), b"v", port=six.other_port(b"%b-%d" % (key, number)))
            assert all(four.get(b"%b-%d" % (key, number)) == b"v" for number in range(50))
