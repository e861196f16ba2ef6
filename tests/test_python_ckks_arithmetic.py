"""CKKS beyond sums and products of slots, against numpy, in an insecure ring."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import Chebyshev, Hermite, Legendre, Polynomial

import becalm
from becalm import ckks

TOY = {"bootstrap": None, "allow_insecure": True, "progress": False}
SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def keys():
    return becalm.keygen("ckks_toy_12", rotations=[3, -5, *ckks.sum_rotations(2048)], **TOY)


@pytest.fixture(scope="module")
def small():
    """Sixteen slots and every rotation of them: any matrix, without its own keys."""
    return becalm.keygen("ckks_toy_12", slots=16, rotations=range(16), **TOY)


def near(secret, x, wanted):
    """Within the standard deviation that the ciphertext claims: for many errors their root mean
    square, for few the largest.
    """
    got, wanted = secret.decrypt(x), np.asarray(wanted)
    assert x.real == (wanted.dtype.kind != "c") and got.dtype == wanted.dtype
    off = abs(got[: wanted.size] - wanted)
    most = 1.2 if off.size >= 2048 else 12
    size = np.sqrt((off**2).mean()) if off.size >= 2048 else off.max()
    assert size < most * x.error, (size, x.error)
    assert x.error < 1e-4 * max(1, abs(wanted).max())


def refused(kind, words, call):
    with pytest.raises(becalm.Error) as e:
        call()
    assert type(e.value) is kind and words in str(e.value) and e.value.remedy, str(e.value)


def test_several_rotations_at_once_are_those_one_by_one(keys, rng):
    secret, server = keys
    a = rng.uniform(-1, 1, 2048)
    x = secret.encrypt(a, level=4)
    turns = [1, 3, -5, 0, 3, 2048 + 1]
    for listed in (turns, tuple(turns), np.array(turns), iter(turns)):
        made = x.rotate(listed)
        assert isinstance(made, list) and len(made) == 6
    for k, y in zip(turns, made, strict=True):
        near(secret, y, np.roll(a, -k))
        assert y.to_bytes() == server.rotate(x, k).to_bytes()
    assert x.rotate([]) == [] and isinstance(x.rotate(np.int64(3)), ckks.Ciphertext)
    z = secret.encrypt(a * 1j)
    near(secret, z.rotate([2])[0], np.roll(a * 1j, -2))
    refused(becalm.WrongKey, "make keys with rotations=[1, 7]", lambda: x.rotate([1, 7]))
    for wrong in ("ab", [0.5], 0.5, None, [[1]]):
        refused(becalm.BadInput, "an integer", lambda wrong=wrong: x.rotate(wrong))


def test_sums_of_slots(keys, rng):
    secret, server = keys
    a = rng.uniform(-1, 1, 2048)
    x = secret.encrypt(a, level=3)
    near(secret, x.sum(), np.full(2048, a.sum()))
    for size in (1, 2, 64, 2048):
        around = np.concatenate([a, a])
        windows = np.lib.stride_tricks.sliding_window_view(around, size)[:2048].sum(axis=1)
        y = server.sum(x, size)
        assert y.level == 3
        near(secret, y, windows)
        blocks = secret.decrypt(y)[::size]
        assert abs(blocks - a.reshape(-1, size).sum(axis=1)).max() < 8 * y.error
    b = rng.uniform(-1, 1, 2048) + 1j
    near(secret, secret.encrypt(b, bound=2).sum(4), sum(np.roll(b, -k) for k in range(4)))
    # The inner product of two vectors.
    y = (x * secret.encrypt(b.imag * 0.5)).sum()
    near(secret, y, np.full(2048, a.sum() / 2))
    for size in (0, 3, 4096):
        refused(becalm.BadInput, "a power of two", lambda size=size: x.sum(size))
    refused(becalm.BadInput, "size from 0", lambda: x.sum(-2))
    refused(becalm.BadInput, "an integer as size", lambda: x.sum(0.5))
    refused(becalm.BadInput, "a power of two", lambda: ckks.sum_rotations(12))
    assert ckks.sum_rotations(1) == []
    few = becalm.keygen("ckks_toy_12", slots=8, rotations=[1], **TOY)
    y = few.secret.encrypt([1.0])
    refused(becalm.WrongKey, "make keys with rotations=ckks.sum_rotations(8)", y.sum)
    near(few.secret, y.sum(2), [1.0, 0, 0, 0, 0, 0, 0, 1])


@settings(max_examples=25, deadline=None)
@given(
    st.tuples(st.integers(1, 16), st.integers(1, 16)),
    SEEDS,
    st.booleans(),
    st.sampled_from([0.1, 0.5, 1.0]),
    st.integers(1, 10),
)
def test_matrices_of_any_shape(small, shape, seed, is_complex, density, level):
    secret, _ = small
    rng = np.random.default_rng(seed)
    array = rng.uniform(-1, 1, shape) * (rng.uniform(0, 1, shape) < density)
    if is_complex:
        array = array * np.exp(1j * rng.uniform(0, 6, shape))
    a = rng.uniform(-1, 1, 16)
    M = ckks.Matrix(array, slots=16)
    y = M @ secret.encrypt(a, level=level)
    array = array if array.imag.any() else array.real
    wanted = np.zeros(16, array.dtype)
    wanted[: shape[0]] = array @ a[: shape[1]]
    assert y.level == level - 1
    near(secret, y, wanted)
    if shape == (16, 16):
        diagonals = {k: [array[i, (i + k) % 16] for i in range(16)] for k in range(-8, 8)}
        near(secret, ckks.Matrix.from_diagonals(diagonals) @ secret.encrypt(a), wanted)


def test_the_keys_of_a_matrix_suffice(rng):
    """For a dense one, a wide one that is gathered around a rotation, a band, and one baby step."""
    dense = ckks.Matrix(rng.uniform(-1, 1, (128, 128)) / 128)
    wide = ckks.Matrix(rng.uniform(-1, 1, (40, 70)) / 70, slots=128)
    band = ckks.Matrix.from_diagonals({-1: 0.25, 0: 0.5, 1: 0.25}, slots=128)
    few = ckks.Matrix(rng.uniform(-1, 1, (128, 128)) / 128, baby=2)
    assert len(few.rotations) == 3 < len(dense.rotations) < 24 and few.baby == 2
    assert band.rotations == [1, 127] and len(wide.rotations) < 30
    a = rng.uniform(-1, 1, 128)
    wanted = (np.roll(a, 1) + 2 * a + np.roll(a, -1)) / 4
    for M in (dense, wide, band, few):
        options = {"slots": 128, "rotations": M.rotations, **TOY}
        secret, server = becalm.keygen("ckks_toy_12", **options)
        x = secret.encrypt(a, level=5)
        y, size = M @ x, M.nbytes
        assert y.to_bytes() == server.matmul(M, x).to_bytes() and M.nbytes == size > 0
        if M is band:
            near(secret, y, wanted)
        server_of_another_level = M @ x.level_down(2)
        assert server_of_another_level.level == 1 and M.nbytes > size
    refused(becalm.WrongKey, "rotations=M.rotations", lambda: dense @ x)
    assert dense.nbytes > 0
    again = ckks.Matrix(np.eye(128) + np.eye(128, k=9) / 2)
    refused(becalm.WrongKey, "make keys with rotations=[9]", lambda: again @ x)
    assert again.nbytes == 0, "nothing was encoded in vain"


def test_matrices_that_cannot_be(small):
    secret, server = small
    x = secret.encrypt([0.5])
    M = ckks.Matrix(np.eye(16))
    stranger = becalm.keygen("ckks_toy_12", slots=16, **TOY).secret.encrypt([0.5])
    bad, matrix = becalm.BadInput, ckks.Matrix
    for kind, words, call in (
        (bad, "rows and columns", lambda: matrix([1, 2])),
        (bad, "rows and columns", lambda: matrix(np.zeros((0, 3)))),
        (bad, "finite numbers", lambda: matrix([[1, float("nan")]])),
        (bad, "numbers", lambda: matrix([["a"]])),
        (bad, "equally long", lambda: matrix([[1], [1, 2]])),
        (bad, "a power of two of slots from 3 to 65536", lambda: matrix(np.eye(3), slots=2)),
        (bad, "a power of two of slots from 3 to 65536", lambda: matrix(np.eye(3), slots=6)),
        (bad, "from 1 to 65536", lambda: matrix.from_diagonals({0: 1.0}, slots=1 << 40)),
        (bad, "baby of 1 or more", lambda: matrix(np.eye(3), baby=0)),
        (bad, "diagonals by their numbers", lambda: matrix.from_diagonals([1, 2])),
        (bad, "4 values in a diagonal", lambda: matrix.from_diagonals({0: [1] * 4, 1: [2]})),
        (bad, "an integer", lambda: matrix.from_diagonals({0.5: 1})),
        (bad, "a matrix for 16 slots", lambda: matrix(np.eye(4)) @ x),
        (bad, "a CKKS ciphertext", lambda: M @ [1, 2]),
        (bad, "a ckks.Matrix", lambda: server.matmul(np.eye(16), x)),
        (bad, "level 1 or above", lambda: M @ secret.encrypt([1], level=0)),
        (becalm.WrongKey, stranger.key_id, lambda: server.matmul(M, stranger)),
        (becalm.Unsupported, "ckks.Matrix(array) @ x", lambda: np.eye(16) @ x),
        (becalm.Unsupported, "ckks.Matrix(array) @ x", lambda: x @ M),
        (becalm.Unsupported, "from its array", lambda: pickle.dumps(M)),
    ):
        refused(kind, words, call)
    assert "1 real diagonal for 16 slots" in repr(M)
    near(secret, ckks.Matrix(np.zeros((16, 16))) @ x, np.zeros(16))
    near(secret, ckks.Matrix.from_diagonals({}, slots=16) @ x, np.zeros(16))
    near(
        secret,
        ckks.Matrix.from_diagonals({3: 1j, -13: 1}, slots=16) @ x,
        np.roll(np.eye(16)[0] * (0.5 + 0.5j), -3),
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 20), SEEDS, st.booleans())
def test_polynomials_of_any_degree(small, degree, seed, powers):
    secret, _ = small
    rng = np.random.default_rng(seed)
    coefficients = rng.uniform(-1, 1, degree + 1)
    p = coefficients if powers else Chebyshev(coefficients)
    a = rng.uniform(-1, 1, 16)
    y = secret.encrypt(a, level=7).polynomial(p)
    assert y.level == 7 - ckks.depth(p) == 7 - degree.bit_length()
    assert y.scale == pytest.approx(secret.encrypt([0], level=y.level).scale, rel=1e-9)
    near(secret, y, Polynomial(p)(a) if powers else p(a))


def test_polynomials_of_numpy_and_their_domains(keys, rng):
    secret, server = keys
    sigmoid = Chebyshev.interpolate(lambda t: 1 / (1 + np.exp(-t)), 15, domain=[-8, 8])
    for p, depth in (
        (sigmoid, 5),
        (Chebyshev.interpolate(np.cos, 7, domain=[2, 4]), 3),
        (Chebyshev.interpolate(np.cos, 7), 3),
        (Polynomial([1, 0, -0.5]), 2),
        (Polynomial([1, 2, 3, 4], domain=[0, 3], window=[0, 3]), 3),
        (Polynomial([0.5, 2], domain=[0, 9]), 1),
        (Legendre([0.1, 0.2, 0.3, 0.4]), 2),
        (Hermite([0.1, 0.2, 0.3], domain=[-2, 2], window=[-1, 1]), 3),
        (Polynomial([1, 0.5, 0, 0, 0]), 1),
    ):
        a = rng.uniform(*p.domain, 2048)
        x = secret.encrypt(a, level=6, bound=max(map(abs, p.domain)))
        assert ckks.depth(p) == depth
        y = server.polynomial(x, p)
        assert y.level == 6 - depth
        near(secret, y, p(a))
    values = np.exp(1j * np.arange(2048)) * 0.9
    near(secret, secret.encrypt(values).polynomial([0.25, 0, 1]), values**2 + 0.25)
    assert abs(sigmoid(a[:1]) - 1 / (1 + np.exp(-a[:1]))).max() < 0.01


def test_polynomials_that_cannot_be(keys):
    secret, _ = keys
    x = secret.encrypt([0.5], level=3)
    wide = Chebyshev([0] * 8 + [1], domain=[0, 9])
    for words, p in (
        ("degree 1 or above", [2.0]),
        ("degree 1 or above", []),
        ("degree 1 or above", [1, 0, 0]),
        ("degree 1 or above", Polynomial([3.0])),
        ("finite numbers", [1, float("nan")]),
        ("finite numbers", Chebyshev([1, float("inf")])),
        ("real coefficients", [1, 2j]),
        ("a list of coefficients", [[1, 2]]),
        ("a list of coefficients", 0.5),
        ("numbers", "abc"),
        ("from the constant up", np.poly1d([1, 2, 3])),
        ("at level 4 or above for degree 8, got level 3", [0.1] * 9),
        ("at level 5 or above for degree 8", wide),
    ):
        refused(becalm.BadInput, words, lambda p=p: x.polynomial(p))
    assert ckks.depth(wide) == 5
    refused(becalm.BadInput, "a CKKS ciphertext", lambda: keys.server.polynomial([0.5], [0, 1]))


def test_dot_products(keys, rng):
    secret, server = keys
    a, b = rng.uniform(-1, 1, (2, 9, 2048))
    xs = [secret.encrypt(v, level=5 + i % 2) for i, v in enumerate(a)]
    ys = [secret.encrypt(v, level=6) for v in b]
    y = ckks.dot(xs, ys)
    assert y.level == 4
    near(secret, y, (a * b).sum(axis=0))
    assert y.to_bytes() == server.dot(iter(xs), tuple(ys)).to_bytes()
    near(secret, ckks.dot(xs[:1], [xs[0].times_i()]), a[0] ** 2 * 1j)
    assert ckks.dot([xs[0]], [xs[0]]).to_bytes() == (xs[0] * xs[0]).to_bytes()
    stranger = becalm.keygen("ckks_toy_12", **TOY).secret.encrypt([0.5])
    bad = becalm.BadInput
    for kind, words, call in (
        (bad, "as many ciphertexts", lambda: ckks.dot([], [])),
        (bad, "9 and 8", lambda: ckks.dot(xs, ys[1:])),
        (bad, "two lists", lambda: ckks.dot(3, 4)),
        (bad, "a CKKS ciphertext", lambda: ckks.dot(xs, b)),
        (bad, "level 1 or above", lambda: ckks.dot(xs, [x.level_down(0) for x in xs])),
        (becalm.WrongKey, stranger.key_id, lambda: server.dot([xs[0]], [stranger])),
    ):
        refused(kind, words, call)


def test_plaintexts_are_encoded_once(keys, rng):
    secret, server = keys
    a, b = rng.uniform(-1, 1, (2, 2048))
    p = server.encode(b, level=6)
    assert (p.level, p.slots, len(p), p.real, p.params.name) == (6, 2048, 2048, True, "ckks_toy_12")
    assert p.decode().dtype == np.float64 and abs(p.decode() - b).max() < 1e-9
    assert p.nbytes > 2048 * 16 and "level 6" in repr(p) and p.scale > 2**40
    for level, met in ((9, 6), (6, 6), (4, 4)):
        x = secret.encrypt(a, level=level)
        for made, wanted, at in (
            (x + p, a + b, met),
            (p + x, a + b, met),
            (x - p, a - b, met),
            (p - x, b - a, met),
            (x * p, a * b, met - 1),
            (p * x, a * b, met - 1),
        ):
            assert made.level == at
            near(secret, made, wanted)
    half, turned = server.encode(0.5), server.encode(b * 1j, level=6)
    assert half.level == 10 and not turned.real and abs(turned.decode() - b * 1j).max() < 1e-9
    near(secret, x * half, a / 2)
    near(secret, half - x, 0.5 - a)
    near(secret, x * turned, a * b * 1j)
    bad = becalm.BadInput
    for kind, words, call in (
        (bad, "a level from 0 to 10", lambda: server.encode(b, level=11)),
        (bad, "at most 2048 values", lambda: server.encode(np.zeros(4096))),
        (bad, "NaN", lambda: server.encode([float("nan")])),
        (bad, "values below", lambda: server.encode([1e3], level=0)),
        (bad, "level 1 or above", lambda: x * server.encode(b, level=0)),
        (becalm.Unsupported, "encode the result", lambda: p + p),
        (becalm.Unsupported, "encode the result", lambda: 2 * p),
        (becalm.Unsupported, "encode the result", lambda: b - p),
        (becalm.Unsupported, "encode the values there", lambda: pickle.dumps(p)),
    ):
        refused(kind, words, call)
    other = becalm.keygen("ckks_toy_precise", **TOY).secret.encrypt([0.5])
    refused(becalm.WrongParams, "ckks_toy_12", lambda: other * p)


def test_real_and_complex_work_together(keys, rng):
    """A small regression, as the page has it: weights, an activation, a sum."""
    secret, _ = keys
    a, w = rng.uniform(-1, 1, (2, 2048))
    x = secret.encrypt(a)
    y = (x * (w / 256)).sum().polynomial(Chebyshev.interpolate(np.tanh, 11, domain=[-4, 4]))
    assert y.level == 10 - 1 - 5 and y.real
    off = secret.decrypt(y)[0] - np.tanh((a * w).sum() / 256)
    assert abs(off) < 1e-3
