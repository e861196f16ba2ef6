"""Programs: many instructions, recorded first, then checked, priced and run as one."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, overload

from becalm import _html, _native, _public, _values
from becalm._names import CkksName
from becalm._native import Params
from becalm._values import TableSource
from becalm.errors import BadInput

if TYPE_CHECKING:
    from becalm._ckks_program import Program as CkksProgram

__all__ = ["Cost", "Program", "Register", "Table", "TfheProgram"]
__dir__ = _public.names(__all__)


@dataclass(frozen=True)
class Cost(_html.Shown):
    """The cost of a program."""

    #: Bootstraps for each lane.
    bootstraps: int
    #: Key switches for each lane.
    key_switches: int
    #: Linear combinations for each lane.
    linear: int
    #: Bootstraps on the longest path.
    depth: int
    #: Steps, each of many independent instructions.
    waves: int
    #: Most bytes of ciphertexts at once for each lane.
    bytes_per_lane: int
    #: Values computed side by side.
    lanes: int = 1
    #: Estimate from the server's last run; `None` before its first.
    seconds: float | None = None

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        return "becalm.Cost", [
            ("bootstraps", f"{self.bootstraps:,}"),
            ("bootstraps one after another", f"{self.depth:,}"),
            ("key switches", f"{self.key_switches:,}"),
            ("linear combinations", f"{self.linear:,}"),
            ("waves", f"{self.waves:,}"),
            ("memory for each lane", _values.megabytes(self.bytes_per_lane)),
            ("lanes", f"{self.lanes:,}"),
            ("seconds, about", None if self.seconds is None else f"{self.seconds:.3g}"),
        ]

    def __str__(self) -> str:
        time = "" if self.seconds is None else f", about {self.seconds:.3g} s"
        return (
            f"{self.bootstraps} bootstraps (depth {self.depth}), {self.key_switches} key switches, "
            f"{self.linear} linear, {self.waves} waves, {self.bytes_per_lane} bytes "
            f"per lane, {self.lanes} lanes{time}"
        )


class Table(_html.Shown):
    """A lookup table for one parameter set, made once and used often.

    `source` is a function of one value, the list of its entries, or a list of functions or lists
    that are looked up together by one rotation (with t of them, each sees the values below
    `message` / t). `message` is how many values the input's encoding has, `out` that of the
    results; by default those of the set.
    """

    __slots__ = ("_native", "many", "out", "params")

    def __init__(
        self,
        params: Any,
        source: TableSource,
        *,
        message: int | None = None,
        out: int | None = None,
    ) -> None:
        #: The parameter set.
        self.params = _values.set_of("table", params)
        values = (
            self.params.values if message is None else _values.count("table", "message", message)
        )
        #: How many values the results have.
        self.out = values if out is None else _values.count("table", "out", out)
        rows, self.many = _values.tables(source, values, values - 1)
        self._native = _native.Table(self.params, values, self.out, True, rows)

    @property
    def message(self) -> int:
        """How many values the encoding of the input has."""
        return self._native.values

    def __len__(self) -> int:
        return len(self._native)

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        return "becalm.Table", [
            ("tables", len(self)),
            ("looked up", f"modulo {self.message}"),
            ("results", f"modulo {self.out}"),
            ("parameter set", self.params.name),
        ]

    def __repr__(self) -> str:
        many = f"{len(self)} tables" if self.many else "one table"
        return (
            f"<becalm.Table of {many}, values modulo {self.message} to values modulo {self.out}, "
            f"{self.params.name}>"
        )


class Register:
    """A value of a program, not yet computed. `+`, `-` and integer `*` record instructions."""

    __slots__ = ("_index", "program")

    def __init__(self, program: TfheProgram, index: int) -> None:
        #: The program that it belongs to.
        self.program = program
        self._index = index

    @property
    def message(self) -> int:
        """How many values its encoding has."""
        return self._info()[0]

    @property
    def range(self) -> tuple[int, int]:
        """Least and greatest value that it may have."""
        return self._info()[2:]

    def __add__(self, other: Any) -> Register:
        if isinstance(other, Register):
            return self.program.linear([(1, self), (1, other)])
        return _with_integer(other, lambda c: self.program.linear([(1, self)], c))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Register:
        if isinstance(other, Register):
            return self.program.linear([(1, self), (-1, other)])
        return _with_integer(other, lambda c: self.program.linear([(1, self)], -c))

    def __rsub__(self, other: Any) -> Register:
        return _with_integer(other, lambda c: self.program.linear([(-1, self)], c))

    def __mul__(self, other: Any) -> Register:
        return _with_integer(other, lambda c: self.program.linear([(c, self)]))

    __rmul__ = __mul__

    def __neg__(self) -> Register:
        return self.program.linear([(-1, self)])

    def __repr__(self) -> str:
        name = f"<becalm.Register {self._index}"
        if self.program._native.is_table(self._index):
            return f"{name}: an encrypted table>"
        low, high = self.range
        return f"{name}: values {low} to {high} modulo {self.message}>"

    def _info(self) -> tuple[int, bool, int, int]:
        info = self.program._native.info(self._index)
        if info is None:
            raise BadInput("register", "a register of the program", "another", "record it again")
        return info


class Program(_html.Shown):
    """Instructions for one parameter set, recorded one by one and run at once by `Server.run`.

    ```python
    p = becalm.Program("tfhe_2_2")
    a, b = p.input(below=4), p.input(below=4)
    p.output(p.lookup(a + b, lambda m: m // 2))
    print(p.cost)
    ```

    The name of a set of CKKS gives a `becalm.ckks.Program`, of which the registers are vectors:

    ```python
    q = becalm.Program("ckks_n14")
    x, y = q.input(), q.input()
    q.output((x * y).rotate(1) + 0.5)
    secret, server = becalm.keygen("ckks_n14", needs=q.needs)
    ```

    Both have `input`, `output`, `cost`, `save`, `to_bytes` and `from_bytes`, and run by
    `server.run(program, ...)`.
    """

    __slots__ = ("_native",)
    _native: _native.Program | _native.CkksProgram
    _schemes: ClassVar[dict[str, type[Program]]] = {}

    def __init_subclass__(cls, scheme: str, **more: Any) -> None:
        super().__init_subclass__(**more)
        Program._schemes[scheme] = cls

    @overload
    def __new__(
        cls,
        params: CkksName,
        *,
        slots: int | None = ...,
        bootstrap: str = ...,
        auto: bool = ...,
    ) -> CkksProgram: ...
    @overload
    def __new__(cls, params: Any = ...) -> TfheProgram: ...
    def __new__(cls, params: Any = "tfhe_2_2", **options: Any) -> Any:
        ckks = isinstance(params, str) and params.startswith("ckks")
        return object.__new__(Program._schemes["ckks" if ckks else "tfhe"])

    @property
    def inputs(self) -> int:
        """Number of arguments."""
        return len(self._native.inputs)

    @property
    def outputs(self) -> int:
        """Number of results."""
        return len(self._native.outputs)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program to a file, for `becalm.load`."""
        self._native.save(_values.path("save", path))

    def to_bytes(self) -> bytes:
        """The file of `save` in memory, for the network; `from_bytes` reads it."""
        return self._native.to_bytes()

    @classmethod
    def from_bytes(
        cls, file: bytes, *, allow_insecure: bool = False, limit: int | None = None
    ) -> Program:
        """A program of either scheme from the bytes of a file, checked as by `becalm.load`."""
        kind, _ = _native.kind_of_bytes(_values.data("from_bytes", file))
        found = Program._schemes["ckks" if kind == "becalm.ckks_program" else "tfhe"]
        return found.from_bytes(file, allow_insecure=allow_insecure, limit=limit)

    def __len__(self) -> int:
        return len(self._native)


