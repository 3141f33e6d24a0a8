"""`micanite trace replay`: traces against live servers, what comes out, and how it ends."""

import json
import random
import re
import signal
import subprocess
from contextlib import contextmanager

import pytest

from harness.native.server import NativeServer
from harness.network.claims import free_port
from harness.poll import until
from harness.server import Server, environment
from harness.tools.fake import FakeStream
from harness.tools.replay import FAILED, USAGE, objects, replay, run_replay, twitter, url_of, words_of

SCHEMES = ("memcached", "native")


@contextmanager
def served(*options):
    """A server of ours, as long as it is needed."""
    server = Server(*options)
    try:
        yield server
    finally:
        server.end()


@pytest.fixture(scope="module")
def server():
    """A server with room for everything; tests use prefixes of their own."""
    with NativeServer("-t", 2, "-m", 256) as server:
        yield server


@pytest.fixture(params=SCHEMES)
def url(server, request):
    """Returns the server's URL for each protocol."""
    return url_of(server, request.param)


@pytest.mark.parametrize(
    "way", [("--connections", 1, "--pipeline", 1), ("--connections", 6, "--threads", 2), ("--pipeline", 200)]
)
def test_with_room_for_all_only_the_first_request_of_an_object_misses(url, tmp_path, way):
    rng = random.Random(str(way))
    prefix = ("--key-prefix", f"{url[:6]}{len(str(way))}:")
    sizes = {number: rng.randrange(12, 1300 if "native" in url else 5000) for number in range(2000)}
    numbers = [min(int(rng.expovariate(1 / 300)), 1999) for _ in range(30_000)]
    trace = objects(tmp_path / "trace.csv", [(0, number, sizes[number]) for number in numbers])
    report = replay(trace, url, "--speed", "max", *way, *prefix)
    distinct = set(numbers)
    ends = report["operations"]["get"]
    assert (ends["answered"], ends["not_done"], ends["refused"]) == (len(numbers), len(distinct), 0)
    assert report["stored_after_misses"] == len(distinct)
    missed_bytes = sum(sizes[number] for number in distinct)
    assert report["byte_miss_ratio"] == pytest.approx(
        missed_bytes / sum(sizes[number] for number in numbers), abs=1e-12
    )
    again = replay(trace, url, "--speed", "max", *prefix, "--read-only")
    assert again["hit_ratio"] == 1 and again["byte_hit_ratio"] == 1
    assert sum(second["requests"] for second in again["seconds"]) == len(numbers)


def test_key_and_value_together_have_the_size_of_the_trace(server, url, tmp_path):
    with server.connect() as client:
        client.ask(b"flush_all\r\n")
    before = server.stats()
    replay(
        objects(tmp_path / "trace.csv", [(0, 2**64 - 1, 100), (0, 0, 11), (0, 1, 3)]), url, "--speed", "max"
    )
    with server.connect() as client:
        for key, value in ((b"_" * 10 + b"P", b"0" * 89), (b"A" * 11, b""), (b"B" + b"A" * 10, b"")):
            client.send(b"get %s\r\n" % key)
            assert client.line() == b"VALUE %s 0 %d" % (key, len(value))
            assert client.line() == value and client.line() == b"END"
    sets = int(server.stats()["cmd_set"]) - int(before["cmd_set"])
    assert sets == 3 or (sets > 3 and url.startswith("native")), "datagrams may be sent again"


def test_every_operation(server, url, tmp_path):
    with server.connect() as client:
        client.ask(b"flush_all\r\n")
    steps = [
        (0, "ops:a", 5, "set", 0),
        (0, "ops:a", 6, "add", 0),
        (0, "ops:b", 6, "replace", 0),
        (0, "ops:a", 2, "append", 0),
        (0, "ops:a", 3, "prepend", 0),
        (0, "ops:a", 7, "cas", 0),
        (0, "ops:none", 7, "cas", 0),
        (0, "ops:n", 2, "add", 0),
        (0, "ops:n", 0, "incr", 0),
        (0, "ops:n", 0, "incr", 0),
        (0, "ops:n", 0, "decr", 0),
        (0, "ops:a", 7, "gets", 0),
        (0, "ops:gone", 4, "set", 1000),
        (0, "ops:gone", 0, "delete", 0),
        (0, "ops:empty", 0, "set", 0),
        (0, "ops:empty", 0, "incr", 0),
        (0, "ops:filled", 9, "get", 0),
        (0, "ops:filled", 9, "get", 0),
        (0, "ops:unknown", 0, "get", 0),
    ]
    report = replay(twitter(tmp_path / "trace.csv", steps), url, "--speed", "max", "--connections", 3)
    ends = {
        name: (ended["done"], ended["not_done"], ended["refused"])
        for name, ended in report["operations"].items()
    }
    assert ends == {
        "set": (3, 0, 0),
        "add": (1, 1, 0),
        "replace": (0, 1, 0),
        "append": (1, 0, 0),
        "prepend": (1, 0, 0),
        "cas": (1, 1, 0),
        "incr": (2, 0, 1),
        "decr": (1, 0, 0),
        "gets": (1, 0, 0),
        "delete": (1, 0, 0),
        "get": (1, 2, 0),
    }
    assert ("number" if "native" in url else "non-numeric") in report["refusal"] and report[
        "stored_after_misses"
    ] == 1
    with server.connect() as client:
        client.send(b"get ops:a ops:n ops:gone\r\n")
        assert [client.line() for _ in range(5)] == [
            b"VALUE ops:a 0 7", b"0" * 7, b"VALUE ops:n 0 2", b"1 ", b"END"
        ]


