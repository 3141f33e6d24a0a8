"""A restart in place: `micanite ctl restart`, SIGUSR2. What was acknowledged stays, and nobody is refused."""

import contextlib
import os
import re
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.memcached.tls import Authority, TlsConnection, serving
from harness.memcached.wire import Connection
from harness.network.claims import free_port
from harness.poll import until
from harness.server import run_ctl

RESTARTS = 10
KEYS_PER_CLIENT = 50


class Client(threading.Thread):
    """Writes and reads its own keys without a pause, and connects again when the server ends a connection."""

    def __init__(self, connect, name):
        super().__init__(daemon=True)
        self.connect_once, self.prefix = connect, name
        self.ended = threading.Event()
        self.failure = None
        self.acknowledged, self.doubtful = {}, {}
        self.connections = self.requests = 0
        self.gap_max_s = 0.0
        self.served = time.monotonic()

    def run(self):
        try:
            while not self.ended.is_set():
                self.converse()
        except BaseException as error:  # told by the main thread
            self.failure = error

    def converse(self):
        """One connection, until it ends. To be refused is a failure; to be closed is not."""
        with self.connect_once() as connection:
            self.connections += 1
            file = connection.makefile("rb")
            while not self.ended.is_set():
                number = self.requests % KEYS_PER_CLIENT
                key, value = b"%b-%d" % (self.prefix, number), b"%d" % self.requests
                try:
                    connection.sendall(b"set %b 0 0 %d\r\n%b\r\nget %b\r\n" % (key, len(value), value, key))
                    stored = file.readline()
                    if stored:
                        assert stored == b"STORED\r\n", stored
                        self.acknowledged[key] = value
                        self.doubtful.pop(key, None)
                    else:
                        self.doubtful[key] = value
                        return
                    found = file.readline()
                    if not found:
                        return
                    assert found == b"VALUE %b 0 %d\r\n" % (key, len(value)), found
                    assert file.read(len(value) + 7) == value + b"\r\nEND\r\n"
                except (ConnectionResetError, BrokenPipeError):
                    if self.acknowledged.get(key) != value:
                        self.doubtful[key] = value
                    return
                now = time.monotonic()
                self.gap_max_s = max(self.gap_max_s, now - self.served)
                self.served = now
                self.requests += 1


def check(server, client):
    """Everything acknowledged is there; a write without an answer may have happened or not."""
    with server.connect() as connection:
        for key, value in client.acknowledged.items():
            assert connection.get(key) in {value, client.doubtful.get(key, value)}, key


@pytest.mark.parametrize(
    ("kind", "io", "semantics"),
    [
        ("tcp", "epoll", "cache"), ("tcp", "epoll", "store"), ("unix", "epoll", "store"),
        ("tcp", "auto", "cache"), pytest.param("unix", "epoll", "cache", marks=pytest.mark.full),
        pytest.param("tcp", "auto", "store", marks=pytest.mark.full),
    ],
)
def test_clients_run_through_restarts(start, tmp_path, workers, semantics, kind, io):
    socket_file = tmp_path / "socket"
    where = ["-s", socket_file] if kind == "unix" else []
    server = start(
        "-t", workers, "-m", "64", "--semantics", semantics, "--io", io, "--image", tmp_path / "image", *where
    )

    def connect():
        connection = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
        connection.settimeout(30)
        connection.connect(str(socket_file) if kind == "unix" else server.address)
        return connection

    clients = [Client(connect, b"client-%d" % number) for number in range(4)]
    for client in clients:
        client.start()
    for _ in range(RESTARTS):
        before = [client.requests for client in clients]
        done = server.ctl("restart")
        assert done.returncode == 0 and done.stdout.startswith("restarted in "), done

        def are_served(before=before):
            assert not [client.failure for client in clients if client.failure]
            return all(client.requests > count for client, count in zip(clients, before, strict=True))

        until(are_served, "every client to be served again")
    for client in clients:
        client.ended.set()
    for client in clients:
        client.join(30)
        assert client.failure is None
        assert client.connections > 1
        check(server, client)
    assert server.alive() and int(server.stats()["pid"]) == server.pid
    gap_ms = 1000 * max(client.gap_max_s for client in clients)
    requests = sum(client.requests for client in clients)
    print(
        f"{RESTARTS} restarts under {requests} sets and gets: "
        f"the longest wait of a client was {gap_ms:.0f} ms"
    )


