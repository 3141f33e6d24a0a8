"""GETs answered in the kernel: the replies are those of the server, byte by byte, and the counters say who
gave them."""

import random
import struct
from contextlib import ExitStack

import pytest

from harness.memcached.udp import frame
from harness.network.kernel_get import MODES, AnsweringLink, KernelServer, Moved
from harness.poll import until

LONGEST = 1400 - 8 - len("VALUE  0 1400\r\n\r\nEND\r\n")


@pytest.fixture(scope="module")
def link():
    with AnsweringLink() as link:
        yield link


@pytest.fixture(scope="module", params=[*MODES, "store"])
def server(request, link):
    """In the driver, behind it, and as a store."""
    options = ("--semantics", "store") if request.param == "store" else ()
    with KernelServer(link, *options, mode="auto" if request.param == "store" else request.param) as server:
        yield server


@pytest.fixture
def client(server):
    with server.client() as client:
        yield client


@pytest.fixture
def moved(server):
    return Moved(server)


def value_reply(key, value, flags=0):
    return b"VALUE %b %d %d\r\n%b\r\nEND\r\n" % (key, flags, len(value), value)


def test_the_server_says_where_it_answers(server):
    assert "port0" in server.kernel_text()
    assert server.kernel()["paused"] == 0


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 500, 1023, 1024, 1300, 1320])
def test_values_that_fit_a_datagram(server, client, moved, key, size):
    value = random.Random(size).randbytes(size)
    with server.connect() as stream:
        stream.set(key, value)
    assert client.ask(b"get %b\r\n" % key) == value_reply(key, value)
    counted = moved()
    assert counted["answered"] == counted["hits"] == 1, counted
    # The server's datagrams end at 1,400 bytes, and so do these.
    assert not any(name.startswith("passed") for name in counted), counted


def test_the_longest_reply_of_one_datagram_and_the_first_of_two(server, client, key):
    """Byte by byte around the limit, whoever answers."""
    room = LONGEST - len(key)
    sizes = range(room - 3, room + 4)
    with server.connect() as stream:
        for size in sizes:
            stream.set(b"%b%d" % (key[:-4], size), bytes([size & 0x7F]) * size)
    for size in sizes:
        name = b"%b%d" % (key[:-4], size)
        assert client.ask(b"get %b\r\n" % name) == value_reply(name, bytes([size & 0x7F]) * size)


@pytest.mark.parametrize("size", [1400, 5000, 60_000])
def test_values_of_several_datagrams_are_the_servers(server, client, moved, key, size):
    value = random.Random(size).randbytes(size)
    with server.connect() as stream:
        stream.set(key, value)
    assert client.make_room(4 << 20)
    assert client.ask(b"get %b\r\n" % key) == value_reply(key, value)
    counted = moved()
    assert counted.get("answered", 0) == 0 and counted["passed_long_reply"] == 1, counted


@pytest.mark.parametrize("length", [1, 2, 3, 4, 9, 16, 17, 33, 63, 64, 65, 128, 129, 240, 241, 250])
def test_keys_of_every_length(server, client, moved, key, length):
    name = (key * 32)[:length]
    with server.connect() as stream:
        stream.set(name, b"value of it")
    assert client.ask(b"get %b\r\n" % name) == value_reply(name, b"value of it")
    counted = moved()
    assert counted["answered"] == 1 and "passed_key" not in counted, counted


def test_flags_and_misses(server, client, moved, key):
    numbers = (0, 1, 9, 10, 65535, 1 << 31, (1 << 32) - 1)
    with server.connect() as stream:
        for flags in numbers:
            stream.set(b"%b%d" % (key, flags), b"v", flags=flags)
    for flags in numbers:
        assert client.ask(b"get %b%d\r\n" % (key, flags)) == value_reply(b"%b%d" % (key, flags), b"v", flags)
    assert client.ask(b"get missing-%b\r\n" % key) == b"END\r\n"
    counted = moved()
    assert (counted["hits"], counted["misses"]) == (len(numbers), 1), counted


