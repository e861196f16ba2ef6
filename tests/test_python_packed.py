"""Packed integers: arithmetic as numpy has it modulo 2^bits, tables, files and refusals."""

import numpy as np
import pytest

import becalm
from becalm import _native, ckks, errors

TOY = {"allow_insecure": True, "progress": False}


@pytest.fixture(scope="module")
def keys():
    return becalm.keygen("ckks_toy_table_4", **TOY)


@pytest.fixture(scope="module")
def values():
    return np.random.default_rng(5).integers(0, 16, (3, 50))


@pytest.fixture(scope="module")
def x(keys, values):
    return keys.secret.encrypt_packed(values, bits=4)


def test_arithmetic_is_that_of_numpy_modulo_sixteen(keys, values, x):
    other = np.random.default_rng(6).integers(0, 16, values.shape)
    y = keys.secret.encrypt_packed(other, bits=4)
    for got, wanted in [
        (x + y, values + other),
        (x - y, values - other),
        (-x, -values),
        (x + other, values + other),
        (other + x, values + other),
        (x - 5, values - 5),
        (5 - x, 5 - values),
        (3 * x, 3 * values),
        (x * -7, -7 * values),
        (x * 16, 0 * values),
        (x + np.arange(50), values + np.arange(50)),
    ]:
        assert (keys.secret.decrypt(got) == wanted % 16).all()
    assert (x.shape, x.bits, x.size, len(x)) == (values.shape, 4, 150, 3)
    again = keys.server.from_bytes(x.to_bytes())
    assert x.params.name == again.params.name == keys.server.params.name
    assert x.reshape(-1).shape == (150,)
    assert keys.secret.decrypt(x).dtype == np.uint8


