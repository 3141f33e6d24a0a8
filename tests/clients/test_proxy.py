"""Commands that pass through nutcracker, and those that close the connection: docs/many-machines.md lists
both."""

import pymemcache
import pytest

from harness.memcached.proxy import Proxy


@pytest.fixture
def proxy(start):
    """A proxy in front of three servers."""
    servers = [start("-t", 1, "-m", 64) for _ in range(3)]
    with Proxy(
        [f"127.0.0.1:{server.port}:1 cache-{place}" for place, server in enumerate(servers)]
    ) as running:
        running.servers = servers
        yield running


def test_a_client_behind_it(proxy, key):
    name = key.decode()
    client = pymemcache.Client(proxy.address, timeout=30, default_noreply=False)
    values = {f"{name}-{number}": b"value %d" % number for number in range(500)}
    assert client.set_many(values) == [] and client.get_many([*values, f"{name}-absent"]) == values
    counts = [int(server.stats()["curr_items"]) for server in proxy.servers]
    assert sum(counts) == 500 and all(counts), "spread over all of them"
    assert client.add(name, b"10", noreply=False) and not client.add(name, b"11")
    assert client.incr(name, 5) == 15 and client.decr(name, 20) == 0
    assert client.append(name, b">") and client.prepend(name, b"<") and client.replace(name, b"x")
    _, number = client.gets(name)
    assert client.cas(name, b"y", number) and client.cas(name, b"z", number) is False
    assert client.touch(name, 100) and client.delete(name) and client.get(name) is None
    client.set(f"{name}-0", b"without a reply", noreply=True)
    assert client.get(f"{name}-0") == b"without a reply"
    large = b"x" * 1_000_000
    assert client.set(name, large) and client.get(name) == large
    assert client.version().startswith(b"1.6.")
    with pytest.raises(pymemcache.MemcacheServerError):
        client.set(name, b"x" * (2 << 20))
    client.close()


REFUSED = [
    b"gat 0 k", b"gats 0 k", b"stats", b"flush_all", b"verbosity 1", b"mn", b"mg k v", b"md k",
    b"get " + b"k" * 251
]


@pytest.mark.parametrize("line", REFUSED, ids=lambda line: line.split()[0].decode())
def test_unknown_commands_close_the_connection(proxy, line):
    with proxy.connect() as connection:
        assert connection.ask(line + b"\r\n") is None


def test_it_knows_no_binary_protocol(proxy):
    with proxy.connect() as connection:
        connection.send(bytes([0x80, 0x0A]) + bytes(22))
        assert connection.rest() == b""
