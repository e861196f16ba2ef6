"""The bridge between CKKS and TFHE: packed integers as single ciphertexts, and back."""

from __future__ import annotations

import math
import os
from typing import Any

from becalm import _html, _native, _values
from becalm._called import called
from becalm._ckks_ciphertext import machine
from becalm._ckks_packed import PackedArray, _count
from becalm._ckks_sets import Params as CkksParams
from becalm._ckks_sets import params as ckks_params
from becalm._native import Params
from becalm._tfhe_secret_key import SecretKey
from becalm.ciphertext import Ciphertext
from becalm.ckks import SecretKey as CkksSecretKey
from becalm.errors import BadInput


class _Key(_html.Shown):
    """A key from one scheme to the other."""

    __slots__ = ("_native",)
    _native: Any

    def __init__(self, native: Any) -> None:
        self._native = native

    @property
    def key_id(self) -> str:
        """Identity of the secret key of the results; public."""
        found: str = self._native.key_id
        return found

    @property
    def source(self) -> tuple[str, str]:
        """The parameter set of its arguments, and the identity of their secret key."""
        found: tuple[str, str] = self._native.source
        return found

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        found: int = self._native.nbytes
        return found

    @property
    def noise(self) -> float:
        """The standard deviation of the error that it adds to an integer, as a part of the whole
        torus. An integer of b bits has room for 2^-(b + 1)."""
        return math.sqrt(self._native.noise)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the key to a file, for `becalm.load`.

        Parameters
        ----------
        path
            The file.

        Raises
        ------
        IoError
            If writing fails; then an old file is as it was.

        Examples
        --------
        >>> many, lookups = becalm.keygen("ckks_toy_table_4", allow_insecure=True, progress=False)
        >>> one, server = becalm.keygen("tfhe_2_2", progress=False)
        >>> becalm.bridge_key(many, one).save("bridge.becalm")
        >>> becalm.load("bridge.becalm", allow_insecure=True).key_id == one.key_id
        True
        """
        self._native.save(_values.path("save", path))

    def to_bytes(self) -> bytes:
        """The file of `save` in memory; `from_bytes` reads it.

        Returns
        -------
        bytes
            The key, which holds no secret.

        Examples
        --------
        >>> many, lookups = becalm.keygen("ckks_toy_table_4", allow_insecure=True, progress=False)
        >>> one, server = becalm.keygen("tfhe_2_2", progress=False)
        >>> sent = becalm.bridge_key(many, one).to_bytes()
        >>> becalm.from_bytes(sent, allow_insecure=True).source == ("ckks_toy_table_4", many.key_id)
        True
        """
        file: bytes = self._native.to_bytes()
        return file

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels as the bytes of its file."""
        return _restored, (type(self), self.to_bytes(), not self._native.secure)

    def _target(self) -> str:
        """The parameter set of the results."""
        raise NotImplementedError

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        name, key = self.source
        return f"becalm.{type(self).__name__}", [
            ("from", f"{name}, key {key}"),
            ("to", f"{self._target()}, key {self.key_id}"),
            ("size", _values.megabytes(self.nbytes)),
            ("noise", f"2^{math.log2(self.noise):.1f}"),
        ]

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"<becalm.{name} from {self.source[0]} to {self._target()}, key {self.key_id}>"


def _restored(kind: Any, file: bytes, insecure: bool) -> Any:
    return kind.from_bytes(file, allow_insecure=insecure)


