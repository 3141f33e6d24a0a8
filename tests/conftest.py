"""Fixtures: `server` is one shared server per number of workers, `start` makes servers with options of their own."""

import uuid

import pytest

from harness.server import Server

WORKERS = (1, 2, 4)
SHOWN_BYTES = 4096


class Shared:
    """The server that tests with the same number of workers share; replaced when a test has ended it."""

    def __init__(self, workers):
        self.workers = workers
        self.server = None

    def get(self):
        if self.server is None:
            self.server = Server("-t", self.workers, "-m", "64")
        return self.server

    def drop(self):
        if self.server is not None:
            self.server.end()
            self.server = None


@pytest.fixture(scope="session", params=WORKERS, ids=lambda n: f"workers{n}")
def workers(request):
    """The number of workers; whatever uses it runs once for each."""
    return request.param


@pytest.fixture(scope="session")
def shared(workers):
    """Holds the shared server."""
    shared = Shared(workers)
    yield shared
    shared.drop()


@pytest.fixture
def server(shared, request):
    """The shared server: use keys of your own, and leave it as you found it."""
    running = shared.get()
    servers_of(request.node).append(running)
    yield running
    if not running.alive():
        status, said = running.process.returncode, running.stderr()[-SHOWN_BYTES:]
        shared.drop()
        pytest.fail(f"the server ended during the test, with status {status}:\n{said}")


@pytest.fixture
def client(server):
    """A raw connection to the shared server."""
    with server.connect() as connection:
        yield connection


@pytest.fixture
def start(request):
    """Starts a server with the given options (keywords are environment variables); it ends with the test."""
    started = []

    def begin(*options, **settings):
        new = Server(*options, **settings)
        started.append(new)
        servers_of(request.node).append(new)
        return new

    yield begin
    for one in started:
        one.end()


@pytest.fixture
def key():
    """A key that no other test uses."""
    return b"key-" + uuid.uuid4().hex.encode()


SERVERS = pytest.StashKey[list]()


def servers_of(item):
    """The servers that this test has used, for the report when it fails."""
    return item.stash.setdefault(SERVERS, [])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure shows what its servers printed."""
    report = yield
    if report.failed and call.when == "call":
        for one in servers_of(item):
            status = "running" if one.alive() else f"ended with {one.process.returncode}"
            report.sections.append((f"server {one.pid} ({status})", one.stderr()[-SHOWN_BYTES:]))
    return report


def pytest_terminal_summary(terminalreporter):
    """One line per test that did not run, in the form that scripts/test-totals reads."""
    for outcome in ("skipped", "xfailed", "xpassed"):
        for report in terminalreporter.stats.get(outcome, []):
            terminalreporter.write_line(f"skipped test: {report.nodeid}")
