"""Circuits that the compiler was not tuned on, as BLIF: arithmetic, selection, gates, tables."""

from __future__ import annotations

import math
import random
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

#: ABC's mappings to tables of three and of four inputs, and the best of other scripts.
SCRIPTS = (
    *("if -K 3", "if -K 4", "if -a -K 3", "if -a -K 4"),
    *("dch; if -K 3; mfs2", "dch; if -K 4; mfs2"),
)
#: From the function of all inputs, which is worth a try where these are few. ABC gives up where
#: the decision diagram or the products are too many.
FLAT = tuple(
    f"collapse -B 65536; sop -C 16000; fx; strash; dch; {mapping}"
    for mapping in ("if -K 3; mfs2", "if -a -K 3; mfs2 -a", "if -K 4; mfs2")
)
#: So many.
FEW = 32


def scripts(text: str) -> tuple[str, ...]:
    """Those that a circuit is compared with."""
    lines = text.replace("\\\n", " ").splitlines()
    inputs = next(line for line in lines if line.startswith(".inputs")).split()
    return SCRIPTS + FLAT if len(inputs) <= FEW + 1 else SCRIPTS


def mapped(abc: str, path: Path, script: str) -> tuple[int, int] | None:
    """Tables, and the longest path, of ABC's mapping; none of a flat form that it gives up."""
    commands = f"read_blif {path}; strash; {script}; print_stats"
    said = subprocess.run([abc, "-s", "-q", commands], text=True, capture_output=True, check=True)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", said.stdout)
    figures = [re.search(rf"{name}\s*=\s*(\d+)", plain) for name in ("nd", "lev")]
    if script in FLAT and None in figures:
        return None
    tables, levels = (int(figure[1]) for figure in figures)
    return tables, levels


class Builder:
    """Tables of BLIF, one for each gate."""

    def __init__(self) -> None:
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.lines: list[str] = []

    def input(self, name: str, width: int) -> list[str]:
        """The bits of a port, the least significant first."""
        bits = [f"{name}[{i}]" for i in range(width)]
        self.inputs += bits
        return bits

    def output(self, name: str, bits: list[str]) -> None:
        """A port of these bits."""
        for i, bit in enumerate(bits):
            self.outputs.append(f"{name}[{i}]")
            self.lines.append(f".names {bit} {name}[{i}]\n1 1")

    def table(self, rows: str, *inputs: str) -> str:
        """A gate by its products."""
        name = f"t{len(self.lines)}"
        self.lines.append(f".names {' '.join([*inputs, name])}\n{rows}".rstrip())
        return name

    def both(self, a: str, b: str) -> str:
        return self.table("11 1", a, b)

    def either(self, a: str, b: str) -> str:
        return self.table("1- 1\n-1 1", a, b)

    def one(self, a: str, b: str) -> str:
        return self.table("10 1\n01 1", a, b)

    def no(self, a: str) -> str:
        return self.table("0 1", a)

    def bit(self, value: int) -> str:
        return self.table("1" if value else "")

    def choose(self, which: str, yes: str, no: str) -> str:
        return self.table("11- 1\n0-1 1", which, yes, no)

    def add(self, a: list[str], b: list[str]) -> list[str]:
        """The bits of a sum, and the carry."""
        carry, found = self.bit(0), []
        for i in range(max(len(a), len(b))):
            x, y = (v[i] if i < len(v) else self.bit(0) for v in (a, b))
            half = self.one(x, y)
            found.append(self.one(half, carry))
            carry = self.either(self.both(x, y), self.both(half, carry))
        return [*found, carry]

    def less(self, a: list[str], b: list[str]) -> str:
        """a < b, from the lowest bit on."""
        found = self.bit(0)
        for x, y in zip(a, b, strict=True):
            same = self.no(self.one(x, y))
            found = self.either(self.both(self.no(x), y), self.both(same, found))
        return found

    def subtract(self, a: list[str], b: list[str]) -> tuple[list[str], str]:
        """a - b, and whether it is 0 or more."""
        *found, carry = self.add(self.add(a, [self.no(w) for w in b])[:-1], [self.bit(1)])
        return found, carry

    def remainder(self, a: list[str], by: int) -> list[str]:
        """The remainder of a division by a constant, a bit at a time from the highest."""
        width = by.bit_length()
        divisor = [self.bit(by >> i & 1) for i in range(width + 1)]
        rest = [self.bit(0)] * width
        for w in reversed(a):
            shifted = [w, *rest]
            fits = self.no(self.less(shifted, divisor))
            less, _ = self.subtract(shifted, divisor)
            rest = self.each(fits, less, shifted)[:width]
        return rest

    def none(self, bits: list[str]) -> str:
        """Whether all bits are 0."""
        found = self.bit(1)
        for w in bits:
            found = self.both(found, self.no(w))
        return found

    def each(self, which: str, yes: list[str], no: list[str]) -> list[str]:
        return [self.choose(which, y, n) for y, n in zip(yes, no, strict=True)]

    def text(self) -> str:
        """The circuit."""
        head = [".model m", ".inputs " + " ".join(self.inputs)]
        return "\n".join([*head, ".outputs " + " ".join(self.outputs), *self.lines, ".end\n"])


