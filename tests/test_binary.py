"""memcached's binary protocol. What is expected here is what memcached 1.6.45 answers to the same requests.
"""

import random
import struct
import threading

import pytest

from harness import binary
from harness.binary import (
    EXISTS,
    INVALID,
    NOT_A_NUMBER,
    NOT_FOUND,
    NOT_STORED,
    OK,
    OPCODES,
    TEXTS,
    TOO_LARGE,
    UNKNOWN_COMMAND,
    ask,
    count,
    pack,
    replies,
    store,
    touch,
)

EVERY_MODE = True


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


def test_gets(client, key):
    absent = key + b"-absent"
    assert say(
        client,
        store("set", key, b"value", flags=0xDEADBEEF),
        *(pack(name, key) for name in ("get", "getq", "getk", "getkq")),
        *(pack(name, absent) for name in ("get", "getq", "getk", "getkq")),
    ) == [
        done("set"),
        hit("get", b"value", 0xDEADBEEF),
        hit("getq", b"value", 0xDEADBEEF),
        hit("getk", b"value", 0xDEADBEEF, key),
        hit("getkq", b"value", 0xDEADBEEF, key),
        error("get", NOT_FOUND),
        (OPCODES["getk"], NOT_FOUND, b"", absent, b"", False),
    ]


def test_touches(client, key):
    absent = key + b"-absent"
    names = ("touch", "gat", "gatq", "gatk", "gatkq")
    assert say(
        client,
        store("set", key, b"value", flags=7),
        *(touch(name, key, 1000) for name in names),
        *(touch(name, absent, 1000) for name in names),
    ) == [
        done("set"),
        hit("touch", b"", 7),
        hit("gat", b"value", 7),
        hit("gatq", b"value", 7),
        hit("gatk", b"value", 7, key),
        hit("gatkq", b"value", 7, key),
        error("touch", NOT_FOUND),
        error("gat", NOT_FOUND),
        (OPCODES["gatk"], NOT_FOUND, b"", absent, b"", False),
    ]
    # A Unix time that has passed.
    assert say(client, touch("touch", key, 40 * 86400), pack("get", key)) == [
        hit("touch", b"", 7),
        error("get", NOT_FOUND),
    ]


def test_stores(client, key):
    other = key + b"-other"
    assert say(
        client,
        store("add", key, b"1"),
        store("add", key, b"2"),
        store("replace", other, b"2"),
        store("replace", key, b"3", flags=5),
        pack("append", key, b">"),
        pack("prepend", key, b"<"),
        pack("append", other, b"x"),
        pack("prepend", other, b"x"),
        pack("get", key),
        store("set", other, b""),
        pack("get", other),
    ) == [
        done("add"),
        error("add", EXISTS),
        error("replace", NOT_FOUND),
        done("replace"),
        done("append"),
        done("prepend"),
        error("append", NOT_STORED),
        error("prepend", NOT_STORED),
        hit("get", b"<3>", 5),
        done("set"),
        hit("get", b""),
    ]


def test_quiet_stores_tell_only_errors(client, key):
    other = key + b"-other"
    assert say(
        client,
        store("setq", key, b"1"),
        store("addq", key, b"2"),
        store("addq", other, b"2"),
        store("replaceq", key + b"-none", b"2"),
        store("replaceq", key, b"10"),
        count("incrq", key, 5),
        count("decrq", key, 1),
        count("incrq", key + b"-none"),
        pack("getq", key),
        pack("appendq", key, b">"),
        pack("prependq", key, b"<"),
        pack("appendq", key + b"-none", b">"),
        count("incrq", key),
        pack("get", key),
        pack("deleteq", key),
        pack("deleteq", key),
        pack("getkq", key),
    ) == [
        error("addq", EXISTS),
        error("replaceq", NOT_FOUND),
        error("incrq", NOT_FOUND),
        hit("getq", b"14"),
        error("appendq", NOT_STORED),
        error("incrq", NOT_A_NUMBER),
        hit("get", b"<14>"),
        error("deleteq", NOT_FOUND),
    ]


