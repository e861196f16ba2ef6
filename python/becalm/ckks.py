"""CKKS: approximate arithmetic on encrypted vectors of real or complex numbers.

>>> import becalm
>>> secret, server = becalm.keygen("ckks_toy_12", allow_insecure=True, progress=False)
>>> x = secret.encrypt([0.5, -0.25], level=2)
>>> y = (x * x + x).bootstrap()
>>> secret.decrypt(y)[:2].round(2)
array([ 0.75, -0.19])
>>> x.level, y.level
(2, 10)

Every multiplication takes a level; at level 0 a bootstrap gives levels back. `keygen("ckks")` draws
a secret key and makes a server, which computes and holds no secret; `price` says beforehand how
large its keys will be. The results of `decrypt` are for the owner of the key alone: results that
others may see come from `decrypt_to_share`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn, overload

import numpy as np
import numpy.typing as npt

from becalm import _html, _native, _pair, _progress, _public, _values
from becalm._arithmetic import Matrix, chebyshev, depth, dot, paired, sum_rotations
from becalm._encrypts import PublicKey, SecretKey, load_public_key, load_secret_key
from becalm._files import of_kind
from becalm._lock import Lock
from becalm._names import CkksName
from becalm._progress import Progress
from becalm._sets import (
    AS_MADE,
    KINDS,
    Params,
    Price,
    compact_of,
    known,
    params,
    planned,
    priced,
    staged,
    turns,
)
from becalm._vectors import Account, Ciphertext, Plaintext, at_level, owned, require, vector
from becalm.errors import BadInput, Error, OutOfMemory, Unsupported, WrongKey, WrongParams

__all__ = [
    "Account",
    "Ciphertext",
    "Keys",
    "Matrix",
    "Params",
    "Plaintext",
    "Price",
    "PublicKey",
    "SecretKey",
    "Server",
    "depth",
    "dot",
    "keygen",
    "load_public_key",
    "load_secret_key",
    "load_server",
    "params",
    "price",
    "sum_rotations",
]
__dir__ = _public.names(__all__)


class Server(_html.Shown):
    """The side that computes: evaluation keys, and no secret.

    A bootstrap encodes its matrices when it first runs; those of the last kind are kept. A server
    may be used from several threads.
    """

    __slots__ = ("_context", "_keys", "_lock", "_matrices", "_plan", "_session")

    def __init__(
        self,
        plan: _native.CkksPlan,
        context: _native.CkksContext,
        keys: _native.CkksKeys,
        matrices: int | None = None,
    ) -> None:
        self._plan = plan
        self._context = context
        self._matrices = matrices
        self._keys = keys
        self._lock = Lock()
        self._session: tuple[tuple[object, ...], _native.CkksSession] | None = None

    @property
    def params(self) -> Params:
        """The parameter set."""
        found: Params = params(self._plan.name)
        return found

    @property
    def key_id(self) -> str:
        """Identity of the secret key; public."""
        return self._keys.key_id

    @property
    def slots(self) -> int:
        """Values in a ciphertext."""
        return self._plan.slots

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of bootstrap that the keys were made for, the usual one first."""
        return tuple(self._plan.kinds)

    @property
    def nbytes(self) -> int:
        """Bytes of the keys in memory; none of those that stay in their file."""
        return self._keys.nbytes

    @property
    def stored_nbytes(self) -> int:
        """Bytes of the keys in a file, but for the header."""
        return self._keys.stored_nbytes

    def multiply(self, a: Ciphertext, b: Ciphertext) -> Ciphertext:
        """`a * b`, one level below the lower of the two."""
        x, y = require(a, "multiply"), require(b, "multiply")
        return Ciphertext(self._keys.multiply(x._native, y._native), self, a.real and b.real)

    def dot(self, xs: Iterable[Ciphertext], ys: Iterable[Ciphertext]) -> Ciphertext:
        """Σ x·y over pairs of two lists, one level below the lowest of all.

        It relinearizes and rescales once, where a sum of products does so for each. For the sum
        over the slots of one product, `(x * y).sum()`.
        """
        left, right = paired(xs, ys)
        real = all(x.real for x in (*left, *right))
        made = self._keys.dot([x._native for x in left], [y._native for y in right])
        return Ciphertext(made, self, real)

    @overload
    def rotate(self, x: Ciphertext, by: int) -> Ciphertext: ...

    @overload
    def rotate(self, x: Ciphertext, by: Iterable[int]) -> list[Ciphertext]: ...

    def rotate(self, x: Ciphertext, by: int | Iterable[int]) -> Ciphertext | list[Ciphertext]:
        """The values moved to the left by `by` slots; needs the key of that rotation. Of several
        numbers it is a list, in less time than one by one (hoisting).
        """
        native = require(x, "rotate")._native
        listed, several = turns(by)
        least = [k % native.slots for k in listed]
        with _named(f"make keys with rotations={listed}"):
            if not several:
                return Ciphertext(self._keys.rotate(native, least[0]), self, x.real)
            made = self._keys.rotate_many(native, least) if least else []
            return [Ciphertext(y, self, x.real) for y in made]

    def sum(self, x: Ciphertext, size: int | None = None) -> Ciphertext:
        """In slot i the sum of slots i to i + `size` − 1, counted around; takes no level.

        Over all slots, which is the default, it is their sum in every slot. With a smaller `size`,
        a power of two, slots 0, `size`, 2·`size`, … have the sums of consecutive blocks. It needs
        the rotations of `ckks.sum_rotations(size)`.
        """
        native = require(x, "sum")._native
        count = native.slots if size is None else _values.count("sum", "size", size)
        with _named(f"make keys with rotations=ckks.sum_rotations({count})"):
            return Ciphertext(self._keys.sum(native, count), self, x.real)

    def linear(self, matrix: Matrix, x: Ciphertext) -> Ciphertext:
        """`matrix @ x`, one level lower; needs the keys of `matrix.rotations`."""
        op = "matrix product"
        native = owned(op, require(x, op), self.key_id)._native
        if not isinstance(matrix, Matrix):
            remedy = "make it of an array: ckks.Matrix(array)"
            raise BadInput(op, "a ckks.Matrix", type(matrix).__name__, remedy)
        if matrix.slots != native.slots:
            wanted, remedy = f"a matrix for {native.slots} slots", "say so: Matrix(array, slots=…)"
            raise BadInput(op, wanted, f"one for {matrix.slots}", remedy)
        if native.level == 0:
            raise BadInput(op, "a ciphertext at level 1 or above", "level 0", self._upwards())
        rotations = matrix.rotations
        few = str(rotations) if len(rotations) < 5 else "M.rotations, M the matrix"
        with _named(f"make keys with rotations={few}"):
            # Before the matrix is encoded, which takes time.
            self._keys.require_rotations(rotations, native.level)
            encoded = matrix._encoded(self._context, native.level)
            return Ciphertext(self._keys.linear(native, encoded), self, x.real and matrix.real)

    def polynomial(self, x: Ciphertext, p: Any) -> Ciphertext:
        """p of every value; takes ⌈log2(degree + 1)⌉ levels, or one more: `ckks.depth(p)`.

        `p` is a list of real coefficients from the constant up, for values in [−1, 1], or a
        `numpy.polynomial.Polynomial`, `Chebyshev` or another of these, for values in its `domain`.
        A domain that is not of length 2 takes a level more, to be mapped to [−1, 1]. Outside of it
        parts of the polynomial soon grow beyond any room, and nothing tells.
        """
        found, native = chebyshev(p), require(x, "polynomial")._native
        if native.level < found.depth:
            wanted = f"a ciphertext at level {found.depth} or above for degree {found.degree}"
            got, remedy = f"level {native.level}", f"{self._upwards()}, or lower the degree"
            raise BadInput("polynomial", wanted, got, remedy)
        at = x if found.factor == 1 else x * found.factor
        at = at + found.offset if found.offset else at
        made = self._keys.polynomial(at._native, found.coefficients)
        return Ciphertext(made, self, x.real)

    def encode(self, values: npt.ArrayLike, *, level: int | None = None) -> Plaintext:
        """Encodes a vector, or one number for all slots, for ciphertexts at a level: the highest,
        unless another is given. It can be added and multiplied many times.
        """
        data, real = vector("encode", values, self.slots, single=True)
        most = self.params.levels
        at = most if level is None else at_level("encode", level, most)
        return Plaintext(_native.CkksPlaintext(self._context, data, at), real)

    def conjugate(self, x: Ciphertext) -> Ciphertext:
        """The complex conjugate of every value."""
        native = require(x, "conjugate")._native
        with _named("make keys with conjugate=True"):
            return Ciphertext(self._keys.conjugate(native), self, x.real)

    def bootstrap(
        self,
        x: Ciphertext,
        kind: str | None = None,
        *,
        stage_count: int | None = None,
        progress: Progress = None,
    ) -> Ciphertext:
        """The same values with the levels of the set again.

        `kind` is `"regular"`, `"sparse"`, `"lossy"`, `"sign"` (for values near −1 and 1), or
        `"precise"` on a set made for it; by default what the keys were made for. `lossy` and
        `sign` take `x` at the level of `stage_count` or above. Vectors known to be real take half
        the approximations.
        """
        native = owned("bootstrap", require(x, "bootstrap"), self.key_id)
        values = "real" if native.real else "complex"
        made = self._run(kind, stage_count, values, [native], progress)
        return Ciphertext(made[0], self, native.real)

    def bootstrap_pair(
        self,
        a: Ciphertext,
        b: Ciphertext,
        kind: str | None = None,
        *,
        stage_count: int | None = None,
        progress: Progress = None,
    ) -> tuple[Ciphertext, Ciphertext]:
        """Two vectors of real numbers in the time of one complex one. Not for `"sparse"`, where
        a complex vector takes no longer than a real one.
        """
        pair = [owned("bootstrap", require(x, "bootstrap"), self.key_id) for x in (a, b)]
        if self._kind(kind) == "sparse":
            remedy = "bootstrap a + b.times_i(), which takes no longer there, or one by one"
            raise BadInput("bootstrap_pair", "another kind than sparse", "sparse", remedy)
        if not all(x.real for x in pair):
            remedy = "bootstrap them one by one"
            raise BadInput("bootstrap", "values known to be real", "others", remedy)
        made = self._run(kind, stage_count, "merged", pair, progress)
        return Ciphertext(made[0], self, True), Ciphertext(made[1], self, True)

    def check(self, values: npt.ArrayLike, kind: str | None = None) -> None:
        """Refuses values in the clear that a bootstrap would not bring back: the server cannot
        see them later. `kind` is any that the set of the keys has.
        """
        data, real = vector("bootstrap", values, self.slots, single=False)
        if self._kind(kind) == "sign":
            # Slots that are only filled up may hold anything.
            given = np.asarray(values)
            filled = np.concatenate([given, np.ones(self.slots - given.size)])
            data, real = vector("bootstrap", filled, self.slots, single=False)
        program = self._plan.record(self._kind(kind), None, "real" if real else "complex")
        program.check_values(data)

    def attach(self, x: Ciphertext) -> Ciphertext:
        """The ciphertext, knowing this server and computed with by its threads."""
        own = owned("attach", require(x, "attach"), self.key_id)
        return Ciphertext(own._native.on(self._context), self, x.real)

    def load(
        self, path: str | os.PathLike[str], *, limit: int | None = None, real: bool = False
    ) -> Ciphertext:
        """Reads a ciphertext of at most `limit` bytes (1 GiB by default). Files do not say whether
        values are `real`; who knows it saves half of a bootstrap's work.
        """
        most, file = _values.limit("load", limit), _values.path("load", path)
        with of_kind("load", file, "becalm.rlwe"):
            native = self._context.load_ciphertext(file, most)
        return owned("load", Ciphertext(native, self, real), self.key_id)

    def from_bytes(
        self, file: bytes, *, limit: int | None = None, real: bool = False
    ) -> Ciphertext:
        """The ciphertext of `to_bytes`, as `load`."""
        data, most = _values.data("from_bytes", file), _values.limit("from_bytes", limit)
        native = self._context.ciphertext_from_bytes(data, most)
        return owned("from_bytes", Ciphertext(native, self, real), self.key_id)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the keys to a file, for `load_server`; what they were made for stands in it."""
        self._keys.save(_values.path("save", path), self._plan.note())

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        return "becalm.ckks.Server", [
            ("bootstraps", ", ".join(self.kinds) or "none"),
            ("slots", f"{self.slots:,}"),
            ("keys in memory", _values.megabytes(self.nbytes)),
            ("keys in a file", _values.megabytes(self.stored_nbytes)),
            ("parameter set", self._plan.name),
            ("key", self.key_id),
        ]

    def __repr__(self) -> str:
        kinds = ", ".join(self.kinds) or "no"
        return f"<becalm.ckks.Server for key {self.key_id} of {self._plan.name}, {kinds} bootstrap>"

    def __reduce__(self) -> NoReturn:
        remedy = "save() the keys to a file and load_server() them there"
        raise Unsupported("copy", "something that can travel", "a machine", remedy)

    def _upwards(self) -> str:
        """How to come to more levels."""
        return "bootstrap it first" if self.kinds else "encrypt it at a higher level"

    def _kind(self, kind: str | None) -> str:
        if kind is not None:
            return known("kind", kind, KINDS)
        if not self._plan.kinds:
            raise self._without()
        return self._plan.kinds[0]

    def _without(self) -> Error:
        """The refusal of a bootstrap by keys that were made for none."""
        if not self.params.stage_count:
            remedy = 'make keys of "ckks"; this set is for arithmetic alone'
            return WrongParams(
                "bootstrap", "a set with a bootstrap", f"`{self._plan.name}`", remedy
            )
        remedy = 'make them with bootstrap="medium"'
        return WrongKey("bootstrap", "keys of a bootstrap", "keys without", remedy)

    def _remedy(self, kind: str, stage_count: int | None) -> str:
        """The arguments of `keygen` that make the keys of a bootstrap."""
        plan = self._plan
        words = [f'kinds="{kind}"', f'bootstrap="{plan.size or "medium"}"']
        if kind == "sparse":
            words.append(f"slots={plan.slots}")
        stages = plan.stage_count if stage_count is None else stage_count
        if stages is not None:
            words.append(f"stage_count={stages}")
        return f"make keys with {', '.join(words)}"

    def _run(
        self,
        kind: str | None,
        stage_count: int | None,
        values: str,
        inputs: list[Ciphertext],
        progress: Progress,
    ) -> list[_native.CkksCiphertext]:
        which = (self._kind(kind), stage_count, values)
        if inputs[0].slots > self.slots:
            wanted, got = f"a ciphertext of at most {self.slots} slots", str(inputs[0].slots)
            raise BadInput("bootstrap", wanted, got, f"make keys with slots={got}")
        session = self._opened(which)
        with _progress.shown(progress, "bootstrap", 1.0) as callback, _named(""):
            return session.run([x._native for x in inputs], callback)

    def _opened(self, which: tuple[str, int | None, str]) -> _native.CkksSession:
        with self._lock:
            if self._session is None or self._session[0] != which:
                self._session = None
                kind, stages, values = which
                program = staged(stages, lambda n: self._plan.record(kind, n, values))
                with _named(self._remedy(kind, stages)):
                    session = _native.CkksSession(self._keys, program, self._matrices)
                self._session = (which, session)
            return self._session[1]


@contextlib.contextmanager
def _named(remedy: str) -> Iterator[None]:
    """Refuses missing keys, and keys that do not fit, with the remedy in Python's words."""
    try:
        yield
    except WrongKey as e:
        # A ciphertext of another secret key is not helped by keys that are made here.
        if e.missing is None or not remedy:
            raise
        made = WrongKey(e.op, e.wanted, e.got, remedy)
        made.missing = e.missing
        raise made from None
    except OutOfMemory as e:
        least = 'ckks.load_server(path, memory="low") takes the least; or more stages, fewer slots'
        raise OutOfMemory(e.op, e.wanted, e.got, least) from None


