"""Meta commands beside the current memcached: the same bytes to both, the same answers, but for numbers that
are each server's own.

`K` stands for a key that no other request has. CAS values that a client chooses have 15 digits here, so that
they are not taken for a server's own."""

import re
import time
import uuid

import pytest

from harness.memcached.peer import path_of_current_memcached, running
from harness.memcached.wire import Connection
from harness.poll import until

EVERY_MODE = True
MANY_FLAGS = b"c f h k l q s t u v O1 N1 R1 T1 C1 E1 F1 D1 J1 M1"

GETS = [
    b"mg K", b"mg K v", b"mg K k O9", b"mg K k O9 q", b"mg K v q u",
    b"ms K 2\r\nab\r\nmg K\r\nmg K v\r\nmg K q\r\nmg K v q",
    b"ms K 2 F7 T90\r\nab\r\nmg K s v t f c k O1 q\r\nmg K O1 k c f t s\r\nmg  K   v  s ",
    b"set K 3 0 2\r\nab\r\nmg K s v t f k\r\nget K\r\nmg K h",
    b"ms K 2\r\nab\r\nmg K k1 v5 q1 f9 P L3", b"ms K 2\r\nab\r\nmg K O v",
    (b"ms K 2\r\nab\r\nmg K t T50\r\nmg K T60 t\r\nmg K T00030 t\r\nmg K T0 t\r\nmg K T- t\r\n"
     b"mg K v T-1\r\nmg K v"),
    b"ms K 2\r\nab\r\nmg K T2592000 t\r\nmg K T2592001",
    b"ms K 2\r\nab\r\nmg K h u\r\nmg K h u\r\nget K\r\nmg K h u\r\nms K 2\r\nab\r\nmg K h",
    b"ms K 2\r\nab\r\nmg K h l\r\nmg K h l v\r\nmg K l h",
    b"ms K 0\r\n\r\nmg K s v",
    (b"ms K 2 E500000000000000\r\nab\r\nmg K C500000000000000 v c\r\nmg K C500000000000001 v c\r\n"
     b"mg K C500000000000000\r\nmg K v"),
    (b"ms K 2 E500000000000000 F7\r\nab\r\nmg K C500000000000000 v k s t f O1 q\r\n"
     b"mg K C500000000000000 v T100 t\r\nmg K C5 v T30 t\r\nmg K t"),
    (b"mg K C5 v\r\nmg K C5 v q\r\nmg K N30 E500000000000000 C500000000000000 v c s\r\n"
     b"mg K C500000000000000 v s t"),
    (b"ms K 2 E500000000000000\r\nab\r\nmd K I E700000000000000\r\nmg K C700000000000000 v\r\n"
     b"mg K C700000000000000 v\r\nmg K C6 v R30"),
    b"ms K 2\r\nab\r\nmg K C0 v\r\nmg K C18446744073709551615 v u h\r\nmg K C v\r\nmg K C-1 v",
    b"ms K 2\r\nab\r\nmg K\nmg K v\nmn x",
]  # fmt: skip

