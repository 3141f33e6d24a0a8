"""`micanite top` in a terminal: our server by its control socket, any memcached by `stats`, servers that go
away, and servers that want to write to the terminal."""

import os
import pty
import re
import signal
import subprocess

import pytest

from harness.memcached.peer import running
from harness.network.claims import free_port
from harness.poll import until
from harness.server import PROJECT, Server, command, environment
from harness.tools.fake import FakeStream
from harness.tools.load import ENDLESS, start_load
from harness.tools.terminal import Terminal


def words_of(*words):
    """The command's words."""
    return [command()[0], "top", *map(str, words)]


def run_top(*words, **extra):
    """Runs it to its end, without a terminal."""
    return subprocess.run(
        words_of(*words), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        env=environment(**extra),
    )  # fmt: skip


@pytest.fixture
def terminal():
    """Makes terminals, and ends them."""
    made = []

    def make(*words, **options):
        made.append(Terminal(words_of(*words), **options))
        return made[-1]

    yield make
    for one in made:
        one.end()


@pytest.fixture
def loaded(start):
    """A server of ours with a load that lasts, and hot keys."""
    server = start("-t", 2, "-m", 64)
    load = start_load(
        f"memcached://127.0.0.1:{server.port}", "--fill", "--items", 2000, "--popularity", "zipf:0.99",
        "--rate", 3000, *ENDLESS, "-q",
    )  # fmt: skip
    until(lambda: int(server.stats()["cmd_get"]) > 100, "requests")
    yield server
    load.terminate()
    load.communicate()


def test_our_server_live(terminal, loaded):
    """Rates, latencies, workers and hot keys are there; keys pause and sort; q restores the screen."""
    top = terminal("-p", loaded.port, "--interval", "0.2", **loaded.places())
    words = ("hit ratio 100.0%", "worker", "hot key", "p99.9", "every 0.2 s")
    shown = top.until(*words, absent=["requests/s -"])
    assert re.search(rf"port {loaded.port}: micanite \S+, up \d\d:", shown), shown
    assert re.search(r"^get +\S+ +100.0% +\S+s ", shown, re.MULTILINE), shown
    assert "memory" in shown and "of 64.0 MiB" in shown
    top.press("p")
    paused = top.until("PAUSED")
    top.press("p")
    top.until(absent=["PAUSED"])
    assert "PAUSED" in paused
    top.press("+")
    top.until("every 0.5 s")
    top.press("-")
    top.until("every 0.2 s")
    top.press("Right")
    top.until("command*")
    top.press("?")
    top.until("look less often", absent=["hot key  "])
    top.press("x")
    top.until("hit ratio")
    for columns, rows in [(80, 24), (40, 12), (20, 3), (1, 1), (100, 30)]:
        top.resize(columns, rows)
        if columns >= 40:
            top.until("requests/s")
    top.press("q")
    ended = top.until("ENDED 0")
    assert "hit ratio" not in ended


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_restores_the_terminal(terminal, start, number):
    server = start("-t", 1)
    top = terminal("-p", server.port, **server.places())
    top.until("requests/s")
    os.kill(top.pid(), number)
    ended = top.until(f"ENDED {128 + number}")
    assert "requests/s" not in ended and "#{alternate_on}" not in ended
    assert top.tmux("display-message", "-p", "#{alternate_on}").strip() == "0"


@pytest.mark.parametrize("has_stderr", [True, False])
def test_a_terminal_that_is_gone_ends_it(start, has_stderr):
    """Also where no signal tells of it: the terminal is not the controlling one."""
    server = start("-t", 1)
    ours, theirs = pty.openpty()
    words = words_of("-p", server.port, "--interval", "0.2")
    top = subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs if has_stderr else subprocess.DEVNULL,
        start_new_session=True, env=environment(TERM="xterm", **server.places()),
    )  # fmt: skip
    os.close(theirs)
    try:
        assert os.read(ours, 1)
        os.close(ours)
        assert top.wait(timeout=60) == 1
    finally:
        top.kill()
        top.communicate()


def test_a_server_that_goes_away_and_comes_back(terminal, tmp_path):
    """Old counters say their age, and a new server is found."""
    port = free_port()
    options = ("-t", 1, "-p", port)
    first = Server(*options)
    top = terminal(f"127.0.0.1:{port}", "--interval", "0.2")
    top.until("requests/s", "up 00:", absent=["NO ANSWER"])
    first.end()
    top.until("NO ANSWER", " s old, trying again")
    second = Server(*options)
    try:
        top.until("requests/s", absent=["NO ANSWER"])
    finally:
        second.end()


