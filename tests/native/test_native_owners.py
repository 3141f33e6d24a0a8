"""Request direction: to the owner, to the wrong core, by a directory that is out of date, while owners and
modes change."""

import itertools
import random
import threading

import pytest

from harness import native
from harness.native import Opcode, Status
from harness.native.directory import Access
from harness.native.server import WORKERS, Difference, NativeServer

KEYS = 200
CLIENTS = 4
SWITCHES = 40
SWITCH_S = 0.05
OPERATIONS_MIN = 500


def started(workers, access):
    return NativeServer("-t", workers, "-m", 128, "--access", access)


@pytest.fixture
def erew(port_of_many):
    with port_of_many.server("-t", port_of_many.workers, "-m", 128, "--access", "erew") as running:
        yield running


def keys_of(client, count):
    """Keys, each with a core that does not own it."""
    return [(key := b"key-%d" % number, client.other_port(key)) for number in range(count)]


def test_directed_requests_are_not_forwarded(erew):
    with erew.client() as client:
        forwarded = Difference(erew, "forwarded", "forwarded_in", "stale", "requests")
        for key, _ in keys_of(client, KEYS):
            client.set(key, key)
            assert client.get(key) == key
        assert (forwarded("forwarded"), forwarded("forwarded_in"), forwarded("stale")) == (0, 0, 0)
        assert forwarded("requests") == 2 * KEYS
        assert client.resent == 0
    owners = {owner for owner, _ in client.directory.owners}
    assert owners == set(range(client.directory.core_count)), "every core owns something"


def test_undirected_requests_are_forwarded_once_and_answered_from_the_port_that_was_asked(erew):
    with erew.client() as client:
        counted = Difference(erew, "forwarded", "forwarded_in", "stale", "ring_full")
        for key, wrong in keys_of(client, KEYS):
            client.socket.connect((client.base[0], wrong))  # hears nobody else from here on
            for request in (client.request(Opcode.SET, key, value=key), client.request(Opcode.GET, key)):
                datagram = native.requests_datagram(
                    client.header(partition=client.partition_of(key)), [request]
                )
                client.socket.send(datagram)
                header, (reply,) = native.parse(client.receive())
                assert reply.status == Status.OK and header.generation == client.generation
            assert reply.value == key
        assert counted("forwarded") == counted("forwarded_in") == 2 * KEYS
        assert (counted("stale"), counted("ring_full")) == (0, 0)


@pytest.mark.parametrize("access", ["crew", "crcw"])
def test_requests_that_any_core_may_execute_are_not_forwarded(access):
    """The ports differ in nothing here but in where a datagram arrives, which the tests above say."""
    with started(3, access) as server, server.client() as client:
        assert {mode for _, mode in client.directory.owners} == {Access[access.upper()]}
        counted = Difference(server, "forwarded")
        for key, wrong in keys_of(client, KEYS):
            client.set(key, key, port=wrong)
        assert counted("forwarded") == (KEYS if access == "crew" else 0)
        counted = Difference(server, "forwarded")
        for key, wrong in keys_of(client, KEYS):
            assert client.get(key, port=wrong) == key
        assert counted("forwarded") == 0


