"""memcached's protocols over UDP: frames, replies of several datagrams, and who is not answered. What is no
matter of loopback is tested over a cable between two hosts, too, with GETs answered in the kernel
(`--kernel-get`) and without."""

import os
import random
import struct
import subprocess
from contextlib import ExitStack

import pytest

from harness.memcached.replies import ON_A_MISSING_KEY
from harness.memcached.udp import UdpClient, UdpServer, frame
from harness.memory import printed_budget_bytes
from harness.network.claims import free_port
from harness.network.kernel_get import MODES, AnsweringLink, KernelServer
from harness.poll import until
from harness.server import PROJECT, run

MIB = 1 << 20
TOO_LONG = b"SERVER_ERROR reply too long for UDP\r\n"


@pytest.fixture(scope="module", params=[1, 2, 4], ids=lambda workers: f"workers{workers}")
def local(request):
    """On loopback, for what is a matter of its addresses."""
    server = UdpServer("-t", request.param, "-m", "64")
    yield server
    server.end()


@pytest.fixture(
    scope="module", params=[1, 2, 4, None, *MODES],
    ids=lambda kind: f"workers{kind}" if isinstance(kind, int) else f"cable-{kind}"
)
def udp(request):
    """On loopback, and over a cable: without `--kernel-get`, with it in the driver and behind it."""
    if isinstance(request.param, int):
        server = UdpServer("-t", request.param, "-m", "64")
        yield server
        server.end()
        return
    with AnsweringLink() as link, KernelServer(link, "-t", "2", mode=request.param) as server:
        yield server


@pytest.fixture
def client(udp):
    with udp.client() as client:
        yield client


def test_the_port_of_tcp_follows_that_of_udp():
    def configured(*options):
        lines = run(*options, "--print-config").stdout.splitlines()
        return {name: value for name, _, value in (line.partition(" = ") for line in lines)}

    both = configured("-U", 4444)
    assert both["port"] == both["udp-port"] == "4444"
    assert both["udp-allow"] == '"127.0.0.0/8,::1/128"'
    assert configured("-U", 4444, "-p", 4445)["port"] == "4445"
    assert configured("-U", 0)["port"] == "11211"


def test_the_server_reports_its_udp_port(local):
    assert f"UDP port {local.udp_port} for 127.0.0.0/8,::1/128" in local.stderr()
    assert local.stats("settings")["udpport"] == str(local.udp_port)
    assert local.stats("udp")["udp_allow"] == "127.0.0.0/8,::1/128"
    second = run("-p", 0, "-U", local.udp_port)
    assert (
        second.returncode == 71
        and f"UDP 127.0.0.1:{local.udp_port} (-U): Address already in use" in second.stderr
    )


def test_replies_are_those_of_a_stream(udp, client, key):
    """Line by line what `test_replies` expects of TCP, and the keys are the same items."""
    for number, (request, reply) in enumerate(ON_A_MISSING_KEY.items()):
        name = b"%b-%d" % (key, number)
        request = request.replace(b"K", name) + b"\r\n"
        assert client.ask(request) == (reply.replace(b"K", name) if b"VALUE" in reply else reply), request
    with udp.connect() as stream:
        for i in range(100):
            stream.set(b"%b%d" % (key, i), b"%d" % i, flags=i)
    for i in range(100):
        value = b"%d" % i
        said = b"VALUE %b%d %d %d\r\n%b\r\nEND\r\n" % (key, i, i, len(value), value)
        assert client.ask(b"get %b%d\r\n" % (key, i)) == said


@pytest.mark.parametrize("size", [0, 1, 1300, 1392, 5000, 60_000, MIB])
def test_values_of_many_datagrams(udp, client, key, size):
    if not client.make_room(4 * MIB) and size == MIB:
        pytest.skip("a socket may not have room for 1 MiB here")
    value = random.Random(size).randbytes(size)
    with udp.connect() as stream:
        stream.set(key, value)
    said = client.ask(b"get %b %b\r\n" % (key, b"missing-" + key))
    assert said == b"VALUE %b 0 %d\r\n%b\r\nEND\r\n" % (key, size, value)
    if size <= 60_000:
        assert client.ask(b"set %b 0 0 %d\r\n%b\r\n" % (key, size, value[::-1])) == b"STORED\r\n"
        with udp.connect() as stream:
            assert stream.get(key) == value[::-1]


