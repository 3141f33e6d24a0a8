"""`micanite ctl record`: what a running server records, over every protocol, and how a recording ends."""

import functools
import stat

import pytest

from harness.memcached import binary
from harness.memcached.udp import UdpClient
from harness.memcached.wire import received
from harness.native import Opcode, Status
from harness.native.server import NativeServer
from harness.tools.record import Recording, cat, done, refused

TEXT = [
    (b"set key 5 100 3\r\nabc\r\n", ("set", 3, "3", "100", "hit")),
    (b"get key\r\n", ("get", 3, "3", "", "hit")),
    (b"gets key\r\n", ("gets", 3, "3", "", "hit")),
    (b"get none\r\n", ("get", 4, "", "", "miss")),
    (b"add key 0 0 2\r\nxy\r\n", ("add", 3, "2", "0", "miss")),
    (b"replace key 0 0 2\r\n10\r\n", ("replace", 3, "2", "0", "hit")),
    (b"incr key 1\r\n", ("incr", 3, "2", "", "hit")),
    (b"decr key 9\r\n", ("decr", 3, "1", "", "hit")),
    (b"incr none 1\r\n", ("incr", 4, "", "", "miss")),
    # The number is shorter now, and the value is not.
    (b"append key 0 0 2\r\nzz\r\n", ("append", 3, "", "", "hit")),
    (b"prepend none 0 0 2\r\nzz\r\n", ("prepend", 4, "", "", "miss")),
    (b"cas key 0 0 1 1\r\nz\r\n", ("cas", 3, "1", "0", "miss")),
    (b"touch key 50\r\n", ("touch", 3, "", "50", "hit")),
    (b"gat 60 key\r\n", ("gat", 3, "4", "60", "hit")),
    (b"set key 0 -1 1\r\nx\r\n", ("set", 3, "1", "1", "hit")),
    (b"delete key\r\n", ("delete", 3, "", "", "miss")),
]
META = [
    (b"ms key 3 T100\r\nabc\r\n", ("set", 3, "3", "100", "hit")),
    (b"ms key 2 MA c\r\nde\r\n", ("append", 3, "5", "", "hit")),
    (b"ms key 1 ME\r\nx\r\n", ("add", 3, "1", "0", "miss")),
    (b"ms key 1 C1\r\nx\r\n", ("cas", 3, "1", "0", "miss")),
    (b"mg key v\r\n", ("get", 3, "5", "", "hit")),
    (b"mg key\r\n", ("get", 3, "5", "", "hit")),
    (b"mg key c v\r\n", ("gets", 3, "5", "", "hit")),
    (b"mg key T30\r\n", ("touch", 3, "5", "30", "hit")),
    (b"mg key T40 v\r\n", ("gat", 3, "5", "40", "hit")),
    (b"mg bm9uZQ== b v\r\n", ("get", 4, "", "", "miss")),
    (b"mg none N20 v\r\n", ("get", 4, "", "", "miss")),
    (b"ma n N70 J42\r\n", ("incr", 1, "2", "70", "hit")),
    (b"ma n MD D40\r\n", ("decr", 1, "2", "", "hit")),
    (b"md key\r\n", ("delete", 3, "", "", "hit")),
]


@pytest.fixture(scope="module", params=["1", "2", "3-erew", "2-crew"])
def recorded(request):
    """A server whose requests are recorded, by workers alone and on behalf of others."""
    from harness.server import Server

    workers, _, access = request.param.partition("-")
    options = ["--access", access] if access else []
    server = Server("-t", workers, "-m", 96, "-U", 0, *options)
    yield server
    server.end()


def ask_each(server, requests):
    """Each over a connection of its own, so that all workers get some."""
    for request, _ in requests:
        with server.connect() as connection:
            connection.ask(request)


@pytest.mark.parametrize("requests", [TEXT, META], ids=["text", "meta"])
def test_each_request_is_recorded_once_as_it_was_sent(recorded, tmp_path, requests):
    with Recording(recorded, f"{tmp_path.name}.rec") as recording:
        ask_each(recorded, requests)
    assert recording.requests() == [expected for _, expected in requests]
    assert (
        f"{len(requests)} requests of {len(requests)} in " in recording.told
        and "none dropped" in recording.told
    )
    assert "ended by --stop" in recording.told
    with recorded.connect() as connection:
        connection.ask(b"flush_all\r\n")