def test_the_servers_statistics_count_them(server, client, key):
    names = ("cmd_get", "get_hits", "get_misses")
    with server.connect() as stream:
        stream.set(key, b"v")
    before = server.stats()
    for _ in range(3):
        client.ask(b"get %b\r\n" % key)
        client.ask(b"get missing-%b\r\n" % key)
    after = server.stats()
    assert [int(after[name]) - int(before[name]) for name in names] == [6, 3, 3]


def test_many_in_flight_come_back_under_their_numbers(server, client, key):
    with server.connect() as stream:
        for number in range(100):
            stream.set(b"%b%d" % (key, number), b"%d" % number)
    assert client.make_room(4 << 20)
    numbers = {client.send(b"get %b%d\r\n" % (key, number)): number for number in range(100)}
    for _ in range(100):
        datagram = client.socket.recv(2048)
        request, sequence, total, reserved = struct.unpack(">HHHH", datagram[:8])
        number = numbers.pop(request)
        assert (sequence, total, reserved) == (0, 1, 0)
        assert datagram[8:] == value_reply(b"%b%d" % (key, number), b"%d" % number)


def test_multi_gets(server, client, moved, key):
    """Replies have one datagram or several; keys miss or come twice."""
    values = {b"%b%d" % (key, number): random.Random(number).randbytes(number * 3) for number in range(40)}
    with server.connect() as stream:
        for name, value in values.items():
            stream.set(name, value)

    def expected(names):
        items = [(name, values[name]) for name in names if name in values]
        return (
            b"".join(b"VALUE %b 0 %d\r\n%b\r\n" % (name, len(value), value) for name, value in items)
            + b"END\r\n"
        )

    generator = random.Random(7)
    for count in (2, 3, 8, 16, 30):
        names = [generator.choice([*values, b"none-" + key]) for _ in range(count)]
        assert client.ask(b"get " + b" ".join(names) + b"\r\n") == expected(names)
    assert (
        sum(count for name, count in moved().items() if name == "answered" or name.startswith("passed")) == 5
    )


def test_writes_are_seen_at_once(server, client, key):
    """Overwritten in place and not, changed by other commands, deleted, expired, flushed."""
    get = b"get %b\r\n" % key
    with server.connect() as stream:
        for number, size in enumerate([8, 8, 8, 100, 3, 100, 0, 1000, 1000]):
            value = bytes([65 + number]) * size
            stream.set(key, value, flags=number)
            assert client.ask(get) == value_reply(key, value, number)
        stream.set(key, b"10")
        assert stream.ask(b"incr %b 5\r\n" % key) == b"15" and client.ask(get) == value_reply(key, b"15")
        assert stream.ask(b"decr %b 9\r\n" % key) == b"6"
        with server.connect() as other:
            assert client.ask(get) == value_reply(key, other.get(key))
        stream.ask(b"append %b 0 0 3\r\nend\r\n" % key)
        with server.connect() as other:
            assert client.ask(get) == value_reply(key, other.get(key))
        assert stream.ask(b"touch %b -1\r\n" % key) == b"TOUCHED" and client.ask(get) == b"END\r\n"
        stream.set(key, b"again")
        assert stream.ask(b"delete %b\r\n" % key) == b"DELETED" and client.ask(get) == b"END\r\n"
        stream.set(key, b"again")
        assert stream.ask(b"flush_all\r\n") == b"OK" and client.ask(get) == b"END\r\n"
        stream.set(key, b"after")
        assert client.ask(get) == value_reply(key, b"after")