def test_a_multi_get_is_one_numbered_reply(udp, client, key):
    with udp.connect() as stream:
        values = {b"%b%d" % (key, i): random.Random(i).randbytes(i * 7) for i in range(100)}
        for name, value in values.items():
            stream.set(name, value)
    said = client.ask(b"get " + b" ".join(values) + b"\r\n")
    assert (
        said == b"".join(b"VALUE %b 0 %d\r\n%b\r\n" % (n, len(v), v) for n, v in values.items()) + b"END\r\n"
    )


def test_a_reply_that_is_too_long_is_an_error(udp, client, key):
    with udp.connect() as stream:
        stream.set(key, b"x" * MIB)
    before = udp.count("too_long")
    assert client.ask(b"get %b %b\r\n" % (key, key)) == TOO_LONG
    assert udp.count("too_long") == before + 1


def test_noreply_gets_none(client, key):
    for i in range(50):
        client.send(b"set %b%d 0 0 1 noreply\r\nx\r\n" % (key, i))
    # One client is one worker's, and datagrams keep their order there; the kernel answers before the worker
    # has come so far.
    stored = b"VALUE %b49 0 1\r\nx\r\nEND\r\n" % key
    until(lambda: client.ask(b"get %b49\r\n" % key) == stored, "the last of them")


def test_requests_that_are_cut_off(udp, client, key):
    """Each counts as incomplete, and nothing of it is taken for a part of the next datagram."""
    before = udp.count("incomplete")
    assert client.ask(b"set %b 0 0 10\r\nx" % key) == b"CLIENT_ERROR bad data chunk\r\n"
    for request in (b"get " + key, b"set %b 0 0 10 noreply\r\nx" % key, b"\x80\x00\x00"):
        client.send(request)
    assert client.ask(b"get %b\r\n" % key) == b"END\r\n", "nothing is kept of the datagram before"
    # The last reply may come from the kernel, ahead of the worker.
    until(lambda: udp.count("incomplete") == before + 4, "four incomplete requests to be counted")


def test_frames_that_are_no_requests(udp, client):
    before = udp.count("bad_frames")
    for total in (0, 2, 65535):
        client.send(b"mn\r\n", total=total)
    for length in range(1, 8):
        client.socket.send(b"\0\x01\0\0\0\x01\0"[:length])
    assert client.ask(b"mn\r\n") == b"MN\r\n"
    assert udp.count("bad_frames") == before + 10
    number = client.send(b"mn\r\n", sequence=9, reserved=7)  # which memcached does not look at
    assert client.receive(number) == b"MN\r\n"


def test_garbage_is_survived(udp, client, key):
    generator = random.Random(1)
    pieces = [
        b"get ", key, b"\r\n", b"set ", b" 0 0 3\r\nabc\r\n", b"\x80", b"\0" * 24, b"incr ", b"noreply",
        b"stats\r\n"
    ]
    with udp.client() as vandal:
        for _ in range(2000):
            words = b"".join(generator.choice(pieces) for _ in range(generator.randrange(8)))
            vandal.socket.send(
                generator.choice(
                    [frame(1, words), frame(1, generator.randbytes(200)), generator.randbytes(30)]
                )
            )
    with udp.client() as probe:
        until(probe.is_answered, "an answer")
    assert client.ask(b"set %b 0 0 1\r\nx\r\n" % key) == b"STORED\r\n"


def test_many_clients_reach_every_worker(udp, key):
    with ExitStack() as stack:
        clients = [stack.enter_context(udp.client()) for _ in range(64)]
        for number, one in enumerate(clients):
            assert one.ask(b"set %b%d 0 0 1\r\nx\r\n" % (key, number)) == b"STORED\r\n"
        for number, one in enumerate(clients):
            assert one.ask(b"get %b%d\r\n" % (key, 63 - number)).startswith(b"VALUE")


def test_the_binary_protocol(client, key):
    def request(opcode, name=b"", extras=b"", value=b""):
        body = extras + name + value
        return struct.pack(">BBHBBHIIQ", 0x80, opcode, len(name), len(extras), 0, 0, len(body), 77, 0) + body

    stored = client.ask(request(1, key, b"\0" * 8, b"value"))
    assert stored[:2] == b"\x81\x01" and stored[6:8] == b"\0\0"
    assert client.ask(b"get %b\r\n" % key) == b"VALUE %b 0 5\r\nvalue\r\nEND\r\n" % key
    both = client.ask(request(9, b"missing-" + key) + request(0, key) + request(10))
    assert both[:2] == b"\x81\x00" and both[28:33] == b"value" and both[33:35] == b"\x81\x0a"
    cut = client.ask(request(1, key, b"\0" * 8, b"value")[:-1])
    assert cut[:2] == b"\x81\x01" and cut[6:8] == b"\0\x04", "invalid arguments"


