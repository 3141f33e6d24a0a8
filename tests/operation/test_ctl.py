"""`micanite ctl`: what it changes, what it refuses, and the socket that it uses."""

import json
import os
import signal
import socket
import stat

import pytest

from harness.poll import DEADLINE_S, until
from harness.server import run, run_ctl
from harness.tools.record import done, refused


@pytest.fixture
def server(start):
    """A server of its own, of two workers and several partitions."""
    return start("-t", "2", "-m", "96", "-v")


def socket_of(server):
    """Returns the path of the server's control socket."""
    return server.directory / "micanite" / f"{server.port}.ctl"


def test_mode_of_all_partitions_and_of_one(server):
    assert {mode for mode, _ in server.routes()} == {"crcw"}
    last = "crcw"
    for mode in ("erew", "crew", "crcw", "erew"):
        assert done(server.ctl("mode", mode)) == f"mode: {last} -> {mode}\n"
        assert {mode for mode, _ in server.routes()} == {mode}
        last = mode
    before = server.routes()
    said = done(server.ctl("mode", "crew", "--partition", 2))
    assert said == "mode of partition 2: erew -> crew\n"
    after = server.routes()
    assert after[2] == ("crew", before[2][1])
    assert [*after[:2], *after[3:]] == [*before[:2], *before[3:]]
    assert int(server.stats()["route_generation"]) == 4 * len(before) + 1
    assert done(server.ctl("mode", "crcw")).splitlines() == [
        f"mode of {len(before) - 1} of {len(before)} partitions: erew -> crcw",
        f"mode of 1 of {len(before)} partitions: crew -> crcw",
    ]


def test_partitions_that_do_not_exist_are_refused(server):
    before = server.routes()
    for partition in (len(before), 2**64 - 1):
        refused = server.ctl("mode", "erew", "--partition", partition)
        assert refused.returncode == 1 and refused.stderr and not refused.stdout, refused
    assert server.routes() == before


def test_move(server, key):
    done(server.ctl("mode", "erew"))
    with server.connect() as connection:
        keys = [b"%b-%d" % (key, i) for i in range(500)]
        for name in keys:
            connection.set(name, name)
        for owner in (1, 0, 1):
            for partition, (_, last) in enumerate(server.routes()):
                said = done(server.ctl("move", partition, owner))
                assert said == f"partition {partition}: worker {last} -> {owner}\n"
            assert server.routes() == [("erew", owner)] * len(server.routes())
            found = connection.values(b"get " + b" ".join(keys) + b"\r\n")
            assert found == {name: (0, name) for name in keys}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["mode", "crew", "--partition", "99"], "no such partition"),
        (["move", "99", "0"], "no such partition"),
        (["move", "0", "2"], "no such worker"),
        (["invalidate", "a:b"], "':'"),
        (["invalidate", "x" * 251], "250"),
        (["invalidate", "two words"], "not understood"),
        (["invalidate", "a\nstats"], "line ends"),
    ],
    ids=lambda value: " ".join(value)[:20] if isinstance(value, list) else "",
)
def test_refusals_give_a_reason(server, words, reason):
    before = server.routes()
    assert reason in refused(server.ctl(*words))
    assert server.routes() == before


@pytest.mark.parametrize(
    "words",
    [[], ["reboot"], ["mode"], ["mode", "fast"], ["move", "1"], ["move", "1", "x"], ["balance", "on"]],
    ids=" ".join,
)
def test_usage(words):
    ended = run_ctl(*words)
    assert ended.returncode == 64
    assert "Usage" in ended.stderr or "error" in ended.stderr


@pytest.mark.parametrize("words", [["--help"], ["mode", "--help"], ["help", "move"]], ids=" ".join)
def test_help(words):
    assert "Usage: micanite ctl" in done(run_ctl(*words))


def test_one_worker_has_nothing_to_route(start, key):
    server = start("-t", "1")
    for words in (["mode", "crew"], ["move", "0", "0"], ["balance", "auto"]):
        assert "one worker" in refused(server.ctl(*words))
    with server.connect() as connection:
        connection.set(b"ns:" + key, b"x")
        said = "namespace ns: all items discarded; namespaces whose memory is being freed: 0 -> 1\n"
        assert done(server.ctl("invalidate", "ns")) == said
        assert connection.get(b"ns:" + key) is None


def test_balance(server):
    assert server.stats("settings")["balance"] == "off"
    assert done(server.ctl("balance", "auto")) == "balance: off -> auto\n"
    assert server.stats("settings")["balance"] == "auto"
    assert done(server.ctl("balance", "off")) == "balance: auto -> off\n"
    assert server.stats("settings")["balance"] == "off"


def test_stats(server):
    lines = done(server.ctl("stats")).splitlines()
    printed = dict(line.removeprefix("STAT ").split(" ", 1) for line in lines)
    assert printed.keys() == server.stats().keys()
    assert int(printed["pid"]) == server.pid