def test_items_expire_by_the_second(server, client, moved, key):
    """The program and the server agree about it at every moment."""
    with server.connect() as stream:
        assert stream.ask(b"set %b 0 1 5\r\nvalue\r\n" % key) == b"STORED"
        until(lambda: client.ask(b"get %b\r\n" % key) == b"END\r\n", "the item to expire")
        assert stream.get(key) is None
        assert stream.ask(b"set %b 0 1 5\r\nvalue\r\ntouch %b 0\r\n" % (key, key)) == b"STORED"
        assert stream.line() == b"TOUCHED"
    assert client.ask(b"get %b\r\n" % key) == value_reply(key, b"value")
    assert moved()["misses"] >= 1


def test_a_flush_with_a_delay(server, client, key):
    get = b"get %b\r\n" % key
    with server.connect() as stream:
        stream.set(key, b"value")
        assert stream.ask(b"flush_all 1\r\n") == b"OK"
        until(lambda: client.ask(get) == b"END\r\n", "the flush")
        stream.set(key, b"later")
    assert client.ask(get) == value_reply(key, b"later")


def test_namespaces(server, client, key):
    name = b"ns%b:x" % key[-6:]
    with server.connect() as stream:
        stream.set(name, b"value")
        stream.set(key, b"other")
        assert client.ask(b"get %b\r\n" % name) == value_reply(name, b"value")
        assert stream.ask(b"flush_namespace ns%b\r\n" % key[-6:]) == b"OK"
        assert client.ask(b"get %b\r\n" % name) == b"END\r\n"
        assert client.ask(b"get %b\r\n" % key) == value_reply(key, b"other")
        stream.set(name, b"new")
        assert client.ask(b"get %b\r\n" % name) == value_reply(name, b"new")


def test_cas_values_are_those_of_the_server(server, client, key):
    """`gets` gives a value that `cas` takes, and no other after the next write, whoever answers."""
    gets = b"gets %b\r\n" % key
    with server.connect() as stream:
        seen = set()
        for number in range(4):
            stream.set(key, b"%d" % number)
            first, again = client.ask(gets), client.ask(gets)
            assert first == again
            cas = first.split(b"\r\n")[0].split(b" ")[4]
            assert cas not in seen
            seen.add(cas)
        assert stream.ask(b"cas %b 0 0 1 %b\r\nx\r\n" % (key, cas)) == b"STORED"
        assert stream.ask(b"cas %b 0 0 1 %b\r\ny\r\n" % (key, cas)) == b"EXISTS"
    assert client.ask(b"get %b\r\n" % key) == value_reply(key, b"x")


def test_requests_other_than_gets_go_to_the_server(server, client, moved, key):
    def binary(opcode, name=b"", extras=b"", value=b""):
        body = extras + name + value
        return struct.pack(">BBHBBHIIQ", 0x80, opcode, len(name), len(extras), 0, 0, len(body), 77, 0) + body

    assert client.ask(b"set %b 0 0 5\r\nvalue\r\n" % key) == b"STORED\r\n"
    assert client.ask(b"get %b\r\nget %b\r\n" % (key, key)) == value_reply(key, b"value") * 2
    assert client.ask(b"mn\r\n") == b"MN\r\n"
    assert client.ask(b"gat 100 %b\r\n" % key) == value_reply(key, b"value")
    assert client.ask(b"get\r\n").startswith(b"CLIENT_ERROR ")
    assert client.ask(binary(0, key))[28:] == b"value"
    assert client.ask(b"get %b\n" % key) == value_reply(key, b"value")
    counted = moved()
    assert sum(count for name, count in counted.items() if name.startswith("passed")) >= 6, counted


def test_over_ipv6(server, key):
    with server.connect() as stream:
        stream.set(key, b"value")
    moved = Moved(server)
    with server.client(host=server.link.server.address6) as client:
        assert client.ask(b"get %b\r\n" % key) == value_reply(key, b"value")
        assert client.ask(b"get %b %b\r\n" % (key, b"k" * 250)) == value_reply(key, b"value")
    assert moved()["answered"] == 2