def test_pipelines_and_multi_gets(recorded):
    with recorded.connect() as connection:
        connection.set(b"there", b"12345")
        with Recording(recorded, "pipeline.rec") as recording:
            keys = [b"there" if n % 10 == 0 else b"none%d" % n for n in range(500)]
            connection.values(b"get " + b" ".join(keys) + b"\r\n")
            connection.send(b"set a 0 0 1 noreply\r\nx\r\n" * 300 + b"mn\r\n")
            assert connection.line() == b"MN"
    requests = recording.requests()
    assert [request[0] for request in requests] == ["get"] * 500 + ["set"] * 300
    assert [request[4] for request in requests[:500]] == [
        "hit" if key == b"there" else "miss" for key in keys
    ]
    numbers = recording.numbers()
    assert len(set(numbers[:500])) == 451 and len(set(numbers[500:])) == 1
    # The number in the file is not the key. It differs for two keys, and is the same each time.
    numbered = zip(numbers[:500], keys, strict=True)
    assert {numbers[0]} == {number for number, key in numbered if key == b"there"}


def test_binary(recorded):
    with recorded.connect() as connection, Recording(recorded, "binary.rec") as recording:
        ask = functools.partial(binary.ask, connection)
        ask(binary.store(0x01, b"bin", b"value", exptime=100))
        ask(binary.pack(0x00, b"bin"))
        ask(binary.pack(0x00, b"none"))
        ask(binary.store(0x02, b"bin", b"x"))
        ask(binary.pack(0x0E, b"bin", b"ab"))
        ask(binary.touch(0x1C, b"bin", 30))
        ask(binary.touch(0x1D, b"bin", 40))
        ask(binary.pack(0x04, b"bin"))
    assert recording.requests() == [
        ("set", 3, "5", "100", "hit"),
        ("gets", 3, "5", "", "hit"),
        ("gets", 4, "", "", "miss"),
        ("add", 3, "1", "0", "miss"),
        ("append", 3, "7", "", "hit"),
        ("touch", 3, "7", "30", "hit"),
        ("gat", 3, "7", "40", "hit"),
        ("delete", 3, "", "", "hit"),
    ]


def test_udp(start):
    server = start("-t", "2", "-U", "-1", "--udp-allow", "127.0.0.1")
    with UdpClient(server.ports()["UDP"]) as client, Recording(server) as recording:
        client.ask(b"set u 0 0 2\r\nxy\r\n")
        client.ask(b"get u\r\n")
        client.ask(b"get none\r\n")
    assert recording.requests() == [
        ("set", 1, "2", "0", "hit"),
        ("get", 1, "2", "", "hit"),
        ("get", 4, "", "", "miss"),
    ]


def test_native():
    with NativeServer("-t", 2, "-m", 96) as running, running.client() as client:
        with Recording(running) as recording:
            client.set(b"native", b"value")
            assert client.do(Opcode.GET, b"native").status == Status.OK
            # Handed over to the worker that owns it.
            assert client.do(Opcode.GET, b"native", port=client.other_port(b"native")).status == Status.OK
            assert client.status(Opcode.DELETE, b"none") == Status.NOT_FOUND
        assert recording.requests() == [
            ("set", 6, "5", "0", "hit"),
            ("get", 6, "5", "", "hit"),
            ("get", 6, "5", "", "hit"),
            ("delete", 4, "", "", "miss"),
        ]


def test_large_values(recorded):
    value = b"v" * 700_000
    with recorded.connect() as connection, Recording(recorded, "large.rec") as recording:
        connection.set(b"large", value)
        assert connection.get(b"large") == value
    assert recording.requests() == [("set", 5, "700000", "0", "hit"), ("get", 5, "700000", "", "hit")]


