"""Statistics for monitoring: the names exist, and the counters count."""

import os
import re
import time

import pytest

from harness.poll import until

# Names that the usual exporters and dashboards take from `stats`.
NAMES = """
pid uptime time version pointer_size rusage_user rusage_system max_connections curr_connections
total_connections rejected_connections cmd_get cmd_set cmd_flush cmd_touch get_hits get_misses delete_misses
delete_hits incr_misses incr_hits decr_misses decr_hits cas_misses cas_hits cas_badval touch_hits touch_misses
bytes_read bytes_written limit_maxbytes accepting_conns threads conn_yields bytes curr_items total_items
evictions store_too_large store_no_memory cmd_flush_namespace out_of_memory route_generation balance_changes
expiry_lag_seconds spare_buckets spare_buckets_used
""".split()

SETTINGS = """
maxbytes maxconns tcpport udpport verbosity num_threads item_size_max reqs_per_event cas_enabled evictions
inter domain_socket umask
""".split()
SETTINGS += "semantics access eviction balance namespace_delimiter".split()


@pytest.fixture
def fresh(start, workers):
    """A server whose counters nobody else moves."""
    return start("-t", workers, "-m", "64", "-c", "100")


def change(server, connection, request):
    """Returns the growth of the counters by a request, as {name: difference} of those that moved."""
    before = numbers(connection)
    connection.send(request + b"mn\r\n")
    connection.lines_before(b"MN")
    after = numbers(connection)
    return {
        name: after[name] - before[name] for name in after if name in before and after[name] != before[name]
    }


def numbers(connection):
    """The statistics that are counters of requests or items."""
    chosen = ("cmd_", "get_", "delete_", "incr_", "decr_", "cas_", "touch_", "curr_items", "total_items")
    return {name: int(value) for name, value in connection.stats().items() if name.startswith(chosen)}


def test_cas_can_be_told_to_be_off(start):
    """-C shows in the settings."""
    assert start("-t", 1, "-m", 64).stats("settings")["cas_enabled"] == "yes"
    assert start("-t", 1, "-m", 64, "-C").stats("settings")["cas_enabled"] == "no"


def test_every_name_that_monitoring_reads(fresh):
    stats = fresh.stats()
    assert [name for name in NAMES if name not in stats] == []
    assert int(stats["pid"]) == fresh.pid
    assert int(stats["threads"]) >= 1
    assert int(stats["limit_maxbytes"]) == 64 << 20
    assert int(stats["max_connections"]) == 100
    assert int(stats["pointer_size"]) == 64
    assert abs(int(stats["time"]) - time.time()) < 60
    for name in ("rusage_user", "rusage_system"):
        assert re.fullmatch(r"\d+\.\d{6}", stats[name])
    with fresh.connect() as connection:
        assert connection.ask(b"version\r\n") == b"VERSION " + stats["version"].encode()


def test_every_setting_that_monitoring_reads(fresh, workers):
    settings = fresh.stats("settings")
    assert [name for name in SETTINGS if name not in settings] == []
    assert int(settings["maxbytes"]) == 64 << 20
    assert int(settings["maxconns"]) == 100
    assert int(settings["tcpport"]) in (fresh.port, -1)  # what was taken, or what was asked for
    assert int(settings["num_threads"]) == workers
    assert int(settings["item_size_max"]) == 1 << 20


@pytest.mark.parametrize("group", ["items", "slabs"])
def test_groups_that_exporters_ask_for_are_answered(fresh, key, group):
    """An exporter that meets an error here reports the whole server as down. No line before END is fine."""
    with fresh.connect() as connection:
        connection.set(key, b"x")
        connection.stats(group)


