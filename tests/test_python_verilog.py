"""Unusual but legal Verilog and BLIF, beside the same functions in Python, at random inputs."""

import importlib.util
import os
import shutil
import subprocess
import sys

import pytest

import becalm

HAS_YOSYS = bool(shutil.which("yosys") or importlib.util.find_spec("pyosys"))


def _signed(value, width):
    return value - (1 << width) if value >> (width - 1) & 1 else value


def _below(value, width):
    return value & ((1 << width) - 1)


SIGNED = """module m(input signed [5:0] a, input signed [3:0] b, output signed [7:0] sum,
  output signed [9:0] prod, output lt, output signed [5:0] sh, output [5:0] ush,
  output signed [7:0] mix, output signed [5:0] q, r, output signed [7:0] ext);
assign sum = a + b, prod = a * b, lt = a < b, sh = a >>> 2, ush = a >> 2;
assign mix = a + $unsigned(b), ext = {{4{b[3]}}, b};
assign q = b == 0 ? 6'sd0 : a / b, r = b == 0 ? 6'sd0 : a % b;
endmodule
"""


def _of_signed(a, b):
    x, y = _signed(a, 6), _signed(b, 4)
    quotient = int(x / y) if y else 0
    remainder = x - y * quotient if y else 0
    values = (x + y, 8), (x * y, 10), (x < y, 1), (x >> 2, 6), (a >> 2, 6), (a + b, 8)
    return [_below(v, w) for v, w in (*values, (quotient, 6), (remainder, 6), (y, 8))]


FUNCTIONS = """module m #(parameter W = 6, parameter [W-1:0] K = 13) (
  input [W-1:0] a, input [2:0] s,
  output [W-1:0] y, output [2:0] ones, output [1:0] part, output [W-1:0] rev);
function automatic [2:0] count(input [W-1:0] v);
  integer i; begin count = 0; for (i = 0; i < W; i = i + 1) count = count + v[i]; end
endfunction
function [W-1:0] f(input [W-1:0] v);
  case (s) 0: f = v + K; 1: f = v ^ K; 2, 3: f = ~v; default: f = v << s; endcase
endfunction
assign y = f(a), ones = count(a), part = a[s[1:0] +: 2];
genvar i; generate for (i = 0; i < W; i = i + 1) begin : g
  if (i % 2) assign rev[i] = a[W-1-i]; else assign rev[i] = a[W-1-i];
end endgenerate
endmodule
"""


def _of_functions(a, s):
    y = [a + 13, a ^ 13, ~a, ~a][s] if s < 4 else a << s
    return [_below(y, 6), a.bit_count(), a >> (s & 3) & 3, int(f"{a:06b}"[::-1], 2)]


TASK = """module m(input [3:0] a, b, output reg [3:0] high, low, output reg [7:0] t);
task sort(input [3:0] p, q, output [3:0] h, l);
  if (p > q) begin h = p; l = q; end else begin h = q; l = p; end
endtask
task double(input [7:0] u, output [7:0] v); v = u << 1; endtask
integer k;
always @* begin sort(a, b, high, low); t = 0;
  for (k = 3; k >= 0; k = k - 1) begin double(t, t); if (a[k]) t = t + b; end end
endmodule
"""

PARTS = """module add #(parameter N = 2) (input [N-1:0] x, y, input c, output [N-1:0] z, output k);
assign {k, z} = x + y + c;
endmodule
module m(input [7:0] a, b, input [1:0] s, output [8:0] y, output reg [7:0] o, output p);
wire c;
add #(.N(3)) u0 (.x(a[2:0]), .y(b[2:0]), .c(1'b0), .z(y[2:0]), .k(c));
add #(5) u1 (a[7:3], b[7:3], c, y[7:3], y[8]);
always @* casez ({s, a[7]})
  3'b00?: o = a; 3'b010: o = b; 3'b1?1: o = a & b; default: o = {a[3:0], b[7:4]};
endcase
assign p = ^{a, b};
endmodule
"""


