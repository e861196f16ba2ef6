"""Programs of CKKS: recorded, priced, saved, refused, run on lanes and by the command."""

import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from numpy.polynomial import Chebyshev

import becalm
from becalm import ckks

SET = "ckks_toy_12"
TOY = {"allow_insecure": True, "progress": False}
N = 32


def mixed(x, y, weights):
    """Every call that vectors have, on ciphertexts or on registers alike."""
    matrix = ckks.Matrix(weights)
    left, right = x.rotate([1, 5])
    return [
        x + y,
        x - y,
        1 - x,
        -x,
        x * y,
        x * 0.5 + np.arange(N) / N,
        x * np.linspace(-1, 1, N),
        x / 4,
        x**3,
        x.times_i().conjugate(),
        left - right,
        x.rotate(-1),
        x.sum(),
        x.sum(4),
        matrix @ x,
        x.polynomial(Chebyshev([0.1, 0.5, 0.0, -0.25], domain=[-2, 2])),
        ckks.dot([x, y], [y, y]),
        x.level_down(1),
        (x * y) + x,
    ]


@pytest.fixture(scope="module")
def recorded():
    """A program of every call, its weights, and keys for exactly it."""
    weights = np.cos(np.outer(np.arange(N), np.arange(N))) / 8
    p = becalm.Program(SET, slots=N)
    x, y = p.input(level=4), p.input(level=4)
    p.output(mixed(x, y, weights))
    return p, weights, becalm.keygen(SET, slots=N, needs=p.needs, **TOY)


@pytest.mark.parametrize("level", [2, 4, 7])
def test_a_plaintext_that_was_encoded_gives_the_words_of_its_values(level):
    secret, server = becalm.keygen(SET, slots=N, bootstrap=None, **TOY)
    x, k = secret.encrypt(np.linspace(-1, 1, N), level=4), np.cos(np.arange(N))
    p = server.encode(k, level=level)
    if level < 4:
        x = x.level_down(level)
    assert (x * p).to_bytes() == (x * k).to_bytes()
    assert (x + p).to_bytes() == (x + k).to_bytes()
    recorded = becalm.Program(SET, slots=N)
    y = recorded.input(level=x.level)
    recorded.output([y * p, y + p])
    for called, run in zip([x * p, x + p], server.run(recorded, x), strict=True):
        assert called.to_bytes() == run.to_bytes()


def test_a_number_for_all_slots_is_a_constant_and_takes_no_transform():
    secret, _ = becalm.keygen(SET, slots=N, bootstrap=None, **TOY)
    values = np.linspace(-1, 1, N)
    x = secret.encrypt(values, level=2)
    numbers = [lambda x: x + 1, lambda x: x - 0.5, lambda x: 2 - x, lambda x: x + np.float64(3)]
    for i, f in enumerate([*numbers, lambda x: x + 1j, lambda x: x + values]):
        p = becalm.Program(SET, slots=N)
        p.output(f(p.input(level=2)))
        assert (p.cost.transforms == 0) == (i < len(numbers)), i
        assert abs(secret.decrypt(f(x)) - f(values)).max() < 1e-4, i
    constant, plaintext = becalm.Program(SET, slots=N), becalm.Program(SET, slots=N)
    constant.output(constant.input(level=2) * 3)
    plaintext.output(plaintext.input(level=2) * values)
    assert constant.cost.transforms < plaintext.cost.transforms


def test_a_pair_that_cannot_be_bootstrapped_leaves_the_program_as_it_was():
    p = becalm.Program(SET, slots=N)
    x, z = p.input(level=0), p.input(level=0, real=False)
    with pytest.raises(becalm.BadInput, match="known to be real"):
        p.bootstrap_pair(x, z, "regular")
    with pytest.raises(becalm.BadInput, match="wanted one ciphertext, got two at once"):
        p.bootstrap_pair(x, x, "sparse")
    assert len(p) == 0


@pytest.fixture(scope="module")
def values(recorded):
    a = np.sin(np.arange(N)) * 0.6
    b = np.cos(np.arange(N) * 1.7) * 0.6
    return a, b


