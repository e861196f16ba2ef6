"""Vectors of numbers for CKKS: in the clear, as bytes that travel, and encrypted."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, overload

import numpy as np
import numpy.typing as npt

from becalm import _html, _native, _values
from becalm._progress import Progress
from becalm.errors import BadInput, Unsupported, WrongKey

if TYPE_CHECKING:
    from becalm._encrypts import SecretKey
    from becalm.ckks import Server


def vector(op: str, values: npt.ArrayLike, slots: int, *, single: bool) -> tuple[bytes, bool]:
    """The bytes of a vector filled with zeros to `slots`, and whether it is real."""
    try:
        array = np.asarray(values)
    except (ValueError, TypeError) as e:
        raise BadInput(op, "a vector of numbers", str(e), "make it flat") from None
    array = _floats(op, array)
    if array.dtype.kind not in "biufc" and array.size:
        raise BadInput(op, "numbers", f"values of type {array.dtype}", "convert them")
    if array.ndim > 1 or (array.ndim == 0 and not single):
        raise BadInput(op, "a vector", f"shape {array.shape}", "encrypt each row of its own")
    if array.size > slots:
        remedy = "split the vector, or make keys for more slots"
        raise BadInput(op, f"at most {slots} values", str(array.size), remedy)
    real = array.dtype.kind != "c" or not array.imag.any()
    filled = np.zeros(1 if array.ndim == 0 else slots, dtype="<c16")
    filled[: array.size] = array
    return filled.tobytes(), bool(real)


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
    """A vector of numbers in the clear, encoded once for many sums and products: `+`, `-` and `*`
    with ciphertexts on either side.

    It goes with ciphertexts of its level. One at another level works too: whatever is higher is
    brought down, each time, so encode for the level where it is used.
    """

    __slots__ = ("_native", "_real")
    #: numpy leaves `array + plaintext` to the plaintext.
    __array_ufunc__ = None

    def __init__(self, native: _native.CkksPlaintext, real: bool) -> None:
        self._native = native
        self._real = real

    @property
    def params(self) -> str:
        """Name of the parameter set."""
        return self._native.params

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
        return self._real

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._native.nbytes

    def decode(self) -> npt.NDArray[Any]:
        """The values, rounded as they were."""
        return array(self._native.decode(), self._real)

    def __len__(self) -> int:
        return self.slots

    def _beside(self, other: Any) -> NoReturn:
        remedy = "compute with the arrays, and encode what comes out"
        raise Unsupported("compute", "a ciphertext beside it", type(other).__name__, remedy)

    # A ciphertext on the left answers for itself, and so it does on the right.
    def __add__(self, other: Any) -> Ciphertext:
        return other.__add__(self) if isinstance(other, Ciphertext) else self._beside(other)

    def __sub__(self, other: Any) -> Ciphertext:
        return (-other).__add__(self) if isinstance(other, Ciphertext) else self._beside(other)

    def __mul__(self, other: Any) -> Ciphertext:
        return other.__mul__(self) if isinstance(other, Ciphertext) else self._beside(other)

    __radd__ = __rsub__ = __rmul__ = _beside

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        values = f"{self.slots:,} {'real' if self.real else 'complex'} values"
        rows = [("holds", values), ("level", self.level), ("size", _values.megabytes(self.nbytes))]
        return "becalm.ckks.Plaintext", [*rows, ("parameter set", self.params)]

    def __repr__(self) -> str:
        kind = "real" if self.real else "complex"
        return f"<becalm.ckks.Plaintext of {self.slots} {kind} values, level {self.level}>"

    def __reduce__(self) -> NoReturn:
        remedy = "encode the values there"
        raise Unsupported("copy", "something that can travel", "an encoded plaintext", remedy)


class Account(NamedTuple):
    """Upper bounds on the slots of a ciphertext that sharing relies on; infinite where unknown."""

    #: Upper bound on the absolute value of a slot, without its error.
    values: float
    #: Upper bound on the absolute error of a slot.
    error: float


class Ciphertext(_html.Shown):
    """A vector of numbers, encrypted: `+`, `-`, `*` with others and with numbers in the clear.

    A product takes a level, of which `level` are left, and rescales by itself; sums take none.
    Products of two ciphertexts, rotations, matrices, polynomials and bootstraps need the server,
    which those made by `secret.encrypt` and `server.load` know.
    """

    __slots__ = ("_native", "_real", "_server")
    #: numpy leaves `array + ciphertext` to the ciphertext.
    __array_ufunc__ = None

    def __init__(
        self, native: _native.CkksCiphertext, server: Server | None = None, real: bool = False
    ) -> None:
        if not isinstance(native, _native.CkksCiphertext):
            remedy = "use SecretKey.encrypt or Server.load"
            raise BadInput("ciphertext", "one that becalm made", type(native).__name__, remedy)
        self._native = native
        self._server = server
        self._real = real

    @property
    def params(self) -> str:
        """Name of the parameter set."""
        return self._native.params

    @property
    def key_id(self) -> str:
        """Identity of the secret key; public."""
        return self._native.key_id

    @property
    def level(self) -> int:
        """Multiplications that are left."""
        return self._native.level

    @property
    def scale(self) -> float:
        """The factor of the values before they are rounded to integers."""
        return self._native.scale

    @property
    def largest(self) -> float:
        """The largest absolute value that its level has room for: the modulus that is decrypted,
        over four times the scale. Public, and the same for every message.

        Larger values wrap around without a word, for nobody but the owner of the key can see
        them: keep products and sums below the `largest` of their results. 64 at level 0 of the
        standard sets, 2^40 and more above.
        """
        return self._native.largest

    @property
    def slots(self) -> int:
        """Number of values."""
        return self._native.slots

    @property
    def real(self) -> bool:
        """True if all values are known to be real."""
        return self._real

    @property
    def error(self) -> float:
        """Standard deviation of the error of a value by the formulas, for values up to 1.

        A file states this figure, so a ciphertext from a file may state anything.
        """
        return self._native.error

    @property
    def account(self) -> Account:
        """Upper bounds on the values and on their error, which `decrypt_to_share` relies on.

        They follow from the computation, and grow with every factor and term. They are infinite,
        for unknown, if the ciphertext was read from a file or bytes, comes from a bootstrap, or if
        a value above 1 was encrypted, and for everything made of such a ciphertext.
        """
        return Account(*self._native.account)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._native.nbytes

    @property
    def stored_nbytes(self) -> int:
        """Bytes in a file, but for the header: a residue takes as many bits as its prime."""
        return self._native.stored_nbytes

    def __len__(self) -> int:
        return self.slots

    def __add__(self, other: Any) -> Ciphertext:
        if isinstance(other, Ciphertext):
            return self._made(self._native.add(other._native), other)
        if isinstance(other, Plaintext):
            return self._made(other._native.add(self._native), real=other.real)
        data, real = vector("add", other, self.slots, single=True)
        return self._made(self._native.add_plain(data), real=real)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Ciphertext:
        if isinstance(other, Ciphertext):
            return self._made(self._native.subtract(other._native), other)
        if isinstance(other, Plaintext):
            return -other.__sub__(self)
        negative: npt.NDArray[Any] = -numbers("subtract", other)
        return self.__add__(negative)

    def __rsub__(self, other: Any) -> Ciphertext:
        return (-self).__add__(other)

    def __neg__(self) -> Ciphertext:
        return self._made(self._native.negate())

    def __mul__(self, other: Any) -> Ciphertext:
        if isinstance(other, Ciphertext):
            return (self._server or other._of("multiply")).multiply(self, other)
        if isinstance(other, Plaintext):
            return self._made(other._native.multiply(self._native), real=other.real)
        data, real = vector("multiply", other, self.slots, single=True)
        if len(data) == 16 and real:
            factor = float(np.frombuffer(data, dtype="<c16")[0].real)
            return self._made(self._native.multiply_constant(factor))
        return self._made(self._native.multiply_plain(data), real=real)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Ciphertext:
        if isinstance(other, Ciphertext):
            remedy = "approximate 1/x by a polynomial: x.polynomial"
            raise Unsupported("divide", "numbers in the clear", "a ciphertext", remedy)
        divisor = numbers("divide", other)
        if not divisor.all():
            raise BadInput("divide", "numbers other than 0", "0", "divide by something else")
        return self * (1 / divisor)

    def __pow__(self, exponent: Any) -> Ciphertext:
        """A power of 1 or above by squares and products: takes ⌈log2⌉ of it in levels."""
        if isinstance(exponent, (float, np.floating)) and float(exponent).is_integer():
            exponent = int(exponent)
        try:
            power = int(exponent.__index__())
        except AttributeError:
            remedy = "approximate other powers by a polynomial: x.polynomial"
            got = type(exponent).__name__
            raise Unsupported("power", "an integer as the exponent", got, remedy) from None
        if power < 1:
            remedy = "approximate 1/x by a polynomial: x.polynomial"
            raise Unsupported("power", "an exponent of 1 or above", str(power), remedy)
        depth = (power - 1).bit_length()
        if depth > self.level:
            wanted = f"a ciphertext at level {depth} or above for the power {power}"
            raise BadInput("power", wanted, f"level {self.level}", "bootstrap it first")
        return self._power(power, {1: self})

    def _power(self, power: int, made: dict[int, Ciphertext]) -> Ciphertext:
        if power not in made:
            # The largest power of two below it is no deeper than all of it.
            high = 1 << ((power - 1).bit_length() - 1)
            made[power] = self._power(high, made) * self._power(power - high, made)
        return made[power]

    def __rtruediv__(self, other: Any) -> NoReturn:
        remedy = "approximate 1/x by a polynomial: x.polynomial"
        raise Unsupported("divide", "numbers in the clear to divide by", "a ciphertext", remedy)

    def __eq__(self, other: object) -> NoReturn:
        remedy = "decrypt it, or approximate the comparison: the sign bootstrap sharpens signs"
        raise Unsupported("compare", "numbers in the clear", "a ciphertext", remedy)

    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__
    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        remedy = "decrypt it; a program cannot branch on what it does not see"
        raise Unsupported("truth", "numbers in the clear", "a ciphertext", remedy)

    def __float__(self) -> NoReturn:
        raise Unsupported("convert", "numbers in the clear", "a ciphertext", "decrypt it first")

    __int__ = __complex__ = __round__ = __abs__ = __float__

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise Unsupported("array", "numbers in the clear", "a ciphertext", "decrypt it first")

    def __getitem__(self, key: object) -> NoReturn:
        remedy = "multiply by a vector of zeros and ones, and rotate"
        raise Unsupported("index", "numbers in the clear", "a ciphertext", remedy)

    def __iter__(self) -> NoReturn:
        self.__getitem__(0)

    def __matmul__(self, other: object) -> NoReturn:
        remedy = "ckks.Matrix(array) @ x; for ciphertexts (x * y).sum(), or ckks.dot of two lists"
        raise Unsupported("matrix product", "a ckks.Matrix on the left", "something else", remedy)

    __rmatmul__ = __matmul__

    def __floordiv__(self, other: object) -> NoReturn:
        remedy = "approximate it by a polynomial: x.polynomial"
        raise Unsupported("compute", "sums, products and powers", "another operator", remedy)

    __rfloordiv__ = __mod__ = __rmod__ = __rpow__ = __floordiv__

    def times_i(self) -> Ciphertext:
        """i times the values: exact, and takes no level."""
        return self._made(self._native.multiply_i(), real=False)

    def vouched(self, values: float | None = None, error: float | None = None) -> Ciphertext:
        """The same ciphertext with an account that the owner of the key vouches for.

        `values` bounds the absolute value of every slot, and `error` its absolute error. A bound
        that is left out stays as it is. Compute both from the inputs and the computation, or run
        the same computation on an encryption of zeros and take its `account`. Never take them from
        the server: noise that is too small gives the secret key away.

        >>> import becalm
        >>> secret, server = becalm.keygen("ckks_toy_12", bootstrap=None, progress=False,
        ...                                allow_insecure=True)
        >>> square = lambda x: x * x
        >>> answer = square(secret.encrypt([0.5])).to_bytes()  # comes from a server
        >>> own = square(secret.encrypt([0.0])).account
        >>> y = server.from_bytes(answer).vouched(*own)
        >>> bool(secret.bits_to_share(y, queries=16) > 0)
        True
        """
        stated = [
            own if given is None else _values.real("vouched", name, given)
            for name, given, own in zip(Account._fields, (values, error), self.account, strict=True)
        ]
        return Ciphertext(self._native.vouched(*stated), self._server, self._real)

    def level_down(self, level: int) -> Ciphertext:
        """The same values at a lower level: smaller and faster."""
        at = at_level("level_down", level, self.level)
        return self._made(self._native.level_down(at))

    @overload
    def rotate(self, by: int) -> Ciphertext: ...

    @overload
    def rotate(self, by: Iterable[int]) -> list[Ciphertext]: ...

    def rotate(self, by: int | Iterable[int]) -> Ciphertext | list[Ciphertext]:
        """The values moved to the left: slot j gets what was in slot j + `by`.

        Of several numbers it is a list, in less time than one by one (hoisting).
        """
        return self._of("rotate").rotate(self, by)

    def sum(self, size: int | None = None) -> Ciphertext:
        """In slot i the sum of slots i to i + `size` − 1, counted around: see `Server.sum`."""
        return self._of("sum").sum(self, size)

    def polynomial(self, p: Any) -> Ciphertext:
        """p of every value; takes `ckks.depth(p)` levels. See `Server.polynomial`."""
        return self._of("polynomial").polynomial(self, p)

    def conjugate(self) -> Ciphertext:
        """The complex conjugate of every value."""
        return self._of("conjugate").conjugate(self)

    def bootstrap(
        self,
        kind: str | None = None,
        *,
        stage_count: int | None = None,
        progress: Progress = None,
    ) -> Ciphertext:
        """The same values with the levels of the set again; see `Server.bootstrap`."""
        server = self._of("bootstrap")
        return server.bootstrap(self, kind, stage_count=stage_count, progress=progress)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the ciphertext to a file, for `load` of the secret key or the server."""
        self._native.save(_values.path("save", path))

    def decrypt(self, secret: SecretKey) -> npt.NDArray[Any]:
        """The same as `secret.decrypt(x)`: for the owner of the key alone."""
        found: npt.NDArray[Any] = _values.decrypted(self, secret)
        return found

    def to_bytes(self) -> bytes:
        """The bytes of its file; `becalm.from_bytes` and `Server.from_bytes` read them."""
        return self._native.to_bytes()

    def __copy__(self) -> Ciphertext:
        """Itself, for nothing changes it: a copy knows its server."""
        return self

    def __deepcopy__(self, memo: object) -> Ciphertext:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels as the bytes of its file; it comes back without its server: `server.attach`."""
        return _restored, (self.params, self.to_bytes(), self._real)

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        return "becalm.ckks.Ciphertext", [
            ("holds", f"{self.slots:,} {'real' if self.real else 'complex'} values"),
            ("level", self.level),
            ("scale", f"2^{np.log2(self.scale):.1f}"),
            ("precision, about", f"{-np.log2(self.error):.1f} bits"),
            ("size", _values.megabytes(self.nbytes)),
            ("parameter set", self.params),
            ("key", self.key_id),
        ]

    def __repr__(self) -> str:
        return (
            f"<becalm.ckks.Ciphertext of {self.slots} {'real' if self.real else 'complex'} values, "
            f"level {self.level}, scale 2^{np.log2(self.scale):.1f}, about "
            f"{-np.log2(self.error):.1f} bits, {self.params}, key {self.key_id}>"
        )

    def _of(self, op: str) -> Server:
        if self._server is None:
            remedy = "server.attach(x) tells it, and so does reading it with server.load"
            raise WrongKey(op, "a ciphertext that knows its server", "one that does not", remedy)
        return self._server

    def _made(
        self, native: _native.CkksCiphertext, other: Ciphertext | None = None, real: bool = True
    ) -> Ciphertext:
        server = self._server or (other._server if other else None)
        real = self._real and real and (other is None or other._real)
        return Ciphertext(native, server, real)


def at_level(op: str, level: Any, most: int) -> int:
    """A level that a user's ciphertext can have."""
    try:
        at = int(level.__index__())
    except AttributeError:
        got = type(level).__name__
        raise BadInput(op, "an integer as level", got, "pass an int") from None
    if not 0 <= at <= most:
        remedy = "choose one of these; the levels above belong to bootstraps"
        if op == "level_down":
            remedy = "choose one of these; a bootstrap gives levels back"
        raise BadInput(op, f"a level from 0 to {most}", str(at), remedy)
    return at