def test_a_wrong_partition_in_the_header_is_slow_not_wrong(erew):
    """The header sends the datagram somewhere; what is executed goes by the key."""
    with erew.client() as client:
        for number in range(KEYS // 4):
            key = b"key-%d" % number
            for partition in (0, client.directory.partitions - 1, client.directory.partitions, 65535):
                for port, _ in client.directory.cores:
                    value = b"%d-%d-%d" % (number, partition, port)
                    request = client.request(Opcode.SET, key, value=value)
                    _, (reply,) = client.ask(request, partition=partition, port=port)
                    assert reply.status == Status.OK
                    _, (reply,) = client.ask(client.request(Opcode.GET, key), partition=partition, port=port)
                    assert (reply.status, reply.value) == (Status.OK, value)
        with erew.connect() as connection:
            assert connection.get(b"key-1").startswith(b"1-")


def test_keys_of_several_owners_in_one_datagram(erew):
    with erew.client() as client:
        keys = [key for key, _ in keys_of(client, 12)]
        for port, _ in client.directory.cores:
            _, replies = client.ask(
                *[client.request(Opcode.SET, key, value=b"%d" % port) for key in keys], port=port
            )
            assert {reply.status for reply in replies} == {Status.OK}
            _, replies = client.ask(*[client.request(Opcode.GET, key) for key in keys], port=port)
            assert {reply.value for reply in replies} == {b"%d" % port}


@pytest.mark.parametrize("workers", WORKERS)
def test_a_stale_generation_is_slow_not_wrong(workers):
    """The hashes of an old directory, even those of another server, are computed anew."""
    with started(workers, "erew") as server, server.client() as client:
        stale = Difference(server, "stale", "bad_requests")
        generations = [0, client.generation - 1 & 0xFFFFFFFF, client.generation + 1 & 0xFFFFFFFF]
        for number, generation in enumerate(generations):
            key = b"key-%d" % number
            for wrong_hash in (client.hash(key), 0, 2**64 - 1, native.hash_of(key, 1)):
                request = client.request(Opcode.SET, key, value=b"v%d" % wrong_hash, hash=wrong_hash)
                for port, _ in client.directory.cores:
                    header, (reply,) = client.ask(request, generation=generation, port=port, partition=number)
                    assert (reply.status, header.generation) == (Status.OK, client.generation)
                    request = client.request(Opcode.GET, key, hash=wrong_hash)
                    header, (reply,) = client.ask(
                        request, generation=generation, port=port, partition=65535 - number
                    )
                    assert reply.value == b"v%d" % wrong_hash and header.generation == client.generation
                    request = client.request(Opcode.SET, key, value=b"v%d" % wrong_hash, hash=wrong_hash)
        assert stale("bad_requests") == 0
        assert stale("stale") == 3 * 4 * workers * 2


def test_the_generation_changes_with_every_owner_and_mode_and_run(erew):
    with erew.client() as client:
        seen = [client.generation]
        for words in (["move", 0, 1], ["mode", "crew"], ["mode", "crcw", "--partition", 0], ["mode", "erew"]):
            done(erew.ctl(*words))
            assert client.learn().generation not in seen
            seen.append(client.generation)
            owners = [(access.name.lower(), owner) for owner, access in client.directory.owners]
            assert owners == erew.routes()
    with started(2, "erew") as another, another.client() as client:
        assert client.generation not in seen, "of one run of one server"


def done(ended):
    """The request was done."""
    assert ended.returncode == 0, ended.stderr


class Load(threading.Thread):
    """A client that knows what its own keys hold; it goes by its directory, by an old one, or by none, in
    turn."""

    def __init__(self, server, number, ending):
        super().__init__(daemon=True)
        self.server, self.number, self.ending = server, number, ending
        self.generator = random.Random(number)
        self.known = {}
        self.added = 0
        self.operations = 0
        self.failure = None

    def run(self):
        try:
            with self.server.client() as client:
                for version in itertools.count():
                    if self.ending.is_set():
                        return
                    self.write(client, version)
                    self.read(client)
                    self.count(client)
        except BaseException as error:  # a thread has no other way to tell
            self.failure = f"client {self.number}: {error!r}"

    def port(self, client):
        """Mostly where the directory says, sometimes anywhere."""
        return self.generator.choice(client.directory.cores)[0] if self.generator.random() < 0.3 else None

    def write(self, client, version):
        """One key of its own: set, appended to, or deleted."""
        key = b"own-%d-%d" % (self.number, self.generator.randrange(KEYS))
        port = self.port(client)
        if self.generator.random() < 0.1:
            status = client.status(Opcode.DELETE, key, port=port)
            # Resent, it may have been the second of its kind.
            assert status == (Status.OK if key in self.known else Status.NOT_FOUND) or client.resent, (
                key, status
            )
            self.known.pop(key, None)
        elif key in self.known and len(self.known[key]) < 500 and self.generator.random() < 0.5:
            assert client.status(Opcode.APPEND, key, value=b"+", port=port) == Status.OK
            self.known[key] += b"+"
        else:
            value = b"%b/%d/" % (key, version) * self.generator.randrange(1, 20)
            client.set(key, value, port=port)
            self.known[key] = value
        self.operations += 1

    def read(self, client):
        """Keys of its own, several owners' in one datagram."""
        if not self.known:
            return
        keys = self.generator.choices(list(self.known), k=3)
        _, replies = client.ask(*[client.request(Opcode.GET, key) for key in keys], port=self.port(client))
        for key, reply in zip(keys, replies, strict=True):
            if reply.status not in (Status.MOVED, Status.SLOW_DOWN):
                assert (reply.status, reply.value) == (Status.OK, self.known[key]), (key, reply)
        self.operations += len(keys)

    def count(self, client):
        """A number that everybody increments."""
        reply = client.do(Opcode.INCREMENT, b"count", argument=1, port=self.port(client))
        assert reply.status == Status.OK, reply
        self.added += 1
        self.operations += 1


def run_under_load(server, change):
    """Clients at work while `change(turn)` is called, until there were enough operations."""
    ending = threading.Event()
    with server.client() as client:
        client.set(b"count", b"0")
    loads = [Load(server, number, ending) for number in range(CLIENTS)]
    for load in loads:
        load.start()
    try:
        for turn in itertools.count():
            change(turn)
            ending.wait(SWITCH_S)
            assert all(load.is_alive() for load in loads), [load.failure for load in loads]
            if turn >= SWITCHES and sum(load.operations for load in loads) > OPERATIONS_MIN:
                break
    finally:
        ending.set()
        for load in loads:
            load.join(60)
    assert [load.failure for load in loads if load.failure] == []
    with server.client() as client:
        # No increment was lost and none counted twice, whoever executed it.
        assert int(client.get(b"count")) == sum(load.added for load in loads)
        for load in loads:
            for key, value in load.known.items():
                assert client.get(key) == value


@pytest.mark.parametrize("semantics", ["cache", pytest.param("store", marks=pytest.mark.full)])
def test_owners_change_under_load(port_of_many, semantics):
    workers = port_of_many.workers
    generator = random.Random(workers)
    with port_of_many.server(
        "-t", workers, "-m", 128, "--access", "erew", "--semantics", semantics
    ) as server:
        partitions = len(server.routes())

        def change(_):
            for _ in range(3):
                done(server.ctl("move", generator.randrange(partitions), generator.randrange(workers)))

        counted = Difference(server, "stale", "forwarded", "forwarded_in", "ring_full")
        run_under_load(server, change)
        assert counted("forwarded") > 0 and counted("stale") > 0
        assert counted("forwarded") == counted("forwarded_in")


def test_modes_change_under_load(port_of_many):
    workers = port_of_many.workers
    generator = random.Random(workers)
    modes = itertools.cycle(["erew", "crew", "crcw", "crew"])
    with port_of_many.server("-t", workers, "-m", 128, "--access", "crcw") as server:
        partitions = len(server.routes())

        def change(turn):
            mode = next(modes)
            only = ["--partition", generator.randrange(partitions)] if turn % 3 == 0 else []
            done(server.ctl("mode", mode, *only))

        run_under_load(server, change)


def test_one_worker_needs_no_direction():
    with started(1, "erew") as server:
        run_under_load(server, lambda turn: None)
        assert server.count("forwarded") == 0
