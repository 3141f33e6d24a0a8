"""Hostile clients of --admin: it goes on to answer others, and so does the cache."""

import os
import socket

import pytest

from harness.admin import Admin, parts
from harness.poll import until

CONNECTIONS_MAX = 32


@pytest.fixture(scope="module")
def served():
    """One server for these tests, and its admin side."""
    from harness.server import Server

    server = Server("-t", 2, "-m", "64", "--admin", "-1")
    yield server
    assert server.alive(), server.stderr()
    server.end()


@pytest.fixture
def admin(served):
    """The admin side, which must answer afterwards as before."""
    admin = Admin(served)
    yield admin
    assert admin.text("/healthz") == "ok\n"
    with served.connect() as connection:
        assert connection.ask(b"mn\r\n") == b"MN"


GARBAGE = {
    "another protocol": b"get a\r\n",
    "TLS": bytes.fromhex("160301020001000100030300") + os.urandom(500),
    "random": os.urandom(4096),
    "zeros": bytes(4096),
    "no target": b"GET\r\n\r\n",
    "a relative target": b"GET metrics HTTP/1.1\r\n\r\n",
    "another's address": b"GET http://elsewhere/ HTTP/1.1\r\n\r\n",
    "a later version": b"GET / HTTP/2.0\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a header without a name": b"GET / HTTP/1.1\r\n: a\r\n\r\n",
    "a folded header": b"GET / HTTP/1.1\r\na: b\r\n c\r\n\r\n",
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_refused_and_ends_the_connection(admin, name):
    status, headers, _ = admin.send(GARBAGE[name])
    assert status == 400 and headers["connection"] == "close"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get"])
def test_nothing_but_reading(admin, method):
    status, headers, _ = admin.get("/metrics", method=method)
    assert status == 405 and headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "path", ["/nothing", "/metrics/", "//metrics", "/../etc/passwd", "/%2e%2e/etc/passwd", "/METRICS"]
)
def test_unknown_names_are_refused(admin, path):
    assert admin.get(path)[0] == 404


@pytest.mark.parametrize(
    "request_of_many_bytes",
    [
        b"GET /" + b"a" * 100_000,
        b"GET / HTTP/1.1\r\na: " + b"b" * 100_000,
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 100 + b"\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10_000,
    ],
    ids=["path", "header", "headers", "endless"],
)
def test_a_request_that_is_too_long(admin, request_of_many_bytes):
    status, _, body = admin.send(request_of_many_bytes)
    assert status == 431 and body


def test_a_body_is_not_waited_for_and_the_reply_arrives(admin):
    head = b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n"
    assert admin.send(head + bytes(300_000))[0] == 405


def test_one_request_for_each_connection(admin):
    with admin.connect() as connection:
        connection.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
        status, headers, body = parts(connection.rest())
    assert (status, body) == (200, b"ok\n") and headers["connection"] == "close"


def test_a_request_byte_by_byte(admin):
    with admin.connect() as connection:
        for byte in b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n":
            connection.send(bytes([byte]))
        assert parts(connection.rest())[2] == b"ok\n"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9311", "localhost.evil.example", "a b"])
def test_foreign_host_names_are_refused(admin, host):
    status, _, body = admin.get("/hotkeys", host=host)
    assert status == 421 and b"keys" not in body


@pytest.mark.parametrize("host", ["localhost:9311", "127.0.0.1", "127.0.0.1:9311", "[::1]:9311"])
def test_names_of_this_machine(admin, host):
    assert admin.get("/healthz", host=host)[0] == 200


def test_silent_connections_do_not_block_others(admin):
    silent = [admin.connect() for _ in range(3 * CONNECTIONS_MAX)]
    try:
        assert admin.text("/readyz") == "ready\n"
        # The oldest had to make room.
        until(lambda: silent[0].rest() == b"", "the oldest connection to end")
    finally:
        for connection in silent:
            connection.close()


def test_a_silent_connection_ends_by_itself(admin):
    with admin.connect() as connection:
        connection.send(b"GET /metrics HTTP/1.1\r\n")
        assert connection.rest() == b""


def test_clients_that_do_not_read_are_closed_and_do_not_block_others(admin):
    slow = [admin.connect(receive_buffer_bytes=1024) for _ in range(CONNECTIONS_MAX // 2)]
    try:
        for connection in slow:
            connection.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert admin.text("/readyz") == "ready\n"
        assert admin.sum("micanite_workers") == 2
    finally:
        for connection in slow:
            connection.close()


def test_resets_do_no_harm(admin):
    for _ in range(100):
        connection = admin.connect()
        connection.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        connection.close()


def test_memory_does_not_grow(admin):
    def resident():
        return admin.sum("process_resident_memory_bytes")

    def rounds(count):
        for _ in range(count):
            admin.send(b"GET / HTTP/1.1\r\na: " + b"b" * 100_000)
            admin.text("/metrics")

    rounds(20)
    before = resident()
    rounds(100)
    assert resident() - before < 4 << 20
