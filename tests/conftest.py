"""Fixtures: `server` is one shared server per number of workers, `start` makes servers with options of their
own, `port` starts native servers behind every kind of port.

Tests run with two workers, in make test-full (TEST_FULL=1) with one and four, too. A module that says
EVERY_MODE = True also runs its tests on a shared server that is a store under EREW, in make test-full on all
of OTHER_MODES."""

# ruff: noqa: E402 (the harness is marked before it is imported)

import dataclasses
import uuid

import pytest

# Comparisons in the harness are told as those in tests are (harness.steady).
pytest.register_assert_rewrite("harness")

from harness.failures import Crash
from harness.network import ports
from harness.network.links import Links
from harness.server import Server
from harness.tools import browser as browsers

pytest_plugins = ["harness.steady"]

WORKERS = (1, 2, 4)
SETUPS = [pytest.param((workers, ()), id=f"workers{workers}") for workers in WORKERS]
# The last one is that of every run: it differs most from a cache under CRCW.
OTHER_MODES = [
    pytest.param((3, ("--access", "erew")), id="erew"),
    pytest.param((2, ("--access", "crew", "--balance", "auto")), id="crew"),
    pytest.param((2, ("--semantics", "store")), id="store"),
    # io_uring, unless the kernel refuses it: test_io.py says which.
    pytest.param((2, ("--io", "auto")), id="io-auto"),
    pytest.param((2, ("--semantics", "store", "--access", "erew")), id="store-erew"),
]
SHOWN_BYTES = 4096


class Shared:
    """The server that tests with the same setup share; replaced when a test has ended it."""

    def __init__(self, setup):
        self.workers, self.options = setup
        self.server = None

    def get(self):
        if self.server is None:
            self.server = Server("-t", self.workers, "-m", "64", *self.options)
        return self.server

    def drop(self):
        if self.server is not None:
            self.server.end()
            self.server = None


def pytest_generate_tests(metafunc):
    """Whatever uses the number of workers or the shared server runs once for each setup."""
    if "setup" in metafunc.fixturenames:
        setups = SETUPS if ports.is_full() else SETUPS[1:2]
        if getattr(metafunc.module, "EVERY_MODE", False):
            setups = setups + (OTHER_MODES if ports.is_full() else OTHER_MODES[-1:])
        metafunc.parametrize("setup", setups, indirect=True, scope="session")


@pytest.fixture(scope="session")
def setup(request):
    """The number of workers and further options of the shared server."""
    return request.param


@pytest.fixture(scope="session")
def workers(setup):
    """The number of workers."""
    return setup[0]


@pytest.fixture(scope="session")
def shared(setup):
    """Holds the shared server."""
    shared = Shared(setup)
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
        raise Crash(f"the server ended during the test, with status {status}:\n{said}")


@pytest.fixture(scope="session")
def links():
    """Links to the servers behind ports around the kernel."""
    with Links() as links:
        yield links


@pytest.fixture(scope="module", params=ports.every_port(), ids=str)
def port(request, links):
    """The way to native servers of one worker and of several: the kernel's sockets, and each port around the
    kernel."""
    return dataclasses.replace(request.param, links=links)


@pytest.fixture(scope="module", params=ports.many_workers(), ids=str)
def port_of_many(request, links):
    """The same, several workers alone."""
    return dataclasses.replace(request.param, links=links)


@pytest.fixture(scope="module", params=ports.each_kind(), ids=str)
def port_of_each_kind(request, links):
    """Each way once, with two workers unless a test says otherwise."""
    return dataclasses.replace(request.param, links=links)


@pytest.fixture(scope="module", params=ports.around_the_kernel(), ids=str)
def port_around(request, links):
    """Each port around the kernel, one worker unless a test says otherwise."""
    return dataclasses.replace(request.param, links=links)


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


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium."""
    if not browsers.program():
        pytest.skip("there is no Chromium (Debian: chromium)")
    with browsers.Browser() as running:
        yield running


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
