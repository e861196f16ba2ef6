"""Encrypted integers of 2 to 256 bits, in arrays that compute like numpy's."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from becalm import _arrays, _native, _operations, _operators, _values
from becalm._native import Lwe, Params
from becalm.ciphertext import Ciphertext
from becalm.errors import BadInput, Unsupported
from becalm.keys import SecretKey
from becalm.program import Cost, Program
from becalm.server import Server, server_for

__all__ = ["IntegerType", "Integers", "boolean", "int_", "uint"]


class IntegerType:
    """What an encrypted integer is: `becalm.uint(8)`, `becalm.int_(16)` or `becalm.boolean`."""

    __slots__ = ("bits", "name", "signed")

    def __init__(self, name: str) -> None:
        #: `bool`, `uint64`, ...
        self.name = name
        #: Width in bits, and whether it is two's complement.
        self.bits, _, self.signed = _native.integer_type(name)

    @property
    def min(self) -> int:
        """The least value."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def max(self) -> int:
        """The greatest value.

        >>> becalm.int_(16).max
        32767
        """
        return (1 << (self.bits - self.signed)) - 1

    def encrypt(self, secret: SecretKey, values: Any) -> Integers:
        """An array of encrypted integers, in the shape of `values`; `on(server)` computes with it.

        Raises `BadInput` for values that the type cannot hold, and rows of different lengths, and
        `WrongParams` for keys of a set whose tables are too small for integers.

        >>> x = becalm.uint(8).encrypt(secret, [[200, 3], [77, 0]]).on(server)
        >>> x.shape
        (2, 2)
        """
        if not isinstance(secret, SecretKey):
            remedy = "becalm.keygen makes one, beside the server's"
            raise BadInput("encrypt", "a secret key", type(secret).__name__, remedy)
        array = _operations.numbers("encrypt", values)
        words = _operations.words("encrypt", self, array, secret=True)
        digits = _native.encrypt_integers(secret._native, self.name, words)
        return Integers(self, digits, array.shape, None)

    def trivial(self, server: Server, values: Any) -> Integers:
        """Clear values in the form of encrypted ones, which anyone can read: for `becalm.stack`,
        or the arrays that operators take. A single number needs no such form.

        >>> x + becalm.uint(8).trivial(server, [1, 2])  # the same as x + [1, 2]
        <becalm.Integers of uint8, shape (2, 2), on a server>
        """
        array = _operations.numbers("trivial", values)
        words = _operations.words("trivial", self, array)
        key = server_for("trivial", server)._key
        digits = _native.trivial_integers(key, self.name, words)
        return Integers(self, digits, array.shape, server)

    def cost(
        self,
        operation: str,
        *,
        params: Any = "tfhe_2_2",
        clear: int | Sequence[int] | None = None,
        count: int | None = None,
        other: IntegerType | None = None,
        to: IntegerType | None = None,
        entries: Sequence[int] | None = None,
        deep: bool = False,
    ) -> Cost:
        """What an operation (`"add"`, `"mul"`, ...) on integers of this type takes, for each lane.

        With `clear` its last operand is that number; for `"dot"` and `"matmul"` the list of
        factors. `other` is the type of the last operand where it is another: of a shift's or
        rotation's amount, of an index. Further, `"sum"`, `"any"`, `"all"`, `"parity"`, `"prod"`,
        `"dot"` and `"matmul"` (for each element of the result) need `count`, the number of
        elements, and `"min"` and `"max"` of many may have it; `"index"` needs `count` and `other`;
        `"table"`, whose index is of this type, needs `entries`, and `to` if they are of another
        type; `"cast"` needs `to`; `"pow"` needs `clear`. `deep` asks for the shortest path instead
        of the fewest bootstraps. Raises `BadInput` for what is missing.

        >>> becalm.uint(64).cost("add").bootstraps
        32
        >>> becalm.int_(16).cost("shr", other=becalm.uint(4)).depth
        9
        >>> squares = [v * v for v in range(16)]
        >>> becalm.uint(4).cost("table", entries=squares, to=becalm.uint(8)).bootstraps
        4
        """
        given = {"clear": clear, "count": count, "other": other, "to": to, "entries": entries}
        set_ = _values.set_of("cost", params)

        def one(name: str, operands: _operations.Operands) -> Cost:
            return Cost(**_operations.record(set_, name, bool(deep), tuple(operands))[0].cost())

        return _operations.priced(self, operation, given, one)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IntegerType) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<becalm.{self.name}>"


def uint(bits: int) -> IntegerType:
    """Unsigned integers of 2 to 256 bits."""
    return IntegerType(f"uint{_values.count('uint', 'bits', bits)}")


