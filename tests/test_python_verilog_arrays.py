"""Indices of arrays, and values on every path: what Verilog says, or an error."""

import importlib.util
import os
import shutil
import sys

import pytest

import becalm

HAS_YOSYS = bool(shutil.which("yosys") or importlib.util.find_spec("pyosys"))
pytestmark = pytest.mark.skipif(not HAS_YOSYS, reason="no yosys and no pyosys")


@pytest.fixture(autouse=True)
def _own_python_first(monkeypatch):
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}")


def _signed(value, width):
    value = _below(value, width)
    return value - (1 << width) if value >> (width - 1) & 1 else value


def _below(value, width):
    return value & ((1 << width) - 1)


def _part(value, first, count, width):
    """Bits of a value of so many bits, and zeros beyond its ends."""
    places = range(first, first + count)
    return sum((value >> k & 1) << (k - first) for k in places if 0 <= k < width)


def _put(value, bits, first, count, width):
    """The value with bits written from a place on, where it has that place."""
    for k in range(count):
        if 0 <= first + k < width:
            value = value & ~(1 << (first + k)) | (bits >> k & 1) << (first + k)
    return value


ALU = """module m(input [2:0] op, input [7:0] a, b, output reg [7:0] y, output zero);
always @* case (op) 0: y = a + b; 1: y = a - b; 2: y = a & b; 3: y = a | b; 4: y = a ^ b;
  5: y = a << b[2:0]; 6: y = a >> b[2:0]; default: y = ~a; endcase
assign zero = y == 0;
endmodule
"""


def _of_alu(op, a, b):
    results = a + b, a - b, a & b, a | b, a ^ b, a << (b & 7), a >> (b & 7), ~a
    y = _below(results[op], 8)
    return [y, y == 0]


DECODER = """module m(input [2:0] s, input e, output reg [4:0] y);
always @* if (e) case (s) 0: y = 1; 1: y = 2; 2: y = 4; 3: y = 8; 4: y = 16; default: y = 0;
  endcase else y = 31;
endmodule
"""

ROM = """module m(input [4:0] a, output [7:0] y, z, output [2:0] n, k);
reg [7:0] full [0:7]; reg [7:0] six [0:5]; reg [2:0] p [0:7]; integer i;
initial begin for (i = 0; i < 8; i = i + 1) begin full[i] = i * i * 3 + 1; p[i] = 7 - i; end
  six[0] = 9; six[1] = 8; six[2] = 7; six[3] = 6; six[4] = 5; six[5] = 255; end
assign y = full[a], z = six[a], n = p[p[a[2:0]] + 1], k = p[six[a[2:0]]];
endmodule
"""


def _of_rom(a):
    six, low = [9, 8, 7, 6, 5, 255, 0, 0], a & 7
    far = 8 - low
    full = _below(a * a * 3 + 1, 8) if a < 8 else 0
    other = 7 - six[low] if six[low] < 8 else 0
    return [full, six[a] if a < 6 else 0, 7 - far if far < 8 else 0, other]


FUNCTIONS = """module m(input [3:0] a, b, input [1:0] s, output [4:0] y, output [3:0] t, g, h);
function automatic [3:0] mx(input [3:0] p, q); if (p > q) mx = p; else mx = q; endfunction
function automatic [4:0] f(input [3:0] p, q); reg [3:0] t;
  begin t = mx(p, q); f = t + mx(q ^ t, p); end endfunction
function [3:0] all(input [1:0] s); case (s) 0: all = 3; 1: all = 1; 2: all = 4; 3: all = 9;
  endcase endfunction
function [3:0] three(input [1:0] s, input [3:0] a);
  if (s < 3) case (s) 0: three = a; 1: three = ~a; 2: three = a + 1; endcase else three = 7;
endfunction
function [3:0] kept(input [3:0] v); reg [3:0] t;
  begin if (v[0]) t = v; kept = v[0] ? t : 4'd0; end endfunction
assign y = f(a, b), t = all(s), g = three(s, a), h = kept(a);
endmodule
"""


def _of_functions(a, b, s):
    t = max(a, b)
    three = [a, _below(~a, 4), _below(a + 1, 4), 7][s]
    return [t + max(b ^ t, a), [3, 1, 4, 9][s], three, a if a & 1 else 0]


