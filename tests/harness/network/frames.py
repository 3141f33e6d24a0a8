"""Ethernet frames with UDP datagrams, every field open to be set wrongly, and a raw socket that sends and
receives them."""

import ipaddress
import json
import socket
import struct

from harness.poll import DEADLINE_S

ETH_P_ALL, ETH_P_IP, ETH_P_IPV6, ETH_P_VLAN = 0x0003, 0x0800, 0x86DD, 0x8100
SOL_PACKET, PACKET_AUXDATA = 263, 8
AUXDATA = struct.Struct("=IIIHHHH")
TP_STATUS_VLAN_VALID = 1 << 4
MORE_FRAGMENTS = 0x2000


def ones_complement(data):
    """The Internet checksum of bytes."""
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def udp(source, destination, payload, checksum=None, length=None):
    """A UDP datagram between (address, port) pairs; its checksum and length are right unless they are given.
    """
    length = 8 + len(payload) if length is None else length
    head = struct.pack("!HHHH", source[1], destination[1], length, 0)
    addresses = [ipaddress.ip_address(end[0]).packed for end in (source, destination)]
    pseudo = b"".join(addresses) + struct.pack("!IHBB", len(head) + len(payload), 0, 0, socket.IPPROTO_UDP)
    if checksum is None:
        checksum = ones_complement(pseudo + head + payload) or 0xFFFF
    return head[:6] + struct.pack("!H", checksum) + payload


def ipv4(
    source, destination, body, options=b"", fragment=0, checksum=None, total=None, version=4, words=None,
    protocol=17
):
    """An IPv4 packet between addresses."""
    words = 5 + len(options) // 4 if words is None else words
    total = 20 + len(options) + len(body) if total is None else total
    head = struct.pack("!BBHHHBBH", version << 4 | words, 0, total, 1, fragment, 64, protocol, 0)
    head += socket.inet_aton(source) + socket.inet_aton(destination) + options
    checksum = ones_complement(head) if checksum is None else checksum
    return head[:10] + struct.pack("!H", checksum) + head[12:] + body


def ipv6(source, destination, body, next_header=17, length=None):
    """An IPv6 packet between addresses. Extension headers are part of the body."""
    length = len(body) if length is None else length
    addresses = b"".join(ipaddress.ip_address(end).packed for end in (source, destination))
    return struct.pack("!IHBB", 6 << 28, length, next_header, 64) + addresses + body


class RawEnd:
    """Sends and receives whole frames at an interface of a host. Use it with `with`."""

    def __init__(self, host, interface, peer_mac):
        self.mac, self.peer_mac = mac_of(host, interface), peer_mac
        with host.inside():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self.socket.bind((interface, ETH_P_ALL))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, packet, vlan=None, kind=None, to=None, padding=0):
        """Sends a packet to the other end, in a frame with an optional VLAN tag."""
        kind = kind or (ETH_P_IP if packet[0] >> 4 == 4 else ETH_P_IPV6)
        tag = b"" if vlan is None else struct.pack("!HH", ETH_P_VLAN, vlan)
        self.socket.send(
            (to or self.peer_mac) + self.mac + tag + struct.pack("!H", kind) + packet + bytes(padding)
        )

    def receive(self, timeout_s=DEADLINE_S):
        """The next frame from the other end: its VLAN tag or None, and the bytes behind the Ethernet header.
        """
        self.socket.settimeout(timeout_s)
        while True:
            frame, told, _, _ = self.socket.recvmsg(65536, 256)
            if frame[6:12] == self.mac:
                continue
            tag = None
            for level, kind, data in told:
                if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
                    status, *_, tci, _ = AUXDATA.unpack_from(data)
                    tag = tci if status & TP_STATUS_VLAN_VALID else None
            kind, rest = struct.unpack("!H", frame[12:14])[0], frame[14:]
            if kind == ETH_P_VLAN:
                tag, rest = struct.unpack("!H", rest[:2])[0], rest[4:]
            return tag, rest

    def datagram(self, timeout_s=DEADLINE_S):
        """The next IPv4 datagram from the other end: its VLAN tag, its ports and its payload."""
        while True:
            tag, packet = self.receive(timeout_s)
            if packet[0] == 0x45 and packet[9] == socket.IPPROTO_UDP:
                return (
                    tag, struct.unpack("!HH", packet[20:24]), packet[28 : struct.unpack("!H", packet[2:4])[0]]
                )


def mac_of(host, interface):
    """The address of an interface."""
    (found,) = json.loads(host.ip("-j", "link", "show", "dev", interface))
    return bytes.fromhex(found["address"].replace(":", ""))


def raw_end(link):
    """The clients' end of a link."""
    return RawEnd(link.clients, link.far, mac_of(link.server, link.server.interface))
