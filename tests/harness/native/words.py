"""Datagrams of the native protocol in words: the notation of testdata/native.txt, read and written.

A block of that file is a name, words (one line for the header, one for each request, reply or entry) and
hexadecimal. Fields that are zero or empty are left out, so a datagram has exactly one way to be said."""

import ipaddress
import re
from pathlib import Path

from harness import native
from harness.native import (
    FROM_CLIENTS,
    Directory,
    Header,
    Kind,
    Opcode,
    Reply,
    Request,
    Status,
    fabric,
)
from harness.native.directory import Access

FILE = Path(__file__).resolve().parents[3] / "testdata/native.txt"
PLAIN = re.compile(rb"[!-$&-<>-~]")
SENDS = {
    "requests": Kind.REQUESTS,
    "replies": Kind.REPLIES,
    "directory-request": Kind.DIRECTORY_REQUEST,
    "directory": Kind.DIRECTORY,
    "hello": Kind.HELLO,
    "hello-reply": Kind.HELLO_REPLY,
    "push": Kind.PUSH,
    "history": Kind.HISTORY,
}
HEADER_FIELDS = ("generation", "partition", "pressure", "sequence", "client", "echo", "cookie")
DIRECTORY_FIELDS = (
    "hash_seed", "partitions", "core_count", "stream_port", "payload_bytes_max", "value_bytes_max",
    "ids_window",
    "cookie_s", "first", "addresses",
)  # fmt: skip
IN_HEXADECIMAL = {"echo", "cookie", "hash", "hash_low", "hash_seed", "client", "nonce", "session"}
IN_HEXADECIMAL |= {"incarnation", "area_key", "area_base", "version"}
OF_BYTES = {"key", "value", "user", "password"}
ENTRY_FIELDS = ("offset", "version", "bytes")


def blocks(kind):
    """The blocks of the file whose first line begins with `kind`: lists of (word, rest of the line)."""
    text = "\n".join(line for line in FILE.read_text().splitlines() if not line.startswith("#"))
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = [tuple((line + " ").split(" ", 1)) for line in block.strip().splitlines()]
        if lines[0][0] == kind:
            yield [(word, rest.strip()) for word, rest in lines]


def datagrams():
    """The golden datagrams: name, words, bytes."""
    for (_, name), *lines in blocks("datagram"):
        words = [f"{word} {rest}".strip() for word, rest in lines if word not in ("hex", "note")]
        yield name, words, bytes.fromhex("".join(rest for word, rest in lines if word == "hex"))


def refused():
    """The datagrams that a server does not take: name, what it does with them, bytes."""
    for (_, name), *lines in blocks("refused"):
        outcome = dict(lines)["outcome"]
        yield name, outcome, bytes.fromhex("".join(rest for word, rest in lines if word == "hex"))


def hashes():
    """Golden hashes: key, seed, hash."""
    for lines in blocks("hash"):
        for _, rest in lines:
            fields = dict(word.split("=", 1) for word in rest.split())
            yield read_bytes(fields["key"]), int(fields["seed"], 16), int(fields["is"], 16)


def name_of(member):
    """An opcode or a status as the words have it."""
    return member.name.lower().replace("_", "-")


def member_of(kind, name):
    """The opcode or status of a name."""
    return kind[name.upper().replace("-", "_")]


def read_bytes(text):
    """Bytes out of text in which %XX is a byte."""
    return re.sub(rb"%(..)", lambda found: bytes.fromhex(found[1].decode()), text.encode())


def write_bytes(data):
    """The reverse."""
    return "".join(chr(byte) if PLAIN.match(bytes([byte])) else f"%{byte:02x}" for byte in data)


def write_fields(thing, names):
    """` name=value` for each field that is not zero, empty or absent."""
    return write_items({name: getattr(thing, name) for name in names})


def write_items(fields):
    """The same for the fields of a dictionary."""
    said = ""
    for name, value in fields.items():
        if value is None or (value in (0, b"") and name not in ("cas", "number")):
            continue
        shown = (
            write_bytes(value)
            if name in OF_BYTES
            else f"{value:#x}"
            if name in IN_HEXADECIMAL
            else str(value)
        )
        said += f" {name}={shown}"
    return said


READERS = dict.fromkeys(OF_BYTES, read_bytes) | {"ip": ipaddress.ip_address}


def read_fields(words):
    """{name: value} out of name=value, and the words that are no field."""
    fields, bare = {}, []
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            fields[name] = READERS.get(name, lambda number: int(number, 0))(value)
        else:
            bare.append(word)
    return fields, bare