TOKENS = [
    b"mg K N30 t v s k O5 f h l E100000000000001 c\r\nmg K N30 t v s k O5 f h l c\r\nmg K t v h",
    b"mg K v N0 q\r\nmg K v N0 q t\r\nms K 1\r\nx\r\nmg K v N0", b"mg K N-1\r\nmg K", b"mg K N-\r\nmg K t",
    b"mg K N30 T60 t\r\nmg K t", b"mg K T60 N30 t\r\nmg K t", b"mg K t N30\r\nmg K t",
    b"mg K R30 N10 t v\r\nmg K R30 v t",
    b"ms K 1 T50\r\nx\r\nmg K R60 t v\r\nmg K R60 t v\r\nmg K v",
    b"ms K 1 T50\r\nx\r\nmg K R40 t v\r\nmg K R51 t v\r\nmg K v",
    b"ms K 1 T50\r\nx\r\nmg K T100 R60 t\r\nmg K R60 T200 t\r\nmg K R60 T200 t",
    b"ms K 1 T50\r\nx\r\nmg K R60 T200 t\r\nmg K R60 T200 t",
    b"ms K 1 T50\r\nx\r\nmg K R0 v\r\nmg K R-1 v", b"ms K 1\r\nx\r\nmg K R60 v",
    b"ms K 2 E500000000000000 T90 F5\r\nab\r\nmd K I T30\r\nmg K v t f s k O1 q\r\nmg K v t\r\nget K",
    b"ms K 2 E500000000000000 T90\r\nab\r\nmd K I C500000000000000 E700000000000000\r\nmg K c t\r\nmg K c s",
    b"ms K 2 E500000000000000 T90\r\nab\r\nmd K I C500000000000001 E700000000000000 O9 k q\r\nmg K c t",
    (b"ms K 2 E500000000000000 T90\r\nab\r\nmd K I E700000000000000\r\nms K 3 C600000000000000 I T500\r\n"
     b"old\r\nmg K v t\r\nmg K v t"),
    (b"ms K 2 E500000000000000\r\nab\r\nmd K I E700000000000000\r\nmg K v\r\nms K 3 C600000000000000 I\r\n"
     b"old\r\nmg K v"),
    b"ms K 2 E500000000000000\r\nab\r\nms K 3 C400000000000000 I s\r\nabc\r\nmg K v\r\nmg K v\r\nmg K",
    b"ms K 2 E500000000000000\r\nab\r\nms K 3 C600000000000000 I c s\r\nabc\r\nmg K v c",
    b"ms K 2\r\nab\r\nmd K I\r\nms K 2 I\r\ncd\r\nmg K v",
    b"ms K 1\r\n5\r\nmd K I\r\nma K v\r\nma K D100 v\r\nmg K v",
    b"ms K 2 E500000000000000 T90 F5\r\nab\r\nmd K x\r\nmg K c t s v f",
    b"ms K 2 E500000000000000 T90 F5\r\nab\r\nmd K x T33 F9\r\nmg K c t s v f",
    b"ms K 1\r\n5\r\nmd K I T30\r\nincr K 1\r\nmg K v", b"ms K 1\r\n9\r\nmd K I T30\r\nincr K 1\r\nmg K v",
    b"ms K 1\r\n5\r\nmd K I\r\ntouch K 90\r\nmg K v t",
    b"set K 0 0 1\r\n5\r\ntouch K 0\r\nmg K h t", b"set K 0 0 1\r\n5\r\ntouch K 90\r\nmg K h",
    b"set K 0 0 1\r\n5\r\nincr K 1\r\nmg K h v\r\nincr K 1\r\nmg K h",
    b"ms K 2 T90 F5\r\nab\r\nmd K x I\r\nmg K t s v f\r\nmg K t s v f",
    b"ms K 2 T90\r\nab\r\nmd K x I T5 E800000000000000\r\nmg K c t s v\r\nmg K c",
]  # fmt: skip

