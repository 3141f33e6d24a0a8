"""Raw frames before a server behind a port around the kernel: what is no plain datagram for it is never
answered."""

import socket
import struct

import pytest

from harness import native
from harness.native import Opcode, Request, Status
from harness.native.server import Difference
from harness.network.frames import MORE_FRAGMENTS, ipv4, ipv6, ones_complement, raw_end, udp
from harness.network.links import BASE
from harness.network.ports import DPDK, XDP, every_port, why_not

NOBODY = "10.92.255.200"
FRAMES = (
    "frames_not_ours", "frames_fragments", "frames_options", "frames_bad_lengths", "frames_bad_checksums",
    "frames_bad_sources",
)  # fmt: skip
# Counters of frames that do not reach the port: the XDP program leaves both kinds to the kernel, which
# reassembles fragments of IPv4 before the af_packet driver of DPDK sees them.
ELSEWHERE = {XDP: ("frames_options", "frames_fragments"), DPDK: ("frames_fragments",)}


@pytest.mark.parametrize("kind", [XDP, DPDK])
def test_there_is_such_a_port_here(kind):
    """The tests that take the fixture `port` run over it; where it is missing they do not appear."""
    if why := why_not(kind):
        pytest.skip(why)
    assert any(port.kind == kind for port in every_port())


@pytest.fixture(scope="module")
def server(port_around):
    with port_around.server("-m", 64) as running:
        yield running


@pytest.fixture
def client(server):
    with server.client() as client:
        yield client


@pytest.fixture
def client6(server):
    with server.client(host=server.link.server.address6) as client:
        yield client


@pytest.fixture
def raw(server):
    with raw_end(server.link) as end:
        yield end


class Ends:
    """The addresses of a client's datagrams, so that what answers them comes to its socket."""

    def __init__(self, server, client, six=False):
        there = server.link.server
        self.source = (server.link.client_addresses[six], client.socket.getsockname()[1])
        self.destination = (there.address6 if six else there.address, BASE)
        self.addresses = (self.source[0], self.destination[0])

    def udp(self, payload, **wrong):
        return udp(self.source, self.destination, payload, **wrong)


def noop(client):
    """A datagram that is always answered."""
    return native.requests_datagram(client.header(), [Request(Opcode.NOOP)])


def answered(client, datagram):
    """Returns whether this datagram is answered. If not, the next reply is to the kernel's no-op behind it.
    """
    probe = client.header()
    client.send(native.requests_datagram(probe, [Request(Opcode.NOOP)]))
    sequence = native.Header.parse(client.receive()).sequence
    if sequence == probe.sequence:
        return False
    assert sequence == native.Header.parse(datagram).sequence
    assert native.Header.parse(client.receive()).sequence == probe.sequence
    return True


IPV4_GOOD = {
    "plain": {},
    "no UDP checksum": {"udp": {"checksum": 0}},
    "padding behind the packet": {"frame": {"padding": 30}},
    "padding with a tag": {"frame": {"vlan": 5, "padding": 3}},
}
# Faults, each with the frame and the counter that grows; None: the kernel gets it, or nobody.
IPV4_BAD = {
    "UDP checksum": ({"udp": {"checksum": 0x1234}}, "frames_bad_checksums"),
    "UDP length beyond the packet": ({"udp": {"length": 500}}, "frames_bad_lengths"),
    "UDP length below a header": ({"udp": {"length": 7}}, "frames_bad_lengths"),
    "UDP length of nothing": ({"udp": {"length": 0}}, "frames_bad_lengths"),
    "IP checksum": ({"ip": {"checksum": 0x1234}}, "frames_bad_checksums"),
    "IP length beyond the frame": ({"ip": {"total": 1400}}, "frames_bad_lengths"),
    "IP length below its headers": ({"ip": {"total": 24}}, "frames_bad_lengths"),
    "a header of four words": ({"ip": {"words": 4}}, None),
    "version 5": ({"ip": {"version": 5}}, None),
    "options": ({"ip": {"options": b"\x01\x01\x01\x00"}}, "frames_options"),
    "first fragment": ({"ip": {"fragment": MORE_FRAGMENTS}}, "frames_fragments"),
    "last fragment": ({"ip": {"fragment": 64}}, "frames_fragments"),
    "from nobody": ({"source": "0.0.0.0"}, "frames_bad_sources"),
    "from everybody": ({"source": "255.255.255.255"}, "frames_bad_sources"),
    "from a group": ({"source": "224.0.0.1"}, "frames_bad_sources"),
    "from the loopback": ({"source": "127.0.0.1"}, "frames_bad_sources"),
    "TCP": ({"ip": {"protocol": 6}}, None),
    "to another host": ({"destination": NOBODY}, None),
    "to everybody": ({"destination": "255.255.255.255", "frame": {"to": b"\xff" * 6}}, None),
    "two tags": ({"frame": {"vlan": 5, "kind": 0x8100}}, None),
    "of another protocol": ({"frame": {"kind": 0x88B5}}, None),
}


