"""Numbers in slots as packed integers, and back, once for the server and once for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from becalm import _native, _progress, _values
from becalm._called import called
from becalm._ckks_ciphertext import Ciphertext, owned
from becalm._ckks_packed import Entries, PackedArray, PackedRegister, _count, entries_of
from becalm._ckks_prepared import Prepared
from becalm._ckks_vector import Vector
from becalm._progress import Progress
from becalm.errors import BadInput

if TYPE_CHECKING:
    from becalm._ckks_program import Register
    from becalm._ckks_server import Server

#: A table of numbers: one for each integer, or a function of one.
Numbers: TypeAlias = Callable[[int], float] | Sequence[float] | npt.NDArray[Any]


class Packs:
    """The part of a server between slots and packed integers."""

    __slots__ = ()
    _keys: _native.CkksKeys
    _plan: _native.CkksPlan
    _prepared: Prepared

    def _operand(self, op: str, x: object) -> Ciphertext:
        raise NotImplementedError

    def _vector(self, native: _native.CkksCiphertext) -> Ciphertext:
        raise NotImplementedError

    @called("pack")
    def pack(
        self,
        x: Ciphertext,
        y: Ciphertext | None = None,
        *,
        bits: int,
        near: float = 0.0,
        progress: Progress = None,
    ) -> PackedArray:
        """Numbers in slots as packed integers modulo 2^bits, for tables.

        The numbers are near integers. No step rounds them: their distance to an integer, and their
        error, become errors of the integer, which the next table takes out. It does so for
        distances up to a few hundredths, and the account of the result says whether they fit.

        Parameters
        ----------
        x
            A vector of real numbers: slot i becomes integer i. Of a complex vector, which has as
            many slots as the set, the real parts come first and the imaginary ones behind them.
        y
            Another vector of real numbers, whose integers follow those of `x`. Both have as many
            slots as the set.
        bits
            Bits of an integer, from 1 to those of the set.
        near
            The largest distance of a number from an integer, without its error. You promise it,
            because nobody sees the numbers.
        progress
            As for a bootstrap.

        Returns
        -------
        PackedArray
            One integer for each number.

        Raises
        ------
        BadInput
            For too low a level: it takes 3 levels of `ckks_table_4`. For a pair or a complex vector
            of fewer slots than the set, and for a distance that is not between 0 and 0.5.
        TooNoisy
            For numbers whose distance and error together reach 0.5.
        WrongParams
            For a set without tables.

        Examples
        --------
        >>> x = secret.encrypt([3, 1, 4.01, 15], bound=16)
        >>> y = server.pack(x, bits=4, near=0.02)
        >>> y.error < 0.002, secret.decrypt(server.lookup(y, lambda m: m >= 4))[:4].tolist()
        (True, [0, 0, 1, 1])
        """
        given, values = _given(self._operand, x, y)
        native = [owned("pack", v._native, self._keys.key_id) for v in given]
        count, distance = _values.count("pack", "bits", bits), _values.real("pack", "near", near)
        slots = native[0].slots
        ready = self._prepared.of(
            ("pack", count, slots, distance, values),
            'make keys with kinds="table"',
            lambda: self._plan.pack(count, slots, distance, values),
        )
        with _progress.shown(progress, "pack", 1.0) as callback:
            made = ready.run([native], callback)[0]
        server: Any = self
        return PackedArray(made, (_count(made[0]),), server)

    @called("unpack")
    def unpack(
        self,
        x: PackedArray,
        table: Numbers | None = None,
        *,
        clean: bool = True,
        progress: Progress = None,
    ) -> list[Ciphertext]:
        """Packed integers as numbers in slots, for arithmetic: each integer's entry in a table.

        Where all entries are integers that span less than 256, their bits are cleaned as those of
        `lookup` are. Real entries, and all with `clean=False`, have larger errors, and two levels
        more are left: with `ckks_table_4` 5 instead of 3.

        Parameters
        ----------
        x
            Packed integers.
        table
            2^bits real numbers, or a function of one integer; by default the integers themselves.
        clean
            Whether bits of entries that are integers are cleaned.
        progress
            As for a bootstrap.

        Returns
        -------
        list of Ciphertext
            Vectors of as many slots as the set, in which integer i of `x`, in numpy's order, is
            slot i of them together. Slots behind the last one have the entry of 0, or another.

        Raises
        ------
        BadInput
            For something else than packed integers, another number of entries, or entries that are
            not finite.
        TooNoisy
            For integers with so large an error that the bits might not be cleaned.
        WrongParams
            For keys without tables.

        Examples
        --------
        >>> [y] = server.unpack(packed, lambda m: m - 2)
        >>> secret.decrypt(y * y + 1)[:4].round(1).tolist()
        [2.0, 1.0, 2.0, 170.0]
        """
        return self.unpack_many(x, [table], clean=clean, progress=progress)[0]

    @called("unpack_many")
    def unpack_many(
        self,
        x: PackedArray,
        tables: Sequence[Numbers | None],
        *,
        clean: bool = True,
        progress: Progress = None,
    ) -> list[list[Ciphertext]]:
        """The same integers as the numbers of several tables, which share most of the work.

        Parameters
        ----------
        x, clean, progress
            As for `unpack`.
        tables
            The tables.

        Returns
        -------
        list
            The vectors of each table.

        Raises
        ------
        BadInput, TooNoisy, WrongParams
            As for `unpack`.

        Examples
        --------
        >>> [low], [high] = server.unpack_many(packed, [lambda m: m < 3, lambda m: m >= 3])
        >>> secret.decrypt(low - high)[:4].round(1).tolist()
        [1.0, 1.0, -1.0, -1.0]
        """
        if not isinstance(x, PackedArray):
            remedy = "secret.encrypt_packed(values, bits=4) makes them, and server.pack"
            raise BadInput("unpack", "packed integers", type(x).__name__, remedy)
        parts = [owned("unpack", part, self._keys.key_id) for part in x._parts]
        entries, half = _numbers(tables, x.bits), x.params.slots
        halves = 1 + (max(map(_count, parts)) > half)
        ready = self._prepared.of(
            ("unpack", x.bits, entries, bool(clean), halves),
            'make keys with kinds="table"',
            lambda: self._plan.unpack(x.bits, entries, bool(clean), halves),
        )
        with _progress.shown(progress, "unpack", 1.0) as callback:
            made = ready.run([[part] for part in parts], callback)
        return [
            [self._vector(y) for ys in made for y in ys[at : at + halves]][: -(-x.size // half)]
            for at in range(0, halves * len(entries), halves)
        ]


class RecordsPacked:
    """The part of a program with packed integers: tables, and the ways from and to slots."""

    __slots__ = ()

    @property
    def _calls(self) -> _native.CkksProgram:
        raise NotImplementedError

    @property
    def _planned(self) -> _native.CkksPlan:
        raise NotImplementedError

    def _operand(self, op: str, x: object) -> Register:
        raise NotImplementedError

    def _vector(self, native: _native.CkksRegister) -> Register:
        raise NotImplementedError

    def lookup(self, x: PackedRegister, table: Entries) -> PackedRegister:
        """Replaces each integer by its entry in a table.

        Parameters
        ----------
        x
            Packed integers of this program.
        table
            2^bits entries below 2^bits, or a function of one integer.

        Returns
        -------
        PackedRegister
            The entries, with a small error whatever that of `x` was.

        Raises
        ------
        BadInput
            For another number of entries, or entries that are too large.

        Examples
        --------
        >>> p = becalm.Program("ckks_toy_table_4")
        >>> p.output(p.lookup(p.input(bits=4), lambda m: m * m % 16))
        >>> p.cost.bootstraps
        1
        """
        return self.lookup_many(x, [table])[0]

    def lookup_many(self, x: PackedRegister, tables: Sequence[Entries]) -> list[PackedRegister]:
        """Looks the same integers up in several tables, which share most of the work.

        Parameters
        ----------
        x
            As for `lookup`.
        tables
            The tables.

        Returns
        -------
        list of PackedRegister
            The entries in each table.

        Raises
        ------
        BadInput
            As for `lookup`, and for no tables.

        Examples
        --------
        >>> p = becalm.Program("ckks_toy_table_4")
        >>> len(p.lookup_many(p.input(bits=2), [[0, 0, 1, 1], [0, 1, 0, 1]]))
        2
        """
        own = _packed("look up", x)
        recorded = self._planned.tables(own.bits, entries_of(tables, own.bits))
        return [self._integers(y) for y in self._calls.append(recorded, [own._native])]

    def pack(
        self, x: Register, y: Register | None = None, *, bits: int, near: float = 0.0
    ) -> PackedRegister:
        """Numbers in slots as packed integers; see `Server.pack`.

        Parameters
        ----------
        x, y, bits, near
            As for `Server.pack`, of registers.

        Returns
        -------
        PackedRegister
            One integer for each number.

        Raises
        ------
        BadInput
            As for `Server.pack`.

        Examples
        --------
        >>> p = becalm.Program("ckks_toy_table_4")
        >>> p.lookup(p.pack(p.input(level=4) * 2, bits=4), lambda m: m >= 5).bits
        4
        """
        given, values = _given(self._operand, x, y)
        count, distance = _values.count("pack", "bits", bits), _values.real("pack", "near", near)
        recorded = self._planned.pack(count, given[0].slots, distance, values)
        return self._integers(self._calls.append(recorded, [v._native for v in given])[0])

    def unpack(
        self,
        x: PackedRegister,
        table: Numbers | None = None,
        *,
        clean: bool = True,
        both: bool = False,
    ) -> list[Register]:
        """Packed integers as numbers in slots; see `Server.unpack`.

        Parameters
        ----------
        x
            Packed integers of this program.
        table, clean
            As for `Server.unpack`.
        both
            Whether there are more integers than slots, which takes twice as much.

        Returns
        -------
        list of Register
            One vector, or two.

        Raises
        ------
        BadInput
            As for `Server.unpack`.

        Examples
        --------
        >>> p = becalm.Program("ckks_toy_table_4")
        >>> [y] = p.unpack(p.input(bits=4))
        >>> y.level, y.real
        (3, True)
        """
        return self.unpack_many(x, [table], clean=clean, both=both)[0]

    def unpack_many(
        self,
        x: PackedRegister,
        tables: Sequence[Numbers | None],
        *,
        clean: bool = True,
        both: bool = False,
    ) -> list[list[Register]]:
        """The same integers as the numbers of several tables, which share most of the work.

        Parameters
        ----------
        x, clean, both
            As for `unpack`.
        tables
            The tables.

        Returns
        -------
        list
            The vectors of each table.

        Raises
        ------
        BadInput
            As for `unpack`, and for no tables.

        Examples
        --------
        >>> p = becalm.Program("ckks_toy_table_4")
        >>> bins = [[1, 0, 0, 0], [0, 1, 1, 1]]
        >>> len(p.unpack_many(p.input(bits=2), bins)), p.cost.bootstraps
        (2, 1)
        """
        own, halves = _packed("unpack", x), 2 if both else 1
        recorded = self._planned.unpack(own.bits, _numbers(tables, own.bits), bool(clean), halves)
        made = [self._vector(y) for y in self._calls.append(recorded, [own._native])]
        return [made[at : at + halves] for at in range(0, len(made), halves)]

    def _integers(self, native: _native.CkksRegister) -> PackedRegister:
        program: Any = self
        return PackedRegister(native, program)


def _given(
    operand: Callable[[str, object], Any], x: object, y: object
) -> tuple[list[Vector[Any]], str]:
    """The vectors to pack, and the kind of their values."""
    given = [operand("pack", v) for v in ([x] if y is None else [x, y])]
    if y is None:
        return given, "real" if given[0].real else "complex"
    if not all(v.real for v in given):
        remedy = "pack a complex vector alone, which has both parts"
        raise BadInput("pack", "two vectors of real numbers", "complex ones", remedy)
    return given, "merged"


def _packed(op: str, x: object) -> PackedRegister:
    if isinstance(x, PackedRegister):
        return x
    call = "unpack" if op == "unpack" else "lookup"
    remedy = f"declare them by input(bits=4); server.{call} takes encrypted ones"
    raise BadInput(op, "packed integers of this program", type(x).__name__, remedy)


def _numbers(tables: Sequence[Numbers | None], bits: int) -> tuple[tuple[float, ...], ...]:
    """The entries of tables of real numbers, for integers of so many bits."""
    return tuple(_entries(table, bits) for table in tables)


def _entries(table: Numbers | None, bits: int) -> tuple[float, ...]:
    given = range(1 << bits) if table is None else table
    listed = [given(m) for m in range(1 << bits)] if callable(given) else given
    try:
        found = np.asarray(listed)
        flat = found.ndim == 1 and found.dtype.kind in "biuf"
    except ValueError:
        flat = False
    if not flat:
        remedy = "give a list of real numbers, or a function of one integer"
        raise BadInput("unpack", f"{1 << bits} real entries", "something else", remedy)
    return tuple(found.astype(np.float64).tolist())


def spread(inputs: Sequence[Any]) -> tuple[list[Any], tuple[int, ...], bool]:
    """Arguments of a program with packed ones as their ciphertexts, the shape of these, and whether
    there are lists, so that the results are lists too."""
    listed = any(isinstance(x, (list, tuple)) for x in inputs)
    each = [x if isinstance(x, (list, tuple)) else [x] for x in inputs]
    packed = [y for x in each for y in x if isinstance(y, PackedArray)]
    shapes = list(dict.fromkeys(y.shape for y in packed))
    if len(shapes) > 1:
        wanted, got = f"integers of the shape {shapes[0]}", " and ".join(map(str, shapes[1:]))
        raise BadInput("run", wanted, got, "encrypt all in one shape")
    if listed and packed and len(packed[0]._parts) > 1:
        wanted, got = "packed integers of one ciphertext in lists", str(len(packed[0]._parts))
        raise BadInput("run", wanted, got, "run the program once for each of them")

    def parts(x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return [y._parts[0] if isinstance(y, PackedArray) else y for y in x]
        if not isinstance(x, PackedArray):
            return x
        return x._parts[0] if listed else x._parts

    return [parts(x) for x in inputs], shapes[0] if shapes else (), listed


def gathered(
    parts: Sequence[_native.CkksCiphertext], shape: tuple[int, ...], listed: bool, server: Server
) -> PackedArray | list[PackedArray]:
    """A result of a program, in the shape of the arguments unless it was made of slots; a list of
    one array for each lane where arguments were lists."""
    if listed:
        return [PackedArray([part], _shape([part], shape), server) for part in parts]
    return PackedArray(parts, _shape(parts, shape), server)


def _shape(parts: Sequence[_native.CkksCiphertext], shape: tuple[int, ...]) -> tuple[int, ...]:
    size = sum(map(_count, parts))
    return shape if size == np.prod(shape) else (size,)
