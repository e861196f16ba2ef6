"""Calls of desilofhe 1.17 beside bootstraps, and keys in files for another process.

The expected values are those that desilofhe 1.17 gives for the same calls.
"""

import json
import subprocess
import sys

import numpy as np
import pytest

import becalm
from becalm import desilo
from becalm._values import megabytes
from becalm.desilo import ToyEngine

#: One to sixteen, in an engine of sixteen slots.
COUNT = np.arange(1.0, 17)
KINDS = (
    "relinearization",
    "conjugation",
    "rotation",
    "fixed_rotation",
    "matrix_multiplication",
    "small_bootstrap",
    "bootstrap",
    "lossy_bootstrap",
)


@pytest.fixture(scope="module")
def engine():
    return ToyEngine(use_bootstrap=True, slot_count=16)


@pytest.fixture(scope="module")
def secret(engine):
    return engine.create_secret_key()


@pytest.fixture(scope="module")
def rotation(engine, secret):
    return engine.create_rotation_key(secret)


@pytest.fixture(scope="module")
def relinearization(engine, secret):
    return engine.create_relinearization_key(secret)


@pytest.fixture(scope="module")
def close(engine, secret):
    def compare(x, wanted):
        got = engine.decrypt(x, secret)
        return got.shape == np.shape(wanted) and abs(got - wanted).max() < 1e-5

    return compare


def test_sums_go_over_blocks_and_over_slots(engine, secret, rotation, close):
    x, long = engine.encrypt(COUNT, secret), engine.encrypt(np.arange(32.0), secret)
    assert close(engine.sum(x, rotation), np.full(16, 136.0))
    assert close(engine.sum(x, 0), COUNT) and close(engine.sum(x, axis=0), COUNT)
    assert close(engine.sum(long, rotation), np.full(16, 496.0))
    assert close(engine.sum(long, rotation, 0), np.arange(16.0, 48, 2))
    assert close(engine.sum(long, rotation, axis=1), np.repeat([120.0, 376.0], 16))
    assert engine.sum(long, rotation).level == long.level
    with pytest.raises(becalm.BadInput, match="axis 0, 1 or none"):
        engine.sum(x, rotation, 2)
    with pytest.raises(becalm.WrongKey, match="a rotation key"):
        engine.sum(x)


def test_weighted_sums_begin_with_a_constant(engine, secret, close):
    xs = [engine.encrypt([v] * 16, secret) for v in (1.0, 100.0, 10000.0)]
    top = engine.max_level
    for weights, wanted, level in (
        ([3, 4], 7.0, top),
        ([3, 4, 5], 507.0, top),
        ([3, -4, 0, 6], 59999.0, top),
        ([3.5, 4.5, 5.5], 558.0, top - 1),
    ):
        made = engine.weighted_sum(xs, weights)
        assert close(made, np.full(16, wanted)) and made.level == level, weights
    for weights in ([3], [1, 2, 3, 4, 5], [1, 2j], [[1, 2]]):
        with pytest.raises(becalm.BadInput, match="2 to 4 real weights"):
            engine.weighted_sum(xs, weights)


def test_rotations_of_many_blocks_and_by_many_numbers(engine, secret, rotation, close):
    x, long = engine.encrypt(COUNT, secret), engine.encrypt(np.arange(32.0), secret)
    assert close(engine.roll(x, rotation, 3), np.roll(COUNT, 3))
    halves = [np.roll(np.arange(a, a + 16.0), 1) for a in (0, 16)]
    assert close(engine.rotate(long, rotation, 1), np.concatenate(halves))
    for made in (
        engine.roll_many(x, rotation, [1, -2]),
        engine.rotate_batch(x, rotation, [1, -2]),
        engine.rotate_batch(x, [engine.create_fixed_rotation_key(secret, k) for k in (1, -2)]),
    ):
        assert all(close(y, np.roll(COUNT, k)) for y, k in zip(made, (1, -2), strict=True))
    assert close(engine.vstack([x, long]), np.concatenate([COUNT, np.arange(32.0)]))


