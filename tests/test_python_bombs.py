"""Small Verilog texts that ask for much memory or time. Each ends within the caller's limits, with
a typed error or a right circuit. The other formats are in crates/becalm/tests/bombs."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys

import pytest

import becalm

HAS_YOSYS = bool(shutil.which("yosys") or importlib.util.find_spec("pyosys"))
pytestmark = pytest.mark.skipif(not HAS_YOSYS, reason="no yosys and no pyosys")

# Yosys alone takes some 40 MB.
LIMIT = 104 << 20
SECONDS = 2
M = "module m(input [7:0] a, output [7:0] y);\n%s\nendmodule\n"


def doubling(levels):
    """Modules, each with two of the one before."""
    first = "module m0(input a, output y); assign y = ~a; endmodule\n"
    one = "module m%d(input a, output y); wire t; m%d p(a, t); m%d q(t, y); endmodule\n"
    return first + "".join(one % (i, i - 1, i - 1) for i in range(1, levels))


def macros(levels, body="a"):
    """Macros, each with the one before twice."""
    lines = [f"`define A0 {body}"]
    lines += [f"`define A{i} `A{i - 1} ^ `A{i - 1}" for i in range(1, levels)]
    return "\n".join(lines) + "\n" + M % f"assign y = `A{levels - 1};"


BOMBS = {
    "a replication of 10^9": M % "assign y = {1000000000{a}};",
    "replications within replications": M % "assign y = ^{1000{{1000{{1000{a}}}}}};",
    "a replication of strings": M % 'localparam P = {100000000{"abcdefgh"}}; assign y = P ^ a;',
    "a wire of 2^31 bits": M % "wire [2147483647:0] w; assign w = a; assign y = w;",
    "an input of 10^8 bits": "module m(input [99999999:0] a, output y); assign y = ^a; endmodule\n",
    "an output of 10^8 bits": "module m(input a, output [99999999:0] y); assign y = {100000000{a}};"
    " endmodule\n",
    "a matrix of wires": M % "wire [99999:0][99999:0] w; assign w = a; assign y = w;",
    "a memory of 2^31 words": M % "reg [1023:0] w [0:2147483646]; assign y = w[a];",
    "generate 10^9 times": M
    % "genvar i; generate for (i = 0; i < 1000000000; i = i + 1) begin : g\n"
    "wire w = a[0]; end endgenerate assign y = a;",
    "generate for ever": M % "genvar i; generate for (i = 0; i < 1; i = i) begin : g\n"
    "wire w = a[0]; end endgenerate assign y = a;",
    "generate within generate": M % "genvar i, j; generate for (i = 0; i < 100000; i = i + 1)"
    " begin : g\nfor (j = 0; j < 100000; j = j + 1) begin : h wire w = a[0]; end end endgenerate"
    " assign y = a;",
    "a loop of 10^9 rounds": M % "reg [7:0] t; integer i; always @* begin t = a;\n"
    "for (i = 0; i < 1000000000; i = i + 1) t = t + a; end assign y = t;",
    "a loop without end": M % "reg [7:0] t; integer i; always @* begin t = a;\n"
    "for (i = 0; i < 1; i = i) t = t + a; end assign y = t;",
    "repeat 10^9": M % "reg [7:0] t; always @* begin t = a; repeat (1000000000) t = t + a; end\n"
    "assign y = t;",
    "a constant function without end": M % "function integer f(input integer x); begin f = x;\n"
    "while (1) f = f + 1; end endfunction localparam P = f(1); assign y = P;",
    "a constant function of itself": M % "function automatic integer f(input integer x);\n"
    "f = x < 2 ? x : f(x - 1) + f(x - 2); endfunction localparam P = f(45); assign y = P;",
    "2^40 parts": doubling(41),
    "a module of itself": "module m(input a, output y); m p(a, y); endmodule\n",
    "a module of itself, growing": "module m #(parameter N = 1) (input a, output y);\n"
    "m #(N + 1) p(a, y); endmodule\n",
    "10^8 parts in one line": "module s(input a, output y); assign y = a; endmodule\n"
    "module m(input [99999999:0] a, output [99999999:0] y); s p [99999999:0] (a, y); endmodule\n",
    "2^30 macros": macros(31),
    "a macro of itself": "`define A `A `A\n" + M % "assign y = `A;",
    "a product of 3000 bits": "module m(input [2999:0] a, b, output [2999:0] y);"
    " assign y = a * b; endmodule\n",
    "a quotient of 2000 bits": "module m(input [1999:0] a, b, output [1999:0] y);"
    " assign y = a / b; endmodule\n",
    "a power": "module m(input [63:0] a, b, output [63:0] y); assign y = a ** b; endmodule\n",
    "a constant power": M % "localparam P = 3 ** (2 ** 30); assign y = P ^ a;",
    "a constant of 10^9 bits": M % "assign y = 1000000000'd1 ^ a;",
    "a shift of 2^30": M % "assign y = (1073741824'd1 << 1073741823) >> a;",
    "a range of 2^31 bits": M % "wire [a:0] w; assign y = w[2147483647:0];",
    "brackets within brackets": M % ("assign y = " + "(" * 2500 + "a" + ")" * 2500 + ";"),
    "signs before signs": M % ("assign y = " + "~" * 5000 + "a;"),
    "choices within choices": M % ("assign y = " + "a[0] ? a : " * 450 + "a;"),
    "blocks within blocks": M
    % ("reg [7:0] t; always @* " + "begin " * 580 + "t = a; " + "end " * 580 + "assign y = t;"),
    "a sum of 900": M % ("assign y = " + "a * a + " * 600 + "a;"),
    "indices within indices": M
    % ("reg [7:0] t [0:3]; assign y = " + "t[" * 900 + "a" + "]" * 900 + ";"),
    "indices of indices, many times": M
    % ("reg [7:0] t [0:3]; assign y = " + "t[t[t[t[t[a]]]]] + " * 250 + "a;"),
    "1500 indices": M % ("assign y = a" + "[0]" * 1500 + ";"),
    "much to display": M % "integer i; initial for (i = 0; i < 100000000; i = i + 1)\n"
    '$display("%s", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"); assign y = a;',
    "a file without end": '`include "/dev/zero"\n' + M % "assign y = a;",
    "data without end": M % 'reg [7:0] r [0:255]; initial $readmemh("/dev/zero", r);'
    " assign y = r[a];",
    "a C function": 'import "DPI-C" function integer getpid();\n'
    + M % "localparam integer P = getpid(); assign y = a ^ P;",
}


# Linux counts the memory of a process from the one that started it: a child that `fork` makes
# would have the memory of this whole test run. This interpreter is new and small.
MEASURED = """
import json, resource, sys
import becalm

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

