"""Logins to the console: who may act, what another site's page cannot do, and what is written down."""

import itertools
import json
import signal
import socket
import subprocess

import pytest

from harness.admin import Admin
from harness.memcached.tls import serving
from harness.poll import until

USER, PASSWORD = "ada", "secret:with colon"
MODE = {"action": "mode", "mode": "crew"}
SESSIONS_MAX = 16
FILES_MAX = 64
WRONG_MAX = 10


@pytest.fixture
def files(tmp_path):
    """A file of users, and a directory for what they write."""
    (tmp_path / "users").write_text(f"{USER}:{PASSWORD}\n")
    (tmp_path / "files").mkdir()
    return tmp_path


@pytest.fixture
def server(start, files):
    options = ("-t", 2, "-m", "64", "--admin", "-1", "--admin-files", files / "files")
    return serving(start, *options, "-Y", files / "users")


@pytest.fixture
def admin(server):
    return Admin(server)


def modes(admin):
    return {one["mode"] for one in admin.json("/directory")["partitions"]}


def test_without_users_there_are_no_controls(start):
    admin = Admin(start("-t", 2, "--admin", "-1"))
    for path in ("/login", "/control", "/logout"):
        status, _, body = admin.post(path, {"user": "a", "password": "b"})
        assert status == 403 and b"-Y" in body
    assert admin.json("/about")["controls"] is False and modes(admin) == {"crcw"}


def test_a_user_changes_modes_and_it_is_written_down(server, admin):
    session = admin.login(USER, PASSWORD)
    assert admin.post("/control", MODE, session)[0] == 200
    assert modes(admin) == {"crew"}
    until(lambda: ("control", f"{USER}: mode crew: done", 1) in admin.events(), "the event")
    server.says(f' INFO console action action="{USER}: mode crew" outcome=done\n')
    assert ("login", f"{USER} logged in from 127.0.0.1", 1) in admin.events()
    status, _, body = admin.get("/session")
    assert status == 200 and body == b'{"user":null}'
    assert admin.post("/logout", {}, session)[0] == 200
    assert admin.post("/control", MODE, session)[0] == 401


def test_a_cookie_is_not_for_scripts_nor_for_other_sites(admin):
    _, headers, _ = admin.post("/login", {"user": USER, "password": PASSWORD})
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Path=/" in cookie
    policy = admin.get("/")[1]["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy


def test_nothing_that_is_missing_or_foreign_acts(admin):
    session = admin.login(USER, PASSWORD)
    other = admin.login(USER, PASSWORD)
    for expected, changed in [
        (403, {"Origin": "http://evil.example"}),
        (403, {"Origin": None}),
        (403, {"Origin": "null"}),
        (403, {"Origin": f"https://localhost:{admin.address[1]}"}),
        (403, {"Origin": "http://localhost"}),
        (421, {"Host": "evil.example", "Origin": "http://evil.example"}),
        (401, {"Cookie": None}),
        (401, {"Cookie": session.cookie[:-1]}),
        (401, {"Cookie": "micanite_1=" + session.cookie.split("=")[1]}),
        (403, {"X_Micanite_Token": None}),
        (403, {"X_Micanite_Token": ""}),
        (403, {"X_Micanite_Token": other.token}),
    ]:
        assert admin.post("/control", MODE, session, **changed)[0] == expected, changed
    assert admin.post("/login", {"user": USER, "password": PASSWORD}, Origin="http://evil.example")[0] == 403
    assert modes(admin) == {"crcw"}


@pytest.mark.parametrize("path", ["/login", "/logout", "/control"])
def test_other_methods_are_told_that_an_action_takes_a_post(admin, path):
    for method in ("GET", "HEAD", "PUT", "DELETE"):
        status, headers, _ = admin.get(path, method=method)
        assert status == 405 and headers["allow"] == "POST"


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"null", b"[]", b"\xff\xfe", b'{"action":"restart"}', b'{"action":"mode"}',
        b'{"action":"mode","mode":"all"}', b'{"action":"snapshot","name":"../x"}',
        b'{"action":"snapshot","name":"/tmp/x"}',
        b'{"action":"record","name":"a","fraction":"7","seconds":1}',
        b"[" * 4000
    ],
    ids=itertools.count()
)
def test_actions_that_are_none_are_refused(admin, body):
    session = admin.login(USER, PASSWORD)
    status, _, said = admin.post("/control", body, session)
    assert status == 400 and said.strip()


