"""Meta commands under several clients, in pipelines, with long values, and what differs from memcached."""

import base64
import threading

import pytest

EVERY_MODE = True
CLIENTS = 8


def ask(client, *requests):
    """Sends requests and a noop behind them; the lines of the answer."""
    client.send(b"".join(request + b"\r\n" for request in requests) + b"mn\r\n")
    return list(iter(client.line, b"MN"))


def at_once(server, requests_of):
    """Runs one client per thread, all from one moment on; gives what each was answered."""
    barrier, answers = threading.Barrier(CLIENTS), [None] * CLIENTS

    def run(number):
        with server.connect() as client:
            barrier.wait()
            answers[number] = [ask(client, request) for request in requests_of(number)]

    threads = [threading.Thread(target=run, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def marks(line):
    return {mark for mark in line.split(b" ")[1:] if mark in (b"W", b"X", b"Z")}


@pytest.mark.parametrize("prepare, get, others", [
    ([], b"mg %s v N30", {b"Z"}),
    ([b"ms %s 3 T500\r\nold"], b"mg %s v R600", {b"Z"}),
    ([b"ms %s 3\r\nold", b"md %s I T30"], b"mg %s v", {b"Z", b"X"}),
], ids=["vivify", "recache", "invalidate"])  # fmt: skip
def test_one_of_many_clients_has_the_token(server, key, prepare, get, others):
    rounds = 40
    keys = [b"%s-%d" % (key, number) for number in range(rounds)]
    with server.connect() as client:
        for one in keys:
            assert ask(client, *[line % one for line in prepare]) == [b"HD"] * len(prepare)
    answers = at_once(server, lambda _: [get % one for one in keys])
    for number in range(rounds):
        seen = [marks(answer[number][0]) for answer in answers]
        won = [mark for mark in seen if b"W" in mark]
        assert len(won) == 1, seen
        assert all(mark == others for mark in seen if b"W" not in mark), seen


def test_a_cas_value_lets_one_of_many_through(server, key):
    rounds = 30
    with server.connect() as client:
        for number in range(rounds):
            assert ask(client, b"ms %s-%d 1 E%d\r\n0" % (key, number, 10**15)) == [b"HD"]
    change = [b"ms %s-%d 1 MA C%d\r\nx", b"ma %s-%d C%d", b"ms %s-%d 2 C%d\r\nyz", b"md %s-%d I C%d"]
    answers = at_once(
        server, lambda client: [change[client % 4] % (key, number, 10**15) for number in range(rounds)]
    )
    for number in range(rounds):
        ended = [answer[number][0] for answer in answers]
        assert (ended.count(b"HD"), ended.count(b"EX")) == (1, CLIENTS - 1), ended


def test_numbers_of_many_clients_add_up(server, key):
    at_once(server, lambda _: [b"ma %s N0 J1 D1 q" % key] * 50)
    with server.connect() as client:
        assert ask(client, b"mg %s v" % key) == [b"VA 3", b"400"]


def test_cas_values_of_stores_are_those_that_gets_tell(client, key):
    seen = set()
    for request in [
        b"ms %s 1 c\r\n1", b"ma %s c", b"ms %s 1 MA c\r\n2", b"ms %s 2 MR c\r\n33", b"ms %s 1 MP c N0\r\n4"
    ] * 5:
        (told,) = ask(client, request % key)
        (found,) = ask(client, b"mg %s c" % key)
        assert told == found
        seen.add(told)
    assert len(seen) == 25


@pytest.mark.parametrize("value_bytes", [20_000, 700_000])
@pytest.mark.parametrize("encoded", [False, True])
def test_long_values(client, key, value_bytes, encoded):
    value = b"v" * value_bytes
    word, flag = (base64.b64encode(key), b" b") if encoded else (key, b"")
    assert ask(client, b"ms %s %d T90 F5 c k O77%s\r\n%s" % (word, value_bytes, flag, value))[0].startswith(
        b"HD c"
    )
    assert ask(client, b"ms %s %d q MR%s\r\n%s" % (word, value_bytes, flag, value)) == []
    assert ask(client, b"ms %s %d ME k O78%s\r\n%s" % (word, value_bytes, flag, value)) == [
        b"NS k%s%s O78" % (word, flag)
    ]
    assert ask(client, b"mg %s v s O79%s" % (word, flag)) == [
        b"VA %d s%d O79" % (value_bytes, value_bytes), value
    ]
    assert ask(client, b"ms %s %d Z%s\r\n%s" % (word, value_bytes, flag, value)) == [
        b"CLIENT_ERROR invalid flag"
    ]
    too_long = 2 << 20
    client.send(b"ms %s %d%s\r\n%s\r\nmn\r\n" % (word, too_long, flag, b"x" * too_long))
    assert [client.line(), client.line()] == [b"SERVER_ERROR object too large for cache", b"MN"]


def test_pipelines_keep_their_order(client, key):
    """Meta and classic commands, quiet and not, in one batch and over several."""
    requests, expected = [], []
    for number in range(300):
        one = b"%s-%d" % (key, number)
        requests += [
            b"ms %s 3 q\r\nabc" % one, b"mg %s v k O%d" % (one, number), b"get %s" % one,
            b"mg none-%s v q" % one
        ]
        expected += [b"VA 3 k%s O%d" % (one, number), b"abc", b"VALUE %s 0 3" % one, b"abc", b"END"]
    assert ask(client, *requests) == expected


def test_a_pipeline_of_gets_larger_than_the_output(client, key):
    value = b"x" * 9000
    assert ask(client, b"ms %s 9000\r\n%s" % (key, value)) == [b"HD"]
    assert ask(client, *[b"mg %s v O%d" % (key, number) for number in range(100)]) == [
        line for number in range(100) for line in (b"VA 9000 O%d" % number, value)
    ]


def test_binary_keys_may_hold_anything(client, key):
    word = base64.b64encode(b"a \r\n" + key)
    assert ask(client, b"ms %s 2 b k\r\nab" % word) == [b"HD k%s b" % word]
    assert ask(client, b"mg %s b k v" % word) == [b"VA 2 k%s b" % word, b"ab"]
    (line,) = ask(client, b"me %s b" % word)
    assert line.startswith(b"ME %s exp=-1 " % word)


def test_me_shows_the_facts_of_an_item(client, key):
    assert ask(client, b"me %s" % key) == [b"EN"]
    assert ask(client, b"set %s 0 100 2\r\nab" % key) == [b"STORED"]
    (line,) = ask(client, b"me %s" % key)
    words = dict(word.split(b"=") for word in line.split(b" ")[2:])
    assert list(words) == [b"exp", b"la", b"cas", b"fetch", b"cls", b"size"]
    assert 60 <= int(words[b"exp"]) <= 100 and words[b"fetch"] == b"no"
    assert ask(client, b"mg %s c u" % key) == [b"HD c" + words[b"cas"]]
    line = ask(client, b"mg %s v l" % key, b"me %s" % key)[-1]
    assert b" la=0 " in line or b" la=1 " in line
    assert b" fetch=yes " in line