def _of_parts(a, b, s):
    last = _below(a << 4 | b >> 4, 8)
    o = a if s == 0 else b if s == 1 and a < 128 else a & b if s > 1 and a > 127 else last
    return [a + b, o, (a ^ b).bit_count() & 1]


STRUCTURES = """typedef struct packed { logic [3:0] hi; logic [3:0] lo; } pair_t;
module m(input logic [1:0] op, input logic [7:0] a, b, output logic [7:0] y, output logic [3:0] z,
  output logic [15:0] m4);
pair_t p; assign p = a; assign z = p.hi ^ p.lo;
always_comb unique case (op) 0: y = a + b; 1: y = a - b; 2: y = a & b; 3: y = a ^ b; endcase
logic [3:0][3:0] mat;
always_comb begin for (int i = 0; i < 4; i++) mat[i] = a >> i; m4 = mat; end
endmodule
"""

# Ports whose first index is the most significant bit, and that begin elsewhere than at 0.
RANGES = """module m(input [0:3] a, input [5:2] b, input [3:6] d, output [0:3] y, output [4:1] z,
  output e, output [2:5] n);
assign y = a + b, z = {a[0], a[1], b[5:4]}, e = a[1:2] == b[3:2], n = d - a;
endmodule
"""

ARITHMETIC = """module m(input [5:0] a, input [2:0] b, output [5:0] q, output [2:0] r,
  output [5:0] tenth, output signed [6:0] neg, output [5:0] rot);
assign q = b ? a / b : 6'd63, r = b ? a % b : 3'd0, tenth = a / 10;
assign neg = -$signed({1'b0, a}); wire [11:0] twice = {a, a}; assign rot = twice >> b;
endmodule
"""

GATES = """module m(input a, b, c, output x, y, z, w);
wire t; nand (t, a, b); nor g (x, t, c); xnor (y, a, b, c); not (z, a);
assign w = !(a && b || c) ? &{a, b} | ~^{b, c} : a === b;
endmodule
"""

# Branches that overlap, with every promise that they do not.
PROMISES = """module m(input [1:0] i, output logic [1:0] w, x, y, z);
always_comb begin w = 3; unique casez (i) 2'b?1: w = 1; 2'b1?: w = 2; endcase end
always_comb begin x = 3; (* full_case, parallel_case *)
  casez (i) 2'b?1: x = 1; 2'b1?: x = 2; endcase end
always_comb begin y = 3; casez (i) // synopsys full_case parallel_case
  2'b?1: y = 1; 2'b1?: y = 2; endcase end
always_comb begin z = 3; priority if (i[0]) z = 1; else if (i[1]) z = 2; end
endmodule
"""

VERILOG = {
    "promises about branches": (PROMISES, lambda i: [(3, 1, 2, 1)[i]] * 4),
    "signed numbers": (SIGNED, _of_signed),
    "functions, parameters and generate": (FUNCTIONS, _of_functions),
    "tasks": (TASK, lambda a, b: [max(a, b), min(a, b), a * b]),
    "instances and casez": (PARTS, _of_parts),
    "structures and arrays": (
        STRUCTURES,
        lambda op, a, b: [
            _below([a + b, a - b, a & b, a ^ b][op], 8),
            (a >> 4) ^ (a & 15),
            sum(_below(a >> i, 4) << 4 * i for i in range(4)),
        ],
    ),
    "ranges": (
        RANGES,
        lambda a, b, d: [
            _below(a + b, 4),
            a & 12 | b >> 2,
            (a >> 1 & 3) == b & 3,
            _below(d - a, 4),
        ],
    ),
    "arithmetic": (
        ARITHMETIC,
        lambda a, b: [
            a // b if b else 63,
            a % b if b else 0,
            a // 10,
            _below(-a, 7),
            _below((a << 6 | a) >> b, 6),
        ],
    ),
    "gates": (
        GATES,
        lambda a, b, c: [
            (a & b) & (1 - c),
            1 - (a ^ b ^ c),
            1 - a,
            (a == b) if (a & b) | c else (a & b) | (b == c),
        ],
    ),
}

