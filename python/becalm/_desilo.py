"""The objects of an `Engine` of `becalm.desilo`, the checks of its arguments, and its programs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy.typing as npt

from becalm import _native
from becalm._called import called
from becalm._ckks_arithmetic import Matrix
from becalm._ckks_ciphertext import applied, doubted, ran
from becalm.errors import BadInput, Unsupported, WrongKey

Block: TypeAlias = _native.CkksCiphertext


class SecretKey:
    """A secret key; it cannot be copied or pickled.

    Examples
    --------
    >>> secret_key = engine.create_secret_key()
    >>> engine.decrypt(engine.encrypt([1, 2, 3, 4], secret_key), secret_key).round(2).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """

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
        raise Unsupported("copy", "an object that is not secret", "a secret key", remedy)


class PublicKey:
    """Encrypts, and holds no secret.

    Examples
    --------
    >>> public_key = engine.create_public_key(secret_key)
    >>> engine.decrypt(engine.encrypt([1, 2, 3, 4], public_key), secret_key).round(2).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """

    __slots__ = ("_native", "_params")

    def __init__(self, native: _native.CkksPublicKey, params: str) -> None:
        self._native = native
        self._params = params

    def __repr__(self) -> str:
        return f"<becalm.desilo.PublicKey of key {self._native.key_id}>"


class Key:
    """A key for one purpose; holds no secret.

    Examples
    --------
    >>> engine.create_rotation_key(secret_key).purpose
    'rotation'
    """

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
        #: Its purpose: `"relinearization"`, `"conjugation"`, `"rotation"`, `"bootstrap"`, …
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
    """An encrypted message of any length: a CKKS ciphertext for each `slot_count` values.

    Examples
    --------
    >>> engine.encrypt([1, 2, 3, 4], secret_key).level
    13
    """

    __slots__ = ("_blocks",)

    def __init__(self, blocks: list[_native.CkksCiphertext]) -> None:
        self._blocks = blocks
        for block in blocks:
            if block.doubt is not None:
                doubted(block)
                break

    @property
    def _real(self) -> bool:
        return all(x.real for x in self._blocks)

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


class Plaintext:
    """Numbers for sums and products with ciphertexts.

    Examples
    --------
    >>> engine.encode([1, 2, 3, 4], level=2).level
    2
    """

    __slots__ = ("_values", "level")

    def __init__(self, values: npt.NDArray[Any], level: int) -> None:
        self._values = values
        #: The level that it was asked for. Sums and products go by that of the ciphertext.
        self.level = level

    def __repr__(self) -> str:
        return f"<becalm.desilo.Plaintext of {self._values.size} values>"


class PlainMatrix:
    """A matrix of plain numbers. Its encoding for a level is kept for the next product.

    Examples
    --------
    >>> engine.encode_to_plain_matrix(np.eye(4), level=2).level
    2
    """

    __slots__ = ("_matrix", "level")

    def __init__(self, matrix: Matrix, level: int) -> None:
        self._matrix = matrix
        #: The highest level of a product with it.
        self.level = level

    @property
    def nbytes(self) -> int:
        """Bytes of the encodings so far."""
        return self._matrix.nbytes

    def __repr__(self) -> str:
        return f"<becalm.desilo.PlainMatrix of {self._matrix.slots} rows, level {self.level}>"


class Missing(Unsupported, AttributeError):
    """A name of desilofhe that an engine of becalm does not have."""


#: Beginnings of names of desilofhe 1.17 that an engine does not have, and what to use instead.
MISSING = (
    (("create_individual_", "create_multiparty_", "create_public_key_"), "keep one secret key"),
    (("decrypt_to_plaintext",), "decrypt, and encode the numbers"),
    (("build_hash",), "use becalm.__version__"),
    (("individual_decrypt", "multiparty_decrypt"), "decrypt with the one secret key"),
    (("read_decrypted_share", "write_decrypted_share"), "decrypt with the one secret key"),
    (("serialize_decrypted_share", "deserialize_decrypted_share"), "decrypt with the one key"),
    (("read_public_key_", "write_public_key_"), "use read_public_key and write_public_key"),
    (("serialize_public_key_", "deserialize_public_key_"), "use serialize_public_key"),
    (("serialize_light_plain", "serialize_plain", "write_light_plain"), "keep the numbers"),
    (("write_plain", "read_plain", "read_light_plain"), "keep the numbers and encode them"),
    (("deserialize_light_plain", "deserialize_plain"), "keep the numbers and encode them"),
    (("serialize_", "deserialize_"), "evaluation keys go to files: use write_…_key, read_…_key"),
    (("relinearize",), "pass the relinearization key to multiply, which then does it"),
    (("rescale", "change_level"), "products rescale by themselves; use level_down"),
    (("ntt", "intt", "mod_raise"), "use bootstrap or becalm.Program, which have these steps"),
    (("to_cuda", "to_cpu"), "leave it out, and make the engine with the mode that you want"),
)


def missing(engine: object, name: str) -> AttributeError:
    """The error for a name that an engine does not have."""
    kind = type(engine).__name__
    if "pytorch" in name:
        remedy = "pass tensor.numpy() to the call without pytorch in its name"
        return Missing(name, "a call that becalm has", "one for tensors", remedy)
    for beginnings, remedy in MISSING:
        if name.startswith(beginnings):
            return Missing(name, "a call that becalm has", "one of desilofhe", remedy)
    return AttributeError(f"'{kind}' object has no attribute '{name}'")


def kind_of(x: object) -> str:
    """The kind of an object in the user's words: `"a conjugation key"`."""
    if isinstance(x, Key):
        return named(x.purpose)
    kinds = (
        (SecretKey, "a secret key"),
        (PublicKey, "a public key"),
        (Ciphertext, "a ciphertext"),
        (Plaintext, "a plaintext"),
    )
    return next((what for kind, what in kinds if isinstance(x, kind)), type(x).__name__)


