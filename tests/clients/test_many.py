"""Three servers on three hosts behind nutcracker: one goes and comes back warm while a client works.

Each host is a network namespace; the proxy and its client are on a fourth. docs/many-machines.md says what is
lost."""

import contextlib
import os
import random
import signal
import threading

import pytest

from harness.failures import nothing_wrong
from harness.memcached.proxy import Proxy
from harness.network.hosts import star
from harness.poll import until
from harness.server import Server

PORT = 12000
KEYS = 600
STEPS = 500
STEPS_WHILE_GONE = 5
GONE = 1
RESTARTS = 3


class HostServer(Server):
    """A server at an address of its host, always at the same port. Connections to it come from its host too.
    """

    def __init__(self, host, *options):
        self.host = host
        with host.inside():
            super().__init__("-l", host.address, "-p", PORT, "-t", 2, "-m", 64, *options)

    @property
    def address(self):
        return (self.host.address, PORT)

    def connect(self, **options):
        with self.host.inside():
            return super().connect(**options)


class Pool:
    """The hosts and the servers on them, each with an image."""

    def __init__(self, hosts, directory):
        *self.hosts, self.front = hosts
        self.directory = directory
        self.servers = [None] * len(self.hosts)
        for place in range(len(self.hosts)):
            self.begin(place)

    def begin(self, place):
        """Starts the server of a host."""
        image = self.directory / f"image-{place}"
        self.servers[place] = HostServer(self.hosts[place], "--image", image)

    def proxy(self, **settings):
        """nutcracker on the host in front of them."""
        names = [f"{host.address}:{PORT}:1 cache-{place}" for place, host in enumerate(self.hosts)]
        with self.front.inside():
            return Proxy(names, **settings)

    def places(self, keys):
        """Returns the server of each key; each key is at exactly one."""
        found = {}
        for place, server in enumerate(self.servers):
            with server.connect() as connection:
                there = connection.values(b"get " + b" ".join(keys) + b"\r\n")
                assert not there.keys() & found.keys()
                found |= dict.fromkeys(there, place)
        return found

    def close(self):
        """Ends the servers."""
        for server in self.servers:
            if server:
                server.end()


@pytest.fixture
def pool(tmp_path):
    with star(4) as hosts, contextlib.closing(Pool(hosts, tmp_path)) as pool:
        yield pool


class Client(threading.Thread):
    """Reads and writes random keys until it is told to stop. Values name their key and count up.

    It knows which values a key may have: the last acknowledged one, and those whose storing failed since, for
    a request that failed may have been executed all the same."""

    def __init__(self, proxy, keys):
        super().__init__(daemon=True)
        self.proxy, self.keys = proxy, keys
        self.connection = proxy.connect()
        self.possible = {}
        self.version = 0
        self.hits, self.misses, self.errors = (dict.fromkeys(keys, 0) for _ in range(3))
        self.wrong = []
        self.stopped = threading.Event()
        self.failed = None

    def store(self, key):
        """Stores a new version; True if that was acknowledged."""
        self.version += 1
        value = b"%b is %d" % (key, self.version)
        said = self.ask(b"set %b 0 0 %d\r\n%b\r\n" % (key, len(value), value))
        if said == b"STORED":
            self.possible[key] = {value}
            return True
        self.possible[key].add(value)
        self.errors[key] += 1
        return False

    def read(self, key):
        """Reads a key; None if that failed, otherwise whether it was there."""
        said = self.ask(b"get %b\r\n" % key)
        if said == b"END":
            self.misses[key] += 1
            return False
        if said is None or not said.startswith(b"VALUE "):
            self.errors[key] += 1
            return None
        value = self.connection.exactly(int(said.split()[3]) + 2)[:-2]
        assert self.connection.line() == b"END"
        self.hits[key] += 1
        if value not in self.possible[key]:
            self.wrong.append((key, value))
        return True

    def ask(self, request):
        """Sends a request and returns the first line of the reply; a connection that was closed is opened
        again."""
        try:
            if (said := self.connection.ask(request)) is not None:
                return said
        except ConnectionError:
            pass
        self.connection.close()
        self.connection = self.proxy.connect()
        return None

    def run(self):
        chance = random.Random(1)
        try:
            while not self.stopped.is_set():
                key = chance.choice(self.keys)
                self.store(key) if chance.random() < 0.3 else self.read(key)
        except BaseException as error:  # for the test to see
            self.failed = error

    def finish(self):
        """Stops; what went wrong in the thread is raised here."""
        self.stopped.set()
        self.join()
        if self.failed:
            raise self.failed

    def sees(self, counts, keys, more, what):
        """Waits until these counts of these keys have grown by so much."""
        before = sum(counts[key] for key in keys)
        until(lambda: self.failed or sum(counts[key] for key in keys) >= before + more, what)


