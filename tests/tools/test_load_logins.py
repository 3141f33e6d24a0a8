"""`micanite load` and `micanite trace replay` over TLS and with passwords: who gets in, which words say what
is wrong, and that no password is shown."""

import json
import subprocess

import pytest

from harness.memcached.peer import running
from harness.memcached.tls import Authority, serving
from harness.native.server import NativeServer
from harness.server import PROJECT, Server, command, environment
from harness.tools.load import PATIENT, is_clean, load, run_load
from harness.tools.replay import objects, replay, run_replay, url_of

FAILED, USAGE = 1, 64
ITEMS = ("--items", "300", "--fill", "--dataset", "16/40000")
LOGIN = "alice:se%40cret"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """Certificates that no test changes."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def users(tmp_path_factory):
    """A file with one user."""
    file = tmp_path_factory.mktemp("users") / "users"
    file.write_text("alice:se@cret\n")
    return file


@pytest.fixture(scope="module")
def closed(authority, users):
    """A server that speaks TLS and asks for passwords."""
    server = serving(Server, "-t", 2, "--tls-cert", authority.chain, "--tls-key", authority.key, "-Y", users)
    yield server
    server.end()


def shows_no_password(ended):
    """Fails where the output has the password in any form."""
    for text in (ended.stdout, ended.stderr):
        assert "se@cret" not in text and "se%40cret" not in text, text
    return ended


@pytest.mark.parametrize("shape", [("--pipeline", 8), ("--connections", 10, "--threads", 2, "--multiget", 3)])
def test_load_over_tls_with_a_password(closed, authority, shape):
    """Long values and many connections: what TLS has decrypted does not wait for a ready descriptor."""
    url = f"memcacheds://{LOGIN}@127.0.0.1:{closed.port}"
    report = load(url, *PATIENT, *ITEMS, *map(str, shape), "--tls-ca", authority.ca)
    assert is_clean(report), report
    assert report["plan"]["targets"] == [f"memcacheds://127.0.0.1:{closed.port}"]
    assert report["servers"][0] and "cret" not in json.dumps(report)


def test_the_table_and_the_environment(closed):
    """The password may come from the environment, and is in neither output."""
    words = [command()[0], "load", f"memcacheds://alice@127.0.0.1:{closed.port}", "--tls-insecure", *PATIENT]
    ended = subprocess.run(
        [*words, "--items", "50", "--fill"], capture_output=True, text=True, timeout=60,
        env=environment(MICANITE_PASSWORD="se@cret"),
    )  # fmt: skip
    assert ended.returncode == 0 and "wrong values          0" in ended.stdout, ended
    shows_no_password(ended)


def test_replay_over_tls_with_a_password(closed, authority, tmp_path):
    trace = objects(tmp_path / "trace.csv", [(0, number % 50, 5000) for number in range(500)])
    url = f"memcacheds://{LOGIN}@127.0.0.1:{closed.port}"
    report = replay(trace, url, "--speed", "max", "--tls-ca", authority.ca, "--key-prefix", "r-")
    assert report["sent"] == 500 and report["refused"] == 0 and report["stored_after_misses"] == 50
    assert len(report["generator"]["cpu_s_by_thread"]) == 1 and "cret" not in json.dumps(report)


def replay_once(trace):
    """Returns a command that replays as `run_load` loads."""
    return lambda url, *options: run_replay(trace, url, "--speed", "max", *options)


@pytest.mark.parametrize("tool", ["load", "replay"])
def test_wrong_addresses_say_what_to_do(closed, authority, users, start, tmp_path, tool):
    """Each error names the remedy, and no password."""
    trace = objects(tmp_path / "trace.csv", [(0, 1, 50)])
    run = replay_once(trace) if tool == "replay" else lambda *words: run_load(*words, *PATIENT)
    plain, guarded = start("-t", 1), serving(start, "-t", 1, "-Y", users)
    ca = ("--tls-ca", authority.ca)
    where = f"127.0.0.1:{closed.port}"
    for url, options, status, reason in [
        (f"memcacheds://alice:wr0ng@{where}", ca, FAILED, "refused the user 'alice' or the password"),
        (f"memcacheds://{where}", ca, FAILED, "wants a password: write USER:PASSWORD@"),
        (f"memcacheds://{LOGIN}@{where}", ("--tls-ca", users), USAGE, "no certificate in it"),
        (f"memcacheds://{LOGIN}@{where}", (), FAILED, "--tls-ca FILE"),
        (f"memcached://{LOGIN}@{where}", (), FAILED, "write memcacheds://"),
        (f"memcached://{where}", (), FAILED, "write memcacheds://"),
        (f"memcacheds://127.0.0.1:{plain.port}", ca, FAILED, "write memcached://"),
        (f"memcached://{LOGIN}@127.0.0.1:{plain.port}", (), FAILED, "asks for no password"),
        (f"memcached://127.0.0.1:{guarded.port}", (), FAILED, "wants a password"),
        (f"memcached://alice@127.0.0.1:{guarded.port}", (), USAGE, "set MICANITE_PASSWORD"),
        (f"memcached://{LOGIN}@127.0.0.1:x", (), USAGE, "is no target"),
        (f"memcached+udp://{LOGIN}@127.0.0.1:1", (), USAGE, "{udp}"),
        (f"memcached://127.0.0.1:{plain.port}", ca, USAGE, "for memcacheds://"),
    ]:
        ended = shows_no_password(run(url, *options))
        reason = reason.format(udp="to memcached://127.0.0.1:1" if tool == "replay" else "has no login")
        assert (ended.returncode, reason in " ".join(ended.stderr.split())) == (status, True), (url, ended)
        assert "wr0ng" not in ended.stderr
    # The login was not stored where nobody had asked for it.
    assert plain.stats()["curr_items"] == "0"


def test_a_server_that_wants_certificates(start, authority):
    server = serving(
        start, "--tls-cert", authority.chain, "--tls-key", authority.key, "--tls-client-ca", authority.ca
    )  # fmt: skip
    url = f"memcacheds://localhost:{server.port}"
    words = (*PATIENT, "--items", "50", "--fill", "--tls-ca", authority.ca)
    assert is_clean(load(url, *words, "--tls-cert", authority.client))
    ended = run_load(url, *words)
    assert ended.returncode == FAILED and "--tls-cert FILE" in ended.stderr, ended


def test_memcached_asks_for_passwords_as_we_do(users):
    path = subprocess.run(
        [PROJECT / "scripts/peer-memcached"], capture_output=True, text=True, check=True
    ).stdout.strip()
    with running(path, "-Y", users, greeting=b"CLIENT_ERROR unauthenticated") as (_, port):
        url = f"memcached://{LOGIN}@127.0.0.1:{port}"
        assert is_clean(load(url, *PATIENT, "--items", "50", "--fill"))
        ended = run_load(f"memcached://alice:wr0ng@127.0.0.1:{port}", *PATIENT)
        assert ended.returncode == FAILED and "refused the user" in ended.stderr, ended


@pytest.mark.parametrize("scheme", ["memcached", "native"])
def test_a_low_rate_leaves_the_cpu_idle(scheme):
    """A thread sleeps between requests that are a millisecond apart. It spun until the next one was due."""
    words = ("--warmup", "200ms", "--duration", "1s", "--timeout", "30s", "--items", "50", "--fill")
    with NativeServer("-t", 1, "-m", 64) as server:
        report = load(url_of(server, scheme), *words, "--rate", 1000, "--arrivals", "even")
    generator = report["generator"]
    assert report["answered"] > 0 and len(generator["cpu_s_by_thread"]) == 1
    assert 0 < generator["cpu_ratio"] < 0.45, generator
