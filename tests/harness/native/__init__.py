"""The native protocol, version 1, written from docs/protocol.md alone: what datagrams say, as Python objects.
The bodies of the kinds for fabrics are read by `fabric`.

Every class packs itself into bytes and is read back by `parse`. Nothing here opens a socket; native_client
does."""

import enum
import struct
from dataclasses import dataclass

import xxhash

from harness.native.directory import (
    DIRECTORY,
    Directory,
    Malformed,
    padded,
    require,
)

MAGIC = b"Mi"
VERSION = 1
KEY_BYTES_MAX = 250
HEADER = struct.Struct("<2s4BHIHHIIQQ")
REQUEST = struct.Struct("<4BIQII")
REPLY = struct.Struct("<4BIII")
WORD = struct.Struct("<Q")
ENTRY = struct.Struct("<QQII")
DIRECTORY_REQUEST = struct.Struct("<II")
HEADER_BYTES = HEADER.size
DIRECTORY_BYTES_MIN = HEADER_BYTES + DIRECTORY.size + 8


class Kind(enum.IntEnum):
    """Kind of a datagram."""

    REQUESTS = 1
    REPLIES = 2
    DIRECTORY_REQUEST = 3
    DIRECTORY = 4
    HELLO = 5
    HELLO_REPLY = 6
    PUSH = 7
    HISTORY = 8


class Opcode(enum.IntEnum):
    """Operation of a request."""

    NOOP = 0
    GET = 1
    SET = 2
    ADD = 3
    REPLACE = 4
    DELETE = 5
    TOUCH = 6
    INCREMENT = 7
    DECREMENT = 8
    CAS = 9
    APPEND = 10
    PREPEND = 11
    GET_AND_TOUCH = 12


class Status(enum.IntEnum):
    """Result of a request."""

    OK = 0
    NOT_FOUND = 1
    EXISTS = 2
    NOT_STORED = 3
    OUT_OF_SPACE = 4
    TOO_LARGE = 5
    MOVED = 6
    SLOW_DOWN = 7
    BAD_REQUEST = 8
    VERSION = 9
    NOT_A_NUMBER = 10
    UNPROVEN = 11
    NO_ROOM = 12
    USE_STREAM = 13
    FORGOTTEN = 14


ARITHMETIC = {Opcode.INCREMENT, Opcode.DECREMENT}
WITH_ARGUMENT = ARITHMETIC | {Opcode.CAS}
WITH_ID = WITH_ARGUMENT | {Opcode.ADD, Opcode.APPEND, Opcode.PREPEND}
WITH_VALUE = {Opcode.SET, Opcode.ADD, Opcode.REPLACE, Opcode.CAS, Opcode.APPEND, Opcode.PREPEND}
RETRIEVALS = {Opcode.GET, Opcode.GET_AND_TOUCH}
READS = {Opcode.NOOP, Opcode.GET}
FROM_CLIENTS = {Kind.REQUESTS, Kind.DIRECTORY_REQUEST, Kind.HELLO, Kind.HISTORY}


def hash_of(key, seed):
    """XXH3-64 of a key."""
    return xxhash.xxh3_64_intdigest(key, seed)


@dataclass
class Header:
    """The 40 bytes at the start. `flags` are the bits as they stand."""

    kind: Kind
    flags: int = 0
    status: Status = Status.OK
    count: int = 0
    generation: int = 0
    partition: int = 0
    pressure: int = 0
    sequence: int = 0
    client: int = 0
    echo: int = 0
    cookie: int = 0
    version: int = VERSION

    WRITES = 1
    RESENT = 2
    SLOW_DOWN = 1

    def pack(self):
        return HEADER.pack(
            MAGIC, self.version, self.kind, self.flags, self.status, self.count, self.generation,
            self.partition,
            self.pressure, self.sequence, self.client, self.echo, self.cookie,
        )  # fmt: skip

    @classmethod
    def parse(cls, datagram):
        require(len(datagram) >= HEADER_BYTES, "shorter than a header")
        magic, version, kind, flags, status, count, *rest = HEADER.unpack_from(datagram)
        require(magic == MAGIC, "another magic")
        require(version == VERSION, f"version {version}")
        generation, partition, pressure, sequence, client, echo, cookie = rest
        try:
            kind, status = Kind(kind), Status(status)
        except ValueError as error:
            raise Malformed(str(error)) from error
        asks = kind in FROM_CLIENTS
        require(flags & ~(3 if asks else 1) == 0, "unknown flags")
        require(not asks or (status == 0 and pressure == 0), "zero fields are not zero")
        return cls(
            kind, flags, status, count, generation, partition, pressure, sequence, client, echo, cookie
        )

    @property
    def slow_down(self):
        """Returns whether a reply says that the queue overflows."""
        return bool(self.flags & self.SLOW_DOWN)


