"""memcached's binary protocol, packed and unpacked by hand: independent of the server's own code."""

import struct
from dataclasses import dataclass

HEADER = struct.Struct("!BBHBBHIIQ")
OPCODES = {
    name: number
    for number, name in enumerate(
        "get set add replace delete incr decr quit flush getq noop version getk getkq append prepend stat "
        "setq addq replaceq deleteq incrq decrq quitq flushq appendq prependq verbosity touch gat "
        "gatq".split()
    )
} | {"sasl_list": 0x20, "sasl_auth": 0x21, "sasl_step": 0x22, "gatk": 0x23, "gatkq": 0x24}

OK, NOT_FOUND, EXISTS, TOO_LARGE, INVALID, NOT_STORED, NOT_A_NUMBER = range(7)
UNKNOWN_COMMAND = 0x81
NO_INITIAL = 0xFFFFFFFF
TEXTS = {
    NOT_FOUND: b"Not found",
    EXISTS: b"Data exists for key.",
    TOO_LARGE: b"Too large.",
    INVALID: b"Invalid arguments",
    NOT_STORED: b"Not stored.",
    NOT_A_NUMBER: b"Non-numeric server-side value for incr or decr",
    UNKNOWN_COMMAND: b"Unknown command",
}


@dataclass(frozen=True)
class Reply:
    """A reply, taken apart."""

    opcode: int
    status: int
    extras: bytes
    key: bytes
    value: bytes
    opaque: int
    cas: int

    @property
    def flags(self):
        """The flags of an item."""
        return struct.unpack("!I", self.extras)[0]

    @property
    def number(self):
        """The number of an increment."""
        return struct.unpack("!Q", self.value)[0]

    def short(self):
        """All but the opaque, and of the CAS value only whether there is one."""
        return (self.opcode, self.status, self.extras, self.key, self.value, self.cas != 0)


def pack(opcode, key=b"", value=b"", extras=b"", opaque=0, cas=0):
    """A request; `opcode` is a name or a number."""
    number = OPCODES.get(opcode, opcode)
    body = extras + key + value
    return HEADER.pack(0x80, number, len(key), len(extras), 0, 0, len(body), opaque, cas) + body


def store(opcode, key, value, flags=0, exptime=0, **rest):
    """set, add, replace and their quiet forms."""
    return pack(opcode, key, value, struct.pack("!II", flags, exptime), **rest)


def count(opcode, key, delta=1, initial=0, exptime=NO_INITIAL, **rest):
    """incr, decr and their quiet forms."""
    return pack(opcode, key, extras=struct.pack("!QQI", delta, initial, exptime), **rest)


def touch(opcode, key, exptime, **rest):
    """touch, gat and its variants."""
    return pack(opcode, key, extras=struct.pack("!I", exptime), **rest)


def read(connection):
    """The next reply of a raw connection."""
    magic, opcode, key_bytes, extras_bytes, data_type, status, body_bytes, opaque, cas = HEADER.unpack(
        connection.exactly(HEADER.size)
    )
    assert (magic, data_type) == (0x81, 0)
    body = connection.exactly(body_bytes)
    key_at, value_at = extras_bytes, extras_bytes + key_bytes
    return Reply(opcode, status, body[:key_at], body[key_at:value_at], body[value_at:], opaque, cas)


def ask(connection, request):
    """Sends a request and returns its one reply."""
    connection.send(request)
    return read(connection)


def replies(connection, *requests):
    """Sends requests at once, a noop behind them, and returns all replies before the noop's."""
    end = 0xE17D0ED
    connection.send(b"".join(requests) + pack("noop", opaque=end))
    found = []
    while (reply := read(connection)).opaque != end:
        found.append(reply)
    assert reply == Reply(OPCODES["noop"], OK, b"", b"", b"", end, 0)
    return found


def done(opcode, cas=True):
    """A success that says no more."""
    return (OPCODES[opcode], OK, b"", b"", b"", cas)


def error(opcode, status):
    """An error."""
    return (OPCODES.get(opcode, opcode), status, b"", b"", TEXTS[status], False)


def hit(opcode, value, flags=0, key=b""):
    """A value that was found."""
    return (OPCODES[opcode], OK, struct.pack("!I", flags), key, value, True)


def number(opcode, value):
    """The number of an increment."""
    return (OPCODES[opcode], OK, b"", b"", struct.pack("!Q", value), True)


def say(client, *requests):
    """The replies, without opaques, of requests that are sent at once."""
    return [reply.short() for reply in replies(client, *requests)]
