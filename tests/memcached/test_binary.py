"""memcached's binary protocol. What is expected here is what memcached 1.6.45 answers to the same requests.
"""

import struct

import pytest

from harness.memcached import binary
from harness.memcached.binary import (
    EXISTS,
    NOT_A_NUMBER,
    NOT_FOUND,
    NOT_STORED,
    OK,
    OPCODES,
    ask,
    count,
    done,
    error,
    hit,
    number,
    pack,
    replies,
    say,
    store,
    touch,
)

EVERY_MODE = True


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
