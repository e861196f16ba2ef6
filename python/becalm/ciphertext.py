"""Encrypted arrays, and the operations on them that need no key."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from becalm import _html, _native, _public, _values
from becalm._called import called
from becalm._encrypted import ByTable, require_numbers, what_of
from becalm._native import Lwe, Params
from becalm._tfhe_encrypted_table import EncryptedTable
from becalm.errors import BadIndex, BadInput, Unsupported

if TYPE_CHECKING:
    from becalm.keys import SecretKey

__all__ = ["Ciphertext", "EncryptedTable", "concatenate", "stack"]
__dir__ = _public.names(__all__)

#: The remedy for arithmetic on whole integers: here a ciphertext is a value of a table.
_INTEGERS = "for arithmetic on integers encrypt them as becalm.uint(8) or another width"


class Ciphertext(ByTable, _html.Shown):
    """An array of encrypted integers, of any shape, under one key.

    Sums, differences and integer multiples work lane by lane with numpy's broadcasting, with
    other ciphertexts and with clear numbers; they need no key and add noise. Everything
    else is a table: see `Server.bootstrap`, which also removes noise. Results are modulo
    `message`; values that enter a table must lie in 0 to `message` - 1, and whether they can is
    known from `range`.

    Examples
    --------
    >>> x = secret.encrypt([3, 1, 2])
    >>> secret.decrypt(2 * x + [1, 0, 1])
    array([7, 2, 5])
    """

    __slots__ = ("_lwe", "_shape")

    #: Named where an argument of the other scheme is refused.
    _scheme = "TFHE"
    _what = "a ciphertext of TFHE"
    _further = f"; {_INTEGERS}"
    _branched = _compared = (
        f"decrypt it, or compute a boolean with server.bootstrap or bootstrap2; {_INTEGERS}"
    )
    #: numpy leaves `array + ciphertext` to the ciphertext.
    __array_ufunc__ = None

    def __init__(self, lwe: Lwe, shape: tuple[int, ...]) -> None:
        self._lwe = lwe
        #: Of ciphertexts; the slots of a common mask are one more axis of the array, the last.
        self._shape = shape

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array; `()` for a single value. A common mask has slots as last axis."""
        return (*self._shape, self.slots) if self.slots > 1 else self._shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self._lwe) * self.slots

    @property
    def slots(self) -> int:
        """Values in one ciphertext behind a common mask; 1 for plain ciphertexts."""
        return self._lwe.slots

    @property
    def slot(self) -> int | None:
        """For plain ciphertexts of a common-mask set, the slot whose key they are under."""
        return self._lwe.slot

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._lwe.nbytes

    @property
    def params(self) -> Params:
        """The parameter set."""
        return self._lwe.params

    @property
    def key_id(self) -> str:
        """Identity of the secret key; public."""
        return self._lwe.key_id

    @property
    def message(self) -> int:
        """How many values the encoding has; results are modulo this."""
        return self._lwe.encoding[0]

    @property
    def padding(self) -> bool:
        """True if tables apply: a zero bit stands above the value."""
        return self._lwe.encoding[1]

    @property
    def range(self) -> tuple[int, int]:
        """Least and greatest value that may be inside, as the public operations imply."""
        return self._lwe.range

    @property
    def noise_variance(self) -> float:
        """Variance of the noise by the formulas, in fractions of the torus squared."""
        return self._lwe.noise_variance

    def __add__(self, other: Any) -> Ciphertext:
        if isinstance(other, Ciphertext):
            return self._combined("add", other, Lwe.add)
        constants = _constants("add", other)
        return NotImplemented if constants is None else self._plus(constants)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Ciphertext:
        if isinstance(other, Ciphertext):
            return self._combined("subtract", other, Lwe.sub)
        constants = _constants("subtract", other)
        return NotImplemented if constants is None else self._plus(-constants)

    def __rsub__(self, other: Any) -> Ciphertext:
        constants = _constants("subtract", other)
        return NotImplemented if constants is None else (-self)._plus(constants)

    def __mul__(self, other: Any) -> Ciphertext:
        if isinstance(other, Ciphertext):
            remedy = f"use server.bootstrap2(a, b, lambda a, b: a * b); {_INTEGERS}"
            raise Unsupported("multiply", "a number as factor", "two ciphertexts", remedy)
        factors = _constants("multiply", other)
        return NotImplemented if factors is None else self._times(factors)

    __rmul__ = __mul__

    def _looked_up(self, formula: str) -> str:
        table = formula.format(p=self.message)
        return f"use server.bootstrap(x, lambda m: {table}){self._further}"

    def __neg__(self) -> Ciphertext:
        return Ciphertext(self._lwe.scale(-1), self._shape)

    def __pos__(self) -> Ciphertext:
        return self

    def __invert__(self) -> Ciphertext:
        """The negation of booleans; needs no bootstrap."""
        low, high = self.range
        if low < 0 or high > 1:
            remedy = "use encrypt_bool, or bring the values to 0 and 1 by a table"
            raise BadInput("not", "booleans", f"values from {low} to {high}", remedy)
        return 1 - self

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of a single encrypted value")
        return self._shape[0]

    def __iter__(self) -> Iterator[Ciphertext]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Ciphertext:
        try:
            return self._selected(self._lanes()[key])
        except IndexError as e:
            wanted = f"places of an array of shape {self._shape}"
            raise BadIndex("index", wanted, f"{key!r:.40}", str(e)) from None

    def reshape(self, *shape: int | Sequence[int]) -> Ciphertext:
        """The same values in another shape; one dimension may be -1.

        Parameters
        ----------
        *shape
            The sizes, or a sequence of them.

        Returns
        -------
        Ciphertext
            The same values.

        Raises
        ------
        BadInput
            For a shape of another number of values, or one that parts slots.

        Examples
        --------
        >>> secret.decrypt(secret.encrypt([3, 1, 2, 0]).reshape(2, -1)).tolist()
        [[3, 1], [2, 0]]
        """
        wanted = shape[0] if len(shape) == 1 else shape
        try:
            found = np.empty(self.shape, dtype=bool).reshape(wanted).shape  # type: ignore[arg-type]
        except (ValueError, TypeError):
            got = f"{self.shape} to {wanted}"
            raise BadInput("reshape", "a shape of as many values", got, "choose another") from None
        if self.slots == 1:
            return Ciphertext(self._lwe, found)
        if not found or found[-1] != self.slots:
            remedy = "slots stay together: keep the last axis"
            raise BadInput("reshape", f"a last axis of {self.slots} slots", str(found), remedy)
        return Ciphertext(self._lwe, found[:-1])

    def save(self, path: str | os.PathLike[str], *, seeded: bool = False) -> None:
        """Writes shape and values to a file.

        Ciphertexts as they were encrypted can be written `seeded`, with one seed in place of all
        masks: one word for each value.

        Parameters
        ----------
        path
            The file.
        seeded
            Whether masks are written as a seed, which suits fresh encryptions alone.

        Examples
        --------
        >>> secret.encrypt([3, 1, 2]).save("x.becalm", seeded=True)
        >>> secret.decrypt(becalm.load("x.becalm", allow_insecure=True))
        array([3, 1, 2])
        """
        self._lwe.save(_values.path("save", path), self._shape, bool(seeded))

    def to_bytes(self, *, seeded: bool = False) -> bytes:
        """The file of `save` in memory, for the network; `from_bytes` reads it.

        Returns
        -------
        bytes
            The values, still encrypted.

        Examples
        --------
        >>> x = secret.encrypt(range(16))
        >>> len(x.to_bytes(seeded=True)) < len(x.to_bytes()) / 10
        True
        """
        return self._lwe.to_bytes(self._shape, bool(seeded))

    @classmethod
    @called("from_bytes")
    def from_bytes(
        cls, file: bytes, *, allow_insecure: bool = False, limit: int | None = None
    ) -> Ciphertext:
        """Values from the bytes of a file, checked as by `becalm.load`.

        Parameters
        ----------
        file
            The bytes that `to_bytes` gave.
        allow_insecure
            Whether sets below 128 bits are accepted.
        limit
            The largest number of bytes, 1 GiB by default.

        Returns
        -------
        Ciphertext
            An array.

        Raises
        ------
        BadFile
            For bytes that were altered, are of another kind or above the limit.
        Insecure
            For a set below 128 bits that was not allowed.

        Examples
        --------
        >>> sent = secret.encrypt([3, 1, 2]).to_bytes()
        >>> secret.decrypt(becalm.Ciphertext.from_bytes(sent, allow_insecure=True))
        array([3, 1, 2])
        """
        data, most = _values.data("from_bytes", file), _values.limit("from_bytes", limit)
        lwe, shape = Lwe.from_bytes(data, bool(allow_insecure), most)
        return cls(lwe, tuple(shape))

    def decrypt(self, secret: SecretKey) -> Any:
        """The same as `secret.decrypt(x)`.

        Returns
        -------
        int or array
            An `int` for a single value.

        Examples
        --------
        >>> secret.encrypt(3).decrypt(secret)
        3
        """
        return _values.decrypted(self, secret)

    def _decrypted(self, secret: _native.SecretKey) -> Any:
        array = _values.from_bytes(secret.decrypt(self._lwe), self.shape)
        return array if self.shape else int(array)

    def _noise(self) -> str:
        noise = np.log2(self.noise_variance) / 2 if self.noise_variance else -np.inf
        return f"2^{noise:.1f}"

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        low, high = self.range
        return "becalm.Ciphertext", [
            ("shape", self.shape),
            ("values", f"{low} to {high} modulo {self.message}"),
            ("tables apply", "yes" if self.padding else "no: without padding"),
            ("noise", self._noise()),
            ("size", _values.megabytes(self.nbytes)),
            ("parameter set", self.params.name),
            ("key", self.key_id),
        ]

    def __repr__(self) -> str:
        low, high = self.range
        kind = "" if self.padding else " without padding"
        return (
            f"<becalm.Ciphertext of shape {self.shape}: values {low} to {high} modulo "
            f"{self.message}{kind}, {self.params.name}, key {self.key_id}, noise {self._noise()}>"
        )

    def __copy__(self) -> Ciphertext:
        """Itself, for nothing changes it: a copy knows its server."""
        return self

    def __deepcopy__(self, memo: object) -> Ciphertext:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels as the bytes of its file, which are checked as a file is."""
        return _restored, (self.to_bytes(), self._shape, self.params.kind != "standard")

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise Unsupported("array", "unencrypted numbers", "a ciphertext", "decrypt it first")

    def __and__(self, other: object) -> NoReturn:
        remedy = "use server.and_(a, b), server.or_(a, b), server.xor(a, b), …"
        raise Unsupported("gate", "a server to compute it", "an operator", remedy)

    __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __and__

    def _lanes(self) -> npt.NDArray[np.int64]:
        return np.arange(len(self._lwe)).reshape(self._shape)

    def _selected(self, lanes: Any) -> Ciphertext:
        lanes = np.asarray(lanes, dtype=np.int64)
        return Ciphertext(self._lwe.select(_values.to_bytes(lanes)), lanes.shape)

    def _broadcast(self, shape: tuple[int, ...]) -> Ciphertext:
        return (
            self if shape == self._shape else self._selected(np.broadcast_to(self._lanes(), shape))
        )

    def _broadcast_to_array(self, op: str, array: npt.NDArray[np.int64]) -> Ciphertext:
        shape = _values.common_shape(op, self.shape, array.shape)
        if self.slots > 1 and shape[-1] != self.slots:
            remedy = "give one number for all slots, or one for each"
            raise BadInput(op, f"a last axis of {self.slots} slots", str(array.shape), remedy)
        return self._broadcast(shape[:-1] if self.slots > 1 else shape)

    def _combined(self, op: str, other: Ciphertext, f: Callable[[Lwe, Lwe], Lwe]) -> Ciphertext:
        shape = _values.common_shape(op, self._shape, other._shape)
        a, b = self._broadcast(shape), other._broadcast(shape)
        return Ciphertext(f(a._lwe, b._lwe), shape)

    def _plus(self, constants: npt.NDArray[np.int64]) -> Ciphertext:
        x = self._broadcast_to_array("add", constants)
        if x.size == 0:
            return x
        low = int(constants.min())
        lwe = x._lwe.add_constant(low)
        if constants.max() > low:
            rest = np.broadcast_to(constants, x.shape) - low
            lwe = lwe.add(x._lwe.trivial(_values.to_bytes(rest)))
        return Ciphertext(lwe, x._shape)

    def _times(self, factors: npt.NDArray[np.int64]) -> Ciphertext:
        x = self._broadcast_to_array("multiply", factors)
        if x.size == 0:
            return x
        each = np.broadcast_to(factors, x.shape).reshape(-1, self.slots)
        if (each != each[:, :1]).any():
            remedy = "slots share a mask: use server.slot_map with a diagonal matrix"
            wanted = "one factor for all slots of a ciphertext"
            raise Unsupported("multiply", wanted, "a factor for each slot", remedy)
        flat = each[:, 0]
        groups = [np.flatnonzero(flat == f) for f in np.unique(flat)]
        rows = Ciphertext(x._lwe, (len(flat),))
        parts = [
            (x if len(groups) == 1 else rows._selected(lanes))._lwe.scale(int(flat[lanes[0]]))
            for lanes in groups
        ]
        if len(parts) == 1:
            return Ciphertext(parts[0], x._shape)
        order = np.argsort(np.concatenate(groups), kind="stable").reshape(x._shape)
        return Ciphertext(Lwe.concat(parts), (len(flat),))._selected(order)


def concatenate(parts: Sequence[Ciphertext], axis: int = 0) -> Ciphertext:
    """Ciphertexts joined along an axis they have, as numpy's `concatenate`; not that of slots.

    Parameters
    ----------
    parts
        Ciphertexts.
    axis
        The axis along which they are joined.

    Returns
    -------
    Ciphertext
        One array with all values.

    Examples
    --------
    >>> x, y = secret.encrypt([3, 1]), secret.encrypt([2])
    >>> secret.decrypt(becalm.concatenate([x, y]))
    array([3, 1, 2])
    """
    parts = list(parts)
    return joined_by(parts, lambda lanes: np.concatenate(lanes, axis=_axis(parts, axis)))


def stack(parts: Sequence[Ciphertext], axis: int = 0) -> Ciphertext:
    """Ciphertexts of one shape joined along a new axis, as numpy's `stack`; slots stay last.

    Parameters
    ----------
    parts
        Ciphertexts of one shape.
    axis
        Place of the new axis.

    Returns
    -------
    Ciphertext
        One array with all values.

    Examples
    --------
    >>> x, y = secret.encrypt([3, 1]), secret.encrypt([2, 0])
    >>> secret.decrypt(becalm.stack([x, y])).tolist()
    [[3, 1], [2, 0]]
    """
    parts = list(parts)
    return joined_by(parts, lambda lanes: np.stack(lanes, axis=_axis(parts, axis)))


def _axis(parts: Sequence[Ciphertext], axis: int) -> int:
    """The axis of ciphertexts; behind a common mask the last axis of the array is none of them."""
    if parts[0].slots == 1 or axis >= 0:
        return axis
    if axis == -1:
        remedy = "slots are joined by server.pack only"
        raise BadInput("join", "an axis of ciphertexts", "the axis of slots", remedy)
    return axis + 1


def joined_by(parts: list[Ciphertext], join: Callable[[list[Any]], Any]) -> Ciphertext:
    """Ciphertexts in the places that `join` gives the numbers of their lanes."""
    if not parts:
        raise BadInput("join", "one array or more", "none", "pass a list of encrypted arrays")
    for p in parts:
        require(p, "join")
    starts = np.cumsum([0, *(len(p._lwe) for p in parts)])
    all_of_them = Lwe.concat([p._lwe for p in parts])
    try:
        lanes = join([p._lanes() + s for p, s in zip(parts, starts[:-1], strict=True)])
    except (ValueError, TypeError) as e:
        shapes = ", ".join(str(p.shape) for p in parts)
        raise BadInput("join", "shapes that fit together", shapes, str(e)) from None
    return Ciphertext(all_of_them, (len(all_of_them),))._selected(lanes)


def require(x: object, op: str) -> Ciphertext:
    """The ciphertext that `x` has to be."""
    if not isinstance(x, Ciphertext):
        got = type(x).__name__
        remedy = "encrypt the value first"
        if got == "Integers":
            remedy = "its operators and methods compute on it: x + y, x.table(...)"
        elif isinstance(x, (list, tuple)):
            remedy = "pass its elements one by one, as in server.run(program, *arguments)"
        elif (what := what_of(x)) is not None:
            got, remedy = what, "use the server of the keys that it was encrypted for"
        raise BadInput(op, "a ciphertext of TFHE", got, remedy)
    return x


def require_bits(x: object, remedy: str) -> Ciphertext:
    """The ciphertext of bits that `x` has to be: by its public range, whatever its values are."""
    bits = require(x, "decrypt")
    low, high = bits.range
    if low < 0 or high > 1:
        raise BadInput("decrypt", "encrypted bits", f"values from {low} to {high}", remedy)
    return bits


def _constants(op: str, value: Any) -> npt.NDArray[np.int64] | None:
    require_numbers(op, value)
    if not isinstance(value, (list, tuple, np.ndarray)):
        try:
            operator.index(value)
        except TypeError:
            _values.not_whole(op, value)
            return None
    return _values.integers(op, value)


def _restored(file: bytes, shape: tuple[int, ...], insecure: bool) -> Ciphertext:
    x = Ciphertext.from_bytes(file, allow_insecure=insecure)
    if int(np.prod(shape)) != len(x._lwe):
        raise BadInput("unpickle", f"a shape of {len(x._lwe)} values", str(shape), "pickle it anew")
    return Ciphertext(x._lwe, shape)
