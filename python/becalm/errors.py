"""The exceptions of becalm: one class for each kind of refusal, all under `Error`.

Every exception says which operation refused (`op`), what it `wanted`, what it `got` instead, and
the `remedy`. Each class is also the built-in exception that fits it best. Nothing secret enters a
message.

>>> import becalm
>>> try:
...     becalm.params("nothing")
... except becalm.Error as e:
...     print(type(e).__name__, e.got)
WrongParams `nothing`
"""

from __future__ import annotations

from typing import Any, NamedTuple

from becalm import _public

__all__ = [
    "BadFile",
    "BadIndex",
    "BadInput",
    "DeviceError",
    "Error",
    "Insecure",
    "Interrupted",
    "IoError",
    "MissingKey",
    "MissingLevels",
    "OutOfMemory",
    "PrecisionWarning",
    "TooNoisy",
    "Unsupported",
    "WrongKey",
    "WrongParams",
]
__dir__ = _public.names(__all__)


class Error(Exception):
    """Any refusal of becalm."""

    def __init__(self, op: str, wanted: str, got: str, remedy: str) -> None:
        super().__init__(f"{op}: wanted {wanted}, got {got}; {remedy}")
        #: The operation that refused.
        self.op = op
        #: The need of the operation.
        self.wanted = wanted
        #: The value that came instead.
        self.got = got
        #: The remedy for the caller.
        self.remedy = remedy

    def __reduce__(self) -> tuple[type[Error], tuple[str, str, str, str], dict[str, Any]]:
        return type(self), (self.op, self.wanted, self.got, self.remedy), self.__dict__


class MissingLevels(NamedTuple):
    """The level that an operation of CKKS needs, and the lower one that its ciphertext has.

    Examples
    --------
    >>> import becalm
    >>> options = {"bootstrap": None, "allow_insecure": True, "progress": False}
    >>> secret, server = becalm.keygen("ckks_toy_12", slots=4, **options)
    >>> try:
    ...     secret.encrypt([1, 2], level=2, bound=2) ** 8
    ... except becalm.BadInput as e:
    ...     print(e.missing.needed, e.missing.left)
    3 2
    """

    #: The lowest level at which the operation can start.
    needed: int
    #: The level of the ciphertext.
    left: int


class BadInput(Error, ValueError):
    """A value, length, table or shape that the operation cannot take."""

    #: The levels of CKKS that are missing, where a ciphertext has too few.
    missing: MissingLevels | None = None


class BadIndex(BadInput, IndexError):
    """An index outside the array, or an object that is not an index."""


class MissingKey(NamedTuple):
    """An evaluation key of CKKS that an operation lacks.

    Examples
    --------
    >>> import becalm
    >>> options = {"bootstrap": None, "allow_insecure": True, "progress": False}
    >>> secret, server = becalm.keygen("ckks_toy_12", slots=4, conjugate=False, **options)
    >>> try:
    ...     secret.encrypt([1, 2], bound=2).rotate(1)
    ... except becalm.WrongKey as e:
    ...     print(e.missing.purpose, e.missing.by)
    rotation 1
    """

    #: The purpose: `"multiplication"`, `"conjugation"`, `"rotation"` or `"bootstrap"`.
    purpose: str
    #: By how many slots to the left, for a rotation.
    by: int | None
    #: Up to which level the operation needs it.
    level: int


class WrongKey(Error, ValueError):
    """A ciphertext and a key that do not belong together, or a key that is missing."""

    #: The evaluation key that is missing, where one is.
    missing: MissingKey | None = None


class WrongParams(Error, ValueError):
    """Parameter sets that do not match, or a set that is not known or not supported."""


class Insecure(Error, ValueError):
    """A parameter set below 128 bits that was not allowed by name."""


class TooNoisy(Error, ArithmeticError):
    """A ciphertext too noisy for the operation to be right with the claimed probability."""


class PrecisionWarning(UserWarning):
    """A result of CKKS with few bits or none by its claim of error, or encrypted values above 1.

    A claim is an upper bound for every message, so that the result may still be right. It holds for
    values up to the `bound` of their encryption, which is 1 unless it is passed.
    """


class OutOfMemory(Error, MemoryError):
    """A key, a table or a batch that does not fit the free memory."""


class BadFile(Error, ValueError):
    """A file that is truncated, altered, of another type or version, or larger than its limit."""


class IoError(Error, OSError):
    """The operating system refused to read or write."""


class DeviceError(Error, RuntimeError):
    """A GPU that is not there, or does not answer any more."""


class Unsupported(Error, NotImplementedError):
    """An operation that encrypted values, this build or this machine does not have."""


class Interrupted(Error):
    """A progress callback asked to stop. (Ctrl-C raises `KeyboardInterrupt` as everywhere.)"""