REQUESTS = [
    b"version\r\n", b"get a\r\n", b"get a b c none\r\n", b"gets none\r\n", b"get a\r\nget b\r\n",
    b"get long a\r\n",
    b"set n 1 0 1\r\n5\r\n", b"incr n 5\r\n", b"decr n 1\r\n", b"append n 0 0 1\r\n0\r\n", b"get n\r\n",
    b"touch n 100\r\n", b"gat 100 n\r\n",
    b"add n 0 0 1\r\nx\r\n", b"replace m 0 0 1\r\nx\r\n", b"delete n\r\n", b"delete n\r\n",
    b"cas n 0 0 1 5\r\nx\r\n", b"bogus\r\n", b"get\r\n",
    b"set n 0 0 1\r\nxyz\r\n", b"verbosity 0\r\n", b"shutdown\r\n",
]  # fmt: skip


def test_the_bytes_are_those_of_memcached(udp):
    """Joined as they come: memcached numbers the datagrams of each object anew."""
    path = subprocess.run([PROJECT / "scripts/peer-memcached-current"], capture_output=True, text=True)
    if path.returncode:
        pytest.skip(f"no current memcached: {path.stderr.strip()}")
    port = free_port()
    user = ["-u", "root"] if os.getuid() == 0 else []
    peer = subprocess.Popen(
        [path.stdout.strip(), "-l", "127.0.0.1", "-p", str(port), "-U", str(port), "-t", "1", *user]
    )

    def said(connect, request):
        with connect() as client:
            client.send(request)
            joined = b""
            # The noop behind it ends every reply, which memcached sends in order; END that of a get.
            while not joined.endswith(
                (b"MN\r\n", b"END\r\n") if not request.endswith(b"mn\r\n") else b"MN\r\n"
            ):
                joined += client.socket.recv(2048)[8:]
            return joined.replace(b"-micanite-0.1.0", b"")

    def answers():
        with UdpClient(port, timeout_s=0.1) as client:
            try:
                return client.ask(b"mn\r\n")
            except (TimeoutError, ConnectionRefusedError):
                return None

    try:
        until(answers, "memcached to answer")
        items = [
            b"set a 5 0 1\r\n1\r\n", b"set b 0 0 0\r\n\r\n", b"set c 1 0 3\r\nabc\r\n",
            b"set long 0 0 9000\r\n%b\r\n" % (b"x" * 9000)
        ]
        for request in [*items, *REQUESTS]:
            # A datagram that is nothing but a get may be the kernel's; what follows it here is not.
            for end in (b"mn\r\n", b""):
                if not end and not (request.startswith(b"get ") and request.count(b"\n") == 1):
                    continue
                assert said(udp.client, request + end) == said(lambda: UdpClient(port), request + end), (
                    request
                )
    finally:
        peer.terminate()
        peer.wait(60)


def test_a_server_answers_no_server(local):
    """Two servers that answer each other's errors would never stop: neither our own port is answered, nor one
    below 1024."""
    before = local.count("not_allowed")
    with local.client(source=("127.0.0.2", local.udp_port)) as other:
        other.send(b"bogus\r\n")
        until(lambda: local.count("not_allowed") == before + 1, "the datagram to be counted")
        assert other.is_silent()
    try:
        with local.client(source=("127.0.0.1", 1023)) as low:
            low.send(b"bogus\r\n")
            until(lambda: local.count("not_allowed") == before + 2, "the datagram to be counted")
            assert low.is_silent()
    except PermissionError:
        pass  # low ports are for root


def test_nothing_is_kept_of_a_flood(local, key):
    """Datagrams that are not read in time are lost in front of the socket, and counted there; clients go on.
    """
    from harness.memory import resident_bytes

    budget = printed_budget_bytes(local)
    before = local.stats("udp")
    with local.client() as flood, local.client() as client:
        flood.socket.setblocking(False)
        datagram, sent = frame(1, b"get %b\r\n" % key * 6000)[:65_000], 0
        for _ in range(3000):
            try:
                flood.socket.send(datagram)
                sent += 1
            except (BlockingIOError, TimeoutError):
                pass
        until(client.is_answered, "an answer")
    after = local.stats("udp")
    taken = sum(int(after[name]) - int(before[name]) for name in ("datagrams_received", "dropped_by_kernel"))
    assert sent and taken > 0
    assert resident_bytes(local.pid) <= budget
