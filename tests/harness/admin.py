"""The admin side over HTTP: requests as bytes, replies taken apart, metrics as a dictionary."""

import json
import re

from prometheus_client.parser import text_string_to_metric_families

from harness.memcached.wire import Connection


class Admin:
    """The admin side of a server that was started with --admin."""

    def __init__(self, server):
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", server.stderr())
        assert found, server.stderr()
        self.address = ("127.0.0.1", int(found[1]))

    def connect(self, **options):
        """A raw connection."""
        return Connection(self.address, **options)

    def send(self, request):
        """(status, headers, body) of what a request is answered with, to the end of the connection."""
        with self.connect() as connection:
            connection.send(request)
            return parts(connection.rest())

    def get(self, path, method="GET", host="localhost"):
        """(status, headers, body) of a path."""
        return self.send(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())

    def text(self, path):
        """The body of a path that is there."""
        status, _, body = self.get(path)
        assert status == 200, (status, body)
        return body.decode()

    def json(self, path):
        """The same, read as JSON."""
        return json.loads(self.text(path))

    def families(self):
        """The metrics, as prometheus_client reads them."""
        return list(text_string_to_metric_families(self.text("/metrics")))

    def samples(self):
        """{(name, labels as a sorted tuple of pairs): value}."""
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in self.families()
            for sample in family.samples
        }

    def sum(self, name, **labels):
        """The sum of a metric's samples that have these labels."""
        wanted = set(labels.items())
        found = [value for (at, of), value in self.samples().items() if at == name and wanted <= set(of)]
        assert found, f"no {name} with {labels}"
        return sum(found)


def parts(reply):
    """A reply taken apart: its status, its headers by name in small letters, its body."""
    head, _, body = reply.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    version, status, _ = first.split(" ", 2)
    assert version == "HTTP/1.1"
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    return int(status), headers, body
