"""The calls of CKKS that need keys, once for the server, which computes, and for programs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

from becalm import _native, _values
from becalm._ckks_arithmetic import Matrix, chebyshev, paired
from becalm._ckks_sets import USUAL_SIZE, params, turns
from becalm._ckks_vector import Vector
from becalm._native_calls import Calls, Operand
from becalm.errors import BadInput, Error, WrongKey, WrongParams

N = TypeVar("N", bound=Operand)
V = TypeVar("V", bound=Vector[Any])


class Computes(Generic[V, N]):
    """Products, rotations, sums, matrices and polynomials of vectors `V`."""

    __slots__ = ()

    @property
    def _calls(self) -> Calls[N]:
        raise NotImplementedError

    def _operand(self, op: str, x: object) -> V:
        """A vector that this side computes with."""
        raise NotImplementedError

    def _vector(self, native: N) -> V:
        raise NotImplementedError

    def _product(self, matrix: Matrix, x: N) -> N:
        raise NotImplementedError

    def evaluate(self, function: _native.CkksFunction, xs: Sequence[V], auto: bool) -> list[V]:
        """The results of a function of vectors; `auto` bootstraps where levels run out.

        Call `ckks.sigmoid()(x)` and the like, which pass it on.

        Parameters
        ----------
        function, xs, auto
            The function, its vectors, and whether it may bootstrap.

        Returns
        -------
        list
            The results.

        Raises
        ------
        NotImplementedError
            Where no side computes.
        """
        raise NotImplementedError

    @property
    def _planned(self) -> _native.CkksPlan:
        raise NotImplementedError

    def multiply(self, a: V, b: V) -> V:
        """`a * b`, one level below the lower of the two.

        Parameters
        ----------
        a, b
            Vectors.

        Returns
        -------
        Ciphertext or Register
            The products.

        Examples
        --------
        >>> x = secret.encrypt([1, 2, 3, 4], bound=4)
        >>> secret.decrypt(server.multiply(x, x)).round(2).tolist()
        [1.0, 4.0, 9.0, 16.0]
        """
        x, y = self._operand("multiply", a), self._operand("multiply", b)
        return self._vector(self._calls.multiply(x._native, y._native))

    def power(self, x: V, exponent: int) -> V:
        """`x**exponent` by squares and products in one run; takes ⌈log2(exponent)⌉ levels.

        Parameters
        ----------
        x
            A vector.
        exponent
            An integer from 1.

        Returns
        -------
        Ciphertext or Register
            The powers.

        Examples
        --------
        >>> secret.decrypt(server.power(secret.encrypt([1, 2, 3, 4], bound=4), 3)).round(2).tolist()
        [1.0, 8.0, 27.0, 64.0]
        """
        native = self._operand("power", x)._native
        # No ciphertext has 63 levels.
        times = min(_values.at_least_one("power", "exponent", exponent), (1 << 63) - 1)
        return self._vector(self._calls.power(native, times))

    def dot(self, xs: Iterable[V], ys: Iterable[V]) -> V:
        """Σ x·y over pairs of two lists, one level below the lowest of all.

        It relinearizes and rescales once, where a sum of products does so for each. For the sum
        over the slots of one product, `(x * y).sum()`.

        Parameters
        ----------
        xs, ys
            Two lists of vectors.

        Returns
        -------
        Ciphertext or Register
            The sums.

        Examples
        --------
        >>> x, y = secret.encrypt([1, 2, 3, 4], bound=4), secret.encrypt([1, 0, 1, 0])
        >>> secret.decrypt(server.dot([x, x], [y, x])).round(2).tolist()
        [2.0, 4.0, 12.0, 16.0]
        """
        left, right = ([self._operand("dot product", x) for x in s] for s in paired(xs, ys))
        made = self._calls.dot([x._native for x in left], [y._native for y in right])
        return self._vector(made)

    def _inner(self, x: V, y: Any) -> V:
        """The products of two vectors, or of a vector and plain values, summed over all slots."""
        op = "dot product"
        native = self._operand(op, x)._native
        with named(_of_sum(native.slots, 1)):
            if isinstance(y, Vector):
                return self._vector(self._calls.inner(native, self._operand(op, y)._native))
            return self._vector(self._calls.inner_plain(native, x._factor(op, y)))

    @overload
    def rotate(self, x: V, by: int) -> V: ...

    @overload
    def rotate(self, x: V, by: Iterable[int]) -> list[V]: ...

    def rotate(self, x: V, by: int | Iterable[int]) -> V | list[V]:
        """The values moved to the left by `by` slots; needs the key of that rotation. Of several
        numbers it is a list, in less time than one by one (hoisting).

        Parameters
        ----------
        x
            A vector.
        by
            A number of slots, or several.

        Returns
        -------
        Ciphertext, Register or list
            A list for several numbers.

        Examples
        --------
        >>> y = server.rotate(secret.encrypt([1, 2, 3, 4], bound=4), 1)
        >>> secret.decrypt(y).round(2).tolist()
        [2.0, 3.0, 4.0, 1.0]
        """
        native = self._operand("rotate", x)._native
        listed, several = turns(by)
        least = [k % native.slots for k in listed]
        with named(f"make keys with rotations={listed}"):
            if not several:
                return self._vector(self._calls.rotate(native, least[0]))
            made = self._calls.rotate_many(native, least) if least else []
            return [self._vector(y) for y in made]

    def sum(self, x: V, size: int | None = None, *, stride: int = 1) -> V:
        """In slot i the sum of slots i, i + `stride`, …, of `size` slots, counted around; takes no
        level.

        Over all slots, which is the default, it is their sum in every slot. With a smaller `size`,
        a power of two, slots 0, `size`, 2·`size`, … have the sums of consecutive blocks; with a
        `stride` of a row, every row has the sums of columns. It needs the rotations of
        `ckks.sum_rotations(size, stride)`.

        Parameters
        ----------
        x
            A vector.
        size
            How many slots, by default all.
        stride
            How far apart they are.

        Returns
        -------
        Ciphertext or Register
            The sums.

        Examples
        --------
        >>> secret.decrypt(server.sum(secret.encrypt([1, 2, 3, 4], bound=4))).round(2).tolist()
        [10.0, 10.0, 10.0, 10.0]
        """
        native = self._operand("sum", x)._native
        count, step = _summed("sum", native.slots, size, stride)
        with named(_of_sum(count, step)):
            if step == 1:
                return self._vector(self._calls.sum(native, count))
            return self.evaluate(_native.CkksFunction.sum(count, step), [x], False)[0]

    def mean(self, x: V, size: int | None = None, *, stride: int = 1) -> V:
        """The mean of the slots that `sum` adds up; takes a level, and the same keys.

        Parameters
        ----------
        x
            A vector.
        size, stride
            As for `sum`.

        Returns
        -------
        Ciphertext or Register
            The means.

        Raises
        ------
        BadInput
            For a vector at level 0.

        Examples
        --------
        >>> secret.decrypt(server.mean(secret.encrypt([1, 2, 3, 4], bound=4))).round(2).tolist()
        [2.5, 2.5, 2.5, 2.5]
        """
        native = self._operand("mean", x)._native
        slots = native.slots
        count, step = _summed("mean", slots, size, stride)
        with named(_of_sum(count, step)):
            return self.evaluate(_native.CkksFunction.mean(count, step), [x], False)[0]

    def replicate(self, x: V, index: int = 0, size: int | None = None) -> V:
        """Every block of `size` slots, by default all slots, filled with its slot `index`.

        It takes a level. It needs the rotations of `ckks.sum_rotations(size)`, and the one by
        `index` − `size` + 1.

        Parameters
        ----------
        x
            A vector.
        index
            A slot of each block.
        size
            Slots of a block.

        Returns
        -------
        Ciphertext or Register
            One level lower.

        Raises
        ------
        BadInput
            For a vector at level 0.

        Examples
        --------
        >>> x = secret.encrypt([1, 2, 3, 4], bound=4)
        >>> secret.decrypt(server.replicate(x, 3)).round(2).tolist()
        [4.0, 4.0, 4.0, 4.0]
        """
        op, native = "replicate", self._operand("replicate", x)._native
        slots = native.slots
        count = slots if size is None else _values.at_least_one(op, "size", size)
        function = _native.CkksFunction.replicate(count, _values.count(op, "index", index))
        with named(f"make keys with rotations={function.rotations(slots)}"):
            return self.evaluate(function, [x], False)[0]

    def matmul(self, matrix: Matrix, x: V) -> V:
        """`matrix @ x`, one level lower; needs the keys of `matrix.rotations`.

        Parameters
        ----------
        matrix
            A `ckks.Matrix`.
        x
            A vector.

        Returns
        -------
        Ciphertext or Register
            The product.

        Raises
        ------
        BadInput
            For something else than a matrix, other slots, or a vector at level 0.

        Examples
        --------
        >>> M = ckks.Matrix([[0, 1], [1, 0]], slots=4)
        >>> secret.decrypt(server.matmul(M, secret.encrypt([1, 2], bound=2)))[:2].round(2).tolist()
        [2.0, 1.0]
        """
        op = "matrix product"
        native = self._operand(op, x)._native
        if not isinstance(matrix, Matrix):
            remedy = "make it of an array: ckks.Matrix(array)"
            raise BadInput(op, "a ckks.Matrix", type(matrix).__name__, remedy)
        if matrix.slots != native.slots:
            wanted, remedy = f"a matrix for {native.slots} slots", "pass Matrix(array, slots=…)"
            raise BadInput(op, wanted, f"one for {matrix.slots}", remedy)
        return self._vector(self._product(matrix, native))

    def polynomial(self, x: V, p: Any) -> V:
        """p of every value; takes ⌈log2(degree + 1)⌉ levels, or one more: `ckks.depth(p)`.

        `p` is a list of real coefficients from the constant up, for values in [−1, 1], or a
        `numpy.polynomial.Polynomial`, `Chebyshev` or another of these, for values in its `domain`.
        A domain that is not of length 2 takes a level more, to be mapped to [−1, 1]. Outside the
        domain parts of the polynomial soon exceed the room of a level, and no error is raised.

        Parameters
        ----------
        x
            A vector of real values in the domain.
        p
            Coefficients, or a polynomial of numpy.

        Returns
        -------
        Ciphertext or Register
            The values of p.

        Raises
        ------
        BadInput
            For too low a level, or a polynomial that is constant or not real.

        Examples
        --------
        >>> y = server.polynomial(secret.encrypt([0, 0.5, 1, -1]), [1, 0, 2])
        >>> secret.decrypt(y).round(2).tolist()
        [1.0, 1.5, 3.0, 3.0]
        """
        found, native = chebyshev(p), self._operand("polynomial", x)._native
        return self._vector(self._calls.polynomial(native, *found))

    def conjugate(self, x: V) -> V:
        """The complex conjugate of every value.

        Returns
        -------
        Ciphertext or Register
            The conjugates.

        Examples
        --------
        >>> x = secret.encrypt([1 + 2j], bound=3)
        >>> secret.decrypt(server.conjugate(x))[:1].round(2).tolist()
        [(1-2j)]
        """
        native = self._operand("conjugate", x)._native
        with named("make keys with conjugate=True"):
            return self._vector(self._calls.conjugate(native))

    def _kind(self, kind: str | None) -> str:
        if kind is not None:
            return str(kind)
        if not self._planned.kinds:
            raise self._without()
        return self._planned.kinds[0]

    def _without(self) -> Error:
        """The refusal of a bootstrap by keys that were made for none."""
        if not params(self._planned.name).stage_count:
            remedy = 'make keys of "ckks"; this set is for arithmetic alone'
            return WrongParams(
                "bootstrap", "a set with a bootstrap", f"`{self._planned.name}`", remedy
            )
        remedy = f'make them with bootstrap="{USUAL_SIZE}"'
        return WrongKey("bootstrap", "keys of a bootstrap", "keys without", remedy)


def _of_sum(count: int, step: int) -> str:
    apart = f", {step}" if step > 1 else ""
    return f"make keys with rotations=ckks.sum_rotations({count}{apart})"


def _summed(op: str, slots: int, size: int | None, stride: int) -> tuple[int, int]:
    """How many slots are summed, and how far apart."""
    step = _values.at_least_one(op, "stride", stride)
    count = max(slots // step, 1) if size is None else _values.count(op, "size", size)
    # Neighbours are counted when the sum is recorded.
    if step > 1 and count * step > slots:
        wanted, got = f"at most {slots} slots", f"{count} of a stride of {step}"
        raise BadInput(op, wanted, got, "sum fewer, or with a smaller stride")
    return count, step


@contextlib.contextmanager
def named(remedy: str) -> Iterator[None]:
    """Refuses missing keys with the call of Python that makes them."""
    try:
        yield
    except WrongKey as e:
        # A ciphertext of another secret key is not helped by keys that are made here.
        if e.missing is None or not remedy:
            raise
        made = WrongKey(e.op, e.wanted, e.got, remedy)
        made.missing = e.missing
        raise made from None
