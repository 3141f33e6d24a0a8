"""A store: what was acknowledged stays until it is deleted or expires, and what has no room is refused."""

import random

import pytest

from harness.failures import nothing_lost
from harness.poll import until

REFUSED = b"SERVER_ERROR out of memory storing object"
BATCH = 64
MEMORY_BYTES = 24 << 20

SIZES = {
    "tiny": lambda generator: generator.randint(1, 16),
    "small": lambda generator: generator.randint(50, 300),
    "large": lambda generator: generator.randint(10_000, 200_000),
    "mixed": lambda generator: generator.choice([8, 100, 3000, 60_000]),
}


@pytest.fixture(
    params=[("-M",), pytest.param(("-M", "--access", "erew"), marks=pytest.mark.full)], ids=["crcw", "erew"]
)
def store(request, start):
    """A store of its own, of two workers."""
    return start("-t", "2", "-m", f"{MEMORY_BYTES}b", *request.param)


def value_of(key, size):
    """Says which key it belongs to, all along."""
    return ((key + b".") * (size // len(key) + 1))[:size]


def set_batch(connection, items):
    """Stores the items in one pipeline; returns whether each was acknowledged."""
    connection.send(
        b"".join(b"set %b 0 0 %d\r\n%b\r\n" % (key, size, value_of(key, size)) for key, size in items)
    )
    replies = [connection.line() for _ in items]
    assert set(replies) <= {b"STORED", REFUSED}
    return [reply == b"STORED" for reply in replies]


def fill(connection, prefix, generator, size_of, refusals=200):
    """Stores new keys until so many were refused; returns {key: size} of those that were acknowledged."""
    acknowledged = {}
    refused = number = 0
    while refused < refusals:
        items = [(b"%b-%d" % (prefix, number + i), size_of(generator)) for i in range(BATCH)]
        number += BATCH
        for (key, size), stored in zip(items, set_batch(connection, items), strict=True):
            if stored:
                acknowledged[key] = size
            else:
                refused += 1
    return acknowledged


def check_all(connection, acknowledged):
    """Every key is there with its value."""
    keys = list(acknowledged)
    for at in range(0, len(keys), BATCH):
        part = keys[at : at + BATCH]
        found = connection.values(b"get " + b" ".join(part) + b"\r\n")
        assert found == {key: (0, value_of(key, acknowledged[key])) for key in part}


@pytest.mark.parametrize("sizes", SIZES)
def test_nothing_acknowledged_is_lost(store, key, sizes):
    generator = random.Random(sizes)
    with store.connect() as connection:
        acknowledged = fill(connection, key, generator, SIZES[sizes])
        taken_bytes = sum(len(name) + size for name, size in acknowledged.items())
        assert taken_bytes > MEMORY_BYTES / 2, "the store took little"
        check_all(connection, acknowledged)
        stats = connection.stats()
        nothing_lost(len(acknowledged) - int(stats["curr_items"]))
        assert int(stats["evictions"]) == 0
        assert int(stats["store_no_memory"]) >= 200
        assert int(stats["out_of_memory"]) >= 200


def test_a_refused_overwrite_keeps_the_old_value(store, key):
    generator = random.Random(1)
    with store.connect() as connection:
        acknowledged = fill(connection, key, generator, SIZES["mixed"])
        refused = 0
        for name in generator.sample(list(acknowledged), 200):
            size = 900_000
            connection.send(b"set %b 0 0 %d\r\n%b\r\n" % (name, size, value_of(name, size)))
            if (reply := connection.line()) == b"STORED":
                acknowledged[name] = size
            else:
                assert reply == REFUSED
                refused += 1
        assert refused > 100
        check_all(connection, acknowledged)


@pytest.mark.parametrize(
    "request_",
    [b"append K 0 0 500000\r\n%b\r\n", b"prepend K 0 0 500000\r\n%b\r\n", b"replace K 0 0 900000\r\n%b\r\n"],
)
def test_refused_stores_change_nothing(store, key, request_):
    with store.connect() as connection:
        connection.set(key, b"old", flags=5)
        fill(connection, key, random.Random(2), SIZES["mixed"], refusals=2000)
        size = 900_000 if b"900000" in request_ else 500_000
        connection.send(request_.replace(b"K", key) % (b"x" * size))
        assert connection.line() == REFUSED
        assert connection.values(b"get %b\r\n" % key) == {key: (5, b"old")}


def test_deletes_give_space_back_at_once(store, key):
    """Several rounds: delete two thirds at random, store again; the store takes about as much each time."""
    generator = random.Random(3)
    with store.connect() as connection:
        acknowledged = fill(connection, key, generator, SIZES["small"])
        first = sum(acknowledged.values())
        for turn in range(3):
            gone = generator.sample(list(acknowledged), 2 * len(acknowledged) // 3)
            for at in range(0, len(gone), BATCH):
                part = gone[at : at + BATCH]
                connection.send(b"".join(b"delete %b\r\n" % name for name in part))
                assert [connection.line() for _ in part] == [b"DELETED"] * len(part)
            for name in gone:
                del acknowledged[name]
            acknowledged |= fill(connection, b"%b-%d" % (key, turn), generator, SIZES["small"])
            assert sum(acknowledged.values()) > 0.9 * first
        check_all(connection, acknowledged)


def test_expired_items_give_space_back(store, key):
    """A store full of items that have expired takes new ones again, without anybody asking for the old ones.
    """
    with store.connect() as connection:
        connection.set(key, b"stays")
        number, refused = 0, 0
        while refused < 10:
            connection.send(
                b"".join(
                    b"set %b-%d 0 1 20000\r\n%b\r\n" % (key, number + i, b"x" * 20_000) for i in range(BATCH)
                )
            )
            number += BATCH
            refused += [connection.line() for _ in range(BATCH)].count(REFUSED)
        taken = number - refused
        assert taken > 100

        def has_room():
            items = [(b"%b-new" % key, 900_000)]
            return set_batch(connection, items) == [True]

        until(has_room, "expired items to give their space back")
        assert connection.get(key) == b"stays"


def test_flush_all_empties_it(store, key):
    with store.connect() as connection:
        fill(connection, key, random.Random(4), SIZES["mixed"])
        connection.expect(b"flush_all\r\n", b"OK\r\n")
        assert connection.get(b"%b-0" % key) is None
        until(lambda: set_batch(connection, [(b"%b-new" % key, 900_000)]) == [True], "the space to come back")


def test_a_store_names_its_semantics(store):
    assert store.stats("settings")["semantics"] == "store"
    assert store.stats("settings")["evictions"] == "off"
    assert "store" in store.stderr()
