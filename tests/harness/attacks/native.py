"""Attacks by datagrams of the native protocol."""

import itertools
import os
import socket
import struct

from harness import native
from harness.attacks.datagrams import rain
from harness.attacks.target import Crowd, attack, flood
from harness.native.client import NativeClient


def native_rain(target, requests, cookie=None):
    """Native datagrams of requests, each as full as it may be, and each from a client of its own. `requests`
    makes them."""
    client = NativeClient(target.native_port, target.host).learn()
    known = {} if cookie is None else {"cookie": cookie}
    batches, room = [[]], 0
    for request in requests(client):
        length = len(request.pack())
        if room < length:
            batches.append([])
            room = client.directory.payload_bytes_max - native.HEADER_BYTES
        batches[-1].append(request)
        room -= length
    client.socket.connect((target.host, target.native_port))
    partition = client.partition_of(batches[1][0].key)
    datagrams = itertools.cycle(
        [
            native.requests_datagram(client.header(partition=partition, **known), batch)
            for batch in batches[1:]
        ]
    )
    number = itertools.cycle(range(1, 1 << 32))  # else requests with ids would be executed once
    return rain(
        client.socket,
        (datagram[:20] + struct.pack("<I", next(number)) + datagram[24:] for datagram in datagrams),
    )


@attack
def native_gets(target):
    """Misses without end, from an address that has not been proved."""
    return native_rain(
        target,
        lambda client: [client.request(native.Opcode.GET, b"none%d" % number) for number in range(100)],
        cookie=0,
    )


@attack
def native_long_gets(target):
    """The longest values that a datagram has, asked for by many requests in one."""
    target.store(b"long", b"x" * 1300)
    return native_rain(target, lambda client: [client.request(native.Opcode.GET, b"long")] * 100)


@attack
def native_appends(target):
    """Appends to a long value."""
    target.store(b"long", b"x" * 900_000)
    return native_rain(
        target,
        lambda client: [client.request(native.Opcode.APPEND, b"long", value=b"x") for _ in range(1000)],
    )


@attack
def native_touches(target):
    """Long items that have no room for an expiry and move; they are stored again by the way of memcached's
    protocol."""
    value = b"x" * 500_000
    for number in range(8):
        target.store(b"long%d" % number, value)
    showers = native_rain(
        target,
        lambda client: [
            client.request(native.Opcode.TOUCH, b"long%d" % (number % 8), expiry_s=100)
            for number in range(80)
        ],
    )
    stores = flood(
        Crowd(
            target, 1, b"".join(b"set long%d 0 0 500000\r\n%b\r\n" % (number, value) for number in range(8)),
            reads=True
        )
    )
    for _ in zip(showers, stores, strict=False):
        yield


@attack
def native_nothing(target):
    """Empty datagrams, such as are refused, and directories for addresses that are not proved."""
    flooder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    flooder.connect((target.host, target.native_port))
    asks = native.directory_request(native.Header(native.Kind.DIRECTORY_REQUEST, client=1), 0, 1232)
    return rain(flooder, itertools.cycle([b"", b"Mi", asks[: native.HEADER_BYTES], asks, os.urandom(1472)]))
