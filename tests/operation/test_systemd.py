"""As a service: sockets that the supervisor holds (LISTEN_FDS), and what it is told (sd_notify)."""

import ctypes
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from harness.memcached.tls import Authority, TlsConnection
from harness.memcached.wire import Connection
from harness.network.claims import free_port
from harness.poll import until
from harness.server import command, environment, run_ctl

# Puts the sockets where systemd does, and names its own process.
LAUNCHER = """
import os, sys

count = int(sys.argv[1])
numbers = [int(word) for word in sys.argv[2:2 + count]]
for at, number in enumerate(numbers):
    os.dup2(number, 100 + at)
for at in range(count):
    os.dup2(100 + at, 3 + at, inheritable=True)
os.environ["LISTEN_PID"] = str(os.getpid())
os.environ["LISTEN_FDS"] = str(count)
os.execv(sys.argv[2 + count], sys.argv[2 + count:])
"""
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17


class Service:
    """A server with inherited sockets; ended with the test."""

    def __init__(self, directory, sockets, *options, **variables):
        self.directory = directory
        self.errors = open(directory / "stderr", "w+")  # noqa: SIM115 (open as long as the server runs)
        numbers = [str(one.fileno()) for one in sockets]
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, str(len(sockets)), *numbers, *command(), *map(str, options)],
            pass_fds=[one.fileno() for one in sockets],
            stdin=subprocess.DEVNULL,
            stderr=self.errors,
            env=environment(XDG_RUNTIME_DIR=directory, **variables),
        )
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(30)
        self.errors.close()

    def stderr(self):
        return (self.directory / "stderr").read_text()

    def ready_stderr(self):
        """What it has said when it is ready. Its sockets answer before that."""
        until(lambda: ": ready\n" in self.stderr(), "the server to say that it is ready")
        return self.stderr()


@pytest.fixture
def listeners(tmp_path):
    """Two TCP listeners and a Unix socket."""
    opened = [
        socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0)),
        socket.socket(socket.AF_UNIX)
    ]
    opened[2].bind(str(tmp_path / "socket"))
    opened[2].listen()
    yield opened
    for one in opened:
        one.close()


def ask_each(listeners, request):
    """The answer to a request at each listener's address."""
    answers = []
    for one in listeners:
        with Connection(one.getsockname()) as connection:
            answers.append(connection.ask(request))
    return answers


def test_it_serves_the_sockets_of_its_supervisor(tmp_path, listeners, workers, key):
    with Service(
        tmp_path, listeners, "-t", workers, "-m", "64", "-p", free_port(), LISTEN_FDNAMES="a:b:c"
    ) as service:
        assert ask_each(listeners, b"set %b 0 0 1\r\nx\r\n" % key) == [b"STORED"] * 3
        said = service.ready_stderr()
        assert "-p, -l and -s do not apply" in said
        listening = [line for line in said.splitlines() if "  listening  " in line]
        for one in listeners[:2]:
            assert f"127.0.0.1:{one.getsockname()[1]}" in listening[0]
        assert listening[0].count("TCP") == 2, "nothing but what was passed"
    assert (tmp_path / "socket").exists(), "the supervisor's file is the supervisor's"
    assert service.process.returncode == 0


def test_marks_hold_for_the_sockets_of_the_supervisor(tmp_path, listeners):
    """An address marked mtls: requires certificates, no matter which process has opened it."""
    authority = Authority(tmp_path)
    marked, other, local = listeners
    ports = [one.getsockname()[1] for one in (marked, other)]
    listen = ("-l", f"mtls:127.0.0.1:{ports[0]},notls:127.0.0.1:{ports[1]}")
    # The Unix socket stands before them: marks are those of TCP.
    with Service(tmp_path, [local, marked, other], "-t", 1, "-Z", "-o", authority.words, *listen) as service:
        with Connection(other.getsockname()) as plain:
            assert plain.ask(b"mn\r\n") == b"MN"
        with Connection(local.getsockname()) as plain:
            assert plain.ask(b"mn\r\n") == b"MN"
        with TlsConnection(marked.getsockname(), authority.context(authority.client)) as known:
            assert known.ask(b"mn\r\n") == b"MN"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            TlsConnection(marked.getsockname(), authority.context()).ask(b"mn\r\n")
        assert "but for the marks of -l" in service.ready_stderr()


