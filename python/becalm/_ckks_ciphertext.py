"""Vectors of numbers for CKKS, encrypted."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from becalm import _native, _values
from becalm._called import warn
from becalm._ckks_vector import Vector, operand
from becalm._progress import Progress
from becalm.errors import BadInput, PrecisionWarning, TooNoisy, WrongKey

if TYPE_CHECKING:
    from becalm._ckks_secret_key import SecretKey
    from becalm._ckks_server import Server


class Account(NamedTuple):
    """Upper bounds on the slots of a ciphertext, from public facts alone.

    Examples
    --------
    >>> secret.encrypt([0.5, -0.25]).account.values
    1.0
    """

    #: Upper bound on the absolute value of a slot, without its error. The others depend on it.
    values: float
    #: Upper bound on the root of the mean square of the errors.
    error: float
    #: Upper bound on the absolute error of a slot.
    worst: float
    #: Whether `decrypt_to_share` may rely on them.
    shareable: bool


class Ciphertext(Vector[_native.CkksCiphertext]):
    """A vector of numbers, encrypted: `+`, `-`, `*` with others and with plain numbers.

    A product takes a level, of which `level` are left, and rescales by itself; sums take none.
    Products of two ciphertexts, rotations, matrices, polynomials and bootstraps need the server,
    which those made by `secret.encrypt` and `server.load` know.

    Examples
    --------
    >>> x = secret.encrypt([1, 2, 3, 4], bound=4)
    >>> secret.decrypt(2 * x + 1).round(2).tolist()
    [3.0, 5.0, 7.0, 9.0]
    """

    __slots__ = ("_server",)

    def __init__(
        self,
        native: _native.CkksCiphertext,
        server: Server | None = None,
        where: str = "",
    ) -> None:
        if not isinstance(native, _native.CkksCiphertext):
            remedy = "use SecretKey.encrypt or Server.load"
            raise BadInput("ciphertext", "one that becalm made", type(native).__name__, remedy)
        self._native = native
        self._server = server
        if native.doubt is not None:
            self._doubted(where)

    def _doubted(self, where: str) -> None:
        """Warns once for each server, or raises where the server is strict."""
        if self._server is not None:
            if self._server.strict:
                self._require_precise()
            if self._server._warned:
                return
            self._server._warned = True
        doubted(self._native, where, "; `within` states a smaller bound on values")

    def _require_precise(self) -> None:
        try:
            self._native.require_precise()
        except TooNoisy as e:
            remedy = f"{e.remedy}; `server.strict = False` allows doubtful results"
            raise TooNoisy(e.op, e.wanted, e.got, remedy) from None

    @property
    def key_id(self) -> str:
        """Identity of the secret key; public."""
        return self._native.key_id

    @property
    def largest(self) -> float:
        """The largest absolute value that its level has room for: the modulus that is decrypted,
        over four times the scale. Public, and the same for every message.

        Larger values wrap around without an error, for only the owner of the key can see
        them: keep products and sums below the `largest` of their results. 64 at level 0 of the
        standard sets, 2^40 and more above.
        """
        return self._native.largest

    @property
    def error(self) -> float:
        """The claimed error: an upper bound on the root of the mean square over the slots.

        It holds for every message within the bound on values, `account.values`. A file states
        this figure, so a ciphertext from a file may state anything.
        """
        return self._native.error

    @property
    def account(self) -> Account:
        """Upper bounds on the values and on their errors.

        They follow from the computation, and grow with every factor and term. `decrypt_to_share`
        does not rely on them if the ciphertext was read from a file or bytes, comes from a
        bootstrap or a polynomial, if keys from a file encrypted or computed it, if `within`
        stated a smaller bound, or if a value above its bound was encrypted, nor for anything made
        of such a ciphertext.
        """
        return Account(*self._native.account)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._native.nbytes

    @property
    def stored_nbytes(self) -> int:
        """Bytes in a file, but for the header: a residue takes as many bits as its prime."""
        return self._native.stored_nbytes

    def within(self, bound: float) -> Ciphertext:
        """The same ciphertext with an upper bound on its values that you know.

        Claims of error depend on bounds, which grow with every sum and product. State a smaller
        one where you know it: that a mean of numbers of at most 1 is at most 1, for example.
        Sharing relies on no bound that a server could state. With a smaller bound even a fresh
        ciphertext is no longer `account.shareable`, and `decrypt_to_share` raises an error, until
        the owner of the key vouches for the bound (`vouched`).

        Returns
        -------
        Ciphertext
            The same values.

        Examples
        --------
        >>> x = secret.encrypt([0.5, 1])
        >>> (x + x).account.values, (x + x).within(1).account.values
        (2.0, 1.0)
        >>> x.account.shareable, x.within(0.75).account.shareable
        (True, False)
        """
        native = self._native.within(_values.real("within", "bound", bound))
        return Ciphertext(native, self._server)

    def vouched(
        self,
        values: float | None = None,
        worst: float | None = None,
        *,
        like: Ciphertext | None = None,
    ) -> Ciphertext:
        """The same ciphertext with an account that the owner of the key vouches for.

        `like` is the result of the same computation on an encryption of zeros, made at home: this
        ciphertext must have its level, scale and slots, and gets its account. `values` bounds the
        absolute value of every slot, and `worst` its absolute error; a bound that is left out
        stays as it is. Without arguments you say that the keys of the computation are your own,
        and nothing else; with bounds you say nothing of the keys. Behind a bootstrap, a
        polynomial, or a product of values above their bound, `values` and `worst` are both needed.
        Reasons not to share that you say nothing of remain, and `decrypt_to_share` names them.
        A ciphertext from a server needs `like`,
        because a file may state any scale. Never take a bound from the server: noise that is too
        small gives the secret key away.

        Parameters
        ----------
        values
            Upper bound on the absolute values.
        worst
            Upper bound on the absolute errors.
        like
            The result of the same computation on zeros.

        Returns
        -------
        Ciphertext
            Its account is `shareable` if nothing else speaks against it.

        Raises
        ------
        BadInput
            For a ciphertext from a file without `like`, and a `like` that is not shareable.

        Examples
        --------
        >>> import becalm
        >>> secret, server = becalm.keygen("ckks_toy_12", bootstrap=None, progress=False,
        ...                                allow_insecure=True)
        >>> square = lambda x: x * x
        >>> answer = square(secret.encrypt([0.5])).to_bytes()  # comes from a server
        >>> y = server.from_bytes(answer).vouched(like=square(secret.encrypt([0.0])))
        >>> bool(secret.bits_to_share(y, queries=16) > 0)
        True
        """
        if like is None and not self._native.computed:
            remedy = "run the same computation on an encryption of zeros, and pass its result"
            raise BadInput("vouched", "like=, a result computed at home", "none", remedy)
        like = None if like is None else require(like, "vouched")
        native = self._native.vouched(
            None if values is None else _values.real("vouched", "values", values),
            None if worst is None else _values.real("vouched", "worst", worst),
            None if like is None else like._native,
        )
        return Ciphertext(native, self._server)

    def bootstrap(
        self,
        kind: str | None = None,
        *,
        stage_count: int | None = None,
        iterations: int | None = None,
        progress: Progress = None,
    ) -> Ciphertext:
        """The same values with the levels of the set again; see `Server.bootstrap`.

        Parameters
        ----------
        kind, stage_count, iterations, progress
            As for `Server.bootstrap`.

        Returns
        -------
        Ciphertext
            At the highest level.

        Examples
        --------
        >>> y = secret.encrypt([0.5, -0.25, 0.75, 1], level=0).bootstrap()
        >>> y.level, secret.decrypt(y).round(2).tolist()
        (10, [0.5, -0.25, 0.75, 1.0])
        """
        server = self._of("bootstrap")
        options = {"stage_count": stage_count, "iterations": iterations}
        return server.bootstrap(self, kind, **options, progress=progress)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the ciphertext to a file, for `load` of the secret key or the server.

        The file says whether all values are known to be real.

        Examples
        --------
        >>> secret.encrypt([1, 2, 3, 4], bound=4).save("x.becalm")
        >>> secret.decrypt(becalm.load("x.becalm", allow_insecure=True)).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        self._native.save(_values.path("save", path))

    def decrypt(self, secret: SecretKey) -> npt.NDArray[Any]:
        """The same as `secret.decrypt(x)`: for the owner of the key alone.

        Returns
        -------
        array
            Floats where all values are known to be real, else complex numbers.

        Examples
        --------
        >>> secret.encrypt([1, 2, 3, 4], bound=4).decrypt(secret).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        found: npt.NDArray[Any] = _values.decrypted(self, secret)
        return found

    def to_bytes(self) -> bytes:
        """The bytes of its file; `becalm.from_bytes` and `Server.from_bytes` read them.

        Returns
        -------
        bytes
            The file, still encrypted.

        Examples
        --------
        >>> sent = secret.encrypt([1, 2, 3, 4], bound=4).to_bytes()
        >>> secret.decrypt(becalm.from_bytes(sent, allow_insecure=True)).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        return self._native.to_bytes()

    def __copy__(self) -> Ciphertext:
        """Itself, for nothing changes it: a copy knows its server."""
        return self

    def __deepcopy__(self, memo: object) -> Ciphertext:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels as the bytes of its file; it comes back without its server: `server.attach`."""
        return _restored, (self._native.params, self.to_bytes())

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        return "becalm.ckks.Ciphertext", [
            ("holds", f"{self.slots:,} {'real' if self.real else 'complex'} values"),
            ("level", self.level),
            ("scale", f"2^{np.log2(self.scale):.1f}"),
            ("precision, about", f"{-np.log2(self.error):.1f} bits"),
            ("size", _values.megabytes(self.nbytes)),
            ("parameter set", self._native.params),
            ("key", self.key_id),
        ]

    def __repr__(self) -> str:
        return (
            f"<becalm.ckks.Ciphertext of {self.slots} {'real' if self.real else 'complex'} values, "
            f"level {self.level}, scale 2^{np.log2(self.scale):.1f}, about "
            f"{-np.log2(self.error):.1f} bits, {self._native.params}, key {self.key_id}>"
        )

    def _of(self, op: str) -> Server:
        if self._server is None:
            remedy = "server.attach(x) tells it, and so does reading it with server.load"
            raise WrongKey(op, "a ciphertext that knows its server", "one that does not", remedy)
        return self._server

    def _computing(self, op: str, other: Vector[Any] | None = None) -> Server:
        if self._server is None and isinstance(other, Ciphertext):
            return other._of(op)
        return self._of(op)

    def _with(self, native: _native.CkksCiphertext, other: Vector[Any] | None = None) -> Ciphertext:
        server = self._server or (other._server if isinstance(other, Ciphertext) else None)
        return Ciphertext(native, server)


