"""Data of the console: samples that agree with the counters, short updates, an hour that is kept."""

import json
import signal

import pytest

from harness.admin import Admin
from harness.memcached.tls import Authority, TlsConnection, serving
from harness.poll import until
from harness.server import run

UPDATE_BYTES_MAX = 5000
HISTORY_BYTES_MAX = 45_000


@pytest.fixture
def fresh(start, workers):
    """A server whose counters nobody else moves."""
    return start("-t", workers, "-m", "64", "--admin", "-1")


def rows_of(admin, reply):
    """The samples of a reply, as dictionaries."""
    names = admin.json("/about")["names"]
    return [{"at": row[0]} | dict(zip(names, row[1:], strict=True)) for row in reply["rows"]]


def history(admin, step=1):
    """All samples of a ring."""
    found, last = [], 0
    while True:
        reply = admin.json(f"/history?step={step}&since={last}")
        assert reply["step"] == step and len(reply["rows"]) <= 100
        assert len(json.dumps(reply, separators=(",", ":"))) <= HISTORY_BYTES_MAX
        found += rows_of(admin, reply)
        last = reply["first"] + len(reply["rows"]) - 1
        if last >= reply["last"]:
            return found


def test_samples_add_up_to_the_requests(fresh):
    admin = Admin(fresh)
    until(lambda: admin.get("/state")[0] == 200 and admin.json("/state")["last"] >= 1, "a sample")
    with fresh.connect() as connection:
        for number in range(200):
            connection.ask(b"set key-%d 0 0 4\r\nabcd\r\n" % number)
            connection.values(b"get key-%d none\r\n" % number)
        connection.ask(b"touch key-1 0\r\n")
        connection.ask(b"delete key-1\r\n")
        connection.ask(b"incr none 1\r\n")
    expected = {"get_hits": 200, "get_misses": 200, "set": 200, "touch": 1, "delete": 1, "arithmetic": 1}

    def sums():
        # A sample's length varies by the time that the thread is late.
        rows = history(admin)
        return {name: sum(row[name] for row in rows) for name in expected}

    until(lambda: all(sums()[name] > 0.5 * count for name, count in expected.items()), "them to be sampled")
    found = sums()
    assert all(found[name] < 2 * count for name, count in expected.items()), found
    # No more requests are timed than there were, if perhaps in the sample behind.
    timed = sum(row["get_timed"] for row in history(admin))
    assert 0 < timed < 2 * (expected["get_hits"] + expected["get_misses"])
    last = history(admin)[-1]
    assert last["items"] == 199 and last["item_bytes"] == admin.sum("micanite_memory_bytes", use="items")
    for row in history(admin):
        timed = [row[f"{name}_timed"] for name in ("get", "set", "touch", "delete", "arithmetic")]
        assert row["all_timed"] == pytest.approx(sum(timed), rel=0.01)
        assert (row["all_p99"] is None) == (row["all_timed"] == 0)
        if row["all_timed"]:
            assert 0 < row["all_p50"] <= row["all_p99"] <= row["all_p999"]


def test_an_update_has_what_is_new(fresh):
    admin = Admin(fresh)
    first = until(lambda: (state := admin.json("/state?since=0"))["last"] >= 3 and state, "three samples")
    assert len(first["rows"]) == 2 and first["first"] == first["last"] - 1
    again = admin.json(f"/state?since={first['last']}&event={first['events'][-1][1]}")
    assert len(again["rows"]) == again["last"] - first["last"] and again["events"] == []
    assert again["boot"] == first["boot"]
    # What nobody was told yet is nothing.
    assert admin.json("/state?since=99999999999&event=99999999999")["rows"] == []
    for query in ("since=-1", "since=x", "&&=&", "since=1&since=2", "worker=9999&partition=99999", "%"):
        assert admin.get(f"/state?{query}")[0] == 200
    assert admin.get("/history?step=7")[0] == 404


