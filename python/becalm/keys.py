"""Keys: making them, and the secret one, which encrypts and decrypts."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterable
from typing import Any, NoReturn, overload

import numpy as np
import numpy.typing as npt

from becalm import _html, _native, _pair, _progress, _public, _types, _values, aes, ckks, integers
from becalm._names import CkksName, TfheName
from becalm._native import Params
from becalm._progress import Progress
from becalm._types import IntegerType
from becalm._values import TableSource
from becalm.aes import AesKey, EncryptedBytes
from becalm.ciphertext import Ciphertext, EncryptedTable, require
from becalm.errors import BadInput, OutOfMemory, Unsupported
from becalm.integers import Integers
from becalm.program import Table
from becalm.server import Server, SlotKey

__all__ = ["Keys", "SecretKey", "keygen"]
__dir__ = _public.names(__all__)


class Keys(_pair.Pair["SecretKey", Server]):
    """A secret key and the server that computes under it: `secret, server = becalm.keygen()`."""

    __slots__ = ()


class SecretKey(_html.Shown):
    """The secret key of one user: `secret.encrypt(values)` and `secret.decrypt(x)`, for every kind
    of TFHE ciphertext.

    It cannot be copied or pickled, its memory is wiped when it goes, and nothing that becalm
    prints contains any of it. `save` writes it where only its owner can read.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.SecretKey) -> None:
        if not isinstance(native, _native.SecretKey):
            remedy = "use becalm.keygen() or SecretKey.generate()"
            raise BadInput("secret key", "a key that becalm drew", type(native).__name__, remedy)
        self._native = native

    @classmethod
    def generate(cls, params: Any = "tfhe_2_2", *, allow_insecure: bool = False) -> SecretKey:
        """Draws a secret key from the system's randomness, without the server's half."""
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
        """Encrypts an integer, a list or an array of any shape.

        With a type (`becalm.uint(16)`, `becalm.boolean`, `np.uint8`) they are encrypted integers
        that compute as numpy's, after `on(server)`: `becalm.Integers`. Without one they are values
        of tables, as many as the set has: `becalm.Ciphertext`. The other arguments are for these.
        Bytes are encrypted as by `becalm.encrypt_bytes`.

        A common-mask set of w slots puts w values into each ciphertext, those of the last axis:
        rows of fewer are filled with zeros, and so is a flat array of more, which comes to have
        the shape (…, w). With `slot` values are encrypted one by one under the key of that slot
        instead; those of slot 0 can be packed by a server.

        Values are in 0 to `message` - 1 (by default all that the set's tables see). Values known
        to lie in 0 to `below` - 1 leave room for sums; `below` is public. Without `padding` sums
        wrap modulo `message`, but no table applies.

        Raises `BadInput` for values out of range. The message names their place only.

        >>> secret.encrypt([3, 1, 2]).range, secret.encrypt([500, 3], becalm.uint(16)).dtype
        ((0, 15), dtype('uint16'))
        """
        if type_ is not None:
            if (message, below, padding, slot) != (None, None, True, None):
                remedy = "leave them out: the type has its range"
                raise BadInput("encrypt", "a type alone", "further arguments", remedy)
            return integers.encrypted(self._native, _types.named("encrypt", type_), values)
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
            raise BadInput(
                "encrypt", "values from 0 up", f"a negative one at {at}", "take it modulo"
            )
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
        """Encrypts booleans (or 0 and 1) for the gates of a server."""
        return self.encrypt(values, below=2)

    def encrypt_table(
        self, source: TableSource | Table, *, message: int | None = None, out: int | None = None
    ) -> EncryptedTable:
        """Encrypts a lookup table, so that the server does not learn it; as `becalm.Table`."""
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
        got, remedy = type(x).__name__, "encrypt the value first"
        if isinstance(x, ckks.Ciphertext):
            got, remedy = "one of CKKS", 'decrypt it by the secret key that keygen("ckks") gave'
        elif isinstance(x, EncryptedTable):
            got, remedy = "an encrypted table", "look values up in it, and decrypt these"
        raise BadInput("decrypt", "something encrypted by TFHE", got, remedy)

    def pack_key(self) -> SlotKey:
        """The key with which a server packs plain values of slot 0; see `Server.pack`."""
        return SlotKey(self._native.pack_key())

    def slot_map_key(self, matrix: npt.ArrayLike) -> SlotKey:
        """The key of a private linear map between slots: slot j becomes the sum of
        `matrix[j][t]` times slot t. The server learns the sums of its rows and nothing else.
        """
        rows = _values.integers("slot_map", matrix)
        if rows.ndim != 2:
            remedy = "give a row for each slot"
            raise BadInput("slot_map", "a matrix", f"shape {rows.shape}", remedy)
        return SlotKey(self._native.slot_map_key(rows.tolist()))

    def decrypt_bool(self, x: Ciphertext) -> Any:
        """Booleans: a `bool` for a single one, else an array."""
        values = self.decrypt(require(x, "decrypt"))
        return values == 1 if isinstance(values, int) else values.astype(bool)

    def phases(self, x: Ciphertext) -> npt.NDArray[np.uint64]:
        """Messages with their noise, as 64-bit fractions of the torus; for measurements."""
        words = self._native.phases(require(x, "phases")._lwe)
        return _values.from_bytes(words, x.shape).astype(np.uint64)

    def server(
        self,
        *,
        backend: str = "auto",
        device: str | None = None,
        threads: int = 0,
        progress: Progress = None,
    ) -> Server:
        """Makes the evaluation key and a server that holds it."""
        machine = _values.machine(backend, device, self.params)
        with _progress.shown(progress, "keys", 0.0) as callback:
            key = self._native.evaluation_key(callback)
        return Server(key, backend=machine, threads=threads)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the key to a file that only its owner can read, for `becalm.load`."""
        self._native.save(path)

    def _save_with(self, server: Server, paths: tuple[str, str], overwrite: bool) -> None:
        self._native.save_with(server._key, paths, overwrite)

    def to_bytes(self) -> bytes:
        """The file of `save` in memory, not encrypted: for a vault.

        Python wipes no memory: these bytes stay in it until something is written over them.
        """
        return self._native.to_bytes()

    @classmethod
    def from_bytes(cls, file: bytes, *, allow_insecure: bool = False) -> SecretKey:
        """A key from the bytes of a file, checked as by `becalm.load`.

        Raises `BadFile` for bytes that were altered or are of another kind, and `Insecure` for sets
        below 128 bits unless `allow_insecure`.
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


