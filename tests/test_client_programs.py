"""Clients of other languages, in the programs of tests/clients, each by the protocols that it speaks."""

import uuid

import pytest

from harness import clients

EVERYWHERE = {
    "get-set", "add", "replace", "append-prepend", "incr-decr", "touch", "delete", "expiry", "large", "flush"
}
TYPED = EVERYWHERE | {"cas", "multi-get", "flags-compression", "stats"}
OF_PHP = EVERYWHERE | {"cas", "multi-get", "flags", "compression", "buffered", "sessions", "stats"}
PROGRAMS = {
    "gomemcache": (clients.go, [], EVERYWHERE | {"cas", "gat", "multi-get", "flags"}),
    "spymemcached-text": (clients.java, ["spymemcached", "text"], TYPED),
    "spymemcached-binary": (clients.java, ["spymemcached", "binary"], TYPED | {"gat"}),
    "xmemcached-text": (clients.java, ["xmemcached", "text"], TYPED),
    "xmemcached-binary": (clients.java, ["xmemcached", "binary"], TYPED | {"gat"}),
    "memjs": (clients.node, [], EVERYWHERE | {"pipelined", "flags-compression", "stats"}),
    "php-text": (clients.php, ["text"], OF_PHP),
    "php-binary": (clients.php, ["binary"], OF_PHP),
    "dalli": (clients.ruby, [], EVERYWHERE | {"cas", "gat", "multi-get", "compression", "fetch", "stats"}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_client_finds_what_it_expects(start, name):
    program, words, expected = PROGRAMS[name]
    server = start("-t", 2, "-m", 64)
    ok, failed = clients.verdict(program, server.address, uuid.uuid4().hex, *words)
    assert not failed
    assert set(ok) == expected and len(ok) == len(expected)
    assert server.alive()
