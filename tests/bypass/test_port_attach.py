"""An XDP port comes and goes: it cuts nobody off, replaces nobody, and leaves nothing behind however it ends.
"""

import json
import os
import signal
import socket
import struct
import subprocess
import tempfile

import pytest

from harness.native import Opcode, Request, Status
from harness.native.client import NativeClient
from harness.native.server import NativeServer
from harness.network import bpf
from harness.network.frames import ones_complement
from harness.network.hosts import NotPermitted
from harness.network.links import BASE, NEAR, Link
from harness.network.ports import TCP_PORT, XDP, PortServer
from harness.network.rights import as_nobody, capabilities_of, status_of
from harness.poll import until
from harness.server import command, environment

REFUSED_S = 30


@pytest.fixture
def link():
    """A link of the test's own."""
    with Link() as link:
        yield link


def attached(link):
    """The program at the server's interface, as `ip` shows it; None without one."""
    (found,) = json.loads(link.server.ip("-j", "link", "show", "dev", NEAR))
    return found.get("xdp")


def refused(link, *options):
    """Starts a server that cannot have the port: what it says, after it has ended by itself."""
    port = () if "--bypass" in options else ("--bypass", f"xdp:{NEAR}")
    words = [*command(), *port, "-p", TCP_PORT + 1, "-m", 64, "-t", 1, *options]
    with link.server.inside():
        ended = subprocess.run(
            list(map(str, words)), capture_output=True, text=True, timeout=REFUSED_S, env=environment()
        )  # fmt: skip
    assert ended.returncode not in (0, None) and ended.returncode > 0, ended
    assert "panicked" not in ended.stderr
    return ended.stderr


@pytest.mark.parametrize("ending", ["SIGTERM", "SIGINT", "SIGKILL"])
def test_it_detaches_however_it_ends(link, key, ending):
    assert attached(link) is None
    for _ in range(2):  # what one leaves behind would stop the next
        with PortServer(XDP, link, "-m", 64) as server:
            assert attached(link)
            with server.client() as client:
                client.set(key, b"v")
            os.kill(server.pid, getattr(signal, ending))
            server.wait_for_end()
        until(lambda: attached(link) is None, "the interface to be free")


def test_a_start_that_fails_leaves_the_interface_free(link):
    with link.server.inside(), socket.create_server((link.server.address, TCP_PORT + 1)):
        refused(link, "-l", link.server.address)
    assert attached(link) is None


def test_an_attached_program_of_another_owner_stays(link):
    """The server is not started; the words name the way out, which works."""
    link.server.ip("link", "set", "dev", NEAR, "xdpdrv", "obj", str(bpf.compiled("pass")), "sec", "xdp")
    before = attached(link)
    said = refused(link)
    assert NEAR in said and "xdp" in said and "off" in said, said
    assert attached(link)["prog"]["id"] == before["prog"]["id"]
    link.server.ip("link", "set", "dev", NEAR, "xdpdrv", "off")
    with PortServer(XDP, link, "-m", 64) as server, server.client() as client:
        assert client.ask(Request(Opcode.NOOP))[1][0].status == Status.OK