def restarts(server):
    """Returns how often the server said that it was restarted."""
    return server.stderr().count("restarted in ")


def test_a_signal_restarts_it(start, tmp_path, key):
    server = start("-t", "2", "-m", "64", "--image", tmp_path / "image", "-P", tmp_path / "pid")
    with server.connect() as client:
        client.set(key, b"x")
        os.kill(server.pid, signal.SIGUSR2)
        assert client.rest() == b""
    until(lambda: restarts(server) == 1, "the restart")
    with server.connect() as client:
        assert client.get(key) == b"x"
    assert int((tmp_path / "pid").read_text()) == server.pid
    os.kill(server.pid, signal.SIGTERM)
    assert server.wait_for_end() == 0
    assert not (tmp_path / "pid").exists()


def test_a_flush_that_is_due_later_is_done_after_a_restart(start, tmp_path, key):
    server = start("-t", "2", "-m", "64", "--image", tmp_path / "image")
    with server.connect() as client:
        client.set(key, b"x")
        assert client.ask(b"flush_all 2\r\n") == b"OK"
        assert server.ctl("restart").returncode == 0
    with server.connect() as client:
        until(lambda: client.get(key) is None, "the flush")


def test_without_an_image_it_has_to_be_forced(start, key):
    server = start("-t", "1", "-m", "64")
    with server.connect() as client:
        client.set(key, b"x")
        refused = server.ctl("restart")
        assert refused.returncode == 1 and "--image" in refused.stderr
        os.kill(server.pid, signal.SIGUSR2)
        until(lambda: "no restart: there is no --image" in server.stderr(), "the refusal of the signal")
        assert client.get(key) == b"x"
    assert server.ctl("restart", "--force").returncode == 0
    with server.connect() as client:
        assert client.get(key) is None


def test_a_restart_without_its_image_has_to_be_forced(start, tmp_path, key):
    """A line that was lost from the configuration once emptied the server."""
    config = tmp_path / "micanite.toml"
    config.write_text(f'image = "{tmp_path / "image"}"\n')
    server = start("-t", "1", "-m", "64", "--config", config)
    with server.connect() as client:
        client.set(key, b"x")
        config.write_text("threads = 1\n")
        refused = server.ctl("restart")
        assert refused.returncode == 1 and "keeps its items in an image" in refused.stderr, refused
        assert client.get(key) == b"x"
    assert server.ctl("restart", "--force").returncode == 0
    with server.connect() as client:
        assert client.get(key) is None


def test_a_program_that_would_not_start_is_refused(start, tmp_path, key):
    """The options are read again from their file: what is wrong there ends nothing."""
    config = tmp_path / "micanite.toml"
    config.write_text('max-connections = "100"\n')
    server = start("-t", "1", "-m", "64", "--image", tmp_path / "image", "--config", config)
    with server.connect() as client:
        client.set(key, b"x")
        config.write_text('max-connections = "many"\n')
        refused = server.ctl("restart")
        assert refused.returncode == 1
        assert "would not start" in refused.stderr and "max-connections" in refused.stderr
        assert client.get(key) == b"x"
        config.write_text('max-connections = "200"\n')
        assert server.ctl("restart").returncode == 0
        assert client.rest() == b""
    with server.connect() as client:
        assert client.get(key) == b"x"
    assert server.stats()["max_connections"] == "200"


