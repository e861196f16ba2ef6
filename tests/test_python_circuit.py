"""Circuits from Python: traced functions, files and Verilog, unencrypted and encrypted."""

import copy
import importlib.util
import math
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import FULL, forged

import becalm

HAS_YOSYS = bool(shutil.which("yosys") or importlib.util.find_spec("pyosys"))

OPERATIONS = [
    (lambda a, b: a + b, lambda a, b: a + b),
    (lambda a, b: a - b, lambda a, b: (a - b) % 64),
    (lambda a, b: 45 - a, lambda a, b: (45 - a) % 64),
    (lambda a, b: a * b, lambda a, b: a * b),
    (lambda a, b: b * 5 + 3, lambda a, b: b * 5 + 3),
    (lambda a, b: (a & b) | ~a, lambda a, b: (a & b) | (63 - a)),
    (lambda a, b: a ^ 0b1010, lambda a, b: a ^ 0b1010),
    (lambda a, b: (a < b, a <= b, a > b, a >= b), lambda a, b: (a < b, a <= b, a > b, a >= b)),
    (lambda a, b: (a == b, a != b, a == 7), lambda a, b: (a == b, a != b, a == 7)),
    (lambda a, b: (a << 2, a >> 2, a >> 9), lambda a, b: (a << 2, a >> 2, 0)),
    (
        lambda a, b: becalm.circuit.select(a > b, a, b),
        max,
    ),
    (lambda a, b: becalm.circuit.join(b[1:3], a[5]), lambda a, b: (b >> 1 & 3) | (a >> 5) << 2),
]


@pytest.mark.parametrize("number", range(len(OPERATIONS)))
def test_a_traced_function_is_the_function(number, rng):
    traced, plain = OPERATIONS[number]
    circuit = becalm.circuit.trace(traced, 6, 4)
    assert circuit.inputs == [("a", 6), ("b", 4)]
    for _ in range(20):
        a, b = int(rng.integers(64)), int(rng.integers(16))
        found, wanted = circuit(a, b), plain(a, b)
        assert found == (tuple(map(int, wanted)) if isinstance(wanted, tuple) else int(wanted))


def test_a_traced_function_runs_on_encrypted_bits(toy):
    secret, server = toy
    circuit = becalm.circuit.trace(lambda a, b: {"sum": a + b, "less": a < b}, 4, 4)
    assert circuit.outputs == [("sum", 5), ("less", 1)]
    program = circuit.compile("toy_2_2")
    assert program.check() < -100
    results = server.run(program, *circuit.encrypt(secret, 11, 13))
    assert circuit.decrypt(secret, results) == (24, 1) == circuit(11, 13)
    fewest = circuit.compile("toy_2_2", goal="bootstraps").cost
    assert fewest.bootstraps <= program.cost.bootstraps
    assert circuit.compile("toy_2_2", goal=fewest.depth).cost.bootstraps <= program.cost.bootstraps


def test_a_circuit_takes_arrays(toy, rng):
    secret, server = toy
    circuit = becalm.circuit.trace(lambda a, b: {"sum": a + b, "less": a < b}, 4, 4)
    a, b = rng.integers(16, size=(3, 50)), rng.integers(16, size=50)
    total, less = circuit(a, b)
    assert (total == a + b).all() and (less == (a < b)).all() and total.dtype == np.int64
    program = circuit.compile("toy_2_2")
    results = server.run(program, *circuit.encrypt(secret, a[:, :3], b[:3]))
    total, less = circuit.decrypt(secret, results)
    assert (total == (a + b)[:, :3]).all() and (less == (a < b)[:, :3]).all()
    for width, kind in ((64, np.uint64), (65, object)):
        wide = becalm.circuit.trace(lambda a: ~a, width)([0, 1])
        assert wide.dtype == kind and wide.tolist() == [2**width - 1, 2**width - 2]
    assert circuit(np.zeros((0, 2), int), 1)[0].shape == (0, 2)


def test_results_that_are_no_bits_are_refused(toy):
    circuit = becalm.circuit.trace(lambda a: ~a, 2)
    with pytest.raises(becalm.BadInput, match="encrypted bits, got values from 0 to 15"):
        circuit.decrypt(toy.secret, [toy.secret.encrypt([5, 7])] * 2)
    with pytest.raises(becalm.BadInput, match=r"from 0 to 15; use secret\.decrypt"):
        toy.secret.decrypt_bool(toy.secret.encrypt([5]))
    with pytest.raises(becalm.BadInput, match=r"use secret\.decrypt\(x\), which gives booleans"):
        toy.secret.decrypt_bool(toy.secret.encrypt([True], becalm.boolean))
    with pytest.raises(becalm.BadInput, match="list of encrypted bits, got NoneType"):
        circuit.decrypt(toy.secret, None)


