"""`watch`: what clients see of requests, evictions and connections, and that a slow watcher costs nobody
anything."""

import re
import threading
from pathlib import Path

import pytest

from harness.failures import Hang
from harness.memcached.udp import UdpClient
from harness.poll import until

SILENT = [b"rawcmds", b"sysevents", b"proxyreqs"]


@pytest.fixture
def fresh(start, workers):
    return start("-t", workers, "-m", "64")


class Watcher:
    """A connection that watches; its lines as dictionaries."""

    def __init__(self, server, *kinds):
        self.connection = server.connect()
        assert self.connection.ask(b" ".join((b"watch", *kinds)) + b"\r\n") == b"OK"
        self.text = b""

    def lines(self):
        """Whole lines that have come so far; waits for the first."""
        while not self.text.endswith(b"\n"):
            part = self.connection.socket.recv(1 << 20)
            assert part
            self.text += part
        lines, self.text = self.text.splitlines(), b""
        return [dict(word.split(b"=", 1) for word in line.split(b" ")) for line in lines]

    def until(self, wanted):
        """Lines until one for which `wanted` is true, which is the last."""
        seen = []
        while not any(wanted(line) for line in seen):
            seen += self.lines()
        return seen

    def key(self, key):
        """The lines of keys other than the last, which is this key's."""
        return [line for line in self.until(lambda line: line.get(b"key") == key) if line.get(b"key") != key]


def pick(line, *names):
    """Some of the words of a line."""
    return tuple(line.get(name.encode()) for name in names)


def test_fetchers(fresh):
    watcher = Watcher(fresh)
    with fresh.connect() as connection:
        connection.set(b'odd%"\xff', b"value")
        connection.get(b'odd%"\xff')
        connection.get(b"none")
        connection.values(b"get a b last\r\n")
        lines = watcher.key(b"last")
    assert [pick(line, "type", "key", "status", "clsid", "size") for line in lines] == [
        (b"item_get", b"odd%25%22%FF", b"found", b"1", b"5"),
        (b"item_get", b"none", b"not_found", b"0", b"0"),
        (b"item_get", b"a", b"not_found", b"0", b"0"),
        (b"item_get", b"b", b"not_found", b"0", b"0"),
    ]
    assert all(re.fullmatch(rb"\d+\.\d{6}", line[b"ts"]) and int(line[b"cfd"]) > 0 for line in lines)
    numbers = [int(line[b"gid"]) for line in lines]
    assert numbers == sorted(numbers) and len(set(numbers)) == len(numbers)


def test_a_datagram_is_no_connection(start):
    """A line about a request by UDP does not name the connection that was served before."""
    server = start("-t", 1, "-m", "64", "-U", "-1")
    watcher = Watcher(server, b"fetchers", b"connevents")
    with server.connect() as connection, UdpClient(server.ports()["UDP"]) as client:
        connection.get(b"by-stream")
        assert client.receive(client.send(b"get by-datagram\r\n")) == b"END\r\n"
        lines = watcher.until(lambda line: line.get(b"key") == b"by-datagram")
    new, by_stream, by_datagram = lines
    assert new[b"cfd"] == by_stream[b"cfd"] != by_datagram[b"cfd"]


def test_mutations_and_deletions(fresh):
    stores, removals = Watcher(fresh, b"mutations"), Watcher(fresh, b"deletions", b"evictions")
    with fresh.connect() as connection:
        connection.set(b"k", b"abc", exptime=100)
        for line in (
            b"add k 0 0 1\r\nx", b"replace k 0 0 2\r\nxy", b"append k 0 0 1\r\nz", b"cas k 0 0 1 1\r\nx",
            b"cas n 0 0 1 1\r\nx"
        ):
            connection.ask(line + b"\r\n")
        connection.ask(b"delete k\r\n")
        connection.ask(b"delete k\r\n")
        connection.set(b"last", b"")
        connection.ask(b"delete last\r\n")
        told = stores.key(b"last")
        gone = removals.key(b"last")
    assert [pick(line, "type", "key", "status", "cmd", "ttl", "size") for line in told] == [
        (b"item_store", b"k", b"stored", b"set", b"100", b"3"),
        (b"item_store", b"k", b"not_stored", b"add", b"0", b"1"),
        (b"item_store", b"k", b"stored", b"replace", b"0", b"2"),
        (b"item_store", b"k", b"stored", b"append", None, None),
        (b"item_store", b"k", b"exists", b"cas", b"0", b"1"),
        (b"item_store", b"n", b"not_found", b"cas", b"0", b"1"),
    ]
    assert [pick(line, "type", "key", "cmd") for line in gone] == [(b"deleted", b"k", b"delete")]


