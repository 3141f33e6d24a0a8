"""The admin side over HTTP: requests as bytes, replies taken apart, metrics as a dictionary."""

import json
import re
import typing

from prometheus_client.parser import text_string_to_metric_families

from harness.memcached.wire import Connection


class Admin:
    """The admin side of a server that was started with --admin."""

    def __init__(self, server):
        found = re.search(r"http://(?:127\.0\.0\.1|0\.0\.0\.0):(\d+)/", server.stderr())
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

    def post(self, path, body, session=None, **changed):
        """(status, headers, body) of an action; `session` is what login() gave. `changed` headers replace
        those that a page of this server sends, None leaves one out."""
        headers = {
            "Host": f"localhost:{self.address[1]}",
            "Origin": f"http://localhost:{self.address[1]}",
            "Content-Type": "application/json",
        }
        if session:
            headers |= {"Cookie": session.cookie, "X-Micanite-Token": session.token}
        headers |= {name.replace("_", "-"): value for name, value in changed.items()}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers |= {"Content-Length": len(data)} if "Content_Length" not in changed else {}
        lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
        return self.send("\r\n".join([f"POST {path} HTTP/1.1", *lines, "", ""]).encode() + data)

    def login(self, user, password):
        """Logs in and returns the session."""
        status, headers, body = self.post("/login", {"user": user, "password": password})
        assert status == 200, (status, body)
        return Session(headers["set-cookie"].split(";")[0], json.loads(body)["token"])

    def events(self):
        """The texts of all events, with how often each happened."""
        found, last = {}, 0
        while changed := self.json(f"/state?since=0&event={last}")["events"]:
            found |= {event[0]: (event[2], event[5], event[6]) for event in changed}
            last = max(event[1] for event in changed)
        return list(found.values())

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


class Session(typing.NamedTuple):
    """A login: what its requests bring along."""

    cookie: str
    token: str


def parts(reply):
    """A reply taken apart: its status, its headers by name in small letters, its body."""
    head, _, body = reply.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    version, status, _ = first.split(" ", 2)
    assert version == "HTTP/1.1"
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    return int(status), headers, body
