"""Clients of other languages, in the programs of tests/clients, each by the protocols that it speaks."""

import uuid

import pytest

from harness.memcached import clients
from harness.memcached.clients import PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_checks_of_a_client_pass(start, name):
    program, words, expected = PROGRAMS[name]
    server = start("-t", 2, "-m", 64)
    ok, failed = clients.verdict(program, server.address, uuid.uuid4().hex, *words)
    assert not failed
    assert set(ok) == expected and len(ok) == len(expected)
    assert server.alive()