def header_of(line):
    """The header that a first line says, and its remaining fields."""
    kind, *words = line.split()
    fields, bare = read_fields(words)
    bits = {"writes": 1, "resent": 2, "slow-down": 1}
    flags = sum(bits[word] for word in bare if word in bits)
    status = [word for word in bare if word not in bits]
    header = Header(SENDS[kind], flags, member_of(Status, status[0]) if status else Status.OK)
    for name in HEADER_FIELDS:
        setattr(header, name, fields.pop(name, 0))
    return header, fields


def write(words):
    """The bytes of a datagram in words."""
    header, fields = header_of(words[0])
    parts = [line.split() for line in words[1:]]
    if header.kind == Kind.DIRECTORY_REQUEST:
        return native.directory_request(header, fields.get("first", 0), fields["bytes"])
    if header.kind == Kind.DIRECTORY and header.status:
        return header.pack()
    if header.kind == Kind.DIRECTORY:
        directory = Directory(**{name: fields.get(name, 0) for name in DIRECTORY_FIELDS})
        for what, *rest in parts:
            entry, bare = read_fields(rest)
            if what == "core":
                directory.cores.append((entry["port"], entry.get("node", 0)))
            elif what == "place":
                directory.places.append((entry["port"], entry.get("interface", 0)))
            elif what == "address":
                directory.ips.append((entry.get("interface", 0), entry["ip"]))
            else:
                directory.owners.append((entry.get("owner", 0), member_of(Access, bare[0])))
        return header.pack() + directory.pack()
    if header.kind > Kind.DIRECTORY:
        return fabric.pack(header, fields, [read_fields(rest)[0] for _, *rest in parts])
    if header.kind == Kind.REQUESTS:
        flags = header.flags
        datagram = native.requests_datagram(header, [request_of(part) for part in parts])
        assert header.flags == flags, "the words leave out that something writes"
        return datagram
    return native.replies_datagram(header, [reply_of(part) for part in parts])


def request_of(part):
    """A request out of its words."""
    fields, bare = read_fields(part[2:])
    options = {"wants_cas": "wants-cas" in bare, "wants_entry": "wants-entry" in bare}
    return Request(member_of(Opcode, part[1]), **options, **fields)


def reply_of(part):
    """A reply out of its words."""
    fields, _ = read_fields(part[3:])
    if "version" in fields:
        fields["entry"] = tuple(fields.pop(name, 0) for name in ENTRY_FIELDS)
    return Reply(member_of(Opcode, part[1]), member_of(Status, part[2]), **fields)


def say(datagram):
    """The words of a datagram."""
    header, body = native.parse_any(datagram)
    asks = header.kind in FROM_CLIENTS
    first = next(name for name, kind in SENDS.items() if kind == header.kind)
    names = ["writes", "resent"] if asks else ["slow-down"]
    first += "".join(f" {name}" for bit, name in enumerate(names) if header.flags & 1 << bit)
    first += f" {name_of(header.status)}" if header.status else ""
    first += write_fields(header, HEADER_FIELDS)
    if header.kind == Kind.DIRECTORY_REQUEST:
        return [first + (f" first={body}" if body else "") + f" bytes={len(datagram)}"]
    if header.kind == Kind.DIRECTORY and header.status:
        return [first]
    if header.kind == Kind.DIRECTORY:
        cores = ["core" + f" port={port}" + (f" node={node}" if node else "") for port, node in body.cores]
        owners = [
            "partition" + (f" owner={o}" if o else "") + f" {name_of(access)}" for o, access in body.owners
        ]
        places = ["place" + write_items({"port": port, "interface": at}) for port, at in body.places]
        ips = ["address" + write_items({"interface": at, "ip": ip}) for at, ip in body.ips]
        return [first + write_fields(body, DIRECTORY_FIELDS), *cores, *owners, *places, *ips]
    if header.kind > Kind.DIRECTORY:
        fields, name, records = fabric.parse(header, body)
        return [first + write_items(fields), *(name + write_items(record) for record in records)]
    return [first] + [say_request(part) if asks else say_reply(part) for part in body]


def say_request(request):
    """One request in words."""
    said = f"request {name_of(request.opcode)}" + (" wants-cas" if request.wants_cas else "")
    said += " wants-entry" if request.wants_entry else ""
    return said + write_fields(request, ("key", "hash", "argument", "id", "flags", "expiry_s", "value"))


def say_reply(reply):
    """One reply in words."""
    said = f"reply {name_of(reply.opcode)} {name_of(reply.status)}"
    said += write_fields(reply, ("hash_low", "flags", "cas", "number", "limit_bytes"))
    if reply.entry:
        said += write_items(dict(zip(ENTRY_FIELDS, reply.entry, strict=True)))
    return said + write_fields(reply, ("value",))
