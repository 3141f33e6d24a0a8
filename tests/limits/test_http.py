"""HTTP is never executed: a web page can make a browser send such a request to any address, with a body of
the page's choice."""

import http.client
import ssl

import pytest

from harness.admin import Admin
from harness.memcached.tls import Authority, TlsConnection, serving
from harness.memcached.udp import UdpClient
from harness.poll import until

FIRST_LINES = {
    "post": b"POST / HTTP/1.1\r\n",
    "get": b"GET /path?a=b HTTP/1.1\r\n",
    "lower case": b"post / HTTP/1.1\r\n",
    "line feed": b"POST / HTTP/1.0\n",
    "spaces": b" PUT  /  HTTP/1.1 \r\n",
    "http2": b"PRI * HTTP/2.0\r\n",
    "long": b"PUT /" + b"a" * 3000 + b" HTTP/1.1\r\n",
}


# First bytes of other protocols, behind which come bytes that somebody else has chosen.
OTHERS = {
    "PROXY 1": b"PROXY TCP4 10.0.0.1 10.0.0.2 1000 11211\r\n",
    "STUN": b"\0\3\0\x08\x21\x12\xa4\x42 transaction\n",
    "dict": b"CLIENT libcurl 8.5.0\r\n",
}
HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(range(11, 43)) + b"\x20"


def is_stored(connection, key):
    """Returns whether the page has stored its item."""
    return connection.get(key) is not None


@pytest.mark.parametrize("first_line", FIRST_LINES.values(), ids=FIRST_LINES)
def test_nothing_behind_the_first_line_is_executed(server, client, key, first_line):
    """The first line closes the connection without a reply, before the lines behind it run."""
    with server.connect() as page:
        page.send(first_line + b"Host: localhost\r\n\r\nset %b 0 0 1\r\nx\r\n" % key)
        assert page.rest() == b""
    assert not is_stored(client, key)


@pytest.mark.parametrize("first_line", [FIRST_LINES["post"], FIRST_LINES["line feed"]], ids=["crlf", "lf"])
def test_the_same_in_pieces(server, client, key, first_line):
    """However the request arrives, nothing of it is executed."""
    for cut in range(1, len(first_line)):
        with server.connect() as page:
            page.send(b"mn\r\n" + first_line[:cut])
            assert page.line() == b"MN"  # so the first piece has been seen alone
            page.send(first_line[cut:] + b"set %b 0 0 1\r\nx\r\n" % key)
            assert page.rest() == b""
    assert not is_stored(client, key)


@pytest.mark.parametrize("first_line", OTHERS.values(), ids=OTHERS)
def test_other_protocols_are_not_executed_either(server, client, key, first_line):
    """Their first line closes the connection without a reply, as that of HTTP does."""
    for request in (first_line, b"mn\r\n" + first_line):
        with server.connect() as other:
            other.send(request + b"set %b 0 0 1\r\nx\r\n" % key)
            assert other.rest() == (b"MN\r\n" if request != first_line else b"")
    assert not is_stored(client, key)


def test_the_proxy_protocol_of_version_2_closes_the_connection(server, client, key):
    """Its first two lines are empty, and get errors; then the connection ends."""
    header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12)
    with server.connect() as proxy:
        proxy.send(header + b"set %b 0 0 1\r\nx\r\n" % key)
        assert proxy.rest() == b"CLIENT_ERROR bad command line format\r\n" * 2
    assert not is_stored(client, key)


@pytest.mark.parametrize("cut", [None, 1, 2, 43])
def test_a_hello_of_tls_is_not_executed_at_a_plain_port(start, cut):
    """A session id, which a web page can choose by way of its own server, holds a line."""
    server = start("-t", 1, "--admin", "-1")
    with server.connect() as page:
        hello = HELLO + b"\nset page 0 0 1\r\nx\r\n"
        page.send(hello[:cut])
        page.send(hello[cut:] if cut else b"")
        assert page.rest() == b""
        peer = "{}:{}".format(*page.socket.getsockname())
    with server.connect() as client:
        assert not is_stored(client, b"page")
        until(lambda: client.stats()["tls_on_plain_port"] == "1", "it to be counted")
    until(lambda: "TLS on a plain port" in server.stderr(), "it to be logged")
    server.says(f" peer={peer}\n")
    assert Admin(server).sum("micanite_tls_on_plain_port_total") == 1


