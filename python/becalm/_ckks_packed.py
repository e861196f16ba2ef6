"""Packed integers of CKKS, which `becalm.ckks` has: up to 65,536 in a ciphertext, looked up in
tables together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from becalm import _html, _native, _progress, _values
from becalm._called import called
from becalm._ckks_ciphertext import Ciphertext, applied
from becalm._ckks_sets import Params, params
from becalm._encrypted import ByTable
from becalm._progress import Progress
from becalm.errors import BadInput, Unsupported, WrongKey

if TYPE_CHECKING:
    from typing_extensions import Self

    from becalm._ckks_prepared import Prepared
    from becalm._ckks_program import Program
    from becalm._ckks_secret_key import SecretKey
    from becalm._ckks_server import Server

#: A table: a result for each integer, or a function of one.
Entries = Callable[[int], int] | Sequence[int] | npt.NDArray[Any]


class Packed(ByTable, _html.Shown):
    """The operators of packed integers, which are encrypted or registers of a program."""

    __slots__ = ()
    _what = "packed integers"
    #: The one that looks up, in a remedy.
    _side: ClassVar[str] = "server"
    #: numpy leaves its operators to this class.
    __array_ufunc__ = None

    @property
    def bits(self) -> int:
        """Bits of an integer: sums are taken modulo 2^bits."""
        raise NotImplementedError

    def _each(self, apply: Callable[[Any], Any]) -> Self:
        """The integers of a call that a native ciphertext and a native register share."""
        raise NotImplementedError

    def _paired(self, op: str, other: Any, apply: Callable[[Any, Any], Any]) -> Self:
        """The same of a call with other integers beside them: packed ones, or an array."""
        raise NotImplementedError

    def _one(self, op: str, value: Any) -> float | None:
        """An integer that everybody knows, for all places, modulo 2^bits; none of several."""
        if isinstance(value, Packed):
            return None
        given = _values.integers(op, value)
        return None if given.ndim else float(int(given) & ((1 << self.bits) - 1))

    @called("add")
    def __add__(self, other: Any) -> Self:
        if (one := self._one("add", other)) is not None:
            return self._each(lambda x: x.add_plain(one))
        return self._paired("add", other, lambda a, b: a.add(b))

    __radd__ = __add__

    @called("subtract")
    def __sub__(self, other: Any) -> Self:
        if (one := self._one("subtract", other)) is not None:
            return self._each(lambda x: x.subtract_plain(one))
        return self._paired("subtract", other, lambda a, b: a.subtract(b))

    @called("subtract")
    def __rsub__(self, other: Any) -> Self:
        if (one := self._one("subtract", other)) is not None:
            return self._each(lambda x: x.subtract_from_plain(one))
        return self._paired("subtract", other, lambda a, b: b.subtract(a))

    def __pos__(self) -> Self:
        return self

    @called("negate")
    def __neg__(self) -> Self:
        return self._each(lambda x: x.negate())

    @called("multiply")
    def __mul__(self, factor: Any) -> Self:
        if isinstance(factor, Packed):
            remedy = "multiply digits by tables: a*b = ((a + b)**2 - (a - b)**2)/4"
            raise Unsupported("multiply", "an integer that everybody knows", "a ciphertext", remedy)
        values = _values.integers("multiply", factor)
        if values.ndim or isinstance(factor, (bool, np.bool_)):
            remedy = "multiply by one integer, or look each up in a table"
            raise BadInput("multiply", "one integer for all", f"the shape {values.shape}", remedy)
        return self._each(lambda x: x.multiple(int(values)))

    __rmul__ = __mul__

    def _looked_up(self, formula: str) -> str:
        return f"use {self._side}.lookup(x, lambda m: {formula.format(p=1 << self.bits)})"

    def __getitem__(self, key: object) -> NoReturn:
        raise self._apart()

    def __iter__(self) -> NoReturn:
        raise self._apart()

    def _apart(self) -> Unsupported:
        remedy = "decrypt it and take them there, or encrypt them in several arrays"
        return Unsupported("index", "operations on all integers together", "places", remedy)


class PackedArray(Packed):
    """Encrypted integers below 2^bits, of any shape. `SecretKey.encrypt_packed` makes them.

    Sums, differences and products with small integers that everybody knows are exact modulo
    2^bits, and nearly free. A table replaces every integer by its entry, and takes errors out.

    Examples
    --------
    >>> secret, server = becalm.keygen("ckks_toy_table_4", allow_insecure=True, progress=False)
    >>> x = secret.encrypt_packed([[1, 2], [3, 15]], bits=4)
    >>> secret.decrypt(x + 1).tolist()
    [[2, 3], [4, 0]]
    >>> secret.decrypt(server.lookup(x, lambda m: m * m % 16)).tolist()
    [[1, 4], [9, 1]]
    """

    __slots__ = ("_bits", "_parts", "_server", "_shape")
    _compared = "decrypt them, or look the difference up: server.lookup(x - y, lambda d: d == 0)"

    def __init__(
        self,
        parts: Sequence[_native.CkksCiphertext],
        shape: tuple[int, ...],
        server: Server | None,
    ) -> None:
        self._parts = list(parts)
        self._shape = shape
        self._server = server
        found = parts[0].integers
        self._bits = found[0] if found else 0

    @property
    def params(self) -> Params:
        """The parameter set."""
        return params(self._parts[0].params)

    @property
    def bits(self) -> int:
        """Bits of an integer: sums are taken modulo 2^bits."""
        return self._bits

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, as numpy has it."""
        return self._shape

    @property
    def size(self) -> int:
        """How many integers there are."""
        return int(np.prod(self._shape, dtype=np.int64))

    @property
    def key_id(self) -> str:
        """Identity of the secret key; public."""
        return self._parts[0].key_id

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(part.nbytes for part in self._parts)

    @property
    def stored_nbytes(self) -> int:
        """Bytes in files, but for their headers."""
        return sum(part.stored_nbytes for part in self._parts)

    @property
    def error(self) -> float:
        """Upper bound on the error of an integer over 2^bits, but for a probability of 2^-128. A
        table takes it down again; from 2^-(bits + 1) on integers could be wrong, and `decrypt`
        raises `TooNoisy`."""
        return max(part.account[2] for part in self._parts)

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of a single integer")
        return self._shape[0]

    def reshape(self, *shape: int) -> PackedArray:
        """The same integers in another shape, as numpy's `reshape`.

        Parameters
        ----------
        shape
            The lengths; one of them may be -1.

        Returns
        -------
        PackedArray
            The same ciphertexts.

        Raises
        ------
        BadInput
            For a shape of another size.

        Examples
        --------
        >>> packed.reshape(2, 2).shape
        (2, 2)
        """
        try:
            found = np.empty(self._shape, np.uint8).reshape(shape).shape
        except (TypeError, ValueError) as e:
            raise BadInput("reshape", f"a shape of {self.size}", str(shape), str(e)) from None
        return PackedArray(self._parts, found, self._server)

    def _of(self, parts: Iterable[_native.CkksCiphertext]) -> PackedArray:
        return PackedArray(list(parts), self._shape, self._server)

    def _each(self, apply: Callable[[Any], Any]) -> PackedArray:
        return self._of(applied([[part] for part in self._parts], apply))

    def _paired(self, op: str, other: Any, apply: Callable[[Any, Any], Any]) -> PackedArray:
        pairs = list(zip(self._parts, self._beside(op, other), strict=True))
        return self._of(applied(pairs, apply))

    def _public(self, op: str, value: Any) -> npt.NDArray[np.int64]:
        """Integers that everybody knows, one for each of these, modulo 2^bits."""
        given = _values.integers(op, value)
        try:
            shaped = np.broadcast_to(given, self._shape)
        except ValueError:
            wanted, remedy = f"the shape {self._shape}", "give an integer for each, or one for all"
            raise BadInput(op, wanted, f"the shape {given.shape}", remedy) from None
        return (shaped & ((1 << self._bits) - 1)).reshape(-1)

    def _beside(self, op: str, other: Any) -> list[_native.CkksCiphertext]:
        """The ciphertexts of another array, or of integers that everybody knows."""
        if isinstance(other, PackedRegister):
            wanted, remedy = "encrypted integers", "make them an argument of the program as well"
            raise BadInput(op, wanted, "a register of a program", remedy)
        if not isinstance(other, PackedArray):
            chunks = _chunks(self._public(op, other), [_count(part) for part in self._parts])
            pairs = zip(self._parts, chunks, strict=True)
            return [part.public(chunk.tobytes()) for part, chunk in pairs]
        if other._shape != self._shape:
            wanted, got = f"the shape {self._shape}", f"the shape {other._shape}"
            raise BadInput(op, wanted, got, "encrypt both in one shape")
        return other._parts

    @called("lookup")
    def lookup(self, table: Entries, *, progress: Progress = None) -> PackedArray:
        """Each integer's entry in a table: `Server.lookup` of the server of this array.

        Parameters
        ----------
        table, progress
            As for `Server.lookup`.

        Returns
        -------
        PackedArray
            The entries.

        Examples
        --------
        >>> secret.decrypt(packed.lookup(lambda m: 15 - m)).tolist()
        [14, 13, 12, 0]
        """
        return self._serving("look up").lookup(self, table, progress=progress)

    def decrypt(self, secret: SecretKey) -> npt.NDArray[np.uint8]:
        """The same as `secret.decrypt(x)`: for the owner of the key alone.

        Returns
        -------
        array
            The integers, in the shape of the array.

        Examples
        --------
        >>> secret, server = becalm.keygen("ckks_toy_table_4", allow_insecure=True, progress=False)
        >>> secret.encrypt_packed([3, 1], bits=2).decrypt(secret).tolist()
        [3, 1]
        """
        found: npt.NDArray[np.uint8] = _values.decrypted(self, secret)
        return found

    def _serving(self, op: str) -> Server:
        if self._server is None:
            remedy = "server.lookup(x, table), with the server of the key"
            raise WrongKey(op, "an array with a server", "one without", remedy)
        return self._server

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file, in which the shape is flat.

        Parameters
        ----------
        path
            The name of the file.

        Raises
        ------
        Unsupported
            For more integers than a ciphertext holds.

        Examples
        --------
        >>> packed.save("packed.becalm")
        >>> secret.decrypt(secret.load("packed.becalm")).tolist()
        [1, 2, 3, 15]
        """
        self._single().save(_values.path("save", path))

    def to_bytes(self) -> bytes:
        """The bytes of the file that `save` writes.

        Returns
        -------
        bytes
            The file.

        Raises
        ------
        Unsupported
            For more integers than a ciphertext holds.

        Examples
        --------
        >>> secret.decrypt(server.from_bytes(packed.to_bytes())).tolist()
        [1, 2, 3, 15]
        """
        return self._single().to_bytes()

    def _single(self) -> _native.CkksCiphertext:
        if len(self._parts) > 1:
            most = _count(self._parts[0])
            wanted, remedy = f"at most {most} integers", "encrypt and save them in parts"
            raise Unsupported("save", wanted, str(self.size), remedy)
        return self._parts[0]

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        return "becalm.ckks.PackedArray", [
            ("shape", self._shape),
            ("bits", self._bits),
            ("ciphertexts", len(self._parts)),
            ("in memory", _values.megabytes(self.nbytes)),
            ("error of an integer over 2^bits, at most", f"2^{np.log2(self.error):.1f}"),
            ("key", self.key_id),
        ]

    def __repr__(self) -> str:
        many = f"shape {self._shape}, {_values.counted(self._bits, 'bit')}"
        return f"<becalm.ckks.PackedArray, {many}, error at most 2^{np.log2(self.error):.1f}>"

    def __reduce__(self) -> NoReturn:
        remedy = "to_bytes() here, and server.from_bytes() there"
        raise Unsupported("copy", "an object that can be pickled", "a ciphertext", remedy)


class PackedRegister(Packed):
    """Packed integers of a program, not yet computed: of as many as there are in its arguments.

    It has the operators of a `PackedArray`. An integer that everybody knows stands for all places.

    Examples
    --------
    >>> p = becalm.Program("ckks_toy_table_4")
    >>> x = p.input(bits=4)
    >>> (2 * x + 1).lookup(lambda m: m // 2).bits
    4
    """

    __slots__ = ("_native", "program")
    _side = "program"

    def __init__(self, native: _native.CkksRegister, program: Program) -> None:
        self._native = native
        #: The program that it belongs to.
        self.program = program
        program._noted()

    @property
    def params(self) -> Params:
        """The parameter set."""
        return self.program.params

    @property
    def bits(self) -> int:
        """Bits of an integer: sums are taken modulo 2^bits."""
        return self._native.bits or 0

    def lookup(self, table: Entries) -> PackedRegister:
        """Each integer's entry in a table; see `Program.lookup`.

        Parameters
        ----------
        table
            As for `Program.lookup`.

        Returns
        -------
        PackedRegister
            The entries.

        Examples
        --------
        >>> becalm.Program("ckks_toy_table_4").input(bits=2).lookup([3, 2, 1, 0]).bits
        2
        """
        return self.program.lookup(self, table)

    def _each(self, apply: Callable[[Any], Any]) -> PackedRegister:
        return PackedRegister(apply(self._native), self.program)

    def _paired(self, op: str, other: Any, apply: Callable[[Any, Any], Any]) -> PackedRegister:
        if isinstance(other, PackedRegister):
            return PackedRegister(apply(self._native, other._native), self.program)
        got = "an array of them" if isinstance(other, PackedArray) else "several"
        remedy = "declare the others by input(bits=...), and pass them to server.run"
        raise BadInput(op, "a register of this program, or one integer for all", got, remedy)

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        facts = [("bits", self.bits), ("parameter set", self._native.params)]
        return "becalm.ckks.PackedRegister", facts

    def __repr__(self) -> str:
        bits = _values.counted(self.bits, "bit")
        return f"<becalm.ckks.PackedRegister {self._native.index}: integers of {bits}>"

    def __reduce__(self) -> NoReturn:
        remedy = "save the program"
        raise Unsupported("copy", "an object that can be pickled", "a register", remedy)


class LooksUp:
    """The part of a server that looks packed integers up."""

    __slots__ = ()
    _keys: _native.CkksKeys
    _plan: _native.CkksPlan
    _prepared: Prepared

    @called("lookup")
    def lookup(self, x: PackedArray, table: Entries, *, progress: Progress = None) -> PackedArray:
        """Replaces each integer by its entry in a table.

        Parameters
        ----------
        x
            Integers of `secret.encrypt_packed`.
        table
            2^bits entries below 2^bits, or a function of one integer.
        progress
            As for a bootstrap.

        Returns
        -------
        PackedArray
            Of the same shape and bits, with a small error whatever that of `x` was.

        Raises
        ------
        BadInput
            For another number of entries, or entries that are too large.
        TooNoisy
            For integers with so large an error that a table might not clean it: after thousands
            of sums.
        WrongParams
            For keys without tables.

        Examples
        --------
        >>> secret.decrypt(server.lookup(packed, [m // 2 for m in range(16)])).tolist()
        [0, 1, 1, 7]
        """
        return self.lookup_many(x, [table], progress=progress)[0]

    @called("lookup_many")
    def lookup_many(
        self, x: PackedArray, tables: Sequence[Entries], *, progress: Progress = None
    ) -> list[PackedArray]:
        """Looks the same integers up in several tables, which share most of the work.

        Parameters
        ----------
        x, progress
            As for `lookup`.
        tables
            The tables.

        Returns
        -------
        list of PackedArray
            The entries in each table.

        Raises
        ------
        BadInput, TooNoisy, WrongParams
            As for `lookup`.

        Examples
        --------
        >>> low, high = server.lookup_many(packed + packed, [lambda m: m % 4, lambda m: m // 4])
        >>> secret.decrypt(low).tolist(), secret.decrypt(high).tolist()
        ([2, 0, 2, 2], [0, 1, 1, 3])
        """
        if not isinstance(x, PackedArray):
            remedy = "secret.encrypt_packed(values, bits=4) makes them"
            raise BadInput("look up", "packed integers", type(x).__name__, remedy)
        if x.key_id != self._keys.key_id:
            remedy = "use the server of the key it was encrypted with"
            raise WrongKey("look up", f"key {self._keys.key_id}", x.key_id, remedy)
        entries = entries_of(tables, x.bits)
        ready = self._prepared.of(
            ("tables", x.bits, entries),
            'make keys with kinds="table"',
            lambda: self._plan.tables(x.bits, entries),
        )
        with _progress.shown(progress, "look up", 1.0) as callback:
            made = ready.run([[part] for part in x._parts], callback)
        server: Any = self
        return [PackedArray(parts, x.shape, server) for parts in zip(*made, strict=True)]


def encrypted(native: Any, server: Server | None, values: Any, bits: Any) -> PackedArray:
    """The ciphertexts of integers, as many in each as its key says."""
    count = _values.count("encrypt", "bits", bits)
    given = _values.integers("encrypt", values)
    if given.size == 0:
        raise BadInput("encrypt", "one integer or more", "none", "pass some values")
    if int(given.min()) < 0:
        remedy = "take them modulo 2^bits before"
        raise BadInput("encrypt", "integers of 0 and above", "a negative one", remedy)
    flat, most = given.reshape(-1), native.integers
    parts = [flat[i : i + most].tobytes() for i in range(0, flat.size, most)]
    return PackedArray([native.encrypt_integers(p, count) for p in parts], given.shape, server)


def decrypted(native: _native.CkksSecretKey, x: PackedArray) -> npt.NDArray[np.uint8]:
    """The integers of an array."""
    parts = [np.frombuffer(native.decrypt_integers(part), np.uint64) for part in x._parts]
    return np.concatenate(parts).astype(np.uint8).reshape(x.shape)


def of_file(native: _native.CkksCiphertext, server: Server | None) -> Ciphertext | PackedArray:
    """The object that a file holds: the class that wrote it."""
    if native.integers:
        return PackedArray([native], (_count(native),), server)
    return Ciphertext(native, server)


def _count(part: _native.CkksCiphertext) -> int:
    found = part.integers
    return found[1] if found else 0


def _chunks(
    values: npt.NDArray[np.int64], counts: Sequence[int]
) -> Iterable[npt.NDArray[np.int64]]:
    return np.split(values, np.cumsum(counts)[:-1])


def entries_of(tables: Sequence[Entries], bits: int) -> tuple[tuple[int, ...], ...]:
    """The entries of tables, for integers of so many bits."""
    return tuple(tuple(_entries(table, bits)) for table in tables)


def _entries(table: Entries, bits: int) -> list[int]:
    given = [table(m) for m in range(1 << bits)] if callable(table) else table
    if isinstance(given, (list, tuple)) and any(map(callable, given)):
        remedy = "pass several tables to lookup_many"
        raise BadInput("look up", f"{1 << bits} entries", "a list of functions", remedy)
    found = _values.integers("look up", given)
    if found.ndim != 1:
        remedy = "give a list of integers, or a function of one integer"
        raise BadInput("look up", f"{1 << bits} entries", f"the shape {found.shape}", remedy)
    if found.size and int(found.min()) < 0:
        remedy = f"take the entries modulo {1 << bits}"
        raise BadInput("look up", "entries from 0 up", str(found.min()), remedy)
    entries: list[int] = found.tolist()
    return entries
