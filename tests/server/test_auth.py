"""Users and passwords: what strangers get, who is let in, and how guesses end."""

import contextlib
import re
import signal
import struct
import time

import bmemcached
import pytest
from bmemcached.exceptions import MemcachedException

from harness.admin import Admin
from harness.memcached.tls import Authority, TlsConnection, serving
from harness.memcached.udp import UdpClient
from harness.memcached.wire import Connection
from harness.poll import until
from harness.server import run

LOGIN = b"set any 0 0 12\r\nalice secret\r\n"
WRONG = b"set any 0 0 11\r\nalice wrong\r\n"
FAILED = b"CLIENT_ERROR authentication failure"
UNKNOWN = b"CLIENT_ERROR unauthenticated"


@pytest.fixture
def users(tmp_path):
    """A file with two users."""
    file = tmp_path / "users"
    file.write_text("alice:secret\nbob:pass word\n")
    return file


def test_strangers_learn_nothing(start, users):
    server = serving(start, "-t", 2, "-Y", users, "-A")
    with server.connect() as connection:
        for line in (
            "get a", "stats", "version", "mg a v", "flush_all", "shutdown", "refresh_certs", "bogus"
        ):
            assert connection.ask(line.encode() + b"\r\n") == UNKNOWN
        for answer, body in (
            (b"CLIENT_ERROR bad authentication token format", b"set x 0 0 5\r\nalice\r\n"),
            (b"CLIENT_ERROR bad command line termination", b"set x 0 0 5\r\nalice\n\r"),
            (b"CLIENT_ERROR auth token too long", b"set x 0 0 65535\r\n"),
            (FAILED, b"set x 0 0 12\r\nalic secret \r\n"),
        ):
            assert connection.ask(body) == answer
        connection.send(LOGIN + b"set a 0 0 1\r\nx\r\nmg a v\r\nget any\r\n")
        assert [connection.line() for _ in range(5)] == [b"STORED", b"STORED", b"VA 1", b"x", b"END"]
        stats = connection.stats()
        assert (stats["auth_cmds"], stats["auth_errors"]) == ("2", "1")
        settings = connection.stats("settings")
        assert (settings["auth_enabled_ascii"], settings["auth_enabled_sasl"]) == (str(users), "no")
    for closes in (b"quit\r\n", b"mn\r\n", b"x" * 3000):
        with server.connect() as connection:
            connection.send(closes)
            assert connection.line() is None
    # The binary protocol has no way in without -S.
    with server.connect() as connection:
        connection.send(b"\x80\x0b" + bytes(22))
        assert connection.exactly(24)[6:8] == b"\x00\x20"
        assert connection.exactly(13) == b"Auth failure."
        assert connection.line() is None


def test_a_client_of_redis_is_told_so_before_it_logs_in(start, users):
    server = serving(start, "-Y", users)
    with server.connect() as connection:
        connection.send(b"*1\r\n$4\r\nPING\r\n")
        assert connection.line().startswith(b"-ERR this is Micanite")
        assert connection.line() is None


def guess(number):
    """A login with a wrong password of its own."""
    token = b"alice guess%d" % number
    return b"set any 0 0 %d\r\n%b\r\n" % (len(token), token)


def test_attempts_are_in_the_metrics(start, users):
    server = serving(start, "-t", 1, "-Y", users, "--admin", "-1")
    for number in range(20):  # more than a user may have wrong
        with server.connect() as connection:
            assert connection.ask(guess(number)) == FAILED
    admin = Admin(server)
    totals = [admin.sum(f"micanite_authentication{name}_total") for name in ("s", "_errors", "s_limited")]
    assert totals[0] == totals[1] == 20 and 0 < totals[2] < 20


def test_a_unix_socket_asks_too(start, users, tmp_path):
    server = serving(start, "-Y", users, "-s", tmp_path / "socket")
    with server.connect() as connection:
        assert connection.ask(b"version\r\n") == UNKNOWN
        assert connection.ask(b"set x 0 0 13\r\nbob pass word\r\n") == b"STORED"
        assert connection.ask(b"version\r\n").startswith(b"VERSION")


