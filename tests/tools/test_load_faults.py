"""`micanite load` against servers that a few lines make, so that it is known what it must report."""

import threading
import time

import pytest

from harness.poll import until
from harness.tools.fake import FakeDatagrams, FakeStream, memcached_requests, resp_requests
from harness.tools.load import SHORT, STEADY, is_clean, load, run_load


def cache(answers=None, seen=None):
    """A conversation of a cache that keeps everything; `answers(key, value)` may change what it returns."""
    items = {}

    def converse(connection, file):
        for words, value in memcached_requests(file):
            if seen is not None:
                seen.append((words, value))
            if value is not None:
                items[words[1]] = value
                connection.sendall(b"STORED\r\n")
            elif words[0] == b"get":
                found = [
                    (key, answers(key, items[key]) if answers else items[key])
                    for key in words[1:]
                    if key in items
                ]
                hits = b"".join(b"VALUE %b 0 %d\r\n%b\r\n" % (key, len(value), value) for key, value in found)
                connection.sendall(hits + b"END\r\n")
            else:
                connection.sendall(b"ERROR\r\n")

    return converse


def flip(value):
    """One bit changed."""
    return value[:-1] + bytes([value[-1] ^ 1])


@pytest.mark.parametrize(
    "answers",
    [
        lambda key, value: flip(value), lambda key, value: value[:-1], lambda key, value: value + b"x",
        lambda key, value: b"x" * 16
    ],
    ids=["bit", "shorter", "longer", "other"],
)
@pytest.mark.parametrize("multiget", [1, 3])
def test_wrong_values_are_found(answers, multiget):
    with FakeStream(cache(answers)) as server:
        report = load(
            f"memcached://127.0.0.1:{server.port}", *SHORT, "--items", 50, "--fill", "--dataset", "12/16",
            "--multiget", multiget, status=1,
        )  # fmt: skip
    assert report["wrong_values"] > 0 and report["hit_ratio"] == 0
    assert any("wrong" in warning for warning in report["warnings"])


def test_the_value_of_another_key_is_wrong():
    def converse(connection, file):
        values = []
        for words, value in memcached_requests(file):
            if value is not None:
                values.append(value)
                connection.sendall(b"STORED\r\n")
            else:
                connection.sendall(
                    b"VALUE %b 0 8\r\n%b\r\nEND\r\n" % (words[1], values[0]) if values else b"ERROR\r\n"
                )

    with FakeStream(converse) as server:
        report = load(f"memcached://127.0.0.1:{server.port}", *STEADY, "--items", 50, "--get", 50, status=1)
    assert 0 < report["wrong_values"] <= report["read_operations"]


@pytest.mark.parametrize(
    "reply, reason",
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "no reply of memcached"),
        (b"END\r\nEND\r\n", "more than was asked"), (b"", "closed")
    ],
)
def test_malformed_replies_end_the_connection(reply, reason):
    def converse(connection, file):
        for _ in memcached_requests(file):
            connection.sendall(reply)
            if not reply:
                return

    with FakeStream(converse) as server:
        report = load(f"memcached://127.0.0.1:{server.port}", *SHORT, "--get", 100, status=1)
    assert report["failed_connections"] == 1
    assert any(reason in warning for warning in report["warnings"]), report["warnings"]


def test_errors_are_counted_and_shown():
    def converse(connection, file):
        for _, value in memcached_requests(file):
            connection.sendall(
                b"END\r\n" if value is None else b"SERVER_ERROR out of memory storing object\r\n"
            )

    with FakeStream(converse) as server:
        url = f"memcached://127.0.0.1:{server.port}"
        report = load(url, *STEADY, "--get", 50)
        assert report["refused"] == report["write_operations"] > 0
        assert report["refusal"] == "SERVER_ERROR out of memory storing object"
        filling = run_load(url, *SHORT, "--items", 10, "--fill")
        assert filling.returncode == 1 and "out of memory" in filling.stderr


