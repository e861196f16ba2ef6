"""Few bits by a claim: a warning that says where they were lost, or the error of `strict`."""

import inspect
import warnings
from pathlib import Path

import numpy as np
import pytest

import becalm
from becalm.desilo import ToyEngine

SET = "ckks_toy_slots_first"
#: So small that results are right where claims leave nothing.
VALUES = np.linspace(0.1, 0.9, 64) / 2**12


def line():
    """The number of the line that calls it."""
    return inspect.currentframe().f_back.f_lineno


def told(record):
    return [w for w in record if w.category is becalm.PrecisionWarning]


@pytest.fixture(scope="module")
def bent():
    """A program whose bootstrap may meet values of 4096, its key, and the line of the bootstrap."""
    p = becalm.Program(SET, slots=64)
    y = p.input(level=5) * 2.0**12
    z, here = y.bootstrap(), line()
    p.output(z * 0.5)
    options = {"slots": 64, "allow_insecure": True, "progress": False}
    secret, _ = becalm.keygen(SET, needs=p.needs, **options)
    return p, secret, here


def server_of(p, secret):
    """One that has not warned yet."""
    return secret.server(slots=64, needs=p.needs, progress=False)


def test_a_program_warns_once_and_names_the_line_that_lost_most(bent):
    p, secret, here = bent
    server = server_of(p, secret)
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        made = [server.run(p, secret.encrypt(VALUES)) for _ in range(2)]
    (warned,) = told(record)
    lost = f"all were lost in bootstrap, line {here} of {Path(__file__).name}"
    assert lost in str(warned.message) and "no bits" in str(warned.message)
    assert warned.filename == __file__
    assert abs(secret.decrypt(made[1]) - VALUES * 2**11).max() < 1e-4


def test_a_program_from_a_file_names_the_instruction(bent):
    p, secret, _ = bent
    read = becalm.from_bytes(p.to_bytes(), allow_insecure=True)
    with pytest.warns(becalm.PrecisionWarning, match=r"lost in bootstrap, instruction \d+\. A"):
        server_of(p, secret).run(read, secret.encrypt(VALUES))


def test_a_strict_server_refuses_and_only_then(bent):
    p, secret, _ = bent
    server = server_of(p, secret)
    server.strict = True
    with pytest.raises(becalm.TooNoisy, match=r"all were lost in instruction \d+, bootstrap") as e:
        server.run(p, secret.encrypt(VALUES))
    assert "smaller bound on values" in e.value.remedy
    assert "`server.strict = False` allows" in e.value.remedy
    server.strict = False
    with pytest.warns(becalm.PrecisionWarning):
        server.run(p, secret.encrypt(VALUES))


def test_keygen_makes_a_strict_server():
    options = {"slots": 64, "bootstrap": None, "allow_insecure": True, "progress": False}
    for more in ({}, {"strict": False}, {"strict": True}):
        assert becalm.keygen(SET, **more, **options).server.strict is more.get("strict", False)


def test_a_call_warns_at_its_own_line(bent):
    p, secret, _ = bent
    x = server_of(p, secret).attach(secret.encrypt(VALUES))
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        for _ in range(4):
            x = x * 2.0**10
            x, here = x.within(1), line()
    (warned,) = told(record)
    assert (warned.filename, warned.lineno) == (__file__, here)
    assert "the most, 10.0 bits, were lost in" in str(warned.message)


def test_an_engine_of_desilofhe_warns_too():
    engine = ToyEngine(use_bootstrap=True)
    secret = engine.create_secret_key()
    key = engine.create_relinearization_key(secret)
    x = engine.encrypt(np.linspace(-1, 1, 8), secret)
    with pytest.warns(becalm.PrecisionWarning, match="upper bound for every message$"):
        for _ in range(13):
            x = engine.multiply(engine.add(x, x), x, key)
