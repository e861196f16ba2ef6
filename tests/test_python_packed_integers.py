"""Whole packed integers: operators as numpy has them on unsigned integers, and refusals."""

import numpy as np
import pytest

import becalm
from becalm import ckks, errors

TOY = {"allow_insecure": True, "progress": False}


@pytest.fixture(scope="module")
def keys():
    return becalm.keygen("ckks_toy_table_5", **TOY)


@pytest.fixture(scope="module")
def values():
    rng = np.random.default_rng(11)
    a, b = rng.integers(0, 256, (2, 2, 500)).astype(np.uint8)
    a[0, :4], b[0, :4] = [0, 0, 255, 255], [0, 255, 0, 255]
    b[1, ::7] = a[1, ::7]
    return a, b


@pytest.fixture(scope="module")
def packed(keys, values):
    return [becalm.uint(8).encrypt(keys.secret, v, packed=True) for v in values]


def test_operators_are_those_of_numpy(keys, values, packed):
    secret, (a, b), (x, y) = keys.secret, values, packed
    for got, wanted in [
        (x + y, a + b),
        (200 - x, 200 - a),
        (x < y, a < b),
        (x >= 100, a >= 100),
        (~x, ~a),
        (x << 3, a << 3),
        (np.where(x > y, x, 7), np.where(a > b, a, 7)),
    ]:
        found = secret.decrypt(got)
        assert found.dtype == wanted.dtype and (found == wanted).all()
    assert (x.shape, x.size, len(x), len(x.digits)) == ((2, 500), 1000, 2, 2)
    assert x.reshape(-1).shape == (1000,) and x.key_id == secret.key_id


def test_booleans_and_products(keys, values, packed):
    secret, (a, b), (x, y) = keys.secret, values, packed
    both = (x < 100) & (y != 3)
    assert (secret.decrypt(~both) == ~((a < 100) & (b != 3))).all()
    v = np.arange(256) % 16
    u, w = (becalm.uint(4).encrypt(secret, z, packed=True) for z in (v, np.arange(256) // 16))
    assert (secret.decrypt(u * w) == v * (np.arange(256) // 16) % 16).all()


def test_widths_and_wrong_calls(keys, packed):
    secret, server = keys
    wide = becalm.uint(64).encrypt(secret, [2**64 - 1, 5], packed=True)
    assert secret.decrypt(~wide).tolist() == [0, 2**64 - 6] and len(wide.digits) == 16
    x, _ = packed
    twelve = becalm.uint(12).encrypt(secret, [1], packed=True)
    tfhe, _ = becalm.keygen("toy_2_2", **TOY)
    four, _ = becalm.keygen("ckks_toy_table_4", bootstrap=None, **TOY)
    refused = [
        (errors.BadInput, lambda: becalm.uint(8).encrypt(secret, [256], packed=True), "0 to 255"),
        (errors.BadInput, lambda: becalm.uint(8).encrypt(secret, [-1], packed=True), "0 to 255"),
        (errors.BadInput, lambda: becalm.uint(8).encrypt(secret, [], packed=True), "one integer"),
        (errors.BadInput, lambda: becalm.uint(10).encrypt(secret, [1], packed=True), "multiple"),
        (errors.Unsupported, lambda: becalm.int_(8).encrypt(secret, [1], packed=True), "unsigned"),
        (errors.BadInput, lambda: becalm.uint(8).encrypt(tfhe, [1], packed=True), "CKKS"),
        (errors.BadInput, lambda: becalm.uint(8).encrypt(four, [1], packed=True), "1 to 4 bits"),
        (errors.BadInput, lambda: x + twelve, "uint8 of the shape"),
        (errors.BadInput, lambda: x + np.arange(3), "the shape"),
        (errors.BadInput, lambda: x.select(x, x), "packed boolean"),
        (errors.BadInput, lambda: x << 8, "less than 8 bits"),
        (errors.Unsupported, lambda: x << x, "everybody knows"),
        (errors.Unsupported, lambda: (x < 3) + (x < 4), "booleans"),
        (errors.BadInput, lambda: x // 3, "add, sub"),
    ]
    for kind, call, text in refused:
        with pytest.raises(kind, match=text):
            call()
    stranger, _ = becalm.keygen("ckks_toy_table_5", bootstrap=None, **TOY)
    with pytest.raises(errors.WrongKey):
        x + becalm.uint(8).encrypt(stranger, np.zeros((2, 500), int), packed=True)
    assert isinstance(x, ckks.PackedIntegers) and "uint8" in repr(x) and "8" in x._repr_html_()
    assert server.lookup(x.digits[0], range(32)).bits == 5
