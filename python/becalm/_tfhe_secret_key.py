"""The secret key of TFHE, which encrypts and decrypts: `becalm.keys` has it."""

from __future__ import annotations

import os
from typing import Any, NoReturn, overload

import numpy as np
import numpy.typing as npt

from becalm import _html, _integer_types, _native, _progress, _values, aes, integers
from becalm._called import called
from becalm._integer_types import IntegerType
from becalm._native import Params
from becalm._progress import Progress
from becalm._values import TableSource
from becalm.aes import AesKey, EncryptedBytes
from becalm.ciphertext import Ciphertext, EncryptedTable, require, require_bits
from becalm.errors import BadInput, Unsupported
from becalm.integers import Integers
from becalm.program import Table
from becalm.server import Server, SlotKey


class SecretKey(_html.Shown):
    """The secret key of one user: `secret.encrypt(values)` and `secret.decrypt(x)`, for every kind
    of TFHE ciphertext.

    It cannot be copied or pickled, its memory is wiped when it goes, and nothing that becalm
    prints contains any of it. `save` writes it where only its owner can read.

    Examples
    --------
    >>> secret, server = becalm.keygen("toy_2_2", allow_insecure=True, progress=False)
    >>> secret.decrypt(secret.encrypt([3, 1, 2]))
    array([3, 1, 2])
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.SecretKey) -> None:
        if not isinstance(native, _native.SecretKey):
            remedy = "use becalm.keygen() or SecretKey.generate()"
            raise BadInput("secret key", "a key that becalm drew", type(native).__name__, remedy)
        self._native = native

    @classmethod
    def generate(cls, params: Any = "tfhe_2_2", *, allow_insecure: bool = False) -> SecretKey:
        """Draws a secret key from the system's randomness. `server` makes the server's half.

        Parameters
        ----------
        params
            A parameter set or its name.
        allow_insecure
            Whether a set below 128 bits is accepted.

        Returns
        -------
        SecretKey
            A new key.

        Examples
        --------
        >>> becalm.SecretKey.generate("toy_2_2", allow_insecure=True).params.name
        'toy_2_2'
        """
        return cls(_native.SecretKey.generate(_values.set_of("keygen", params), allow_insecure))

    @property
    def params(self) -> Params:
        """The parameter set."""
        return self._native.params

    @property
    def key_id(self) -> str:
        """Identity of the key; public and drawn apart from it."""
        return self._native.key_id

    @overload
    def encrypt(self, values: bytes | bytearray) -> EncryptedBytes: ...  # type: ignore[overload-overlap]
    @overload
    def encrypt(
        self,
        values: npt.ArrayLike,
        type_: None = None,
        *,
        message: int | None = None,
        below: int | None = None,
        padding: bool = True,
        slot: int | None = None,
    ) -> Ciphertext: ...
    @overload
    def encrypt(self, values: Any, type_: IntegerType | npt.DTypeLike) -> Integers: ...
    def encrypt(
        self,
        values: Any,
        type_: Any = None,
        *,
        message: int | None = None,
        below: int | None = None,
        padding: bool = True,
        slot: int | None = None,
    ) -> Any:
        """Encrypts an integer, a list or an array of any shape, or bytes.

        With a type the result is encrypted integers that compute as numpy's, after `on(server)`.
        Without one the values are those of tables, as many as the set has. `message`, `below`,
        `padding` and `slot` are for these alone.

        A common-mask set of w slots puts w values into each ciphertext, those of the last axis.
        Shorter rows are filled with zeros. A longer flat array gets the shape (…, w).

        Parameters
        ----------
        values
            An integer, a list, an array, or bytes.
        type_
            `becalm.uint(16)`, `becalm.boolean`, `np.uint8` or another type of integers.
        message
            Values are in 0 to `message` - 1, by default all that the set's tables see.
        below
            Values are known to lie in 0 to `below` - 1, which leaves room for sums. It is public.
        padding
            Without it sums wrap modulo `message`, but no table applies.
        slot
            Encrypts values one by one under the key of this slot. A server packs those of slot 0.

        Returns
        -------
        Ciphertext, Integers or EncryptedBytes
            `Integers` with a type, `EncryptedBytes` for bytes.

        Raises
        ------
        BadInput
            For values out of range: the message names their place only. For arguments that exclude
            each other.

        Examples
        --------
        >>> x, y = secret.encrypt([3, 1, 2]), secret.encrypt([500, 3], becalm.uint(16))
        >>> x.range, y.dtype
        ((0, 15), dtype('uint16'))
        >>> secret.decrypt(x).tolist(), secret.decrypt(y).tolist()
        ([3, 1, 2], [500, 3])
        """
        if type_ is not None:
            if (message, below, padding, slot) != (None, None, True, None):
                remedy = "leave them out: the type has its range"
                raise BadInput("encrypt", "a type alone", "further arguments", remedy)
            return integers.encrypted(self._native, _integer_types.named("encrypt", type_), values)
        if isinstance(values, (bytes, bytearray, memoryview)):
            return aes.encrypt_bytes(self, bytes(values))
        array = _values.integers("encrypt", values)
        if slot is None and self.params.slots > 1:
            array = _values.filled("encrypt", array, self.params.slots)
        space = (
            self.params.values if message is None else _values.count("encrypt", "message", message)
        )
        bound = space if below is None else _values.count("encrypt", "below", below)
        if array.size and (array < 0).any():
            at = np.argwhere(array < 0)[0].tolist()
            got = f"a negative one at {at}" if at else "a negative one"
            raise BadInput("encrypt", "values from 0 up", got, "take it modulo")
        data = _values.to_bytes(array)
        if slot is not None:
            at = _values.count("encrypt", "slot", slot)
            if space != self.params.values or not padding:
                remedy = "leave `message` and `padding` out"
                raise BadInput("encrypt", "the set's own encoding in a slot", "another", remedy)
            return Ciphertext(self._native.encrypt_slot(at, data, bound), array.shape)
        lwe = self._native.encrypt(data, space, bool(padding), bound)
        return Ciphertext(lwe, array.shape[:-1] if self.params.slots > 1 else array.shape)

    def encrypt_bool(self, values: npt.ArrayLike) -> Ciphertext:
        """Encrypts booleans (or 0 and 1) for the gates of a server.

        Returns
        -------
        Ciphertext
            Values below 2.

        Examples
        --------
        >>> x = secret.encrypt_bool([True, False])
        >>> secret.decrypt_bool(server.not_(x))
        array([False,  True])
        """
        return self.encrypt(values, below=2)

    def encrypt_table(
        self, source: TableSource | Table, *, message: int | None = None, out: int | None = None
    ) -> EncryptedTable:
        """Encrypts a lookup table, so that the server does not learn it.

        Its length and the encodings of its input and outputs are public, its entries are not.

        Parameters
        ----------
        source
            A function, a list of entries, several of these, or a `Table`.
        message
            How many values the encoding of the input has.
        out
            How many values the results have.

        Returns
        -------
        EncryptedTable
            For `Server.bootstrap` or `Program.input_table`.

        Examples
        --------
        >>> table = secret.encrypt_table(lambda m: m * m % 16)
        >>> secret.decrypt(server.bootstrap(secret.encrypt([3, 1, 2]), table))
        array([9, 1, 4])
        """
        table = source
        if not isinstance(table, Table):
            table = Table(self.params, table, message=message, out=out)
        glwe = self._native.encrypt_table(table._native)
        return EncryptedTable(glwe)

    @overload
    def decrypt(self, x: EncryptedBytes | AesKey) -> bytes: ...
    @overload
    def decrypt(self, x: Ciphertext | Integers) -> Any: ...
    @overload
    def decrypt(self, x: Any) -> Any: ...
    def decrypt(self, x: Any) -> Any:
        """The values of `x`; `x.decrypt(secret)` is the same.

        Parameters
        ----------
        x
            Anything encrypted under this key: a `Ciphertext`, `Integers` and booleans,
            `EncryptedBytes`, an `AesKey`; or a list or tuple of such.

        Returns
        -------
        object
            An `int` or `bool` for a single value, else an array of the same shape, of numpy's own
            type up to 64 bits; `bytes` for bytes; a list or tuple for a list or tuple.

        Raises
        ------
        WrongKey
            For ciphertexts under another key.
        TooNoisy
            For a result that may be wrong more often than the set claims.

        Examples
        --------
        >>> secret.decrypt(secret.encrypt([500, 3], becalm.uint(16)))
        array([500,   3], dtype=uint16)
        """
        if isinstance(x, (Ciphertext, Integers, EncryptedBytes, AesKey)):
            return x._decrypted(self._native)
        if isinstance(x, (list, tuple)):
            parts = [self.decrypt(part) for part in x]
            return tuple(parts) if isinstance(x, tuple) else parts
        got = _values.named(x)
        remedy = "pass a Ciphertext, Integers, EncryptedBytes or AesKey, or a list of such"
        if isinstance(getattr(x, "_native", None), _native.CkksCiphertext):
            got, remedy = "one of CKKS", 'decrypt it by the secret key that keygen("ckks") gave'
        elif isinstance(x, (bytes, bytearray, memoryview)):
            remedy = "read a ciphertext's file from them first: becalm.from_bytes(x)"
        elif isinstance(x, IntegerType):
            got = f"the type {x.name}"
        elif isinstance(x, EncryptedTable):
            got, remedy = "an encrypted table", "look values up in it, and decrypt these"
        raise BadInput("decrypt", "something encrypted by TFHE", got, remedy)

    def pack_key(self) -> SlotKey:
        """The key with which a server packs plain values of slot 0; see `Server.pack`.

        Returns
        -------
        SlotKey
            For `Server.add_key`.

        Examples
        --------
        >>> secret, server = becalm.keygen("toy_cm_1_1_w2", allow_insecure=True, progress=False)
        >>> server = server.add_key(secret.pack_key())
        >>> x = secret.encrypt([[1, 2]], slot=0)
        >>> secret.decrypt(server.pack(x)).tolist()
        [[1, 2]]
        """
        return SlotKey(self._native.pack_key())

    def slot_map_key(self, matrix: npt.ArrayLike) -> SlotKey:
        """The key of a private linear map between slots: slot j becomes the sum of
        `matrix[j][t]` times slot t. The server learns the sums of its rows and nothing else.

        Returns
        -------
        SlotKey
            For `Server.add_key`.

        Raises
        ------
        BadInput
            For a matrix of another shape.

        Examples
        --------
        >>> secret, server = becalm.keygen("toy_cm_1_1_w2", allow_insecure=True, progress=False)
        >>> server = server.add_key(secret.slot_map_key([[0, 1], [1, 0]]))
        >>> secret.decrypt(server.slot_map(secret.encrypt([1, 2]))).tolist()
        [2, 1]
        """
        rows = _values.integers("slot_map", matrix)
        if rows.ndim != 2:
            remedy = "give a row for each slot"
            raise BadInput("slot_map", "a matrix", f"shape {rows.shape}", remedy)
        return SlotKey(self._native.slot_map_key(rows.tolist()))

    def decrypt_bool(self, x: Ciphertext) -> Any:
        """Booleans: a `bool` for a single one, else an array.

        Parameters
        ----------
        x
            Encrypted bits, as gates and `encrypt_bool` give them: their public range is 0 to 1.

        Returns
        -------
        bool or array
            A `bool` for a single value.

        Raises
        ------
        BadInput
            For values that may be others than 0 and 1, and for what is no `Ciphertext`.

        Examples
        --------
        >>> secret.decrypt_bool(server.and_(secret.encrypt_bool(True), secret.encrypt_bool(False)))
        False
        """
        if isinstance(x, Integers):
            remedy = "use secret.decrypt(x), which gives booleans for integers of type boolean"
            raise BadInput("decrypt", "bits of gates", "encrypted integers", remedy)
        require_bits(x, "use secret.decrypt(x)")
        values = self.decrypt(x)
        return bool(values) if isinstance(values, int) else values.astype(bool)

    def phases(self, x: Ciphertext) -> npt.NDArray[np.uint64]:
        """Messages with their noise, as 64-bit fractions of the torus; for measurements.

        Returns
        -------
        array of uint64
            In the shape of `x`.

        Examples
        --------
        >>> secret.phases(secret.encrypt([3, 1])).dtype
        dtype('uint64')
        """
        words = self._native.phases(require(x, "phases")._lwe)
        return _values.from_bytes(words, x.shape).astype(np.uint64)

    def server(
        self,
        *,
        device: str = "auto",
        threads: int = 0,
        progress: Progress = None,
    ) -> Server:
        """Makes the evaluation key and a server that holds it.

        Parameters
        ----------
        device
            The machine that computes, as for `becalm.keygen`.
        threads
            How many threads compute; 0 means all.
        progress
            As for `becalm.keygen`.

        Returns
        -------
        Server
            With a new evaluation key.

        Examples
        --------
        >>> server = secret.server(threads=1, progress=False)
        >>> secret.decrypt(server.bootstrap(secret.encrypt([3, 1]), lambda m: m // 2))
        array([1, 0])
        """
        _native.require_machine(str(device), self.params)
        with _progress.shown(progress, "keys", 0.0) as callback:
            key = self._native.evaluation_key(callback)
        return Server(key, device=device, threads=threads)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the key to a file that only its owner can read, for `becalm.load`.

        Parameters
        ----------
        path
            The file.
        overwrite
            Whether another secret key at this place is replaced. Otherwise it raises `IoError`.

        Examples
        --------
        >>> secret.save("secret.becalm", overwrite=True)
        >>> becalm.load("secret.becalm", allow_insecure=True).key_id == secret.key_id
        True
        """
        self._native.save(_values.path("save", path), bool(overwrite))

    def _save_with(self, server: Server, paths: tuple[str, str], overwrite: bool) -> None:
        self._native.save_with(server._key, paths, overwrite)

    def to_bytes(self) -> bytes:
        """The file of `save` in memory, not encrypted: for a vault.

        Python wipes no memory: these bytes stay in it until something is written over them.

        Returns
        -------
        bytes
            The key. Anyone who has it can decrypt.

        Examples
        --------
        >>> again = becalm.SecretKey.from_bytes(secret.to_bytes(), allow_insecure=True)
        >>> again.key_id == secret.key_id
        True
        """
        return self._native.to_bytes()

    @classmethod
    @called("from_bytes")
    def from_bytes(cls, file: bytes, *, allow_insecure: bool = False) -> SecretKey:
        """A key from the bytes of a file, checked as by `becalm.load`.

        Parameters
        ----------
        file
            The bytes that `to_bytes` gave.
        allow_insecure
            Whether sets below 128 bits are accepted.

        Returns
        -------
        SecretKey
            The same key.

        Raises
        ------
        BadFile
            For bytes that were altered or are of another kind.
        Insecure
            For a set below 128 bits that was not allowed.

        Examples
        --------
        >>> again = becalm.SecretKey.from_bytes(secret.to_bytes(), allow_insecure=True)
        >>> again.key_id == secret.key_id
        True
        """
        data = _values.data("from_bytes", file)
        return cls(_native.SecretKey.from_bytes(data, bool(allow_insecure)))

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        rows = [("parameter set", self.params.name), ("key", self.key_id)]
        return "becalm.SecretKey", [*rows, ("keep", "with you; servers need none")]

    def __repr__(self) -> str:
        return f"<becalm.SecretKey {self.key_id} of {self.params.name}>"

    def __reduce__(self) -> NoReturn:
        remedy = "use save() and becalm.load(), and mind where the file goes"
        raise Unsupported("copy", "an object that is not secret", "a secret key", remedy)