GENERATE = """module inv(input [1:0] a, output [1:0] y); assign y = ~a; endmodule
module m #(parameter N = 3) (input [N-1:0][N-1:0] a, input [3:0][1:0] b, output [N-1:0][N-1:0] y,
  output [N-1:0] d, output [3:0][1:0] u, output [7:0] z);
wire [1:0] w [0:3]; genvar i, j;
generate for (i = 0; i < N; i = i + 1) begin : r
  for (j = 0; j < N; j = j + 1) assign y[j][i] = a[i][j];
  assign d[i] = a[i][i]; end
for (i = 0; i < 4; i = i + 1) begin : l
  inv p(.a(b[i]), .y(u[i])); inv q(.a(b[3-i]), .y(w[i])); assign z[2*i +: 2] = w[i]; end
endgenerate
endmodule
"""


def _of_generate(a, b):
    turned = sum((a >> (3 * i + j) & 1) << (3 * j + i) for i in range(3) for j in range(3))
    rows = sum((~b >> 2 * (3 - i) & 3) << 2 * i for i in range(4))
    return [turned, sum((a >> 4 * i & 1) << i for i in range(3)), _below(~b, 8), rows]


PACKED = """module m(input [2:0][4:0] a, input [1:3][5:2] b, input [2:0] i, j, input v,
  output y, z, lt, output [4:0] row, output reg [2:0][3:0] w, x, output reg [2:4][0:2] u);
assign y = a[i][j], row = a[i], z = b[i][j], lt = a[i][j] <= v;
always @* begin w = 12'h5a3; w[i][j] = v; x = 12'h123; x[i] = i + 9; x[i][j] ^= 1; u = 0;
  u[i][j] = 1; end
endmodule
"""


def _of_packed(a, b, i, j, v):
    bit = a >> (5 * i + j) & 1 if i < 3 and j < 5 else 0
    other = b >> (4 * (3 - i) + j - 2) & 1 if 1 <= i <= 3 and 2 <= j <= 5 else 0
    inside = i < 3 and j < 4
    w = _put(0x5A3, v, 4 * i + j, 1, 12) if inside else 0x5A3
    x = _put(0x123, i + 9, 4 * i, 4, 12) if i < 3 else 0x123
    x ^= 1 << (4 * i + j) if inside else 0
    u = 1 << (3 * (4 - i) + 2 - j) if 2 <= i <= 4 and j <= 2 else 0
    return [bit, other, bit <= v, a >> 5 * i & 31 if i < 3 else 0, w, x, u]


UNPACKED = """module m(input [2:0] i, j, input [15:0] a, input [3:0] v, output reg [3:0] y, z,
  output reg [1:0] p, q);
reg [3:0] t [0:3]; reg [3:0] u [0:3]; reg [1:0] s [0:2][0:2]; integer k, l;
always @* begin for (k = 0; k < 4; k = k + 1) begin t[k] = a >> 4*k; u[k] = k; end
  t[j] = v; if (j[0]) u[j] = u[i] + 1; else u[j] += 1; y = t[i]; z = u[j];
  for (k = 0; k < 3; k = k + 1) for (l = 0; l < 3; l = l + 1) s[k][l] = k + 2*l;
  p = s[i][j]; s[j][i] = v; q = s[j][i]; end
endmodule
"""


def _of_unpacked(i, j, a, v):
    element = v if i == j else a >> 4 * i & 15
    u = ((i if i < 4 else 0) if j & 1 else j) + 1
    inside = i < 3 and j < 3
    p, q = _below(i + 2 * j, 2) if inside else 0, v & 3 if inside else 0
    return [element if i < 4 else 0, u if j < 4 else 0, p, q]


DEEP = """module m(input [1:0][2:0][3:0] a, input [1:0] i, j, input [2:0] k, input v, output y,
  output [3:0] row, output reg [1:0][2:0][3:0] w, output reg z, output reg [23:0] all);
logic [1:0][3:0] t [0:2]; integer p;
assign y = a[i][j][k], row = a[i][j];
always @* begin w = a; w[i][j][k] = ~a[0][1][2];
  for (p = 0; p < 3; p = p + 1) t[p] = a >> 8*p;
  t[i][k][j] = v; z = t[k][j][i]; all = {t[2], t[1], t[0]}; end
endmodule
"""


def _of_deep(a, i, j, k, v):
    n, inside = 12 * i + 4 * j + k, i < 2 and j < 3 and k < 4
    w = _put(a, 1 - (a >> 6 & 1), n, 1, 24) if inside else a
    written = _put(a, v, 8 * i + 4 * k + j, 1, 24) if i < 3 and k < 2 else a
    z = written >> (8 * k + 4 * j + i) & 1 if k < 3 and j < 2 else 0
    row = a >> (12 * i + 4 * j) & 15 if i < 2 and j < 3 else 0
    return [a >> n & 1 if inside else 0, row, w, z, written]