def adder(b: Builder) -> None:
    b.output("s", b.add(b.input("a", 24), b.input("b", 24)))


def three_sums(b: Builder) -> None:
    x, y, z = (b.input(n, 10) for n in "abc")
    b.output("s", b.add(b.add(x, y), z))


def negation(b: Builder) -> None:
    x = b.input("a", 20)
    b.output("s", b.add([b.no(w) for w in x], [b.bit(1)])[:20])


def increment(b: Builder) -> None:
    b.output("s", b.add(b.input("a", 48), [b.bit(1)])[:48])


def product(b: Builder) -> None:
    x, y = b.input("a", 6), b.input("b", 6)
    total = [b.both(w, y[0]) for w in x]
    for i in range(1, 6):
        total[i:] = b.add(total[i:], [b.both(w, y[i]) for w in x])
    b.output("p", total[:12])


def rotation(b: Builder) -> None:
    x, s = b.input("a", 32), b.input("s", 5)
    for k, which in enumerate(s):
        x = b.each(which, x[1 << k :] + x[: 1 << k], x)
    b.output("y", x)


def shift(b: Builder) -> None:
    x, s = b.input("a", 16), b.input("s", 4)
    for k, which in enumerate(s):
        x = b.each(which, x[1 << k :] + [b.bit(0)] * (1 << k), x)
    b.output("y", x)


def multiplexer(b: Builder) -> None:
    x, s = b.input("a", 64), b.input("s", 6)
    for which in s:
        x = b.each(which, x[1::2], x[::2])
    b.output("y", x)


def comparison(b: Builder) -> None:
    b.output("l", [b.less(b.input("a", 32), b.input("b", 32))])


def sorter(b: Builder) -> None:
    x, y = b.input("a", 12), b.input("b", 12)
    less = b.less(x, y)
    b.output("least", b.each(less, x, y))
    b.output("most", b.each(less, y, x))


def priority(b: Builder) -> None:
    none, found = b.bit(1), []
    for w in b.input("a", 32):
        found.append(b.both(none, w))
        none = b.both(none, b.no(w))
    b.output("g", found)


def encoder(b: Builder) -> None:
    none, number = b.bit(1), [b.bit(0) for _ in range(5)]
    for i, w in enumerate(b.input("a", 32)):
        first = b.both(none, w)
        number = [b.either(n, first) if i >> k & 1 else n for k, n in enumerate(number)]
        none = b.both(none, b.no(w))
    b.output("e", number)


def population(b: Builder) -> None:
    x = b.input("a", 31)
    total = x[:1]
    for w in x[1:]:
        total = b.add(total, [w])
    b.output("c", total[:5])


def decoder(b: Builder) -> None:
    x, found = b.input("a", 6), [b.bit(1)]
    for w in x:
        found = [b.both(f, v) for v in (b.no(w), w) for f in found]
    b.output("d", found)


def floats(b: Builder) -> None:
    """a < b of 16 bits: a sign, 5 of the exponent, 10 of the mantissa."""
    x, y = b.input("a", 16), b.input("b", 16)
    less, more = b.less(x[:15], y[:15]), b.less(y[:15], x[:15])
    some, numbers = b.bit(0), b.bit(1)
    for w in x[:15] + y[:15]:
        some = b.either(some, w)
    for v in (x, y):
        top, rest = b.bit(1), b.bit(0)
        for w in v[10:15]:
            top = b.both(top, w)
        for w in v[:10]:
            rest = b.either(rest, w)
        numbers = b.both(numbers, b.no(b.both(top, rest)))
    alike = b.choose(x[15], more, less)
    found = b.choose(b.one(x[15], y[15]), b.both(x[15], some), alike)
    b.output("l", [b.both(found, numbers)])


def gray(b: Builder) -> None:
    found: list[str] = []
    for w in reversed(b.input("a", 24)):
        found.append(b.one(found[-1], w) if found else w)
    b.output("g", found)