def test_a_real_client_of_tls_sees_the_end(start):
    server = start("-t", 1)
    with pytest.raises((ssl.SSLError, OSError)), server.connect() as page:
        ssl._create_unverified_context().wrap_socket(page.socket)


def test_the_first_byte_of_a_hello_alone_is_waited_for(client):
    """Whatever else follows it is a line as any other."""
    client.send(b"\x16")
    client.send(b"x\r\n")
    assert client.line() == b"ERROR"


def test_requests_before_it_are_answered(server, key):
    """Requests that a memcached client has sent before are not lost."""
    with server.connect() as connection:
        connection.send(b"mn\r\n")
        assert connection.line() == b"MN"
        connection.send(b"set %b 0 0 1\r\nx\r\n" % key)
        assert connection.line() == b"STORED"
        connection.send(FIRST_LINES["post"])
        assert connection.rest() == b""


def test_a_key_may_look_like_it(client, key):
    """Only commands that do not exist are taken for HTTP."""
    client.expect(b"get %b HTTP/1.1\r\n" % key, b"END\r\n")
    client.expect(b"delete %b HTTP/1.1\r\n" % key, b"NOT_FOUND\r\n")
    client.expect(b"HTTP/1.1 200 OK\r\n", b"ERROR\r\n")


def test_a_real_client_gets_no_reply(server, client, key):
    """A client of HTTP sees a connection that ends."""
    page = http.client.HTTPConnection(*server.address, timeout=30)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        page.request("POST", "/", body=b"set %b 0 0 1\r\nx\r\n" % key)
        page.getresponse()
    page.close()
    assert not is_stored(client, key)


@pytest.fixture
def authority(tmp_path):
    """Certificates."""
    return Authority(tmp_path)


PAGE = FIRST_LINES["post"] + b"\r\nset page 0 0 1\r\nx\r\n"


@pytest.mark.parametrize("io", ["epoll", "auto"])
def test_over_tls(start, authority, io):
    """The same holds behind encryption, however connections are read."""
    server = serving(start, "--io", io, "--tls-cert", authority.chain, "--tls-key", authority.key)
    with TlsConnection(server.address, authority.context()) as page:
        page.send(PAGE)
        assert page.rest() == b""
    with TlsConnection(server.address, authority.context()) as connection:
        assert not is_stored(connection, b"page")


@pytest.mark.parametrize("options", [(), ("-B", "ascii"), ("-B", "binary")], ids=["auto", "ascii", "binary"])
def test_over_unix_sockets_and_each_binding(start, tmp_path, options):
    """No listener of memcached's protocols executes it, whichever it speaks."""
    path = tmp_path / "socket"
    server = serving(start, "-t", 1, "-s", path, *options)
    with server.connect() as page:
        page.send(PAGE)
        assert page.rest() == b""
    with server.connect() as connection:
        if "binary" in options:
            connection.send(b"\x80\x00\x00\x04" + bytes(7) + b"\x04" + bytes(12) + b"page")
            assert connection.exactly(24)[6:8] == b"\x00\x01"
        else:
            assert not is_stored(connection, b"page")


def test_a_page_cannot_try_passwords(start, tmp_path):
    """A page would use up the attempts of its reader's address, and might guess."""
    users = tmp_path / "users"
    users.write_text("alice:secret\n")
    server = serving(start, "-Y", users)
    with server.connect() as page:
        page.send(FIRST_LINES["post"] + b"\r\nset x 0 0 11\r\nalice wrong\r\n")
        assert page.rest() == b""
    with server.connect() as connection:
        assert connection.ask(b"set x 0 0 12\r\nalice secret\r\n") == b"STORED"
        assert connection.stats()["auth_errors"] == "0"


def test_in_a_datagram(start):
    """A datagram ends at such a line as well, and gets no reply."""
    server = start("-t", 1, "-p", "-1", "-U", "-1")
    with UdpClient(server.ports()["UDP"]) as udp:
        udp.send(PAGE)
        assert udp.receive(udp.send(b"get page\r\n")) == b"END\r\n"


def test_the_control_socket(start, tmp_path):
    """The control socket answers one line and reads no further."""
    server = serving(start, "-t", 1, "-s", tmp_path / "socket")
    served = server.unix_socket
    server.unix_socket = f"{served}.ctl"
    with server.connect() as control:
        control.send(FIRST_LINES["post"] + b"invalidate page\n")
        assert b"not understood" in control.rest()
    server.unix_socket = served
    assert server.alive()
