"""Comparison and truth of encrypted values: Python's answer would be about the objects."""

from __future__ import annotations

from typing import ClassVar, NoReturn

from becalm.errors import Unsupported


class Encrypted:
    """An object with encrypted contents. It refuses `==`, `<`, `bool()` and the like, which could
    only answer wrongly."""

    __slots__ = ()
    #: Its name in an error.
    _what: ClassVar[str] = "a ciphertext"
    #: The remedies for a comparison, and for a truth.
    _compared: ClassVar[str] = "decrypt both first"
    _branched: ClassVar[str] = "decrypt it; a program cannot branch on an encrypted value"

    def __eq__(self, other: object) -> NoReturn:
        raise Unsupported("compare", "unencrypted values", self._what, self._compared)

    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__
    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise Unsupported("truth", "unencrypted values", self._what, self._branched)
