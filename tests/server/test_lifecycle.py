"""The process: how it starts, listens, refuses, and ends."""

import contextlib
import os
import signal
import socket
import stat
import subprocess

import pytest

from harness.network.claims import free_port
from harness.poll import until
from harness.server import command, environment, run

STOPS = {signal.SIGTERM: 0, signal.SIGINT: 0, signal.SIGUSR1: 0}


@pytest.mark.parametrize("number", STOPS, ids=lambda number: number.name)
def test_signals_end_it_cleanly(start, workers, key, number):
    server = start("-t", workers, "-m", "64")
    with server.connect() as busy, server.connect() as idle:
        busy.set(key, b"x")
        os.kill(server.pid, number)
        assert server.wait_for_end() == STOPS[number]
        assert busy.rest() == b"" and idle.rest() == b""
    assert "panic" not in server.stderr()


def test_a_signal_under_load(start, workers, key):
    server = start("-t", workers, "-m", "64")
    with server.connect() as client:
        client.set(key, b"x" * 1000)
        client.send(b"get %b\r\n" % key * 10_000)
        os.kill(server.pid, signal.SIGTERM)
        assert server.wait_for_end() == 0


def test_hangup_does_not_end_it(start, key):
    server = start("-t", "1", "-m", "64")
    with server.connect() as client:
        client.set(key, b"x")
        os.kill(server.pid, signal.SIGHUP)
        for _ in range(100):
            assert client.get(key) == b"x"
    assert server.alive()


def test_a_taken_port(start):
    first = start("-t", "1", "-m", "64")
    second = run("-p", first.port, "-t", "1", "-m", "64")
    assert second.returncode not in (0, None)
    assert str(first.port) in second.stderr
    assert "in use" in second.stderr.lower()
    assert "panicked" not in second.stderr
    with first.connect() as client:
        assert client.ask(b"mn\r\n") == b"MN"


def test_a_port_can_be_taken_again_at_once(start, key):
    """Connections that linger from the process before do not keep the next one from starting."""
    port = free_port()
    for _ in range(3):
        server = start("-p", port, "-t", "2", "-m", "64", ready=False)
        server.port = port
        server.wait_until_ready()
        with server.connect() as client:
            client.set(key, b"x")
            os.kill(server.pid, signal.SIGTERM)
            assert server.wait_for_end() == 0


def test_it_listens_on_loopback_only(start):
    server = start("-t", "2", "-m", "64")
    listening = {"0A": []}
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{server.pid}/net/{table}") as lines:
            for fields in (line.split() for line in list(lines)[1:]):
                address, _, port = fields[1].partition(":")
                if fields[3] == "0A" and int(port, 16) == server.port:
                    listening["0A"].append(address)
    assert listening["0A"], "it listens nowhere"
    assert set(listening["0A"]) == {"0100007F"}


