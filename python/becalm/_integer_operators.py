"""Python's operators and numpy's functions on encrypted integers.

`x + y`, `np.add(x, y)` and `np.array(...) + x` are one operation of becalm, known by its name.
Other functions of numpy raise an error that names a substitute.
"""

from __future__ import annotations

import difflib
import inspect
import numbers
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from becalm._numpy import KEYWORDS, refuse_keywords
from becalm.errors import BadInput, Unsupported

if TYPE_CHECKING:
    from becalm.integers import Integers

#: Operations by the names of numpy's functions of elements.
_UFUNCS = {
    "absolute": "abs",
    "add": "add",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "divmod": "div_rem",
    "equal": "eq",
    "floor_divide": "div",
    "greater": "gt",
    "greater_equal": "ge",
    "invert": "not",
    "left_shift": "shl",
    "less": "lt",
    "less_equal": "le",
    "maximum": "max",
    "minimum": "min",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "remainder": "rem",
    "right_shift": "shr",
    "subtract": "sub",
}

#: Further functions of elements, by their operators in Python.
_FURTHER: dict[str, Callable[..., Any]] = {
    "divide": operator.truediv,
    "matmul": operator.matmul,
    "positive": operator.pos,
    "power": operator.pow,
    "square": lambda x: x * x,
}

#: Functions that an array is reduced by, `np.add.reduce(x, axis)`.
_REDUCTIONS = {
    "add": "sum",
    "logical_and": "all",
    "logical_or": "any",
    "maximum": "max",
    "minimum": "min",
    "multiply": "prod",
}

#: Functions that accumulate an array, `np.add.accumulate(x, axis)`.
_ACCUMULATIONS = {
    "add": "cumsum",
    "maximum": "cummax",
    "minimum": "cummin",
    "multiply": "cumprod",
}

#: Functions that put the elements of one array elsewhere.
_MOVES = (
    *("atleast_1d", "atleast_2d", "atleast_3d", "broadcast_to", "diagonal", "expand_dims"),
    *("flip", "fliplr", "flipud", "moveaxis", "ravel", "repeat", "reshape", "roll", "rollaxis"),
    *("rot90", "squeeze", "swapaxes", "take", "tile", "transpose"),
)

#: Those that cut one array into a list of them.
_CUTS = ("array_split", "dsplit", "hsplit", "split", "vsplit")

#: Those that join a list of arrays.
_JOINS = ("column_stack", "concatenate", "dstack", "hstack", "stack", "vstack")


#: Comparisons, as Python's.
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    name: getattr(operator, name) for name in ("eq", "ge", "gt", "le", "lt", "ne")
}


_Binary: TypeAlias = "Callable[[Any, Any], Integers]"


def _both(operation: str) -> tuple[_Binary, _Binary]:
    """An operator, and the same reflected."""
    return (
        lambda self, other: self._operate(operation, self, other),
        lambda self, other: self._operate(operation, other, self),
    )


def _unary(operation: str) -> Callable[[Any], Integers]:
    return lambda self: self._operate(operation, self)


