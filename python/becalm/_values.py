"""Values on their way to and from the library: numbers, shapes, tables, names of sets."""

from __future__ import annotations

import numbers
import operator
import os
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from becalm import _native
from becalm._encrypted import require_numbers
from becalm._native import Params
from becalm._native import counted as counted
from becalm._native import megabytes as megabytes
from becalm.errors import BadInput, Unsupported, WrongParams

#: A lookup table: a function of one value, its list, or several of these for one rotation.
TableSource = Callable[[int], int] | Sequence[Any] | npt.NDArray[Any]


def integers(op: str, value: Any) -> npt.NDArray[np.int64]:
    """An array of integers of 64 bits, or a refusal that does not tell the values."""
    require_numbers(op, value)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as e:
        raise BadInput(
            op, "integers in the shape of an array", str(e), "make the rows equally long"
        ) from None
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "biu" or (array.dtype.kind == "u" and array.max() >> 63):
        got = (
            "integers beyond 64 bits"
            if array.dtype.kind == "u"
            else f"values of type {array.dtype}"
        )
        raise BadInput(
            op, "integers of 64 bits", got, "convert them, for example with numpy's astype(int)"
        )
    return array.astype(np.int64)


def objects(op: str, value: Any) -> npt.NDArray[Any]:
    """A number, or an array of numbers, as an array of whatever they are."""
    require_numbers(op, value)
    try:
        return np.asarray(value, dtype=object)
    except (ValueError, TypeError) as e:
        remedy = "make the rows equally long"
        raise BadInput(op, "integers in the shape of an array", str(e), remedy) from None


def named(value: Any) -> str:
    """The class of a value, and its scheme where both have a class of that name."""
    owned = (getattr(value, "_native", None), getattr(value, "_plan", None))
    ckks = any(type(x).__name__.startswith("Ckks") for x in owned)
    return f"{type(value).__name__}{' of CKKS' if ckks else ''}"


def path(op: str, value: Any) -> str:
    """The name of a file."""
    try:
        name = os.fsdecode(value)
    except TypeError:
        remedy = "pass a str or a pathlib.Path"
        raise BadInput(op, "the path of a file", type(value).__name__, remedy) from None
    if not name:
        remedy = 'name a file, as in "x.becalm"'
        raise BadInput(op, "the path of a file", "an empty one", remedy)
    return name


