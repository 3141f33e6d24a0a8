"""Names the tests of this folder that do not run here."""

import pytest

from harness.native.endpoint import PROVIDERS, providers


@pytest.mark.parametrize("provider", PROVIDERS)
def test_there_is_such_a_provider_here(provider):
    if provider not in providers():
        pytest.skip("there is no libfabric 1.17 or newer (Debian: libfabric-dev)")