def test_expiries_shrink_with_the_time(server, url, tmp_path):
    trace = twitter(
        tmp_path / "trace.csv", [(0, "expiry:a", 5, "set", 1000), (0, "expiry:b", 5, "set", 5_000_000)]
    )
    for speed, expected in ((10, (100, 500_000)), ("max", (1000, 5_000_000))):
        replay(trace, url, "--speed", speed)
        with server.connect() as client:
            for key, seconds in zip(("a", "b"), expected, strict=True):
                client.send(f"mg expiry:{key} t\r\n".encode())
                assert 0 <= seconds - int(client.line().split(b"t")[-1]) < 60


def test_the_server_gets_a_timed_replay_in_the_order_of_the_trace(tmp_path):
    seen = []

    def converse(connection, file):
        while line := file.readline():
            if line.startswith(b"get "):
                seen.append(line.split()[1])
            connection.sendall(b"END\r\n" if line.startswith(b"get ") else b"VERSION 1\r\n")

    trace = objects(tmp_path / "trace.csv", [(number // 50, number * 977 % 500, 50) for number in range(500)])
    with FakeStream(converse) as fake:
        words = (trace, f"memcached://127.0.0.1:{fake.port}", "--connections", 1, "--read-only")
        report = replay(*words, "--speed", 20)
        timed = list(seen)
        seen.clear()
        fast = replay(*words, "--speed", "max")
    assert timed == seen and len(timed) == len(set(timed)) == 500
    assert report["lag_us"] is not None and fast["lag_us"] is None
    # Ten seconds of the trace, twenty times as fast: it does not end before its last request is due.
    assert report["seconds_taken"] >= 0.45


def test_over_a_unix_socket(tmp_path):
    trace = objects(tmp_path / "trace.csv", [(0, number % 10, 50) for number in range(100)])
    path = tmp_path / "socket"
    with served("-s", path, "-m", 64):
        assert replay(trace, f"unix://{path}", "--speed", "max")["operations"]["get"]["not_done"] == 10


def test_a_server_that_dies_ends_it_with_the_report_so_far(tmp_path):
    trace = objects(tmp_path / "trace.csv", [(number, number, 50) for number in range(100_000)])
    with served("-t", 1, "-m", 64) as server:
        words = words_of(trace, url_of(server), "--speed", 500, "--json", "-")
        running = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
        )
        until(lambda: int(server.stats()["cmd_get"]) > 100, "requests")
        server.process.kill()
        said, why = running.communicate(timeout=30)
    assert running.returncode == FAILED and "closed the connection" in why
    assert 100 < json.loads(said)["sent"] < 100_000


def test_a_signal_ends_it_with_the_report_so_far(server, tmp_path):
    trace = objects(tmp_path / "trace.csv", [(number, number, 50) for number in range(100_000)])
    before = int(server.stats()["cmd_get"])
    words = words_of(trace, url_of(server), "--speed", 500, "--key-prefix", "signal:")
    running = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    until(lambda: int(server.stats()["cmd_get"]) > before + 100, "requests")
    for _ in range(20):  # as those do who send a signal to a program and to its group
        running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=30)
    assert running.returncode == 0 and "hit ratio" in said
    # What was sent, and not what was read ahead of it.
    sent = int(re.search(r"^requests +(\d+) in ", said, re.MULTILINE)[1])
    assert f"Interrupted after {sent} requests were sent." in said
    asked = int(server.stats()["cmd_get"]) - before
    assert asked <= sent < 100_000


def test_servers_of_other_protocols_are_reported(tmp_path):
    trace = objects(tmp_path / "trace.csv", [(0, number, 50) for number in range(100)])

    def converse(connection, file):
        while file.readline():
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n")

    with FakeStream(converse) as fake:
        ended = run_replay(trace, f"memcached://127.0.0.1:{fake.port}", "--speed", "max")
    assert ended.returncode == FAILED and "no reply of memcached's: HTTP/1.1" in ended.stderr


@pytest.mark.parametrize(
    ("url", "options", "status", "why"),
    [
        ("http://x", (), USAGE, "no target of a replay"),
        ("127.0.0.1:11211", (), USAGE, "no target of a replay"),
        ("redis://127.0.0.1:1", (), USAGE, "memcached://"),
        ("memcached+udp://127.0.0.1:1", (), USAGE, "to memcached://127.0.0.1:1"),
        ("memcached://127.0.0.1:x", (), USAGE, "'memcached://127.0.0.1:x' is no target"),
        ("unix://socket", (), USAGE, "three slashes"),
        (
            "native://127.0.0.1:{port}", (), FAILED,
            "nobody answers there in the native protocol; start a server there"
        ),
        ("memcached://127.0.0.1:{port}", (), FAILED, "nobody listens there"),
        ("memcached://127.0.0.1:{port}", ("--speed", 0), USAGE, "or max"),
        ("memcached://127.0.0.1:{port}", ("--threads", 8), USAGE, "--connections"),
        ("memcached://127.0.0.1:{port}", ("--pipeline", 0), USAGE, "--pipeline"),
        ("memcached://127.0.0.1:{port}", ("--key-prefix", "a b"), USAGE, "blanks"),
        ("memcached://127.0.0.1:{port}", ("--key-prefix", "a" * 240), USAGE, "at most 239"),
    ],
)
def test_contradictory_options_are_refused_with_a_reason(tmp_path, url, options, status, why):
    trace = objects(tmp_path / "trace.csv", [(0, 1, 50)])
    ended = run_replay(trace, url.format(port=free_port()), *options)
    assert (ended.returncode, why in ended.stderr) == (status, True), ended.stderr