def ran(
    lanes: Sequence[Sequence[_native.CkksCiphertext]],
    record: Callable[..., Sequence[_native.CkksRegister]],
    keys: _native.CkksKeys | None = None,
) -> list[list[_native.CkksCiphertext]]:
    """The results of one program, run once on every lane: for each result one of each lane.

    `record` gets the program and a register for each ciphertext of a lane, at the lowest level of
    all lanes, and returns the results.
    """
    program = _native.CkksProgram.beside(lanes[0][0])
    for result in record(program, *(program.input_like(xs) for xs in zip(*lanes, strict=True))):
        program.output(result)
    made = program.run(lanes) if keys is None else _native.CkksPrepared(keys, program).run(lanes)
    return [list(each) for each in zip(*made, strict=True)]


def applied(
    lanes: Sequence[Sequence[_native.CkksCiphertext]], apply: Callable[..., Any]
) -> list[_native.CkksCiphertext]:
    """The result on each lane of a call that ciphertexts and registers have, and needs no key. A
    single lane takes the call itself."""
    if len(lanes) == 1:
        return [apply(*lanes[0])]
    return ran(lanes, lambda _, *xs: [apply(*xs)])[0]


def doubted(native: _native.CkksCiphertext, where: str = "", remedy: str = "") -> None:
    """Warns of a result with few bits; `where` is the line of the program that lost most."""
    text = f"by its claim of error a result has {native.doubt}"
    if native.loss is not None:
        bits, op, _ = native.loss
        most = f"the most, {bits:.1f} bits," if math.isfinite(bits) else "all"
        text += f"; {most} were lost in {op}{where}"
    warn(f"{text}. A claim is an upper bound for every message{remedy}", PrecisionWarning)