def test_a_program_computes_what_the_same_calls_do_one_by_one(recorded, values):
    p, weights, (secret, server) = recorded
    x, y = (secret.encrypt(v, level=4) for v in values)
    made = server.run(p, x, y)
    wanted = mixed(x, y, weights)
    assert len(made) == len(wanted) == p.outputs
    for i, (got, one) in enumerate(zip(made, wanted, strict=True)):
        assert got.to_bytes() == one.to_bytes(), i
        facts = ("level", "scale", "slots", "real", "error", "account")
        assert [getattr(got, f) for f in facts] == [getattr(one, f) for f in facts], i
    assert p.levels[1] == [z.level for z in made]


def test_needs_are_exactly_the_keys(recorded):
    p, weights, (_, server) = recorded
    rotations = {*ckks.Matrix(weights).rotations, 1, 5, N - 1, *ckks.sum_rotations(N)}
    assert set(p.needs.rotations) == rotations and p.needs.conjugate and not p.needs.bootstrap
    assert f"{len(rotations)} rotations" in repr(p.needs) and "rotations" in p.needs._repr_html_()
    # Keys of products alone are smaller, and a run with them says what makes the others.
    few = becalm.keygen(SET, slots=N, bootstrap=None, conjugate=False, **TOY)
    x = few.secret.encrypt([0.5], level=4)
    with pytest.raises(becalm.WrongKey, match=r"needs=program\.needs") as e:
        few.server.run(p, x, x)
    assert e.value.missing is not None
    assert few.server.nbytes < server.nbytes
    wider = becalm.Program(SET, slots=N)
    wider.output(wider.input(level=1).rotate(3))
    assert set((p.needs | wider.needs).rotations) == {*rotations, 3}
    # They keep the slots. Keys for two programs have those of the larger.
    short = becalm.Program(SET, slots=4)
    z = short.input(level=1)
    short.output(z * z)
    assert (short.needs.slots, (short.needs | p.needs).slots, p.needs.slots) == (4, N, N)
    secret, small = becalm.keygen(SET, needs=short.needs, **TOY)
    squares = secret.decrypt(small.run(short, secret.encrypt([1, 2, 3, 4], level=1, bound=4)))
    assert len(squares) == 4 and squares.round(3).tolist() == [1.0, 4.0, 9.0, 16.0]
    assert secret.server(needs=p.needs, slots=N, progress=False).slots == N
    with pytest.raises(becalm.BadInput, match="got 32 slots; make keys for the slots"):
        few.server.run(short, few.secret.encrypt([0.5], level=1))
    for extra in (
        {"kinds": "regular"},
        {"stage_count": 3},
        {"bootstrap": "large"},
        {"bootstrap": "medium"},
    ):
        with pytest.raises(becalm.BadInput, match="needs of a program alone"):
            becalm.keygen(SET, needs=p.needs, **extra, **TOY)
    with pytest.raises(becalm.BadInput, match="needs of a program"):
        becalm.keygen(SET, needs=[1, 2], **TOY)


def test_cost_and_facts_are_known_before_any_key(recorded):
    p, _, _ = recorded
    cost = p.cost
    assert cost == becalm.cost(p) and cost.instructions == len(p) and cost.bootstraps == 0
    assert cost.products >= 6 and cost.key_switches > cost.products
    assert p.inputs == 2 and p.levels[0] == [4, 4]
    page = p._repr_html_()
    for word in ("scale", "level", "key switches", "memory", SET):
        assert word in page, word
    assert f"{len(p)} instructions" in repr(p) and str(cost.key_switches) in str(cost)
    assert isinstance(p, becalm.Program) and isinstance(p, ckks.Program)
    assert not isinstance(becalm.Program("tfhe_2_2"), ckks.Program)