def test_it_opens_no_udp_port(start):
    server = start("-t", "1", "-m", "64")
    assert "UDP" not in server.ports()
    links = []
    for fd in os.listdir(f"/proc/{server.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            links.append(os.readlink(f"/proc/{server.pid}/fd/{fd}"))
    sockets = {link[8:-1] for link in links if link.startswith("socket:[")}
    for table in ("udp", "udp6"):
        with open(f"/proc/{server.pid}/net/{table}") as lines:
            assert not sockets & {line.split()[9] for line in list(lines)[1:]}


@pytest.mark.parametrize("mask", [None, "700", "777", "660"])
def test_a_unix_socket(start, workers, tmp_path, key, mask):
    path = tmp_path / "micanite.socket"
    server = start("-t", workers, "-m", "64", "-s", path, *(["-a", mask] if mask else []))
    assert stat.S_IMODE(path.stat().st_mode) == int(mask or "700", 8)
    connections = [server.connect() for _ in range(8)]
    for connection in connections:
        connection.set(key, b"x" * 100_000)
        assert connection.get(key) == b"x" * 100_000
        connection.close()
    os.kill(server.pid, signal.SIGTERM)
    assert server.wait_for_end() == 0


def test_a_stale_unix_socket_is_replaced(start, tmp_path, key):
    path = tmp_path / "micanite.socket"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    server = start("-t", "1", "-m", "64", "-s", path)
    with server.connect() as client:
        client.set(key, b"x")


def test_a_file_in_place_of_the_unix_socket_is_kept(tmp_path):
    path = tmp_path / "precious"
    path.write_text("data")
    ended = run("-t", "1", "-m", "64", "-s", path)
    assert ended.returncode != 0
    assert str(path) in ended.stderr
    assert path.read_text() == "data"


def test_the_port_file(start):
    server = start("-p", "-1", "-t", "1", "-m", "64")
    assert (server.directory / "ports").read_text() == f"TCP INET: {server.port}\n"
    assert server.port > 0


def test_the_pid_file(start, tmp_path):
    path = tmp_path / "pid"
    server = start("-t", "1", "-m", "64", "-P", path)
    until(path.exists, "the pid file")
    assert int(path.read_text()) == server.pid == int(server.stats()["pid"])
    os.kill(server.pid, signal.SIGTERM)
    assert server.wait_for_end() == 0
    assert not path.exists()


def test_as_a_daemon(tmp_path):
    """`-d -P FILE`: the command returns, the server goes on, and the file holds its pid."""
    pid_file, path = tmp_path / "pid", tmp_path / "socket"
    with open(tmp_path / "said", "w+") as said:
        subprocess.run(
            [*command(), "-d", "-P", str(pid_file), "-s", str(path), "-t", "2", "-m", "64"],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            timeout=60,
            check=True,
            env=environment(),
        )
        until(lambda: pid_file.exists() and pid_file.read_text().strip(), "the pid file")
    pid = int(pid_file.read_text())
    try:

        def answers():
            try:
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.settimeout(60)
                    connection.connect(str(path))
                    connection.sendall(b"stats\r\nquit\r\n")
                    return b"STAT pid %d\r\n" % pid in connection.makefile("rb").read()
            except OSError:
                return False

        until(answers, "the daemon to answer")
        assert os.getsid(pid) != os.getsid(0)
    finally:
        os.kill(pid, signal.SIGTERM)
        until(lambda: not os.path.exists(f"/proc/{pid}") or zombie(pid), "the daemon to end")


def zombie(pid):
    """Returns whether a process has ended but its parent has not yet waited for it."""
    try:
        with open(f"/proc/{pid}/stat") as line:
            return line.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("request_", [b"shutdown\r\n", b"shutdown graceful\r\n"])
def test_shutdown(start, workers, request_):
    server = start("-t", workers, "-m", "64", "-A")
    with server.connect() as client:
        client.send(request_)
        assert client.rest() == b""
    assert server.wait_for_end() == 0


def test_shutdown_by_an_unknown_word_is_refused(start):
    """A slip ends no server."""
    server = start("-t", 1, "-m", "64", "-A")
    with server.connect() as client:
        for word in (b"x", b"graceful x", b"gracefully", b"noreply x"):
            client.expect(b"shutdown %b\r\n" % word, b"CLIENT_ERROR invalid shutdown mode\r\n")
        client.expect(b"shutdown noreply\r\nshutdown graceful noreply\r\n", b"")
        assert server.alive()
        client.send(b"shutdown  graceful \r\n")
        assert client.rest() == b""
    assert server.wait_for_end() == 0


def test_shutdown_needs_its_option(server, client):
    assert client.ask(b"shutdown\r\n") == b"SERVER_ERROR: shutdown not enabled"
    assert client.ask(b"mn\r\n") == b"MN"
    assert server.alive()


def test_the_connection_limit(start, workers):
    limit = 20
    server = start("-t", workers, "-m", "64", "-c", limit)
    until(lambda: int(server.stats()["curr_connections"]) <= 3, "earlier connections to be closed")
    accepted = []
    try:
        for _ in range(limit + 10):
            connection = server.connect()
            line = connection.ask(b"mn\r\n")
            if line == b"MN":
                accepted.append(connection)
            else:
                assert line == b"ERROR Too many open connections"
                assert connection.rest() == b""
                connection.close()
        assert limit - 3 <= len(accepted) <= limit
        for connection in accepted:
            assert connection.ask(b"mn\r\n") == b"MN"
        assert int(accepted[0].stats()["rejected_connections"]) >= 10

        accepted.pop().close()

        def one_more():
            with server.connect() as connection:
                return connection.ask(b"mn\r\n") == b"MN"

        until(one_more, "a place to be free again")
    finally:
        for connection in accepted:
            connection.close()


def test_connections_come_and_go(server, key):
    for i in range(2000):
        with server.connect() as connection:
            if i % 2:
                connection.send(b"set %b 0 0 1\r\nx\r\n" % key)
    with server.connect() as connection:
        assert connection.get(key) in (None, b"x")  # the last of those who left may still be on their way
        connection.set(key + b"-after", b"y")
        assert connection.get(key + b"-after") == b"y"


def test_many_connections_at_once(start, workers, key):
    server = start("-t", workers, "-m", "64", "-c", "700")
    connections = [server.connect() for _ in range(600)]
    try:
        for i, connection in enumerate(connections):
            connection.send(b"set %b-%d 0 0 4\r\n%04d\r\n" % (key, i, i))
        assert [connection.line() for connection in connections] == [b"STORED"] * 600
        for i, connection in enumerate(connections):
            assert connection.get(b"%b-%d" % (key, (i + 300) % 600)) == b"%04d" % ((i + 300) % 600)
    finally:
        for connection in connections:
            connection.close()


def test_signals_during_a_start_wait(start, tmp_path):
    """A hook that has certificates read again does not end a server that is not there yet."""
    port = free_port()
    server = start("-t", 1, "-p", port, "-m", 256, "--image", tmp_path / "image", ready=False)

    def listens():
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    until(listens, "the port to be opened")
    os.kill(server.pid, signal.SIGHUP)
    server.port = port
    server.wait_until_ready()
    until(lambda: "nothing to be read again" in server.stderr(), "the signal to be seen")
