"""Every refusal is the right class, says what to do, and comes before any work."""

import copy
import pickle

import numpy as np
import pytest

import becalm

KINDS = {
    becalm.BadInput: ValueError,
    becalm.BadIndex: IndexError,
    becalm.DeviceError: RuntimeError,
    becalm.WrongKey: ValueError,
    becalm.WrongParams: ValueError,
    becalm.Insecure: ValueError,
    becalm.TooNoisy: ArithmeticError,
    becalm.OutOfMemory: MemoryError,
    becalm.BadFile: ValueError,
    becalm.IoError: OSError,
    becalm.Unsupported: NotImplementedError,
    becalm.Interrupted: Exception,
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_an_error_and_the_builtin_that_fits(kind):
    e = kind("op", "this", "that", "do so")
    assert isinstance(e, becalm.Error) and isinstance(e, KINDS[kind])
    assert str(e) == "op: wanted this, got that; do so"
    back = pickle.loads(pickle.dumps(e))
    assert type(back) is kind and str(back) == str(e)
    assert (back.op, back.wanted, back.got, back.remedy) == ("op", "this", "that", "do so")


def test_the_kinds_are_all_the_exceptions_there_are():
    public = {v for n in becalm.__all__ if isinstance(v := getattr(becalm, n), type)}
    warned = becalm.PrecisionWarning
    assert {c for c in public if issubclass(c, Exception)} == {*KINDS, becalm.Error, warned}


BAD_VALUES = [
    -1,
    16,
    [3, -2],
    [16],
    1.5,
    [1.0],
    "3",
    None,
    [[1], [2, 3]],
    1 << 70,
    [1 << 63],
    {1: 2},
]


@pytest.mark.parametrize("value", BAD_VALUES, ids=repr)
def test_values_that_cannot_be_encrypted(toy, value):
    with pytest.raises(becalm.BadInput) as e:
        toy.secret.encrypt(value)
    assert e.value.op == "encrypt" and e.value.remedy


def test_a_refusal_does_not_tell_the_value(toy):
    with pytest.raises(becalm.BadInput) as e:
        toy.secret.encrypt([1, 1234567])
    assert "1234567" not in str(e.value) and "position 1" in str(e.value)


@pytest.mark.parametrize(
    "options",
    [
        *({"message": m} for m in (0, -1, 1 << 40, 1.5)),
        *({"below": b} for b in (0, 17, -3, "4")),
        {"message": 4, "below": 5},
    ],
    ids=repr,
)
def test_encodings_that_do_not_exist(toy, options):
    with pytest.raises(becalm.BadInput):
        toy.secret.encrypt(0, **options)


@pytest.mark.parametrize(
    "table",
    [
        [16] * 16,
        [-1] * 16,
        lambda m: -m,
        lambda m: m + 1,
        lambda m: m / 2,
        lambda m: None,
        [0] * 17,
        [0] * 3,
        [],
        5,
        "0123456789abcdef",
        [[0, 1], [1, 0], [0, 0]],
        [lambda m: m, lambda m: m],
        [[1] * 8, 7],
        [[[1], [2, 3]], [0] * 8],
        dict.fromkeys(range(16), 0),
        set(range(16)),
    ],
    ids=range(17),
)
def test_tables_that_do_not_fit(toy, table):
    with pytest.raises(becalm.BadInput):
        toy.server.bootstrap(toy.secret.encrypt([1, 2]), table)


def test_an_exception_of_a_table_function_comes_through(toy):
    with pytest.raises(ZeroDivisionError):
        toy.server.bootstrap(toy.secret.encrypt(1), lambda m: 1 // m)


def test_sums_that_may_leave_the_table(toy):
    x = toy.secret.encrypt([1, 2])
    for outgrown in (x + x, x - 1, -x, 2 * x):
        with pytest.raises(becalm.BadInput) as e:
            toy.server.bootstrap(outgrown, lambda m: m)
        assert "range" in e.value.remedy
    with pytest.raises(becalm.BadInput):
        toy.server.bootstrap2(x, x, lambda a, b: a)
    with pytest.raises(becalm.BadInput):
        toy.server.and_(x, x)
    with pytest.raises(becalm.BadInput):
        toy.server.not_(x)


def test_shapes_that_do_not_broadcast(toy):
    x, y = toy.secret.encrypt([1, 0], below=2), toy.secret.encrypt([1, 0, 1], below=2)
    for f in (
        lambda: x + y,
        lambda: x - np.arange(3),
        lambda: x * [1, 2, 3],
        lambda: toy.server.bootstrap2(x, y, lambda a, b: a),
        lambda: toy.server.and_(y, toy.secret.encrypt_bool([0, 1])),
    ):
        with pytest.raises(becalm.BadInput):
            f()


def test_encodings_do_not_mix(toy):
    with pytest.raises(becalm.BadInput):
        toy.secret.encrypt(1) + toy.secret.encrypt(1, message=8)


def test_numbers_that_leave_64_bits(toy):
    x = toy.secret.encrypt([1, 2])
    for f in (lambda: x * (1 << 62), lambda: x + (1 << 70), lambda: (1 << 63) - x):
        with pytest.raises(becalm.BadInput):
            f()


def test_keys_do_not_mix(toy, stranger):
    x, y = toy.secret.encrypt([1]), stranger.secret.encrypt([1])
    table = stranger.secret.encrypt_table(lambda m: m)
    for f in (
        lambda: toy.secret.decrypt(y),
        lambda: toy.secret.phases(y),
        lambda: toy.server.bootstrap(y, lambda m: m),
        lambda: toy.server.bootstrap(x, table),
        lambda: x + y,
        lambda: becalm.concatenate([x, y]),
    ):
        with pytest.raises(becalm.WrongKey) as e:
            f()
        assert e.value.remedy


def test_sets_do_not_mix(toy):
    secret, server = becalm.keygen("toy_1_1", allow_insecure=True, progress=False)
    x, y = toy.secret.encrypt([1]), secret.encrypt([1])
    for f in (
        lambda: toy.secret.decrypt(y),
        lambda: server.bootstrap(x, lambda m: m % 4),
        lambda: x + y,
        lambda: toy.server.run(becalm.Program("toy_1_1"), y),
        lambda: becalm.params("tfhe_22"),
        lambda: becalm.keygen("no such set"),
        lambda: becalm.keygen(7),
        lambda: becalm.keygen(bits=60),
        lambda: becalm.Program(3.5),
    ):
        with pytest.raises((becalm.WrongParams, becalm.BadInput)):
            f()
    with pytest.raises(becalm.WrongParams, match="tfhe_2_2"):
        becalm.params("tfhe_22")
    with pytest.raises(becalm.WrongParams):
        toy.secret.decrypt(y)


@pytest.mark.parametrize("name", ["toy_2_2", "paper_n500"])
def test_insecure_sets_need_to_be_allowed(name):
    for f in (becalm.keygen, becalm.SecretKey.generate):
        with pytest.raises(becalm.Insecure, match="tfhe_") as e:
            f(name)
        assert "insecure" in e.value.remedy


def test_too_much_noise_is_refused_before_the_bootstrap(toy):
    x = toy.secret.encrypt([0], below=1) * (1 << 45)
    assert x.range == (0, 0)
    with pytest.raises(becalm.TooNoisy):
        toy.server.bootstrap(x, lambda m: m)


def test_keys_that_do_not_fit_memory_are_refused_first(monkeypatch):
    monkeypatch.setattr(becalm._native, "free_memory", lambda: 10**8)
    with pytest.raises(becalm.OutOfMemory, match="GB"):
        becalm.keygen("tfhe_4_4")


def test_keygen_takes_a_name_or_a_need():
    for f in (
        lambda: becalm.keygen("toy_2_2", bits=4),
        lambda: becalm.params("toy_2_2", bits=4),
        lambda: becalm.keygen(bits="four"),
        lambda: becalm.keygen(bits=-1),
        lambda: becalm.params(bits=4, modulus="2^32"),
        lambda: becalm.params(bits=4, log2_pfail="never"),
    ):
        with pytest.raises(becalm.BadInput):
            f()


def test_ciphertexts_are_not_numbers(toy):
    x = toy.secret.encrypt([1, 2])
    for f in (
        lambda: x * x,
        lambda: x == 1,
        lambda: x != x,
        lambda: x < 2,
        lambda: bool(x),
        lambda: np.asarray(x),
        lambda: x & x,
        lambda: 1 | x,
        lambda: x ^ True,
    ):
        with pytest.raises(becalm.Unsupported) as e:
            f()
        assert "server" in e.value.remedy or "decrypt" in e.value.remedy


def test_nothing_encrypted_is_compared_or_branched_on(toy, others):
    packed = others[1].secret
    a, b = (becalm.Program("toy_2_2").input(below=2) for _ in range(2))
    for x in (
        packed.encrypt_packed([0], bits=1),
        packed.encrypt([0.5]),
        a,
        becalm.Program("ckks_toy_12", slots=4).input(level=2),
        toy.secret.encrypt([1, 2]),
        toy.secret.encrypt(b"calm"),
        toy.secret.encrypt_table(range(16)),
        becalm.aes128(toy.secret, b"becalm, 16 bytes"),
    ):
        for f in (
            lambda x: x == x,
            lambda x: x != 3,
            lambda x: x < 3,
            lambda x: x <= 3,
            lambda x: not x,
            lambda x: x and b,
        ):
            with pytest.raises(becalm.Unsupported, match="unencrypted values"):
                f(x)
        assert {x: 1}[x] == 1


@pytest.fixture(scope="module")
def others():
    """Keys of vectors, and of packed integers."""
    options = {"allow_insecure": True, "progress": False}
    return (
        becalm.keygen("ckks_toy_12", bootstrap=None, **options),
        becalm.keygen("ckks_toy_table_4", **options),
    )


def test_kinds_of_ciphertexts_do_not_mix(toy, others):
    vectors, packed = others
    x = toy.secret.encrypt([1, 2])
    v = vectors.secret.encrypt([0.5, 0.25])
    p = packed.secret.encrypt_packed([1, 2], bits=4)
    i = toy.secret.encrypt([1, 2], becalm.uint(8))
    for f in (
        lambda: x + v,
        lambda: v + x,
        lambda: x * v,
        lambda: v * x,
        lambda: p + v,
        lambda: v + p,
        lambda: x + p,
        lambda: p - x,
        lambda: v + i,
        lambda: x + i,
    ):
        with pytest.raises(becalm.BadInput, match="ciphertexts of the same kind"):
            f()
    with pytest.raises(becalm.BadInput, match="wanted a ciphertext of TFHE, got a vector of CKKS"):
        toy.server.bootstrap(v, lambda m: m)


def test_operators_that_are_tables_say_which(toy, others):
    x, p = toy.secret.encrypt([1, 2]), others[1].secret.encrypt_packed([1, 2], bits=4)
    for f, table in (
        (lambda: x / 2, "m // 2"),
        (lambda: x % 2, "m % 2"),
        (lambda: x**2, r"m \* m % 16"),
        (lambda: p % 2, r"server\.lookup.*m % 2"),
        (lambda: p & 1, "m & 1"),
        (lambda: x @ x, "integer multiples"),
        (lambda: p[0], "decrypt it"),
        (lambda: list(p), "decrypt it"),
    ):
        with pytest.raises(becalm.Unsupported, match=table):
            f()
    assert "1 bit," in repr(others[1].secret.encrypt_packed([1], bits=1))


def test_no_argument_is_taken_in_silence(toy, others):
    vectors, packed = others
    service = becalm.cluster("https://127.0.0.1:1", token="0" * 64)
    p = packed.secret.encrypt_packed([1, 2], bits=4)
    ckks, x = becalm.ckks, toy.secret.encrypt([1, 2])
    program = becalm.Program("toy_2_2")
    program.output(program.input() + 1)
    for f, text in (
        (lambda: ckks.exp(bits="9"), "a number as bits"),
        (lambda: ckks.approximate(np.exp, bits="8", domain=(0, 1)), "a number as bits"),
        (lambda: toy.server.bootstrap(x, lambda m: m, progress=3), "a function as progress"),
        (lambda: vectors.secret.encrypt([1.0], level=True), "an integer as level"),
        (lambda: vectors.secret.encrypt([]), "one number or more"),
        (lambda: becalm.cluster("https://x", token=3), "a token"),
        (lambda: becalm.cluster("ftp://x", token="0" * 64), "ftp://x with a token"),
        (lambda: service.map(toy.server, program, x, folder="f"), "without a folder"),
        (lambda: becalm.cluster(None), "got NoneType"),
        (lambda: becalm.cluster(3), "got int"),
        (lambda: becalm.cluster("local", workers=1).resume(None), "got NoneType"),
        (lambda: becalm.circuit.parse(None), "a text"),
        (lambda: program.input() + 1.5, "an integer"),
        (lambda: becalm.uint(-8), "2 to 256 bits, got -8"),
        (lambda: packed.server.lookup(p, lambda m: -1), "entries from 0 up, got -1"),
        (lambda: toy.secret.encrypt(-1), "got a negative one;"),
        (lambda: toy.server.bootstrap(x, [1, 2]), "got a table of 2 entries"),
        (
            lambda: vectors.server.polynomial(vectors.secret.encrypt([1.0]), [1] * 5000),
            r"degree \d+",
        ),
        # A warning of numpy would be an error here.
        (lambda: ckks.approximate(np.log, domain=(-1, 1), bits=8), "finite"),
    ):
        with pytest.raises(becalm.BadInput, match=text):
            f()
    with pytest.raises(becalm.WrongKey, match=r"; make keys with rotations=\[3\]$"):
        vectors.secret.encrypt([1.0]).rotate(3)


def test_keys_are_made_where_nobody_reads_the_messages(monkeypatch):
    class Closed:
        def write(self, text):
            raise BrokenPipeError

        flush = isatty = lambda self: False

    monkeypatch.setattr("sys.stderr", Closed())
    secret, _ = becalm.keygen("toy_2_2", allow_insecure=True, progress=True)
    assert secret.decrypt(secret.encrypt([1])).tolist() == [1]


def test_arguments_of_another_type(toy):
    p = becalm.Program("toy_2_2")
    other = becalm.Program("toy_2_2").input()
    a = p.input()
    for f in (
        lambda: toy.secret.decrypt([1]),
        lambda: toy.secret.decrypt(None),
        lambda: toy.server.bootstrap([1, 2], lambda m: m),
        lambda: toy.server.run(lambda m: m, toy.secret.encrypt(1)),
        lambda: toy.server.run(p, toy.secret.encrypt(1)),
        lambda: toy.server.gate("nope", toy.secret.encrypt_bool(1), toy.secret.encrypt_bool(1)),
        lambda: p.lookup(other, lambda m: m),
        lambda: p.output(3),
        lambda: p.input(below=17),
        lambda: p.input(message=-1),
        lambda: p.linear([(1.5, a)]),
        lambda: p.linear([]),
        lambda: a * (1 << 64),
        lambda: p.gate("nope", a, a),
        lambda: becalm.SecretKey(None),
        lambda: becalm.Server(toy.secret),
        lambda: becalm.Server(toy.server._key, threads=-1),
        lambda: becalm.Server(toy.server._key, device="abacus"),
        lambda: toy.server.cost(p, lanes=-1),
    ):
        with pytest.raises(becalm.BadInput):
            f()
    p.output(a)
    with pytest.raises(becalm.BadInput):
        toy.server.run(p)
    with pytest.raises(becalm.BadInput):
        toy.server.run(p, toy.secret.encrypt(1, message=8))
    with pytest.raises(becalm.BadInput, match="round it"):
        a + 1.5


def test_secrets_are_neither_copied_nor_pickled(toy):
    for thing in (toy.secret, toy.server, toy):
        for f in (copy.copy, copy.deepcopy, pickle.dumps):
            if thing is toy and f is copy.copy:
                continue  # a tuple of the same two objects
            with pytest.raises(becalm.Unsupported, match="save"):
                f(thing)
    with pytest.raises(TypeError):
        pickle.dumps(toy.secret._native)


@pytest.mark.parametrize("worker", [False, True])
def test_a_panic_arrives_as_an_error(worker, capfd):
    with pytest.raises(becalm.Error, match="report") as e:
        becalm._native._panic(worker)
    assert type(e.value) is becalm.Error
    capfd.readouterr()


def test_no_call_of_the_native_module_panics_on_hostile_arguments(toy):
    """PyO3's PanicException derives from BaseException: `except Exception` would let it through."""
    native = becalm._native
    x, key = toy.secret.encrypt([1, 2, 3])._lwe, toy.server._key
    params, big = toy.secret.params, (1 << 63) - 1
    p = native.Program(params)
    r = p.input(16, True, -5, 1 << 40)
    words = [b"", b"1234567", bytes(8), b"\xff" * 8, b"\xff" * 24]
    calls = [
        *(lambda w=w: x.select(w) for w in words),
        *(lambda w=w: x.trivial(w) for w in words),
        *(lambda w=w: toy.secret._native.encrypt(w, 16, True, 16) for w in words),
        *(lambda w=w: native.Lwe.from_bytes(w, True) for w in words),
        *(lambda w=w: native.Glwe.from_bytes(w, True) for w in words),
        *(lambda w=w: native.Program.from_bytes(w, True) for w in words),
        lambda: x.scale(-(1 << 63)),
        lambda: x.scale(big).scale(big),
        lambda: x.add_constant(-(1 << 63)).add_constant(-(1 << 63)),
        lambda: toy.secret._native.encrypt(bytes(8), big, False, big),
        lambda: native.Lwe.concat([]),
        lambda: native.Table(params, 0, 0, False, [[]]),
        lambda: native.Table(params, big, big, True, [[0]]),
        lambda: native.Table(params, 16, 16, True, []),
        lambda: p.input(0, True, 1, 0),
        lambda: p.linear([(big, r), (big, r), (-big, r)], big),
        lambda: p.linear([(1, 999)], 0),
        lambda: p.lookup_encrypted(r, r, []),
        lambda: p.lookup_encrypted(r, p.input_table(16, 15), [(big, 0, True, big, -big)]),
        lambda: p.lookup_encrypted(r, p.input_table(big, big), []),
        lambda: p.lookup(999, native.Table(params, 16, 16, True, [[0] * 16])),
        lambda: p.info(999),
        lambda: p.mux(r, r, 4000000000),
        lambda: p.output(999),
        lambda: p.noise([]),
        lambda: p.noise([float("nan")] * 9),
        lambda: native.Evaluator(key, "cpu", 1, "mmx"),
        lambda: native.Evaluator(key, "cpu", 1).evaluate("run", p, [x], None),
        lambda: native.Evaluator(key, "cpu", 1).evaluate("run", p, [3], None),
        lambda: native.Params.find(4000000000, float("nan"), "p", float("inf")),
        lambda: native.kind_of_file("/"),
        lambda: native.main([]),
    ]
    refused = 0
    for call in calls:
        try:
            call()
        except Exception:
            refused += 1
    assert refused > len(calls) / 2


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: becalm.keygen(bits=0), "bits of 1 or more, got 0"),
        (lambda: becalm.keygen(bits=100), "a set for 100 bits"),
        (lambda: becalm.keygen(slots=99), "99 slots"),
        (lambda: becalm.keygen(log2_pfail=5), "log2 of a probability below 1, got 5"),
        (lambda: becalm.keygen(log2_pfail=float("nan")), "log2 of a probability below 1"),
        (lambda: becalm.keygen("ckks", kinds="lossy"), "write slots_first: lossy is its old name"),
        (lambda: becalm.keygen("ckks", kinds="regular", bootstrap=None), "for keys without one"),
        (lambda: becalm.load(None), "the path of a file, got NoneType"),
    ],
)
def test_arguments_are_refused_as_they_came(call, says):
    """A refusal names the number that was given, not one that it was cut to."""
    with pytest.raises((becalm.BadInput, becalm.WrongParams)) as e:
        call()
    assert says in str(e.value) and e.value.remedy, str(e.value)


