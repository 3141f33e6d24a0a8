"""Clients over libfabric that come and go: logins, buffers, kills, restarts."""

import itertools

import pytest

from harness.admin import Admin
from harness.failures import Hang
from harness.native import Opcode, Status
from harness.native.endpoint import End, FabricClient, FabricServer, await_count, free_places
from harness.poll import until
from harness.server import Server, run

NET = "net;ofi_rxm"
TCP = "tcp;ofi_rxm"
KEYS = (b"key-%d" % number for number in itertools.count())


@pytest.fixture
def users(tmp_path):
    path = tmp_path / "users"
    path.write_text("alice:secret\n")
    return path


def serving(provider, users):
    """A server that asks for passwords. It is ready when it says so."""
    server = FabricServer(provider, "-Y", users, ready=False)
    until(lambda: "ready" in server.stderr(), "the server")
    server.port = server.ports()["TCP"]
    return server


def test_a_login_is_asked_for_before_anything_is_told(provider, users):
    with serving(provider, users) as server:
        for login in ({}, {"user": b"alice", "password": b"wrong"}, {"user": b"bob", "password": b"secret"}):
            with server.client(**login) as client:
                assert (client.status, client.facts) == (Status.UNPROVEN, {})
        with server.client(user=b"alice", password=b"secret") as client:
            assert client.status == Status.OK and client.facts["area_key"]
            assert client.set(next(KEYS), b"value").status == Status.OK
        counts = counts_with_a_login(server)
        # A hello may have been said twice; over shm the first may seem to come from somebody else.
        assert counts["hellos_unproven"] >= 3 and counts["hellos"] >= 1


def counts_with_a_login(server):
    """`stats fabric` of a server that asks for passwords."""
    with server.connect() as connection:
        connection.set(b"login", b"alice secret")
        found = connection.stats("fabric")
    return {name: int(count) for name, count in found.items() if count.isdigit()}


def test_an_address_that_guesses_is_not_believed(users):
    with serving(NET, users) as server:

        def is_limited():
            with server.client(user=b"alice", password=b"0") as client:
                for number in range(1, 10):
                    client.login["password"] = b"%d" % number
                    assert client.hello() == Status.UNPROVEN
                client.login["password"] = b"secret"
                return client.hello() == Status.UNPROVEN

        # The server forgets a failure every six seconds, in which a busy machine may not say ten hellos.
        until(is_limited, "the right password to be refused")


def test_a_buffer_goes_to_the_next_client():
    """A client that was killed is noticed by a push to it, 5 s later. Its buffer is reused."""

    def is_killed_before_its_push(server):
        client = server.client()
        assert client.set(next(KEYS), b"value").status == Status.OK
        client.end.kill()
        return server.count("pushes") == 0

    for _ in range(10):
        with FabricServer(NET, "--fabric-push", 1000, "--fabric-frozen", 120) as server:
            if not is_killed_before_its_push(server):
                continue
            await_count(server, "clients", 0, "the end of the client")
            await_count(server, "buffers_frozen", 1, "its frozen buffer")
            with server.client() as second:
                assert second.one(Opcode.NOOP).status == Status.OK
                counts = server.stats("fabric")
                assert (counts["registrations_made"], counts["registrations_saved"]) == ("1", "1")
                assert counts["buffers_frozen"] == "0"
            return
    raise Hang("10 clients were not killed before a push to them")


def test_the_buffer_of_a_client_that_left_is_released():
    """The client leaves without a word."""
    with FabricServer(NET, "--fabric-frozen", 5) as server:
        with server.client() as client:
            assert client.one(Opcode.NOOP).status == Status.OK
        await_count(server, "clients", 0, "the end of the client")
        await_count(server, "buffers_frozen", 0, "the release of its buffer")
        with server.client():
            assert server.count("registrations_made") == 2


def test_as_many_clients_as_there_may_be(provider):
    """One more is told to come again, and is let in when another one was silent for too long."""
    with FabricServer(provider, "--fabric-clients", 1, "--fabric-frozen", 5) as server:
        with server.client() as first, server.client(hello=False) as second:
            assert first.one(Opcode.NOOP).status == Status.OK
            assert second.hello() == Status.SLOW_DOWN
            assert server.count("hellos_without_buffer") >= 1
            until(lambda: second.hello() == Status.OK, "a place")
            assert second.one(Opcode.NOOP).status == Status.OK
            assert server.count("clients") == 1


def test_a_client_that_connects_again_takes_its_own_place(provider):
    with FabricServer(provider) as server, server.client(nonce=4) as client:
        session = client.facts["session"]
        client.end.close()
        client.end = End(server.fabric_address)
        client.connect()
        assert client.status == Status.OK and client.facts["session"] != session
        assert client.one(Opcode.NOOP).status == Status.OK
        assert server.count("clients") == 1


def test_a_hello_that_is_repeated_gets_the_same_session(provider):
    with FabricServer(provider) as server, server.client() as client:
        session = client.facts["session"]
        assert client.hello() == Status.OK and client.facts["session"] == session
        assert server.count("hellos") == 1
        assert client.one(Opcode.NOOP).status == Status.OK