class Keys(_pair.Pair[SecretKey, Server]):
    """A secret key and the server that computes under it."""

    __slots__ = ()


def price(
    name: CkksName | str = "ckks",
    *,
    slots: int | None = None,
    bootstrap: str | None = "medium",
    kinds: Iterable[str] | str | None = None,
    levels: int | None = None,
    stage_count: int | None = None,
    rotations: Iterable[int] = (),
    conjugate: bool = True,
    compact: bool | str = False,
) -> Price:
    """Sizes of keys, levels and precision, as `keygen` with these arguments would make them."""
    plan = planned(
        name,
        slots=slots,
        bootstrap=bootstrap,
        kinds=kinds,
        levels=levels,
        stage_count=stage_count,
        rotations=rotations,
        conjugate=conjugate,
        compact=compact,
    )
    return priced(plan)


def keygen(
    name: CkksName | str = "ckks",
    *,
    slots: int | None = None,
    bootstrap: str | None = "medium",
    kinds: Iterable[str] | str | None = None,
    levels: int | None = None,
    stage_count: int | None = None,
    rotations: Iterable[int] = (),
    conjugate: bool = True,
    compact: bool | str = False,
    allow_insecure: bool = False,
    threads: int = 0,
    progress: Progress = None,
) -> Keys:
    """Makes a secret key and its server; the same as `becalm.keygen("ckks", …)`.

    `name` is that of a parameter set, or `"ckks"` for the standard set of a need: `levels` that a
    bootstrap leaves (10, 14 or 17), and the `kinds` of bootstrap. `bootstrap` is the size of its
    keys, `"small"`, `"medium"` or `"large"` (small is slower; large is faster only
    where memory is fast), or `None` for arithmetic alone, which is all of a set without a
    bootstrap (`"ckks_n14"`).
    Vectors have `slots` values, by default all that fit; few slots take less time. `rotations`
    lists those that the server may do besides. `stage_count` as in `Server.bootstrap`.
    `compact=True` packs keys and ciphertexts in memory, residues in as few bits as they take: a
    quarter less, and no slower. `compact="seeded"` leaves half of a key to be drawn from seeds
    whenever it is used: three eighths of the size, for more time.
    """
    plan = planned(
        name,
        slots=slots,
        bootstrap=bootstrap,
        kinds=kinds,
        levels=levels,
        stage_count=stage_count,
        rotations=rotations,
        conjugate=conjugate,
        compact=compact,
    )
    plan.require(_native.available_memory())
    context = _context(plan, allow_insecure, threads)
    if progress is not False and sys.stderr:
        print(_announcement(priced(plan)), file=sys.stderr, flush=True)
    native = context.secret_key()
    with _progress.shown(progress, "keys", 0.0) as callback:
        keys = native.keys(plan.needs(), None, callback, plan.form)
    server = Server(plan, context, keys)
    return Keys(SecretKey(context, native, plan.slots, server), server)


