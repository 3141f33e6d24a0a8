"""Memory is bounded by what the server printed at start, whatever clients store."""

import contextlib
import os

import pytest

from harness.memory import MIB, printed_budget_bytes, resident_bytes

ITEMS = 10_000_000
BATCH = 20_000


@pytest.mark.full
def test_ten_million_small_items_fit_the_printed_budget(start, workers):
    server = start("-t", workers, "-m", "64", "-c", "16")
    budget = printed_budget_bytes(server)
    connections = [server.connect() for _ in range(4)]
    try:
        for first in range(0, ITEMS, BATCH):
            if first == ITEMS - 100_000:  # the newest ones come when nothing older is still on its way
                for connection in connections:
                    assert connection.ask(b"mn\r\n") == b"MN"
            connection = connections[first // BATCH % 4]
            connection.send(
                b"".join(
                    [b"set %08x 0 0 8 noreply\r\n%08x\r\n" % (i, i) for i in range(first, first + BATCH)]
                )
            )
        for connection in connections:
            assert connection.ask(b"mn\r\n") == b"MN"
        resident = resident_bytes(server.pid)
        assert resident <= budget, f"{resident / MIB:.1f} MiB resident, {budget / MIB:.1f} MiB printed"
        stats = connections[0].stats()
        assert int(stats["cmd_set"]) == ITEMS
        assert int(stats["curr_items"]) > 200_000
        assert int(stats["evictions"]) > 0
        kept = 0
        for first in range(ITEMS - 100_000, ITEMS, 1000):
            names = [b"%08x" % i for i in range(first, first + 1000)]
            found = connections[0].values(b"get " + b" ".join(names) + b"\r\n")
            assert all(value == name for name, (_, value) in found.items())
            kept += len(found)
        assert kept > 90_000, "the newest items are to be there"
    finally:
        for connection in connections:
            connection.close()


@pytest.mark.parametrize("size", [100, 4000, 60_000, 500_000])
def test_any_size_of_value_fits_the_printed_budget(start, workers, size):
    server = start("-t", workers, "-m", "64", "-c", "16")
    budget = printed_budget_bytes(server)
    count = 256 * MIB // (size + 100)
    body = os.urandom(size)
    with server.connect() as connection:
        for i in range(count):
            connection.send(b"set %08x 0 0 %d noreply\r\n" % (i, size) + body + b"\r\n")
        assert connection.ask(b"mn\r\n") == b"MN"
        assert resident_bytes(server.pid) <= budget
        assert connection.get(b"%08x" % (count - 1)) == body
        used = int(connection.stats()["curr_items"]) * size
        assert used > 24 * MIB, f"only {used / MIB:.1f} MiB of values are kept"


def test_idle_connections_cost_little(start, workers, key):
    server = start("-t", workers, "-m", "64", "-c", "1000")
    before = resident_bytes(server.pid)
    connections = [server.connect() for _ in range(900)]
    try:
        for connection in connections:
            connection.send(b"get %b\r\n" % key)
        assert [connection.line() for connection in connections] == [b"END"] * 900
        assert resident_bytes(server.pid) <= before + 32 * MIB
    finally:
        for connection in connections:
            connection.close()


def test_half_sent_values_stay_in_the_budget(start, workers, key):
    """Hundreds of clients that announce a large value and stop: buffers are bounded, and everybody else is
    served."""
    server = start("-t", workers, "-m", "64", "-c", "1000")
    budget = printed_budget_bytes(server)
    slow = [server.connect() for _ in range(300)]
    try:
        for i, connection in enumerate(slow):
            connection.socket.settimeout(0.0)
            with contextlib.suppress(BlockingIOError):
                connection.socket.send(b"set %b-%d 0 0 1000000\r\n" % (key, i) + b"x" * 500_000)
        with server.connect() as other:
            for i in range(1000):
                other.set(b"%b-o%d" % (key, i), b"y" * 100)
                assert other.get(b"%b-o%d" % (key, i)) == b"y" * 100
        assert resident_bytes(server.pid) <= budget
    finally:
        for connection in slow:
            connection.close()
    with server.connect() as later:
        later.set(key, b"z" * 1_000_000)
        assert later.get(key) == b"z" * 1_000_000