def machine(b: Builder) -> None:
    x, y, op = b.input("a", 8), b.input("b", 8), b.input("op", 2)
    found = []
    for p, q, s in zip(x, y, b.add(x, y)[:8], strict=True):
        first = b.choose(op[0], b.both(p, q), s)
        found.append(b.choose(op[1], b.choose(op[0], b.either(p, q), b.one(p, q)), first))
    b.output("r", found)


def gates(b: Builder, seed: int, count: int) -> None:
    """Random gates, mostly of what came just before."""
    choice = random.Random(seed)
    wires = b.input("x", 16)
    for _ in range(count):
        x = wires[-1 - choice.randrange(min(20, len(wires)))]
        y = wires[-1 - choice.randrange(min(60, len(wires)))]
        rows = choice.choice(["11 1", "10 1\n01 1", "1- 1\n-1 1", "01 1"])
        wires.append(b.table(rows, x, y))
    b.output("y", wires[-8:])


def arbiter(b: Builder) -> None:
    """The first request from a place on, of six in a ring; none for places 6 and 7."""
    asked, place = b.input("r", 6), b.input("p", 3)
    at = [b.bit(1)]
    for w in place:
        at = [b.both(x, v) for v in (b.no(w), w) for x in at]
    granted = [b.bit(0)] * 6
    for first in range(6):
        free = at[first]
        for k in (i % 6 for i in range(first, first + 6)):
            granted[k] = b.either(granted[k], b.both(free, asked[k]))
            free = b.both(free, b.no(asked[k]))
    b.output("g", granted)


def square(b: Builder) -> None:
    x = b.input("a", 6)
    total = [b.both(w, x[0]) for w in x]
    for i in range(1, 6):
        total[i:] = b.add(total[i:], [b.both(w, x[i]) for w in x])
    b.output("p", total[:12])


def leap_year(b: Builder, width: int = 12) -> None:
    year = b.input("y", width)
    fourth, hundredth = b.none(year[:2]), b.none(b.remainder(year, 100))
    every = b.none(b.remainder(year, 400))
    b.output("l", [b.both(fourth, b.either(b.no(hundredth), every))])


def brackets(b: Builder) -> None:
    """Whether 16 brackets are balanced; 1 closes one."""
    some, depth = b.bit(0), [b.bit(0)] * 5
    for closes in b.input("x", 16):
        some = b.either(some, b.both(closes, b.none(depth)))
        depth = b.add(depth, [b.bit(1), *[closes] * 4])[:5]
    b.output("o", [b.both(b.no(some), b.none(depth))])


def longest_run(b: Builder) -> None:
    """The longest run of ones in 20 bits, 7 at most."""
    run, longest = [b.bit(0)] * 3, [b.bit(0)] * 3
    for w in b.input("x", 20):
        grown = b.add(run, [b.bit(1)])
        grown = b.each(grown[3], run, grown[:3])
        run = [b.both(w, v) for v in grown]
        longest = b.each(b.less(longest, run), run, longest)
    b.output("y", longest)


def remainder_by_5(b: Builder) -> None:
    b.output("r", b.remainder(b.input("a", 10), 5))


def slice_of_4(b: Builder) -> None:
    """The arithmetic of the 74181: four bits, a choice of functions, with carries or without."""
    x, y, s = (b.input(n, 4) for n in "xys")
    mode, carry = b.input("m", 1)[0], b.input("c", 1)[0]
    found, equal = [], b.bit(1)
    for p, q in zip(x, y, strict=True):
        either = b.either(b.both(q, s[0]), b.both(b.no(q), s[1]))
        some = b.either(p, either)
        kept = b.either(b.both(b.no(q), s[2]), b.both(q, s[3]))
        most = b.both(p, kept)
        half = b.one(some, most)
        found.append(b.one(half, b.both(b.no(mode), carry)))
        carry = b.either(most, b.both(some, carry))
        equal = b.both(equal, found[-1])
    b.output("f", found)
    b.output("e", [equal, carry])


def decimal_sum(b: Builder) -> None:
    """Two decimal digits and a carry: a digit and a carry."""
    total = b.add(b.input("a", 4), b.input("b", 4))
    total = b.add(total, b.input("c", 1))[:5]
    over = b.either(total[4], b.both(total[3], b.either(total[2], total[1])))
    six = [b.bit(0), over, over]
    b.output("d", b.add(total[:4], six)[:4])
    b.output("o", [over])


def rows(b: Builder, inputs: int, outputs: int, function: Callable[[int], int]) -> None:
    """A table for each output bit of a function, with a row for each input where it is 1."""
    x, found = b.input("x", inputs), []
    for k in range(outputs):
        ones = (v for v in range(1 << inputs) if function(v) >> k & 1)
        lines = (f"{v:0{inputs}b}"[::-1] + " 1" for v in ones)
        found.append(b.table("\n".join(lines), *x))
    b.output("y", found)


