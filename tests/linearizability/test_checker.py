"""The checker of linearizability, before a server that is right and before servers that are not."""

import random
import socketserver
import threading

import pytest

from harness.failures import WrongValue
from harness.tools.linearizability import check

# Out of a thousand requests.
LIES = 10


class Cache(socketserver.ThreadingTCPServer):
    """A small cache with memcached's text protocol. `lie` is what it does wrong now and then."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, lie=None):
        super().__init__(("127.0.0.1", 0), Session)
        self.lie = lie
        self.lock = threading.Lock()
        self.items, self.before, self.writes = {}, {}, 0
        self.random = random.Random(1)

    def lies(self, lie):
        """Returns whether to tell this lie now."""
        return self.lie == lie and self.random.randrange(1000) < LIES

    def get(self, key):
        """A line and a value."""
        items = self.before if self.lies("an old value") else self.items
        if key not in items or self.lies("a miss"):
            return b"END\r\n"
        flags, value, unique = items[key]
        return b"VALUE %b %b %d %d\r\n%bEND\r\n" % (key, flags, len(value) - 2, unique, value)

    def store(self, verb, key, flags, value, unique):
        """Stores a value if the verb allows it."""
        found = self.items.get(key)
        if verb == b"add" and found:
            return b"NOT_STORED\r\n"
        if verb == b"cas" and not found:
            return b"NOT_FOUND\r\n"
        if verb == b"cas" and found[2] != int(unique):
            return b"EXISTS\r\n"
        self.before[key] = found or (flags, value, 0)
        self.writes += 1
        if not self.lies("a write that is lost"):
            self.items[key] = (flags, value, self.writes)
        return b"STORED\r\n"

    def change(self, verb, key=None):
        """All other commands."""
        if verb == b"flush_all":
            self.items.clear()
            return b"OK\r\n"
        if key not in self.items:
            return b"NOT_FOUND\r\n"
        if verb == b"delete" and not self.lies("a delete that is lost"):
            del self.items[key]
        return b"DELETED\r\n" if verb == b"delete" else b"TOUCHED\r\n"


class Session(socketserver.StreamRequestHandler):
    """One connection."""

    def handle(self):
        for line in self.rfile:
            verb, *words = line.split()
            stores = verb in (b"set", b"add", b"cas")
            value = self.rfile.read(int(words[3]) + 2) if stores else None
            with self.server.lock:
                if stores:
                    reply = self.server.store(verb, words[0], words[1], value, words[-1])
                elif verb in (b"get", b"gets"):
                    reply = self.server.get(words[0])
                else:
                    reply = self.server.change(verb, *words[:1])
            self.wfile.write(reply)


def run(lie):
    """Runs clients of such a cache."""
    with Cache(lie) as cache:
        thread = threading.Thread(target=cache.serve_forever, daemon=True)
        thread.start()
        try:
            return check(f"text=127.0.0.1:{cache.server_address[1]}", clients=3, seconds=1)
        finally:
            cache.shutdown()
            thread.join()


def test_a_cache_that_is_right_passes():
    assert run(None)["operations"] > 100


@pytest.mark.parametrize(
    "lie", ["an old value", "a miss", "a write that is lost", "a delete that is lost"]
)
def test_a_cache_that_lies_is_found(lie):
    with pytest.raises(WrongValue) as found:
        run(lie)
    assert "no order of its operations explains" in str(found.value)
