"""Whole integers as packed digits: `becalm.uint(16).encrypt(secret, values, packed=True)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from becalm import _html, _native, _operators, _progress, _types, _values
from becalm._packed import PackedArray
from becalm.errors import BadInput, Unsupported, WrongKey

if TYPE_CHECKING:
    from becalm._encrypts import SecretKey
    from becalm._progress import Progress
    from becalm._types import IntegerType


class PackedIntegers(_operators.Operators, _html.Shown):
    """An array of encrypted unsigned integers of 4 to 64 bits, or of booleans, of any shape.
    `becalm.uint(bits).encrypt(secret, values, packed=True)` makes it.

    Operators are those of integers of TFHE: `+`, `-`, `*`, `&`, `|`, `^`, `~`, comparisons,
    shifts by numbers that everybody knows, `np.minimum`, `np.maximum` and `np.where`. Arithmetic
    wraps. An operation takes as long for 65,536 integers as for one.

    Examples
    --------
    >>> secret, server = becalm.keygen("ckks_toy_table_5", allow_insecure=True, progress=False)
    >>> x = becalm.uint(8).encrypt(secret, [200, 3], packed=True)
    >>> secret.decrypt(x + [100, 1]).tolist(), secret.decrypt(x > 100).tolist()
    ([44, 4], [True, False])
    """

    __slots__ = ("_digits", "type")

    def __init__(self, type_: IntegerType, digits: Sequence[PackedArray]) -> None:
        #: The type of the elements.
        self.type = type_
        self._digits = tuple(digits)

    @property
    def digits(self) -> tuple[PackedArray, ...]:
        """The digits of 4 bits as packed integers of 5, the lowest first."""
        return self._digits

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, as numpy has it."""
        return self._digits[0].shape

    @property
    def size(self) -> int:
        """How many integers there are."""
        return self._digits[0].size

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(digit.nbytes for digit in self._digits)

    @property
    def key_id(self) -> str:
        """Identity of the secret key; public."""
        return self._digits[0].key_id

    def __len__(self) -> int:
        return len(self._digits[0])

    def reshape(self, *shape: int) -> PackedIntegers:
        """The same integers in another shape, as numpy's `reshape`.

        Parameters
        ----------
        *shape
            The lengths; one of them may be -1.

        Returns
        -------
        PackedIntegers
            The same ciphertexts.

        Examples
        --------
        >>> whole.reshape(2, 1).shape
        (2, 1)
        """
        return PackedIntegers(self.type, [digit.reshape(*shape) for digit in self._digits])

    def select(
        self, when_true: Any, when_false: Any, *, progress: Progress = None
    ) -> PackedIntegers:
        """`when_true` where this boolean is true, else `when_false`.

        Parameters
        ----------
        when_true, when_false
            Packed integers of one type, or numbers for one of them.
        progress
            As for a bootstrap.

        Returns
        -------
        PackedIntegers
            Of their type.

        Examples
        --------
        >>> secret.decrypt((whole > 100).select(whole, 100)).tolist()
        [200, 100]
        """
        return self._computed("select", [self, when_true, when_false], progress=progress)

    def sum_with(self, *others: PackedIntegers, progress: Progress = None) -> PackedIntegers:
        """The sum of this array and others, with fewer look-ups than one addition after another.

        Parameters
        ----------
        *others
            Arrays of this type and shape.
        progress
            As for a bootstrap.

        Returns
        -------
        PackedIntegers
            Of this type.

        Examples
        --------
        >>> secret.decrypt(whole.sum_with(whole, whole)).tolist()
        [88, 9]
        """
        operands = [self, *others]
        return self._computed("sum", operands, number=len(operands), progress=progress)

    def _operate(self, operation: str, *operands: Any) -> Any:
        if operation == "not":
            most = 1 if self.type.name == "bool" else 15
            return PackedIntegers(self.type, [most - digit for digit in self._digits])
        if operation in ("shl", "shr"):
            x, by = operands
            if not isinstance(x, PackedIntegers) or isinstance(by, PackedIntegers):
                remedy = "shift by a number that everybody knows"
                raise Unsupported("shift", "a number of bits", "encrypted ones", remedy)
            return x._computed(operation, [x], number=_values.count("shift", "bits", by))
        return self._computed(operation, list(operands))

    def _computed(
        self,
        operation: str,
        operands: list[Any],
        *,
        number: int | None = None,
        progress: Progress = None,
    ) -> PackedIntegers:
        """An operation, on this array's server."""
        chosen = operands[1:] if operation == "select" else operands
        known = [x for x in chosen if isinstance(x, PackedIntegers)]
        if not known:
            remedy = "encrypt one of them"
            raise BadInput(operation, "a packed array to choose from", "numbers alone", remedy)
        like, server = known[0], self._digits[0]._serving(operation)
        own = [_condition(operands[0], like.shape)] if operation == "select" else []
        own += [like._operand(operation, x) for x in chosen]
        name = like.type.name
        result = _native.CkksPlan.packed_result(operation, name, number)
        session = server._session_for(
            ("packed", operation, name, number),
            'make keys with kinds="table"',
            lambda: server._plan.packed(operation, name, number),
        )
        columns = [digit._parts for x in own for digit in x._digits]
        with _progress.shown(progress, operation, 1.0) as callback:
            made = session.run([list(lane) for lane in zip(*columns, strict=True)], callback)
        digits = [PackedArray(parts, like.shape, server) for parts in zip(*made, strict=True)]
        return PackedIntegers(_types.IntegerType(result), digits)

    def _operand(self, operation: str, x: Any) -> PackedIntegers:
        """An operand in the form of this array; numbers that everybody knows hide nothing."""
        if not isinstance(x, PackedIntegers):
            values = _in_range(operation, self.type, x)
            try:
                shaped = np.broadcast_to(values, self.shape)
            except ValueError:
                wanted, got = f"the shape {self.shape}", f"the shape {values.shape}"
                remedy = "give an integer for each, or one for all"
                raise BadInput(operation, wanted, got, remedy) from None
            none = self._digits[0] - self._digits[0]
            each = _digits(shaped, len(self._digits))
            return PackedIntegers(self.type, [none + digit for digit in each])
        if x.key_id != self.key_id:
            raise WrongKey(operation, f"key {self.key_id}", x.key_id, "encrypt both with one key")
        if (x.type.name, x.shape) != (self.type.name, self.shape):
            wanted, got = (f"{y.type.name} of the shape {y.shape}" for y in (self, x))
            raise BadInput(operation, wanted, got, "encrypt both in one type and shape")
        return x

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        return "becalm.ckks.PackedIntegers", [
            ("type", self.type.name),
            ("shape", self.shape),
            ("digits", len(self._digits)),
            ("in memory", _values.megabytes(self.nbytes)),
            ("key", self.key_id),
        ]

    def __repr__(self) -> str:
        return f"<becalm.ckks.PackedIntegers of {self.type.name}, shape {self.shape}>"

    def __reduce__(self) -> NoReturn:
        remedy = "save each of x.digits"
        raise Unsupported("copy", "an object that can be pickled", "ciphertexts", remedy)


