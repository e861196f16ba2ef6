"""A function of encrypted vectors, and the places of values in vectors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from becalm import _html, _native, _values
from becalm._called import called
from becalm._ckks_vector import Vector, computing, numbers, operand
from becalm.errors import BadInput, Unsupported

V = TypeVar("V", bound=Vector[Any])
#: Two ends of an interval.
Domain = tuple[float, float]


class Function(_html.Shown):
    """A function of real vectors, slot by slot or between slots, of ciphertexts or registers.

    It is made by `ckks.approximate`, `ckks.sigmoid`, `ckks.sort` and others.

    Examples
    --------
    >>> from becalm import ckks
    >>> ckks.tanh(domain=(-1, 1), bits=20)
    <becalm.ckks.Function tanh on [-1, 1]: 4 levels, 21.9 bits>
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.CkksFunction) -> None:
        if not isinstance(native, _native.CkksFunction):
            remedy = "make one with ckks.approximate(f, domain=(-1, 1), bits=20)"
            raise BadInput("function", "one that becalm made", type(native).__name__, remedy)
        self._native = native

    @property
    def name(self) -> str:
        """Its name."""
        return self._native.name

    @property
    def arguments(self) -> int:
        """The number of vectors that it takes."""
        return self._native.arguments

    @property
    def levels(self) -> int:
        """Levels from its arguments to its result; bootstraps may divide them (`auto=True`)."""
        return self._native.levels

    @property
    def error(self) -> float:
        """The largest absolute error over the domain, measured on thousands of points when the
        function was made. The error of ciphertexts comes on top.
        """
        return self._native.error

    @property
    def bits(self) -> float:
        """−log2 of `error`."""
        return -math.log2(self.error) if self.error else math.inf

    @property
    def domain(self) -> Domain | None:
        """The values that it is made for; `None` if it takes all. Beyond them results are wrong."""
        return self._native.domain

    @property
    def gap(self) -> float | None:
        """The least distance between values that it tells apart, if there is one."""
        return self._native.gap

    @property
    def products(self) -> int:
        """Products of two ciphertexts that it takes."""
        return self._native.products

    @property
    def size(self) -> int:
        """Slots of a block: each block of a vector has a result of its own. 1 for most."""
        return self._native.period

    def rotations(self, slots: int | None = None) -> list[int]:
        """The rotations that a server needs for it: `keygen(…, rotations=f.rotations(slots))`.

        `slots` are those of the vectors, by default those of one block.

        Returns
        -------
        list of int
            Numbers of slots to the left.

        Examples
        --------
        >>> ckks.largest(4).rotations()
        [1, 2]
        """
        count = self.size if slots is None else _values.at_least_one("rotations", "slots", slots)
        return self._native.rotations(count)

    def bootstraps(self, *xs: Vector[Any]) -> int:
        """Bootstraps that `f(*xs, auto=True)` would take.

        Returns
        -------
        int
            The number of bootstraps.

        Examples
        --------
        >>> f = ckks.sign(gap=2**-4)
        >>> f.bootstraps(secret.encrypt([0.5, -0.5], level=f.levels))
        0
        """
        side = computing(self._given(xs)[0], self.name)
        levels = [x.level for x in xs]
        return side._planned.bootstraps_of(self._native, levels, xs[0].slots)

    def __call__(self, *xs: V, auto: bool = False) -> Any:
        """The function of these vectors, which are real.

        `auto=True` bootstraps where levels run out, by the usual kind of the server; without it
        the vectors need `levels` levels. The result is a vector, or a tuple of them.

        Raises `BadInput` for too low a level or another number of vectors, and `WrongKey` for a
        rotation or a bootstrap that the server has no keys for.
        """
        given = self._given(xs)
        made = computing(given[0], self.name).evaluate(self._native, given, auto)
        return made[0] if len(made) == 1 else tuple(made)

    def _given(self, xs: Sequence[V]) -> list[V]:
        if len(xs) != self.arguments:
            wanted = _values.counted(self.arguments, "vector")
            remedy = "pass ciphertexts or registers of a program"
            raise BadInput(self.name, wanted, str(len(xs)), remedy)
        return list(xs)

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        exact = self.error == 0
        return "becalm.ckks.Function", [
            ("name", self.name),
            ("domain", _interval(self.domain) if self.domain else "all values"),
            ("gap", self.gap),
            ("levels", self.levels),
            ("bits", "all" if exact else f"{self.bits:.1f}"),
            ("products", self.products),
            ("vectors", self.arguments),
        ]

    def __repr__(self) -> str:
        on = f" on {_interval(self.domain)}" if self.domain else ""
        of = f" of {self.size} slots" if self.size > 1 else ""
        apart = f", {self.gap:g} apart" if self.gap else ""
        bits = f", {self.bits:.1f} bits" if self.error else ""
        levels = _values.counted(self.levels, "level")
        return f"<becalm.ckks.Function {self.name}{of}{on}{apart}: {levels}{bits}>"

    def __reduce__(self) -> NoReturn:
        remedy = "make it there with the same arguments"
        raise Unsupported("copy", "an object that can be pickled", "a function", remedy)


