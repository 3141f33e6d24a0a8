"""memcached's protocols in datagrams: a client that joins the datagrams of a reply."""

import itertools
import socket
import struct

from harness.poll import DEADLINE_S
from harness.server import Server

HEADER = struct.Struct(">HHHH")
DATAGRAM_BYTES_MAX = 1400
SO_RCVBUFFORCE = 33


def frame(request_id, requests, sequence=0, total=1, reserved=0):
    """A datagram."""
    return HEADER.pack(request_id, sequence, total, reserved) + requests


class UdpClient:
    """One client. Each request has a number of its own, and stray replies are a mistake."""

    def __init__(self, port, host="127.0.0.1", source=None, timeout_s=DEADLINE_S):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.settimeout(timeout_s)
        if source:
            self.socket.bind(source)
        self.socket.connect((host, port))
        self.ids = itertools.count(1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def make_room(self, count):
        """Room for so many received bytes with the kernel's bookkeeping; whether there is."""
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, count)
        except PermissionError:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, count)
        return self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= count

    def send(self, requests, **header):
        """Sends a request; returns its number."""
        number = next(self.ids) & 0xFFFF
        self.socket.send(frame(number, requests, **header))
        return number

    def receive(self, number):
        """The whole reply to the request of this number."""
        pieces, total = {}, None
        while total is None or len(pieces) < total:
            datagram = self.socket.recv(65536)
            assert 8 < len(datagram) <= DATAGRAM_BYTES_MAX
            request_id, sequence, of, reserved = HEADER.unpack_from(datagram)
            assert (request_id, reserved) == (number, 0)
            assert total in (None, of) and sequence < of and sequence not in pieces
            total, pieces[sequence] = of, datagram[8:]
        whole = b"".join(pieces[sequence] for sequence in range(total))
        assert all(len(pieces[sequence]) == DATAGRAM_BYTES_MAX - 8 for sequence in range(total - 1))
        return whole

    def ask(self, requests):
        """The reply to a request."""
        return self.receive(self.send(requests))

    def is_answered(self, timeout_s=0.5):
        """Returns whether a request is answered within this time. Replies to earlier requests may come late,
        or never."""
        self.socket.settimeout(timeout_s)
        number = self.send(b"mn\r\n")
        try:
            while self.socket.recv(65536)[:2] != number.to_bytes(2, "big"):
                pass
        except TimeoutError:
            return False
        return True

    def is_silent(self, timeout_s=0.2):
        """Returns whether nothing comes. Call it after a proof that the server has looked."""
        before = self.socket.gettimeout()
        self.socket.settimeout(timeout_s)
        try:
            self.socket.recv(65536)
            return False
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(before)


class UdpServer(Server):
    """A server with UDP at a free port."""

    def __init__(self, *options, **places):
        super().__init__("-U", "-1", *options, **places)
        self.udp_port = self.ports()["UDP"]

    def client(self, **options):
        """A client of its UDP port."""
        return UdpClient(self.udp_port, **options)

    def count(self, name):
        """A number of `stats udp`."""
        return int(self.stats("udp")[name])