def test_a_false_claim_of_bits_reads_the_same_alone_and_in_an_array(toy):
    file = toy.secret.encrypt([3, 0, 1]).to_bytes()
    claims = forged(file, lambda metadata: metadata.update(range="[0,1]"))
    x = becalm.Ciphertext.from_bytes(claims, allow_insecure=True)
    assert toy.secret.decrypt_bool(x).tolist() == [True, False, True]
    assert [toy.secret.decrypt_bool(x[i]) for i in range(3)] == [True, False, True]


def test_texts_of_a_file_have_no_power_over_a_terminal(toy):
    circuit = becalm.circuit.parse(
        ".inputs a\x1b[2m\n.outputs y\x1b[31m\n.names a\x1b[2m y\x1b[31m\n1 1\n"
    )
    assert "\x1b" not in repr(circuit) and r"y\x1b[31m" in repr(circuit)
    with pytest.raises(becalm.BadInput, match=r"1 bits for a\\x1b\[2m,"):
        circuit(2)
    file = toy.secret.encrypt([1, 2]).to_bytes()
    for field in ("format", "version", "noise", "role"):
        evil = forged(
            file, lambda metadata, field=field: metadata.update({field: "\x1b[31m\nEVIL"})
        )
        with pytest.raises(becalm.Error) as e:
            becalm.from_bytes(evil, allow_insecure=True)
        assert "\x1b" not in str(e.value) and "\n" not in e.value.got, str(e.value)


def test_the_cost_of_a_circuit_is_that_of_its_program():
    circuit = becalm.circuit.trace(lambda a, b: a + b, 4, 4)
    assert becalm.cost(circuit, "toy_2_2") == circuit.compile("toy_2_2").cost


def test_a_circuit_is_not_pickled_and_its_program_is():
    circuit = becalm.circuit.trace(lambda a, b: a + b, 4, 4)
    with pytest.raises(becalm.Unsupported, match="got a circuit; pickle the program"):
        pickle.dumps(circuit)
    assert copy.copy(circuit) is copy.deepcopy(circuit) is circuit
    program = circuit.compile("toy_2_2", progress=False)
    assert pickle.loads(pickle.dumps(program)).cost == program.cost


