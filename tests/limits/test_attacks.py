"""While clients attack, the server holds no more memory than it printed at start, and others are served."""

import contextlib
import shutil
import statistics
import subprocess
import sys
import time

import pytest

from harness import attacks, native
from harness.memory import MIB, printed_budget_bytes, resident_bytes
from harness.native.client import NativeClient
from harness.poll import until
from harness.server import Server

WORKERS = [pytest.param(1, marks=pytest.mark.full), 2]
ROUND_TRIPS = 50
# Appends to a long value, a queue full of them, in a build for tests.
DRAINED_S = 180
HALF_OPEN = (
    b"", b"get half-a-key", b"set half 0 0 10\r\nhal", b"set half 0 0 100000\r\nhal", b"\x80\x00\x00\x04",
    b"mn\r\n"
)


@contextlib.contextmanager
def under(name, server):
    """While this attack goes on."""
    process = subprocess.Popen(attacks.command(name, server), stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"going\n"
        yield
        assert process.poll() is None, "the attack has ended by itself"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="module", params=WORKERS, ids=lambda workers: f"workers{workers}")
def attacked(request):
    server = Server("-t", request.param, "-m", "64", "-c", "400", "-U", "-1", "--native", "-1")
    server.budget = printed_budget_bytes(server)
    yield server
    server.end()


@pytest.fixture(scope="module", params=WORKERS, ids=lambda workers: f"workers{workers}")
def attacked_in_tls(request, tmp_path_factory):
    """A server that speaks TLS over TCP; others come through its Unix socket."""
    place = tmp_path_factory.mktemp("tls")
    if not shutil.which("openssl"):
        pytest.skip("no `openssl` to make a certificate")
    options = ["-t", request.param, "-m", "64", "-c", "400", "-p", "-1", "-s", place / "socket"]
    server = Server(*options, *attacks.certificate(place))
    server.budget = printed_budget_bytes(server)
    yield server
    server.end()


@pytest.mark.parametrize("name", attacks.PLAIN)
def test_others_are_served_within_the_memory_that_was_printed(attacked, key, name):
    endure(attacked, key, name)


@pytest.mark.parametrize("name", attacks.TLS)
def test_the_same_in_tls(attacked_in_tls, key, name):
    endure(attacked_in_tls, key, name)


def test_a_pipeline_is_answered_beside_tls_hellos(attacked_in_tls):
    """Every one of several turns is answered, in order, while handshakes begin all the time."""
    with attacked_in_tls.connect() as friend, under("tls-hellos", attacked_in_tls):
        for _ in range(5):
            friend.send(b"mn\r\n" * 640)
            for _ in range(640):
                assert friend.line() == b"MN"


def endure(attacked, key, name):
    """Round trips of a friend, meanwhile."""
    with attacked.connect() as friend:
        with under(name, attacked):
            delays_ms, peak, hits = [], 0, 0
            for number in range(ROUND_TRIPS):
                began = time.monotonic()
                friend.set(key, b"%d" % number)
                found = friend.get(key)
                # Values that an attacker stores meanwhile may push it out of a cache.
                if found is not None:
                    assert found == b"%d" % number
                    hits += 1
                delays_ms.append((time.monotonic() - began) * 1000)
                if number % 5 == 0:
                    peak = max(peak, resident_bytes(attacked.pid))
            peak = max(peak, resident_bytes(attacked.pid))
        print(
            f"{name}: set and get: p50 {statistics.median(delays_ms):.2f} ms, worst {max(delays_ms):.1f} ms; "
            f"{peak / MIB:.1f} MiB resident"
        )
        assert peak <= attacked.budget
        assert hits > ROUND_TRIPS / 2
    # Nothing is left of it. Datagrams lie in the socket until they have been answered.
    if name.startswith("native"):
        with NativeClient(int(attacked.stats("native")["native_port"])) as later:
            later.exchange(
                native.requests_datagram(later.header(), [native.Request(native.Opcode.NOOP)]),
                deadline_s=DRAINED_S,
            )
    until(lambda: connections(attacked) <= 2, "the attacker's connections to be closed")
    with attacked.connect() as later:
        # The server may still execute what one of them had sent, which pushes items out of a cache.
        until(lambda: keeps(later, key, b"x" * MIB), "a large value to be kept")


def keeps(client, key, value):
    """Returns whether a value is there after it was stored. Another value never is."""
    client.set(key, value)
    found = client.get(key)
    assert found in (None, value), "another value"
    return found is not None


def connections(server):
    """Returns the number of connections, this one included; more than any limit if this one is refused."""
    try:
        return int(server.stats()["curr_connections"])
    except (AssertionError, KeyError, TypeError, ValueError, OSError):
        return sys.maxsize


def test_idle_connections_are_closed_if_wished(start, workers, key):
    """Idle connections are closed in any state; an active one stays."""
    server = start("-t", workers, "-m", "64", "-o", "idle_timeout=5")
    with server.connect() as busy, contextlib.ExitStack() as stack:
        assert server.stats("settings")["idle_timeout"] == "5"
        idle = [stack.enter_context(server.connect()) for _ in HALF_OPEN]
        for one, sent in zip(idle, HALF_OPEN, strict=True):
            one.send(sent)
        dripping = stack.enter_context(server.connect())

        def kicked():
            busy.set(key, b"x")
            with contextlib.suppress(OSError):
                dripping.send(b"x")
            return int(busy.stats()["idle_kicks"]) == len(idle) + 1

        until(kicked, "idle connections to be closed")
        assert [one.rest() for one in idle] == [b"MN\r\n" if sent == b"mn\r\n" else b"" for sent in HALF_OPEN]


def test_idle_connections_stay_unless_asked(start, key):
    server = start("-t", "1", "-m", "64")
    with server.connect() as idle, server.connect() as busy:
        assert busy.stats("settings")["idle_timeout"] == "0"
        assert "idle_kicks" not in busy.stats()
        idle.send(b"get " + key)
        busy.set(key, b"x")
        idle.expect(b"\r\n", b"VALUE %b 0 1\r\nx\r\nEND\r\n" % key)


def test_slow_writers_do_not_hold_value_buffers_for_ever(start, key):
    """All value buffers are taken by values that come a byte at a time: whoever waits gets one in the end."""
    server = start("-t", "1", "-m", "64", "--value-buffers", "1m")
    with server.connect() as slow, server.connect() as waiting:
        slow.send(b"set slow 0 0 900000\r\nx")
        until(lambda: drip(slow) and ask(server) == b"MN", "the server to look")
        waiting.send(b"set %b 0 0 900000\r\n" % key + b"y" * 900_000 + b"\r\n")
        waiting.socket.settimeout(0.1)

        def stored():
            drip(slow)
            try:
                return waiting.line() == b"STORED"
            except TimeoutError:
                return False

        until(stored, "the other value to be stored", deadline_s=60)
        assert int(server.stats()["value_buffer_stalls"]) == 1


def drip(connection):
    """One more byte, if it is still wanted."""
    with contextlib.suppress(OSError):
        connection.send(b"x")
    return True


def ask(server):
    """A round trip on a connection of its own."""
    with server.connect() as connection:
        return connection.ask(b"mn\r\n")
