"""Waiting for streams: io_uring beside epoll, refusals of the kernel, and peers that leave in the middle."""

import ctypes
import os
import platform
import socket
import struct
import sys

import pytest

from harness import refuse
from harness.poll import until
from harness.server import command, run

EPERM, ENOSYS = 1, 38
VALUE = b"v" * 300_000


def refusing(errno):
    """Words that start the server where the kernel refuses io_uring."""
    return [sys.executable, refuse.__file__, str(errno), *command()]


def kernel_allows():
    """Returns whether this kernel lets this process have an io_uring at all."""
    parameters = ctypes.create_string_buffer(120)
    libc = ctypes.CDLL(None, use_errno=True)
    ring = libc.syscall(refuse.IO_URING_SETUP, 1, parameters)
    if ring < 0:
        return False
    os.close(ring)
    return True


needs_filter = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the numbers of system calls are another machine's"
)
needs_uring = pytest.mark.skipif(not kernel_allows(), reason="the kernel refuses io_uring")


@pytest.fixture(params=["epoll", pytest.param("io_uring", marks=needs_uring)])
def server(request, start):
    """A server of one worker with either."""
    return start("-t", "1", "-m", "64", "--io", request.param)


def backend(one):
    """Returns the event mechanism and its reason in `stats settings`."""
    with one.connect() as client:
        settings = client.stats("settings")
    return settings["io_backend"], settings["io_backend_reason"]


def test_settings_name_the_event_mechanism(server):
    used, reason = backend(server)
    assert reason == f"--io {used}"


@needs_uring
def test_auto_takes_io_uring_where_it_is_allowed(start):
    assert backend(start("--io", "auto"))[0] == "io_uring"


def test_the_default_is_epoll(start):
    assert backend(start()) == ("epoll", "--io epoll")


@needs_filter
@pytest.mark.parametrize("errno", [EPERM, ENOSYS])
def test_auto_falls_back_and_says_why(errno, start, monkeypatch):
    monkeypatch.setenv("SERVER_COMMAND", " ".join(refusing(errno)))
    one = start("--io", "auto")
    used, reason = backend(one)
    assert used == "epoll"
    assert os.strerror(errno) in reason
    assert os.strerror(errno) in one.stderr()
    with one.connect() as client:
        client.expect(b"set a 0 0 1\r\nx\r\nget a\r\n", b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n")


@needs_filter
def test_io_uring_required_but_refused_ends_the_start(monkeypatch):
    monkeypatch.setenv("SERVER_COMMAND", " ".join(refusing(EPERM)))
    ended = run("-p", "-1", "--io", "io_uring")
    assert ended.returncode == 64
    assert "--io io_uring: the kernel refuses it: Operation not permitted" in ended.stderr


def test_another_word_is_refused():
    ended = run("--io", "kqueue")
    assert ended.returncode == 64
    assert "'kqueue' is none of epoll, io_uring, auto" in ended.stderr


def test_peers_that_leave_in_the_middle_take_nothing_with_them(server):
    """Replies half sent, requests half read, bodies half come: closed by the peer, with FIN and with RST."""
    with server.connect() as client:
        client.expect(b"set big 0 0 %d\r\n%s\r\n" % (len(VALUE), VALUE), b"STORED\r\n")
        for round in range(60):
            peer = socket.create_connection(("127.0.0.1", server.port))
            peer.sendall(
                [b"get big\r\n" * 40, b"set half 0 0 200000\r\n" + b"x" * 90_000, b"get bi"][round % 3]
            )
            if round % 2:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if round % 6 == 0:
                peer.recv(1000)
            peer.close()
        client.expect(b"get big half\r\n", b"VALUE big 0 %d\r\n%s\r\nEND\r\n" % (len(VALUE), VALUE))
        until(lambda: int(client.stats()["curr_connections"]) == 1, "the peers' connections to end")


def test_peers_that_do_not_read_delay_no_other(server):
    """Each of them has more requests on the way than all receive buffers hold, and reads no reply; then they
    do."""
    with server.connect() as client:
        client.expect(b"set big 0 0 %d\r\n%s\r\n" % (len(VALUE), VALUE), b"STORED\r\n")
        line = b"get big" + b" " * 500 + b"\r\n"
        asked, slow = [], []
        for _ in range(12):
            peer = socket.create_connection(("127.0.0.1", server.port))
            peer.setblocking(False)
            sent = 0
            try:
                while sent < 400 * len(line):
                    sent += peer.send(line * 64)
            except BlockingIOError:
                pass
            asked.append(sent // len(line))
            slow.append(peer)
        for number in range(200):
            client.expect(
                b"set k%d 0 0 2\r\nok\r\nget k%d\r\n" % (number, number),
                b"STORED\r\nVALUE k%d 0 2\r\nok\r\nEND\r\n" % number,
            )
        reply = b"VALUE big 0 %d\r\n%s\r\nEND\r\n" % (len(VALUE), VALUE)
        peer = slow[0]
        peer.settimeout(60)
        peer.shutdown(socket.SHUT_WR)
        got, wanted = 0, min(asked[0], 20) * len(reply)
        while got < wanted:
            piece = peer.recv(1 << 20)
            expected = (reply * (len(piece) // len(reply) + 2))[got % len(reply) :][: len(piece)]
            assert piece == expected
            got += len(piece)
        for peer in slow:
            peer.close()


def test_the_end_after_requests_is_answered_first(server):
    """A client that says all it has to say and shuts its side down gets every reply, then the end."""
    peer = socket.create_connection(("127.0.0.1", server.port))
    peer.settimeout(60)
    peer.sendall(b"set a 0 0 1\r\nx\r\n" + b"get a\r\n" * 3000)
    peer.shutdown(socket.SHUT_WR)
    received = b""
    while piece := peer.recv(1 << 16):
        received += piece
    assert received == b"STORED\r\n" + b"VALUE a 0 1\r\nx\r\nEND\r\n" * 3000
