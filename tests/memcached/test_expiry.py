"""Items that leave by time: relative, absolute and negative expiry times, touch, flush_all with a delay."""

import time

import pytest

from harness.memcached import binary
from harness.poll import until

FAR_S = 1000
PAST = 1_000_000_000  # a Unix time long ago, and too large to be taken as a relative one


def gone(connection, key):
    """Returns whether a key has no value."""
    return connection.get(key) is None


@pytest.mark.parametrize("exptime", [-1, -100000, PAST])
def test_already_expired(client, key, exptime):
    client.set(key, b"x", exptime=exptime)
    assert gone(client, key)
    client.expect(b"add %b 0 0 1\r\ny\r\n" % key, b"STORED\r\n")
    assert client.get(key) == b"y"


def test_an_expired_set_removes_the_item(client, key):
    client.set(key, b"old")
    client.set(key, b"new", exptime=-1)
    assert gone(client, key)


@pytest.mark.parametrize("command", ["set", "add", "replace", "touch", "gat", "cas"])
def test_expires_after_a_second(client, key, command):
    if command != "add":
        client.set(key, b"old")
    request = {
        "touch": lambda: b"touch K 1\r\n",
        "gat": lambda: b"gat 1 K\r\n",
        "cas": lambda: b"cas K 0 1 1 %d\r\nx\r\n" % client.cas(key),
    }.get(command, lambda: b"%b K 0 1 1\r\nx\r\n" % command.encode())()
    client.send(request.replace(b"K", key) + b"mn\r\n")
    client.lines_before(b"MN")
    until(lambda: gone(client, key), "the item to expire")
    client.expect(b"replace %b 0 0 1\r\nx\r\n" % key, b"NOT_STORED\r\n")
    client.expect(b"append %b 0 0 1\r\nx\r\n" % key, b"NOT_STORED\r\n")
    client.expect(b"cas %b 0 0 1 1\r\nx\r\n" % key, b"NOT_FOUND\r\n")
    client.expect(b"incr %b 1\r\n" % key, b"NOT_FOUND\r\n")
    client.expect(b"touch %b 100\r\n" % key, b"NOT_FOUND\r\n")
    client.expect(b"delete %b\r\n" % key, b"NOT_FOUND\r\n")


def test_absolute_time(client, key):
    client.set(key, b"x", exptime=int(time.time()) + FAR_S)
    assert client.get(key) == b"x"
    client.set(key, b"x", exptime=int(time.time()) + 2)
    until(lambda: gone(client, key), "the item to expire")


@pytest.mark.parametrize("semantics", ["cache", "store"])
@pytest.mark.parametrize("exptime", [1 << 31, (1 << 32) - 2])
def test_a_date_after_2038_is_kept(start, key, semantics, exptime):
    """memcached takes such a date for a negative number: the item is stored, and gone at once."""
    server = start("-t", "1", "-m", "64", "--semantics", semantics)
    left_s = exptime - int(time.time())
    with server.connect() as client, server.connect() as other:
        other.send(binary.store(0x01, key + b"-b", b"x", exptime=exptime))
        client.set(key + b"-set", b"x", exptime=exptime)
        client.expect(b"ms %b-ms 1 T%d\r\nx\r\n" % (key, exptime), b"HD\r\n")
        client.set(key + b"-touch", b"x", exptime=FAR_S)
        client.expect(b"touch %b-touch %d\r\n" % (key, exptime), b"TOUCHED\r\n")
        client.set(key + b"-gat", b"x", exptime=FAR_S)
        assert client.values(b"gat %d %b-gat\r\n" % (exptime, key))
        until(lambda: client.get(key + b"-b") == b"x", "the item of the binary protocol")
        for name in (b"-b", b"-set", b"-ms", b"-touch", b"-gat"):
            client.send(b"mg %b%b t\r\n" % (key, name))
            found = int(client.line().split()[1][1:])
            assert left_s - 600 < found <= left_s


def test_minus_one_of_32_bits_is_in_the_past(client, key):
    """libmemcached writes -1 so, which Django sends for a timeout of zero."""
    client.set(key, b"x", exptime=(1 << 32) - 1)
    assert gone(client, key)
    client.set(key, b"x")
    client.expect(b"touch %b %d\r\n" % (key, (1 << 32) - 1), b"TOUCHED\r\n")
    assert gone(client, key)


