"""Answers of --admin: monitoring can read them, and the numbers are the server's."""

import contextlib
import re
import signal
import threading

import pytest

from harness.admin import Admin
from harness.poll import until
from harness.server import run


@pytest.fixture
def fresh(start, workers):
    """A server whose counters nobody else moves."""
    return start("-t", workers, "-m", "64", "--admin", "-1", "--native", "-1")


def ask(server, *requests):
    """Sends requests of one reply line each."""
    with server.connect() as connection:
        for request in requests:
            connection.ask(request)


def test_nothing_is_served_without_the_option(start):
    said = start("-t", 1).stderr()
    assert "http" not in said and "warning" not in said


def test_an_address_that_is_none_is_refused():
    refused = run("--admin", "nonsense:x")
    assert refused.returncode == 64 and "--admin" in refused.stderr


def test_a_port_that_is_taken_names_the_option(start):
    port = Admin(start("-t", 1, "--admin", "-1")).address[1]
    refused = run("-p", "-1", "--admin", port)
    assert refused.returncode == 71 and f"127.0.0.1:{port} (--admin)" in refused.stderr


def test_an_address_reachable_from_outside_gets_a_warning(start):
    said = start("-t", 1, "--admin", "0.0.0.0:0").stderr()
    assert re.search(r"warning: .* --admin has no authentication", said)


def test_every_page_and_its_type(fresh):
    admin = Admin(fresh)
    for path, kind in [
        ("/", "text/html"),
        ("/metrics", "text/plain; version=0.0.4"),
        ("/healthz", "text/plain"),
        ("/readyz", "text/plain"),
        ("/config", "application/toml"),
        ("/directory", "application/json"),
        ("/hotkeys", "application/json"),
    ]:
        status, headers, body = admin.get(path)
        assert status == 200 and headers["content-type"].startswith(kind), path
        assert int(headers["content-length"]) == len(body) > 0
        status, head, none = admin.get(path, method="HEAD")
        assert status == 200 and none == b"" and head["content-type"] == headers["content-type"]
    assert admin.text("/healthz") == "ok\n" and admin.text("/readyz") == "ready\n"


def test_metrics_are_in_prometheus_format(fresh):
    admin = Admin(fresh)
    ask(fresh, b"set a 0 0 1\r\nx\r\n", b"get b\r\n")
    names = set()
    for family in admin.families():
        assert family.documentation and family.type in ("counter", "gauge", "histogram"), family
        assert family.samples, family.name
        for sample in family.samples:
            assert sample.name.startswith(("micanite_", "process_"))
            assert set(sample.labels) <= set(
                "worker command result reason transport use partition event version le".split()
            )
        assert family.name not in names
        names.add(family.name)
    assert len(admin.samples()) == sum(len(family.samples) for family in admin.families())


def test_numbers_agree_with_stats(fresh):
    admin = Admin(fresh)
    with fresh.connect() as connection:
        for number in range(100):
            connection.ask(b"set key-%d 0 0 4\r\nabcd\r\n" % number)
            assert len(connection.get(b"key-%d" % number)) > 0
            assert connection.values(b"get none-%d\r\n" % number) == {}
        connection.ask(b"delete key-1\r\n")
        connection.ask(b"incr none 1\r\n")
        connection.ask(b"touch key-2 0\r\n")
        connection.values(b"gat 0 key-3\r\n")
        connection.ask(b"cas key-4 0 0 1 1\r\nx\r\n")
        connection.ask(b"cas none 0 0 1 1\r\nx\r\n")
        stats = {
            name: float(value)
            for name, value in connection.stats().items()
            if re.fullmatch(r"[0-9.]+", value)
        }
        requests = {
            name: admin.sum("micanite_commands_total", command=name[0], result=name[1])
            for name in [
                ("get", "hit"), ("get", "miss"), ("set", "any"), ("touch", "hit"), ("delete", "hit"),
                ("incr", "miss")
            ]
        }
        assert requests == {
            ("get", "hit"): stats["get_hits"],
            ("get", "miss"): stats["get_misses"],
            ("set", "any"): stats["cmd_set"],
            ("touch", "hit"): stats["touch_hits"],
            ("delete", "hit"): stats["delete_hits"],
            ("incr", "miss"): stats["incr_misses"],
        }
        assert stats["get_hits"] == 100 and stats["touch_hits"] == 2
        assert admin.sum("micanite_cas_total", result="changed") == stats["cas_badval"] == 1
        assert admin.sum("micanite_cas_total", result="missing") == stats["cas_misses"] == 1
        for name, stat in [
            ("micanite_items", "curr_items"),
            ("micanite_items_stored_total", "total_items"),
            ("micanite_memory_limit_bytes", "limit_maxbytes"),
            ("micanite_evictions_total", "evictions"),
            ("micanite_workers", "threads"),
        ]:
            assert admin.sum(name) == stats[stat], name
        # Connections of before may still be about to end.
        until(
            lambda: admin.sum("micanite_connections") == float(connection.stats()["curr_connections"]),
            "them to agree",
        )
        assert admin.sum("micanite_memory_bytes", use="items") == stats["bytes"]
        assert admin.sum("micanite_received_bytes_total") >= 100 * len("set key-1 0 0 4\r\nabcd\r\n")


