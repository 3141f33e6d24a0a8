"""Ends of connections: a closing request gives all replies before it, then the end; no reset takes a refusal
back."""

import contextlib
import random

import pytest

from harness.memcached import binary
from harness.memcached.binary import INVALID, TEXTS, pack
from harness.memcached.tls import Authority, TlsConnection, serving
from harness.poll import until

VALUES = {b"s": b"s" * 100, b"m": b"m" * 20_000, b"l": b"l" * 400_000}
# Each ends a conversation without a reply.
ENDS = [b"quit\r\n", b"POST / HTTP/1.1\r\nHost: a\r\n\r\nget s\r\n", b"x" * 3000]
ROUNDS = 15


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """Certificates that no test changes."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(params=["epoll", "auto"])
def connect(request, start, authority, tmp_path):
    """Opens a connection of a kind: TCP, TLS, or a Unix socket."""
    options = ("-t", 1, "-m", 64, "--io", request.param)
    tls = serving(start, *options, "--tls-cert", authority.chain, "--tls-key", authority.key)
    kinds = {
        "plain": start(*options).connect,
        "unix": start(*options, "-s", tmp_path / "socket").connect,
        "tls": lambda **more: TlsConnection(tls.address, authority.context(), **more),
    }
    for kind in kinds.values():
        with kind() as connection:
            for key, value in VALUES.items():
                connection.set(key, value)
    return kinds


def to_the_end(connection, request=b"", piece_bytes=1 << 20):
    """Sends a request and reads everything until the end, in pieces. A reset fails."""
    connection.send(request)
    received = bytearray()
    while data := connection.socket.recv(piece_bytes):
        received += data
    return bytes(received)


@pytest.mark.parametrize("kind", ["plain", "unix", "tls"])
def test_a_closing_request_behind_long_values_ends_the_connection(connect, kind):
    draw = random.Random(kind)
    for _ in range(ROUNDS):
        keys = draw.choices(list(VALUES), k=draw.randrange(6))
        request = b"mn\r\n" + b"".join(b"get " + key + b"\r\n" for key in keys) + draw.choice(ENDS)
        cut = draw.randrange(len(request))
        is_slow = draw.random() < 0.3
        with connect[kind](receive_buffer_bytes=4096 if is_slow else None) as connection:
            connection.send(request[:cut])
            received = to_the_end(connection, request[cut:], 1000 if is_slow else 1 << 20)
        values = [b"VALUE %b 0 %d\r\n%b\r\nEND\r\n" % (key, len(VALUES[key]), VALUES[key]) for key in keys]
        assert received == b"MN\r\n" + b"".join(values)


@pytest.mark.parametrize("kind", ["plain", "unix", "tls"])
def test_a_refusal_that_closes_is_read_by_a_client_that_is_still_sending(connect, kind):
    """The key's bytes come after the header that is refused."""
    header, rest = pack("get", b"k" * 251)[:24], b"k" * 251
    for _ in range(ROUNDS):
        with connect[kind]() as connection:
            connection.send(header)
            for at in range(0, len(rest), 50):
                connection.send(rest[at : at + 50])
            reply = binary.read(connection)
            assert (reply.status, reply.value) == (INVALID, TEXTS[INVALID])
            assert to_the_end(connection) == b""


def test_a_client_that_does_not_end_is_closed_after_a_while(start):
    """It neither reads on nor closes, and does not keep its place."""
    server = start("-t", 1)
    with server.connect() as stays, server.connect() as other:
        assert to_the_end(stays, b"quit\r\n") == b""
        states = [value for name, value in other.stats("conns").items() if name.endswith(":state")]
        assert "conn_closing" in states
        until(lambda: other.stats()["curr_connections"] == "1", "the place to be free")


def test_a_client_beyond_the_limit_reads_why_it_is_refused(start):
    server = start("-t", 1, "-c", 1, "-o", "maxconns_fast")
    with contextlib.ExitStack() as stack:

        def is_in():
            return stack.enter_context(server.connect()).ask(b"mn\r\n") == b"MN"

        # The connection that asked if the server is ready may not be closed yet.
        until(is_in, "a connection")
        for _ in range(ROUNDS):
            with server.connect() as refused:
                assert to_the_end(refused, b"get s\r\n" * 100) == b"ERROR Too many open connections\r\n"