def test_secrets_that_cannot_be_read_are_refused(start, tmp_path, key):
    """Passwords and certificates are tried as well: a server does not end for a file that went bad."""
    authority, users = Authority(tmp_path), tmp_path / "users"
    files = ["--tls-cert", authority.chain, "--tls-key", authority.key, "-Y", users]
    users.write_text("user:secret\n")
    server = serving(start, "-t", "1", "-m", "64", "--image", tmp_path / "image", *files)
    users.write_text("nobody\n")
    refused = server.ctl("restart")
    assert (
        refused.returncode == 1
        and "would not start" in refused.stderr
        and "malformed entry in line 1" in refused.stderr
    )
    users.write_text("user:secret\n")
    chain = authority.chain.read_bytes()
    authority.chain.write_bytes(b"")
    refused = server.ctl("restart")
    assert refused.returncode == 1 and "there is no certificate in it" in refused.stderr
    with TlsConnection(server.address, authority.context()) as connection:
        assert connection.ask(b"set %s 0 0 11\r\nuser secret\r\n" % key) == b"STORED"
    authority.chain.write_bytes(chain)
    assert server.ctl("restart").returncode == 0


def test_a_request_that_was_read_is_answered(start, tmp_path, key):
    """A value that the client takes slowly is sent to its end before the server restarts."""
    size = 20 << 20
    server = start(
        "-t", "2", "-m", "256", "-I", "32m", "--image", tmp_path / "image", "--drain-seconds", "60"
    )
    with server.connect() as writer:
        writer.set(key, b"x" * size)
    with server.connect() as reader:
        reader.send(b"get %b\r\n" % key)
        assert reader.line() == b"VALUE %b 0 %d" % (key, size)
        os.kill(server.pid, signal.SIGUSR2)
        until(lambda: "restarting when" in server.stderr(), "the restart to begin")
        with server.connect() as waiting:  # in the queue of the listening socket
            waiting.send(b"mn\r\n")
            assert reader.exactly(size) == b"x" * size
            assert reader.rest() == b"\r\nEND\r\n"
            assert waiting.line() == b"MN"


def test_a_restart_closes_connections_that_do_not_finish(start, tmp_path, key):
    server = start("-t", "2", "-m", "64", "--image", tmp_path / "image", "--drain-seconds", "1")
    with server.connect() as unread, server.connect() as other:
        other.set(key, b"x" * 500_000)
        unread.send(b"get %b\r\n" % key * 100)
        assert unread.line() == b"VALUE %b 0 500000" % key
        assert server.ctl("restart").returncode == 0
    assert re.search(r"\d+ connections have not ended in time", server.stderr())
    with server.connect() as client:
        assert client.get(key) == b"x" * 500_000


# Input that keeps no server from ending: half a line, of each protocol; a value that stops.
PIECES = {
    "nothing": b"",
    "a letter": b"g",
    "half a line": b"get key",
    "half a multi-get": b"get " + b"key " * 1000,
    "half a header": b"\x80\x00\x00",
    "a value that stops": b"set key 0 0 100\r\nx",
    "a long value that stops": b"set key 0 0 1000000\r\n" + b"x" * 100_000,
    "a refused value that stops": b"set key 0 0 10000000\r\nx",
    "a binary value that stops": bytes.fromhex("800100030800000000000010") + bytes(20) + b"key",
}


@pytest.mark.parametrize("ending", ["restart", "USR1"])
def test_a_client_that_does_not_go_on_delays_no_end(start, tmp_path, ending):
    """The deadline of the test is far below --drain-seconds."""
    server = start("-t", "2", "-m", "64", "--image", tmp_path / "image", "--drain-seconds", "86400")
    with contextlib.ExitStack() as stack:
        for piece in PIECES.values():
            stack.enter_context(server.connect()).send(piece)
        sent = sum(map(len, PIECES.values()))
        until(lambda: int(server.stats()["bytes_read"]) >= sent, "all pieces to be read")
        if ending == "restart":
            assert server.ctl("restart").returncode == 0
        else:
            os.kill(server.pid, signal.SIGUSR1)
            assert server.wait_for_end() == 0
    assert "have not ended in time" not in server.stderr()


