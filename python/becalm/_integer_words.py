"""Bits and overflows of encrypted integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from becalm import _integer_lists

if TYPE_CHECKING:
    from becalm.integers import Integers


class Words(_integer_lists.Lists):
    """Operations on the bits of each element; `_run` records and runs."""

    __slots__ = ()

    def abs(self) -> Integers:
        """The absolute value; of the least value itself, as numpy's.

        Returns
        -------
        Integers
            In this type.

        Examples
        --------
        >>> becalm.int_(8).encrypt(secret, [-3, 5]).on(server).abs().decrypt(secret).tolist()
        [3, 5]
        """
        return self._run("abs", [self])[0]

    def rotate_left(self, by: Any) -> Integers:
        """The bits turned towards the high end, by a number or encrypted unsigned amounts.

        Returns
        -------
        Integers
            In this type.

        Examples
        --------
        >>> x = becalm.uint(8).encrypt(secret, [129, 3]).on(server)
        >>> x.rotate_left(1).decrypt(secret).tolist()
        [3, 6]
        """
        return self._run("rotate_left", [self, by])[0]

    def rotate_right(self, by: Any) -> Integers:
        """The bits turned towards the low end, by a number or encrypted unsigned amounts.

        Returns
        -------
        Integers
            In this type.

        Examples
        --------
        >>> x = becalm.uint(8).encrypt(secret, [129, 3]).on(server)
        >>> x.rotate_right(1).decrypt(secret).tolist()
        [192, 129]
        """
        return self._run("rotate_right", [self, by])[0]

    def count_ones(self) -> Integers:
        """How many bits are 1, in an unsigned type just wide enough; so are those below.

        Returns
        -------
        Integers
            Counts.

        Examples
        --------
        >>> x.count_ones().decrypt(secret).tolist()
        [[3, 2], [4, 0]]
        """
        return self._run("count_ones", [self])[0]

    def leading_zeros(self) -> Integers:
        """Zeros above the highest 1.

        Returns
        -------
        Integers
            Counts, in an unsigned type just wide enough.

        Examples
        --------
        >>> x.leading_zeros().decrypt(secret).tolist()
        [[0, 6], [1, 8]]
        """
        return self._run("leading_zeros", [self])[0]

    def trailing_zeros(self) -> Integers:
        """Zeros below the lowest 1.

        Returns
        -------
        Integers
            Counts, in an unsigned type just wide enough.

        Examples
        --------
        >>> x.trailing_zeros().decrypt(secret).tolist()
        [[3, 0], [0, 8]]
        """
        return self._run("trailing_zeros", [self])[0]

    def leading_ones(self) -> Integers:
        """Ones above the highest 0.

        Returns
        -------
        Integers
            Counts, in an unsigned type just wide enough.

        Examples
        --------
        >>> x.leading_ones().decrypt(secret).tolist()
        [[2, 0], [0, 0]]
        """
        return self._run("leading_ones", [self])[0]

    def trailing_ones(self) -> Integers:
        """Ones below the lowest 0.

        Returns
        -------
        Integers
            Counts, in an unsigned type just wide enough.

        Examples
        --------
        >>> x.trailing_ones().decrypt(secret).tolist()
        [[0, 2], [1, 0]]
        """
        return self._run("trailing_ones", [self])[0]

    def ilog2(self) -> Integers:
        """The place of the highest 1, that of its sign for a negative number; all ones (of the
        result's type) for 0.

        Returns
        -------
        Integers
            Places from 0, in an unsigned type.

        Examples
        --------
        >>> x.ilog2().decrypt(secret).tolist()
        [[7, 1], [6, 15]]
        """
        return self._run("ilog2", [self])[0]

    def overflowing_add(self, other: Any) -> tuple[Integers, Integers]:
        """The sum, and a boolean: whether it left the type.

        Returns
        -------
        tuple of Integers
            The sum, which wraps, and the boolean.

        Examples
        --------
        >>> s, left = x.overflowing_add(100)
        >>> left.decrypt(secret).tolist()
        [[True, False], [False, False]]
        """
        result, left = self._run("overflowing_add", [self, other])
        return result, left

    def overflowing_sub(self, other: Any) -> tuple[Integers, Integers]:
        """The difference, and a boolean: whether it left the type.

        Returns
        -------
        tuple of Integers
            The difference, which wraps, and the boolean.

        Examples
        --------
        >>> _, left = x.overflowing_sub(100)
        >>> left.decrypt(secret).tolist()
        [[False, True], [True, True]]
        """
        result, left = self._run("overflowing_sub", [self, other])
        return result, left

    def overflowing_mul(self, other: Any) -> tuple[Integers, Integers]:
        """The product, and a boolean: whether it left the type; of at most 128 bits.

        Returns
        -------
        tuple of Integers
            The product, which wraps, and the boolean.

        Examples
        --------
        >>> _, left = x.overflowing_mul(2)
        >>> left.decrypt(secret).tolist()
        [[True, False], [False, False]]
        """
        result, left = self._run("overflowing_mul", [self, other])
        return result, left

    def refresh(self) -> Integers:
        """The same values with the noise of one bootstrap, for long sums of moved elements.

        Returns
        -------
        Integers
            Fresh ones.

        Examples
        --------
        >>> x.refresh().decrypt(secret).tolist()
        [[200, 3], [77, 0]]
        """
        return self._run("refresh", [self])[0]
