"""`--kernel-get` comes and goes: it cuts nobody off, replaces nobody, leaves nothing behind, and says why
where it cannot be."""

import contextlib
import os
import signal
import socket

import pytest

from harness.admin import Admin
from harness.memcached.udp import frame
from harness.memory import available_bytes
from harness.network import bpf
from harness.network.frames import ipv4 as ipv4_packet
from harness.network.frames import ones_complement, raw_end
from harness.network.frames import udp as udp_datagram
from harness.network.kernel_get import DEFAULTS, MODES, AnsweringLink, KernelServer, Moved, answers, attached
from harness.network.links import NEAR
from harness.poll import until
from harness.server import run


@pytest.fixture
def link():
    """A link of the test's own."""
    with AnsweringLink() as link:
        yield link


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ending", ["SIGTERM", "SIGINT", "SIGKILL"])
def test_it_detaches_however_it_ends(link, mode, ending):
    assert attached(link) is None
    for _ in range(2):  # what one leaves behind would stop the next
        with KernelServer(link, mode=mode) as server:
            assert attached(link) and mode in server.kernel_text()
            assert answers(server)
            os.kill(server.pid, getattr(signal, ending))
            server.wait_for_end()
        until(lambda: attached(link) is None, "the interface to be free")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_restart_keeps_the_data_and_answers_again(link, workers):
    with KernelServer(link, "-t", workers) as server:
        with server.connect() as stream:
            for number in range(500):
                stream.set(b"key-%d" % number, b"%d" % number)
        for _ in range(2):
            done = server.ctl("restart")
            assert done.returncode == 0, done.stderr
            assert server.kernel_text().startswith("on")
            moved = Moved(server)
            with server.client() as client:
                for number in range(500):
                    value = b"%d" % number
                    said = b"VALUE key-%d 0 %d\r\n%b\r\nEND\r\n" % (number, len(value), value)
                    assert client.ask(b"get key-%d\r\n" % number) == said
            assert moved()["answered"] == 500
            assert answers(server), "what is written afterwards is seen"
    until(lambda: attached(link) is None, "the interface to be free")


def test_a_second_server_says_why_not_and_serves(link):
    with KernelServer(link) as first:
        second = KernelServer(link, "-p", DEFAULTS["-p"] + 1, "-U", DEFAULTS["-U"] + 1)
        with second:
            ours = attached(link)["prog"]["id"]
            assert second.kernel_text().startswith("off") and NEAR in second.kernel_text()
            assert not answers(second) and answers(first)
        assert attached(link)["prog"]["id"] == ours and answers(first)


def test_an_attached_program_of_another_owner_stays(link):
    link.server.ip("link", "set", "dev", NEAR, "xdpdrv", "obj", str(bpf.compiled("pass")), "sec", "xdp")
    before = attached(link)["prog"]["id"]
    with KernelServer(link) as server:
        assert server.kernel_text().startswith("off") and "xdp" in server.kernel_text().lower()
        assert server.kernel_text().removeprefix("off") and "kernel-get" in server.stderr()
        assert not answers(server)
    assert attached(link)["prog"]["id"] == before


def test_an_interface_that_goes_down_and_comes_back(link):
    with KernelServer(link) as server:
        assert answers(server)
        link.near_state("down")
        link.near_state("up")
        link.know_each_other()
        assert answers(server, b"b")
        link.server.ip("link", "delete", NEAR)
        with server.connect() as stream:
            assert stream.get(b"b") == b"value"
        assert server.kernel()["answered"] >= 2
        assert server.alive()


def test_an_interface_that_is_deleted_is_told_of(link):
    """Stats, the gauge and, once, the log tell it; a restart attaches the program to the new one."""
    with KernelServer(link, "--admin", "127.0.0.1:0") as server:

        def gauge():
            with link.server.inside():
                return Admin(server).sum("micanite_kernel_get_on")

        assert gauge() == 1 and answers(server)
        link.server.ip("link", "delete", NEAR)
        until(lambda: server.kernel_text() == f"gone ({NEAR}: gone)", "the server to see it")
        assert server.stats()["kernel_get"] == server.kernel_text() and gauge() == 0
        link.plug_in()
        link.clients.ip(
            "link", "set", "dev", link.far, "xdpdrv", "obj", str(bpf.compiled("pass")), "sec", "xdp"
        )
        link.pad(True)
        link.know_each_other()
        assert not answers(server, b"b")
        assert server.stderr().count("no longer answered in the kernel (--kernel-get)") == 1
        assert server.ctl("restart").returncode == 0
        assert server.kernel_text().startswith("on") and gauge() == 1 and answers(server, b"c")