def test_the_cost_is_of_the_set_and_the_lanes_that_were_named(recorded):
    p, _, (_, server) = recorded
    for on in (None, SET, ckks.params(SET), server):
        found = becalm.cost(p, on, lanes=3)
        assert found.lanes == 3 and found.products == p.cost.products
        assert "3 lanes" in str(found) and ">3</td>" in found._repr_html_()
    assert becalm.cost(p) == p.cost and p.cost.lanes == 1
    other = becalm.Program("ckks_toy_13", slots=4)
    other.output(other.input(level=1) + 1)
    for on in ("ckks_toy_12", server):
        with pytest.raises(becalm.WrongParams, match=f"a program of `{SET}`, got `ckks_toy_13`"):
            becalm.cost(other, on)
    for on in ("no set", "tfhe_2_2"):
        with pytest.raises(becalm.WrongParams, match=on):
            becalm.cost(p, on)
    for on in (3, becalm.params("tfhe_2_2")):
        with pytest.raises(becalm.WrongParams, match="the name of a parameter set of CKKS"):
            becalm.cost(p, on)
    for lanes in (-1, 1.5, True):
        with pytest.raises(becalm.BadInput, match="lanes"):
            becalm.cost(p, lanes=lanes)


def test_lanes_are_lists(recorded, values):
    _, _, (secret, server) = recorded
    p = becalm.Program(SET, slots=N)
    x, y = p.input(level=2), p.input(level=2)
    p.output(x * y)
    a, b = values
    steps = []
    xs = [secret.encrypt(a * k) for k in (0.25, 0.5, 1.0)]
    made = server.run(p, xs, secret.encrypt(b), progress=lambda done, of: steps.append(of))
    assert [z.level for z in made] == [1, 1, 1]
    for k, z in zip((0.25, 0.5, 1.0), made, strict=True):
        np.testing.assert_allclose(secret.decrypt(z), a * b * k, atol=1e-6)
    assert set(steps) <= {3 * len(p)}
    p.output(y)
    products, others = server.run(p, xs[:1], [secret.encrypt(b)])
    assert len(products) == len(others) == 1 and isinstance(products, list)
    with pytest.raises(becalm.BadInput, match="one length"):
        server.run(p, xs, xs[:2])
    with pytest.raises(becalm.BadInput, match="one length"):
        server.run(p, [], [])


def test_a_program_of_forty_mebibytes_comes_back_by_default(tmp_path):
    secret, server = becalm.keygen(SET, **TOY, bootstrap=None)
    p = ckks.Program(SET)
    x = y = p.input(level=2)
    slots, total = x.slots, 0
    for k in range(1300):
        values = (np.arange(slots) * 7 + k * 13) % 9973 / 1.3e7
        total, y = total + values, y + values
    p.output(y)
    path = tmp_path / "program"
    p.save(path)
    assert path.stat().st_size > 40 << 20
    given = secret.encrypt(np.full(slots, 0.25), level=2)
    wanted = server.run(p, given)
    np.testing.assert_allclose(secret.decrypt(wanted), total + 0.25, atol=1e-4)
    for q in (becalm.load(path, allow_insecure=True), pickle.loads(pickle.dumps(p))):
        assert server.run(q, given).to_bytes() == wanted.to_bytes()
    with pytest.raises(becalm.BadFile, match="at most"):
        becalm.load(path, allow_insecure=True, limit=40 << 20)


