"""Operations on integers before they are recorded: clear words, and the operands of a cost."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from becalm import _native, _values
from becalm._encrypted import refuse_masked
from becalm._native import Params
from becalm.errors import BadInput, OutOfMemory
from becalm.program import Cost

if TYPE_CHECKING:
    from becalm.integers import IntegerType

#: Operations whose second operand is an amount.
SHIFTS = ("shl", "shr", "rotate_left", "rotate_right")

#: Operands of an operation: types, with the value of a clear operand.
Operands = list[tuple[str, bytes | None]]

#: Operations on lists and with types: the arguments that a cost needs, and those it may have.
_LISTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    **dict.fromkeys(("all", "any", "argmax", "argmin", "argsort"), (("count",), ())),
    **dict.fromkeys(("cummax", "cummin", "cumprod", "cumsum"), (("count",), ())),
    **dict.fromkeys(("parity", "prod", "sort", "sum"), (("count",), ())),
    "cast": (("to",), ()),
    "clip": ((), ("clear",)),
    "dot": (("count",), ("clear",)),
    "index": (("count", "other"), ()),
    "isin": (("count",), ("clear",)),
    "matmul": (("count",), ("clear",)),
    "pow": (("clear",), ()),
    "sign": ((), ()),
    "table": (("entries",), ("to",)),
}

#: Operations whose `clear` operands may replace `count`.
_LISTED = ("dot", "isin", "matmul")

#: Elements of a table, and of an array with an encrypted index.
MOST_ENTRIES = 256


def numbers(op: str, values: Any) -> npt.NDArray[Any]:
    """An array of Python objects. Raises for lists that do not form an array."""
    refuse_masked(op, values)
    try:
        array = np.asarray(values, dtype=object)
        whole = not any(isinstance(v, (list, tuple, np.ndarray)) for v in array.ravel())
    except ValueError:
        whole = False
    if not whole:
        got, remedy = "rows of different lengths", "make the rows equally long"
        raise BadInput(op, "integers in the shape of an array", got, remedy)
    return array


def words(op: str, type_: IntegerType, array: npt.NDArray[Any], secret: bool = False) -> bytes:
    """Clear integers as the library reads them."""
    flat = [as_number(op, v) for v in array.ravel()]
    low, high = type_.min, type_.max
    for at, number in enumerate(flat):
        if not low <= number <= high:
            # The message names the place of a value to be encrypted, never the value.
            place = [int(i) for i in np.unravel_index(at, array.shape)]
            where = f" at {place}" if array.ndim else ""
            got = f"one that is {'less' if number < low else 'more'}" if secret else short(number)
            raise out_of_range(op, type_, got + where)
    return b"".join((n % (1 << 256)).to_bytes(32, "little") for n in flat)


def word(op: str, type_: IntegerType, value: Any) -> bytes:
    """A clear integer as the library reads it: 32 bytes, least significant first."""
    return words(op, type_, np.array(value, dtype=object))


def as_number(op: str, value: Any) -> int:
    """An element as Python's integer."""
    try:
        return int(value) if isinstance(value, np.bool_) else operator.index(value)
    except TypeError:
        got = type(value).__name__
        raise BadInput(op, "integers", got, "convert them with int()") from None


def short(number: int) -> str:
    """A number for people: a long one as a power of two, or by its length."""
    if number.bit_length() <= 64:
        return str(number)
    for near, rest in ((number, ""), (number + 1, " - 1")):
        if abs(near).bit_count() == 1:
            return f"{'-' if near < 0 else ''}2^{near.bit_length() - 1}{rest}"
    return f"a number of {number.bit_length()} bits"


def out_of_range(op: str, type_: IntegerType, got: str) -> BadInput:
    """The refusal of a number that a type cannot hold."""
    wanted = f"values of {type_.name}, {short(type_.min)} to {short(type_.max)}"
    return BadInput(op, wanted, got, "choose a wider or signed type, or reduce the value")


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


def cost_by(
    type_: IntegerType,
    operation: str,
    given: dict[str, Any],
    record: Callable[[str, Operands], Cost],
) -> Cost:
    """The cost of an operation, by `record`ing it. Refuses missing and unwanted arguments."""
    known(operation)
    given = {name: value for name, value in given.items() if value is not None}
    arity = names().get(operation, 1)
    needed, possible = _LISTS.get(operation, ((), ("clear",) if arity > 1 else ()))
    if operation in _LISTED and "clear" in given:
        needed = ()
    if operation in ("min", "max") and "clear" not in given:
        possible = ("clear", "count")
    if operation in SHIFTS:
        possible = ("clear", "other")
        needed = ("other",) if type_.signed and "clear" not in given else ()
    missing = [name for name in needed if name not in given]
    if missing:
        hint = " or `clear`, an unencrypted amount" if operation in SHIFTS else ""
        remedy = "; ".join(f"give {_HINTS[name]}" for name in missing) + hint
        raise BadInput(f"cost of {operation}", " and ".join(missing), "none", remedy)
    both = ("count",) if operation in _LISTED else ()
    spare = [name for name in given if name not in (*needed, *possible, *both)]
    if spare:
        wanted = ", ".join((*needed, *possible)) or "the type alone"
        raise BadInput(f"cost of {operation}", wanted, ", ".join(spare), "leave it out")
    for name in ("other", "to"):
        if name in given:
            type_of(f"cost of {operation}", given[name], name)
    count = given.get("count")
    if count is not None:
        count = _values.count(f"cost of {operation}", "count", count)
        if not count:
            remedy = "the empty array needs no circuit: its result is known"
            raise BadInput(f"cost of {operation}", "at least one element", "none", remedy)
    return record(*_operands(type_, operation, arity, given))


