"""The golden datagrams of testdata/native.txt: this suite's own codec reads and writes them, and the server
refuses what it must.

The codec here was written from docs/protocol.md, the server's is checked by cargo tests against the same
file."""

import pytest

from harness import native
from harness.native import Malformed
from harness.native import words as native_words
from harness.native.client import refusal
from harness.native.server import Difference

GOLDEN = list(native_words.datagrams())
REFUSED = list(native_words.refused())


@pytest.mark.parametrize(
    ("words", "data"), [pytest.param(w, d, id=name.replace(" ", "-")) for name, w, d in GOLDEN]
)
def test_golden_datagrams(words, data):
    assert native_words.write(words) == data
    assert native_words.say(data) == words


def test_golden_hashes():
    hashes = list(native_words.hashes())
    assert len(hashes) > 40
    for key, seed, expected in hashes:
        assert native.hash_of(key, seed) == expected, (key, seed)


@pytest.fixture(scope="module")
def server(port_of_each_kind):
    with port_of_each_kind.server("-t", 2, "-m", 64) as running:
        yield running


@pytest.mark.parametrize(
    ("outcome", "data"), [pytest.param(o, d, id=name.replace(" ", "-")) for name, o, d in REFUSED if d]
)
def test_refused_datagrams(server, outcome, data):
    """Dropped, or answered by a header alone that goes back to the right request."""
    with pytest.raises(Malformed):
        native.parse(data)
        assert outcome == "dropped"
        raise Malformed("of a kind that only servers send")
    names = {"dropped": "not_ours", "bad-request": "bad_datagrams", "version": "other_versions"}
    counted = Difference(server, *names.values(), "requests")
    items = server.stats()["curr_items"]
    with server.client(learn=False) as client:
        if outcome == "dropped":
            assert client.is_silent_to(data)
        else:
            client.send(data)
            answer = client.receive()
            assert native_words.name_of(refusal(answer)) == outcome
            header = native.Header.parse(answer)
            assert header.pack()[16:32] == data[16:32], "sequence, client and echo come back"
            assert len(answer) <= len(data)
    assert server.stats()["curr_items"] == items
    if outcome != "dropped" or len(data) >= native.HEADER_BYTES:
        assert sum(counted(name) for name in names.values()) == 1
    assert counted("requests") == (outcome == "dropped"), "the no-op alone"
