"""The keys of CKKS that encrypt, a secret and a public one: `becalm.ckks` has them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, overload

import numpy.typing as npt

from becalm import _html, _native, _values
from becalm._called import called, warn
from becalm._ckks_ciphertext import Ciphertext, owned, require
from becalm._ckks_keygen import asked, keys_of
from becalm._ckks_packed import PackedArray, decrypted, encrypted, of_file
from becalm._ckks_sets import USUAL_SIZE, Params, params
from becalm._ckks_threshold import KeyShare
from becalm._ckks_vector import array, at_least_one_value, at_level, vector
from becalm._files import of_kind
from becalm._progress import Progress
from becalm.errors import PrecisionWarning, Unsupported

if TYPE_CHECKING:
    from becalm._ckks_cost import Needs
    from becalm._ckks_server import Server


class Key(_html.Shown):
    """The common part of secret and public keys. Python names it in errors of arguments."""

    __slots__ = ("_levels", "_native", "_server", "_slots")
    _native: Any

    def __init__(self, native: Any, levels: int, slots: int, server: Server | None) -> None:
        self._native = native
        self._levels = levels
        self._slots = slots
        self._server = server

    @property
    def key_id(self) -> str:
        """Identity of the key; public and drawn apart from it."""
        found: str = self._native.key_id
        return found

    @property
    def slots(self) -> int:
        """Number of values that a ciphertext gets; shorter vectors are filled with zeros."""
        return self._slots

    def encrypt(
        self, values: npt.ArrayLike, *, level: int | None = None, bound: float | None = None
    ) -> Ciphertext:
        """Encrypts a vector, at the highest level unless another is given. A single number is a
        vector of one value.

        A lower level makes a smaller ciphertext, on which everything is faster. `bound` is an upper
        bound on the absolute values. It is public. All claims of error depend on it. Without it
        they hold for values of at most 1, and a larger one warns with `PrecisionWarning`. A
        ciphertext's `largest` tells the room of its level: larger values raise an error here, but
        cannot be seen later.

        Parameters
        ----------
        values
            Numbers, at most `slots`. Their type is public: values of a complex type count as
            complex, even if all imaginary parts are 0.
        level
            The level, by default the highest.
        bound
            Upper bound on the absolute values, 1 by default.

        Returns
        -------
        Ciphertext
            It knows the server of the key.

        Raises
        ------
        BadInput
            For a value above `bound`, or too many values.

        Examples
        --------
        >>> secret.decrypt(secret.encrypt([1, 2, 3, 4], level=2, bound=4)).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        data, real = vector("encrypt", at_least_one_value(values), self._slots, single=False)
        at = self._levels if level is None else at_level("encrypt", level, self._levels)
        most = None if bound is None else _values.real("encrypt", "bound", bound)
        native = self._native.encrypt(data, at, real, most)
        if native.exceeds:
            text = "a value exceeds 1, so no claim of errors holds: pass the largest as `bound`"
            warn(text, PrecisionWarning)
        return Ciphertext(native, self._server)

    @called("encrypt_packed")
    def encrypt_packed(self, values: npt.ArrayLike, *, bits: int) -> PackedArray:
        """Encrypts integers of 1 to 4 bits for tables, with a set that has some: `ckks_table_4`.

        Parameters
        ----------
        values
            Integers from 0 to 2^bits - 1, of any shape. A ciphertext holds 65,536 at N = 2^16.
        bits
            Sums are taken modulo 2^bits.

        Returns
        -------
        PackedArray
            It knows the server of the key.

        Raises
        ------
        BadInput
            For a value that is too large or negative, and for other bits.
        WrongParams
            For a set without tables.

        Examples
        --------
        >>> options = {"allow_insecure": True, "progress": False, "bootstrap": None}
        >>> secret, _ = becalm.keygen("ckks_toy_table_4", **options)
        >>> secret.decrypt(secret.encrypt_packed([3, 1, 4], bits=3)).tolist()
        [3, 1, 4]
        """
        return encrypted(self._native, self._server, values, bits)


