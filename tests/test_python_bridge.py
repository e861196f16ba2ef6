"""The bridge: packed integers of CKKS as ciphertexts of TFHE."""

import pickle

import numpy as np
import pytest

import becalm
from becalm import errors

TOY = {"allow_insecure": True, "progress": False}


@pytest.fixture(scope="module")
def many():
    return becalm.keygen("ckks_toy_table_4", **TOY)


@pytest.fixture(scope="module")
def one():
    return becalm.keygen("toy_2_2", **TOY)


@pytest.fixture(scope="module")
def bridge(many, one):
    return becalm.bridge_key(many.secret, one.secret)


def test_arrays_of_any_size_keep_their_shape_and_values(many, one, bridge):
    values = np.random.default_rng(7).integers(0, 16, (3, 1500))
    x = many.secret.encrypt_packed(values, bits=4)
    assert len(x._parts) == 2, "more than a ciphertext holds"
    y = bridge.unpack(3 * x + 1)
    assert y.shape == (3, 1500)
    assert (one.secret.decrypt(y) == (3 * values + 1) % 16).all()
    some = bridge.unpack(x, 4000, 4200)
    assert some.shape == (200,)
    assert (one.secret.decrypt(some) == values.reshape(-1)[4000:4200]).all()


def test_tables_of_both_schemes_follow_each_other(many, one, bridge):
    values = np.arange(16)
    x = many.secret.encrypt_packed(values, bits=4)
    parts = many.server.lookup_many(x, [lambda m: m % 4, lambda m: m // 4])
    low, high = (bridge.unpack(part, below=4) for part in parts)
    assert (one.secret.decrypt(low) == values % 4).all()
    both = one.server.bootstrap(low + high, lambda m: m * m % 16, message=16)
    assert (one.secret.decrypt(both) == (values % 4 + values // 4) ** 2 % 16).all()


def test_a_key_travels_as_a_file_and_by_pickle(many, one, bridge, tmp_path):
    bridge.save(tmp_path / "bridge.becalm")
    loaded = becalm.load(tmp_path / "bridge.becalm", allow_insecure=True)
    x = many.secret.encrypt_packed([3, 1], bits=2)
    for key in (loaded, pickle.loads(pickle.dumps(bridge))):
        assert key.to_bytes() == bridge.to_bytes()
        assert one.secret.decrypt(key.unpack(x)).tolist() == [3, 1]
    with pytest.raises(errors.Insecure):
        becalm.load(tmp_path / "bridge.becalm")
    assert "toy_2_2" in repr(bridge) and "noise" in bridge._repr_html_()


def test_refusals_say_what_was_wanted(many, one, bridge):
    x = many.secret.encrypt_packed([3, 1, 2], bits=4)
    for wrong in [(3,), (1, 1), (0, 4)]:
        with pytest.raises(errors.BadInput, match="places"):
            bridge.unpack(x, *wrong)
    for below in (0, 9):
        with pytest.raises(errors.BadInput, match="1 to 8"):
            bridge.unpack(x, below=below)
    with pytest.raises(errors.BadInput, match="packed integers"):
        bridge.unpack(one.secret.encrypt([1]))
    with pytest.raises(errors.BadInput, match="one of TFHE"):
        becalm.bridge_key(one.secret, many.secret)
    other = becalm.keygen("toy_boolean", **TOY)
    with pytest.raises(errors.WrongParams, match="big key"):
        becalm.bridge_key(many.secret, other.secret)
    # Without a padding bit no table applies.
    with pytest.raises(errors.Error):
        one.server.bootstrap(bridge.unpack(x), lambda m: m)
