"""Requests that the network splits at any place are answered as whole ones."""

import random

import pytest

SESSION = (
    b"set K 5 0 10\r\n0123456789\r\n"
    b"get K\r\n"
    b"gets none K2\r\n"
    b"append K 0 0 3\r\nabc\r\n"
    b"get K K\r\n"
    b"set K2 0 0 1 noreply\r\n7\r\n"
    b"incr K2 3\r\n"
    b"bogus\r\n"
    b"set K 0 0 2\r\nxyz\r\n"
    b"delete K\r\n"
    b"get K\r\n"
)


def replies(connection, pieces):
    """Sends the pieces one by one, each in a packet of its own, and returns all that came back before MN."""
    for piece in pieces:
        connection.send(piece)
    connection.send(b"mn\r\n")
    return connection.lines_before(b"MN")


def test_a_session_cut_at_every_byte(server, key):
    session = SESSION.replace(b"K", key)
    with server.connect() as connection:
        whole = replies(connection, [session])
        connection.ask(b"delete %b2\r\n" % key)
        assert len(whole) > 15
        for cut in range(1, len(session)):
            assert replies(connection, [session[:cut], session[cut:]]) == whole, f"cut at {cut}"
            connection.ask(b"delete %b2\r\n" % key)


def test_a_session_byte_by_byte(server, key):
    session = SESSION.replace(b"K", key)
    with server.connect() as connection:
        whole = replies(connection, [session])
        connection.ask(b"delete %b2\r\n" % key)
        assert replies(connection, [session[i : i + 1] for i in range(len(session))]) == whole


@pytest.mark.parametrize("size", [1, 2, 100, 2050])
def test_a_value_cut_at_every_byte(client, key, size):
    """Every place of the body and of its line end; the server sees the pieces apart because it answers in
    between."""
    value = random.Random(size).randbytes(size)
    request = b"set %b 0 0 %d\r\n%b\r\n" % (key, size, value)
    step = 1 if size < 1000 else 13
    for cut in range(1, len(request), step):
        client.send(b"mn\r\n" + request[:cut])
        assert client.line() == b"MN"
        client.send(request[cut:])
        assert client.line() == b"STORED"
        assert client.get(key) == value


@pytest.mark.parametrize("seed", range(5))
def test_large_values_in_random_pieces(client, key, seed):
    generator = random.Random(seed)
    for _ in range(5):
        value = generator.randbytes(generator.choice([5000, 70_000, 300_000, 1 << 20]))
        request = b"mn\r\nset %b 0 0 %d\r\n%b\r\n" % (key, len(value), value)
        at = 0
        while at < len(request):
            count = generator.choice([1, 7, 1000, 16_384, 65_536, 200_000])
            client.send(request[at : at + count])
            at += count
        assert client.line() == b"MN"
        assert client.line() == b"STORED"
        assert client.get(key) == value


def test_a_long_multi_get_in_pieces(client, key):
    """Keys are cut in two, and the spaces between them too."""
    keys = [b"%b-%d" % (key, i) for i in range(300)]
    client.send(b"".join(b"set %b 0 0 %d noreply\r\n%b\r\n" % (k, len(k), k) for k in keys))
    request = b"gets " + b" ".join(keys) + b"\r\n"
    generator = random.Random(1)
    for _ in range(20):
        at = 0
        while at < len(request) - 1:
            count = min(generator.randint(1, 2000), len(request) - 1 - at)
            client.send(request[at : at + count])
            at += count
        found = client.values(request[at:])
        assert [(k, found[k][1]) for k in found] == [(k, k) for k in keys]
