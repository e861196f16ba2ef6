"""Encrypted integers in Python: operators against numpy's, shapes, types and refusals."""

import copy
import operator as op
import os
import pickle
import subprocess
import sys

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


@pytest.mark.parametrize("name", ["uint128", "int100", "int256"])
def test_wide_edges_against_python(toy, name):
    """Least, greatest, -1, division by zero, shifts of the width and beyond."""
    ty = becalm.integers.IntegerType(name)
    bits, low, high = ty.bits, ty.min, ty.max
    a = [low, high, -1 if ty.signed else 1, 0, high // 3, 12345]
    b = [high, high, low, 7, low // 5 if ty.signed else 3, 0]
    x, y = (ty.encrypt(toy.secret, v).on(toy.server) for v in (a, b))
    wrap = lambda v: (v - low) % (1 << bits) + low  # noqa: E731

    def check(found, f, wanted=wrap):
        assert found.decrypt(toy.secret).tolist() == [
            wanted(f(p, q)) for p, q in zip(a, b, strict=True)
        ]

    check(x + y, lambda p, q: p + q)
    check(x - y, lambda p, q: p - q)
    check(-x, lambda p, q: -p)
    check(~x, lambda p, q: ~p)
    check(x ^ y, lambda p, q: p ^ q)
    for compare in (op.lt, op.le, op.eq, op.gt):
        check(compare(x, y), compare, bool)
        check(compare(x, high), lambda p, q, f=compare: f(p, high), bool)
        check(compare(x, low), lambda p, q, f=compare: f(p, low), bool)
    for amount in (1, bits - 1, bits, bits + 1, 2**70):
        check(x << amount, lambda p, q, n=amount: p << min(n, bits))
        check(x >> amount, lambda p, q, n=amount: p >> min(n, bits))
    places = becalm.uint(9).encrypt(toy.secret, [0, 1, bits - 1, bits, bits + 1, 511])
    moved = (x[1] >> places).decrypt(toy.secret).tolist()
    assert moved == [high >> n for n in (0, 1, bits - 1, bits, bits + 1, 511)]
    check(x.abs(), lambda p, q: abs(p))
    check(x.min(y), min)
    total, left = x.overflowing_add(y)
    check(total, lambda p, q: p + q)
    check(left, lambda p, q: not low <= p + q <= high, bool)
    # Division takes longest: `cargo test -p becalm --test integers_wide` runs it unencrypted.
    q, r = divmod(x[:2], 0)
    assert r.decrypt(toy.secret).tolist() == a[:2]
    assert q.decrypt(toy.secret).tolist() == [wrap(1 if v < 0 else -1) for v in a[:2]]


def test_costs_are_known_before():
    u64 = becalm.uint(64)
    assert u64.cost("add").bootstraps == 32
    assert u64.cost("add", deep=True).depth == 4 and u64.cost("select").depth == 2
    assert u64.cost("and", clear=7).bootstraps < u64.cost("and").bootstraps


def test_forms_agree_and_a_cpu_takes_the_fewest_bootstraps(toy, monkeypatch):
    ran, results = [], becalm.Server._results

    def watched(self, op, program, *rest):
        ran.append(program.cost.depth)
        return results(self, op, program, *rest)

    monkeypatch.setattr(becalm.Server, "_results", watched)
    x, y = (becalm.uint(64).encrypt(toy.secret, v).on(toy.server) for v in (2**64 - 3, 5))
    for deep, depth in ((None, 32), (False, 32), (True, 4)):
        assert x.apply("add", y, deep=deep).decrypt(toy.secret) == 2
        assert ran.pop() == depth


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
        x.on(stranger.server)
    with pytest.raises(TypeError):
        x.on(toy.server) + "1"


def test_results_against_numpy(words):
    secret, a, b, x, y = words
    small = np.array([[1, 2], [0, 9]], dtype=np.uint8)
    assert np.array_equal(x.min(y).decrypt(secret), np.minimum(a, b))
    assert np.array_equal(x.max(90).decrypt(secret), np.maximum(a, 90))
    assert np.array_equal((x + small).decrypt(secret), a + small)
    assert np.array_equal((small - x).decrypt(secret), small - a)
    assert np.array_equal((100 // (x | 1)).decrypt(secret), 100 // (a | 1))
    assert np.array_equal((x << small).decrypt(secret), a << small)
    assert np.array_equal((x > y).select(small, y).decrypt(secret), np.where(a > b, small, b))
    assert np.array_equal((x > y).select(x, 1).decrypt(secret), np.where(a > b, a, 1))
    assert x.rotate_left(3).decrypt(secret)[0, 0] == (200 << 3 & 255) | (200 >> 5)
    assert x.rotate_right(y & 7).decrypt(secret)[0, 1] == (3 >> 7) | (3 << 1)
    assert np.array_equal(x.sum().decrypt(secret), int(a.sum()) % 256)
    for axis in (0, 1, -1):
        assert np.array_equal(x.sum(axis).decrypt(secret), a.sum(axis, dtype=np.uint8))
    assert (x[0] @ y[1]).decrypt(secret) == (200 * 77 + 3 * 5) % 256
    assert (x[0].dot([3, 250])).decrypt(secret) == (200 * 3 + 3 * 250) % 256


def test_counts_and_overflow(words, toy):
    secret, a, b, x, y = words
    bits = [f"{v:08b}" for v in a.ravel()]
    counts = {
        "count_ones": [s.count("1") for s in bits],
        "leading_zeros": [len(s) - len(s.lstrip("0")) for s in bits],
        "leading_ones": [len(s) - len(s.lstrip("1")) for s in bits],
        "trailing_zeros": [len(s) - len(s.rstrip("0")) for s in bits],
        "trailing_ones": [len(s) - len(s.rstrip("1")) for s in bits],
    }
    for name, wanted in counts.items():
        assert getattr(x, name)().decrypt(secret).ravel().tolist() == wanted, name
    assert x.ilog2().decrypt(secret).ravel().tolist() == [7, 1, 6, 15]
    for name, f in [("add", op.add), ("sub", op.sub), ("mul", op.mul)]:
        result, left = getattr(x, f"overflowing_{name}")(y)
        exact = f(a.astype(int), b.astype(int))
        assert np.array_equal(result.decrypt(secret), exact % 256)
        assert np.array_equal(left.decrypt(secret), (exact < 0) | (exact > 255)), name
    signed = becalm.int_(5).encrypt(secret, [-16, -3, 7]).on(toy.server)
    assert signed.abs().decrypt(secret).tolist() == [-16, 3, 7]
    # Of older versions of numpy the function is missing, not the method that it calls.
    ones = getattr(np, "bitwise_count", lambda v: v.abs().count_ones())
    assert ones(signed).decrypt(secret).tolist() == [1, 2, 3]
    # The same ciphertext as both operands: its noise is related to itself.
    result, left = signed.overflowing_add(signed)
    assert result.decrypt(secret).tolist() == [0, -6, 14]
    assert left.decrypt(secret).tolist() == [True, False, False]


def test_arrays_are_indexed_and_joined_as_in_numpy(words, toy):
    secret, a, b, x, y = words
    assert (len(x), x.ndim, x.size) == (2, 2, 4)
    assert np.array_equal([row.decrypt(secret) for row in x], a)
    assert np.array_equal(x[:, ::-1].decrypt(secret), a[:, ::-1])
    assert np.array_equal(x.reshape(-1)[a.ravel() > 50].decrypt(secret), a[a > 50])
    assert np.array_equal(becalm.stack([x, y], 1).decrypt(secret), np.stack([a, b], 1))
    both = becalm.concatenate([x, becalm.uint(8).trivial(toy.server, [[1, 2]])])
    assert np.array_equal(both.decrypt(secret), np.concatenate([a, [[1, 2]]]))
    at = becalm.uint(3).encrypt(secret, [0, 3, 4]).on(toy.server)
    assert x.reshape(-1)[at].decrypt(secret).tolist() == [200, 0, 0]
    assert y.reshape(-1)[at].decrypt(secret).tolist() == [100, 5, 0]
    squares = at.table([v * v for v in range(5)], becalm.uint(6))
    assert squares.decrypt(secret).tolist() == [0, 9, 16]
    for single in (x[0, 0], x.sum()):
        with pytest.raises(TypeError):
            len(single)
    with pytest.raises(IndexError):
        x[2]


def test_integers_travel(words, tmp_path, stranger):
    secret, a, _, x, _ = words
    path = tmp_path / "x.becalm"
    assert copy.copy(x) is copy.deepcopy(x) is x
    fresh = becalm.int_(9).encrypt(secret, [[-256, 255], [0, -1]])
    sizes = []
    for seeded in (False, True):
        fresh.save(path, seeded=seeded)
        sizes.append(path.stat().st_size)
        back = becalm.load(path, allow_insecure=True)
        assert back.type == becalm.int_(9) and back.shape == (2, 2)
        assert back.decrypt(secret).tolist() == [[-256, 255], [0, -1]]
        with pytest.raises(becalm.BadFile, match="at most"):
            becalm.load(path, allow_insecure=True, limit=sizes[0] // 2)
    # 20 digits of some 500 words each, against a word each and a header.
    assert sizes[0] > 20 * sizes[1] / 2 and sizes[1] < 3000
    with pytest.raises(becalm.Insecure):
        becalm.load(path)
    with pytest.raises(becalm.Unsupported, match="without a seed"):
        (x + 1).save(path, seeded=True)
    with pytest.raises(becalm.BadInput, match="the path of a file, got int"):
        x.save(5)
    (x + 1).save(path)
    again = becalm.load(path, allow_insecure=True)
    assert np.array_equal(again.decrypt(secret), a + np.uint8(1))
    copied = pickle.loads(pickle.dumps(x))
    assert copied.type == x.type and np.array_equal(copied.decrypt(secret), a)
    with pytest.raises(becalm.WrongKey):
        copied.decrypt(stranger.secret)
    with pytest.raises(becalm.Unsupported, match="on\\(server\\)"):
        copied + 1
    cut = tmp_path / "cut.becalm"
    cut.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(becalm.BadFile):
        becalm.load(cut, allow_insecure=True)


def test_ciphertexts_travel_by_a_seed(toy, tmp_path):
    path = tmp_path / "c.becalm"
    x = toy.secret.encrypt([3, 1, 2])
    x.save(path, seeded=True)
    assert toy.secret.decrypt(becalm.load(path, allow_insecure=True)).tolist() == [3, 1, 2]
    x[1:].save(path, seeded=True)
    assert toy.secret.decrypt(becalm.load(path, allow_insecure=True)).tolist() == [1, 2]
    with pytest.raises(becalm.Unsupported):
        x[::-1].save(path, seeded=True)
    with pytest.raises(becalm.Unsupported):
        (2 * x).save(path, seeded=True)


def test_every_refusal_says_what_to_do(words, toy, stranger):
    secret, _, _, x, y = words
    u8, flat = becalm.uint(8), x.reshape(-1)
    at = becalm.uint(9).encrypt(secret, 1)
    cases = {
        "cast": lambda: x + becalm.uint(9).encrypt(secret, 1),
        "cast the index": lambda: flat[at],
        "halves": lambda: x.table(range(257), becalm.uint(9)),
        "one entry": lambda: x.table([]),
        "equal inner lengths": lambda: flat.dot([1, 2, 3]),
        "reshape or cut": lambda: x.dot(flat),
        "2 to 256 bits": lambda: becalm.int_(257),
        "values of uint8": lambda: x + 256,
        "a wider": lambda: u8.trivial(toy.server, [1, 1 << 200]),
        "integers": lambda: u8.encrypt(secret, ["one"]),
        "an axis": lambda: x.sum(2),
        "broadcast": lambda: x + flat[:3],
        "trivial": lambda: (x > 1).select(1, 2),
        "a bool": lambda: x.select(x, y),
        "unsigned amount": lambda: x << x.astype(becalm.int_(8)),
        "becalm.uint": lambda: x.astype("float32"),
        "choose one of these": lambda: x.apply("square"),
        "at most 128 bits": lambda: becalm.uint(129).cost("overflowing_mul"),
        "arrays of uint8": lambda: becalm.stack([x, x > 1]),
        "array of integers": lambda: x[0, 0][at],
    }
    for remedy, run in cases.items():
        with pytest.raises(becalm.BadInput, match=remedy):
            run()
    theirs = u8.encrypt(stranger.secret, 1)
    for run in (lambda: x + theirs, lambda: becalm.stack([x[0, 0], theirs])):
        with pytest.raises(becalm.WrongKey):
            run()
    with pytest.raises(becalm.WrongKey):
        x.decrypt(stranger.secret)
    for run in (lambda: np.array(x), lambda: bool(x)):
        with pytest.raises(becalm.Unsupported, match="decrypt"):
            run()


def test_types_are_named_as_numpy_names_them_and_comparisons_want_integers(toy):
    x = toy.secret.encrypt([3, 200], becalm.uint(8)).on(toy.server)
    for name in (np.uint16, "u2", becalm.uint(16)):
        assert x.table(range(256), name).decrypt(toy.secret).dtype == np.uint16
    for other, got in (("a", "str"), (None, "NoneType")):
        for call in (lambda o=other: x == o, lambda o=other: o != x):
            with pytest.raises(becalm.BadInput, match=f"integers on both sides, got {got}"):
                call()
    with pytest.raises(becalm.BadInput, match="a choice of deep, got str"):
        x.apply("mul", x, deep="yes")


#: Reading, encryption and joining with room for a part of the results.
TOO_MANY = """
import os
import resource
import sys
import becalm

def within(more):
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + more, resource.RLIM_INFINITY))

secret = becalm.SecretKey.generate("toy_2_2", allow_insecure=True)
u8, path = becalm.uint(8), sys.argv[1]
x = u8.encrypt(secret, [7] * 9000)
becalm.concatenate([x] * 5).save(path)
# The file fits once, and its words beside it do not.
within(3 * os.path.getsize(path) // 2)
try:
    becalm.load(path, allow_insecure=True)
except becalm.OutOfMemory as e:
    print(e.op)
within(1 << 30)
for call in (lambda: u8.encrypt(secret, [0] * 600_000), lambda: becalm.concatenate([x] * 40)):
    try:
        call()
    except becalm.OutOfMemory as e:
        print(e.op)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of addresses as Linux has them")
def test_more_than_the_memory_is_refused_before_it_is_taken(tmp_path):
    command = [sys.executable, "-c", TOO_MANY, str(tmp_path / "many.becalm")]
    ran = subprocess.run(command, capture_output=True, text=True)
    wanted = ["load", "encrypt", "concatenate"]
    assert (ran.returncode, ran.stdout.split()) == (0, wanted), ran.stderr


#: Calls on large arrays while there is less room than one digit takes.
FULL = """
import copy, pickle, resource, sys
import numpy as np
import becalm

NEVER = resource.RLIM_INFINITY
secret, server = becalm.keygen("toy_2_2", allow_insecure=True, progress=False)
# Larger than any piece that the allocator keeps when it is freed.
x = becalm.uint(8).encrypt(secret, [7] * 9000).on(server)
c, path = secret.encrypt([7] * 9000), sys.argv[1]
sent, few = c.to_bytes(), becalm.uint(8).encrypt(secret, [7] * 9).on(server)
c.save(path)
few.sum()
calls = {
    "sum": lambda: x.sum(),
    "max": lambda: x.max(),
    "cumsum": lambda: x.cumsum(),
    "index": lambda: x[:-1],
    "reverse": lambda: x[::-1],
    "repeat": lambda: np.repeat(x, 3),
    "like": lambda: np.zeros_like(x),
    "times": lambda: x * x,
    "bytes": lambda: x.to_bytes(),
    "from_bytes": lambda: becalm.from_bytes(sent, allow_insecure=True),
    "load": lambda: becalm.load(path, allow_insecure=True),
    "pickle": lambda: pickle.dumps(x),
    "copy": lambda: copy.deepcopy(c),
    "concatenate": lambda: becalm.concatenate([c, c]),
    "add": lambda: c + c,
    "scale": lambda: c * 3,
    "constant": lambda: c + 1,
    "constants": lambda: c + np.arange(9000) % 3,
    "one": lambda: c.to_bytes(),
    "again": lambda: c[np.zeros(40_000, dtype=int)],
    "save": lambda: x.save(path),
    "seeded": lambda: c.save(path, seeded=True),
    "decrypt": lambda: secret.decrypt(x),
}
for name, call in calls.items():
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (30 << 20), NEVER))
    try:
        call()
        said = "done"
    except becalm.OutOfMemory as e:
        said = "refused" if "GB" in e.wanted or "MB" in e.wanted else str(e)
    resource.setrlimit(resource.RLIMIT_AS, (NEVER, NEVER))
    print(name, said, flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of addresses as Linux has them")
def test_calls_without_memory_are_refused_and_no_abort(tmp_path):
    """What makes no second array works: files are written, and values decrypted, where they lie."""
    command = [sys.executable, "-c", FULL, str(tmp_path / "x.becalm")]
    # No room is kept for threads, from which an array could be taken unseen.
    few = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    ran = subprocess.run(command, capture_output=True, text=True, env=few)
    said = dict(line.split(maxsplit=1) for line in ran.stdout.splitlines())
    assert ran.returncode == 0, (ran.returncode, said, ran.stderr[-2000:])
    assert {name for name, what in said.items() if what == "done"} == {
        "save",
        "seeded",
        "decrypt",
        "copy",
    }
    assert set(said.values()) == {"done", "refused"} and len(said) == 23, said


def test_gathered_elements_are_in_their_places(toy):
    x = becalm.uint(8).encrypt(toy.secret, range(40))
    places = [39, 3, 4, 5, 5, 0, 38, 39]
    assert x[places].decrypt(toy.secret).tolist() == places
    assert x[::-1].decrypt(toy.secret).tolist() == list(range(40))[::-1]
    assert x[5:9].to_bytes() == x[[5, 6, 7, 8]].to_bytes()
    assert x[[]].shape == (0,)