def test_files_come_back_or_are_refused(recorded, tmp_path):
    p, _, (secret, server) = recorded
    path = tmp_path / "program"
    p.save(path)
    data = p.to_bytes()
    assert path.read_bytes() == data
    again = becalm.load(path, allow_insecure=True)
    for q in (
        again,
        pickle.loads(pickle.dumps(p)),
        becalm.from_bytes(data, allow_insecure=True),
        becalm.Program.from_bytes(data, allow_insecure=True),
        ckks.Program.from_bytes(data, allow_insecure=True),
    ):
        assert isinstance(q, ckks.Program) and q.to_bytes() == data and q.slots == N
        assert (q.cost, q.needs.rotations, q.levels) == (p.cost, p.needs.rotations, p.levels)
    x = secret.encrypt([0.5], level=4)
    first = [server.run(q, x, x)[0].to_bytes() for q in (p, again)]
    assert first[0] == first[1]
    with pytest.raises(becalm.Insecure):
        becalm.load(path)
    tfhe = becalm.Program("tfhe_2_2")
    tfhe.output(tfhe.lookup(tfhe.input(), lambda m: m))
    assert isinstance(becalm.from_bytes(tfhe.to_bytes()), becalm.program.TfheProgram)
    damaged = [data[:-1], data[: len(data) // 2], data + b"\0", b"", data[:40]]
    damaged += [
        data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(9, len(data), 997)
    ]
    for i, other in enumerate([*damaged, tfhe.to_bytes(), x.to_bytes()]):
        with pytest.raises((becalm.BadFile, becalm.WrongParams, becalm.Unsupported)) as e:
            ckks.Program.from_bytes(other, allow_insecure=True)
        assert e.value.remedy, i
    with pytest.raises(becalm.BadFile):
        becalm.program.TfheProgram.from_bytes(data, allow_insecure=True)
    with pytest.raises(becalm.BadFile):
        ckks.Program.from_bytes(data, allow_insecure=True, limit=1 << 10)
    with pytest.raises(becalm.BadFile, match="a program of CKKS"):
        server.load(path)


def test_a_bootstrap_in_a_program_is_that_of_a_server():
    p = becalm.Program(SET, slots=N, bootstrap="small")
    x = p.input(level=2)
    y = x.bootstrap()
    p.output(y, (y * y).bootstrap(stage_count=2) * x)
    assert p.cost.bootstraps == 2 and p.cost.depth == 2 and p.needs.bootstrap
    secret, server = becalm.keygen(SET, slots=N, needs=p.needs, **TOY)
    assert server.kinds == ()
    usual = becalm.keygen(SET, slots=N, bootstrap="small", conjugate=False, **TOY)
    a = np.sin(np.arange(N)) * 0.7
    made, last = server.run(p, secret.encrypt(a, level=2))
    np.testing.assert_allclose(secret.decrypt(made), a, atol=1e-4)
    np.testing.assert_allclose(secret.decrypt(last), a**3, atol=1e-3)
    one = usual.secret.encrypt(a, level=2).bootstrap()
    assert (made.level, made.scale, made.real, made.account) == (
        one.level,
        one.scale,
        one.real,
        one.account,
    )
    assert abs(made.error / one.error - 1) < 1e-9
    # A bootstrap of few slots takes complex values too, whose results are not known to be real.
    assert made.real and last.real
    turned, last = server.run(p, secret.encrypt(a * 1j, level=2))
    assert not turned.real and not last.real
    np.testing.assert_allclose(secret.decrypt(turned), a * 1j, atol=1e-4)
    np.testing.assert_allclose(secret.decrypt(last), (a * 1j) ** 3, atol=1e-3)
    with pytest.raises(becalm.WrongKey, match="keys of a bootstrap"):
        server.bootstrap(secret.encrypt(a, level=2))
    q = becalm.Program(SET)
    u, v = q.input(level=0), q.input(level=0, real=False)
    with pytest.raises(becalm.BadInput, match="real"):
        q.bootstrap_pair(u, v)
    assert all(r.level == 10 and r.real for r in q.bootstrap_pair(u, u))
    assert len(q) > 0 and not v.bootstrap().real
    # One of all slots does not: a vector that is not known to be real is refused.
    q.output(u.bootstrap())
    assert q._native.real([True, False]) == [True]
    with pytest.raises(becalm.BadInput, match="real"):
        q._native.real([False, False])


def test_what_cannot_run_is_refused_when_it_is_recorded(recorded):
    p = becalm.Program(SET, slots=N)
    x, low = p.input(level=1), p.input(level=0)
    other = becalm.Program(SET, slots=N).input()
    few = p.input(slots=4)
    before = len(p)
    _, _, (secret, server) = recorded
    c = secret.encrypt([0.5], level=1)
    for words, call in (
        ("level 1 or above", lambda: low * low),
        ("level 1 or above", lambda: low * 0.5),
        ("level 2 or above", lambda: x.polynomial([0, 0, 1])),
        ("another program", lambda: x + other),
        ("a Register of CKKS, got a Ciphertext", lambda: x * c),
        ("a Ciphertext of CKKS, got a Register", lambda: c + x),
        ("32 slots", lambda: x + few),
        ("at most 32 values", lambda: x + np.ones(64)),
        ("finite", lambda: x * float("nan")),
        ("a matrix for 32 slots", lambda: ckks.Matrix(np.eye(4)) @ x),
        ("a power of two", lambda: x.sum(3)),
        ("level from 0 to 1", lambda: x.level_down(2)),
        ("level from 0 to 10", lambda: p.input(level=11)),
        ("a power of two", lambda: p.input(slots=3)),
        ("a register of this program", lambda: p.output(other)),
        ("a program of CKKS", lambda: server.run(becalm.Program("tfhe_2_2"))),
        ("a program with outputs", lambda: server.run(becalm.Program(SET))),
    ):
        with pytest.raises(becalm.BadInput) as e:
            call()
        assert words in str(e.value) and e.value.remedy, str(e.value)
    assert len(p) == before, "a refusal leaves nothing behind"
    p.output(x)
    with pytest.raises(becalm.BadInput, match="3 inputs"):
        server.run(p, c)
    with pytest.raises(becalm.BadInput, match="level 10 or above"):
        server.run(p, c, c, c)
    with pytest.raises(becalm.WrongParams, match="ckks_toy_12"):
        n12 = becalm.keygen("ckks_n12", progress=False).server
        n12.run(p, c, c, c)
    with pytest.raises(becalm.WrongParams):
        becalm.Program("ckks_n99")
    for call in (lambda: bool(x), lambda: float(x), lambda: x == low, lambda: x[0], lambda: 1 / x):
        with pytest.raises(becalm.Unsupported):
            call()
    with pytest.raises(becalm.Unsupported):
        pickle.dumps(x)


def test_a_program_runs_on_the_server_of_its_scheme_alone():
    q = becalm.Program(SET)
    q.output(q.input())
    _, server = becalm.keygen("toy_2_2", allow_insecure=True, progress=False)
    with pytest.raises(becalm.WrongParams, match="of TFHE"):
        server.run(q)


def test_programs_of_both_schemes_have_one_vocabulary():
    common = {"params", "inputs", "outputs", "input", "output", "cost", "needs", "save", "to_bytes"}
    programs = [becalm.Program("toy_2_2"), becalm.Program(SET), becalm.Program(ckks.params(SET))]
    assert [type(p) for p in programs] == [becalm.program.TfheProgram, ckks.Program, ckks.Program]
    for p in programs:
        assert common <= set(dir(p))
        p.output(p.input() + 1)
        again = becalm.Program.from_bytes(p.to_bytes(), allow_insecure=True)
        assert (again.inputs, again.outputs, again.needs.bootstrap) == (1, 1, False)
        assert again.cost == p.cost and again.params.name == p.params.name
        assert "1 input, 1 output" in repr(p)
        assert p.needs == again.needs == pickle.loads(pickle.dumps(p.needs))
        with pytest.raises(TypeError, match="unhashable"):
            hash(p.needs)
    p = becalm.Program(SET)
    p.output(p.input().rotate(1))
    assert p.needs != programs[1].needs and p.needs | programs[1].needs == p.needs
    p = becalm.Program("toy_cm_1_1_w2")
    x = p.pack([p.input_slot(below=2), p.input_slot(below=2)])
    p.output(p.slot_map(p.lookup(x, lambda m: m), 3, (1, 0)))
    assert p.needs == becalm.program.Needs(True, True, True, [3])
    with pytest.raises(becalm.BadInput, match=r"got slots; they go with Program\(\"ckks\"\)"):
        becalm.Program("toy_2_2", slots=4)
    with pytest.raises(TypeError, match=r"^Program\(\) got an unexpected keyword argument 'slot'"):
        becalm.Program(SET, slot=4)


def test_a_matrix_of_a_program_is_encoded_once_for_all_runs(recorded):
    p, _, (secret, server) = recorded
    p = becalm.from_bytes(p.to_bytes(), allow_insecure=True)
    x = secret.encrypt([0.5], level=4)
    server.run(p, x, x)
    ready = server._prepared._last[1]
    server.run(p, x, x)
    assert server._prepared._last[1] is ready and ready.nbytes > 0
    p.output(p.input())
    assert not ready.runs(p._native), "the program was continued"


def test_the_command_evaluates_and_describes_programs(tmp_path):
    p = becalm.Program(SET, slots=4)
    x, y = p.input(level=2), p.input(level=2)
    p.output((x * y).rotate(1), x + y)
    keys = becalm.keygen(SET, slots=4, needs=p.needs, **TOY)
    p.save(tmp_path / "program")
    keys.server.save(tmp_path / "keys")
    turn = becalm.Program(SET, slots=4)
    turn.output(turn.input(level=2).rotate(2))
    turn.save(tmp_path / "turn")
    data = {name: np.arange(4) / k for name, k in (("a", 4), ("b", 8), ("c", 5), ("d", 10))}
    for name, values in data.items():
        keys.secret.encrypt(values, level=3).save(tmp_path / name)

    def command(*arguments):
        line = [sys.executable, "-m", "becalm", *arguments]
        return subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)

    outs = [word for k in range(4) for word in ("-o", f"out{k}")]
    job = ["eval", "--program", "program", "--evaluation", "keys", "--allow-insecure", *outs]
    done = command(*job, "a", "b", "c", "d")
    assert done.returncode == 0, done.stderr
    assert "4 values at level 1" in done.stdout, done.stdout
    for lane, (u, v) in enumerate((("a", "b"), ("c", "d"))):
        product, total = (keys.server.load(tmp_path / f"out{2 * lane + k}") for k in (0, 1))
        wanted = np.roll(data[u] * data[v], -1)
        np.testing.assert_allclose(keys.secret.decrypt(product).real, wanted, atol=1e-6)
        np.testing.assert_allclose(keys.secret.decrypt(total).real, data[u] + data[v], atol=1e-6)
    said = command("inspect", "program").stdout
    for words in ("level 2", "1 rotation by 1", "key switches", "the key of products", "2^"):
        assert words in said, said
    told = json.loads(command("inspect", "program", "--json").stdout)["program"]
    assert told["needs"]["rotations"] == [1] and told["cost"]["key_switches"] == 2
    assert [i["level"] for i in told["outputs"]] == [1, 2]
    for words, arguments in (
        ("2 inputs of every lane, got 3 files", [*job, "a", "b", "c", "--force"]),
        ("2 outputs on each of 1 lane, got 4 files", [*job, "a", "b", "--force"]),
        ("cpu", [*job, "a", "b", "c", "d", "--force", "--device", "cuda"]),
        ("exists", [*job, "a", "b", "c", "d"]),
        (
            "becalm keygen --program FILE",
            [*job[:1], "--program", "turn", *job[3:8], "a", "--force"],
        ),
        ("holds a key", [*job[:-1], "keys", "a", "b", "c", "d", "--force"]),
    ):
        done = command(*arguments)
        assert done.returncode in (1, 3, 4, 6) and words in done.stderr, (words, done.stderr)
    (tmp_path / "program").write_bytes((tmp_path / "program").read_bytes()[:-3])
    assert command(*job, "a", "b", "c", "d", "--force").returncode == 4
    assert command("inspect", "program").returncode == 4


#: `becalm eval` in a process that tells its peak of memory at the end.
EVAL = """
import sys
from becalm.__main__ import main
assert main(sys.argv[1:]) == 0
print(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_many_lanes_of_the_command_take_the_memory_of_a_few(tmp_path):
    p = becalm.Program(SET, slots=4)
    p.output(-p.input())
    keys = becalm.keygen(SET, slots=4, needs=p.needs, **TOY)
    p.save(tmp_path / "program")
    keys.server.save(tmp_path / "keys")
    keys.secret.encrypt([0.5]).save(tmp_path / "x")
    size = (tmp_path / "x").stat().st_size

    def peak(lanes):
        outs = [word for k in range(lanes) for word in ("-o", f"{lanes}-{k}")]
        options = ["--program", "program", "--evaluation", "keys", "--allow-insecure"]
        line = [sys.executable, "-c", EVAL, "eval", *options, *outs, *["x"] * lanes]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return int(done.stdout.split()[-1]) << 10

    # As many as two threads or more run at once, and 240 more.
    few = 8 * len(os.sched_getaffinity(0))
    more = peak(few + 240) - peak(few)
    assert more < 240 * size / 4, (more, size)
    last = keys.server.load(tmp_path / f"{few + 240}-{few + 239}")
    assert abs(keys.secret.decrypt(last)[0] + 0.5) < 1e-5
