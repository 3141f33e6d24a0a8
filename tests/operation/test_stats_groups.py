"""`stats` by groups: items, slabs, conns, detail; and what monitoring of memcached reads of them."""

import re
import time

import pytest
from pymemcache.client.base import Client

from harness.poll import until

# Names that prometheus/memcached_exporter and telegraf's plugin read of `stats`, as far as there is a number
# for them here.
EXPORTED = """
accepting_conns bytes bytes_read bytes_written cas_badval cas_hits cas_misses cmd_flush cmd_get cmd_set
cmd_touch conn_yields curr_connections curr_items decr_hits decr_misses delete_hits delete_misses
evicted_unfetched evictions expired_unfetched get_hits get_misses hash_bytes hash_power_level incr_hits
incr_misses limit_maxbytes listen_disabled_num max_connections reclaimed rejected_connections store_no_memory
store_too_large threads total_connections total_items total_malloced touch_hits touch_misses uptime
log_watchers log_worker_written log_watcher_skipped log_watcher_sent time_in_listen_disabled_us
""".split()
ITEMS = "number mem_requested evicted evicted_unfetched expired_unfetched outofmemory reclaimed".split()
SLABS = """
chunk_size chunks_per_page total_pages total_chunks used_chunks free_chunks mem_requested get_hits cmd_set
delete_hits incr_hits decr_hits cas_hits cas_badval touch_hits
""".split()


@pytest.fixture
def fresh(start, workers):
    return start("-t", workers, "-m", "64")


def test_every_exported_name_is_a_number(fresh):
    stats = fresh.stats()
    assert [name for name in EXPORTED if not stats.get(name, "").isdigit()] == []


def test_items_and_slabs_agree_with_the_rest(fresh):
    with fresh.connect() as connection:
        assert connection.stats("items") == {}
        for number in range(100):
            connection.set(b"key-%d" % number, b"x" * 100)
        connection.get(b"key-1")
        stats, items, slabs = connection.stats(), connection.stats("items"), connection.stats("slabs")
    assert sorted(items) == sorted(f"items:1:{name}" for name in ITEMS)
    assert sorted(slabs) == sorted([f"1:{name}" for name in SLABS] + ["active_slabs", "total_malloced"])
    assert items["items:1:number"] == stats["curr_items"] == "100"
    assert items["items:1:mem_requested"] == slabs["1:mem_requested"] == stats["bytes"]
    assert (slabs["1:cmd_set"], slabs["1:get_hits"]) == ("100", "1")
    number = {name: int(slabs[f"1:{name}"]) for name in SLABS}
    assert number["used_chunks"] * number["chunk_size"] == number["mem_requested"]
    assert number["used_chunks"] + number["free_chunks"] == number["total_chunks"]
    assert number["total_chunks"] * number["chunk_size"] <= 64 << 20 == int(slabs["total_malloced"])


def test_expired_and_evicted_without_a_request(fresh):
    with fresh.connect() as connection:
        requests = b"set b 0 1 1\r\nx\r\nset a 0 1 1\r\nx\r\nget a\r\n"  # in one batch, so at one time
        connection.expect(requests, b"STORED\r\nSTORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n")
        until(lambda: connection.stats()["reclaimed"] == "2", "both to be removed")
        assert connection.stats()["expired_unfetched"] == "1"
        for first in range(0, 200_000, 1000):
            sets = b"".join(
                b"set key-%d 0 0 500 noreply\r\n%b\r\n" % (first + i, b"x" * 500) for i in range(1000)
            )
            connection.send(sets + b"mn\r\n")
            assert connection.line() == b"MN"
        stats = connection.stats()
        assert int(stats["evictions"]) == int(stats["evicted_unfetched"]) > 50_000


