"""The CKKS sets of every ring from Python: with and without a bootstrap."""

import numpy as np
import pytest

import becalm
from becalm import ckks

QUIET = {"progress": False}


@pytest.fixture(scope="module")
def keys():
    return becalm.keygen("ckks_n13", rotations=[1], **QUIET)


def test_every_ring_has_a_standard_set():
    standard = {p.log2_degree for p in ckks.params() if p.standard}
    assert standard == set(range(12, 18))
    # Sets that are chosen by need have N = 2^16.
    kinds = ("regular", "sparse", "slots_first", "sign", "precise")
    needs = [{"kinds": k, "slots": 64 if k == "sparse" else None} for k in kinds]
    needs += [{"levels": n} for n in (4, 10, 14, 17)]
    chosen = {ckks.price("ckks", **need).params for need in needs}
    assert len(chosen) == 6 and {ckks.params(name).log2_degree for name in chosen} == {16}


@pytest.mark.parametrize(("name", "levels"), [("ckks_n12", 1), ("ckks_n13", 4), ("ckks_n14", 8)])
def test_sets_without_a_bootstrap_compute(name, levels, rng):
    secret, server = becalm.keygen(name, rotations=[1], **QUIET)
    assert server.kinds == () and server.params.levels == levels
    assert server.params.stage_count == 0 and server.params.security_bits >= 128
    a = rng.uniform(-1, 1, server.slots)
    x = secret.encrypt(a)
    assert x.level == levels
    power, wanted = x, a
    for _ in range(levels):
        power, wanted = power * x, wanted * a
    assert power.level == 0
    for made, value in [(power, wanted), (x.rotate(1), np.roll(a, -1)), (x.conjugate(), a)]:
        assert abs(secret.decrypt(made) - value).max() < 12 * made.error < 2.0**-13
    with pytest.raises(becalm.BadInput, match="level"):
        power * x


def test_prices_of_sets_without_a_bootstrap(keys):
    p = ckks.price("ckks_n13", rotations=[1])
    assert (p.kinds, p.levels, p.bits, p.key_switches) == ((), {}, {}, {})
    # Besides, the tables of the ring.
    assert keys.server.nbytes == p.memory_bytes < p.peak_bytes < p.memory_bytes + 4e6
    assert p.stored_bytes == keys.server.stored_nbytes


def test_a_bootstrap_of_a_set_without_is_refused(keys):
    x = keys.secret.encrypt([0.5])
    for call in (lambda: x.bootstrap(), lambda: x.bootstrap("regular")):
        with pytest.raises(becalm.WrongParams, match="a set with a bootstrap") as e:
            call()
        assert "ckks" in e.value.remedy
    for options in (
        {"kinds": "regular"},
        {"kinds": ("sparse", "slots_first")},
        {"bootstrap": "small"},
        {"stage_count": 3},
    ):
        for make in (becalm.keygen, ckks.price):
            quiet = QUIET if make is becalm.keygen else {}
            with pytest.raises(becalm.WrongParams, match="`ckks_n13`"):
                make("ckks_n13", **options, **quiet)
    assert becalm.keygen("ckks_n12", bootstrap=None, **QUIET).server.kinds == ()


def test_files_of_sets_without_a_bootstrap_come_back(keys, tmp_path):
    secret, server = keys
    server.save(tmp_path / "server")
    secret.encrypt([0.5, -0.25]).save(tmp_path / "x")
    for memory in ("full", "low", 1.0):
        there = ckks.load_server(tmp_path / "server", memory=memory)
        assert there.kinds == () and there.params.name == "ckks_n13"
        x = there.load(tmp_path / "x")
        assert abs(secret.decrypt((x * x).rotate(1))[0].real - 0.0625) < 2.0**-15


def test_the_bootstrap_of_n15_is_priced():
    p = ckks.price("ckks_n15", bootstrap="small")
    assert p.levels == {"regular": (0, 5)} and 12.7 < p.bits["regular"] < 13
    assert p.stored_bytes < 0.5e9 and p.peak_bytes < 2.5e9
    with pytest.raises(becalm.BadInput, match=r"\[3, 4\]"):
        ckks.price("ckks_n15", stage_count=5)
