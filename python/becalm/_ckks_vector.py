"""Operands of CKKS: vectors that are encrypted or recorded, plaintexts, and numbers.

A `Vector` has the operators. A `Ciphertext` computes at once, and a `Register` of a program
records; both do it with calls of the same names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

import numpy as np
import numpy.typing as npt

from becalm import _html, _native, _numpy, _values
from becalm._called import called
from becalm._ckks_sets import Params, params
from becalm._encrypted import Encrypted, require_numbers, what_of
from becalm._native_calls import Beside, Operand
from becalm.errors import BadInput, Unsupported

if TYPE_CHECKING:
    from typing_extensions import Self

    from becalm._ckks_computes import Computes


def vector(op: str, values: npt.ArrayLike, slots: int, *, single: bool) -> tuple[bytes, bool]:
    """The bytes of a vector filled with zeros to `slots`, and whether its type is real. The values
    do not decide that: a ciphertext says it to everyone."""
    require_numbers(op, values)
    try:
        array = np.asarray(values)
    except (ValueError, TypeError) as e:
        raise BadInput(op, "a vector of numbers", str(e), "make it flat") from None
    array = _floats(op, array)
    if array.dtype.kind not in "biufc" and array.size:
        raise BadInput(op, "numbers", f"values of type {array.dtype}", "convert them")
    if array.ndim > 1 or (array.ndim == 0 and not single):
        raise BadInput(op, "a vector", f"shape {array.shape}", "encrypt each row by itself")
    if array.size == 0 and not single:
        raise BadInput(op, "one number or more", "none", "pass some values")
    if array.size > slots:
        remedy = "split the vector, or make keys for more slots"
        raise BadInput(op, f"at most {slots} values", str(array.size), remedy)
    filled = np.zeros(1 if array.ndim == 0 else slots, dtype="<c16")
    filled[: array.size] = array
    return filled.tobytes(), array.dtype.kind != "c"


def at_least_one_value(values: Any) -> Any:
    """A single number as a vector of one value."""
    single = isinstance(values, (int, float, complex, np.generic)) or (
        isinstance(values, np.ndarray) and values.ndim == 0
    )
    return [values] if single else values


def array(data: bytes, real: bool) -> npt.NDArray[Any]:
    values = np.frombuffer(data, dtype="<c16")
    return values.real.copy() if real else values.astype(np.complex128)


class Plaintext(_html.Shown):
    """A vector of plain numbers, encoded once for many sums and products: `+`, `-` and `*`
    with ciphertexts on either side.

    It goes with ciphertexts of its level. One at another level works too: the higher one is
    brought down, each time, so encode for the level where it is used.

    Examples
    --------
    >>> p = server.encode([1, 2, 3, 4])
    >>> secret.decrypt(secret.encrypt([1, 1, 1, 1]) * p).round(2).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """

    __slots__ = ("_native",)
    #: numpy leaves `array + plaintext` to the plaintext.
    __array_ufunc__ = None

    def __init__(self, native: _native.CkksPlaintext) -> None:
        self._native = native

    @property
    def params(self) -> Params:
        """The parameter set."""
        return params(self._native.params)

    @property
    def level(self) -> int:
        """The level that it was encoded for."""
        return self._native.level

    @property
    def scale(self) -> float:
        """The factor of the values before they were rounded to integers."""
        return self._native.scale

    @property
    def slots(self) -> int:
        """Number of values; one stands for all slots."""
        return self._native.slots

    @property
    def real(self) -> bool:
        """True if all values are real."""
        return self._native.real

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._native.nbytes

    def decode(self) -> npt.NDArray[Any]:
        """The values, rounded as they were.

        Returns
        -------
        array
            Of floats or complex numbers.

        Examples
        --------
        >>> server.encode([1, 2, 3, 4]).decode().round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        return array(self._native.decode(), self.real)

    def __len__(self) -> int:
        return self.slots

    def _beside(self, other: Any) -> NoReturn:
        remedy = "compute with the arrays, and encode the result"
        raise Unsupported("compute", "a ciphertext beside it", type(other).__name__, remedy)

    # A ciphertext on the left answers for itself, and so it does on the right.
    def __add__(self, other: Any) -> Any:
        return other.__add__(self) if isinstance(other, Vector) else self._beside(other)

    def __sub__(self, other: Any) -> Any:
        return other.__rsub__(self) if isinstance(other, Vector) else self._beside(other)

    def __mul__(self, other: Any) -> Any:
        return other.__mul__(self) if isinstance(other, Vector) else self._beside(other)

    __radd__ = __rsub__ = __rmul__ = _beside

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        values = f"{self.slots:,} {'real' if self.real else 'complex'} values"
        rows = [("holds", values), ("level", self.level), ("size", _values.megabytes(self.nbytes))]
        return "becalm.ckks.Plaintext", [*rows, ("parameter set", self._native.params)]

    def __repr__(self) -> str:
        kind = "real" if self.real else "complex"
        return f"<becalm.ckks.Plaintext of {self.slots} {kind} values, level {self.level}>"

    def __reduce__(self) -> NoReturn:
        remedy = "encode the values there"
        raise Unsupported("copy", "an object that can be pickled", "an encoded plaintext", remedy)