def test_bad_frames_of_memcached(server, client, moved, key):
    for total in (0, 2, 65535):
        client.send(b"get %b\r\n" % key, total=total)
    for length in range(1, 8):
        client.socket.send(b"\0\x01\0\0\0\x01\0"[:length])
    number = client.send(b"get %b\r\n" % key, sequence=9, reserved=7)  # which memcached does not look at
    assert client.receive(number) == b"END\r\n"
    client.socket.send(frame(1, b"get %b\r\n" % key)[:-1])
    assert client.ask(b"mn\r\n") == b"MN\r\n"


def test_garbage_is_survived(server, client, key):
    generator = random.Random(1)
    pieces = [
        b"get ", key, b"\r\n", b"gets ", b" ", b"\0", b"\xff", b"k" * 63, b"k" * 250, b"\r", b"\n", b"noreply"
    ]
    with server.client() as vandal:
        for _ in range(3000):
            words = b"get " + b"".join(generator.choice(pieces) for _ in range(generator.randrange(9)))
            vandal.socket.send(
                generator.choice([frame(1, words), frame(1, words + b"\r\n"), generator.randbytes(30)])
            )
    with server.client() as probe:
        until(probe.is_answered, "an answer")
    with server.connect() as stream:
        stream.set(key, b"v")
    assert client.ask(b"get %b\r\n" % key) == value_reply(key, b"v")


REQUESTS = [
    b"get a\r\n", b"get a b c none\r\n", b"gets none\r\n", b"get a a a\r\n", b"get  a  b \r\n", b"get a\n",
    b"get a b\n", b"get \r\n", b"get\r\n",
    b"get a\r\nget b\r\n", b"get a\0b\r\n", b"get a\tb\r\n", b"get a\rb\r\n", b"get a\r\r\n",
    b"get " + b"k" * 64 + b"\r\n", b"get " + b"k" * 65 + b"\r\n",
    b"get " + b"k" * 251 + b"\r\n", b"get a " + b"k" * 251 + b"\r\n", b"GET a\r\n", b"get c " * 20 + b"\r\n",
    b"get " + b"c " * 70 + b"\r\n",
    b"get \xffkey\r\n", b" get a\r\n", b"getx a\r\n", b"get  \r\n", b"get a noreply\r\n",
    b"get " + b"none " * 100 + b"a\r\n", b"get long\r\n",
    b"get empty\r\n", b"get empty a empty\r\n",
]  # fmt: skip


@pytest.fixture
def own_link(link):
    """A link of the test's own: the interface of the other has the program of the shared server."""
    with AnsweringLink() as own:
        yield own


@pytest.mark.parametrize("mode", MODES)
def test_the_bytes_are_those_of_a_server_without_it(own_link, mode):
    """Datagram by datagram, request after request: two servers of the same requests, one of them with the
    program."""
    items = {
        b"a": b"1", b"b": b"", b"c": b"x" * 300, b"empty": b"", b"long": b"l" * 1390, b"k" * 64: b"64",
        b"\xffkey": b"y"
    }

    def said(mode):
        with KernelServer(own_link, mode=mode) as server, ExitStack() as stack:
            with server.connect() as stream:
                for name, value in items.items():
                    stream.set(name, value, flags=len(value))
            client = stack.enter_context(server.client())
            replies = []
            for request in REQUESTS:
                client.send(request + (b"" if request.startswith(b"get") else b"mn\r\n"))
                datagrams, total = [], None
                while total is None or len(datagrams) < total:
                    datagrams.append(client.socket.recv(2048))
                    total = struct.unpack(">H", datagrams[-1][4:6])[0]
                replies.append(datagrams)
            return replies, server.kernel()["answered"] if mode else 0

    (without, _), (with_it, answered) = said(None), said(mode)
    for request, one, other in zip(REQUESTS, without, with_it, strict=True):
        assert one == other, request
    assert answered >= 8