class _Keyed(Protocol):
    @property
    def key_id(self) -> str: ...


K = TypeVar("K", bound=_Keyed)


def owned(op: str, x: K, key_id: str) -> K:
    """The ciphertext, if it is one of this key."""
    if x.key_id == key_id:
        return x
    remedy = "use the keys that it was encrypted for"
    raise WrongKey(op, f"a ciphertext of key {key_id}", f"one of key {x.key_id}", remedy)


def as_said(
    op: str, native: _native.CkksCiphertext, said: bool | None, real: bool
) -> _native.CkksCiphertext:
    """A ciphertext of a file, of whose values the caller may say that they are real."""
    if said is False and real:
        wanted, remedy = "a ciphertext of real values", "leave real=True out"
        raise BadInput(op, wanted, "a file that says its values are complex", remedy)
    return native.as_real() if real else native


def _restored(name: str, file: bytes) -> Ciphertext:
    # A toy is allowed, as it was when it was made. Its server's threads come with `attach`.
    native, _ = _native.CkksCiphertext.from_bytes(machine(name, True, 0), file, None)
    return Ciphertext(native)


@lru_cache(maxsize=2)
def machine(name: str, allow_insecure: bool, threads: int) -> _native.CkksMachine:
    """For ciphertexts that travel: one for many of them, for it has tables and threads."""
    return _native.CkksMachine(name, allow_insecure, threads)


def require(x: object, op: str) -> Ciphertext:
    found = operand(x, op)
    if isinstance(found, Ciphertext):
        return found
    remedy = "run the program: server.run(program, x)"
    raise BadInput(op, "a CKKS ciphertext", "a register of a program", remedy)


def lanes_of(inputs: Sequence[Any]) -> list[list[_native.CkksCiphertext]]:
    """The ciphertexts of each lane, native or not."""
    lists = [list(x) if isinstance(x, (list, tuple)) else None for x in inputs]
    counts = sorted({len(x) for x in lists if x is not None})
    if len(counts) > 1 or counts == [0]:
        got = " and ".join(map(str, counts))
        remedy = "give each argument one ciphertext for every lane"
        raise BadInput("run", "lists of one length, of one ciphertext or more", got, remedy)
    count = counts[0] if counts else 1
    each = [x if x is not None else [y] * count for x, y in zip(lists, inputs, strict=True)]

    def native(x: object) -> _native.CkksCiphertext:
        return x if isinstance(x, _native.CkksCiphertext) else require(x, "run")._native

    return [[native(x[lane]) for x in each] for lane in range(count)]