def test_requests_are_in_the_histogram_of_their_command(fresh):
    admin = Admin(fresh)
    requests = {
        "get": b"get a b c\r\n",
        "set": b"set a 0 0 1\r\n1\r\n",
        "arithmetic": b"incr a 1\r\n",
        "touch": b"touch a 0\r\n",
        "delete": b"delete a\r\n",
    }

    def timed():
        return {
            name: admin.sum("micanite_request_duration_seconds_count", command=name, transport="stream")
            for name in requests
        }

    with fresh.connect() as connection:
        for name, request in requests.items():
            before, sent = timed(), 0

            def is_timed():
                # Not every round is.
                nonlocal sent
                if name == "get":
                    connection.values(request)
                else:
                    connection.ask(request)
                sent += 3 if name == "get" else 1
                return timed()[name] > before[name]

            until(is_timed, f"a timed {name}")
            after = timed()
            assert after[name] - before[name] <= sent
            # Earlier requests may be counted only now: the last one of each.
            assert all(0 <= after[other] - before[other] <= 3 for other in after if other != name), (
                before, after
            )
    assert admin.sum("micanite_worker_request_duration_seconds_count") == sum(timed().values())
    assert admin.sum("micanite_request_duration_seconds_sum") > 0
    for family in admin.families():
        if family.type == "histogram":
            check_histogram(family)


def check_histogram(family):
    """Buckets are in order of their bounds, do not fall, and end at the count."""
    series = {}
    for sample in family.samples:
        of = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
        series.setdefault(of, []).append(sample)
    for samples in series.values():
        buckets = [
            (float(sample.labels["le"]), sample.value)
            for sample in samples
            if sample.name.endswith("_bucket")
        ]
        counts = [sample.value for sample in samples if sample.name.endswith("_count")]
        assert buckets == sorted(buckets) and buckets[-1] == (float("inf"), counts[0])
        assert [count for _, count in buckets] == sorted(count for _, count in buckets)


def test_counters_survive_a_reset_of_the_statistics(fresh):
    admin = Admin(fresh)
    ask(fresh, b"get a\r\n", b"stats reset\r\n")
    assert admin.sum("micanite_commands_total", command="get") == 1


def test_hot_keys_are_named_with_their_share(fresh):
    admin = Admin(fresh)
    with fresh.connect() as connection:
        for number in range(2000):
            connection.values(b"get hot:1 %s\r\n" % (b"rare-%d" % number if number % 2 else b"warm/2"))
    found = admin.json("/hotkeys")
    shares = {hot["key"]: hot["share"] for hot in found["keys"]}
    assert found["keys"][0]["key"] == "hot%3A1" and found["keys"][1]["key"] == "warm%2F2"
    assert 0.4 < shares["hot%3A1"] < 0.6 and 0.15 < shares["warm%2F2"] < 0.35
    assert found["samples"] > 100


def test_the_configuration_hides_secrets(start):
    server = start("-t", 1, "-m", "32", "--admin", "-1", "--hash-seed", "123456789")
    config = Admin(server).text("/config")
    assert 'memory-limit = "32m"' in config and "threads = 1" in config
    assert "123456789" not in config


def test_the_directory(fresh, workers):
    directory = Admin(fresh).json("/directory")
    assert len(directory["native_ports"]) == workers
    assert [(one["mode"], one["owner"]) for one in directory["partitions"]] == fresh.routes()


def test_it_is_not_ready_while_it_ends(start):
    server = start("-t", 2, "--admin", "-1")
    admin = Admin(server)
    with server.connect() as connection:
        connection.ask(b"mn\r\n")
        connection.send(b"set a 0 0 1000000\r\nhalf")
        until(lambda: admin.sum("micanite_received_bytes_total") >= 20, "half a request to arrive")
        with uploading(connection):
            server.process.send_signal(signal.SIGUSR1)
            status, _, body = until(
                lambda: (reply := admin.get("/readyz"))[0] == 503 and reply, "the end to begin"
            )
            assert (status, body) == (503, b"ending\n")
            assert admin.text("/healthz") == "ok\n"
            assert admin.sum("micanite_ready") == 0
    assert server.wait_for_end() == 0


@contextlib.contextmanager
def uploading(connection):
    """An upload that moves holds up the end of a server."""
    ended = threading.Event()

    def upload():
        while not ended.wait(0.01):
            connection.send(b"x")

    thread = threading.Thread(target=upload)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_hot_keys_are_printed_without_the_option(start):
    server = start("-t", 2)
    with server.connect() as connection:
        for _ in range(500):
            connection.values(b"get hot:key\r\n")
    lines = server.ctl("hotkeys").stdout.splitlines()
    assert lines[0].split() == ["share", "key"]
    assert lines[1].split() == ["100.000%", "hot%3Akey"]


def test_the_port_stays_over_a_restart(start, tmp_path):
    server = start("-t", 2, "-m", "64", "--admin", "-1", "--image", tmp_path / "image")
    admin = Admin(server)
    ask(server, b"set a 0 0 1\r\nx\r\n")
    first = admin.sum("micanite_start_time_seconds")
    restarted = server.ctl("restart")
    assert restarted.returncode == 0, restarted.stderr
    assert admin.text("/readyz") == "ready\n"
    assert admin.sum("micanite_items") == 1 and admin.sum("micanite_start_time_seconds") >= first
    assert admin.sum("micanite_commands_total") == 0