def test_a_second_server_does_not_take_the_interface(link, key):
    """Neither a second server nor a foreign program gets the interface."""
    with PortServer(XDP, link, "-m", 64) as server, server.client() as client:
        ours = attached(link)["prog"]["id"]
        refused(link)
        with pytest.raises(NotPermitted):
            link.server.ip(
                "link", "set", "dev", NEAR, "xdpdrv", "obj", str(bpf.compiled("pass")), "sec", "xdp"
            )
        assert attached(link)["prog"]["id"] == ours
        client.set(key, b"v")
        assert client.get(key) == b"v"


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--bypass", "xdp:nosuch0"], "nosuch0"),
        (["--bypass", "xdp:"], "xdp:"),
        (["--bypass", "xdq:port0"], "xdq"),
        (["-t", 2], "queue"),
        (["--native-payload", 1473], "payload"),
        (["--native-payload", 65507], "payload"),
        (["--bypass-ip", "10.0.0.300/24"], "10.0.0.300"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_impossible_options_are_refused_with_a_reason(link, options, word):
    said = refused(link, *options)
    assert word in said, said
    assert attached(link) is None


@pytest.mark.parametrize(("mtu", "mode"), [(1500, "native"), (9000, "generic")])
def test_frames_too_long_for_the_driver_make_the_program_generic(link, key, mtu, mode):
    """It is said, and works."""
    link.set_mtu(mtu)
    with PortServer(XDP, link, "-m", 64) as server, server.client() as client:
        assert mode in server.stderr(), server.stderr()
        client.set(key, b"v" * 1300)
        assert client.get(key) == b"v" * 1300


def echo(link, address, port):
    """A datagram from the clients' host to a socket of the server's host, and back."""
    with link.server.inside():
        there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with link.clients.inside():
        here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with there, here:
        there.bind((address, port))
        there.settimeout(30)
        here.settimeout(30)
        here.sendto(b"out", (address, port))
        data, sender = there.recvfrom(100)
        there.sendto(data + b" and back", sender)
        assert here.recv(100) == b"out and back"


def ping(link):
    """An echo request of ICMP, answered by the server's kernel."""
    with link.clients.inside():
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    with raw:
        raw.settimeout(30)
        request = struct.pack("!BBHHH", 8, 0, 0, 77, 1) + b"payload"
        request = request[:2] + struct.pack("!H", ones_complement(request)) + request[4:]
        raw.sendto(request, (link.server.address, 0))
        while (answer := raw.recv(2000)[20:])[:1] != b"\0":
            pass
        assert answer[4:] == request[4:]


def test_everything_else_reaches_the_kernel(link, key):
    """TCP, ping, other UDP ports, other addresses, and what is too long for a frame."""
    other = f"{link.server.address}00"
    link.server.ip("address", "add", f"{other}/24", "dev", NEAR)
    addresses = f"{link.server.address}/24,{link.server.address6}/64"
    with PortServer(
        XDP, link, "-m", 64, "-l", f"127.0.0.1,{link.server.address}", "--bypass-ip", addresses
    ) as server:
        with server.client() as client:
            client.set(key, b"v" * 1000)
            with link.clients.inside():
                with socket.create_connection((link.server.address, TCP_PORT)) as stream:
                    stream.sendall(b"get %b\r\n" % key)
                    assert stream.makefile("rb").readline().startswith(b"VALUE ")
            ping(link)
            for address, port in (
                (link.server.address, BASE - 1), (link.server.address, BASE + 1), (other, BASE)
            ):
                echo(link, address, port)
            assert client.get(key) == b"v" * 1000


@pytest.mark.parametrize("workers", [1, 2])
def test_a_restart_has_the_port_again(tmp_path, workers):
    """Everything acknowledged is there; what was sent meanwhile is sent again, and done once or known to be
    doubtful."""
    with Link(queues=workers) as link:
        link.direct()
        options = ("-t", workers, "-m", 64, "--image", tmp_path / "image", "--semantics", "store")
        with PortServer(XDP, link, *options) as server, server.client() as client:
            for number in range(200):
                client.set(b"key-%d" % number, b"%d" % number)
            for turn in range(3):
                before = client.generation
                done = server.ctl("restart")
                assert done.returncode == 0, done.stderr
                assert client.get(b"key-0") == (b"0" if turn == 0 else b"again-%d" % (turn - 1))
                assert client.learn().generation != before
                assert all(client.get(b"key-%d" % number) == b"%d" % number for number in range(1, 200))
                client.set(b"key-0", b"again-%d" % turn)
            assert attached(link) and server.alive()
        until(lambda: attached(link) is None, "the interface to be free")


def test_readers_go_on_when_a_server_is_killed_and_another_takes_its_place(link, tmp_path, key):
    """On the same image, at the same interface."""
    options = ("-m", 64, "--image", tmp_path / "image", "--semantics", "store")
    with PortServer(XDP, link, *options) as server:
        client = server.client()
        client.set(key, b"v")
        os.kill(server.pid, signal.SIGKILL)
        server.wait_for_end()
        with PortServer(XDP, link, *options), client:
            client.learn()
            assert client.get(key) == b"v"


class UnprivilegedServer(PortServer):
    """A server that runs as nobody with some capabilities, and memory to lock."""

    def __init__(self, capabilities, *options, **settings):
        self.capabilities = capabilities
        super().__init__(XDP, *options, **settings)

    def words(self):
        self.directory.chmod(0o1777)
        return as_nobody(self.capabilities) + super().words()


NEEDED = ("net_raw", "net_admin", "bpf")


def test_an_unprivileged_user_with_few_capabilities(link, key):
    """The rights are those that docs/bypass.md names, and no more."""
    with UnprivilegedServer(NEEDED, link, "-m", 64) as server, server.client() as client:
        assert status_of(server.pid, "Uid").split()[0] == "65534"
        assert capabilities_of(server.pid).bit_count() <= len(NEEDED)
        client.set(key, b"v")
        assert client.get(key) == b"v"
        assert server.count("replies_copied") == 0
    until(lambda: attached(link) is None, "the interface to be free")


@pytest.mark.parametrize("missing", NEEDED)
def test_a_missing_capability_is_named(link, missing):
    rest = [name for name in NEEDED if name != missing]
    words = [*as_nobody(rest), *command(), "--bypass", f"xdp:{NEAR}", "-p", TCP_PORT, "-m", 64, "-t", 1]
    with link.server.inside():
        words = list(map(str, words))
        ended = subprocess.run(words, capture_output=True, text=True, timeout=30, env=environment())
    assert ended.returncode > 0 and f"CAP_{missing.upper()}" in ended.stderr, ended.stderr
    assert attached(link) is None


def test_too_little_memory_to_lock_is_named(link):
    words = [
        *as_nobody(NEEDED, 1 << 20), *command(), "--bypass", f"xdp:{NEAR}", "-p", TCP_PORT, "-m", 64, "-t", 1
    ]
    with link.server.inside():
        ended = subprocess.run(
            list(map(str, words)), capture_output=True, text=True, timeout=30, env=environment()
        )
    assert ended.returncode > 0 and "memlock" in ended.stderr.lower(), ended.stderr
    assert attached(link) is None


class FromRoot(PortServer):
    """A server whose directory another user may write to."""

    def words(self):
        self.directory.chmod(0o1777)
        return super().words()


def test_root_becomes_another_user_and_keeps_the_port(link, key):
    """`-u`: the port is opened before, and works without any privilege."""
    with FromRoot(XDP, link, "-m", 64, "-u", "nobody") as server, server.client() as client:
        assert capabilities_of(server.pid) == 0
        for number in range(100):
            client.set(b"%b-%d" % (key, number), b"v")
        assert all(client.get(b"%b-%d" % (key, number)) == b"v" for number in range(100))
        assert server.alive()
    until(lambda: attached(link) is None, "the interface to be free")


def test_a_restart_that_could_not_open_the_port_again_is_refused(link, key):
    """Root has opened it, and `-u` has given its rights up: the server goes on as it is."""
    with tempfile.TemporaryDirectory(prefix="micanite-test-") as image:
        os.chmod(image, 0o1777)
        with (
            FromRoot(XDP, link, "-m", 64, "-u", "nobody", "--image", image) as server,
            server.client() as client,
        ):
            client.set(key, b"v")
            done = server.ctl("restart")
            assert done.returncode != 0 and "port" in done.stderr, done
            assert client.get(key) == b"v" and attached(link)


def test_two_ports_share_the_workers(link, key):
    """Each has its own, and leads to every key."""
    link.server.ip(
        "link", "add", "name", "port1", "type", "veth", "peer", "name", "second", "netns", link.clients.name
    )
    for host, interface, address in (
        (link.server, "port1", "10.93.7.1"), (link.clients, "second", "10.93.7.2")
    ):
        host.ip("address", "add", f"{address}/24", "dev", interface)
        host.ip("link", "set", interface, "up")
    with PortServer(XDP, link, "--bypass", "xdp:port1", "-t", 2, "-m", 64, "--access", "crcw") as server:
        with link.clients.inside():
            other = NativeClient(BASE + 1, host="10.93.7.1")
        with server.client() as client, other:
            other.learn()
            ports = [{port for port, _ in each.directory.cores} for each in (client, other)]
            assert ports == [{BASE}, {BASE + 1}]
            for number in range(50):
                client.set(b"%b-%d" % (key, number), b"%d" % number)
            assert all(other.get(b"%b-%d" % (key, number)) == b"%d" % number for number in range(50))
        assert all(int(server.stats("native")[f"{worker}:requests"]) >= 50 for worker in range(2))


def test_a_port_by_the_name_that_it_had(link):
    """`--port xdp:` of the last version still opens the same port."""
    with link.server.inside():
        server = NativeServer("--port", f"xdp:{NEAR}", "--native", BASE, "-p", TCP_PORT, "-t", 1, "-m", 64)
    with server:
        assert attached(link)