def named(purpose: str) -> str:
    """The name of a key for a purpose."""
    return f"a {purpose.replace('_', ' ')} key"


def key_for(op: str, key: object, purpose: str, order: str = "") -> Key:
    """The key, if it is one for this purpose; desilofhe has a type for each purpose."""
    if isinstance(key, Key) and key.purpose == purpose:
        return key
    remedy = f"use create_{purpose}_key{order}"
    raise WrongKey(op, named(purpose), kind_of(key), remedy)


#: Keys that bootstraps take by name.
KEYWORDS = (
    "relinearization_key",
    "conjugation_key",
    "bootstrap_key",
    "lossy_bootstrap_key",
    "merge_bootstrap_key",
    "rotation_key",
    "small_bootstrap_key",
)


def arranged(
    op: str, purpose: str, keys: tuple[Any, ...], by_name: dict[str, Key]
) -> tuple[dict[str, Key], Any]:
    """The keys of a bootstrap by purpose, and the count of stages behind them, if any.

    Those without a name come in the order of desilofhe: the keys of relinearization and
    conjugation, then the one of the bootstrap, or a rotation key and a small bootstrap key, behind
    which the count of stages may stand.
    """
    for name in by_name:
        if name not in KEYWORDS:
            raise BadInput(op, f"keywords of {', '.join(KEYWORDS)}", name, "use one of these")
    third = keys[2].purpose if len(keys) > 2 and isinstance(keys[2], Key) else purpose
    small = third in ("rotation", "small_bootstrap")
    last = ("rotation", "small_bootstrap") if small else (purpose,)
    form, stages = ("relinearization", "conjugation", *last), None
    order = ", ".join(f"{p}_key" for p in form)
    if small and len(keys) == len(form) + 1:
        keys, stages = keys[:-1], keys[-1]
    if len(keys) > len(form):
        raise BadInput(op, f"at most {len(form)} keys", str(len(keys)), f"pass {order}")
    held: dict[str, Key] = {}
    for wanted, key in zip(form, keys, strict=False):
        held[wanted] = key_for(op, key, wanted, f": the order is {order}")
    for name, key in by_name.items():
        wanted = name.removesuffix("_key")
        if wanted in held:
            got, remedy = f"{named(wanted)} twice", "pass each key once"
            raise WrongKey(op, "keys for different purposes", got, remedy)
        held[wanted] = key_for(op, key, wanted)
    return held, stages


def cipher(op: str, x: object) -> Ciphertext:
    if isinstance(x, Ciphertext):
        return x
    raise BadInput(op, "a ciphertext", kind_of(x), "pass what engine.encrypt returned")


def union(keys: Sequence[_native.CkksKeys]) -> _native.CkksKeys:
    """The keys of one secret as one."""
    return functools.reduce(lambda made, key: made.union(key), keys)


def lanes_of(op: str, x: object) -> list[list[Block]]:
    """A lane for each block of a message."""
    return [[block] for block in cipher(op, x)._blocks]


def together(op: str, messages: Sequence[Ciphertext]) -> list[tuple[Block, ...]]:
    """The blocks of messages of one length, side by side."""
    sizes = sorted({len(x._blocks) for x in messages})
    if len(sizes) > 1:
        got = f"{sizes[0]} and {sizes[-1]} blocks"
        raise BadInput(op, "messages of one length", got, "fill the shorter with zeros")
    return list(zip(*(x._blocks for x in messages), strict=True))


def computed(
    op: str,
    keys: _native.CkksKeys | None,
    lanes: Sequence[Sequence[Block]],
    record: Callable[..., Sequence[_native.CkksRegister]],
) -> list[Ciphertext]:
    """The results of one program, run once on every lane; each result has a block of each lane.

    `record` gets the program and a register for each block of a lane, at the lowest level of all
    lanes, and returns the results. Without keys it is a program that needs none.
    """
    with called(op):
        return [Ciphertext(blocks) for blocks in ran(lanes, record, keys)]


def keyless(op: str, lanes: Sequence[Sequence[Block]], apply: Callable[..., Any]) -> Ciphertext:
    """The result of one call that blocks and registers have under one name, and needs no key."""
    with called(op):
        return Ciphertext(applied(lanes, apply))


def instructed(
    op: str,
    keys: _native.CkksKeys,
    lanes: Sequence[Sequence[Block]],
    apply: Callable[..., Any],
) -> Ciphertext:
    """The result of one instruction, which keys and programs have under one name.

    A single lane goes to the keys, which copy no ciphertext; several are run at once.
    """
    if len(lanes) == 1:
        with called(op):
            block = apply(keys, *lanes[0])
        return Ciphertext([block])
    return computed(op, keys, lanes, lambda program, *xs: [apply(program, *xs)])[0]
