"""Proofs of the arithmetic, for all inputs: Yosys makes formulas of a unit, z3 checks the claim.

A unit is a pipeline without feedback: its registers become wires, and what is left is its function.
python rtl/prove.py
"""

import argparse
import importlib.util
import sys
import tempfile
from pathlib import Path

RTL = Path(__file__).resolve().parent
P = 2**64 - 2**32 + 1
# Registers are wires: flip-flops of every kind that the units have.
WIRES = """(* techmap_celltype = "$dff" *)
module wires(input CLK, input [WIDTH-1:0] D, output [WIDTH-1:0] Q);
  parameter WIDTH = 1;
  parameter CLK_POLARITY = 1;
  assign Q = D;
endmodule
"""


class Unit:
    """A module's outputs as terms over its inputs."""

    def __init__(self, top, **parameters):
        import z3
        from pyosys import libyosys

        with tempfile.TemporaryDirectory() as folder:
            wires, smt = Path(folder) / "wires.v", Path(folder) / "unit.smt2"
            wires.write_text(WIRES)
            design = libyosys.Design()
            sources = " ".join(str(p) for p in sorted(RTL.glob("*/*.sv")))
            set_all = " ".join(f"-chparam {k} {v}" for k, v in parameters.items())
            for command in (
                f"read_verilog -sv -defer -I{RTL / 'ntt'} {sources}",
                f"hierarchy -check -top {top} {set_all}",
                "proc",
                "flatten",
                f"techmap -map {wires}",
                "opt_clean",
                f"rename -top {top}",
                f"write_smt2 -wires {smt}",
            ):
                design.run_pass(f"tee -q {command}")
            self.text = smt.read_text()
        self.name, self.z3 = top, z3

    def terms(self, *names):
        """The state's declaration, and the named ports as terms."""
        z3, solver = self.z3, self.z3.Solver()
        wanted = " ".join(f"(= |probe {n}| (|{self.name}_n {n}| s))" for n in names)
        width = {n: self.width(n) for n in names}
        probes = "".join(
            f"(declare-fun |probe {n}| () {f'(_ BitVec {w})' if w > 1 else 'Bool'})\n"
            for n, w in width.items()
        )
        state = f"(declare-fun s () |{self.name}_s|)\n"
        solver.from_string(f"{self.text}\n{state}{probes}(assert (and {wanted} true))")
        bits = {n: z3.BitVec if w > 1 else lambda name, _: z3.Bool(name) for n, w in width.items()}
        return solver, [bits[n](f"probe {n}", width[n]) for n in names]

    def width(self, name):
        """The width of a port, from Yosys' comments."""
        for line in self.text.splitlines():
            words = line.split()[1:]
            if words[:2] in (["yosys-smt2-input", name], ["yosys-smt2-output", name]):
                return int(words[2])
        raise KeyError(name)


def refuted(solver, z3, claim, *assumptions):
    solver.add(*assumptions, z3.Not(claim))
    result = solver.check()
    if result != z3.unsat:
        print(f"  counterexample: {solver.model() if result == z3.sat else result}")
    return result == z3.unsat


def addition():
    solver, (a, b, s, d) = (unit := Unit("gl_addsub")).terms("a", "b", "sum", "difference")
    z3 = unit.z3
    wide = [z3.ZeroExt(4, x) for x in (a, b, s, d)]
    total, less = wide[0] + wide[1], wide[0] + P - wide[1]
    exact = [z3.Or(y == v, y + P == v) for y, v in ((wide[2], total), (wide[3], less))]
    small = [z3.ULT(a, P), z3.ULT(b, P)]
    return refuted(solver, z3, z3.And(*exact, z3.ULT(s, P), z3.ULT(d, P)), *small)


def reduction():
    solver, (lo, mid, top, y) = (unit := Unit("gl_reduce")).terms("lo", "mid", "top", "y")
    z3 = unit.z3
    lo, mid, wide_top, wide = (z3.ZeroExt(68 - x.size(), x) for x in (lo, mid, top, y))
    value = lo + (mid << 32) - mid + P - wide_top
    exact = z3.Or(*(wide + m * P == value for m in range(4)))
    return refuted(solver, z3, z3.And(exact, z3.ULT(y, P)), z3.ULT(top, P))


def shift():
    """x·2^e for every e = 3·m up to 96: 2^64 = 2^32 − 1 and 2^96 = −1 reduce the shifted words."""
    good = True
    for base in (0, 3):
        unit = Unit("gl_shift", BASE=base, BITS=5)
        solver, (x, select, y) = unit.terms("x", "select", "y")
        z3 = unit.z3
        exponent = z3.BitVecVal(base, 160)
        for i in range(5):
            bit = z3.ZeroExt(159, z3.Extract(i, i, select))
            exponent = exponent + bit * (48 >> i)
        shifted = z3.ZeroExt(96, x) << exponent
        words = [z3.Extract(high, low, shifted) for high, low in ((63, 0), (95, 64), (159, 96))]
        lo, mid, top, wide = (z3.ZeroExt(68 - w.size(), w) for w in (*words, y))
        value = lo + (mid << 32) - mid + P - top
        exact = z3.Or(*(wide + m * P == value for m in range(4)))
        good &= refuted(solver, z3, z3.And(exact, z3.ULT(y, P)), z3.ULT(x, P))
    return good


def decomposition():
    """Digits are balanced and recompose to within half a unit, for two levels of ten bits."""
    solver, (a, digits) = (unit := Unit("decompose", LEVEL=2, BASE_LOG=10)).terms("a", "digits")
    z3 = unit.z3
    signed = lambda x: z3.If(z3.UGT(x, P // 2), z3.ZeroExt(6, x) - P, z3.ZeroExt(6, x))  # noqa: E731
    low, high = signed(z3.Extract(63, 0, digits)), signed(z3.Extract(127, 64, digits))
    bound = [low >= -512, low < 512, high >= -512, high <= 512]
    error = signed(a) - (high << 54) - (low << 44)
    return refuted(solver, z3, z3.And(*bound, error >= -(1 << 43), error < 1 << 43), z3.ULT(a, P))


def rotation():
    """Coefficient j is number j − e, or e − j reversed, with its sign: N = 16, T = 4."""
    unit = Unit("rotate", LOGN=4, LOGT=2)
    names = ("exponent", "reverse", "row", "read_row", "read", "out")
    solver, (e, reverse, row, read_row, read, out) = unit.terms(*names)
    z3 = unit.z3
    right = []
    for lane in range(4):
        j = z3.ZeroExt(3, row) + 4 * lane
        source = z3.If(reverse, e - j, j - e)
        right.append(z3.Extract(1, 0, source) == read_row)
        word = z3.Extract(63, 0, z3.LShR(read, z3.ZeroExt(254, z3.Extract(3, 2, source)) * 64))
        turned = z3.If(z3.And(z3.Extract(4, 4, source) == 1, word != 0), P - word, word)
        right.append(z3.Extract(64 * lane + 63, 64 * lane, out) == turned)
    return refuted(solver, z3, z3.And(*right))


def main():
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    for module in ("pyosys", "z3"):
        if importlib.util.find_spec(module) is None:
            print(f"proofs: skipped, no {module} (`make rtl` installs it into .venv)")
            return 0
    proofs = (addition, reduction, shift, decomposition, rotation)
    good = True
    for proof in proofs:
        proven = proof()
        good &= proven
        print(f"{proof.__name__}: {'proven for all inputs' if proven else 'WRONG'}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
