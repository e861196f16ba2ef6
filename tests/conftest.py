"""Keys that the Python tests share: small, insecure and fast."""

import json
import os
import struct

import numpy as np
import pytest

#: Whether this run is a full one: BECALM_FULL is set, and neither empty nor 0.
FULL = os.environ.get("BECALM_FULL", "0") not in ("", "0")


def forged(file, change):
    """The file with other metadata, and the checksum that belongs to it."""
    import blake3

    (length,) = struct.unpack("<Q", file[:8])
    header = json.loads(file[8 : 8 + length])
    change(header["__metadata__"])
    header["__metadata__"]["checksum"] = "0" * 64

    def whole():
        text = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        data = text.encode()
        data += b" " * (-len(data) % 8)
        return struct.pack("<Q", len(data)) + data + file[8 + length :]

    header["__metadata__"]["checksum"] = blake3.blake3(whole()).hexdigest()
    return whole()


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
