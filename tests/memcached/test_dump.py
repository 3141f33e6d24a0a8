"""`lru_crawler metadump` and `mgdump`, `stats sizes`, and what is answered to the rest of memcached's
operator commands."""

import re
import threading
import time
from urllib.parse import unquote_to_bytes

import pytest

from harness.poll import until

LINE = re.compile(
    rb"key=(\S+) exp=(-?\d+) (?:la=(\d+) )?cas=(\d+) fetch=(yes|no) cls=1 size=(\d+) flags=(\d+) "
)


def dump(connection, command=b"lru_crawler metadump all"):
    """The lines of a dump, without what is around them. Those of metadump end in a line feed alone."""
    connection.send(command + b"\r\n")
    return dumped(connection)


def dumped(connection):
    """The lines of a dump that was asked for before."""
    assert connection.line() == b"OK"
    lines = []
    while (line := connection.line()) != b"EN":
        lines += line.split(b"\n")
        if lines[-1] == b"END":
            return lines[:-1]
    return lines


def keys(lines):
    """The keys of metadump's lines."""
    return [unquote_to_bytes(LINE.fullmatch(line)[1].decode()) for line in lines]


@pytest.fixture
def fresh(start, workers):
    return start("-t", workers, "-m", "64")


def test_a_dump_lists_the_facts_of_each_item(fresh):
    with fresh.connect() as connection:
        earliest = int(connection.stats()["time"])
        connection.set(b"plain", b"x" * 100)
        connection.set(b'odd%"\xff', b"v", flags=7, exptime=1000)
        connection.get(b"plain")
        cas = connection.cas(b"plain")
        connection.set(b"gone", b"v", exptime=-1)
        latest = int(connection.stats()["time"])
        lines = dump(connection)
        assert sorted(keys(lines)) == [b'odd%"\xff', b"plain"]
        facts = {LINE.fullmatch(line)[1]: LINE.fullmatch(line).groups()[1:] for line in lines}
        exp, _, told_cas, fetch, size, flags = facts[b"plain"]
        assert (exp, int(told_cas), fetch, flags) == (b"-1", cas, b"yes", b"0")
        assert 105 <= int(size) <= 160
        exp, _, told_cas, fetch, _, flags = facts[b"odd%25%22%FF"]
        assert (told_cas, fetch, flags) == (b"0", b"no", b"7")
        assert earliest - 1 <= int(exp) - 1000 <= latest + 1
        assert sorted(dump(connection, b"lru_crawler mgdump hash")) == [b'mg odd%"\xff', b"mg plain"]
        assert dump(connection, b"lru_crawler metadump 2") == []
        assert dump(connection, b"lru_crawler metadump 1,2") == lines


def test_a_dump_in_a_pipeline_comes_in_its_place(fresh):
    with fresh.connect() as connection:
        connection.set(b"key", b"v")
        found = b"VALUE key 0 1\r\nv\r\nEND\r\n"
        dumped = b"OK\r\nmg key\r\nEN\r\n"
        connection.expect(b"get key\r\nlru_crawler mgdump all\r\nget key\r\n", found + dumped + found)


def test_a_dump_while_others_write_misses_nothing_that_stays(start, workers):
    """Every key that nobody touches is listed at least once; no key is listed that never was; writers go on.
    """
    server = start("-t", workers, "-m", "2048")  # where nothing leaves, however fast they write
    stays = {b"stays-%d" % i for i in range(20_000)}
    with server.connect() as connection:
        connection.send(b"".join(b"set %b 0 0 2 noreply\r\nvv\r\n" % key for key in stays) + b"mn\r\n")
        assert connection.line() == b"MN"
    stop, written = threading.Event(), [0] * 4

    def write(number):
        with server.connect() as writer:
            at = 0
            while not stop.is_set():
                names = [b"comes-%d-%d" % (number, (at + i) % 250_000) for i in range(500)]
                stores = b"".join(b"set %b 0 0 1 noreply\r\nv\r\n" % name for name in names)
                writer.send(
                    stores + b"".join(b"delete %b noreply\r\n" % name for name in names[::2]) + b"mn\r\n"
                )
                assert writer.line() == b"MN"
                at += 500
                written[number] = at
                time.sleep(0.005)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: min(written) >= 10_000, "every writer to write")
        for _ in range(3):
            before = sum(written)
            with server.connect() as connection:
                listed = keys(dump(connection))
            assert stays - set(listed) == set()
            for name in listed:
                assert (
                    name in stays
                    or (re.fullmatch(rb"comes-[0-3]-\d+", name) and int(name.split(b"-")[2]) < 250_000)
                )
            until(lambda: sum(written) > before, "the writers to go on")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert server.stats()["evictions"] == "0"