@overload
def keygen(
    params: CkksName,
    *,
    slots: int | None = None,
    bootstrap: str | None = "medium",
    kinds: Iterable[str] | str | None = None,
    levels: int | None = None,
    stage_count: int | None = None,
    iterations: int = 1,
    rotations: Iterable[int] = (),
    conjugate: bool = True,
    needs: ckks.Needs | None = None,
    compact: bool | str = False,
    allow_insecure: bool = False,
    backend: str = "auto",
    device: str | None = None,
    threads: int = 0,
    progress: Progress = None,
) -> ckks.Keys: ...
@overload
def keygen(
    params: TfheName | Params | None = None,
    *,
    bits: int | None = None,
    slots: int | None = None,
    log2_pfail: float | None = None,
    allow_insecure: bool = False,
    backend: str = "auto",
    device: str | None = None,
    threads: int = 0,
    progress: Progress = None,
) -> Keys: ...
@overload
def keygen(params: str, **more: Any) -> Any: ...
def keygen(
    params: Any = None,
    *,
    bits: int | None = None,
    slots: int | None = None,
    log2_pfail: float | None = None,
    allow_insecure: bool = False,
    backend: str = "auto",
    device: str | None = None,
    threads: int = 0,
    progress: Progress = None,
    **of_ckks: Any,
) -> Any:
    """Makes a secret key and its server.

    `keygen("ckks", …)`, or the name of any CKKS set, makes keys as `becalm.ckks.keygen` does, whose
    reference has its arguments. The rest of this text is about TFHE.

    Choose a parameter set by name (`params="tfhe_2_2"`), or by need: `bits` that a table sees
    (4 by default), how many of them share one ciphertext behind a common mask (`slots`, 1 by
    default), and log2 of the failure probability of one bootstrap (at most -128 by default).
    Sets below 128 bits of security are refused unless `allow_insecure`.

    `device` is `"cpu"`, `"cuda"` or `"auto"` (the default): a GPU if there is one and its kernels
    run the set, else the CPU; a `RuntimeWarning` says why a GPU that is there is not taken, and the
    server's `repr` why there is none. With `threads` `"auto"` is the CPU. `backend` names the
    simulated machines too. A machine that is not there is refused before any key is made.

    The set and the size of its keys are printed to standard error before the work begins, and a bar
    shows the progress on a terminal or in a notebook. `progress=False` silences both,
    `progress=True` shows the bar anywhere, and a function is called with the steps done and all
    steps.
    """
    unknown = [n for n in of_ckks if n not in inspect.signature(ckks.keygen).parameters]
    if unknown:
        # The words of Python: no scheme has these arguments.
        raise TypeError(f"keygen() got an unexpected keyword argument {unknown[0]!r}")
    if isinstance(params, str) and params.startswith("ckks"):
        unfit = [n for n, v in (("bits", bits), ("log2_pfail", log2_pfail)) if v is not None]
        if unfit:
            got = ", ".join(unfit)
            raise BadInput("keygen", "arguments of becalm.ckks.keygen", got, "leave it out")
        same: dict[str, Any] = {"slots": slots, "threads": threads, "progress": progress}
        same.update(backend=backend, device=device, allow_insecure=allow_insecure)
        return ckks.keygen(params, **same, **of_ckks)
    if of_ckks:
        got = ", ".join(of_ckks)
        raise BadInput("keygen", "arguments of TFHE", got, 'they go with keygen("ckks")')
    if isinstance(params, (int, np.integer)) and not isinstance(params, bool):
        remedy = f"for the bits of a table, use keygen(bits={params})"
        if params > 8:
            remedy = "for wide integers keygen() suffices, and becalm.uint(bits) is their type"
        raise BadInput("keygen", "the name of a parameter set", f"the number {params}", remedy)
    if params is None:
        pfail = -128.0 if log2_pfail is None else log2_pfail
        chosen = find(4 if bits is None else bits, pfail, slots=1 if slots is None else slots)
    elif bits is None and log2_pfail is None and slots is None:
        chosen = _values.set_of("keygen", params)
    else:
        remedy = "leave one of them out"
        raise BadInput("keygen", "a set by name or by need", "both", remedy)
    chosen.require_secure(allow_insecure)
    machine = _values.machine(backend, device, chosen)
    _require_memory(chosen)
    if progress is not False and sys.stderr:
        print(_announcement(chosen), file=sys.stderr, flush=True)
    secret = SecretKey.generate(chosen, allow_insecure=allow_insecure)
    return Keys(secret, secret.server(backend=machine, threads=threads, progress=progress))


