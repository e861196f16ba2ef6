"""Every call that computes on vectors of CKKS is one program, which runs once."""

import numpy as np
import pytest

import becalm
from becalm import ckks, desilo

TOY = {"allow_insecure": True, "progress": False}
OPERATORS = {
    *("__add__", "__radd__", "__sub__", "__rsub__", "__neg__", "__mul__", "__rmul__"),
    *("__truediv__", "__pow__", "__getitem__"),
}
#: Calls of vectors that compute nothing.
QUIET = {
    *("account", "attach", "decrypt", "key_id", "largest", "level", "error", "nbytes", "params"),
    *("real", "save", "scale", "slots", "stored_nbytes", "to_bytes", "vouched", "within"),
}


def public(*classes):
    """Names of calls without those of Python, and the operators."""
    names = {n for c in classes for n in dir(c)}
    return {n for n in names if not n.startswith("_") or n in OPERATORS}


@pytest.fixture(scope="module")
def keys():
    rotations = [*ckks.sum_rotations(8), 3, 4, 5, 6, 7, -2, -4, -6]
    return becalm.keygen("ckks_toy_12", slots=8, rotations=rotations, **TOY)


@pytest.fixture
def counted(keys):
    """The value of a call, which must be one run."""

    def once(call, machine=keys.server._machine):
        before = machine.runs
        made = call()
        assert machine.runs == before + 1
        return made

    return once


def test_operators_and_calls_of_vectors(keys, counted):
    secret, server = keys
    v, w = np.linspace(-1, 1, 8), np.linspace(0.5, 1, 8)
    x, y, low = secret.encrypt(v), secret.encrypt(w), secret.encrypt(v, level=2)
    p, i = server.encode(w), server.encode(1j * w)
    one, high = server.encode(0.5), server.encode(w, level=3)
    matrix = ckks.Matrix(np.eye(8)[::-1], slots=8)
    calls = {
        "__add__": [(lambda: x + y, v + w), (lambda: x + p, v + w), (lambda: x + low, 2 * v)],
        "__radd__": [(lambda: 1 + x, 1 + v), (lambda: p + x, v + w), (lambda: w + x, v + w)],
        "__sub__": [
            *[(lambda: x - y, v - w), (lambda: x - p, v - w), (lambda: x - w, v - w)],
            *[(lambda: x - i, v - 1j * w), (lambda: x - one, v - 0.5), (lambda: x - 1, v - 1)],
            *[(lambda: x - high, v - w), (lambda: x - np.uint8(3), v - 3)],
        ],
        "__rsub__": [
            *[(lambda: 1 - x, 1 - v), (lambda: w - x, w - v), (lambda: p - x, w - v)],
            *[(lambda: i - x, 1j * w - v), (lambda: high - x, w - v)],
        ],
        "__neg__": [(lambda: -x, -v), (lambda: np.negative(x), -v)],
        "__mul__": [
            *[(lambda: x * y, v * w), (lambda: x * p, v * w), (lambda: x * w, v * w)],
            *[(lambda: x * 2, 2 * v), (lambda: low * y, v * w), (lambda: np.square(x), v * v)],
        ],
        "__rmul__": [(lambda: 2 * x, 2 * v), (lambda: p * x, v * w)],
        "__truediv__": [(lambda: x / 4, v / 4), (lambda: x / w, v / w)],
        "__pow__": [(lambda: x**5, v**5), (lambda: x**2, v**2)],
        "__getitem__": [(lambda: x[3:5], np.array([v[3], v[4], 0, 0, 0, 0, 0, 0]))],
        "times_i": [(lambda: x.times_i(), 1j * v)],
        "level_down": [(lambda: x.level_down(1), v)],
        "rotate": [
            *[(lambda: x.rotate(3), np.roll(v, -3)), (lambda: np.roll(x, 2), np.roll(v, 2))],
            (lambda: x.rotate([1, 3])[1], np.roll(v, -3)),
        ],
        "sum": [
            *[(lambda: x.sum(), np.full(8, v.sum())), (lambda: np.sum(y), np.full(8, w.sum()))],
            (lambda: x.sum(2, stride=4), v + np.roll(v, -4)),
        ],
        "mean": [(lambda: x.mean(), np.full(8, v.mean()))],
        "replicate": [(lambda: x.replicate(2), np.full(8, v[2]))],
        "polynomial": [(lambda: x.polynomial([1, 0, 0.5]), 1 + v * v / 2)],
        "conjugate": [(lambda: x.conjugate(), v), (lambda: np.conjugate(x), v)],
        "bootstrap": [(lambda: low.bootstrap(), v)],
    }
    # All but the calls that compute nothing are here.
    assert public(ckks.Ciphertext) - QUIET == set(calls)
    total = np.full(8, v @ w)
    calls["functions"] = [
        (lambda: matrix @ x, v[::-1]),
        *[(lambda: ckks.dot(x, y), total), (lambda: np.dot(x, y), total)],
        *[(lambda: np.dot(x, w), total), (lambda: np.inner(w, x), total)],
        *[(lambda: ckks.dot([x, y], [y, x]), 2 * v * w), (lambda: server.dot([x], [y]), v * w)],
        (lambda: ckks.concatenate([x, y, low, x], 2), np.r_[v[:2], w[:2], v[:2], v[:2]]),
        (lambda: ckks.concatenate([x, low], [3, 1]), np.r_[v[:3], v[:1], 0, 0, 0, 0]),
        (lambda: ckks.approximate(np.cos, domain=(-1, 1), bits=12)(x), np.cos(v)),
        (lambda: server.multiply(x, y), v * w),
        (lambda: server.power(x, 3), v**3),
    ]
    for name, each in calls.items():
        for at, (call, wanted) in enumerate(each):
            close = 2e-2 if name == "bootstrap" else 1e-3
            got = secret.decrypt(counted(call))
            assert abs(got - wanted).max() < close, (name, at)
    program = becalm.Program("ckks_toy_12", slots=8)
    program.output(program.input(level=2) + 1, program.input(level=2) * 2)
    counted(lambda: server.run(program, x, [y, y, y]))
    counted(lambda: server.evaluate(ckks.sigmoid()._native, [x], False))