class SecretKey(Key):
    """The secret key of one user: encrypts and decrypts.

    It cannot be copied or pickled, its memory is wiped when it goes, and nothing that becalm prints
    contains any of it.

    Examples
    --------
    >>> secret.decrypt(secret.encrypt([1, 2, 3, 4], bound=4)).round(2).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """

    __slots__ = ("_machine",)
    #: The class of servers, which `becalm.ckks` sets: it imports this module.
    _serves: ClassVar[type[Server]]

    def __init__(
        self,
        machine: _native.CkksMachine,
        native: _native.CkksSecretKey,
        slots: int,
        server: Server | None = None,
    ) -> None:
        super().__init__(native, params(machine.name).levels, slots, server)
        self._machine = machine

    @property
    def params(self) -> Params:
        """The parameter set."""
        found: Params = params(self._machine.name)
        return found

    @overload
    def decrypt(self, x: Ciphertext | PackedArray) -> npt.NDArray[Any]: ...

    @overload
    def decrypt(self, x: list[Any]) -> list[Any]: ...

    @overload
    def decrypt(self, x: tuple[Any, ...]) -> tuple[Any, ...]: ...

    def decrypt(self, x: Any) -> Any:
        """The values, real ones where all are known to be real; of a list or tuple, those of each
        ciphertext. For you alone.

        The error of CKKS depends on the secret key, and a decryption that others see tells them
        the key (Li–Micciancio 2021). Results to publish come from `decrypt_to_share`.
        `x.decrypt(secret)` is the same. All slots come back: of a shorter vector the others are 0,
        but for the error.

        Returns
        -------
        array, list or tuple
            Floats or complex numbers; of packed integers, integers.

        Raises
        ------
        WrongKey
            For a ciphertext of another key.

        Examples
        --------
        >>> secret.decrypt(secret.encrypt([1, 2, 3, 4], bound=4)).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        if isinstance(x, (list, tuple)):
            parts = [self.decrypt(part) for part in x]
            return tuple(parts) if isinstance(x, tuple) else parts
        if isinstance(x, PackedArray):
            return decrypted(self._native, x)
        return array(self._native.decrypt(require(x, "decrypt")._native), x.real)

    def decrypt_to_share(
        self, x: Ciphertext, *, precision_bits: float, queries: int
    ) -> npt.NDArray[Any]:
        """The values with noise of standard deviation 2^-`precision_bits`, fit to be published.

        This is the noise of a slot. Its real and its imaginary part have
        2^-(`precision_bits` + 1/2) each, and so has a real value.

        The noise hides the error of the ciphertext, of which `x.account` holds an upper bound. A
        ciphertext with an unknown account raises `BadInput`: see `Ciphertext.vouched`. More bits
        than the account allows raise `TooNoisy`, whose message says how many it allows.

        `queries` is the number of decryptions under this key that will be shared in all. Each call
        spends 1/`queries` of the key's budget, and once all of it is spent, further calls raise
        `BadInput`. The key counts in memory (`spent`): if it is read from its file again, or is in
        use on several machines or in forked processes, let `queries` cover the calls of all.

        Results beyond the bound of the account raise an error. Such an error counts as a query. It
        depends on the values with their noise, so it reveals no more than they would.

        Parameters
        ----------
        x
            A ciphertext.
        precision_bits
            Bits of the noise that is added.
        queries
            How many decryptions will be shared in all.

        Returns
        -------
        array
            The values with noise.

        Raises
        ------
        TooNoisy
            For more bits than the account allows.
        BadInput
            For an unknown account, and when the budget is spent.

        Examples
        --------
        >>> x = secret.encrypt([0.5, -0.25])
        >>> shared = secret.decrypt_to_share(x, precision_bits=5, queries=10)
        >>> bool(abs(shared[0] - 0.5) < 0.4)
        True
        """
        op = "decrypt_to_share"
        bits = _values.real(op, "precision_bits", precision_bits)
        times = _values.at_least_one(op, "queries", queries)
        native = require(x, op)._native
        with called(op):
            return array(self._native.decrypt_to_share(native, bits, times), x.real)

    def bits_to_share(self, x: Ciphertext, *, queries: int) -> float:
        """The largest `precision_bits` of `decrypt_to_share` for a number of decryptions.

        Parameters
        ----------
        x
            A ciphertext.
        queries
            How many decryptions will be shared in all.

        Returns
        -------
        float
            Bits.

        Examples
        --------
        >>> secret.bits_to_share(secret.encrypt([0.5]), queries=10) > 5
        True
        """
        op = "bits_to_share"
        times = _values.at_least_one(op, "queries", queries)
        own = owned(op, require(x, op), self.key_id)
        return own._native.bits_to_share(times)

    @property
    def spent(self) -> float:
        """The part of the budget that `decrypt_to_share` has spent, 0 to 1, since this key was made
        or read.
        """
        return float(self._native.spent)

    def server(
        self,
        *,
        slots: int | None = None,
        bootstrap: str | None = USUAL_SIZE,
        kinds: Iterable[str] | str | None = None,
        stage_count: int | None = None,
        iterations: int = 1,
        rotations: Iterable[int] = (),
        conjugate: bool = True,
        needs: Needs | None = None,
        compact: bool | str | None = None,
        device: str = "auto",
        progress: Progress = None,
    ) -> Server:
        """Makes another server for this key: with more rotations, keys of another size, or keys
        for other kinds of bootstrap.

        Parameters
        ----------
        slots
            Values in a ciphertext, by default those of this key.
        bootstrap, kinds, stage_count, iterations, rotations, conjugate, needs, compact, progress
            As for `becalm.keygen`. Nothing is taken over from an earlier server.
        device
            The machine that computes, as for `becalm.keygen`.

        Returns
        -------
        Server
            With keys of its own. It computes on every ciphertext of this key, whenever that was
            encrypted: `server.attach(x)` tells `x`. Those that this key encrypts from now on know
            the new server.

        Raises
        ------
        OutOfMemory
            For keys that do not fit the free memory, before they are made, with keys that do.
        BadInput, WrongParams
            For a kind, a size or a number of slots or stages that the set does not have.
        Interrupted
            If it was stopped.

        Examples
        --------
        >>> import becalm
        >>> secret, first = becalm.keygen("ckks_toy_12", slots=4, bootstrap=None, progress=False,
        ...                               allow_insecure=True)
        >>> x = secret.encrypt([1, 2, 3, 4], bound=4)
        >>> second = secret.server(bootstrap=None, rotations=[1], progress=False)
        >>> secret.decrypt(second.attach(x).rotate(1)).round(3).tolist()
        [2.0, 3.0, 4.0, 1.0]
        """
        plan = asked(
            self._machine.name,
            slots=self._slots if slots is None else slots,
            bootstrap=bootstrap,
            kinds=kinds,
            levels=None,
            stage_count=stage_count,
            iterations=iterations,
            rotations=rotations,
            conjugate=conjugate,
            needs=needs,
            compact=compact,
            device=device,
            made=True,
        )
        machine = self._machine.again(plan.form != "ready", str(device))
        keys = keys_of(self._native, plan, machine, progress)
        made = self._serves(plan, machine, keys)
        self._server = made
        return made

    def split(self, *, parties: int, threshold: int) -> list[KeyShare]:
        """Splits the key among `parties`, of whom any `threshold` decrypt together; fewer learn
        nothing of it.

        Give each party its own share over a secret channel (`save`, `to_bytes`). Whoever still has
        this key, or enough shares, decrypts alone. Every splitting is a new one: shares of two do
        not fit together.

        Parameters
        ----------
        parties
            How many parties get a share.
        threshold
            How many of them decrypt together.

        Returns
        -------
        list of KeyShare
            One for each party.

        Raises
        ------
        BadInput
            For fewer than 2 or more than 32 parties, a threshold of 1, and where the key would have
            more than 1024 parts, of which there are as many as sets of `threshold` - 1 parties.

        Examples
        --------
        >>> import becalm
        >>> from becalm import ckks
        >>> secret, _ = becalm.keygen("ckks_toy_12", bootstrap=None, progress=False,
        ...                           allow_insecure=True)
        >>> x = secret.encrypt([0.5, -0.25])
        >>> shares = secret.split(parties=3, threshold=2)
        >>> parts = [share.decrypt_partially(x, quorum=[1, 3], precision_bits=5, queries=10)
        ...          for share in (shares[0], shares[2])]
        >>> bool(abs(ckks.combine(x, parts)[0] - 0.5) < 0.4)
        True
        """
        count = _values.count("split", "parties", parties)
        least = _values.count("split", "threshold", threshold)
        return [KeyShare(self._machine.name, s) for s in self._native.split(count, least)]

    def public_key(self) -> PublicKey:
        """A key with which anyone encrypts.

        Returns
        -------
        PublicKey
            It holds no secret.

        Examples
        --------
        >>> x = secret.public_key().encrypt([1, 2, 3, 4], bound=4)
        >>> secret.decrypt(x).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        return PublicKey(self._native.public_key(), self._levels, self._slots, self._server)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the key to a file that only its owner can read, for `load_secret_key`.

        Parameters
        ----------
        path
            The file.
        overwrite
            Whether another secret key at this place is replaced. Otherwise it raises `IoError`.

        Examples
        --------
        >>> secret.save("secret.becalm", overwrite=True)
        >>> becalm.load("secret.becalm", allow_insecure=True).key_id == secret.key_id
        True
        """
        self._native.save(_values.path("save", path), bool(overwrite))

    def _save_with(self, server: Server, paths: tuple[str, str], overwrite: bool) -> None:
        self._native.save_with(server._keys, paths, server._plan.note(), overwrite)

    def load(self, path: str | os.PathLike[str], *, limit: int | None = None) -> Any:
        """Reads a ciphertext under this key, of at most `limit` bytes (1 GiB by default).

        Parameters
        ----------
        path
            The file.
        limit
            The largest number of bytes.

        Returns
        -------
        Ciphertext or PackedArray
            It knows the server of this key.

        Raises
        ------
        WrongKey
            For a ciphertext of another key.

        Examples
        --------
        >>> secret.encrypt([1, 2, 3, 4], bound=4).save("x.becalm")
        >>> secret.decrypt(secret.load("x.becalm")).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        most, file = _values.limit("load", limit), _values.path("load", path)
        with of_kind("load", file, "becalm.rlwe"):
            native, _ = _native.CkksCiphertext.load(self._machine, file, most)
        return owned("load", of_file(native, self._server), self.key_id)

    def to_bytes(self) -> bytes:
        """The file of `save` in memory, not encrypted: for a vault.

        Python wipes no memory: these bytes stay in it until something is written over them.

        Returns
        -------
        bytes
            The key. Anyone who has it can decrypt.

        Examples
        --------
        >>> becalm.from_bytes(secret.to_bytes(), allow_insecure=True).key_id == secret.key_id
        True
        """
        return self._native.to_bytes()  # type: ignore[no-any-return]

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        rows = [("parameter set", self._machine.name), ("slots", f"{self.slots:,}")]
        keep = [("key", self.key_id), ("keep", "with you; servers need none")]
        return "becalm.ckks.SecretKey", [*rows, *keep]

    def __repr__(self) -> str:
        return f"<becalm.ckks.SecretKey {self.key_id} of {self._machine.name}>"

    def __reduce__(self) -> NoReturn:
        remedy = "use save() and load_secret_key(), and mind where the file goes"
        raise Unsupported("copy", "an object that is not secret", "a secret key", remedy)