def test_deletes(client, key):
    assert say(
        client, pack("delete", key), store("set", key, b"x"), pack("delete", key), pack("get", key)
    ) == [
        error("delete", NOT_FOUND),
        done("set"),
        done("delete", cas=False),
        error("get", NOT_FOUND),
    ]


def test_numbers(client, key):
    other = key + b"-other"
    assert say(
        client,
        count("incr", key),
        count("incr", key, 1, initial=10, exptime=0),
        count("incr", key, 5, initial=10, exptime=0),
        count("decr", key, 100),
        count("incr", key, 2**64 - 1),
        count("incr", key, 3),
        pack("get", key),
        count("decr", other, 1, initial=2**64 - 1, exptime=100),
        pack("get", other),
        count("decr", other, 1),
        store("set", key, b"text", flags=3),
        count("incr", key),
        count("incr", key, 1, 5, 0),
        store("set", key, b"9", flags=3),
        count("incr", key),
        pack("get", key),
    ) == [
        error("incr", NOT_FOUND),
        number("incr", 10),
        number("incr", 15),
        number("decr", 0),
        number("incr", 2**64 - 1),
        number("incr", 2),
        # As memcached: a number that gets shorter keeps its length.
        hit("get", b"2".ljust(20)),
        number("decr", 2**64 - 1),
        hit("get", b"18446744073709551615"),
        number("decr", 2**64 - 2),
        done("set"),
        error("incr", NOT_A_NUMBER),
        error("incr", NOT_A_NUMBER),
        done("set"),
        number("incr", 10),
        hit("get", b"10", 3),
    ]


def test_expiries(client, key):
    """Expiries have no sign: the largest is a time far away, and long past times are past."""
    assert say(
        client,
        store("set", key, b"x", exptime=0xFFFFFFFF),
        pack("get", key),
        store("set", key, b"y", exptime=40 * 86400),
        pack("get", key),
        count("incr", key, 1, initial=1, exptime=40 * 86400),
        pack("get", key),
    ) == [
        done("set"),
        hit("get", b"x"),
        done("set"),
        error("get", NOT_FOUND),
        number("incr", 1),
        error("get", NOT_FOUND),
    ]


@pytest.mark.parametrize("value", [b"v", b"v" * 10_000, b"v" * 300_000], ids=["short", "block", "long"])
def test_the_cas_value_of_a_reply_is_that_of_the_item(client, key, value):
    stored = ask(client, store("set", key, value))
    assert stored.cas == ask(client, pack("get", key)).cas != 0
    again = ask(client, store("replace", key, value, cas=stored.cas))
    assert (again.status, again.cas) == (OK, ask(client, pack("get", key)).cas)
    assert again.cas != stored.cas
    for request in (pack("append", key, b"1"), pack("prepend", key, b"1")):
        assert ask(client, request).cas == ask(client, pack("getk", key)).cas
    assert ask(client, touch("touch", key, 500)).cas == ask(client, touch("gat", key, 500)).cas
    ask(client, store("set", key, b"5"))
    assert ask(client, count("incr", key)).cas == ask(client, pack("get", key)).cas
    assert ask(client, count("decr", key, 2, 3, 4)).cas == ask(client, pack("get", key)).cas