@pytest.mark.parametrize(
    ("before", "request_", "moved"),
    [
        (None, b"get K\r\n", {"cmd_get": 1, "get_misses": 1}),
        (b"1", b"get K\r\n", {"cmd_get": 1, "get_hits": 1}),
        (b"1", b"get K K2 K3\r\n", {"cmd_get": 3, "get_hits": 1, "get_misses": 2}),
        (None, b"set K 0 0 1\r\nx\r\n", {"cmd_set": 1, "curr_items": 1, "total_items": 1}),
        (b"1", b"set K 0 0 1\r\nx\r\n", {"cmd_set": 1, "total_items": 1}),
        (None, b"delete K\r\n", {"delete_misses": 1}),
        (b"1", b"delete K\r\n", {"delete_hits": 1, "curr_items": -1}),
        (None, b"incr K 1\r\n", {"incr_misses": 1}),
        (b"1", b"incr K 1\r\n", {"incr_hits": 1}),
        (None, b"decr K 1\r\n", {"decr_misses": 1}),
        (b"1", b"decr K 1\r\n", {"decr_hits": 1}),
        (None, b"touch K 100\r\n", {"cmd_touch": 1, "touch_misses": 1}),
        (b"1", b"touch K 100\r\n", {"cmd_touch": 1, "touch_hits": 1}),
        (None, b"cas K 0 0 1 18446744073709551615\r\nx\r\n", {"cmd_set": 1, "cas_misses": 1}),
        (b"1", b"cas K 0 0 1 18446744073709551615\r\nx\r\n", {"cmd_set": 1, "cas_badval": 1}),
        (None, b"flush_all 3000000\r\n", {"cmd_flush": 1}),
    ],
    ids=lambda value: (
        value.decode("ascii").strip() if isinstance(value, bytes) else ("missing" if value is None else "")
    ),
)
def test_counters_count(fresh, key, before, request_, moved):
    with fresh.connect() as connection:
        if before is not None:
            connection.set(key, before)
        seen = change(fresh, connection, request_.replace(b"K", key))
        counted = set(moved) | {
            "get_hits", "get_misses", "delete_hits", "delete_misses", "cmd_get"
        }
        assert {name: seen.get(name, 0) for name in counted} == {name: moved.get(name, 0) for name in counted}


def test_cas_hits(fresh, key):
    with fresh.connect() as connection:
        connection.set(key, b"1")
        number = connection.cas(key)
        assert change(fresh, connection, b"cas %b 0 0 1 %d\r\nx\r\n" % (key, number))["cas_hits"] == 1


def test_items_and_bytes(fresh, key):
    with fresh.connect() as connection:
        start_bytes = int(connection.stats()["bytes"])
        connection.send(
            b"".join(b"set %b-%d 0 0 100 noreply\r\n%b\r\n" % (key, i, b"x" * 100) for i in range(1000))
        )
        assert connection.ask(b"mn\r\n") == b"MN"
        stats = connection.stats()
        assert int(stats["curr_items"]) > 900  # a lossy index may lose a few
        assert int(stats["total_items"]) == 1000
        assert int(stats["bytes"]) > start_bytes + 900 * 140
        assert int(stats["bytes_read"]) > 100_000
        assert int(stats["bytes_written"]) > 1000


def test_connections_are_counted(fresh):
    with fresh.connect() as connection:
        until(
            lambda: connection.stats()["curr_connections"] == "1",
            "the connection that has tried whether it answers to go",
        )
        before = connection.stats()
        others = [fresh.connect() for _ in range(10)]
        for other in others:
            assert other.ask(b"mn\r\n") == b"MN"
        during = connection.stats()
        assert int(during["curr_connections"]) - int(before["curr_connections"]) == 10
        assert int(during["total_connections"]) - int(before["total_connections"]) == 10
        for other in others:
            other.close()
        until(
            lambda: connection.stats()["curr_connections"] == before["curr_connections"],
            "the connections to be counted out",
        )


def test_reset(fresh, key):
    with fresh.connect() as connection:
        connection.set(key, b"x")
        connection.get(key)
        connection.get(key + b"-none")
        connection.expect(b"stats reset\r\n", b"RESET\r\n")
        stats = connection.stats()
        assert {
            name: stats[name] for name in ("cmd_get", "cmd_set", "get_hits", "get_misses", "total_items")
        } == dict.fromkeys(("cmd_get", "cmd_set", "get_hits", "get_misses", "total_items"), "0")
        assert stats["curr_items"] == "1"
        connection.get(key)
        assert connection.stats()["get_hits"] == "1"


def test_partitions(fresh, workers):
    partitions = fresh.stats("partitions")
    count = int(fresh.stats()["partitions"])
    assert partitions.keys() == {
        f"{i}:{name}" for i in range(count) for name in ("mode", "owner", "requests")
    }
    assert {int(partitions[f"{i}:owner"]) for i in range(count)} == set(range(min(count, workers)))


def test_uptime_goes_on(fresh):
    until(lambda: int(fresh.stats()["uptime"]) >= 1, "the uptime to reach a second")
    assert os.path.exists(f"/proc/{fresh.pid}")