def owned(op: str, x: Ciphertext, key_id: str) -> Ciphertext:
    """The ciphertext, if it is one of this key."""
    if x.key_id == key_id:
        return x
    remedy = "use the keys that it was encrypted for"
    raise WrongKey(op, f"a ciphertext of key {key_id}", f"one of key {x.key_id}", remedy)


def _restored(name: str, file: bytes, real: bool) -> Ciphertext:
    # A toy is allowed, as it was when it was made. Its server's threads come with `attach`.
    return Ciphertext(context(name, True, 0).ciphertext_from_bytes(file, None), None, real)


@lru_cache(maxsize=2)
def context(name: str, allow_insecure: bool, threads: int) -> _native.CkksContext:
    """For ciphertexts that travel: one for many of them, for it has tables and threads."""
    return _native.CkksContext(name, allow_insecure, threads)


def numbers(op: str, value: Any) -> npt.NDArray[Any]:
    """An array of floating-point numbers: in the integers of the user, −x would wrap around."""
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


def require(x: object, op: str) -> Ciphertext:
    if isinstance(x, Ciphertext):
        return x
    got, remedy = type(x).__name__, "encrypt it first"
    if type(x).__module__ in ("becalm.ciphertext", "becalm.integers", "becalm.aes"):
        got, remedy = f"{got} of TFHE", "use the keys of TFHE that it was encrypted by"
    raise BadInput(op, "a CKKS ciphertext", got, remedy)
