"""Clients that log in with SASL PLAIN, and do all that they do otherwise."""

import uuid

import bmemcached
import pytest

from harness.memcached import clients
from harness.memcached.clients import PROGRAMS
from harness.poll import until

USER, PASSWORD = "ruth", "a word that nobody knows"
# Not XMemcached: it sends its first request without waiting for its login, and the server, as memcached does,
# closes then.
BINARY = ("spymemcached-binary", "memjs", "php-binary", "dalli")


@pytest.fixture
def server(start, tmp_path):
    """A server that asks for a password."""
    users = tmp_path / "users"
    users.write_text(f"{USER}:{PASSWORD}\n")
    users.chmod(0o600)
    running = start("-t", 2, "-m", 64, "-S", "-Y", users, ready=False)
    running.port = until(lambda: running.ports().get("TCP"), "the server to listen")
    return running


@pytest.mark.parametrize("name", BINARY)
def test_a_client_logs_in(server, name):
    program, words, expected = PROGRAMS[name]
    ok, failed = clients.verdict(program, server.address, uuid.uuid4().hex, *words, USER, PASSWORD)
    assert not failed
    assert set(ok) == expected


def test_a_python_client_logs_in(server):
    client = bmemcached.Client([f"127.0.0.1:{server.port}"], USER, PASSWORD, socket_timeout=30)
    assert client.set("key", "value") and client.get("key") == "value" and client.delete("key")
    client.disconnect_all()
