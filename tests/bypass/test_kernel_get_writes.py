"""GETs answered in the kernel beside writes over TCP: what is written is what the next GET finds, whoever
answers it."""

import random

import pytest

from harness.network.kernel_get import AnsweringLink, KernelServer, Moved

ROUNDS = 10_000
MISS = b"END\r\n"
SETUPS = {
    "one": ("native", "-t", 1),
    "generic": ("generic", "-t", 2),
    "erew": ("native", "-t", 2, "--access", "erew"),
    "store": ("native", "-t", 2, "--semantics", "store"),
}


@pytest.fixture(scope="module")
def link():
    with AnsweringLink() as link:
        yield link


@pytest.fixture(scope="module", params=SETUPS)
def server(request, link):
    mode, *options = SETUPS[request.param]
    with KernelServer(link, *options, mode=mode) as server:
        yield server


@pytest.fixture
def tcp(server):
    with server.connect() as connection:
        yield connection


@pytest.fixture
def udp(server):
    with server.client() as client:
        yield client


def found(key, value, flags=0):
    """The reply to a GET that finds it."""
    return b"VALUE %s %d %d\r\n%s\r\nEND\r\n" % (key, flags, len(value), value)


def counted(moved):
    """Returns the hits and misses that the program has answered since."""
    counters = moved()
    return counters.get("hits", 0), counters.get("misses", 0)


def ask(tcp, text):
    """The line that answers one."""
    return tcp.ask(text + b"\r\n")


def test_each_of_many_values_is_seen_at_once(server, tcp, udp):
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    keys = [b"many-%d" % number for number in range(100)]
    moved = Moved(server)
    for number in range(ROUNDS):
        key, flags = chance.choice(keys), chance.randrange(1 << 32)
        value = (b"%d " % number) * chance.randrange(1, 180)
        tcp.set(key, value, flags)
        assert udp.ask(b"get %s\r\n" % key) == found(key, value, flags), f"seed {seed}, round {number}"
    assert counted(moved) == (ROUNDS, 0)


def test_deleted_items_are_missed(server, tcp, udp, key):
    moved = Moved(server)
    for _ in range(100):
        tcp.set(key, b"value")
        assert udp.ask(b"get %s\r\n" % key) == found(key, b"value")
        assert ask(tcp, b"delete %s" % key) == b"DELETED"
        assert udp.ask(b"get %s\r\n" % key) == MISS
    assert counted(moved) == (100, 100)


def test_flushed_items_are_missed(server, tcp, udp, key):
    keys = [b"%s-%d" % (key, number) for number in range(50)]
    for one in keys:
        tcp.set(one, b"before")
    moved = Moved(server)
    assert ask(tcp, b"flush_all") == b"OK"
    assert [udp.ask(b"get %s\r\n" % one) for one in keys] == [MISS] * len(keys)
    assert counted(moved) == (0, len(keys))
    tcp.set(keys[0], b"after")
    assert udp.ask(b"get %s\r\n" % keys[0]) == found(keys[0], b"after")


def test_values_changed_in_place_are_seen(server, tcp, udp, key):
    tcp.set(key, b"10", flags=7)
    moved = Moved(server)
    for number in range(11, 111):
        assert ask(tcp, b"incr %s 1" % key) == b"%d" % number
        assert udp.ask(b"get %s\r\n" % key) == found(key, b"%d" % number, 7)
    assert ask(tcp, b"decr %s 11" % key) == b"99"
    # memcached keeps the length of a number that gets shorter.
    assert udp.ask(b"get %s\r\n" % key) == found(key, tcp.get(key), 7)
    assert ask(tcp, b"append %s 0 0 9\r\n and more" % key) == b"STORED"
    assert ask(tcp, b"prepend %s 0 0 13\r\nno less than " % key) == b"STORED"
    assert udp.ask(b"get %s\r\n" % key) == found(key, tcp.get(key), 7)
    assert b"no less than 99" in udp.ask(b"get %s\r\n" % key)
    assert counted(moved) == (103, 0)


def test_moved_items_are_found(server, tcp, udp, key):
    """A longer value is appended elsewhere; the index grows while others are stored."""
    for length in (1, 8, 64, 512, 1024, 3):
        value = b"x" * length
        tcp.set(key, value)
        for number in range(2_000):
            tcp.send(b"set %s-%d-%d 0 0 1 noreply\r\ny\r\n" % (key, length, number))
        assert ask(tcp, b"verbosity 0") == b"OK"
        last = b"%s-%d-1999" % (key, length)
        moved = Moved(server)
        assert udp.ask(b"get %s\r\n" % key) == found(key, value)
        assert udp.ask(b"get %s\r\n" % last) == found(last, b"y")
        assert counted(moved) == (2, 0)