def test_the_cas_value_is_compared(client, key):
    absent = key + b"-absent"
    old = ask(client, store("set", key, b"5")).cas
    new = ask(client, store("set", key, b"6")).cas
    assert old != new
    stale = [
        store("set", key, b"x", cas=old),
        store("add", key, b"x", cas=old),
        store("replace", key, b"x", cas=old),
        pack("append", key, b"x", cas=old),
        pack("prepend", key, b"x", cas=old),
        pack("appendq", key, b"x", cas=old),
        store("setq", key, b"x", cas=old),
        count("incr", key, cas=old),
        count("decrq", key, cas=old),
        pack("delete", key, cas=old),
        pack("deleteq", key, cas=old),
    ]
    assert {reply.status for reply in replies(client, *stale)} == {EXISTS}
    assert len(replies(client, *stale)) == len(stale)
    assert ask(client, pack("get", key)).cas == new
    assert say(
        client,
        store("set", absent, b"x", cas=5),
        store("add", absent, b"x", cas=5),
        pack("append", absent, b"x", cas=5),
        pack("delete", absent, cas=5),
        count("incr", absent, cas=5),
    ) == [
        error("set", NOT_FOUND),
        error("add", NOT_FOUND),
        error("append", NOT_STORED),
        error("delete", NOT_FOUND),
        error("incr", NOT_FOUND),
    ]
    assert say(client, store("setq", absent, b""), count("incr", absent, cas=5), pack("deleteq", absent)) == [
        error("incr", NOT_A_NUMBER)
    ]
    cas = new
    for request, value in (
        (lambda: count("incr", key, cas=cas), b"7"),
        (lambda: pack("append", key, b"1", cas=cas), b"71"),
        (lambda: pack("prepend", key, b"2", cas=cas), b"271"),
        # An add with a CAS value is a cas.
        (lambda: store("add", key, b"3", cas=cas), b"3"),
    ):
        cas = ask(client, request()).cas
        assert ask(client, pack("get", key)).value == value
    assert say(client, pack("delete", key, cas=cas), pack("get", key)) == [
        done("delete", cas=False),
        error("get", NOT_FOUND),
    ]


def test_opaques_come_back_in_order(client, key):
    requests = [store("set", key, b"x", opaque=0xFFFFFFFF)]
    requests += [pack(name, key, opaque=n) for n, name in enumerate(["get", "getk", "delete", "delete"])]
    assert [reply.opaque for reply in replies(client, *requests)] == [0xFFFFFFFF, 0, 1, 2, 3]


def test_version_noop_flush(client, start, workers):
    assert ask(client, pack("noop")).short() == done("noop", cas=False)
    version = ask(client, pack("version"))
    assert version.value and version.short() == (OPCODES["version"], OK, b"", b"", version.value, False)
    with start("-t", workers, "-m", "64").connect() as alone:
        delay = struct.pack("!I", 0)
        for flush in (pack("flush"), pack("flush", extras=delay)):
            assert say(alone, store("set", b"k", b"x"), flush, pack("get", b"k")) == [
                done("set"),
                done("flush", cas=False),
                error("get", NOT_FOUND),
            ]
        assert say(alone, store("setq", b"k", b"x"), pack("flushq"), pack("getq", b"k")) == []
        later = struct.pack("!I", 1000)
        assert say(alone, store("setq", b"k", b"x"), pack("flush", extras=later), pack("get", b"k")) == [
            done("flush", cas=False),
            hit("get", b"x"),
        ]


def statistics(client, *arguments):
    client.send(pack("stat", *arguments, opaque=9))
    found = {}
    while True:
        reply = binary.read(client)
        assert (reply.opcode, reply.status, reply.extras, reply.opaque, reply.cas) == (
            OPCODES["stat"], OK, b"", 9, 0
        )
        if not reply.key:
            assert not reply.value
            return found
        found[reply.key] = reply.value


def test_statistics(client, server):
    general = statistics(client)
    assert general[b"pid"] == b"%d" % server.pid
    assert general.keys() == {name.encode() for name in server.stats()}
    settings = statistics(client, b"settings")
    assert settings.keys() == {name.encode() for name in server.stats("settings")}
    assert ask(client, pack("stat", b"bogus")).short() == error("stat", NOT_FOUND)
    assert statistics(client, b"reset") == {}


def test_detail(client):
    assert statistics(client, b"detail on") == {}
    assert ask(client, pack("get", b"detail:key")).status == NOT_FOUND
    assert statistics(client, b"detail off") == {}
    assert statistics(client, b"detail dump") == {
        b"detailed": b"PREFIX detail get 1 hit 0 set 0 del 0\r\nEND\r\n"
    }
    for words in (b"detail", b"detail x", b"conns"):
        assert ask(client, pack("stat", words)).short() == error("stat", NOT_FOUND)
    assert statistics(client, b"reset") == {}


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


def test_what_is_too_large_is_swallowed(client, key):
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


