"""TLS: who gets in and how, new certificates while clients stay, and peers that do not speak it."""

import base64
import os
import re
import signal
import socket
import ssl
import struct
import textwrap
import threading

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec
from pymemcache.client.base import Client

from harness.memcached.tls import Authority, TlsConnection, serving
from harness.memcached.udp import UdpClient
from harness.network.claims import free_ports
from harness.poll import until
from harness.server import run


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """Certificates that no test changes."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize("io", ["epoll", "auto"])
def test_conversations_over_both_versions(start, authority, io):
    server = serving(start, "-t", 2, "--io", io, "--tls-cert", authority.chain, "--tls-key", authority.key)
    long = os.urandom(900_000)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        with TlsConnection(server.address, authority.context(version=version)) as connection:
            assert connection.ask(b"set a 0 0 5\r\nhello\r\n") == b"STORED"
            connection.send(b"get a\r\n" * 500)
            assert connection.exactly(500 * 25) == b"VALUE a 0 5\r\nhello\r\nEND\r\n" * 500
            connection.send(b"set long 1 0 %d\r\n" % len(long) + long + b"\r\nget long long\r\n")
            assert connection.line() == b"STORED"
            for _ in range(2):
                assert connection.line() == b"VALUE long 1 %d" % len(long)
                assert connection.exactly(len(long) + 2) == long + b"\r\n"
            assert connection.line() == b"END"
            binary = b"\x80\x0a" + bytes(22)
        with TlsConnection(server.address, authority.context(version=version)) as connection:
            connection.send(binary)
            assert connection.exactly(24) == b"\x81\x0a" + bytes(22)
            connection.socket.unwrap()
    with pytest.raises(ssl.SSLError):
        TlsConnection(server.address, authority.context(version=ssl.TLSVersion.TLSv1_1))


def test_a_slow_reader_gets_everything(start, authority):
    server = serving(start, "-Z", "-o", authority.words)
    with TlsConnection(server.address, authority.context(), receive_buffer_bytes=4096) as connection:
        connection.ask(b"set a 0 0 100000\r\n" + b"x" * 100_000 + b"\r\n")
        count = 200
        connection.send(b"get a\r\n" * count)
        with TlsConnection(server.address, authority.context()) as other:
            assert other.ask(b"mn\r\n") == b"MN"
        reply = b"VALUE a 0 100000\r\n" + b"x" * 100_000 + b"\r\nEND\r\n"
        for _ in range(count):
            assert connection.exactly(len(reply)) == reply


def test_a_client_library(start, authority):
    server = serving(start, "-Z", "-o", authority.words)
    client = Client(("localhost", server.port), tls_context=authority.context(), timeout=30)
    assert client.set("key", b"value", noreply=False)
    assert client.get_many(["key", "none"]) == {"key": b"value"}
    client.close()


def test_each_listener_speaks_its_own_protocol(start, authority, tmp_path):
    *marked, unmarked = free_ports(4)
    ports = dict(zip(("notls", "btls", "mtls"), marked, strict=True))
    listen = ",".join(f"{kind}:127.0.0.1:{port}" for kind, port in ports.items())
    path = tmp_path / "socket"
    server = serving(
        start, "-Z", "-o", authority.words, "-l", f"127.0.0.1,{listen}", "-s", path, "-p", unmarked
    )
    for address in (("127.0.0.1", ports["notls"]), str(path)):
        server.unix_socket, server.port = (
            (None, address[1]) if isinstance(address, tuple) else (address, None)
        )
        assert server.connect().ask(b"mn\r\n") == b"MN"
    plain, known = authority.context(), authority.context(authority.client)
    assert TlsConnection(("127.0.0.1", ports["btls"]), plain).ask(b"mn\r\n") == b"MN"
    assert TlsConnection(("127.0.0.1", ports["mtls"]), known).ask(b"mn\r\n") == b"MN"
    refuses(("127.0.0.1", ports["mtls"]), plain)


def refuses(address, context):
    """Asserts that the handshake fails, at once or (TLS 1.3) at the first read."""
    with pytest.raises((ssl.SSLError, ConnectionError)):
        TlsConnection(address, context).ask(b"mn\r\n")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_clients_without_a_good_certificate_stay_out(start, authority, tmp_path, version):
    files = ("--tls-cert", authority.chain, "--tls-key", authority.key, "--tls-client-ca", authority.ca)
    server = serving(start, *files)
    with TlsConnection(server.address, authority.context(authority.client, version)) as connection:
        assert connection.ask(b"mn\r\n") == b"MN"
        refuses(server.address, authority.context(version=version))
        stranger = Authority(tmp_path)
        refuses(server.address, authority.context(stranger.client, version))
        until(lambda: connection.stats()["ssl_handshake_errors"] == "2", "both")
        logged = re.compile(r" INFO TLS handshake failed .* peer=\S+:\d+ reason=.*certificate")
        until(lambda: len(logged.findall(server.stderr())) == 2, "both to be logged")
        assert connection.stats("settings")["ssl_verify_mode"] == "3"


def refresh(connection):
    """The reply to `refresh_certs`, in a second in which nobody has asked yet."""
    replies = []

    def told():
        replies.append(connection.ask(b"refresh_certs\r\n"))
        return not replies[-1].startswith(b"Error certificates were read within this second")

    until(told, "a second in which certificates were not read yet")
    return replies[-1]


def test_clients_have_certificates_read_at_most_once_a_second(start, tmp_path):
    """However many ask, however often: the others are told to ask again."""
    authority = Authority(tmp_path)
    server = serving(start, "-Z", "-o", authority.words)
    with (
        TlsConnection(server.address, authority.context()) as one,
        TlsConnection(server.address, authority.context()) as other,
    ):
        before = int(one.stats()["time"])
        for connection in (one, other):
            connection.send(b"refresh_certs\r\n" * 200)
        replies = [connection.line() for connection in (one, other) for _ in range(200)]
        seconds = int(one.stats()["time"]) - before + 1
        assert 1 <= replies.count(b"OK") <= seconds
        assert set(replies) == {
            b"OK", b"Error certificates were read within this second, ask again in the next"
        }
        assert refresh(other) == b"OK"


def test_new_certificates_while_clients_stay(start, tmp_path):
    authority = Authority(tmp_path)
    server = serving(start, "-Z", "-o", authority.words)
    old = TlsConnection(server.address, authority.context())

    def shown():
        with TlsConnection(server.address, authority.context()) as new:
            assert new.ask(b"mn\r\n") == b"MN"
            return new.certificate()

    first = shown()
    assert first == old.certificate()
    authority.renew(trustme.KeyType.RSA)
    assert shown() == first
    assert refresh(old) == b"OK"
    second = shown()
    assert second != first
    # A file that is wrong changes nothing.
    authority.key.write_text("no key")
    said = refresh(old)
    assert said.startswith(b"Error loading the key: %s : " % str(authority.key).encode()), said
    assert shown() == second
    server.process.send_signal(signal.SIGHUP)
    until(lambda: "Could not reload TLS certificates" in server.stderr(), "the log to say so")
    assert shown() == second
    authority.renew()
    server.process.send_signal(signal.SIGHUP)
    until(lambda: shown() != second, "the third certificate")
    assert old.ask(b"mn\r\n") == b"MN"


def test_requests_go_on_while_certificates_change(start, tmp_path):
    authority = Authority(tmp_path)
    server = serving(start, "-t", 2, "-Z", "-o", authority.words)
    ended, failures, done = threading.Event(), [], []

    def client():
        try:
            while not ended.is_set():
                with TlsConnection(server.address, authority.context()) as connection:
                    for _ in range(20):
                        assert connection.ask(b"set k 0 0 1\r\nx\r\n") == b"STORED"
                done.append(1)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=client) for _ in range(3)]
    for thread in threads:
        thread.start()
    with TlsConnection(server.address, authority.context()) as operator:
        for _ in range(5):
            before = len(done)
            authority.renew()
            assert refresh(operator) == b"OK"
            until(lambda: failures or len(done) > before + 3, "further connections")
    ended.set()
    for thread in threads:
        thread.join()
    assert not failures


def test_peers_without_tls_are_closed_and_counted(start, authority):
    tls_port, port = free_ports(2)
    tls = ("127.0.0.1", tls_port)
    listen = f"127.0.0.1:{tls_port},notls:127.0.0.1:{port}"
    server = serving(start, "-Z", "-o", authority.words, "-l", listen)
    server.port = port
    hello = client_hello(authority)
    garbage = [
        b"get a\r\n" * 100,
        b"\x80\x0b" + bytes(22),
        b"\x16\x03\x01\xff\xff" + bytes(70_000),
        b"\x17\x03\x03\x00\x10" + bytes(16),
        hello[:-5] + b"\xff" * 100_000,
        os.urandom(5000),
    ]
    for bytes_sent in garbage:
        with socket.create_connection(tls) as peer:
            peer.settimeout(30)
            try:
                peer.sendall(bytes_sent)
                while peer.recv(65536):
                    pass
            except ConnectionError:
                pass
    until(lambda: int(server.stats()["ssl_handshake_errors"]) == len(garbage), "all to be counted")
    # After the handshake: records that are no records, and half a record.
    for bytes_sent in (
        b"\x17\x03\x03\x40\x00" + os.urandom(0x4000), b"get a\r\n", struct.pack("!BHH", 23, 0x303, 9)
    ):
        raw = socket.create_connection(tls)
        raw.settimeout(30)
        wrapped = authority.context().wrap_socket(raw, server_hostname="localhost")
        wrapped.sendall(b"mn\r\n")
        assert wrapped.recv(100) == b"MN\r\n"
        plain = socket.socket(fileno=os.dup(wrapped.fileno()))
        plain.settimeout(30)
        plain.sendall(bytes_sent)
        plain.shutdown(socket.SHUT_WR)
        try:
            while plain.recv(65536):
                pass
        except ConnectionError:
            pass
        plain.close()
        wrapped.close()
    until(lambda: int(server.stats()["ssl_proto_errors"]) >= 2, "both to be counted")
    until(lambda: server.stats()["curr_connections"] == "1", "all to be closed")
    assert TlsConnection(tls, authority.context()).ask(b"mn\r\n") == b"MN"


def client_hello(authority):
    """Returns the first message of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = authority.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_handshakes_that_do_not_end_are_closed(start, authority):
    server = serving(start, "-Z", "-o", authority.words, "-c", 40)
    silent = [socket.create_connection(server.address) for _ in range(20)]
    for number, peer in enumerate(silent):
        peer.settimeout(30)
        peer.sendall(client_hello(authority)[: number * 7])
    with TlsConnection(server.address, authority.context()) as connection:
        for peer in silent:
            assert peer.recv(100) == b""
        assert connection.stats()["ssl_handshake_errors"] == "20"
        assert connection.stats()["ssl_new_sessions"] == "1"
    for peer in silent:
        peer.close()