def test_an_unread_dump_delays_no_other(fresh):
    """The reply is made as it is taken, so the server's memory does not grow with it."""
    with fresh.connect() as other, fresh.connect(receive_buffer_bytes=4096) as lazy:
        other.send(b"".join(b"set key-%d 0 0 1 noreply\r\nv\r\n" % i for i in range(50_000)) + b"mn\r\n")
        assert other.line() == b"MN"
        lazy.send(b"lru_crawler metadump all\r\n")
        for i in range(1000):
            other.set(b"other-%d" % i, b"v")
        assert len(set(keys(dumped(lazy)))) >= 50_000


def test_sizes_count_every_item(fresh):
    with fresh.connect() as connection:
        assert connection.stats("sizes") == {}
        for number, value_bytes in enumerate([1, 1, 60, 1000, 100_000]):
            connection.set(b"key-%d" % number, b"x" * value_bytes)
        sizes = {int(size): int(count) for size, count in connection.stats("sizes").items()}
        assert sum(sizes.values()) == 5
        assert sizes[32] == 2
        assert all(size % 32 == 0 for size in sizes)
        assert 100_000 < max(sizes) < 102_000


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"cache_memlimit 64", b"OK"),
        (b"cache_memlimit 4294967295", b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust"),
        (b"cache_memlimit 7", b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"),
        (b"cache_memlimit", b"ERROR"),
        (b"cache_memlimit x", b"ERROR"),
        (b"lru_crawler", b"ERROR"),
        (b"lru_crawler enable", b"OK"),
        (b"lru_crawler disable", b"CLIENT_ERROR what has expired is always removed"),
        (b"lru_crawler sleep 100", b"OK"),
        (b"lru_crawler sleep x", b"CLIENT_ERROR bad command line format"),
        (b"lru_crawler sleep 2000000", b"CLIENT_ERROR sleep must be one second or less"),
        (b"lru_crawler tocrawl 0", b"OK"),
        (b"lru_crawler crawl all", b"OK"),
        (b"lru_crawler crawl 1,2", b"OK"),
        (b"lru_crawler crawl 0", b"BADCLASS invalid class id"),
        (b"lru_crawler metadump", b"ERROR"),
        (b"lru_crawler metadump x", b"BADCLASS invalid class id"),
        (b"lru_crawler metadump 64", b"BADCLASS invalid class id"),
        (b"lru_crawler metadump all more", b"ERROR"),
        (b"lru mode flat", b"CLIENT_ERROR eviction is chosen at start, with --eviction"),
        (b"lru mode x", b"ERROR"),
        (b"lru tune 10 25 0.1 2.0", b"CLIENT_ERROR eviction is chosen at start, with --eviction"),
        (b"lru tune 10", b"ERROR"),
        (b"slabs", b"ERROR"),
        (b"slabs reassign 1 2", b"CLIENT_ERROR there are no slab classes to move pages between"),
        (b"slabs reassign x y", b"CLIENT_ERROR bad command line format"),
        (b"slabs automove 1", b"OK"),
        (b"slabs automove 3", b"ERROR"),
        (b"slabs automove ratio 0.5", b"OK"),
    ],
    ids=lambda value: value.decode(),
)
def test_operator_commands(client, line, reply):
    client.expect(line + b"\r\n", reply + b"\r\n")


def test_noreply_of_operator_commands(client):
    client.expect(b"cache_memlimit 64 noreply\r\nlru_crawler sleep 1 noreply\r\n", b"")