STRUCTURES = """typedef struct packed { logic [1:0][2:0] f; logic [3:0] lo; logic [1:0] op; } s_t;
typedef logic [1:0] two_t; typedef two_t [3:0] row_t; typedef logic [2:0] mem_t [0:4];
module m(input [11:0] x, input [2:0] i, j, input v, input row_t r, output y, output [3:0] lo,
  output [11:0] z, output [2:0] e, output b, output two_t q);
s_t s, t; mem_t u; assign s = x; assign y = s.f[i][j], lo = s.lo;
always_comb begin t = x; t.f[i][j] = v; t.op = s.op + 1;
  for (int k = 0; k < 5; k++) u[k] = r >> k; end
assign z = t, e = u[i], b = r[i][j], q = r[j];
endmodule
"""


def _of_structures(x, i, j, v, r):
    inside, n = i < 2 and j < 3, 6 + 3 * i + j
    t = _put(x, v, n, 1, 12) if inside else x
    t = t & ~3 | _below((x & 3) + 1, 2)
    element = r >> i & 7 if i < 5 else 0
    bit = r >> (2 * i + j) & 1 if i < 4 and j < 2 else 0
    return [x >> n & 1 if inside else 0, x >> 2 & 15, t, element, bit, r >> 2 * j & 3]


PARTS = """module m(input [9:0] a, input [1:0][7:0] b, input [1:0][0:7] c, input [23:0] d,
  input [3:0] i, input [1:0] j, output [3:0] up, down, output reg [9:0] w,
  output [2:0] iup, idown, rise, fall, output reg [1:0] e, output reg [23:0] f);
reg [7:0] t [0:2]; integer k;
assign up = a[i +: 4], down = a[i -: 4], iup = b[j][i +: 3], idown = b[j][i -: 3];
assign rise = c[j][i +: 3], fall = c[j][i -: 3];
always @* begin w = a; w[i +: 3] = 5; for (k = 0; k < 3; k = k + 1) t[k] = d[8*k +: 8];
  e = t[j][i[2:0] +: 2]; t[j][i[2:0] +: 2] = 2; f = {t[2], t[1], t[0]}; end
endmodule
"""


def _of_parts(a, b, c, d, i, j):
    b, c, near = b >> 8 * j & 255, c >> 8 * j & 255, i & 7
    element = d >> 8 * j & 255
    f = _put(d, _put(element, 2, near, 2, 8), 8 * j, 8, 24) if j < 3 else d
    return [
        *(_part(a, i, 4, 10), _part(a, i - 3, 4, 10), _put(a, 5, i, 3, 10)),
        *(_part(b, i, 3, 8), _part(b, i - 2, 3, 8)),
        *(_part(c, 5 - i, 3, 8), _part(c, 7 - i, 3, 8)),
        *(_part(element, near, 2, 8) if j < 3 else 0, f),
    ]


SIGNED = """module m(input signed [2:0] i, input [11:0] a, output signed [7:0] y, output lt,
  output signed [7:0] z);
reg signed [3:0] t [0:2]; always @* begin t[0] = a; t[1] = a >> 4; t[2] = a >> 8; end
wire signed [3:0] u; assign u = a; wire [3:-2] w = a;
assign y = t[i], lt = t[i] < t[0], z = u + w[i];
endmodule
"""


def _of_signed(i, a):
    i = _signed(i, 3)
    element = _signed(a >> 4 * i, 4) if 0 <= i <= 2 else 0
    last = _below((a & 15) + _part(a & 63, i + 2, 1, 6), 8)
    return [_below(element, 8), element < _signed(a, 4), last]


MACROS = """`define W 4
`define AT(m, i, j) m[i][j]
`define ROW(i) \\
  a[i]
module m(input [2:0][`W-1:0] a, input [1:0] i, input [2:0] \\j$ , output y, z, output [3:0] w);
wire [2:0] k = \\j$ ;
assign y = `AT(a, i,
  k), z = `ROW(1)[ /* a[0][9] */
  \\j$ ], w = `ROW(i);
endmodule
"""