def test_a_server_that_stands_still_holds_up_no_key(terminal, start):
    """A stopped server is told of, keys work meanwhile, and it is shown again when it goes on."""
    server = start("-t", 1)
    top = terminal("-p", server.port, "--interval", "0.2", **server.places())
    top.until("requests/s", absent=["requests/s -"])
    os.kill(server.pid, signal.SIGSTOP)
    try:
        top.until("NO ANSWER")
        top.press("?")
        top.until("look less often")
        top.press("x")
        top.until("NO ANSWER")
    finally:
        os.kill(server.pid, signal.SIGCONT)
    top.until("requests/s", absent=["NO ANSWER"])


def test_memcached_live(terminal):
    """The peer's rows are there, and those that it does not have are absent."""
    path = subprocess.run(
        [PROJECT / "scripts/peer-memcached"], capture_output=True, text=True, check=True
    ).stdout.strip()
    with running(path) as (host, port):
        load = start_load(f"memcached://{host}:{port}", "--fill", "--items", 100, *ENDLESS, "-q")
        try:
            top = terminal(f"{host}:{port}", "--interval", "0.2")
            shown = top.until("hit ratio 100.0%", "evictions/s 0", "get", absent=["requests/s -"])
            assert "worker" not in shown and "hot key" not in shown and "p99" not in shown
        finally:
            load.terminate()
            load.communicate()


def test_once_prints_plain_text(loaded):
    """Without a terminal one interval is printed."""
    ended = run_top("-p", loaded.port, "--interval", "0.5", **loaded.places())
    assert ended.returncode == 0 and "\x1b" not in ended.stdout, ended
    requests = re.search(r"requests/s (\d+)", ended.stdout)
    assert requests and int(requests[1]) > 0, ended.stdout
    assert re.search(r"^worker +requests/s +CPU", ended.stdout, re.MULTILINE), ended.stdout
    by_stats = run_top("--once", "--interval", "0.5", f"127.0.0.1:{loaded.port}")
    assert by_stats.returncode == 0 and "of 64.0 MiB: items" in by_stats.stdout, by_stats


def test_a_hostile_server_does_not_reach_the_terminal(terminal):
    """Escape sequences in statistics are shown as text, and an endless or foreign reply ends."""

    def converse(connection, file):
        while file.readline():
            connection.sendall(
                b"STAT version \x1b[2J\x1b]0;owned\x07\x9b31m\r\nSTAT cmd_set 5\r\nSTAT \x1b[31m 7\r\n"
                b"STAT get_hits 1e400\r\nSTAT get_misses nan\r\nSTAT curr_items -5\r\nEND\r\n"
            )

    with FakeStream(converse) as fake:
        ended = run_top(f"127.0.0.1:{fake.port}", "--once", "--interval", "0.1")
        assert ended.returncode == 0, ended
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", ended.stdout), ended.stdout
        assert "\\u{1b}[2J" in ended.stdout
        top = terminal(f"127.0.0.1:{fake.port}")
        top.until("\\u{1b}[2J")
        assert "owned" not in top.tmux("display-message", "-p", "#{pane_title}")

    def foreign(connection, file):
        file.readline()
        connection.sendall(b"HTTP/1.1 400 \x1b[31mBad\r\n\r\n")

    with FakeStream(foreign) as fake:
        ended = run_top(f"127.0.0.1:{fake.port}")
        assert ended.returncode == 1 and "no reply to stats" in ended.stderr and "\x1b" not in ended.stderr


def test_no_server_there(tmp_path):
    for words, status, reason in [
        (("-p", free_port()), 1, "no server with a control socket"),
        ((f"127.0.0.1:{free_port()}",), 1, "refused"),
        (("memcached://127.0.0.1",), 64, "write HOST:PORT"),
        (("me:secret@127.0.0.1",), 64, "top has no login"),
    ]:
        ended = run_top(*words, XDG_RUNTIME_DIR=tmp_path)
        assert ended.returncode == status and reason in ended.stderr and "secret" not in ended.stderr, ended
    assert run_top("--interval", "0").returncode == 64


def test_a_server_with_passwords_is_asked_by_its_control_socket(start, tmp_path):
    users = tmp_path / "users"
    users.write_text("alice:secret\n")
    server = start("-Y", users, ready=False)
    until(lambda: "micanite: ready" in server.stderr(), "the server to be ready")
    port = server.ports()["TCP"]
    ended = run_top(f"127.0.0.1:{port}", "--once")
    assert ended.returncode == 1 and "wants a password" in ended.stderr, ended
    assert run_top("-p", port, "--interval", "0.1", **server.places()).returncode == 0