@pytest.mark.parametrize("mark", ["", "mtls:"], ids=["tls-client-ca", "mtls"])
def test_datagrams_beside_required_certificates_have_to_be_wished(start, authority, mark):
    """Clients without a certificate get in nowhere by a slip: not by UDP, nor by the native protocol."""
    files = ["--tls-cert", authority.chain, "--tls-key", authority.key]
    files += ["-o", f"ssl_ca_cert={authority.ca}"] if mark else ["--tls-client-ca", authority.ca]
    listen = ("-l", f"{mark}127.0.0.1", "-p", -1)
    for options, reason in (
        (("-U", -1), "-U/--udp-port: Cannot use UDP with authentication enabled"),
        (("--native", -1), "--native: this protocol has no authentication"),
        (("--bypass", "xdp:lo"), "--bypass xdp:lo: this protocol has no authentication"),
        (
            ("-U", -1, "--native", -1, "--allow-unauthenticated", "udp"),
            "--native: this protocol has no authentication",
        ),
    ):
        ended = run(*files, *listen, *options)
        assert ended.returncode != 0
        assert reason in ended.stderr and "certificates (--tls-client-ca, mtls:)" in ended.stderr
        assert "--allow-unauthenticated" in ended.stderr
    server = serving(
        start, *files, *listen, "-U", -1, "--native", -1, "--allow-unauthenticated", "udp,native"
    )
    with UdpClient(server.ports()["UDP"]) as udp:
        assert udp.receive(udp.send(b"get a\r\n")) == b"END\r\n"
    refuses(server.address, authority.context())


