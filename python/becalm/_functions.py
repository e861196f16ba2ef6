"""Functions of encrypted real vectors, which say their levels and their error before they run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from becalm import _html, _native, _values
from becalm._operands import Vector, computing, numbers, slots_after
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
            wanted = f"{self.arguments} vector{'s' if self.arguments > 1 else ''}"
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
        levels = f"{self.levels} level{'' if self.levels == 1 else 's'}"
        return f"<becalm.ckks.Function {self.name}{of}{on}{apart}: {levels}{bits}>"

    def __reduce__(self) -> NoReturn:
        remedy = "make it there with the same arguments"
        raise Unsupported("copy", "an object that can be pickled", "a function", remedy)


def _interval(domain: Domain) -> str:
    return f"[{domain[0]:g}, {domain[1]:g}]"


def _ends(op: str, domain: Any) -> Domain:
    ends = numbers(op, domain)
    if ends.shape != (2,) or ends.dtype.kind == "c":
        raise BadInput(op, "a domain of two numbers", str(domain), "as in domain=(-8, 8)")
    return float(ends[0]), float(ends[1])


def _real(op: str, name: str, value: Any) -> float:
    return _values.real(op, name, value)


def _count(op: str, name: str, value: Any) -> int:
    return _values.at_least_one(op, name, value)


def approximate(
    f: Callable[[float], Any],
    *,
    domain: Domain,
    bits: float | None = None,
    degree: int | None = None,
) -> Function:
    """A Python function by a Chebyshev polynomial on a domain.

    Parameters
    ----------
    f
        A function of one float that gives one, such as `math.cos` or `np.tanh`.
    domain
        The least value and the largest that it will be used for. A domain that is not of length 2
        takes one level more.
    bits, degree
        One of them: the least degree whose error is at most 2^-bits everywhere on the domain, or a
        degree of at most 1023.

    Returns
    -------
    Function
        `error`, `bits` and `levels` say how good it is, and calling it computes.

    Raises
    ------
    BadInput
        If f is not finite on the domain, or needs a higher degree.

    Examples
    --------
    >>> import math
    >>> from becalm import ckks
    >>> ckks.approximate(math.cos, domain=(-3, 3), bits=20)
    <becalm.ckks.Function cos on [-3, 3]: 5 levels, 21.0 bits>
    """
    op = "approximate"
    if not callable(f):
        remedy = "as in ckks.approximate(math.cos, domain=(-3, 3), bits=20)"
        raise BadInput(op, "a function of one number", type(f).__name__, remedy)
    wanted = None if bits is None else _real(op, "bits", bits)
    most = None if degree is None else _count(op, "degree", degree)
    name = getattr(f, "__name__", type(f).__name__)
    name = "f" if name == "<lambda>" else str(name)
    value = lambda x: float(f(x))  # noqa: E731 — numpy's functions give numpy's floats
    return Function(_native.CkksFunction.approximate(name, value, _ends(op, domain), wanted, most))


def _named(name: str, domain: Domain, bits: float) -> Function:
    ends, wanted = _ends(name, domain), _real(name, "bits", bits)
    return Function(_native.CkksFunction.named(name, ends, wanted))


def sigmoid(*, domain: Domain = (-8, 8), bits: float = 12) -> Function:
    """1/(1 + e^−x), for values in the domain.

    Parameters
    ----------
    domain
        The least and the largest value that it is used for.
    bits
        Least precision over the domain: the error is at most 2^-bits.

    Returns
    -------
    Function
        Its `levels` and `error` are known before it runs.

    Examples
    --------
    >>> x = secret.encrypt([0, 1, -2, 4])
    >>> secret.decrypt(ckks.sigmoid()(x)).round(2).tolist()
    [0.5, 0.73, 0.12, 0.98]
    """
    return _named("sigmoid", domain, bits)


def tanh(*, domain: Domain = (-4, 4), bits: float = 12) -> Function:
    """The hyperbolic tangent.

    Parameters
    ----------
    domain
        The least and the largest value that it is used for.
    bits
        Least precision over the domain: the error is at most 2^-bits.

    Returns
    -------
    Function
        Its `levels` and `error` are known before it runs.

    Examples
    --------
    >>> x = secret.encrypt([0.5, 1, -2, 4])
    >>> secret.decrypt(ckks.tanh()(x)).round(2).tolist()
    [0.46, 0.76, -0.96, 1.0]
    """
    return _named("tanh", domain, bits)


def exp(*, domain: Domain = (-1, 1), bits: float = 20) -> Function:
    """e^x.

    Parameters
    ----------
    domain
        The least and the largest value that it is used for.
    bits
        Least precision over the domain: the error is at most 2^-bits.

    Returns
    -------
    Function
        Its `levels` and `error` are known before it runs.

    Examples
    --------
    >>> x = secret.encrypt([0, 1, -1, 0.5])
    >>> secret.decrypt(ckks.exp()(x)).round(2).tolist()
    [1.0, 2.72, 0.37, 1.65]
    """
    return _named("exp", domain, bits)


def inverse(*, domain: Domain, bits: float = 16) -> Function:
    """1/x, for positive x: as wide a domain as (1e-6, 1) works, with more levels.

    Parameters
    ----------
    domain
        The least and the largest value that it is used for.
    bits
        Least precision over the domain: the error is at most 2^-bits.

    Returns
    -------
    Function
        Its `levels` and `error` are known before it runs.

    Examples
    --------
    >>> x = secret.encrypt([0.5, 1, 1.5, 2])
    >>> secret.decrypt(ckks.inverse(domain=(0.5, 2))(x)).round(2).tolist()
    [2.0, 1.0, 0.67, 0.5]
    """
    return _named("inverse", domain, bits)


def sqrt(*, domain: Domain = (0, 1), bits: float = 8) -> Function:
    """√x; a domain that keeps away from 0 takes far fewer levels for the same bits.

    Parameters
    ----------
    domain
        The least and the largest value that it is used for.
    bits
        Least precision over the domain: the error is at most 2^-bits.

    Returns
    -------
    Function
        Its `levels` and `error` are known before it runs.

    Examples
    --------
    >>> x = secret.encrypt([0.25, 0.5, 0.64, 1])
    >>> secret.decrypt(ckks.sqrt(domain=(0.25, 1))(x)).round(2).tolist()
    [0.5, 0.71, 0.8, 1.0]
    """
    return _named("sqrt", domain, bits)


def inverse_sqrt(*, domain: Domain, bits: float = 16) -> Function:
    """1/√x, for positive x.

    Parameters
    ----------
    domain
        The least and the largest value that it is used for.
    bits
        Least precision over the domain: the error is at most 2^-bits.

    Returns
    -------
    Function
        Its `levels` and `error` are known before it runs.

    Examples
    --------
    >>> x = secret.encrypt([0.25, 0.5, 0.64, 1])
    >>> secret.decrypt(ckks.inverse_sqrt(domain=(0.25, 1))(x)).round(2).tolist()
    [2.0, 1.41, 1.25, 1.0]
    """
    return _named("inverse_sqrt", domain, bits)


def absolute(*, domain: Domain = (-1, 1), bits: float = 8) -> Function:
    """|x|: a series for few bits, x·sign(x) for many.

    Parameters
    ----------
    domain
        The least and the largest value that it is used for.
    bits
        Least precision over the domain: the error is at most 2^-bits.

    Returns
    -------
    Function
        Its `levels` and `error` are known before it runs.

    Examples
    --------
    >>> ckks.absolute(bits=5).levels
    5
    """
    return _named("absolute", domain, bits)


def maximum(*, domain: Domain = (0, 1), bits: float = 8) -> Function:
    """The larger of two values, slot by slot: a function of two vectors.

    Parameters
    ----------
    domain
        The least and the largest value that it is used for.
    bits
        Least precision over the domain: the error is at most 2^-bits.

    Returns
    -------
    Function
        Its `levels` and `error` are known before it runs.

    Examples
    --------
    >>> ckks.maximum(bits=5).arguments
    2
    """
    return _named("maximum", domain, bits)


def minimum(*, domain: Domain = (0, 1), bits: float = 8) -> Function:
    """The smaller of two values, slot by slot: a function of two vectors.

    Parameters
    ----------
    domain
        The least and the largest value that it is used for.
    bits
        Least precision over the domain: the error is at most 2^-bits.

    Returns
    -------
    Function
        Its `levels` and `error` are known before it runs.

    Examples
    --------
    >>> ckks.minimum(bits=5).arguments
    2
    """
    return _named("minimum", domain, bits)


def sign(*, domain: Domain = (-1, 1), gap: float = 2**-8, bits: float = 10) -> Function:
    """−1 or 1; between them where |x| is below the gap.

    A composition of odd polynomials, each the best one after the last; half the gap takes one level
    more, or a little over.

    Parameters
    ----------
    domain
        The least and the largest value that it is used for.
    gap
        The least distance between values that it tells apart.
    bits
        Least precision outside the gap.

    Returns
    -------
    Function
        Its `levels` and `error` are known before it runs.

    Examples
    --------
    >>> ckks.sign(gap=2**-4).gap
    0.0625
    """
    op = "sign"
    ends, apart = _ends(op, domain), _real(op, "gap", gap)
    return Function(_native.CkksFunction.beyond(op, ends, apart, _real(op, "bits", bits)))


def compare(*, domain: Domain = (0, 1), gap: float = 2**-8, bits: float = 10) -> Function:
    """1 where a > b, 0 where a < b: a function of two vectors. Values closer than the gap come out
    between, and equal ones as ½.

    Parameters
    ----------
    domain
        The least and the largest value that it is used for.
    gap
        The least distance between values that it tells apart.
    bits
        Least precision outside the gap.

    Returns
    -------
    Function
        Its `levels` and `error` are known before it runs.

    Examples
    --------
    >>> ckks.compare(gap=2**-4).arguments
    2
    """
    op = "compare"
    ends, apart = _ends(op, domain), _real(op, "gap", gap)
    return Function(_native.CkksFunction.beyond(op, ends, apart, _real(op, "bits", bits)))


def _of_blocks(name: str, size: int, domain: Domain, bits: float) -> Function:
    count, ends = _count(name, "size", size), _ends(name, domain)
    return Function(_native.CkksFunction.of_blocks(name, count, ends, _real(name, "bits", bits)))


def largest(size: int, *, domain: Domain = (0, 1), bits: float = 8) -> Function:
    """In slot i the largest of slots i to i + `size` − 1, counted around: slots 0, `size`, … have
    that of each block. `size` is a power of two.

    Parameters
    ----------
    size
        Slots of a block, a power of two.
    domain
        The least and the largest value that it is used for.
    bits
        Least precision over the domain: the error is at most 2^-bits.

    Returns
    -------
    Function
        Its `levels` and `error` are known before it runs.

    Examples
    --------
    >>> f = ckks.largest(4, bits=4)
    >>> f.size, f.rotations()
    (4, [1, 2])
    """
    return _of_blocks("largest", size, domain, bits)


def smallest(size: int, *, domain: Domain = (0, 1), bits: float = 8) -> Function:
    """In slot i the smallest of slots i to i + `size` − 1, as `largest`.

    Parameters
    ----------
    size
        Slots of a block, a power of two.
    domain
        The least and the largest value that it is used for.
    bits
        Least precision over the domain: the error is at most 2^-bits.

    Returns
    -------
    Function
        Its `levels` and `error` are known before it runs.

    Examples
    --------
    >>> f = ckks.smallest(4, bits=4)
    >>> f.size, f.rotations()
    (4, [1, 2])
    """
    return _of_blocks("smallest", size, domain, bits)


def sort(size: int, *, domain: Domain = (0, 1), bits: float = 5) -> Function:
    """The values of each block of `size` slots in rising order, by a bitonic network.

    64 values take 21 stages, which bootstraps divide: call it with `auto=True`.

    Parameters
    ----------
    size
        Slots of a block, a power of two.
    domain
        The least and the largest value that it is used for.
    bits
        Least precision over the domain: the error is at most 2^-bits.

    Returns
    -------
    Function
        Its `levels` and `error` are known before it runs.

    Examples
    --------
    >>> f = ckks.sort(4, bits=4)
    >>> f.size, f.rotations()
    (4, [1, 2, 3])
    """
    return _of_blocks("sort", size, domain, bits)


def argmax(size: int, *, domain: Domain = (0, 1), gap: float = 2**-8, bits: float = 4) -> Function:
    """The place of the largest value of each block and the value, in the first slot of the block.

    Calling it gives two vectors. Values closer than the gap may be taken for each other.

    Parameters
    ----------
    size
        Slots of a block, a power of two.
    domain
        The least and the largest value that it is used for.
    gap
        The least distance between values that it tells apart.
    bits
        Least precision outside the gap.

    Returns
    -------
    Function
        Its `levels` and `error` are known before it runs.

    Examples
    --------
    >>> f = ckks.argmax(4, bits=4)
    >>> f.size, f.rotations()
    (4, [1, 2])
    """
    op = "argmax"
    count, ends = _count(op, "size", size), _ends(op, domain)
    apart, wanted = _real(op, "gap", gap), _real(op, "bits", bits)
    return Function(_native.CkksFunction.argmax(count, ends, apart, wanted))


def matrix_product(size: int) -> Function:
    """The product of two encrypted matrices of `size` rows and columns, a power of two: three
    levels.

    Matrices stand row by row in vectors (`ckks.packed`).

    Returns
    -------
    Function
        Of two vectors.

    Examples
    --------
    >>> import becalm, numpy as np
    >>> from becalm import ckks
    >>> product = ckks.matrix_product(4)
    >>> options = {"slots": 16, "bootstrap": None, "allow_insecure": True, "progress": False}
    >>> secret, server = becalm.keygen("ckks_toy_12", rotations=product.rotations(), **options)
    >>> A = np.arange(16).reshape(4, 4) / 16
    >>> a, b = secret.encrypt(ckks.packed(A, 4)), secret.encrypt(ckks.packed(np.eye(4), 4))
    >>> bool(abs(ckks.unpacked(secret.decrypt(product(a, b)), (4, 4)) - A).max() < 1e-4)
    True
    """
    return Function(_native.CkksFunction.matrix_product(_count("matrix_product", "size", size)))


def matrix_vector(size: int) -> Function:
    """An encrypted matrix of `size` rows and columns times an encrypted vector: two levels.

    The vector stands in the first slots with zeros behind it, and so does the result.

    Returns
    -------
    Function
        Of a matrix and a vector.

    Examples
    --------
    >>> f = ckks.matrix_vector(2)
    >>> a, x = secret.encrypt(ckks.packed([[0, 1], [2, 3]], 2)), secret.encrypt([1, 2])
    >>> secret.decrypt(f(a, x))[:2].round(2).tolist()
    [2.0, 8.0]
    """
    return Function(_native.CkksFunction.matrix_vector(_count("matrix_vector", "size", size)))


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
    count = _count(op, "size", size)
    if rows.ndim != 2 or max(rows.shape, default=0) > count:
        wanted = f"a matrix of at most {count} rows and columns"
        raise BadInput(op, wanted, f"shape {rows.shape}", "choose a larger size")
    whole = np.zeros((count, count), rows.dtype)
    whole[: rows.shape[0], : rows.shape[1]] = rows
    total = count * count if slots is None else _count(op, "slots", slots)
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
    count = math.isqrt(flat.size) if size is None else _count(op, "size", size)
    if flat.ndim != 1 or flat.size < count * count or max(shape) > count:
        wanted = f"at least {max(shape)}² values in a flat array"
        raise BadInput(op, wanted, f"shape {flat.shape}", "pass the size of `packed`")
    entries: npt.NDArray[Any] = flat[: count * count]
    return entries.reshape(count, count)[: shape[0], : shape[1]]


def concatenate(xs: Iterable[V], sizes: int | Sequence[int]) -> V:
    """The first values of several vectors in one: `sizes` of them, one number for all or one each.

    It takes a level, and a rotation to the right by the place of each: with `sizes` of 3 and 4 by
    3 slots. What stands behind the values of a vector is left out.

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
    >>> x, y = secret.encrypt([1, 2]), secret.encrypt([3, 4])
    >>> secret.decrypt(ckks.concatenate([x, y], 2)).round(2).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    op, vectors = "concatenate", list(xs)
    counts = [sizes] * len(vectors) if isinstance(sizes, int) else list(sizes)
    if not vectors or len(counts) != len(vectors):
        got = f"{len(vectors)} vectors and {len(counts)} sizes"
        raise BadInput(op, "vectors, and a size for each", got, "as in concatenate([x, y], [3, 4])")
    at, joined = 0, None
    for x, count in zip(vectors, counts, strict=True):
        part = slots_after(x, op, 0, _count(op, "sizes", count), at)
        joined, at = part if joined is None else joined + part, at + count
    assert joined is not None
    return joined