#: Traces and compiles a circuit with so many MB of addresses beside those that are taken.
WITHIN = """
import os, resource, sys
import becalm

for more in map(int, sys.argv[1:]):
    if (child := os.fork()) == 0:
        size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + (more << 20), resource.RLIM_INFINITY))
        try:
            becalm.circuit.trace(lambda a, b: a * b, 10, 10).compile("toy_2_2", progress=False)
            said = "compiled"
        except becalm.OutOfMemory as e:
            said = f"{e.op} {' GB ' in str(e) or ' MB ' in str(e)}"
        os.write(1, f"{more} {said}\\n".encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, more
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of addresses as Linux has them")
def test_a_circuit_is_compiled_or_memory_is_said_to_end():
    steps = [16, 48, 80, 112, 144, 176, 208, 240, 272, 304, 400, 600]
    without_abc = {**os.environ, "BECALM_ABC": "", "RAYON_NUM_THREADS": "2"}
    command = [sys.executable, "-c", WITHIN, *map(str, steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=without_abc)
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line.split(" ", 1)[1] for line in done.stdout.splitlines()]
    assert set(said) == {"circuit True", "compiled"} and said == sorted(said), said
    assert (said[0], said[-1]) == ("circuit True", "compiled")


def test_a_key_or_server_of_the_other_scheme_is_named(toy):
    circuit = becalm.circuit.trace(lambda a: ~a, 4)
    secret, server = becalm.keygen("ckks_toy_12", allow_insecure=True, progress=False)
    for call in (
        lambda: circuit.encrypt(secret, 7),
        lambda: circuit.decrypt(secret, circuit.encrypt(toy.secret, 7)),
    ):
        with pytest.raises(becalm.BadInput, match="got one of CKKS"):
            call()
    for refused, call in (
        (becalm.BadInput, lambda: toy.secret.encrypt(7, becalm.uint(8)).on(server)),
        (becalm.WrongParams, lambda: circuit.compile(server)),
        (becalm.WrongParams, lambda: becalm.cost(lambda x: x + 1, server)),
    ):
        with pytest.raises(refused, match="got Server of CKKS"):
            call()
    program = circuit.compile("toy_2_2")
    with pytest.raises(becalm.BadInput, match="got one of TFHE"):
        server.run(program, secret.encrypt([1]))
    with pytest.raises(becalm.BadInput, match="got list; pass its elements one by one"):
        toy.server.run(program, circuit.encrypt(toy.secret, 7))
    with pytest.raises(TypeError, match=r"^Key\.encrypt"):
        secret.encrypt([1], below=2)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: becalm.circuit.trace(lambda a: a if a > 1 else ~a, 4), "select"),
        (lambda: becalm.circuit.trace(lambda a: 5, 4), "from the arguments"),
        (lambda: becalm.circuit.trace(lambda a: {"a": ~a}, 4), "rename the parameter"),
        (lambda: becalm.circuit.trace(lambda out0: ~out0, 4), "no input is called, got out0"),
        (lambda: becalm.circuit.trace(lambda a: (), 4), "a function without one"),
        (lambda: becalm.circuit.trace(lambda a: a, 10**9), "at most 1048576 bits"),
        (lambda: becalm.circuit.trace(lambda a: a << 10**9, 4), "at most 1048576 bits"),
        (lambda: becalm.circuit.trace(lambda a: a << 2**70, 4), "at most 1048576 bits"),
        (lambda: becalm.circuit.trace(lambda a: a[a], 4), "select where the place"),
        (lambda: becalm.circuit.trace(lambda a: a[None], 4), "a slice, got NoneType"),
        (lambda: becalm.circuit.trace(lambda a: -a, 4), "operators that bits have"),
        (lambda: becalm.circuit.trace(lambda a: 7 % a, 4), "operators that bits have"),
        (lambda: becalm.circuit.trace(lambda a: np.where(a > 1, a, a), 4), "where numpy has"),
        (lambda: becalm.circuit.trace(lambda a: np.sqrt(a), 4), "got numpy.sqrt; use operators"),
        (lambda: becalm.circuit.trace(lambda a: np.add.reduce(a), 4), "got numpy.add.reduce"),
        (lambda: becalm.circuit.trace(lambda a: a + np.arange(2), 4), "got ndarray"),
        (lambda: becalm.circuit.trace(lambda a: np.arange(2) + a, 4), "got an array"),
        (
            lambda: becalm.circuit.trace(lambda a: ~a, 4)([3, 16]),
            "longer number at position 1",
        ),
        (lambda: becalm.circuit.trace(lambda a, b: a, 4, 4)([1, 2], [1, 2, 3]), "broadcast"),
        (lambda: becalm.circuit.trace(lambda a, b: a, 4), "a width for each argument"),
        (lambda: becalm.circuit.trace(lambda a: a, 0), "at least one bit"),
        (lambda: becalm.circuit.trace(lambda a: a << -1, 4), "from 0 up"),
        (lambda: becalm.circuit.trace(lambda a: a + 1.5, 4), "an integer"),
        (lambda: becalm.circuit.trace(lambda a: ~a, 4)(16), "4 bits for a"),
        (lambda: becalm.circuit.trace(lambda a: ~a, 4)(1, 2), "1 value,"),
        (
            lambda: becalm.circuit.trace(lambda a: ~a, 4).compile(goal="least"),
            "depth, bootstraps or a number",
        ),
        (lambda: becalm.circuit.trace(lambda a: ~a, 4).compile(goal=-1), "one after another"),
        (lambda: becalm.circuit.trace(lambda a: ~a, 4).compile(goal=0), "1 or more"),
        (lambda: becalm.circuit.trace(lambda a, b: a + b, 8, 8).compile(goal=1), "the fewest"),
        (lambda: becalm.circuit.trace(lambda a: {}, 4), "at least one output"),
        (lambda: becalm.circuit.parse(".inputs a[0] a[2]\n.outputs a[0]\n"), "every bit of a port"),
        (lambda: becalm.circuit.parse("1 3\n2 1 1\n1 1\n2 1 0 7 2 AND\n"), "line 4"),
    ],
)
def test_what_is_refused(call, says):
    with pytest.raises(becalm.BadInput, match=says):
        call()


ADDER = """module adder #(parameter W = 8) (input [W-1:0] a, b, output [W:0] sum, output zero);
  assign sum = a + b;
  assign zero = ~|sum;
