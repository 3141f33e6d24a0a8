"""`micanite trace replay native://`: what differs from TCP: values too long for a datagram, datagrams that
get lost, silence."""

import json
import random
import subprocess

import pytest

from harness.native.server import NativeServer
from harness.network.claims import free_ports
from harness.poll import until
from harness.server import environment
from harness.tools.programs import Relay
from harness.tools.replay import FAILED, objects, replay, run_replay, twitter, url_of, words_of

SHORT, LONG = 1300, 1500


@pytest.fixture(scope="module")
def server():
    """A server with room for everything; tests use prefixes of their own."""
    with NativeServer("-t", 2, "-m", 64) as server:
        yield server


@pytest.mark.parametrize("prefix", ["", "a-prefix-of-some-length:"])
def test_values_beyond_a_datagram_are_counted_and_the_rest_is_stored(server, tmp_path, prefix):
    """Sizes around the limit: what is stored can be read, too."""
    sizes = range(SHORT, LONG)
    trace = objects(tmp_path / "trace.csv", [(0, size, size) for size in sizes])
    words = (trace, url_of(server, "native"), "--speed", "max", "--key-prefix", prefix)
    report = replay(*words)
    stored = report["stored_after_misses"]
    assert stored + report["too_large_after_misses"] == report["operations"]["get"]["not_done"] == len(sizes)
    assert (report["refused"], report["lost"], report["not_stored_after_misses"]) == (0, 0, 0)
    assert report["plan"]["datagram_bytes"] == 1472
    # The header, that of the request, key and value: those that fit are stored, to the byte but for the
    # padding.
    assert 1472 - 100 <= SHORT + stored + len(prefix) <= 1472
    again = replay(*words, "--read-only")
    assert again["operations"]["get"]["done"] == stored
    said = run_replay(*words, "--quiet").stdout
    assert (
        f"Left out: 0 requests that store a value, and {len(sizes) - stored} missed values, " in said
        and "memcached://" in said
    )
    # Over TCP they are, and are there for both.
    assert replay(trace, url_of(server), *words[2:])["too_large_after_misses"] == 0
    there = replay(*words, "--read-only")
    assert there["operations"]["get"]["done"] == len(sizes) and there["byte_hit_ratio"] == 1


def test_writes_that_do_not_fit_are_left_out(server, tmp_path):
    steps = [
        (0, "large", 5000, "set", 0), (0, "large", 5000, "delete", 0), (0, "large", 70_000, "add", 0),
        (0, "small", 5, "set", 0)
    ]
    report = replay(twitter(tmp_path / "trace.csv", steps), url_of(server, "native"), "--speed", "max")
    assert report["skipped_too_large"] == 2 and report["refused"] == 0
    assert {name: ended["answered"] for name, ended in report["operations"].items()} == {
        "set": 1, "delete": 1
    }


def test_a_server_that_takes_longer_datagrams_gets_them(tmp_path):
    trace = objects(tmp_path / "trace.csv", [(0, number, 60_000) for number in range(100)] * 2)
    with NativeServer("-t", 1, "-m", 64, "--native-payload", 65507) as server:
        report = replay(trace, url_of(server, "native"), "--speed", "max")
    assert report["too_large_after_misses"] == 0 and report["miss_ratio"] == 0.5


def test_lost_datagrams_are_sent_again(tmp_path):
    """Misses are those of the trace whatever the network does."""
    rng = random.Random(5)
    numbers = [min(int(rng.expovariate(1 / 300)), 1999) for _ in range(20_000)]
    trace = objects(tmp_path / "trace.csv", [(0, number, 100) for number in numbers])
    with (
        NativeServer("-t", 2, "-m", 64, "--native", free_ports(2)[0]) as server,
        Relay(server.native_port, 2, seed=6, loss=0.1, duplicate=0.1, reorder=0.1, reorder_ms=3) as relay,
    ):
        report = replay(trace, f"native://127.0.0.1:{relay.port}", "--speed", "max", "--pipeline", 64)
    assert report["operations"]["get"]["not_done"] == report["stored_after_misses"] == len(set(numbers))
    assert report["datagrams_resent"] > 0 and report["lost"] == 0


def test_a_server_that_dies_is_given_up(tmp_path):
    trace = objects(tmp_path / "trace.csv", [(number, number, 50) for number in range(100_000)])
    with NativeServer("-t", 1, "-m", 64) as server:
        words = words_of(trace, url_of(server, "native"), "--speed", 500, "--json", "-")
        running = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
        )
        until(lambda: int(server.stats()["cmd_get"]) > 400, "requests")
        server.process.kill()
        said, why = running.communicate(timeout=60)
    assert running.returncode == FAILED and "did not reply for 10 s" in why
    assert 100 < json.loads(said)["sent"] < 100_000
