"""Tests run over every provider that needs no device."""

import pytest

from harness.native.endpoint import PROVIDERS, providers

# Without libfabric test_fabric_here.py says so.
NEED_IT = [
    "test_fabric.py",
    "test_fabric_clients.py",
    "test_fabric_load.py",
    "test_linearizability.py",
    "test_one_sided_reads.py",
]
collect_ignore = [] if set(PROVIDERS) <= set(providers()) else NEED_IT


@pytest.fixture(params=PROVIDERS)
def provider(request):
    """A provider of libfabric."""
    return request.param
