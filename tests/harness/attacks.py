"""Clients that mean harm: `python attacks.py NAME HOST PORT [UDP_PORT] [NATIVE_PORT]`, for those in TLS the
port of that, says "going" once it is at it, and goes on until it is ended.

Each is one process, so that whoever looks at the server meanwhile does not share its interpreter."""

import contextlib
import itertools
import os
import selectors
import socket
import ssl
import struct
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import native  # noqa: E402
from harness.native_client import NativeClient  # noqa: E402

MIB = 1 << 20
SMALL_BUFFER_BYTES = 4096
DRIP_S = 0.02
ATTACKS = {}


def attack(function):
    """Enters a generator: it yields whenever it is worth looking at its effect, the first time when it has
    one."""
    ATTACKS[function.__name__.replace("_", "-")] = function
    return function


class Target:
    """Where the server is."""

    def __init__(self, host, port, udp_port, native_port):
        self.host, self.port, self.udp_port, self.native_port = host, port, udp_port, native_port

    def connect(self, receive_buffer_bytes=None):
        """A connection that does not block."""
        new = socket.socket()
        if receive_buffer_bytes:
            new.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        new.connect((self.host, self.port))
        new.setblocking(False)
        return new

    def store(self, key, value):
        """Stores an item, as anybody may."""
        with socket.create_connection((self.host, self.port)) as client:
            client.sendall(b"set %b 0 0 %d\r\n%b\r\n" % (key, len(value), value))
            assert client.recv(64) == b"STORED\r\n"


class Crowd:
    """Connections that all send the same bytes again and again; those that the server closes are replaced."""

    def __init__(self, target, count, bytes_, reads, **options):
        self.target, self.bytes, self.reads, self.options = target, bytes_, reads, options
        self.selector = selectors.DefaultSelector()
        self.at = {}
        for _ in range(count):
            self.add()

    def add(self):
        """One more."""
        events = selectors.EVENT_WRITE | (selectors.EVENT_READ if self.reads else 0)
        new = self.target.connect(**self.options)
        self.selector.register(new, events)
        self.at[new] = 0

    def turn(self):
        """Whatever can be sent and read now; replaces what was closed."""
        for key, events in self.selector.select(0.05):
            one = key.fileobj
            try:
                if events & selectors.EVENT_READ and not one.recv(1 << 18):
                    raise ConnectionResetError
                if events & selectors.EVENT_WRITE:
                    self.at[one] = (self.at[one] + one.send(memoryview(self.bytes)[self.at[one] :])) % len(
                        self.bytes
                    )
            except BlockingIOError:
                pass
            except OSError:
                self.selector.unregister(one)
                one.close()
                del self.at[one]
                self.add()


def flood(crowd):
    """Turns without end."""
    while True:
        crowd.turn()
        yield


@attack
def connections_beyond_the_limit(target):
    """Takes every connection there is, and asks for more."""
    held = []
    while True:
        new = target.connect()
        held.append(new)
        new.setblocking(True)
        new.sendall(b"mn\r\n")
        try:
            if new.recv(64) != b"MN\r\n":
                held.pop().close()
                yield
        except OSError:
            held.pop().close()
            yield


@attack
def connections_that_come_and_go(target):
    """Connects and leaves, as fast as it can."""
    while True:
        with contextlib.suppress(OSError):
            target.connect().close()
        yield


@attack
def half_open(target):
    """Connections that have begun a line, and say no more."""
    held = [target.connect() for _ in range(200)]
    for one in held:
        one.send(b"get half-a-key")
    while True:
        yield
        time.sleep(DRIP_S)


@attack
def slow_writers(target):
    """Values that come a byte at a time."""
    held = [target.connect() for _ in range(200)]
    for number, one in enumerate(held):
        one.send(b"set slow%d 0 0 1000000\r\n" % number)
    while True:
        for one in held:
            with contextlib.suppress(OSError):
                one.send(b"x")
        yield
        time.sleep(DRIP_S)


