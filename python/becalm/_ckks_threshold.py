"""Threshold decryption: shares of a secret key and parts of a decryption, for `becalm.ckks`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy.typing as npt

from becalm import _html, _native, _values
from becalm._called import called
from becalm._ckks_ciphertext import Ciphertext, machine, require
from becalm._ckks_sets import Params, params
from becalm._ckks_vector import array
from becalm._files import of_kind
from becalm.errors import BadFile, BadInput, Unsupported


class KeyShare(_html.Shown):
    """A party's share of a secret key, which `SecretKey.split` makes.

    It cannot be copied or pickled, its memory is wiped when it goes, and nothing that becalm prints
    contains any of it.

    Examples
    --------
    >>> shares = secret.split(parties=3, threshold=2)
    >>> [share.party for share in shares]
    [1, 2, 3]
    """

    __slots__ = ("_name", "_native")

    def __init__(self, name: str, native: _native.CkksKeyShare) -> None:
        self._name = name
        self._native = native

    @property
    def params(self) -> Params:
        """The parameter set."""
        found: Params = params(self._name)
        return found

    @property
    def key_id(self) -> str:
        """Identity of the secret key."""
        return self._native.key_id

    @property
    def party(self) -> int:
        """Number of the party that the share is for, from 1."""
        return self._native.party

    @property
    def parties(self) -> int:
        """How many parties have shares."""
        return self._native.parties

    @property
    def threshold(self) -> int:
        """How many of them decrypt together."""
        return self._native.threshold

    def decrypt_partially(
        self, x: Ciphertext, *, quorum: Iterable[int], precision_bits: float, queries: int
    ) -> PartialDecryption:
        """This party's part of the decryption of `x`, for `combine`.

        Decrypt only what you know to be the result of the agreed computation: a part of a chosen
        ciphertext gives the share away. A ciphertext with an unknown account raises `BadInput`: see
        `Ciphertext.vouched`.

        Parameters
        ----------
        x
            The ciphertext.
        quorum
            Numbers of the parties that decrypt, as many as `threshold`, this one among them.
        precision_bits
            The noise of the part has standard deviation 2^-`precision_bits` in a slot, and hides
            the error of the ciphertext, even from all other parties together. Combined values have
            the noise of all parts, the root of `threshold` times as much.
        queries
            The number of decryptions under the key that will be shared in all. Each call spends
            1/`queries` of the share's budget; when it is spent, further calls raise `BadInput`. The
            share counts in memory (`spent`), as a secret key does.

        Returns
        -------
        PartialDecryption
            For those who may know the values.

        Raises
        ------
        TooNoisy
            For more bits than the account allows; the message says how many it allows.
        BadInput
            For another quorum, for an unknown account, and when the budget is spent.

        Examples
        --------
        >>> x = secret.encrypt([0.5, -0.25])
        >>> first, _, third = secret.split(parties=3, threshold=2)
        >>> parts = [
        ...     share.decrypt_partially(x, quorum=[1, 3], precision_bits=5, queries=10)
        ...     for share in (first, third)
        ... ]
        >>> bool(abs(ckks.combine(x, parts)[0] - 0.5) < 0.4)
        True
        """
        op = "decrypt_partially"
        if isinstance(quorum, (str, bytes)) or not isinstance(quorum, Iterable):
            remedy = "name all parties of the quorum, as in quorum=[1, 3]"
            raise BadInput(op, "numbers of parties", type(quorum).__name__, remedy)
        parties = [_values.count(op, "quorum", party) for party in quorum]
        bits = _values.real(op, "precision_bits", precision_bits)
        times = _values.at_least_one(op, "queries", queries)
        native = require(x, op)._native
        part = self._native.decrypt_partially(native, parties, bits, times)
        return PartialDecryption(self._name, part)

    def bits_to_decrypt_partially(self, x: Ciphertext, *, queries: int) -> float:
        """The largest `precision_bits` of `decrypt_partially` for a number of decryptions.

        Parameters
        ----------
        x
            A ciphertext.
        queries
            How many decryptions will be shared in all.

        Returns
        -------
        float
            Bits.

        Examples
        --------
        >>> share, _ = secret.split(parties=2, threshold=2)
        >>> share.bits_to_decrypt_partially(secret.encrypt([0.5]), queries=10) > 5
        True
        """
        op = "bits_to_decrypt_partially"
        times = _values.at_least_one(op, "queries", queries)
        return self._native.bits_to_decrypt_partially(require(x, op)._native, times)

    @property
    def spent(self) -> float:
        """The part of the budget that `decrypt_partially` has spent, 0 to 1, since this share was
        made or read.
        """
        return self._native.spent

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the share to a file that only its owner can read, for `load_key_share`.

        Examples
        --------
        >>> share, _ = secret.split(parties=2, threshold=2)
        >>> share.save("share.becalm")
        >>> becalm.load("share.becalm", allow_insecure=True).party
        1
        """
        self._native.save(_values.path("save", path))

    def to_bytes(self) -> bytes:
        """The file of `save` in memory, not encrypted: for a secret channel to the party.

        Python wipes no memory: these bytes stay in it until something is written over them.

        Returns
        -------
        bytes
            The share. Whoever has enough of them can decrypt.

        Examples
        --------
        >>> share, _ = secret.split(parties=2, threshold=2)
        >>> becalm.from_bytes(share.to_bytes(), allow_insecure=True).threshold
        2
        """
        return self._native.to_bytes()

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        party = f"{self.party} of {self.parties}, of whom {self.threshold} decrypt"
        rows = [("parameter set", self._name), ("party", party), ("key", self.key_id)]
        return "becalm.ckks.KeyShare", [*rows, ("keep", "with the party; servers need none")]

    def __repr__(self) -> str:
        return f"<becalm.ckks.KeyShare of party {self.party} of {self.parties}, key {self.key_id}>"

    def __reduce__(self) -> NoReturn:
        remedy = "use save() and load_key_share(), and mind where the file goes"
        raise Unsupported("copy", "an object that is not secret", "a share of a key", remedy)