def test_wrong_passwords_are_limited(admin):
    answers = [
        admin.post("/login", {"user": USER, "password": f"guess{number}"}) for number in range(WRONG_MAX + 3)
    ]
    assert {status for status, _, _ in answers} == {401} and len({body for _, _, body in answers}) == 1
    # Now the right one is not believed either.
    assert admin.post("/login", {"user": USER, "password": PASSWORD})[0] == 401
    text = "logins to the console refused, the last from 127.0.0.1"
    until(lambda: sum(count for _, said, count in admin.events() if said == text) == WRONG_MAX + 4, "events")
    for body in (b"", b"{}", b'{"user":1,"password":2}', b'{"user":"a"}'):
        assert admin.post("/login", body)[0] == 400


def test_names_of_keys_are_for_those_who_have_logged_in(server, admin):
    """A name can be a secret: that of a session, for one."""
    secret = "memc.sess.4f1c9ab27d0e"
    with server.connect() as client:
        password = f"{USER} {PASSWORD}".encode()
        client.ask(b"set x 0 0 %d\r\n%s\r\n" % (len(password), password))
        client.send(f"get {secret}\r\n".encode() * 500)
        client.exactly(500 * len(b"END\r\n"))
    session = admin.login(USER, PASSWORD)

    def seen(path, cookie=None):
        cookies = f"Cookie: {cookie}\r\n" if cookie else ""
        return admin.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{cookies}\r\n".encode())

    for path in ("/hotkeys", "/state"):
        until(lambda path=path: secret.encode() in seen(path, session.cookie)[2], "the user to see the name")
    for path in ("/hotkeys", "/state", "/history", "/about", "/metrics", "/config", "/directory"):
        for cookie in (None, "micanite=0"):
            assert secret.encode() not in seen(path, cookie)[2], path
    assert seen("/hotkeys")[0] == 403 and json.loads(seen("/state")[2])["hot"] is None
    assert secret in server.ctl("hotkeys").stdout
    assert admin.post("/logout", {}, session)[0] == 200
    assert secret.encode() not in seen("/hotkeys", session.cookie)[2]


@pytest.mark.parametrize(
    ("options", "is_named"), [((), True), (("-X",), False), (("-X", "--admin-names"), True)]
)
def test_names_of_keys_without_users(start, options, is_named):
    """Where dumps are forbidden, names are nobody's; an option opens them."""
    server = start("-t", 1, "--admin", "-1", *options)
    admin = Admin(server)
    with server.connect() as client:
        client.send(b"get secret\r\n" * 500)
        client.exactly(500 * len(b"END\r\n"))
    assert (admin.get("/hotkeys")[0] == 200) is is_named
    assert (b"secret" in admin.get("/hotkeys")[2]) is is_named
    assert (admin.json("/state")["hot"] is not None) is is_named


def test_sessions_are_few_and_end_with_the_users(server, admin, files):
    sessions = [admin.login(USER, PASSWORD) for _ in range(SESSIONS_MAX + 1)]
    assert admin.post("/control", MODE, sessions[0])[0] == 401
    assert admin.post("/control", MODE, sessions[1])[0] == 200
    (files / "users").write_text("bob:other\n")
    server.process.send_signal(signal.SIGHUP)
    until(lambda: admin.post("/control", MODE, sessions[1])[0] == 401, "the session to end")
    until(lambda: any("passwords were loaded" in text for _, text, _ in admin.events()), "the event")


