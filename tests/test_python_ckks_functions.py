"""Functions of encrypted vectors: what they say, what they compute, and where they bootstrap."""

import inspect
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

import becalm
from becalm import _numpy, ckks
from becalm.__main__ import main

# Claims for every message leave nothing of long programs, and their results are compared.
pytestmark = pytest.mark.filterwarnings("ignore::becalm.PrecisionWarning")

SET = "ckks_toy_12"


@pytest.fixture(scope="module")
def keys():
    product, vector = ckks.matrix_product(8), ckks.matrix_vector(8)
    rotations = {*product.rotations(64), *vector.rotations(64), *ckks.sum_rotations(64)}
    rotations |= {*ckks.sort(4).rotations(64), *ckks.argmax(4).rotations(64), -3, -12, 2}
    options = {"slots": 64, "allow_insecure": True, "progress": False}
    return becalm.keygen(SET, rotations=rotations, **options)


def values(low=0.0, high=1.0, seed=1):
    return np.random.default_rng(seed).uniform(low, high, 64)


def far(secret, y, wanted):
    return abs(secret.decrypt(y) - wanted).max()


@pytest.mark.parametrize(
    ("f", "truth"),
    [
        (ckks.sigmoid(domain=(-4, 4)), lambda x: 1 / (1 + np.exp(-x))),
        (ckks.tanh(domain=(-1, 1)), np.tanh),
        (ckks.exp(), np.exp),
        (ckks.inverse(domain=(0.25, 1), bits=12), lambda x: 1 / x),
        (ckks.sqrt(domain=(0.1, 1), bits=12), np.sqrt),
        (ckks.inverse_sqrt(domain=(0.1, 1), bits=12), lambda x: 1 / np.sqrt(x)),
        (ckks.absolute(bits=5), abs),
        (ckks.approximate(math.cos, domain=(-3, 3), bits=14), np.cos),
        (ckks.approximate(lambda x: x**2, domain=(2, 4), degree=2), np.square),
    ],
)
def test_a_function_of_a_ciphertext_has_the_levels_and_bits_that_it_says(keys, f, truth):
    secret, _ = keys
    a = values(*f.domain)
    x = secret.encrypt(a, bound=max(map(abs, f.domain)))
    y = f(x)
    assert x.level - y.level == f.levels <= 10
    assert y.real and far(secret, y, truth(a)) < f.error + 3e-4
    assert f"{f.levels} levels, {f.bits:.1f} bits" in repr(f)


def test_the_page_says_the_levels_that_functions_have():
    page = Path(__file__).parent.parent / "docs" / "apps" / "real.md"
    rows = re.findall(r"^\| (`ckks\.[^|]*) \|.*\| (\d+) \|$", page.read_text("utf-8"), re.M)
    table = [(call, int(n)) for cell, n in rows for call in re.findall(r"`(.*?)`", cell)]
    functions = [(call, n) for call, n in table if "dot" not in call and "concat" not in call]
    assert len(functions) >= 16
    for call, levels in functions:
        if not call.startswith("ckks.matrix"):
            assert eval(call, {"ckks": ckks}).levels == levels, call


def test_comparisons_of_two_vectors_bootstrap_where_levels_run_out(keys):
    secret, _ = keys
    a, b = values(seed=1), values(seed=2)
    x, y = secret.encrypt(a, level=4), secret.encrypt(b, level=4)
    for f, truth in ((ckks.maximum(bits=6), np.maximum), (ckks.minimum(bits=6), np.minimum)):
        assert f.bootstraps(x, y) == 1
        assert far(secret, f(x, y, auto=True), truth(a, b)) < f.error + 1e-3
        with pytest.raises(becalm.BadInput, match=r"level \d or above.*turn on auto,"):
            f(x, y)
    f = ckks.compare(gap=0.05, bits=6)
    apart = abs(a - b) > f.gap
    c = secret.decrypt(f(secret.encrypt(a), secret.encrypt(b), auto=True))
    assert abs(c - (a > b))[apart].max() < f.error + 1e-3


