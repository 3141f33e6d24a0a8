"""Tests run over every provider that needs no device; over the one that is most like another one only in make
test-full."""

import pytest

from harness.native.endpoint import PROVIDERS, RUNNING, kill_ends, providers

# Without libfabric test_fabric_here.py says so.
NEED_IT = [
    "test_fabric.py",
    "test_fabric_clients.py",
    "test_fabric_kills.py",
    "test_fabric_load.py",
    "test_linearizability.py",
    "test_one_sided_reads.py",
]
collect_ignore = [] if set(PROVIDERS) <= set(providers()) else NEED_IT


NET, TCP, SHM = PROVIDERS


@pytest.fixture(autouse=True)
def ends():
    """No end of a fabric outlives its test."""
    before = set(RUNNING)
    yield
    kill_ends(but=before)


@pytest.fixture(params=[NET, pytest.param(TCP, marks=pytest.mark.full), SHM])
def provider(request):
    """A provider of libfabric."""
    return request.param