@dataclass
class Request:
    """One request. `argument` is what is added or subtracted, or the CAS value."""

    opcode: Opcode
    key: bytes = b""
    hash: int = 0
    value: bytes = b""
    flags: int = 0
    expiry_s: int = 0
    argument: int = 0
    id: int = 0
    wants_cas: bool = False
    wants_entry: bool = False

    def pack(self):
        words = [self.argument] if self.opcode in WITH_ARGUMENT else []
        words += [self.id] if self.opcode in WITH_ID else []
        options = self.wants_cas | self.wants_entry << 1
        fixed = REQUEST.pack(
            self.opcode, len(self.key), options, 0, len(self.value), self.hash, self.flags, self.expiry_s
        )
        return fixed + b"".join(map(WORD.pack, words)) + padded(self.key) + padded(self.value)

    @classmethod
    def parse(cls, data):
        """The first request, and what follows it."""
        require(len(data) >= REQUEST.size, "shorter than a request")
        opcode, key_bytes, options, zero, value_bytes, hashed, flags, expiry_s = REQUEST.unpack_from(data)
        require(opcode in list(Opcode), f"opcode {opcode}")
        require(options & ~3 == 0 and zero == 0, "a byte without meaning")
        opcode = Opcode(opcode)
        data = data[REQUEST.size :]
        argument, data = take_word(data) if opcode in WITH_ARGUMENT else (0, data)
        number, data = take_word(data) if opcode in WITH_ID else (0, data)
        key, data = take(data, key_bytes)
        value, data = take(data, value_bytes)
        request = cls(opcode, key, hashed, value, flags, expiry_s, argument, number)
        request.wants_cas, request.wants_entry = bool(options & 1), bool(options & 2)
        request.check()
        return request, data

    def check(self):
        """No field is set that the operation does not have."""
        stores = self.opcode in WITH_VALUE - {Opcode.APPEND, Opcode.PREPEND}
        expires = stores or self.opcode in (Opcode.TOUCH, Opcode.GET_AND_TOUCH)
        require(len(self.key) <= KEY_BYTES_MAX, "key too long")
        require((self.opcode == Opcode.NOOP) == (not self.key), "a key for no-op, or none")
        require(self.opcode in WITH_VALUE or not self.value, "a value without use")
        require(stores or not self.flags, "flags without use")
        require(expires or not self.expiry_s, "expiry without use")
        require(self.opcode in RETRIEVALS or not self.wants_cas, "options without use")
        require(self.opcode == Opcode.GET or not self.wants_entry, "options without use")
        require(self.opcode not in WITH_ID or self.id, "no id")