class BridgeKey(_Key):
    """Turns packed integers of CKKS into ciphertexts of TFHE. `bridge_key` makes it, and a server
    has it. `source` says which integers it takes; `params` and `key_id` are those of the results.

    It holds no secret, but whoever has the TFHE key reads the CKKS key from it.

    Examples
    --------
    >>> many, lookups = becalm.keygen("ckks_toy_table_4", allow_insecure=True, progress=False)
    >>> one, server = becalm.keygen("tfhe_2_2", progress=False)
    >>> bridge = becalm.bridge_key(many, one)
    >>> x = many.encrypt_packed([3, 1, 4, 7], bits=4)
    >>> one.decrypt(bridge.unpack(x + x)).tolist()
    [6, 2, 8, 14]
    """

    __slots__ = ()

    @property
    def params(self) -> Params:
        """The parameter set of the ciphertexts that it gives."""
        found: Params = self._native.params
        return found

    def _target(self) -> str:
        return self.params.name

    @called("unpack")
    def unpack(
        self, x: PackedArray, start: int = 0, stop: int | None = None, *, below: int | None = None
    ) -> Ciphertext:
        """Packed integers as ciphertexts of TFHE, one for each.

        Sums, differences and products with integers that everybody knows stay exact modulo 2^bits.
        Tables of TFHE need the highest bit to be 0: promise it by `below`, after a table of packed
        integers has made it true.

        Parameters
        ----------
        x
            Packed integers.
        start, stop
            Which of them, in numpy's order of all; all by default. A ciphertext takes some
            kilobytes where a packed integer takes ten bytes.
        below
            A bound that all of these integers are under, at most 2^(bits - 1).

        Returns
        -------
        Ciphertext
            In the shape of `x` if it is all of it, else in one axis. Without its server:
            `server.bootstrap` takes it, and `server.attach` gives it one.

        Raises
        ------
        BadInput
            For places that `x` does not have, and for a bound that is too large.
        WrongKey, WrongParams
            For integers under another key than `source`.
        TooNoisy
            Where a result would be wrong more often than the TFHE set claims.
        OutOfMemory
            Where the ciphertexts do not fit. An array of several ciphertexts takes twice the
            result while it is unpacked.

        Examples
        --------
        >>> many, lookups = becalm.keygen("ckks_toy_table_4", allow_insecure=True, progress=False)
        >>> one, server = becalm.keygen("tfhe_2_2", progress=False)
        >>> bridge = becalm.bridge_key(many, one)
        >>> x = many.encrypt_packed([3, 1, 12, 7], bits=4)
        >>> y = bridge.unpack(lookups.lookup(x, lambda m: m // 2), 1, 3, below=8)
        >>> one.decrypt(server.bootstrap(y, lambda m: m * m % 8)).tolist()
        [0, 4]
        """
        if not isinstance(x, PackedArray):
            remedy = "make them by `encrypt_packed` of a secret key of CKKS with tables"
            raise BadInput("unpack", "packed integers", type(x).__name__, remedy)
        first = _values.count("unpack", "start", start)
        last = x.size if stop is None else _values.count("unpack", "stop", stop)
        bound = None if below is None else _values.count("unpack", "below", below)
        if not first < last <= x.size:
            wanted, got = f"places of the {x.size} integers", f"{first} to {last}"
            raise BadInput("unpack", wanted, got, "choose a start before the stop")
        found, begin = [], 0
        for part in x._parts:
            count = _count(part)
            low, high = max(first, begin), min(last, begin + count)
            if low < high:
                found.append(self._native.unpack(part, low - begin, high - begin, bound))
            begin += count
        whole = found[0] if len(found) == 1 else _native.Lwe.concat(found)
        return Ciphertext(whole, x.shape if last - first == x.size else (last - first,))

    @classmethod
    @called("from_bytes")
    def from_bytes(cls, file: bytes, *, allow_insecure: bool = False) -> BridgeKey:
        """A key from the bytes of a file, checked as by `becalm.load`.

        Parameters
        ----------
        file
            The bytes that `to_bytes` gave.
        allow_insecure
            Whether sets below 128 bits are accepted.

        Returns
        -------
        BridgeKey
            The same key.

        Raises
        ------
        BadFile
            For bytes that were altered or are of another kind.
        Insecure
            For a set below 128 bits that was not allowed.

        Examples
        --------
        >>> many, lookups = becalm.keygen("ckks_toy_table_4", allow_insecure=True, progress=False)
        >>> one, server = becalm.keygen("tfhe_2_2", progress=False)
        >>> sent = becalm.bridge_key(many, one).to_bytes()
        >>> becalm.BridgeKey.from_bytes(sent, allow_insecure=True).params.name
        'tfhe_2_2'
        """
        data = _values.data("from_bytes", file)
        return cls(_native.BridgeKey.from_bytes(data, bool(allow_insecure)))