BLIF = {
    "constants": (
        ".model m\n.inputs a b\n.outputs y z o n\n.names y\n1\n.names z\n.names o\n0\n"
        ".names a b n\n-1 0\n1- 0\n.end\n",
        lambda a, b: [1, 0, 0, not (a | b)],
    ),
    "don't-cares and a list that goes on": (
        ".model m # text\n.inputs a[0] a[1] \\\n a[2]\n.outputs y z w\n"
        ".names a[0] a[1] a[2] y\n--- 1\n.names a[0] a[1] a[2] z\n--1 1\n01- 1\n"
        ".names v w\n0 1\n.names v\n1\n.end\n",
        lambda a: [1, a >> 2 | (a & 3 == 2), 0],
    ),
    "a table whose names go on": (
        ".inputs a b c\n.outputs y\n.names a \\\n b c\\\n y\n1-1 1\n-11 1\n",
        lambda a, b, c: [(a | b) & c],
    ),
    "ends of lines": (
        ".model m\r\n.inputs a b\r\n.outputs y\r\n.names a b y\r\n10 1\r\n01 1\r\n.end\r\n",
        lambda a, b: [a ^ b],
    ),
    "an input twice": (
        ".inputs a b\n.outputs y\n.names a a b y\n101 1\n11- 1\n",
        lambda a, _: [a],
    ),
    "an input that is an output": (
        ".inputs a b\n.outputs a y\n.names b y\n0 1\n",
        lambda a, b: [a, 1 - b],
    ),
}


def _agree(circuit, function, rng):
    """A circuit beside its function at random inputs."""
    for _ in range(60):
        values = [rng.integers(1 << width) for _, width in circuit.inputs]
        values = [int(value) for value in values]
        got = circuit(*values)
        wanted = tuple(int(value) for value in function(*values))
        assert (got if isinstance(got, tuple) else (got,)) == wanted, values


@pytest.mark.skipif(not HAS_YOSYS, reason="no yosys and no pyosys")
@pytest.mark.parametrize("signed", [False, True])
def test_a_division_by_a_variable_of_0_has_a_value(signed, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}")
    ty, file = "signed [3:0]" if signed else "[3:0]", tmp_path / "m.sv"
    ports = f"input {ty} a, b, output {ty} q, r"
    file.write_text(f"module m({ports});\nassign q = a / b, r = a % b;\nendmodule\n")
    circuit = becalm.circuit.load(file)
    for a in range(16):
        negative = signed and _signed(a, 4) < 0
        assert circuit(a, 0) == (1 if negative else 15, a)


@pytest.mark.skipif(not HAS_YOSYS, reason="no yosys and no pyosys")
@pytest.mark.parametrize("name", VERILOG)
def test_unusual_verilog_is_compiled_right(name, tmp_path, monkeypatch, rng):
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}")
    text, function = VERILOG[name]
    file = tmp_path / "unusual.sv"
    file.write_text(text)
    _agree(becalm.circuit.load(file), function, rng)


@pytest.mark.skipif(not HAS_YOSYS, reason="no yosys and no pyosys")
def test_a_net_that_pulls_is_refused(tmp_path):
    path = tmp_path / "m.sv"
    path.write_text("module m(input a, output y); tri1 t; assign t = a, y = t; endmodule\n")
    with pytest.raises(becalm.BadInput, match="cannot turn into gates") as e:
        becalm.circuit.load(path)
    assert "tri1" in e.value.remedy


@pytest.mark.parametrize("name", BLIF)
def test_unusual_blif_is_read_right(name, rng):
    text, function = BLIF[name]
    _agree(becalm.circuit.parse(text), function, rng)