class PublicKey(Key):
    """Encrypts for the owner of the secret key, and holds no secret.

    Examples
    --------
    >>> public = secret.public_key()
    >>> secret.decrypt(public.encrypt([1, 2, 3, 4], bound=4)).round(2).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """

    __slots__ = ()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the key to a file, for `load_public_key`.

        Examples
        --------
        >>> secret.public_key().save("public.becalm")
        >>> becalm.load("public.becalm", allow_insecure=True).key_id == secret.key_id
        True
        """
        self._native.save(_values.path("save", path))

    def to_bytes(self) -> bytes:
        """The file of `save` in memory; `becalm.from_bytes` reads it.

        Returns
        -------
        bytes
            The key, which holds no secret.

        Examples
        --------
        >>> public = becalm.from_bytes(secret.public_key().to_bytes(), allow_insecure=True)
        >>> public.key_id == secret.key_id
        True
        """
        return self._native.to_bytes()  # type: ignore[no-any-return]

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        return "becalm.ckks.PublicKey", [("slots", f"{self.slots:,}"), ("key", self.key_id)]

    def __reduce__(self) -> NoReturn:
        remedy = "save() the key to a file and load_public_key() it there"
        raise Unsupported("copy", "an object that can be pickled", "a public key", remedy)

    def __repr__(self) -> str:
        return f"<becalm.ckks.PublicKey of key {self.key_id}>"
