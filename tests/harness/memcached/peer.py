"""A memcached to compare with: the current one, on a free port, for as long as a test needs it."""

import os
import subprocess
from contextlib import contextmanager

from harness.memcached.wire import Connection
from harness.network.claims import free_port
from harness.poll import DEADLINE_S, until
from harness.server import PROJECT


def path_of_current_memcached():
    """Returns the path, or None and the reason."""
    found = subprocess.run([PROJECT / "scripts/peer-memcached-current"], capture_output=True, text=True)
    return (found.stdout.strip(), None) if found.returncode == 0 else (None, found.stderr.strip())


@contextmanager
def running(path, *options, greeting=b"MN"):
    """Runs it until it answers `mn` by `greeting`; gives the address."""
    address = ("127.0.0.1", free_port())
    user = ["-u", "root"] if os.getuid() == 0 else []
    process = subprocess.Popen([path, "-l", address[0], "-p", str(address[1]), "-U", "0", *user, *options])

    def answers():
        try:
            with Connection(address) as client:
                client.send(b"mn\r\n")
                return client.line() == greeting
        except OSError:
            return False

    try:
        until(answers, "memcached to answer")
        yield address
    finally:
        process.terminate()
        process.wait(DEADLINE_S)