def test_guesses_are_limited(start, users):
    server = serving(start, "-Y", users)
    with server.connect() as known:
        assert known.ask(LOGIN) == b"STORED"
        for number in range(3):
            with server.connect() as connection:
                assert [connection.ask(guess(3 * number + place)) for place in range(3)] == [FAILED] * 3
                assert connection.line() is None
        for number in range(3):  # some more, for one is forgotten every six seconds
            with server.connect() as connection:
                assert connection.ask(guess(10 + number)) == FAILED
        # Ten and more were wrong: now nothing is believed, for six seconds at least.
        with server.connect() as connection:
            assert connection.ask(LOGIN) == FAILED
            assert connection.line() is None
        assert known.ask(b"mn\r\n") == b"MN"
        assert int(known.stats()["auth_limited"]) >= 1
        with server.connect() as connection:
            assert connection.ask(b"set any 0 0 13\r\nbob pass word\r\n") == b"STORED"
        for line in (" WARN login refused: .*", " WARN too many wrong passwords.*"):
            assert re.search(line + r" user=alice peer=127\.0\.0\.1$", server.stderr(), re.MULTILINE)

        def is_believed():
            with server.connect() as connection:
                return connection.ask(LOGIN) == b"STORED"

        until(is_believed, "the address to be believed again")


def test_a_client_that_repeats_an_old_password_keeps_nobody_out(start, users):
    """It repeats one by the text protocol and by SASL, beside others of its address who are right."""
    server = serving(start, "-t", 1, "-Y", users, "-S")
    for _ in range(50):
        with server.connect() as old:
            assert [old.ask(WRONG) for _ in range(3)] == [FAILED] * 3
        with server.connect() as old:
            old.send(sasl_auth("alice", "wrong"))
            assert old.exactly(24)[6:8] == b"\x00\x20"
        with server.connect() as connection:
            assert connection.ask(LOGIN) == b"STORED"
            stats = connection.stats()
    assert stats["auth_limited"] == "0"


def test_many_connections_guess_no_more_than_one(start, users):
    """Passwords that were compared: at first ten, then one every six seconds."""
    server = serving(start, "-t", 1, "-Y", users)
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        guessers = [stack.enter_context(server.connect()) for _ in range(1000)]
        for number, guesser in enumerate(guessers):
            guesser.send(guess(number))
        assert {guesser.line() for guesser in guessers} == {FAILED}
    with server.connect() as known:
        known.send(b"set any 0 0 13\r\nbob pass word\r\n")
        assert known.line() == b"STORED"
        stats = known.stats()
    compared = int(stats["auth_errors"]) - int(stats["auth_limited"])
    assert 10 <= compared <= 11 + (time.monotonic() - began) / 6


def test_passwords_are_read_again(start, users):
    server = serving(start, "-Y", users)
    old = server.connect()
    assert old.ask(LOGIN) == b"STORED"
    users.write_text("no colon\n")
    server.process.send_signal(signal.SIGHUP)
    until(lambda: "the old passwords stay" in server.stderr(), "the log to say so")
    with server.connect() as connection:
        assert connection.ask(LOGIN) == b"STORED"
    users.write_text("carol:new\n")
    server.process.send_signal(signal.SIGHUP)
    until(lambda: "passwords were read again" in server.stderr(), "the log to say so")
    with server.connect() as connection:
        assert connection.ask(LOGIN) == FAILED
        assert connection.ask(b"set x 0 0 9\r\ncarol new\r\n") == b"STORED"
    assert old.ask(b"mn\r\n") == b"MN"


def test_clients_of_the_binary_protocol(start, users):
    server = serving(start, "-t", 2, "-Y", users, "-S")
    place = [f"127.0.0.1:{server.port}"]
    client = bmemcached.Client(place, "bob", "pass word", socket_timeout=30)
    assert client.set("key", "value" * 10_000) is True
    assert client.get("key") == "value" * 10_000
    client.disconnect_all()
    for user, password in (("bob", "wrong"), ("nobody", "pass word"), (None, None)):
        stranger = bmemcached.Client(place, user, password, socket_timeout=30)
        with pytest.raises(MemcachedException, match="Auth failure"):
            stranger.get("key")
        stranger.disconnect_all()
    # Both protocols go by the same file.
    with server.connect() as connection:
        assert connection.ask(LOGIN) == b"STORED"
        assert connection.stats("settings")["auth_enabled_sasl"] == "yes"


def test_passwords_within_tls(start, users, tmp_path):
    authority = Authority(tmp_path)
    server = serving(start, "-Y", users, "--tls-cert", authority.chain, "--tls-key", authority.key)
    with TlsConnection(server.address, authority.context()) as connection:
        assert connection.ask(b"get a\r\n") == UNKNOWN
        assert connection.ask(LOGIN) == b"STORED"
        assert connection.ask(b"get a\r\n") == b"END"


