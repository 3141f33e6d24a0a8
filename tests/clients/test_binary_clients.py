"""Clients that speak the binary protocol: python-binary-memcached, and libmemcached's own conformance tool.
"""

import re
import subprocess

import bmemcached
import pytest
from bmemcached.exceptions import MemcachedException

from harness.server import PROJECT

LAUNCHER = PROJECT / "target/peers/bin/memccapable"


@pytest.fixture
def bmc(server):
    """A python-binary-memcached client."""
    client = bmemcached.Client([f"127.0.0.1:{server.port}"], socket_timeout=30)
    yield client
    client.disconnect_all()


@pytest.fixture
def name(key):
    """A key as text."""
    return key.decode()


def test_stores_and_reads(bmc, name):
    assert bmc.get(name) is None
    for value in ("text ä", b"bytes", 42, 10**15, True, ["list", 1], {"a": (1, 2)}, "", "x" * 200_000):
        assert bmc.set(name, value) is True
        assert bmc.get(name) == value
    assert bmc.add(name, "other") is False
    assert bmc.replace(name, "replaced") is True
    assert bmc.delete(name) is True
    assert bmc.get(name) is None
    assert bmc.replace(name, "x") is False
    assert bmc.add(name, "added") is True


def test_many(bmc, name):
    values = {f"{name}-{i}": f"value {i}" for i in range(500)}
    assert bmc.set_multi(values) == []
    assert bmc.get_multi([*values, f"{name}-absent"]) == values
    assert bmc.delete_multi(list(values)) is True
    assert bmc.get_multi(list(values)) == {}


def test_cas(bmc, name):
    assert bmc.set(name, "1") is True
    value, number = bmc.gets(name)
    assert value == "1"
    assert bmc.cas(name, "2", number) is True
    assert bmc.cas(name, "3", number) is False
    assert bmc.get(name) == "2"


def test_numbers(bmc, name):
    assert bmc.incr(name, 1, default=10) == 10
    assert bmc.incr(name, 5) == 15
    assert bmc.decr(name, 100) == 0
    assert bmc.set(name, "text") is True
    with pytest.raises(MemcachedException):
        bmc.incr(name, 1)


def test_administration(bmc, server, name):
    ((_, stats),) = bmc.stats().items()
    assert int(stats["pid"]) == server.pid
    assert bmc.set(name, "x") is True
    assert bmc.flush_all() is True
    assert bmc.get(name) is None


def test_a_login_is_not_needed(server, name):
    """Without authentication the server knows no SASL: the client goes on without it."""
    client = bmemcached.Client([f"127.0.0.1:{server.port}"], "user", "password", socket_timeout=30)
    assert client.set(name, "x") is True
    assert client.get(name) == "x"
    client.disconnect_all()


def test_memccapable(server):
    """libmemcached's conformance tool: all of its 27 tests pass."""
    tool = subprocess.run(
        ["stdbuf", "-o0", LAUNCHER, "-h", "127.0.0.1", "-p", str(server.port), "-b", "-t", "30"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    results = dict(re.findall(r"^(binary [a-z ]+?)\s+\[(pass|FAIL)\]$", tool.stdout, re.MULTILINE))
    assert len(results) == 27, tool.stdout
    assert set(results.values()) == {"pass"}, tool.stdout