@pytest.fixture
def runs(monkeypatch):
    """The programs that ran: lanes, results and key switches of each."""
    ran, native = [], becalm._native.CkksPrepared

    class Counted:
        """A prepared program that notes its runs."""

        def __init__(self, keys, program, budget=None):
            self.program, self.ready = program, native(keys, program, budget)

        def run(self, lanes, progress=None):
            switches = self.program.cost()["key_switches"]
            ran.append((len(lanes), len(self.program.outputs), switches))
            return self.ready.run(lanes, progress)

        def again(self, program):
            return None

    monkeypatch.setattr(becalm._native, "CkksPrepared", Counted)
    return ran


def test_a_call_is_one_program_with_a_lane_for_each_block(
    engine, secret, rotation, relinearization, close, runs
):
    x, values = engine.encrypt(COUNT, secret), np.linspace(-1, 1, 32)
    long, conjugation = engine.encrypt(values, secret), engine.create_conjugation_key(secret)
    fixed = [engine.create_fixed_rotation_key(secret, k) for k in (1, 3, 7)]
    halves = values.reshape(2, 16)

    def blocks(of):
        return np.concatenate([of(half) for half in halves])

    # To the left 15, 13 and 9 in powers of two: 8 + 1, then 4, then 2.
    for key, deltas in ((rotation, [1, 3, 7]), (fixed, None)):
        made = engine.rotate_batch(long, key, deltas)
        for y, k in zip(made, (1, 3, 7), strict=True):
            assert close(y, blocks(lambda half, k=k: np.roll(half, k)))
    assert close(engine.rotate(long, rotation, 1), blocks(lambda half: np.roll(half, 1)))
    assert close(engine.sum(long, rotation, 1), blocks(lambda half: np.full(16, half.sum())))
    assert close(engine.sum(long, rotation), np.full(16, values.sum()))
    assert close(engine.multiply(long, long, relinearization), values**2)
    assert close(engine.conjugate(long, conjugation), values)
    # As levels differ, all blocks go to the lowest.
    uneven = engine.vstack([x, engine.level_down(x, 3)])
    assert close(engine.rotate(uneven, rotation, 2), np.tile(np.roll(COUNT, 2), 2))
    powers = engine.make_power_basis(long, 4, relinearization)
    assert all(close(p, values**k) for k, p in enumerate(powers, 1))
    series = engine.make_chebyshev_basis(long, 4, relinearization)
    assert all(close(t, np.cos(k * np.arccos(values))) for k, t in enumerate(series, 1))
    expected = [(2, 3, 4), (2, 3, 3), (2, 1, 4), (2, 1, 4), (1, 1, 4), (2, 1, 1), (2, 1, 1)]
    assert runs == [*expected, (2, 1, 3), (2, 3, 3), (2, 3, 3)]
    runs.clear()
    small, low = engine.create_small_bootstrap_key(secret), engine.level_down(long, 3)
    for _ in range(2):
        y = engine.bootstrap(low, relinearization, conjugation, rotation, small)
        assert abs(engine.decrypt(y, secret) - values).max() < 2.0**-9
    assert [lanes for lanes, _, _ in runs] == [2, 2]


def test_errors_have_the_name_of_the_call(engine, secret, rotation, relinearization):
    other = engine.encrypt(COUNT, engine.create_secret_key())
    low = engine.level_down(engine.encrypt(COUNT, secret), 0)
    for kind, name, call in (
        (becalm.WrongKey, "rotate", lambda: engine.rotate(other, rotation, 3)),
        (becalm.WrongKey, "rotate_batch", lambda: engine.rotate_batch(other, rotation, [1, 3])),
        (becalm.WrongKey, "sum", lambda: engine.sum(other, rotation)),
        (
            becalm.BadInput,
            "make_power_basis",
            lambda: engine.make_power_basis(low, 3, relinearization),
        ),
    ):
        with pytest.raises(kind) as e:
            call()
        assert e.value.op == name and str(e.value).startswith(f"{name}: ")


def test_an_engine_that_does_not_fit_names_what_has_smaller_sets(monkeypatch):
    monkeypatch.setattr(becalm._native, "free_memory", lambda: 1 << 20)
    with pytest.raises(
        becalm.OutOfMemory, match=r"becalm\.keygen, which has sets of smaller rings"
    ):
        ToyEngine()


