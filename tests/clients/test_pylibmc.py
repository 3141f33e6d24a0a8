"""pylibmc, which is libmemcached in Python, by the text and the binary protocol; aiomcache for asyncio."""

import asyncio
import contextlib
import time

import aiomcache
import pylibmc
import pytest

from harness.poll import until

VALUES = ("text ä", b"bytes", 42, 10**15, True, None, ["list", 1], {"a": (1, 2)}, "", b"", "x" * 200_000)


@pytest.fixture(params=[False, True], ids=["text", "binary"])
def binary(request):
    return request.param


@pytest.fixture
def connect(start, binary):
    """Makes clients of one server, with the given behaviors."""
    server = start("-t", 2, "-m", 64)
    clients = []

    def new(**behaviors):
        client = pylibmc.Client(
            [f"127.0.0.1:{server.port}"], binary=binary, behaviors={"cas": True, **behaviors}
        )
        clients.append(client)
        return client

    yield new
    for client in clients:
        client.disconnect_all()


@pytest.fixture
def name(key):
    """A key as text."""
    return key.decode()


def test_stores_and_reads(connect, binary, name):
    client = connect()
    assert client.get(name) is None
    for value in VALUES:
        assert client.set(name, value)
        assert client.get(name) == value
    assert not client.add(name, "other")
    assert client.replace(name, "replaced")
    assert client.append(name, ">") and client.prepend(name, "<")
    assert client.get(name) == "<replaced>"
    assert client.delete(name) and not client.delete(name)
    with pytest.raises(pylibmc.NotFound) if binary else contextlib.nullcontext():
        assert not client.replace(name, "x")


def test_many(connect, name):
    client = connect()
    values = {f"{name}-{number}": f"value {number}" for number in range(500)}
    assert client.set_multi(values) == []
    assert client.get_multi([*values, f"{name}-absent"]) == values
    assert client.get_multi(["1", "2"], key_prefix=name) == {}
    assert client.delete_multi(list(values))
    assert client.get_multi(list(values)) == {}


def test_cas(connect, name):
    client = connect()
    client.set(name, "1")
    value, number = client.gets(name)
    assert value == "1" and client.cas(name, "2", number)
    assert not client.cas(name, "3", number)
    assert client.get(name) == "2"


def test_numbers_and_times(connect, binary, name):
    client = connect()
    with pytest.raises(pylibmc.NotFound):
        client.incr(name)
    client.set(name, 10)
    assert client.incr(name, 32) == 42 and client.decr(name, 100) == 0
    assert not client.touch(f"{name}-absent", 100)
    if (
        not binary
    ):  # its libmemcached, 1.0.16, waits for more than any server answers to a touch that succeeds
        assert client.touch(name, 1)
        until(lambda: client.get(name) is None, "the touched item to expire")
    client.set(name, "later", time=int(time.time()) + 1000)
    assert client.get(name) == "later"


def test_large_and_compressed(connect, name):
    client = connect()
    value = "compressible " * 50_000
    assert client.set(name, value, min_compress_len=100, compress_level=6)
    assert client.get(name) == value
    with pytest.raises(pylibmc.TooBig):
        client.set(name, b"x" * (2 << 20))
    assert client.set(name, "after") and client.get(name) == "after"


def test_without_blocking(connect, name):
    client = connect(no_block=True, tcp_nodelay=True, num_replicas=0, hash="murmur", ketama=True)
    for number in range(500):
        client.set(f"{name}-{number}", number)
    assert connect().get_multi([f"{name}-{number}" for number in range(500)]) == {
        f"{name}-{number}": number for number in range(500)
    }


def test_administration(connect, name):
    client = connect()
    ((_, stats),) = client.get_stats()
    assert int(stats["pid"]) > 0
    client.set(name, "x")
    assert client.flush_all()
    assert client.get(name) is None


def test_aiomcache(start, key):
    """Many requests at once over a pool of connections."""
    server = start("-t", 2, "-m", 64)

    async def talk():
        client = aiomcache.Client("127.0.0.1", server.port, pool_size=8)
        keys = [b"%b-%d" % (key, number) for number in range(200)]
        assert all(await asyncio.gather(*(client.set(one, b"<" + one + b">") for one in keys)))
        assert await client.multi_get(*keys) == tuple(b"<" + one + b">" for one in keys)
        assert await asyncio.gather(*(client.get(one) for one in keys)) == [b"<" + one + b">" for one in keys]
        value, number = await client.gets(keys[0])
        assert await client.cas(keys[0], value + b"!", number) and not await client.cas(keys[0], b"", number)
        assert not await client.add(keys[0], b"x") and await client.append(keys[0], b"?")
        assert await client.get(keys[0]) == b"<" + keys[0] + b">!?"
        await client.set(keys[1], b"10")
        assert await client.incr(keys[1], 32) == 42 and await client.decr(keys[1], 100) == 0
        assert await client.touch(keys[2], 100) and await client.delete(keys[2])
        assert await client.get(keys[2]) is None
        assert await client.stats() and await client.flush_all() is None
        await client.close()

    asyncio.run(talk())
