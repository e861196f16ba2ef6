"""Errors name the call that the user made, not the machinery that refused in it."""

import math

import numpy as np
import pytest

import becalm
from becalm import circuit, ckks

TOY = {"allow_insecure": True, "progress": False}


@pytest.fixture(scope="module")
def keys():
    """A server of CKKS without any key but that of products, and one of all kinds."""
    plain = becalm.keygen("ckks_toy_12", slots=4, bootstrap=None, conjugate=False, **TOY)
    whole = becalm.keygen("ckks_toy_12", slots=4, **TOY)
    return plain, whole


def op_of(call):
    with pytest.raises(becalm.Error) as e:
        call()
    error = e.value
    assert str(error).startswith(f"{error.op}: wanted {error.wanted}, got {error.got}; ")
    assert "evaluate" not in str(error) and error.remedy
    return error.op


NAMED = {
    "sigmoid": ckks.sigmoid(),
    "tanh": ckks.tanh(),
    "exp": ckks.exp(),
    "inverse": ckks.inverse(domain=(0.5, 1)),
    "sqrt": ckks.sqrt(),
    "inverse_sqrt": ckks.inverse_sqrt(domain=(0.5, 1)),
    "absolute": ckks.absolute(),
    "sign": ckks.sign(),
    "sort": ckks.sort(4),
    "largest": ckks.largest(4),
    "smallest": ckks.smallest(4),
    "argmax": ckks.argmax(4),
    "maximum": ckks.maximum(),
    "minimum": ckks.minimum(),
    "compare": ckks.compare(),
    "cos": ckks.approximate(math.cos, domain=(-1, 1), bits=10),
    "matrix_product": ckks.matrix_product(2),
    "matrix_vector": ckks.matrix_vector(2),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_function_names_itself(keys, name):
    """Where levels run out: at once, in a program, and with bootstraps that the keys lack."""
    f, x = NAMED[name], keys[0].secret.encrypt([0.5, 0.25, 0.75, 1], level=0)
    register = becalm.Program("ckks_toy_12", slots=4).input(level=0)
    for given in (x, register):
        assert op_of(lambda given=given: f(*[given] * f.arguments)) == name
    with pytest.raises(becalm.BadInput) as e:
        f(*[x] * f.arguments)
    assert name not in e.value.wanted
    exact = f.error == 0
    assert ("fewer bits" in e.value.remedy) is not exact


def test_a_function_without_its_keys_names_itself(keys):
    x = keys[0].secret.encrypt([0.5, 0.25, 0.75, 1])
    for op, call in {
        "matrix_product": lambda: ckks.matrix_product(2)(x, x),
        "matrix_vector": lambda: ckks.matrix_vector(2)(x, x),
        "mean": x.mean,
        "sum": lambda: x.sum(2, stride=2),
        "replicate": x.replicate,
        "slice": lambda: x[1:3],
        "concatenate": lambda: ckks.concatenate([x, x], 2),
    }.items():
        assert op_of(call) == op
        with pytest.raises(becalm.WrongKey) as e:
            call()
        assert e.value.missing.purpose == "rotation"
    with pytest.raises(becalm.WrongKey, match=r"make keys with rotations=\[1, 2, 3\]"):
        ckks.matrix_product(2)(x, x)


def test_numpy_and_operators_of_vectors_name_themselves(keys):
    plain, _ = keys
    low, x = (plain.secret.encrypt([0.5, 0.25, 0.75, 1], level=level) for level in (0, 3))
    for op, call in {
        "np.dot": lambda: np.dot(low, low),
        "np.inner": lambda: np.inner(x, x),
        "np.roll": lambda: np.roll(x, 1),
        "np.mean": lambda: np.mean(x),
        "np.sum": lambda: np.sum(x),
        "np.square": lambda: np.square(low),
        "np.conjugate": lambda: np.conjugate(x),
        "dot": lambda: ckks.dot([low], [low]),
        "divide": lambda: low / 2,
        "multiply": lambda: low * 2,
        "power": lambda: low**2,
        "subtract": lambda: low - [1, 2, 3, 4, 5],
    }.items():
        assert op_of(call) == op


def test_a_program_names_the_function_within_it(keys):
    plain, whole = keys
    p = becalm.Program("ckks_toy_12", slots=4)
    x = p.input(level=3)
    p.output(x.replicate(1), x * x)
    assert op_of(lambda: plain.server.run(p, plain.secret.encrypt([1, 1]))) == "replicate"
    assert op_of(lambda: whole.server.run(p, whole.secret.encrypt([1, 1], level=2))) == "run"


def test_bootstraps_of_tfhe_name_the_call(toy):
    other = becalm.keygen("toy_2_2", **TOY)
    server, mine = toy.server, toy.secret.encrypt([1, 2], below=4)
    x = other.secret.encrypt([1, 2], below=4)
    p = becalm.Program("toy_2_2")
    p.output(p.lookup(p.input(below=4), lambda m: m))
    for op, call in {
        "bootstrap": lambda: server.bootstrap(x, lambda m: m),
        "bootstrap2": lambda: server.bootstrap2(x, x, lambda a, b: a),
        "run": lambda: server.run(p, x),
    }.items():
        assert op_of(call) == op
    assert op_of(lambda: server.bootstrap(mine, [1] * 32)) == "bootstrap"
    assert op_of(lambda: server.bootstrap(mine, lambda m: m, progress=3)) == "bootstrap"
    bits = other.secret.encrypt_bool([True])
    for gate in ("and_", "nand", "or_", "nor", "xor", "xnor"):
        assert op_of(lambda gate=gate: getattr(server, gate)(bits, bits)) == gate
    assert op_of(lambda: server.mux(bits, bits, bits)) == "mux"


def test_operations_on_integers_name_themselves(toy):
    a = becalm.uint(8).encrypt(toy.secret, [3, 4]).on(toy.server)
    for op, call in {
        "sum": lambda: a.sum(axis=3),
        "min": lambda: np.min(a, axis=(0, 0)),
        "cumsum": lambda: a.cumsum(axis="x"),
        "diff": lambda: a.diff(axis=2),
        "argmax": lambda: a.argmax(axis=(0, 1)),
    }.items():
        assert op_of(call) == op


def test_calls_before_any_ciphertext_name_themselves(tmp_path):
    for op, call in {
        "keygen": lambda: becalm.keygen("ckks_toy_12", rotations="3", **TOY),
        "params": lambda: becalm.params("nothing"),
        "from_bytes": lambda: becalm.from_bytes(b"x"),
        "load": lambda: becalm.load("nowhere"),
        "price": lambda: ckks.price("ckks_toy_12", bootstrap="huge"),
        "parse": lambda: circuit.parse(None),
        "cluster": lambda: becalm.cluster(None),
        "load_secret_key": lambda: ckks.load_secret_key("nowhere"),
        "load_server": lambda: ckks.load_server(tmp_path),
    }.items():
        assert op_of(call) == op
    for wrong in ({"lease": "x"}, {"patience": None}, {"workers": "2"}, {"authorities": 3}):
        service = {"token": "x" * 40} if "authorities" in wrong else {}
        where = "https://localhost:1" if service else "local"
        assert op_of(lambda w=where, m={**wrong, **service}: becalm.cluster(w, **m)) == "cluster"
    with pytest.raises(becalm.BadInput, match="a kind of workers, or a folder, got NoneType"):
        becalm.cluster(None)


def test_packed_integers_name_the_call():
    secret, server = becalm.keygen("ckks_toy_table_4", **TOY)
    x = secret.encrypt_packed([3, 1], bits=4)
    assert op_of(lambda: server.lookup(x, [1, 2])) == "lookup"
    assert op_of(lambda: x.lookup(lambda m: -1)) == "lookup"
    assert op_of(lambda: server.lookup_many(x, [3])) == "lookup_many"
    # One ciphertext holds one value or more; an array of ciphertexts may be empty.
    assert op_of(lambda: secret.encrypt_packed([], bits=4)) == "encrypt_packed"
    assert op_of(lambda: secret.encrypt([])) == "encrypt"


def test_no_encrypted_value_becomes_a_plain_number(toy):
    """`float` and `int` of each kind are errors of becalm, which say what to do."""
    secret, _ = becalm.keygen("ckks_toy_table_4", bootstrap=None, **TOY)
    number = becalm.uint(8).encrypt(toy.secret, 3)
    register = becalm.Program("toy_2_2").input()
    packed = secret.encrypt_packed([3], bits=4)
    for x in (toy.secret.encrypt(3), number, packed, secret.encrypt([0.5]), register):
        for convert in (int, float, complex, round):
            with pytest.raises(becalm.Unsupported, match="decrypt it"):
                convert(x)


def test_rotations_of_keys_count_around():
    """A key of 10^6 slots to the left is one of what is left of full turns."""
    secret, server = becalm.keygen(
        "ckks_toy_12", slots=4, bootstrap=None, rotations=[10**6 + 1], **TOY
    )
    y = secret.decrypt(server.rotate(secret.encrypt([1, 2, 3, 4], bound=4), 1))
    assert y.round(2).tolist() == [2, 3, 4, 1]
