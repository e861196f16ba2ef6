"""numpy's functions of encrypted vectors: some work, and the others name the call to use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from becalm._called import called
from becalm.errors import Unsupported

#: The method of a vector on the left, and that of one on the right.
_OPERATORS: dict[Any, tuple[str, str]] = {
    np.add: ("__add__", "__radd__"),
    np.subtract: ("__sub__", "__rsub__"),
    np.multiply: ("__mul__", "__rmul__"),
    np.divide: ("__truediv__", "__rtruediv__"),
    np.power: ("__pow__", "__rpow__"),
    np.matmul: ("__matmul__", "__rmatmul__"),
}
_UNARY: dict[Any, Callable[[Any], Any]] = {
    np.negative: lambda x: -x,
    np.positive: lambda x: x,
    np.square: lambda x: x * x,
    np.conjugate: lambda x: x.conjugate(),
}
_OF_ONE: dict[Any, Callable[[Any], Any]] = {
    np.sum: lambda x: x.sum(),
    np.mean: lambda x: x.mean(),
    np.shape: lambda x: (x.slots,),
    np.ndim: lambda x: 1,
    np.size: lambda x: x.slots,
}
#: Functions of a vector and something else.
_OF_TWO = (np.dot, np.inner, np.roll)
#: Calls of becalm for functions of numpy.
_CALLS = {
    "exp": "ckks.exp()(x)",
    "tanh": "ckks.tanh()(x)",
    "sqrt": "ckks.sqrt()(x)",
    "reciprocal": "ckks.inverse(domain=(0.1, 1))(x)",
    "absolute": "ckks.absolute()(x)",
    "fabs": "ckks.absolute()(x)",
    "sign": "ckks.sign()(x)",
    "maximum": "ckks.maximum()(x, y)",
    "minimum": "ckks.minimum()(x, y)",
    "greater": "ckks.compare()(x, y)",
    "less": "ckks.compare()(y, x)",
    "sort": "ckks.sort(size)(x, auto=True)",
    "max": "ckks.largest(size)(x)",
    "amax": "ckks.largest(size)(x)",
    "min": "ckks.smallest(size)(x)",
    "amin": "ckks.smallest(size)(x)",
    "argmax": "ckks.argmax(size)(x)",
    "concatenate": "ckks.concatenate([x, y], sizes)",
    "hstack": "ckks.concatenate([x, y], sizes)",
    "tile": "x.replicate()",
    "repeat": "x.replicate()",
    "var": "(x * x).mean() - x.mean() ** 2",
    "where": "y + (x - y) * mask",
    "cumsum": "ckks.Matrix(np.tri(n)) @ x",
}
#: Functions of one number that have a polynomial of 20 bits on this domain.
_SMOOTH = {
    **dict.fromkeys(("arcsinh", "arctan", "cos", "cosh", "deg2rad", "degrees"), (-1, 1)),
    **dict.fromkeys(("exp2", "expm1", "rad2deg", "radians", "sin", "sinh", "tan"), (-1, 1)),
    **dict.fromkeys(("cbrt", "log", "log10", "log2"), (0.1, 1)),
    **dict.fromkeys(("arccos", "arcsin", "arctanh", "log1p"), (-0.9, 0.9)),
    "arccosh": (1.1, 2),
}
_COMPUTE = "compute with +, -, *, x.sum, x.rotate and ckks.Matrix"


def _refused(name: str) -> Unsupported:
    """The call to use instead of a function of numpy, or of a method of it such as `add.at`."""
    remedy = _COMPUTE
    if name in _CALLS:
        remedy = f"use {_CALLS[name]}"
    elif name in _SMOOTH:
        remedy = f"use ckks.approximate(np.{name}, domain={_SMOOTH[name]}, bits=20)(x)"
    return Unsupported(f"np.{name}", "unencrypted numbers", "a ciphertext", remedy)


#: Keywords of numpy that say where a result goes, its type or its elements. No vector has them.
KEYWORDS = ("casting", "dtype", "initial", "keepdims", "order", "out", "subok", "where")


def refuse_keywords(name: str, given: Iterable[str], remedy: str) -> None:
    """Raises where keywords are left, and names them."""
    got = ", ".join(f"{k}=" for k in given)
    if got:
        raise Unsupported(f"np.{name}", "the arguments that encrypted values take", got, remedy)


def _given(more: dict[str, Any]) -> dict[str, Any]:
    """Keywords without those that say nothing: numpy's defaults."""
    return {k: v for k, v in more.items() if v is not None}


def ufunc(x: Any, function: Any, method: str, inputs: tuple[Any, ...], more: dict[str, Any]) -> Any:
    """`function` of `inputs`, of which x, a vector, is one."""
    name, more = function.__name__, _given(more)
    if method == "reduce" and function is np.add:
        spare = [k for k, v in more.items() if k != "axis" or v not in (0, -1)]
        refuse_keywords("add.reduce", spare, "leave it out: x.sum() adds up all slots")
        return x.sum()
    if method != "__call__":
        raise _refused(f"{name}.{method}")
    if function in _OPERATORS or function in _UNARY:
        refuse_keywords(name, more, "leave it out, and assign the result: z = x + y")
    if function in _OPERATORS:
        left, right = _OPERATORS[function]
        a, b = inputs
        return getattr(a, left)(b) if isinstance(a, type(x)) else getattr(b, right)(a)
    if function in _UNARY:
        with called(f"np.{name}"):
            return _UNARY[function](x)
    raise _refused(name)


def function(x: Any, f: Any, given: tuple[Any, ...], more: dict[str, Any]) -> Any:
    """numpy's `f` of arguments, of which x, a vector, is one."""
    if f in _OF_ONE or f in _OF_TWO:
        remedy = "leave it out: x.sum, x.mean and x.rotate work on all slots"
        refuse_keywords(f.__name__, _given(more), remedy)
    with called(f"np.{f.__name__}"):
        if len(given) == 1 and f in _OF_ONE:
            return _OF_ONE[f](x)
        if len(given) == 2 and f in (np.dot, np.inner):
            return x._dot(given[1] if given[0] is x else given[0])
        if len(given) == 2 and f is np.roll and given[0] is x:
            return x.rotate(-given[1])
    raise _refused(f.__name__)