def test_json_of_lists(server, key):
    """Each is one object, with the same as the text."""
    with server.connect() as connection:
        for _ in range(2000):
            connection.get(key)
    until(lambda: len(done(server.ctl("hotkeys")).splitlines()) > 1, "the key to be seen")
    stats, routes, hot = (json.loads(done(server.ctl(of, "--json"))) for of in ("stats", "routes", "hotkeys"))
    assert stats.keys() == server.stats().keys()
    assert stats["pid"] == server.pid and stats["version"] == server.stats()["version"]
    assert stats["cmd_get"] >= 2000 and isinstance(stats["rusage_user"], float)
    rows = routes["partitions"]
    assert [(row["mode"], row["owner"]) for row in rows] == server.routes()
    assert [row["partition"] for row in rows] == list(range(len(rows)))
    assert sum(row["requests"] for row in rows) >= 2000
    assert rows[0].keys() == {
        "partition", "mode", "owner", "requests", "requests_per_second", "busy_percent"
    }
    assert hot["half_life_seconds"] > 0 and hot["samples"] >= 1
    assert hot["keys"][0]["key"] == key.decode() and 0.5 < hot["keys"][0]["share"] <= 1


def test_routes_count_requests(server, key):
    with server.connect() as connection:
        for _ in range(3):
            done(server.ctl("mode", "erew"))
            connection.send(b"get %b\r\n" % key * 1000 + b"mn\r\n")
            connection.lines_before(b"MN")
            done(server.ctl("mode", "crcw"))
            connection.send(b"get %b\r\n" % key * 1000 + b"mn\r\n")
            connection.lines_before(b"MN")
    counts = [int(line.split()[4]) for line in done(server.ctl("routes")).splitlines()[1:]]
    assert sorted(counts) == [0] * (len(counts) - 1) + [6000]


def test_a_snapshot_is_an_image(start, server, key, tmp_path):
    keys = [b"%b-%d" % (key, i) for i in range(3000)]
    with server.connect() as connection:
        for name in keys:
            connection.set(name, name * 3, flags=7)
        said = done(server.ctl("snapshot", tmp_path / "a copy"))
        assert said.startswith("3000 items")
        connection.set(keys[0], b"later")
    copy = start("-t", "2", "-m", "96", "--image", tmp_path / "a copy")
    with copy.connect() as connection:
        for at in range(0, len(keys), 100):
            part = keys[at : at + 100]
            assert connection.values(b"get " + b" ".join(part) + b"\r\n") == {
                name: (7, name * 3) for name in part
            }
    assert f"process {copy.pid}" in refused(server.ctl("snapshot", tmp_path / "a copy"))
    os.kill(copy.pid, signal.SIGTERM)
    assert copy.wait_for_end() == 0
    assert "already" in refused(server.ctl("snapshot", tmp_path / "a copy"))


