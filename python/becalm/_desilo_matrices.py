"""Plaintexts, matrices and polynomials of `becalm.desilo`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy import polynomial as series

from becalm import _native, _values
from becalm._ckks_arithmetic import Matrix
from becalm._ckks_sets import turn
from becalm._ckks_vector import at_level, numbers
from becalm._desilo import (
    Ciphertext,
    Key,
    PlainMatrix,
    Plaintext,
    cipher,
    computed,
    instructed,
    key_for,
    kind_of,
    lanes_of,
)
from becalm._desilo_arithmetic import Arithmetic
from becalm.errors import BadInput, WrongKey


class Matrices(Arithmetic):
    """The calls of an engine that take plaintexts, matrices or coefficients."""

    def encode(self, array: npt.ArrayLike, level: int | None = None) -> Plaintext:
        """Numbers for sums and products, at a level: that of fresh ciphertexts, unless another is
        given.

        Parameters
        ----------
        array
            Numbers.
        level
            The level.

        Returns
        -------
        Plaintext
            For sums and products.

        Examples
        --------
        >>> p = engine.encode([1, 2, 3, 4])
        >>> engine.decode(p).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        at = self._max_level if level is None else at_level("encode", level, self._max_level)
        self._split("encode", array)
        return Plaintext(np.atleast_1d(numbers("encode", array)), at)

    def encode_to_light_plaintext(
        self, array: npt.ArrayLike, level: int | None = None
    ) -> Plaintext:
        """The same as `encode`.

        Parameters
        ----------
        array
            Numbers.
        level
            The level.

        Returns
        -------
        Plaintext
            For sums and products.

        Examples
        --------
        >>> p = engine.encode_to_light_plaintext([1, 2, 3, 4])
        >>> engine.decode(p).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        return self.encode(array, level)

    def decode(self, plaintext: Plaintext) -> npt.NDArray[Any]:
        """The numbers of a plaintext, filled with zeros as a ciphertext is.

        Returns
        -------
        array
            Floats or complex numbers.

        Raises
        ------
        BadInput
            For anything but a plaintext.

        Examples
        --------
        >>> engine.decode(engine.encode([1, 2])).tolist()
        [1.0, 2.0, 0.0, 0.0]
        """
        if not isinstance(plaintext, Plaintext):
            raise BadInput("decode", "a plaintext", kind_of(plaintext), "use encode")
        blocks = self._split("decode", plaintext._values)
        values = np.frombuffer(b"".join(blocks), dtype="<c16")
        real = plaintext._values.dtype.kind != "c"
        return values.real.copy() if real else values.astype(np.complex128)

    def encode_to_plain_matrix(
        self,
        matrix: npt.ArrayLike,
        level: int | None = None,
        diagonal_indices: Sequence[int] | None = None,
    ) -> PlainMatrix:
        """A matrix of `slot_count` rows and columns for `multiply_matrix`, up to a level, or of it
        only the diagonals of these numbers.

        Parameters
        ----------
        matrix
            Rows of numbers.
        level
            The highest level of a product.
        diagonal_indices
            Numbers of the diagonals that are kept.

        Returns
        -------
        PlainMatrix
            For `multiply_matrix`.

        Raises
        ------
        BadInput
            For a matrix of another shape.

        Examples
        --------
        >>> M = engine.encode_to_plain_matrix(2 * np.eye(4))
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> y = engine.multiply_matrix(M, x, rotation_key)
        >>> engine.decrypt(y, secret_key).round(2).tolist()
        [2.0, 4.0, 6.0, 8.0]
        """
        op = "encode_to_plain_matrix"
        at = self._max_level if level is None else at_level(op, level, self._max_level)
        values, n = numbers(op, matrix), self._slots
        if values.shape != (n, n):
            remedy = "fill it with zeros, or make an engine of fewer slots"
            raise BadInput(op, f"a matrix of {n} rows and columns", f"{values.shape}", remedy)
        if diagonal_indices is not None:
            kept = np.zeros(n, dtype=bool)
            kept[[turn(k) % n for k in diagonal_indices]] = True
            rows, columns = np.indices((n, n))
            values = np.where(kept[(columns - rows) % n], values, 0)
        made = Matrix(values, slots=n, baby=2)
        if any(k & (k - 1) for k in made.rotations):
            # All diagonals go by rotations by powers of two, for which there are keys.
            row = np.arange(n)
            every = {k: values[row, (row + k) % n] for k in range(n)}
            made = Matrix.from_diagonals(every, slots=n, baby=2)
        return PlainMatrix(made, at)

    def encode_to_light_plain_matrix(
        self,
        matrix: npt.ArrayLike,
        level: int | None = None,
        diagonal_indices: Sequence[int] | None = None,
    ) -> PlainMatrix:
        """The same as `encode_to_plain_matrix`.

        Parameters
        ----------
        matrix
            Rows of numbers.
        level
            The highest level of a product.
        diagonal_indices
            Numbers of the diagonals that are kept.

        Returns
        -------
        PlainMatrix
            For `multiply_matrix`.

        Examples
        --------
        >>> M = engine.encode_to_light_plain_matrix(2 * np.eye(4))
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> y = engine.multiply_matrix(M, x, rotation_key)
        >>> engine.decrypt(y, secret_key).round(2).tolist()
        [2.0, 4.0, 6.0, 8.0]
        """
        return self.encode_to_plain_matrix(matrix, level, diagonal_indices)

    def multiply_matrix(
        self, matrix: npt.ArrayLike | PlainMatrix, ciphertext: Ciphertext, key: Key
    ) -> Ciphertext:
        """A plain matrix of `slot_count` rows and columns times each block, one level lower; by a
        rotation key or a matrix multiplication key.

        Parameters
        ----------
        matrix
            Rows of numbers, or an encoded matrix.
        ciphertext
            A ciphertext.
        key
            A rotation key or a matrix multiplication key.

        Returns
        -------
        Ciphertext
            The result.

        Raises
        ------
        WrongKey
            For another key.

        Examples
        --------
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> y = engine.multiply_matrix(2 * np.eye(4), x, rotation_key)
        >>> engine.decrypt(y, secret_key).round(2).tolist()
        [2.0, 4.0, 6.0, 8.0]
        """
        op, x = "multiply_matrix", cipher("multiply_matrix", ciphertext)
        if not isinstance(key, Key) or key.purpose not in ("rotation", "matrix_multiplication"):
            wanted = "a rotation key or a matrix multiplication key"
            raise WrongKey(op, wanted, kind_of(key), "use create_rotation_key")
        encoded = matrix if isinstance(matrix, PlainMatrix) else self.encode_to_plain_matrix(matrix)
        at = min(x.level, encoded.level)
        map_ = encoded._matrix._encoded(self._machine, at)
        return Ciphertext(key._native.matmul(x._blocks, map_))

    def evaluate_polynomial(
        self, ciphertext: Ciphertext, coefficients: Sequence[float], relinearization_key: Key
    ) -> Ciphertext:
        """Σ c_i·x^i, for values from −1 to 1.

        Parameters
        ----------
        ciphertext
            Values from −1 to 1.
        coefficients
            Real numbers, that of the least power first.
        relinearization_key
            The key of products.

        Returns
        -------
        Ciphertext
            The result.

        Examples
        --------
        >>> x = engine.encrypt([0.5, 1, -1, 0.1], secret_key)
        >>> y = engine.evaluate_polynomial(x, [1, 0, 2], relinearization_key)
        >>> engine.decrypt(y, secret_key).round(2).tolist()
        [1.5, 3.0, 3.0, 1.02]
        """
        real = _coefficients("evaluate_polynomial", coefficients)
        chebyshev = series.chebyshev.poly2cheb(real)
        listed = [float(c) for c in chebyshev]
        return self.evaluate_chebyshev_polynomial(ciphertext, listed, relinearization_key)

    def evaluate_chebyshev_polynomial(
        self, ciphertext: Ciphertext, coefficients: Sequence[float], relinearization_key: Key
    ) -> Ciphertext:
        """Σ c_i·T_i(x), for values from −1 to 1.

        Parameters
        ----------
        ciphertext
            Values from −1 to 1.
        coefficients
            Real numbers, that of the least power first.
        relinearization_key
            The key of products.

        Returns
        -------
        Ciphertext
            The result.

        Examples
        --------
        >>> x = engine.encrypt([0.5, 1, -1, 0.1], secret_key)
        >>> y = engine.evaluate_chebyshev_polynomial(x, [2, 0, 1], relinearization_key)
        >>> engine.decrypt(y, secret_key).round(2).tolist()
        [1.5, 3.0, 3.0, 1.02]
        """
        op, x = "evaluate_chebyshev_polynomial", cipher("evaluate_polynomial", ciphertext)
        keys = key_for(op, relinearization_key, "relinearization")._native
        real = _coefficients(op, coefficients).tolist()
        return instructed(op, keys, lanes_of(op, x), lambda calls, b: calls.polynomial(b, real))

    def make_power_basis(
        self, ciphertext: Ciphertext, max_power: int, relinearization_key: Key
    ) -> list[Ciphertext]:
        """x, x², …, each in as few levels as it takes.

        Parameters
        ----------
        ciphertext
            A ciphertext.
        max_power
            The highest power.
        relinearization_key
            The key of products.

        Returns
        -------
        list of Ciphertext
            One for each power.

        Examples
        --------
        >>> x = engine.encrypt([0.5, 1, -1, 0.1], secret_key)
        >>> powers = engine.make_power_basis(x, 3, relinearization_key)
        >>> [y.level for y in powers]
        [13, 12, 11]
        >>> [engine.decrypt(y, secret_key)[0].round(3).item() for y in powers]
        [0.5, 0.25, 0.125]
        """
        return self._basis("make_power_basis", ciphertext, max_power, relinearization_key, False)

    def make_chebyshev_basis(
        self, ciphertext: Ciphertext, max_power: int, relinearization_key: Key
    ) -> list[Ciphertext]:
        """T_1(x), T_2(x), …, each in as few levels as it takes.

        Parameters
        ----------
        ciphertext
            A ciphertext.
        max_power
            The highest power.
        relinearization_key
            The key of products.

        Returns
        -------
        list of Ciphertext
            One for each polynomial.

        Examples
        --------
        >>> x = engine.encrypt([0.5, 1, -1, 0.1], secret_key)
        >>> basis = engine.make_chebyshev_basis(x, 3, relinearization_key)
        >>> engine.decrypt(basis[1], secret_key).round(2).tolist()
        [-0.5, 1.0, 1.0, -0.98]
        """
        return self._basis("make_chebyshev_basis", ciphertext, max_power, relinearization_key, True)

    def _basis(
        self, op: str, x: Ciphertext, most: int, key: Key, chebyshev: bool
    ) -> list[Ciphertext]:
        first, count = cipher(op, x), _values.at_least_one(op, "max_power", most)
        keys = key_for(op, key, "relinearization")._native

        def record(
            program: _native.CkksProgram, register: _native.CkksRegister
        ) -> list[_native.CkksRegister]:
            made = [register]
            for k in range(2, count + 1):
                product = program.multiply(made[(k + 1) // 2 - 1], made[k // 2 - 1])
                if chebyshev:
                    # T_(m+n) = 2·T_m·T_n − T_(m−n), m − n being 0 or 1.
                    twice = product.add(product)
                    product = twice.subtract(register) if k % 2 else twice.add_plain(-1.0)
                made.append(product)
            return made[1:]

        if count == 1:
            return [first]
        return [first, *computed(op, keys, lanes_of(op, first), record)]


def _coefficients(op: str, coefficients: Any) -> npt.NDArray[np.float64]:
    found = numbers(op, coefficients)
    if found.ndim != 1 or not found.size or found.dtype.kind == "c":
        got = f"shape {found.shape} of {found.dtype}"
        remedy = "as in [0, 1, 0.5]: the least power first"
        raise BadInput(op, "a list of real coefficients", got, remedy)
    return found