def _condition(x: Any, shape: tuple[int, ...]) -> PackedIntegers:
    if isinstance(x, PackedIntegers) and (x.type.name, x.shape) == ("bool", shape):
        return x
    got = repr(x) if isinstance(x, PackedIntegers) else type(x).__name__
    wanted = f"a packed boolean of the shape {shape} as condition"
    raise BadInput("select", wanted, got, "compare, as in x > 3")


def _in_range(op: str, type_: IntegerType, values: Any) -> npt.NDArray[np.uint64]:
    # numpy would take a list of large and small integers for floats.
    given = values if isinstance(values, np.ndarray) else np.array(values, dtype=object)
    whole = (int, np.integer, np.bool_)
    known = given.dtype.kind in "biu" or all(isinstance(v, whole) for v in given.flat)
    if not known or given.size == 0:
        raise BadInput(op, "integers", "other values or none", "pass one integer or more")
    if int(given.min()) < type_.min or int(given.max()) > type_.max:
        remedy = "take them modulo 2^bits, or choose a wider type"
        raise BadInput(op, f"integers from {type_.min} to {type_.max}", "another one", remedy)
    return given.astype(np.uint64)


def _digits(values: npt.NDArray[np.uint64], count: int) -> list[npt.NDArray[np.int64]]:
    return [((values >> np.uint64(4 * i)) & np.uint64(15)).astype(np.int64) for i in range(count)]


def encrypted(secret: SecretKey, type_: IntegerType, values: Any) -> PackedIntegers:
    """The digits of integers of a type, each encrypted in ciphertexts of its own."""
    if not callable(getattr(secret, "encrypt_packed", None)):
        remedy = 'make one with becalm.keygen("ckks_table_5")'
        raise BadInput("encrypt", "a secret key of CKKS", type(secret).__name__, remedy)
    count, _, bits = _native.CkksPlan.packed_digits(type_.name)
    given = _in_range("encrypt", type_, values)
    digits = [secret.encrypt_packed(digit, bits=bits) for digit in _digits(given, count)]
    return PackedIntegers(type_, digits)


def decrypted(decrypt: Callable[[PackedArray], npt.NDArray[Any]], x: PackedIntegers) -> Any:
    """The integers of an array, in numpy's type."""
    whole = np.zeros(x.shape, np.uint64)
    for i, digit in enumerate(x.digits):
        whole |= decrypt(digit).astype(np.uint64) << np.uint64(4 * i)
    return whole.astype(x.type.dtype)


_types.IntegerType._packed = encrypted