def test_a_function_is_recorded_into_a_program(keys):
    secret, server = keys
    f = ckks.sigmoid(domain=(-1, 1), bits=10)
    p = becalm.Program(SET, slots=64)
    x = p.input(level=6)
    p.output(f(x * 0.5) + 1.0)
    a = values(-1, 1)
    y = server.run(p, secret.encrypt(a, level=6))
    assert far(secret, y, 1 / (1 + np.exp(-a / 2)) + 1) < f.error + 1e-4
    with pytest.raises(becalm.BadInput, match="1 vector"):
        f(x, x)


def test_a_program_bootstraps_by_itself():
    p = becalm.Program(SET, slots=64, auto=True)
    x = p.input(level=1)
    y = x
    for _ in range(12):
        y = 0.5 * y * (3 - y * y)
    p.output(y)
    assert p.cost.depth == 3 and p.levels[0] == [1]
    a = np.where(np.arange(64) % 2, 1.0, -1.0) * values(0.3, 1)
    want = a
    for _ in range(12):
        want = 0.5 * want * (3 - want * want)
    options = {"allow_insecure": True, "progress": False}
    secret, server = becalm.keygen(SET, slots=64, needs=p.needs, **options)
    y = server.run(p, secret.encrypt(a, level=1))
    assert far(secret, y, want) < 1e-3


def test_what_a_program_lifts_and_what_it_says_without():
    p = becalm.Program(SET, auto=True)
    assert (p.input(level=0) ** 8).level == 7
    assert p.input(level=1).polynomial([0, 1, 0, 1]).level == 8
    assert (ckks.Matrix(np.eye(2048)) @ p.input(level=0)).level == 9
    x = p.input(level=1)
    count = p.cost.bootstraps
    square = x * x
    _ = (square * x, square * 2)
    # The square is bootstrapped, once for both.
    assert p.cost.bootstraps == count + 1
    for exponent, level, bootstraps in [(3, 8, 1), (9, 6, 1), (1024, 0, 1), (4097, 6, 2)]:
        r = becalm.Program(SET, auto=True)
        y = r.input(level=1)
        assert ((y**exponent).level, r.cost.bootstraps) == (level, bootstraps), exponent
        assert r.power(y, exponent).level == level
    plain = becalm.Program(SET)
    with pytest.raises(becalm.BadInput, match="level 3"):
        _ = plain.input(level=0) ** 8
    sizes = []
    for real in (True, False):
        q = becalm.Program(SET, auto=True)
        z = q.input(level=0, real=real)
        _ = z * z
        sizes.append(len(q))
    assert sizes[0] < sizes[1]
    with pytest.raises(becalm.WrongKey, match="bootstrap"):
        becalm.Program("ckks_n14", auto=True)


def test_lists_within_slots(keys):
    secret, _ = keys
    a = values(seed=5)
    x = secret.encrypt(a)
    f = ckks.sort(4, bits=4)
    y = f(x, auto=True)
    assert far(secret, y, np.sort(a.reshape(-1, 4)).ravel()) < f.error + 5e-3
    best, place = ckks.largest(4, bits=5), ckks.argmax(4, gap=0.02, bits=3)
    blocks = a.reshape(-1, 4)
    assert abs(secret.decrypt(best(x, auto=True))[::4] - blocks.max(1)).max() < best.error + 5e-3
    where, top = place(x, auto=True)
    apart = np.diff(np.sort(blocks)).min(1) > place.gap
    assert apart.sum() > 8
    assert abs(secret.decrypt(where)[::4] - blocks.argmax(1))[apart].max() < place.error + 5e-3
    assert abs(secret.decrypt(top)[::4] - blocks.max(1))[apart].max() < place.error + 5e-3


def test_products_of_encrypted_matrices(keys):
    secret, _ = keys
    rng = np.random.default_rng(3)
    A, B, v = rng.uniform(-1, 1, (8, 8)), rng.uniform(-1, 1, (8, 5)), rng.uniform(-1, 1, 8)
    a, b = (secret.encrypt(ckks.packed(m, 8)) for m in (A, B))
    product = ckks.matrix_product(8)
    y = product(a, b)
    assert a.level - y.level == product.levels == 3
    assert abs(ckks.unpacked(secret.decrypt(y), (8, 5)) - A @ B).max() < 1e-4
    vector = ckks.matrix_vector(8)
    found = secret.decrypt(vector(a, secret.encrypt(v)))
    assert abs(found[:8] - A @ v).max() < 1e-4 and abs(found[8:]).max() < 1e-4
    assert len(product.rotations(64)) < 20


