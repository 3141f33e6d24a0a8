"""The log: text and JSON, priorities for the journal, and limits of what clients can provoke."""

import contextlib
import json
import os
import re
import socket
import subprocess

import pytest

from harness.memcached.wire import Connection
from harness.network.claims import free_port
from harness.poll import until
from harness.server import Server, command, environment

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"


def connect_many(server, count):
    """Opens and closes this many connections, one after the other."""
    for _ in range(count):
        with server.connect() as connection:
            assert connection.ask(b"mn\r\n") == b"MN"


def opened(server):
    """Returns how many connections the server has taken, this one among them."""
    return int(server.stats()["total_connections"])


def logged(server):
    """Ends the server, and returns the objects of its lines."""
    server.end()
    return [json.loads(line) for line in server.stderr().splitlines()]


def test_an_event_has_time_level_and_peer(start):
    """The report of the start is for people; an event has what is needed to find its client."""
    server = start("-t", "1", "-m", "64", "-v")
    with server.connect() as connection:
        connection.ask(b"mn\r\n")
        peer = "{}:{}".format(*connection.socket.getsockname())
    until(lambda: f"peer={peer} reason=normal" in server.stderr(), "the end of the connection")
    server.end()
    report, ready, events = server.stderr().partition("micanite: ready\n")
    lines = [line for line in report.splitlines() if "Z DEBUG" not in line]
    assert ready and all(line.startswith("micanite: ") for line in lines)
    for what in ("opened", "closed"):
        fields = rf"worker=0 connection=\S+ peer={re.escape(peer)}( reason=normal)?"
        line = rf"^{TIME} DEBUG connection {what} {fields}$"
        assert re.search(line, server.stderr(), re.MULTILINE), server.stderr()
    assert re.search(rf"^{TIME}  INFO ended$", events, re.MULTILINE), events


def test_json_is_an_object_in_each_line(start):
    """Every line is one object, the report of the start included."""
    server = start("-t", "1", "-m", "64", "-v", "--log-format", "json")
    with server.connect() as connection:
        connection.ask(b"mn\r\n")
        peer = "{}:{}".format(*connection.socket.getsockname())
    # A server that ends does not look after connections that were closed meanwhile.
    closed = re.compile(rf'"connection closed".*"{re.escape(peer)}"')
    until(lambda: closed.search(server.stderr()), "the end of the connection")
    lines = logged(server)
    assert all(re.fullmatch(TIME, line["timestamp"]) for line in lines)
    assert {line["level"] for line in lines} <= {"DEBUG", "INFO", "WARN"}
    by_message = {line["message"]: line for line in lines}
    assert by_message["ready"]["level"] == "INFO"
    listening = [line["message"] for line in lines if line.get("about") == "listening"]
    assert listening == [f"TCP 127.0.0.1:{server.port}"]
    events = [line for line in lines if line.get("peer") == peer]
    assert [line["message"] for line in events] == ["connection opened", "connection closed"]
    assert all(line["level"] == "DEBUG" and line["worker"] == 0 for line in events)


def test_what_clients_provoke_is_limited(start):
    """Each event is a line, or counts in a line with the number of those that were dropped."""
    server = start("-t", "1", "-m", "64", "-v", "--log-format", "json")
    connect_many(server, 200)
    connections = opened(server)
    until(lambda: server.stats()["curr_connections"] == "1", "the others to be closed")
    connections = opened(server)
    lines = logged(server)
    for what in ("connection opened", "connection closed"):
        here = [line for line in lines if line["message"] == what]
        dropped = [line["dropped"] for line in lines if line.get("event") == what]
        assert 60 <= len(here) < connections, what
        assert len(here) + sum(dropped) == connections, what


def test_more_verbosity_lifts_the_limit(start):
    server = start("-t", "1", "-m", "64", "-vv", "--log-format", "json")
    connect_many(server, 100)
    connections = opened(server)
    lines = logged(server)
    assert len([line for line in lines if line["message"] == "connection opened"]) == connections
    assert not [line for line in lines if "dropped" in line]


def test_verbosity_can_be_changed_while_it_runs(start):
    """The command of memcached turns events of connections on and off."""
    server = start("-t", "1", "-m", "64", "--log-format", "json")
    with server.connect() as admin:
        connect_many(server, 3)
        assert admin.ask(b"verbosity 1\r\n") == b"OK"
        connect_many(server, 1)
        assert admin.ask(b"verbosity 0\r\n") == b"OK"
        connect_many(server, 3)
    lines = logged(server)
    assert len([line for line in lines if line["message"] == "connection opened"]) == 1