def test_a_program_records_what_a_call_does(keys):
    secret, server = keys
    v, w = np.linspace(-1, 1, 8), np.linspace(0.5, 1, 8)
    encoded = server.encode(w, level=3)
    calls = [
        lambda x, y: 1 - x,
        lambda x, y: x - encoded,
        lambda x, y: encoded - x,
        lambda x, y: ckks.dot(x, y),
        lambda x, y: np.dot(w, x),
        lambda x, y: ckks.concatenate([x, y], [1, 7]),
    ]
    x, y = secret.encrypt(v, level=4), secret.encrypt(w, level=3)
    for at, call in enumerate(calls):
        p = becalm.Program("ckks_toy_12", slots=8)
        p.output(call(p.input(level=4), p.input(level=3)))
        got, wanted = server.run(p, x, y), call(x, y)
        assert (got.level, got.scale) == (wanted.level, wanted.scale), at
        assert abs(secret.decrypt(got) - secret.decrypt(wanted)).max() < 1e-4, at


def test_what_cannot_be_joined_is_refused(keys):
    secret = keys.secret
    x = secret.encrypt(np.ones(8))
    other = becalm.keygen("ckks_toy_12", slots=8, bootstrap=None, **TOY)[0].encrypt(np.ones(8))
    for kind, match, call in (
        (becalm.BadInput, "concatenate: .*at most 8 slots", lambda: ckks.concatenate([x, x], 5)),
        (becalm.BadInput, "concatenate: ", lambda: ckks.concatenate([x, x], 2**62)),
        (becalm.BadInput, "a size for each", lambda: ckks.concatenate([], 1)),
        (becalm.WrongKey, "concatenate: ", lambda: ckks.concatenate([x, other], 1)),
        (becalm.BadInput, "concatenate: ", lambda: ckks.concatenate([x.level_down(0)], 1)),
        (becalm.BadInput, "dot: .*got list", lambda: ckks.dot(x, [x])),
        (becalm.BadInput, "np.dot: .*8 values, or one", lambda: np.dot(x, [1, 2])),
        (becalm.BadInput, "subtract: ", lambda: x - np.ones(9)),
        (becalm.BadInput, "subtract: ", lambda: [[1.0]] - x),
    ):
        with pytest.raises(kind, match=match):
            call()
    # The first that knows its server computes.
    lost = becalm.from_bytes(x.to_bytes(), allow_insecure=True)
    assert abs(secret.decrypt(ckks.dot(lost, x)) - 8).max() < 1e-3