class PartialDecryption(_html.Shown):
    """A party's part of a decryption, which `KeyShare.decrypt_partially` makes.

    Examples
    --------
    >>> share, _ = secret.split(parties=2, threshold=2)
    >>> x = secret.encrypt([0.5])
    >>> part = share.decrypt_partially(x, quorum=[1, 2], precision_bits=5, queries=10)
    >>> part.party, part.quorum
    (1, [1, 2])
    """

    __slots__ = ("_name", "_native")

    def __init__(self, name: str, native: _native.CkksPartialDecryption) -> None:
        self._name = name
        self._native = native

    @property
    def key_id(self) -> str:
        """Identity of the secret key."""
        return self._native.key_id

    @property
    def party(self) -> int:
        """Number of the party that gave it."""
        return self._native.party

    @property
    def quorum(self) -> list[int]:
        """Numbers of the parties whose parts `combine` needs."""
        return self._native.quorum

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the part to a file, for `load_partial_decryption`.

        Examples
        --------
        >>> share, _ = secret.split(parties=2, threshold=2)
        >>> x = secret.encrypt([0.5])
        >>> part = share.decrypt_partially(x, quorum=[1, 2], precision_bits=5, queries=10)
        >>> part.save("part.becalm")
        >>> becalm.load("part.becalm", allow_insecure=True).party
        1
        """
        self._native.save(_values.path("save", path))

    def to_bytes(self) -> bytes:
        """The file of `save` in memory; `becalm.from_bytes` reads it.

        Returns
        -------
        bytes
            The part.

        Examples
        --------
        >>> share, _ = secret.split(parties=2, threshold=2)
        >>> x = secret.encrypt([0.5])
        >>> part = share.decrypt_partially(x, quorum=[1, 2], precision_bits=5, queries=10)
        >>> becalm.from_bytes(part.to_bytes(), allow_insecure=True).quorum
        [1, 2]
        """
        return self._native.to_bytes()

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        quorum = ", ".join(map(str, self.quorum))
        rows = [("parameter set", self._name), ("party", str(self.party)), ("quorum", quorum)]
        return "becalm.ckks.PartialDecryption", [*rows, ("key", self.key_id)]

    def __repr__(self) -> str:
        return f"<becalm.ckks.PartialDecryption of party {self.party} of {self.quorum}>"

    def __reduce__(self) -> NoReturn:
        remedy = "use to_bytes() and becalm.from_bytes()"
        raise Unsupported("copy", "an object that can be pickled", "a partial decryption", remedy)


def combine(x: Ciphertext, parts: Sequence[PartialDecryption]) -> npt.NDArray[Any]:
    """The values of a ciphertext from the parts of a whole quorum: real ones where all are known to
    be real. They have the noise of all parts.

    Parameters
    ----------
    x
        The ciphertext.
    parts
        One part of every party of the quorum.

    Returns
    -------
    array
        The values with the noise of all parts.

    Raises
    ------
    BadInput
        For parts of another ciphertext, splitting or quorum, and where one is missing or is given
        twice.
    WrongKey
        For parts of another key.

    Examples
    --------
    >>> x = secret.encrypt([0.5, -0.25])
    >>> options = {"quorum": [1, 2], "precision_bits": 5, "queries": 10}
    >>> shares = secret.split(parties=2, threshold=2)
    >>> values = ckks.combine(x, [s.decrypt_partially(x, **options) for s in shares])
    >>> bool(abs(values[0] - 0.5) < 0.4)
    True
    """
    op = "combine"
    native = require(x, op)._native
    for part in parts:
        if not isinstance(part, PartialDecryption):
            remedy = "pass what decrypt_partially returned, of every party of the quorum"
            raise BadInput(op, "partial decryptions", type(part).__name__, remedy)
    return array(_native.ckks_combine(native, [part._native for part in parts]), x.real)


@called("load_key_share")
def load_key_share(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    allow_insecure: bool = False,
    threads: int = 0,
) -> KeyShare:
    """Reads a party's share. Its parameter set stands in the file; a `name` is held against it.

    Parameters
    ----------
    path
        The file.
    name
        The parameter set that the file must have.
    allow_insecure
        Whether sets below 128 bits are accepted.
    threads
        How many threads compute; 0 means all.

    Returns
    -------
    KeyShare
        The share.

    Raises
    ------
    BadFile
        For a file that was altered, cut, or is of another kind.

    Examples
    --------
    >>> share, _ = secret.split(parties=2, threshold=2)
    >>> share.save("first.becalm")
    >>> ckks.load_key_share("first.becalm", allow_insecure=True).parties
    2
    """
    kind = "becalm.ckks_key_share"
    file, found = file_of(path, kind, name)
    own = machine(found, bool(allow_insecure), _values.count("load", "threads", threads))
    with of_kind("load", file, kind):
        return KeyShare(own.name, _native.CkksKeyShare.load(own, file))


@called("load_partial_decryption")
def load_partial_decryption(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    allow_insecure: bool = False,
    threads: int = 0,
    limit: int | None = None,
) -> PartialDecryption:
    """Reads a part of a decryption, of at most `limit` bytes (1 GiB by default).

    No file can say whose part it is: take it from the party.

    Parameters
    ----------
    path
        The file.
    name
        The parameter set that the file must have.
    allow_insecure
        Whether sets below 128 bits are accepted.
    threads
        How many threads compute; 0 means all.
    limit
        The largest number of bytes.

    Returns
    -------
    PartialDecryption
        The part.

    Raises
    ------
    BadFile
        For a file that was altered, cut, or is of another kind.

    Examples
    --------
    >>> share, _ = secret.split(parties=2, threshold=2)
    >>> x = secret.encrypt([0.5])
    >>> part = share.decrypt_partially(x, quorum=[1, 2], precision_bits=5, queries=10)
    >>> part.save("part.becalm")
    >>> ckks.load_partial_decryption("part.becalm", allow_insecure=True).party
    1
    """
    kind = "becalm.ckks_partial_decryption"
    file, found = file_of(path, kind, name)
    most = _values.limit("load", limit)
    own = machine(found, bool(allow_insecure), _values.count("load", "threads", threads))
    with of_kind("load", file, kind):
        return PartialDecryption(own.name, _native.CkksPartialDecryption.load(own, file, most))


def file_of(path: str | os.PathLike[str], wanted: str, name: str | None) -> tuple[str, str]:
    """The name of a file of this kind, and that of its set."""
    file = _values.path("load", path)
    with of_kind("load", file, wanted):
        kind, found = _native.kind_of_file(file)
        if kind != wanted:
            raise BadFile("load", wanted, kind, "choose another file")
    return file, found if name is None else str(name)


def of_bytes(
    file: bytes, kind: str, on: _native.CkksMachine, limit: int | None
) -> KeyShare | PartialDecryption | None:
    """The object in the bytes of a file; none for one of another kind."""
    if kind == "becalm.ckks_key_share":
        return KeyShare(on.name, _native.CkksKeyShare.from_bytes(on, file))
    if kind == "becalm.ckks_partial_decryption":
        part = _native.CkksPartialDecryption.from_bytes(on, file, limit)
        return PartialDecryption(on.name, part)
    return None
