"""CKKS beyond sums and products of slots: matrices, polynomials, sums over slots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt
from numpy import polynomial as series

from becalm import _html, _native, _values
from becalm._called import called
from becalm._ckks_sets import turn
from becalm._ckks_vector import Vector, computing, numbers, operand
from becalm._lock import Lock
from becalm._values import counted
from becalm.errors import BadInput, OutOfMemory, Unsupported

T = TypeVar("T")
#: Ciphertexts, or registers of a program.
V = TypeVar("V", bound=Vector[Any])


class Matrix(_html.Shown):
    """A plaintext matrix, for `M @ x`: one level, and rotations that the server needs keys for.

    Values beyond the columns are not used, and those beyond the rows come out as 0. Zero diagonals
    cost nothing, so that bands and permutations are cheap. The encoding for a level is kept for the
    next product, as long as the matrix lives.

    Parameters
    ----------
    array
        At most `slots` rows and columns.
    slots
        Slots of the ciphertexts, by default the next power of two.
    baby
        A product is a sum over the diagonals. This is how many of their rotations are baby steps,
        each with a key of its own; the default takes the fewest steps in all.

    Raises
    ------
    BadInput
        For other shapes, NaN or infinities.

    Examples
    --------
    >>> import becalm
    >>> from becalm import ckks
    >>> M = ckks.Matrix([[0.5, 0.25], [-0.5, 0.5]])
    >>> options = {"slots": 2, "bootstrap": None, "allow_insecure": True, "progress": False}
    >>> secret, server = becalm.keygen("ckks_toy_12", rotations=M.rotations, **options)
    >>> secret.decrypt(M @ secret.encrypt([1, 0.5])).round(4)
    array([ 0.625, -0.25 ])
    """

    __slots__ = ("_lock", "_maps", "_native", "_real", "_slots")
    #: numpy leaves `array @ matrix` to the matrix.
    __array_ufunc__ = None

    def __init__(
        self, array: npt.ArrayLike, *, slots: int | None = None, baby: int | None = None
    ) -> None:
        values = _finite("matrix", array)
        if values.ndim != 2 or not values.size:
            remedy = "pass rows of equal length, as in [[1, 2], [3, 4]]"
            raise BadInput("matrix", "rows and columns", f"shape {values.shape}", remedy)
        size = _slots(slots, max(values.shape))
        diagonals: dict[int, npt.NDArray[Any]] = {}
        for k in range(1 - values.shape[0], values.shape[1]):
            entries = np.diagonal(values, k)
            if entries.any():
                diagonal = diagonals.setdefault(k % size, np.zeros(size, values.dtype))
                diagonal[max(0, -k) :][: entries.size] = entries
        self._set(diagonals, size, baby)

    @classmethod
    def from_diagonals(
        cls,
        diagonals: Mapping[int, npt.ArrayLike],
        *,
        slots: int | None = None,
        baby: int | None = None,
    ) -> Matrix:
        """The matrix with these diagonals, counted around: y[a] = Σ d[k][a]·x[a + k].

        Each has a value for every slot, or one for all.

        Parameters
        ----------
        diagonals
            Values of each diagonal k, by its number.
        slots, baby
            As for `Matrix`.

        Returns
        -------
        Matrix
            The matrix.

        Raises
        ------
        BadInput
            For diagonals of another length.

        Examples
        --------
        >>> turn = ckks.Matrix.from_diagonals({1: 1}, slots=4)
        >>> secret.decrypt(turn @ secret.encrypt([1, 2, 3, 4], bound=4)).round(2).tolist()
        [2.0, 3.0, 4.0, 1.0]
        """
        if not isinstance(diagonals, Mapping):
            got, remedy = type(diagonals).__name__, "as in {0: [1, 2, 3, 4], 1: 0.5}"
            raise BadInput("matrix", "diagonals by their numbers", got, remedy)
        given = {turn(k): _finite("matrix", d) for k, d in diagonals.items()}
        size = _slots(slots, max((d.size for d in given.values()), default=1))
        summed: dict[int, npt.NDArray[Any]] = {}
        for k, d in given.items():
            if d.ndim > 1 or d.size != (1 if d.ndim == 0 else size):
                remedy = "fill diagonals with zeros, or say the slots"
                wanted = f"{size} values in a diagonal, or one for all"
                raise BadInput("matrix", wanted, f"shape {d.shape}", remedy)
            summed[k % size] = summed.get(k % size, np.zeros(size)) + d
        made = cls.__new__(cls)
        made._set(summed, size, baby)
        return made

    def _set(self, diagonals: dict[int, npt.NDArray[Any]], slots: int, baby: Any) -> None:
        # Without any the map of zeros is one of a diagonal too.
        every = diagonals or {0: np.zeros(slots)}
        self._real = all(d.dtype.kind != "c" or not d.imag.any() for d in every.values())
        self._slots = slots
        if baby is not None:
            baby = _values.at_least_one("matrix", "baby", baby)
        data = [(k, d.astype("<c16").tobytes()) for k, d in every.items()]
        self._native = _native.CkksMatrix(slots, data, baby)
        self._maps: dict[tuple[str, int], _native.CkksMap] = {}
        self._lock = Lock()

    @property
    def slots(self) -> int:
        """Values in the ciphertexts that it multiplies."""
        return self._slots

    @property
    def rotations(self) -> list[int]:
        """The rotations that the server needs: `keygen(…, rotations=M.rotations)`."""
        return self._native.rotations

    @property
    def baby(self) -> int:
        """Baby steps that its rotations are cut into."""
        return self._native.baby

    @property
    def real(self) -> bool:
        """True if all entries are real: real vectors stay real."""
        return self._real

    @property
    def nbytes(self) -> int:
        """Bytes of the encodings so far, one for each level that it was used at."""
        with self._lock:
            return sum(m.nbytes for m in self._maps.values())

    def __matmul__(self, x: V) -> V:
        op = "matrix product"
        made: V = computing(x, op).matmul(self, x)
        return made

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        return "becalm.ckks.Matrix", [
            ("slots", f"{self.slots:,}"),
            ("values", "real" if self.real else "complex"),
            ("diagonals", self._native.diagonals),
            ("rotations", ", ".join(map(str, self.rotations[:16])) or "none"),
        ]

    def __repr__(self) -> str:
        kind = "real" if self.real else "complex"
        return (
            f"<becalm.ckks.Matrix of {counted(self._native.diagonals, f'{kind} diagonal')} for "
            f"{counted(self.slots, 'slot')}, {counted(len(self.rotations), 'rotation')}>"
        )

    def __reduce__(self) -> NoReturn:
        wanted, remedy = "an object that can be pickled", "make it there from its array"
        raise Unsupported("copy", wanted, "a matrix with encodings", remedy)

    def _encoded(self, machine: _native.CkksMachine, level: int) -> _native.CkksMap:
        """The matrix encoded for a level, which is kept."""
        which = (machine.name, level)
        with self._lock:
            if which not in self._maps:
                try:
                    self._maps[which] = self._native.encode(machine, level)
                except OutOfMemory as e:
                    remedy = "multiply at a lower level, or cut it into smaller matrices"
                    raise OutOfMemory(e.op, e.wanted, e.got, remedy) from None
            return self._maps[which]


def _finite(op: str, value: Any) -> npt.NDArray[Any]:
    array = numbers(op, value)
    if not np.isfinite(array).all():
        raise BadInput(op, "finite numbers", "NaN or infinities", "remove them")
    return array


def _slots(slots: Any, least: int) -> int:
    """The slots asked for, or the next power of two."""
    if slots is None:
        return 1 << (least - 1).bit_length()
    size = _values.count("matrix", "slots", slots)
    most = _native.most_slots()
    if not least <= size <= most or size & (size - 1):
        remedy = "use that of the ciphertexts"
        wanted = f"a power of two of slots from {least} to {most}"
        raise BadInput("matrix", wanted, str(size), remedy)
    return size


def sum_rotations(size: int, stride: int = 1) -> list[int]:
    """The rotations that `x.sum(size, stride=stride)` needs: `stride` times the powers of two below
    `size`.

    Parameters
    ----------
    size
        How many slots are summed.
    stride
        How far apart they are.

    Returns
    -------
    list of int
        Numbers of slots to the left.

    Raises
    ------
    BadInput
        For a size that is no power of two.

    Examples
    --------
    >>> sum_rotations(8), sum_rotations(4, 8)
    ([1, 2, 4], [8, 16])
    """
    step = _values.at_least_one("sum", "stride", stride)
    count = _values.at_least_one("sum", "size", size)
    if count & (count - 1):
        remedy = "fill the vector with zeros to a power of two"
        raise BadInput("sum", "a power of two of slots to sum", str(count), remedy)
    return [step * by for by in _native.sum_rotations(count)]


class Series(NamedTuple):
    """Σ c_i·T_i(factor·x + offset), T_i those of Chebyshev on [−1, 1]."""

    coefficients: list[float]
    factor: float
    offset: float

    @property
    def degree(self) -> int:
        return len(self.coefficients) - 1

    @property
    def depth(self) -> int:
        return _native.polynomial_levels(self.coefficients, self.factor, self.offset)


#: The kinds of polynomial that numpy has.
_KINDS = (
    series.Polynomial,
    series.Chebyshev,
    series.Legendre,
    series.Hermite,
    series.HermiteE,
    series.Laguerre,
)


def chebyshev(p: Any) -> Series:
    """A polynomial of numpy, or its coefficients from the constant up, as a series."""
    op = "polynomial"
    if isinstance(p, np.poly1d):
        got, remedy = "numpy.poly1d", "use numpy.polynomial.Polynomial(p.coeffs[::-1])"
        raise BadInput(op, "coefficients from the constant up", got, remedy)
    if not isinstance(p, _KINDS):
        if isinstance(p, (str, bytes)) or callable(p):
            wanted = "numbers from the constant up, or a polynomial of numpy.polynomial"
            remedy = "as in [0, 1, 0, -1 / 6]; Chebyshev.interpolate makes one of a function"
            raise BadInput(op, wanted, f"a {type(p).__name__}", remedy)
        given = numbers(op, p)
        if given.ndim != 1:
            remedy = "pass a flat list, from the constant up"
            raise BadInput(op, "a list of coefficients", f"shape {given.shape}", remedy)
        p = series.Polynomial(given if given.size else [0])
    coefficients = _finite(op, p.coef)
    _finite(op, [*p.domain, *p.window])
    if p.domain[0] == p.domain[1]:
        remedy = "as in domain=[-8, 8]"
        raise BadInput(op, "a domain of two different ends", str(list(p.domain)), remedy)
    if coefficients.dtype.kind == "c" and coefficients.imag.any():
        remedy = "evaluate real and imaginary parts apart, and add the latter by .times_i()"
        raise BadInput(op, "real coefficients", "complex ones", remedy)
    p = type(p)(coefficients.real, p.domain, p.window).trim()
    degree = p.degree()
    if degree < 1:
        remedy = "encrypt a constant, or add it"
        raise BadInput(op, "a polynomial of degree 1 or above", "a constant", remedy)
    unit = [-1.0, 1.0]
    if degree == 1:
        p = p.convert(domain=unit, kind=series.Chebyshev, window=unit)
    elif not isinstance(p, series.Chebyshev) or list(p.window) != unit:
        p = p.convert(domain=p.domain, kind=series.Chebyshev, window=unit)
    offset, factor = p.mapparms()
    return Series([float(c) for c in p.coef[: degree + 1]], float(factor), float(offset))


def depth(p: Any) -> int:
    """The levels that `x.polynomial(p)` takes: ⌈log2(degree + 1)⌉, and one more where a domain is
    mapped to [−1, 1] that is not of length 2.

    Returns
    -------
    int
        The number of levels.

    Examples
    --------
    >>> depth([0, 1, 0, -1 / 6]), depth(np.polynomial.Chebyshev([0.5, 1, 2], domain=[-8, 8]))
    (2, 3)
    """
    return chebyshev(p).depth


@called("dot")
def dot(xs: V | Iterable[V], ys: V | Iterable[V]) -> V:
    """Σ x·y over pairs of vectors: `Server.dot` of the server that the first of them knows.

    For registers it is an instruction of their program. Of two vectors it is their product summed
    over all slots, in every slot.

    Parameters
    ----------
    xs, ys
        Two lists of vectors, or two vectors.

    Returns
    -------
    Ciphertext or Register
        One level lower.

    Raises
    ------
    BadInput
        For lists of different lengths.

    Examples
    --------
    >>> x, y = secret.encrypt([1, 2, 3, 4], bound=4), secret.encrypt([1, 0, 1, 0])
    >>> secret.decrypt(ckks.dot([x, x], [y, x])).round(2).tolist()
    [2.0, 4.0, 12.0, 16.0]
    """
    op = "dot product"
    if isinstance(xs, Vector):
        total: V = xs._dot(operand(ys, op))  # type: ignore[assignment]
        return total
    if isinstance(ys, Vector):
        raise BadInput(
            op, "two vectors, or two lists", "a list and a vector", "as in dot([x], [y])"
        )
    left, right = paired(xs, ys)
    made: V = computing(left[0], op).dot(left, right)
    return made


def paired(xs: Iterable[T], ys: Iterable[T]) -> tuple[list[T], list[T]]:
    """Two lists of one length."""
    op = "dot product"
    try:
        left, right = list(xs), list(ys)
    except TypeError:
        got = f"{type(xs).__name__} and {type(ys).__name__}"
        raise BadInput(op, "two lists of ciphertexts", got, "as in dot([a, b], [c, d])") from None
    if len(left) != len(right) or not left:
        got = f"{len(left)} and {len(right)}"
        remedy = "pass two lists of equal length, of one ciphertext each at the least"
        raise BadInput(op, "as many ciphertexts on both sides", got, remedy)
    return left, right
