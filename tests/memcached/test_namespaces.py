"""flush_namespace: all keys that begin with a name and the delimiter are gone at once."""

import threading

import pytest

SEMANTICS = [("--semantics", "cache"), ("--semantics", "store"), ("--access", "erew")]


@pytest.fixture(params=SEMANTICS, ids=lambda options: options[1])
def server(request, start, workers):
    """A server of its own: namespaces are for all."""
    return start("-t", workers, "-m", "64", *request.param)


def put(connection, keys):
    """Stores each key under its own name."""
    connection.send(
        b"".join(b"set %b 0 0 %d noreply\r\n%b\r\n" % (key, len(key), key) for key in keys) + b"mn\r\n"
    )
    assert connection.line() == b"MN"


def found(connection, keys):
    """Returns those of the keys that are there; their values must be right."""
    values = connection.values(b"get " + b" ".join(keys) + b"\r\n")
    assert all(value == (0, key) for key, value in values.items())
    return set(values)


def test_a_namespace_is_gone_and_others_stay(server, key):
    gone = [b"%b:%d" % (key, i) for i in range(500)]
    stay = [b"%b%d:x" % (key, i) for i in range(100)] + [key, b"other:" + key, b"x" + key + b":1"]
    with server.connect() as connection:
        put(connection, gone + stay)
        assert found(connection, gone + stay) == {*gone, *stay}
        connection.expect(b"flush_namespace %b\r\n" % key, b"OK\r\n")
        assert found(connection, gone + stay) == set(stay)
        # It is as if they had never been there.
        connection.expect(b"delete %b\r\n" % gone[0], b"NOT_FOUND\r\n")
        connection.expect(b"replace %b 0 0 1\r\nx\r\n" % gone[1], b"NOT_STORED\r\n")
        connection.expect(b"append %b 0 0 1\r\nx\r\n" % gone[2], b"NOT_STORED\r\n")
        connection.expect(b"incr %b 1\r\n" % gone[3], b"NOT_FOUND\r\n")
        connection.expect(b"touch %b 100\r\n" % gone[4], b"NOT_FOUND\r\n")
        # And they can come back.
        connection.expect(b"add %b 0 0 1\r\nx\r\n" % gone[5], b"STORED\r\n")
        put(connection, gone[6:20])
        assert connection.get(gone[5]) == b"x"
        assert found(connection, gone[6:]) == set(gone[6:20])
        assert connection.stats()["cmd_flush_namespace"] == "1"


def test_every_connection_sees_it(server, key):
    connections = [server.connect() for _ in range(6)]
    names = [b"%b:%d" % (key, i) for i in range(50)]
    for turn in range(20):
        put(connections[turn % 6], names)
        assert found(connections[(turn + 1) % 6], names) == set(names)
        assert connections[(turn + 2) % 6].ask(b"flush_namespace %b\r\n" % key) == b"OK"
        for connection in connections:
            assert found(connection, names) == set()
    for connection in connections:
        connection.close()


def test_in_a_pipeline_it_stands_where_it_is_sent(server, key):
    with server.connect() as connection:
        set_and_get = b"set K:1 0 0 1\r\nx\r\nget K:1\r\n".replace(b"K", key)
        flush = b"flush_namespace K\r\nget K:1\r\n".replace(b"K", key)
        there = b"STORED\r\nVALUE %b:1 0 1\r\nx\r\nEND\r\n" % key
        connection.send((set_and_get + flush) * 200)
        expected = (there + b"OK\r\nEND\r\n") * 200
        assert connection.exactly(len(expected)) == expected


def test_noreply_and_nonsense(server, key):
    with server.connect() as connection:
        put(connection, [b"%b:1" % key])
        connection.expect(b"flush_namespace %b noreply\r\nget %b:1\r\n" % (key, key), b"END\r\n")
        connection.expect(b"flush_namespace\r\n", b"CLIENT_ERROR bad command line format\r\n")
        connection.expect(
            b"flush_namespace %b\r\n" % (b"x" * 251), b"CLIENT_ERROR bad command line format\r\n"
        )
        connection.expect(
            b"flush_namespace a:\r\n", b"CLIENT_ERROR a namespace ends before its delimiter\r\n"
        )


def test_many_at_a_time_are_refused_in_words(server, key):
    """A refused flush changes nothing; finished ones stay done."""
    with server.connect() as connection:
        names = [b"%b-%d" % (key, i) for i in range(600)]
        put(connection, [name + b":1" for name in names])
        done = []
        for name in names:
            connection.send(b"flush_namespace %b\r\n" % name)
            line = connection.line()
            if line == b"OK":
                done.append(name)
            else:
                assert line.startswith(b"SERVER_ERROR too many namespaces")
        assert len(done) >= 200
        gone = {name + b":1" for name in done}
        for at in range(0, len(names), 100):
            keys = [name + b":1" for name in names[at : at + 100]]
            assert found(connection, keys) & gone == set()
        if len(done) < len(names):
            refused = next(name for name in names if name not in done)
            assert connection.get(refused + b":1") == refused + b":1"


@pytest.mark.parametrize("letter", ["/", ".", "-"])
def test_another_delimiter(start, key, letter):
    server = start("-t", "2", "-D", letter)
    name = key.replace(b"-", b"_")
    with server.connect() as connection:
        put(connection, [name + letter.encode() + b"1", name + b":1"])
        assert connection.ask(b"flush_namespace %b\r\n" % name) == b"OK"
        assert found(connection, [name + letter.encode() + b"1", name + b":1"]) == {name + b":1"}
    assert server.stats("settings")["namespace_delimiter"] == letter


def test_while_others_write(server, key):
    """Writers of one namespace, and somebody who flushes it: after the last flush it is empty until the next
    write."""
    ending = threading.Event()
    failures = []

    def write(number):
        try:
            with server.connect() as connection:
                names = [b"%b:%d-%d" % (key, number, i) for i in range(30)]
                kept = [b"kept-%b:%d-%d" % (key, number, i) for i in range(30)]
                while not ending.is_set():
                    put(connection, names + kept)
                    assert found(connection, names + kept) >= set(kept)
        except BaseException as error:
            failures.append(repr(error))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    with server.connect() as connection:
        for _ in range(100):
            assert connection.ask(b"flush_namespace %b\r\n" % key) == b"OK"
        ending.set()
        for writer in writers:
            writer.join(60)
        assert failures == []
        assert connection.ask(b"flush_namespace %b\r\n" % key) == b"OK"
        names = [b"%b:%d-%d" % (key, number, i) for number in range(4) for i in range(30)]
        assert found(connection, names) == set()