@pytest.mark.parametrize("provider", [NET, TCP], ids=("net", "tcp"))
def test_a_killed_client_leaves_others_alone(provider):
    """It is killed with a set of a long value under way, and later when its reply is. Over shm it may hold a
    lock of the provider, for which the server then waits for ever."""
    with FabricServer(provider, "--fabric-frozen", 3) as server, server.client() as other:
        for _ in range(3):
            client = server.client()
            client.end.post("send", client.facts["session"], "00" * (1 << 20))
            client.end.kill()
            key = next(KEYS)
            assert other.set(key, b"value").status == Status.OK
            assert other.get(key, wants_entry=True).value == b"value"
        until(lambda: other.one(Opcode.NOOP) and server.count("clients") == 1, "the ends of the others")


def test_each_worker_serves_its_clients(provider):
    with FabricServer(provider, workers=2) as server:
        clients = [server.client(nonce=nonce) for nonce in (6, 7)]
        assert [client.facts["worker"] for client in clients] == [0, 1]
        for writer, reader in (clients, clients[::-1]):
            for key in (next(KEYS) for _ in range(40)):
                assert writer.set(key, b"v" + key).status == Status.OK
                found = reader.get(key, wants_entry=True)
                assert found.value == b"v" + key and reader.chunk(key, found.entry) == b"v" + key
        assert server.count("clients") == 2
        for client in clients:
            client.end.close()


@pytest.mark.parametrize("options", [["-M"], ["--fabric-write", "back"]], ids=["store", "cache-back"])
def test_a_restart_keeps_what_is_stored(provider, tmp_path, options):
    """Values that were in the cache area only are there as well. Clients say hello again."""
    image = tmp_path / "image"
    with FabricServer(provider, "-m", 64, "--image", image, *options) as server:
        client = server.client()
        keys = [next(KEYS) for _ in range(50)]
        for value in (b"first", b"second", b"third!"):
            for key in keys:
                assert client.set(key, value).status == Status.OK
        incarnation = client.facts["incarnation"]
        assert server.ctl("restart").returncode == 0
        client.end.close()
        client.end = End(server.fabric_address)
        client.connect()
        assert client.facts["incarnation"] != incarnation
        assert {client.get(key).value for key in keys} == {b"third!"}
        client.end.close()


def test_a_snapshot_has_the_newest_values(tmp_path):
    with FabricServer(NET, "-m", 64, "--fabric-write", "back") as server, server.client() as client:
        keys = [next(KEYS) for _ in range(50)]
        for value in (b"first", b"third"):
            for key in keys:
                assert client.set(key, value).status == Status.OK
        copied = server.ctl("snapshot", tmp_path / "copy")
        assert copied.returncode == 0, copied.stderr
    copy = Server("-m", 64, "-t", 1, "--image", tmp_path / "copy")
    try:
        with copy.connect() as connection:
            for key in keys:
                assert connection.get(key) == b"third"
    finally:
        copy.end()


def test_a_server_that_was_killed_is_followed_by_another_one(provider):
    address = free_places(provider, 1)
    with FabricServer(provider, address=address) as server:
        client = server.client()
        assert client.set(next(KEYS), b"value").status == Status.OK
        client.end.close()
    with FabricServer(provider, address=address), FabricClient(address) as client:
        assert client.get(next(KEYS)).status == Status.NOT_FOUND


WRONG = [
    (["sockets,127.0.0.1"], "these are known: net;ofi_rxm"),
    (["net;ofi_rxm,localhost"], "not IP[:PORT]"),
    (["shm,micanite-test"], "--fabric-trusted"),
    (["net;ofi_rxm,127.0.0.1", "--fabric-cache", "1m"], "a page of 2 MiB each"),
    (["net;ofi_rxm,127.0.0.1", "--fabric-message", "8k"], "the largest value (-I)"),
    (["efa,127.0.0.1"], "no such device"),
    (["net;ofi_rxm,127.0.0.1:65535", "-t", "2"], "would be 65536"),
]


@pytest.mark.parametrize(("options", "words"), WRONG, ids=[" ".join(options) for options, _ in WRONG])
def test_what_cannot_be_served_is_said(options, words):
    ended = run("-p", "-1", "--fabric", *options)
    assert ended.returncode > 0 and words in ended.stderr


def test_an_address_in_use_is_refused():
    with FabricServer(NET) as server:
        ended = run("-p", "-1", "--fabric", server.fabric_address)
        assert ended.returncode > 0 and "cannot serve --fabric" in ended.stderr


def test_the_start_says_what_clients_can_see():
    with FabricServer(NET, "--fabric-write", "through", "--fabric-policy", "fifo") as server:
        said = server.stderr()
        assert "can read all items in the cache area" in said and "fifo, written through" in said
    with FabricServer(NET, "--fabric-cache", 0) as server, server.client() as client:
        assert "can read all items" not in server.stderr()
        assert client.facts["area_bytes"] == 0
        key = next(KEYS)
        assert client.set(key, b"value").status == Status.OK
        found = client.get(key, wants_entry=True)
        assert (found.value, found.entry) == (b"value", None)


def test_metrics_name_the_fabric():
    with FabricServer(NET, "--admin", -1) as server, server.client() as client:
        assert client.set(next(KEYS), b"value").status == Status.OK
        admin = Admin(server)
        assert admin.sum("micanite_fabric_clients") == 1
        assert admin.sum("micanite_fabric_events_total", event="hellos") == 1
        until(lambda: admin.sum("micanite_fabric_chunks", use="chunks_living") == 1, "the chunk")
