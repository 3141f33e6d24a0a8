"""Access modes that change under load: no answer is ever wrong, whoever owns a partition and whoever may read
it."""

import itertools
import os
import random
import signal
import threading

import pytest

from harness.memcached.values import is_value_of, value_of
from harness.poll import until

KEYS = 400
CONNECTIONS = 6
BATCH = 30
SWITCH_S = 0.05
SWITCHES = 40
OPERATIONS_MIN = 20_000


class Client(threading.Thread):
    """Writes keys of its own, whose values it knows, and keys that all write, whose values say what they are.
    """

    def __init__(self, server, number, prefix, ending):
        super().__init__(daemon=True)
        self.server, self.number, self.prefix, self.ending = server, number, prefix, ending
        self.generator = random.Random(number)
        self.known = {}
        self.counted = 0
        self.operations = 0
        self.failure = None

    def run(self):
        try:
            with self.server.connect() as connection:
                for version in itertools.count():
                    if self.ending.is_set():
                        break
                    self.own_keys(connection, version)
                    self.shared_keys(connection, version)
                    self.count(connection)
        except BaseException as error:  # a thread has no other way to tell
            self.failure = f"client {self.number}: {error!r}"

    def own_keys(self, connection, version):
        """One pipeline of sets, deletes and gets; every get sees the writes before it."""
        requests, expected = [], []
        for _ in range(BATCH):
            key = b"%b-%d-own-%d" % (self.prefix, self.number, self.generator.randrange(KEYS))
            if self.generator.random() < 0.1:
                requests.append(b"delete %b\r\n" % key)
                expected.append(b"DELETED" if key in self.known else b"NOT_FOUND")
                self.known.pop(key, None)
            else:
                value = value_of(key, self.number, version)
                requests.append(b"set %b 0 0 %d\r\n%b\r\n" % (key, len(value), value))
                expected.append(b"STORED")
                self.known[key] = value
        connection.send(b"".join(requests))
        for reply in expected:
            assert (line := connection.line()) == reply, line
        keys = list(dict.fromkeys(self.generator.choices(list(self.known), k=BATCH)))
        found = connection.values(b"get " + b" ".join(keys) + b"\r\n")
        assert found == {key: (0, self.known[key]) for key in keys}
        self.operations += 2 * BATCH

    def shared_keys(self, connection, version):
        """Keys that everybody writes: a value is some client's, whole, and of this key."""
        keys = [b"%b-all-%d" % (self.prefix, self.generator.randrange(20)) for _ in range(BATCH)]
        sets = []
        for key in keys[: BATCH // 3]:
            value = value_of(key, self.number, version)
            sets.append(b"set %b 0 0 %d noreply\r\n%b\r\n" % (key, len(value), value))
        connection.send(b"".join(sets))
        for key, (_, value) in connection.values(b"get " + b" ".join(dict.fromkeys(keys)) + b"\r\n").items():
            assert is_value_of(key, value), (key, value[:100])
        self.operations += BATCH

    def count(self, connection):
        """A number that everybody increments, on one key."""
        connection.send(b"incr %b-count 1\r\n" % self.prefix * 5)
        numbers = [int(connection.line()) for _ in range(5)]
        assert numbers == sorted(set(numbers)), numbers
        self.counted += 5


def run_under_load(server, prefix, change):
    """Clients at work while `change(turn)` is called every SWITCH_S, until there were enough operations."""
    ending = threading.Event()
    with server.connect() as connection:
        connection.set(b"%b-count" % prefix, b"0")
    clients = [Client(server, number, prefix, ending) for number in range(CONNECTIONS)]
    for client in clients:
        client.start()
    try:
        for turn in itertools.count():
            change(turn)
            ending.wait(SWITCH_S)
            assert all(client.is_alive() for client in clients), [client.failure for client in clients]
            if turn >= SWITCHES and sum(client.operations for client in clients) > OPERATIONS_MIN:
                break
    finally:
        ending.set()
        for client in clients:
            client.join(60)
    assert [client.failure for client in clients if client.failure] == []
    assert not any(client.is_alive() for client in clients)
    with server.connect() as connection:
        # No increment was lost, whoever executed it.
        assert int(connection.get(b"%b-count" % prefix)) == sum(client.counted for client in clients)
        for client in clients:
            for key, value in client.known.items():
                assert connection.get(key) == value


def done(ended):
    """The request was done."""
    assert ended.returncode == 0, ended.stderr


@pytest.fixture(params=["cache", "store"])
def server(request, start):
    """A server of its own with enough memory for all keys."""
    return start("-t", "3", "-m", "128", "--semantics", request.param)


def test_switching_modes_under_load(server, key):
    generator = random.Random(1)
    partitions = len(server.routes())
    modes = itertools.cycle(["erew", "crew", "crcw", "crew"])

    def change(turn):
        mode = next(modes)
        if turn % 3 == 0:
            done(server.ctl("mode", mode, "--partition", generator.randrange(partitions)))
        else:
            done(server.ctl("mode", mode))

    run_under_load(server, key, change)
    assert int(server.stats()["route_generation"]) > SWITCHES


@pytest.mark.parametrize("mode", ["erew", pytest.param("crew", marks=pytest.mark.full)])
def test_moving_partitions_under_load(server, key, mode):
    generator = random.Random(2)
    partitions = len(server.routes())
    done(server.ctl("mode", mode))

    def change(_):
        done(server.ctl("move", generator.randrange(partitions), generator.randrange(3)))

    run_under_load(server, key, change)
    assert {found for found, _ in server.routes()} == {mode}


def test_everything_on_one_worker_and_back(server, key):
    """One worker owns all, and the others have to ask it; then another one."""
    partitions = len(server.routes())
    done(server.ctl("mode", "erew"))

    def change(turn):
        for partition in range(partitions):
            done(server.ctl("move", partition, turn % 3))

    run_under_load(server, key, change)


def test_flushes_and_modes(start, key):
    """flush_namespace of another namespace, by clients and by ctl, takes nothing from these keys."""
    server = start("-t", "3", "-m", "128", "--access", "erew")

    def change(turn):
        with server.connect() as connection:
            connection.set(b"other:%d" % turn, b"x")
            assert connection.ask(b"flush_namespace other\r\n") == b"OK"
            assert connection.get(b"other:%d" % turn) is None
            connection.set(b"other:%d" % turn, b"y")
            done(server.ctl("invalidate", "other"))
            assert connection.get(b"other:%d" % turn) is None
            done(server.ctl("mode", ["erew", "crew", "crcw"][turn % 3]))

    run_under_load(server, key, change)


def test_snapshots_while_modes_change(start, key, tmp_path):
    """A copy that is made under load holds whole values, each under its key."""
    server = start("-t", "3", "-m", "96", "--access", "crew")

    def change(turn):
        if turn % 15 == 10:
            done(server.ctl("snapshot", tmp_path / f"copy-{turn}"))
        done(server.ctl("mode", ["erew", "crew", "crcw"][turn % 3]))

    run_under_load(server, key, change)
    copy = start("-t", "3", "-m", "96", "--image", tmp_path / "copy-25")
    with copy.connect() as connection:
        found = 0
        for number in range(CONNECTIONS):
            keys = [b"%b-%d-own-%d" % (key, number, i) for i in range(KEYS)]
            for at in range(0, KEYS, 100):
                for name, (_, value) in connection.values(
                    b"get " + b" ".join(keys[at : at + 100]) + b"\r\n"
                ).items():
                    assert is_value_of(name, value)
                    found += 1
        assert found > KEYS


@pytest.mark.parametrize("how", ["TERM", "USR1"])
def test_it_ends_while_workers_ask_each_other(start, key, how):
    """Owners serve the others until all have ended: nobody waits for an answer that does not come."""
    server = start("-t", "4", "-m", "128", "--access", "erew")
    ending = threading.Event()
    with server.connect() as connection:
        connection.set(b"%b-count" % key, b"0")
    clients = [Client(server, number, key, ending) for number in range(CONNECTIONS)]
    for client in clients:
        client.start()
    until(lambda: all(client.operations for client in clients), "every client to be served")
    os.kill(server.pid, getattr(signal, f"SIG{how}"))
    if how == "USR1":
        ending.set()
    assert server.wait_for_end() == 0
    ending.set()
    for client in clients:
        client.join(60)
        assert not client.is_alive()