def test_it_needs_datagrams():
    ended = run("--kernel-get", "lo", "-U", 0)
    assert ended.returncode == 64 and "-U" in ended.stderr, ended


def test_a_large_image_in_several_arrays(link):
    """1 GiB and more: partitions of at most 512 MiB, one worker."""
    if available_bytes() < 3 << 30:
        pytest.skip("less than 3 GiB of memory are free")
    with KernelServer(link, "-m", 1200) as server:
        moved = Moved(server)
        with server.connect() as stream, server.client() as client:
            for number in range(200):
                stream.set(b"key-%d" % number, b"v" * 1000)
                assert len(client.ask(b"get key-%d\r\n" % number)) > 1000
        assert moved()["answered"] == 200


@pytest.mark.parametrize("mtu", [576, 9000])
def test_other_frame_lengths(link, mtu):
    """Short frames get short replies. Frames that are too long for the driver put the program behind it."""
    if mtu == 9000:
        link.clients.ip("link", "set", "dev", link.far, "xdpdrv", "off")
    link.set_mtu(mtu)
    link.mtu = min(mtu, link.mtu)
    link.pad(True)
    with KernelServer(link, "-l", f"127.0.0.1,{link.server.address}", mode="auto") as server:
        assert mtu == 576 or "generic" in server.kernel_text()
        with server.connect() as stream, server.client() as client:
            for size in (1, 400, 600, 1300):
                stream.set(b"a", b"v" * size)
                assert client.ask(b"get a\r\n") == b"VALUE a 0 %d\r\n%b\r\nEND\r\n" % (size, b"v" * size)
        counted = server.kernel()
        assert (counted["answered"], counted["passed_long_reply"]) == ((2, 2) if mtu == 576 else (4, 0)), (
            counted
        )


def test_others_than_those_allowed_are_not_answered(link):
    """Neither the kernel nor the server answers it, and both count it."""
    with KernelServer(link, "--udp-allow", "10.99.0.0/16") as server:
        with server.connect() as stream:
            stream.set(b"a", b"value")
        moved, before = Moved(server), server.count("not_allowed")
        with server.client() as client:
            client.send(b"get a\r\n")
            until(lambda: server.count("not_allowed") == before + 1, "the datagram to be counted")
            assert client.is_silent()
        counted = moved()
        assert counted["passed_not_allowed"] == 1 and "answered" not in counted, counted


def test_servers_ports_are_not_answered(link):
    with KernelServer(link) as server:
        with server.connect() as stream:
            stream.set(b"a", b"value")
        for number, source in enumerate((1023, server.udp_port), 1):
            with server.client(source=(link.client_addresses[0], source)) as client:
                client.send(b"get a\r\n")
                until(lambda n=number: server.count("not_allowed") == n, "the datagram to be counted")
                assert client.is_silent()
        assert server.kernel()["answered"] == 0 and server.kernel()["passed_not_allowed"] == 2


def test_only_addresses_that_the_server_listens_on(link):
    """Another address of the interface has another server, or none."""
    other = f"{link.server.address}00"
    link.server.ip("address", "add", f"{other}/24", "dev", NEAR)
    with KernelServer(link, "-l", f"127.0.0.1,{link.server.address}") as server:
        with link.server.inside():
            somebody = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with somebody:
            somebody.bind((other, server.udp_port))
            somebody.settimeout(30)
            assert answers(server)
            with server.client(host=other) as client:
                client.send(b"get a\r\n")
                assert somebody.recv(100)[8:] == b"get a\r\n"
    with KernelServer(link, "-l", "0.0.0.0") as server:
        assert answers(server) and answers(server, host=other)


def test_a_recording_has_every_get(link):
    """While it records, the server answers them all."""
    with KernelServer(link) as server:
        assert answers(server)
        file = server.directory / "kernel.rec"
        told = server.ctl("record", file, "--fraction", 1).stdout
        assert "meanwhile the kernel answers no GETs (--kernel-get)" in told
        assert server.kernel()["paused"] == 1 and not answers(server)
        told = server.ctl("record", "--stop").stdout
        assert "2 requests of 2 in " in told, told
        assert server.kernel()["paused"] == 0 and answers(server)


def test_watchers_see_every_get(link):
    """While somebody watches, the server answers them all."""
    with KernelServer(link) as server:
        assert answers(server)
        with server.connect() as watcher:
            assert watcher.ask(b"watch fetchers\r\n") == b"OK"
            until(lambda: server.kernel()["paused"] == 1, "the program to make way")
            assert not answers(server) and server.kernel()["passed_paused"] == 1
        until(lambda: server.kernel()["paused"] == 0, "the program to go on")
        assert answers(server)


