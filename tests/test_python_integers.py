"""Encrypted integers in Python: operators against numpy's, shapes, types and refusals."""

import operator as op

import numpy as np
import pytest

import becalm


@pytest.fixture(scope="module")
def words(toy):
    u8 = becalm.uint(8)
    values = np.array([[200, 3], [77, 0]], dtype=np.uint8)
    other = np.array([[100, 7], [77, 5]], dtype=np.uint8)
    encrypt = lambda v: u8.encrypt(toy.secret, v).on(toy.server)  # noqa: E731
    return toy.secret, values, other, encrypt(values), encrypt(other)


OPERATORS = [op.add, op.sub, op.mul, op.and_, op.or_, op.xor]
OPERATORS += [op.eq, op.ne, op.lt, op.le, op.gt, op.ge]


@pytest.mark.parametrize("f", OPERATORS, ids=lambda f: f.__name__)
def test_operators_agree_with_numpy(words, f):
    secret, a, b, x, y = words
    assert np.array_equal(f(x, y).decrypt(secret), f(a, b))
    assert np.array_equal(f(x, 7).decrypt(secret), f(a, np.uint8(7)))


@pytest.mark.parametrize("f", [op.floordiv, op.mod], ids=lambda f: f.__name__)
def test_division_agrees_with_numpy(words, f):
    secret, a, b, x, y = words
    assert np.array_equal(f(x, 7).decrypt(secret), f(a, np.uint8(7)))
    assert np.array_equal(f(y, x).decrypt(secret)[0], f(b, np.maximum(a, 1))[0])


def test_unary_shifts_casts_and_selection(words):
    secret, a, b, x, y = words
    assert np.array_equal((~x).decrypt(secret), ~a)
    assert np.array_equal((-x).decrypt(secret), -a)
    assert np.array_equal((x >> 3).decrypt(secret), a >> 3)
    assert np.array_equal((9 - x).decrypt(secret), np.uint8(9) - a)
    assert np.array_equal((x > y).select(x, y).decrypt(secret), np.maximum(a, b))
    assert np.array_equal(x.astype(becalm.int_(12)).decrypt(secret), a)
    q, r = divmod(x, y)
    assert np.array_equal((q * y + r).decrypt(secret), a)
    assert x.apply("count_ones").decrypt(secret)[0, 0] == 3


def test_wide_signed_and_single_values(toy):
    wide = becalm.int_(200)
    x = wide.encrypt(toy.secret, -(1 << 150)).on(toy.server)
    assert x.shape == ()
    assert (x + 1).decrypt(toy.secret) == 1 - (1 << 150)
    assert bool((x < 0).decrypt(toy.secret))


def test_costs_are_known_before():
    u64 = becalm.uint(64)
    assert u64.cost("add").bootstraps == 32
    assert u64.cost("add", deep=True).depth < 12
    assert u64.cost("and", clear=7).bootstraps < u64.cost("and").bootstraps


def test_refusals(toy, stranger):
    u8 = becalm.uint(8)
    for value in (256, -1, 1 << 300, 0.5):
        with pytest.raises(becalm.BadInput):
            u8.encrypt(toy.secret, [value])
    for bits in (0, 1, 257):
        with pytest.raises(becalm.BadInput):
            becalm.uint(bits)
    x = u8.encrypt(toy.secret, [1])
    with pytest.raises(becalm.Unsupported, match="server"):
        x + x
    with pytest.raises(becalm.BadInput):
        x.on(toy.server) + becalm.uint(9).encrypt(toy.secret, [1])
    with pytest.raises(becalm.WrongKey):
        x.on(stranger.server) + 1
    with pytest.raises(TypeError):
        x.on(toy.server) + "1"