def test_a_stall_shows_in_the_latency_of_all_that_came_due():
    """A server withholds one reply until half a second after its first request, and no second request may be
    in flight. Those that came due meanwhile waited too, although none of them was sent."""
    first_at = []

    def converse(connection, file):
        for number, (words, _) in enumerate(memcached_requests(file)):
            if words[0] == b"get":
                first_at.append(time.monotonic())
                if number == 100:
                    until(lambda: time.monotonic() >= first_at[0] + 0.5, "half a second to pass")
            connection.sendall(b"END\r\n")

    with FakeStream(converse) as server:
        report = load(
            f"memcached://127.0.0.1:{server.port}", "--warmup", "0s", "--duration", "1s", "--timeout", "30s",
            "--rate", 1000, "--arrivals", "even", "--pipeline", 1, "--get", 100,
        )  # fmt: skip
    assert report["sent"] == report["answered"] == 1000
    # Request n is due after n ms. Those from 100 to 150 waited for 350 ms or more, and are 5 % of all.
    assert report["latency_us"]["p95"] >= 349_000
    assert report["latency_us"]["max"] >= 399_000


def test_requests_without_reply_count():
    """A server that answers 20 requests and no more."""
    def converse(connection, file):
        for number, _ in enumerate(memcached_requests(file)):
            if number < 20:
                connection.sendall(b"END\r\n")

    with FakeStream(converse) as server:
        report = load(
            f"memcached://127.0.0.1:{server.port}", "--warmup", "0s", "--duration", "1s", "--timeout", "3s",
            "--rate", 200, "--arrivals", "even", "--pipeline", 30, "--get", 100,
        )  # fmt: skip
    assert (report["sent"], report["answered"], report["lost"], report["unsent"]) == (50, 20, 30, 150)
    assert report["loss_ratio"] == 0.9
    # 90 % of the requests have waited from when they were due to the end.
    assert report["latency_us"]["p50"] >= 490_000


def test_the_same_seed_sends_the_same_requests():
    def first_requests(seed):
        seen = []
        with FakeStream(cache(seen=seen)) as server:
            load(
                f"memcached://127.0.0.1:{server.port}", *STEADY, "--items", 1000, "--get", 50, "--seed", seed
            )
        requests = [request for request in seen if request[0][0] != b"version"]
        assert len(requests) >= 50
        return requests[:50]

    one = first_requests(1)
    assert one == first_requests(1) != first_requests(2)
    assert len({request[0][0] for request in one}) == 2


def test_rates_are_kept_exactly_and_follow_their_profile(tmp_path):
    curve = tmp_path / "curve"
    curve.write_text("# time and factor\n0 0\n10 2\n20 0\n")
    with FakeStream(cache()) as server:
        url = f"memcached://127.0.0.1:{server.port}"
        even = ("--rate", 500, "--arrivals", "even", "--warmup", "0s")
        for profile, expected in [
            ("steps:1@500ms,0@200ms,3@300ms", 700), ("spike:3@200ms+500ms", 1000), (curve, 500)
        ]:
            report = load(url, *even, "--duration", "1s", "--rate-profile", profile)
            assert abs(report["sent"] - expected) <= 2, profile
        assert report["offered_ops"] == pytest.approx(500, abs=2)


def test_expiry():
    seen = []
    with FakeStream(cache(seen=seen)) as server:
        load(f"memcached://127.0.0.1:{server.port}", *STEADY, "--expiry", 77, "--get", 0, "--items", 10)
    assert {words[3] for words, value in seen if value is not None} == {b"77"}


def redis(answers, seen):
    """A conversation of a Redis server that keeps everything."""
    items = {}

    def bulk(key):
        return b"$%d\r\n%b\r\n" % (len(items[key]), answers(items[key])) if key in items else b"$-1\r\n"

    def converse(connection, file):
        for words in resp_requests(file):
            seen.append(words)
            if words[0] == b"SET":
                items[words[1]] = words[2]
                connection.sendall(b"+OK\r\n")
            elif words[0] == b"GET":
                connection.sendall(bulk(words[1]))
            elif words[0] == b"MGET":
                connection.sendall(b"*%d\r\n" % (len(words) - 1) + b"".join(map(bulk, words[1:])))
            else:
                connection.sendall(b"$20\r\nredis_version:7.0.99\r\n")

    return converse


