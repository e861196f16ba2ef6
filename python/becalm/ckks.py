"""CKKS: approximate arithmetic on encrypted vectors of real or complex numbers.

>>> import becalm
>>> secret, server = becalm.keygen("ckks_toy_12", allow_insecure=True, progress=False)
>>> x = secret.encrypt([0.5, -0.25], level=2)
>>> y = (x * x + x).bootstrap()
>>> secret.decrypt(y)[:2].round(2)
array([ 0.75, -0.19])
>>> x.level, y.level
(2, 10)

Every multiplication takes a level, and a bootstrap gives levels back: from level 3 or above with
the keys of `keygen("ckks")`, from level 0 with regular ones. `keygen("ckks")` draws a secret key
and makes a server, which computes and holds no secret; `price` gives the size of its keys
beforehand. The results of `decrypt` are for the owner of the key alone: results that others
may see come from `decrypt_to_share`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from becalm import _native, _pair, _public, _values
from becalm._called import called
from becalm._ckks_arithmetic import Matrix, depth, dot, sum_rotations
from becalm._ckks_catalogue import (
    absolute,
    approximate,
    argmax,
    compare,
    exp,
    inverse,
    inverse_sqrt,
    largest,
    matrix_product,
    matrix_vector,
    maximum,
    minimum,
    sigmoid,
    sign,
    smallest,
    sort,
    sqrt,
    tanh,
)
from becalm._ckks_ciphertext import Account, Ciphertext
from becalm._ckks_collective import (
    CollectiveKeys,
    Party,
    PartyMessage,
    aggregate,
    load_party,
    load_party_message,
)
from becalm._ckks_cost import Cost, Needs
from becalm._ckks_files import load_public_key, load_secret_key
from becalm._ckks_function import Function, concatenate, packed, unpacked
from becalm._ckks_keygen import asked, keys_of, machine_of
from becalm._ckks_packed import PackedArray, PackedRegister
from becalm._ckks_program import Program, Register
from becalm._ckks_secret_key import PublicKey, SecretKey
from becalm._ckks_server import Server
from becalm._ckks_sets import (
    AS_MADE,
    USUAL_SIZE,
    Params,
    Price,
    known,
    noted,
    params,
    planned,
    priced,
)
from becalm._ckks_threshold import (
    KeyShare,
    PartialDecryption,
    combine,
    load_key_share,
    load_partial_decryption,
)
from becalm._ckks_vector import Plaintext
from becalm._files import of_kind
from becalm._names import CkksName
from becalm._progress import Progress
from becalm.errors import BadInput, OutOfMemory

__all__ = [
    "Account",
    "Ciphertext",
    "CollectiveKeys",
    "Cost",
    "Function",
    "KeyShare",
    "Keys",
    "Matrix",
    "Needs",
    "PackedArray",
    "PackedRegister",
    "Params",
    "PartialDecryption",
    "Party",
    "PartyMessage",
    "Plaintext",
    "Price",
    "Program",
    "PublicKey",
    "Register",
    "SecretKey",
    "Server",
    "absolute",
    "aggregate",
    "approximate",
    "argmax",
    "combine",
    "compare",
    "concatenate",
    "depth",
    "dot",
    "exp",
    "inverse",
    "inverse_sqrt",
    "keygen",
    "largest",
    "load_key_share",
    "load_partial_decryption",
    "load_party",
    "load_party_message",
    "load_public_key",
    "load_secret_key",
    "load_server",
    "matrix_product",
    "matrix_vector",
    "maximum",
    "minimum",
    "packed",
    "params",
    "price",
    "sigmoid",
    "sign",
    "smallest",
    "sort",
    "sqrt",
    "sum_rotations",
    "tanh",
    "unpacked",
]
__dir__ = _public.names(__all__)


class Keys(_pair.Pair[SecretKey, Server]):
    """A secret key and the server that computes under it.

    Examples
    --------
    >>> options = {"slots": 4, "bootstrap": None, "allow_insecure": True, "progress": False}
    >>> keys = becalm.keygen("ckks_toy_12", **options)
    >>> keys.secret.decrypt(keys.secret.encrypt([1, 2, 3, 4], bound=4)).round(2).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """

    __slots__ = ()


@called("price")
def price(
    name: CkksName | str = "ckks",
    *,
    slots: int | None = None,
    bootstrap: str | None = USUAL_SIZE,
    kinds: Iterable[str] | str | None = None,
    levels: int | None = None,
    stage_count: int | None = None,
    iterations: int = 1,
    rotations: Iterable[int] = (),
    conjugate: bool = True,
    compact: bool | str | None = None,
) -> Price:
    """Sizes of keys, levels and precision, as `keygen` with these arguments would make them.

    Parameters
    ----------
    name
        A parameter set, or `"ckks"`.
    slots, bootstrap, kinds, levels, stage_count, iterations, rotations, conjugate, compact
        As for `keygen`.

    Returns
    -------
    Price
        Sizes, levels and bits.

    Examples
    --------
    >>> price = ckks.price("ckks_toy_12", slots=4)
    >>> price.kinds, price.memory_bytes >= price.stored_bytes
    (('sparse',), True)
    """
    plan = planned(
        name,
        slots=slots,
        bootstrap=bootstrap,
        kinds=kinds,
        levels=levels,
        stage_count=stage_count,
        iterations=iterations,
        rotations=rotations,
        conjugate=conjugate,
        compact=compact,
    )
    return priced(plan)


@called("keygen")
def keygen(
    name: CkksName | str = "ckks",
    *,
    slots: int | None = None,
    bootstrap: str | None = USUAL_SIZE,
    kinds: Iterable[str] | str | None = None,
    levels: int | None = None,
    stage_count: int | None = None,
    iterations: int = 1,
    rotations: Iterable[int] = (),
    conjugate: bool = True,
    needs: Needs | None = None,
    compact: bool | str | None = None,
    allow_insecure: bool = False,
    device: str = "auto",
    threads: int = 0,
    progress: Progress = None,
    strict: bool = False,
) -> Keys:
    """Makes a secret key and its server; the same as `becalm.keygen("ckks", …)`.

    Parameters
    ----------
    name
        A parameter set, or `"ckks"` for the standard set of a need.
    slots
        Values in a vector, by default those of `needs`, or all that fit; 1024 where `kinds` has
        `"sparse"`. Few slots take less time.
    bootstrap
        Size of the keys of a bootstrap, `"small"`, `"medium"` or `"large"`. Small is slower; large
        is faster only where memory is fast. `None` is for arithmetic alone, the only choice for a
        set without a bootstrap (`"ckks_n14"`).
    kinds
        The kinds of bootstrap.
    levels
        How many levels a bootstrap leaves: 4, 10, 14 or 17. It goes with `"ckks"` alone.
    stage_count, iterations
        As in `Server.bootstrap`. Iterations above 1 take a set of their own and no other keys.
    rotations
        Further rotations that get a key, in slots to the left, counted around.
    conjugate
        Whether the key of the conjugate is made.
    needs
        The needs of a recorded program: exactly its keys are made, and those of products. `kinds`,
        `stage_count` and a size of `bootstrap` raise `BadInput` beside it; `rotations` go with it.
    compact
        `True` packs keys and ciphertexts in memory, residues in as few bits as they take: a quarter
        less, and no slower. `"seeded"` draws half of a key from seeds whenever it is used: three
        eighths of the size, for more time. By default sets of 14 levels or more are packed.
    allow_insecure
        Whether sets below 128 bits of security are accepted.
    device, threads, progress
        As for `becalm.keygen`. A machine that does not run CKKS raises an error before any key is
        made.
    strict
        Whether a result with few bits by its claim of error raises `TooNoisy`: `Server.strict`.

    Returns
    -------
    Keys
        `secret, server`.

    Raises
    ------
    BadInput
        For arguments that exclude each other.
    Insecure
        For a set below 128 bits that was not allowed.
    OutOfMemory
        For keys that do not fit the free memory, before they are made.
    WrongParams
        For a name that no set has.

    Examples
    --------
    >>> options = {"slots": 4, "allow_insecure": True, "progress": False}
    >>> secret, server = ckks.keygen("ckks_toy_12", rotations=[1], **options)
    >>> secret.decrypt(secret.encrypt([1, 2, 3, 4], bound=4).rotate(1)).round(2).tolist()
    [2.0, 3.0, 4.0, 1.0]
    """
    plan = asked(
        name,
        slots=slots,
        bootstrap=bootstrap,
        kinds=kinds,
        levels=levels,
        stage_count=stage_count,
        iterations=iterations,
        rotations=rotations,
        conjugate=conjugate,
        compact=compact,
        needs=needs,
        device=device,
    )
    machine = machine_of(plan, allow_insecure, threads, device)
    native = _native.CkksSecretKey.generate(machine)
    server = Server(plan, machine, keys_of(native, plan, machine, progress))
    server.strict = strict
    return Keys(SecretKey(machine, native, plan.slots, server), server)


@called("load_server")
def load_server(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    slots: int | None = None,
    bootstrap: str | None = AS_MADE,
    kinds: Iterable[str] | str | None = None,
    stage_count: int | None = None,
    allow_insecure: bool = False,
    device: str = "auto",
    threads: int = 0,
    memory: str | float = "full",
    compact: bool | str | None = None,
) -> Server:
    """Reads the keys of a server, and the note of their purpose; so does `becalm.load`.

    Ciphertexts and the work on them take more memory than the bound of `memory`.

    Parameters
    ----------
    path
        The file.
    name, slots, bootstrap, kinds, stage_count
        The file has them. Pass them only to use the keys for another purpose that they suffice for.
    allow_insecure
        Whether sets below 128 bits are accepted.
    device, threads
        As for `keygen`.
    memory
        Bounds keys and encoded matrices of a bootstrap together: gigabytes, `"full"`, or `"low"`,
        which is as little as a bootstrap needs. Gigabytes go to the needs of the largest step, then
        to the largest matrices, then to keys. Keys that do not fit stay in the file, which must not
        change. They are expanded when they are used, which takes more time.
    compact
        The form of the keys in memory, by default the one of the file.

    Returns
    -------
    Server
        The server.

    Raises
    ------
    BadInput
        For compact keys together with a budget of memory.
    BadFile
        For a file that was altered, cut, or is of another kind.
    Insecure
        For a set below 128 bits that was not allowed.
    OutOfMemory
        For keys that do not fit.

    Examples
    --------
    >>> server.save("server.becalm")
    >>> again = ckks.load_server("server.becalm", memory="low", allow_insecure=True)
    >>> again.key_id == secret.key_id
    True
    """
    budget = _budget(memory)
    file = _values.path("load", path)
    with of_kind("load", file, "becalm.ckks_evaluation_keys"):
        found, note = _native.ckks_keys_of_file(file)
    if compact and budget is not None:
        remedy = 'leave one of them out: memory="low" takes the least'
        raise BadInput("load", "compact keys, or a budget of memory", "both", remedy)
    plan = noted(
        found if name is None else str(name),
        note,
        slots=slots,
        kinds=kinds,
        bootstrap=bootstrap,
        stage_count=stage_count,
        compact=compact,
    )
    machine = machine_of(plan, allow_insecure, threads, device)
    if budget is not None:
        try:
            return Server(plan, machine, *plan.opened(machine, file, budget))
        except OutOfMemory as e:
            remedy = 'make keys of bootstrap="small" or of more stages'
            if budget:
                remedy = f'allow more memory, pass memory="low", or {remedy}'
            raise OutOfMemory(e.op, e.wanted, e.got, remedy) from None
    try:
        return Server(plan, machine, _native.CkksKeys.load(machine, file, False, plan.form))
    except OutOfMemory as e:
        remedy = plan.reading(_native.CkksKeys.load(machine, file, True), _native.free_memory())
        raise OutOfMemory(e.op, e.wanted, e.got, remedy) from None


def _budget(memory: str | float) -> int | None:
    """Bytes for keys and matrices; none means as many as there are."""
    if isinstance(memory, str):
        return 0 if known("memory", memory, ("full", "low")) == "low" else None
    gigabytes = _values.real("load", "memory", memory)
    if not 0 < gigabytes < 1e6:
        remedy = 'as in memory=4.0; or "full" or "low"'
        raise BadInput("load", "memory in gigabytes", str(memory), remedy)
    return int(gigabytes * 1e9)