def test_sums_copies_slices_and_joins(keys):
    secret, _ = keys
    a, b = values(seed=1), values(seed=2)
    x, y = secret.encrypt(a), secret.encrypt(b)
    strided = sum(np.roll(a, -8 * k) for k in range(4))
    assert far(secret, x.sum(4, stride=8), strided) < 1e-4 and x.sum(4, stride=8).level == x.level
    assert far(secret, x.sum(stride=8), a.reshape(8, 8).sum(0).tolist() * 8) < 1e-4
    assert far(secret, x.mean(), a.mean()) < 1e-5
    assert far(secret, x.replicate(3), a[3]) < 1e-5
    assert far(secret, x.replicate(3, 16), np.repeat(a[3::16], 16)) < 1e-4
    part = x[2:5]
    assert far(secret, part, [*a[2:5], *[0] * 61]) < 1e-5 and part.level == x.level - 1
    joined = ckks.concatenate([x, y], [3, 4])
    assert far(secret, joined, [*a[:3], *b[:4], *[0] * 57]) < 1e-5
    assert far(secret, ckks.dot(x, y), a @ b) < 1e-3
    z = secret.encrypt(a * 1j)
    assert far(secret, z[2:5], [*a[2:5] * 1j, *[0] * 61]) < 1e-5


def test_functions_of_numpy_work_or_name_the_call(keys):
    secret, _ = keys
    a = values()
    x = secret.encrypt(a)
    for made, wanted in (
        (np.sum(x), a.sum()),
        (np.mean(x), a.mean()),
        (np.add.reduce(x), a.sum()),
        (np.add(a, x), 2 * a),
        (np.subtract(a, x * 0.5), a / 2),
        (a - x, 0),
        (a * x, a * a),
        (np.float64(2) * x, 2 * a),
        (np.multiply(x, x), a * a),
        (np.square(x), a * a),
        (np.negative(x), -a),
        (np.divide(x, 2), a / 2),
        (np.dot(x, a), a @ a),
        (np.roll(x, -2), np.roll(a, -2)),
        (np.conjugate(x), a),
    ):
        assert far(secret, made, wanted) < 1e-3
    assert np.shape(x) == (64,) and np.size(x) == 64
    for call, named in (
        (lambda: np.exp(x), "ckks.exp"),
        (lambda: np.abs(x), "ckks.absolute"),
        (lambda: abs(x), "ckks.absolute"),
        (lambda: np.maximum(x, x), "ckks.maximum"),
        (lambda: np.maximum(a, x), "ckks.maximum"),
        (lambda: np.sort(x), "ckks.sort"),
        (lambda: np.max(x), "ckks.largest"),
        (lambda: np.argmax(x), "ckks.argmax"),
        (lambda: np.concatenate([x, x]), "ckks.concatenate"),
        (lambda: np.sin(x), "ckks.approximate"),
        (lambda: np.linalg.norm(x), "x.sum"),
        (lambda: np.sum(x, axis=0), "x.sum"),
        (lambda: x < x, "ckks.compare"),
        (lambda: 1 / x, "ckks.inverse"),
        (lambda: becalm.concatenate([x, x]), "ckks.concatenate"),
        (lambda: becalm.stack([x, x]), "ckks.concatenate"),
        (lambda: x[2], "replicate"),
    ):
        with pytest.raises(becalm.Unsupported) as e:
            call()
        assert named in e.value.remedy, e.value


def test_the_approximation_that_a_refusal_names_exists(keys):
    secret, _ = keys
    x = secret.encrypt(values())
    tried = 0
    for f in {f for f in vars(np).values() if isinstance(f, np.ufunc)}:
        arguments = (x,) * f.nin
        try:
            f(*arguments)
        except becalm.Unsupported as e:
            remedy = e.remedy
        else:
            continue
        call = re.fullmatch(r"use (ckks\.approximate\(.*\))\(x\)", remedy)
        assert "approximate(" not in remedy or call, remedy
        if call:
            made = eval(call[1], {"ckks": ckks, "np": np})
            assert made.bits >= 20, made
            tried += 1
    assert tried > 15
    with pytest.raises(becalm.Unsupported, match=r"np\.add\.outer.*x\.sum"):
        np.add.outer(x, x)