KEYS = {
    "rsa as pkcs8": (trustme.KeyType.RSA, "PKCS8", "PRIVATE KEY"),
    "rsa as pkcs1": (trustme.KeyType.RSA, "TraditionalOpenSSL", "RSA PRIVATE KEY"),
    "rsa as pkcs8 under the label of pkcs1": (trustme.KeyType.RSA, "PKCS8", "RSA PRIVATE KEY"),
    "ecdsa as pkcs8 under the label of sec1": (trustme.KeyType.ECDSA, "PKCS8", "EC PRIVATE KEY"),
    "ecdsa as sec1": (trustme.KeyType.ECDSA, "TraditionalOpenSSL", "EC PRIVATE KEY"),
}


@pytest.mark.parametrize(("kind", "form", "label"), KEYS.values(), ids=KEYS)
def test_keys_with_a_wrong_label_are_accepted(start, tmp_path, kind, form, label):
    """The label does not matter: OpenSSL takes such files, and gomemcache's own test has one."""
    authority = Authority(tmp_path)
    authority.renew(kind)
    authority.key.write_text(
        labelled(serialization.load_pem_private_key(authority.key.read_bytes(), None), form, label)
    )
    server = serving(start, "-t", 1, "--tls-cert", authority.chain, "--tls-key", authority.key)
    with TlsConnection(server.address, authority.context()) as connection:
        assert connection.ask(b"mn\r\n") == b"MN"