STORES = [
    b"ms K 2 c q\r\nab", b"ms K 2 c k O7 s F3\r\nab", b"ms K 2 T-1\r\nab\r\nmg K v",
    b"ms K 2 h l t v x\r\nab\r\nmg K v",
    b"ms K 2 ME\r\nab\r\nms K 2 ME q O1\r\ncd\r\nms K 2 MR q\r\nef\r\nmg K v", b"ms K 2 MR c k s\r\nab",
    b"ms K 2 MSET\r\nab\r\nmg K v",
    b"ms K 2 MA\r\nab", b"ms K 2 MA N0 s\r\nab\r\nms K 2 MA s c\r\ncd\r\nms K 1 MP s\r\n-\r\nmg K v t",
    b"ms K 2 MP N10 T5\r\nab\r\nmg K v t",
    b"ms K 2 F9 T50\r\nab\r\nms K 2 MA F1 T2\r\ncd\r\nmg K v t f",
    b"ms K 2 MR C5\r\nab", b"ms K 2 C5 c s\r\nab", b"ms K 2\r\nab\r\nms K 2 C0 c s k\r\nab",
    b"ms K 2\r\nab\r\nms K 2 MA C0 s\r\nab",
    b"ms K 2\r\nab\r\nms K 2 ME C0 c s k\r\nab", b"ms K 2\r\nab\r\nms K 3 C99 c s k O9\r\nabc",
    b"ms K 2 E100000000000000 c\r\nab\r\nmg K c\r\nms K 2 C100000000000000 c\r\ncd\r\nmg K v",
    (b"ms K 2 E100000000000000\r\nab\r\nms K 1 MA C100000000000001\r\nx\r\nms K 1 MA C100000000000000\r\n"
     b"x\r\nmg K v"),
    (b"ms K 2 E100000000000000\r\nab\r\ngets K\r\ncas K 0 0 1 100000000000001\r\nx\r\n"
     b"cas K 0 0 1 100000000000000\r\nx\r\nget K"),
    b"ms K 2 Tx\r\nab", b"ms K 2 Z\r\nab", b"ms K 2 F1 F2\r\nab", b"ms K 2 M\r\nab", b"ms K 2 MX q\r\nab",
    b"ms K 2 Mset\r\nab",
    b"ms K 2 F4294967296\r\nab", b"ms K 2 F4294967295\r\nab\r\nmg K f", b"ms K 2 F-1\r\nab",
    b"ms K 2 F\r\nab", b"ms K 2 C\r\nab", b"ms K 2 C-1\r\nab",
    b"ms K 2 E99999999999999999999\r\nab", b"ms K 2 T99999999999\r\nab", b"ms K 2 Tx Dx\r\nab",
    b"ms K 2 S100\r\nab", b"ms K 2 2\r\nab",
    b"ms K x\r\nabc", b"ms K -1\r\nabc", b"ms K +2\r\nabc", b"ms K 02\r\nab", b"ms K S2\r\nabc",
    b"ms K 2 @\r\nabc", b"ms K", b"ms",
    b"ms K 3\r\nabcd\r\nmn", b"ms K 2 " + MANY_FLAGS[:-9] + b"\r\nab",
    b"ms K 2 " + MANY_FLAGS[:-6] + b"\r\nab", b"ms " + b"k" * 251 + b" 2 q\r\nab",
    b"ms K 2 O1234567890123456789012345678901\r\nab", b"ms K 2 O12345678901234567890123456789012\r\nab",
]  # fmt: skip

DELETES = [
    b"md K", b"md K q", b"md K q k O1", b"ms K 2\r\nab\r\nmd K q\r\nmg K",
    b"ms K 2\r\nab\r\nmd K k O1\r\nmg K", b"ms K 2\r\nab\r\nmd K C5 k\r\nmg K",
    b"ms K 2\r\nab\r\nmd K C0\r\nmg K", b"ms K 2 E100000000000000\r\nab\r\nmd K C100000000000000 q\r\nmg K",
    b"ms K 2\r\nab\r\nmd K T5\r\nmg K",
    b"md K T30 I x N3 F5", b"md K v s t c f h l u", b"md K O", b"md K z", b"md K q q", b"md K Cx",
    b"md K @ q", b"md", b"md " + b"k" * 251 + b" q",
    b"md K O12345678901234567890123456789012",
]  # fmt: skip

NUMBERS = [
    b"ma K", b"ma K q", b"ma K N0",
    (b"ma K N0 v\r\nma K v\r\nma K D5 v t k O1\r\nma K MD D2 v\r\nma K M- D2 v\r\nma K MD D200 v\r\n"
     b"ma K M+ v\r\nma K MI v"),
    b"ma K J13 N100 v t k O1\r\nma K J13 N100 T5 v t k O1", b"ma K N30 J5 D9 c k O1 q\r\nmg K v",
    b"ma K T50 N0 J5 t v\r\nma K t", b"ma K N0 T50 t\r\nma K t",
    b"ma K N0 J18446744073709551615 v\r\nma K v", b"ms K 2\r\nab\r\nma K v\r\nma K q",
    b"ms K 0\r\n\r\nma K C4 v\r\nma K v",
    b"ms K 1\r\n5\r\nma K v t k s f O1 h l q\r\nma K T30 t v\r\nma K t T60 v\r\nma K t",
    b"ms K 1 E5\r\n5\r\nma K C4 v k\r\nma K C5 v E100000000000009\r\nmg K c v\r\nma K C0 v",
    b"ms K 2\r\n10\r\nma K MD v\r\nmg K v s\r\nma K MI D95 v\r\nma K MD D200 v\r\nmg K v s",
    b"ms K 20\r\n18446744073709551615\r\nma K v\r\nmg K v",
    b"ma K MX", b"ma K Minc v", b"ma K MINCR N0 v", b"ma K M", b"ma K Dx", b"ma K Jx N0", b"ma K D",
    b"ma K N", b"ma K Q5", b"ma K @ q", b"ma",
    b"ma " + b"k" * 251 + b" q", b"ma " + b"k" * 251, b"ma " + b"k" * 251 + b" !",
    b"ma " + b"k" * 251 + b" q b !", b"ma K O12345678901234567890123456789012",
]  # fmt: skip

