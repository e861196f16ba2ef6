"""Bootstraps, gates and programs, against the same functions on plain numbers."""

import itertools
import json
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import becalm

P = 16


@given(
    values=st.lists(st.integers(0, P - 1), max_size=5),
    table=st.lists(st.integers(0, P - 1), min_size=P, max_size=P),
)
@settings(max_examples=30, deadline=None)
def test_any_table(toy, values, table):
    y = toy.server.bootstrap(toy.secret.encrypt(values), table)
    assert toy.secret.decrypt(y).tolist() == [table[m] for m in values]


@pytest.mark.parametrize(
    "table",
    [
        lambda m: (m * m + 1) % P,
        [(m * m + 1) % P for m in range(P)],
        np.array([(m * m + 1) % P for m in range(P)], dtype=np.uint8),
        becalm.Table("toy_2_2", lambda m: (m * m + 1) % P),
    ],
    ids=["function", "list", "array", "Table"],
)
def test_every_form_of_a_table(toy, table):
    values = np.arange(P).reshape(4, 4)
    y = toy.server.bootstrap(toy.secret.encrypt(values), table)
    assert np.array_equal(toy.secret.decrypt(y), (values * values + 1) % P)


def test_functions_are_asked_only_for_values_that_can_come(toy):
    asked = []

    def f(m):
        asked.append(m)
        return [1, 2, 4, 8][m]

    y = toy.server.bootstrap(toy.secret.encrypt([0, 3], below=4), f)
    assert asked == [0, 1, 2, 3]
    assert toy.secret.decrypt(y).tolist() == [1, 8]
    assert y.range == (1, 8)


