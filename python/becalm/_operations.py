"""Operations on integers before they are recorded: clear words, and the operands of a cost."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from becalm import _native, _values
from becalm._native import Params
from becalm.errors import BadInput

if TYPE_CHECKING:
    from becalm.integers import IntegerType

#: Operations whose second operand is an amount.
SHIFTS = ("shl", "shr", "rotate_left", "rotate_right")

#: Operands of an operation: types, with the word of what is clear.
Operands = list[tuple[str, bytes | None]]

#: Operations on lists and with types: what a cost must be given, and what it may be.
_LISTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "cast": (("to",), ()),
    "dot": (("count",), ("clear",)),
    "index": (("count", "other"), ()),
    "parity": (("count",), ()),
    "sum": (("count",), ()),
    "table": (("entries",), ("to",)),
}


def numbers(op: str, values: Any) -> npt.NDArray[Any]:
    """An array of Python objects; of lists that are no array a refusal."""
    try:
        array = np.asarray(values, dtype=object)
        whole = not any(isinstance(v, (list, tuple, np.ndarray)) for v in array.ravel())
    except ValueError:
        whole = False
    if not whole:
        got, remedy = "rows of different lengths", "make the rows equally long"
        raise BadInput(op, "integers in the shape of an array", got, remedy)
    return array


def words(op: str, type_: IntegerType, array: npt.NDArray[Any]) -> bytes:
    """Clear integers as the library reads them."""
    return b"".join(word(op, type_, v) for v in array.ravel())


def word(op: str, type_: IntegerType, value: Any) -> bytes:
    """A clear integer as the library reads it: 32 bytes, least significant first."""
    try:
        number = int(value) if isinstance(value, np.bool_) else operator.index(value)
    except TypeError:
        got = type(value).__name__
        raise BadInput(op, "integers", got, "convert them with int()") from None
    # What the 32 bytes hold; the library refuses what the type cannot.
    low, high = (-(1 << 255), 1 << 255) if type_.signed else (0, 1 << 256)
    if not low <= number < high:
        remedy = "choose a wider or signed type, or reduce the value"
        raise BadInput(op, f"values of {type_.name}", "one outside its range", remedy)
    return (number % (1 << 256)).to_bytes(32, "little")


def names() -> dict[str, int]:
    """Every operation of one to three operands, with their number."""
    return dict(_native.integer_operations())


def known(operation: str) -> None:
    """Refuses a name that no operation has."""
    if not isinstance(operation, str):
        got = type(operation).__name__
        raise BadInput("operation", "its name", got, "pass a word such as 'add'")
    if operation not in names() and operation.split(" ")[0] not in _LISTS:
        wanted = ", ".join([*names(), *_LISTS])
        raise BadInput("operation", wanted, operation, "choose one of these")


def priced(type_: IntegerType, operation: str, given: dict[str, Any]) -> tuple[str, Operands]:
    """The operation to record for a cost, and its operands; refuses what is missing or too much."""
    known(operation)
    given = {name: value for name, value in given.items() if value is not None}
    arity = names().get(operation, 1)
    needed, possible = _LISTS.get(operation, ((), ("clear",) if arity > 1 else ()))
    if operation == "dot" and "clear" in given:
        needed = ()
    if operation in SHIFTS:
        possible = ("clear", "other")
        needed = ("other",) if type_.signed and "clear" not in given else ()
    missing = [name for name in needed if name not in given]
    if missing:
        hint = " or `clear`, an amount in the clear" if operation in SHIFTS else ""
        remedy = "; ".join(f"give {_HINTS[name]}" for name in missing) + hint
        raise BadInput(f"cost of {operation}", " and ".join(missing), "none", remedy)
    spare = [name for name in given if name not in (*needed, *possible, "count")]
    if spare or ("count" in given and operation not in ("dot", "index", "parity", "sum")):
        spare = spare or ["count"]
        wanted = ", ".join((*needed, *possible)) or "the type alone"
        raise BadInput(f"cost of {operation}", wanted, ", ".join(spare), "leave it out")
    for name in ("other", "to"):
        if name in given:
            type_of(f"cost of {operation}", given[name], name)
    return _operands(type_, operation, arity, given)


#: What the arguments of a cost mean.
_HINTS = {
    "count": "`count`, the number of elements",
    "entries": "`entries`, the list of entries",
    "other": "`other`, the type of the last operand",
    "to": "`to`, the type of the result",
}


def _operands(
    type_: IntegerType, operation: str, arity: int, given: dict[str, Any]
) -> tuple[str, Operands]:
    own: tuple[str, bytes | None] = (type_.name, None)
    clear, other = given.get("clear"), given.get("other")
    if operation == "cast":
        return f"cast {given['to'].name}", [own]
    if operation == "table":
        to = given.get("to", type_)
        entries = entries_of(given["entries"])
        return "table", [own, *((to.name, word("table", to, v)) for v in entries)]
    if operation == "dot" and clear is not None:
        factors = numbers("dot", clear).ravel()
        if given.get("count", len(factors)) != len(factors):
            got = f"{given['count']} and {len(factors)}"
            raise BadInput("cost of dot", "one factor for each element", got, "leave count out")
        return "dot", [own] * len(factors) + [(type_.name, word("dot", type_, f)) for f in factors]
    if "count" in given:
        count = _values.count("cost", "count", given["count"])
        operands = [own] * (2 * count if operation == "dot" else count)
        return operation, [*operands, (other.name, None)] if other is not None else operands
    operands = [own] * arity
    if operation == "select":
        operands[0] = ("bool", None)
    if other is not None:
        operands[-1] = (other.name, None)
    if clear is not None:
        amount = other or amounts(type_) if operation in SHIFTS else type_
        operands[-1] = (amount.name, word("cost", amount, checked_amount(operation, 1, clear)))
    return operation, operands


def amounts(type_: IntegerType, bits: int = 64) -> IntegerType:
    """What clear amounts of shifts are."""
    return type(type_)(f"uint{bits}")


def clear_type(operation: str, at: int, type_: IntegerType, bits: int) -> IntegerType:
    """The type of what is clear: of an amount, of a condition, or that of the other operands."""
    if operation in SHIFTS and at:
        return amounts(type_, bits)
    return type(type_)("bool") if operation == "select" and not at else type_


def checked_amount(operation: str, at: int, value: Any) -> Any:
    """A clear operand; of shifts one that is not negative."""
    each = np.asarray(value, dtype=object).ravel()
    negative = any(isinstance(v, (int, np.integer)) and v < 0 for v in each)
    if operation in SHIFTS and at and negative:
        raise BadInput(operation, "an amount from 0", "a negative one", "move the other way")
    return value


@lru_cache(maxsize=256)
def record(
    params: Params, operation: str, deep: bool, operands: tuple[tuple[str, bytes | None], ...]
) -> tuple[_native.Program, list[str]]:
    """The program of an operation, and the types of its results."""
    if operation == "parity" and operands and operands[0][0] != "bool":
        remedy = "compare first, or take x.count_ones() & 1"
        raise BadInput("parity", "booleans", operands[0][0], remedy)
    return _native.record_integers(params, operation, deep, operands)


def type_of(op: str, value: Any, name: str = "") -> IntegerType:
    """A type of integers; a refusal of its name and of all else."""
    if not hasattr(value, "signed"):
        wanted = f"a type of integers{f' as {name}' if name else ''}"
        remedy = "pass becalm.uint(bits), becalm.int_(bits) or becalm.boolean"
        raise BadInput(op, wanted, type(value).__name__, remedy)
    return value  # type: ignore[no-any-return]


def width(amounts: npt.NDArray[Any]) -> int:
    """Bits that hold all of these amounts: each costs a stage."""
    each = [int(v).bit_length() for v in amounts.ravel() if isinstance(v, (int, np.integer))]
    return min(max([2, *each]), 256)


def entries_of(entries: Sequence[int]) -> npt.NDArray[Any]:
    """The list of a table's entries."""
    rows = numbers("table", entries)
    if rows.ndim != 1 or not rows.size:
        remedy = "list one entry for each value of the index: [f(i) for i in range(n)]"
        raise BadInput("table", "a list of entries", f"shape {rows.shape}", remedy)
    return rows
