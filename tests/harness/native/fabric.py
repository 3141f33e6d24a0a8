"""The kinds of messages that only fabrics have (docs/protocol.md, "Over a fabric"), as dictionaries."""

import struct

from harness.native import HEADER_BYTES, Kind, padded, require, take

HELLO = struct.Struct("<QIHH")
HELLO_BYTES_MAX = 896
HELLO_REPLY = struct.Struct("<9Q4IBBHHHII")
HELLO_REPLY_FIELDS = (
    "session", "hash_seed", "second", "incarnation", "area_key", "area_base", "area_bytes", "lease_ns",
    "frozen_ns", "message_bytes_max", "value_bytes_max", "page_bytes", "pages", "partition_bits", None,
    "workers", "worker", "ids_window", "push_ms", None,
)  # fmt: skip
RECORDS = {
    Kind.PUSH: ("chunk", struct.Struct("<QQQII"), ("hash", "offset", "version", "bytes", None)),
    Kind.HISTORY: ("access", struct.Struct("<QII"), ("hash", "count", None)),
}


def pack(header, fields, records):
    """A whole message; `records` are the entries of a push or the accesses of a history."""
    header.count = len(records)
    if header.kind == Kind.HELLO:
        user, password = fields.get("user", b""), fields.get("password", b"")
        numbers = fields["nonce"], fields.get("message_bytes_max", 0), len(user), len(password)
        return header.pack() + HELLO.pack(*numbers) + padded(user) + padded(password)
    if header.kind == Kind.HELLO_REPLY:
        if header.status:
            return header.pack()
        return header.pack() + HELLO_REPLY.pack(*(fields.get(name, 0) for name in HELLO_REPLY_FIELDS))
    _, form, names = RECORDS[header.kind]
    bodies = (form.pack(*(record.get(name, 0) for name in names)) for record in records)
    return header.pack() + b"".join(bodies)


def parse(header, body):
    """The fields of the body, the name of its records, and these."""
    if header.kind == Kind.HELLO:
        require(HELLO.size <= len(body) <= HELLO_BYTES_MAX - HEADER_BYTES, "a hello of a wrong length")
        nonce, message_bytes_max, user_bytes, password_bytes = HELLO.unpack_from(body)
        user, rest = take(body[HELLO.size :], user_bytes)
        password, _ = take(rest, password_bytes)
        fields = {"nonce": nonce, "message_bytes_max": message_bytes_max}
        return fields | {"user": user, "password": password}, "", []
    if header.kind == Kind.HELLO_REPLY:
        return {} if header.status else hello_reply(body), "", []
    name, form, names = RECORDS[header.kind]
    require(len(body) >= header.count * form.size, "records cut off")
    records = []
    for number in range(header.count):
        record = dict(zip(names, form.unpack_from(body, number * form.size), strict=True))
        require(record.pop(None) == 0, "a byte without meaning")
        records.append(record)
    return {}, name, records


def hello_reply(body):
    """The fields of a hello reply."""
    require(len(body) >= HELLO_REPLY.size, "shorter than a hello reply")
    fields = dict(zip(HELLO_REPLY_FIELDS, HELLO_REPLY.unpack_from(body), strict=True))
    fields.pop(None)
    require(fields["session"] and fields["session"] % 4 == 0, "no session")
    require(fields["worker"] < fields["workers"] and fields["partition_bits"] <= 10, "workers or partitions")
    return fields