def test_refusals_of_ckks_name_the_call():
    keys = becalm.keygen("ckks_toy_12", bootstrap=None, allow_insecure=True, progress=False)
    x = keys.secret.encrypt([0.5], level=0)
    for op, call in [
        ("mean", x.mean),
        ("replicate", x.replicate),
        ("encrypt", lambda: keys.secret.encrypt([0.5], bound=-1)),
    ]:
        with pytest.raises(becalm.BadInput) as e:
            call()
        assert e.value.op == op and "auto" not in str(e.value), str(e.value)


@pytest.mark.parametrize("find", [becalm.params, becalm.keygen])
def test_needs_that_no_set_meets(find):
    more = {} if find is becalm.params else {"progress": False}
    for bits, told in (
        (0, "bits of 1 or more, got 0"),
        (True, "an integer as bits, got True"),
        (2**70, "bits from 1 to 2"),
        (100, r"100 bits .*ask for 9 bits at most; .*becalm.uint"),
        ("4", "an integer as bits, got str"),
    ):
        with pytest.raises(ValueError, match=told) as e:
            find(bits=bits, **more)
        assert e.value.op == find.__name__
    for slots in (0, -1):
        with pytest.raises(becalm.BadInput, match="slots of 1 or more"):
            find(bits=4, slots=slots, **more)
        with pytest.raises(becalm.BadInput, match=r"slots"):
            find(slots=slots, **more)
    with pytest.raises(becalm.BadInput, match="got slots=2, log2_pfail=-64; add bits"):
        becalm.params("tfhe_2_2", slots=2, log2_pfail=-64)