def test_a_bootstrap_removes_noise_and_changes_the_encoding(toy):
    x = 3 * toy.secret.encrypt([1, 2], below=4)
    y = toy.server.bootstrap(x, lambda m: m // 2, message=8)
    z = toy.server.bootstrap(y, lambda m: 2 * m, message=16)
    assert y.message == 8 and toy.secret.decrypt(y).tolist() == [1, 3]
    assert z.message == 16 and toy.secret.decrypt(z).tolist() == [2, 6]
    assert z.noise_variance == y.noise_variance
    # More values than the set is made for lie too close together for its noise.
    with pytest.raises(becalm.TooNoisy):
        toy.server.bootstrap(toy.server.bootstrap(x, lambda m: m, message=32), lambda m: m)


def test_many_tables_from_one_rotation(toy):
    x = toy.secret.encrypt([0, 1, 2, 3], below=4)
    tables = [lambda m: m + 1, lambda m: m * m, [3, 2, 1, 0], np.array([9, 8, 7, 6])]
    results = toy.server.bootstrap(x, tables)
    assert isinstance(results, tuple)
    wanted = [[1, 2, 3, 4], [0, 1, 4, 9], [3, 2, 1, 0], [9, 8, 7, 6]]
    assert [toy.secret.decrypt(r).tolist() for r in results] == wanted
    again = toy.server.bootstrap(x, becalm.Table("toy_2_2", [lambda m: m + 1, lambda m: m]))
    assert [toy.secret.decrypt(r).tolist() for r in again] == [[1, 2, 3, 4], [0, 1, 2, 3]]
    single = toy.server.bootstrap(x, [lambda m: m + 1])
    assert isinstance(single, tuple) and len(single) == 1


def test_encrypted_tables(toy):
    x = toy.secret.encrypt([0, 5, 15])
    hidden = toy.secret.encrypt_table(lambda m: P - 1 - m)
    assert toy.secret.decrypt(toy.server.bootstrap(x, hidden)).tolist() == [15, 10, 0]
    pair = toy.secret.encrypt_table([lambda m: m, lambda m: 7 - m])
    a, b = toy.server.bootstrap(toy.secret.encrypt([2, 7], below=8), pair)
    assert toy.secret.decrypt(a).tolist() == [2, 7]
    assert toy.secret.decrypt(b).tolist() == [5, 0]
    for f in (
        lambda: toy.server.bootstrap(x, pair),
        lambda: toy.server.bootstrap(x, hidden, message=8),
        lambda: toy.server.bootstrap(toy.secret.encrypt(1, message=8), hidden),
    ):
        with pytest.raises(becalm.BadInput) as e:
            f()
        assert e.value.remedy


def test_two_inputs(toy):
    a = toy.secret.encrypt(np.arange(4)[:, None], below=4)
    b = toy.secret.encrypt(np.arange(3), below=3)
    y = toy.server.bootstrap2(a, b, lambda a, b: (a * b + 2 * a) % P)
    wanted = np.fromfunction(lambda a, b: a * b + 2 * a, (4, 3), dtype=int) % P
    assert np.array_equal(toy.secret.decrypt(y), wanted)


GATES = {
    "and_": lambda a, b: a & b,
    "nand": lambda a, b: ~(a & b),
    "or_": lambda a, b: a | b,
    "nor": lambda a, b: ~(a | b),
    "xor": lambda a, b: a ^ b,
    "xnor": lambda a, b: ~(a ^ b),
}


@pytest.mark.parametrize("name", ["toy_2_2", "toy_1_1", "toy_boolean", "toy_boolean_ks_pbs"])
def test_gates(name):
    secret, server = becalm.keygen(name, allow_insecure=True, progress=False)
    s, x, y = (np.array(v) for v in zip(*itertools.product([False, True], repeat=3), strict=True))
    es, ex, ey = (secret.encrypt_bool(v) for v in (s, x, y))
    for gate, f in GATES.items():
        assert np.array_equal(secret.decrypt_bool(getattr(server, gate)(ex, ey)), f(x, y)), gate
    assert np.array_equal(secret.decrypt_bool(~ex), ~x)
    assert np.array_equal(secret.decrypt_bool(server.not_(ex)), ~x)
    assert np.array_equal(secret.decrypt_bool(server.mux(es, ex, ey)), np.where(s, x, y))
    chained = server.xor(server.and_(ex, ey), ~es)
    assert np.array_equal(secret.decrypt_bool(chained), (x & y) ^ ~s)
    single = secret.decrypt_bool(server.and_(ex[-1], ey[-1]))
    assert single is True


def test_a_program_as_recorded_and_run(toy):
    p = becalm.Program("toy_2_2")
    a, b = p.input(below=4), p.input(below=4)
    total = a + b
    half = p.lookup(total, lambda m: m // 2)
    low, high = p.lookup(p.lookup(b, lambda m: m % 2), [lambda m: m, lambda m: 1 - m])
    product = p.lookup2(a, b, lambda a, b: a * b)
    p.output(half, [low, high], 2 * half - 1 + a, product)
    assert (p.inputs, p.outputs) == (2, 5)
    assert p.cost.bootstraps == 4 and p.cost.depth == 2 and p.cost.key_switches == 4
    assert len(p) == len(becalm.Program(p._native)) > 8
    x, y = np.array([[0, 1, 2, 3]]), np.array([[3], [1]])
    got = toy.server.run(p, toy.secret.encrypt(x, below=4), toy.secret.encrypt(y, below=4))
    h = (x + y) // 2
    wanted = [h, y % 2 + 0 * x, 1 - y % 2 + 0 * x, (2 * h - 1 + x) % P, x * y]
    for g, w in zip(got, wanted, strict=True):
        assert g.shape == (2, 4)
        assert np.array_equal(toy.secret.decrypt(g), w)


def test_a_program_of_gates_and_an_encrypted_table(toy):
    p = becalm.Program(toy.server)
    x, hidden = p.input(), p.input_table()
    s, t = p.input(below=2), p.input(below=2)
    p.output(p.lookup(x, hidden), p.mux(s, t, p.not_(p.gate("xor", s, t))))
    table = toy.secret.encrypt_table(lambda m: (3 * m) % P)
    bits = [toy.secret.encrypt_bool([a, b]) for a, b in ((1, 0), (1, 1))]
    y, z = toy.server.run(p, toy.secret.encrypt([4, 6]), table, *bits)
    assert toy.secret.decrypt(y).tolist() == [12, 2]
    assert toy.secret.decrypt_bool(z).tolist() == [True, False]


def test_a_refused_instruction_leaves_the_program_as_it_was(toy):
    p = becalm.Program("toy_2_2")
    a = p.input()
    size = len(p)
    with pytest.raises(becalm.BadInput):
        p.lookup(a + a, lambda m: m)
    assert len(p) == size + 1
    with pytest.raises(becalm.BadInput):
        p.gate("and", a, a)
    with pytest.raises(becalm.BadInput):
        p.lookup(a, [[99] * P])
    assert len(p) == size + 1
    p.output(p.lookup(a, lambda m: m))
    assert toy.secret.decrypt(toy.server.run(p, toy.secret.encrypt(3))) == 3


def test_cost_is_known_before_and_seconds_after_a_run(toy):
    p = becalm.Program("toy_2_2")
    p.output(p.lookup(p.input(), lambda m: m))
    fresh = toy.secret.server(progress=False)
    one = becalm.cost(lambda m: m, "toy_2_2")
    assert one == p.cost == becalm.cost(p)
    assert one.bootstraps == one.key_switches == one.depth == 1
    assert one.bytes_per_lane > 0 and one.seconds is None
    assert fresh.seconds_per_bootstrap is None and fresh.cost(p).seconds is None
    fresh.bootstrap(toy.secret.encrypt(range(P)), lambda m: m)
    each = fresh.seconds_per_bootstrap
    assert 0 < each < 1
    assert becalm.cost(p, fresh, lanes=10).seconds == pytest.approx(10 * each)
    assert "10 lanes" in str(fresh.cost(p, lanes=10))
    assert becalm.cost(p, "toy_2_2", lanes=2).lanes == 2
    with pytest.raises(becalm.WrongParams, match="a program of `tfhe_2_2`, got `toy_2_2`"):
        becalm.cost(p, "tfhe_2_2")
    assert p.check() < -40


def test_threads_share_a_server_and_the_interpreter_stays_free(toy):
    values = np.arange(P)
    x = toy.secret.encrypt(np.tile(values, (40, 1)))
    results, ticks, stop = {}, [], threading.Event()

    def work(k):
        results[k] = toy.secret.decrypt(toy.server.bootstrap(x, lambda m: (m + k) % P))

    def tick():
        while not stop.wait(0.0005):
            ticks.append(1)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    ticker = threading.Thread(target=tick)
    for t in (ticker, *threads):
        t.start()
    for t in threads:
        t.join()
    stop.set()
    ticker.join()
    for k in range(4):
        assert np.array_equal(results[k], np.tile((values + k) % P, (40, 1)))
    assert len(ticks) > 3


def test_every_device_and_thread_count(toy, tmp_path):
    path = tmp_path / "server.becalm"
    toy.server.save(path)
    x = toy.secret.encrypt(range(P))
    for choice in ({"device": "cpu"}, {"device": "reference"}, {"threads": 1}, {"threads": 3}):
        server = becalm.load(path, allow_insecure=True, **choice)
        y = server.bootstrap(x, lambda m: P - 1 - m)
        assert toy.secret.decrypt(y).tolist() == list(range(P))[::-1]
    assert "3 threads" in repr(server)


def test_an_encrypted_table_tells_nothing_of_its_entries(toy):
    heads = []
    for entries in ([0] * 16, [15, *range(15)]):
        file = toy.secret.encrypt_table(entries).to_bytes()
        head = json.loads(file[8 : 8 + int.from_bytes(file[:8], "little")])
        # That of the bytes, which are uniform.
        assert head["__metadata__"].pop("checksum")
        heads.append((len(file), head))
    assert heads[0] == heads[1]
    for entries in ([1, 99], [1, -99]):
        with pytest.raises(becalm.BadInput) as e:
            toy.secret.encrypt_table(entries)
        assert "99" not in str(e.value)
    with pytest.raises(becalm.BadInput, match="a longer number at position 1"):
        becalm.circuit.trace(lambda a: ~a, 4).encrypt(toy.secret, [3, 99])