@pytest.mark.skipif(not HAS_YOSYS, reason="no yosys and no pyosys")
@pytest.mark.parametrize(
    "case",
    [
        "unique case (i) 0: y = 1; 1: y = 0; endcase",
        "case (i) // synopsys full_case\n 0: y = 1; 1: y = 0; endcase",
        "(* full_case *) case (i) 0: y = 1; 1: y = 0; endcase",
        "unique if (i == 0) y = 1; else if (i == 1) y = 0;",
    ],
)
def test_a_promise_makes_no_value(case, tmp_path):
    path = tmp_path / "m.sv"
    path.write_text(f"module m(input [1:0] i, output logic y);\nalways_comb {case}\nendmodule\n")
    with pytest.raises(becalm.BadInput, match="without memory"):
        becalm.circuit.load(path)


@pytest.mark.skipif(not HAS_YOSYS, reason="Yosys is not installed: pip install pyosys")
def test_a_promise_of_a_macro_makes_no_value(tmp_path):
    path = tmp_path / "m.sv"
    text = "module m(input [1:0] i, output reg y);\nalways @* `U()que case (i) 0: y = 1; endcase\n"
    path.write_text(f"`define U() uni\n{text}endmodule\n")
    with pytest.raises(becalm.BadInput, match="without memory"):
        becalm.circuit.load(path)


HEAD = "module m(input [1:0] a, output [7:0] y); logic [7:0] t[4];"
TAIL = " assign y = t[a]; endmodule\n"
#: Ways to name a file, of which each reader of Verilog sees another part.
READS = {
    "macro behind a dollar": f'`define R readmemh\n{HEAD} initial $`R("FILE", t);{TAIL}',
    "other base": f'`define R readmemb\n{HEAD} initial $`R("FILE", t);{TAIL}',
    "two macros": f'`define D $\n`define R readmemh\n{HEAD} initial `D`R("FILE", t);{TAIL}',
    "argument": f'`define A(x) x\n{HEAD} initial $`A(readmemh)("FILE", t);{TAIL}',
    "arguments": f'`define A(x, y) x`y\n`define R readmemh\n{HEAD} initial `A($, R)("FILE", t);'
    + TAIL,
    "backtick": f'`define Q() `\n{HEAD} wire [7:0] z =\n`Q()include "FILE"\n;{TAIL}',
    "quote of a macro": f'`define S `"\n{HEAD} wire [7:0] z =\n`include "FILE"\n;{TAIL}',
    "line of a comment": f'{HEAD} // x\r initial $readmemh("FILE", t);\n{TAIL}',
    "macro in a comment": f'`define A 1\n{HEAD} // x\r initial $readmemh("FILE", t);\n{TAIL}',
    "escaped directive": f'{HEAD}\n`\\include "FILE"\n{TAIL}',
    "string of a branch": '`ifdef NOPE\n"\n`endif\n`define R $read``memh\n'
    f'{HEAD} initial `R("FILE", t);{TAIL}// "',
    "quote of a branch": '`ifdef NOPE\n`"\n`endif\n`define R $read``memh\n'
    f'{HEAD} initial `R("FILE", t);{TAIL}',
    "string": f'{HEAD} initial $display("\\\n", "x\\"); initial $readmemh("FILE", t);{TAIL}',
}


@pytest.mark.skipif(not HAS_YOSYS, reason="Yosys is not installed: pip install pyosys")
@pytest.mark.parametrize("text", READS.values(), ids=READS)
def test_no_text_reads_a_file(text, tmp_path):
    """A stranger's module must not put files of this machine into a program for a server."""
    secret, file = tmp_path / "secret", tmp_path / "m.v"
    secret.write_text("0A 0B 0C 0D")
    file.write_bytes(text.replace("FILE", str(secret)).encode())
    with pytest.raises(becalm.BadInput) as e:
        becalm.circuit.load(file)
    assert "0A" not in str(e.value)


@pytest.mark.skipif(not HAS_YOSYS, reason="Yosys is not installed: pip install pyosys")
def test_comments_may_say_what_they_like(tmp_path):
    text = b"// `include $readmemh\r\n/* $fopen */ module m(input a, output y); // `\\x\n"
    (tmp_path / "m.v").write_bytes(text + b"assign y = ~a; endmodule\n")
    circuit = becalm.circuit.load(tmp_path / "m.v")
    assert [circuit(a) for a in (0, 1)] == [1, 0]


