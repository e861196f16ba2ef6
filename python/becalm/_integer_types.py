"""Types of encrypted integers: width, sign and range."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from becalm import _html, _integer_operations, _native, _values
from becalm.errors import BadInput
from becalm.program import Cost

if TYPE_CHECKING:
    from becalm.integers import Integers
    from becalm.keys import SecretKey
    from becalm.server import Server

#: Widths that numpy has.
NUMPY_WIDTHS = (8, 16, 32, 64)


class IntegerType(_html.Shown):
    """The type of an encrypted integer: `becalm.uint(8)`, `becalm.int_(16)` or `becalm.boolean`.

    Examples
    --------
    >>> becalm.uint(8).max, becalm.int_(16).min, becalm.boolean.bits
    (255, -32768, 1)
    """

    __slots__ = ("bits", "name", "signed")
    #: Makes an array of plain values. Arrays import types, and set it.
    _trivial: ClassVar[Callable[[IntegerType, Server, Any], Integers]]

    def __init__(self, name: str) -> None:
        #: `bool`, `uint64`, ...
        self.name = name
        #: Width in bits, and whether it is two's complement.
        self.bits, _, self.signed = _native.integer_type(name)

    @property
    def min(self) -> int:
        """The least value."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def max(self) -> int:
        """The greatest value.

        >>> becalm.int_(16).max
        32767
        """
        return (1 << (self.bits - self.signed)) - 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """numpy's type for decrypted arrays: the narrowest that holds all values, and Python
        integers (`object`) above 64 bits.

        >>> becalm.uint(8).dtype, becalm.int_(12).dtype, becalm.uint(100).dtype
        (dtype('uint8'), dtype('int16'), dtype('O'))
        """
        if self.name == "bool":
            return np.dtype(bool)
        width = next((w for w in NUMPY_WIDTHS if w >= self.bits), None)
        if width is None:
            return np.dtype(object)
        return np.dtype(f"{'int' if self.signed else 'uint'}{width}")

    def encrypt(self, secret: SecretKey, values: Any) -> Integers:
        """The same as `secret.encrypt(values, self)`: an array of encrypted integers.

        Parameters
        ----------
        secret
            The secret key.
        values
            An integer, a list or an array.

        Returns
        -------
        Integers
            In this type.

        Examples
        --------
        >>> x = becalm.uint(8).encrypt(secret, [[200, 3], [77, 0]]).on(server)
        >>> x.shape, (x + 1).decrypt(secret).tolist()
        ((2, 2), [[201, 4], [78, 1]])
        """
        _values.native_secret("encrypt", secret)
        return secret.encrypt(values, self)

    def trivial(self, server: Server, values: Any) -> Integers:
        """Plaintext values in the form of encrypted ones, for `becalm.stack` or as operands. Anyone
        can read them. A single number needs no such form.

        Parameters
        ----------
        server
            The server that computes with them.
        values
            An integer, a list or an array.

        Returns
        -------
        Integers
            In this type.

        Examples
        --------
        >>> (x + becalm.uint(8).trivial(server, [1, 2])).decrypt(secret).tolist()
        [[201, 5], [78, 2]]
        """
        return self._trivial(server, values)

    def cost(
        self,
        operation: str,
        *,
        params: Any = "tfhe_2_2",
        clear: int | Sequence[Any] | None = None,
        count: int | None = None,
        other: IntegerType | None = None,
        to: IntegerType | None = None,
        entries: Sequence[int] | None = None,
        deep: bool = False,
    ) -> Cost:
        """The cost of an operation (`"add"`, `"mul"`, ...) on integers of this type, for each lane.

        It is that of independent elements, straight from encryption or other operations. Sums and
        conditions of more than five booleans cost more where these are negations (`~x`) or copies.

        Parameters
        ----------
        operation
            Its name.
        params
            The parameter set, its name, or a server.
        clear
            The last operand as a clear number; of `"dot"` the list of factors, of `"matmul"`
            a list or a matrix of them, of `"isin"` the list of values, of `"clip"` the two bounds,
            of `"pow"` the exponent.
        count
            Elements: of `"sum"`, `"any"`, `"all"`, `"parity"`, `"prod"`, `"dot"`, `"matmul"` (for
            each element of the result), `"min"`, `"max"`, `"argmin"`, `"argmax"`, `"sort"`,
            `"argsort"`, `"cumsum"`, `"cumprod"`, `"cummin"`, `"cummax"`, `"isin"` and `"index"`.
        other
            The type of the last operand if it differs: of a shift's or rotation's amount, of
            an index.
        to
            The type of the result, of `"cast"` and `"table"`.
        entries
            Those of `"table"`, whose index is of this type.
        deep
            Whether the shortest path is wanted instead of the fewest bootstraps, which a CPU runs.

        Raises
        ------
        BadInput
            For missing and unwanted arguments.
        OutOfMemory
            For more elements than one program can hold.

        Returns
        -------
        Cost
            For each lane.

        Examples
        --------
        >>> becalm.uint(64).cost("add").bootstraps
        32
        >>> becalm.int_(16).cost("shr", other=becalm.uint(4)).depth
        9
        >>> squares = [v * v for v in range(16)]
        >>> becalm.uint(4).cost("table", entries=squares, to=becalm.uint(8)).bootstraps
        4
        """
        given = {"clear": clear, "count": count, "other": other, "to": to, "entries": entries}
        set_ = _values.set_of("cost", params)

        def one(name: str, operands: _integer_operations.Operands) -> Cost:
            native, _ = _integer_operations.record(set_, name, bool(deep), tuple(operands), True)
            return Cost(**native.cost())

        return _integer_operations.cost_by(self, operation, given, one)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IntegerType) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<becalm.{self.name}>"

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        low, high = _integer_operations.short(self.min), _integer_operations.short(self.max)
        return f"becalm.{self.name}", [("values", f"{low} to {high}"), ("dtype", self.dtype)]


