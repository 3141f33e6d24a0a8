"""memcached's binary protocol: unknown commands, misuse, and what is too large."""


import pytest

from harness.memcached import binary
from harness.memcached.binary import (
    INVALID,
    OK,
    OPCODES,
    TEXTS,
    TOO_LARGE,
    UNKNOWN_COMMAND,
    ask,
    done,
    error,
    hit,
    pack,
    say,
    store,
    touch,
)

EVERY_MODE = True


@pytest.mark.parametrize("opcode", [*range(0x25, 0x100, 0x1D), OPCODES["verbosity"], 0x1F])
def test_unknown_commands_are_skipped(client, opcode):
    assert (
        say(client, pack(opcode), pack(opcode, value=b"v" * 100_000)) == [error(opcode, UNKNOWN_COMMAND)] * 2
    )


def test_sasl_is_unknown_without_it(client):
    assert say(
        client,
        pack("sasl_list"),
        pack("sasl_auth", b"PLAIN", b"\0user\0password"),
        pack("sasl_step", b"PLAIN", b"x" * 1000),
    ) == [error(name, UNKNOWN_COMMAND) for name in ("sasl_list", "sasl_auth", "sasl_step")]


MISUSES = {
    "get without a key": (pack("get"), INVALID),
    "get with a value": (pack("get", b"k", b"value"), INVALID),
    "get with extras": (pack("get", b"k", extras=b"1234"), INVALID),
    "set without extras": (pack("set", b"k", b"value"), INVALID),
    "set without a key": (store("set", b"", b"value"), INVALID),
    "setq with short extras": (pack("setq", b"k", extras=b"1234"), INVALID),
    "append with extras": (pack("append", b"k", b"v", b"12345678"), INVALID),
    "delete with a value": (pack("delete", b"k", b"v"), INVALID),
    "incr without extras": (pack("incr", b"k"), INVALID),
    "incr with a value": (pack("incr", b"k", b"v", b"x" * 20), INVALID),
    "touch without extras": (pack("touch", b"k"), INVALID),
    "gat without a key": (touch("gat", b"", 5), INVALID),
    "noop with a key": (pack("noop", b"k"), INVALID),
    "version with a value": (pack("version", value=b"v"), INVALID),
    "quit with a value": (pack("quit", value=b"v"), INVALID),
    "flush with a key": (pack("flush", b"k"), INVALID),
    "flush with long extras": (pack("flush", extras=b"12345678"), INVALID),
    "stat with extras": (pack("stat", extras=b"1234"), INVALID),
    "sasl_list with a key": (pack("sasl_list", b"k"), INVALID),
    "sasl_auth without a key": (pack("sasl_auth"), INVALID),
    "a long key": (pack("get", b"k" * 251), INVALID),
    "a very long key": (pack("get", b"k" * 2000), INVALID),
    "a body without room for its key": (
        binary.HEADER.pack(0x80, 0, 10, 0, 0, 0, 5, 0, 0) + b"k" * 10,
        UNKNOWN_COMMAND,
    ),
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_misuse_ends_the_connection(client, misuse):
    request, status = MISUSES[misuse]
    reply = ask(client, request)
    assert (reply.status, reply.value, reply.opcode) == (status, TEXTS[status], request[1])
    assert client.rest() == b""


def test_a_wrong_magic_ends_the_connection_without_a_reply(client, key):
    client.send(pack("noop") + b"get " + key + b"\r\n" + b"x" * 24)
    assert binary.read(client).short() == done("noop", cas=False)
    assert client.rest() == b""


def test_the_first_byte_decides_for_good(server):
    with server.connect() as text, server.connect() as other:
        assert text.ask(b"mn\r\n") == b"MN"
        text.send(pack("noop") + b"\r\n")
        assert text.line() != b""
        assert ask(other, pack("noop")).status == OK


@pytest.mark.parametrize(("name", "end"), [("quit", 24), ("quitq", 0)])
def test_quit(client, name, end):
    client.send(pack(name) + pack("noop"))
    said = client.rest()
    assert len(said) == end
    assert said == (b"" if not end else pack("quit").replace(b"\x80", b"\x81", 1))


def test_too_large_values_are_skipped(client, key):
    long = pack("noop") * ((1 << 20) // 24 + 1000)
    assert say(
        client,
        store("set", key, b"old"),
        store("add", key, long),
        pack("append", key, long),
        pack("get", key),
        store("setq", key, long),
        pack("noop"),
    ) == [
        done("set"),
        error("add", TOO_LARGE),
        error("append", TOO_LARGE),
        hit("get", b"old"),
        error("setq", TOO_LARGE),
        done("noop", cas=False),
    ]