class PackingKey(_Key):
    """Turns ciphertexts of TFHE into packed integers of CKKS. `packing_key` makes it, and a server
    has it. `source` says which ciphertexts it takes; `params` and `key_id` are those of the
    results.

    It holds no secret, but whoever has the CKKS key reads the TFHE key from it.

    Examples
    --------
    >>> many, lookups = becalm.keygen("ckks_toy_table_4", allow_insecure=True, progress=False)
    >>> one, server = becalm.keygen("tfhe_2_2", progress=False)
    >>> key = becalm.packing_key(one, many)
    >>> x = key.pack(one.encrypt([3, 1, 4, 15]), bits=4)
    >>> many.decrypt(lookups.lookup(x, lambda m: 15 - m)).tolist()
    [12, 14, 11, 0]
    """

    __slots__ = ("_machine",)

    def __init__(self, native: _native.PackingKey, machine: _native.CkksMachine) -> None:
        super().__init__(native)
        self._machine = machine

    @property
    def params(self) -> CkksParams:
        """The parameter set of the integers that it gives."""
        return ckks_params(self._native.params)

    def _target(self) -> str:
        return self.params.name

    @called("pack")
    def pack(self, x: Ciphertext, *, bits: int) -> PackedArray:
        """Ciphertexts of TFHE as packed integers, in the same order.

        An integer m becomes m modulo 2^bits. Its encoding has to leave room for that: 2^bits values
        over the whole torus, or 2^(bits - 1) or 2^bits of them below a padding bit, as the results
        of a table. With 2^bits values below a padding bit the error doubles.

        Parameters
        ----------
        x
            Ciphertexts of any shape. Those of a table have the least error.
        bits
            Bits of an integer, 1 to 4.

        Returns
        -------
        PackedArray
            In the shape of `x`, in as many ciphertexts as it takes. Without its server: give it to
            `lookup` of a server of the CKKS key.

        Raises
        ------
        BadInput
            For other arguments, and for an encoding or values that do not fit the bits.
        WrongKey, WrongParams
            For ciphertexts under another key than `source`.
        TooNoisy
            Where an integer could be wrong.

        Examples
        --------
        >>> many, lookups = becalm.keygen("ckks_toy_table_4", allow_insecure=True, progress=False)
        >>> one, server = becalm.keygen("tfhe_2_2", progress=False)
        >>> key = becalm.packing_key(one, many)
        >>> x = server.bootstrap(one.encrypt([[3, 1], [2, 0]]), lambda m: m * m % 16)
        >>> many.decrypt(key.pack(x, bits=4)).tolist()
        [[9, 1], [4, 0]]
        """
        if not isinstance(x, Ciphertext):
            remedy = "make them by `encrypt` of a secret key of TFHE, or by `bootstrap`"
            raise BadInput("pack", "ciphertexts of TFHE", type(x).__name__, remedy)
        width, total, most = _values.count("pack", "bits", bits), x.size, self._native.integers
        lanes = [(i, min(i + most, total)) for i in range(0, max(total, 1), most)]
        parts = [self._native.pack(self._machine, x._lwe, lane, width) for lane in lanes]
        return PackedArray(parts, x.shape, None)

    @classmethod
    @called("from_bytes")
    def from_bytes(
        cls, file: bytes, *, allow_insecure: bool = False, threads: int = 0
    ) -> PackingKey:
        """A key from the bytes of a file, checked as by `becalm.load`.

        Parameters
        ----------
        file
            The bytes that `to_bytes` gave.
        allow_insecure
            Whether sets below 128 bits are accepted.
        threads
            How many threads compute; 0 means all.

        Returns
        -------
        PackingKey
            The same key.

        Raises
        ------
        BadFile
            For bytes that were altered or are of another kind.
        Insecure
            For a set below 128 bits that was not allowed.

        Examples
        --------
        >>> many, lookups = becalm.keygen("ckks_toy_table_4", allow_insecure=True, progress=False)
        >>> one, server = becalm.keygen("tfhe_2_2", progress=False)
        >>> sent = becalm.packing_key(one, many).to_bytes()
        >>> becalm.PackingKey.from_bytes(sent, allow_insecure=True).params.name
        'ckks_toy_table_4'
        """
        data = _values.data("from_bytes", file)
        native = _native.PackingKey.from_bytes(data, bool(allow_insecure))
        return cls._on(native, allow_insecure, _values.count("from_bytes", "threads", threads))

    @classmethod
    def _on(cls, native: _native.PackingKey, allow_insecure: bool, threads: int) -> PackingKey:
        """A key that was read, on a machine of its set."""
        return cls(native, machine(native.params, bool(allow_insecure), threads))