def test_tables_are_functions_lists_and_arrays(keys, values, x):
    secret, server = keys
    square, half = server.lookup_many(x, [lambda m: m * m % 16, np.arange(16) // 2])
    assert (secret.decrypt(square) == values * values % 16).all()
    assert (secret.decrypt(half) == values // 2).all()
    again = x.lookup([15 - m for m in range(16)]) + half
    assert (secret.decrypt(again) == (15 - values + values // 2) % 16).all()
    assert square.error > x.error and square.error < 2**-15


def test_a_server_encodes_its_matrices_once(monkeypatch):
    secret, server = becalm.keygen("ckks_toy_table_4", **TOY)
    x = secret.encrypt_packed([1, 2, 3], bits=2)
    assert secret.decrypt(server.lookup(x, [3, 2, 1, 0])).tolist() == [2, 1, 0]
    monkeypatch.setattr(_native, "CkksPrepared", None)
    assert secret.decrypt(server.lookup(x, [0, 1, 0, 1])).tolist() == [1, 0, 1]


def test_more_integers_than_a_ciphertext_holds(keys):
    secret, server = keys
    many = np.random.default_rng(7).integers(0, 4, 5000)
    x = secret.encrypt_packed(many, bits=2)
    y = server.lookup(x + 1, lambda m: 3 - m)
    assert (secret.decrypt(y) == (3 - (many + 1) % 4)).all()
    with pytest.raises(errors.Unsupported, match="at most 4096"):
        x.save("never")
    assert x.stored_nbytes < 25 * 5000


def test_files_and_public_keys(keys, values, x, tmp_path):
    secret, server = keys
    x.save(tmp_path / "x")
    for back in (server.load(tmp_path / "x"), secret.load(tmp_path / "x")):
        assert back.bits == 4 and (secret.decrypt(back) == values.reshape(-1)).all()
    assert (secret.decrypt(server.from_bytes(x.to_bytes())) == values.reshape(-1)).all()
    # Without a server too they are packed integers: as values in slots they would be rubbish.
    for back in (
        becalm.load(tmp_path / "x", allow_insecure=True),
        becalm.from_bytes(x.to_bytes(), allow_insecure=True),
    ):
        assert isinstance(back, ckks.PackedArray)
        assert (secret.decrypt(back) == values.reshape(-1)).all()
        assert (
            secret.decrypt(server.lookup(back, lambda m: 15 - m)) == 15 - values.reshape(-1)
        ).all()
    public = secret.public_key()
    assert secret.decrypt(public.encrypt_packed([1, 2, 3], bits=2)).tolist() == [1, 2, 3]


def test_a_program_of_packed_integers_is_recorded_saved_and_run(keys, values, x, tmp_path):
    secret, server = keys
    p = becalm.Program("ckks_toy_table_4")
    a, b = p.input(bits=4), p.input(bits=4)
    half, odd = p.lookup_many(3 * a - b + 21, [lambda m: m // 2, [m % 2 for m in range(16)]])
    p.output([half, 7 - odd], (-a).lookup(range(16)) - 17 + b)
    assert (p.inputs, p.outputs, p.cost.bootstraps) == (2, 3, 2)
    assert (a.bits, repr(a)) == (4, "<becalm.ckks.PackedRegister 0: integers of 4 bits>")
    other = np.random.default_rng(8).integers(0, 16, values.shape)
    y = secret.encrypt_packed(other, bits=4)
    inner = (3 * values - other + 21) % 16
    wanted = [inner // 2, 7 - inner % 2, (-values - 17 + other) % 16]
    p.save(tmp_path / "p")
    for program in (p, becalm.load(tmp_path / "p", allow_insecure=True)):
        made = server.run(program, x, y)
        for got, right in zip(made, wanted, strict=True):
            assert isinstance(got, ckks.PackedArray) and (secret.decrypt(got) == right).all()
        assert made[0].error < 2**-15
    # Ciphertexts of one array are lanes.
    many = np.random.default_rng(9).integers(0, 16, 5000)
    z = secret.encrypt_packed(many, bits=4)
    before = server._machine.runs
    assert (secret.decrypt(server.run(p, z, z)[2]) == (-17) % 16).all()
    assert server._machine.runs == before + 1
    own = becalm.keygen("ckks_toy_table_4", needs=p.needs, bootstrap=None, **TOY)
    x = own.secret.encrypt_packed([1, 2], bits=4)
    assert own.secret.decrypt(own.server.run(p, x, x)[0]).tolist() == [3, 4]


def test_numbers_in_slots_become_integers_and_integers_numbers(keys):
    secret, server = keys
    values = np.random.default_rng(10).integers(0, 16, 2048)
    v = secret.encrypt(values / 2, bound=8)
    packed = server.pack(2 * v, bits=4)
    assert (packed.shape, packed.bits) == ((2048,), 4)
    assert (secret.decrypt(packed) == values).all()
    # Arrays of both origins have one order of places.
    assert (secret.decrypt(packed + values[::-1]) == (values + values[::-1]) % 16).all()
    other = secret.encrypt_packed(values, bits=4)
    assert (secret.decrypt(packed - other) == 0).all()
    z = secret.encrypt(values + 1j * values[::-1], bound=24)
    both = server.pack(z, bits=4)
    assert (secret.decrypt(both) == np.r_[values, values[::-1]]).all()
    [first, second] = server.unpack(server.lookup(both, lambda m: m >= 5))
    assert (first.level, first.real, first.slots) == (3, True, 2048)
    assert abs(secret.decrypt(first) - (values >= 5)).max() < first.account.worst < 2**-10
    assert abs(secret.decrypt(second) - (values[::-1] >= 5)).max() < 2**-10
    [root], [square] = server.unpack_many(other, [np.sqrt(np.arange(16)), lambda m: m * m])
    assert (root.level, square.level) == (5, 3)
    assert abs(secret.decrypt(root) - np.sqrt(values)).max() < root.account.worst
    assert abs(secret.decrypt(square) - values**2).max() < square.account.worst
    [raw] = server.unpack(other, clean=False)
    assert raw.level == 5 and abs(secret.decrypt(raw) - values).max() < raw.account.worst
    few = server.pack(secret.encrypt([1.02, 3, 14.98], bound=16), bits=4, near=0.02)
    assert secret.decrypt(server.lookup(few, range(16)))[:3].tolist() == [1, 3, 15]


def test_a_program_goes_from_slots_to_integers_and_back(keys, tmp_path):
    secret, server = keys
    values = np.random.default_rng(11).integers(0, 16, 2048)
    p = becalm.Program("ckks_toy_table_4")
    v, w, x = p.input(level=4), p.input(level=3), p.input(bits=4)
    packed = p.pack(v * 2, w, bits=4, near=0.01)
    low, high = p.unpack(p.lookup(packed, lambda m: m // 2) + x, both=True)
    p.output(packed - 1, low * high)
    p.save(tmp_path / "p")
    for program in (p, becalm.load(tmp_path / "p", allow_insecure=True)):
        y = secret.encrypt_packed(np.ones(4096, int), bits=4)
        made, product = server.run(
            program, secret.encrypt(values / 2, bound=8), secret.encrypt(values + 0.0, bound=16), y
        )
        assert (secret.decrypt(made) == np.r_[values - 1, values - 1] % 16).all()
        assert abs(secret.decrypt(product) - (values // 2 + 1) ** 2).max() < 0.01
    # Integers of slots have as many places as there are slots.
    q = becalm.Program("ckks_toy_table_4", slots=8)
    q.output(q.pack(q.input(level=3), bits=2))
    few = becalm.keygen("ckks_toy_table_4", slots=8, **TOY)
    v = few.secret.encrypt([1, 2, 3, 0] * 2, level=3, bound=4)
    for made in (few.server.run(q, v), few.server.pack(v, bits=2)):
        assert few.secret.decrypt(made).tolist() == [1, 2, 3, 0] * 2 and made.shape == (8,)


def test_wrong_calls_between_slots_and_integers_say_why(keys, x):
    secret, server = keys
    v = secret.encrypt([1.0, 2.0], bound=4)
    z = secret.encrypt([1j], bound=4)
    p = becalm.Program("ckks_toy_table_4")
    a, b = p.input(bits=4), p.input(level=2)
    toy = becalm.Program("ckks_toy_12")
    refused = [
        (errors.BadInput, lambda: server.pack(x, bits=4), "pack: .*packed integers"),
        (errors.BadInput, lambda: server.pack(v, bits=5), "1 to 4 bits"),
        (errors.BadInput, lambda: server.pack(v, bits=4, near=0.7), "from 0 to 0.5"),
        (errors.BadInput, lambda: server.pack(v, bits=4, near="0"), "a number as near"),
        (errors.BadInput, lambda: server.pack(v, z, bits=4), "complex ones"),
        (errors.BadInput, lambda: server.pack(v.level_down(2), bits=4), "level 3 or above"),
        (errors.TooNoisy, lambda: server.pack(v, bits=4, near=0.5), "less than 0.5 away"),
        (errors.BadInput, lambda: server.unpack(v), "unpack: .*server.pack"),
        (errors.BadInput, lambda: server.unpack(x, range(15)), "16 entries"),
        (errors.BadInput, lambda: server.unpack(x, [1j] * 16), "16 real entries"),
        (errors.BadInput, lambda: server.unpack(x, lambda m: [m, m]), "16 real entries"),
        (errors.BadInput, lambda: server.unpack(x, lambda m: np.nan), "finite"),
        (errors.BadInput, lambda: server.unpack_many(x, []), "one table or more"),
        (
            errors.TooNoisy,
            lambda: server.lookup(server.pack(v, bits=4, near=0.2), range(16)),
            "sooner",
        ),
        (errors.BadInput, lambda: p.pack(a, bits=4), "packed integers"),
        (errors.BadInput, lambda: p.pack(b, bits=4), "level 3 or above"),
        (errors.BadInput, lambda: p.unpack(b), "input.bits=4."),
        (errors.WrongParams, lambda: toy.pack(toy.input(), bits=4), "ckks_table_4"),
    ]
    for kind, call, text in refused:
        with pytest.raises(kind, match=text):
            call()
    stranger = becalm.keygen("ckks_toy_table_4", bootstrap=None, **TOY)
    with pytest.raises(errors.WrongKey):
        server.pack(stranger.secret.encrypt([1.0], bound=2), bits=4)
    with pytest.raises(errors.WrongKey):
        server.unpack(stranger.secret.encrypt_packed([1], bits=4))


def test_wrong_calls_of_programs_say_why(keys, x):
    secret, server = keys
    p, q = becalm.Program("ckks_toy_table_4"), becalm.Program("ckks_toy_table_4")
    a, b = p.input(bits=4), p.input(bits=2)
    v = p.input()
    p.output(a + 1)
    refused = [
        (errors.BadInput, lambda: p.input(bits=5), "1 to 4 bits"),
        (errors.BadInput, lambda: p.input(bits=4, level=0), "the bits of integers alone"),
        (errors.WrongParams, lambda: becalm.Program("ckks_toy_12").input(bits=4), "ckks_table_4"),
        (errors.BadInput, lambda: a + b, "4 bits"),
        (errors.BadInput, lambda: a + q.input(bits=4), "another program"),
        (errors.BadInput, lambda: q.lookup(a, range(16)), "another program"),
        (errors.BadInput, lambda: q.output(a), "another program"),
        (errors.BadInput, lambda: a + x, "server.run"),
        (errors.BadInput, lambda: x + a, "a register of a program"),
        (errors.BadInput, lambda: a + np.arange(2), "server.run"),
        (errors.BadInput, lambda: p.lookup(x, range(16)), "server.lookup"),
        (errors.BadInput, lambda: a.lookup(range(15)), "16 entries"),
        (errors.Unsupported, lambda: a // 2, r"program.lookup\(x"),
        (errors.Unsupported, lambda: a * a, "everybody knows"),
        (errors.BadInput, lambda: v + a, "packed integers"),
        (errors.BadInput, lambda: a + v, "ciphertexts of the same kind"),
        (errors.BadInput, lambda: server.run(p, x, x, secret.encrypt([0.5])), "2 bits"),
    ]
    for kind, call, text in refused:
        with pytest.raises(kind, match=text):
            call()
    q = becalm.Program("ckks_toy_table_4")
    q.output(q.input(bits=4) - q.input(bits=4))
    with pytest.raises(errors.BadInput, match="one shape"):
        server.run(q, x, secret.encrypt_packed([1], bits=4))
    with pytest.raises(errors.BadInput, match="integers of 4 bits"):
        server.run(q, x, secret.encrypt([0.5], level=0))


def test_wrong_calls_say_why(keys, x):
    secret, server = keys
    refused = [
        (errors.BadInput, lambda: secret.encrypt_packed([16], bits=4), "below 16"),
        (errors.BadInput, lambda: secret.encrypt_packed([-1], bits=4), "negative"),
        (errors.BadInput, lambda: secret.encrypt_packed([], bits=4), "one integer or more"),
        (errors.BadInput, lambda: secret.encrypt_packed([1], bits=5), "1 to 4 bits"),
        (errors.BadInput, lambda: x + secret.encrypt_packed([1], bits=4), "shape"),
        (errors.BadInput, lambda: x.reshape(7), "150"),
        (errors.BadInput, lambda: server.lookup(x, range(15)), "16 entries"),
        (errors.BadInput, lambda: server.lookup(x, range(1, 17)), "below 16"),
        (errors.BadInput, lambda: server.lookup_many(x, []), "one table or more"),
        (errors.BadInput, lambda: server.lookup(3, range(16)), "packed integers"),
        (errors.Unsupported, lambda: x * x, "everybody knows"),
    ]
    for kind, call, text in refused:
        with pytest.raises(kind, match=text):
            call()
    noisy = x
    with pytest.raises(errors.TooNoisy):
        for _ in range(40):
            noisy = noisy + noisy
    other, _ = becalm.keygen("ckks_toy_12", bootstrap=None, **TOY)
    with pytest.raises(errors.WrongParams, match="ckks_table_4"):
        other.encrypt_packed([1], bits=4)
    stranger = becalm.keygen("ckks_toy_table_4", bootstrap=None, **TOY)
    with pytest.raises(errors.WrongKey):
        stranger.secret.decrypt(x)
    with pytest.raises(errors.WrongKey):
        server.lookup(stranger.secret.encrypt_packed([1], bits=4), range(16))
    assert isinstance(x, ckks.PackedArray) and "4 bits" in repr(x) and "4" in x._repr_html_()


def test_what_is_no_vector_of_ckks_is_named_with_the_way_to_one(toy):
    secret, _ = becalm.keygen(
        "ckks_toy_table_4", bootstrap=None, allow_insecure=True, progress=False
    )
    x, packed = secret.encrypt([0.5]), secret.encrypt_packed([3, 1], bits=2)
    assert packed.decrypt(secret).tolist() == secret.decrypt(packed).tolist() == [3, 1]
    calls = (
        lambda given: secret.bits_to_share(given, queries=1),
        lambda given: secret.decrypt_to_share(given, precision_bits=1, queries=1),
        lambda given: x.vouched(like=given),
    )
    for call in calls:
        with pytest.raises(
            becalm.BadInput, match=r"got packed integers; .*secret.encrypt makes one"
        ):
            call(packed)
    for call in (secret.decrypt, *calls):
        for given, says in (
            (becalm.uint(8), "got IntegerType; pass a Ciphertext"),
            (5, "got int; pass a Ciphertext"),
            (x.to_bytes(), r"got bytes; .*becalm\.from_bytes\(x\)"),
            (toy.secret.encrypt(1), "got Ciphertext of TFHE; use the keys of TFHE"),
        ):
            with pytest.raises(becalm.BadInput, match=says) as e:
                call(given)
            assert "encrypt it first" not in str(e.value)


def test_a_program_of_integers_and_values_runs_on_one_lane_or_several(keys):
    secret, server = keys
    p = becalm.Program("ckks_toy_table_4")
    m, v = p.input(bits=4), p.input(level=2)
    p.output(m + m, v + v)
    assert "0 (4 bits), 2" in repr(p._facts())
    x = secret.encrypt_packed([[1, 2, 3], [4, 5, 6]], bits=4)
    y = secret.encrypt([0.25, 0.5], level=2)

    doubled, sums = server.run(p, x, y)
    assert secret.decrypt(doubled).tolist() == [[2, 4, 6], [8, 10, 12]]
    assert abs(secret.decrypt(sums)[:2] - [0.5, 1.0]).max() < 1e-3

    for both in (server.run(p, x, [y, y + y]), server.run(p, [x, x], [y, y + y])):
        assert [secret.decrypt(d)[1, 2] for d in both[0]] == [12, 12]
        assert [round(secret.decrypt(s)[1], 2) for s in both[1]] == [1.0, 2.0]
    one = becalm.Program("ckks_toy_table_4")
    one.output(one.input(bits=4) + 1)
    assert [secret.decrypt(z)[0, 0] for z in server.run(one, [x, x + x])] == [2, 3]

    large = secret.encrypt_packed(np.arange(2 * server.slots + 1) % 16, bits=4)
    doubled, sums = server.run(p, large, y)
    assert (secret.decrypt(doubled) == 2 * np.arange(large.size) % 16).all() and len(sums) == 2
    with pytest.raises(errors.BadInput, match="run: wanted packed integers of one ciphertext"):
        server.run(p, large, [y, y])


def test_refusals_name_the_call_of_the_user(keys):
    secret, server = keys
    p = becalm.Program("ckks_toy_table_4")
    p.output(p.input(bits=4) + 1)
    y = secret.encrypt([0.25], level=0)
    for call, said in [
        (lambda: server.run(p, y), "wanted integers of 4 bits, got values in slots; encrypt"),
        (lambda: server.bootstrap(y), "bootstrap: wanted integers of 4 bits, got values in slots"),
        (lambda: server.lookup(secret.encrypt_packed([1], bits=4), [abs, abs]), "lookup_many"),
    ]:
        with pytest.raises(errors.BadInput, match=said):
            call()
    x = secret.encrypt([0.25])
    with pytest.raises(errors.WrongKey, match=r"^matrix product: wanted a key for rotation"):
        server.matmul(ckks.Matrix(np.eye(4, k=1), slots=server.slots), x)
    turned = becalm.Program("ckks_toy_table_4")
    turned.output(turned.input().rotate(3))
    with pytest.raises(errors.WrongKey, match=r"wanted a key for rotation by 3"):
        server.run(turned, x)
    other = becalm.keygen("ckks_toy_12", bootstrap=None, **TOY)
    p = becalm.Program("ckks_toy_12")
    p.output(p.input(level=0).bootstrap("regular"))
    with pytest.raises(errors.WrongKey, match=r"wanted a key for the switch"):
        other.server.run(p, other.secret.encrypt([0.5], level=0))