@dataclass
class Reply:
    """One reply."""

    opcode: Opcode
    status: Status
    hash_low: int = 0
    flags: int = 0
    cas: int | None = None
    number: int | None = None
    limit_bytes: int = 0
    value: bytes = b""
    entry: tuple | None = None  # offset, version, bytes

    def pack(self):
        length = self.limit_bytes if self.status == Status.TOO_LARGE else len(self.value)
        options = (self.cas is not None) | (self.entry is not None) << 1
        fixed = REPLY.pack(self.opcode, self.status, options, 0, length, self.flags, self.hash_low)
        words = [word for word in (self.cas, self.number) if word is not None]
        entry = ENTRY.pack(*self.entry, 0) if self.entry else b""
        return fixed + b"".join(map(WORD.pack, words)) + entry + padded(self.value)

    @classmethod
    def parse(cls, data):
        """The first reply, and what follows it."""
        require(len(data) >= REPLY.size, "shorter than a reply")
        opcode, status, options, zero, length, flags, hash_low = REPLY.unpack_from(data)
        require(opcode in list(Opcode) and status in list(Status), f"opcode {opcode}, status {status}")
        require(options & ~3 == 0 and zero == 0, "a byte without meaning")
        reply = cls(Opcode(opcode), Status(status), hash_low, flags)
        data = data[REPLY.size :]
        found = opcode in RETRIEVALS and status == Status.OK
        require(found or not options, "a CAS value without an item")
        require(found or not length or status == Status.TOO_LARGE, "a value without use")
        require(opcode == Opcode.GET or not options & 2, "an entry of no get")
        if options & 1:
            reply.cas, data = take_word(data)
        if opcode in ARITHMETIC and status == Status.OK:
            reply.number, data = take_word(data)
        if options & 2:
            entry, data = take(data, ENTRY.size)
            *reply.entry, zero = ENTRY.unpack(entry)
            reply.entry = tuple(reply.entry)
            require(zero == 0, "a byte without meaning")
        if found:
            reply.value, data = take(data, length)
        elif status == Status.TOO_LARGE:
            reply.limit_bytes = length
        return reply, data


def take(data, count):
    """A padded part of the bytes, and what follows it."""
    end = count + -count % 8
    require(len(data) >= end, "cut off")
    return data[:count], data[end:]


def take_word(data):
    """A 64-bit word, and what follows it."""
    word, data = take(data, WORD.size)
    return WORD.unpack(word)[0], data


def requests_datagram(header, requests):
    """A whole datagram; count and the flag that something writes come from the requests."""
    header.count = len(requests)
    header.flags &= ~Header.WRITES
    if any(request.opcode not in READS for request in requests):
        header.flags |= Header.WRITES
    return header.pack() + b"".join(request.pack() for request in requests)


def replies_datagram(header, replies):
    """A whole datagram of replies."""
    header.count = len(replies)
    return header.pack() + b"".join(reply.pack() for reply in replies)


def directory_request(header, first, length):
    """A whole datagram that asks for the directory and has room for a reply of `length` bytes."""
    datagram = header.pack() + DIRECTORY_REQUEST.pack(first, 0)
    return datagram + bytes(max(0, length - len(datagram)))


def parse(datagram):
    """The header of a datagram over UDP, and what follows: requests, replies, the first entry asked for, or
    a directory."""
    header, body = parse_any(datagram)
    require(header.kind <= Kind.DIRECTORY, "a kind for fabrics")
    if header.kind == Kind.REQUESTS:
        require(not any(request.wants_entry for request in body), "an entry is wanted over UDP")
    if header.kind == Kind.REPLIES:
        require(not any(reply.entry for reply in body), "an entry over UDP")
    return header, body


def parse_any(datagram):
    """The same of a datagram or a message of a fabric; the bodies of the kinds for fabrics are bytes
    (`fabric.parse` reads them)."""
    header = Header.parse(datagram)
    body = datagram[HEADER_BYTES:]
    if header.kind > Kind.DIRECTORY:
        return header, body
    if header.kind == Kind.DIRECTORY_REQUEST:
        require(header.count == 0, "a directory request with requests")
        require(len(datagram) >= DIRECTORY_BYTES_MIN, "shorter than a directory")
        first, zero = DIRECTORY_REQUEST.unpack_from(body)
        require(zero == 0, "zero fields are not zero")
        return header, first
    if header.kind == Kind.DIRECTORY:
        return header, None if header.status else Directory.parse(body)
    require(header.kind == Kind.REPLIES or header.count, "no requests")
    parts = []
    for _ in range(header.count):
        part, body = (Request if header.kind == Kind.REQUESTS else Reply).parse(body)
        parts.append(part)
    return header, parts