def test_the_socket_is_for_its_user_alone_and_goes_at_the_end(server):
    path = socket_of(server)
    assert str(path) in server.stderr()
    there = path.stat()
    assert stat.S_ISSOCK(there.st_mode) and stat.S_IMODE(there.st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    os.kill(server.pid, signal.SIGTERM)
    assert server.wait_for_end() == 0
    assert not path.exists()
    assert "no server" in refused(server.ctl("routes"))


def test_a_stale_socket_is_replaced_and_a_live_one_is_an_error(start, tmp_path):
    path = tmp_path / "control"
    first = start("-t", "1", "--control-socket", path)
    second = run("-p", "-1", "--control-socket", path)
    assert second.returncode not in (0, None)
    assert str(path) in second.stderr and "another server" in second.stderr
    done(run_ctl("stats", "--socket", path))
    os.kill(first.pid, signal.SIGKILL)
    first.wait_for_end()
    assert path.exists()
    third = start("-t", "1", "--control-socket", path)
    printed = done(run_ctl("--socket", path, "stats"))
    assert f"STAT pid {third.pid}\n" in printed


def test_a_server_on_a_unix_socket_has_its_control_socket_beside_it(start, tmp_path):
    server = start("-t", "2", "-s", tmp_path / "socket")
    assert (tmp_path / "socket.ctl").exists()
    assert len(server.routes()) >= 1
    server.end()
    assert not (tmp_path / "socket.ctl").exists()


def test_none(start):
    server = start("-t", "2", "--control-socket", "none")
    assert not socket_of(server).exists()
    assert "no server" in refused(server.ctl("routes"))


def test_a_directory_that_is_open_to_others_is_not_used(start, tmp_path):
    """Neither the server, which then uses the next place or none, nor its client uses it."""
    directory = tmp_path / "micanite"
    directory.mkdir(mode=0o700)
    directory.chmod(0o755)
    server = start("-t", "1", XDG_RUNTIME_DIR=tmp_path)
    assert list(directory.iterdir()) == []
    assert "open to others" in refused(run_ctl("-p", 1, "stats", XDG_RUNTIME_DIR=tmp_path))
    assert server.alive()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_is_not_used(start, tmp_path):
    directory = tmp_path / "micanite"
    directory.mkdir(mode=0o700)
    os.chown(directory, 12345, 12345)
    start("-t", "1", XDG_RUNTIME_DIR=tmp_path)
    assert list(directory.iterdir()) == []
    assert "somebody else" in refused(run_ctl("-p", 1, "stats", XDG_RUNTIME_DIR=tmp_path))


def raw(server, data):
    """A raw connection to the control socket that has sent `data`."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(30)
    connection.connect(str(socket_of(server)))
    connection.sendall(data)
    return connection


def test_a_silent_client_does_not_keep_others_out(server):
    silent = [raw(server, data) for data in (b"", b"rou", b"s" * 100)]
    assert done(server.ctl("stats"))
    for connection in silent:
        assert connection.recv(100) == b""
        connection.close()


NONSENSE = {
    "empty": b"\n",
    "no text": b"\xff\xfe\n",
    "unknown": b"reboot\n",
    "long": b"x" * 4097,
    "large number": b"move 1 99999999999999999999999\n",
}


@pytest.mark.parametrize("data", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_refused(server, data):
    with raw(server, data) as connection:
        answer = b""
        while piece := connection.recv(4096):
            answer += piece
        assert answer.startswith(b"REFUSED ") and answer.endswith(b"\n")
    assert done(server.ctl("stats"))


def test_it_ends_while_a_client_is_silent(server):
    with raw(server, b"rou"):
        os.kill(server.pid, signal.SIGTERM)
        assert server.wait_for_end() == 0


@pytest.mark.alone
def test_balance_auto_shares_a_hot_partition_and_gives_it_back(start, key):
    """All requests are for one key: its partition turns to CREW; when others are asked for as well it turns
    back."""
    server = start("-t", "2", "-m", "96", "--access", "erew", "--balance", "auto")
    connections = [server.connect() for _ in range(2)]
    connections[0].set(key, b"x")

    def ask(requests):
        for connection in connections:
            connection.send(requests + b"mn\r\n")
        for connection in connections:
            connection.lines_before(b"MN")

    def is_shared():
        ask(b"get %b\r\n" % key * 500)
        return [mode for mode, _ in server.routes()].count("crew") == 1

    until(is_shared, "the hot partition to turn to CREW")
    assert int(server.stats()["balance_changes"]) >= 1

    def is_given_back():
        # A second without enough requests does not count, and the first ten after a change are a rest.
        for _ in range(10):
            ask(b"".join(b"get %b-%d\r\n" % (key, i) for i in range(2000)))
        return {mode for mode, _ in server.routes()} == {"erew"}

    until(is_given_back, "it to turn back", 4 * DEADLINE_S)
    for connection in connections:
        assert connection.get(key) == b"x"
        connection.close()


def test_balance_auto_spreads_what_requests_cost(start, key):
    """Every partition gets as many requests as every other, but those of one worker find long values: by
    their time these partitions spread over both workers, where their number gives no reason to."""
    server = start("-t", "2", "-m", "512", "--access", "erew")
    connections = [server.connect() for _ in range(2)]

    def counts():
        lines = done(server.ctl("routes")).splitlines()[1:]
        return [int(line.split()[4]) for line in lines]

    keys, number = {}, 0
    while len(keys) < len(server.routes()):
        name, before = b"%b-%d" % (key, number), counts()
        connections[0].get(name)
        asked = [after - was for after, was in zip(counts(), before, strict=True)]
        keys.setdefault(asked.index(1), name)
        number += 1
    long = [partition for partition, (_, owner) in enumerate(server.routes()) if owner == 0]
    assert 0 < len(long) < len(keys)
    for partition, name in keys.items():
        connections[0].set(name, b"x" * (20_000 if partition in long else 10))
    before = counts()
    done(server.ctl("balance", "auto"))

    def is_spread():
        for connection in connections:
            connection.send(b"".join(b"get %b\r\n" % name for name in keys.values()) * 20 + b"mn\r\n")
        for connection in connections:
            connection.lines_before(b"MN")
        owners = [server.routes()[partition][1] for partition in long]
        return owners.count(0) == owners.count(1)

    until(is_spread, "the partitions with long values to spread", 4 * DEADLINE_S)
    asked = [after - was for after, was in zip(counts(), before, strict=True)]
    assert len(set(asked)) == 1, "the numbers of requests are even"
    assert int(server.stats()["balance_changes"]) >= len(long) // 2
    busy = [line.split()[5] for line in done(server.ctl("routes")).splitlines()[1:]]
    assert all(share.endswith("%") for share in busy)
    for connection in connections:
        connection.close()


def test_the_environment_names_the_socket_for_both(start, tmp_path):
    """As in a container, where the server and its health check have one environment."""
    variable = {"MICANITE_CONTROL_SOCKET": tmp_path / "ctl"}
    server = start("-t", "1", "-m", "64", **variable)
    until(lambda: run_ctl("ping", **variable).stdout.startswith("alive: 1 workers"), "the worker to move")
    named = run_ctl("-p", server.port, "ping", **variable | {"XDG_RUNTIME_DIR": tmp_path})
    assert named.returncode == 1, "a port that was said wins over the environment"