def _context(plan: _native.CkksPlan, allow_insecure: bool, threads: int) -> _native.CkksContext:
    count = _values.count("keygen", "threads", threads)
    return _native.CkksContext(plan.name, bool(allow_insecure), count, plan.form != "ready")


def _announcement(p: Price) -> str:
    claims = params(p.params)
    return (
        f"becalm: {p.params}, {claims.security_bits:.1f} bits of security, {p.slots} slots\n"
        f"becalm: making evaluation keys of {_values.megabytes(p.stored_bytes)} "
        f"({_values.megabytes(p.memory_bytes)} in memory{', compact' if p.compact else ''})"
    )


def load_server(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    slots: int | None = None,
    bootstrap: str | None = AS_MADE,
    kinds: Iterable[str] | str | None = None,
    stage_count: int | None = None,
    allow_insecure: bool = False,
    threads: int = 0,
    memory: str | float = "full",
    compact: bool | str | None = None,
) -> Server:
    """Reads the keys of a server, and what they were made for; so does `becalm.load`.

    `name`, `slots`, `bootstrap`, `kinds` and `stage_count` stand in the file: arguments are for
    keys that suffice for something else besides. So does whether they are `compact`; either
    form of keys can be read as the other.

    `memory` is what keys and encoded matrices of a bootstrap may take in all: gigabytes, `"full"`,
    or `"low"`, which is as little as a bootstrap needs. Gigabytes go to what the largest step
    takes, then to matrices that are kept, the largest first, for these take longer to make again,
    then to keys. Keys that do not fit stay in the file, which must not change, and are expanded
    when they are used, which takes some more time. Ciphertexts and the work on them take more
    besides.
    """
    budget = _budget(memory)
    file = _values.path("load", path)
    with of_kind("load", file, "becalm.ckks_evaluation_keys"):
        found, note = _native.ckks_keys_of_file(file)
    noted = _native.CkksPlan.noted(note)
    if compact and budget is not None:
        remedy = 'leave one of them out: memory="low" takes the least'
        raise BadInput("load", "compact keys, or a budget of memory", "both", remedy)
    plan = planned(
        found if name is None else name,
        slots=noted[0] if slots is None else slots,
        kinds=noted[1] or None if kinds is None else kinds,
        bootstrap=noted[2] if bootstrap == AS_MADE else bootstrap,
        levels=None,
        stage_count=noted[3] if stage_count is None else stage_count,
        compact=compact_of(noted[4]) if compact is None else compact,
    )
    context = _context(plan, allow_insecure, threads)
    try:
        keys = context.load_keys(file, budget is not None, "ready" if budget else plan.form)
    except OutOfMemory as e:
        stored, free = context.load_keys(file, True), _native.available_memory() or 0
        raise OutOfMemory(e.op, e.wanted, e.got, plan.reading(stored, free)) from None
    if budget is None:
        return Server(plan, context, keys)
    if not budget:
        return Server(plan, context, keys, 0)
    try:
        shares = [keys.shares(program, budget) for program in plan.programs]
    except OutOfMemory as e:
        remedy = 'allow more memory, "low", or keys of bootstrap="small" or of more stages'
        raise OutOfMemory(e.op, e.wanted, e.got, remedy) from None
    # Any of the bootstraps may run next: what each of them has room for.
    matrices, ready = (min(s[k] for s in shares) if shares else budget for k in (0, 1))
    return Server(plan, context, keys.ready(ready), matrices)


def _budget(memory: str | float) -> int | None:
    """Bytes for keys and matrices; none means as many as there are."""
    if isinstance(memory, str):
        return 0 if known("memory", memory, ("full", "low")) == "low" else None
    gigabytes = _values.real("load", "memory", memory)
    if not 0 < gigabytes < 1e6:
        remedy = 'as in memory=4.0; or "full" or "low"'
        raise BadInput("load", "memory in gigabytes", str(memory), remedy)
    return int(gigabytes * 1e9)