class Operators:
    """Operators of an array, all by `_operate(name of the operation, operands)`."""

    __slots__ = ()
    _truth: Callable[[], Any]
    __hash__ = None  # type: ignore[assignment]

    __add__, __radd__ = _both("add")
    __sub__, __rsub__ = _both("sub")
    __mul__, __rmul__ = _both("mul")
    __floordiv__, __rfloordiv__ = _both("div")
    __mod__, __rmod__ = _both("rem")
    __and__, __rand__ = _both("and")
    __or__, __ror__ = _both("or")
    __xor__, __rxor__ = _both("xor")
    __lshift__, __rlshift__ = _both("shl")
    __rshift__, __rrshift__ = _both("shr")
    __lt__, __gt__ = _both("lt")[0], _both("gt")[0]
    __le__, __ge__ = _both("le")[0], _both("ge")[0]
    __neg__, __invert__, __abs__ = _unary("neg"), _unary("not"), _unary("abs")

    def _operate(self, operation: str, *operands: Any) -> Any:
        raise NotImplementedError

    def __divmod__(self, other: Any) -> tuple[Integers, Integers]:
        return self._operate("div_rem", self, other)  # type: ignore[no-any-return]

    def __rdivmod__(self, other: Any) -> tuple[Integers, Integers]:
        return self._operate("div_rem", other, self)  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> Integers:  # type: ignore[override]
        return self._operate("eq", self, other)  # type: ignore[no-any-return]

    def __ne__(self, other: object) -> Integers:  # type: ignore[override]
        return self._operate("ne", self, other)  # type: ignore[no-any-return]

    def __pos__(self) -> Any:
        return self

    def __truediv__(self, other: Any) -> NoReturn:
        raise Unsupported("divide", "a quotient of integers", "/", "use //, which truncates")

    __rtruediv__ = __truediv__

    def __rpow__(self, other: Any) -> NoReturn:
        remedy = "write 1 << x for powers of two, or look them up with x.table(...)"
        raise Unsupported("power", "an unencrypted exponent", "an encrypted one", remedy)

    def __bool__(self) -> NoReturn:
        remedy = "decrypt it, or choose with `select`"
        raise Unsupported("truth", "an unencrypted number", "an encrypted integer", remedy)

    def __int__(self) -> NoReturn:
        remedy = "decrypt it, or choose another type with `astype`"
        raise Unsupported("convert", "an unencrypted number", "an encrypted integer", remedy)

    __float__ = __complex__ = __round__ = __int__

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        remedy = "join parts with becalm.concatenate, or choose with (condition).select(new, x)"
        raise Unsupported("assign", "a new array", "an element to be replaced", remedy)

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        remedy = "decrypt them; encrypted arrays are joined by becalm.stack"
        raise Unsupported("array", "unencrypted numbers", "encrypted integers", remedy)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        name = ufunc.__name__
        if method == "reduce" and name in _REDUCTIONS:
            return _along(_REDUCTIONS[name], inputs[0], ("axis", "keepdims"), kwargs)
        if method == "accumulate" and name in _ACCUMULATIONS:
            return _along(_ACCUMULATIONS[name], inputs[0], ("axis",), kwargs)
        if method == "outer":
            first, second = (_spread(x) for x in inputs)
            apart = first.reshape(*first.shape, *[1] * second.ndim)
            return self.__array_ufunc__(ufunc, "__call__", apart, second, **kwargs)
        if method != "__call__":
            there = [f"{n}.reduce" for n in _REDUCTIONS]
            there += [f"{n}.accumulate" for n in _ACCUMULATIONS]
            remedy = f"there are numpy.{', numpy.'.join(there)}, and outer of all"
            raise Unsupported("numpy", "a function of elements", f"{name}.{method}", remedy)
        refuse_keywords(name, kwargs, "leave it out, and assign the result: x = x + y")
        if name == "sign":
            return inputs[0].sign()
        if name in _UFUNCS:
            return self._operate(_UFUNCS[name], *inputs)
        if name in _FURTHER:
            return _FURTHER[name](*(_plain(x) for x in inputs))
        if name.startswith("logical_"):
            return _logical(name, *inputs)
        if name == "bitwise_count":
            # numpy counts the bits of the absolute value.
            whole = abs(self) if self.type.signed else self  # type: ignore[attr-defined]
            return self._operate("count_ones", whole)
        raise _unknown(name)

    def __array_function__(self, f: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = getattr(f, "__name__", str(f))
        known = _FUNCTIONS.get(f)
        if known is None:
            raise _unknown(name)
        takes = inspect.signature(known)
        spare = [k for k in kwargs if k in _SPARE and k not in takes.parameters]
        kwargs = {k: v for k, v in kwargs.items() if k not in spare or v is not None}
        remedy = "leave it out: x.astype(type) changes the type, and results are new arrays"
        refuse_keywords(name, [k for k in spare if k in kwargs], remedy)
        try:
            takes.bind(*args, **kwargs)
        except TypeError as e:
            wanted = f"{', '.join(takes.parameters)} as arguments of {name}"
            others = [f"{k}=" for k in kwargs if k not in takes.parameters]
            got = ", ".join(others) or str(e).removeprefix("got ")
            raise Unsupported("numpy", wanted, got, "leave further arguments out") from None
        return known(*args, **kwargs)


#: Functions of numpy that differ from these in how they treat NaN alone.
_SAME = {"fmax": ["maximum"], "fmin": ["minimum"]}


def _unknown(name: str) -> Unsupported:
    """A refusal of a function of numpy, with what to do and the functions of a like name."""
    elements = {*_UFUNCS, *_FURTHER, "sign", "bitwise_count"} - {"divide"}
    elements |= {f"logical_{n}" for n in ("and", "or", "xor", "not")}
    known = elements | {f.__name__ for f in _FUNCTIONS}
    near = difflib.get_close_matches(name, sorted(known), n=3)
    # Names that only share letters, such as sort for sqrt, help nobody.
    alike = difflib.get_close_matches(name, near, n=3, cutoff=0.8)
    near = [n for n in near if n in alike or n in name or name in n]
    near = _SAME.get(name, near)
    like = f"did you mean {' or '.join(f'numpy.{n}' for n in near)}? " if near else ""
    remedy = "look a function of one integer up with x.table(entries), or decrypt first; "
    there = f"docs/apps/integers.md lists the {len(known)} functions of numpy that there are"
    wanted = "a function of numpy that encrypted integers have"
    return Unsupported("numpy", wanted, name, f"{like}{remedy}{there}")


def _plain(value: Any) -> Any:
    """Arrays as lists, and numpy's numbers as Python's: numpy would take their operators back."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _along(method: str, x: Any, known: tuple[str, ...], kwargs: dict[str, Any]) -> Any:
    """A method along an axis, the first by default, as numpy's `reduce` and `accumulate`."""
    spare = [k for k, v in kwargs.items() if k not in known and v is not None]
    refuse_keywords(method, spare, f"leave it out: {' and '.join(known)} may be given")
    kwargs = {k: v for k, v in kwargs.items() if k in known}
    return getattr(x, method)(**{"axis": 0, **kwargs})


def _spread(value: Any) -> Any:
    """An operand that has a shape."""
    return value if isinstance(value, Operators) else np.asarray(value)


def _logical(name: str, *inputs: Any) -> Any:
    """Whether integers are not zero."""
    truths = [x._truth() if isinstance(x, Operators) else np.asarray(x) != 0 for x in inputs]
    operations = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
    if name == "logical_not":
        return ~truths[0]
    return operations[name.removeprefix("logical_")](*map(_plain, truths))


def _one_of(values: Any) -> Any:
    return next(x for x in values if isinstance(x, Operators))


def _where(condition: Any, x: Any, y: Any) -> Any:
    return _one_of((condition, x, y))._operate("select", condition, x, y)


def _dot(a: Any, b: Any) -> Any:
    return _one_of((a, b))._dot(a, b)


def _clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    if not isinstance(a, Operators):
        remedy = "take np.minimum and np.maximum"
        raise Unsupported("numpy", "an encrypted array", "encrypted bounds", remedy)
    low, high = (new if old is None else old for old, new in ((a_min, min), (a_max, max)))
    return a.clip(low, high)  # type: ignore[attr-defined]


def _require_clear(name: str, *values: Any) -> None:
    if any(isinstance(x, Operators) for x in values):
        remedy = "use an encrypted index as in x[at]"
        raise Unsupported("numpy", "unencrypted indices", f"{name} with encrypted ones", remedy)


def _move(f: Any) -> Callable[..., Any]:
    def moved(a: Any, *args: Any, **kwargs: Any) -> Any:
        _require_clear(f.__name__, *args, *kwargs.values())
        return a._moved(f.__name__, lambda places: f(places, *args, **kwargs))

    return moved


def _cut(f: Any) -> Callable[..., Any]:
    def cut(a: Any, *args: Any, **kwargs: Any) -> Any:
        _require_clear(f.__name__, *args, *kwargs.values())
        return a._cut(f.__name__, lambda places: f(places, *args, **kwargs))

    return cut


def _join(f: Any) -> Callable[..., Any]:
    def join(arrays: Any, *args: Any, **kwargs: Any) -> Any:
        first = _one_of(arrays)
        return first._by_places(arrays, lambda places: f(places, *args, **kwargs))

    return join


#: Keywords that no function takes, unless it says so.
_SPARE = frozenset(KEYWORDS) - {"keepdims", "order"}

#: Functions that a method of the same name answers, or of the name beside.
_REDUCED = {
    **{name: name for name in ("all", "any", "argmax", "argmin", "max", "min", "prod", "sum")},
    "amax": "max",
    "amin": "min",
}


def _reduction(name: str) -> Callable[..., Any]:
    def reduced(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        return getattr(a, _REDUCED[name])(axis=axis, keepdims=keepdims)

    return reduced


def _prefix(name: str) -> Callable[..., Any]:
    return lambda a, axis=None: getattr(a, name)(axis)


def _isin(element: Any, test_elements: Any, *, invert: bool = False) -> Any:
    if isinstance(element, Operators):
        return element.isin(test_elements, invert=invert)  # type: ignore[attr-defined]
    # The values to look for are clear, and the list is encrypted.
    first = test_elements.reshape(-1)
    asked = np.asarray(element)
    found = np.equal.outer(asked, first).any(axis=-1)
    return ~found if invert else found


def _like(a: Any, value: Any, dtype: Any, shape: Any = None) -> Any:
    """An array of one value in the shape of another and in its type, unless others are given."""
    return (a if dtype is None else a.astype(dtype))._of_value(value, shape)


def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours; a number at an end is one element of the axis for each place."""
    if not isinstance(a, Operators):
        remedy = "encrypt it too, and put it on the server"
        raise Unsupported("numpy", "an encrypted array", "encrypted ends alone", remedy)
    whole: Any = a
    if not n or not -whole.ndim <= axis < whole.ndim:
        return whole.diff(n, axis)
    parts = [prepend, whole, append]
    for i in (0, 2):
        if parts[i] is not None and not np.ndim(parts[i]):
            shape = list(whole.shape)
            shape[axis] = 1
            filled = parts[i] if isinstance(parts[i], Operators) else whole._of_value(parts[i], ())
            parts[i] = np.broadcast_to(filled, shape)
    ends = [p for p in parts if p is not None]
    joined: Any = np.concatenate(ends, axis=axis) if len(ends) > 1 else a
    return joined.diff(n, axis)


#: Functions of whole arrays, with the arguments that they take here.
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **{getattr(np, name): _move(getattr(np, name)) for name in _MOVES},
    **{getattr(np, name): _cut(getattr(np, name)) for name in _CUTS},
    **{getattr(np, name): _join(getattr(np, name)) for name in _JOINS},
    **{getattr(np, name): _reduction(name) for name in _REDUCED},
    **{getattr(np, name): _prefix(name) for name in ("cumprod", "cumsum")},
    np.argsort: lambda a, axis=-1, kind=None: a.argsort(axis),
    np.clip: _clip,
    np.copy: lambda a: a.copy(),
    np.count_nonzero: lambda a, axis=None, *, keepdims=False: a._truth().sum(
        axis, keepdims=keepdims
    ),
    np.diff: _diff,
    np.dot: _dot,
    np.empty_like: lambda prototype, dtype=None, *, shape=None: _like(prototype, 0, dtype, shape),
    np.full_like: lambda a, fill_value, dtype=None, *, shape=None: _like(
        a, fill_value, dtype, shape
    ),
    np.isin: _isin,
    np.ndim: lambda a: a.ndim,
    np.ones_like: lambda a, dtype=None, *, shape=None: _like(a, 1, dtype, shape),
    np.outer: lambda a, b: np.multiply.outer(_spread(a).ravel(), _spread(b).ravel()),
    np.shape: lambda a: a.shape,
    np.size: lambda a: a.size,
    np.sort: lambda a, axis=-1, kind=None: a.sort(axis),
    np.where: _where,
    np.zeros_like: lambda a, dtype=None, *, shape=None: _like(a, 0, dtype, shape),
}


def number(op: str, value: Any) -> Any:
    """A clear number as a Python integer; lists and arrays of them as they are; None for anything
    else. Raises for other numbers, which would be cut."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, (list, tuple, np.ndarray)):
        return value
    if isinstance(value, np.bool_):
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        if isinstance(value, numbers.Number):
            got, remedy = type(value).__name__, "round it, and convert it with int()"
            raise BadInput(op, "an integer", got, remedy) from None
    return None
