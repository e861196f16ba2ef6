"""The bridge: packed integers of CKKS as ciphertexts of TFHE, and back."""

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


@pytest.fixture(scope="module")
def packing(many, one):
    return becalm.packing_key(one.secret, many.secret)


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


def test_arrays_of_any_size_are_packed_in_their_shape(many, one, packing):
    values = np.random.default_rng(8).integers(0, 16, (3, 1500))
    x = packing.pack(one.secret.encrypt(values), bits=4)
    assert x.shape == (3, 1500) and x.bits == 4
    assert len(x._parts) == 2, "more than a ciphertext holds"
    assert (many.secret.decrypt(3 * x + 1) == (3 * values + 1) % 16).all()
    one_integer = packing.pack(one.secret.encrypt(5), bits=4)
    assert one_integer.shape == () and many.secret.decrypt(one_integer) == 5


def test_integers_go_to_tfhe_and_come_back(many, one, bridge, packing):
    values = np.arange(16).reshape(2, 8)
    x = many.secret.encrypt_packed(values, bits=4)
    parts = many.server.lookup_many(x, [lambda m: m % 4, lambda m: m // 4])
    low, high = (bridge.unpack(part, below=4) for part in parts)
    squares = one.server.bootstrap(low + high, lambda m: m * m % 16, message=16)
    back = packing.pack(squares, bits=4)
    wanted = (values % 4 + values // 4) ** 2 % 16
    assert (many.secret.decrypt(back) == wanted).all()
    assert (many.secret.decrypt(many.server.lookup(back, lambda m: 15 - m)) == 15 - wanted).all()


def test_a_packing_key_travels_as_a_file_and_by_pickle(many, one, packing, tmp_path):
    packing.save(tmp_path / "packing.becalm")
    loaded = becalm.load(tmp_path / "packing.becalm", allow_insecure=True)
    x = one.secret.encrypt([3, 1])
    sent = becalm.from_bytes(packing.to_bytes(), allow_insecure=True)
    for key in (loaded, sent, pickle.loads(pickle.dumps(packing))):
        assert key.to_bytes() == packing.to_bytes()
        assert many.secret.decrypt(key.pack(x, bits=4)).tolist() == [3, 1]
    with pytest.raises(errors.Insecure):
        becalm.load(tmp_path / "packing.becalm")
    with pytest.raises(errors.BadFile):
        becalm.BridgeKey.from_bytes(packing.to_bytes(), allow_insecure=True)
    assert packing.source == ("toy_2_2", one.secret.key_id)
    assert "toy_2_2" in repr(packing) and "noise" in packing._repr_html_()


def test_what_cannot_be_packed_is_refused(many, one, packing):
    x = one.secret.encrypt([3, 1])
    for bits in (0, 5):
        with pytest.raises(errors.BadInput, match="bits"):
            packing.pack(x, bits=bits)
    with pytest.raises(errors.BadInput, match="0 to 7"):
        packing.pack(x, bits=3)
    with pytest.raises(errors.BadInput, match="ciphertexts of TFHE"):
        packing.pack(many.secret.encrypt_packed([1], bits=4), bits=4)
    with pytest.raises(errors.BadInput, match="one of CKKS"):
        becalm.packing_key(many.secret, one.secret)
    other = becalm.keygen("toy_2_2", **TOY)
    with pytest.raises(errors.WrongKey, match="packing key"):
        packing.pack(other.secret.encrypt([1]), bits=4)
