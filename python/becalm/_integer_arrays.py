"""The places of an encrypted array's elements: shapes, views, joins. None takes a bootstrap.

numpy itself moves the places, on an array of their numbers, and the elements follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from becalm import _integer_operators, ciphertext
from becalm.ciphertext import Ciphertext
from becalm.errors import BadInput

if TYPE_CHECKING:
    from becalm.integers import Integers

Self = TypeVar("Self", bound="Array")


class Array(_integer_operators.Operators):
    """The shape of an array, and methods that only move elements; `_mapped` moves ciphertexts."""

    __slots__ = ()
    #: Its name in an error of another class.
    _what = "encrypted integers"
    _shape: tuple[int, ...]

    def _mapped(self: Self, f: Callable[[Ciphertext], Ciphertext]) -> Self:
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array; `()` for a single value."""
        return self._shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self._shape))

    @property
    def T(self: Self) -> Self:
        """The array with its axes in reverse order."""
        return self.transpose()

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of a single encrypted integer")
        return self._shape[0]

    def __iter__(self: Self) -> Iterator[Self]:
        if not self._shape:
            raise TypeError("iteration over a single encrypted integer")
        return (self._mapped(lambda c, i=i: c[i]) for i in range(len(self)))  # type: ignore[misc]

    def reshape(self: Self, *shape: int | Sequence[int]) -> Self:
        """The same integers in another shape; one dimension may be -1.

        Parameters
        ----------
        *shape
            The sizes, or a sequence of them.

        Returns
        -------
        Integers
            In the new shape.

        Examples
        --------
        >>> x.reshape(-1).decrypt(secret).tolist()
        [200, 3, 77, 0]
        """
        return self._mapped(lambda c: c.reshape(*shape))

    def ravel(self: Self) -> Self:
        """The same integers in one dimension.

        Returns
        -------
        Integers
            A flat array.

        Examples
        --------
        >>> x.ravel().shape
        (4,)
        """
        return self.reshape(-1)

    def flatten(self: Self) -> Self:
        """The same integers in one dimension.

        Returns
        -------
        Integers
            A flat array.

        Examples
        --------
        >>> x.flatten().shape
        (4,)
        """
        return self.reshape(-1)

    def transpose(self: Self, *axes: Any) -> Self:
        """The array with its axes in another order, by default the reverse.

        Returns
        -------
        Integers
            The same elements.

        Examples
        --------
        >>> x.transpose(1, 0).decrypt(secret).tolist()
        [[200, 77], [3, 0]]
        """
        return self._moved("transpose", lambda places: places.transpose(*axes))

    def swapaxes(self: Self, axis1: int, axis2: int) -> Self:
        """The array with two axes exchanged.

        Parameters
        ----------
        axis1, axis2
            The axes.

        Returns
        -------
        Integers
            The same elements.

        Examples
        --------
        >>> x.swapaxes(0, 1).decrypt(secret).tolist()
        [[200, 77], [3, 0]]
        """
        return self._moved("swapaxes", lambda places: places.swapaxes(axis1, axis2))

    def squeeze(self: Self, axis: Any = None) -> Self:
        """The array without its axes of length 1, or without those named.

        Returns
        -------
        Integers
            The same elements.

        Examples
        --------
        >>> x.reshape(1, 4).squeeze().shape
        (4,)
        """
        return self._moved("squeeze", lambda places: places.squeeze(axis))

    def copy(self: Self) -> Self:
        """The array itself: arrays are never changed in place.

        Returns
        -------
        Integers
            The array.

        Examples
        --------
        >>> x.copy() is x
        True
        """
        return self

    def _places(self) -> npt.NDArray[np.int64]:
        return np.arange(self.size).reshape(self._shape)

    def _moved(self: Self, op: str, f: Callable[[npt.NDArray[np.int64]], Any]) -> Self:
        """The elements in the places that `f` puts their numbers."""
        return self._cut(op, lambda places: [f(places)])[0]

    def _cut(
        self: Self, op: str, f: Callable[[npt.NDArray[np.int64]], Sequence[Any]]
    ) -> list[Self]:
        """An array for each of the lists of places that `f` gives."""
        try:
            parts = f(self._places())
        except (ValueError, TypeError, IndexError) as e:
            got = f"{str(e) or 'others'}, for shape {self._shape}"
            remedy = "pass arguments that numpy takes for an array of this shape"
            raise BadInput(op, "arguments that fit the array", got, remedy) from None
        flat = self.reshape(-1)
        return [flat._mapped(lambda c, part=part: c[part]) for part in parts]  # type: ignore[misc]

    def _first(self: Self, axis: int) -> Self:
        """The same with an axis moved to the front."""
        try:
            order = np.moveaxis(self._places(), axis, 0)
        except (ValueError, TypeError):
            got = f"axis {axis} of shape {self._shape}"
            raise BadInput("axis", "an axis of the array", got, "choose one it has") from None
        return self.reshape(-1)._mapped(lambda c: c[order])

    @staticmethod
    def _by_places(parts: Sequence[Any], f: Callable[[list[Any]], Any]) -> Integers:
        """Arrays joined as `f` joins the numbers of their places."""
        return joined(list(parts), lambda p: ciphertext.joined_by(p, f))


def joined(parts: Sequence[Any], join: Callable[[list[Ciphertext]], Ciphertext]) -> Integers:
    """Arrays of one type, joined digit by digit; clear arrays take part where there is a
    server."""
    first: Integers = next(x for x in parts if isinstance(x, Array))  # type: ignore[assignment]
    kind = type(first)
    server = next((x._server for x in parts if isinstance(x, kind) and x._server), None)
    if server is not None:
        clear = (list, tuple, np.ndarray)
        parts = [first.type.trivial(server, x) if isinstance(x, clear) else x for x in parts]
    for x in parts:
        if not isinstance(x, kind) or x.type != first.type:
            got = x.type.name if isinstance(x, kind) else type(x).__name__
            wanted = f"arrays of {first.type.name}"
            raise BadInput("join", wanted, got, "encrypt it, or cast it with astype")
    count = range(len(first._digits))
    digits = [join([Ciphertext(x._digits[i], x._shape) for x in parts]) for i in count]
    return kind(first.type, [d._lwe for d in digits], digits[0]._shape, server)