BAD = {
    "UDP checksum": {"udp": {"checksum": 0x1234}},
    "UDP length beyond the packet": {"udp": {"length": 500}},
    "UDP length below a header": {"udp": {"length": 7}},
    "UDP length of nothing": {"udp": {"length": 0}},
    "IP checksum": {"ip": {"checksum": 0x1234}},
    "IP length beyond the frame": {"ip": {"total": 1400}},
    "IP length below its headers": {"ip": {"total": 24}},
    "a header of four words": {"ip": {"words": 4}},
    "version 5": {"ip": {"version": 5}},
    "first fragment": {"ip": {"fragment": 0x2000}},
    "last fragment": {"ip": {"fragment": 64}},
    "TCP": {"ip": {"protocol": 6}},
    "of another protocol": {"frame": {"kind": 0x88B5}},
}
GOOD = {"plain": {}, "no UDP checksum": {"udp": {"checksum": 0}}, "padding": {"frame": {"padding": 60}}}


@pytest.mark.parametrize("mode", MODES)
def test_raw_frames(link, mode):
    """Good ones are answered, bad ones are not, cut ones harm nobody."""
    with KernelServer(link, mode=mode) as server, server.client() as client, raw_end(link) as raw:
        assert answers(server)
        source = client.socket.getsockname()
        destination = (link.server.address, server.udp_port)

        def send(wrong, number):
            body = udp_datagram(source, destination, frame(number, b"get a\r\n"), **wrong.get("udp", {}))
            raw.send(
                ipv4_packet(source[0], destination[0], body, **wrong.get("ip", {})), **wrong.get("frame", {})
            )

        for number, (name, fields) in enumerate(GOOD.items(), 1000):
            send(fields, number)
            assert client.receive(number).startswith(b"VALUE a 0 5\r\n"), name
        # Without the room behind them, which would complete what is cut off.
        link.pad(False)
        before = Moved(server)
        for number, fields in enumerate(BAD.values(), 2000):
            send(fields, number)
        whole = ipv4_packet(
            source[0], destination[0], udp_datagram(source, destination, frame(3000, b"get a\r\n"))
        )
        for length in range(1, len(whole)):
            raw.send(whole[:length], kind=0x0800)
        # The next reply is to the last request: the frames before it got none.
        assert client.ask(b"mn\r\n") == b"MN\r\n"
        assert "answered" not in before(), before()
        assert server.alive() and answers(server)
        assert ones_complement(whole[:20]) == 0


def test_replies_have_right_checksums(link):
    """The test checks IP and UDP, because the client's kernel does not do so everywhere."""
    with KernelServer(link) as server, server.client() as client, raw_end(link) as raw:
        for size in (0, 1, 2, 3, 100, 101):
            with server.connect() as stream:
                stream.set(b"a", os.urandom(size))
            moved = Moved(server)
            client.ask(b"get a\r\n")
            assert moved()["answered"] == 1
            while True:
                _, packet = raw.receive()
                if packet[0] == 0x45 and packet[9] == socket.IPPROTO_UDP:
                    break
            length = int.from_bytes(packet[2:4], "big")
            ends = [
                (socket.inet_ntoa(packet[at : at + 4]), int.from_bytes(packet[port : port + 2], "big"))
                for at, port in ((12, 20), (16, 22))
            ]
            assert packet[20:28] == udp_datagram(*ends, packet[28:length])[:8]
            assert ones_complement(packet[:20]) == 0


def test_text_is_left_alone_where_only_the_binary_protocol_is_spoken(link):
    """`-B binary`: the server drops text datagrams, and so the program does not answer them."""
    # The text protocol cannot ask this server whether it is ready.
    with KernelServer(link, "-B", "binary", ready=False) as server, server.client() as client:
        server.port = server.ports()["TCP"]
        until(lambda: attached(link), "the program to be attached")
        client.send(b"get none\r\n")
        # A binary no-op over TCP is answered after all that had come before it.
        with server.connect() as stream:
            stream.send(bytes([0x80, 0x0A]) + bytes(22))
            assert stream.exactly(24)[:2] == bytes([0x81, 0x0A])
        assert client.is_silent()


def test_an_address_of_the_native_port_is_none_of_the_other(link):
    """`-l` gives an address a port of its own: memcached's UDP port is not there, and the program does not
    answer there."""
    v4, v6 = link.server.address, link.server.address6
    with KernelServer(link, "-l", f"127.0.0.1,{v4},[{v6}]:11999", "--native", 11300) as server:
        moved = Moved(server)
        with server.client() as client:
            assert client.ask(b"get none\r\n") == b"END\r\n"
        assert moved()["answered"] == 1
        with server.client(host=v6) as client:
            client.send(b"get none\r\n")
            with contextlib.suppress(ConnectionRefusedError):
                assert client.is_silent()
        assert moved().get("answered") == 1
