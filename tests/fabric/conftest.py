"""Tests run over every provider that needs no device."""

import pytest

from harness.native.endpoint import PROVIDERS, providers

collect_ignore = [] if set(PROVIDERS) <= set(providers()) else ["test_fabric.py", "test_fabric_clients.py"]


@pytest.fixture(params=PROVIDERS)
def provider(request):
    """A provider of libfabric."""
    return request.param