@pytest.mark.parametrize("options", [("-t", 64, "-m", "2g"), ("-t", 2, "-m", "64")], ids=["64", "2"])
def test_updates_are_short_whatever_there_are(start, options):
    server = start(*options, "--admin", "-1", "--access", "crew")
    admin = Admin(server)
    with server.connect() as connection:
        for number in range(300):
            connection.values(b"get %s\r\n" % (b"\x7f" * 240 + b"%d" % (number % 12)))
    about = admin.json("/about")
    workers, partitions, query = set(), set(), {"since": 0, "event": 0, "worker": 0, "partition": 0}

    def update():
        words = "&".join(f"{name}={value}" for name, value in query.items())
        text = admin.text(f"/state?{words}")
        assert len(text.encode()) <= UPDATE_BYTES_MAX
        state = json.loads(text)
        for name, seen, of in (
            ("worker", workers, state["workers"]), ("partition", partitions, state["partitions"])
        ):
            end = of["from"] + len(of["rows"])
            seen |= set(range(of["from"], end))
            query[name] = end
            assert of["of"] == about[f"{name}s"] and of["rows"]
        return len(workers) == about["workers"] and len(partitions) == about["partitions"]

    until(update, "all workers and partitions to be told of")
    routes = admin.json("/state")["partitions"]
    assert [row[1:] for row in routes["rows"]] == [
        [1, owner] for _, owner in server.routes()[: len(routes["rows"])]
    ]
    # Modes and owners that are known are not told again.
    known = admin.json(f"/state?generation={routes['generation']}")["partitions"]["rows"]
    assert all(not isinstance(row, list) for row in known)
    hot = admin.json("/state")["hot"]
    assert hot and all(key.startswith("%7F") and "…" in key and len(key.encode()) <= 48 for key, _ in hot)


def test_hot_keys_that_differ_at_the_end_can_be_told_apart(fresh):
    admin = Admin(fresh)
    keys = ["long:" * 11 + f"{number:05}" for number in range(5)]
    with fresh.connect() as connection:
        for _ in range(100):
            for key in keys:
                connection.values(b"get %s\r\n" % key.encode())

    def state():
        found = admin.json("/state")
        return len(found["hot"]) == len(keys) and found

    found = until(state, "the hot keys")
    shown = [key for key, _ in found["hot"]]
    assert len(set(shown)) == len(keys)
    assert all(key.startswith("long:") and "…" in key for key in shown)
    # Each is there in full for the page's tooltip.
    assert {place: key[-5:] for place, key in found["full"]} == {at: key[-5:] for at, key in enumerate(shown)}
    assert {key for _, key in found["full"]} == set(keys)


def test_events_tell_what_has_happened(start, tmp_path):
    server = start("-t", 2, "-m", "64", "-c", 3, "--admin", "-1", "-I", "1k", "--image", tmp_path / "image")
    admin = Admin(server)
    held = [server.connect() for _ in range(3)]
    held[0].ask(b"mn\r\n")
    for _ in range(5):
        with server.connect() as refused:
            refused.rest()
    held[0].ask(b"set a 0 0 2000\r\n" + bytes(2000) + b"\r\n")
    assert server.ctl("mode", "crew").returncode == 0
    assert server.ctl("balance", "auto").returncode == 0
    expected = [
        ("start", "version"),
        ("routes", "access mode of all partitions: crcw -> crew"),
        ("routes", "balance: off -> auto"),
        ("refusal", "connections refused: as many as allowed (-c)"),
        ("refusal", "values refused: larger than allowed (-I)"),
    ]

    def all_are_there():
        events = admin.events()
        return all(any(kind == of and text in said for of, said, _ in events) for kind, text in expected)

    until(all_are_there, "the events")
    refused = next(count for _, text, count in admin.events() if text.startswith("connections refused"))
    assert refused == 5
    for connection in held:
        connection.close()


def test_a_restart_in_place_keeps_the_history_and_the_events(start, tmp_path):
    server = start("-t", 2, "-m", "64", "--admin", "-1", "--image", tmp_path / "image")
    admin = Admin(server)
    with server.connect() as connection:
        connection.ask(b"set a 0 0 1\r\nb\r\n")
    assert server.ctl("mode", "crew").returncode == 0
    until(lambda: admin.json("/state")["coarse"] >= 1, "a sample of ten seconds")
    for restarts in (1, 2):
        rows = [(step, absolute(admin, step)) for step in (1, 10)]
        events, before = admin.events(), admin.json("/about")
        since = rows[0][1][-1][0]
        assert server.ctl("restart").returncode == 0
        until(lambda: restarted(admin) == restarts, "the restart")
        after = admin.json("/about")
        assert after["boot"] != before["boot"] and after["series"] == before["series"]
        for step, kept in rows:
            found = absolute(admin, step)
            assert found[: len(kept)] == kept
        assert admin.events()[: len(events)] == events
        # A page goes on from the sample that it has.
        state = until(lambda: (it := admin.json(f"/state?since={since}"))["last"] > since and it, "a sample")
        assert state["last"] - len(state["rows"]) + 1 == state["first"] > since
    times = [at for _, at, *_ in absolute(admin)]
    assert times == sorted(times)
    assert "history" not in server.stderr() and "names no option" not in server.stderr()