def test_conns(fresh):
    with fresh.connect() as connection, fresh.connect() as other, fresh.connect() as watcher:
        assert other.ask(b"mn\r\n") == b"MN"
        assert watcher.ask(b"watch fetchers\r\n") == b"OK"
        until(lambda: connection.stats()["curr_connections"] == "3", "earlier connections to go")
        until(lambda: "conn_watch" in connection.stats("conns").values(), "the watcher to be noted")
        rows = {}
        for name, value in connection.stats("conns").items():
            number, what = name.split(":")
            rows.setdefault(number, {})[what] = value
    listening = [row for row in rows.values() if row["state"] == "conn_listening"]
    assert {row["addr"] for row in listening} == {f"tcp:127.0.0.1:{fresh.port}"}
    peers = {row["addr"]: row for row in rows.values() if row["state"] != "conn_listening"}
    assert len(peers) == 3
    assert all(row["listen_addr"] == f"tcp:127.0.0.1:{fresh.port}" for row in peers.values())
    assert all(int(row["secs_since_last_cmd"]) < 60 for row in rows.values())
    assert sorted(row["state"] for row in peers.values()) == ["conn_read", "conn_read", "conn_watch"]


STATES = {
    "nothing": (b"mn\r\n", "conn_read"),
    "a piece of a line": (b"mn\r\nset a 0 0 5", "conn_read"),
    "a line without its body": (b"mn\r\nset a 0 0 5\r\n", "conn_nread"),
    "a piece of a body": (b"set a 0 0 100\r\nx", "conn_nread"),
    "a piece of a long body": (b"set a 0 0 100000\r\nx", "conn_nread"),
    "a piece of the body of a meta command": (b"ms a 100\r\nx", "conn_nread"),
    "a piece of a binary body": (
        b"\x80\x01\x00\x01\x08\x00\x00\x00\x00\x00\x00\x0e" + bytes(20) + b"kv", "conn_nread"
    ),
    "a piece of a binary header": (b"\x80\x01", "conn_read"),
    "a piece of a body that is too large": (b"set a 0 0 9000000\r\nx", "conn_swallow"),
    "a piece of a body of a bad line": (b"set a x 0 90\r\nx", "conn_swallow"),
}


@pytest.mark.parametrize(("sent", "state"), STATES.values(), ids=STATES)
def test_conns_show_the_state_of_each_connection(server, sent, state):
    """A connection in the middle of a body is told from one between two requests, as by memcached."""
    with server.connect() as told, server.connect() as other:
        other.send(sent)
        peer = "tcp:{}:{}".format(*other.socket.getsockname())

        def is_told():
            rows = told.stats("conns")
            own = [name for name, value in rows.items() if value == peer and name.endswith(":addr")]
            numbers = [name.split(":")[0] for name in own]
            return [rows[f"{number}:state"] for number in numbers] == [state]

        until(is_told, f"{state} to be told")


def test_conns_tell_of_the_next_request_once_a_body_is_complete(server, key):
    """The state follows the conversation back."""
    with server.connect() as told, server.connect() as other:
        peer = "tcp:{}:{}".format(*other.socket.getsockname())

        def is_told(state):
            rows = told.stats("conns")
            numbers = [
                name.split(":")[0] for name, value in rows.items() if value == peer and name.endswith(":addr")
            ]
            return [rows[f"{number}:state"] for number in numbers] == [state]

        for size in (10, 100_000):
            other.send(b"set %b 0 0 %d\r\n" % (key, size))
            until(lambda: is_told("conn_nread"), "the body to be waited for")
            other.send(b"x" * size + b"\r\n")
            assert other.line() == b"STORED"
            until(lambda: is_told("conn_read"), "the next request to be waited for")


ITEM = re.compile(rb"ITEM (\S+) \[(\d+) b; (\d+) s\]")


def cachedump(connection, words):
    """Returns the output of `stats cachedump`: {key: (length, expiry)}."""
    connection.send(b"stats cachedump %b\r\n" % words)
    told = {}
    for line in connection.lines_before(b"END"):
        key, length, expiry = ITEM.fullmatch(line).groups()
        assert key not in told
        told[key] = (int(length), int(expiry))
    return told


