"""Programs: many instructions, recorded first, then checked and run as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, overload

from becalm import _native, _public, _values
from becalm._called import called
from becalm._native import Params
from becalm._programs import Program
from becalm._tfhe_registers import Cost, Needs, Register, Table, integer
from becalm._values import TableSource, counted
from becalm.errors import BadInput, WrongParams

__all__ = ["Cost", "Needs", "Program", "Register", "Table", "TfheProgram"]
__dir__ = _public.names(__all__)


class TfheProgram(Program, scheme="tfhe"):
    """A `becalm.Program` of TFHE.

    Examples
    --------
    >>> becalm.Program("toy_2_2").params.name
    'toy_2_2'
    """

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

    @property
    def needs(self) -> Needs:
        """The keys that it needs."""
        return Needs(*self._native.needs())

    def input(self, *, message: int | None = None, below: int | None = None) -> Register:
        """A new argument of the program.

        Parameters
        ----------
        message
            How many values its encoding has, by default those of the set.
        below
            Its values are below this, by default `message`.

        Returns
        -------
        Register
            The argument.

        Examples
        --------
        >>> becalm.Program("toy_2_2").input(below=4).range
        (0, 3)
        """
        values, bound = self._space(message, below)
        return Register(self, self._native.input(values, True, 0, bound - 1))

    def input_table(self, *, message: int | None = None, below: int | None = None) -> Register:
        """A new argument of the program: an encrypted table.

        Parameters
        ----------
        message
            How many values the encoding of its input has, by default those of the set.
        below
            It is looked up at values below this, by default `message`.

        Returns
        -------
        Register
            A table for `lookup`.

        Examples
        --------
        >>> p = becalm.Program("toy_2_2")
        >>> p.output(p.lookup(p.input(), p.input_table()))
        >>> table = secret.encrypt_table(lambda m: m * m % 16)
        >>> secret.decrypt(server.run(p, secret.encrypt([3, 1]), table))
        array([9, 1])
        """
        values, bound = self._space(message, below)
        return Register(self, self._native.input_table(values, bound - 1))

    def input_slot(
        self, *, slot: int = 0, message: int | None = None, below: int | None = None
    ) -> Register:
        """A new argument: plain ciphertexts under the key of one slot of a common-mask set.

        Parameters
        ----------
        slot
            Number of the slot.
        message, below
            As for `input`.

        Returns
        -------
        Register
            The argument.

        Examples
        --------
        >>> becalm.Program("toy_cm_1_1_w2").input_slot(below=2).range
        (0, 1)
        """
        values, bound = self._space(message, below)
        slot = _values.count("input", "slot", slot)
        return Register(self, self._native.input_slot(slot, values, 0, bound - 1))

    def add_slots(self, x: Register, constants: Sequence[int]) -> Register:
        """A constant for each slot of a common-mask ciphertext.

        Parameters
        ----------
        x
            A register of ciphertexts of a common mask.
        constants
            An integer for each slot.

        Returns
        -------
        Register
            The sums.

        Examples
        --------
        >>> p = becalm.Program("toy_cm_1_1_w2")
        >>> p.add_slots(p.input(below=2), [1, 2]).range
        (1, 3)
        """
        values = [integer(c) for c in constants]
        return Register(self, self._native.add_slots(self._index(x), values))

    def extract(self, x: Register, slot: int) -> Register:
        """One slot as a plain value under the slot's key; no bootstrap.

        Parameters
        ----------
        x
            A register of ciphertexts of a common mask.
        slot
            Number of the slot.

        Returns
        -------
        Register
            A plain value.

        Examples
        --------
        >>> p = becalm.Program("toy_cm_1_1_w2")
        >>> p.extract(p.input(below=2), 1).range
        (0, 1)
        """
        slot = _values.count("extract", "slot", slot)
        return Register(self, self._native.extract(self._index(x), slot))

    def pack(self, xs: Sequence[Register]) -> Register:
        """Plain values under the key of slot 0, one for each slot, as one ciphertext.

        Returns
        -------
        Register
            A ciphertext of a common mask.

        Examples
        --------
        >>> p = becalm.Program("toy_cm_1_1_w2")
        >>> p.pack([p.input_slot(below=2), p.input_slot(below=2)]).range
        (0, 1)
        """
        return Register(self, self._native.pack([self._index(x) for x in xs]))

    def slot_map(self, x: Register, which: int, sums: tuple[int, int]) -> Register:
        """A private map between slots, number `which` of the server's key.

        `sums` are the largest sums of the positive and of the negative entries of its rows
        (`SlotKey.sums`); they bound the values and the noise of the result.

        Parameters
        ----------
        x
            A register of ciphertexts of a common mask.
        which
            Number of the map, in the order of `Server.add_key`.
        sums
            Largest sum of the positive and of the negative entries of a row.

        Returns
        -------
        Register
            The mapped slots.

        Examples
        --------
        >>> p = becalm.Program("toy_cm_1_1_w2")
        >>> p.slot_map(p.input(below=2), 0, (1, 0)).range
        (0, 1)
        """
        which = _values.count("slot_map", "which", which)
        return Register(self, self._native.slot_map(self._index(x), which, sums))

    def linear(self, terms: Sequence[tuple[int, Register]], constant: int = 0) -> Register:
        """The sum of `factor * register` over the terms, plus a constant.

        Parameters
        ----------
        terms
            Pairs of an integer and a register.
        constant
            An integer.

        Returns
        -------
        Register
            The sum.

        Examples
        --------
        >>> p = becalm.Program("toy_2_2")
        >>> a, b = p.input(below=4), p.input(below=2)
        >>> p.linear([(2, a), (-1, b)], 3).range
        (2, 9)
        """
        pairs = [(integer(c), self._index(r)) for c, r in terms]
        return Register(self, self._native.linear(pairs, integer(constant)))

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
        """A bootstrap: `x` looked up in a table.

        Parameters
        ----------
        x
            A register.
        table
            Anything that `becalm.Table` takes, or an encrypted one (`input_table`). In a set of
            several slots a list of functions, lists or tables is one for each slot. Functions are
            asked only for values that `x` may have.
        message
            Results are modulo this, by default as `x`.

        Returns
        -------
        Register or tuple
            A tuple of registers if there are several tables.

        Examples
        --------
        >>> p = becalm.Program("toy_2_2")
        >>> p.lookup(p.input(below=4), lambda m: m * m).range
        (0, 9)
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
        """`f(a, b)` by one bootstrap: a lookup at `a * base + b`, `base` just above all `b`.

        Parameters
        ----------
        a, b
            Registers without negative values.
        f
            A function of two values.
        message
            Results are modulo this, by default as `a`.

        Returns
        -------
        Register
            The result.

        Raises
        ------
        BadInput
            For ranges that together do not fit the encoding.

        Examples
        --------
        >>> p = becalm.Program("toy_2_2")
        >>> p.lookup2(p.input(below=4), p.input(below=4), lambda a, b: a * b).range
        (0, 9)
        """
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
        """A boolean gate by one bootstrap: `and`, `nand`, `or`, `nor`, `xor` or `xnor`.

        Parameters
        ----------
        name
            Name of the gate.
        a, b
            Booleans.

        Returns
        -------
        Register
            A boolean.

        Examples
        --------
        >>> p = becalm.Program("toy_2_2")
        >>> p.gate("xor", p.input(below=2), p.input(below=2)).range
        (0, 1)
        """
        return Register(self, self._native.gate(name, self._index(a), self._index(b)))

    def not_(self, a: Register) -> Register:
        """The negation of a boolean; no bootstrap.

        Returns
        -------
        Register
            A boolean.

        Examples
        --------
        >>> p = becalm.Program("toy_2_2")
        >>> p.not_(p.input(below=2)).range
        (0, 1)
        """
        return Register(self, self._native.not_(self._index(a)))

    def mux(self, s: Register, x: Register, y: Register) -> Register:
        """`x` where `s`, else `y`, for booleans.

        Parameters
        ----------
        s
            The boolean that chooses.
        x, y
            Booleans to choose from.

        Returns
        -------
        Register
            A boolean.

        Examples
        --------
        >>> p = becalm.Program("toy_2_2")
        >>> p.mux(p.input(below=2), p.input(below=2), p.input(below=2)).range
        (0, 1)
        """
        return Register(self, self._native.mux(*map(self._index, (s, x, y))))

    def output(self, *registers: Register | Sequence[Register]) -> None:
        """Marks registers as results, in this order.

        Examples
        --------
        >>> p = becalm.Program("toy_2_2")
        >>> p.output(p.input(), p.input())
        >>> p.outputs
        2
        """
        for r in registers:
            if isinstance(r, Register):
                self._native.output(self._index(r))
            elif isinstance(r, (list, tuple)):
                self.output(*r)
            else:
                self._index(r)

    def check(self) -> float:
        """log2 of the probability that one lane fails when the arguments are fresh encryptions.

        Returns
        -------
        float
            A negative number.

        Raises
        ------
        TooNoisy
            If a bootstrap would fail more often than the parameter set claims.

        Examples
        --------
        >>> p = becalm.Program("tfhe_2_2")
        >>> p.output(p.lookup(p.input(), lambda m: m // 2))
        >>> p.check() < -128
        True
        """
        fresh = self.params.noise()["fresh"]
        return self._native.noise([fresh] * self.inputs)[1]

    @classmethod
    @called("from_bytes")
    def from_bytes(
        cls, file: bytes, *, allow_insecure: bool = False, limit: int | None = None
    ) -> TfheProgram:
        """A program from the bytes of a file, checked as by `becalm.load`: it is recorded again.

        Parameters
        ----------
        file
            The bytes that `to_bytes` gave.
        allow_insecure
            Whether sets below 128 bits are accepted.
        limit
            The largest number of bytes, 1 GiB by default.

        Returns
        -------
        TfheProgram
            It is recorded again.

        Raises
        ------
        BadFile
            For bytes that were altered, are of another kind or above the limit.
        Insecure
            For a set below 128 bits that was not allowed.

        Examples
        --------
        >>> p = becalm.Program("toy_2_2")
        >>> p.output(p.input() + 1)
        >>> becalm.program.TfheProgram.from_bytes(p.to_bytes(), allow_insecure=True).outputs
        1
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
            f"<becalm.Program of {counted(len(self), 'instruction')}, "
            f"{counted(self.inputs, 'input')}, {counted(self.outputs, 'output')}, "
            f"{counted(self.cost.bootstraps, 'bootstrap')}, {self.params.name}>"
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
        program = TfheProgram("tfhe_2_2" if params is None else params)
        program.output(program.lookup(program.input(), what))
        what = program
    elif params is not None:
        wanted = _values.set_of("cost", params)
        if what.params != wanted:
            remedy = "leave the set out, or record the program for it"
            got = f"`{what.params.name}`"
            raise WrongParams("cost", f"a program of `{wanted.name}`", got, remedy)
    return replace(what.cost, lanes=_values.count("cost", "lanes", lanes))


def _for_slots(table: Any) -> list[Any] | None:
    """The tables of a list of tables, `None` for a single table."""
    if isinstance(table, Table) or callable(table) or not isinstance(table, (list, tuple)):
        return list(table) if getattr(table, "ndim", 1) > 1 else None
    several = (Table, list, tuple)
    rows = any(callable(t) or isinstance(t, several) or getattr(t, "ndim", 0) > 0 for t in table)
    return list(table) if rows else None


def _restored(file: bytes, insecure: bool) -> TfheProgram:
    # The file is in memory already, so its length is no reason to refuse it.
    return TfheProgram.from_bytes(file, allow_insecure=insecure, limit=64 * len(file))
