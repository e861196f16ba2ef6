"""Encrypted integers of 2 to 256 bits, in arrays that compute like numpy's."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from becalm import _native, _values
from becalm._native import Lwe, Params
from becalm.ciphertext import Ciphertext
from becalm.errors import BadInput, Unsupported
from becalm.keys import SecretKey, Server
from becalm.program import Cost, Program

__all__ = ["IntegerType", "Integers", "boolean", "int_", "uint"]


class IntegerType:
    """What an encrypted integer is: `becalm.uint(8)`, `becalm.int_(16)` or `becalm.boolean`."""

    __slots__ = ("bits", "name", "signed")

    def __init__(self, name: str) -> None:
        #: `bool`, `uint64`, ...
        self.name = name
        #: Width in bits, and whether it is two's complement.
        self.bits, _, self.signed = _native.integer_type(name)

    def encrypt(self, secret: SecretKey, values: Any) -> Integers:
        """An array of encrypted integers; call `on(server)` to compute with it.

        >>> x = becalm.uint(8).encrypt(secret, [[200, 3], [77, 0]]).on(server)
        >>> x.shape
        (2, 2)
        """
        array = np.asarray(values, dtype=object)
        digits = _native.encrypt_integers(secret._native, self.name, _words("encrypt", self, array))
        return Integers(self, digits, array.shape, None)

    def trivial(self, server: Server, values: Any) -> Integers:
        """Clear values in the form of encrypted ones, which anyone can read: for `becalm.stack`,
        or the arrays that operators take. A single number needs no such form.

        >>> x + becalm.uint(8).trivial(server, [1, 2])  # the same as x + [1, 2]
        <becalm.Integers of uint8, shape (2, 2), on a server>
        """
        array = np.asarray(values, dtype=object)
        digits = _native.trivial_integers(server._key, self.name, _words("trivial", self, array))
        return Integers(self, digits, array.shape, server)

    def cost(
        self,
        operation: str,
        *,
        params: Any = "tfhe_2_2",
        clear: int | None = None,
        count: int | None = None,
        deep: bool = False,
    ) -> Cost:
        """What an operation (`"add"`, `"mul"`, ...) on integers of this type takes, for each lane.

        With `clear` its last operand is that number. `count` is the number of operands of a
        `"sum"`, or of elements of a `"dot"`. `deep` asks for the shortest path instead of the
        fewest bootstraps.

        >>> becalm.uint(64).cost("add").bootstraps
        32
        """
        arity = dict(_native.integer_operations()).get(operation, 1)
        if count is not None:
            arity = _values.count("cost", "count", count) * (2 if operation == "dot" else 1)
        operands: list[tuple[str, bytes | None]] = [(self.name, None)] * arity
        if operation == "select":
            operands[0] = ("bool", None)
        if clear is not None:
            operands[-1] = (self.name, _word("cost", self, clear))
        program, _ = _record(_values.set_of("cost", params), operation, deep, tuple(operands))
        return Cost(**program.cost())

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


#: Booleans.
boolean = IntegerType("bool")


class Integers:
    """An array of encrypted integers of one type, of any shape.

    Arithmetic wraps, as numpy's does; `//` and `%` divide towards zero; division by zero gives a
    quotient of ones and the dividend as remainder. Comparisons give booleans. Operands are other
    encrypted arrays or numbers in the clear, which make operations cheaper; shapes broadcast.
    Computing needs a server: `x.on(server)`. Results stay on it.
    """

    __slots__ = ("_digits", "_server", "_shape", "type")
    #: numpy leaves `array + integers` to the integers.
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self, type_: IntegerType, digits: list[Lwe], shape: tuple[int, ...], server: Server | None
    ) -> None:
        #: What the elements are.
        self.type = type_
        self._digits = digits
        self._shape = shape
        self._server = server

    def __bool__(self) -> NoReturn:
        remedy = "decrypt it, or choose with `select`"
        raise Unsupported("truth", "a number in the clear", "an encrypted integer", remedy)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array; `()` for a single integer."""
        return self._shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """Number of integers."""
        return int(np.prod(self._shape))

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
        """The same integers, to be computed with on a server."""
        return Integers(self.type, self._digits, self._shape, server)

    def decrypt(self, secret: SecretKey) -> Any:
        """The values: an array of Python integers (or booleans), or a single one."""
        data = _native.decrypt_integers(secret._native, self.type.name, self._digits)
        words = (data[i : i + 32] for i in range(0, len(data), 32))
        values = [int.from_bytes(w, "little", signed=self.type.signed) for w in words]
        if self.type.name == "bool":
            return np.array(values, dtype=bool).reshape(self._shape)[()]
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array.reshape(self._shape)[()]

    def astype(self, type_: IntegerType) -> Integers:
        """The values in another type: modulo 2^bits, or extended; to booleans: not zero.

        >>> x.astype(becalm.int_(16)).type
        <becalm.int16>
        """
        if not isinstance(type_, IntegerType):
            remedy = "pass becalm.uint(bits), becalm.int_(bits) or becalm.boolean"
            raise BadInput("astype", "a type of integers", type(type_).__name__, remedy)
        return self.apply(f"cast {type_.name}")

    def apply(self, operation: str, *others: Any, deep: bool = False) -> Any:
        """An operation by its name, on this array and further operands: `x.apply("min", y)`.

        Operands are encrypted arrays, numbers in the clear, which are folded into the circuit, or
        arrays in the clear. A tuple comes back where there are several results (`div_rem`,
        `overflowing_add`). `deep` asks for the shortest path instead of the fewest bootstraps.
        """
        return _apply(operation, [self, *others], deep=deep)

    def select(self, when_true: Any, when_false: Any) -> Integers:
        """`when_true` where this boolean is true, else `when_false`.

        >>> (x > 100).select(x, 100).decrypt(secret).tolist()
        [[200, 100], [100, 100]]
        """
        return self.apply("select", when_true, when_false)

    def min(self, other: Any) -> Integers:
        """The smaller of two, element by element: as `numpy.minimum`, not along an axis."""
        return self.apply("min", other)

    def max(self, other: Any) -> Integers:
        """The greater of two, element by element: as `numpy.maximum`, not along an axis."""
        return self.apply("max", other)

    def abs(self) -> Integers:
        """The absolute value; of the least value itself, as numpy's."""
        return self.apply("abs")

    def sum(self, axis: int | None = None) -> Integers:
        """The sum of all elements, or along an axis, in this type: it wraps.

        >>> x.sum(axis=0).decrypt(secret).tolist()
        [21, 3]
        """
        rows = self.reshape(-1) if axis is None else self._first(axis)
        return _apply("sum", list(rows))

    def dot(self, other: Any) -> Integers:
        """The sum of products of two lists of equal length, in this type; also `x @ y`.

        >>> (x[0] @ [1, 10]).decrypt(secret)
        230
        """
        y = other if isinstance(other, Integers) else list(np.asarray(other, dtype=object))
        if self.ndim != 1 or len(y) != len(self) or getattr(y, "ndim", 1) != 1:
            got = f"{self._shape} and {y.shape if isinstance(y, Integers) else (len(y),)}"
            raise BadInput("dot", "two lists of equal length", got, "reshape or cut them")
        return _apply("dot", [*self, *y])

    def table(self, entries: Sequence[int], type_: IntegerType | None = None) -> Integers:
        """The entry of a table in the clear at each of these indices (of at most 8 bits), in this
        type or another; 0 past its end.

        >>> (x >> 6).table([0, 1, 8, 27]).decrypt(secret).tolist()
        [[27, 0], [1, 0]]
        """
        ty = type_ or self.type
        rows = np.asarray(entries, dtype=object)
        if rows.ndim != 1 or not rows.size:
            remedy = "list one entry for each value of the index"
            raise BadInput("table", "a list of entries", f"shape {rows.shape}", remedy)
        return _apply("table", [self, *rows], clear=ty)

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
        """The place of the highest 1; all ones for 0."""
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

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of a single encrypted integer")
        return self._shape[0]

    def __iter__(self) -> Iterator[Integers]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Integers:
        """Elements at clear places, as in numpy. With an encrypted index (unsigned, of at most 8
        bits) the elements of the first axis at that place, 0 past the end.

        >>> x[1:, 0].decrypt(secret).tolist()
        [77]
        >>> at = becalm.uint(2).encrypt(secret, 1)
        >>> x[at].decrypt(secret).tolist()
        [77, 0]
        """
        if not isinstance(key, Integers):
            return self._mapped(lambda c: c[key])
        if not self._shape:
            raise BadInput("index", "an array", "a single integer", "index an array of integers")
        return _apply("index", [*self, key])

    def reshape(self, *shape: int | Sequence[int]) -> Integers:
        """The same integers in another shape; one dimension may be -1."""
        return self._mapped(lambda c: c.reshape(*shape))

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

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise Unsupported("array", "numbers in the clear", "encrypted integers", "decrypt them")

    def __add__(self, other: Any) -> Any:
        return self._binary("add", other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._binary("sub", other)

    def __rsub__(self, other: Any) -> Any:
        return self._binary("sub", other, swapped=True)

    def __mul__(self, other: Any) -> Any:
        return self._binary("mul", other)

    __rmul__ = __mul__

    def __matmul__(self, other: Any) -> Any:
        return self.dot(other)

    def __floordiv__(self, other: Any) -> Any:
        return self._binary("div", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._binary("div", other, swapped=True)

    def __mod__(self, other: Any) -> Any:
        return self._binary("rem", other)

    def __rmod__(self, other: Any) -> Any:
        return self._binary("rem", other, swapped=True)

    def __divmod__(self, other: Any) -> Any:
        return self._binary("div_rem", other)

    def __and__(self, other: Any) -> Any:
        return self._binary("and", other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return self._binary("or", other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Any:
        return self._binary("xor", other)

    __rxor__ = __xor__

    def __lshift__(self, other: Any) -> Any:
        return self._binary("shl", other)

    def __rshift__(self, other: Any) -> Any:
        return self._binary("shr", other)

    def __neg__(self) -> Integers:
        return self.apply("neg")

    def __abs__(self) -> Integers:
        return self.apply("abs")

    def __invert__(self) -> Integers:
        return self.apply("not")

    def __eq__(self, other: object) -> Any:
        return self._binary("eq", other)

    def __ne__(self, other: object) -> Any:
        return self._binary("ne", other)

    def __lt__(self, other: Any) -> Any:
        return self._binary("lt", other)

    def __le__(self, other: Any) -> Any:
        return self._binary("le", other)

    def __gt__(self, other: Any) -> Any:
        return self._binary("gt", other)

    def __ge__(self, other: Any) -> Any:
        return self._binary("ge", other)

    def __repr__(self) -> str:
        where = "on no server" if self._server is None else "on a server"
        return f"<becalm.Integers of {self.type.name}, shape {self._shape}, {where}>"

    def _binary(self, operation: str, other: Any, *, swapped: bool = False) -> Any:
        if not isinstance(other, (Integers, list, tuple, np.ndarray)):
            try:
                other = operator.index(other)
            except TypeError:
                return NotImplemented
        return _apply(operation, [other, self] if swapped else [self, other])

    def _mapped(self, f: Callable[[Ciphertext], Ciphertext]) -> Integers:
        digits = [f(Ciphertext(d, self._shape)) for d in self._digits]
        return Integers(self.type, [d._lwe for d in digits], digits[0]._shape, self._server)

    def _first(self, axis: int) -> Integers:
        """The same with an axis moved to the front."""
        try:
            order = np.moveaxis(np.arange(self.size).reshape(self._shape), axis, 0)
        except ValueError:
            got = f"axis {axis} of shape {self._shape}"
            raise BadInput("sum", "an axis of the array", got, "choose one it has") from None
        return self.reshape(-1)[order]


#: Operations whose second operand is an amount.
_SHIFTS = ("shl", "shr", "rotate_left", "rotate_right")


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
            ty = clear or (uint(8) if operation in _SHIFTS and i else values[0].type)
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
            ty = clear or (uint(64) if operation in _SHIFTS and i else values[0].type)
            kinds.append((ty.name, _word(operation, ty, x)))
    program, types = _record(server.params, operation, deep, tuple(kinds))
    digits = [c._lwe for c in server._results(Program(program), list(inputs), None)]
    results = []
    for name in types:
        count = _native.integer_type(name)[1]
        results.append(Integers(IntegerType(name), digits[:count], shape, server))
        digits = digits[count:]
    return tuple(results) if len(results) > 1 else results[0]


def joined(parts: Sequence[Integers], join: Callable[[list[Ciphertext]], Ciphertext]) -> Integers:
    """Arrays of one type, joined digit by digit."""
    first = parts[0]
    for x in parts:
        if not isinstance(x, Integers) or x.type != first.type:
            got = x.type.name if isinstance(x, Integers) else type(x).__name__
            wanted = f"arrays of {first.type.name}"
            raise BadInput("join", wanted, got, "encrypt it, or cast it with astype")
    count = range(len(first._digits))
    digits = [join([Ciphertext(x._digits[i], x._shape) for x in parts]) for i in count]
    server = next((x._server for x in parts if x._server is not None), None)
    return Integers(first.type, [d._lwe for d in digits], digits[0]._shape, server)


def loaded(found: tuple[str, list[Lwe]]) -> Integers:
    """Integers from a file, flat."""
    name, digits = found
    return Integers(IntegerType(name), digits, (len(digits[0]),), None)


def _restored(file: bytes, shape: tuple[int, ...], insecure: bool) -> Integers:
    return loaded(_native.integers_from_bytes(file, insecure)).reshape(shape)


def _words(op: str, type_: IntegerType, array: npt.NDArray[Any]) -> bytes:
    return b"".join(_word(op, type_, v) for v in array.ravel())


def _word(op: str, type_: IntegerType, value: Any) -> bytes:
    try:
        number = operator.index(value)
    except TypeError:
        got = type(value).__name__
        raise BadInput(op, "integers", got, "convert them with int()") from None
    # What the 32 bytes hold; the library refuses what the type cannot.
    low, high = (-(1 << 255), 1 << 255) if type_.signed else (0, 1 << 256)
    if not low <= number < high:
        raise BadInput(op, f"values of {type_.name}", "one outside its range", "reduce it")
    return (number % (1 << 256)).to_bytes(32, "little")


@lru_cache(maxsize=256)
def _record(
    params: Params, operation: str, deep: bool, operands: tuple[tuple[str, bytes | None], ...]
) -> tuple[_native.Program, list[str]]:
    return _native.record_integers(params, operation, deep, operands)
