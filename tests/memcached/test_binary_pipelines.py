"""memcached's binary protocol: pipelines, values in pieces, and several connections."""

import random
import threading

import pytest

from harness.memcached import binary
from harness.memcached.binary import OK, ask, count, done, hit, pack, say, store, touch

EVERY_MODE = True


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