def send_ipv4(raw, ends, datagram, wrong):
    """One frame with what is wrong in it."""
    source = (wrong.get("source", ends.addresses[0]), ends.source[1])
    destination = (wrong.get("destination", ends.addresses[1]), ends.destination[1])
    body = udp(source, destination, datagram, **wrong.get("udp", {}))
    raw.send(ipv4(source[0], destination[0], body, **wrong.get("ip", {})), **wrong.get("frame", {}))


@pytest.mark.parametrize("name", IPV4_GOOD)
def test_good_frames_of_ipv4(server, client, raw, name):
    ends = Ends(server, client)
    datagram = noop(client)
    if "vlan" not in IPV4_GOOD[name].get("frame", {}):
        send_ipv4(raw, ends, datagram, IPV4_GOOD[name])
        assert answered(client, datagram)
        return
    # The kernel here has no VLANs: the answer shows at the raw socket alone, in the VLAN of the request.
    send_ipv4(raw, ends, datagram, IPV4_GOOD[name])
    tag, ports, _ = next_answer(raw, ends, native.Header.parse(datagram).sequence)
    assert (tag, ports) == (5, (BASE, ends.source[1]))


def next_answer(raw, ends, sequence):
    """The answer to a client's datagram, as the raw socket sees it."""
    while True:
        tag, ports, payload = raw.datagram()
        if ports[1] == ends.source[1] and native.Header.parse(payload).sequence == sequence:
            return tag, ports, payload


@pytest.mark.parametrize("name", IPV4_BAD)
def test_bad_frames_of_ipv4(port_around, server, client, raw, name):
    wrong, counter = IPV4_BAD[name]
    ends = Ends(server, client)
    counted = Difference(server, *FRAMES, "datagrams_received")
    datagram = noop(client)
    send_ipv4(raw, ends, datagram, wrong)
    assert not answered(client, datagram)
    assert counted("datagrams_received") == 1, "the probe alone"
    if counter and counter not in ELSEWHERE[port_around.kind]:
        assert counted(counter) == 1, {each: counted(each) for each in FRAMES}


IPV6_BAD = {
    "no UDP checksum": ({"udp": {"checksum": 0}}, "frames_bad_checksums"),
    "UDP checksum": ({"udp": {"checksum": 0x1234}}, "frames_bad_checksums"),
    "UDP length beyond the packet": ({"udp": {"length": 500}}, "frames_bad_lengths"),
    "length beyond the frame": ({"length": 1400}, "frames_bad_lengths"),
    "a jumbo's length": ({"length": 0}, "frames_bad_lengths"),
    "hop-by-hop options": ({"next": 0, "before": b"\x11\0\1\4\0\0\0\0"}, "frames_options"),
    "destination options": ({"next": 60, "before": b"\x11\0\1\4\0\0\0\0"}, "frames_options"),
    "routing": ({"next": 43, "before": b"\x11\0\0\0\0\0\0\0"}, "frames_options"),
    "fragment": ({"next": 44, "before": b"\x11\0\0\1\0\0\0\1"}, "frames_fragments"),
    "from nobody": ({"source": "::"}, "frames_bad_sources"),
    "from a group": ({"source": "ff02::1"}, "frames_bad_sources"),
    "from the loopback": ({"source": "::1"}, "frames_bad_sources"),
    "to another host": ({"destination": "fd92:ffff::77"}, None),
}


@pytest.mark.parametrize("name", IPV6_BAD)
def test_bad_frames_of_ipv6(port_around, server, client6, raw, name):
    wrong, counter = IPV6_BAD[name]
    ends = Ends(server, client6, six=True)
    counted = Difference(server, *FRAMES, "datagrams_received")
    datagram = noop(client6)
    source = (wrong.get("source", ends.addresses[0]), ends.source[1])
    destination = (wrong.get("destination", ends.addresses[1]), ends.destination[1])
    body = wrong.get("before", b"") + udp(source, destination, datagram, **wrong.get("udp", {}))
    raw.send(ipv6(source[0], destination[0], body, wrong.get("next", 17), wrong.get("length")))
    assert not answered(client6, datagram)
    assert counted("datagrams_received") == 1, "the probe alone"
    if (
        (counter and counter not in ELSEWHERE[port_around.kind])
        or (port_around.kind, counter) == (DPDK, "frames_fragments")
    ):
        assert counted(counter) == 1, {each: counted(each) for each in FRAMES}