def test_a_sample_has_all_requests_of_some_keys(recorded):
    keys = [b"key%d" % n for n in range(20_000)]
    lines = {}
    with recorded.connect() as connection:
        for fraction in (0.05, 0.2):
            file = recorded.directory / f"{fraction}.rec"
            done(recorded.ctl("record", file, "--fraction", fraction))
            for _ in range(3):
                for at in range(0, len(keys), 200):
                    connection.values(b"get " + b" ".join(keys[at : at + 200]) + b"\r\n")
            told = done(recorded.ctl("record", "--stop"))
            assert " requests of 60000 in " in told, told
            lines[fraction] = [line[1] for line in cat(file)[0]]
            assert (
                f"recorded {fraction} of all keys" in told and f" {len(lines[fraction])} requests of" in told
            )
    for fraction, numbers in lines.items():
        assert {numbers.count(number) for number in set(numbers[:50])} == {3}
        assert 0.85 < len(set(numbers)) / (fraction * len(keys)) < 1.15
    assert set(lines[0.05]) < set(lines[0.2])


def test_prefixes(start):
    server = start("-t", "2", "-D", "/")
    with server.connect() as connection, Recording(server) as recording:
        for key in (b"user/1", b"user/2", b"session/1/2", b"plain", b"/empty"):
            connection.set(key, b"x")
    data = recording.file.read_bytes()
    assert data.count(b"user\0") == 1 and data.count(b"session\0") == 1
    # The last counts are three records, and so are those of every ten seconds; the two prefixes are two
    # records each.
    records = [data[at : at + 24] for at in range(32, len(data), 24)]
    assert len(records) >= 5 + 4 + 3 and (len(records) - 5 - 4) % 3 == 0
    numbers = [int.from_bytes(record[20:22], "little") for record in records if record[23] & 31 == 2]
    assert numbers == [1, 1, 2, 0, 0]


def test_one_at_a_time_and_no_file_is_overwritten(recorded):
    assert "nothing is recorded" in refused(recorded.ctl("record", "--stop"))
    there = recorded.directory / "there"
    there.write_bytes(b"precious")
    (recorded.directory / "link").symlink_to(recorded.directory / "nowhere")
    for name in ("there", "link"):
        assert "exists already" in refused(recorded.ctl("record", recorded.directory / name))
    assert there.read_bytes() == b"precious" and not (recorded.directory / "nowhere").exists()
    assert "No such file" in refused(recorded.ctl("record", "/nowhere/at/all.rec"))
    first = recorded.directory / "first.rec"
    told = done(recorded.ctl("record", first))
    assert told.startswith(f"recording 0.01 of all keys to {first};") and "MiB at most" in told
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    assert f"records to {first} already" in refused(recorded.ctl("record", recorded.directory / "second.rec"))
    assert not (recorded.directory / "second.rec").exists()
    assert done(recorded.ctl("record")).startswith(
        f"recording 0.01 of all keys to {first}: 0 requests of 0 in "
    )
    assert recorded.stats()["recording"] == "1"
    done(recorded.ctl("record", "--stop"))
    assert recorded.stats()["recording"] == "0"
    assert done(recorded.ctl("record")).startswith(f"recorded 0.01 of all keys to {first}: 0 requests")


@pytest.mark.parametrize(
    "words, reason",
    [
        (["--seconds", "5"], "FILE"),
        (["x", "--stop"], "cannot be used with"),
        (["x", "--fraction", "0"], "no fraction"),
        (["x", "--fraction", "2"], "no fraction"),
        (["x", "--seconds", "0"], "not in"),
        (["x", "--bytes-max", "1k"], "at least 4k"),
    ],
)
def test_options_that_make_no_sense(recorded, words, reason):
    ended = recorded.ctl("record", *words)
    assert ended.returncode == 64 and reason in ended.stderr, ended


def test_watchers_see_recorded_requests(start):
    server = start("-t", "2")
    with server.connect() as watching, server.connect() as connection, Recording(server) as recording:
        assert watching.ask(b"watch fetchers mutations\r\n") == b"OK"
        connection.set(b"both", b"x")
        connection.get(b"both")
        seen = received(watching.socket, b"type=item_get key=both")
        assert b"type=item_store key=both" in seen
    assert [request[0] for request in recording.requests()] == ["set", "get"]