def test_matrices_multiply_by_either_key(engine, secret, rotation, close, rng):
    x = engine.encrypt(COUNT, secret)
    key = engine.create_matrix_multiplication_key(secret)
    dense = rng.uniform(-1, 1, (16, 16))
    few = np.zeros((16, 16))
    for k in (3, 9):
        few[np.arange(16), (np.arange(16) + k) % 16] = k
    for matrix in (dense, few, 1j * dense):
        for made in (
            engine.multiply_matrix(matrix, x, rotation),
            engine.multiply_matrix(engine.encode_to_plain_matrix(matrix), x, key),
            engine.multiply_matrix(engine.encode_to_light_plain_matrix(matrix), x, rotation),
        ):
            assert close(made, matrix @ COUNT) and made.level == x.level - 1
    low = engine.encode_to_plain_matrix(dense, 3, [0, 2])
    kept = np.isin((np.arange(16) - np.arange(16)[:, None]) % 16, [0, 2])
    made = engine.multiply_matrix(low, x, key)
    assert close(made, np.where(kept, dense, 0) @ COUNT) and made.level == 2
    with pytest.raises(becalm.BadInput, match="16 rows and columns"):
        engine.multiply_matrix(dense[:4], x, rotation)
    with pytest.raises(becalm.WrongKey, match="a rotation key or a matrix multiplication key"):
        engine.multiply_matrix(dense, x, engine.create_conjugation_key(secret))


def test_polynomials_and_their_bases(engine, secret, relinearization, close):
    values = np.linspace(-1, 1, 16)
    x = engine.encrypt(values, secret)
    made = engine.evaluate_polynomial(x, [1.0, 2.0, 4.0], relinearization)
    assert close(made, 1 + 2 * values + 4 * values**2)
    made = engine.evaluate_chebyshev_polynomial(x, [1.0, 2.0, 4.0], relinearization)
    assert close(made, 1 + 2 * values + 4 * (2 * values**2 - 1))
    powers = engine.make_power_basis(x, 5, relinearization)
    assert [p.level - x.level for p in powers] == [0, -1, -2, -2, -3]
    assert all(close(p, values**k) for k, p in enumerate(powers, 1))
    basis = engine.make_chebyshev_basis(x, 5, relinearization)
    assert all(close(t, np.cos(k * np.arccos(values))) for k, t in enumerate(basis, 1))


def test_plaintexts_are_numbers(engine, secret, close):
    x, plain = engine.encrypt(COUNT, secret), engine.encode([1.0, 2, 3])
    filled = np.zeros(16)
    filled[:3] = [1, 2, 3]
    assert close(engine.add(x, plain), COUNT + filled) and close(
        engine.subtract(plain, x), filled - COUNT
    )
    assert close(engine.multiply(plain, x), COUNT * filled)
    assert close(engine.encrypt(engine.encode([1.0, 2, 3], 2), secret), filled)
    assert engine.encrypt(engine.encode([1.0, 2, 3], 2), secret).level == 2
    assert (engine.decode(engine.encode_to_light_plaintext([1.0, 2, 3])) == filled).all()
    made = engine.multiply_imaginary_integer(-3, x)
    assert close(made, -3j * COUNT) and made.level == x.level
    with pytest.raises(becalm.BadInput, match="a whole number"):
        engine.multiply_imaginary_integer(x, 0.5)


def test_two_real_ciphertexts_share_a_bootstrap():
    engine = ToyEngine(use_bootstrap=True, mode="parallel")
    secret = engine.create_secret_key()
    own = [engine.create_relinearization_key(secret), engine.create_conjugation_key(secret)]
    rotation = engine.create_rotation_key(secret)
    small = engine.create_small_bootstrap_key(secret)
    values = [np.linspace(-1, 1, 2048), np.linspace(1, -0.5, 2048)]
    a, b = (engine.encrypt(v, secret, level=3) for v in values)
    merge = engine.create_merge_bootstrap_key(secret, size="small")
    lossy = engine.create_lossy_bootstrap_key(secret, size="small")
    regular = engine.create_bootstrap_key(secret, size="small")
    for made, worst in (
        (engine.merge_bootstrap(a, b, *own, merge), 2.0**-9),
        (engine.merge_bootstrap(a, b, *own, regular), 2.0**-9),
        (engine.merge_bootstrap(a, b, *own, rotation, small), 2.0**-9),
        (engine.merge_bootstrap(a, b, *own, merge_bootstrap_key=merge), 2.0**-9),
        (engine.lossy_merge_bootstrap(a, b, *own, lossy), 2.0**-9),
    ):
        for x, v in zip(made, values, strict=True):
            assert abs(engine.decrypt(x, secret) - v).max() < worst and x.level >= 10
    signs = [np.sign(v) for v in values]
    made = engine.sign_merge_bootstrap(
        *(engine.encrypt(v, secret, level=3) for v in signs), *own, lossy
    )
    for x, v in zip(made, signs, strict=True):
        assert abs(engine.decrypt(x, secret) - v).max() < 2.0**-20
    with pytest.raises(becalm.BadInput, match="known to be real"):
        engine.merge_bootstrap(a, engine.encrypt([1j], secret), *own, merge)
    with pytest.raises(becalm.Unsupported, match="all slots"):
        ToyEngine(use_bootstrap=True, slot_count=16).merge_bootstrap(a, b, *own, merge)


