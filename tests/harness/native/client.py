"""A client of the native protocol for tests: one socket, one datagram in the air, every field open to be set
wrongly."""

import itertools
import random
import socket
import time

from harness import native
from harness.failures import Hang
from harness.native import Directory, Header, Kind, Malformed, Opcode, Request, Status
from harness.native.directory import Access
from harness.poll import DEADLINE_S

# Longer than machines stand still: what is sent again is counted twice. Tests that lose datagrams give their
# own.
RESEND_S = 10.0
NOT_EXECUTED = {Status.MOVED, Status.SLOW_DOWN}


class NativeClient:
    """Talks to the server whose base port is given. It has no cookie and no directory until it asks for them.
    """

    def __init__(self, port, host="127.0.0.1", number=None, resend_s=RESEND_S):
        self.base = (host, port)
        self.resend_s = resend_s
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.number = number or random.randrange(1, 1 << 32)
        self.sequences = itertools.count(1)
        self.ids = itertools.count(1)
        self.turn = itertools.count()
        self.cookie = 0
        self.generation = 0
        self.directory = None
        self.resent = 0
        # Sequences sent more than once: answers to them may still come.
        self.doubtful = set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    # Datagrams.

    def send(self, datagram, port=None):
        """Sends bytes as they are, to a port of the address that was given, or to (address, port)."""
        to = port if isinstance(port, tuple) else (self.base[0], port or self.base[1])
        self.socket.sendto(datagram, to)

    def receive(self, timeout_s=DEADLINE_S):
        """The next datagram, whatever it says; None after the time."""
        self.socket.settimeout(max(timeout_s, 0.0001))
        try:
            return self.socket.recv(65536)
        except (TimeoutError, ConnectionRefusedError, BlockingIOError):
            return None

    def header(self, **fields):
        """A header of requests by what is known, and the given fields."""
        known = {"sequence": next(self.sequences), "client": self.number, "cookie": self.cookie}
        return Header(Kind.REQUESTS, **known | {"generation": self.generation} | fields)

    def exchange(self, datagram, port=None, deadline_s=DEADLINE_S):
        """Sends a datagram, again with the flag `resent` if need be; returns the reply's header, its parts
        and its length."""
        sent = Header.parse(datagram)
        end = time.monotonic() + deadline_s
        while True:
            self.send(datagram, port)
            again = min(time.monotonic() + self.resend_s, end)
            while (left := again - time.monotonic()) > 0:
                answer = self.receive(left)
                if answer is None:
                    continue
                header, parts = native.parse(answer)
                if header.sequence == sent.sequence and header.client == sent.client:
                    if header.cookie:
                        self.cookie = header.cookie
                    return header, parts, len(answer)
            if time.monotonic() >= end:
                raise Hang(f"no answer within {deadline_s} s to {datagram.hex()}")
            self.resent += 1
            self.doubtful.add(sent.sequence)
            datagram = datagram[:4] + bytes([datagram[4] | Header.RESENT]) + datagram[5:]

    def is_silent_to(self, datagram, port=None):
        """Returns whether the server answers a no-op, but not this datagram before it."""
        probe = self.header(cookie=0, partition=0)
        self.send(datagram, port)
        self.send(native.requests_datagram(probe, [Request(Opcode.NOOP)]), port)
        while (answer := self.receive()) is not None:
            sequence = Header.parse(answer).sequence
            if sequence == probe.sequence or sequence not in self.doubtful:
                return sequence == probe.sequence
        raise Hang("no answer to a no-op either")

    # The directory.

    def page(self, first, length=1232, **fields):
        """Asks for the directory from an entry on, again when the address has to be proved first; returns the
        reply's header, the page, and the reply's length."""
        for _ in range(2):
            header = self.header(**fields)
            header.kind = Kind.DIRECTORY_REQUEST
            answer, page, answered = self.exchange(native.directory_request(header, first, length))
            if answer.status != Status.UNPROVEN:
                break
        return answer, page, answered

    def learn(self):
        """Fetches the whole directory, page by page, and a cookie with it; begins again when it changes
        meanwhile."""
        while True:
            pages = []
            listed = 0
            while not pages or listed < pages[0][1].core_count + pages[0][1].partitions:
                answer, page, _ = self.page(listed, generation=0)
                assert page.first == listed and page.cores + page.owners, "a page without entries"
                listed += len(page.cores) + len(page.owners)
                pages.append((answer.generation, page))
            if len({generation for generation, _ in pages}) == 1:
                break
        self.generation = pages[0][0]
        whole = pages[0][1]
        self.directory = Directory(
            **{
                name: getattr(whole, name)
                for name in vars(whole)
                if name not in ("first", "cores", "owners", "places", "ips")
            },
            cores=[core for _, page in pages for core in page.cores],
            owners=[owner for _, page in pages for owner in page.owners],
        )
        return self

    def learn_interfaces(self):
        """Fetches the entries of interfaces as well, which clients may leave alone."""
        known = self.directory
        while (listed := known.beyond()) < (
            known.all_count - known.entry_count
        ):
            _, page, _ = self.page(known.entry_count + listed, generation=self.generation)
            assert page.places + page.ips, "a page without entries"
            known.places += page.places
            known.ips += page.ips
        return self

    def place_of(self, core):
        """Returns where a core is: (address, port), of the family of the address that was given."""
        port, interface = self.directory.places[core]
        version = 6 if ":" in self.base[0] else 4
        ips = [ip for number, ip in self.directory.ips if number == interface and ip.version == version]
        return (str(ips[0]), port)

    def partition_of(self, key):
        """The partition of a key."""
        bits = self.directory.partitions.bit_length() - 1
        return self.hash(key) >> (64 - bits) if bits else 0

    def hash(self, key):
        """The hash of a key."""
        return native.hash_of(key, self.directory.hash_seed)

    def port_for(self, request):
        """Returns the port that a request goes to."""
        owner, access = self.directory.owners[self.partition_of(request.key)]
        if access == Access.CREW and request.opcode == Opcode.GET and not request.wants_cas:
            owner = next(self.turn) % len(self.directory.cores)
        return self.directory.cores[owner][0]

    def other_port(self, key):
        """The port of a core that does not own the key's partition."""
        owner, _ = self.directory.owners[self.partition_of(key)]
        return self.directory.cores[(owner + 1) % len(self.directory.cores)][0]

    # Requests.

    def request(self, opcode, key=b"", **fields):
        """A request with the key's hash, and with a new id if it has one."""
        if opcode in native.WITH_ID:
            fields.setdefault("id", next(self.ids))
        if key:
            fields.setdefault("hash", self.hash(key))
        return Request(opcode, key, **fields)

    def ask(self, *requests, port=None, **fields):
        """Sends requests once, as they are: the reply's header and replies, which must belong to them."""
        if self.directory and requests[0].key:
            fields.setdefault("partition", self.partition_of(requests[0].key))
            port = port or self.port_for(requests[0])
        header, replies, length = self.exchange(
            native.requests_datagram(self.header(**fields), requests), port
        )
        if not header.status:
            answered = [(reply.opcode, reply.hash_low) for reply in replies]
            assert answered == [(request.opcode, request.hash & 0xFFFFFFFF) for request in requests]
        assert header.kind == Kind.REPLIES and length <= (
            self.directory.payload_bytes_max if self.directory else 1472
        )
        return header, replies

    def ask_as(self, number, *requests, **fields):
        """Sends requests as another client of the same address."""
        own, self.number = self.number, number
        try:
            return self.ask(*requests, **fields)
        finally:
            self.number = own

    def introduce(self):
        """Makes the server know this client: until then, a request with an id that is sent again is
        "forgotten"."""
        while True:
            request = self.request(Opcode.INCREMENT, b"introduction", argument=0)
            _, (reply,) = self.ask(request)
            if reply.status != Status.FORGOTTEN:
                return

    def do(self, opcode, key, deadline_s=DEADLINE_S, port=None, **fields):
        """One request until it is executed, with a new directory whenever that helps: its reply."""
        request = self.request(opcode, key, **fields)
        end = time.monotonic() + deadline_s
        while time.monotonic() < end:
            header, (reply,) = self.ask(request, port=port)
            if header.generation != self.generation:
                self.learn()
            if reply.status not in NOT_EXECUTED and reply.status != Status.UNPROVEN:
                return reply
        raise Hang(f"not executed within {deadline_s} s: {reply}")

    def get(self, key, **fields):
        """The value of a key, or None."""
        reply = self.do(Opcode.GET, key, **fields)
        if reply.status == Status.NOT_FOUND:
            return None
        assert reply.status == Status.OK, reply
        return reply.value

    def set(self, key, value, **fields):
        """Stores; the reply must be ok."""
        reply = self.do(Opcode.SET, key, value=value, **fields)
        assert reply.status == Status.OK, reply

    def status(self, opcode, key, **fields):
        """Executes a request and returns its status."""
        return self.do(opcode, key, **fields).status


def refusal(datagram):
    """The status of a datagram that is a header alone, and nothing but one."""
    header, parts = native.parse(datagram)
    if (
        header.kind not in (Kind.REPLIES, Kind.DIRECTORY)
        or header.count
        or parts
        or len(datagram) != native.HEADER_BYTES
    ):
        raise Malformed(f"no header alone: {datagram.hex()}")
    return header.status