def test_an_address_that_is_not_named_asks_for_certificates_too(tmp_path, listeners):
    """A socket at another address than -l says is no way around mtls:."""
    authority = Authority(tmp_path)
    with Service(tmp_path, listeners[:1], "-t", 1, "-Z", "-o", authority.words, "-l", "mtls:127.0.0.2"):
        with TlsConnection(listeners[0].getsockname(), authority.context(authority.client)) as known:
            assert known.ask(b"mn\r\n") == b"MN"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            TlsConnection(listeners[0].getsockname(), authority.context()).ask(b"mn\r\n")


def test_clients_wait_while_the_service_is_away(tmp_path, listeners, key):
    """The supervisor keeps the socket: whoever connects between two servers is served by the second."""
    options = ["-t", "2", "-m", "64", "--image", tmp_path / "image"]
    with Service(tmp_path, listeners, *options):
        assert ask_each(listeners[:1], b"set %b 0 0 1\r\nx\r\n" % key) == [b"STORED"]
    with Connection(listeners[0].getsockname()) as waiting:
        waiting.send(b"get %b\r\n" % key)
        with Service(tmp_path, listeners, *options):
            assert waiting.line() == b"VALUE %b 0 1" % key


def test_a_restart_keeps_the_sockets_of_the_supervisor(tmp_path, listeners, key):
    options = ["-t", "2", "-m", "64", "--image", tmp_path / "image", "--control-socket", tmp_path / "ctl"]
    with Service(tmp_path, listeners, *options) as service:
        assert ask_each(listeners, b"set %b 0 0 1\r\nx\r\n" % key) == [b"STORED"] * 3
        for _ in range(2):
            done = run_ctl("restart", "--socket", tmp_path / "ctl")
            assert (done.returncode, done.stderr) == (0, "")
            assert ask_each(listeners, b"get %b\r\n" % key) == [b"VALUE %b 0 1" % key] * 3
        assert service.ready_stderr().count("do not apply") == 1


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("udp", "UDP"), ("connected", "connected"), ("idle", "does not listen"), ("file", "not a socket"),
        ("closed", "not open")
    ],
)
def test_inherited_sockets_of_other_kinds_are_refused(tmp_path, kind, reason):
    pair = socket.socketpair()
    odd = {
        "udp": socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "connected": pair[0],
        "idle": socket.socket(),
        "file": open("/dev/null"),  # noqa: SIM115 (closed with the sockets)
        "closed": None,
    }[kind]
    sockets = [odd] if odd else []
    variables = {"LISTEN_FDNAMES": "web"}
    if kind == "closed":
        words = ["env", "LISTEN_FDS=1", "sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh", *command(), "-m", "64"]
        ended = subprocess.run(
            words, env=environment(**variables), capture_output=True, text=True, timeout=60
        )
        status, said = ended.returncode, ended.stderr
    else:
        with Service(tmp_path, sockets, "-m", "64", **variables) as service:
            status = service.process.wait(30)
        said = service.stderr()
    for one in [*sockets, *pair]:
        one.close()
    assert status == 71, said
    assert "LISTEN_FDS: descriptor 3 (web)" in said and reason in said


def test_sockets_for_another_process_are_left_alone(start, key):
    server = start("-t", "1", "-m", "64", LISTEN_PID=1, LISTEN_FDS=3)
    with server.connect() as client:
        client.set(key, b"x")