def _of_macros(a, i, j):
    bit = a >> (4 * i + j) & 1 if i < 3 and j < 4 else 0
    return [bit, a >> (4 + j) & 1 if j < 4 else 0, a >> 4 * i & 15 if i < 3 else 0]


# Parts, lists, constants and copied bits with indices, each of which may lie past the end.
MOVING = """module m(input [1:0] i, input [3:0] j, input [3:0] b, input [6:0][7:0] a,
  output reg [2:0][3:0] y, output reg [1:0][3:0] l, output [3:0] p, output reg [6:0][7:0] z,
  output [3:0] t);
reg c; localparam [1:0][2:0][3:0] P = 24'h123456;
function automatic [2:0][3:0] f(); for (int k = 0; k < 3; k++) f[k] = 9 - k; endfunction
localparam [2:0][3:0] T = f();
always @* begin y = 12'habc; y[i][j +: 2] = b; l = 0; {l[i], c} = b; z = a; z[i][j] = a[j][i]; end
assign p = P[i[0]][j], t = T[i];
endmodule
"""


def _of_moving(i, j, b, a):
    row = _put(0xABC >> 4 * i & 15, b, j, 2, 4)
    y = _put(0xABC, row, 4 * i, 4, 12) if i < 3 else 0xABC
    z = _put(a, a >> (8 * j + i) & 1, 8 * i + j, 1, 56) if j < 8 else a
    constant = 0x123456 >> (12 * (i & 1) + 4 * j) & 15 if j < 3 else 0
    return [y, (b >> 1) << 4 * i if i < 2 else 0, constant, z, 9 - i if i < 3 else 0]


# Forms of SystemVerilog around arrays.
FORMS = """package p; typedef logic [3:0] n_t; typedef struct packed { n_t [2:0] v; logic on; } s_t;
function automatic n_t most(s_t s);
  most = 0; foreach (s.v[k]) if (s.v[k] > most) most = s.v[k]; endfunction endpackage
interface i_t; p::s_t s; p::n_t y; modport part(input s, output y); endinterface
module part(i_t.part i); assign i.y = i.s.on ? p::most(i.s) : 0; endmodule
module m import p::*; (output n_t z, input s_t b, a, input n_t u [0:2], output n_t y, w);
i_t i(); part q(i); assign i.s = a, z = i.y;
always_comb begin w = 9; foreach (u[k]) if (u[k] inside {3, [5:7]}) begin w = k; break; end end
assign y = b.v[a.v[0]];
endmodule
"""


def _of_forms(b, a, u):
    most = max(a >> 1 & 15, a >> 5 & 15, a >> 9 & 15) if a & 1 else 0
    found = [k for k in range(3) if (u >> 4 * (2 - k) & 15) in (3, 5, 6, 7)]
    place = a >> 1 & 15
    return [most, b >> (1 + 4 * place) & 15 if place < 3 else 0, (found or [9])[0]]


# Bits without a value that no output depends on.
UNREAD = """module m(input [1:0] s, input a, output y, output [1:0] z, output reg [1:0] c);
reg [1:0] r [0:3]; reg [3:0] unused [0:3]; integer k;
function [1:0] f(input s, a); begin f[0] = a; if (s) f[1] = a; end endfunction
wire [1:0] w = f(s[0], a);
always @* begin for (k = 0; k < 4; k = k + 1) r[k] = k;
  casex (s) 2'b1x: c = 3; 2'b01: c = 2; default: c = 0; endcase end
assign y = w[0], z = r[s];
endmodule
"""

DESIGNS = {
    "arithmetic and logic": (ALU, _of_alu),
    "a decoder": (DECODER, lambda s, e: [(1 << s if s < 5 else 0) if e else 31]),
    "tables": (ROM, _of_rom),
    "functions": (FUNCTIONS, _of_functions),
    "generate and instances": (GENERATE, _of_generate),
    "packed": (PACKED, _of_packed),
    "unpacked": (UNPACKED, _of_unpacked),
    "three dimensions": (DEEP, _of_deep),
    "structures and types": (STRUCTURES, _of_structures),
    "parts": (PARTS, _of_parts),
    "signed": (SIGNED, _of_signed),
    "macros, names and comments": (MACROS, _of_macros),
    "moving parts and lists": (MOVING, _of_moving),
    "packages and interfaces": (FORMS, _of_forms),
    "bits that nothing reads": (UNREAD, lambda s, a: [a, s, 3 if s > 1 else 2 * s]),
}


def _load(text, tmp_path):
    file = tmp_path / "mine.sv"
    file.write_text(text)
    return becalm.circuit.load(file)