def int_(bits: int) -> IntegerType:
    """Two's complement integers of 2 to 256 bits."""
    return IntegerType(f"int{_values.count('int_', 'bits', bits)}")


#: How operations are written that take more than operands.
_WRITTEN = {
    "cast": "x.astype(type)",
    "index": "x[i]",
    "matmul": "x @ y",
    "pow": "x ** 3",
    "prod": "x.prod()",
    "table": "i.table(entries)",
}

#: Booleans.
boolean = IntegerType("bool")


class Integers(_arrays.Array):
    """An array of encrypted integers of one type, of any shape.

    Arithmetic wraps, as numpy's does, that of booleans modulo 2; `//` and `%` divide towards zero;
    division by zero gives a quotient of ones and the dividend as remainder. Comparisons give
    booleans. Operands are other encrypted arrays of the same type, numbers in the clear, which make
    operations cheaper, or lists and numpy arrays; shapes broadcast, and numpy's functions of these
    operations (`np.add`, `np.minimum`, `np.where`, `np.sum`, ...) take encrypted arrays too.
    Computing needs a server: `x.on(server)`. Results stay on it. What does not fit (types, ranges,
    shapes) is `BadInput`, what encrypted integers cannot do `Unsupported`, each with a remedy.
    """

    __slots__ = ("_digits", "_server", "_shape", "type")

    def __init__(
        self, type_: IntegerType, digits: list[Lwe], shape: tuple[int, ...], server: Server | None
    ) -> None:
        #: What the elements are.
        self.type = type_
        self._digits = digits
        self._shape = shape
        self._server = server

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

        Raises `WrongParams` and `WrongKey` for a server of another set or key.
        """
        machine = server_for("on", server, self)
        return Integers(self.type, self._digits, self._shape, machine)

    def decrypt(self, secret: SecretKey) -> Any:
        """The values in the array's shape, as Python integers (or booleans), or a single one.

        Raises `WrongKey` if they are under another key.
        """
        if not isinstance(secret, SecretKey):
            remedy = "servers have none: decrypt where the key was made"
            raise BadInput("decrypt", "a secret key", type(secret).__name__, remedy)
        data = _native.decrypt_integers(secret._native, self.type.name, self._digits)
        words = (data[i : i + 32] for i in range(0, len(data), 32))
        values = [int.from_bytes(w, "little", signed=self.type.signed) for w in words]
        if self.type.name == "bool":
            return np.array(values, dtype=bool).reshape(self._shape)[()]
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array.reshape(self._shape)[()]

    def astype(self, type_: Any) -> Integers:
        """The values in another type (or numpy's of that name): modulo 2^bits, or extended; to
        booleans: not zero.

        >>> x.astype(becalm.int_(16)).type
        <becalm.int16>
        """
        if type_ is bool or isinstance(type_, np.dtype) or _is_numpy(type_):
            type_ = IntegerType(np.dtype(type_).name)
        return self.apply(f"cast {_operations.type_of('astype', type_).name}")

    def apply(self, operation: str, *others: Any, deep: bool = False) -> Any:
        """An operation by its name, on this array and further operands: `x.apply("min", y)`.

        Operands are encrypted arrays, numbers in the clear, which are folded into the circuit, or
        arrays in the clear. A tuple comes back where there are several results (`div_rem`,
        `overflowing_add`). `deep` asks for the shortest path instead of the fewest bootstraps.
        """
        _operations.known(operation)
        if operation in _WRITTEN:
            wanted = "an operation on operands alone"
            raise BadInput("apply", wanted, operation, f"write {_WRITTEN[operation]}")
        return _apply(operation, [self, *others], deep=deep)

    def select(self, when_true: Any, when_false: Any) -> Integers:
        """`when_true` where this boolean is true, else `when_false`.

        >>> (x > 100).select(x, 100).decrypt(secret).tolist()
        [[200, 100], [100, 100]]
        """
        return self.apply("select", when_true, when_false)

    def min(self, other: Any = None, *, axis: int | None = None) -> Integers:
        """The smaller of two, element by element, as `numpy.minimum`; without `other` the least
        element of all, or along an axis.

        >>> x.min(100).decrypt(secret).tolist(), x.min().decrypt(secret)
        ([[100, 3], [77, 0]], 0)
        """
        return self._least("min", other, axis)

    def max(self, other: Any = None, *, axis: int | None = None) -> Integers:
        """The greater of two, element by element, as `numpy.maximum`; without `other` the greatest
        element of all, or along an axis."""
        return self._least("max", other, axis)

    def clip(self, min: Any = None, max: Any = None) -> Integers:
        """What is below `min` as `min`, what is above `max` as `max`; either may be left out.

        >>> x.clip(5, 100).decrypt(secret).tolist()
        [[100, 5], [77, 5]]
        """
        above = self if min is None else self.max(min)
        return above if max is None else above.min(max)

    def abs(self) -> Integers:
        """The absolute value; of the least value itself, as numpy's."""
        return self.apply("abs")

    def sum(self, axis: int | None = None) -> Integers:
        """The sum of all elements, or along an axis, in this type: it wraps. Booleans are counted,
        in an unsigned type just wide enough.

        >>> x.sum(axis=0).decrypt(secret).tolist()
        [21, 3]
        >>> (x > 50).sum()
        <becalm.Integers of uint3, shape (), on a server>
        """
        return self._over("sum", axis)

    def parity(self, axis: int | None = None) -> Integers:
        """Whether an odd number of these booleans is true: their XOR."""
        return self._over("parity", axis)

    def any(self, axis: int | None = None) -> Integers:
        """Whether any element is not zero, of all or along an axis."""
        return self._over("any", axis)

    def all(self, axis: int | None = None) -> Integers:
        """Whether no element is zero, of all or along an axis."""
        return self._over("all", axis)

    def prod(self, axis: int | None = None) -> Integers:
        """The product of all elements, or along an axis, in this type: it wraps."""
        return self._least("mul", None, axis)

    def dot(self, other: Any) -> Integers:
        """Sums of products, in this type; also `x @ y`: of two lists, a matrix and a list, or two
        matrices, of which one may be in the clear, which is cheaper.

        >>> (x[0] @ [1, 10]).decrypt(secret)
        230
        >>> ([[0, 1], [2, 0]] @ x).decrypt(secret).tolist()
        [[77, 0], [144, 6]]
        """
        found = _matmul(self, other)
        if found is NotImplemented:
            got = type(other).__name__
            raise BadInput("dot", "a list or a matrix", got, "pass encrypted or clear integers")
        return found

    def table(self, entries: Sequence[int], type_: IntegerType | None = None) -> Integers:
        """The entry of a table in the clear, of at most 256, at each of these indices (unsigned, of
        at most 8 bits), in this type or another; 0 past its end.

        >>> (x >> 6).table([0, 1, 8, 27]).decrypt(secret).tolist()
        [[27, 0], [1, 0]]
        """
        ty = _operations.type_of("table", type_ or self.type)
        return _apply("table", [self, *_operations.entries_of(entries)], clear=ty)

    def rotate_left(self, by: Any) -> Integers:
        """The bits turned towards the high end, by a number or encrypted unsigned amounts."""
        return self.apply("rotate_left", by)

    def rotate_right(self, by: Any) -> Integers:
        """The bits turned towards the low end, by a number or encrypted unsigned amounts."""
        return self.apply("rotate_right", by)

    def count_ones(self) -> Integers:
        """How many bits are 1, in an unsigned type just wide enough; so are those below.

        >>> x.count_ones().decrypt(secret).tolist()
        [[3, 2], [4, 0]]
        """
        return self.apply("count_ones")

    def leading_zeros(self) -> Integers:
        """Zeros above the highest 1."""
        return self.apply("leading_zeros")

    def trailing_zeros(self) -> Integers:
        """Zeros below the lowest 1."""
        return self.apply("trailing_zeros")

    def leading_ones(self) -> Integers:
        """Ones above the highest 0."""
        return self.apply("leading_ones")

    def trailing_ones(self) -> Integers:
        """Ones below the lowest 0."""
        return self.apply("trailing_ones")

    def ilog2(self) -> Integers:
        """The place of the highest 1, that of its sign for a negative number; all ones (of the
        result's type) for 0.

        >>> x.ilog2().decrypt(secret).tolist()
        [[7, 1], [6, 15]]
        """
        return self.apply("ilog2")

    def overflowing_add(self, other: Any) -> tuple[Integers, Integers]:
        """The sum, and a boolean: whether it left the type.

        >>> s, left = x.overflowing_add(100)
        >>> left.decrypt(secret).tolist()
        [[True, False], [False, False]]
        """
        return self.apply("overflowing_add", other)

    def overflowing_sub(self, other: Any) -> tuple[Integers, Integers]:
        """The difference, and a boolean: whether it left the type."""
        return self.apply("overflowing_sub", other)

    def overflowing_mul(self, other: Any) -> tuple[Integers, Integers]:
        """The product, and a boolean: whether it left the type; of at most 128 bits."""
        return self.apply("overflowing_mul", other)

    def refresh(self) -> Integers:
        """The same values with the noise of one bootstrap, for long sums of what only moved."""
        return self.apply("refresh")

    def __getitem__(self, key: Any) -> Integers:
        """Elements at clear places, as in numpy. With encrypted indices (unsigned, of at most 8
        bits) elements of the first axis, of at most 256, as numpy has it: in the shape of the
        indices, then of the elements; 0 past the end. Raises `BadIndex`, which is also an
        `IndexError`, for clear places that there are not.

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
            remedy = "how many are true is not known: choose with mask.select(x, 0)"
            raise BadInput("index", "an encrypted place", "an encrypted mask", remedy)
        if not len(self):
            raise BadInput("index", "at least one element", "none", "index a longer array")
        if len(self) > _operations.MOST_ENTRIES:
            raise _operations.many_entries("index", len(self))
        places = key.reshape(*key._shape, *[1] * (self.ndim - 1))
        return _apply("index", [*self, places])

    def __matmul__(self, other: Any) -> Any:
        return _matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _matmul(other, self)

    def __pow__(self, exponent: Any) -> Any:
        """A power by squares and products, in this type; the exponent is a number in the clear.

        >>> (x ** 2).decrypt(secret).tolist()
        [[64, 9], [41, 0]]
        """
        e = None if isinstance(exponent, Integers) else _operators.number("power", exponent)
        if not isinstance(e, int) or e < 0:
            wanted, got = "an exponent in the clear, from 0", f"{type(exponent).__name__}"
            raise Unsupported("power", wanted, got, "multiply, or use x.table([...])")
        if e == 0:
            return _filled("power", self.type, self._shape, self._server, 1)
        result, square = None, self
        for i in range(e.bit_length()):
            square = square * square if i else square
            if e >> i & 1:
                result = square if result is None else result * square
        return result

    def save(self, path: str | os.PathLike[str], *, seeded: bool = False) -> None:
        """Writes type and integers to a file, flat: after `becalm.load`, `reshape` them.

        Integers as they were encrypted can be written `seeded`, with one seed in place of all
        masks: one word for each digit, instead of the set's dimension and one.
        """
        _native.save_integers(self.type.name, self._digits, path, bool(seeded))

    def __reduce__(self) -> tuple[Any, ...]:
        insecure = self.params.kind != "standard"
        file = _native.integers_to_bytes(self.type.name, self._digits)
        return _restored, (file, self._shape, insecure)

    def __repr__(self) -> str:
        where = "on no server" if self._server is None else "on a server"
        return f"<becalm.Integers of {self.type.name}, shape {self._shape}, {where}>"

    def _operate(self, operation: str, *operands: Any) -> Any:
        found = [
            x if isinstance(x, Integers) else _operators.number(operation, x) for x in operands
        ]
        return NotImplemented if any(x is None for x in found) else _apply(operation, found)

    def _truth(self) -> Integers:
        return self.astype(boolean) if self.type != boolean else self

    def _over(self, operation: str, axis: int | None) -> Integers:
        """An operation on the list of all elements, or along an axis; of none 0, or true of all."""
        rows = self.reshape(-1) if axis is None else self._first(axis)
        if len(rows):
            _operations.require_count(operation, self.type, len(rows))
            return _apply(operation, list(rows))
        ty = uint(2) if (operation, self.type) == ("sum", boolean) else self.type
        ty = boolean if operation in ("any", "all") else ty
        return _filled(operation, ty, rows._shape[1:], self._server, int(operation == "all"))

    def _least(self, operation: str, other: Any, axis: int | None) -> Integers:
        """By halves where there is no other operand."""
        if other is not None:
            if axis is not None:
                raise BadInput(operation, "an operand or an axis", "both", "leave one of them out")
            return self.apply(operation, other)
        rows = self.reshape(-1) if axis is None else self._first(axis)
        if not len(rows):
            if operation == "mul":
                return _filled(operation, self.type, rows._shape[1:], self._server, 1)
            raise BadInput(operation, "at least one element", "none", "pass an operand, or more")
        while len(rows) > 1:
            half = len(rows) // 2
            pairs = _apply(operation, [rows[:half], rows[half : 2 * half]])
            odd = len(rows) % 2
            rows = self._by_places([pairs, rows[2 * half :]], np.concatenate) if odd else pairs
        return rows[0]

    def _mapped(self, f: Callable[[Ciphertext], Ciphertext]) -> Integers:
        digits = [f(Ciphertext(d, self._shape)) for d in self._digits]
        return Integers(self.type, [d._lwe for d in digits], digits[0]._shape, self._server)


def _is_numpy(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, np.generic)


def _filled(
    op: str, ty: IntegerType, shape: tuple[int, ...], server: Server | None, value: int
) -> Integers:
    if server is None:
        raise Unsupported(op, "integers on a server", "none", "call x.on(server) first")
    return ty.trivial(server, np.full(shape, value, dtype=object))


def _matmul(a: Any, b: Any) -> Any:
    """A dot product for each row of `a` and column of `b`; of encrypted ones as one batch."""
    x = a if isinstance(a, Integers) else b
    if not all(isinstance(v, (Integers, list, tuple, np.ndarray)) for v in (a, b)):
        clear = _operators.number("matmul", b if isinstance(a, Integers) else a)
        if clear is None:
            return NotImplemented
        a, b = (v if isinstance(v, Integers) else np.asarray(clear) for v in (a, b))
    if x.type == boolean:
        remedy = "count with (x & y).sum(), or cast to an integer with astype"
        raise BadInput("matmul", "integers", "booleans", remedy)
    a, b = (v if isinstance(v, Integers) else _operations.numbers("matmul", v) for v in (a, b))
    if not (a.ndim in (1, 2) and b.ndim in (1, 2) and a.shape[-1] == b.shape[0]):
        wanted = "lists or matrices, of equal length where they meet"
        raise BadInput("matmul", wanted, f"{a.shape} @ {b.shape}", "reshape or cut them")
    shape, inner = (*a.shape[:-1], *b.shape[1:]), range(a.shape[-1])
    server = next((v._server for v in (a, b) if isinstance(v, Integers) and v._server), None)
    if not inner or 0 in shape:
        return _filled("matmul", x.type, shape, server, 0)
    _operations.require_count("matmul", x.type, len(inner))
    a, b = a.reshape(-1, len(inner)), b.reshape(len(inner), -1)
    if isinstance(a, Integers) and isinstance(b, Integers):
        rows, columns = [a[:, i].reshape(-1, 1) for i in inner], [b[i] for i in inner]
        return _apply("dot", [*rows, *columns]).reshape(shape)
    # What is clear is folded into a circuit of its own for each of its rows or columns.
    encrypted = [a[:, i] if isinstance(a, Integers) else b[i] for i in inner]
    clear = b.T if isinstance(a, Integers) else a
    parts = [_apply("dot", [*encrypted, *row]) for row in clear]
    axis = 1 if isinstance(a, Integers) else 0
    return x._by_places(parts, lambda places: np.stack(places, axis)).reshape(shape)


def _apply(
    operation: str, operands: list[Any], *, deep: bool = False, clear: IntegerType | None = None
) -> Any:
    """Runs an operation; `clear` is the type of numbers in the clear, if not that of the others."""
    arrays = [x for x in operands if isinstance(x, Integers)]
    server = next((x._server for x in arrays if x._server is not None), None)
    if not arrays:
        raise BadInput(operation, "encrypted integers", "none", "encrypt an operand first")
    if server is None:
        raise Unsupported(operation, "integers on a server", "none", "call x.on(server) first")
    # A condition and an index are of another type than what is chosen.
    values = [x for x in operands[operation == "select" :] if isinstance(x, Integers)]
    if clear is None and not values:
        remedy = "make one a becalm.uint(bits).trivial(server, value)"
        raise BadInput(operation, "an encrypted value", "clear values only", remedy)
    for i, x in enumerate(operands):
        if isinstance(x, (list, tuple, np.ndarray)):
            x = _operations.numbers(operation, x)
            x = _operations.moved(operation, i, x, values[0].type) if values else x
            bits = _operations.width(x)
            ty = clear or _operations.clear_type(operation, i, values[0].type, bits)
            _operations.words(operation, ty, x)
            operands[i] = ty.trivial(server, x)
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
                x = _operations.moved(operation, i, x, values[0].type)
            ty = clear or _operations.clear_type(operation, i, values[0].type, 64)
            kinds.append((ty.name, _operations.word(operation, ty, x)))
    program, types = _operations.record(server.params, operation, deep, tuple(kinds))
    digits = [c._lwe for c in server._results(Program(program), list(inputs), None)]
    results = []
    for name in types:
        count = _native.integer_type(name)[1]
        results.append(Integers(IntegerType(name), digits[:count], shape, server))
        digits = digits[count:]
    return tuple(results) if len(results) > 1 else results[0]


def loaded(found: tuple[str, list[Lwe]]) -> Integers:
    """Integers from a file, flat."""
    name, digits = found
    return Integers(IntegerType(name), digits, (len(digits[0]),), None)


def _restored(file: bytes, shape: tuple[int, ...], insecure: bool) -> Integers:
    return loaded(_native.integers_from_bytes(file, insecure)).reshape(shape)
