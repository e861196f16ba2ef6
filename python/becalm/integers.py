"""Encrypted integers of 2 to 256 bits, in arrays that compute like numpy's."""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

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
        """An array of encrypted integers; call `on(server)` to compute with it."""
        array = np.asarray(values, dtype=object)
        data = b"".join(_word("encrypt", self, v) for v in array.ravel())
        digits = _native.encrypt_integers(secret._native, self.name, data)
        return Integers(self, digits, array.shape, None)

    def cost(
        self,
        operation: str,
        *,
        params: Any = "tfhe_2_2",
        clear: int | None = None,
        deep: bool = False,
    ) -> Cost:
        """What an operation (`"add"`, `"mul"`, ...) on integers of this type takes, for each lane.

        With `clear` its last operand is that number. `deep` asks for the shortest path instead of
        the fewest bootstraps.
        """
        arity = dict(_native.integer_operations()).get(operation, 1)
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
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(d.nbytes for d in self._digits)

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
        """The values in another type: modulo 2^bits, or extended; to booleans: not zero."""
        return self.apply(f"cast {type_.name}")

    def apply(self, operation: str, *others: Any, deep: bool = False) -> Any:
        """An operation by its name, on this array and further operands: `x.apply("min", y)`.

        A tuple comes back where there are several results (`div_rem`, `overflowing_add`).
        """
        operands = [self, *others]
        server = next((x._server for x in operands if isinstance(x, Integers) and x._server), None)
        if server is None:
            raise Unsupported(operation, "integers on a server", "none", "call x.on(server) first")
        arrays = [x for x in operands if isinstance(x, Integers)]
        shape = _values.common_shape(operation, *(x._shape for x in arrays))
        kinds: list[tuple[str, bytes | None]] = []
        inputs: list[Ciphertext] = []
        for x in operands:
            if isinstance(x, Integers):
                kinds.append((x.type.name, None))
                inputs += [Ciphertext(d, x._shape) for d in x._digits]
            else:
                ty = uint(64) if operation in _SHIFTS else self.type
                kinds.append((ty.name, _word(operation, ty, x)))
        program, types = _record(server.params, operation, deep, tuple(kinds))
        digits = [c._lwe for c in server._results(Program(program), list(inputs), None)]
        results = []
        for name in types:
            count = _native.integer_type(name)[1]
            results.append(Integers(IntegerType(name), digits[:count], shape, server))
            digits = digits[count:]
        return tuple(results) if len(results) > 1 else results[0]

    def select(self, when_true: Any, when_false: Any) -> Integers:
        """`when_true` where this boolean is true, else `when_false`."""
        return self.apply("select", when_true, when_false)

    def __add__(self, other: Any) -> Any:
        return self._binary("add", other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._binary("sub", other)

    def __rsub__(self, other: Any) -> Any:
        return (-self)._binary("add", other)

    def __mul__(self, other: Any) -> Any:
        return self._binary("mul", other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return self._binary("div", other)

    def __mod__(self, other: Any) -> Any:
        return self._binary("rem", other)

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

    def _binary(self, operation: str, other: Any) -> Any:
        if isinstance(other, Integers):
            return self.apply(operation, other)
        try:
            return self.apply(operation, operator.index(other))
        except TypeError:
            return NotImplemented


#: Operations whose second operand is an amount.
_SHIFTS = ("shl", "shr", "rotate_left", "rotate_right")


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