@attack
def slow_lines(target):
    """Lines that come a byte at a time."""
    for at in itertools.count():
        if at % 200 == 0:
            held = [target.connect() for _ in range(200)]
        for one in held:
            with contextlib.suppress(OSError):
                one.send(b"x")
        yield
        time.sleep(DRIP_S)


@attack
def slow_readers(target):
    """Large values that are asked for and taken a few bytes at a time."""
    target.store(b"large", b"x" * MIB)
    held = [target.connect(SMALL_BUFFER_BYTES) for _ in range(100)]
    for one in held:
        with contextlib.suppress(BlockingIOError):
            one.send(b"get large\r\n" * 1000)
    while True:
        for one in held:
            with contextlib.suppress(OSError):
                one.recv(1)
        yield
        time.sleep(DRIP_S)


@attack
def endless_lines(target):
    """No line ever ends."""
    return flood(Crowd(target, 20, b"x" * (256 << 10), reads=True))


@attack
def endless_keys(target):
    """A get whose key never ends."""
    return flood(Crowd(target, 20, b"get " + b"k" * (256 << 10), reads=True))


@attack
def deep_pipelines(target):
    """Requests without waiting for replies, which are read."""
    return flood(Crowd(target, 20, b"get none\r\n" * 20_000, reads=True))


@attack
def pipelines_not_read(target):
    """Requests without waiting for replies, which nobody reads."""
    target.store(b"some", b"x" * 1000)
    return flood(Crowd(target, 20, b"get some\r\n" * 20_000, reads=False))


@attack
def huge_multi_gets(target):
    """Lines of 100,000 keys."""
    line = b"get " + b" ".join(b"k%x" % number for number in range(100_000)) + b"\r\n"
    return flood(Crowd(target, 20, line, reads=True))


@attack
def values_beyond_the_limit(target):
    """Values that are too large, to their end."""
    return flood(Crowd(target, 10, b"set big 0 0 67108864\r\n" + b"x" * (64 * MIB) + b"\r\n", reads=True))


@attack
def large_values(target):
    """The largest values, stored and read by many at once."""
    target.store(b"large", b"x" * MIB)
    return flood(
        Crowd(
            target, 20, b"set large 0 0 1048576\r\n" + b"x" * MIB + b"\r\n" + b"get large\r\n" * 20,
            reads=True
        )
    )


@attack
def garbage(target):
    """Random bytes; those that are taken for the binary protocol, too."""
    return flood(Crowd(target, 20, b"\x80" + os.urandom(MIB), reads=True))


@attack
def datagrams(target):
    """The longest datagrams, full of requests, as fast as they can be sent."""
    flooder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    flooder.connect((target.host, target.udp_port))
    flooder.setblocking(False)
    datagram = struct.pack(">HHHH", 1, 0, 1, 0) + b"get " + b"k " * 32_000 + b"k\r\n"
    while True:
        with contextlib.suppress(OSError):
            flooder.send(datagram)
        yield


@attack
def datagrams_for_large_values(target):
    """Small datagrams whose replies are as large as they may be."""
    target.store(b"large", b"x" * MIB)
    flooder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    flooder.connect((target.host, target.udp_port))
    flooder.setblocking(False)
    while True:
        with contextlib.suppress(OSError):
            flooder.send(struct.pack(">HHHH", 1, 0, 1, 0) + b"get large\r\n")
        yield


@attack
def appends_to_a_long_value(target):
    """Each copies the value that is there; nobody waits for a reply."""
    target.store(b"long", b"x" * 900_000)
    return flood(Crowd(target, 1, b"append long 0 0 1 noreply\r\nx\r\n" * 2400, reads=True))


@attack
def small_batches_of_appends(target):
    """Many connections with two appends to a long value at a time: no turn is long, but all of them together
    are."""
    target.store(b"long", b"x" * 900_000)
    return flood(Crowd(target, 200, b"append long 0 0 1\r\nx\r\n" * 2, reads=True))