MISUSE = [
    b"mg", b"mg ", b"mgg K", b"mx K", b"MG K", b" mg K", b"mg\tK", b"mg " + b"k" * 251, b"mg K v v",
    b"mg K z", b"mg K T+30", b"mg K T", b"mg K T30x", b"mg K C+5",
    b"mg K C18446744073709551616", b"mg K C18446744073709551615", b"mg K J18446744073709551616",
    b"mg K T-99999999999", b"mg K R2147483648", b"mg K N--5",
    b"mg K Dx", b"mg K Fx", b"mg K Cx", b"mg K F5 Cx", b"mg K Tx Fx", b"mg K Fx Tx", b"mg K Tx z",
    b"mg K z Tx", b"mg K Tx f f", b"mg K f f z", b"mg K Tx Dx", b"mg K Dx Tx",
    b"mg K \x00", b"mg K \x7f", b"mg K \xff", b"mg K !", b"mg K Tx @", b"mg K f f @", b"mg K [", b"mg K `",
    b"mg K {", b"mg K 9", b"mg K T 5",
    b"mg K MX D5 J4 F6 x I C5 E5", b"mg K O1 O2", b"mg K O1234567890123456789012345678901",
    b"mg K O12345678901234567890123456789012",
    b"mg K O12345678901234567890123456789012 z", b"mg K " + MANY_FLAGS, b"mn", b"mn q k O1", b"me", b"me K",
    b"me " + b"k" * 251, b"me K @ q",
]  # fmt: skip

BASE64 = [
    (b"ms Zm9v 2 b k c\r\nab\r\nmg Zm9v b v k\r\nget foo\r\nma Zm9v b\r\nmd Zm9v b k q\r\nmd Zm9v b k\r\n"
     b"mg Zm9v b k\r\nmg Zm9v b k q"),
    b"ms Zm8= 1 b k T90\r\n5\r\nmg Zm8= b k v t\r\nmg Zm9= b k\r\nma Zm8= b v k\r\nmd Zm8= b k",
    b"ms IA== 1 b\r\nx\r\nmg IA== b k v\r\nmd IA== b q",
    b"ms YWI= 2 b E500000000000000\r\nab\r\nmg YWI= b C500000000000000 v k\r\nmg YWI= b C6 v k\r\nmd YWI= b",
    b"mg Zm9 b v k", b"mg Zm9v= b", b"mg Zm8== b", b"mg = b", b"mg ==== b", b"mg Z-_v b", b"mg Zm9v b k b",
    b"mg Zm9v b E", b"ms a 2 b I\r\nab",
    b"ms b 2 c k O7 s b\r\nab", b"ma a b", b"ma a Zb b", b"md a b", b"mg " + b"a2tr" * 62 + b" b k",
    b"mg " + b"a2tr" * 63 + b" b k",
    # A bad key beside another mistake: the key is told of first.
    b"ms Zm9 2 b Tx\r\nab", b"ms Zm9 x b\r\nab", b"mg Zm9 b Ex", b"md Zm9 b Cx", b"ma Zm9 b Dx",
    b"ma Zm9 b M?", b"ms Zm9 2 b M?\r\nab", b"mn Zm9 b",
]  # fmt: skip