@pytest.mark.parametrize("multiget", [1, 4])
def test_redis(multiget):
    seen = []
    options = (*STEADY, "--items", 100, "--get", 80, "--multiget", multiget, "--expiry", 60, "--pipeline", 4)
    with FakeStream(redis(bytes, seen)) as server:
        report = load(f"redis://127.0.0.1:{server.port}", *options, "--fill")
        assert is_clean(report), report
        assert report["servers"] == ["redis 7.0.99"]
        assert {words[0] for words in seen} == {b"INFO", b"SET", b"GET" if multiget == 1 else b"MGET"}
        assert all(words[3:] == [b"EX", b"60"] for words in seen if words[0] == b"SET")
    with FakeStream(redis(flip, seen)) as server:
        assert load(f"redis://127.0.0.1:{server.port}", *options, status=1)["wrong_values"] > 0


def test_a_silent_datagram_server():
    with FakeDatagrams(lambda datagram: []) as server:
        report = load(
            f"memcached+udp://127.0.0.1:{server.port}", *SHORT, "--rate", 1000, "--arrivals", "even",
            "--timeout", "2s", status=1,
        )  # fmt: skip
    assert report["sent"] == report["lost"] == 300 and report["loss_ratio"] == 1
    # Lost requests count with the time they waited, which is recorded to three digits.
    assert report["latency_us"]["min"] >= 1_990_000


def test_late_and_repeated_replies_are_recognised():
    """The reply to every request comes together with the next one's, and that twice."""
    held = []

    def answer(datagram):
        held.append(datagram[:8] + b"END\r\n")
        return [held[-2], held[-1], held[-1]] if len(held) > 1 and b"get" in datagram else []

    with FakeDatagrams(answer) as server:
        report = load(
            f"memcached+udp://127.0.0.1:{server.port}", "--warmup", "0s", "--duration", "2s", "--get", 100,
            "--timeout", "50ms",
            "--rate", 100, "--arrivals", "even", "--pipeline", 1,
        )  # fmt: skip
    assert report["late"] > 0
    assert report["wrong_values"] == 0 and report["hit_ratio"] == 0


def test_filling_over_datagrams_sends_lost_ones_again():
    stored, attempts, lock = {}, {}, threading.Lock()

    def answer(datagram):
        words = datagram[8:].split(b"\r\n")[0].split()
        if words[0] != b"set":
            return [datagram[:8] + b"END\r\n"]
        with lock:
            attempts[words[1]] = attempts.get(words[1], 0) + 1
            if attempts[words[1]] == 1 and len(attempts) % 3 == 0:
                return []
            stored[words[1]] = True
        return [datagram[:8] + b"STORED\r\n"]

    with FakeDatagrams(answer) as server:
        load(
            f"memcached+udp://127.0.0.1:{server.port}", *SHORT, "--items", 100, "--fill", "--timeout", "50ms",
            "--get", 100
        )
    assert len(stored) == 100
    assert sum(count > 1 for count in attempts.values()) >= 33


def test_a_search_ends_at_a_rate_that_is_carried():
    """A server that answers 600 requests of a run of 300 ms and no more carries 2,000 per second."""
    def converse(connection, file):
        for number, _ in enumerate(memcached_requests(file)):
            if number < 600:
                connection.sendall(b"END\r\n")

    with FakeStream(converse) as server:

        def found():
            report = load(
                f"memcached://127.0.0.1:{server.port}", *SHORT, "--search", "1%", "--rate", 500, "--arrivals",
                "even",
                "--timeout", "100ms", "--get", 100, status=0,
            )  # fmt: skip
            assert report["offered_ops"] <= 2100 and len(report["runs"]) > 3
            return report["offered_ops"] >= 1900

        until(found, "a search that the machine did not disturb", deadline_s=120)


def test_a_search_that_finds_nothing():
    def converse(connection, file):
        for _ in memcached_requests(file):
            pass

    with FakeStream(converse) as server:
        url = f"memcached://127.0.0.1:{server.port}"
        ended = run_load(url, *SHORT, "--search", "1%", "--rate", 40, "--timeout", "50ms", "--get", 100)
    assert ended.returncode == 1 and "no rate was found" in ended.stderr
