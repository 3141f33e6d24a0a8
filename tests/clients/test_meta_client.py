"""meta-memcache, a Python client that speaks nothing but the meta commands: leases, stale values, recaching.
"""

import pytest
from meta_memcache import CacheClient, Key, LeasePolicy, RecachePolicy, ServerAddress, SetMode, StalePolicy
from meta_memcache import connection_pool_factory_builder as pools

from harness.poll import until


@pytest.fixture
def connect(start):
    """Makes clients of one server."""
    server = start("-t", 2, "-m", 64)

    def new():
        factory = pools(connection_timeout=30, recv_timeout=30)
        address = ServerAddress(*server.address)
        return CacheClient.cache_client_from_servers(servers=[address], connection_pool_factory_fn=factory)

    return new


@pytest.fixture
def client(connect):
    return connect()


@pytest.fixture
def name(key):
    """A key as text."""
    return key.decode()


def test_stores_and_reads(client, name):
    assert client.get(name) is None
    for value in ("text ä", b"bytes", 42, 10**30, ["list", 1], {"a": (1, 2)}, b"", "x" * 500_000):
        assert client.set(name, value, ttl=1000)
        assert client.get(name) == value
    assert not client.refill(name, "other", ttl=1000) and client.get(name) == "x" * 500_000
    assert client.delete(name) and not client.delete(name) and client.invalidate(name)
    assert client.refill(name, "other", ttl=1000) and client.get(name) == "other"
    assert client.set(name, b"more", ttl=1000, set_mode=SetMode.REPLACE)
    assert client.set(name, b">", ttl=1000, set_mode=SetMode.APPEND)
    assert client.set(name, b"<", ttl=1000, set_mode=SetMode.PREPEND)
    assert client.get(name) == b"<more>"
    assert not client.set(f"{name}-absent", b"x", ttl=1000, set_mode=SetMode.REPLACE)


def test_keys_of_all_kinds(client, name):
    """Keys that are no words travel in base64, and long ones as a digest."""
    for one in (f"{name}-🍺", f"{name} with spaces", f"{name}\n", name * 20):
        assert client.set(Key(one), one, ttl=1000)
        assert client.get(Key(one)) == one
        assert client.delete(Key(one)) and client.get(Key(one)) is None


def test_many(client, name):
    keys = [f"{name}-{number}" for number in range(500)]
    for one in keys:
        client.set(one, f"value of {one}", ttl=1000, no_reply=True)
    found = client.multi_get([*keys, f"{name}-absent", f"{name}-🍺"])
    assert {key.key: value for key, value in found.items() if value is not None} == {
        one: f"value of {one}" for one in keys
    }
    assert sum(value is None for value in found.values()) == 2


def test_cas(client, name):
    client.set(name, "1", ttl=1000)
    value, number = client.get_cas(name)
    assert value == "1" and client.set(name, "2", ttl=1000, cas_token=number)
    assert not client.set(name, "3", ttl=1000, cas_token=number)
    assert not client.delete(name, cas_token=number) and client.get(name) == "2"


def test_numbers(client, name):
    assert not client.delta(name, 1)
    assert client.delta_initialize_and_get(name, 1, initial_value=10, initial_ttl=1000) == 10
    assert client.delta_and_get(name, 32) == 42
    assert client.delta_and_get(name, -100) == 0
    assert client.delta(name, 7) and client.delta(name, 1, no_reply=True)
    assert client.delta_and_get(name, 2**40) == 2**40 + 8


def test_times(client, name):
    client.set(name, "x", ttl=1000)
    assert client.touch(name, 1) and not client.touch(f"{name}-absent", 1)
    until(lambda: client.get(name) is None, "the item to expire")
    client.set(name, "x", ttl=1000)
    assert client.get(name, touch_ttl=1) == "x"
    until(lambda: client.get(name) is None, "the item to expire")


def test_a_lease_goes_to_one(connect, name):
    """One of the clients that miss together makes the value. The others wait until it is there."""
    winner, waiting = connect(), connect()
    policy = LeasePolicy(ttl=30, miss_retries=5)
    assert winner.get_or_lease(name, lease_policy=policy) is None
    waits = []

    def wait(_):
        waits.append(1)
        if len(waits) == 2:
            assert winner.set(name, "made", ttl=1000)

    assert waiting.get_or_lease(name, lease_policy=policy, lease_wait_fn=wait) == "made"
    assert len(waits) == 2


def test_one_recaches_while_the_others_read_on(connect, name):
    """A value that lives less than the policy wants is a miss for one client, once."""
    clients = [connect() for _ in range(4)]
    clients[0].set(name, "old", ttl=20)
    policy = RecachePolicy(ttl=30)
    assert [client.get(name, recache_policy=policy) for client in clients] == [None, "old", "old", "old"]
    clients[0].set(name, "new", ttl=1000)
    assert {client.get(name, recache_policy=policy) for client in clients} == {"new"}


def test_a_stale_value_is_read_until_it_is_replaced(connect, name):
    """Invalidated, not deleted: one client gets the miss, the others the old value."""
    clients = [connect() for _ in range(3)]
    stale = StalePolicy(mark_stale_on_deletion_ttl=30, mark_stale_on_cas_mismatch=True)
    clients[0].set(name, "old", ttl=1000)
    assert clients[0].invalidate(name, stale_policy=stale)
    value, number = clients[0].get_cas(name)
    assert value is None
    assert [client.get(name) for client in clients[1:]] == ["old", "old"]
    assert clients[1].invalidate(name, stale_policy=stale), "again, before the winner is done"
    assert clients[0].set(name, "made of old data", ttl=1000, cas_token=number, stale_policy=stale)
    assert clients[1].get(name) is None, "stored, but stale: another one wins"
    assert clients[2].get(name) == "made of old data"
    assert clients[1].set(name, "new", ttl=1000)
    assert [client.get(name) for client in clients] == ["new"] * 3