def test_keywords_of_numpy_are_refused_by_name(keys):
    x = keys.secret.encrypt(values())
    told = {"dtype": float, "initial": 2, "out": (), "where": True, "keepdims": True}
    of_elements = (*_numpy._OPERATORS, *_numpy._UNARY)
    for name, value in told.items():
        for f in of_elements:
            with pytest.raises(becalm.Unsupported, match=f"np.{f.__name__}: .*got {name}="):
                x.__array_ufunc__(f, "__call__", *[x] * f.nin, **{name: value})
        for f in (*_numpy._OF_ONE, *_numpy._OF_TWO):
            with pytest.raises(becalm.Unsupported, match=f"np.{f.__name__}: .*got {name}="):
                x.__array_function__(f, (), (x, x), {name: value})
        # They were passed over in silence here.
        with pytest.raises(becalm.Unsupported, match=f"np.add.reduce: .*got {name}="):
            x.__array_ufunc__(np.add, "reduce", x, **{name: value})
    assert np.add.reduce(x, axis=0).slots == np.sum(x, axis=None).slots == 64


def test_wrong_use_is_refused_before_anything_is_computed(keys):
    secret, _ = keys
    x = secret.encrypt(values())
    for call, words in (
        (lambda: x * [1, 2], "64 values, or one"),
        (lambda: x * [], "64 values, or one"),
        (lambda: [1, 2] * x, "64 values, or one"),
        (lambda: x / [1, 2], "64 values, or one"),
        (lambda: x[::2], "without a step"),
        (lambda: x[5:5], "one slot or more"),
        (lambda: x["a":], "integers"),
        (lambda: x.replicate(64), "index below 64"),
        (lambda: x.sum(16, stride=8), "at most 64 slots"),
        (lambda: x.sum(stride=0), "stride"),
        (lambda: ckks.tanh()(secret.encrypt([1j])), "known to be real"),
        (lambda: ckks.sort(128)(x, auto=True), "128 slots"),
        (lambda: ckks.concatenate([x], [3, 4]), "a size for each"),
        (lambda: ckks.approximate(math.cos, domain=(0, 1)), "either bits or a degree"),
        (lambda: ckks.approximate(math.cos, domain=(1,), bits=4), "two numbers"),
        (lambda: ckks.approximate(4, domain=(0, 1), bits=4), "function of one number"),
        (lambda: ckks.inverse(domain=(-1, 1)), "domain"),
        (lambda: ckks.sqrt(domain=(-1, 1)), "domain"),
        (lambda: ckks.sigmoid(bits=99), "40 bits"),
        (lambda: ckks.sort(5), "power of two"),
        (lambda: ckks.packed(np.eye(9), 8), "at most 8"),
        (lambda: ckks.maximum()(x), "2 vectors"),
    ):
        with pytest.raises(becalm.BadInput, match=words):
            call()
    with pytest.raises(ZeroDivisionError):
        ckks.approximate(lambda x: 1 / (x - x), domain=(0, 1), bits=4)
    with pytest.raises(becalm.WrongKey) as e:
        _ = x[37:39]
    assert e.value.missing.by == 37
    options = {"bootstrap": None, "allow_insecure": True, "progress": False}
    alone, _ = becalm.keygen(SET, slots=64, **options)
    with pytest.raises(becalm.WrongKey, match="bootstrap"):
        ckks.tanh()(alone.encrypt([0.5], level=1), auto=True)


def test_the_command_has_the_same_functions_with_the_same_defaults(capfd):
    assert main(["function", "--json"]) == 0
    listed = {row["name"]: row for row in json.loads(capfd.readouterr().out)}
    between_slots = {"sum", "mean", "replicate"}
    for name, row in listed.items():
        where = ckks.Ciphertext if name in between_slots else ckks
        parameters = inspect.signature(getattr(where, name)).parameters
        for what in ("domain", "bits", "gap", "stride", "index"):
            usual = getattr(parameters.get(what), "default", inspect.Parameter.empty)
            usual = None if usual is inspect.Parameter.empty else usual
            found = tuple(row[what]) if what == "domain" and row[what] else row[what]
            assert found == usual, (name, what)
    made = {name for name in ckks.__all__ if hasattr(ckks, name)}
    assert set(listed) - between_slots <= made