@pytest.mark.parametrize("name", DESIGNS)
def test_a_design_computes_what_verilog_says(name, tmp_path, rng):
    text, function = DESIGNS[name]
    circuit = _load(text, tmp_path)
    for _ in range(200):
        values = [int(rng.integers(1 << width)) for _, width in circuit.inputs]
        got = circuit(*values)
        wanted = tuple(int(value) for value in function(*values))
        assert (got if isinstance(got, tuple) else (got,)) == wanted, values


@pytest.mark.parametrize("name", ["a decoder", "macros, names and comments", "signed"])
def test_a_design_runs_on_encrypted_bits(name, tmp_path, rng, toy):
    secret, server = toy
    text, function = DESIGNS[name]
    circuit = _load(text, tmp_path)
    program = circuit.compile("toy_2_2", progress=False)
    for _ in range(3):
        values = [int(rng.integers(1 << width)) for _, width in circuit.inputs]
        got = circuit.decrypt(secret, server.run(program, *circuit.encrypt(secret, *values)))
        wanted = tuple(int(value) for value in function(*values))
        assert (got if isinstance(got, tuple) else (got,)) == wanted, values


IN = "module m(input [1:0][3:0] a, input [1:0] i, input v, "
ELEMENTS = "always @* begin t[0] = v; t[1] = 0; t[2] = 0; t[3] = 0;"

