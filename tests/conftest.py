"""Keys that the Python tests share: small, insecure and fast."""

import os

import numpy as np
import pytest

#: Whether this run is a full one: BECALM_FULL is set, and neither empty nor 0.
FULL = os.environ.get("BECALM_FULL", "0") not in ("", "0")


@pytest.fixture(scope="session")
def toy():
    """A secret key and its server of the set `toy_2_2`: 16 values."""
    import becalm

    return becalm.keygen("toy_2_2", allow_insecure=True, progress=False)


@pytest.fixture(scope="session")
def stranger():
    """Other keys of the same set."""
    import becalm

    return becalm.keygen("toy_2_2", allow_insecure=True, progress=False)


@pytest.fixture
def rng():
    return np.random.default_rng(2026)
