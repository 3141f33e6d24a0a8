"""One request, its exact reply: what a current memcached answers, command by command. `K` stands for the
test's key."""

import pytest

from harness.memcached.replies import ON_A_MISSING_KEY

BAD_LINE = b"CLIENT_ERROR bad command line format\r\n"
NOT_A_NUMBER = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
BAD_DELTA = b"CLIENT_ERROR invalid numeric delta argument\r\n"
BAD_EXPTIME = b"CLIENT_ERROR invalid exptime argument\r\n"
LONG = b"k" * 251

ON_A_NUMBER = {  # K holds "10" with the flags 5
    b"get K": b"VALUE K 5 2\r\n10\r\nEND\r\n",
    b"gat 0 K": b"VALUE K 5 2\r\n10\r\nEND\r\n",
    b"get K K": b"VALUE K 5 2\r\n10\r\nVALUE K 5 2\r\n10\r\nEND\r\n",
    b"get none K": b"VALUE K 5 2\r\n10\r\nEND\r\n",
    b"add K 0 0 1\r\nx": b"NOT_STORED\r\n",
    b"replace K 0 0 1\r\nx": b"STORED\r\n",
    b"append K 0 0 1\r\nx": b"STORED\r\n",
    b"prepend K 0 0 1\r\nx": b"STORED\r\n",
    b"cas K 0 0 1 18446744073709551615\r\nx": b"EXISTS\r\n",
    b"delete K": b"DELETED\r\n",
    b"delete K extra words": b"DELETED\r\n",
    b"incr K 5": b"15\r\n",
    b"incr K 0": b"10\r\n",
    b"incr K 18446744073709551615": b"9\r\n",
    b"decr K 3": b"7\r\n",
    b"decr K 11": b"0\r\n",
    b"incr K x": BAD_DELTA,
    b"incr K -1": BAD_DELTA,
    b"incr K 18446744073709551616": BAD_DELTA,
    b"decr K x": BAD_DELTA,
    b"touch K 0": b"TOUCHED\r\n",
    b"touch K 100": b"TOUCHED\r\n",
    b"touch K x": BAD_EXPTIME,
    b"gat x K": BAD_EXPTIME,
    b"gats x K": BAD_EXPTIME,
}

REFUSED = {
    b"": BAD_LINE,
    b"get": BAD_LINE,
    b"gets": BAD_LINE,
    b"gat": BAD_LINE,
    b"gat 0": BAD_LINE,
    b"gats 0": BAD_LINE,
    b"delete": BAD_LINE,
    b"touch": BAD_LINE,
    b"touch K": BAD_LINE,
    b"incr": BAD_LINE,
    b"incr K": BAD_LINE,
    b"decr K": BAD_LINE,
    b"set": BAD_LINE,
    b"set K": BAD_LINE,
    b"set K 0 0": BAD_LINE,
    b"set K 0 0 x": BAD_LINE,
    b"set K 0 0 -1": BAD_LINE,
    b"set K 0 0 2147483647": BAD_LINE,
    b"set K 0 0 4294967296": BAD_LINE,
    b"set K 0 0 99999999999999999999": BAD_LINE,
    # A refused store takes its body along, as far as its length could be read.
    b"set K 0 x 1\r\nx": BAD_LINE,
    b"set K x 0 1\r\nx": BAD_LINE,
    b"set K -1 0 3\r\nget": BAD_LINE,
    b"set K 0 0 -1\r\nxx": BAD_LINE + b"ERROR\r\n",
    b"cas K 0 0 1\r\nx": BAD_LINE,
    b"cas K 0 0 1 x\r\nx": BAD_LINE,
    b"set " + LONG + b" 0 0 5\r\nget x": BAD_LINE,
    b"add " + LONG + b" 0 0 1\r\nx": BAD_LINE,
    b"a": BAD_LINE,
    b"ab": b"ERROR\r\n",
    b" get K": b"ERROR\r\n",
    b"verbosity": BAD_LINE,
    b"mg": BAD_LINE,
    b"get " + LONG: BAD_LINE,
    b"get K " + LONG: BAD_LINE,
    b"gat 0 " + LONG: BAD_LINE,
    b"delete " + LONG: BAD_LINE,
    b"incr " + LONG + b" 1": BAD_LINE,
    b"touch " + LONG + b" 1": BAD_LINE,
    b"flush_all x": BAD_EXPTIME,
    b"flush_all noreply x": BAD_EXPTIME,
    # memcached reads these numbers without a plus sign, and with 32 bits.
    b"flush_all +1": BAD_EXPTIME,
    b"gat +1 K": BAD_EXPTIME,
    b"touch K +1": BAD_EXPTIME,
    b"incr K +1": BAD_DELTA,
    b"set K 0 0 +1\r\nx": BAD_LINE + BAD_LINE,
    b"cas K 0 0 1 +1\r\nx": BAD_LINE,
    b"verbosity +1": BAD_LINE,
    b"verbosity 4294967296": BAD_LINE,
    b"lru_crawler sleep +1": BAD_LINE,
    b"lru_crawler tocrawl 4294967296": BAD_LINE,
    b"slabs automove +1": BAD_LINE,
    b"slabs automove -1": BAD_LINE,
    b"cache_memlimit +64": b"ERROR\r\n",
    b"stats cachedump +1 1": BAD_LINE,
    b"stats cachedump 4294967296 1": BAD_LINE,
    b"stats bogus": b"ERROR\r\n",
    b"stats cachedump": b"CLIENT_ERROR bad command line\r\n",
    b"stats cachedump 1": b"CLIENT_ERROR bad command line\r\n",
    b"stats cachedump x 1": BAD_LINE,
    b"stats cachedump 1 x": BAD_LINE,
    b"stats cachedump -1 1": BAD_LINE,
    b"stats cachedump 1 -1": BAD_LINE,
    b"stats cachedump 64 1": b"CLIENT_ERROR Illegal slab id\r\n",
    b"stats cachedump 0 1": b"END\r\n",
    b"stats cachedump 63 0 words": b"END\r\n",
    b"bogus": b"ERROR\r\n",
    b"GET K": b"ERROR\r\n",
    b"Set K 0 0 1\r\n1": b"ERROR\r\n" + BAD_LINE,
    b"getx K": b"ERROR\r\n",
    b"watch foo": b"ERROR\r\n",
    b"cache_memlimit": b"ERROR\r\n",
}

