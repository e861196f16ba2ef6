"""becalm makes noisy ciphertexts calm again: bootstrapping of fully homomorphic encryption.

>>> import becalm
>>> secret, server = becalm.keygen(bits=4, progress=False)
>>> x = secret.encrypt([3, 1, 2])
>>> y = server.bootstrap(x, lambda m: (m * m + 1) % 16)
>>> secret.decrypt(y)
array([10,  2,  5])

The secret key encrypts and decrypts; the server computes and holds no secret. Without it, sums and
integer multiples (`x + y`, `3 * x - 1`) work as in numpy. `becalm.params()` lists the parameter
sets, `becalm.Program` records many steps as one, and `becalm.load` reads any file of `save`.
`becalm.ckks` computes on vectors of real and complex numbers. `becalm.circuit` turns boolean
circuits and traced functions into programs. `becalm.doctor()` checks this machine. Every
failure raises a `becalm.Error` that says what to do.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, overload

from becalm import (
    _ckks_ciphertext,
    _ckks_files,
    _ckks_packed,
    _ckks_program,
    _html,
    _integer_arrays,
    _native,
    _public,
    _tfhe_sets,
    _values,
    aes,
    ciphertext,
    circuit,
    ckks,
    integers,
)
from becalm._bridge import BridgeKey, PackingKey, bridge_key, packing_key
from becalm._called import called
from becalm._cluster import Cluster, cluster
from becalm._cluster_job import Job
from becalm._cluster_stream import Stream
from becalm._native import Params, __version__
from becalm._values import TableSource, count, set_of
from becalm.aes import AesKey, EncryptedBytes, aes128, aes_ctr, encrypt_bytes
from becalm.ciphertext import Ciphertext, EncryptedTable
from becalm.doctor import Report, doctor
from becalm.errors import (
    BadFile,
    BadIndex,
    BadInput,
    DeviceError,
    Error,
    Insecure,
    Interrupted,
    IoError,
    OutOfMemory,
    PrecisionWarning,
    TooNoisy,
    Unsupported,
    WrongKey,
    WrongParams,
)
from becalm.integers import Integers, IntegerType, boolean, int_, uint
from becalm.keys import Keys, SecretKey, keygen
from becalm.program import Cost, Program, Register, Table, TfheProgram, cost_of
from becalm.server import Server, SlotKey

__all__ = [
    "AesKey",
    "BadFile",
    "BadIndex",
    "BadInput",
    "BridgeKey",
    "Ciphertext",
    "Cluster",
    "Cost",
    "DeviceError",
    "EncryptedBytes",
    "EncryptedTable",
    "Error",
    "Insecure",
    "IntegerType",
    "Integers",
    "Interrupted",
    "IoError",
    "Job",
    "Keys",
    "OutOfMemory",
    "PackingKey",
    "Params",
    "PrecisionWarning",
    "Program",
    "Register",
    "Report",
    "SecretKey",
    "Server",
    "SlotKey",
    "Stream",
    "Table",
    "TooNoisy",
    "Unsupported",
    "WrongKey",
    "WrongParams",
    "__version__",
    "aes128",
    "aes_ctr",
    "boolean",
    "bridge_key",
    "circuit",
    "ckks",
    "cluster",
    "concatenate",
    "cost",
    "doctor",
    "encrypt_bytes",
    "from_bytes",
    "int_",
    "keygen",
    "load",
    "packing_key",
    "params",
    "stack",
    "uint",
]


def _look_for_nvrtc() -> None:
    """Tells where NVRTC may be: the wheel nvidia-cuda-nvrtc puts it into its own folder."""
    try:
        found = importlib.util.find_spec("nvidia")
    except ValueError:  # A module of that name made by hand.
        return
    # The library checks the version of each; of equals it takes the first.
    for place in (found and found.submodule_search_locations) or ():
        for folder in sorted(pathlib.Path(place).glob("cu*/lib")):
            _native.look_for_nvrtc(folder)


_look_for_nvrtc()


__dir__ = _public.names(__all__)


@overload
def params() -> list[Params]: ...
@overload
def params(name: str) -> Params: ...
@overload
def params(
    *,
    bits: int,
    slots: int = ...,
    log2_pfail: float = ...,
    modulus: str = ...,
    norm2: float = ...,
) -> Params: ...
@called("params")
def params(
    name: str | None = None,
    *,
    bits: int | None = None,
    slots: int | None = None,
    log2_pfail: float | None = None,
    modulus: str | None = None,
    norm2: float | None = None,
) -> Params | list[Params]:
    """Parameter sets: all of them, the one of a name, or the cheapest standard set for a need.

    Parameters
    ----------
    name
        Name of a set. Without a name and without `bits` the result is a list of all sets.
    bits
        How many bits a table sees.
    slots
        How many messages share a ciphertext behind a common mask, 1 by default. It goes with
        `bits`, and so do the arguments below.
    log2_pfail
        Largest log2 of the failure probability of one bootstrap, -128 by default.
    modulus
        `"2^64"` (the default) for CPU and GPU, `"p"` for the processor.
    norm2
        The 2-norm of linear combinations between bootstraps, 1 by default.

    Returns
    -------
    Params or list of Params
        One set, or all of them.

    Raises
    ------
    BadInput
        For a name and a need together, and for a need without `bits`.
    WrongParams
        For a name that no set has, or a need that no set meets.

    Examples
    --------
    >>> becalm.params("tfhe_2_2").values
    16
    >>> becalm.params(bits=6).name
    'tfhe_3_3_extended'
    """
    if name is not None and bits is not None:
        raise BadInput("params", "a name or a need", "both", "leave one of them out")
    if name is not None:
        _tfhe_sets.require_bits(slots=slots, log2_pfail=log2_pfail, modulus=modulus, norm2=norm2)
        return set_of("params", name)
    if bits is not None:
        return _tfhe_sets.find("params", bits, log2_pfail, modulus, norm2, slots)
    _tfhe_sets.require_bits(slots=slots, log2_pfail=log2_pfail, modulus=modulus, norm2=norm2)
    return _html.ParamsList(Params.all())


@overload
def cost(what: ckks.Program, on: Any = ..., *, lanes: int = ...) -> ckks.Cost: ...
@overload
def cost(
    what: TfheProgram | circuit.Circuit | TableSource | Table, on: Any = ..., *, lanes: int = ...
) -> Cost: ...
def cost(
    what: ckks.Program | TfheProgram | circuit.Circuit | TableSource | Table,
    on: Any = None,
    *,
    lanes: int = 1,
) -> Cost | ckks.Cost:
    """The cost of a program, or of one bootstrap through a table.

    Parameters
    ----------
    what
        A program of either scheme, or a circuit, which is compiled first; or a function, a list of
        entries or a `Table`.
    on
        A parameter set, its name, or a server; by default the set of a program, and `"tfhe_2_2"`
        for a table or a circuit. A server of TFHE estimates seconds from its last run.
    lanes
        Values computed side by side; for CKKS, vectors.

    Returns
    -------
    Cost or ckks.Cost
        Counts of bootstraps, key switches and more.

    Raises
    ------
    WrongParams
        For a program of another set.

    Examples
    --------
    >>> becalm.cost(lambda m: m * m % 16, "tfhe_2_2", lanes=100).bootstraps
    1
    """
    if isinstance(what, ckks.Program):
        return _ckks_program.cost_of(what, on, lanes)
    if isinstance(what, circuit.Circuit):
        what = what.compile("tfhe_2_2" if on is None else on)
    if isinstance(on, Server):
        return on.cost(what, lanes=lanes)
    return cost_of(what, on, lanes)


@overload
def concatenate(parts: Sequence[Ciphertext], axis: int = ...) -> Ciphertext: ...
@overload
def concatenate(parts: Sequence[Integers], axis: int = ...) -> Integers: ...
@called("concatenate")
def concatenate(parts: Sequence[Any], axis: int = 0) -> Any:
    """Encrypted arrays joined along an axis they have, as numpy's `concatenate`; not slots.

    Parameters
    ----------
    parts
        Ciphertexts, or integers of one type.
    axis
        The axis along which they are joined.

    Returns
    -------
    Ciphertext or Integers
        One array with all elements.

    Raises
    ------
    BadInput
        For shapes that do not fit together, or an axis of slots.
    Unsupported
        For vectors of CKKS, which `ckks.concatenate` joins.

    Examples
    --------
    >>> secret, server = becalm.keygen("toy_2_2", allow_insecure=True, progress=False)
    >>> x, y = secret.encrypt([3, 1]), secret.encrypt([2])
    >>> secret.decrypt(becalm.concatenate([x, y]))
    array([3, 1, 2])
    """
    return _joined(list(parts), lambda p: ciphertext.concatenate(p, axis))


@overload
def stack(parts: Sequence[Ciphertext], axis: int = ...) -> Ciphertext: ...
@overload
def stack(parts: Sequence[Integers], axis: int = ...) -> Integers: ...
@called("stack")
def stack(parts: Sequence[Any], axis: int = 0) -> Any:
    """Encrypted arrays of one shape along a new axis, as numpy's `stack`; slots stay last.

    Parameters
    ----------
    parts
        Ciphertexts, or integers of one type, all of one shape.
    axis
        Place of the new axis.

    Returns
    -------
    Ciphertext or Integers
        One array with all elements.

    Raises
    ------
    BadInput
        For shapes that differ.
    Unsupported
        For vectors of CKKS.

    Examples
    --------
    >>> secret, server = becalm.keygen("toy_2_2", allow_insecure=True, progress=False)
    >>> x, y = secret.encrypt([3, 1]), secret.encrypt([2, 0])
    >>> secret.decrypt(becalm.stack([x, y])).tolist()
    [[3, 1], [2, 0]]
    """
    return _joined(list(parts), lambda p: ciphertext.stack(p, axis))


def _joined(parts: list[Any], join: Callable[[list[Ciphertext]], Ciphertext]) -> Any:
    if any(isinstance(p, Integers) for p in parts):
        return _integer_arrays.joined(parts, join)
    if any(isinstance(p, (ckks.Ciphertext, ckks.Register)) for p in parts):
        remedy = "use ckks.concatenate([x, y], sizes), or keep them in a list"
        raise Unsupported("concatenate", "ciphertexts of TFHE", "vectors of CKKS", remedy)
    return join(parts)


@called("load")
def load(
    path: str | os.PathLike[str],
    *,
    allow_insecure: bool = False,
    limit: int | None = None,
    device: str = "auto",
    threads: int = 0,
) -> Any:
    """Reads any file that becalm wrote. The result has the class that `save` was called on.

    The claims of a file are checked, not trusted.

    Parameters
    ----------
    path
        The file.
    allow_insecure
        Whether sets below 128 bits are accepted.
    limit
        The largest number of bytes of a batch of ciphertexts or a program, 1 GiB by default.
    device, threads
        The machine of a server.

    Returns
    -------
    object
        A key, ciphertexts, a table, a program or a server. Ciphertexts and packed integers of CKKS
        come back without their server: use `server.load`, or `server.attach` afterwards.

    Raises
    ------
    BadFile
        For a file that was altered, cut, or is above the limit.
    Insecure
        For a set below 128 bits that was not allowed.
    IoError
        For a file that cannot be read.

    Examples
    --------
    >>> secret, server = becalm.keygen("toy_2_2", allow_insecure=True, progress=False)
    >>> secret.encrypt([3, 1, 2]).save("x.becalm")
    >>> x = becalm.load("x.becalm", allow_insecure=True)
    >>> secret.decrypt(x)
    array([3, 1, 2])
    """
    path = _values.path("load", path)
    kind, name = _native.kind_of_file(path)
    most = None if limit is None else count("load", "limit", limit)
    if kind == "becalm.secret_key":
        return SecretKey(_native.SecretKey.load(path, allow_insecure))
    if kind == "becalm.evaluation_key":
        key = _native.EvaluationKey.load(path, allow_insecure)
        return Server(key, device=device, threads=threads)
    if kind == "becalm.slot_key":
        return SlotKey(_native.SlotKey.load(path, allow_insecure))
    if kind == "becalm.bridge_key":
        return BridgeKey(_native.BridgeKey.load(path, allow_insecure))
    if kind == "becalm.packing_key":
        packing = _native.PackingKey.load(path, allow_insecure)
        return PackingKey._on(packing, allow_insecure, count("load", "threads", threads))
    if kind == "becalm.lwe":
        lwe, shape = _native.Lwe.load(path, allow_insecure, most)
        return Ciphertext(lwe, tuple(shape))
    if kind == "becalm.glwe":
        return EncryptedTable(_native.Glwe.load(path, allow_insecure, most))
    if kind == "becalm.integers":
        return integers.loaded(_native.load_integers(path, allow_insecure, most))
    if kind == "becalm.bits":
        return aes.loaded(_native.load_bits(path, allow_insecure, most))
    if kind == "becalm.program":
        return TfheProgram(_native.Program.load(path, allow_insecure, most))
    if kind == "becalm.ckks_secret_key":
        return ckks.load_secret_key(path, name, allow_insecure=allow_insecure, threads=threads)
    if kind == "becalm.ckks_public_key":
        return ckks.load_public_key(
            path, name, allow_insecure=allow_insecure, threads=threads, limit=most
        )
    if kind == "becalm.ckks_key_share":
        return ckks.load_key_share(path, name, allow_insecure=allow_insecure, threads=threads)
    if kind == "becalm.ckks_partial_decryption":
        return ckks.load_partial_decryption(
            path, name, allow_insecure=allow_insecure, threads=threads, limit=most
        )
    if kind == "becalm.ckks_party":
        return ckks.load_party(path, name, allow_insecure=allow_insecure, threads=threads)
    if kind == "becalm.ckks_party_message":
        return ckks.load_party_message(
            path, name, allow_insecure=allow_insecure, threads=threads, limit=most
        )
    if kind == "becalm.ckks_evaluation_keys":
        return ckks.load_server(path, allow_insecure=allow_insecure, device=device, threads=threads)
    if kind == "becalm.rlwe":
        machine = _ckks_ciphertext.machine(
            name, bool(allow_insecure), count("load", "threads", threads)
        )
        vector, _ = _native.CkksCiphertext.load(machine, path, most)
        return _ckks_packed.of_file(vector, None)
    if kind == "becalm.ckks_program":
        return ckks.Program(_native.CkksProgram.load(os.fspath(path), bool(allow_insecure), most))
    remedy = "use a newer version of becalm"
    raise BadFile("load", "a kind of file that this version knows", kind, remedy)


@called("from_bytes")
def from_bytes(
    file: bytes,
    *,
    allow_insecure: bool = False,
    limit: int | None = None,
    device: str = "auto",
    threads: int = 0,
) -> Any:
    """Reads bytes that `x.to_bytes()` made, of any class.

    A server reads messages from a network this way. It must never unpickle a stranger's message: a
    pickle is a program. To accept one class alone, call its own `from_bytes`, which refuses all
    others: `becalm.Ciphertext.from_bytes(body)`.

    Parameters
    ----------
    file
        The bytes.
    allow_insecure
        Whether sets below 128 bits are accepted.
    limit
        The largest number of bytes of a batch of ciphertexts or a program, 1 GiB by default. The
        masks of a seeded batch count. The size of a key follows from its parameter set.
    device, threads
        The machine of a server.

    Returns
    -------
    object
        A key, ciphertexts, a table, a program or a server. A ciphertext of CKKS comes back without
        its server: use `server.from_bytes` to keep it.

    Raises
    ------
    BadFile
        For bytes that were altered, cut, or are above the limit.
    Insecure
        For a set below 128 bits that was not allowed.
    Unsupported
        For evaluation keys of CKKS, which are gigabytes: save and load them as files.

    Examples
    --------
    >>> import becalm
    >>> secret, server = becalm.keygen("toy_2_2", allow_insecure=True, progress=False)
    >>> sent = secret.encrypt([3, 1, 2]).to_bytes(seeded=True)
    >>> x = becalm.from_bytes(sent, allow_insecure=True)
    >>> secret.decrypt(server.bootstrap(x, lambda m: m * m % 16))
    array([9, 1, 4])
    """
    data = _values.data("from_bytes", file)
    if data.startswith(b"becalm ckks"):
        remedy = "write them to a file, and read it with becalm.load"
        raise Unsupported("from_bytes", "anything but keys of CKKS servers", "these", remedy)
    kind, name = _native.kind_of_bytes(data)
    trust: dict[str, Any] = {"allow_insecure": allow_insecure}
    bounded = {**trust, "limit": limit}
    if kind == "becalm.secret_key":
        return SecretKey.from_bytes(data, **trust)
    if kind == "becalm.evaluation_key":
        return Server.from_bytes(data, **trust, device=device, threads=threads)
    if kind == "becalm.slot_key":
        return SlotKey.from_bytes(data, **trust)
    if kind == "becalm.bridge_key":
        return BridgeKey.from_bytes(data, **trust)
    if kind == "becalm.packing_key":
        return PackingKey.from_bytes(data, **trust, threads=threads)
    if kind == "becalm.lwe":
        return Ciphertext.from_bytes(data, **bounded)
    if kind == "becalm.glwe":
        return EncryptedTable.from_bytes(data, **bounded)
    if kind == "becalm.integers":
        return Integers.from_bytes(data, **bounded)
    if kind == "becalm.bits":
        most = _values.limit("from_bytes", limit)
        return aes.loaded(_native.bits_from_bytes(data, bool(allow_insecure), most))
    if kind in ("becalm.program", "becalm.ckks_program"):
        return Program.from_bytes(data, **bounded)
    return _ckks_files.from_bytes(data, kind, name, limit=limit, threads=threads, **trust)