def test_a_refused_restart_leaves_the_history_where_it_was(start, tmp_path):
    users = tmp_path / "users"
    users.write_text("ada:secret\n")
    server = serving(start, "-t", 1, "-m", "64", "--admin", "-1", "--image", tmp_path / "image", "-Y", users)
    admin = Admin(server)
    until(lambda: admin.get("/state")[0] == 200 and admin.json("/state")["last"] >= 2, "two samples")
    about, rows, events = admin.json("/about"), absolute(admin), admin.events()
    users.unlink()
    refused = server.ctl("restart")
    assert refused.returncode != 0 and str(users) in refused.stderr
    assert admin.json("/about") == about and restarted(admin) == 0
    assert absolute(admin)[: len(rows)] == rows and admin.events()[: len(events)] == events


def absolute(admin, step=1):
    """All samples of a ring as their number, their Unix time, and their values."""
    found, started, last = [], admin.json("/about")["started"], 0
    while True:
        reply = admin.json(f"/history?step={step}&since={last}")
        for at, (time, *values) in enumerate(reply["rows"]):
            found.append((reply["first"] + at, started + time, *values))
        last = reply["first"] + len(reply["rows"]) - 1
        if last >= reply["last"]:
            return found


def restarted(admin):
    return sum("restarted in place" in text for _, text, _ in admin.events())


def test_new_certificates_are_an_event_and_the_console_speaks_tls(start, tmp_path):
    authority = Authority(tmp_path)
    options = ("-t", 1, "--tls-cert", authority.chain, "--tls-key", authority.key)
    server = serving(start, *options, "--admin", "-1")
    assert "  admin      https://127.0.0.1:" in server.stderr()
    port = int(server.stderr().split("https://127.0.0.1:")[1].split("/")[0])

    def get(path):
        with TlsConnection(("127.0.0.1", port), authority.context()) as connection:
            connection.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            return connection.rest().partition(b"\r\n\r\n")

    assert get("/healthz")[2] == b"ok\n" and get("/")[2].endswith(b"</html>\n")
    server.process.send_signal(signal.SIGHUP)
    until(lambda: b"certificates were loaded again" in get("/state")[2], "the event")
    authority.chain.write_text("no certificate")
    server.process.send_signal(signal.SIGHUP)
    until(lambda: b"certificates were not loaded again" in get("/state")[2], "the refusal")
    plain = Admin(serving(start, *options[:2], "--admin", "-1"))
    assert plain.text("/healthz") == "ok\n"


def test_marks_of_tls_are_checked(start, tmp_path):
    authority = Authority(tmp_path)
    options = ("-t", 1, "--tls-cert", authority.chain, "--tls-key", authority.key)
    admin = Admin(serving(start, *options, "--admin", "notls:-1"))
    assert admin.text("/healthz") == "ok\n"
    refused = run("-p", "-1", *options, "--admin", "mtls:-1")
    assert refused.returncode == 64 and "--tls-client-ca" in refused.stderr
    refused = run("-p", "-1", "--admin", "notls:-1")
    assert refused.returncode == 64 and "--enable-ssl" in refused.stderr


def test_options_are_told_with_their_origin(start, tmp_path):
    file = tmp_path / "micanite.toml"
    file.write_text('memory-limit = "32m"\nhash-seed = 123456789\n')
    server = start("-t", 1, "--config", file, "--admin", "-1", MICANITE_MAX_CONNECTIONS="77")
    admin = Admin(server)
    options = {name: (value, origin) for name, value, origin in admin.json("/about")["options"]}
    assert options["threads"] == ("1", "command line")
    assert options["max-connections"] == ("77", "environment")
    assert options["memory-limit"] == ("32m", "file")
    assert options["balance"] == ("off", "default")
    assert "123456789" not in admin.text("/about")
