"""Consistent hashing: libmemcached, nutcracker and the client library look for 10,000 keys at the same
servers.

The lists of servers are those of crates/client/testdata/ketama.txt. Each has a digest of all places there,
which the unit tests of the client library come to as well."""

import contextlib
import hashlib
import subprocess

import pylibmc
import pytest

from harness.memcached.clients import SOURCES
from harness.memcached.proxy import Proxy
from harness.server import PROJECT
from harness.tools.fake import FakeStream, memcached_requests

KEYS = 10_000
BATCH = 100


def lists():
    """The lists of servers, each with the digest of its 10,000 places."""
    found = []
    for line in (PROJECT / "crates/client/testdata/ketama.txt").read_text().splitlines():
        if line.startswith("list "):
            servers = line.split(" ")[1:]
        elif line.startswith("digest "):
            found.append((servers, line.split(" ")[1]))
    return found


LISTS = lists()


def digest(places):
    """Returns the digest of places in the list, each one byte."""
    assert len(places) == KEYS and len(set(places)) > 1
    return hashlib.md5(bytes(places)).hexdigest()


def by_php(names):
    """The places that PHP's extension finds."""
    command = ["php", SOURCES / "php/ketama.php", str(KEYS), *names]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    return [int(line) for line in said.split()]


@pytest.fixture(
    params=LISTS, ids=[f"{len(servers)}-servers-{number}" for number, (servers, _) in enumerate(LISTS)]
)
def servers(request):
    """A list of servers and the digest of its places."""
    return request.param


def test_there_are_lists_of_all_kinds():
    assert len(LISTS) == 6


def test_libmemcached(servers):
    """As PHP's extension has it, whose options are libmemcached's."""
    names, expected = servers
    assert digest(by_php(names)) == expected


def says(place):
    """A memcached that has every key, with its own place as the value."""

    def converse(connection, file):
        for words, _ in memcached_requests(file):
            values = b"".join(b"VALUE %b 0 %d\r\n%b\r\n" % (key, len(place), place) for key in words[1:])
            connection.sendall(values + b"END\r\n")

    return FakeStream(converse)


def test_nutcracker(servers):
    """With `distribution: ketama` and `hash: md5`. Of servers without a name of their own it hashes what the
    names here are: host and port, and the host alone where the port is memcached's usual one."""
    names, expected = servers
    with contextlib.ExitStack() as stack:
        there = []
        for place, server in enumerate(names):
            name, weight = server.split("=")
            fake = stack.enter_context(says(b"%d" % place))
            there.append(f"127.0.0.1:{fake.port}:{weight} {name.removesuffix(':11211')}")
        with stack.enter_context(Proxy(there)).connect() as connection:
            found = {}
            for first in range(0, KEYS, BATCH):
                keys = b" ".join(b"key-%d" % number for number in range(first, first + BATCH))
                found |= connection.values(b"get " + keys + b"\r\n")
    assert digest([int(found[b"key-%d" % number][1]) for number in range(KEYS)]) == expected


def test_pylibmc():
    """Five servers of equal weight, asked where they are: the places are those that PHP's extension finds for
    their names."""
    with contextlib.ExitStack() as stack:
        fakes = [stack.enter_context(says(b"%d" % place)) for place in range(5)]
        names = [f"127.0.0.1:{fake.port}" for fake in fakes]
        client = pylibmc.Client(names, behaviors={"ketama_weighted": True, "hash": "md5"})
        found = client.get_multi([f"key-{number}" for number in range(KEYS)])
        client.disconnect_all()
    assert digest([int(found[f"key-{number}"]) for number in range(KEYS)]) == digest(
        by_php(f"{name}=1" for name in names)
    )