def data(op: str, value: Any) -> bytes:
    """The bytes of a file."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    remedy = "pass the bytes themselves; `load` takes the name of a file"
    raise BadInput(op, "the bytes of a file", type(value).__name__, remedy)


def native_secret(op: str, secret: Any) -> _native.SecretKey:
    """The compiled part of a secret key of TFHE. Refuses all else."""
    found = getattr(secret, "_native", None)
    if not isinstance(found, _native.SecretKey):
        got, remedy = type(secret).__name__, "becalm.keygen makes one, beside the server's"
        if isinstance(found, _native.CkksSecretKey):
            got, remedy = (
                "one of CKKS",
                "use that of keygen(bits=4), a set of TFHE",
            )
        raise BadInput(op, "a secret key", got, remedy)
    return found


def decrypted(x: Any, secret: Any) -> Any:
    """`x.decrypt(secret)`: the other spelling of `secret.decrypt(x)`."""
    keys = (_native.SecretKey, _native.CkksSecretKey)
    if not isinstance(getattr(secret, "_native", None), keys):
        remedy = "servers have none: decrypt where the key was made"
        raise BadInput("decrypt", "a secret key", type(secret).__name__, remedy)
    return secret.decrypt(x)


def at_least_one(op: str, name: str, value: Any) -> int:
    """An integer from 1 up."""
    number = value.__index__() if hasattr(value, "__index__") else None
    if number is not None and number < 1 and not isinstance(value, bool):
        raise BadInput(op, f"{name} of 1 or more", str(number), "choose a larger one")
    if number is not None and number >> 63:
        wanted = f"{name} from 1 to 2^63 - 1"
        raise BadInput(op, wanted, str(number), "choose a smaller one")
    return count(op, name, value)


def not_whole(op: str, value: Any) -> None:
    """Refuses a number that is none of the integers. Other objects may know what to do."""
    if isinstance(value, numbers.Number):
        remedy = "round it, and convert it with int()"
        raise BadInput(op, "an integer", type(value).__name__, remedy)


def count(op: str, name: str, value: Any) -> int:
    """An integer from 0 to 2^63 - 1, and no boolean."""
    if isinstance(value, bool):
        raise BadInput(op, f"an integer as {name}", repr(value), f"pass a number as {name}")
    try:
        number = operator.index(value)
    except TypeError:
        raise BadInput(op, f"an integer as {name}", type(value).__name__, "pass an int") from None
    if not 0 <= number < 1 << 63:
        raise BadInput(op, f"{name} from 0 to 2^63 - 1", str(number), "choose one in that range")
    return number


def shape(op: str, value: Any) -> tuple[int, ...]:
    """A shape: a number of elements, or a sequence of them."""
    try:
        axes = tuple(map(operator.index, value if np.iterable(value) else [value]))
    except TypeError:
        axes = (-1,)
    if min(axes, default=0) < 0:
        got = repr(value)[:40]
        raise BadInput(op, "a shape, such as 3 or (2, 3)", got, "pass integers from 0 on")
    return axes


def limit(op: str, value: Any) -> int | None:
    """The largest number of bytes of a file, if it differs from the default."""
    return None if value is None else count(op, "limit", value)


def real(op: str, name: str, value: Any) -> float:
    """A number, and neither a text of one nor a boolean."""
    try:
        if isinstance(value, (str, bytes, bytearray, bool)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, Unsupported):
        raise BadInput(op, f"a number as {name}", repr(value), "pass a float") from None


def to_bytes(values: npt.NDArray[np.int64]) -> bytes:
    """The words that the library reads, lanes in the order of C."""
    return np.ascontiguousarray(values, dtype="<i8").tobytes()


def from_bytes(data: bytes, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """The words that the library wrote, as a new array."""
    return np.frombuffer(data, dtype="<i8").astype(np.int64).reshape(shape)


def common_shape(op: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that numpy's broadcasting gives."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        got = " and ".join(map(str, shapes))
        raise BadInput(op, "shapes that broadcast together", got, "reshape one of them") from None


def filled(op: str, values: npt.NDArray[np.int64], slots: int) -> npt.NDArray[np.int64]:
    """Values with a last axis of slots: rows are filled with zeros, and so is a flat array."""
    length = values.shape[-1] if values.ndim else 1
    if values.ndim > 1 and length > slots:
        remedy = "make the last axis that of slots, or pass a flat array"
        raise BadInput(op, f"at most {slots} messages in a ciphertext", str(length), remedy)
    rows = values if values.ndim else values.reshape(1)
    padded = np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, -length % slots)])
    if padded.shape[-1] == slots:
        return padded
    return padded.reshape(-1, slots)


def set_of(op: str, source: Any) -> Params:
    """The parameter set of a name, or of anything that has one."""
    if isinstance(source, str):
        return Params.named(source)
    found = source if isinstance(source, Params) else getattr(source, "params", None)
    if not isinstance(found, Params):
        remedy = "see becalm.params() for the names"
        raise WrongParams(op, "the name of a parameter set of TFHE", named(source), remedy)
    return found


def tables(source: TableSource, values: int, high: int) -> tuple[list[list[int]], bool]:
    """The tables that a source lists, and whether there may be several.

    Functions are asked for 0 to `high` where the encoding has that many values, so that they need
    not be defined beyond what can be looked up.
    """
    if callable(source):
        return [_ask(source, min(values, high + 1) if high >= 0 else values)], False
    try:
        if isinstance(source, (Mapping, Set)):
            raise TypeError
        rows = list(source)
    except TypeError:
        got = type(source).__name__
        raise BadInput(
            "table", "a function or a list", got, "list one entry for each value"
        ) from None
    if not rows or not (callable(rows[0]) or _is_row(rows[0])):
        return [[entry(v) for v in rows]], False
    share = values // len(rows)
    whole = share if not 0 <= high < share else high + 1
    return [_ask(r, whole) if callable(r) else tables(r, share, high)[0][0] for r in rows], True


def _is_row(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _ask(f: Callable[[int], int], size: int) -> list[int]:
    return [entry(f(m)) for m in range(size)]


def entry(value: Any) -> int:
    """One entry of a table."""
    if isinstance(value, np.bool_):
        value = bool(value)
    try:
        number = operator.index(value)
    except TypeError:
        got = type(value).__name__
        raise BadInput(
            "table", "integers as entries", got, "let the function return an int"
        ) from None
    if not 0 <= number < 1 << 63:
        remedy = "reduce entries modulo the number of values"
        # The table may be about to be encrypted: its entries stay out of messages.
        got = "a negative one" if number < 0 else "one of 64 bits or more"
        raise BadInput("table", "entries from 0 up", got, remedy)
    return number
