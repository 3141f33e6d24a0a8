"""Connections live on different workers, keys too: every connection sees what was acknowledged, its own
writes at once."""

import random
import threading

import pytest

from harness.failures import Hang, nothing_wrong

EVERY_MODE = True


def test_reads_its_own_writes_in_one_pipeline(client, key):
    """`set a; get a` is never reordered, whichever worker owns the key."""
    requests, expected = [], []
    for i in range(3000):
        k = b"%b-%d" % (key, i % 500)
        requests.append(b"set %b %d 0 5\r\n%05d\r\nget %b\r\n" % (k, i, i, k))
        expected.append(b"STORED\r\nVALUE %b %d 5\r\n%05d\r\nEND\r\n" % (k, i, i))
        if i % 3 == 0:
            requests.append(
                b"incr %b 1\r\ngets nothing\r\nappend %b 0 0 1 noreply\r\nx\r\nget %b\r\n" % (k, k, k)
            )
            expected.append(
                b"%d\r\nEND\r\nVALUE %b %d %d\r\n" % (i + 1, k, i, len(after(i)) + 1)
                + after(i)
                + b"x\r\nEND\r\n"
            )
        if i % 7 == 0:
            requests.append(b"delete %b\r\nget %b\r\n" % (k, k))
            expected.append(b"DELETED\r\nEND\r\n")
    client.send(b"".join(requests))
    assert client.exactly(len(b"".join(expected))) == b"".join(expected)


def after(number):
    """Returns five digits after incr by one: a number that got shorter is padded with spaces."""
    return (b"%d" % (number + 1)).ljust(5)


def test_noreply_writes_then_a_multi_get(client, key):
    keys = [b"%b-%d" % (key, i) for i in range(100)]
    for turn in range(50):
        client.send(b"".join(b"set %b 0 0 4 noreply\r\n%04d\r\n" % (k, turn) for k in keys))
        found = client.values(b"get " + b" ".join(keys) + b"\r\n")
        assert found == dict.fromkeys(keys, (0, b"%04d" % turn))


def test_connections_see_each_others_acknowledged_writes(server, key):
    """Eight connections reach every worker; each write is read by all the others as soon as it was
    acknowledged."""
    connections = [server.connect() for _ in range(8)]
    try:
        for turn in range(200):
            writer = connections[turn % 8]
            k = b"%b-%d" % (key, turn % 50)
            writer.set(k, b"%d" % turn)
            for reader in connections:
                assert reader.get(k) == b"%d" % turn
            assert connections[(turn + 3) % 8].ask(b"delete %b\r\n" % k) == b"DELETED"
            for reader in connections:
                assert reader.get(k) is None
    finally:
        for connection in connections:
            connection.close()


def test_counting_from_many_connections(server, key):
    """No increment is lost."""
    with server.connect() as connection:
        connection.set(key, b"0")
    seen = [[] for _ in range(8)]

    def count(numbers):
        with server.connect() as connection:
            for _ in range(20):
                connection.send(b"incr %b 1\r\n" % key * 50)
                numbers.extend(int(connection.line()) for _ in range(50))

    run_all([threading.Thread(target=count, args=(numbers,)) for numbers in seen])
    assert sorted(n for numbers in seen for n in numbers) == list(range(1, 8001))
    assert all(numbers == sorted(numbers) for numbers in seen)


def test_of_many_cas_one_wins(server, key):
    """Each round all connections try the same CAS number: exactly one is STORED."""
    connections = [server.connect() for _ in range(8)]
    try:
        for turn in range(100):
            connections[0].set(key, b"round %03d" % turn)
            number = connections[turn % 8].cas(key)
            for i, connection in enumerate(connections):
                connection.send(b"cas %b 0 0 1 %d\r\n%d\r\n" % (key, number, i))
            replies = [connection.line() for connection in connections]
            assert sorted(replies) == [b"EXISTS"] * 7 + [b"STORED"]
            assert connections[0].get(key) == b"%d" % replies.index(b"STORED")
    finally:
        for connection in connections:
            connection.close()


def test_add_from_many_connections_stores_once(server, key):
    connections = [server.connect() for _ in range(8)]
    try:
        for turn in range(100):
            for connection in connections:
                connection.send(b"add %b-%d 0 0 1\r\nx\r\n" % (key, turn))
            assert sorted(connection.line() for connection in connections) == [b"NOT_STORED"] * 7 + [
                b"STORED"
            ]
    finally:
        for connection in connections:
            connection.close()


@pytest.mark.parametrize("size", [8, 100, 5000, 200_000])
def test_a_reader_never_sees_half_a_write(server, key, size):
    """One connection overwrites a value in place and with other sizes; readers see one of the values, whole.
    """
    rounds = 2000 if size < 10_000 else 100
    done = threading.Event()
    torn = []

    def write():
        generator = random.Random(size)
        try:
            with server.connect() as connection:
                for i in range(rounds):
                    value = bytes([65 + i % 26]) * (size if i % 3 else generator.randrange(1, size))
                    connection.set(key, value)
        finally:
            done.set()

    def read():
        with server.connect() as connection:
            while not done.is_set():
                value = connection.get(key)
                if value is not None and value != value[:1] * len(value):
                    torn.append(value[:100])

    run_all([threading.Thread(target=work) for work in (write, read, read, read)])
    nothing_wrong(torn)


def run_all(threads):
    """Starts and joins them. A thread that fails makes the test fail (pytest reports unhandled thread
    exceptions)."""
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        if thread.is_alive():
            raise Hang("a client thread hangs")