FETCHED = re.compile(rb" h[01](?= |$)")
OWN_NUMBER = re.compile(rb" c[1-9]\d{0,13}(?= |$)")
SECONDS = re.compile(rb"(?:t|l)(\d+)")


def said(address, request):
    """The lines of the answer; a noop behind the request ends it."""
    with Connection(address) as client:
        client.send(request + b"\r\nmn end\r\n")
        lines = []
        while (line := client.line()) not in (b"MN", None):
            lines.append(OWN_NUMBER.sub(b" c#", line))
        return lines


def same(ours, theirs):
    """Returns whether two answers are the same, though one of them came a second later."""
    words = [[word for line in lines for word in [*line.split(b" "), b"\n"]] for lines in (ours, theirs)]
    if len(words[0]) != len(words[1]):
        return False
    for one, other in zip(*words, strict=True):
        seconds = SECONDS.fullmatch(one), SECONDS.fullmatch(other)
        if all(seconds):
            if abs(int(seconds[0][1]) - int(seconds[1][1])) > 2:
                return False
        elif one != other:
            return False
    return True


@pytest.fixture(scope="module")
def peer():
    path, why_not = path_of_current_memcached()
    if path is None:
        pytest.skip(f"no current memcached: {why_not}")
    with running(path, "-t", "1") as address:
        yield address


def test_the_age_of_an_item_that_was_never_fetched(server, peer):
    """`l` and `la` count from the store, also where nobody has asked for an access before; never as the
    access of what was fetched or overwritten since."""
    key, fetched, overwritten = (uuid.uuid4().hex.encode() for _ in range(3))
    addresses = (server.address, peer)
    stored_s = time.monotonic()
    for address in addresses:
        for one in (key, fetched, overwritten):
            assert said(address, b"set %b 0 0 2\r\nab" % one) == [b"STORED"]

    def asked(address, key):
        (told,) = said(address, b"me %b" % key)
        return int(re.search(rb" la=(-?\d+) ", told)[1])

    until(lambda: all(asked(address, key) >= 2 for address in addresses), "the items to be two seconds old")
    most = time.monotonic() - stored_s + 1
    for address in addresses:
        (told,) = said(address, b"mg %b h l" % key)
        hit, age = re.fullmatch(rb"HD h(\d) l(\d+)", told).groups()
        assert hit == b"0" and 2 <= int(age) <= most
    since_s = time.monotonic()
    said(server.address, b"get %b\r\nset %b 0 0 2\r\ncd" % (fetched, overwritten))
    # A reader may tell the owner of an item of its fetch later.
    until(
        lambda: said(server.address, b"me %b" % fetched)[0].find(b" fetch=yes ") >= 0, "the fetch to be noted"
    )
    assert asked(server.address, fetched) == -1
    assert said(server.address, b"mg %b l" % fetched) == [b"HD l0"]
    # -1: not known, as it was overwritten in place.
    age = asked(server.address, overwritten)
    (told,) = said(server.address, b"mg %b h l" % overwritten)
    most = time.monotonic() - since_s + 1
    assert -1 <= age <= most
    assert int(re.fullmatch(rb"HD h0 l(\d+)", told)[1]) <= most


GROUPS = {
    "gets": GETS, "tokens": TOKENS, "stores": STORES, "deletes": DELETES, "numbers": NUMBERS,
    "misuse": MISUSE, "base64": BASE64
}


@pytest.mark.parametrize("group", GROUPS)
def test_as_memcached(server, setup, peer, group):
    # Under CREW others than the owner tell it of their reads now and then.
    told_late = "crew" in setup[1]
    different = []
    for request in GROUPS[group]:
        request = request.replace(b"K", uuid.uuid4().hex.encode())
        ours, theirs = said(server.address, request), said(peer, request)
        if told_late:
            ours, theirs = ([FETCHED.sub(b"", line) for line in lines] for lines in (ours, theirs))
        if not same(ours, theirs):
            different.append((request, ours, theirs))
    for request, ours, theirs in different:
        print(f"{request!r}\n  ours   {ours}\n  theirs {theirs}")
    assert not different
