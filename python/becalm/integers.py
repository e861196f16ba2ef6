"""Encrypted integers of 2 to 256 bits, in arrays that compute like numpy's."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from becalm import (
    _html,
    _integer_operations,
    _integer_operators,
    _integer_types,
    _integer_words,
    _native,
    _public,
    _values,
)
from becalm._called import called
from becalm._integer_types import IntegerType, boolean, int_, uint
from becalm._native import Lwe, Params
from becalm.ciphertext import Ciphertext
from becalm.errors import BadInput, Unsupported
from becalm.program import TfheProgram
from becalm.server import Server, server_for

if TYPE_CHECKING:
    from becalm.keys import SecretKey

__all__ = ["IntegerType", "Integers", "boolean", "int_", "uint"]
__dir__ = _public.names(__all__)

#: How operations are written that take more than operands.
_WRITTEN = {
    "cast": "x.astype(type)",
    "index": "x[i]",
    "matmul": "x @ y",
    "pow": "x ** 3",
    "prod": "x.prod()",
    "table": "i.table(entries)",
}


class Integers(_integer_words.Words, _html.Shown):
    """An array of encrypted integers of one type, of any shape.

    Arithmetic wraps, as numpy's does, that of booleans modulo 2; `//` and `%` divide towards zero;
    division by zero gives a quotient of ones and the dividend as remainder. Comparisons give
    booleans. Operands are other encrypted arrays of the same type, clear numbers, which make
    operations cheaper, or lists and numpy arrays; shapes broadcast, and numpy's functions of these
    operations (`np.add`, `np.minimum`, `np.where`, `np.sum`, ...) take encrypted arrays too.
    Computing needs a server: `x.on(server)`. Results stay on it. Types, ranges and shapes that do
    not fit raise `BadInput`, operations that do not exist `Unsupported`, each with a remedy.

    Examples
    --------
    >>> x = becalm.uint(8).encrypt(secret, [200, 3]).on(server)
    >>> (x + [100, 1]).decrypt(secret).tolist(), (x > 100).decrypt(secret).tolist()
    ([44, 4], [True, False])
    """

    __slots__ = ("_digits", "_server", "_shape", "type")

    #: Named where an argument of the other scheme is refused.
    _scheme = "TFHE"

    def __init__(
        self, type_: IntegerType, digits: list[Lwe], shape: tuple[int, ...], server: Server | None
    ) -> None:
        #: The type of the elements.
        self.type = type_
        self._digits = digits
        self._shape = shape
        self._server = server

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of numpy that the decrypted array has: see `IntegerType.dtype`."""
        return self.type.dtype

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(d.nbytes for d in self._digits)

    @property
    def params(self) -> Params:
        """The parameter set."""
        return self._digits[0].params

    @property
    def key_id(self) -> str:
        """Identity of the secret key; public."""
        return self._digits[0].key_id

    def on(self, server: Server) -> Integers:
        """The same integers, to be computed with on a server.

        Returns
        -------
        Integers
            They know the server, and so do results.

        Raises
        ------
        WrongParams, WrongKey
            For a server of another set or key.

        Examples
        --------
        >>> x = secret.encrypt([200, 3], becalm.uint(8)).on(server)
        >>> (2 * x).decrypt(secret).tolist()
        [144, 6]
        """
        machine = server_for("on", server, self)
        return Integers(self.type, self._digits, self._shape, machine)

    def decrypt(self, secret: SecretKey) -> Any:
        """The same as `secret.decrypt(x)`.

        Returns
        -------
        array, int or bool
            An array of numpy's own type up to 64 bits, of Python integers above, or a single Python
            value.

        Raises
        ------
        WrongKey
            If they are under another key.

        Examples
        --------
        >>> x.decrypt(secret).tolist()
        [[200, 3], [77, 0]]
        """
        return _values.decrypted(self, secret)

    def _decrypted(self, secret: _native.SecretKey) -> Any:
        data = _native.decrypt_integers(secret, self.type.name, self._digits)
        bits, kind = self.type.bits, "i" if self.type.signed else "u"
        if bits <= 64:
            # The low word of the 32 bytes of each: two's complement is extended.
            words = np.frombuffer(data, dtype=f"<{kind}8")[::4]
            array = words.astype(self.dtype).reshape(self._shape)
            return array if self._shape else array.item()
        rows = (data[i : i + 32] for i in range(0, len(data), 32))
        wide = np.empty(len(data) // 32, dtype=object)
        wide[:] = [int.from_bytes(w, "little", signed=self.type.signed) for w in rows]
        return wide.reshape(self._shape)[()]

    def astype(self, type_: Any) -> Integers:
        """The values in another type: modulo 2^bits, or extended; to booleans: not zero.

        Parameters
        ----------
        type_
            A type of becalm, its name, or whatever `np.dtype` takes for a type of integers or
            booleans: `np.uint8`, `"uint8"`, `"u1"`, `bool`, or `int`, which is numpy's int64.

        Raises
        ------
        BadInput
            For anything but a type of integers.

        Returns
        -------
        Integers
            In the new type.

        Examples
        --------
        >>> x.astype(becalm.int_(16)).type, x.astype(np.int16).dtype
        (<becalm.int16>, dtype('int16'))
        """
        return self._run(f"cast {_integer_types.named('astype', type_).name}", [self])[0]

    def apply(self, operation: str, *others: Any, deep: bool | None = None) -> Any:
        """An operation by its name, on this array and further operands.

        Parameters
        ----------
        operation
            Its name, such as `"min"`.
        *others
            Encrypted arrays, plain numbers, which are folded into the circuit, or plain arrays.
        deep
            Asks for the shortest path, or with `False` for the fewest bootstraps; by default for
            what is quicker on the server's machine for as many values.

        Returns
        -------
        Integers or tuple
            A tuple where there are several results (`div_rem`, `overflowing_add`).

        Raises
        ------
        BadInput
            For an unknown name, or one of an operation that takes more than operands.

        Examples
        --------
        >>> x.apply("min", 100).decrypt(secret).tolist()
        [[100, 3], [77, 0]]
        """
        _integer_operations.known(operation)
        if operation in _WRITTEN:
            wanted = "an operation on operands alone"
            raise BadInput("apply", wanted, operation, f"write {_WRITTEN[operation]}")
        if not (deep is None or isinstance(deep, (bool, np.bool_))):
            raise BadInput("apply", "a choice of deep", type(deep).__name__, "pass True or False")
        found = self._run(operation, [self, *others], deep=deep)
        return tuple(found) if len(found) > 1 else found[0]

    def select(self, when_true: Any, when_false: Any) -> Integers:
        """`when_true` where this boolean is true, else `when_false`.

        Parameters
        ----------
        when_true
            Integers or plain numbers.
        when_false
            Integers or plain numbers; at least one of the two is encrypted.

        Returns
        -------
        Integers
            The chosen values.

        Examples
        --------
        >>> (x > 100).select(x, 100).decrypt(secret).tolist()
        [[200, 100], [100, 100]]
        """
        return self._run("select", [self, when_true, when_false])[0]

    def table(self, entries: Sequence[int], type_: Any = None) -> Integers:
        """The entry of a clear table of at most 256 at each of these indices (unsigned, of
        at most 8 bits), in this type or another; 0 past its end.

        Parameters
        ----------
        entries
            The entries, at most 256.
        type_
            The type of the entries, by default this one, as for `astype`.

        Returns
        -------
        Integers
            The entries at these indices.

        Examples
        --------
        >>> (x >> 6).table([0, 1, 8, 27]).decrypt(secret).tolist()
        [[27, 0], [1, 0]]
        """
        ty = self.type if type_ is None else _integer_types.named("table", type_)
        return self._run("table", [self, *_integer_operations.entries_of(entries)], ty)[0]

    def __getitem__(self, key: Any) -> Integers:
        """Elements at clear places, as in numpy. With encrypted indices (unsigned, of at most 8
        bits) elements of the first axis, of at most 256, as numpy has it: in the shape of the
        indices, then of the elements; 0 past the end. Raises `BadIndex`, which is also an
        `IndexError`, for a clear index outside the array.

        >>> x[1:, 0].decrypt(secret).tolist()
        [77]
        >>> at = becalm.uint(2).encrypt(secret, [1, 0, 1])
        >>> x[at].decrypt(secret).tolist()
        [[77, 0], [200, 3], [77, 0]]
        """
        if not isinstance(key, Integers):
            if isinstance(key, (list, tuple)) and any(isinstance(k, Integers) for k in key):
                got = f"a {type(key).__name__} with an encrypted index"
                remedy = "index one axis after the other: x[0][at], x.T[at]; becalm.stack joins"
                raise BadInput("index", "an encrypted index alone", got, remedy)
            return self._mapped(lambda c: c[key])
        if not self._shape:
            raise BadInput("index", "an array", "a single integer", "index an array of integers")
        if key.type == boolean:
            remedy = "nobody knows how many are true: choose with mask.select(x, 0)"
            raise BadInput("index", "encrypted integers", "encrypted booleans", remedy)
        if not len(self):
            raise BadInput("index", "at least one element", "none", "index a longer array")
        if len(self) > _integer_operations.MOST_ENTRIES:
            raise _integer_operations.many_entries("index", len(self))
        places = key.reshape(*key._shape, *[1] * (self.ndim - 1))
        return self._run("index", [*self, places])[0]

    def save(self, path: str | os.PathLike[str], *, seeded: bool = False) -> None:
        """Writes type, shape and integers to a file.

        Integers as they were encrypted can be written `seeded`, with one seed in place of all
        masks: one word for each digit, instead of the set's dimension and one.

        Parameters
        ----------
        path
            The file.
        seeded
            Whether masks are written as a seed, which suits fresh encryptions alone.

        Examples
        --------
        >>> secret.encrypt([200, 3], becalm.uint(8)).save("x.becalm", seeded=True)
        >>> becalm.load("x.becalm", allow_insecure=True).decrypt(secret).tolist()
        [200, 3]
        """
        _native.save_integers(
            self.type.name, self._digits, _values.path("save", path), self._shape, bool(seeded)
        )

    def to_bytes(self, *, seeded: bool = False) -> bytes:
        """The file of `save` in memory, for the network; `from_bytes` reads it.

        Returns
        -------
        bytes
            Type, shape and values; the values are encrypted.

        Examples
        --------
        >>> y = becalm.Integers.from_bytes(x.to_bytes(), allow_insecure=True)
        >>> y.type, y.shape
        (<becalm.uint8>, (2, 2))
        """
        return _native.integers_to_bytes(self.type.name, self._digits, self._shape, bool(seeded))

    @classmethod
    @called("from_bytes")
    def from_bytes(
        cls, file: bytes, *, allow_insecure: bool = False, limit: int | None = None
    ) -> Integers:
        """Integers from the bytes of a file, checked as by `becalm.load`.

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
        Integers
            An array, on no server.

        Raises
        ------
        BadFile
            For bytes that were altered, are of another kind or above the limit.
        Insecure
            For a set below 128 bits that was not allowed.

        Examples
        --------
        >>> becalm.Integers.from_bytes(x.to_bytes(), allow_insecure=True).decrypt(secret).tolist()
        [[200, 3], [77, 0]]
        """
        data, most = _values.data("from_bytes", file), _values.limit("from_bytes", limit)
        return loaded(_native.integers_from_bytes(data, bool(allow_insecure), most))

    def __copy__(self) -> Integers:
        """Itself, for nothing changes it: a copy knows its server."""
        return self

    def __deepcopy__(self, memo: object) -> Integers:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels as the bytes of its file, which are checked as a file is."""
        return _restored, (self.to_bytes(), self._shape, self.params.kind != "standard")

    def __repr__(self) -> str:
        where = "on no server" if self._server is None else "on a server"
        return f"<becalm.Integers of {self.type.name}, shape {self._shape}, {where}>"

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        where = "none yet: x.on(server)" if self._server is None else repr(self._server)
        return "becalm.Integers", [
            ("type", self.type.name),
            ("shape", self._shape),
            ("size", _values.megabytes(self.nbytes)),
            ("parameter set", self.params.name),
            ("key", self.key_id),
            ("server", where),
        ]

    def _operate(self, operation: str, *operands: Any) -> Any:
        found = [
            x if isinstance(x, Integers) else _integer_operators.number(operation, x)
            for x in operands
        ]
        if any(x is None for x in found):
            if operation not in ("eq", "ne"):
                return NotImplemented
            # Python would compare identities, and answer in silence.
            others = [x for x in operands if not isinstance(x, Integers)]
            got = next(
                type(x).__name__ for x in others if _integer_operators.number(operation, x) is None
            )
            remedy = "compare with an integer, an array or encrypted integers"
            raise BadInput(operation, "integers on both sides", got, remedy)
        if operation in _integer_operators.COMPARISONS:
            return self._compared(operation, found)
        results = self._run(operation, found)
        return tuple(results) if len(results) > 1 else results[0]

    def _compared(self, operation: str, operands: list[Any]) -> Integers:
        """A comparison. Clear numbers beyond the type are compared as they are, as `isin` does."""
        at = next((i for i, x in enumerate(operands) if not isinstance(x, Integers)), None)
        if at is None:
            return self._run(operation, operands)[0]
        numbers = _integer_operations.numbers(operation, operands[at])
        flat = [_integer_operations.as_number(operation, v) for v in numbers.ravel()]
        low, high = self.type.min, self.type.max
        beyond = [not low <= v <= high for v in flat]
        if not any(beyond):
            return self._run(operation, operands)[0]
        # Every element answers alike, so that the least of the type stands for all.
        compare = _integer_operators.COMPARISONS[operation]
        truth = [
            b and compare(*((low, v) if at else (v, low)))
            for b, v in zip(beyond, flat, strict=True)
        ]
        truths = np.array(truth, dtype=object).reshape(numbers.shape).astype(int)
        if all(beyond):
            shape = _values.common_shape(operation, self._shape, numbers.shape)
            return self._filled(operation, boolean, shape, truths)
        inside = np.array(
            [low if b else v for b, v in zip(beyond, flat, strict=True)], dtype=object
        )
        operands[at] = inside.reshape(numbers.shape)
        known = np.array(beyond).reshape(numbers.shape).astype(int)
        return (self._run(operation, operands)[0] & (1 - known)) | truths

    def _of_value(self, value: Any, shape: Any = None) -> Integers:
        """An array of this type, and of this shape or another, with one value everywhere."""
        found = self._shape if shape is None else _values.shape("full_like", shape)
        return self._filled("full_like", self.type, found, value)

    def _truth(self) -> Integers:
        return self.astype(boolean) if self.type != boolean else self

    def _filled(self, op: str, type_: IntegerType, shape: tuple[int, ...], value: Any) -> Integers:
        if self._server is None:
            raise Unsupported(op, "integers on a server", "none", "call x.on(server) first")
        return trivial(type_, self._server, np.full(shape, value, dtype=object))

    def _mapped(self, f: Callable[[Ciphertext], Ciphertext]) -> Integers:
        digits = [f(Ciphertext(d, self._shape)) for d in self._digits]
        return Integers(self.type, [d._lwe for d in digits], digits[0]._shape, self._server)

    def _run(
        self,
        operation: str,
        operands: list[Any],
        clear: IntegerType | None = None,
        *,
        deep: bool | None = None,
    ) -> list[Integers]:
        """Records an operation and runs it once. `clear` is the type of the clear numbers, if it
        differs from that of the others."""
        arrays = [x for x in operands if isinstance(x, Integers)]
        server = next((x._server for x in arrays if x._server is not None), None)
        if server is None:
            raise Unsupported(operation, "integers on a server", "none", "call x.on(server) first")
        # A condition and an index have another type than the values that they choose.
        values = [x for x in operands[operation == "select" :] if isinstance(x, Integers)]
        if clear is None and not values:
            remedy = "make one a becalm.uint(bits).trivial(server, value)"
            raise BadInput(operation, "an encrypted value", "clear values only", remedy)
        for i, x in enumerate(operands):
            if isinstance(x, (list, tuple, np.ndarray)):
                x = _integer_operations.numbers(operation, x)
                x = _integer_operations.moved(operation, i, x, values[0].type) if values else x
                bits = _integer_operations.width(x)
                ty = clear or _integer_operations.clear_type(operation, i, values[0].type, bits)
                _integer_operations.words(operation, ty, x)
                operands[i] = trivial(ty, server, x)
        arrays = [x for x in operands if isinstance(x, Integers)]
        shape = _values.common_shape(operation, *(x._shape for x in arrays))
        kinds: list[tuple[str, bytes | None]] = []
        inputs: list[Ciphertext] = []
        for i, x in enumerate(operands):
            if isinstance(x, Integers):
                kinds.append((x.type.name, None))
                inputs += [Ciphertext(d, x._shape) for d in x._digits]
            else:
                if values:
                    x = _integer_operations.moved(operation, i, x, values[0].type)
                ty = clear or _integer_operations.clear_type(operation, i, values[0].type, 64)
                kinds.append((ty.name, _integer_operations.word(operation, ty, x)))
        forms = _integer_operations.forms(server.params, operation, tuple(kinds))
        inputs = [x._broadcast(shape) for x in inputs]
        lanes, given = int(np.prod(shape)), [x._lwe for x in inputs]
        program, types = forms.program(deep, True, server._opened(), lanes, given)
        made = server._results(operation, TfheProgram(program), list(inputs), None)
        digits = [c._lwe for c in made]
        results = []
        for name in types:
            count = _native.integer_type(name)[1]
            results.append(Integers(IntegerType(name), digits[:count], shape, server))
            digits = digits[count:]
        return results


def encrypted(secret: _native.SecretKey, type_: IntegerType, values: Any) -> Integers:
    """Encrypts an array of integers of a type."""
    array = _integer_operations.numbers("encrypt", values)
    words = _integer_operations.words("encrypt", type_, array, secret=True)
    digits = _native.encrypt_integers(secret, type_.name, words)
    return Integers(type_, digits, array.shape, None)


def trivial(type_: IntegerType, server: Server, values: Any) -> Integers:
    """Clear values in the form of encrypted ones."""
    array = _integer_operations.numbers("trivial", values)
    words = _integer_operations.words("trivial", type_, array)
    key = server_for("trivial", server)._key
    digits = _native.trivial_integers(key, type_.name, words)
    return Integers(type_, digits, array.shape, server)


IntegerType._trivial = trivial


def loaded(found: tuple[str, list[Lwe], list[int]]) -> Integers:
    """Integers from a file."""
    name, digits, shape = found
    return Integers(IntegerType(name), digits, tuple(shape), None)


def _restored(file: bytes, shape: tuple[int, ...], insecure: bool) -> Integers:
    return Integers.from_bytes(file, allow_insecure=insecure).reshape(shape)