def test_cachedump(fresh):
    """Items of the class that all are of, with their lengths and expiries, up to a limit; old clients read
    keys this way."""
    with fresh.connect() as connection:
        assert cachedump(connection, b"1 10") == {}
        connection.set(b"a", b"x")
        connection.set(b"bb", b"xy", exptime=1000)
        connection.expect(b"ms YSBi 1 b\r\nx\r\n", b"HD\r\n")  # a key with a space in it
        told = cachedump(connection, b"1 10")
        assert told.keys() == {b"a", b"bb"} and told[b"a"] == (1, 0)
        assert told[b"bb"][0] == 2 and abs(told[b"bb"][1] - time.time() - 1000) < 60
        assert len(cachedump(connection, b"1 1")) == 1
        assert cachedump(connection, b"1 0").keys() == told.keys()
        assert cachedump(connection, b"2 10") == {}
        for number in range(5000):
            connection.send(b"set key-%d 0 0 1 noreply\r\nx\r\n" % number)
        assert len(cachedump(connection, b"1 3000")) == 3000
        everything = cachedump(connection, b"1 0").keys()
        assert everything == told.keys() | {b"key-%d" % number for number in range(5000)}


def test_a_library_reads_items_by_cachedump(fresh):
    """pymemcache's own integration tests ask so."""
    client = Client(("127.0.0.1", fresh.port), timeout=30)
    assert client.stats("cachedump", "1", "1") == {}
    client.set("key", "value", noreply=False)
    assert list(client.stats("cachedump", "1", "1")) == [b"key"]
    client.close()


def test_many_conns_are_told_in_one_reply(start, workers):
    """The reply is longer than an output buffer."""
    server = start("-t", workers, "-m", "64", "-c", "1000")
    others = [server.connect() for _ in range(800)]
    for other in others:
        assert other.ask(b"mn\r\n") == b"MN"
    told = server.stats("conns")
    assert len({value for name, value in told.items() if name.endswith(":addr")}) >= 800
    for other in others:
        other.close()


def test_detail(fresh):
    usage = b"CLIENT_ERROR usage: stats detail on|off|dump\r\n"
    with fresh.connect() as connection:
        connection.expect(b"stats detail\r\nstats detail x\r\nstats detail dump\r\n", usage * 2 + b"END\r\n")
        connection.get(b"before:x")
        connection.expect(b"stats detail on\r\n", b"OK\r\n")
        connection.set(b"foo:c", b"x")
        connection.values(b"get foo:a foo:b foo:c bar:x none\r\n")
        connection.ask(b"delete foo:c\r\n")
        dump = b"PREFIX bar get 1 hit 0 set 0 del 0\r\nPREFIX foo get 3 hit 1 set 1 del 1\r\nEND\r\n"
        connection.expect(b"stats detail dump\r\n", dump)
        connection.expect(b"stats detail off\r\n", b"OK\r\n")
        connection.get(b"foo:a")
        connection.expect(b"stats detail dump\r\n", dump)
        connection.expect(b"stats reset\r\nstats detail dump\r\n", b"RESET\r\nEND\r\n")


def test_detail_of_more_prefixes_than_are_told_apart(fresh):
    with fresh.connect() as connection:
        connection.expect(b"stats detail on\r\n", b"OK\r\n")
        connection.send(
            b"".join(b"get %06d%b:x\r\n" % (i, b"p" * 50) for i in range(20_000)) + b"stats detail dump\r\n"
        )
        assert {connection.line() for _ in range(20_000)} == {b"END"}
        prefixes = connection.lines_before(b"END")
        assert len(prefixes) == 1025
        assert sum(int(line.split(b" get ")[1].split()[0]) for line in prefixes) == 20_000
