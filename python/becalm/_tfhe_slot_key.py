"""Keys between the slots of a common-mask set."""

from __future__ import annotations

import os
from typing import Any

from becalm import _html, _native, _values
from becalm._called import called
from becalm._native import Params


class SlotKey(_html.Shown):
    """A key between the slots of a common-mask set, for `Server.add_key`; holds no secret.

    Examples
    --------
    >>> secret, server = becalm.keygen("toy_cm_1_1_w2", allow_insecure=True, progress=False)
    >>> secret.slot_map_key([[0, 1], [1, 0]]).sums
    (1, 0)
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.SlotKey) -> None:
        self._native = native

    @property
    def params(self) -> Params:
        """The parameter set."""
        return self._native.params

    @property
    def key_id(self) -> str:
        """Identity of the secret key; public."""
        return self._native.key_id

    @property
    def sums(self) -> tuple[int, int] | None:
        """Largest sums of positive and of negative entries of a map's rows; `None` for packing."""
        return self._native.sums

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the key to a file, for `becalm.load`.

        Examples
        --------
        >>> secret, server = becalm.keygen("toy_cm_1_1_w2", allow_insecure=True, progress=False)
        >>> secret.pack_key().save("pack.becalm")
        >>> key = becalm.load("pack.becalm", allow_insecure=True)
        >>> key.key_id == secret.key_id
        True
        >>> server = server.add_key(key)
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
        >>> secret, server = becalm.keygen("toy_cm_1_1_w2", allow_insecure=True, progress=False)
        >>> sent = secret.pack_key().to_bytes()
        >>> becalm.from_bytes(sent, allow_insecure=True).key_id == secret.key_id
        True
        """
        return self._native.to_bytes()

    @classmethod
    @called("from_bytes")
    def from_bytes(cls, file: bytes, *, allow_insecure: bool = False) -> SlotKey:
        """A key from the bytes of a file, checked as by `becalm.load`.

        Parameters
        ----------
        file
            The bytes that `to_bytes` gave.
        allow_insecure
            Whether sets below 128 bits are accepted.

        Returns
        -------
        SlotKey
            The same key.

        Raises
        ------
        BadFile
            For bytes that were altered or are of another kind.
        Insecure
            For a set below 128 bits that was not allowed.

        Examples
        --------
        >>> secret, server = becalm.keygen("toy_cm_1_1_w2", allow_insecure=True, progress=False)
        >>> sent = secret.pack_key().to_bytes()
        >>> becalm.server.SlotKey.from_bytes(sent, allow_insecure=True).sums is None
        True
        """
        data = _values.data("from_bytes", file)
        return cls(_native.SlotKey.from_bytes(data, bool(allow_insecure)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels as the bytes of its file."""
        return _restored, (self.to_bytes(), self.params.kind != "standard")

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        what = "packing" if self.sums is None else f"a map of row sums {self.sums}"
        return "becalm.SlotKey", [
            ("for", what),
            ("size", _values.megabytes(self._native.nbytes)),
            ("parameter set", self.params.name),
            ("key", self.key_id),
        ]

    def __repr__(self) -> str:
        what = "packing" if self.sums is None else f"a map of row sums {self.sums}"
        return f"<becalm.SlotKey for {what}, {self.params.name}, key {self.key_id}>"


def _restored(file: bytes, insecure: bool) -> SlotKey:
    return SlotKey.from_bytes(file, allow_insecure=insecure)