def test_packed_integers_run_once_for_any_number_of_ciphertexts():
    secret, server = becalm.keygen("ckks_toy_table_4", **TOY)
    values = np.random.default_rng(5).integers(0, 4, 10_000)
    x, most = secret.encrypt_packed(values, bits=2), values[::-1]
    y = secret.encrypt_packed(most, bits=2)
    assert len(x._parts) > 2
    calls = {
        "__add__": [(lambda: x + y, values + most), (lambda: x + most, values + most)],
        "__radd__": [(lambda: 3 + x, values + 3)],
        "__sub__": [(lambda: x - y, values - most), (lambda: x - most, values - most)],
        "__rsub__": [(lambda: 1 - x, 1 - values), (lambda: most - x, most - values)],
        "__neg__": [(lambda: -x, -values)],
        "__mul__": [(lambda k=k: x * k, values * k) for k in (-7, 3, 4, 0, 2**62)],
        "__rmul__": [(lambda: 3 * x, values * 3)],
        "lookup": [(lambda: x.lookup([3, 2, 1, 0]), 3 - values)],
    }
    quiet = {"bits", "decrypt", "reshape", "shape", "size", *QUIET}
    # These raise, and name a call instead.
    quiet |= {"__getitem__", "__pow__", "__truediv__"}
    assert public(ckks.PackedArray) - quiet == set(calls)
    machine = server._machine
    for name, each in calls.items():
        for call, wanted in each:
            before = machine.runs
            made = call()
            assert machine.runs == before + 1, name
            assert (secret.decrypt(made) == wanted % 4).all(), name
    before = machine.runs
    server.lookup_many(x, [[0, 1, 2, 3], [3, 2, 1, 0]])
    assert machine.runs == before + 1
    found = server.unpack_many(x, [None, [3, 2, 1, 0]])
    assert machine.runs == before + 2
    for vectors, wanted in zip(found, (values, 3 - values), strict=True):
        got = np.concatenate([secret.decrypt(v) for v in vectors])[: values.size]
        assert abs(got - wanted).max() < 0.01
    v = secret.encrypt(values[:2048].astype(float), level=3, bound=4)
    before = machine.runs
    both = server.pack(v, v, bits=2)
    assert machine.runs == before + 1
    assert (secret.decrypt(both) == np.r_[values[:2048], values[:2048]]).all()


def test_factors_of_packed_integers_are_the_nearest_to_zero():
    secret, _ = becalm.keygen("ckks_toy_table_4", **TOY)
    x = secret.encrypt_packed([1, 2, 3], bits=4)
    for factor, same in ((15, -1), (17, 1), (-9, 7), (8, -8), (2**62 + 3, 3)):
        assert (x * factor).error == (x * same).error
    assert (x * 15).error == (-x).error


@pytest.fixture(scope="module")
def engine():
    return desilo.ToyEngine(use_bootstrap=True, slot_count=16)