def test_a_path_names_a_file(toy):
    for call in (becalm.load, becalm.ckks.load_server, toy.secret.save):
        with pytest.raises(becalm.BadInput, match=r"the path of a file, got an empty one"):
            call("")


def test_an_unknown_set_of_ckks_is_answered_with_those_of_ckks():
    for call in (becalm.ckks.price, becalm.ckks.params, becalm.ckks.keygen):
        with pytest.raises(becalm.WrongParams, match=r"`nope`; .*`ckks_n14`") as e:
            call("nope")
        assert "tfhe" not in str(e.value)


def test_what_is_no_ciphertext_is_named_with_the_way_to_one(toy):
    x = toy.secret.encrypt([1, 2], becalm.uint(8))
    for given, got, remedy in (
        (becalm.uint(8), "the type uint8", "pass a Ciphertext, Integers, EncryptedBytes or AesKey"),
        (b"calm", "bytes", r"becalm\.from_bytes\(x\)"),
        (x.to_bytes(), "bytes", r"becalm\.from_bytes\(x\)"),
        (toy.server, "Server", "pass a Ciphertext"),
        (None, "NoneType", "pass a Ciphertext"),
        (3, "int", "pass a Ciphertext"),
    ):
        with pytest.raises(becalm.BadInput, match=f"by TFHE, got {got}; .*{remedy}") as e:
            toy.secret.decrypt(given)
        assert "encrypt the value first" not in str(e.value)