#: A native ciphertext, or a native register.
N = TypeVar("N", bound=Operand)
V = TypeVar("V", bound="Vector[Any]")


class Vector(Encrypted, _html.Shown, Generic[N]):
    """A vector of hidden numbers: `+`, `-`, `*` with others and with plain numbers.

    A product takes a level and rescales by itself; sums take none.

    Examples
    --------
    >>> x = secret.encrypt([1, 2, 3, 4], bound=4)
    >>> secret.decrypt(x * x + 1).round(2).tolist()
    [2.0, 5.0, 10.0, 17.0]
    """

    __slots__ = ("_native",)
    _what = "a vector of CKKS"
    _compared = "use ckks.compare()(x, y), which approximates it, or decrypt it"
    _native: N

    @property
    def params(self) -> Params:
        """The parameter set."""
        return params(self._native.params)

    @property
    def level(self) -> int:
        """Multiplications that are left."""
        return self._native.level

    @property
    def scale(self) -> float:
        """The factor of the values before they are rounded to integers."""
        return self._native.scale

    @property
    def slots(self) -> int:
        """Number of values."""
        return self._native.slots

    @property
    def real(self) -> bool:
        """True if all values are known to be real."""
        return self._native.real

    def __len__(self) -> int:
        return self.slots

    def __add__(self, other: Any) -> Self:
        if isinstance(other, Vector):
            return self._with(self._native.add(self._beside("add", other)._native), other)
        return self._with(self._native.add_plain(self._term("add", other)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Self:
        if isinstance(other, Vector):
            return self._with(self._native.subtract(self._beside("subtract", other)._native), other)
        return self._with(self._native.subtract_plain(self._term("subtract", other)))

    def __rsub__(self, other: Any) -> Self:
        return self._with(self._native.subtract_from_plain(self._term("subtract", other)))

    def __neg__(self) -> Self:
        return self._with(self._native.negate())

    def __pos__(self) -> Self:
        return self

    def __mul__(self, other: Any) -> Self:
        if isinstance(other, Vector):
            same = self._beside("multiply", other)
            return self._computing("multiply", other).multiply(self, same)
        return self._with(self._native.multiply_plain(self._factor("multiply", other)))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Self:
        if isinstance(other, Vector):
            remedy = "multiply by ckks.inverse(domain=(0.1, 1))(x), of its own domain"
            raise Unsupported("divide", "unencrypted numbers", "a ciphertext", remedy)
        divisor = numbers("divide", other)
        if not divisor.all():
            raise BadInput("divide", "numbers other than 0", "0", "divide by something else")
        with np.errstate(over="ignore"):
            inverse = 1 / divisor
        if not np.isfinite(inverse).all():
            remedy = "divide by larger numbers"
            raise BadInput("divide", "numbers whose inverse is a double", "a smaller one", remedy)
        with called("divide"):
            return self * inverse

    def __pow__(self, exponent: Any) -> Self:
        """A power of 1 or above by squares and products: takes ⌈log2⌉ of it in levels."""
        if isinstance(exponent, (float, np.floating)) and float(exponent).is_integer():
            exponent = int(exponent)
        try:
            power = int(exponent.__index__())
        except AttributeError:
            remedy = "use ckks.sqrt or ckks.approximate for other powers"
            got = type(exponent).__name__
            raise Unsupported("power", "an integer as the exponent", got, remedy) from None
        if power == 0:
            remedy = "encrypt ones: every number to the power 0 is 1"
            raise Unsupported("power", "an exponent of 1 or above", "0", remedy)
        if power < 1:
            remedy = "use ckks.inverse(domain=(0.1, 1))(x), with the domain of your values"
            raise Unsupported("power", "an exponent of 1 or above", str(power), remedy)
        if power == 1:
            return self
        return self._computing("power").power(self, power)

    def __rtruediv__(self, other: Any) -> NoReturn:
        remedy = "use ckks.inverse(domain=(0.1, 1))(x), with the domain of your values"
        raise Unsupported("divide", "unencrypted numbers to divide by", "a ciphertext", remedy)

    def __abs__(self) -> NoReturn:
        raise Unsupported(
            "absolute", "unencrypted numbers", "a ciphertext", "use ckks.absolute()(x)"
        )

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **more: Any) -> Any:
        return _numpy.ufunc(self, function, method, inputs, more)

    def __array_function__(
        self, function: Any, types: Any, inputs: tuple[Any, ...], more: dict[str, Any]
    ) -> Any:
        return _numpy.function(self, function, inputs, more)

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise Unsupported("array", "unencrypted numbers", "a ciphertext", "decrypt it first")

    def __getitem__(self, key: object) -> Self:
        """`x[2:5]` has the values of slots 2 to 4 in its first slots, and zeros behind them: one
        level, and the key of the rotation by 2.
        """
        if not isinstance(key, slice):
            remedy = "x[2:3] has the value of slot 2 in slot 0; x.replicate(2) has it in every slot"
            raise Unsupported("index", "a slice, as in x[2:5]", type(key).__name__, remedy)
        try:
            start, stop, step = key.indices(self.slots)
        except TypeError:
            raise BadInput("slice", "integers, as in x[2:5]", str(key), "use int") from None
        if step != 1 or stop <= start:
            remedy = "use ckks.Matrix for other choices of slots"
            raise BadInput("slice", "one slot or more, without a step", str(key), remedy)
        op = "slice"
        native = _native.CkksFunction.placed(op, self.slots, start, stop - start, 0)
        made: Self = self._computing(op).evaluate(native, [self], False)[0]
        return made

    def __iter__(self) -> NoReturn:
        remedy = "slice it, as in x[2:5], or decrypt it"
        raise Unsupported("iterate", "unencrypted numbers", "a ciphertext", remedy)

    def __matmul__(self, other: object) -> NoReturn:
        remedy = "ckks.Matrix(array) @ x; for ciphertexts (x * y).sum(), or ckks.dot of two lists"
        raise Unsupported("matrix product", "a ckks.Matrix on the left", "something else", remedy)

    __rmatmul__ = __matmul__

    def __floordiv__(self, other: object) -> NoReturn:
        remedy = "approximate it by a polynomial: x.polynomial"
        raise Unsupported("compute", "sums, products and powers", "another operator", remedy)

    __rfloordiv__ = __mod__ = __rmod__ = __rpow__ = __floordiv__

    def times_i(self) -> Self:
        """i times the values: exact, and takes no level.

        Returns
        -------
        Ciphertext or Register
            Complex values.

        Examples
        --------
        >>> bool(abs(secret.decrypt(secret.encrypt([1, 2], bound=2).times_i())[0] - 1j) < 0.01)
        True
        """
        return self._with(self._native.multiply_i())

    def level_down(self, level: int) -> Self:
        """The same values at a lower level: smaller and faster.

        Returns
        -------
        Ciphertext or Register
            At that level.

        Examples
        --------
        >>> secret.encrypt([1, 2], bound=2).level_down(1).level
        1
        """
        at = at_level("level_down", level, self.level)
        return self._with(self._native.level_down(at))

    @overload
    def rotate(self, by: int) -> Self: ...

    @overload
    def rotate(self, by: Iterable[int]) -> list[Self]: ...

    def rotate(self, by: int | Iterable[int]) -> Self | list[Self]:
        """The values moved to the left: slot j gets the value of slot j + `by`.

        Of several numbers it is a list, in less time than one by one (hoisting).

        Returns
        -------
        Ciphertext, Register or list
            A list for several numbers.

        Examples
        --------
        >>> secret.decrypt(secret.encrypt([1, 2, 3, 4], bound=4).rotate(1)).round(2).tolist()
        [2.0, 3.0, 4.0, 1.0]
        """
        return self._computing("rotate").rotate(self, by)

    def sum(self, size: int | None = None, *, stride: int = 1) -> Self:
        """In slot i the sum of `size` slots from i on, `stride` apart, counted around: see
        `Server.sum`.

        Parameters
        ----------
        size, stride
            How many slots, and how far apart.

        Returns
        -------
        Ciphertext or Register
            The sums.

        Examples
        --------
        >>> secret.decrypt(secret.encrypt([1, 2, 3, 4], bound=4).sum()).round(2).tolist()
        [10.0, 10.0, 10.0, 10.0]
        """
        return self._computing("sum").sum(self, size, stride=stride)

    def mean(self, size: int | None = None, *, stride: int = 1) -> Self:
        """The mean of the slots that `sum` adds up; takes a level.

        Parameters
        ----------
        size, stride
            As for `sum`.

        Returns
        -------
        Ciphertext or Register
            The means.

        Examples
        --------
        >>> secret.decrypt(secret.encrypt([1, 2, 3, 4], bound=4).mean()).round(2).tolist()
        [2.5, 2.5, 2.5, 2.5]
        """
        return self._computing("mean").mean(self, size, stride=stride)

    def replicate(self, index: int = 0, size: int | None = None) -> Self:
        """Every slot with the value of slot `index`, or every block of `size` slots with the value
        of its own slot `index`: see `Server.replicate`.

        Parameters
        ----------
        index, size
            The slot, and the slots of a block.

        Returns
        -------
        Ciphertext or Register
            One level lower.

        Examples
        --------
        >>> secret.decrypt(secret.encrypt([1, 2, 3, 4], bound=4).replicate(3)).round(2).tolist()
        [4.0, 4.0, 4.0, 4.0]
        """
        return self._computing("replicate").replicate(self, index, size)

    def polynomial(self, p: Any) -> Self:
        """p of every value; takes `ckks.depth(p)` levels. See `Server.polynomial`.

        Returns
        -------
        Ciphertext or Register
            The values of p.

        Examples
        --------
        >>> secret.decrypt(secret.encrypt([0, 0.5, 1, -1]).polynomial([1, 0, 2])).round(2).tolist()
        [1.0, 1.5, 3.0, 3.0]
        """
        return self._computing("polynomial").polynomial(self, p)

    def conjugate(self) -> Self:
        """The complex conjugate of every value.

        Returns
        -------
        Ciphertext or Register
            The conjugates.

        Examples
        --------
        >>> secret.decrypt(secret.encrypt([1 + 2j], bound=3).conjugate())[:1].round(2).tolist()
        [(1-2j)]
        """
        return self._computing("conjugate").conjugate(self)

    def _dot(self, other: Any) -> Self:
        """The sum over all slots of the product with another vector, or with plain values."""
        op = "dot product"
        same = self._beside(op, other) if isinstance(other, Vector) else None
        return self._computing(op, same)._inner(self, other)

    def _term(self, op: str, values: Any) -> Beside:
        """Plain values to add, filled with zeros."""
        if isinstance(values, Plaintext):
            return values._native
        return vector(op, values, self.slots, single=True)[0]

    def _factor(self, op: str, values: Any) -> Beside:
        """Plain values to multiply by: one for each slot, or one for all, as numpy stretches it."""
        if np.ndim(values) and np.size(values) == 1:
            values = np.ravel(values)[0]
        found = self._term(op, values)
        if isinstance(found, bytes) and len(found) > 16 and np.size(values) != self.slots:
            wanted, got = f"{self.slots} values, or one for all slots", str(np.size(values))
            remedy = "fill the rest: zeros would make these slots 0"
            raise BadInput(op, wanted, got, remedy)
        return found

    def _computing(self, op: str, other: Vector[Any] | None = None) -> Computes[Self, N]:
        """The server that computes with it, or the program that records it."""
        raise NotImplementedError

    def _with(self, native: N, other: Vector[Any] | None = None) -> Self:
        """A vector that an instruction made of it, and of another."""
        raise NotImplementedError

    def _beside(self, op: str, other: Vector[Any]) -> Self:
        """Another vector, which must be of the same class."""
        if isinstance(other, type(self)):
            return other
        wanted, got = (f"a {type(x).__name__} of CKKS" for x in (self, other))
        remedy = "declare arguments by input() of the program, and run it on ciphertexts"
        raise BadInput(op, wanted, got, remedy)


def at_level(op: str, level: Any, most: int) -> int:
    """A level that a user's ciphertext can have."""
    try:
        at = int(level.__index__())
        if isinstance(level, bool):
            raise AttributeError
    except AttributeError:
        got = type(level).__name__
        raise BadInput(op, "an integer as level", got, "pass an int") from None
    if not 0 <= at <= most:
        remedy = "choose one of these; the levels above belong to bootstraps"
        if op == "level_down":
            remedy = "choose one of these; a bootstrap gives levels back"
        raise BadInput(op, f"a level from 0 to {most}", str(at), remedy)
    return at


def numbers(op: str, value: Any) -> npt.NDArray[Any]:
    """An array of floating-point numbers: in the integers of the user, −x would wrap around."""
    require_numbers(op, value)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as e:
        raise BadInput(op, "numbers", str(e), "make the rows equally long") from None
    array = _floats(op, array)
    if array.dtype.kind not in "biufc":
        raise BadInput(op, "numbers", f"values of type {array.dtype}", "convert them")
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _floats(op: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Integers beyond 64 bits, which numpy keeps as objects, as the doubles nearest to them."""
    known = (int, float, complex, np.number, np.bool_)
    if array.dtype.kind != "O" or not all(isinstance(x, known) for x in array.flat):
        return array
    several = any(isinstance(x, (complex, np.complexfloating)) for x in array.flat)
    try:
        return array.astype(np.complex128 if several else np.float64)
    except OverflowError:
        remedy = "scale it down: values are doubles"
        raise BadInput(op, "numbers below 2^1024", "a larger integer", remedy) from None


def operand(x: object, op: str) -> Vector[Any]:
    """A ciphertext or a register of CKKS."""
    if isinstance(x, Vector):
        return x
    got, remedy = _values.named(x), "pass a Ciphertext; secret.encrypt makes one of numbers"
    if scheme := getattr(type(x), "_scheme", None):
        got, remedy = f"{got} of {scheme}", f"use the keys of {scheme} that it was encrypted by"
    elif what := what_of(x):
        got, remedy = (
            what,
            "pass a Ciphertext of ckks: secret.encrypt makes one",
        )
    elif isinstance(x, (bytes, bytearray, memoryview)):
        remedy = "read a ciphertext's file from them first: becalm.from_bytes(x)"
    raise BadInput(op, "a CKKS ciphertext", got, remedy)


def computing(x: object, op: str) -> Computes[Any, Any]:
    """The server or the program of a vector."""
    return operand(x, op)._computing(op)