def test_strangers_who_say_nothing_do_not_stay(start, users, tmp_path):
    """A client has ten seconds to say who it is; then its connection is closed and counted, so that others
    find room."""
    authority = Authority(tmp_path)
    unix = tmp_path / "socket"
    files = ("--tls-cert", authority.chain, "--tls-key", authority.key)
    server = serving(
        start, "-t", 1, "-c", 6, "-S", "-Y", users, "-p", -1, "-l", "127.0.0.1", "-s", unix, *files,
        "--admin", "notls:-1"
    )
    tls = lambda: TlsConnection(("127.0.0.1", server.port), authority.context())  # noqa: E731
    local = lambda: Connection(str(unix))  # noqa: E731
    began = time.monotonic()
    known, again = local(), local()
    assert known.ask(LOGIN) == b"STORED"
    # A client that has authenticated may take its time to do so again.
    again.send(sasl_auth("alice", "secret"))
    again.exactly(24 + len("Authenticated"))
    again.send(sasl_auth("alice", "wrong"))
    assert again.exactly(24)[6:8] == b"\x00\x20"
    strangers = [tls(), local(), local(), local()]
    strangers[1].send(b"set x 0 0 12\r\nali")
    assert strangers[2].ask(b"get a\r\n") == UNKNOWN
    strangers[3].send(b"\x80\x21")
    for stranger in strangers:
        assert stranger.rest() == b""
    assert time.monotonic() - began > 9, "they had time to log in"
    with tls() as connection:
        assert connection.ask(LOGIN) == b"STORED"
    assert known.stats()["auth_timeouts"] == "4"
    assert Admin(server).sum("micanite_authentication_timeouts_total") == 4
    again.exactly(len("Auth failure."))
    again.send(sasl_auth("alice", "secret"))
    assert again.exactly(24)[6:8] == bytes(2)


def sasl_auth(user, password):
    """A login of the binary protocol."""
    key, value = b"PLAIN", b"\0".join((b"", user.encode(), password.encode()))
    return struct.pack("!BBHBBHIIQ", 0x80, 0x21, len(key), 0, 0, 0, len(key) + len(value), 0, 0) + key + value


def test_datagrams_without_passwords_if_wished(start, users):
    """Datagrams for everybody beside passwords need an option of their own."""
    server = serving(start, "-Y", users, "-U", -1, "--native", -1, "--allow-unauthenticated", "udp,native")
    with UdpClient(server.ports()["UDP"]) as udp:
        assert udp.receive(udp.send(b"get a\r\n")) == b"END\r\n"
    with server.connect() as connection:
        assert connection.ask(b"get a\r\n") == UNKNOWN
    assert (
        'allow-unauthenticated = "udp, native"'
        in run(
            "-p", -1, "-Y", users, "-U", -1, "--allow-unauthenticated", "udp, native", "--print-config"
        ).stdout
    )


def test_passwords_without_encryption_are_warned_of(start, users, tmp_path):
    """Passwords cross the network as they are, so somebody should know."""
    authority = Authority(tmp_path)
    files = ("--tls-cert", authority.chain, "--tls-key", authority.key)
    warning = "warning: passwords (-Y, -S) cross the network unencrypted"
    assert f"{warning} to 0.0.0.0:" in serving(start, "-Y", users, "-l", "0.0.0.0").stderr()
    assert warning not in serving(start, "-Y", users).stderr()
    assert warning not in serving(start, "-Y", users, "-l", "0.0.0.0", *files).stderr()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("-Y {folder}/none", "Could not open authfile [{folder}/none] for reading"),
        ("-Y {folder}/bad", "Authfile [{folder}/bad] has a malformed entry in line 2"),
        ("-S", "-S/--enable-sasl: a file of users is missing"),
        ("-Y {folder}/users -U 11399", "Cannot use UDP with authentication enabled"),
        ("-Y {folder}/users --native 11399", "--native: this protocol has no authentication"),
        (
            "-Y {folder}/users -U 11399 --allow-unauthenticated native",
            "Cannot use UDP with authentication enabled",
        ),
        (
            "-Y {folder}/users --native 11399 --allow-unauthenticated udp",
            "--native: this protocol has no authentication",
        ),
        ("--allow-unauthenticated everything", "--allow-unauthenticated: 'everything' is neither udp"),
    ],
)
def test_faulty_files_end_the_start_with_a_reason(users, options, said):
    users.with_name("bad").write_text("alice:secret\nbob\n")
    ended = run("-p", -1, *options.format(folder=users.parent).split())
    assert ended.returncode != 0
    assert said.format(folder=users.parent) in ended.stderr
