"""Functions of encrypted real vectors, made by name: they say levels and error before they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from becalm import _native
from becalm._ckks_function import Domain, Function, count_of, ends_of, real_of
from becalm.errors import BadInput


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
    wanted = None if bits is None else real_of(op, "bits", bits)
    most = None if degree is None else count_of(op, "degree", degree)
    name = getattr(f, "__name__", type(f).__name__)
    name = "f" if name == "<lambda>" else str(name)

    def value(x: float) -> float:
        # numpy warns of values that are not finite, which are refused by name.
        with np.errstate(all="ignore"):
            return float(f(x))

    return Function(
        _native.CkksFunction.approximate(name, value, ends_of(op, domain), wanted, most)
    )


def _named(name: str, domain: Domain, bits: float) -> Function:
    ends, wanted = ends_of(name, domain), real_of(name, "bits", bits)
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
    >>> x = secret.encrypt([0, 1, -2, 4], bound=4)
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
    >>> x = secret.encrypt([0.5, 1, -2, 4], bound=4)
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
    >>> x = secret.encrypt([0.5, 1, 1.5, 2], bound=2)
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
    ends, apart = ends_of(op, domain), real_of(op, "gap", gap)
    return Function(_native.CkksFunction.beyond(op, ends, apart, real_of(op, "bits", bits)))


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
    ends, apart = ends_of(op, domain), real_of(op, "gap", gap)
    return Function(_native.CkksFunction.beyond(op, ends, apart, real_of(op, "bits", bits)))


def _of_blocks(name: str, size: int, domain: Domain, bits: float) -> Function:
    count, ends = count_of(name, "size", size), ends_of(name, domain)
    return Function(_native.CkksFunction.of_blocks(name, count, ends, real_of(name, "bits", bits)))


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
    count, ends = count_of(op, "size", size), ends_of(op, domain)
    apart, wanted = real_of(op, "gap", gap), real_of(op, "bits", bits)
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
    return Function(_native.CkksFunction.matrix_product(count_of("matrix_product", "size", size)))


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
    >>> a = secret.encrypt(ckks.packed([[0, 1], [2, 3]], 2), bound=3)
    >>> x = secret.encrypt([1, 2], bound=2)
    >>> secret.decrypt(f(a, x))[:2].round(2).tolist()
    [2.0, 8.0]
    """
    return Function(_native.CkksFunction.matrix_vector(count_of("matrix_vector", "size", size)))
