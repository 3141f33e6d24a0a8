"""Sizes at and beyond their limits, and input that no client should send: a clear refusal, and the server
goes on."""

import random

import pytest

BAD_LINE = b"CLIENT_ERROR bad command line format"
BAD_CHUNK = b"CLIENT_ERROR bad data chunk"
TOO_LARGE = b"SERVER_ERROR object too large for cache"
MIB = 1 << 20


def serves_others(server, key):
    """Another connection is not touched by what happened on this one."""
    with server.connect() as other:
        other.set(key + b"-other", b"fine")
        assert other.get(key + b"-other") == b"fine"


@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 249, 250])
def test_keys_up_to_250_bytes(client, key, length):
    name = (key * 8)[-length:]
    client.set(name, b"value", flags=length)
    assert client.values(b"get " + name + b"\r\n") == {name: (length, b"value")}
    client.expect(b"delete " + name + b"\r\n", b"DELETED\r\n")


@pytest.mark.parametrize("length", [251, 300, 1000])
@pytest.mark.parametrize("command", ["set", "add", "replace", "append", "prepend"])
def test_a_store_with_a_longer_key_is_refused_with_its_body(client, key, command, length):
    name = (key * 30)[:length]
    client.expect(b"%b %b 0 0 10\r\nget\r\nget\r\n\r\n" % (command.encode(), name), BAD_LINE + b"\r\n")


def test_keys_of_any_byte_but_spaces_and_controls(client, key):
    for byte in [*range(33, 127), *range(128, 256)]:
        name = key + bytes([byte]) + b"end"
        client.set(name, bytes([byte]))
        assert client.values(b"get " + name + b"\r\n") == {name: (0, bytes([byte]))}


@pytest.mark.parametrize("size", [0, 1, 1000, 4096, 65535, 65536, 100_000, MIB - 1, MIB])
def test_values_up_to_a_mebibyte(client, key, size):
    value = random.Random(size).randbytes(size)
    client.set(key, value)
    assert client.get(key) == value
    client.set(key, value[::-1])
    assert client.get(key) == value[::-1]