def _interval(domain: Domain) -> str:
    return f"[{domain[0]:g}, {domain[1]:g}]"


def ends_of(op: str, domain: Any) -> Domain:
    ends = numbers(op, domain)
    if ends.shape != (2,) or ends.dtype.kind == "c":
        raise BadInput(op, "a domain of two numbers", str(domain), "as in domain=(-8, 8)")
    return float(ends[0]), float(ends[1])


def real_of(op: str, name: str, value: Any) -> float:
    return _values.real(op, name, value)


def count_of(op: str, name: str, value: Any) -> int:
    return _values.at_least_one(op, name, value)


def packed(matrix: npt.ArrayLike, size: int, *, slots: int | None = None) -> npt.NDArray[Any]:
    """The entries of a matrix row by row, filled with zeros to `size` rows and columns: a vector to
    encrypt. With `slots` above size² it repeats.

    Parameters
    ----------
    matrix
        Rows of numbers.
    size
        How many rows and columns, a power of two for products.
    slots
        Length of the result, a multiple of size²; size² by default.

    Returns
    -------
    array
        A flat array.

    Raises
    ------
    BadInput
        For a larger matrix, or other slots.

    Examples
    --------
    >>> ckks.packed([[1, 2]], 2).tolist()
    [1.0, 2.0, 0.0, 0.0]
    """
    op, rows = "packed", numbers("packed", matrix)
    count = count_of(op, "size", size)
    if rows.ndim != 2 or max(rows.shape, default=0) > count:
        wanted = f"a matrix of at most {count} rows and columns"
        raise BadInput(op, wanted, f"shape {rows.shape}", "choose a larger size")
    whole = np.zeros((count, count), rows.dtype)
    whole[: rows.shape[0], : rows.shape[1]] = rows
    total = count * count if slots is None else count_of(op, "slots", slots)
    if total % (count * count):
        wanted = f"a multiple of {count * count} slots"
        raise BadInput(op, wanted, str(total), "use the slots of the server")
    return np.tile(whole.ravel(), total // (count * count))


def unpacked(
    values: npt.ArrayLike, shape: tuple[int, int], size: int | None = None
) -> npt.NDArray[Any]:
    """The matrix of a vector that `packed` made, or that a product of such gave, in its shape.

    `size` is that of `packed`; by default the square root of the number of values.

    Parameters
    ----------
    values
        A flat array.
    shape
        Rows and columns of the matrix.
    size
        As for `packed`; by default the square root of the number of values.

    Returns
    -------
    array
        The matrix.

    Raises
    ------
    BadInput
        For too few values.

    Examples
    --------
    >>> ckks.unpacked([1, 2, 0, 0], (1, 2)).tolist()
    [[1.0, 2.0]]
    """
    op, flat = "unpacked", numbers("unpacked", values)
    count = math.isqrt(flat.size) if size is None else count_of(op, "size", size)
    if flat.ndim != 1 or flat.size < count * count or max(shape) > count:
        wanted = f"at least {max(shape)}² values in a flat array"
        raise BadInput(op, wanted, f"shape {flat.shape}", "pass the size of `packed`")
    entries: npt.NDArray[Any] = flat[: count * count]
    return entries.reshape(count, count)[: shape[0], : shape[1]]


@called("concatenate")
def concatenate(xs: Iterable[V], sizes: int | Sequence[int]) -> V:
    """The first values of several vectors in one: `sizes` of them, one number for all or one each.

    It takes a level, and a rotation to the right by the place of each: with `sizes` of 3 and 4 by
    3 slots. The values behind them are left out.

    Parameters
    ----------
    xs
        Vectors.
    sizes
        How many values of each.

    Returns
    -------
    Ciphertext or Register
        One vector, one level lower.

    Raises
    ------
    BadInput
        For no vectors, or another number of sizes.

    Examples
    --------
    >>> x, y = secret.encrypt([1, 2], bound=2), secret.encrypt([3, 4], bound=4)
    >>> secret.decrypt(ckks.concatenate([x, y], 2)).round(2).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    op, vectors = "concatenate", list(xs)
    counts = [sizes] * len(vectors) if isinstance(sizes, int) else list(sizes)
    if not vectors or len(counts) != len(vectors):
        got = f"{len(vectors)} vectors and {len(counts)} sizes"
        raise BadInput(op, "vectors, and a size for each", got, "as in concatenate([x, y], [3, 4])")
    least = [count_of(op, "sizes", count) for count in counts]
    native = _native.CkksFunction.concatenate(operand(vectors[0], op).slots, least)
    made: V = computing(vectors[0], op).evaluate(native, vectors, False)[0]
    return made