file, limit, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
before = peak()
try:
    circuit = becalm.circuit.load(file, limit=limit, seconds=seconds)
    outcome = "loaded" if circuit.inputs else "no inputs"
except becalm.BadInput as refused:
    outcome = str(refused)
own = peak() - before
children = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([outcome, children.ru_utime + children.ru_stime, children.ru_maxrss, own]))
"""


def measured(file):
    """Loads a file in a new interpreter: the outcome (`"loaded"`, or the words of the refusal), the
    seconds of processors and the most kilobytes of its children, and the kilobytes that it needed
    itself."""
    command = [sys.executable, "-c", MEASURED, str(file), str(LIMIT), str(SECONDS)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.fixture
def yosys(monkeypatch):
    """The interpreter of these tests is the one that has pyosys."""
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_soon_and_takes_little_memory(tmp_path, yosys, name):
    file = tmp_path / "bomb.sv"
    file.write_text(BOMBS[name])
    assert file.stat().st_size < 6000
    outcome, time, children, own = measured(file)
    assert outcome == "loaded" or (str(file) in outcome and len(outcome) < 1500), outcome
    # Yosys and the abc that it starts have this time each, and the kernel checks once a second.
    assert time < 2 * (SECONDS + 1)
    assert children << 10 < LIMIT + (48 << 20)
    assert own < 64 << 10


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (M % "assign y = a[0] ? 8'bz : a;", "0 or 1 in line 2 of "),
        (M % "assign y = a[0] ? 8'hxx : a;", "0 or 1 in line 2 of "),
        (M % "assign y = ;", r"in line 2 of .*mine\.sv.*expected expression"),
        (M % "assign y[6:0] = a;", r"a source for every signal in line 1 of .*, got `y\[7\]`"),
        (
            M % "assign y = a;\nassign y = ~a;",
            "one source for every signal in line 1 .*two for `y",
        ),
        (
            "module m(input a, output y, z);\nwire w;\nassign y = w, z = a;\nendmodule\n",
            "a source for every signal in line 2 of .*, got `w`",
        ),
        ('module m(input a, output string y);\nassign y = "a";\nendmodule\n', "string, real"),
        (
            "module tree #(parameter N = 4)(input [N-1:0] a, output y);\n"
            "if (N == 1) assign y = a;\n"
            "else tree #(N - 1) t(.a(a[N-2:0]), .y(y));\nendmodule\n",
            "themselves contain: tree; choose one: `--top NAME` .*`top=` in Python",
        ),
        (M % "assign y = y + a;", "without a loop in line 2 of .*`y`, which depends on itself"),
        ('`include "other.v"\n' + M % "assign y = a;", "no other file in line 1 of "),
        (M % "assign y = a;\nalways_comb assert(a < 3);", "without assertions in line 3 of "),
        ("module m(input a);\nendmodule\n", "an output in .*got a module without one"),
    ],
)
def test_texts_that_yosys_would_accept_are_refused_with_the_file(tmp_path, yosys, text, says):
    file = tmp_path / "mine.sv"
    file.write_text(text)
    with pytest.raises(becalm.BadInput, match=says) as refused:
        becalm.circuit.load(file)
    said = str(refused.value)
    assert str(file) in said and "input.sv" not in said and "frontend.cc" not in said


def test_messages_and_the_mark_of_utf8_are_left_out(tmp_path, yosys):
    file = tmp_path / "mine.sv"
    text = M % 'assign y = ~a;\ninitial $display("hi");\nalways_comb $display("%d", a);'
    file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert becalm.circuit.load(file)(1) == 254


LOOP = "module m(input x, clk, output a);\nwire b, c;\n%s\nendmodule\n"
BY_PARTS = "module g(input i, j, output o); assign o = i & j; endmodule\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (LOOP % "assign a = ~a;", ["a"]),
        (LOOP % "assign a = b & x;\nassign b = a | x;", ["a", "b"]),
        (LOOP % "assign a = ~b;\nassign b = ~a;", ["a", "b"]),
        (LOOP % "assign a = b & x;\nassign b = c | x;\nassign c = a ^ x;", ["a", "b", "c"]),
        (LOOP % "assign a = x ? b : a;\nassign b = x;", ["a"]),
        (BY_PARTS + LOOP % "g u(b, x, a);\ng v(a, x, b);", ["u.i", "v.i"]),
    ],
)
def test_loops_are_refused_with_their_signals(tmp_path, yosys, text, names):
    file = tmp_path / "loop.v"
    file.write_text(text)
    with pytest.raises(
        becalm.BadInput, match=r"a circuit without a loop in line \d of "
    ) as refused:
        becalm.circuit.load(file)
    said = str(refused.value)
    assert all(f"`{name}`" in said for name in names) and "Warning" not in said, said


def test_a_register_in_a_loop_is_a_register(tmp_path, yosys):
    file = tmp_path / "register.v"
    file.write_text(LOOP % "reg r;\nalways @(posedge clk) r <= r ^ x;\nassign a = r;")
    with pytest.raises(becalm.BadInput, match="a module without memory"):
        becalm.circuit.load(file)


def test_ports_of_both_directions_are_refused(tmp_path, yosys):
    file = tmp_path / "inout.v"
    for line, ports in ((1, "input a, inout [1:0] b"), (2, "input a,\n inout wire [1:0] b")):
        file.write_text(f"module m({ports}, output y); assign y = a; endmodule\n")
        with pytest.raises(becalm.BadInput, match=rf"in line {line} of .*inout\.v, got `inout b`"):
            becalm.circuit.load(file)


@pytest.mark.parametrize(
    ("tool", "says"),
    [
        ("while :; do :; done", "in 1 seconds of processor time"),
        ("kill -XCPU $$", "in 1 seconds of processor time"),
        ("kill -SEGV $$", "in 104857600 bytes of memory"),
        ("echo 'terminate: std::bad_alloc'; exit 1", "in 104857600 bytes of memory"),
        ("head -c 3000000 /dev/zero > output.blif; exit 1", "with files of at most 1638400 bytes"),
        (
            "echo 'ERROR: ABC: execution of command failed'; exit 1",
            "in 1 seconds of processor time and 104857600 bytes of memory",
        ),
    ],
)
def test_the_limit_that_yosys_ran_into_is_named(tmp_path, monkeypatch, tool, says):
    fake = tmp_path / "yosys"
    fake.write_text(f"#!/bin/sh\n{tool}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("BECALM_YOSYS", str(fake))
    file = tmp_path / "mine.v"
    file.write_text(M % "assign y = a;")
    with pytest.raises(becalm.BadInput) as refused:
        becalm.circuit.load(file, limit=100 << 20, seconds=1)
    said = str(refused.value)
    assert f"a module that Yosys, which reads Verilog, reads {says}" in said, said
    assert "--seconds" in said or "--limit" in said
    assert "exit status" not in said and "signal:" not in said


@pytest.mark.parametrize(
    "end",
    [
        "kill -XCPU $$",
        "echo 'terminate: std::bad_alloc'; exit 1",
        "head -c 20000000 /dev/zero > file.blif; exit 1",
        "head -c 20000000 /dev/zero > direct.blif; exit 1",
    ],
)
def test_a_limit_that_ends_the_second_netlist_leaves_the_first(tmp_path, yosys, monkeypatch, end):
    driver, fake = tmp_path / "driver.py", tmp_path / "yosys"
    driver.write_text(
        "from pyosys import libyosys\ndesign = libyosys.Design()\n"
        "for line in open('script.ys'):\n"
        "    design.run_pass(line.strip())\n"
    )
    fake.write_text(f"#!/bin/sh\n{sys.executable} {driver} || exit 1\n{end}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("BECALM_YOSYS", str(fake))
    file = tmp_path / "mine.v"
    file.write_text(M % "assign y = a + 8'd5;")
    circuit = becalm.circuit.load(file)
    assert [circuit(a) for a in (0, 250, 255)] == [5, 255, 4]


def test_a_tool_that_is_no_yosys_is_named_with_its_words(tmp_path, monkeypatch):
    fake = tmp_path / "yosys"
    fake.write_text("#!/bin/sh\necho starting\necho 'no licence found'\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("BECALM_YOSYS", str(fake))
    file = tmp_path / "mine.v"
    file.write_text(M % "assign y = a;")
    with pytest.raises(becalm.Unsupported, match="gave no circuit and says `no licence found`"):
        becalm.circuit.load(file)


def test_a_yosys_without_slang_is_passed_over(tmp_path, yosys, monkeypatch):
    fake = tmp_path / "yosys"
    fake.write_text("#!/bin/sh\necho 'ERROR: No such command: read_slang (type help)'\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    file = tmp_path / "mine.v"
    file.write_text(M % "assign y = ~a;")
    assert becalm.circuit.load(file)(1) == 254
    monkeypatch.setenv("BECALM_YOSYS", str(fake))
    with pytest.raises(becalm.Unsupported, match="which has no slang; `pip install pyosys`"):
        becalm.circuit.load(file)


def test_patterns_are_no_unknown_bits(tmp_path, yosys):
    file = tmp_path / "casez.v"
    text = "reg [7:0] t; always @* casez (a) 8'b1???????: t = 1; 8'bzz1z_zzzz: t = 2;\n"
    file.write_text(M % (text + "default: t = 3; endcase assign y = t;"))
    circuit = becalm.circuit.load(file)
    assert [circuit(a) for a in (128, 255, 32, 63, 31, 64)] == [1, 1, 2, 2, 3, 3]
