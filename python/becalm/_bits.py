"""Bits of a function that is traced: `becalm.circuit` has them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from becalm.errors import BadIndex, BadInput

#: Most bits of a number: a trace keeps a name for each.
WIDEST = 1 << 20


class Gates:
    """Gates as tables of BLIF, recorded one by one."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.known: dict[tuple[str, str, str], str] = {}

    def gate(self, table: str, a: str, b: str) -> str:
        key = (table, min(a, b), max(a, b))
        if key not in self.known:
            name = f"$n{len(self.known)}"
            self.lines.append(f".names {key[1]} {key[2]} {name}\n{table}")
            self.known[key] = name
        return self.known[key]


_AND, _OR, _XOR = "11 1", "1- 1\n-1 1", "01 1\n10 1"


class Bits:
    """A number without sign while a function is traced: its bits, least significant first.

    `&`, `|`, `^` and `~` work bit by bit; `+` and `*` give as many bits as the largest result has,
    so that a sum of 64 bits has 7; `-` is modulo 2^width; comparisons give one bit; shifts are by
    clear numbers; `x[i]` and `x[i:j]` choose bits, `x.count_ones()` counts those that are 1.
    Operands may be clear integers. There is no branching on a bit: use `becalm.circuit.select`. A
    number has at most 2^20 bits.

    Examples
    --------
    >>> becalm.circuit.trace(lambda a: (a[0], a >> 1, a == 5), 4)(5)
    (1, 2, 1)
    """

    __slots__ = ("_gates", "_most", "_names")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, gates: Gates, names: list[str], most: int | None = None) -> None:
        """`most`: the greatest value, where that is less than the bits allow."""
        self._gates, self._names = gates, names
        whole = (1 << len(names)) - 1
        self._most = whole if most is None else min(most, whole)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        remedy = "use operators, and becalm.circuit.select where numpy has `where`"
        raise BadInput("trace", "operators on bits", "a function of numpy", remedy)

    def __array_ufunc__(self, function: np.ufunc, method: str, *inputs: Any, **more: Any) -> Bits:
        apply = _UFUNCS.get(function)
        if apply is None or method != "__call__" or more:
            name = function.__name__ + ("" if method == "__call__" else f".{method}")
            remedy = "use operators, numpy.minimum or numpy.maximum, or becalm.circuit.select"
            raise BadInput("trace", "operators on bits", f"numpy.{name}", remedy)
        # numpy's numbers, and arrays without an axis, would take their operators back.
        for x in inputs:
            if isinstance(x, np.ndarray) and x.ndim:
                raise BadInput("trace", "bits or an integer", "an array", "take its elements")
        numbers = (np.generic, np.ndarray)
        given = (x.item() if isinstance(x, numbers) else x for x in inputs)
        return apply(*given)  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, at: int | slice) -> Bits:
        try:
            names = self._names[at] if isinstance(at, slice) else [self._names[operator.index(at)]]
        except TypeError:
            remedy = "choose with select where the place is encrypted"
            raise BadInput("trace", "an integer or a slice", type(at).__name__, remedy) from None
        except IndexError:
            # Loops over the bits end by this class: it is an IndexError.
            remedy = f"choose from the {len(self)} there are"
            raise BadIndex("trace", f"a place below {len(self)}", str(at), remedy) from None
        if not names:
            raise BadInput("trace", "some bits", "none", f"choose from the {len(self)} there are")
        lowest = isinstance(at, slice) and not at.start and at.step in (None, 1)
        return Bits(self._gates, names, self._most if lowest else None)

    def count_ones(self) -> Bits:
        """How many of the bits are 1; the same as `numpy.bitwise_count`.

        Returns
        -------
        Bits
            The number.

        Examples
        --------
        >>> becalm.circuit.trace(lambda a: a.count_ones(), 8)(0b1011)
        3
        """
        parts = [self[i] for i in range(len(self))]
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=False)
            parts = [a + b for a, b in pairs] + parts[len(parts) & ~1 :]
        return parts[0]

    def __and__(self, other: Bits | int) -> Bits:
        both = self._each(_AND, other)
        return Bits(self._gates, both._names, min(self._most, self._of(other)._most))

    def __or__(self, other: Bits | int) -> Bits:
        return self._each(_OR, other)

    def __xor__(self, other: Bits | int) -> Bits:
        return self._each(_XOR, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> Bits:
        return self ^ ((1 << len(self)) - 1)

    def __lshift__(self, by: int) -> Bits:
        zeros = number("trace", by)
        require_width(len(self) + zeros)
        return Bits(self._gates, ["$zero"] * zeros + self._names, self._most << zeros)

    def __rshift__(self, by: int) -> Bits:
        places = min(number("trace", by), len(self))
        return Bits(self._gates, self._names[places:] or ["$zero"], self._most >> places)

    def __add__(self, other: Bits | int) -> Bits:
        (a, b), most = self._pair(other), self._most + self._of(other)._most
        return Bits(self._gates, self._sum(a, b, "$zero")[: max(most.bit_length(), 1)], most)

    __radd__ = __add__

    def __sub__(self, other: Bits | int) -> Bits:
        a, b = self._pair(other)
        return Bits(self._gates, self._sum(a, [self._not(x) for x in b], "$one")[:-1])

    def __rsub__(self, other: int) -> Bits:
        return self._of(other) - self

    def __mul__(self, other: Bits | int) -> Bits:
        b = self._of(other)
        most = self._most * b._most
        width = max(most.bit_length(), 1)
        total = self & Bits(self._gates, [b._names[0]] * len(self))
        for i, bit in enumerate(b._names[1:], 1):
            row = self & Bits(self._gates, [bit] * len(self))
            # Below i nothing is added any more.
            high = total[i:] + row if len(total) > i else row
            low = total._names[:i] + ["$zero"] * (i - len(total))
            total = Bits(self._gates, (low + high._names)[:width])
        return Bits(self._gates, (total._names + ["$zero"] * width)[:width], most)

    __rmul__ = __mul__

    def _missing(self, *_: Any) -> NoReturn:
        remedy = "compute with + - * & | ^ ~ << >>, comparisons and becalm.circuit.select"
        raise BadInput("trace", "operators that bits have", "another one", remedy)

    __neg__ = __abs__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _missing
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = _missing
    __matmul__ = __rmatmul__ = __rlshift__ = __rrshift__ = _missing

    def __lt__(self, other: Bits | int) -> Bits:
        return ~(self >= other)

    def __ge__(self, other: Bits | int) -> Bits:
        a, b = self._pair(other)
        return Bits(self._gates, self._sum(a, [self._not(x) for x in b], "$one")[-1:])

    def __gt__(self, other: Bits | int) -> Bits:
        return self._of(other) < self

    def __le__(self, other: Bits | int) -> Bits:
        return self._of(other) >= self

    def __eq__(self, other: object) -> Bits:  # type: ignore[override]
        return ~(self != other)

    def __ne__(self, other: object) -> Bits:  # type: ignore[override]
        if not isinstance(other, (Bits, int, np.integer, np.bool_)):
            raise BadInput("trace", "bits or an integer", type(other).__name__, "compare these")
        against = other if isinstance(other, Bits) else int(other)
        names = (self ^ against)._names
        while len(names) > 1:
            pairs = zip(names[::2], names[1::2], strict=False)
            names = [self._gates.gate(_OR, a, b) for a, b in pairs] + names[len(names) & ~1 :]
        return Bits(self._gates, names)

    def __bool__(self) -> NoReturn:
        remedy = "use becalm.circuit.select, or & and | instead of `and` and `or`"
        wanted = "code that does not branch on an encrypted bit"
        raise BadInput("trace", wanted, "`if`, `and`, `or`", remedy)

    def __repr__(self) -> str:
        return f"<becalm.Bits, {len(self)} of them>"

    def _of(self, other: Bits | int) -> Bits:
        if isinstance(other, Bits):
            if other._gates is not self._gates:
                raise BadInput("trace", "bits of this function", "others", "use its arguments")
            return other
        value = number("trace", other)
        width = max(value.bit_length(), 1)
        require_width(width)
        names = ["$one" if value >> i & 1 else "$zero" for i in range(width)]
        return Bits(self._gates, names, value)

    def _pair(self, other: Bits | int) -> tuple[list[str], list[str]]:
        b = self._of(other)._names
        width = max(len(self), len(b))
        zeros = ["$zero"] * width
        return (self._names + zeros)[:width], (b + zeros)[:width]

    def _each(self, table: str, other: Bits | int) -> Bits:
        pairs = zip(*self._pair(other), strict=True)
        return Bits(self._gates, [self._gates.gate(table, a, b) for a, b in pairs])

    def _not(self, name: str) -> str:
        return self._gates.gate(_XOR, name, "$one")

    def _sum(self, a: list[str], b: list[str], carry: str) -> list[str]:
        """The bits of a sum, and the carry out of it."""
        gate, names = self._gates.gate, []
        for x, y in zip(a, b, strict=True):
            half = gate(_XOR, x, y)
            names.append(gate(_XOR, half, carry))
            carry = gate(_XOR, x, gate(_AND, half, gate(_XOR, x, carry)))
        return [*names, carry]


def _chosen(when: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Bits]:
    return lambda a, b: select(when(a, b), a, b)


#: Functions of numpy that are operators of bits.
_UFUNCS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.bitwise_and: operator.and_,
    np.bitwise_or: operator.or_,
    np.bitwise_xor: operator.xor,
    np.invert: operator.invert,
    np.left_shift: operator.lshift,
    np.right_shift: operator.rshift,
    np.equal: operator.eq,
    np.not_equal: operator.ne,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
    np.minimum: _chosen(operator.lt),
    np.maximum: _chosen(operator.gt),
}
# numpy has it from 2.0 on.
if hasattr(np, "bitwise_count"):
    _UFUNCS[np.bitwise_count] = Bits.count_ones


