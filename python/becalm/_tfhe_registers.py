"""The parts of programs of TFHE: costs, tables and registers. `becalm.program` has them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from becalm import _html, _native, _values
from becalm._encrypted import Encrypted
from becalm._values import TableSource, counted
from becalm.errors import BadInput

if TYPE_CHECKING:
    from becalm.program import TfheProgram


@dataclass(frozen=True)
class Cost(_html.Shown):
    """The cost of a program.

    Examples
    --------
    >>> becalm.cost(lambda m: m * m % 16).depth
    1
    """

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
            f"{counted(self.bootstraps, 'bootstrap')} (depth {self.depth}), "
            f"{counted(self.key_switches, 'key switch')}, {self.linear} linear, "
            f"{counted(self.waves, 'wave')}, {self.bytes_per_lane} bytes per lane, "
            f"{counted(self.lanes, 'lane')}{time}"
        )


@dataclass(frozen=True)
class Needs(_html.Shown):
    """The keys that a program needs. Every server has the first two; keys between slots are extra.

    Examples
    --------
    >>> p = becalm.Program("toy_2_2")
    >>> p.output(p.input() + 1)
    >>> p.needs.bootstrap
    False
    """

    #: Whether it needs the key of bootstraps.
    bootstrap: bool
    #: Whether it needs the key of key switches.
    key_switch: bool
    #: Whether it needs `SecretKey.pack_key`, which packs ciphertexts behind a common mask.
    pack: bool
    #: Numbers of the private maps between slots, in the order of `Server.add_key`.
    slot_maps: list[int]

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        return "becalm.program.Needs", [
            ("bootstraps", "yes" if self.bootstrap else "no"),
            ("key switches", "yes" if self.key_switch else "no"),
            ("packing", "yes" if self.pack else "no"),
            ("maps between slots", ", ".join(map(str, self.slot_maps)) or "none"),
        ]


class Table(_html.Shown):
    """A lookup table for one parameter set, made once and used often.

    Parameters
    ----------
    params
        A parameter set, its name, or a server.
    source
        A function of one value, the list of its entries, or a list of functions or lists that are
        looked up together by one rotation. With t of them, each sees the values below `message` /
        t.
    message
        How many values the input's encoding has, by default those of the set.
    out
        How many values the results have, by default `message`.

    Raises
    ------
    BadInput
        For entries out of range, or too many.

    Examples
    --------
    >>> table = becalm.Table("toy_2_2", lambda m: m * m % 16)
    >>> secret.decrypt(server.bootstrap(secret.encrypt([3, 1, 2]), table))
    array([9, 1, 4])
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


class Register(Encrypted):
    """A value of a program, not yet computed. `+`, `-` and integer `*` record instructions.

    Examples
    --------
    >>> p = becalm.Program("toy_2_2")
    >>> a = p.input(below=4)
    >>> (2 * a + 1).range
    (1, 7)
    """

    __slots__ = ("_index", "program")
    _what = "a register of a program of TFHE"
    _compared = "use program.lookup or lookup2 with a table that compares"
    _branched = "compute both results, and choose one with program.mux"

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


def integer(value: Any) -> int:
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
        _values.not_whole("linear", value)
        return NotImplemented  # type: ignore[no-any-return]
    return f(integer(value))