def most(operation: str, type_: IntegerType) -> int:
    """The largest number of elements that an operation takes in one program."""
    return _native.integer_most(operation, type_.name)


def require_count(operation: str, type_: IntegerType, count: int) -> None:
    """Refuses lists whose program would not fit into memory, or take minutes to record."""
    fits = most(operation, type_)
    if count > fits:
        wanted = f"at most {fits} elements of {type_.name}"
        remedy = "split the array, and combine the parts' results"
        raise OutOfMemory(operation, wanted, str(count), remedy)


#: The meaning of a cost's arguments.
_HINTS = {
    "clear": "`clear`, the exponent",
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
    if operation == "pow":
        exponent = as_number("cost of pow", clear)
        if exponent < 0:
            raise BadInput("cost of pow", "an exponent from 0", str(exponent), "no fractions")
        return "pow", [own, (amounts(type_).name, word("cost of pow", amounts(type_), exponent))]
    if operation == "clip":
        bounds = [None, None] if clear is None else list(numbers("clip", clear).ravel())
        if len(bounds) != 2:
            got = f"{len(bounds)} numbers"
            raise BadInput("cost of clip", "the least and the greatest value", got, "give two")
        known = [(type_.name, None if b is None else word("clip", type_, b)) for b in bounds]
        return "clip", [own, *known]
    if operation in _LISTED and clear is not None:
        return _factors(type_, operation, given)
    if "count" in given:
        count = given["count"]
        if operation == "index" and count > MOST_ENTRIES:
            raise many_entries("index", count)
        require_count(operation, type_, count)
        pairs, behind = operation in ("dot", "matmul"), operation == "isin"
        operands = [own] * (2 * count if pairs else count + behind)
        name = "dot" if operation == "matmul" else operation
        return name, [*operands, (other.name, None)] if other is not None else operands
    operands = [own] * arity
    if operation == "select":
        operands[0] = ("bool", None)
    if other is not None:
        operands[-1] = (other.name, None)
    if clear is not None:
        amount = amounts(type_) if operation in SHIFTS else type_
        if operation in SHIFTS:
            clear = moved(operation, 1, clear, type_)
        operands[-1] = (amount.name, word("cost", amount, clear))
    return operation, operands


def _factors(type_: IntegerType, operation: str, given: dict[str, Any]) -> tuple[str, Operands]:
    """Operands of an operation on a list, or a matrix, of clear numbers."""
    own: tuple[str, bytes | None] = (type_.name, None)
    clear = given["clear"]
    if isinstance(clear, (Sequence, np.ndarray)):
        require_count(operation, type_, len(clear))
    factors = numbers(operation, clear)
    rows = factors.T if operation == "matmul" and factors.ndim == 2 else factors.reshape(1, -1)
    inner = rows.shape[1]
    if given.get("count", inner) != inner:
        got = f"{given['count']} and {inner}"
        wanted = "one factor for each element"
        raise BadInput(f"cost of {operation}", wanted, got, "leave count out")
    words = [(type_.name, word(operation, type_, f)) for f in rows.ravel()]
    return operation, [*([own] * (1 if operation == "isin" else inner)), *words]


def amounts(type_: IntegerType, bits: int = 64) -> IntegerType:
    """The type of clear amounts of shifts."""
    return type(type_)(f"uint{bits}")


def clear_type(operation: str, at: int, type_: IntegerType, bits: int) -> IntegerType:
    """The type of a clear operand: of an amount, of a condition, or that of the others."""
    if operation in SHIFTS and at:
        return amounts(type_, bits)
    return type(type_)("bool") if operation == "select" and not at else type_


def moved(operation: str, at: int, value: Any, type_: IntegerType) -> Any:
    """A clear operand; amounts of shifts of a type not negative, and no more than moves all out."""
    if operation not in SHIFTS or not at:
        return value
    turns = operation.startswith("rotate")

    def one(v: Any) -> Any:
        number = as_number(operation, v)
        if number < 0:
            raise BadInput(operation, "an amount from 0", str(number), "move the other way")
        return number % type_.bits if turns else min(number, type_.bits)

    if not isinstance(value, np.ndarray):
        return one(value)
    found = np.empty(value.shape, dtype=object)
    found.ravel()[:] = [one(v) for v in value.ravel()]
    return found


@lru_cache(maxsize=256)
def forms(
    params: Params, operation: str, operands: tuple[tuple[str, bytes | None], ...]
) -> _native.IntegerForms:
    """An operation in its forms, each recorded once."""
    if operation == "parity" and operands and operands[0][0] != "bool":
        remedy = "compare first, or take x.count_ones() & 1"
        raise BadInput("parity", "booleans", operands[0][0], remedy)
    return _native.IntegerForms(params, operation, operands)


def record(
    params: Params,
    operation: str,
    deep: bool,
    operands: tuple[tuple[str, bytes | None], ...],
    independent: bool = False,
) -> tuple[_native.Program, list[str]]:
    """The program of an operation on any arguments, or on independent ones, and the types of its
    results."""
    return forms(params, operation, operands).program(deep, independent)


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


def many_entries(op: str, count: int) -> BadInput:
    """The refusal of too many elements for an encrypted index."""
    remedy = "select between halves"
    return BadInput(op, f"at most {MOST_ENTRIES} elements", str(count), remedy)


def entries_of(entries: Sequence[int]) -> npt.NDArray[Any]:
    """The list of a table's entries."""
    if isinstance(entries, (Sequence, np.ndarray)) and len(entries) > MOST_ENTRIES:
        raise many_entries("table", len(entries))
    rows = numbers("table", entries)
    if rows.ndim != 1 or not rows.size:
        remedy = "list one entry for each value of the index: [f(i) for i in range(n)]"
        raise BadInput("table", "a list of entries", f"shape {rows.shape}", remedy)
    return rows