#: The arithmetic of the 74181, with ports that Yosys sorts and a bit order that it does not know.
SLICE = """module m(input [3:0] s, a, input mode, carry, input [0:3] b,
  output [3:0] f, output e, o);
wire [3:0] r = {b[0], b[1], b[2], b[3]};
wire [3:0] some = a | (r & {4{s[0]}}) | (~r & {4{s[1]}});
wire [3:0] most = (a & ~r & {4{s[2]}}) | (a & r & {4{s[3]}}), half = some ^ most;
wire [4:0] k;
assign k[0] = carry, o = k[4], e = &f;
genvar i; generate for (i = 0; i < 4; i = i + 1) begin : g
  assign f[i] = half[i] ^ (~mode & k[i]), k[i + 1] = most[i] | (some[i] & k[i]);
end endgenerate
endmodule
"""


def _costs(circuit):
    goals = ("depth", "bootstraps")
    costs = [circuit.compile("tfhe_2_2", goal=goal).cost for goal in goals]
    return [(cost.bootstraps, cost.depth) for cost in costs]


def _netlist(folder, text, *options):
    """What Yosys alone makes of a module, as a file of BLIF."""
    (folder / "m.sv").write_text(text)
    synth = " ".join(["synth -flatten -noabc", *options])
    run = "import sys\nfrom pyosys import libyosys as y\nd = y.Design()\n"
    run += "[d.run_pass(step) for step in sys.argv[1:]]"
    command = [sys.executable, "-c", run, "read_verilog -sv m.sv", synth, "write_blif b"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return becalm.circuit.parse((folder / "b").read_text())


#: A comparison of two sums of squares, whose netlists are covered in different ways.
SQUARES = """module circ13(input [3:0] a, b, input [4:0] c, output y);
assign y = a*a+b*b > c*c;
endmodule
"""


@pytest.mark.skipif(not importlib.util.find_spec("pyosys"), reason="no pyosys")
@pytest.mark.parametrize("options", [(), ("-noalumacc",)])
@pytest.mark.parametrize("text", [SLICE, SQUARES])
def test_verilog_is_never_worse_than_its_netlists_as_files(tmp_path, text, options):
    file_short, file_few = _costs(_netlist(tmp_path, text, *options))
    short, few = _costs(becalm.circuit.load(tmp_path / "m.sv"))
    assert short[::-1] <= file_short[::-1]
    assert few <= file_few


@pytest.mark.skipif(not importlib.util.find_spec("pyosys"), reason="no pyosys")
def test_circuits_go_through_abc_again_while_that_gains(tmp_path):
    """`dch; if -K 4 -a; mfs2`, three times, gives 14 tables, and scripts run once gave 21."""
    circuit = _netlist(tmp_path, SQUARES)
    assert circuit.compile("tfhe_2_2", goal="bootstraps").cost.bootstraps <= 14


#: A check of a date, whose ports slang has in another order than the text.
DATE = """module date(input [4:0] d, input [3:0] m, input [11:0] y, output ok);
wire leap = (y[1:0] == 0) & ((y % 25 != 0) | (y[3:0] == 0));
wire [4:0] last = m == 2 ? (leap ? 5'd29 : 5'd28)
  : (m == 4 || m == 6 || m == 9 || m == 11) ? 5'd30 : 5'd31;
assign ok = d != 0 && d <= last && m != 0 && m < 13;
endmodule
"""


@pytest.mark.skipif(not importlib.util.find_spec("pyosys"), reason="no pyosys")
def test_verilog_has_its_ports_in_the_order_of_the_text(tmp_path):
    file = _netlist(tmp_path, DATE).compile("tfhe_2_2", goal="depth").cost
    cost = becalm.circuit.load(tmp_path / "m.sv").compile("tfhe_2_2", goal="depth").cost
    assert (cost.depth, cost.bootstraps) <= (file.depth, file.bootstraps)