def test_a_namespace_is_flushed_and_the_event_says_flush(server, admin):
    with server.connect() as client:
        password = f"{USER} {PASSWORD}".encode()
        client.ask(b"set x 0 0 %d\r\n%s\r\n" % (len(password), password))
        client.ask(b"set user:1 0 0 1\r\na\r\n")
        client.ask(b"set other:1 0 0 1\r\na\r\n")
        session = admin.login(USER, PASSWORD)
        assert admin.post("/control", {"action": "flush", "namespace": "user"}, session)[0] == 200
        assert client.values(b"get user:1 other:1\r\n").keys() == {b"other:1"}
        until(lambda: ("control", f"{USER}: flush user: done", 1) in admin.events(), "the event")
        server.says(f' action="{USER}: flush user" ')
        assert admin.post("/control", {"action": "flush", "namespace": "a:b"}, session)[0] == 409


def test_snapshots_and_recordings_stay_in_their_directory(server, admin, files):
    session = admin.login(USER, PASSWORD)
    assert admin.post("/control", {"action": "snapshot", "name": "monday"}, session)[0] == 202
    until(lambda: any("monday: done" in text for _, text, _ in admin.events()), "the snapshot")
    assert list((files / "files" / "monday").iterdir())
    status, _, body = admin.post("/control", {"action": "snapshot", "name": "monday"}, session)
    assert status == 409 and b"choose another name" in body
    record = {"action": "record", "name": "today.rec", "fraction": "1", "seconds": 60}
    assert admin.post("/control", record, session)[0] == 200
    until(lambda: admin.json("/state")["recording"], "the recording")
    status, _, body = admin.post("/control", record, session)
    assert status == 409 and body.strip()
    assert admin.post("/control", {"action": "stop-recording"}, session)[0] == 200
    assert (files / "files" / "today.rec").stat().st_size > 0


def test_a_full_directory_takes_no_more_files(server, admin, files):
    session = admin.login(USER, PASSWORD)
    for number in range(FILES_MAX):
        (files / "files" / str(number)).touch()
    for action in (
        {"action": "snapshot", "name": "monday"},
        {"action": "record", "name": "today.rec", "fraction": "1", "seconds": 60},
    ):
        status, _, body = admin.post("/control", action, session)
        assert status == 409 and b"holds 64 files already" in body
    assert len(list((files / "files").iterdir())) == FILES_MAX
    (files / "files" / "0").unlink()
    assert admin.post("/control", {"action": "snapshot", "name": "monday"}, session)[0] == 202
    until(lambda: any("monday: done" in text for _, text, _ in admin.events()), "the snapshot")


def test_users_do_not_fill_a_file_system(start, files):
    folder = files / "files"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip("a tmpfs cannot be mounted")
    try:
        options = ("-t", 2, "-m", "64", "--admin", "-1", "--admin-files", folder)
        admin = Admin(serving(start, *options, "-Y", files / "users"))
        session = admin.login(USER, PASSWORD)
        status, _, body = admin.post("/control", {"action": "snapshot", "name": "monday"}, session)
        assert status == 409 and b"5 % of the file system" in body and b"64 MiB free" in body, body
        assert list(folder.iterdir()) == []
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_another_site_s_name_is_refused_on_every_address(start, files):
    """DNS rebinding: a page of evil.example, which resolves to this machine. Programs read by any name."""
    options = ("-t", 2, "--admin", "0.0.0.0:0", "--admin-hosts", "cache-1.example")
    server = serving(start, *options, "-Y", files / "users")
    admin = Admin(server)
    evil = {"Host": "evil.example", "Origin": "http://evil.example"}
    assert admin.post("/login", {"user": USER, "password": PASSWORD}, **evil)[0] == 421
    for path in ("/", "/session", "/state", "/about", "/hotkeys", "/config", "/directory", "/history"):
        status, _, body = admin.get(path, host="evil.example")
        assert status == 421 and b"--admin-hosts" in body
    for path in ("/metrics", "/healthz", "/readyz"):
        assert admin.get(path, host="evil.example")[0] == 200
    for host in ("10.1.2.3:9311", "localhost", f"{socket.gethostname()}:1", "cache-1.example"):
        assert admin.get("/state", host=host)[0] == 200
        ours = {"Host": host, "Origin": f"http://{host}"}
        assert admin.post("/login", {"user": USER, "password": PASSWORD}, **ours)[0] == 200