def test_under_systemd_socket_activate(tmp_path, key):
    """systemd's own tool: it listens, and starts the server with the first connection."""
    tool = shutil.which("systemd-socket-activate")
    if tool is None:
        pytest.skip("there is no systemd-socket-activate (Debian: systemd)")
    port = free_port()
    pass_on = [f"--setenv=XDG_RUNTIME_DIR={tmp_path}"]
    words = [
        tool, f"--listen=127.0.0.1:{port}", f"--listen={tmp_path / 'socket'}", *pass_on, *command(), "-t",
        "1", "-m", "64"
    ]
    with open(tmp_path / "stderr", "w") as said:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=said, env=environment())
    try:

        def listens():
            try:
                return Connection(("127.0.0.1", port))
            except ConnectionRefusedError:
                return None

        with until(listens, "the tool to listen") as client:
            client.set(key, b"x")
            with Connection(str(tmp_path / "socket")) as other:
                assert other.get(key) == b"x"
    finally:
        process.terminate()
        assert process.wait(30) == 0


class Supervisor:
    """Listens as systemd does, and notes what it is told."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(name)
        self.messages = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while True:
            self.messages.append(self.socket.recv(4096).decode())

    def words(self):
        """The first word of each message, without the pings."""
        return [message.split("\n")[0] for message in self.messages if not message.startswith("WATCHDOG")]

    def pings(self):
        return self.messages.count("WATCHDOG=1")


@pytest.mark.parametrize("abstract", [False, True], ids=["path", "abstract"])
def test_it_says_when_it_is_ready_restarts_and_ends(start, tmp_path, abstract):
    name = f"micanite-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    supervisor = Supervisor("\0" + name if abstract else name)
    address = "@" + name if abstract else name
    server = start("-t", "1", "-m", "64", "--image", tmp_path / "image", NOTIFY_SOCKET=address)
    until(lambda: supervisor.words() == ["READY=1"], "READY")
    assert server.ctl("restart").returncode == 0
    until(lambda: supervisor.words() == ["READY=1", "RELOADING=1", "READY=1"], "the restart to be told")
    reloading = next(message for message in supervisor.messages if message.startswith("RELOADING"))
    assert "\nMONOTONIC_USEC=" in reloading
    os.kill(server.pid, signal.SIGTERM)
    assert server.wait_for_end() == 0
    until(lambda: supervisor.words()[-1] == "STOPPING=1", "STOPPING")


def test_a_worker_that_stands_still_is_noticed(start, tmp_path, workers):
    """One stopped worker, and the watchdog hears nothing; `ctl ping` names it."""
    supervisor = Supervisor(str(tmp_path / "notify"))
    server = start("-t", workers, "-m", "64", NOTIFY_SOCKET=tmp_path / "notify", WATCHDOG_USEC=1_000_000)
    until(lambda: supervisor.pings() >= 3, "three pings")
    until(lambda: server.ctl("ping").stdout.startswith(f"alive: {workers} workers"), "all workers to move")
    last = f"worker-{workers - 1}"
    tasks = [int(task) for task in os.listdir(f"/proc/{server.pid}/task")]
    names = {Path(f"/proc/{server.pid}/task/{task}/comm").read_text().strip(): task for task in tasks}
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if ptrace(PTRACE_SEIZE, names[last], None, None):
        pytest.skip("a thread cannot be stopped here (ptrace)")
    assert ptrace(PTRACE_INTERRUPT, names[last], None, None) == 0
    os.waitpid(names[last], 0x40000000)  # __WALL: until it stands still
    before = supervisor.pings()
    ping = server.ctl("ping")
    assert ping.returncode == 1 and f"worker {workers - 1} does not move" in ping.stderr
    assert supervisor.pings() <= before + 2, "one that was on its way, and one that was due"
    assert ptrace(PTRACE_DETACH, names[last], None, None) == 0
    until(lambda: supervisor.pings() > before + 2, "pings again")
    until(lambda: server.ctl("ping").returncode == 0, "all workers to move")
