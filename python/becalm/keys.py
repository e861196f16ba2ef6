"""Keys: making them, and the secret one, which encrypts and decrypts."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from typing import Any, overload

from becalm import (
    _native,
    _pair,
    _public,
    _tfhe_sets,
    _values,
    ckks,
)
from becalm._called import called
from becalm._names import CkksName, TfheName
from becalm._native import Params
from becalm._progress import Progress, say
from becalm._tfhe_secret_key import SecretKey
from becalm.errors import BadInput
from becalm.server import Server

__all__ = ["Keys", "SecretKey", "keygen"]
__dir__ = _public.names(__all__)


class Keys(_pair.Pair["SecretKey", Server]):
    """A secret key and the server that computes under it: `secret, server = becalm.keygen()`.

    Examples
    --------
    >>> keys = becalm.keygen("toy_2_2", allow_insecure=True, progress=False)
    >>> keys.secret.decrypt(keys.secret.encrypt([3, 1]))
    array([3, 1])
    """

    __slots__ = ()


@overload
def keygen(
    params: CkksName | ckks.Params,
    *,
    slots: int | None = None,
    bootstrap: str | None = ...,
    kinds: Iterable[str] | str | None = None,
    levels: int | None = None,
    stage_count: int | None = None,
    iterations: int = 1,
    rotations: Iterable[int] = (),
    conjugate: bool = True,
    needs: ckks.Needs | None = None,
    compact: bool | str | None = None,
    allow_insecure: bool = False,
    device: str = "auto",
    threads: int = 0,
    progress: Progress = None,
    strict: bool = False,
) -> ckks.Keys: ...
@overload
def keygen(
    params: TfheName | Params | None = None,
    *,
    bits: int | None = None,
    slots: int | None = None,
    log2_pfail: float | None = None,
    allow_insecure: bool = False,
    device: str = "auto",
    threads: int = 0,
    progress: Progress = None,
) -> Keys: ...
@overload
def keygen(
    params: str,
    *,
    slots: int | None = None,
    allow_insecure: bool = False,
    device: str = "auto",
    threads: int = 0,
    progress: Progress = None,
) -> Keys | ckks.Keys: ...
@called("keygen")
def keygen(
    params: Any = None,
    *,
    bits: int | None = None,
    slots: int | None = None,
    log2_pfail: float | None = None,
    allow_insecure: bool = False,
    device: str = "auto",
    threads: int = 0,
    progress: Progress = None,
    **of_ckks: Any,
) -> Any:
    """Makes a secret key and its server.

    `keygen("ckks", …)`, or the name of any CKKS set, makes keys as `becalm.ckks.keygen` does, whose
    reference has its arguments. The rest of this text is about TFHE.

    The set and the size of its keys are printed to standard error before the work begins. A bar
    shows the progress on a terminal or in a notebook.

    Parameters
    ----------
    params
        A parameter set or its name. Leave it out to choose by need.
    bits
        How many bits a table sees, 4 by default.
    slots
        How many messages share one ciphertext behind a common mask, 1 by default.
    log2_pfail
        Largest log2 of the failure probability of one bootstrap, -128 by default.
    allow_insecure
        Whether sets below 128 bits of security are accepted.
    device
        The machine that computes. `"auto"` (the default) is a GPU whose kernels run the set, else
        the CPU. A `RuntimeWarning` says why a GPU of this machine is not used, and the server's
        `repr` why none is found. With `threads`, `"auto"` is the CPU. `"cpu"` and `"cuda"` take
        nothing else. `"processor"` is a simulated processor, and `"reference"` the slow, exact
        definition of every instruction.
    threads
        How many threads compute; 0 means all.
    progress
        `False` prints nothing, `True` shows the bar anywhere. A function is called with the steps
        done and all steps.
    **of_ckks
        Arguments of `becalm.ckks.keygen`.

    Returns
    -------
    Keys or ckks.Keys
        `secret, server`; both have a name too.

    Raises
    ------
    BadInput
        For arguments that exclude each other.
    Insecure
        For a set below 128 bits that was not allowed.
    OutOfMemory
        For keys that do not fit the free memory, before they are made.
    DeviceError
        For a machine that does not answer, before any key is made.
    WrongParams
        For a name that no set has.

    Examples
    --------
    >>> secret, server = becalm.keygen("toy_2_2", allow_insecure=True, progress=False)
    >>> y = server.bootstrap(secret.encrypt([3, 1, 2]), lambda m: (m * m + 1) % 16)
    >>> secret.decrypt(y)
    array([10,  2,  5])
    """
    unknown = [n for n in of_ckks if n not in inspect.signature(ckks.keygen).parameters]
    if unknown:
        # The words of Python: no scheme has these arguments.
        raise TypeError(f"keygen() got an unexpected keyword argument {unknown[0]!r}")
    if isinstance(params, ckks.Params):
        params = params.name
    if isinstance(params, str) and _native.scheme_of(params) == "ckks":
        unfit = [n for n, v in (("bits", bits), ("log2_pfail", log2_pfail)) if v is not None]
        if unfit:
            got = ", ".join(unfit)
            raise BadInput("keygen", "arguments of becalm.ckks.keygen", got, "leave it out")
        same: dict[str, Any] = {"slots": slots, "threads": threads, "progress": progress}
        same.update(device=device, allow_insecure=allow_insecure)
        return ckks.keygen(params, **same, **of_ckks)
    if of_ckks:
        got = ", ".join(of_ckks)
        raise BadInput("keygen", "arguments of TFHE", got, 'they go with keygen("ckks")')
    _tfhe_sets.refuse_number(params)
    if params is None:
        chosen = _tfhe_sets.found(bits, log2_pfail, slots)
    elif bits is None and log2_pfail is None and slots is None:
        chosen = _values.set_of("keygen", params)
    else:
        remedy = "leave one of them out"
        raise BadInput("keygen", "a set by name or by need", "both", remedy)
    chosen.require_secure(allow_insecure)
    _native.require_machine(str(device), chosen)
    chosen.require_keys(_native.free_memory())
    if progress is not False and sys.stderr:
        say(_tfhe_sets.announcement(chosen))
    secret = SecretKey.generate(chosen, allow_insecure=allow_insecure)
    return Keys(secret, secret.server(device=device, threads=threads, progress=progress))