def test_a_refused_connection_is_logged_with_its_peer(start):
    server = start("-t", "1", "-m", "64", "-c", "1", "--log-format", "json")
    # The connection that asked if the server is ready may not be closed yet.
    with contextlib.ExitStack() as stack:

        def is_in():
            return stack.enter_context(server.connect()).ask(b"mn\r\n") == b"MN"

        until(is_in, "a connection")
        second = stack.enter_context(server.connect())
        peer = "{}:{}".format(*second.socket.getsockname())
        assert second.line().startswith(b"ERROR Too many open connections")
    refused = until(
        lambda: [line for line in logged(server) if line.get("peer") == peer], "the line of the refusal"
    )
    assert [line["level"] for line in refused] == ["WARN"] and "-c" in refused[0]["message"]


class Journaled(Server):
    """A server whose standard error systemd would have connected to the journal."""

    def places(self):
        of = os.fstat(self._stderr.fileno())
        return super().places() | {"JOURNAL_STREAM": f"{of.st_dev}:{of.st_ino}"}


def test_the_journal_gets_priorities_and_no_time():
    server = Journaled("-t", "1", "-m", "64", "-v", "-l", "0.0.0.0")
    try:
        connect_many(server, 1)
    finally:
        server.end()
    lines = server.stderr().splitlines()
    assert "<6>micanite: ready" in lines and "<6>INFO ended" in lines
    assert any(line.startswith("<4>micanite: warning: everybody who reaches") for line in lines)
    assert any(line.startswith("<7>DEBUG connection opened worker=0 ") for line in lines)
    assert all(re.match("<[3467]>", line) and not re.search(TIME, line) for line in lines), lines


def test_another_stream_than_the_journal_has_times(start):
    """The variable is inherited; it says something only about the stream that it names."""
    server = start("-t", "1", "-m", "64", JOURNAL_STREAM="1:1")
    server.end()
    assert re.search(rf"^{TIME}  INFO ended$", server.stderr(), re.MULTILINE), server.stderr()


def test_a_restart_keeps_the_form(start, tmp_path):
    server = start("-t", "1", "-m", "64", "--image", tmp_path / "image", "--log-format", "json")
    done = server.ctl("restart")
    assert done.returncode == 0, done.stderr
    lines = logged(server)
    assert [line["message"] for line in lines].count("ready") == 2
    assert any(line["message"].startswith("restarted in ") for line in lines)


def test_a_failed_start_is_an_object_too(start, tmp_path):
    """Whoever collects the log learns why a server did not start."""
    server = start("-t", "1", "-m", "64")
    failed = start("-t", "1", "-m", "64", "-p", server.port, "--log-format", "json", ready=False)
    assert failed.wait_for_end() == 71
    last = json.loads(failed.stderr().splitlines()[-1])
    assert last["level"] == "ERROR" and str(server.port) in last["message"]


@pytest.fixture(params=["pipe", "terminal", "socket"])
def unread(request):
    """Standard error of a kind that nobody reads. Returns its descriptor."""
    make = {"pipe": os.pipe, "terminal": os.openpty, "socket": pair}[request.param]
    reader, writer = make()
    yield writer
    os.close(reader)
    os.close(writer)


def pair():
    """Two descriptors of a connection, as systemd gives one to a service."""
    return [one.detach() for one in socket.socketpair()]


def begin(stderr, *options):
    """Starts a server that logs there."""
    words = [*command(), "-t", "2", "-m", "64", "--control-socket", "none", *map(str, options)]
    return subprocess.Popen(words, stderr=stderr, env=environment())


def test_nobody_waits_for_a_reader_of_the_log(unread):
    """Nobody reads standard error, and no limit keeps it from becoming full."""
    port = free_port()
    server = begin(unread, "-p", port, "-vv")
    try:
        until(lambda: is_open(port), "the port")
        with Connection(("127.0.0.1", port)) as kept:
            assert kept.ask(b"verbosity 2\r\n") == b"OK"
            for _ in range(3000):
                socket.create_connection(("127.0.0.1", port)).close()
            assert kept.ask(b"set a 0 0 1\r\nb\r\n") == b"STORED"
        server.terminate()
        assert server.wait(timeout=60) == 0
    finally:
        server.kill()
        server.wait()


def test_a_failed_start_does_not_wait_for_a_reader(unread):
    """Standard error is full before the server fails, for its port is taken."""
    os.set_blocking(unread, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(unread, b"x" * 100)
    os.set_blocking(unread, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = begin(unread, "-p", taken.getsockname()[1])
        try:
            assert server.wait(timeout=60) == 71
        finally:
            server.kill()
            server.wait()


def is_open(port):
    """Returns whether something listens there."""
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