def test_nothing_begins_while_the_server_ends(start, files):
    options = ("-t", 2, "-m", "64", "--admin", "-1", "--admin-files", files / "files", "--drain-seconds", 60)
    server = serving(start, *options, "-Y", files / "users")
    admin = Admin(server)
    session = admin.login(USER, PASSWORD)
    with server.connect() as client:
        password = f"{USER} {PASSWORD}".encode()
        client.ask(b"set x 0 0 %d\r\n%s\r\n" % (len(password), password))
        # A client that takes none of its replies may do so until the seconds are over.
        client.set(b"a", b"x" * 500_000)
        client.send(b"get a\r\n" * 100)
        assert client.line() == b"VALUE a 0 500000"
        server.process.send_signal(signal.SIGUSR1)
        until(lambda: admin.get("/readyz")[0] == 503, "the end to begin")
        record = {"action": "record", "name": "today.rec", "fraction": "1", "seconds": 60}
        status, _, body = admin.post("/control", record, session)
        assert status == 503 and b"ending" in body
    assert server.wait_for_end() == 0
    assert list((files / "files").iterdir()) == []


def test_what_the_operator_forbids_users_cannot_do(start, files):
    admin = Admin(serving(start, "-t", 1, "--admin", "-1", "-Y", files / "users", "-F"))
    session = admin.login(USER, PASSWORD)
    for action, reason in [
        ({"action": "flush", "namespace": "user"}, b"-F"),
        ({"action": "snapshot", "name": "monday"}, b"--admin-files"),
    ]:
        status, _, body = admin.post("/control", action, session)
        assert status == 400 and reason in body
    assert admin.post("/control", MODE, session)[0] == 409


def test_secrets_are_not_told(server, admin):
    session = admin.login(USER, PASSWORD)
    said = "".join(admin.text(path) for path in ("/", "/about", "/state", "/config", "/history", "/main.js"))
    for secret in (PASSWORD, session.token, session.cookie.split("=")[1]):
        assert secret not in said + server.stderr()


@pytest.mark.parametrize(
    "lines, status",
    [
        ("Content-Length: 99999", 413),
        ("Content-Length: 99999999999999999999", 413),
        ("Content-Length: x", 400),
        ("Content-Length: -1", 400),
        ("Content-Length: 2\r\nContent-Length: 2", 400),
        ("Transfer-Encoding: chunked", 400),
        ("Content-Length: 2\r\nTransfer-Encoding: chunked", 400),
        ("A: b", 400),
    ]
)
def test_bodies_that_are_none(admin, lines, status):
    head = f"POST /login HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n\r\n{{}}"
    assert admin.send(head.encode())[0] == status


def test_slow_and_broken_clients_hold_nobody_up(admin):
    held = []
    for tail in (b"", b"{", b'{"user":"ada","password":"'):
        connection = admin.connect()
        head = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
        connection.send(head + tail)
        held.append(connection)
    session = admin.login(USER, PASSWORD)
    for _ in range(50):
        # It leaves before its answer.
        connection = admin.connect()
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        body = b'{"action":"mode","mode":"erew"}'
        port = admin.address[1]
        lines = [
            b"POST /control HTTP/1.1", b"Host: localhost:%d" % port, b"Origin: http://localhost:%d" % port,
            b"Cookie: " + session.cookie.encode(), b"X-Micanite-Token: " + session.token.encode(),
            b"Content-Length: %d" % len(body), b"", body
        ]
        connection.send(b"\r\n".join(lines))
        connection.close()
    until(lambda: admin.post("/control", MODE, session)[0] == 200, "the action")
    assert modes(admin) == {"crew"}
    for connection in held:
        connection.close()