def test_clients_that_have_not_logged_in_delay_no_restart(start, tmp_path):
    users = tmp_path / "users"
    users.write_text("user:secret\n")
    image = ["--image", tmp_path / "image", "--drain-seconds", "86400"]
    server = start("-t", "2", "-m", "64", "-Y", users, *image, ready=False)
    until(lambda: "ready" in server.stderr(), "the server to be ready")
    address = ("127.0.0.1", server.ports()["TCP"])
    with contextlib.ExitStack() as stack:
        for piece in [b"", b"g", b"set key 0 0 1000\r\n", b"get k\r\n" * 5000]:
            stack.enter_context(Connection(address)).send(piece)
        assert run_ctl("restart", "-p", address[1], **server.places()).returncode == 0


def test_an_end_asked_for_meanwhile_wins(start, tmp_path, key):
    server = start("-t", "1", "-m", "64", "--image", tmp_path / "image", "--drain-seconds", "60")
    with server.connect() as unread:
        unread.set(key, b"x" * 500_000)
        unread.send(b"get %b\r\n" % key * 100)
        assert unread.line() == b"VALUE %b 0 500000" % key
        os.kill(server.pid, signal.SIGUSR2)
        until(lambda: "restarting when" in server.stderr(), "the restart to begin")
        os.kill(server.pid, signal.SIGTERM)
        assert server.wait_for_end() == 0
    assert restarts(server) == 0


def test_restarts_that_are_asked_for_at_once_take_turns(start, tmp_path, key):
    """Each tries the program out, which binds the new port; a second trial beside it could not."""
    config = tmp_path / "micanite.toml"
    config.write_text("")
    image = ["--image", tmp_path / "image", "--config", config, "--control-socket", tmp_path / "ctl"]
    server = start("-t", "1", "-m", "64", *image)
    with server.connect() as client:
        client.set(key, b"x")
    config.write_text(f"admin = '{free_port()}'\n")
    ask = ["restart", "--socket", tmp_path / "ctl"]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: run_ctl(*ask), range(4)))
    refused = [answer.stderr for answer in answers if answer.returncode != 0]
    assert len(refused) < 4 and not [text for text in refused if "would not start" in text], refused
    with server.connect() as client:
        assert client.get(key) == b"x"


def test_a_changed_port_is_opened_and_the_old_one_closed(start, tmp_path, key):
    config, socket_file = tmp_path / "micanite.toml", tmp_path / "socket"
    config.write_text(f'unix-socket = "{socket_file}"\n')
    options = [
        "-m", "64", "--image", tmp_path / "image", "--config", config, "--control-socket", tmp_path / "ctl"
    ]
    server = start("-p", "-1", "-t", "1", *options)
    port = server.port
    with server.connect() as client:
        client.set(key, b"x")
    config.write_text("")
    assert run_ctl("restart", "--socket", tmp_path / "ctl").returncode == 0
    assert not socket_file.exists()
    assert server.ports()["TCP"] == port
    with server.connect() as client:
        assert client.get(key) == b"x"


def test_a_unix_socket_has_the_permissions_that_are_asked_for_now(start, tmp_path):
    config, path = tmp_path / "micanite.toml", tmp_path / "socket"
    config.write_text('unix-mask = "0777"\n')
    server = start("-t", "1", "-m", "64", "--image", tmp_path / "image", "-s", path, "--config", config)
    assert path.stat().st_mode & 0o777 == 0o777
    config.write_text('unix-mask = "0600"\n')
    assert server.ctl("restart").returncode == 0
    assert path.stat().st_mode & 0o777 == 0o600
    path.unlink()
    assert server.ctl("restart").returncode == 0
    assert path.stat().st_mode & 0o777 == 0o600
    assert server.connect().ask(b"mn\r\n") == b"MN"


def test_native_clients_keep_their_ports(start, tmp_path):
    server = start("-t", "2", "-m", "64", "--native", "-1", "--image", tmp_path / "image")
    before = server.ctl("directory").stdout
    assert server.ctl("restart").returncode == 0
    after = server.ctl("directory").stdout

    def ports(text):
        return [line for line in text.splitlines() if "port" in line and "generation" not in line]

    assert ports(before) == ports(after) != []
