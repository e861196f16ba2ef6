"""Arithmetic of `becalm.desilo`: sums, products, rotations, matrices and polynomials."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from becalm import _native
from becalm._ckks_sets import turn
from becalm._ckks_vector import at_level, numbers
from becalm._desilo import (
    Ciphertext,
    Key,
    Plaintext,
    cipher,
    computed,
    instructed,
    key_for,
    keyless,
    kind_of,
    lanes_of,
    together,
    union,
)
from becalm._native_calls import Operand
from becalm.errors import BadInput

N = TypeVar("N", bound=Operand)

#: Factors below this are taken by sums, without a level.
_MOST_DOUBLED = 1 << 31


class Arithmetic:
    """The calls of an engine on ciphertexts but for bootstraps; each block by itself."""

    _machine: _native.CkksMachine
    _max_level: int
    _slots: int

    def add(self, x: Any, y: Any) -> Ciphertext:
        """x + y: ciphertexts, or one and numbers.

        Parameters
        ----------
        x
            A ciphertext or numbers.
        y
            A ciphertext or numbers.

        Returns
        -------
        Ciphertext
            The result.

        Examples
        --------
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> engine.decrypt(engine.add(x, 1), secret_key).round(2).tolist()
        [2.0, 3.0, 4.0, 5.0]
        """
        if not isinstance(x, Ciphertext):
            x, y = y, x
        if isinstance(y, Ciphertext):
            return keyless("add", together("add", [x, y]), lambda a, b: a.add(b))
        return self._with_plain("add", x, y, lambda a, values: a.add_plain(values))

    def subtract(self, x: Any, y: Any) -> Ciphertext:
        """x − y: ciphertexts, or one and numbers.

        Parameters
        ----------
        x
            A ciphertext or numbers.
        y
            A ciphertext or numbers.

        Returns
        -------
        Ciphertext
            The result.

        Examples
        --------
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> engine.decrypt(engine.subtract(x, 5), secret_key).round(2).tolist()
        [-4.0, -3.0, -2.0, -1.0]
        """
        if isinstance(x, Ciphertext) and isinstance(y, Ciphertext):
            return keyless("subtract", together("subtract", [x, y]), lambda a, b: a.subtract(b))
        if isinstance(x, Ciphertext):
            return self._with_plain("subtract", x, y, lambda a, values: a.subtract_plain(values))
        return self._with_plain("subtract", y, x, lambda a, values: a.subtract_from_plain(values))

    def negate(self, ciphertext: Ciphertext) -> Ciphertext:
        """−x.

        Returns
        -------
        Ciphertext
            The result.

        Examples
        --------
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> engine.decrypt(engine.negate(x), secret_key).round(2).tolist()
        [-1.0, -2.0, -3.0, -4.0]
        """
        return keyless("negate", lanes_of("negate", ciphertext), lambda b: b.negate())

    def multiply(self, x: Any, y: Any, relinearization_key: Key | None = None) -> Ciphertext:
        """x·y, one level lower: ciphertexts, which takes the key, or one and numbers.

        Parameters
        ----------
        x
            A ciphertext or numbers.
        y
            A ciphertext or numbers.
        relinearization_key
            For two ciphertexts.

        Returns
        -------
        Ciphertext
            The result.

        Examples
        --------
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> engine.decrypt(engine.multiply(x, x, relinearization_key), secret_key).round(2).tolist()
        [1.0, 4.0, 9.0, 16.0]
        """
        if not isinstance(x, Ciphertext):
            x, y = y, x
        if not isinstance(y, Ciphertext):
            if relinearization_key is not None:
                key_for("multiply", relinearization_key, "relinearization")
            return self._with_plain("multiply", x, y, lambda a, values: a.multiply_plain(values))
        keys = key_for("multiply", relinearization_key, "relinearization")._native
        lanes = together("multiply", [x, y])
        return instructed("multiply", keys, lanes, lambda calls, a, b: calls.multiply(a, b))

    def square(self, ciphertext: Ciphertext, relinearization_key: Key) -> Ciphertext:
        """x², one level lower.

        Parameters
        ----------
        ciphertext
            A ciphertext.
        relinearization_key
            The key of products.

        Returns
        -------
        Ciphertext
            The result.

        Examples
        --------
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> engine.decrypt(engine.square(x, relinearization_key), secret_key).round(2).tolist()
        [1.0, 4.0, 9.0, 16.0]
        """
        return self.multiply(ciphertext, ciphertext, relinearization_key)

    def multiply_imaginary_integer(self, x: Any, y: Any) -> Ciphertext:
        """x·y·i for a ciphertext and an integer, in either order, at the same level.

        Parameters
        ----------
        x
            A ciphertext or an integer.
        y
            A ciphertext or an integer.

        Returns
        -------
        Ciphertext
            The result.

        Examples
        --------
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> y = engine.multiply_imaginary_integer(x, 2)
        >>> bool(abs(engine.decrypt(y, secret_key)[0] - 2j) < 0.01)
        True
        """
        op = "multiply_imaginary_integer"
        x, factor = (x, y) if isinstance(x, Ciphertext) else (y, x)
        lanes, times = lanes_of(op, x), _integer(op, factor)
        return computed(op, None, lanes, lambda _, b: [b.multiply_i().multiple(times)])[0]

    def conjugate(self, ciphertext: Ciphertext, conjugation_key: Key) -> Ciphertext:
        """The complex conjugate.

        Parameters
        ----------
        ciphertext
            A ciphertext.
        conjugation_key
            The key.

        Returns
        -------
        Ciphertext
            The result.

        Examples
        --------
        >>> x = engine.encrypt([1 + 2j], secret_key)
        >>> engine.decrypt(engine.conjugate(x, conjugation_key), secret_key)[:1].round(2).tolist()
        [(1-2j)]
        """
        keys = key_for("conjugate", conjugation_key, "conjugation")._native
        lanes = lanes_of("conjugate", ciphertext)
        return instructed("conjugate", keys, lanes, lambda calls, x: calls.conjugate(x))

    def rotate(
        self, ciphertext: Ciphertext, rotation_key: Key, delta: int | None = None
    ) -> Ciphertext:
        """The values of each block moved to the right by `delta`, [1, 2, 3, 4] by 1 to
        [4, 1, 2, 3].

        Parameters
        ----------
        ciphertext
            A ciphertext.
        rotation_key
            A rotation key, or a fixed one.
        delta
            By how many slots; a fixed key has its own.

        Returns
        -------
        Ciphertext
            The result.

        Raises
        ------
        BadInput
            For a missing `delta`, or another one than that of the key.

        Examples
        --------
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> engine.decrypt(engine.rotate(x, rotation_key, 1), secret_key).round(2).tolist()
        [4.0, 1.0, 2.0, 3.0]
        """
        op, x = "rotate", cipher("rotate", ciphertext)
        fixed = rotation_key.delta if isinstance(rotation_key, Key) else None
        key = key_for(op, rotation_key, "rotation" if fixed is None else "fixed_rotation")
        if fixed is None and delta is None:
            raise BadInput(op, "delta", "none", "say by how many slots")
        if fixed is not None and delta not in (None, fixed):
            remedy = "leave delta out, or use a rotation key"
            raise BadInput(op, f"the delta {fixed} of the key", repr(delta), remedy)
        left, lanes = self._left(delta if fixed is None else fixed), lanes_of(op, x)
        if fixed is None and left == 0:
            return x
        if fixed is not None or left.bit_count() == 1:
            return instructed(op, key._native, lanes, lambda calls, b: calls.rotate(b, left))
        return computed(op, key._native, lanes, lambda p, b: p.rotate_by_powers(b, [left]))[0]

    def roll(self, ciphertext: Ciphertext, rotation_key: Key, shift: int) -> Ciphertext:
        """The same as `rotate`, as numpy calls it.

        Parameters
        ----------
        ciphertext
            A ciphertext.
        rotation_key
            A rotation key.
        shift
            By how many slots.

        Returns
        -------
        Ciphertext
            The result.

        Examples
        --------
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> engine.decrypt(engine.roll(x, rotation_key, 1), secret_key).round(2).tolist()
        [4.0, 1.0, 2.0, 3.0]
        """
        return self.rotate(ciphertext, rotation_key, shift)

    def rotate_batch(
        self,
        ciphertext: Ciphertext,
        rotation_keys: Key | Sequence[Key],
        deltas: Sequence[int] | None = None,
    ) -> list[Ciphertext]:
        """Several rotations of one ciphertext: by a rotation key and `deltas`, or by a fixed
        rotation key for each.

        Parameters
        ----------
        ciphertext
            A ciphertext.
        rotation_keys
            A rotation key, or fixed ones.
        deltas
            By how many slots, for a rotation key.

        Returns
        -------
        list of Ciphertext
            One for each rotation.

        Raises
        ------
        BadInput
            For missing `deltas`.

        Examples
        --------
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> a, b = engine.rotate_batch(x, rotation_key, [1, 2])
        >>> engine.decrypt(b, secret_key).round(2).tolist()
        [3.0, 4.0, 1.0, 2.0]
        """
        op = "rotate_batch"
        lanes = lanes_of(op, ciphertext)
        if isinstance(rotation_keys, Key):
            keys = key_for(op, rotation_keys, "rotation")._native
            if deltas is None:
                raise BadInput(op, "deltas", "none", "say by how many slots")
            lefts = [self._left(by) for by in deltas]
            if not lefts:
                return []
            return computed(op, keys, lanes, lambda p, b: p.rotate_by_powers(b, lefts))
        fixed = [key_for(op, key, "fixed_rotation") for key in rotation_keys]
        if not fixed:
            return []
        lefts = [self._left(key.delta) for key in fixed]
        keys = union([key._native for key in fixed])
        return computed(op, keys, lanes, lambda p, b: p.rotate_many(b, lefts))

    def roll_many(
        self, ciphertext: Ciphertext, rotation_key: Key, shifts: Sequence[int]
    ) -> list[Ciphertext]:
        """`rotate_batch` by a rotation key.

        Parameters
        ----------
        ciphertext
            A ciphertext.
        rotation_key
            A rotation key.
        shifts
            By how many slots.

        Returns
        -------
        list of Ciphertext
            One for each rotation.

        Examples
        --------
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> a, b = engine.roll_many(x, rotation_key, [1, 2])
        >>> engine.decrypt(b, secret_key).round(2).tolist()
        [3.0, 4.0, 1.0, 2.0]
        """
        return self.rotate_batch(ciphertext, rotation_key, shifts)

    def level_down(self, ciphertext: Ciphertext, level: int) -> Ciphertext:
        """The same values at a lower level: smaller and faster.

        Parameters
        ----------
        ciphertext
            A ciphertext.
        level
            The level.

        Returns
        -------
        Ciphertext
            The result.

        Examples
        --------
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> engine.level_down(x, 3).level
        3
        """
        x = cipher("level_down", ciphertext)
        at = at_level("level_down", level, x.level)
        return keyless("level_down", lanes_of("level_down", x), lambda b: b.level_down(at))

    def clone(self, ciphertext: Ciphertext) -> Ciphertext:
        """The ciphertext itself: no call changes it.

        Returns
        -------
        Ciphertext
            The result.

        Examples
        --------
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> engine.clone(x) is x
        True
        """
        return cipher("clone", ciphertext)

    def vstack(self, ciphertexts: Sequence[Ciphertext]) -> Ciphertext:
        """The blocks of some ciphertexts, one after the other, as one.

        Returns
        -------
        Ciphertext
            The result.

        Examples
        --------
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> len(engine.decrypt(engine.vstack([x, x]), secret_key))
        8
        """
        listed = _listed("vstack", ciphertexts)
        return Ciphertext([b for x in listed for b in x._blocks])

    def sum(
        self,
        ciphertext: Ciphertext,
        rotation_key: Key | int | None = None,
        axis: int | None = None,
    ) -> Ciphertext:
        """Sums: `axis=0` of the blocks, which takes no key; `axis=1` of the values of each block,
        in every slot of it; without `axis` of all values.

        Parameters
        ----------
        ciphertext
            A ciphertext.
        rotation_key
            A rotation key.
        axis
            0, 1 or none.

        Returns
        -------
        Ciphertext
            The result.

        Raises
        ------
        BadInput
            For another axis.

        Examples
        --------
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> engine.decrypt(engine.sum(x, rotation_key), secret_key).round(2).tolist()
        [10.0, 10.0, 10.0, 10.0]
        """
        op, x = "sum", cipher("sum", ciphertext)
        if not isinstance(rotation_key, Key) and rotation_key is not None and axis is None:
            rotation_key, axis = None, turn(rotation_key)
        if axis not in (None, 0, 1):
            raise BadInput(op, "axis 0, 1 or none", repr(axis), "choose one of these")
        blocks, slots = x._blocks, self._slots
        if axis == 0 or slots == 1:
            if axis == 1 or len(blocks) == 1:
                return x
            return computed(op, None, [blocks], lambda _, *xs: [_added(xs)])[0]
        keys = key_for(op, rotation_key, "rotation")._native
        if axis is None and len(blocks) > 1:
            return computed(op, keys, [blocks], lambda p, *xs: [p.sum(_added(xs), slots)])[0]
        return instructed(op, keys, lanes_of(op, x), lambda calls, b: calls.sum(b, slots))

    def weighted_sum(self, ciphertexts: Sequence[Ciphertext], weights: Sequence[Any]) -> Ciphertext:
        """w_0 + w_1·x_1 + w_2·x_2 + …: a constant, then a weight for each ciphertext, as many as
        there are. Whole numbers as weights take no level, others one.

        Parameters
        ----------
        ciphertexts
            Ciphertexts.
        weights
            The constant, then the weights.

        Returns
        -------
        Ciphertext
            The result.

        Raises
        ------
        BadInput
            For another number of weights, or complex ones.

        Examples
        --------
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> engine.decrypt(engine.weighted_sum([x, x], [1, 2, 3]), secret_key).round(2).tolist()
        [6.0, 11.0, 16.0, 21.0]
        """
        op, listed = "weighted_sum", _listed("weighted_sum", ciphertexts)
        factors = numbers(op, weights)
        count = factors.size - 1
        if factors.ndim != 1 or not 1 <= count <= len(listed) or factors.dtype.kind == "c":
            wanted = f"2 to {len(listed) + 1} real weights"
            got, remedy = f"shape {factors.shape} of {factors.dtype}", "begin with the constant"
            raise BadInput(op, wanted, got, remedy)
        whole = np.asarray(weights).dtype.kind in "biu"

        own = [_integer(op, w) if whole else float(w) for w in weights[1:]]

        def record(_: object, *xs: _native.CkksRegister) -> list[_native.CkksRegister]:
            pairs = zip(xs, own, strict=True)
            terms = [x.multiple(w) if isinstance(w, int) else x.multiply_plain(w) for x, w in pairs]
            return [_added(terms).add_plain(float(factors[0]))]

        return computed(op, None, together(op, listed[:count]), record)[0]

    def _left(self, delta: Any) -> int:
        """A rotation to the right as one to the left."""
        return -turn(delta) % self._slots

    def _split(self, op: str, message: npt.ArrayLike) -> list[bytes]:
        values = np.atleast_1d(numbers(op, message))
        if values.ndim != 1 or not values.size:
            got = f"values of type {values.dtype} in the shape {values.shape}"
            raise BadInput(op, "a flat list or array of numbers", got, "convert it")
        filled = np.zeros(-(-values.size // self._slots) * self._slots, dtype="<c16")
        filled[: values.size] = values
        return [b.tobytes() for b in filled.reshape(-1, self._slots)]

    def _with_plain(
        self, op: str, x: Any, values: Any, apply: Callable[[Any, bytes], Any]
    ) -> Ciphertext:
        x = cipher(op, x)
        array = _numbers(op, values)
        blocks = [array.astype("<c16").tobytes()] if array.ndim == 0 else self._split(op, array)
        if len(blocks) == 1:
            return keyless(op, lanes_of(op, x), lambda a: apply(a, blocks[0]))
        if len(blocks) != len(x._blocks):
            got = f"{len(blocks)} for {len(x._blocks)}"
            raise BadInput(op, "as many blocks of numbers as ciphertexts", got, "pad them")

        def record(_: object, *xs: _native.CkksRegister) -> list[_native.CkksRegister]:
            return [apply(a, b) for a, b in zip(xs, blocks, strict=True)]

        made = computed(op, None, [x._blocks], record)
        return Ciphertext([block for y in made for block in y._blocks])


def _numbers(op: str, values: Any) -> npt.NDArray[Any]:
    """Numbers, or those of a plaintext."""
    return values._values if isinstance(values, Plaintext) else numbers(op, values)


def _listed(op: str, ciphertexts: Any) -> list[Ciphertext]:
    listed = [cipher(op, x) for x in ciphertexts]
    if not listed:
        raise BadInput(op, "one ciphertext or more", "none", "pass a list of them")
    return listed


def _added(xs: Sequence[N]) -> N:
    return functools.reduce(lambda total, x: total.add(x), xs)


def _integer(op: str, factor: Any) -> int:
    if not hasattr(factor, "__index__"):
        raise BadInput(op, "a whole number", kind_of(factor), "pass an int, or use multiply")
    found = int(factor.__index__())
    if abs(found) >= _MOST_DOUBLED:
        raise BadInput(op, "a whole number below 2^31", str(found), "use multiply")
    return found