# With noreply a request says nothing, whatever came of it.
SILENT = [
    b"set K 0 0 1 noreply\r\nx",
    b"add K 0 0 1 noreply\r\nx",
    b"replace K 0 0 1 noreply\r\nx",
    b"append K 0 0 1 noreply\r\nx",
    b"prepend K 0 0 1 noreply\r\nx",
    b"cas K 0 0 1 7 noreply\r\nx",
    b"cas K 0 0 1 x noreply\r\nx",
    b"delete K noreply",
    b"delete K 0 noreply",
    b"incr K 1 noreply",
    b"incr K x noreply",
    b"decr K 1 noreply",
    b"touch K 1 noreply",
    # The word asks for silence in the place of an argument, too.
    b"touch K noreply",
    b"incr K noreply",
    b"decr K noreply",
    b"touch " + LONG + b" noreply",
    b"incr " + LONG + b" noreply",
    b"flush_all 3000000 noreply",
    b"verbosity 0 noreply",
]


def shown(request):
    """A readable test name."""
    text = request.decode("latin-1").replace(LONG.decode(), "K251")
    return text.encode("unicode_escape").decode() or "empty line"


def cases(table):
    """Parametrises a test with the rows of a table."""
    return pytest.mark.parametrize(
        ("request_", "reply"), table.items(), ids=[shown(request) for request in table]
    )


@cases(ON_A_MISSING_KEY)
def test_on_a_missing_key(client, key, request_, reply):
    expected = reply.replace(b"K", key) if b"VALUE" in reply else reply
    client.expect(request_.replace(b"K", key) + b"\r\n", expected)


@cases(ON_A_NUMBER)
def test_on_a_number(client, key, request_, reply):
    client.set(key, b"10", flags=5)
    client.expect(
        request_.replace(b"K", key) + b"\r\n", reply.replace(b"K", key) if b"VALUE" in reply else reply
    )


@cases(REFUSED)
def test_refused(client, key, request_, reply):
    client.expect(request_.replace(b"K", key) + b"\r\n", reply)


@pytest.mark.parametrize("before", [None, b"10", b"text"], ids=["missing", "number", "text"])
@pytest.mark.parametrize("request_", SILENT, ids=shown)
def test_noreply(client, key, request_, before):
    if before is not None:
        client.set(key, before)
    client.expect(request_.replace(b"K", key) + b"\r\n", b"")


def test_version(client):
    assert client.ask(b"version\r\n").startswith(b"VERSION ")
    assert client.ask(b"version x\r\n").startswith(b"VERSION ")


def test_a_lone_line_feed_ends_a_line(client, key):
    client.expect(b"set %b 0 0 1\nx\r\n" % key, b"STORED\r\n")
    client.expect(b"get %b\n" % key, b"VALUE %b 0 1\r\nx\r\nEND\r\n" % key)


def test_quit_closes(server):
    with server.connect() as connection:
        connection.send(b"quit\r\nversion\r\n")
        assert connection.rest() == b""


def test_flags_beyond_32_bits_are_stored_as_zero(client, key):
    client.expect(b"set %b 4294967296 0 1\r\nx\r\n" % key, b"STORED\r\n")
    client.expect(b"get %b\r\n" % key, b"VALUE %b 0 1\r\nx\r\nEND\r\n" % key)
