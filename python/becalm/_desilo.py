"""What an `Engine` of `becalm.desilo` hands out, and the checks of what comes back to it."""

from __future__ import annotations

from typing import Any, NoReturn

from becalm import _native
from becalm.errors import BadInput, Unsupported, WrongKey


class SecretKey:
    """A secret key; it cannot be copied or pickled."""

    __slots__ = ("_base", "_native", "_params")

    def __init__(self, native: _native.CkksSecretKey, params: str) -> None:
        self._native = native
        self._params = params
        #: The key of multiplication, which all others of this secret share; public.
        self._base: _native.CkksKeys | None = None

    def __repr__(self) -> str:
        return f"<becalm.desilo.SecretKey {self._native.key_id}>"

    def __reduce__(self) -> NoReturn:
        remedy = "make it where it is used"
        raise Unsupported("copy", "something that is no secret", "a secret key", remedy)


class PublicKey:
    """Encrypts, and holds no secret."""

    __slots__ = ("_native", "_params")

    def __init__(self, native: _native.CkksPublicKey, params: str) -> None:
        self._native = native
        self._params = params

    def __repr__(self) -> str:
        return f"<becalm.desilo.PublicKey of key {self._native.key_id}>"


class Key:
    """A key for one purpose; holds no secret."""

    __slots__ = ("_native", "delta", "purpose", "size", "stage_count")

    def __init__(
        self,
        native: _native.CkksKeys,
        purpose: str,
        stage_count: int | None = None,
        size: str | None = None,
        delta: int | None = None,
    ) -> None:
        self._native = native
        #: By how much a fixed rotation key moves to the right.
        self.delta = delta
        #: What it is for: `"relinearization"`, `"conjugation"`, `"rotation"`, `"bootstrap"`, …
        self.purpose = purpose
        #: Stages of a bootstrap key.
        self.stage_count = stage_count
        #: Size of a bootstrap key.
        self.size = size

    @property
    def nbytes(self) -> int:
        """Bytes in memory, those shared with other keys of the secret included."""
        return self._native.nbytes

    @property
    def serialized_nbytes(self) -> int:
        """Bytes in a file, but for its header."""
        return self._native.stored_nbytes

    def __repr__(self) -> str:
        return f"<becalm.desilo.Key for {self.purpose}, key {self._native.key_id}>"


class Ciphertext:
    """An encrypted message of any length: a CKKS ciphertext for each `slot_count` values."""

    __slots__ = ("_blocks", "_real")

    def __init__(self, blocks: list[_native.CkksCiphertext], real: bool) -> None:
        self._blocks = blocks
        self._real = real

    @property
    def level(self) -> int:
        """Multiplications that are left."""
        return min(x.level for x in self._blocks)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(x.nbytes for x in self._blocks)

    @property
    def serialized_nbytes(self) -> int:
        """Bytes in files, but for their headers."""
        return sum(x.stored_nbytes for x in self._blocks)

    def __repr__(self) -> str:
        kind = "real" if self._real else "complex"
        values = sum(x.slots for x in self._blocks)
        return f"<becalm.desilo.Ciphertext of {values} {kind} values, level {self.level}>"


def key_for(op: str, key: object, purpose: str) -> Key:
    if isinstance(key, Key) and key.purpose == purpose:
        return key
    got = f"one for {key.purpose}" if isinstance(key, Key) else type(key).__name__
    raise WrongKey(op, f"a key for {purpose}", got, f"use create_{purpose}_key")


#: Keys that bootstraps take by name.
KEYWORDS = (
    "relinearization_key",
    "conjugation_key",
    "bootstrap_key",
    "lossy_bootstrap_key",
    "rotation_key",
    "small_bootstrap_key",
)


def by_purpose(op: str, keys: tuple[Key, ...], named: dict[str, Key]) -> dict[str, Key]:
    """Keys by what they are for."""
    held: dict[str, Key] = {}
    for name in named:
        if name not in KEYWORDS:
            raise BadInput(op, f"keywords of {', '.join(KEYWORDS)}", name, "use one of these")
    for name, key in [("", key) for key in keys] + list(named.items()):
        purpose = key.purpose if isinstance(key, Key) else type(key).__name__
        key_for(op, key, name.removesuffix("_key") if name else purpose)
        if purpose in held:
            remedy = "pass each key once"
            raise WrongKey(op, "keys for different purposes", f"two for {purpose}", remedy)
        held[purpose] = key
    return held


def cipher(op: str, x: object) -> Ciphertext:
    if isinstance(x, Ciphertext):
        return x
    raise BadInput(op, "a ciphertext", type(x).__name__, "encrypt it first")


def paired(op: str, x: Ciphertext, y: Ciphertext, apply: Any) -> Ciphertext:
    if len(x._blocks) != len(y._blocks):
        got = f"{len(x._blocks)} and {len(y._blocks)} blocks"
        raise BadInput(op, "messages of one length", got, "fill the shorter with zeros")
    blocks = [apply(a, b) for a, b in zip(x._blocks, y._blocks, strict=True)]
    return Ciphertext(blocks, x._real and y._real)