@pytest.mark.parametrize("exptime", [1 << 32, (1 << 32) + 1, (1 << 63) - 1])
def test_a_date_that_the_clock_does_not_reach_is_never(client, key, exptime):
    """memcached keeps the lower 32 bits of such a number."""
    client.set(key, b"x", exptime=exptime)
    client.expect(b"mg %b t\r\n" % key, b"HD t-1\r\n")
    client.expect(b"touch %b %d\r\n" % (key, exptime), b"CLIENT_ERROR invalid exptime argument\r\n")


@pytest.mark.parametrize("exptime", [0, FAR_S, 30 * 24 * 3600, 30 * 24 * 3600 - 1])
def test_stays(client, key, exptime):
    client.set(key, b"x", exptime=exptime)
    client.set(key + b"-short", b"x", exptime=1)
    until(lambda: gone(client, key + b"-short"), "the neighbour to expire")
    assert client.get(key) == b"x"


@pytest.mark.parametrize(
    "request_", [b"append K 0 0 1\r\n2", b"prepend K 0 0 1\r\n2", b"incr K 1", b"decr K 1"]
)
def test_a_change_in_part_keeps_the_expiry_time(client, key, request_):
    client.set(key + b"-never", b"1")
    assert client.ask(request_.replace(b"K", key + b"-never") + b"\r\n") in (b"STORED", b"2", b"0")
    # In one batch, so at one time.
    assert client.ask(b"set %b 0 2 1\r\n1\r\n" % key + request_.replace(b"K", key) + b"\r\n") == b"STORED"
    assert client.line() in (b"STORED", b"2", b"0")
    until(lambda: gone(client, key), "the item to expire")
    assert client.get(key + b"-never") in (b"12", b"21", b"2", b"0")


@pytest.mark.parametrize(
    "request_", [b"touch K 0", b"gat 0 K", b"gats 1000 K", b"set K 0 0 1\r\nx", b"touch K 1000"]
)
def test_a_new_expiry_time_replaces_the_old(client, key, request_):
    client.set(key + b"-short", b"x", exptime=2)
    # In one batch, so at one time.
    client.send(b"set %b 0 2 1\r\nx\r\n" % key + request_.replace(b"K", key) + b"\r\nmn\r\n")
    client.lines_before(b"MN")
    until(lambda: gone(client, key + b"-short"), "the neighbour to expire")
    assert client.get(key) == b"x"


@pytest.mark.parametrize("request_", [b"touch K -1", b"gat -1 K"])
def test_touched_into_the_past(client, key, request_):
    client.set(key, b"x")
    client.send(request_.replace(b"K", key) + b"\r\nmn\r\n")
    client.lines_before(b"MN")
    assert gone(client, key)


def test_flush_all(client, key):
    keys = [b"%b-%d" % (key, i) for i in range(100)]
    client.send(b"".join(b"set %b 0 0 1 noreply\r\nx\r\n" % k for k in keys))
    assert len(client.values(b"get " + b" ".join(keys) + b"\r\n")) == 100
    client.expect(b"flush_all\r\n", b"OK\r\n")
    client.expect(b"get " + b" ".join(keys) + b"\r\n", b"END\r\n")
    client.set(keys[0], b"again")
    assert client.get(keys[0]) == b"again"
    client.expect(b"flush_all noreply\r\n", b"")
    assert gone(client, keys[0])
    client.set(keys[1], b"again")
    client.expect(b"flush_all 0\r\n", b"OK\r\n")
    assert gone(client, keys[1])
    client.set(keys[2], b"again")
    client.expect(b"flush_all -10\r\n", b"OK\r\n")
    assert gone(client, keys[2])


def test_flush_all_keeps_the_writes_that_follow_it_in_one_pipeline(client, key):
    keys = [b"%b-%d" % (key, i) for i in range(200)]
    sets = b"".join(b"set %b 0 0 1 noreply\r\nx\r\n" % k for k in keys)
    for _ in range(20):
        client.send(sets + b"flush_all noreply\r\n" + sets + b"mn\r\n")
        assert client.line() == b"MN"
        assert len(client.values(b"get " + b" ".join(keys) + b"\r\n")) == 200


def test_flush_all_with_a_delay(start, workers, key):
    server = start("-t", workers, "-m", "64")
    with server.connect() as client:
        keys = [b"%b-%d" % (key, i) for i in range(100)]
        client.send(b"".join(b"set %b 0 0 1 noreply\r\nx\r\n" % k for k in keys))
        # In one batch, so at one time.
        assert len(client.values(b"flush_all 2 noreply\r\nget " + b" ".join(keys) + b"\r\n")) == 100
        until(lambda: not client.values(b"get " + b" ".join(keys) + b"\r\n"), "flush_all to take effect")
        client.set(key, b"later")
        assert client.get(key) == b"later"