def test_refusals_are_in_the_words_of_python(toy, tmp_path):
    x = toy.secret.encrypt([1, 2, 3], becalm.uint(8)).on(toy.server)
    sent, folder = x.to_bytes(), str(tmp_path)
    for call, says in (
        (lambda: becalm.from_bytes(sent, allow_insecure=True, limit=9), "trust the file (limit=)"),
        (lambda: becalm.from_bytes(sent), "is encrypted (allow_insecure=True)"),
        (lambda: becalm.keygen("toy_2_2"), "is encrypted (allow_insecure=True)"),
        (lambda: becalm.keygen("ckks_toy_12"), "is encrypted (allow_insecure=True)"),
        (lambda: becalm.stack([]), "stack: wanted one array or more, got none"),
        (lambda: becalm.concatenate([]), "concatenate: wanted one array or more, got none"),
        (lambda: x**-1, "an unencrypted integer from 0 as exponent, got -1;"),
        (lambda: np.argsort(x, order="a"), "a, axis, kind as arguments of argsort, got order=;"),
        (lambda: x.save("/"), "wanted the name of a file, got /, which is a folder;"),
        (lambda: x.save(folder), "name a file in it"),
    ):
        with pytest.raises(becalm.Error) as e:
            call()
        assert says in str(e.value), str(e.value)
        assert "::" not in str(e.value) and "`Limits" not in str(e.value), str(e.value)


def test_nothing_of_a_file_that_is_no_circuit_is_quoted(tmp_path):
    for name, text in (
        ("passwd", "root:x:0:0:root:/root:/bin/sh\n"),
        ("key", "hunter2 hunter2\n"),
        ("pins", "4711 4711 4711\n"),
        ("config", "password = hunter2\n.names a\n"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(becalm.BadInput, match=r"in line 1 of .*, got another line") as e:
            becalm.circuit.load(tmp_path / name)
        assert not any(word in str(e.value) for word in ("hunter2", "4711", "x:0:0", "/bin/sh"))