def join(*parts: Bits) -> Bits:
    """Bits one after another, the first part the least significant.

    Returns
    -------
    Bits
        All bits.

    Raises
    ------
    BadInput
        For anything but bits.

    Examples
    --------
    >>> becalm.circuit.trace(lambda a, b: becalm.circuit.join(a, b), 4, 4)(1, 2)
    33
    """
    if not parts or not all(isinstance(p, Bits) for p in parts):
        raise BadInput("join", "bits", "something else", "use it inside a traced function")
    return Bits(parts[0]._gates, [name for p in parts for name in parts[0]._of(p)._names])


def select(bit: Bits, yes: Bits | int, no: Bits | int) -> Bits:
    """`yes` where the bit is 1, else `no`.

    Parameters
    ----------
    bit
        One traced bit.
    yes, no
        Bits, or plain integers.

    Returns
    -------
    Bits
        The chosen bits.

    Raises
    ------
    BadInput
        For anything but one traced bit.

    Examples
    --------
    >>> larger = becalm.circuit.trace(lambda a, b: becalm.circuit.select(a > b, a, b), 4, 4)
    >>> larger(9, 12)
    12
    """
    if not isinstance(bit, Bits) or len(bit) != 1:
        raise BadInput("select", "one traced bit", repr(bit), "use it inside a traced function")
    a, b = bit._of(yes)._pair(no)
    first, second = Bits(bit._gates, a), Bits(bit._gates, b)
    chosen = second ^ ((first ^ second) & Bits(bit._gates, bit._names * len(a)))
    return Bits(bit._gates, chosen._names, max(bit._of(yes)._most, bit._of(no)._most))


def number(op: str, value: Any) -> int:
    """An integer from 0 up."""
    try:
        found = operator.index(bool(value) if isinstance(value, np.bool_) else value)
    except TypeError:
        raise BadInput(op, "an integer", type(value).__name__, "pass an int") from None
    if found < 0:
        # The number may be about to be encrypted: it stays out of messages.
        remedy = "take it modulo a power of 2"
        raise BadInput(op, "an integer from 0 up", "a negative one", remedy)
    return found


def require_width(bits: int) -> None:
    """Refuses numbers whose names alone would fill the memory."""
    if bits > WIDEST:
        raise BadInput("trace", f"numbers of at most {WIDEST} bits", str(bits), "use shorter ones")