class TfheProgram(Program, scheme="tfhe"):
    """A `becalm.Program` of TFHE."""

    __slots__ = ()

    def __new__(cls, params: Any = "tfhe_2_2") -> TfheProgram:
        made: TfheProgram = object.__new__(cls)
        return made

    def __init__(self, params: Any = "tfhe_2_2") -> None:
        known = isinstance(params, _native.Program)
        self._native: _native.Program = (
            params if known else _native.Program(_values.set_of("program", params))
        )

    @property
    def params(self) -> Params:
        """The parameter set."""
        return self._native.params

    @property
    def cost(self) -> Cost:
        """The cost of the program on one lane."""
        return Cost(**self._native.cost())

    def input(self, *, message: int | None = None, below: int | None = None) -> Register:
        """A new argument: values below `below` (all by default) of `message` (the set's own)."""
        values, bound = self._space(message, below)
        return Register(self, self._native.input(values, True, 0, bound - 1))

    def input_table(self, *, message: int | None = None, below: int | None = None) -> Register:
        """A new argument: an encrypted table for values that are so encoded, as `input`."""
        values, bound = self._space(message, below)
        return Register(self, self._native.input_table(values, bound - 1))

    def input_slot(
        self, *, slot: int = 0, message: int | None = None, below: int | None = None
    ) -> Register:
        """A new argument: plain ciphertexts under the key of one slot of a common-mask set."""
        values, bound = self._space(message, below)
        slot = _values.count("input", "slot", slot)
        return Register(self, self._native.input_slot(slot, values, 0, bound - 1))

    def add_slots(self, x: Register, constants: Sequence[int]) -> Register:
        """A constant for each slot of a common-mask ciphertext."""
        values = [_integer(c) for c in constants]
        return Register(self, self._native.add_slots(self._index(x), values))

    def extract(self, x: Register, slot: int) -> Register:
        """One slot as a plain value under the slot's key; no bootstrap."""
        slot = _values.count("extract", "slot", slot)
        return Register(self, self._native.extract(self._index(x), slot))

    def pack(self, xs: Sequence[Register]) -> Register:
        """Plain values under the key of slot 0, one for each slot, as one ciphertext."""
        return Register(self, self._native.pack([self._index(x) for x in xs]))

    def slot_map(self, x: Register, which: int, sums: tuple[int, int]) -> Register:
        """A private map between slots, number `which` of the server's key.

        `sums` are the largest sums of the positive and of the negative entries of its rows
        (`SlotKey.sums`); they bound the values and the noise of the result.
        """
        which = _values.count("slot_map", "which", which)
        return Register(self, self._native.slot_map(self._index(x), which, sums))

    def linear(self, terms: Sequence[tuple[int, Register]], constant: int = 0) -> Register:
        """The sum of `factor * register` over the terms, plus a constant."""
        pairs = [(_integer(c), self._index(r)) for c, r in terms]
        return Register(self, self._native.linear(pairs, _integer(constant)))

    @overload
    def lookup(
        self, x: Register, table: Callable[[int], int] | Register, *, message: int | None = ...
    ) -> Register: ...
    @overload
    def lookup(
        self, x: Register, table: TableSource | Table, *, message: int | None = ...
    ) -> Any: ...
    def lookup(
        self, x: Register, table: TableSource | Table | Register, *, message: int | None = None
    ) -> Any:
        """A bootstrap: `x` looked up in a table; a tuple of registers if there are several tables.

        The table is anything that `becalm.Table` takes, or an encrypted one (`input_table`). In a
        set of several slots a list of functions, lists or tables is one for each slot.
        Results are modulo `message`, by default as `x`. Functions are asked only for values that
        `x` may have.
        """
        index = self._index(x)
        values = x.message
        out = values if message is None else _values.count("lookup", "message", message)
        if isinstance(table, Register):
            return Register(self, self._lookup_encrypted(x, table, [(0, out, True, 0, out - 1)])[0])
        each = _for_slots(table) if self.params.slots > 1 else None
        if each is not None:
            natives = [self._table(x, t, out)[0] for t in each]
            return Register(self, self._native.lookup_slots(index, natives)[0])
        native, many = self._table(x, table, out)
        found = [Register(self, r) for r in self._native.lookup(index, native)]
        return tuple(found) if many else found[0]

    def _table(
        self, x: Register, table: TableSource | Table, out: int
    ) -> tuple[_native.Table, bool]:
        if isinstance(table, Table):
            return table._native, table.many
        values, _, low, high = x._info()
        rows, many = _values.tables(table, values, high if low >= 0 else -1)
        return _native.Table(self.params, values, out, True, rows), many

    def lookup2(
        self,
        a: Register,
        b: Register,
        f: Callable[[int, int], int],
        *,
        message: int | None = None,
    ) -> Register:
        """`f(a, b)` by one bootstrap: a lookup at `a * base + b`, `base` just above all `b`."""
        (a_low, a_high), (b_low, b_high) = a.range, b.range
        if min(a_low, b_low) < 0 or (a_high + 1) * (b_high + 1) > a.message:
            wanted = f"ranges of which the product is at most {a.message}"
            got = f"{a_low} to {a_high} and {b_low} to {b_high}"
            raise BadInput(
                "bootstrap2", wanted, got, "declare smaller ranges (`below=`) at encryption"
            )
        base = b_high + 1
        packed = self.linear([(base, a), (1, b)])
        result: Register = self.lookup(packed, lambda m: f(m // base, m % base), message=message)
        return result

    def gate(self, name: str, a: Register, b: Register) -> Register:
        """A boolean gate by one bootstrap: `and`, `nand`, `or`, `nor`, `xor` or `xnor`."""
        return Register(self, self._native.gate(name, self._index(a), self._index(b)))

    def not_(self, a: Register) -> Register:
        """The negation of a boolean; no bootstrap."""
        return Register(self, self._native.not_(self._index(a)))

    def mux(self, s: Register, x: Register, y: Register) -> Register:
        """`x` where `s`, else `y`, for booleans."""
        return Register(self, self._native.mux(*map(self._index, (s, x, y))))

    def output(self, *registers: Register | Sequence[Register]) -> None:
        """Marks registers as results, in this order."""
        for r in registers:
            if isinstance(r, Register):
                self._native.output(self._index(r))
            elif isinstance(r, (list, tuple)):
                self.output(*r)
            else:
                self._index(r)

    def check(self) -> float:
        """log2 of the probability that one lane fails when the arguments are fresh encryptions.

        Raises `TooNoisy` if a bootstrap would fail more often than the parameter set claims.
        """
        fresh = self.params.noise()["fresh"]
        return self._native.noise([fresh] * self.inputs)[1]

    @classmethod
    def from_bytes(
        cls, file: bytes, *, allow_insecure: bool = False, limit: int | None = None
    ) -> TfheProgram:
        """A program from the bytes of a file, checked as by `becalm.load`: it is recorded again.

        Raises `BadFile` for bytes that were altered, are of another kind or above `limit` (1 GiB by
        default), and `Insecure` for sets below 128 bits unless `allow_insecure`.
        """
        data, most = _values.data("from_bytes", file), _values.limit("from_bytes", limit)
        return cls(_native.Program.from_bytes(data, bool(allow_insecure), most))

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        cost = self.cost
        return "becalm.Program", [
            ("inputs", self.inputs),
            ("outputs", self.outputs),
            ("instructions", f"{len(self):,}"),
            ("bootstraps", f"{cost.bootstraps:,}"),
            ("bootstraps one after another", f"{cost.depth:,}"),
            ("parameter set", self.params.name),
        ]

    def __repr__(self) -> str:
        return (
            f"<becalm.Program of {len(self)} instructions, {self.inputs} inputs, "
            f"{self.outputs} outputs, {self.cost.bootstraps} bootstraps, {self.params.name}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels as the bytes of its file, which are checked as a file is."""
        return _restored, (self.to_bytes(), self.params.kind != "standard")

    def _space(self, message: int | None, below: int | None) -> tuple[int, int]:
        values = (
            self.params.values if message is None else _values.count("input", "message", message)
        )
        bound = values if below is None else _values.count("input", "below", below)
        if not 0 < bound <= values:
            raise BadInput(
                "input", f"a bound from 1 to {values}", str(bound), "choose one of these"
            )
        return values, bound

    def _index(self, r: object) -> int:
        if not isinstance(r, Register) or r.program is not self:
            got = "a register of another program" if isinstance(r, Register) else type(r).__name__
            raise BadInput(
                "program", "a register of this program", got, "use the results of its methods"
            )
        return r._index

    def _lookup_encrypted(
        self, x: Register, table: Register, outputs: list[tuple[int, int, bool, int, int]]
    ) -> list[int]:
        return self._native.lookup_encrypted(self._index(x), self._index(table), outputs)


def cost_of(what: TfheProgram | TableSource | Table, params: Any, lanes: int) -> Cost:
    """The cost of a program, or of one bootstrap through a table, on `lanes` lanes."""
    if not isinstance(what, TfheProgram):
        program = TfheProgram(params)
        program.output(program.lookup(program.input(), what))
        what = program
    return replace(what.cost, lanes=_values.count("cost", "lanes", lanes))


def _for_slots(table: Any) -> list[Any] | None:
    """The tables of a list of tables, `None` for a single table."""
    if isinstance(table, Table) or callable(table) or not isinstance(table, (list, tuple)):
        return list(table) if getattr(table, "ndim", 1) > 1 else None
    several = (Table, list, tuple)
    rows = any(callable(t) or isinstance(t, several) or getattr(t, "ndim", 0) > 0 for t in table)
    return list(table) if rows else None


def _integer(value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise BadInput("linear", "an integer", type(value).__name__, "pass an int") from None
    if not -(1 << 63) <= number < 1 << 63:
        raise BadInput("linear", "an integer of 64 bits", str(number), "use a smaller one")
    return number


def _with_integer(value: Any, f: Callable[[int], Register]) -> Register:
    try:
        operator.index(value)
    except TypeError:
        return NotImplemented  # type: ignore[no-any-return]
    return f(_integer(value))


def _restored(file: bytes, insecure: bool) -> TfheProgram:
    return TfheProgram.from_bytes(file, allow_insecure=insecure)