def find(
    bits: Any, log2_pfail: Any, modulus: str = "2^64", norm2: Any = 1.0, slots: Any = 1
) -> Params:
    """The cheapest standard set that meets a need."""
    wanted = min(_values.at_least_one("params", "bits", bits), 2**32 - 1)
    pfail = _values.real("params", "log2_pfail", log2_pfail)
    if not pfail < 0 or pfail == -np.inf:
        remedy = "as in log2_pfail=-128"
        raise BadInput("params", "log2 of a probability below 1", repr(log2_pfail), remedy)
    norm = _values.real("params", "norm2", norm2)
    each = _values.at_least_one("params", "slots", slots)
    return Params.find(wanted, pfail, str(modulus), norm, each)


def _announcement(p: Params) -> str:
    memory = p.bootstrap_key_bytes + p.key_switch_key_bytes
    slots = f" in each of {p.slots} slots" if p.slots > 1 else ""
    return (
        f"becalm: {p.name}, {p.security_bits:.1f} bits of security, failure 2^{p.log2_pfail:.1f} "
        f"per bootstrap, {p.values} values{slots}\n"
        f"becalm: making an evaluation key of {_values.megabytes(p.stored_key_bytes)} "
        f"({_values.megabytes(memory)} in memory when it computes)"
    )


def _require_memory(p: Params) -> None:
    """Refuses keys that the machine cannot hold, before the work rather than in its middle."""
    free = _native.free_memory()
    need = p.stored_key_bytes + p.bootstrap_key_bytes + p.key_switch_key_bytes
    if need > free:
        remedy = "choose a smaller set, or make the keys on another machine"
        raise OutOfMemory(
            "keygen", _values.megabytes(need), f"{_values.megabytes(free)} free", remedy
        )
