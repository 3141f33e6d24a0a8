"""Clients that are killed while the server sends to them, and a provider that does not return from a call."""

import random
import signal
import threading
import time

import pytest

from harness.native import Opcode, Request, Status
from harness.native import requests_datagram as datagram
from harness.native.endpoint import MESSAGE_BYTES, FabricClient, FabricServer, Failed, await_count
from harness.poll import DEADLINE_S, until

NET, TCP, SHM = "net;ofi_rxm", "tcp;ofi_rxm", "shm"
GIVEN_UP = "has not returned from a call"
KEY, VALUE = b"key", bytes(1 << 18)
# Of a client that is killed.
MESSAGES = 30
# Of clients that are not let in, before the endpoint counts as lost.
HELLOS = 4


class Asking:
    """A thread that asks over TCP all the time, and fails if an answer does not come."""

    def __init__(self, server):
        self.server, self.answers, self.wrong = server, 0, []
        self.is_ending = threading.Event()
        self.thread = threading.Thread(target=self._ask, daemon=True)

    def _ask(self):
        try:
            with self.server.connect() as connection:
                while not self.is_ending.is_set():
                    if connection.get(KEY) != VALUE:
                        raise AssertionError("another value")
                    self.answers += 1
        except Exception as error:
            self.wrong.append(repr(error))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_ending.set()
        self.thread.join(DEADLINE_S)
        assert not self.thread.is_alive() and not self.wrong and self.answers, self.wrong


def kill_within_requests(address, wait_ms):
    """Kills a client while requests and replies of long values are under way. Returns False if it was not let
    in."""
    client = FabricClient(address, hello=False)
    try:
        if client.hello(within_s=2) != Status.OK:
            return False
        get = Request(Opcode.GET, KEY, client.hash(KEY))
        message = datagram(client.header(), [get])
        for _ in range(MESSAGES):
            client.post_receive(0, MESSAGE_BYTES)
            client.end.post("send", client.facts["session"], message.hex())
        time.sleep(wait_ms / 1000)
    except (AssertionError, OSError, Failed):
        return False
    finally:
        client.end.kill()
    return True


@pytest.mark.parametrize("kills", [6, pytest.param(500, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "provider", [NET, pytest.param(TCP, marks=pytest.mark.full), SHM], ids=("net", "tcp", "shm")
)
def test_killed_clients_never_hold_up_tcp_nor_the_end(provider, kills):
    """The provider may not return from a call. The endpoint is given up, and a restart opens it again."""
    chance = random.Random(kills)
    options = ["--fabric-frozen", 3, "--fabric-clients", 256]
    with FabricServer(provider, *options) as server:
        with server.connect() as connection:
            connection.set(KEY, VALUE)
        done = 0
        while done < kills:
            with Asking(server):
                while done < kills and kill_within_requests(server.fabric_address, chance.uniform(0, 30)):
                    done += 1
                is_lost = done < kills and not lets_in(server)
            if is_lost:
                # A client of shm that is killed may leave a lock, or messages that nobody waits for.
                assert provider == SHM or server.count("endpoints_given_up") == 1
                assert server.ctl("restart", "--force").returncode == 0
                server.wait_until_ready()
                with server.connect() as connection:
                    connection.set(KEY, VALUE)
        terminate(server)


def lets_in(server):
    """Returns whether its endpoint lets clients in. It was given up, or receives nothing, otherwise."""
    for _ in range(HELLOS):
        client = FabricClient(server.fabric_address, hello=False)
        try:
            if client.hello(within_s=5) == Status.OK:
                return True
        except (AssertionError, OSError, Failed):
            if server.count("endpoints_given_up"):
                return False
        finally:
            client.end.kill()
    return False


def terminate(server):
    """The usual signal ends the server, with success."""
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_for_end() == 0, server.stderr()[-2000:]


@pytest.mark.parametrize("is_awaited", [True, False], ids=("given-up", "at-once"))
def test_a_call_that_stands_holds_up_its_clients_only(tmp_path, is_awaited):
    """Their worker answers over TCP, and another worker's clients are served. SIGTERM ends the server."""
    told = tmp_path / "stand"
    with FabricServer(NET, workers=2, FABRIC_TEST_STANDS=told) as server:
        with server.connect() as connection:
            connection.set(KEY, VALUE)
        first, second = clients = [server.client(nonce=nonce) for nonce in (6, 7)]
        assert [client.facts["worker"] for client in clients] == [0, 1]
        with Asking(server), Asking(server):
            told.touch()
            message = datagram(first.header(), [Request(Opcode.NOOP)])
            first.end.post("send", first.facts["session"], message.hex())
            until(lambda: not told.exists(), "the call that stands")
            assert second.one(Opcode.NOOP).status == Status.OK
            if is_awaited:
                await_count(server, "endpoints_given_up", 1, "the end of the endpoint")
                server.says(GIVEN_UP)
                assert second.one(Opcode.NOOP).status == Status.OK
                assert server.count("clients") == 1
        terminate(server)
        for client in clients:
            client.end.kill()


def test_a_restart_opens_an_endpoint_that_was_given_up(tmp_path):
    told = tmp_path / "stand"
    with FabricServer(NET, FABRIC_TEST_STANDS=told) as server:
        client = server.client()
        told.touch()
        message = datagram(client.header(), [Request(Opcode.NOOP)])
        client.end.post("send", client.facts["session"], message.hex())
        await_count(server, "endpoints_given_up", 1, "the end of the endpoint")
        client.end.kill()
        assert server.ctl("restart", "--force").returncode == 0
        with server.client() as again:
            assert again.one(Opcode.NOOP).status == Status.OK
            assert server.count("endpoints_given_up") == 0