@attack
def meta_appends_and_touches(target):
    """Items that move: by appends, and because they have no room for an expiry."""
    value = b"x" * 500_000
    moves = b"".join(b"set long%d 0 0 500000\r\n%b\r\n" % (number, value) for number in range(8))
    moves += (
        b"".join(
            b"touch long%d 100\r\nms long%d 1 MA q\r\nx\r\nmg long%d t q\r\n" % (number, number, number)
            for number in range(8)
        )
        * 20
    )
    return flood(Crowd(target, 1, moves, reads=True))


@attack
def administration(target):
    """Reports and flushes, one behind the other."""
    return flood(
        Crowd(
            target,
            1,
            b"stats\r\nstats reset\r\nflush_namespace x\r\nstats sizes\r\nstats conns\r\nstats detail on\r\n"
            * 200,
            reads=True,
        )
    )


@attack
def datagrams_of_appends(target):
    """As many appends to a long value as a datagram holds."""
    target.store(b"long", b"x" * 900_000)
    return shower(target, [struct.pack(">HHHH", 1, 0, 1, 0) + b"append long 0 0 1 noreply\r\nx\r\n" * 2100])


@attack
def datagrams_of_nothing(target):
    """Empty ones, such as are refused, and such as ask for nothing."""
    frame = struct.pack(">HHHH", 1, 0, 1, 0)
    return shower(target, [b"", frame[:4], frame, struct.pack(">HHHH", 1, 1, 2, 0) + b"get a\r\n"])


def shower(target, datagrams):
    """These, as fast as they can be sent."""
    flooder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    flooder.connect((target.host, target.udp_port))
    return rain(flooder, itertools.cycle(datagrams))


def rain(flooder, datagrams):
    """These by a connected socket."""
    flooder.setblocking(False)
    for datagram in datagrams:
        with contextlib.suppress(OSError):
            flooder.send(datagram)
        yield


def native_rain(target, requests, cookie=None):
    """Native datagrams of requests, each as full as it may be, and each from a client of its own. `requests`
    makes them."""
    client = NativeClient(target.native_port, target.host).learn()
    known = {} if cookie is None else {"cookie": cookie}
    batches, room = [[]], 0
    for request in requests(client):
        length = len(request.pack())
        if room < length:
            batches.append([])
            room = client.directory.payload_bytes_max - native.HEADER_BYTES
        batches[-1].append(request)
        room -= length
    client.socket.connect((target.host, target.native_port))
    partition = client.partition_of(batches[1][0].key)
    datagrams = itertools.cycle(
        [
            native.requests_datagram(client.header(partition=partition, **known), batch)
            for batch in batches[1:]
        ]
    )
    number = itertools.cycle(range(1, 1 << 32))  # else requests with ids would be executed once
    return rain(
        client.socket,
        (datagram[:20] + struct.pack("<I", next(number)) + datagram[24:] for datagram in datagrams),
    )


@attack
def native_gets(target):
    """Misses without end, from an address that has not been proved."""
    return native_rain(
        target,
        lambda client: [client.request(native.Opcode.GET, b"none%d" % number) for number in range(100)],
        cookie=0,
    )


@attack
def native_long_gets(target):
    """The longest values that a datagram has, asked for by many requests in one."""
    target.store(b"long", b"x" * 1300)
    return native_rain(target, lambda client: [client.request(native.Opcode.GET, b"long")] * 100)


@attack
def native_appends(target):
    """Appends to a long value."""
    target.store(b"long", b"x" * 900_000)
    return native_rain(
        target,
        lambda client: [client.request(native.Opcode.APPEND, b"long", value=b"x") for _ in range(1000)],
    )