def test_an_engine_runs_once_for_any_number_of_blocks(engine):
    secret = engine.create_secret_key()
    relinearization = engine.create_relinearization_key(secret)
    rotation, conjugation = (
        engine.create_rotation_key(secret),
        engine.create_conjugation_key(secret),
    )
    fixed, small = [
        engine.create_fixed_rotation_key(secret, 3),
        engine.create_small_bootstrap_key(secret),
    ]
    matrix = engine.create_matrix_multiplication_key(secret)
    lossy = engine.create_lossy_bootstrap_key(secret, size="small")
    own = relinearization, conjugation
    v = np.linspace(-1, 1, 48)
    w = np.linspace(0.5, 1, 48)
    x, y = engine.encrypt(v, secret), engine.encrypt(w, secret)
    short, part = engine.encrypt(v[:16], secret), w[:16]
    rows, each = v.reshape(3, 16), np.tile(part, 3)

    def turned(by):
        return np.roll(rows, by, axis=1).ravel()

    calls = {
        "add": [
            *[(lambda: engine.add(x, y), v + w), (lambda: engine.add(x, 1), v + 1)],
            *[(lambda: engine.add(part, x), v + each), (lambda: engine.add(x, w), v + w)],
        ],
        "subtract": [
            *[(lambda: engine.subtract(x, y), v - w), (lambda: engine.subtract(x, w), v - w)],
            *[(lambda: engine.subtract(w, x), w - v), (lambda: engine.subtract(1, x), 1 - v)],
            (lambda: engine.subtract(engine.encode(part), x), each - v),
        ],
        "negate": [(lambda: engine.negate(x), -v), (lambda: engine.negate(short), -v[:16])],
        "multiply": [
            (lambda: engine.multiply(x, y, relinearization), v * w),
            *[(lambda: engine.multiply(x, w), v * w), (lambda: engine.multiply(2.5, x), 2.5 * v)],
            (lambda: engine.multiply(x, part), v * each),
        ],
        "square": [(lambda: engine.square(x, relinearization), v * v)],
        "multiply_imaginary_integer": [
            (lambda: engine.multiply_imaginary_integer(x, -3), -3j * v),
            (lambda: engine.multiply_imaginary_integer(0, short), 0 * v[:16]),
        ],
        "conjugate": [(lambda: engine.conjugate(x, conjugation), v)],
        "rotate": [
            (lambda: engine.rotate(x, rotation, 5), turned(5)),
            (lambda: engine.rotate(x, fixed), turned(3)),
        ],
        "roll": [(lambda: engine.roll(x, rotation, 2), turned(2))],
        "rotate_batch": [(lambda: engine.rotate_batch(x, rotation, [1, 3])[1], turned(3))],
        "roll_many": [(lambda: engine.roll_many(x, rotation, [1, 3])[1], turned(3))],
        "level_down": [(lambda: engine.level_down(x, 2), v)],
        "sum": [
            (lambda: engine.sum(x, 0), rows.sum(0)),
            (lambda: engine.sum(x, rotation, 1), np.repeat(rows.sum(1), 16)),
            (lambda: engine.sum(x, rotation), np.full(16, v.sum())),
        ],
        "weighted_sum": [
            (lambda: engine.weighted_sum([x, y, x], [3, -2, 0, 5]), 3 + 3 * v),
            (lambda: engine.weighted_sum([x, y], [1, 0.5, 2.5]), 1 + v / 2 + 2.5 * w),
        ],
        "multiply_matrix": [
            (lambda: engine.multiply_matrix(2 * np.eye(16), x, rotation), 2 * v),
            (lambda: engine.multiply_matrix(np.eye(16), x, matrix), v),
        ],
        "evaluate_polynomial": [
            (lambda: engine.evaluate_polynomial(x, [1, 0, 0.5], relinearization), 1 + v * v / 2)
        ],
        "evaluate_chebyshev_polynomial": [
            (
                lambda: engine.evaluate_chebyshev_polynomial(x, [0, 0, 1], relinearization),
                2 * v * v - 1,
            )
        ],
        "make_power_basis": [(lambda: engine.make_power_basis(x, 3, relinearization)[2], v**3)],
        "make_chebyshev_basis": [
            (lambda: engine.make_chebyshev_basis(x, 2, relinearization)[1], 2 * v * v - 1)
        ],
        "bootstrap": [(lambda: engine.bootstrap(x, *own, rotation, small), v)],
        "lossy_bootstrap": [(lambda: engine.lossy_bootstrap(x, *own, lossy), v)],
        "sign_bootstrap": [(lambda: engine.sign_bootstrap(x, *own, lossy), None)],
    }
    # Pairs take an engine of all slots: another test has them. The rest makes keys, reads and
    # writes, encrypts and encodes, or hands its argument back.
    quiet = ("create_", "read_", "write_", "serialize_", "deserialize_", "encode", "encrypt")
    rest = {"clone", "decode", "decrypt", "max_level", "slot_count", "vstack"}
    pairs = {"merge_bootstrap", "lossy_merge_bootstrap", "sign_merge_bootstrap"}
    names = {n for n in public(desilo.Engine) - rest - pairs if not n.startswith(quiet)}
    assert names == set(calls)
    for name, several in calls.items():
        for at, (call, wanted) in enumerate(several):
            before = engine._machine.runs
            made = call()
            assert engine._machine.runs == before + 1, (name, at)
            if wanted is not None:
                got = engine.decrypt(made, secret)
                assert abs(got - wanted).max() < (2e-2 if "bootstrap" in name else 1e-4), (name, at)


def test_pairs_of_an_engine_run_once():
    engine = desilo.ToyEngine(use_bootstrap=True)
    secret = engine.create_secret_key()
    own = engine.create_relinearization_key(secret), engine.create_conjugation_key(secret)
    a, b = (engine.encrypt([v] * 4096, secret, level=3) for v in (1.0, -1.0))
    merge, lossy = (
        make(secret, size="small")
        for make in (engine.create_merge_bootstrap_key, engine.create_lossy_bootstrap_key)
    )
    for call, key in (
        (engine.merge_bootstrap, merge),
        (engine.lossy_merge_bootstrap, lossy),
        (engine.sign_merge_bootstrap, lossy),
    ):
        before = engine._machine.runs
        assert len(call(a, b, *own, key)) == 2
        assert engine._machine.runs == before + 1


def test_a_whole_weight_takes_no_level_and_no_error_of_its_own(engine):
    secret = engine.create_secret_key()
    count = np.arange(1.0, 17)
    x = engine.encrypt(count, secret)
    y = engine.multiply_imaginary_integer(x, 2**31 - 1)
    assert abs(engine.decrypt(y, secret) / (2**31 - 1) - 1j * count).max() < 1e-6
    y = engine.weighted_sum([x, x, x], [3, -1000, 0, 77])
    assert y.level == x.level and abs(engine.decrypt(y, secret) - 3 + 923 * count).max() < 1e-5
    # Weights of a cut message go over the ciphertexts that they have.
    assert engine.weighted_sum([x, engine.vstack([x, x])], [1, 2]).level == x.level
    with pytest.raises(becalm.BadInput, match=r"weighted_sum: .*one length"):
        engine.weighted_sum([x, engine.vstack([x, x])], [1, 2, 3])
    with pytest.raises(becalm.BadInput, match=r"below 2\^31"):
        engine.weighted_sum([x], [0, 2**31])
    assert engine.sum(x, 0) is x