def test_a_good_frame_of_ipv6(server, client6, raw):
    ends = Ends(server, client6, six=True)
    datagram = noop(client6)
    raw.send(ipv6(*ends.addresses, ends.udp(datagram)))
    assert answered(client6, datagram)


def test_frames_cut_at_every_length(server, client, raw):
    """Ethernet alone, half a header, half a datagram: none is answered, and none harms."""
    ends = Ends(server, client)
    datagram = noop(client)
    for packet in (ipv4(*ends.addresses, ends.udp(datagram)), b"\x45"):
        for length in range(len(packet)):
            raw.send(packet[:length] or b"", kind=0x0800)
    for length in range(20, 20 + 8 + len(datagram)):
        body = ends.udp(datagram)[: length - 20]
        raw.send(ipv4(*ends.addresses, body))
    assert not answered(client, datagram)
    assert server.alive()


def test_a_datagram_in_fragments_is_not_answered(server, client):
    """The kernel of the client cuts what is longer than a frame."""
    for length in (1473, 3000, 20_000, 60_000):
        datagram = noop(client)
        assert client.is_silent_to(datagram + bytes(length - len(datagram)))


def test_a_datagram_longer_than_the_limit_is_dropped(port_around, key):
    """It fits a frame, but not what the directory says."""
    with port_around.server("-m", 64, "--native-payload", 1300) as server, server.client() as client:
        assert client.directory.payload_bytes_max == 1300
        request = client.request(Opcode.SET, key, value=b"v" * 1000)
        datagram = native.requests_datagram(client.header(partition=client.partition_of(key)), [request])
        bad = Difference(server, "bad_datagrams")
        for length in (1301, 1308, 1472):
            assert client.is_silent_to(datagram + bytes(length - len(datagram)))
        assert bad("bad_datagrams") == 3
        _, (reply,), _ = client.exchange(datagram + bytes(1300 - len(datagram)))
        assert reply.status == Status.OK and client.get(key) == b"v" * 1000


def test_replies_keep_the_tag_of_their_requests(server, client, raw, key):
    """Also the longest ones, with keys and values of any length, in the VLANs and priorities that there are.
    """
    ends = Ends(server, client)
    client.set(key, b"v" * 1300)
    for tag in (1, 100, 4094, 7 << 13 | 100):
        get = client.request(Opcode.GET, key)
        header = client.header(partition=client.partition_of(key))
        raw.send(ipv4(*ends.addresses, ends.udp(native.requests_datagram(header, [get]))), vlan=tag)
        found, _, payload = next_answer(raw, ends, header.sequence)
        _, (reply,) = native.parse(payload)
        assert found == tag and reply.value == b"v" * 1300


def test_replies_leave_in_the_frames_of_their_requests(port_around, key):
    """Values of every length come back: none is copied while a request is answered in place."""
    with port_around.server("-m", 64) as server, server.client() as client:
        counted = Difference(server, "replies_reused", "replies_copied", "replies_no_frame", "datagrams_sent")
        for length in (0, 1, 100, 1000, 1300):
            client.set(key, b"v" * length)
            assert client.get(key) == b"v" * length
        with server.client(host=server.link.server.address6) as other:
            assert other.get(key) == b"v" * 1300
        assert counted("replies_reused") == counted("datagrams_sent") >= 11
        assert counted("replies_copied") == counted("replies_no_frame") == 0


def test_replies_to_frames_of_raw_sockets_have_right_checksums(server, client, raw):
    """The checksums are those of IP and UDP. A NIC would compute them, and nobody does so here."""
    ends = Ends(server, client)
    raw.send(ipv4(*ends.addresses, ends.udp(noop(client))))
    while True:
        _, packet = raw.receive()
        if packet[9] == socket.IPPROTO_UDP and struct.unpack("!H", packet[22:24])[0] == ends.source[1]:
            break
    length = struct.unpack("!H", packet[2:4])[0]
    again = ipv4(*reversed(ends.addresses), udp(ends.destination, ends.source, packet[28:length]))
    assert packet[26:28] == again[26:28] and ones_complement(packet[:20]) == 0
