"""Encryption, decryption and linear operations: every shape and type, against numpy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import becalm

P = 16  # values of toy_2_2
DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", ">i4"]


@pytest.mark.parametrize("value", [0, 7, 15, True, np.int8(3), np.array(9)])
def test_a_single_value_comes_back_as_an_int(toy, value):
    x = toy.secret.encrypt(value)
    back = toy.secret.decrypt(x)
    assert x.shape == () and x.ndim == 0 and x.size == 1
    assert type(back) is int and back == int(value)


@pytest.mark.parametrize(
    "value", [[], [5], [1, 2, 3], (4, 5), range(16), [[1, 2, 3], [4, 5, 6]], [[[7]]], [[], []]]
)
def test_lists_keep_their_shape(toy, value):
    x = toy.secret.encrypt(value)
    back = toy.secret.decrypt(x)
    assert back.dtype == np.int64
    assert back.flags.writeable
    assert x.shape == back.shape == np.shape(value)
    assert back.tolist() == np.asarray(value, dtype=int).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_every_integer_type(toy, rng, dtype):
    values = rng.integers(0, 2, (3, 4)).astype(dtype)
    assert np.array_equal(toy.secret.decrypt(toy.secret.encrypt(values)), values.astype(int))


def test_arrays_that_are_not_contiguous(toy, rng):
    values = rng.integers(0, P, (6, 5))
    for view in (values.T, values[::2, ::-1], np.asfortranarray(values), values[:, 3]):
        assert np.array_equal(toy.secret.decrypt(toy.secret.encrypt(view)), view)


def test_an_encoding_with_more_values(toy):
    x = toy.secret.encrypt([0, 50, 99], message=100, below=100)
    assert x.message == 100 and x.range == (0, 99)
    assert toy.secret.decrypt(x + x).tolist() == [0, 0, 98]


def test_without_padding_sums_wrap(toy):
    x = toy.secret.encrypt([3, 9], message=10, padding=False)
    assert not x.padding
    assert toy.secret.decrypt(x * 3).tolist() == [9, 7]


def test_encryptions_differ_and_phases_are_near_the_messages(toy):
    a, b = toy.secret.encrypt([5] * 64), toy.secret.encrypt([5] * 64)
    assert a._lwe.words() != b._lwe.words()
    errors = toy.secret.phases(a).astype(float) / 2**64 - 5 / 32
    std = np.sqrt(a.noise_variance)
    assert 0 < np.abs(errors).max() < 10 * std
    assert 0.5 < errors.std() / std < 1.6


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_linear_operations_agree_with_numpy(toy, data):
    """Random combinations of ciphertexts, arrays and numbers whose shapes broadcast."""
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=4))
    a, b, c = (
        data.draw(hnp.arrays(np.int64, s, elements=st.integers(0, P - 1)))
        for s in shapes.input_shapes
    )
    f, g, h = (data.draw(st.integers(-9, 9)) for _ in range(3))
    x, y = toy.secret.encrypt(a), toy.secret.encrypt(b)
    for got, wanted in [
        (f * x + y * g + h, f * a + b * g + h),
        (c - x, c - a),
        (x - y + c, a - b + c),
        (-(c + y), -(c + b)),
        (c * x - h, c * a - h),
        (h - x * c, h - a * c),
    ]:
        assert got.shape == np.shape(wanted)
        assert np.array_equal(toy.secret.decrypt(got), wanted % P)
        low, high = got.range
        if np.size(wanted):
            assert low <= np.min(wanted) and np.max(wanted) <= high


def test_operators_on_the_left_and_in_place(toy):
    x = toy.secret.encrypt([1, 2, 3])
    y = x
    y += 1
    y *= 2
    y -= [1, 1, 1]
    assert toy.secret.decrypt(y).tolist() == [3, 5, 7]
    assert toy.secret.decrypt(x).tolist() == [1, 2, 3]
    assert toy.secret.decrypt(np.array([1, 1, 1]) + x).tolist() == [2, 3, 4]
    assert toy.secret.decrypt(np.int64(2) * x).tolist() == [2, 4, 6]
    assert toy.secret.decrypt(+x).tolist() == [1, 2, 3]
    for wrong, error in ((1.5, becalm.BadInput), ("1", TypeError), (None, TypeError)):
        with pytest.raises(error):
            x + wrong
        with pytest.raises(error):
            wrong * x


def test_noise_and_range_follow_the_operations(toy):
    x = toy.secret.encrypt([1], below=4)
    assert (x + x).range == (0, 6) and (-x).range == (-3, 0) and (x - 2).range == (-2, 1)
    assert np.isclose((3 * x).noise_variance, 9 * x.noise_variance)
    assert np.isclose((x + x).noise_variance, 4 * x.noise_variance)
    assert (x + 5).noise_variance == x.noise_variance


def test_indexing_reshaping_and_joining_as_numpy(toy, rng):
    values = rng.integers(0, P, (4, 6))
    x = toy.secret.encrypt(values)
    mask = values > 7
    for key in (0, -1, slice(1, 3), (2, 3), (slice(None), 1), [3, 0, 0], mask, (..., None)):
        assert np.array_equal(toy.secret.decrypt(x[key]), values[key])
    assert len(x) == 4
    assert [toy.secret.decrypt(row).tolist() for row in x] == values.tolist()
    assert np.array_equal(toy.secret.decrypt(x.reshape(8, -1)), values.reshape(8, -1))
    assert np.array_equal(toy.secret.decrypt(x.reshape((24,))), values.reshape(24))
    assert toy.secret.decrypt(x[0, :1].reshape(())) == values[0, 0]
    joined = becalm.concatenate([x, x[:2]], axis=0)
    assert np.array_equal(toy.secret.decrypt(joined), np.concatenate([values, values[:2]]))
    stacked = becalm.stack([x, x + 1], axis=1)
    assert np.array_equal(toy.secret.decrypt(stacked), np.stack([values, (values + 1) % P], axis=1))
    with pytest.raises(IndexError):
        x[4]
    with pytest.raises(TypeError):
        len(x[0, 0])
    with pytest.raises(becalm.BadInput):
        x.reshape(5, 5)
    with pytest.raises(becalm.BadInput):
        becalm.concatenate([x, x[0]])
    with pytest.raises(becalm.BadInput):
        becalm.stack([])


def test_an_array_with_a_mask_is_not_encrypted(toy):
    """numpy's `asarray` drops the mask, and what it hid would count."""
    masked = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    number = becalm.uint(8)
    ckks, _ = becalm.keygen("ckks_toy_12", allow_insecure=True, progress=False)
    calls = [
        lambda: toy.secret.encrypt(masked),
        lambda: toy.secret.encrypt(masked, number),
        lambda: toy.secret.encrypt([1, 2, 3]) + masked,
        lambda: toy.secret.encrypt([1, 2, 3], number).on(toy.server) + masked,
        lambda: ckks.encrypt(masked),
        lambda: ckks.encrypt([1.0, 0.5, 0.25]) * masked,
    ]
    for call in calls:
        with pytest.raises(becalm.BadInput, match=r"a masked array; .*filled\(0\)"):
            call()
    assert toy.secret.decrypt(toy.secret.encrypt(masked.filled(0))).tolist() == [1, 0, 3]