def _width(op: str, bits: Any) -> int:
    if isinstance(bits, int) and bits < 0:
        raise BadInput(op, "2 to 256 bits", str(bits), "choose a width in that range")
    return _values.count(op, "bits", bits)


def uint(bits: int) -> IntegerType:
    """Unsigned integers of 2 to 256 bits.

    Returns
    -------
    IntegerType
        The type.

    Examples
    --------
    >>> becalm.uint(16).max
    65535
    """
    return IntegerType(f"uint{_width('uint', bits)}")


def int_(bits: int) -> IntegerType:
    """Two's complement integers of 2 to 256 bits.

    Returns
    -------
    IntegerType
        The type.

    Examples
    --------
    >>> becalm.int_(16).min
    -32768
    """
    return IntegerType(f"int{_width('int_', bits)}")


#: Booleans.
boolean = IntegerType("bool")


def named(op: str, value: Any) -> IntegerType:
    """The type that a value names: a type, its name, or whatever numpy takes for a type of
    integers, such as `np.uint8`, `"u1"` or `int`. Refuses all else."""
    if isinstance(value, IntegerType):
        return value
    if isinstance(value, str):
        with contextlib.suppress(BadInput):
            return IntegerType(value)
    with contextlib.suppress(TypeError, ValueError, SyntaxError):
        # Anything else with a `dtype` is a value, not a type.
        found = np.dtype(value) if isinstance(value, (str, type, np.dtype)) else None
        if found is not None and found.kind in "biu":
            return IntegerType(found.name)
    remedy = "pass becalm.uint(bits), becalm.int_(bits), becalm.boolean, or np.uint8, np.int64, ..."
    raise BadInput(op, "a type of integers", _called(value), remedy)


def _called(value: Any) -> str:
    if isinstance(value, (str, np.dtype)):
        return str(value)[:40]
    return value.__name__ if isinstance(value, type) else type(value).__name__
