"""Encrypted arrays along their axes, compared with numpy: order, places, prefixes, membership,
stacks of matrices. Each call is one program and one run."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_pages import ROOT

import becalm
from becalm import _integer_operators

TYPES = {
    "uint8": (becalm.uint(8), np.uint8),
    "int8": (becalm.int_(8), np.int8),
    "bool": (becalm.boolean, np.bool_),
}


@pytest.fixture(scope="module")
def arrays(toy):
    """A matrix of each kind, with ties, clear and encrypted."""
    clear = [
        np.array([[200, 3, 3, 17], [77, 0, 9, 0]], dtype=np.uint8),
        np.array([[-128, 3, -17, 3], [77, 0, 127, -1]], dtype=np.int8),
        np.array([[True, False, True, False], [True, True, True, False]]),
    ]
    types = [becalm.uint(8), becalm.int_(8), becalm.boolean]
    return [(a, toy.secret.encrypt(a, t).on(toy.server)) for a, t in zip(clear, types, strict=True)]


def same(toy, found, wanted):
    assert isinstance(found, becalm.Integers), found
    assert found.shape == np.shape(wanted)
    return np.array_equal(toy.secret.decrypt(found), wanted)


@st.composite
def clear_arrays(draw):
    """Small arrays of a type, in which values repeat, and an axis of theirs or none."""
    name = draw(st.sampled_from(sorted(TYPES)))
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    type_, dtype = TYPES[name]
    near = st.sampled_from(sorted({type_.min, 0, 1, type_.max}))
    values = st.one_of(near, st.integers(type_.min, type_.max))
    size = int(np.prod(shape))
    flat = draw(st.lists(values, min_size=size, max_size=size))
    axis = draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1)))
    return type_, np.array(flat).astype(dtype).reshape(shape), axis


@settings(max_examples=20, deadline=None)
@given(clear_arrays())
def test_every_function_along_an_axis_is_numpys(toy, drawn):
    type_, a, axis = drawn
    x = toy.secret.encrypt(a, type_).on(toy.server)
    booleans = type_ == becalm.boolean
    summed = {} if booleans else {"dtype": a.dtype}
    last = axis if axis is not None else a.ndim - 1
    assert same(toy, np.sort(x, axis), np.sort(a, axis))
    assert same(toy, np.argsort(x, axis), np.argsort(a, axis, kind="stable"))
    assert same(toy, np.cumsum(x, axis), np.cumsum(a, axis, **summed))
    assert same(toy, np.maximum.accumulate(x, axis=last), np.maximum.accumulate(a, axis=last))
    assert same(toy, np.minimum.accumulate(x, axis=last), np.minimum.accumulate(a, axis=last))
    assert same(toy, np.add.accumulate(x, axis=last), np.add.accumulate(a, axis=last, **summed))
    assert same(toy, np.diff(x, axis=last), np.diff(a, axis=last))
    ends = {"prepend": a.dtype.type(1), "append": np.take(a, [0], axis=last)}
    assert same(toy, np.diff(x, axis=last, **ends), np.diff(a, axis=last, **ends))
    assert same(toy, np.diff(x, 0, last, prepend=1), np.diff(a, 0, last, prepend=a.dtype.type(1)))
    for keepdims in (False, True):
        more = {"axis": axis, "keepdims": keepdims}
        assert same(toy, np.argmin(x, **more), np.argmin(a, **more))
        assert same(toy, np.argmax(x, **more), np.argmax(a, **more))
        assert same(toy, np.min(x, **more), np.min(a, **more))
        assert same(toy, np.max(x, **more), np.max(a, **more))
        assert same(toy, np.any(x, **more), np.any(a, **more))
        assert same(toy, np.sum(x, **more), np.sum(a, **more, **summed))
    if not booleans:
        assert same(toy, np.prod(x, axis), np.prod(a, axis, dtype=a.dtype))
        assert same(toy, np.cumprod(x, axis), np.cumprod(a, axis, dtype=a.dtype))
        assert same(toy, np.sign(x), np.sign(a))


def test_differences_of_nothing(toy):
    x = becalm.uint(8).encrypt(toy.secret, []).on(toy.server)
    assert np.diff(x, prepend=3).shape == np.diff([], prepend=3).shape == (0,)
    assert np.diff(x, prepend=3, append=5).decrypt(toy.secret).tolist() == [2]
    with pytest.raises(becalm.BadInput, match="axis"):
        np.diff(x, axis=1, prepend=3)


def test_tuples_of_axes(toy, arrays):
    a, x = arrays[0]
    cube, y = a.reshape(2, 2, 2), x.reshape(2, 2, 2)
    for axis in ((0, 1), (1, 2), (2, 0), (0, 1, 2), (-1,), ()):
        for keepdims in (False, True):
            more = {"axis": axis, "keepdims": keepdims}
            assert same(toy, y.sum(**more), cube.sum(**more, dtype=np.uint8))
            assert same(toy, y.max(**more), cube.max(**more))
        assert same(toy, (y > 5).all(axis), (cube > 5).all(axis))
    cases = {
        "each axis once": lambda: y.sum((0, -3)),
        "axis 3 of an array of 3": lambda: y.min(axis=(0, 3)),
        "one axis or None": lambda: y.argmin((0, 1)),
        "axis x of": lambda: y.sort("x"),
        "axis 0 of an array of 0": lambda: y[0, 0, 0].sort(0),
    }
    for told, run in cases.items():
        with pytest.raises(becalm.BadInput, match=told):
            run()


def test_membership_is_numpys(toy, arrays):
    for a, x in arrays[:2]:
        for values in ([3, 0], [3, 3, 1000], [-1], [], [[77], [127]], range(0, 200, 9)):
            wanted = np.isin(a.astype(int), list(values))
            assert same(toy, np.isin(x, values), wanted)
            assert same(toy, x.isin(values, invert=True), ~wanted)
        few = x[0, :2]
        assert same(toy, np.isin(x, few), np.isin(a, a[0, :2]))
        assert same(toy, np.isin([3, 5], few), np.isin([3, 5], a[0, :2]))
    b, z = arrays[2]
    assert same(toy, z.isin([True]), b) and same(toy, z.isin([0, 1]), np.ones_like(b))


def test_outer_and_like(toy, arrays):
    for a, x in arrays[:2]:
        row = np.array([1, 2], dtype=a.dtype)
        wrapped = np.multiply.outer(a.ravel(), row)
        assert same(toy, np.outer(x, [1, 2]), wrapped)
        assert same(toy, np.outer([1, 2], x), wrapped.T)
        assert same(toy, np.add.outer(x, x[0]), np.add.outer(a, a[0]))
        assert same(toy, np.less.outer(row, x), np.less.outer(row, a))
        for f in (np.zeros_like, np.ones_like):
            assert same(toy, f(x), f(a)) and f(x).type == x.type
        assert same(toy, np.full_like(x, 7), np.full_like(a, 7))
        assert np.empty_like(x).shape == a.shape
        assert np.zeros_like(x, dtype=np.int16).type == becalm.int_(16)
        assert same(toy, np.ones_like(x, shape=(3, 1)), np.ones_like(a, shape=(3, 1)))
        assert same(toy, np.full_like(x, 5, shape=2), np.full_like(a, 5, shape=2))
        assert np.zeros_like(x, shape=()).shape == ()
        for wrong in ("2", -1, (2, -1), 1.5):
            with pytest.raises(becalm.BadInput, match="a shape"):
                np.zeros_like(x, shape=wrong)
    assert same(toy, np.ones_like(arrays[2][1]), np.ones((2, 4), dtype=bool))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        *(((2, 3, 2), (2, 2, 2)), ((3, 2), (2, 2, 1)), ((2, 1, 1, 2), (3, 2, 2))),
        *(((2,), (2, 2, 3)), ((2, 3, 2), (2,)), ((1, 3, 2), (2, 2, 2)), ((2, 0), (0, 3))),
    ],
)
def test_stacks_of_matrices(toy, rng, left, right):
    a, b = (rng.integers(0, 256, shape).astype(np.uint8) for shape in (left, right))
    u8, wanted = becalm.uint(8), a @ b
    x, y = (toy.secret.encrypt(v, u8).on(toy.server) for v in (a, b))
    assert same(toy, x @ y, wanted)
    assert same(toy, x @ b, wanted)
    assert same(toy, a @ y, wanted)
    assert same(toy, np.matmul(x, y), wanted)


def test_empty_arrays_along_axes(toy):
    u8 = becalm.uint(8)
    x = u8.encrypt(toy.secret, np.zeros((0, 2), dtype=np.uint8)).on(toy.server)
    assert same(toy, x.sort(0), np.zeros((0, 2))) and same(toy, x.cumsum(), [])
    assert x.argsort(0).shape == (0, 2) and same(toy, x.sum(0, keepdims=True), [[0, 0]])
    for run in (lambda: x.argmin(), lambda: x.max(axis=0)):
        with pytest.raises(becalm.BadInput, match="at least one element"):
            run()


def test_each_call_is_one_run_of_what_was_priced(toy, arrays, monkeypatch):
    ran, results = [], becalm.Server._results

    def watched(server, op, program, inputs, *rest):
        ran.append(program.cost)
        return results(server, op, program, inputs, *rest)

    monkeypatch.setattr(becalm.Server, "_results", watched)
    x = arrays[0][1][0]
    cases = [
        ("sort", {"count": 4}, lambda: np.sort(x)),
        ("argsort", {"count": 4}, lambda: x.argsort()),
        ("argmin", {"count": 4}, lambda: x.argmin()),
        ("argmax", {"count": 4}, lambda: x.argmax()),
        ("min", {"count": 4}, lambda: x.min()),
        ("max", {"count": 4}, lambda: x.max(axis=0)),
        ("prod", {"count": 4}, lambda: x.prod()),
        ("cumsum", {"count": 4}, lambda: x.cumsum()),
        ("cumprod", {"count": 4}, lambda: x.cumprod()),
        ("cummax", {"count": 4}, lambda: np.maximum.accumulate(x)),
        ("cummin", {"count": 4}, lambda: np.minimum.accumulate(x)),
        ("isin", {"clear": [3, 9]}, lambda: x.isin([3, 9, 3, 999])),
        ("isin", {"count": 4}, lambda: x.isin(x)),
        ("sign", {}, lambda: np.sign(x)),
        ("clip", {"clear": [5, 100]}, lambda: x.clip(5, 100)),
        ("clip", {}, lambda: x.clip(x[::-1], x[0])),
        ("pow", {"clear": 5}, lambda: x**5),
        ("matmul", {"count": 4}, lambda: x @ x),
        ("matmul", {"clear": np.arange(12).reshape(4, 3)}, lambda: x @ np.arange(12).reshape(4, 3)),
        ("sub", {}, lambda: np.diff(x)),
        ("mul", {}, lambda: np.outer(x, x)),
    ]
    u8 = becalm.uint(8)
    for name, more, run in cases:
        ran.clear()
        run()
        assert ran == [u8.cost(name, params=toy.server, **more)], name
    # Tables of the elements serve all rows of a clear matrix.
    whole = u8.cost("matmul", clear=np.full((4, 8), 7)).bootstraps
    assert whole < 8 * u8.cost("matmul", clear=[7] * 4).bootstraps
    for run in (
        lambda: u8.cost("sort", count=1025),
        lambda: u8.cost("sort", count=10**6),
        lambda: u8.cost("argmin", count=10**9),
        lambda: becalm.uint(64).cost("prod", count=10**5),
    ):
        with pytest.raises(becalm.OutOfMemory, match=r"at most \d+ elements .* split"):
            run()
    with pytest.raises(becalm.BadInput, match="give two"):
        u8.cost("clip", clear=[1])


def test_the_page_lists_the_functions_of_numpy_that_work():
    page = (ROOT / "docs/apps/integers.md").read_text(encoding="utf-8")
    rows = page.partition("| numpy | functions |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [row.strip("| ").split(" | ") for row in rows]
    named = [set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]*)`", c[1])))) for c in cells]
    elements = {
        *_integer_operators._UFUNCS,
        *_integer_operators._FURTHER,
        "sign",
        "bitwise_count",
    } - {"divide"}
    elements |= {f"logical_{name}" for name in ("and", "or", "xor", "not")}
    assert named[0] == elements
    assert named[1] == set(_integer_operators._REDUCTIONS)
    assert named[2] == set(_integer_operators._ACCUMULATIONS)
    arrays = [f.__name__ for f in _integer_operators._FUNCTIONS]
    assert sorted(n for row in named[3:] for n in row) == sorted(arrays)


def test_the_page_tells_what_operations_cost():
    page = (ROOT / "docs/apps/integers.md").read_text(encoding="utf-8")
    rows = page.partition("| 64 bits | bootstraps | depth |")[2].partition("\n\n")[0]
    told = {}
    for row in rows.splitlines()[2:]:
        names, *figures = row.strip("| ").split(" | ")
        for name in names.split(", "):
            told[name] = [int(figure) for figure in figures]
    assert {"add", "min", "shl", "mul", "div_rem"} <= set(told)
    for name, figures in told.items():
        work, deep = (becalm.uint(64).cost(name, deep=deep) for deep in (False, True))
        assert [work.bootstraps, work.depth, deep.bootstraps, deep.depth] == figures, name
    counts = re.search(r"60 booleans take (\d+) bootstraps, 200 take (\d+)", page)
    for op in ("all", "any"):
        found = [becalm.boolean.cost(op, count=n).bootstraps for n in (60, 200)]
        assert found == [int(count) for count in counts.groups()]


def test_places_index_arrays(toy, arrays):
    a, x = arrays[0][0][0], arrays[0][1][0]
    assert same(toy, x[x.argmin()], a.min())
    assert same(toy, x[x.argsort()], np.sort(a))
    assert x.argmin().type == becalm.uint(2)


def test_refusals_name_what_there_is(toy, arrays):
    x, z = arrays[0][1], arrays[2][1]
    cases = {
        "got median": lambda: np.median(x),
        "axis and keepdims may be given": lambda: np.add.reduce(x, dtype=int),
        "add.accumulate.*outer of all": lambda: np.subtract.accumulate(x),
        "they are their own sign": lambda: np.sign(z),
    }
    for told, run in cases.items():
        with pytest.raises(becalm.Unsupported, match=told):
            run()
    off = becalm.uint(8).encrypt(toy.secret, [1, 2])
    for run in (lambda: off.sort(), lambda: np.zeros_like(off), lambda: off.isin([])):
        with pytest.raises(becalm.Unsupported, match=r"x\.on"):
            run()


@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 2, 2), (2, 2, 2)),
        ((2, 3), (2, 3, 2)),
        ((3,), (2, 3, 2)),
        ((2, 2, 3), (3,)),
        ((2, 1, 2), (2, 1, 2, 2)),
        ((2, 0), (3, 0, 2)),
        ((), (2, 2)),
    ],
)
def test_dot_is_that_of_numpy_for_stacks_of_matrices_too(toy, shapes):
    secret, server = toy
    a, b = (np.random.default_rng(7).integers(0, 256, s).astype(np.uint8) for s in shapes)
    x, y = (secret.encrypt(v, becalm.uint(8)).on(server) for v in (a, b))
    for got in (np.dot(x, y), np.dot(x, b), np.dot(a, y), x.dot(y), x.dot(b)):
        assert got.shape == np.dot(a, b).shape
        assert (secret.decrypt(got) == np.dot(a, b)).all()
    if len(shapes[1]) > 2 and shapes[0][-1]:
        with pytest.raises(becalm.BadInput, match="last but one"):
            np.dot(np.ones((2, 5), int), y)