def test_what_is_missing_says_what_to_use(engine):
    for name, remedy in (
        ("relinearize", "multiply"),
        ("create_multiparty_public_key", "one secret key"),
        ("encrypt_pytorch_tensor", "numpy"),
        ("serialize_bootstrap_key", "write_"),
        ("mod_raise", "bootstrap"),
    ):
        with pytest.raises(AttributeError, match=remedy) as e:
            getattr(engine, name)
        assert isinstance(e.value, becalm.Unsupported) and not hasattr(engine, name)
    with pytest.raises(AttributeError, match="has no attribute 'bootstrapp'"):
        engine.bootstrapp  # noqa: B018


#: A server: it reads keys and a ciphertext, and has no secret.
SERVER = """
import json, sys
from becalm.desilo import ToyEngine
folder, kinds = json.loads(sys.argv[1])
engine = ToyEngine(use_bootstrap=True, slot_count=16)
keys = {k: getattr(engine, f"read_{k}_key")(f"{folder}/{k}") for k in kinds}
x = engine.read_ciphertext(f"{folder}/x")
own = keys["relinearization"], keys["conjugation"]
y = engine.bootstrap(x, *own, keys["bootstrap"])
z = engine.bootstrap(x, *own, keys["rotation"], keys["small_bootstrap"], stage_count=2)
w = engine.rotate(engine.multiply(y, z, keys["relinearization"]), keys["fixed_rotation"])
engine.write_ciphertext(w, f"{folder}/y")
v = engine.multiply_matrix([[2.0 * (i == j) for j in range(16)] for i in range(16)], y,
                           keys["matrix_multiplication"])
engine.write_ciphertext(v, f"{folder}/z")
"""


def test_client_and_server_are_separate_processes(engine, tmp_path):
    secret = engine.create_secret_key()
    made = {k: getattr(engine, f"create_{k}_key")(secret) for k in KINDS if k != "fixed_rotation"}
    made["fixed_rotation"] = engine.create_fixed_rotation_key(secret, 3)
    for kind, key in made.items():
        getattr(engine, f"write_{kind}_key")(key, tmp_path / kind)
        back = getattr(engine, f"read_{kind}_key")(file_path=tmp_path / kind)
        facts = [(k.purpose, k.stage_count, k.size, k.delta) for k in (key, back)]
        assert facts[0] == facts[1] and isinstance(back, desilo.Key)
    engine.write_secret_key(secret, tmp_path / "secret")
    assert (tmp_path / "secret").stat().st_mode & 0o77 == 0
    engine.write_ciphertext(engine.encrypt(COUNT / 16, secret, level=0), tmp_path / "x")
    subprocess.run(
        [sys.executable, "-c", SERVER, json.dumps([str(tmp_path), KINDS])], check=True, timeout=600
    )
    for owner in (
        engine.read_secret_key(tmp_path / "secret"),
        engine.deserialize_secret_key(engine.serialize_secret_key(secret)),
    ):
        got = engine.decrypt(engine.read_ciphertext(tmp_path / "y"), owner)
        assert got.dtype == np.float64, "a file says that its values are real"
        assert abs(got - np.roll((COUNT / 16) ** 2, 3)).max() < 1e-3
        assert (
            abs(engine.decrypt(engine.read_ciphertext(tmp_path / "z"), owner) - COUNT / 8).max()
            < 1e-3
        )


