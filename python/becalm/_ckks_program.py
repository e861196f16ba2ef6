"""Programs of CKKS: many instructions, recorded first, then checked and run as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, overload

import numpy as np

from becalm import _native, _programs, _values
from becalm._called import called, line
from becalm._ckks_arithmetic import Matrix
from becalm._ckks_computes import Computes
from becalm._ckks_cost import Cost, Needs
from becalm._ckks_pack import RecordsPacked
from becalm._ckks_packed import PackedRegister
from becalm._ckks_sets import USUAL_SIZE, Params, params, planned, slots_of, staged
from becalm._ckks_vector import Vector, at_level, operand
from becalm._names import CkksName
from becalm._values import counted
from becalm.errors import BadInput, Unsupported, WrongParams


class Register(Vector[_native.CkksRegister]):
    """A vector of a program, not yet computed. It has the operators and calls of a ciphertext, and
    each records an instruction.

    Examples
    --------
    >>> p = becalm.Program("ckks_toy_12", slots=4)
    >>> x = p.input(level=2)
    >>> (x * x + 1).level
    1
    """

    __slots__ = ("program",)

    def __init__(self, native: _native.CkksRegister, program: Program) -> None:
        self._native = native
        #: The program that it belongs to.
        self.program = program
        program._noted()

    def bootstrap(
        self,
        kind: str | None = None,
        *,
        stage_count: int | None = None,
        iterations: int | None = None,
    ) -> Register:
        """The same values with the levels of the set again; see `Program.bootstrap`.

        Parameters
        ----------
        kind, stage_count, iterations
            As for `Server.bootstrap`.

        Returns
        -------
        Register
            At the highest level.

        Examples
        --------
        >>> becalm.Program("ckks_toy_12", slots=4).input(level=0).bootstrap().level
        10
        """
        return self.program.bootstrap(self, kind, stage_count=stage_count, iterations=iterations)

    def _computing(self, op: str, other: Vector[Any] | None = None) -> Program:
        return self.program

    def _with(self, native: _native.CkksRegister, other: Vector[Any] | None = None) -> Register:
        return Register(native, self.program)

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        return "becalm.ckks.Register", [
            ("holds", f"{self.slots:,} {'real' if self.real else 'complex'} values"),
            ("level", self.level),
            ("scale", f"2^{np.log2(self.scale):.1f}"),
            ("parameter set", self._native.params),
        ]

    def __repr__(self) -> str:
        kind = "real" if self.real else "complex"
        return (
            f"<becalm.ckks.Register {self._native.index}: {self.slots} {kind} values, level "
            f"{self.level}, scale 2^{np.log2(self.scale):.1f}>"
        )

    def __reduce__(self) -> Any:
        remedy = "save the program"
        raise Unsupported("copy", "an object that can be pickled", "a register", remedy)


#: A result of a program.
Result: TypeAlias = "Register | PackedRegister"


class Program(
    Computes[Register, _native.CkksRegister], RecordsPacked, _programs.Program, scheme="ckks"
):
    """Instructions of CKKS for one parameter set, recorded one by one and run at once.

    Parameters
    ----------
    params
        A parameter set of CKKS or its name; `"ckks"` is the standard one.
    slots
        Values in a vector, a power of two; by default all that fit.
    bootstrap
        Size of the keys that its bootstraps need: `"small"`, `"medium"` or `"large"`. A file does
        not keep it, so a program that is read goes on with the usual size.
    auto
        Whether an instruction whose vector lacks levels bootstraps it first, by the usual kind of
        the set. Each vector is bootstrapped once at the most. A file keeps the bootstraps that were
        recorded, not this choice.

    Raises
    ------
    WrongParams
        For a name that no set has.
    BadInput
        For an instruction that cannot run: levels are missing, or vectors differ in their slots. It
        is raised when the instruction is recorded, and leaves the program as it was.

    Examples
    --------
    >>> import becalm
    >>> p = becalm.Program("ckks_toy_12", slots=4)
    >>> x = p.input(level=2)
    >>> p.output((x * x + 0.5).sum())
    >>> p.needs.rotations
    [1, 2]
    >>> secret, server = becalm.keygen("ckks_toy_12", slots=4, needs=p.needs, progress=False,
    ...                                allow_insecure=True)
    >>> y = server.run(p, secret.encrypt([0.1, 0.2, 0.3, 0.4], level=2))
    >>> secret.decrypt(y).round(3)
    array([2.3, 2.3, 2.3, 2.3])
    """

    __slots__ = ("_auto", "_lines", "_own_plan", "_size", "_slots")

    def __new__(
        cls,
        params: CkksName | str | Params | _native.CkksProgram = "ckks",
        *,
        slots: int | None = None,
        bootstrap: str = USUAL_SIZE,
        auto: bool = False,
    ) -> Program:
        made: Program = object.__new__(cls)
        return made

    def __init__(
        self,
        params: CkksName | str | Params | _native.CkksProgram = "ckks",
        *,
        slots: int | None = None,
        bootstrap: str = USUAL_SIZE,
        auto: bool = False,
    ) -> None:
        if not isinstance(params, _native.CkksProgram):
            name = params.name if isinstance(params, Params) else str(params)
            standard = _native.CkksPlan.set_for([], None) if name == "ckks" else name
            params = _native.CkksProgram(standard)
        self._native: _native.CkksProgram = params
        inputs = self._native.inputs
        known = inputs and slots is None
        self._slots = inputs[0][2] if known else slots_of("program", slots, self._native.params)
        self._size = bootstrap
        self._own_plan: _native.CkksPlan | None = None
        #: How many instructions there were behind a line of the caller, its file and its number.
        self._lines: list[tuple[int, str, int]] = []
        self._auto = bool(auto)
        if self._auto:
            self._planned.bootstraps_for(self._native, True)

    @property
    def params(self) -> Params:
        """The parameter set."""
        return params(self._native.params)

    @property
    def slots(self) -> int:
        """Values in a vector, unless `input` says otherwise."""
        return self._slots

    @property
    def cost(self) -> Cost:
        """The cost of the program on one lane."""
        return Cost(**self._native.cost())

    @property
    def needs(self) -> Needs:
        """The keys that it needs: `becalm.keygen(name, needs=program.needs)`."""
        return Needs(self._native.needs())

    @property
    def levels(self) -> tuple[list[int], list[int]]:
        """The level that each argument is taken at, and the level of each result."""
        return [i[0] for i in self._native.inputs], [o[0] for o in self._native.outputs]

    @overload
    def input(
        self, *, level: int | None = ..., slots: int | None = ..., real: bool = ...
    ) -> Register: ...
    @overload
    def input(self, *, bits: int) -> PackedRegister: ...
    def input(
        self,
        *,
        level: int | None = None,
        slots: int | None = None,
        real: bool = True,
        bits: int | None = None,
    ) -> Register | PackedRegister:
        """A new argument: a vector, or packed integers.

        Parameters
        ----------
        level
            The level at which it is taken; ciphertexts above are brought down. By default the
            highest.
        slots
            Values in the vector, by default those of the program.
        real
            Whether all values are real. A bootstrap of real values takes half the time, and the
            program then refuses ciphertexts that are not known to be real.
        bits
            For integers of so many bits, which stand alone.

        Returns
        -------
        Register or PackedRegister
            The argument.

        Raises
        ------
        BadInput
            For a level, slots or bits that the set does not have; for bits with a level or slots.
        WrongParams
            For integers of a set without tables.

        Examples
        --------
        >>> becalm.Program("ckks_toy_12", slots=4).input(level=2).level
        2
        """
        if bits is not None:
            if level is not None or slots is not None:
                remedy = "leave level and slots out: integers are at level 0, in all places"
                raise BadInput("input", "the bits of integers alone", "level or slots", remedy)
            count = _values.count("input", "bits", bits)
            return PackedRegister(self._native.input_integers(count), self)
        set_ = self.params
        at = set_.levels if level is None else at_level("input", level, set_.levels)
        count = self._slots if slots is None else slots_of("input", slots, set_.name)
        return Register(self._native.input(at, count, bool(real)), self)

    def output(self, *registers: Result | Sequence[Result]) -> None:
        """Marks registers as results, in this order.

        Examples
        --------
        >>> p = becalm.Program("ckks_toy_12", slots=4)
        >>> p.output(p.input(), p.input())
        >>> p.outputs
        2
        """
        for r in registers:
            if isinstance(r, (list, tuple)):
                self.output(*r)
            else:
                own = r if isinstance(r, PackedRegister) else self._operand("output", r)
                self._native.output(own._native)

    def bootstrap(
        self,
        x: Register,
        kind: str | None = None,
        *,
        stage_count: int | None = None,
        iterations: int | None = None,
    ) -> Register:
        """The same values with the levels of the set again.

        `kind`, `stage_count` and `iterations` are as in `Server.bootstrap`. Results have
        `params.levels` levels. Vectors that are known to be real take half the approximations.

        Parameters
        ----------
        x
            A register.
        kind, stage_count, iterations
            As for `Server.bootstrap`.

        Returns
        -------
        Register
            At the highest level.

        Examples
        --------
        >>> p = becalm.Program("ckks_toy_12", slots=4)
        >>> p.bootstrap(p.input(level=0)).level
        10
        """
        values = "real" if self._operand("bootstrap", x).real else "complex"
        return self._bootstrapped([x], kind, stage_count, values, iterations)[0]

    def bootstrap_pair(
        self,
        a: Register,
        b: Register,
        kind: str | None = None,
        *,
        stage_count: int | None = None,
        iterations: int | None = None,
    ) -> tuple[Register, Register]:
        """Two real vectors in the time of a complex one; see `Server.bootstrap_pair`.

        Parameters
        ----------
        a, b
            Registers of real values.
        kind, stage_count, iterations
            As for `Server.bootstrap`.

        Returns
        -------
        tuple of Register
            Both, at the highest level.

        Examples
        --------
        >>> p = becalm.Program("ckks_toy_12")
        >>> [y.level for y in p.bootstrap_pair(p.input(level=0), p.input(level=0), "regular")]
        [10, 10]
        """
        pair = [self._operand("bootstrap", x) for x in (a, b)]
        first, second = self._bootstrapped(pair, kind, stage_count, "merged", iterations)
        return first, second

    def _bootstrapped(
        self,
        xs: list[Register],
        kind: str | None,
        stage_count: int | None,
        values: str,
        iterations: int | None,
    ) -> list[Register]:
        plan, which = self._planned, self._kind(kind)
        op = "bootstrap"
        times = None if iterations is None else _values.count(op, "iterations", iterations)
        recorded = staged(stage_count, lambda n: plan.record(which, n, values, times))
        made = self._native.append(recorded, [x._native for x in xs])
        return [Register(y, self) for y in made]

    def evaluate(
        self, function: _native.CkksFunction, xs: Sequence[Register], auto: bool
    ) -> list[Register]:
        """Records a function, which `ckks.sigmoid()(x)` and the like pass on.

        Parameters
        ----------
        function, xs, auto
            The function, its vectors, and whether it may bootstrap.

        Returns
        -------
        list of Register
            The results.
        """
        own = [self._operand(function.name, x) for x in xs]
        if auto:
            self._planned.bootstraps_for(self._native, False)
        made = self._native.evaluate(function, [x._native for x in own], bool(auto))
        return [Register(y, self) for y in made]

    @property
    def _calls(self) -> _native.CkksProgram:
        return self._native

    @property
    def _planned(self) -> _native.CkksPlan:
        if self._own_plan is None:
            self._own_plan = planned(
                self._native.params,
                slots=self._slots,
                bootstrap=self._size,
                kinds=None,
                levels=None,
                stage_count=None,
            )
        return self._own_plan

    def _operand(self, op: str, x: object) -> Register:
        found = operand(x, op)
        if isinstance(found, Register) and found.program is self:
            return found
        got = "a register of another program" if isinstance(found, Register) else "a ciphertext"
        remedy = "use the results of its methods; pass ciphertexts to server.run"
        raise BadInput(op, "a register of this program", got, remedy)

    def _vector(self, native: _native.CkksRegister) -> Register:
        return Register(native, self)

    def _product(self, matrix: Matrix, x: _native.CkksRegister) -> _native.CkksRegister:
        return self._native.matmul(x, matrix._native)

    def _noted(self) -> None:
        """Notes the line of the caller that recorded the last instructions."""
        self._lines.append((len(self), *line()))

    def _line(self, at: int) -> str:
        """The line that recorded an instruction, in words; its number where no line is known."""
        for count, file, number in self._lines:
            if at < count:
                return f", line {number} of {Path(file).name}"
        return f", instruction {at}"

    def _require_set(self, op: str, name: str, remedy: str) -> None:
        """Raises an error for another set than that of the program."""
        if self._native.params != name:
            raise WrongParams(op, f"a program of `{name}`", f"`{self._native.params}`", remedy)

    @classmethod
    @called("from_bytes")
    def from_bytes(
        cls, file: bytes, *, allow_insecure: bool = False, limit: int | None = None
    ) -> Program:
        """A program from the bytes of a file, checked as by `becalm.load`: it is recorded again.

        Parameters
        ----------
        file
            The bytes that `to_bytes` gave.
        allow_insecure
            Whether sets below 128 bits are accepted.
        limit
            The largest number of bytes; instructions take at most a 64th. 1 GiB by default.

        Returns
        -------
        Program
            It is recorded again.

        Raises
        ------
        BadFile
            For bytes that were altered, are of another kind or above the limit.
        Insecure
            For a set below 128 bits that was not allowed.

        Examples
        --------
        >>> p = becalm.Program("ckks_toy_12", slots=4)
        >>> p.output(p.input() + 1)
        >>> ckks.Program.from_bytes(p.to_bytes(), allow_insecure=True).outputs
        1
        """
        data, most = _values.data("from_bytes", file), _values.limit("from_bytes", limit)
        return cls(_native.CkksProgram.from_bytes(data, bool(allow_insecure), most))

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        cost, places = self.cost, (self._native.inputs, self._native.outputs)
        taken, left = (", ".join(map(_place, each)) or "—" for each in places)
        scales = ", ".join(f"2^{np.log2(o[1]):.1f}" for o in self._native.outputs)
        return "becalm.ckks.Program", [
            ("inputs", f"{self.inputs} at level {taken}"),
            ("outputs", f"{self.outputs} at level {left}"),
            ("scale of the outputs", scales or None),
            ("slots", f"{self.slots:,}"),
            ("instructions", f"{len(self):,}"),
            ("bootstraps", f"{cost.bootstraps:,}"),
            ("key switches", f"{cost.key_switches:,}"),
            ("rotation keys", len(self.needs.rotations)),
            ("memory for each lane", _values.megabytes(cost.bytes_per_lane)),
            ("parameter set", self._native.params),
        ]

    def __repr__(self) -> str:
        return (
            f"<becalm.ckks.Program of {counted(len(self), 'instruction')}, "
            f"{counted(self.inputs, 'input')}, {counted(self.outputs, 'output')}, "
            f"{counted(self.cost.key_switches, 'key switch')}, "
            f"{counted(self.cost.bootstraps, 'bootstrap')}, {self._native.params}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels as the bytes of its file, which are checked as a file is."""
        return _restored, (self.to_bytes(), not self.params.standard)