def test_a_deep_pipeline(client, key):
    """More than fits any buffer, of all kinds, in one piece; a thread reads while this one writes."""
    rounds = 3000
    requests = b"".join(
        store("set", b"%b-%d" % (key, n % 50), b"%d" % n * (n % 400), flags=n, opaque=n)
        + pack("getq", b"%b-%d" % (key, n % 50), opaque=n)
        + store("setq", b"%b-q" % key, b"%d" % n)
        + pack("getk", b"%b-q" % key, opaque=n)
        for n in range(rounds)
    )
    sender = threading.Thread(target=client.send, args=(requests,))
    sender.start()
    for n in range(rounds):
        stored, found, last = binary.read(client), binary.read(client), binary.read(client)
        assert (stored.status, stored.opaque) == (OK, n)
        assert (found.value, found.flags, found.cas) == (b"%d" % n * (n % 400), n, stored.cas)
        assert (last.key, last.value) == (b"%b-q" % key, b"%d" % n)
    sender.join()


@pytest.mark.parametrize("size", [0, 1, 100, 16_300, 16_384, 70_000, 1_000_000])
def test_values_of_any_size_in_pieces(client, key, size):
    value = random.Random(size).randbytes(size)
    generator = random.Random(size)
    request = store("set", key, value, flags=1) + pack("append", key, b"end") + pack("getk", key)
    at = 0
    while at < len(request):
        piece = generator.choice([1, 23, 24, 1000, 16_384, 200_000])
        client.send(request[at : at + piece])
        at += piece
    stored, appended, found = (binary.read(client) for _ in range(3))
    assert (stored.status, appended.status) == (OK, OK)
    assert (found.key, found.value, found.flags, found.cas) == (key, value + b"end", 1, appended.cas)


def test_a_conversation_cut_at_every_byte(client, key):
    conversation = b"".join(
        [
            store("set", key, b"12", flags=9),
            pack("getk", key),
            count("incr", key),
            count("incr", key + b"-i", 1, 5, 0),
            touch("touch", key, 50),
            pack(0x77, value=b"skipped"),
            store("addq", key, b"x"),
            pack("delete", key),
            pack("delete", key + b"-i"),
            pack("getq", key),
        ]
    )
    whole = say(client, conversation)
    assert len(whole) == 9
    for cut in range(1, len(conversation)):
        client.send(conversation[:cut])
        assert say(client, conversation[cut:]) == whole, f"cut at {cut}"


def test_keys_of_any_bytes(client, key):
    """Spaces, line ends and zeros are bytes like others; 250 are the most."""
    for name in (key + b" \r\n\0\x80\xff", (key + b"k" * 250)[:250]):
        assert say(client, store("set", name, b"x"), pack("getk", name)) == [
            done("set"), hit("getk", b"x", 0, name)
        ]


def test_both_protocols_see_the_same_items(server, client, key):
    with server.connect() as text:
        assert text.ask(b"set %b 5 0 3\r\nabc\r\n" % key) == b"STORED"
        found = ask(client, pack("get", key))
        assert (found.value, found.flags) == (b"abc", 5)
        assert text.ask(b"gets %b\r\n" % key) == b"VALUE %b 5 3 %d" % (key, found.cas)


def test_increments_and_cas_of_many_connections(server, key):
    """Counts with an initial number, and cas loops on what set and cas themselves returned: no change is
    lost."""
    clients, rounds = 6, 150
    counter, list_key = key + b"-counter", key + b"-cas"

    def work():
        with server.connect() as mine:
            for _ in range(rounds):
                assert ask(mine, count("incr", counter, 1, initial=1, exptime=0)).status == OK
            cas, value = 0, 0
            for _ in range(rounds):
                while True:
                    stored = ask(mine, store("set", list_key, b"%d" % (value + 1), cas=cas)) if cas else None
                    if stored and stored.status == OK:
                        cas, value = stored.cas, value + 1
                        break
                    found = ask(mine, pack("get", list_key))
                    cas, value = found.cas, int(found.value)

    with server.connect() as first:
        ask(first, store("set", list_key, b"0"))
        threads = [threading.Thread(target=work) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert int(ask(first, pack("get", counter)).value) == clients * rounds
        assert int(ask(first, pack("get", list_key)).value) == clients * rounds