@pytest.mark.parametrize("size", [MIB + 1, 2 * MIB, 64 * MIB])
def test_a_larger_value_is_refused_and_swallowed(server, client, key, size):
    body = b"get %b\r\n" % key * (size // (len(key) + 6) + 1)
    client.expect(b"set %b 0 0 %d\r\n%b\r\n" % (key, size, body[:size]), TOO_LARGE + b"\r\n")
    assert client.get(key) is None
    client.set(key, b"small")
    assert client.get(key) == b"small"
    client.expect(b"set %b 0 0 %d noreply\r\n%b\r\n" % (key, size, body[:size]), b"")
    serves_others(server, key)


def test_a_refused_set_leaves_no_stale_value(client, key):
    client.set(key, b"old")
    client.expect(b"set %b 0 0 %d\r\n%b\r\n" % (key, 2 * MIB, b"x" * 2 * MIB), TOO_LARGE + b"\r\n")
    assert client.get(key) is None


def test_an_append_beyond_the_limit_is_refused(client, key):
    client.set(key, b"x" * (MIB - 10))
    client.expect(b"append %b 0 0 20\r\n%b\r\n" % (key, b"y" * 20), TOO_LARGE + b"\r\n")
    client.expect(b"prepend %b 0 0 20\r\n%b\r\n" % (key, b"y" * 20), TOO_LARGE + b"\r\n")
    assert client.get(key) in (b"x" * (MIB - 10), None)


@pytest.mark.parametrize("body", [b"abc\r\n", b"abcd\r\n", b"a\r\n\r\n", b"ab\rx\r\n", b"ab\nx\r\n"])
def test_a_bad_data_chunk_stores_nothing(server, client, key, body):
    client.send(b"set %b 0 0 2\r\n%bmn\r\n" % (key, body))
    assert client.line() == BAD_CHUNK
    assert set(client.lines_before(b"MN")) <= {b"ERROR", BAD_LINE}
    assert client.get(key) is None
    serves_others(server, key)


def test_a_bad_data_chunk_is_followed_by_the_refusal_of_its_rest(client, key):
    client.expect(b"set %b 0 0 2\r\nabc\r\n" % key, BAD_CHUNK + b"\r\n" + BAD_LINE + b"\r\n")


@pytest.mark.parametrize(
    "count", [b"-1", b"-2147483648", b"4294967296", b"18446744073709551615", b"9" * 50, b"1e3", b"0x10"]
)
def test_a_wrong_length_is_refused(server, client, key, count):
    client.send(b"set %b 0 0 %b\r\n" % (key, count))
    line = client.line()
    assert line in (BAD_LINE, BAD_CHUNK, TOO_LARGE)
    if line != TOO_LARGE:
        client.expect(b"get %b\r\n" % key, b"END\r\n")
    serves_others(server, key)


@pytest.mark.parametrize("seed", range(20))
def test_binary_garbage(server, key, seed):
    """An error or a close; never a crash, and never a wait for more on complete lines."""
    generator = random.Random(seed)
    with server.connect() as connection:
        try:
            connection.send(
                generator.randbytes(generator.choice([1, 24, 100, 4000, 100_000])) + b"\r\nquit\r\nquit\r\n"
            )
            said = connection.rest()
        except (BrokenPipeError, ConnectionResetError):
            said = b""
        assert b"VALUE" not in said
    serves_others(server, key)


@pytest.mark.parametrize(
    "first", [b"\x80", b"\x81", b"\x16\x03\x01", b"\0", b"\r", b"\xff\xfe", b"*1\r\n$4\r\nPING"]
)
def test_other_protocols(server, key, first):
    with server.connect() as connection:
        connection.send(first + b"\0" * 30 + b"\r\nquit\r\n")
        connection.rest()
    serves_others(server, key)


@pytest.mark.parametrize(
    "line", [b"get a\0b", b"get\0a", b"set a\0b 0 0 1\r\nx", b"set \0 0 0 1\r\nx"]
)
def test_nul_bytes(server, client, key, line):
    client.send(line + b"\r\nmn\r\n")
    client.lines_before(b"MN")
    serves_others(server, key)


@pytest.mark.parametrize(
    "start_of_line", [b"", b"set ", b"delete ", b"bogus "], ids=["none", "set", "delete", "bogus"]
)
def test_a_line_without_end_is_refused(server, key, start_of_line):
    """The client gets an error or is closed; it is not buffered for ever."""
    with server.connect() as connection:
        try:
            connection.send(start_of_line)
            for _ in range(64):
                connection.send(b"x" * MIB)
            connection.send(b"\r\nquit\r\n")
            said = connection.rest()
        except (BrokenPipeError, ConnectionResetError):
            said = b""
        assert all(
            line.startswith((b"CLIENT_ERROR", b"ERROR", b"SERVER_ERROR")) for line in said.splitlines()
        )
    serves_others(server, key)


LINE_BYTES_MAX = 2048
LONG_WITHOUT_END = {
    "no command": b"x" * (LINE_BYTES_MAX + 1),
    "carriage return": b"x" * LINE_BYTES_MAX + b"\r",
    "set": b"set " + b" " * LINE_BYTES_MAX + b"key 0 0 1",
    "meta get": b"mg key " + b"v " * 1500,
    "101 spaces and a get": b" " * 101 + b"get " + b"key " * 600,
}


@pytest.mark.parametrize("line", LONG_WITHOUT_END.values(), ids=LONG_WITHOUT_END)
def test_a_long_line_without_its_end_closes_without_a_reply(server, key, line):
    """Only a multi-get has a reason to be longer than 2,048 bytes, so any other line is nobody's request."""
    with server.connect() as connection:
        connection.send(line)
        assert connection.rest() == b""
    serves_others(server, key)


def test_a_long_line_that_is_not_too_long_waits_for_its_end(client, key):
    """2,048 bytes may wait for their end, and multi-gets may be of any length, with a few spaces before them
    as well."""
    keys = b" ".join(b"%b-%d" % (key, number) for number in range(200))
    lines = {
        b"x" * LINE_BYTES_MAX: b"ERROR\r\n",
        b"get " + keys: b"END\r\n",
        b"gets " + keys: b"END\r\n",
        b" " * 100 + b"get " + keys: b"ERROR\r\n",
    }
    for line, reply in lines.items():
        assert client.ask(b"mn\r\n") == b"MN"  # so the line arrives alone
        client.send(line)
        with pytest.raises(TimeoutError):
            client.socket.settimeout(0.05)
            client.line()
        client.socket.settimeout(30)
        client.expect(b"\r\n", reply)


def test_a_long_line_with_its_end_is_as_others(client, key):
    """A line that has arrived completely is executed, however long it is."""
    spaces = b" " * 2 * LINE_BYTES_MAX
    client.expect(b"set %b%b 0 0 1\r\nx\r\n" % (spaces, key), b"STORED\r\n")
    client.expect(b"delete %b%b\r\n" % (key, spaces), b"DELETED\r\n")
    client.expect(b"y" * 5000 + b"\r\n", b"ERROR\r\n")
    client.expect(b"set %b 0 0 3\r\nget\r\n" % (b"k" * 5000), BAD_LINE + b"\r\n")


def test_a_key_without_end_in_a_get(server, key):
    with server.connect() as connection:
        try:
            connection.send(b"get " + b"x" * MIB + b"\r\nquit\r\n")
            said = connection.rest()
        except (BrokenPipeError, ConnectionResetError):
            said = b""
        assert all(line.startswith((b"CLIENT_ERROR", b"ERROR")) for line in said.splitlines())
    serves_others(server, key)


@pytest.mark.parametrize(
    "sent", [b"g", b"get", b"get a", b"set a 0 0 10\r\n", b"set a 0 0 10\r\nabc", b"set a 0 0 3\r\nabc\r"]
)
def test_a_client_that_leaves_in_the_middle(server, key, sent):
    for _ in range(50):
        with server.connect() as connection:
            connection.send(sent.replace(b" a", b" " + key))
    with server.connect() as connection:
        assert connection.get(key) is None


def test_smaller_item_limit(start, workers, key):
    server = start("-t", workers, "-m", "64", "-I", "2k")
    with server.connect() as client:
        client.set(key, b"x" * 1500)
        client.expect(b"set %b 0 0 3000\r\n%b\r\n" % (key, b"x" * 3000), TOO_LARGE + b"\r\n")


def test_larger_item_limit(start, workers, key):
    server = start("-t", workers, "-m", "256", "-I", "16m")
    value = random.Random(0).randbytes(15 * MIB)
    with server.connect() as client:
        client.set(key, value)
        assert client.get(key) == value
        client.expect(b"set %b 0 0 %d\r\n%b\r\n" % (key, 17 * MIB, b"x" * 17 * MIB), TOO_LARGE + b"\r\n")