@called("bridge_key")
def bridge_key(source: CkksSecretKey, to: SecretKey) -> BridgeKey:
    """Makes the key that turns packed integers into ciphertexts of TFHE.

    It is as hard to break as the TFHE set. Whoever has the TFHE secret key computes the CKKS secret
    key from it, so from then on both protect no more than the weaker set.

    Parameters
    ----------
    source
        A secret key of a CKKS set with tables, such as `ckks_table_4`.
    to
        A secret key of a TFHE set whose ciphertexts rest under the big key, such as `tfhe_2_2`. Its
        dimension is at most the degree of the other set.

    Returns
    -------
    BridgeKey
        A public key: 2 MB in memory for `ckks_table_4`, and 0.4 MB in a file.

    Raises
    ------
    BadInput
        For other arguments.
    WrongParams
        For sets that no bridge joins.
    Insecure
        For a TFHE set below 128 bits, unless the CKKS set is a toy.

    Examples
    --------
    >>> many, lookups = becalm.keygen("ckks_toy_table_4", allow_insecure=True, progress=False)
    >>> one, server = becalm.keygen("tfhe_2_2", progress=False)
    >>> bridge = becalm.bridge_key(many, one)
    >>> bridge.noise < 2**-16
    True
    """
    if not isinstance(source, CkksSecretKey) or not isinstance(to, SecretKey):
        wanted = "a secret key of CKKS and one of TFHE"
        got = f"{type(source).__name__} and {type(to).__name__}"
        raise BadInput("bridge_key", wanted, got, "give both in this order")
    return BridgeKey(_native.BridgeKey.make(source._native, to._native))


@called("packing_key")
def packing_key(source: SecretKey, to: CkksSecretKey) -> PackingKey:
    """Makes the key that turns ciphertexts of TFHE into packed integers.

    It is as hard to break as the weaker of the two sets. Whoever has the CKKS secret key computes
    the TFHE secret key from it.

    Parameters
    ----------
    source
        A secret key of a TFHE set whose ciphertexts rest under the big key, such as `tfhe_2_2`. Its
        dimension is at most the degree of the other set.
    to
        A secret key of a CKKS set with tables, such as `ckks_table_4`.

    Returns
    -------
    PackingKey
        A public key.

    Raises
    ------
    BadInput
        For other arguments.
    WrongParams
        For sets that no bridge joins.
    Insecure
        For a TFHE set below 128 bits, unless the CKKS set is a toy.

    Examples
    --------
    >>> many, lookups = becalm.keygen("ckks_toy_table_4", allow_insecure=True, progress=False)
    >>> one, server = becalm.keygen("tfhe_2_2", progress=False)
    >>> key = becalm.packing_key(one, many)
    >>> key.noise < 2**-15
    True
    """
    if not isinstance(source, SecretKey) or not isinstance(to, CkksSecretKey):
        wanted = "a secret key of TFHE and one of CKKS"
        got = f"{type(source).__name__} and {type(to).__name__}"
        raise BadInput("packing_key", wanted, got, "give both in this order")
    return PackingKey(_native.PackingKey.make(source._native, to._native), to._machine)