def test_connections(fresh):
    watcher = Watcher(fresh, b"connevents")
    connection = fresh.connect()
    port = str(connection.socket.getsockname()[1]).encode()
    assert connection.ask(b"mn\r\n") == b"MN"
    connection.close()
    lines = watcher.until(lambda line: line.get(b"type") == b"conn_close" and line[b"rport"] == port)
    ours = [pick(line, "type", "rip", "transport", "reason") for line in lines if line.get(b"rport") == port]
    assert ours == [
        (b"conn_new", b"127.0.0.1", b"tcp", None), (b"conn_close", b"127.0.0.1", b"tcp", b"normal")
    ]


def test_evictions(start, workers):
    server = start("-t", workers, "-m", "8")
    watcher = Watcher(server, b"evictions")
    with server.connect() as connection:
        for first in range(0, 40_000, 1000):
            sets = b"".join(
                b"set key-%d 0 0 500 noreply\r\n%b\r\n" % (first + i, b"x" * 500) for i in range(1000)
            )
            connection.send(sets + b"mn\r\n")
            assert connection.line() == b"MN"
        assert int(connection.stats()["evictions"]) > 10_000
    lines = [line for line in watcher.lines() if b"key" in line]
    assert lines
    for line in lines:
        assert pick(line, "type", "fetch", "ttl", "clsid", "size") == (
            b"eviction", b"no", b"-1", b"1", b"500"
        )
        assert re.fullmatch(rb"key-\d+", line[b"key"])


@pytest.mark.parametrize("kind", SILENT, ids=lambda kind: kind.decode())
def test_kinds_without_events_are_accepted(fresh, kind):
    Watcher(fresh, kind)


def test_misuse(fresh):
    with fresh.connect() as connection:
        connection.expect(b"watch foo\r\nwatch fetchers foo\r\n", b"ERROR\r\nERROR\r\n")


def test_further_input_of_a_watcher_is_ignored(fresh):
    watcher = Watcher(fresh, b"mutations")
    watcher.connection.send(b"get a\r\nset b 0 0 1\r\nx\r\n" + b"y" * 100_000)
    with fresh.connect() as connection:
        connection.set(b"last", b"")
        assert watcher.key(b"last") == []
        assert connection.get(b"b") is None


def test_a_watcher_that_leaves_is_forgotten(fresh):
    with fresh.connect() as connection:
        for _ in range(50):  # more than there can be at a time
            Watcher(fresh, b"fetchers").connection.close()
            until(lambda: connection.stats()["log_watchers"] == "0", "the watcher to be forgotten")
        watchers = [Watcher(fresh) for _ in range(20)]
        assert connection.stats()["log_watchers"] == "20"
        connection.expect(b"watch fetchers\r\n", b"SERVER_ERROR too many watchers\r\n")
        assert watchers


def resident_kib(server):
    """Memory of the server that is not shared with files."""
    lines = Path(f"/proc/{server.pid}/smaps_rollup").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("Anonymous:")))


def test_a_watcher_that_never_reads_loses_lines_and_holds_up_nobody(start, workers):
    server = start("-t", workers, "-m", "64")
    lazy = Watcher(server, b"fetchers", b"mutations")
    keys = b" ".join(b"key-%d" % i for i in range(100))

    def load():
        with server.connect() as connection:
            for _ in range(300):
                connection.send(b"get " + keys + b"\r\n")
                assert connection.line() == b"END"

    load()
    before_kib = resident_kib(server)
    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        if thread.is_alive():
            raise Hang("a client thread hangs")
    with server.connect() as connection:
        stats = connection.stats()
        assert int(stats["log_watcher_skipped"]) > 10_000
        assert int(stats["cmd_get"]) == 150_000
    assert resident_kib(server) - before_kib < 16 << 10
    # Once it reads, it is told how much it has missed.
    missed = 0
    while missed < int(stats["log_watcher_skipped"]):
        missed += sum(int(line[b"skipped"]) for line in lazy.lines() if b"skipped" in line)
    assert missed == int(stats["log_watcher_skipped"])