@attack
def native_touches(target):
    """Long items that have no room for an expiry and move; they are stored again by the way of memcached's
    protocol."""
    value = b"x" * 500_000
    for number in range(8):
        target.store(b"long%d" % number, value)
    showers = native_rain(
        target,
        lambda client: [
            client.request(native.Opcode.TOUCH, b"long%d" % (number % 8), expiry_s=100)
            for number in range(80)
        ],
    )
    stores = flood(
        Crowd(
            target, 1, b"".join(b"set long%d 0 0 500000\r\n%b\r\n" % (number, value) for number in range(8)),
            reads=True
        )
    )
    for _ in zip(showers, stores, strict=False):
        yield


@attack
def native_nothing(target):
    """Empty datagrams, such as are refused, and directories for addresses that are not proved."""
    flooder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    flooder.connect((target.host, target.native_port))
    asks = native.directory_request(native.Header(native.Kind.DIRECTORY_REQUEST, client=1), 0, 1232)
    return rain(flooder, itertools.cycle([b"", b"Mi", asks[: native.HEADER_BYTES], asks, os.urandom(1472)]))


@attack
def tls_refresh_certs(target):
    """Has the files of certificates read, again and again."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((target.host, target.port)) as plain, context.wrap_socket(plain) as one:
        while True:
            one.sendall(b"refresh_certs\r\n" * 100)
            replies = b""
            while replies.count(b"\n") < 100:
                replies += one.recv(1 << 16)
            yield


@attack
def tls_garbage(target):
    """Random bytes where TLS is spoken, and records that are none."""
    hello = client_hello()
    record = b"\x16\x03\x01\xff\xff" + os.urandom(65_535)
    crowds = [
        Crowd(target, 5, bytes_, reads=True)
        for bytes_ in (os.urandom(MIB), record, hello[: len(hello) // 2] + os.urandom(MIB), hello + record)
    ]
    while True:
        for crowd in crowds:
            crowd.turn()
        yield


@attack
def tls_half_handshakes(target):
    """Handshakes that stop in the middle."""
    hello = client_hello()
    held = [target.connect() for _ in range(200)]
    for number, one in enumerate(held):
        one.send(hello[: len(hello) >> number % 3])
    while True:
        yield
        time.sleep(DRIP_S)


@attack
def tls_hellos(target):
    """Hellos on many connections at once, again and again; nobody goes on with the handshake."""
    hello = client_hello()
    while True:
        held = []
        for _ in range(200):
            with contextlib.suppress(OSError):
                held.append(target.connect())
                held[-1].send(hello)
        yield
        time.sleep(DRIP_S)
        for one in held:
            one.close()


@attack
def tls_handshakes(target):
    """One whole handshake after the other."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    while True:
        with socket.create_connection((target.host, target.port)) as plain, context.wrap_socket(plain) as one:
            one.sendall(b"mn\r\n")
            assert one.recv(64)
        yield


def client_hello():
    """How a handshake begins."""
    sent = ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
    return sent.read()


PLAIN = [name for name in ATTACKS if not name.startswith("tls")]
TLS = [name for name in ATTACKS if name.startswith("tls")]


def certificate(directory):
    """The options of a server with a certificate of its own; `openssl` makes it."""
    key, chain = directory / "key.pem", directory / "chain.pem"
    words = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-days", "2", "-subj", "/CN=attacked"
    ]
    subprocess.run([*words, "-keyout", key, "-out", chain], check=True, capture_output=True)
    return ["-Z", "-o", f"ssl_chain_cert={chain},ssl_key={key}"]


def command(name, server):
    """What runs one against a server."""
    native_port = server.stats("native").get("native_port", 0)
    ports = [server.ports()["TCP"], server.ports().get("UDP", 0), native_port]
    return [sys.executable, __file__, name, "127.0.0.1", *map(str, ports)]


def main(name, host, port, udp_port=0, native_port=0):
    """Runs one."""
    going = False
    for _ in ATTACKS[name](Target(host, int(port), int(udp_port), int(native_port))):
        if not going:
            print("going", flush=True)
            going = True


if __name__ == "__main__":
    main(*sys.argv[1:])
