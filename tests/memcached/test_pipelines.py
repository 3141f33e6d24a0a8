"""Many requests at once: order, completeness, and a client that does not read what it asked for."""

import random

import pytest

from harness.memcached.wire import send_in_background
from harness.memory import resident_bytes
from harness.poll import until

MIB = 1 << 20

EVERY_MODE = True


VERBS = [
    "set", "set", "get", "get", "get", "multi", "add", "replace", "append", "delete", "incr", "quiet", "touch"
]


def mixed_requests(generator, prefix, count):
    """`count` random requests over a few keys, and the exact replies that a dictionary predicts."""
    items, requests, replies = {}, [], []
    for number in range(count):
        key = prefix + b"-%d" % generator.randrange(200)
        value = (
            b"%d" % generator.randrange(1000) if generator.random() < 0.5 else b"v" * generator.randrange(300)
        )
        request, reply = one_request(generator, items, prefix, key, value, number)
        requests.append(request)
        replies.append(reply)
    return b"".join(requests), b"".join(replies)


def one_request(generator, items, prefix, key, value, number):
    """One random request and its reply; `items` follows what the server does."""
    verb = generator.choice(VERBS)
    if verb in ("set", "add", "replace", "append"):
        request = b"%b %b %d 0 %d\r\n%b\r\n" % (verb.encode(), key, number, len(value), value)
        if verb != "set" and (key in items) == (verb == "add"):
            return request, b"NOT_STORED\r\n"
        flags, old = items.get(key, (0, b""))
        items[key] = (flags, old + value) if verb == "append" else (number, value)
        return request, b"STORED\r\n"
    if verb == "quiet":
        items[key] = (1, value)
        return b"set %b 1 0 %d noreply\r\n%b\r\n" % (key, len(value), value), b""
    if verb == "delete":
        return b"delete %b\r\n" % key, b"DELETED\r\n" if items.pop(key, None) else b"NOT_FOUND\r\n"
    if verb == "touch":
        return b"touch %b 0\r\n" % key, b"TOUCHED\r\n" if key in items else b"NOT_FOUND\r\n"
    if verb == "incr" and key not in items:
        return b"incr %b 7\r\n" % key, b"NOT_FOUND\r\n"
    if verb == "incr" and items[key][1].isdigit() and len(items[key][1]) < 18:
        flags, old = items[key]
        items[key] = (flags, b"%d" % (int(old) + 7))
        return b"incr %b 7\r\n" % key, items[key][1] + b"\r\n"
    keys = (
        [prefix + b"-%d" % generator.randrange(200) for _ in range(generator.randrange(2, 40))]
        if verb == "multi"
        else [key]
    )
    hits = b"".join(
        b"VALUE %b %d %d\r\n%b\r\n" % (k, items[k][0], len(items[k][1]), items[k][1])
        for k in keys
        if k in items
    )
    return b"get " + b" ".join(keys) + b"\r\n", hits + b"END\r\n"


@pytest.mark.parametrize("seed", range(4))
def test_ten_thousand_mixed_requests_in_one_pipeline(client, key, seed):
    requests, expected = mixed_requests(random.Random(seed), key, 10_000)
    sender = send_in_background(client, requests)
    received = client.exactly(len(expected))
    sender.join()
    if received != expected:
        at = next(i for i, (a, b) in enumerate(zip(received, expected, strict=True)) if a != b)
        pytest.fail(
            f"at byte {at}: ...{received[max(0, at - 200) : at + 100]!r}, "
            f"expected ...{expected[max(0, at - 200) : at + 100]!r}"
        )
    client.expect(b"", b"")


def test_a_multi_get_of_100_000_keys(server, client, key):
    keys = [b"%b-%d" % (key, i) for i in range(100_000)]
    present = keys[::10]
    client.send(
        b"".join(b"set %b 3 0 8 noreply\r\nvalue-%02d\r\n" % (k, i % 100) for i, k in enumerate(present))
    )
    assert client.ask(b"mn\r\n") == b"MN"
    before = resident_bytes(server.pid)
    expected = (
        b"".join(b"VALUE %b 3 8\r\nvalue-%02d\r\n" % (k, i % 100) for i, k in enumerate(present)) + b"END\r\n"
    )
    sender = send_in_background(client, b"get " + b" ".join(keys) + b"\r\n")
    assert client.exactly(len(expected)) == expected
    sender.join()
    client.expect(b"get %b\r\n" % key, b"END\r\n")
    assert resident_bytes(server.pid) < before + 8 * MIB


def test_a_client_that_does_not_read(start, workers, key):
    """It is stopped, not buffered without end; others go on; when it reads at last, everything is there."""
    server = start("-t", workers, "-m", "64")
    value = random.Random(7).randbytes(512 * 1024)
    reply = b"VALUE %b 0 %d\r\n%b\r\nEND\r\n" % (key, len(value), value)
    count = 600
    with server.connect() as others, server.connect(receive_buffer_bytes=65536) as lazy:
        others.set(key, value)
        before = resident_bytes(server.pid)
        sender = send_in_background(lazy, b"get %b\r\n" % key * count)
        for i in range(2000):
            others.set(b"%b-%d" % (key, i), b"x")
            assert others.get(b"%b-%d" % (key, i)) == b"x"
        assert resident_bytes(server.pid) < before + 32 * MIB
        for i in range(count):
            assert lazy.exactly(len(reply)) == reply, f"reply {i}"
        sender.join()
        lazy.expect(b"get nothing\r\n", b"END\r\n")


def test_a_client_that_floods_without_reading(start, workers, key):
    """Requests without end and no reading: the server stops taking them, and its memory stays where it was.
    """
    server = start("-t", workers, "-m", "64")
    with server.connect() as others, server.connect() as lazy:
        others.set(key, b"x" * 1000)
        before = resident_bytes(server.pid)
        lazy.socket.setblocking(False)
        flood = b"get %b\r\n" % key * 10_000
        sent = 0
        refused = 0

        def stopped():
            nonlocal sent, refused
            try:
                sent += lazy.socket.send(flood)
                refused = 0
            except BlockingIOError:
                refused += 1
            return refused >= 100  # as many polls in a row without room for a single byte

        until(stopped, "the server to stop taking requests")
        assert resident_bytes(server.pid) < before + 32 * MIB
        for i in range(100):
            others.set(b"%b-%d" % (key, i), b"y")
        assert others.get(key) == b"x" * 1000
    with server.connect() as later:
        assert later.get(key) == b"x" * 1000


def test_a_flooding_client_that_leaves(start, workers, key):
    server = start("-t", workers, "-m", "64")
    with server.connect() as others:
        others.set(key, b"x" * 100_000)
        for _ in range(20):
            with server.connect() as lazy:
                lazy.send(b"get %b\r\n" % key * 500)
        until(lambda: int(server.stats()["curr_connections"]) <= 3, "the connections to be closed")
        assert others.get(key) == b"x" * 100_000
