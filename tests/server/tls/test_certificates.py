"""Certificates: of version 1, expired, in files that block; sessions of clients that were verified."""

import datetime
import os
import signal
import socket
import ssl

import pytest

from harness.admin import Admin
from harness.memcached.tls import Authority, TlsConnection, certificate_of_version_1, serving
from harness.poll import until
from harness.server import run


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """Certificates that no test changes."""
    return Authority(tmp_path_factory.mktemp("authority"))


def test_a_verify_mode_of_1_without_authorities_starts_as_in_memcached(start, authority):
    files = f"ssl_chain_cert={authority.chain},ssl_key={authority.key}"
    server = serving(start, "-Z", "-o", f"{files},ssl_verify_mode=1")
    for certificate in (None, authority.client):
        with TlsConnection(server.address, authority.context(certificate)) as connection:
            assert connection.ask(b"mn\r\n") == b"MN"
            assert connection.stats("settings")["ssl_verify_mode"] == "1"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("is_verified", [False, True], ids=["unverified", "verified"])
def test_sessions_of_verified_clients_are_not_resumed(start, authority, version, is_verified):
    """A resumed session has the certificate that its client showed once, and which may have expired since."""
    files = ("--tls-cert", authority.chain, "--tls-key", authority.key)
    server = serving(start, *files, *(("--tls-client-ca", authority.ca) if is_verified else ()))
    context = authority.context(authority.client, version)
    with TlsConnection(server.address, context) as connection:
        assert connection.ask(b"mn\r\n") == b"MN"
        session = connection.socket.session
    with socket.create_connection(server.address, timeout=30) as raw:
        again = context.wrap_socket(raw, server_hostname="localhost", session=session)
        again.sendall(b"mn\r\n")
        assert again.recv(100) == b"MN\r\n"
        assert again.session_reused is not is_verified


def test_an_expired_certificate_is_warned_of_and_its_end_is_a_metric(start, tmp_path):
    authority = Authority(tmp_path)
    end = datetime.datetime.now(datetime.UTC).replace(microsecond=0) - datetime.timedelta(days=3)
    authority.renew(not_before=end - datetime.timedelta(days=30), not_after=end)
    files = ("--tls-cert", authority.chain, "--tls-key", authority.key)
    server = serving(start, *files, "--admin", "notls:-1")
    warning = f"a certificate in {authority.chain} expired 3 days ago"
    assert f"micanite: warning: {warning}" in server.stderr()
    admin = Admin(server)
    assert admin.sum("micanite_tls_certificate_end_seconds") == end.timestamp()
    authority.renew()
    server.process.send_signal(signal.SIGHUP)
    until(lambda: admin.sum("micanite_tls_reloads_total", result="done") == 1, "the new one")
    assert admin.sum("micanite_tls_certificate_end_seconds") > end.timestamp()
    authority.chain.write_text("none")
    server.process.send_signal(signal.SIGHUP)
    until(lambda: admin.sum("micanite_tls_reloads_total", result="failed") == 1, "the failure")
    assert server.stderr().count(warning) == 1


def test_a_file_that_blocks_stops_neither_connections_nor_the_end(start, tmp_path):
    """Certificates and users become pipes that nobody writes to."""
    authority, users = Authority(tmp_path), tmp_path / "users"
    users.write_text("alice:secret\n")
    files = ("--tls-cert", authority.chain, "--tls-key", authority.key, "-Y", users)
    server = serving(start, "-t", 1, *files)
    for file in (authority.chain, users):
        file.unlink()
        os.mkfifo(file)
    server.process.send_signal(signal.SIGHUP)
    for _ in range(2):
        with TlsConnection(server.address, authority.context()) as connection:
            assert connection.ask(b"set any 0 0 12\r\nalice secret\r\n") == b"STORED"
            assert connection.ask(b"refresh_certs\r\n").startswith(b"Error")
    until(lambda: server.stderr().count("it is no regular file") >= 2, "both to be refused")
    server.process.terminate()
    assert server.wait_for_end() == 0


@pytest.mark.parametrize("is_matching", [True, False])
def test_a_certificate_of_version_1_is_served(start, authority, tmp_path, is_matching):
    """Debian's `openssl x509 -req` makes such certificates, and memcached serves them."""
    chain, key = certificate_of_version_1(tmp_path)
    if not is_matching:
        ended = run("-p", -1, "--tls-cert", chain, "--tls-key", authority.key)
        assert ended.returncode == 71 and f"Error validating the certificate: {chain}" in ended.stderr
        return
    server = serving(start, "--tls-cert", chain, "--tls-key", key)
    context = ssl.create_default_context(cafile=chain)
    context.check_hostname = False
    with TlsConnection(server.address, context) as connection:
        assert connection.ask(b"mn\r\n") == b"MN"