def decimal(v: int) -> int:
    return v // 10 << 4 | v % 10


def prime(v: int) -> int:
    return int(v > 1 and all(v % d for d in range(2, v)))


def sine(v: int) -> int:
    return round(63 * math.sin(v * math.pi / 256))


def noise(seed: int, inputs: int, outputs: int) -> Callable[[int], int]:
    choice = random.Random(seed)
    found = [choice.getrandbits(outputs) for _ in range(1 << inputs)]
    return lambda v: found[v]


def field_product(v: int) -> int:
    """The product of two numbers of four bits modulo x^4 + x + 1."""
    found = 0
    for i in range(4):
        found ^= (v & 15) << i if v >> 4 + i & 1 else 0
    for i in (6, 5, 4):
        found ^= 0x13 << i - 4 if found >> i & 1 else 0
    return found


SEGMENTS = bytes.fromhex("3f065b4f666d7d077f6f777c395e7971")
S_BOX = bytes.fromhex("0c05060b09000a0d030e0f0804070102")

#: Functions as rows: inputs, outputs, and the value.
TABLES: dict[str, tuple[int, int, Callable[[int], int]]] = {
    "root, 8 bits": (8, 4, math.isqrt),
    "decimal digits, 7 bits": (7, 8, decimal),
    "majority of 9": (9, 1, lambda v: int(v.bit_count() > 4)),
    "primes, 8 bits": (8, 1, prime),
    "remainder by 7, 8 bits": (8, 3, lambda v: v % 7),
    "sine, 7 bits": (7, 6, sine),
    "square modulo 61, 6 bits": (6, 6, lambda v: v * v % 61),
    "three or four of 10": (10, 1, lambda v: int(v.bit_count() in (3, 4))),
    "random functions, 6 bits": (6, 4, noise(11, 6, 4)),
    "random functions, 7 bits": (7, 3, noise(12, 7, 3)),
    "random function, 9 bits": (9, 1, noise(13, 9, 1)),
    "product of a field of 16": (8, 4, field_product),
    "seven segments": (4, 7, SEGMENTS.__getitem__),
    "S-box, 4 bits": (4, 4, S_BOX.__getitem__),
}

#: Outputs are tables of four inputs, which ABC counts as they are. tfhe_2_2 has no room for the
#: noise of four inputs that are told apart (1 + 4 + 16 + 64 = 85 of 25, with which a bootstrap
#: fails with 2^-123.5 instead of 2^-129.6). So one input is refreshed, by one bootstrap for all.
#: The 74181 takes two more. So many bootstraps more than tables:
REFRESHED = {"seven segments": 1, "S-box, 4 bits": 1, "74181": 2}


NAMED: dict[str, Callable[[Builder], None]] = {
    "adder, 24 bits": adder,
    "sum of three, 10 bits": three_sums,
    "negation, 20 bits": negation,
    "increment, 48 bits": increment,
    "product, 6 bits": product,
    "rotation, 32 bits": rotation,
    "shift, 16 bits": shift,
    "multiplexer of 64": multiplexer,
    "comparison, 32 bits": comparison,
    "least and most, 12 bits": sorter,
    "priority of 32": priority,
    "encoder of 32": encoder,
    "sum of 31 bits": population,
    "decoder, 6 bits": decoder,
    "comparison of floats, 16 bits": floats,
    "Gray code, 24 bits": gray,
    "arithmetic and logic, 8 bits": machine,
    "arbiter of 6": arbiter,
    "square, 6 bits": square,
    "leap year, 12 bits": leap_year,
    "remainder by 5, 10 bits": remainder_by_5,
    "74181": slice_of_4,
    "decimal sum": decimal_sum,
}


#: Those that came later: a test takes every sixth of all.
LATER: dict[str, Callable[[Builder], None]] = {
    "leap year, 16 bits": lambda b: leap_year(b, 16),
    "brackets, 16": brackets,
    "longest run in 20 bits": longest_run,
}


def circuits() -> Iterator[tuple[str, str]]:
    """Name and text of each."""
    for name, make in NAMED.items():
        builder = Builder()
        make(builder)
        yield name, builder.text()
    for name, (inputs, outputs, function) in TABLES.items():
        builder = Builder()
        rows(builder, inputs, outputs, function)
        yield name, builder.text()
    for seed in range(6):
        builder = Builder()
        gates(builder, seed, 150)
        yield f"random gates, seed {seed}", builder.text()
    for name, make in LATER.items():
        builder = Builder()
        make(builder)
        yield name, builder.text()
