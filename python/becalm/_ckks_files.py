"""The files of CKKS that hold keys, and all that travels as bytes."""

from __future__ import annotations

import os
from typing import Any

from becalm import _ckks_collective, _native, _values
from becalm._called import called
from becalm._ckks_ciphertext import Ciphertext, machine
from becalm._ckks_collective import Party, PartyMessage
from becalm._ckks_packed import PackedArray, of_file
from becalm._ckks_secret_key import PublicKey, SecretKey
from becalm._ckks_sets import params, slots_of
from becalm._ckks_threshold import KeyShare, PartialDecryption, of_bytes
from becalm._files import of_kind
from becalm.errors import BadFile


@called("load_secret_key")
def load_secret_key(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    slots: int | None = None,
    allow_insecure: bool = False,
    threads: int = 0,
) -> SecretKey:
    """Reads a secret key. Its parameter set stands in the file; a `name` is held against it.

    `slots` is how many values `encrypt` takes, by default all that fit: the file does not say.

    Parameters
    ----------
    path
        The file.
    name
        The parameter set that the file must have.
    slots
        How many values `encrypt` takes.
    allow_insecure
        Whether sets below 128 bits are accepted.
    threads
        How many threads compute; 0 means all.

    Returns
    -------
    SecretKey
        It knows no server.

    Raises
    ------
    BadFile
        For a file that was altered, cut, or is of another kind.

    Examples
    --------
    >>> secret.save("secret.becalm")
    >>> again = ckks.load_secret_key("secret.becalm", slots=4, allow_insecure=True)
    >>> again.decrypt(secret.encrypt([1, 2, 3, 4], bound=4)).round(2).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    file, machine, wide = _key_file(path, "secret", name, slots, allow_insecure, threads)
    return SecretKey(machine, _native.CkksSecretKey.load(machine, file), wide)


@called("load_public_key")
def load_public_key(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    slots: int | None = None,
    allow_insecure: bool = False,
    threads: int = 0,
    limit: int | None = None,
) -> PublicKey:
    """Reads a public key of at most `limit` bytes (1 GiB by default), as `load_secret_key`.

    No file can say whose key it is, and `key_id` is a text in it that anybody can copy. Take the
    key from its owner over a channel that nobody else writes to.

    Parameters
    ----------
    path
        The file.
    name
        The parameter set that the file must have.
    slots
        How many values `encrypt` takes.
    allow_insecure
        Whether sets below 128 bits are accepted.
    threads
        How many threads compute; 0 means all.
    limit
        The largest number of bytes.

    Returns
    -------
    PublicKey
        It knows no server.

    Raises
    ------
    BadFile
        For a file that was altered, cut, or is of another kind.

    Examples
    --------
    >>> secret.public_key().save("public.becalm")
    >>> public = ckks.load_public_key("public.becalm", slots=4, allow_insecure=True)
    >>> secret.decrypt(public.encrypt([1, 2, 3, 4], bound=4)).round(2).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    file, machine, wide = _key_file(path, "public", name, slots, allow_insecure, threads)
    most = _values.limit("load", limit)
    native = _native.CkksPublicKey.load(machine, file, most)
    return PublicKey(native, params(machine.name).levels, wide, None)


def _key_file(
    path: str | os.PathLike[str],
    which: str,
    name: str | None,
    slots: int | None,
    allow_insecure: bool,
    threads: int,
) -> tuple[Any, _native.CkksMachine, int]:
    """The file of a secret or a public key, a machine of its set, and how many values it takes."""
    file = _values.path("load", path)
    with of_kind("load", file, f"becalm.ckks_{which}_key"):
        kind, found = _native.kind_of_file(file)
        if kind != f"becalm.ckks_{which}_key":
            raise BadFile("load", f"a {which} key of CKKS", kind, "choose another file")
    count = _values.count("load", "threads", threads)
    machine = _native.CkksMachine(found if name is None else str(name), allow_insecure, count)
    return file, machine, slots_of("load", slots, machine.name)


def from_bytes(
    file: bytes,
    kind: str,
    name: str,
    *,
    allow_insecure: bool,
    limit: int | None,
    threads: int,
) -> (
    SecretKey
    | PublicKey
    | Ciphertext
    | PackedArray
    | KeyShare
    | PartialDecryption
    | Party
    | PartyMessage
):
    """The object in the bytes of a CKKS file. A ciphertext comes without its server."""
    op = "from_bytes"
    most, count = _values.limit(op, limit), _values.count(op, "threads", threads)
    if kind == "becalm.rlwe":
        shared = machine(name, bool(allow_insecure), count)
        native, _ = _native.CkksCiphertext.from_bytes(shared, file, most)
        return of_file(native, None)
    own = _native.CkksMachine(name, bool(allow_insecure), count)
    wide = params(own.name).slots
    if kind == "becalm.ckks_secret_key":
        return SecretKey(own, _native.CkksSecretKey.from_bytes(own, file), wide)
    if kind == "becalm.ckks_public_key":
        public = _native.CkksPublicKey.from_bytes(own, file, most)
        return PublicKey(public, params(own.name).levels, wide, None)
    part = of_bytes(file, kind, own, most)
    if part is not None:
        return part
    told = _ckks_collective.of_bytes(file, kind, own, most)
    if told is not None:
        return told
    remedy = "use a newer version of becalm"
    raise BadFile(op, "a kind of file that this version knows", kind, remedy)
