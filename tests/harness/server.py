"""The server under test as a child process: the real binary, on ports of its own, ended by its process id."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from harness.failures import CRASHES, judge_end
from harness.memcached.wire import Connection
from harness.poll import DEADLINE_S, until

PROJECT = Path(__file__).resolve().parents[2]


def command():
    """The words that start a server. SERVER_COMMAND may name another server, MICANITE_BIN another build."""
    if words := os.environ.get("SERVER_COMMAND"):
        return shlex.split(words)
    binary = os.environ.get("MICANITE_BIN") or str(PROJECT / "target/debug/micanite")
    return [binary, "serve"]


def environment(**extra):
    """This process's environment without what would configure the server, and with `extra`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MICANITE_", "MEMCACHED_"))}
    return kept | {name: str(value) for name, value in extra.items()}


def run(*options, deadline_s=DEADLINE_S, **extra_environment):
    """Runs the server command to its end (for options that end it at once)."""
    return subprocess.run(
        [*command(), *map(str, options)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=deadline_s,
        env=environment(**extra_environment),
    )


def run_ctl(*words, deadline_s=DEADLINE_S, **extra_environment):
    """Runs `micanite ctl` with these words, to its end."""
    return subprocess.run(
        [command()[0], "ctl", *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=deadline_s,
        env=environment(**extra_environment),
    )


def leave(connection, request=b""):
    """Asks for an end behind this request, and returns all that comes until the server has ended its output.
    It closes when the client does."""
    connection.send(request + b"quit\r\n")
    return connection.rest()


class Server:
    """One running server. `options` are given as they stand; a free TCP port is taken unless they choose one,
    or a file does (`own_port=False`)."""

    def __init__(self, *options, path=None, ready=True, own_port=True, **extra_environment):
        self._directory = tempfile.TemporaryDirectory(prefix="micanite-test-", dir=path)
        self.directory = Path(self._directory.name)
        self.unix_socket = None
        self.port = None
        options = [str(option) for option in options]
        if "-s" in options:
            self.unix_socket = options[options.index("-s") + 1]
        own_port = own_port and "-s" not in options and "-p" not in options
        arguments = [*self.words(), *(["-p", "-1"] if own_port else []), *options]
        self._stderr = open(self.directory / "stderr", "wb")  # noqa: SIM115 (open as long as the server runs)
        self.process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=self._stderr,
            stderr=self._stderr,
            env=environment(**self.places() | extra_environment),
        )
        self.pid = self.process.pid
        if ready:
            try:
                self.wait_until_ready()
            except BaseException as error:
                error.add_note(f"the server said:\n{self.stderr()}")
                self.end()
                raise

    def words(self):
        """The words that start it."""
        return command()

    def places(self):
        """Returns variables that put the server's files into a directory of its own."""
        return {"MEMCACHED_PORT_FILENAME": self.directory / "ports", "XDG_RUNTIME_DIR": self.directory}

    def ctl(self, *words, deadline_s=DEADLINE_S):
        """Runs `micanite ctl` against this server, to its end."""
        where = ["-p", self.port] if self.unix_socket is None else ["--socket", f"{self.unix_socket}.ctl"]
        return run_ctl(*words, *where, deadline_s=deadline_s, **self.places())

    def routes(self):
        """Mode and owner of each partition, as `micanite ctl routes` lists them."""
        listed = self.ctl("routes")
        assert listed.returncode == 0, listed.stderr
        rows = [line.split() for line in listed.stdout.splitlines()[1:]]
        assert [int(row[0]) for row in rows] == list(range(len(rows)))
        return [(row[1], int(row[2])) for row in rows]

    def wait_until_ready(self):
        """Until it answers. A server that has ended instead fails at once, with what it said."""

        def answers():
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.stderr()}")
            if self.unix_socket is None and self.port is None:
                self.port = self.ports().get("TCP")
                if self.port is None:
                    return False
            try:
                with self.connect() as connection:
                    return leave(connection, b"version\r\n").startswith(b"VERSION ")
            except OSError:
                return False

        def is_told():
            return "ready" in self.stderr() or self.process.poll() is not None

        until(answers, "the server to answer")
        # Its log is written by a thread of its own. A daemon has left standard error; memcached says nothing.
        # Another program may start it.
        is_ours = any("micanite" in Path(word).name for word in command())
        if is_ours and "-d" not in self.process.args:
            until(is_told, "the server to say that it is ready")

    def ports(self):
        """Returns the ports that the server wrote to its file: {"TCP": n, "UDP": n}."""
        try:
            lines = (self.directory / "ports").read_text().splitlines()
        except FileNotFoundError:
            return {}
        return {line.split()[0]: int(line.rsplit(":", 1)[1]) for line in lines if " INET: " in line}

    @property
    def address(self):
        """Returns the address as the socket module and pymemcache take it."""
        return self.unix_socket or ("127.0.0.1", self.port)

    def connect(self, **options):
        """A new raw connection."""
        return Connection(self.address, **options)

    def stats(self, *arguments):
        """The statistics as a dictionary of text."""
        with self.connect() as connection:
            found = connection.stats(*arguments)
            leave(connection)
        return found

    def alive(self):
        """Returns whether the process still runs."""
        return self.process.poll() is None

    def stderr(self):
        """All that the server printed so far."""
        if self._stderr.closed:
            return self._said
        return (self.directory / "stderr").read_text(errors="replace")

    def says(self, text):
        """Waits until the server has printed this: a thread of its own writes the log."""
        until(lambda: text in self.stderr(), f"the server to say {text!r}")

    def wait_for_end(self, deadline_s=DEADLINE_S):
        """The exit status, once the process has ended by itself or by a signal that a test sent."""
        return self.process.wait(deadline_s)

    def end(self):
        """Ends the process if it still runs, and drops its directory. A crash fails the test
        (harness.failures), and so does a server that does not end."""
        if self.alive():
            self.process.terminate()
            try:
                self.process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                CRASHES.append(f"server {self.pid} does not end by SIGTERM:\n{self.stderr()[-4096:]}")
                self.process.kill()
                self.process.wait()
        if self._stderr.closed:
            return
        # A test may fail after it has ended its server: the report then shows this.
        self._said = self.stderr()
        self._stderr.close()
        self._directory.cleanup()
        judge_end(self.pid, self.process.returncode, self._said)
