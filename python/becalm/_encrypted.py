"""Refusals of encrypted values: comparisons, whose answer would be about the objects, and operators
that a table computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import numpy as np

from becalm.errors import BadInput, Unsupported


class Encrypted:
    """An object with encrypted contents. It refuses `==`, `<`, `bool()` and the like, which could
    only answer wrongly."""

    __slots__ = ()
    #: Its name in an error.
    _what: ClassVar[str] = "a ciphertext"
    #: The remedies for a comparison, and for a truth.
    _compared: ClassVar[str] = "decrypt both first"
    _branched: ClassVar[str] = "decrypt it; a program cannot branch on an encrypted value"

    def __eq__(self, other: object) -> NoReturn:
        raise Unsupported("compare", "unencrypted values", self._what, self._compared)

    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__
    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise Unsupported("truth", "unencrypted values", self._what, self._branched)

    def __float__(self) -> NoReturn:
        raise Unsupported("convert", "unencrypted numbers", self._what, "decrypt it first")

    __int__ = __complex__ = __round__ = __float__


def what_of(value: object) -> str | None:
    """The name of the kind of an encrypted value; none for anything else."""
    return getattr(type(value), "_what", None)


def require_numbers(op: str, value: object) -> None:
    """Refuses an encrypted value where numbers are wanted, and an array with a mask."""
    what = what_of(value)
    if what is not None:
        remedy = "compute with ciphertexts of one kind and one key, or decrypt it"
        raise BadInput(op, "numbers, or ciphertexts of the same kind", what, remedy)
    refuse_masked(op, value)


def refuse_masked(op: str, value: object) -> None:
    """Refuses an array with a mask: values that were not to count would be encrypted."""
    if isinstance(value, np.ma.MaskedArray):
        remedy = "replace what is masked, as by values.filled(0)"
        raise BadInput(op, "an array without a mask", "a masked array", remedy)


def _table(symbol: str, formula: str) -> Callable[..., NoReturn]:
    def refuse(self: ByTable, *_: Any) -> NoReturn:
        remedy = self._looked_up(formula)
        raise Unsupported("compute", "sums and integer multiples", f"the operator {symbol}", remedy)

    return refuse


class ByTable(Encrypted):
    """Encrypted integers below a modulus: all operators but sums and multiples are tables."""

    __slots__ = ()
    #: A further remedy.
    _further: ClassVar[str] = ""

    def _looked_up(self, formula: str) -> str:
        """The remedy: a call that looks up a function of `m`, with `{p}` for the modulus."""
        raise NotImplementedError

    __pow__ = __rpow__ = _table("**", "m * m % {p}")
    __mod__ = __rmod__ = _table("%", "m % 2")
    __floordiv__ = __rfloordiv__ = _table("//", "m // 2")
    __truediv__ = __rtruediv__ = _table("/", "m // 2")
    __divmod__ = __rdivmod__ = _table("divmod", "m // 2")
    __lshift__ = __rlshift__ = _table("<<", "(m << 1) % {p}")
    __rshift__ = __rrshift__ = _table(">>", "m >> 1")
    __and__ = __rand__ = _table("&", "m & 1")
    __or__ = __ror__ = _table("|", "m | 1")
    __xor__ = __rxor__ = _table("^", "m ^ 1")
    __abs__ = _table("abs", "min(m, {p} - m)")

    def __matmul__(self, other: object) -> NoReturn:
        remedy = f"add integer multiples: 2 * x + 3 * y{self._further}"
        raise Unsupported("compute", "sums and integer multiples", "the operator @", remedy)

    __rmatmul__ = __matmul__
