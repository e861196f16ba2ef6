"""A secret key and the server that computes under it, of either scheme."""

from __future__ import annotations

import os
from typing import Generic, TypeVar

from becalm import _values

S = TypeVar("S")
V = TypeVar("V")
P = TypeVar("P", bound="Pair")  # type: ignore[type-arg]


class Pair(tuple[S, V], Generic[S, V]):
    """`secret, server = keys`; both have a name too."""

    __slots__ = ()

    def __new__(cls: type[P], secret: S, server: V) -> P:
        return tuple.__new__(cls, (secret, server))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(secret={self.secret!r}, server={self.server!r})"

    def _repr_html_(self) -> str:
        halves = (half._repr_html_() for half in self)  # type: ignore[union-attr]
        return "".join(halves)

    @property
    def secret(self) -> S:
        """Encrypts and decrypts; keep it."""
        return self[0]

    @property
    def server(self) -> V:
        """Computes; holds no secret."""
        return self[1]

    def save(
        self,
        secret: str | os.PathLike[str],
        server: str | os.PathLike[str],
        *,
        overwrite: bool = False,
    ) -> None:
        """Writes the secret key and the server's keys to two files: both or none.

        Processes that write the same two paths wait for each other, so the two files always fit
        each other.

        Parameters
        ----------
        secret
            The file of the secret key, which only its owner can read.
        server
            The file of the server's keys.
        overwrite
            Whether existing files are replaced. Otherwise they raise `IoError`.

        Examples
        --------
        >>> keys = becalm.keygen("toy_2_2", allow_insecure=True, progress=False)
        >>> keys.save("secret.becalm", "server.becalm", overwrite=True)
        >>> becalm.load("server.becalm", allow_insecure=True).key_id == keys.secret.key_id
        True
        """
        paths = (_values.path("save", secret), _values.path("save", server))
        self.secret._save_with(self.server, paths, bool(overwrite))  # type: ignore[attr-defined]
