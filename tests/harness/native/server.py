"""A server that speaks the native protocol, and clients of it."""

from harness.native.client import NativeClient
from harness.server import Server

WORKERS = (1, 2, 4)


class NativeServer(Server):
    """A server with native ports, which it chooses itself unless the options do. Use it with `with`."""

    def __init__(self, *options, **settings):
        chosen = "--native" in options
        super().__init__(*options, *([] if chosen else ["--native", "-1"]), **settings)
        self.native_port = int(self.stats("native")["native_port"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def client(self, learn=True, **options):
        """A new client, which knows the directory and has a cookie unless `learn` says otherwise."""
        client = NativeClient(self.native_port, **options)
        return client.learn() if learn else client

    def count(self, name):
        """A counter of `stats native`, over all workers."""
        return sum(int(text) for key, text in self.stats("native").items() if key.partition(":")[2] == name)


class Difference:
    """Growth of counters since the object was made."""

    def __init__(self, server, *names):
        self.server = server
        self.before = {name: server.count(name) for name in names}

    def __call__(self, name):
        return self.server.count(name) - self.before[name]