endmodule
"""


ZERO = r"a divisor other than 0 in line %d of .*adder\.v, got .* zero`; do not divide by 0"


@pytest.mark.skipif(not HAS_YOSYS, reason="no yosys and no pyosys")
def test_verilog_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}")
    file = tmp_path / "adder.v"
    file.write_text(ADDER)
    circuit = becalm.circuit.load(file)
    assert circuit(200, 100) == (300, 0) and circuit(0, 0) == (0, 1)
    assert circuit.inputs == [("a", 8), ("b", 8)]
    for text, says in [
        ("module m(input a, output b);\nassign b = ;\nendmodule\n", "expected expression"),
        ("module m(input c, a, output reg b);\nalways @(posedge c) b <= a;\nendmodule\n", "memory"),
        # Bits that Yosys would choose.
        ("module m(input [3:0] a, output b); assign b = a[7]; endmodule", "a value for every bit"),
        ("module m(input [3:0] a, output b); assign b = a[7] & a[0]; endmodule", "element 7"),
        ("module m(input [3:0] a, output [1:0] b); assign b = a[4:3]; endmodule", "every index"),
        ("module m(input [3:0] a, output [3:0] b); assign b = a / 4'd0; endmodule", ZERO % 1),
        (
            "module m(input [3:0] a, input e, output [3:0] b);\n"
            "assign b = e ? a : (a/4'd0); endmodule",
            ZERO % 2,
        ),
        # A constant that nothing reads.
        (
            "module m(input a, output b);\n\nlocalparam P = 2'd1/2'd0;\nassign b = a; endmodule",
            ZERO % 3,
        ),
        # Zeros that only their names, or calculations, stand for.
        (
            "module m #(parameter Z = 4 - 4) (input [3:0] a, input e, output [3:0] b);\n"
            "assign b = e ? a : a % Z;\nendmodule",
            ZERO % 2,
        ),
        (
            "module m(input [3:0] a, input e, output reg [3:0] b);\nlocalparam Z = 4'd0;\n"
            "always @* if (e) b = a;\n else b = a / Z;\nendmodule",
            ZERO % 4,
        ),
        (
            "module m(input [3:0] a, input e, output [3:0] b);\n"
            "localparam Z = 2'd0, P = 2'd1 / Z;\nassign b = e ? a : P;\nendmodule",
            ZERO % 2,
        ),
        (
            "module m(input [3:0] a, input e, output [3:0] b);\nwire [3:0] z = 0;\n"
            "assign b = e ? a : a / z;\nendmodule",
            "a value for every bit in line 3 of .*adder.v.*do not divide by 0",
        ),
        ("module m(input a, b, output c); bufif1 (c, a, b); endmodule", "0 or 1"),
        (
            "module m(input [3:0] a, output [3:0] b);\nassign b = a / 2.5;\nendmodule",
            r"an operation on integers in line 2 of .*adder\.v, got .*'real'",
        ),
    ]:
        file.write_text(text)
        with pytest.raises(becalm.BadInput, match=says):
            becalm.circuit.load(file)
    # Divisors that are 0 only when the circuit runs, and loops.
    file.write_text(
        "module m(input [3:0] a, c, output [3:0] b, d, output reg [3:0] s);\n"
        "wire [3:0] last = a[3] ? 3 : a[2] ? 2 : a[1];\n"
        "assign b = last % 4'd3 + 0 / 5, d = c == 0 ? 4'd0 : a / c;\ninteger j;\n"
        "always @* begin s = 0; for (j = 0; j < 4; j = j + 1) s = s + a[j];\n"
        "casez (a) 4'b1??0: s = 15; default: ; endcase end\nendmodule\n"
    )
    assert becalm.circuit.load(file)(0b0110, 3) == (2, 2, 2)
    # A table, which has no clock, and a case that says what its other values give.
    file.write_text(
        "module m(input [1:0] a, output [3:0] b, output reg c); reg [3:0] rom [0:3];\n"
        "initial begin rom[0] = 1; rom[1] = 2; rom[2] = 3; rom[3] = 9; end\nassign b = rom[a];\n"
        "always @* unique case (a) 0: c = 1; 1: c = 0; default: c = 0; endcase\nendmodule\n"
    )
    assert [becalm.circuit.load(file)(v) for v in (0, 1, 2)] == [(1, 1), (2, 0), (3, 0)]
    # An index that is only known when the circuit runs, and a case for every value.
    file.write_text(
        "module m(input [2:0] s, input [3:0] a, output b, output reg c); assign b = a[s];\n"
        "always_comb case (s[1:0]) 0: c = a[3]; 1: c = a[2]; 2: c = a[1]; 3: c = a[0]; endcase\n"
        "endmodule\n"
    )
    assert becalm.circuit.load(file.rename(file.with_suffix(".sv")))(1, 0b0110) == (1, 1)


@pytest.mark.skipif(not HAS_YOSYS, reason="no yosys and no pyosys")
def test_an_index_past_the_end_reads_zeros(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}")
    file = tmp_path / "past.sv"
    file.write_text(
        "module m(input [3:0] a, i, input [-1:-2] n, output b, c, output [1:0] d,\n"
        "output reg [1:0] e, f, output [1:0] g);\n"
        "wire [7:4] high = a; assign b = a[i], c = high[i], d = a[i +: 2], g = n;\n"
        "reg [1:0] array [0:4], rom [0:4];\n"
        "initial begin rom[0] = 1; rom[1] = 2; rom[2] = 3; rom[3] = 3; rom[4] = 3; end\n"
        "always @* begin array[0] = a; array[1] = 1; array[2] = 2; array[3] = a >> 2;\n"
        "array[4] = 3; e = array[i[2:0]]; f = rom[i[2:0]]; end\nendmodule\n"
    )
    circuit = becalm.circuit.load(file)
    assert circuit.inputs == [("a", 4), ("i", 4), ("n", 2)]
    for a in (0b1111, 0b1010):
        for i in range(16):
            array, rom = ([a & 3, 1, 2, a >> 2, 3, 0, 0, 0], [1, 2, 3, 3, 3, 0, 0, 0])
            wanted = (a >> i & 1, (a << 4) >> i & 1, a >> i & 3, array[i & 7], rom[i & 7], 2)
            assert circuit(a, i, 2) == wanted, (a, i)
    for text in (
        "module m(input e, d, output reg q); always @* if (e) q = d; endmodule",
        "module m(input e, d, output reg q); always_comb if (e) q = d; endmodule",
        "module m(input e, d, output reg q); always @(posedge e) q <= d; endmodule",
    ):
        file.write_text(text)
        with pytest.raises(becalm.BadInput, match=r"past\.sv, got memory for `q`; take reg"):
            becalm.circuit.load(file)


@pytest.mark.skipif(not HAS_YOSYS, reason="no yosys and no pyosys")
def test_the_top_module_is_named_where_there_are_several(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}")
    file = tmp_path / "two.v"
    file.write_text(
        "module a(input x, output y); assign y = ~x; endmodule\n"
        "module b(input x, z, output y); assign y = x & z; endmodule\n"
    )
    with pytest.raises(becalm.BadInput, match=r"2 that no other module contains: a, b; .*top="):
        becalm.circuit.load(file)
    with pytest.raises(becalm.BadInput, match="choose one of these: a, b"):
        becalm.circuit.load(file, top="c")
    assert becalm.circuit.load(file, top="a")(1) == 0
    assert becalm.circuit.load(file, top="b").inputs == [("x", 1), ("z", 1)]


def test_without_yosys_it_is_named(tmp_path, monkeypatch):
    file = tmp_path / "adder.v"
    file.write_text(ADDER)
    monkeypatch.setenv("BECALM_YOSYS", str(tmp_path / "nothing"))
    with pytest.raises(becalm.Unsupported, match="pip install pyosys"):
        becalm.circuit.load(file)
    with pytest.raises(becalm.IoError):
        becalm.circuit.load(tmp_path / "none.txt")


def _cost(circuit, goal):
    cost = circuit.compile("toy_2_2", goal=goal).cost
    return cost.bootstraps, cost.depth


def test_bits_are_iterated_compared_and_shifted_away():
    c = becalm.circuit.trace(lambda a: (*a, a == np.int64(3), np.int64(3) != a, a >> 2**70), 2)
    assert c(3) == (1, 1, 1, 0, 0)
    with pytest.raises(IndexError, match="below 3, got 5"):
        becalm.circuit.trace(lambda a: a[5], 3)


@pytest.mark.parametrize("three", [3, np.int64(3), np.uint8(3)])
def test_numbers_of_numpy_stand_on_either_side(three):
    traced = becalm.circuit.trace(lambda a: (three + a, a * three, three < a, three ^ a), 4)
    assert traced(5) == (8, 15, 1, 6)
    traced = becalm.circuit.trace(
        lambda a, b: (
            np.add(a, b),
            np.maximum(three, a),
            np.minimum(a, b),
            np.invert(a),
            b + np.True_,
        ),
        *(4, 4),
    )
    assert traced(5, 9) == (14, 5, 5, 10, 10)


def test_counters_are_recognised(monkeypatch):
    # The compiler's own work, whatever tools are installed.
    monkeypatch.setenv("BECALM_ABC", "")
    increment = becalm.circuit.trace(lambda x: (x + 1)[:64], 64)
    both = becalm.circuit.trace(lambda x, y: (x + y)[:64], 64, 64)
    assert _cost(increment, "bootstraps")[0] <= _cost(both, "bootstraps")[0]
    for more in (lambda x, y, _: x + y + 1, lambda x, y, c: x + y + c, lambda x, y, c: x - y - c):
        circuit = becalm.circuit.trace(lambda x, y, c, f=more: f(x, y, c)[:32], 32, 32, 1)
        assert _cost(circuit, "bootstraps")[0] <= 33
    ones = becalm.circuit.trace(lambda x: sum((x[i] for i in range(1, 32)), x[0]), 32)
    assert _cost(ones, "bootstraps")[0] <= 16 and ones(0xF0F1) == 9


def _cut(x):
    total = x[0]
    for i in range(1, len(x)):
        total = (total + x[i])[: (i + 1).bit_length()]
    return total


def _choices(x):
    total = x[0]
    for i in range(1, len(x)):
        total = becalm.circuit.select(x[i], total + 1, total)
    return total


@pytest.mark.parametrize(
    ("count", "most"),
    [
        (sum, 8),
        (_cut, 8),
        (_choices, 8),
        (becalm.circuit.Bits.count_ones, 8),
        (lambda x: x[:16].count_ones() + sum(x[16:]), 8),
        (lambda x: sum(x) > 15, 8),
        (lambda x: x.count_ones() > 15, 8),
        (lambda x: (~x).count_ones(), 8),
        (lambda x: sum(x) == 7, 12),
    ],
)
def test_counts_cost_the_same_in_every_form(count, most, monkeypatch):
    monkeypatch.setenv("BECALM_ABC", "")
    circuit = becalm.circuit.trace(count, 31)
    assert _cost(circuit, "bootstraps")[0] <= most
    assert becalm.boolean.cost("sum", count=31).bootstraps <= most


def test_sums_are_as_wide_as_they_must_be(rng):
    def widths(x, y):
        ones = x.count_ones()
        return sum(x), ones, x + 1 + 1 + 1, x * y[0], (x >> 4) + y[:2], x[:3] + x[:3][:2], ones << 1

    circuit = becalm.circuit.trace(widths, 8, 4)
    assert [width for _, width in circuit.outputs] == [4, 4, 9, 8, 5, 4, 5]
    for a, b in rng.integers([256, 16], size=(20, 2)).tolist():
        ones = a.bit_count()
        small = a & 7
        wanted = (ones, ones, a + 3, a * (b & 1), (a >> 4) + (b & 3), small + (small & 3), 2 * ones)
        assert circuit(a, b) == wanted
    if hasattr(np, "bitwise_count"):
        assert becalm.circuit.trace(lambda x: np.bitwise_count(x), 64)(2**64 - 1) == 64


ROOT = Path(__file__).parent.parent


def _abc():
    """ABC of rtl/requirements.txt, which `make test` installs."""
    found = importlib.util.find_spec("pyosys")
    abc = str(Path(found.origin).parent / "yosys-abc") if found else shutil.which("yosys-abc")
    assert abc, "these tests want ABC: `make .venv/.rtl`"
    return abc


def _untuned():
    spec = importlib.util.spec_from_file_location("untuned", ROOT / "bench/untuned.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


UNTUNED = _untuned()


def _circuits():
    found = dict(UNTUNED.circuits())
    # Every sixth of them, unless there is time.
    return found if FULL else dict([*found.items()][::6])


@pytest.mark.parametrize("name", _circuits())
def test_rewriting_is_never_worse_than_mapping(name, tmp_path, monkeypatch):
    text = _circuits()[name]
    circuit = becalm.circuit.parse(text)
    (tmp_path / "c.blif").write_text(text)
    monkeypatch.setenv("BECALM_ABC", "")
    own = {goal: _cost(circuit, goal) for goal in ("depth", "bootstraps")}
    monkeypatch.setenv("BECALM_ABC", _abc())
    found = {goal: _cost(circuit, goal) for goal in ("depth", "bootstraps")}
    more = UNTUNED.REFRESHED.get(name, 0)
    for script in UNTUNED.scripts(text):
        tables, levels = UNTUNED.mapped(_abc(), tmp_path / "c.blif", script) or (math.inf, math.inf)
        assert found["bootstraps"][0] <= tables + more, script
        assert found["depth"][1] <= levels + more, script
    assert found["bootstraps"][0] <= own["bootstraps"][0]
    assert found["depth"][1] <= own["depth"][1]


def _field_product():
    """The product of a field of 16 as a table."""
    entries = ((v, UNTUNED.field_product(v)) for v in range(256))
    table = "\n".join(f"8'd{v}: y = 4'd{product};" for v, product in entries)
    ports = "input [7:0] x, output logic [3:0] y"
    return f"module m({ports}); always_comb case (x)\n{table}\nendcase endmodule"


@pytest.mark.parametrize(
    ("text", "most"),
    [
        # After Yosys's ABC alone these are 44, 65 and 9.
        (_field_product(), 20),
        (
            "module m(input signed [4:0] a, b, output signed [9:0] p); assign p = a * b; endmodule",
            50,
        ),
        (
            "module m(input [3:0] a, b, input c, output [3:0] s, output o);"
            " wire [4:0] t = a + b + c; assign o = t > 9; assign s = o ? t + 5'd6 : t; endmodule",
            6,
        ),
    ],
)
def test_verilog_is_compiled_as_it_was_before_yosys_simplified_it(
    text, most, tmp_path, monkeypatch
):
    monkeypatch.setenv("BECALM_ABC", _abc())
    (tmp_path / "m.sv").write_text(text)
    circuit = becalm.circuit.load(tmp_path / "m.sv")
    assert _cost(circuit, "bootstraps")[0] <= most


def test_small_functions_are_flattened_however_few_gates_they_have(tmp_path, monkeypatch):
    """`collapse; sop; fx; strash; dch; if -K 3; mfs2` in front made their paths half as long."""
    monkeypatch.setenv("BECALM_ABC", _abc())
    ports = "input [5:0] a, input [3:0] b, output [5:0] q, output [3:0] r"
    divided = "assign q = b == 0 ? 6'd63 : a / b, r = b == 0 ? a[3:0] : a % b;"
    (tmp_path / "m.sv").write_text(f"module m({ports}); {divided} endmodule")
    select = becalm.circuit.select

    def second(a, b, c):
        least, most = select(a < b, a, b), select(a < b, b, a)
        other = select(most < c, most, c)
        return select(least < other, other, least)

    division = becalm.circuit.load(tmp_path / "m.sv")
    leap = becalm.circuit.parse(dict(UNTUNED.circuits())["leap year, 16 bits"])
    for circuit, most in ((division, 6), (becalm.circuit.trace(second, 4, 4, 4), 5), (leap, 5)):
        assert _cost(circuit, "depth")[1] <= most


def test_a_wrong_rewriting_is_not_used(tmp_path, monkeypatch):
    circuit = becalm.circuit.trace(lambda x, y: x * y, 5, 5)
    monkeypatch.setenv("BECALM_ABC", "")
    own = _cost(circuit, "bootstraps")
    # A tool that gives one circuit of constants, and swears that it is right.
    outputs = " ".join(f"o{i}" for i in range(10))
    inputs = " ".join(f"i{i}" for i in range(10))
    tables = "\n".join(f".names o{i}" for i in range(10))
    fake = tmp_path / "abc"
    fake.write_text(
        "#!/bin/sh\necho Networks are equivalent\nfor i in 0 1 2 3 4; do\n"
        f"cat > $i.blif <<END\n.model m\n.inputs {inputs}\n.outputs {outputs}\n"
        f"{tables}\n.end\nEND\ndone\n"
    )
    fake.chmod(0o755)
    monkeypatch.setenv("BECALM_ABC", str(fake))
    assert _cost(circuit, "bootstraps") == own
