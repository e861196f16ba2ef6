"""Products of encrypted matrices and lists."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from becalm import _integer_arrays, _integer_operations, _integer_operators, _integer_types, _values
from becalm.errors import BadInput


def matmul(a: Any, b: Any) -> Any:
    """`a @ b` as numpy has it, of which at least one is encrypted."""
    x: Any = a if isinstance(a, _integer_arrays.Array) else b
    if not all(isinstance(v, (_integer_arrays.Array, list, tuple, np.ndarray)) for v in (a, b)):
        clear = _integer_operators.number(
            "matmul", b if isinstance(a, _integer_arrays.Array) else a
        )
        if clear is None:
            return NotImplemented
        a, b = (v if isinstance(v, _integer_arrays.Array) else np.asarray(clear) for v in (a, b))
    if x.type == _integer_types.boolean:
        remedy = "count with (x & y).sum(), or cast to an integer with astype"
        raise BadInput("matmul", "integers", "booleans", remedy)
    a, b = (
        v if isinstance(v, _integer_arrays.Array) else _integer_operations.numbers("matmul", v)
        for v in (a, b)
    )
    if not (a.ndim and b.ndim and a.shape[-1] == b.shape[b.ndim > 1 and -2]):
        wanted = "lists or matrices with equal inner lengths"
        raise BadInput("matmul", wanted, f"{a.shape} @ {b.shape}", "reshape or cut them")
    # As numpy: a list in front is a row, one behind a column, and neither stays in the result.
    row, column = a.ndim == 1, b.ndim == 1
    a = a.reshape(1, *a.shape) if row else a
    b = b.reshape(*b.shape, 1) if column else b
    stack = _values.common_shape("matmul", a.shape[:-2], b.shape[:-2])
    shape = (*stack, *(() if row else a.shape[-2:-1]), *(() if column else b.shape[-1:]))
    inner = a.shape[-1]
    if not inner or 0 in shape:
        return x._filled("matmul", x.type, shape, 0)
    _integer_operations.require_count("matmul", x.type, inner)
    if isinstance(a, _integer_arrays.Array) and isinstance(b, _integer_arrays.Array):
        rows = [a[..., i].reshape(*a.shape[:-1], 1) for i in range(inner)]  # type: ignore[index]
        columns = [b[..., i, :].reshape(*b.shape[:-2], 1, b.shape[-1]) for i in range(inner)]  # type: ignore[index]
        return x._run("dot", [*rows, *columns])[0].reshape(*shape)
    return _folded(a, b, stack).reshape(*shape)


def dot(a: Any, b: Any) -> Any:
    """`np.dot(a, b)`, of which at least one is encrypted: that of numbers is their product, and of
    stacks of matrices each row of one meets each column of the other."""
    a, b = (np.asarray(v) if isinstance(v, (list, tuple)) else v for v in (a, b))
    for v in (a, b):
        is_array = isinstance(v, (_integer_arrays.Array, np.ndarray))
        if not is_array and _integer_operators.number("dot", v) is None:
            return NotImplemented
    if not (np.ndim(a) and np.ndim(b)):
        return a * b
    if np.ndim(a) < 2 or np.ndim(b) < 3:
        return matmul(a, b)
    inner = a.shape[-1]
    if inner != b.shape[-2]:
        wanted = "arrays whose last axis and last but one are equal"
        raise BadInput("dot", wanted, f"{a.shape} and {b.shape}", "reshape or cut them")
    rows, columns = a.shape[:-1], (*b.shape[:-2], b.shape[-1])
    sides = a.reshape(math.prod(rows), inner), np.moveaxis(b, -2, 0)
    return matmul(sides[0], sides[1].reshape(inner, math.prod(columns))).reshape(*rows, *columns)


def _folded(a: Any, b: Any, stack: tuple[int, ...]) -> Any:
    """A product with clear matrices, which are folded into the program. Each clear matrix
    takes one run, or several where it is too large for one program."""
    front = isinstance(a, _integer_arrays.Array)
    x: Any = a if front else b
    clear = np.moveaxis(b, -1, -2) if front else a
    if clear.ndim > 2:
        shape = np.broadcast_shapes(stack, clear.shape[:-2])
        whole = np.broadcast_to(clear, (*shape, *clear.shape[-2:]))
        apart = x._moved("matmul", lambda p: np.broadcast_to(p, (*shape, *p.shape[-2:])))
        flat = apart.reshape(-1, *x.shape[-2:])
        matrices = whole.reshape(-1, *clear.shape[-2:])
        parts = [_rows_of(flat[i], m, front) for i, m in enumerate(matrices)]
        return x._by_places(parts, lambda places: np.stack(places, 0))
    return _rows_of(x, clear, front)


def _rows_of(x: Any, rows: Any, front: bool) -> Any:
    """Dot products of the last axis of `x`, or the one before it, with clear rows."""
    inner = rows.shape[-1]
    listed = [x[..., i] if front else x[..., i, :] for i in range(inner)]
    # As many rows as fit into one program.
    each = max(1, _integer_operations.most("matmul", x.type) // inner)
    parts: list[Any] = []
    for at in range(0, len(rows), each):
        part = [v for row in rows[at : at + each] for v in row]
        parts += x._run("matmul", [*listed, *part])
    return x._by_places(parts, lambda places: np.stack(places, -1 if front else -2))