@pytest.fixture
def keys(key):
    return [b"%b-%d" % (key, number) for number in range(KEYS)]


def filled(proxy, pool, keys):
    """A client whose keys are all stored, and which of them are at the server that will be gone, and which
    are not."""
    client = Client(proxy, keys)
    client.possible = {key: set() for key in keys}
    assert all(client.store(key) for key in keys)
    places = pool.places(keys)
    assert sorted(places) == sorted(keys) and set(places.values()) == {0, 1, 2}
    theirs = [key for key in keys if places[key] == GONE]
    return client, theirs, [key for key in keys if places[key] != GONE]


@contextlib.contextmanager
def gone(pool, how):
    """One server is away meanwhile: by a signal, after which it is started again, or without its network."""
    if how == "unplugged":
        pool.hosts[GONE].link("down")
        yield
        pool.hosts[GONE].link("up")
        return
    os.kill(pool.servers[GONE].pid, how)
    assert pool.servers[GONE].wait_for_end() == (0 if how == signal.SIGTERM else -how)
    yield
    pool.servers[GONE].end()
    pool.begin(GONE)


@pytest.mark.parametrize(
    "how", [signal.SIGTERM, signal.SIGKILL, "unplugged"], ids=["stopped", "killed", "unplugged"]
)
def test_nothing_is_lost_when_keys_wait_for_their_server(pool, keys, how):
    """Without ejection: its keys fail while it is away, the others' notice nothing, and it comes back with
    everything."""
    with pool.proxy(auto_eject_hosts="false", timeout=2000 if how == "unplugged" else 30_000) as proxy:
        client, theirs, others = filled(proxy, pool, keys)
        client.start()
        client.sees(client.hits, keys, STEPS, "the client to work")
        with gone(pool, how):
            client.sees(client.errors, theirs, 3, "requests to fail")
            client.sees(client.hits, others, STEPS_WHILE_GONE, "the others to be read")
        client.sees(client.hits, theirs, STEPS_WHILE_GONE, "the server's keys to be read again")
        client.finish()
        nothing_wrong(client.wrong)
        assert sum(client.misses.values()) == 0
        assert sum(client.errors[key] for key in others) == 0
        assert all(client.read(key) for key in keys)
        nothing_wrong(client.wrong)


def test_nothing_is_lost_when_a_server_is_restarted_in_place(pool, keys):
    """`micanite ctl restart`: the process and its listening socket stay. One request each time may have been
    on its way."""
    with pool.proxy(auto_eject_hosts="false") as proxy:
        client, theirs, others = filled(proxy, pool, keys)
        client.start()
        for _ in range(RESTARTS):
            client.sees(client.hits, theirs, STEPS, "the client to work")
            pid = pool.servers[GONE].pid
            restarted = pool.servers[GONE].ctl("restart")
            assert restarted.returncode == 0, restarted.stderr
            assert pool.servers[GONE].stats()["pid"] == str(pid)
        client.sees(client.hits, theirs, STEPS, "the server's keys to be read again")
        client.finish()
        nothing_wrong(client.wrong)
        assert sum(client.misses.values()) == 0
        assert sum(client.errors[key] for key in theirs) <= RESTARTS
        assert sum(client.errors[key] for key in others) == 0
        assert all(client.read(key) for key in keys)
        nothing_wrong(client.wrong)


def test_with_ejection_others_serve_its_keys_and_its_return_brings_older_values(pool, keys):
    """Values that the proxy has sent elsewhere meanwhile stay there. The server that is back has its old
    ones."""
    settings = {"auto_eject_hosts": "true", "server_failure_limit": 1, "server_retry_timeout": 1000}
    with pool.proxy(**settings) as proxy:
        client, theirs, others = filled(proxy, pool, keys)
        client.start()
        client.sees(client.hits, keys, STEPS, "the client to work")
        client.finish()
        before = dict(client.possible)
        with gone(pool, signal.SIGKILL):
            # The proxy tries the server again now and then: that request fails.
            assert all(until(lambda key=key: client.store(key), "to be stored elsewhere") for key in theirs)
            assert all(until(lambda key=key: client.read(key), "to be read elsewhere") for key in theirs)
            assert all(client.read(key) for key in others)
            nothing_wrong(client.wrong)
            assert sum(client.errors[key] for key in others) == 0
        until(
            lambda: client.read(theirs[0]) and pool.servers[GONE].stats()["get_hits"] != "0",
            "the proxy to return",
        )
        client.possible |= {key: before[key] for key in theirs}
        client.wrong.clear()
        assert all(client.read(key) for key in keys)
        nothing_wrong(client.wrong)
