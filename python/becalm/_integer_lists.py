"""Encrypted arrays as lists: reductions, prefixes, order, membership, products of matrices.

Every call here records one program, whose arguments are the elements along an axis, and runs it
once on all other places of the array.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from becalm import _integer_arrays, _integer_operations, _integer_operators, _integer_types, _values
from becalm._integer_matmul import dot, matmul
from becalm.errors import BadInput, Unsupported

if TYPE_CHECKING:
    from becalm._integer_types import IntegerType
    from becalm.integers import Integers

Axis = int | Sequence[int] | None


class Lists(_integer_arrays.Array):
    """Operations along the axes of an array; `_run` records and runs."""

    __slots__ = ()
    type: IntegerType

    def _run(
        self, operation: str, operands: list[Any], clear: IntegerType | None = None
    ) -> list[Integers]:
        raise NotImplementedError

    def _filled(self, op: str, type_: IntegerType, shape: tuple[int, ...], value: Any) -> Integers:
        raise NotImplementedError

    def sum(self, axis: Axis = None, *, keepdims: bool = False) -> Integers:
        """The sum of all elements, or along one or several axes, in this type: it wraps. Booleans
        are counted in an unsigned type just wide enough.

        Parameters
        ----------
        axis
            An axis or a tuple of them; all by default.
        keepdims
            Whether the axes stay, with length 1.

        Raises
        ------
        OutOfMemory
            For lists whose program would not fit into memory: split them.

        Returns
        -------
        Integers
            The sums.

        Examples
        --------
        >>> x.sum(axis=0).decrypt(secret).tolist()
        [21, 3]
        >>> (x > 50).sum()
        <becalm.Integers of uint3, shape (), on a server>
        """
        return self._reduced("sum", axis, keepdims, empty=0)

    def parity(self, axis: Axis = None, *, keepdims: bool = False) -> Integers:
        """Whether an odd number of these booleans is true: their XOR.

        Parameters
        ----------
        axis
            An axis or a tuple of them; all by default.
        keepdims
            Whether the axes stay, with length 1.

        Returns
        -------
        Integers
            Booleans.

        Examples
        --------
        >>> (x > 50).parity(axis=0).decrypt(secret).tolist()
        [False, False]
        """
        return self._reduced("parity", axis, keepdims, empty=0)

    def any(self, axis: Axis = None, *, keepdims: bool = False) -> Integers:
        """Whether any element is not zero, of all or along axes.

        Parameters
        ----------
        axis
            An axis or a tuple of them; all by default.
        keepdims
            Whether the axes stay, with length 1.

        Returns
        -------
        Integers
            Booleans.

        Examples
        --------
        >>> x.any(axis=1).decrypt(secret).tolist()
        [True, True]
        """
        return self._reduced("any", axis, keepdims, empty=0)

    def all(self, axis: Axis = None, *, keepdims: bool = False) -> Integers:
        """Whether no element is zero, of all or along axes.

        Parameters
        ----------
        axis
            An axis or a tuple of them; all by default.
        keepdims
            Whether the axes stay, with length 1.

        Returns
        -------
        Integers
            Booleans.

        Examples
        --------
        >>> x.all(axis=1).decrypt(secret).tolist()
        [True, False]
        """
        return self._reduced("all", axis, keepdims, empty=1)

    def prod(self, axis: Axis = None, *, keepdims: bool = False) -> Integers:
        """The product of all elements, or along axes, in this type: it wraps.

        Parameters
        ----------
        axis
            An axis or a tuple of them; all by default.
        keepdims
            Whether the axes stay, with length 1.

        Returns
        -------
        Integers
            The products.

        Examples
        --------
        >>> x.prod(axis=1).decrypt(secret).tolist()
        [88, 0]
        """
        return self._reduced("prod", axis, keepdims, empty=1)

    def min(self, other: Any = None, *, axis: Axis = None, keepdims: bool = False) -> Integers:
        """The smaller of two elements, as `numpy.minimum`. Without `other` the least element of
        all, or along axes.

        Parameters
        ----------
        other
            An operand, encrypted or plain. It excludes `axis` and `keepdims`.
        axis
            An axis or a tuple of them; all by default.
        keepdims
            Whether the axes stay, with length 1.

        Returns
        -------
        Integers
            In this type.

        Examples
        --------
        >>> x.min(100).decrypt(secret).tolist(), x.min().decrypt(secret)
        ([[100, 3], [77, 0]], 0)
        """
        return self._best("min", other, axis, keepdims)

    def max(self, other: Any = None, *, axis: Axis = None, keepdims: bool = False) -> Integers:
        """The greater of two elements, as `numpy.maximum`. Without `other` the greatest element of
        all, or along axes.

        Parameters
        ----------
        other
            An operand, encrypted or plain. It excludes `axis` and `keepdims`.
        axis
            An axis or a tuple of them; all by default.
        keepdims
            Whether the axes stay, with length 1.

        Returns
        -------
        Integers
            In this type.

        Examples
        --------
        >>> x.max(100).decrypt(secret).tolist(), x.max(axis=0).decrypt(secret).tolist()
        ([[200, 100], [100, 100]], [200, 3])
        """
        return self._best("max", other, axis, keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Integers:
        """The place of the least element, the first of equal ones, in the flat array or along an
        axis. Its type is unsigned and just wide enough, so that `x[x.argmin()]` works.

        Parameters
        ----------
        axis
            An axis, or `None` for the flat array.
        keepdims
            Whether the axis stays, with length 1.

        Returns
        -------
        Integers
            Places.

        Examples
        --------
        >>> x.argmin().decrypt(secret), x.argmin(axis=0).decrypt(secret).tolist()
        (3, [1, 1])
        """
        return self._reduced("argmin", _single("argmin", axis), keepdims)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Integers:
        """The place of the greatest element, as `argmin`.

        Parameters
        ----------
        axis
            An axis, or `None` for the flat array.
        keepdims
            Whether the axis stays, with length 1.

        Returns
        -------
        Integers
            Places.

        Examples
        --------
        >>> x.argmax().decrypt(secret), x.argmax(axis=0).decrypt(secret).tolist()
        (0, [0, 0])
        """
        return self._reduced("argmax", _single("argmax", axis), keepdims)

    def sort(self, axis: int | None = -1) -> Integers:
        """The elements in ascending order along an axis, or of all (`None`), as a new array.

        One run of a sorting network: for n elements about n·log²n/4 comparisons.

        Returns
        -------
        Integers
            A new array.

        Examples
        --------
        >>> x.sort().decrypt(secret).tolist(), x.sort(axis=None).decrypt(secret).tolist()
        ([[3, 200], [0, 77]], [0, 3, 77, 200])
        """
        return self._along("sort", axis)

    def argsort(self, axis: int | None = -1) -> Integers:
        """The places of the elements in ascending order. Equal ones keep their order (stable).

        Returns
        -------
        Integers
            Places, in an unsigned type just wide enough.

        Examples
        --------
        >>> x.argsort(axis=0).decrypt(secret).tolist()
        [[1, 1], [0, 0]]
        """
        return self._along("argsort", axis)

    def cumsum(self, axis: int | None = None) -> Integers:
        """The sums of the first elements, along an axis or of the flat array, in this type: they
        wrap. Booleans are counted, as by `sum`.

        Returns
        -------
        Integers
            As many as there are elements.

        Examples
        --------
        >>> x.cumsum().decrypt(secret).tolist()
        [200, 203, 24, 24]
        """
        return self._along("cumsum", axis)

    def cumprod(self, axis: int | None = None) -> Integers:
        """The products of the first elements along an axis, or of the flat array; they wrap.

        Returns
        -------
        Integers
            As many as there are elements.

        Examples
        --------
        >>> x.cumprod(axis=1).decrypt(secret).tolist()
        [[200, 88], [77, 0]]
        """
        return self._along("cumprod", axis)

    def cummin(self, axis: int | None = None) -> Integers:
        """The least of the first elements, as `numpy.minimum.accumulate`.

        Returns
        -------
        Integers
            As many as there are elements.

        Examples
        --------
        >>> x.cummin().decrypt(secret).tolist()
        [200, 3, 3, 0]
        """
        return self._along("cummin", axis)

    def cummax(self, axis: int | None = None) -> Integers:
        """The greatest of the first elements, as `numpy.maximum.accumulate`.

        Returns
        -------
        Integers
            As many as there are elements.

        Examples
        --------
        >>> np.maximum.accumulate(x, axis=1).decrypt(secret).tolist()
        [[200, 200], [77, 77]]
        """
        return self._along("cummax", axis)

    def diff(self, n: int = 1, axis: int = -1) -> Integers:
        """Differences of neighbours along an axis, `n` times; they wrap. Each time is one run.

        Parameters
        ----------
        n
            How often.
        axis
            The axis.

        Returns
        -------
        Integers
            `n` elements fewer along the axis.

        Examples
        --------
        >>> x.diff(axis=0).decrypt(secret).tolist()
        [[133, 253]]
        """
        times = _values.count("diff", "n", n)
        rows: Any = self._first(_axis("diff", axis, self.ndim))
        for _ in range(times):
            rows = rows[1:] - rows[:-1] if len(rows) else rows
        return rows._moved("diff", lambda places: np.moveaxis(places, 0, axis))  # type: ignore[no-any-return]

    def isin(self, values: Any, *, invert: bool = False) -> Integers:
        """Whether each element is among `values`, which are clear or encrypted; with `invert`,
        whether it is not.

        Parameters
        ----------
        values
            Plain numbers or encrypted integers.
        invert
            Whether the answer is turned round.

        Returns
        -------
        Integers
            Booleans in this shape.

        Examples
        --------
        >>> x.isin([3, 4, 1000]).decrypt(secret).tolist()
        [[False, True], [False, False]]
        """
        flat: list[Any]
        if isinstance(values, Lists):
            flat = list(values.reshape(-1))
        else:
            listed = _integer_operations.numbers("isin", values).ravel()
            known = {_integer_operations.as_number("isin", v) for v in listed}
            # No element equals a value that the type cannot hold.
            flat = sorted(v for v in known if self.type.min <= v <= self.type.max)
        if not flat:
            return self._filled("isin", _integer_types.boolean, self._shape, int(invert))
        _integer_operations.require_count("isin", self.type, len(flat))
        found = self._run("isin", [self, *flat])[0]
        return ~found if invert else found

    def sign(self) -> Integers:
        """-1, 0 or 1 for elements below, at or above 0.

        Returns
        -------
        Integers
            In this type.

        Raises
        ------
        Unsupported
            For booleans.

        Examples
        --------
        >>> x.sign().decrypt(secret).tolist()
        [[1, 1], [1, 0]]
        """
        if self.type == _integer_types.boolean:
            raise Unsupported("sign", "integers", "booleans", "they are their own sign")
        return self._run("sign", [self])[0]

    def clip(self, min: Any = None, max: Any = None) -> Integers:
        """Elements below `min` become `min`, those above `max` become `max`; either may be left
        out.

        Parameters
        ----------
        min
            The least value, plain or encrypted; `None` for none.
        max
            The greatest value, plain or encrypted; `None` for none.

        Returns
        -------
        Integers
            In this type.

        Examples
        --------
        >>> x.clip(5, 100).decrypt(secret).tolist()
        [[100, 5], [77, 5]]
        """
        if min is None or max is None:
            above = self if min is None else self.max(min)
            return above if max is None else above.min(max)  # type: ignore[return-value]
        return self._run("clip", [self, min, max])[0]

    def dot(self, other: Any) -> Integers:
        """Sums of products of the last axis and the last but one of `other`, in this type, as
        `np.dot` has them. One of the two may be clear, which is cheaper. `x @ y` is the same for
        lists and matrices, and takes stacks of matrices in pairs.

        Returns
        -------
        Integers
            In the shape that numpy gives.

        Raises
        ------
        BadInput
            For operands whose inner lengths differ, or that are no integers.

        Examples
        --------
        >>> (x[0] @ [1, 10]).decrypt(secret)
        230
        >>> ([[0, 1], [2, 0]] @ x).decrypt(secret).tolist()
        [[77, 0], [144, 6]]
        """
        found = dot(self, other)
        if found is NotImplemented:
            got = type(other).__name__
            raise BadInput("dot", "a list or a matrix", got, "pass encrypted or clear integers")
        return found  # type: ignore[no-any-return]

    #: What `np.dot` is, whichever of its operands is encrypted.
    _dot = staticmethod(dot)

    def __matmul__(self, other: Any) -> Integers:
        return matmul(self, other)  # type: ignore[no-any-return]

    def __rmatmul__(self, other: Any) -> Integers:
        return matmul(other, self)  # type: ignore[no-any-return]

    def __pow__(self, exponent: Any) -> Integers:
        """A power by squares and products, in this type; the exponent is a clear number.

        >>> (x ** 2).decrypt(secret).tolist()
        [[64, 9], [41, 0]]
        """
        e = None if isinstance(exponent, Lists) else _integer_operators.number("power", exponent)
        if not isinstance(e, int) or e < 0:
            wanted = "an unencrypted integer from 0 as exponent"
            got = _integer_operations.short(e) if isinstance(e, int) else type(exponent).__name__
            raise Unsupported("power", wanted, got, "multiply, or use x.table([...])")
        return self._run("pow", [self, e], _integer_types.uint(64))[0]

    def _reduced(
        self, operation: str, axis: Axis, keepdims: bool, empty: int | None = None
    ) -> Integers:
        """An operation on the list of elements along axes; `empty` is that of none."""
        axes = _axes(operation, axis, self.ndim)
        rows: Any = self._rows(axes)
        if len(rows):
            _integer_operations.require_count(operation, self.type, len(rows))
            found = self._run(operation, list(rows))[0]
        elif empty is None:
            raise BadInput(operation, "at least one element", "none", "pass an operand, or more")
        else:
            counted = (operation, self.type) == ("sum", _integer_types.boolean)
            ty = _integer_types.uint(2) if counted else self.type
            ty = _integer_types.boolean if operation in ("any", "all") else ty
            found = self._filled(operation, ty, rows._shape[1:], empty)
        if not keepdims:
            return found
        return found.reshape(*(1 if i in axes else n for i, n in enumerate(self._shape)))

    def _best(self, operation: str, other: Any, axis: Axis, keepdims: bool) -> Integers:
        if other is None:
            return self._reduced(operation, axis, keepdims)
        if axis is not None or keepdims:
            raise BadInput(operation, "an operand or an axis", "both", "leave one of them out")
        return self._run(operation, [self, other])[0]

    def _along(self, operation: str, axis: int | None) -> Integers:
        """An operation whose results stand along the axis where its arguments stood."""
        if axis is None:
            return self.reshape(-1)._along(operation, 0)
        at = _axis(operation, axis, self.ndim)
        rows: Any = self._first(at)
        if not rows.size:
            other = operation == "argsort" or (operation, self.type) == (
                "cumsum",
                _integer_types.boolean,
            )
            ty = _integer_types.uint(2) if other else self.type
            return self._filled(operation, ty, self._shape, 0)
        _integer_operations.require_count(operation, self.type, len(rows))
        parts = self._run(operation, list(rows))
        return self._by_places(parts, lambda places: np.stack(places, at))

    def _rows(self, axes: tuple[int, ...]) -> Any:
        """The array with these axes as one, in front."""
        count = int(np.prod([self._shape[i] for i in axes]))
        rest = [n for i, n in enumerate(self._shape) if i not in axes]

        def merged(places: Any) -> Any:
            return np.moveaxis(places, axes, range(len(axes))).reshape(count, *rest)

        return self._moved("axis", merged)


def _axes(op: str, axis: Axis, ndim: int) -> tuple[int, ...]:
    """Axes from the front, in order. Raises for an axis that the array does not have."""
    if axis is None:
        return tuple(range(ndim))
    listed = axis if isinstance(axis, (tuple, list)) else [axis]
    found = sorted(_axis(op, i, ndim) for i in listed)
    if len(set(found)) < len(found):
        raise BadInput(op, "each axis once", str(tuple(listed)), "leave one of them out")
    return tuple(found)


def _axis(op: str, axis: Any, ndim: int) -> int:
    try:
        at = operator.index(axis)
    except TypeError:
        at = ndim
    if not -ndim <= at < ndim:
        got = f"axis {axis} of an array of {ndim} dimensions"
        raise BadInput(op, "an axis of the array", got, "choose one that it has")
    return at % ndim


def _single(op: str, axis: Any) -> int | None:
    """One axis, or None for the flat array: several axes give no single index."""
    if isinstance(axis, (tuple, list)):
        raise BadInput(op, "one axis or None", str(axis), "reshape the array first")
    return axis  # type: ignore[no-any-return]