#: A text, and its error: the line, and the words that the error quotes.
REFUSED = {
    "an index": (
        IN + "output y);\nassign y = a[0][6]; endmodule",
        *(2, "element 6 of 'logic[3:0]'`; keep every index"),
    ),
    "a parameter": (
        IN + "output y);\nlocalparam K = 4;\nassign y = a[1][K]; endmodule",
        *(3, "element 4 of 'logic[3:0]'`"),
    ),
    "a generate loop": (
        IN + "output [4:0] y);\ngenvar k;\ngenerate for (k = 0; k < 5; k = k + 1)\n"
        "assign y[k] = a[0][k]; endgenerate endmodule",
        *(4, "element 4 of 'logic[3:0]'`"),
    ),
    "a part": (IN + "output [1:0] y);\n\nassign y = a[0][4:3]; endmodule", 3, "range of [4:3]"),
    "a part of a width": (IN + "output [1:0] y);\nassign y = a[0][3+:2]; endmodule", 2, "[4:3]"),
    "beside a variable index": (
        IN + "output y);\nassign y = a[i[0]][5]; endmodule",
        2,
        "element 5",
    ),
    "in a condition": (
        IN + "output reg y);\nlocalparam K = 4;\nalways @* begin y = 0;\n"
        "if (a[0][K]) y = 1; end endmodule",
        *(4, "element 4 of 'logic[3:0]'`"),
    ),
    "of one dimension": (IN + "output y);\nassign y = v & i[2]; endmodule", 2, "element 2 of"),
    "written": (
        IN + "output reg [1:0][3:0] y);\nalways @* begin y = 0;\ny[0][4] = v; end endmodule",
        *(3, "element 4 of 'reg[3:0]'`"),
    ),
    "assigned": (
        IN + "output [1:0][3:0] y);\nassign y[1] = 0, y[0][3:0] = 3,\ny[0][5] = v; endmodule",
        *(3, "element 5 of 'logic[3:0]'`"),
    ),
    "an element, read": (
        IN + f"output reg y); reg t [0:3];\n{ELEMENTS}\ny = t[5] & v; end endmodule",
        *(3, "element 5 of"),
    ),
    "an element, written": (
        IN + f"output y); reg t [0:3];\n{ELEMENTS}\nt[4] = v; end assign y = t[0]; endmodule",
        *(3, "element 4 of"),
    ),
    "an element, assigned": (
        IN + "output y); wire t [0:3];\nassign t[0] = v, t[1] = v,\nt[4] = v, y = t[0]; endmodule",
        *(3, "element 4 of"),
    ),
    "too many indices": (
        IN + "output y);\nassign y = i[0][1]; endmodule",
        *(2, "scalar type cannot be indexed"),
    ),
    "a function": (
        IN + "output y);\nfunction f(input [1:0] s, input a);\n"
        "case (s) 0: f = a; 1: f = ~a; endcase endfunction\nassign y = f(i, v); endmodule",
        *(2, "`f`; give it a value in every case"),
    ),
    "a function of an instance": (
        "module s(input [1:0] a, output y);\nfunction f(input [1:0] a);\nif (a[0]) f = a[1];\n"
        "endfunction assign y = f(a); endmodule\n" + IN + "output y); s u(i, y); endmodule",
        *(2, "`u.f`; give it a value in every case"),
    ),
    "a variable of a function": (
        IN + "output y);\nfunction f(input s, a); reg t;\n"
        "begin if (s) t = a; f = t; end endfunction assign y = f(i[0], v); endmodule",
        *(2, "`f.t`; give it a value"),
    ),
    "a table with a hole": (
        IN + "output [3:0] y);\nreg [3:0] rom [0:3];\n"
        "initial begin rom[0] = 1; rom[1] = 2; rom[3] = 4; end\nassign y = rom[i]; endmodule",
        *(2, "`rom`; give it a value in every case, as by a default or by a word for every"),
    ),
    "a table with a hole in some bits": (
        IN + "output y);\n\nreg [3:0] rom [0:3];\n"
        "initial begin rom[0] = 9; rom[1] = 9; rom[2] = 9; end\nassign y = rom[i][0]; endmodule",
        *(3, "`rom`; give it a value"),
    ),
    "a memory without words": (
        IN + "output [3:0] y);\nreg [3:0] rom [0:3];\nassign y = rom[i]; endmodule",
        *(2, "`rom`; give it a value"),
    ),
    "an element that nothing writes": (
        IN + "output reg y);\nreg t [0:3];\n"
        "always @* begin t[0] = v; t[1] = 1; t[2] = 0; y = t[i]; end endmodule",
        *(2, "`t`; give it a value"),
    ),
    "a constant": (
        IN + "output [1:0] y);\nfunction [1:0] f(input integer k); if (k == 1) f = 3; endfunction\n"
        "localparam [1:0] T = f(0);\nassign y = v ? i : T; endmodule",
        *(4, "`2'x`; give it a value"),
    ),
    "the last word of a constant table": (
        IN + "output [3:0] y); typedef logic [3:0][3:0] t_t;\nfunction automatic t_t f();\n"
        "for (int k = 0; k < 3; k++) f[k] = k; endfunction\nlocalparam t_t T = f();\n"
        "assign y = T[i]; endmodule",
        *(4, "`T`; give it a value"),
    ),
    "an argument of a task that keeps its value": (
        IN + "output reg y);\ntask t(inout r);\nr = ~r; endtask\n"
        "always @* begin y = v;\nt(y); end endmodule",
        *(5, "unsupported language feature"),
    ),
    "a signal that nothing drives": (
        IN + "output y);\nwire w;\nassign y = v & w; endmodule",
        *(2, "`w`; assign every bit"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_value_is_refused(name, tmp_path):
    text, line, says = REFUSED[name]
    with pytest.raises(becalm.BadInput) as refused:
        _load(text, tmp_path)
    said = str(refused.value)
    assert f"in line {line} of " in said and "mine.sv" in said, said
    assert says in said, said


@pytest.mark.parametrize(
    "process",
    [
        "always @(posedge c) q <= d;",
        "always @* if (c) q = d;",
        "always @* case (d) 0: q = 1; 1: q = 2; endcase",
        "always_comb if (c) q = d;",
        "always_comb case (d) 0: q = 1; 1: q = 2; endcase",
    ],
)
def test_memory_is_named_as_the_text_names_it(process, tmp_path):
    text = f"module m(input c, input [1:0] d, output reg [1:0] q);\n{process}\nendmodule\n"
    with pytest.raises(becalm.BadInput, match="got memory for `q`; take registers out"):
        _load(text, tmp_path)


def test_a_variable_that_a_task_keeps_is_memory(tmp_path):
    text = IN + "output reg y);\ntask t(input s, a, output r);\nif (s) r = a; endtask\n"
    with pytest.raises(becalm.BadInput, match=r"got memory for `t\.r`; take registers out"):
        _load(text + "always @* t(i[0], v, y); endmodule", tmp_path)


def test_ports_come_in_the_order_of_the_header(tmp_path):
    text = "module m(z, b, y, a);\ninput a; input [1:0] b; output y; output z;\n"
    circuit = _load(text + "assign y = a, z = b[1]; endmodule", tmp_path)
    assert circuit.inputs == [("b", 2), ("a", 1)] and circuit.outputs == [("z", 1), ("y", 1)]
    assert circuit(2, 0) == (1, 0)