def _place(facts: tuple[int, float, int, int | None]) -> str:
    """The level of an argument or a result, and the bits of packed integers."""
    level, *_, bits = facts
    return f"{level} ({counted(bits, 'bit')})" if bits else str(level)


def cost_of(what: Program, on: Any, lanes: int) -> Cost:
    """The cost of a program on `lanes` lanes; `on` is its set, the name of that, or a server."""
    if on is not None:
        source = on if isinstance(on, (str, Params)) else getattr(on, "params", None)
        if not isinstance(source, (str, Params)):
            wanted, remedy = "the name of a parameter set of CKKS", "leave it out"
            raise WrongParams("cost", wanted, _values.named(on), remedy)
        remedy = "leave the set out, or record the program for it"
        what._require_set("cost", Program(source)._native.params, remedy)
    return replace(what.cost, lanes=_values.count("cost", "lanes", lanes))


def recorded(
    plan: _native.CkksPlan,
    function: _native.CkksFunction,
    xs: Sequence[Vector[Any]],
    auto: bool,
) -> Program:
    """The program of one function of vectors like these, with the bootstraps of a plan."""
    program = Program(plan.name, slots=xs[0].slots)
    program._own_plan = plan
    given = [program.input(level=x.level, slots=x.slots, real=x.real) for x in xs]
    made = program.evaluate(function, given, auto)
    program.output(made)
    # Other lines call the function too.
    program._lines.clear()
    return program


def _restored(file: bytes, insecure: bool) -> Program:
    # The file is in memory already, so its length is no reason to refuse it.
    return Program.from_bytes(file, allow_insecure=insecure, limit=64 * len(file))
