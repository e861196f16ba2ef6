"""Lookup tables that a server does not learn."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from becalm import _html, _values
from becalm._called import called
from becalm._encrypted import Encrypted
from becalm._native import Glwe, Params

if TYPE_CHECKING:
    pass


class EncryptedTable(Encrypted, _html.Shown):
    """A lookup table that the server does not learn; see `SecretKey.encrypt_table`.

    Examples
    --------
    >>> table = secret.encrypt_table([v * v % 16 for v in range(16)])
    >>> secret.decrypt(server.bootstrap(secret.encrypt([3, 1, 2]), table))
    array([9, 1, 4])
    """

    __slots__ = ("_glwe",)
    _what = "an encrypted table"
    _branched = "compare with None: `table is not None`"

    def __init__(self, glwe: Glwe) -> None:
        self._glwe = glwe

    @property
    def message(self) -> int:
        """How many values the encoding of the input has."""
        return self._glwe.values

    @property
    def below(self) -> int:
        """Values looked up must be below this."""
        return self._glwe.limit + 1

    @property
    def out(self) -> int:
        """How many values the results have."""
        return self._glwe.outputs[0][1]

    def __len__(self) -> int:
        return len(self._glwe.outputs)

    @property
    def params(self) -> Params:
        """The parameter set."""
        return self._glwe.params

    @property
    def key_id(self) -> str:
        """Identity of the secret key; public."""
        return self._glwe.key_id

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the table to a file, for `becalm.load`.

        Examples
        --------
        >>> secret.encrypt_table(lambda m: m // 2).save("table.becalm")
        >>> table = becalm.load("table.becalm", allow_insecure=True)
        >>> secret.decrypt(server.bootstrap(secret.encrypt([3, 14]), table))
        array([1, 7])
        """
        self._glwe.save(_values.path("save", path))

    def to_bytes(self) -> bytes:
        """The file of `save` in memory; `from_bytes` reads it.

        Returns
        -------
        bytes
            The table, still encrypted.

        Examples
        --------
        >>> sent = secret.encrypt_table(lambda m: m // 2).to_bytes()
        >>> table = becalm.from_bytes(sent, allow_insecure=True)
        >>> secret.decrypt(server.bootstrap(secret.encrypt([3, 14]), table))
        array([1, 7])
        """
        return self._glwe.to_bytes()

    @classmethod
    @called("from_bytes")
    def from_bytes(
        cls, file: bytes, *, allow_insecure: bool = False, limit: int | None = None
    ) -> EncryptedTable:
        """A table from the bytes of a file, checked as by `becalm.load`.

        Parameters
        ----------
        file
            The bytes that `to_bytes` gave.
        allow_insecure
            Whether sets below 128 bits are accepted.
        limit
            The largest number of bytes, 1 GiB by default.

        Returns
        -------
        EncryptedTable
            The same table.

        Raises
        ------
        BadFile
            For bytes that were altered, are of another kind or above the limit.
        Insecure
            For a set below 128 bits that was not allowed.

        Examples
        --------
        >>> sent = secret.encrypt_table(lambda m: m // 2).to_bytes()
        >>> table = becalm.EncryptedTable.from_bytes(sent, allow_insecure=True)
        >>> secret.decrypt(server.bootstrap(secret.encrypt([3, 14]), table))
        array([1, 7])
        """
        data, most = _values.data("from_bytes", file), _values.limit("from_bytes", limit)
        return cls(Glwe.from_bytes(data, bool(allow_insecure), most))

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels as the bytes of its file."""
        return _restored_table, (self.to_bytes(), self.params.kind != "standard")

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        return "becalm.EncryptedTable", [
            ("tables", len(self)),
            ("looked up", f"0 to {self.below - 1} modulo {self.message}"),
            ("results", f"modulo {self.out}"),
            ("parameter set", self.params.name),
            ("key", self.key_id),
        ]

    def __repr__(self) -> str:
        many = f"{len(self)} tables" if len(self) > 1 else "one table"
        return (
            f"<becalm.EncryptedTable of {many}, values 0 to {self.below - 1} modulo {self.message} "
            f"to values modulo {self.out}, {self.params.name}, key {self.key_id}>"
        )


def _restored_table(file: bytes, insecure: bool) -> EncryptedTable:
    return EncryptedTable.from_bytes(file, allow_insecure=insecure)