def labelled(key, form, label):
    """A private key in a form, under any label."""
    coded = key.private_bytes(
        serialization.Encoding.DER, getattr(serialization.PrivateFormat, form), serialization.NoEncryption()
    )
    return "\n".join(
        [
            f"-----BEGIN {label}-----", *textwrap.wrap(base64.b64encode(coded).decode(), 64),
            f"-----END {label}-----", ""
        ]
    )


REFUSED_KEYS = {
    "another curve": lambda: labelled(ec.generate_private_key(ec.SECP256K1()), "PKCS8", "PRIVATE KEY"),
    "dsa": lambda: labelled(dsa.generate_private_key(1024), "PKCS8", "PRIVATE KEY"),
    "rubbish": lambda: "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n",
    "none": lambda: "",
    "encrypted": lambda: "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
}


@pytest.mark.parametrize("written", REFUSED_KEYS.values(), ids=REFUSED_KEYS)
def test_a_refused_key_names_the_kinds_that_are_accepted(authority, tmp_path, written):
    """The refusal names the kinds that can be used instead."""
    key = tmp_path / "key.pem"
    key.write_text(written())
    ended = run("-p", -1, "--tls-cert", authority.chain, "--tls-key", key)
    assert ended.returncode != 0
    assert f"Error loading the key: {key} : " in ended.stderr
    assert (
        "RSA (2,048 to 8,192 bits), ECDSA (P-256, P-384) or Ed25519, as PEM (PKCS#8, PKCS#1 or SEC1) "
        "without a password"
        in ended.stderr
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("-Z", "a certificate is missing"),
        ("--tls-cert {chain}", "Error loading the key: {chain} : there is no private key in it"),
        (
            "--tls-cert {folder}/none --tls-key {key}",
            "Error loading the certificate chain: {folder}/none : No such file",
        ),
        ("--tls-cert {chain} --tls-key {client}", "Error validating the certificate: {chain}"),
        (
            "--tls-cert {key} --tls-key {key}",
            "Error loading the certificate chain: {key} : there is no certificate",
        ),
        (
            "--tls-cert {chain} --tls-key {key} --tls-client-ca {key}",
            "Error loading the CA certificate: {key}",
        ),
        ("-o ssl_chain_cert={chain}", "-o ssl_chain_cert: has no effect without -Z"),
        ("-l mtls:127.0.0.1", "'mtls' has no effect without -Z"),
        ("-Z -o ssl_chain_cert={chain},ssl_key={key},ssl_verify_mode=2", "--tls-client-ca"),
        ("-Z -o ssl_chain_cert={chain},ssl_key={key},ssl_verify_mode=9", "ssl_verify_mode: 9"),
        ("-Z -o ssl_chain_cert={chain},ssl_key={key},ssl_ciphers=NULL-MD5", "none of them is served"),
        ("-Z -p 0 -s {folder}/socket -o ssl_chain_cert={chain}", "TLS needs a TCP port"),
    ],
)
def test_faulty_files_end_the_start_with_a_reason(authority, options, said):
    names = {name: getattr(authority, name) for name in ("chain", "key", "client", "folder")}
    port = () if "-p" in options.split() else ("-p", -1)
    ended = run(*port, *options.format(**names).split())
    assert ended.returncode != 0 and said.format(**names) in ended.stderr, ended