def test_files_of_other_keys_are_refused(engine, secret, rotation, relinearization, tmp_path):
    key = engine.create_bootstrap_key(secret, size="small")
    engine.write_bootstrap_key(key, tmp_path / "bootstrap")
    engine.write_secret_key(secret, tmp_path / "secret")
    server = becalm.keygen("ckks_toy_12", slots=2, allow_insecure=True, progress=False)[1]
    server.save(tmp_path / "server")
    for kind, match, call in (
        (becalm.WrongKey, "use read_bootstrap_key", engine.read_rotation_key),
        (becalm.BadFile, "got evaluation keys", engine.read_secret_key),
        (becalm.BadFile, "got evaluation keys", engine.read_ciphertext),
    ):
        with pytest.raises(kind, match=match):
            call(tmp_path / "bootstrap")
    with pytest.raises(becalm.BadFile, match="got a secret key"):
        engine.read_bootstrap_key(tmp_path / "secret")
    with pytest.raises(becalm.BadFile, match="no Engine wrote"):
        engine.read_rotation_key(tmp_path / "server")
    with pytest.raises(becalm.WrongKey, match="create_rotation_key"):
        engine.write_rotation_key(relinearization, tmp_path / "x")
    with pytest.raises(becalm.WrongParams):
        ToyEngine(use_bootstrap_to_14_levels=True).read_bootstrap_key(tmp_path / "bootstrap")
    with pytest.raises(becalm.WrongParams, match="same flags"):
        ToyEngine(use_bootstrap_to_14_levels=True).write_secret_key(secret, tmp_path / "x")
    # Whatever the note says, it is held against what such a key has.
    for note in (
        {"purpose": "bootstrap", "stage_count": 3, "size": "huge", "delta": None},
        {"purpose": "bootstrap", "stage_count": None, "size": None, "delta": None},
        {"purpose": "bootstrap", "stage_count": True, "size": "small", "delta": None},
        {"purpose": "bootstrap", "stage_count": 3, "size": "small", "delta": 1},
        {"purpose": "bootstrap", "stage_count": 99, "size": "small", "delta": None},
        {"purpose": ["bootstrap"], "stage_count": 3, "size": [], "delta": None},
    ):
        key._native.save(str(tmp_path / "forged"), json.dumps(note))
        with pytest.raises((becalm.BadFile, becalm.WrongKey)):
            engine.read_bootstrap_key(tmp_path / "forged")
    data = bytearray((tmp_path / "bootstrap").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "bootstrap").write_bytes(data)
    with pytest.raises(becalm.BadFile):
        engine.read_bootstrap_key(tmp_path / "bootstrap")


def test_a_bootstrap_without_room_names_the_stages_that_take_less(monkeypatch):
    engine = ToyEngine(use_bootstrap=True)
    secret = engine.create_secret_key()
    own = [engine.create_relinearization_key(secret), engine.create_conjugation_key(secret)]
    small = [engine.create_rotation_key(secret), engine.create_small_bootstrap_key(secret)]
    x = engine.encrypt([0.5], secret, level=0)

    class Full:
        """A prepared program whose matrices do not fit."""

        def __init__(self, keys, program, budget):
            raise becalm.OutOfMemory("encode a linear map", "3.21 GB", "2.00 GB free", "use less")

    monkeypatch.setattr(becalm._native, "CkksPrepared", Full)

    def remedy(free, *keys):
        monkeypatch.setattr(becalm._native, "free_memory", lambda: free)
        with pytest.raises(becalm.OutOfMemory) as e:
            engine.bootstrap(x, *own, *keys)
        assert e.value.wanted == "3.21 GB"
        return e.value.remedy

    def beside(stages):
        price = becalm.ckks.price(
            "ckks_toy_slots_first", kinds="regular", bootstrap="small", stage_count=stages
        )
        return price.peak_bytes - price.memory_bytes

    sizes = {n: beside(n) for n in (4, 5)}
    assert max(sizes.values()) < beside(3)
    for stages, size in sizes.items():
        assert f"stage_count={stages} takes {megabytes(size)}" in remedy(1 << 40, *small)
    assert "stage_count=3" not in remedy(1 << 40, *small)
    least = min(sizes, key=sizes.get)
    assert f"the least is stage_count={least}" in remedy(0, *small)
    key = engine.create_bootstrap_key(secret, size="medium")
    assert "a key for stage_count=5 takes" in remedy(1 << 40, key)
