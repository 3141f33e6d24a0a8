"""twemproxy (Debian's nutcracker), unpacked below target/peers, in front of servers that a test has started.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from harness.memcached.wire import Connection
from harness.network.claims import free_port
from harness.poll import DEADLINE_S, until
from harness.server import PROJECT


def nutcracker():
    """The command."""
    found = subprocess.run(
        [PROJECT / "scripts/unpack-debian", "nutcracker", "nutcracker"],
        check=True,
        capture_output=True,
        text=True,
    )
    return found.stdout.strip()


class Proxy:
    """One running proxy with one pool, on a Unix socket. `servers` are nutcracker's: "ADDRESS:PORT:WEIGHT
    NAME"."""

    def __init__(self, servers, **settings):
        self._directory = tempfile.TemporaryDirectory(prefix="micanite-proxy-")
        directory = Path(self._directory.name)
        self.address = str(directory / "socket")
        self._log = directory / "log"
        # Longer than machines stand still: a server that is gone refuses at once.
        pool = {
            "listen": f"{self.address} 0600", "hash": "md5", "distribution": "ketama", "timeout": 30_000
        } | settings
        lines = ["pool:", *(f"  {name}: {value}" for name, value in pool.items()), "  servers:"]
        (directory / "pool.yml").write_text("\n".join([*lines, *(f"    - {one}" for one in servers)]) + "\n")
        files = ["-c", directory / "pool.yml", "-o", self._log, "-p", directory / "pid"]
        # The proxy's statistics always listen on a TCP port: on a free one, within the namespace if the test
        # is in one.
        self.process = subprocess.Popen(
            [nutcracker(), *files, "-a", "127.0.0.1", "-s", str(free_port())], stdin=subprocess.DEVNULL
        )
        try:
            until(self._answers, "nutcracker to listen")
        except BaseException as error:
            error.add_note(f"nutcracker said:\n{self.said()}")
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._directory.cleanup()

    def _answers(self):
        assert self.process.poll() is None, "nutcracker has ended"
        if not os.path.exists(self.address):
            return False
        try:
            self.connect().close()
        except OSError:
            return False
        return True

    def connect(self):
        """A raw connection to it."""
        return Connection(self.address)

    def said(self):
        """Returns the log."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""
