"""`Engine` as desilofhe 1.x has it, on becalm's CKKS: change the import and keep the program.

    from becalm.desilo import Engine

Names, keywords and meaning are those of desilofhe 1.17: keys and their files, `encrypt`, `decrypt`,
arithmetic, rotations, sums, matrices, polynomials, and the regular, small-key, sparse, lossy, sign
and merge bootstraps. Other names of it, such as those for several parties and for tensors, raise an
`AttributeError` that says what to use instead. The differences:

- parameter sets, hence levels: fresh ciphertexts have 13 with `use_bootstrap`, of which a regular
  bootstrap of 3 stages gives 10 back, a lossy or sign one all 13; the other flags say 14 and 17;
- NaN, infinities, keys that do not belong together, levels and stage counts that cannot be raise a
  `becalm.Error` instead of giving garbage or hanging;
- a `slot_count` is rounded up to a power of two, as there, and a message of more values becomes
  several ciphertexts, blocks of `slot_count`; the last is filled with zeros;
- files are becalm's own, which desilofhe does not read, nor becalm those of desilofhe;
- `multiply_matrix` takes one level, products need the relinearization key, and a ciphertext is
  never changed: `clone` returns it;
- `compact=True` packs keys and ciphertexts in memory, residues in as few bits as they take; keys
  for 14 and 17 levels are always packed, and so is what is serialized.

`ToyEngine` is the same in a ring of 2048 slots, too small to protect anything: for tests.
desilofhe is a product of DESILO Inc.; becalm contains none of its code.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from becalm import _native, _public, _values, ckks
from becalm._ckks_prepared import Prepared
from becalm._ckks_sets import SIZES, USUAL_SIZE, staged, turn
from becalm._ckks_vector import at_level, numbers
from becalm._desilo import (
    Ciphertext,
    Key,
    PlainMatrix,
    Plaintext,
    PublicKey,
    SecretKey,
    arranged,
    cipher,
    key_for,
    kind_of,
    missing,
    together,
    union,
)
from becalm._desilo_key_files import KeyFiles
from becalm._desilo_matrices import Matrices
from becalm.errors import BadInput, OutOfMemory, Unsupported, WrongKey, WrongParams

#: The remedy where nothing of an engine fits: an engine has no set of a smaller ring.
_SMALLER = "free memory, or leave the engine for becalm.keygen, which has sets of smaller rings"

__all__ = [
    "Ciphertext",
    "Engine",
    "Key",
    "PlainMatrix",
    "Plaintext",
    "PublicKey",
    "SecretKey",
    "ToyEngine",
]
__dir__ = _public.names(__all__)


class Engine(Matrices, KeyFiles):
    """The entry to everything: makes keys, encrypts, computes.

    `mode` is `"cpu"` for one thread, `"parallel"` for `thread_count` (all by default), or `"gpu"`
    for the GPUs that the process sees, with a `device_id` of 0. One of the `use_bootstrap` flags
    chooses the parameter set; without, there are no bootstraps. `slot_count` is rounded up to a
    power of two: that of the engine tells which. A message of more values becomes several
    ciphertexts.
    """

    #: Set for each flag; the ring of `ToyEngine` is another.
    _SETS: ClassVar[dict[str, str]] = {
        "": _native.CkksPlan.set_for([], None),
        "14": _native.CkksPlan.set_for([], 14),
        "17": _native.CkksPlan.set_for([], 17),
    }
    _TOY = False

    def __init__(
        self,
        mode: str = "cpu",
        *,
        slot_count: int | None = None,
        use_bootstrap: bool = False,
        use_multiparty: bool = False,
        use_bootstrap_to_14_levels: bool = False,
        use_bootstrap_to_17_levels: bool = False,
        compact: bool = False,
        max_level: int | None = None,
        thread_count: int = 0,
        device_id: int = 0,
    ) -> None:
        if use_multiparty:
            remedy = "leave use_multiparty out; becalm.ckks.Party makes a key of several parties"
            raise Unsupported("engine", "one secret key", "several parties", remedy)
        if mode not in ("cpu", "parallel", "gpu"):
            remedy = "leave mode out"
            raise Unsupported("engine", 'mode "cpu", "parallel" or "gpu"', repr(mode), remedy)
        if mode == "gpu" and device_id != 0:
            remedy = "set CUDA_VISIBLE_DEVICES to the number of the GPU, and leave device_id out"
            raise Unsupported("engine", "device_id 0", repr(device_id), remedy)
        flags = [use_bootstrap, use_bootstrap_to_14_levels, use_bootstrap_to_17_levels]
        if sum(map(bool, flags)) > 1:
            got = f"{sum(map(bool, flags))} flags"
            raise BadInput("engine", "one use_bootstrap flag", got, "set one of them")
        self._bootstraps = any(flags)
        wanted = _values.count("engine", "max_level", 0 if max_level is None else max_level)
        flag = "14" if use_bootstrap_to_14_levels else "17" if use_bootstrap_to_17_levels else ""
        if not self._bootstraps:
            flag = next(
                (f for f in self._SETS if wanted <= ckks.params(self._SETS[f]).levels), flag
            )
        name = self._SETS[flag]
        known = ckks.params(name)
        if wanted > known.levels:
            remedy = "bootstrap to get levels back"
            raise BadInput("engine", f"max_level of at most {known.levels}", str(wanted), remedy)
        self._max_level: int = known.levels if max_level is None else wanted
        # Ciphertexts are packed where it is asked for.
        self._form = _native.CkksPlan(name, form="packed" if compact else None).form
        most = known.slots
        count = most if slot_count is None else _values.count("engine", "slot_count", slot_count)
        least = 2 if self._bootstraps else 1
        if not least <= count <= most:
            remedy = "longer messages become several ciphertexts by themselves"
            few = f"slot_count from {least} to {most}{' for bootstraps' * (least - 1)}"
            if count < least:
                remedy = "choose one of these: shorter messages are filled with zeros"
            raise BadInput("engine", few, str(count), remedy)
        self._slots = 1 << (count - 1).bit_length()
        self._full = self._slots == most
        threads = 1 if mode == "cpu" else _values.count("engine", "thread_count", thread_count)
        self._chain = _native.CkksChain(name)
        self._chain.require_tables(_native.free_memory(), _SMALLER)
        machine = "cuda" if mode == "gpu" else "cpu"
        self._machine = _native.CkksMachine(name, self._TOY, threads, bool(compact), machine)
        self._stage_count: int = known.stage_count
        #: The keys of the last bootstrap, and what was prepared for them.
        self._prepared: tuple[list[_native.CkksKeys], Prepared] | None = None
        self._read_bases: dict[str, _native.CkksKeys] = {}

    @property
    def slot_count(self) -> int:
        """Values in a ciphertext."""
        return self._slots

    @property
    def max_level(self) -> int:
        """Level of a fresh ciphertext."""
        return self._max_level

    # Keys.

    def create_secret_key(self) -> SecretKey:
        """Draws a secret key from the system's randomness."""
        return SecretKey(_native.CkksSecretKey.generate(self._machine), self._machine.name)

    def create_public_key(self, secret_key: SecretKey) -> PublicKey:
        """A key with which anyone encrypts."""
        native = self._secret(secret_key)._native.public_key()
        return PublicKey(native, self._machine.name)

    def create_relinearization_key(self, secret_key: SecretKey) -> Key:
        """For products of ciphertexts."""
        return Key(self._base(secret_key), "relinearization")

    def create_conjugation_key(self, secret_key: SecretKey) -> Key:
        """For the complex conjugate."""
        needs = _native.CkksNeeds({}, self._highest())
        return self._key(secret_key, "conjugation", needs)

    def create_rotation_key(self, secret_key: SecretKey) -> Key:
        """For rotations by every power of two."""
        degree = ckks.params(self._machine.name).log2_degree
        turns = [1 << i for i in range(degree - 1)]
        tops = self._chain.tier_tops if self._bootstraps else []
        needs = _native.CkksNeeds({by: {self._max_level, *tops} for by in turns})
        return self._key(secret_key, "rotation", needs)

    def create_fixed_rotation_key(
        self, secret_key: SecretKey, delta: int, level: int | None = None
    ) -> Key:
        """For the rotation to the right by `delta`, up to a level: the highest, or a lower one."""
        most = self._max_level
        at = most if level is None else at_level("create_fixed_rotation_key", level, most)
        needs = _native.CkksNeeds({-turn(delta) % self._slots: {at}})
        made = self._key(secret_key, "fixed_rotation", needs)
        return Key(made._native, "fixed_rotation", delta=turn(delta))

    def create_matrix_multiplication_key(
        self, secret_key: SecretKey, level: int | None = None
    ) -> Key:
        """For `multiply_matrix`, up to a level: the highest, or a lower one."""
        op, most = "create_matrix_multiplication_key", self._max_level
        at = most if level is None else at_level(op, level, most)
        turns = [1 << i for i in range(self._slots.bit_length() - 1)]
        needs = _native.CkksNeeds({by: {at} for by in turns})
        return self._key(secret_key, "matrix_multiplication", needs)

    def create_small_bootstrap_key(self, secret_key: SecretKey) -> Key:
        """For every bootstrap, together with a rotation key."""
        self._require_bootstrap("create_small_bootstrap_key")
        needs = _native.CkksNeeds({}, bootstrap=self._chain.top_level)
        return self._key(secret_key, "small_bootstrap", needs)

    def create_bootstrap_key(
        self, secret_key: SecretKey, stage_count: int | None = None, size: str = USUAL_SIZE
    ) -> Key:
        """For `bootstrap`: 3 stages unless another `stage_count` is given, `size` `"small"`,
        `"medium"` or `"large"`.
        """
        self._require_bootstrap("create_bootstrap_key")
        kind = "regular" if self._full else "sparse"
        return self._bootstrap_key(secret_key, "bootstrap", kind, stage_count, size)

    def create_lossy_bootstrap_key(
        self, secret_key: SecretKey, stage_count: int | None = None, size: str = USUAL_SIZE
    ) -> Key:
        """For `lossy_bootstrap` and `sign_bootstrap`."""
        self._require_lossy("create_lossy_bootstrap_key")
        return self._bootstrap_key(secret_key, "lossy_bootstrap", "slots_first", stage_count, size)

    def create_merge_bootstrap_key(
        self, secret_key: SecretKey, stage_count: int | None = None, size: str = USUAL_SIZE
    ) -> Key:
        """For `merge_bootstrap`."""
        self._require_merge("create_merge_bootstrap_key")
        return self._bootstrap_key(secret_key, "merge_bootstrap", "regular", stage_count, size)

    def _bootstrap_key(
        self, secret: SecretKey, purpose: str, kind: str, stages: int | None, size: str
    ) -> Key:
        if size not in SIZES:
            remedy = "choose one of these"
            raise BadInput(f"create_{purpose}_key", f"a size of {list(SIZES)}", repr(size), remedy)
        # The sign of values takes the other kind's key, and some rotations of its own.
        kinds = [kind, "sign"] if kind == "slots_first" else [kind]
        plan, base = self._plan(kinds, stages, size), self._base(secret)
        try:
            made = secret._native.keys(plan.needs(), base, None, self._form)
        except OutOfMemory as e:
            remedy = plan.of_engine(base, _native.free_memory(), _SMALLER)
            raise OutOfMemory(e.op, e.wanted, e.got, remedy) from None
        return Key(made, purpose, plan.stages, size)

    def _key(self, secret: SecretKey, purpose: str, needs: _native.CkksNeeds) -> Key:
        return Key(self._made(secret, needs, self._base(secret)), purpose)

    def _made(
        self, secret: SecretKey, needs: _native.CkksNeeds, base: _native.CkksKeys | None
    ) -> _native.CkksKeys:
        try:
            return secret._native.keys(needs, base, None, self._form)
        except OutOfMemory as e:
            remedy = self._chain.packed(needs, self._form, base, _native.free_memory(), _SMALLER)
            raise OutOfMemory(e.op, e.wanted, e.got, remedy) from None

    def _base(self, secret: SecretKey) -> _native.CkksKeys:
        """The key of multiplication, made once."""
        secret = self._secret(secret)
        if secret._base is None:
            needs = _native.CkksNeeds({}, multiply=self._highest())
            secret._base = self._made(secret, needs, None)
        return secret._base

    def _secret(self, key: object) -> SecretKey:
        if not isinstance(key, SecretKey):
            raise WrongKey("keys", "a secret key", kind_of(key), "use create_secret_key")
        self._require_own("keys", key, "a secret key")
        return key

    def _require_own(self, op: str, key: SecretKey | PublicKey, what: str) -> None:
        """Refuses keys of another set: of a toy's, a real engine would make unprotected
        ciphertexts.
        """
        if key._params != self._machine.name:
            remedy = f"use {what} of an engine of the same class with the same flags"
            got = f"one of `{key._params}`"
            raise WrongParams(op, f"{what} of `{self._machine.name}`", got, remedy)

    def _highest(self) -> int:
        """The highest level of conjugation and products."""
        return self._chain.product_level if self._bootstraps else self._max_level

    # Messages.

    def encrypt(
        self,
        message: npt.ArrayLike | Plaintext,
        key: SecretKey | PublicKey,
        level: int | None = None,
    ) -> Ciphertext:
        """Encrypts numbers, filled with zeros to a multiple of `slot_count`; a plaintext at its
        level, unless another is given.
        """
        if isinstance(message, Plaintext):
            level = message.level if level is None else level
            message = message._values
        if not isinstance(key, (SecretKey, PublicKey)):
            remedy = "use create_secret_key or create_public_key"
            raise WrongKey("encrypt", "a secret or a public key", kind_of(key), remedy)
        what = "a secret key" if isinstance(key, SecretKey) else "a public key"
        self._require_own("encrypt", key, what)
        most = ckks.params(self._machine.name).levels
        at = self._max_level if level is None else at_level("encrypt", level, most)
        blocks = self._split("encrypt", message)
        real = numbers("encrypt", message).dtype.kind != "c"
        return Ciphertext([key._native.encrypt(b, at, real) for b in blocks])

    def decrypt(self, ciphertext: Ciphertext, secret_key: SecretKey) -> npt.NDArray[Any]:
        """The numbers, `float64` or `complex128`. For the owner of the key alone: see SECURITY."""
        x, native = cipher("decrypt", ciphertext), self._secret(secret_key)._native
        parts = [np.frombuffer(native.decrypt(b), dtype="<c16") for b in x._blocks]
        values = np.concatenate(parts)
        return values.real.copy() if x._real else values.astype(np.complex128)

    # Bootstraps.

    def bootstrap(
        self,
        ciphertext: Ciphertext,
        *keys: Key | int,
        stage_count: int | None = None,
        **named: Key,
    ) -> Ciphertext:
        """The same values with the levels of the engine again, from any level.

        Takes `relinearization_key`, `conjugation_key` and either `bootstrap_key`, or `rotation_key`
        and `small_bootstrap_key` with any `stage_count`; in this order, which is held against what
        the keys are for, or by name.
        """
        kind = "regular" if self._full else "sparse"
        return self._run("bootstrap", kind, "bootstrap", ciphertext, keys, named, stage_count)

    def lossy_bootstrap(
        self,
        ciphertext: Ciphertext,
        *keys: Key | int,
        stage_count: int | None = None,
        **named: Key,
    ) -> Ciphertext:
        """As `bootstrap`, faster and less precise, from the level of `stage_count` or above; with
        `lossy_bootstrap_key` for `bootstrap_key`.
        """
        op = "lossy_bootstrap"
        return self._run(op, "slots_first", op, ciphertext, keys, named, stage_count)

    def sign_bootstrap(
        self,
        ciphertext: Ciphertext,
        *keys: Key | int,
        stage_count: int | None = None,
        **named: Key,
    ) -> Ciphertext:
        """As `lossy_bootstrap`, for values near −1 and 1, which come back nearer to them."""
        op, purpose = "sign_bootstrap", "lossy_bootstrap"
        return self._run(op, "sign", purpose, ciphertext, keys, named, stage_count)

    def merge_bootstrap(
        self,
        ciphertext1: Ciphertext,
        ciphertext2: Ciphertext,
        *keys: Key | int,
        stage_count: int | None = None,
        **named: Key,
    ) -> tuple[Ciphertext, Ciphertext]:
        """Two ciphertexts of real numbers in the time of one `bootstrap`; with
        `merge_bootstrap_key` or `bootstrap_key`.
        """
        op, purpose = "merge_bootstrap", "merge_bootstrap"
        if any(isinstance(k, Key) and k.purpose == "bootstrap" for k in (*keys, *named.values())):
            purpose = "bootstrap"
        pair = (ciphertext1, ciphertext2)
        return self._run_pair(op, "regular", purpose, pair, keys, named, stage_count)

    def lossy_merge_bootstrap(
        self,
        ciphertext1: Ciphertext,
        ciphertext2: Ciphertext,
        *keys: Key | int,
        stage_count: int | None = None,
        **named: Key,
    ) -> tuple[Ciphertext, Ciphertext]:
        """As `merge_bootstrap`, from the level of `stage_count` or above; with
        `lossy_bootstrap_key`.
        """
        op, pair = "lossy_merge_bootstrap", (ciphertext1, ciphertext2)
        return self._run_pair(op, "slots_first", "lossy_bootstrap", pair, keys, named, stage_count)

    def sign_merge_bootstrap(
        self,
        ciphertext1: Ciphertext,
        ciphertext2: Ciphertext,
        *keys: Key | int,
        stage_count: int | None = None,
        **named: Key,
    ) -> tuple[Ciphertext, Ciphertext]:
        """As `lossy_merge_bootstrap`, for values near −1 and 1."""
        op, pair = "sign_merge_bootstrap", (ciphertext1, ciphertext2)
        return self._run_pair(op, "sign", "lossy_bootstrap", pair, keys, named, stage_count)

    def _run(
        self,
        op: str,
        kind: str,
        purpose: str,
        ciphertext: Ciphertext,
        keys: tuple[Any, ...],
        named: dict[str, Key],
        stage_count: int | None,
    ) -> Ciphertext:
        (self._require_lossy if purpose == "lossy_bootstrap" else self._require_bootstrap)(op)
        x = cipher(op, ciphertext)
        values = "real" if x._real else "complex"
        lanes = [[b] for b in x._blocks]
        made = self._bootstrapped(op, kind, purpose, values, keys, named, stage_count, lanes)
        return Ciphertext([y for (y,) in made])

    def _run_pair(
        self,
        op: str,
        kind: str,
        purpose: str,
        pair: tuple[Ciphertext, Ciphertext],
        keys: tuple[Any, ...],
        named: dict[str, Key],
        stage_count: int | None,
    ) -> tuple[Ciphertext, Ciphertext]:
        (self._require_lossy if purpose == "lossy_bootstrap" else self._require_merge)(op)
        a, b = (cipher(op, x) for x in pair)
        if not (a._real and b._real):
            remedy = "bootstrap complex ciphertexts one by one"
            raise BadInput(op, "two ciphertexts known to be real", "others", remedy)
        lanes = [[x, y] for x, y in together(op, [a, b])]
        made = self._bootstrapped(op, kind, purpose, "merged", keys, named, stage_count, lanes)
        first, second = zip(*made, strict=True)
        return Ciphertext(list(first)), Ciphertext(list(second))

    def _bootstrapped(
        self,
        op: str,
        kind: str,
        purpose: str,
        values: str,
        keys: tuple[Any, ...],
        named: dict[str, Key],
        stage_count: int | None,
        lanes: list[list[_native.CkksCiphertext]],
    ) -> list[list[_native.CkksCiphertext]]:
        """The results of a bootstrap of each lane by the keys that the caller passed."""
        held, last = arranged(op, purpose, keys, named)
        if last is not None and stage_count is not None:
            raise BadInput(op, "one stage_count", "two", "leave one of them out")
        stage_count = stage_count if last is None else last
        own = [key_for(op, held.pop(p, None), p) for p in ("relinearization", "conjugation")]
        if set(held) == {purpose}:
            key = held[purpose]
            if stage_count not in (None, key.stage_count):
                remedy = "make a key for as many stages, or use a small bootstrap key"
                wanted = f"the {key.stage_count} stages of the key"
                raise BadInput(op, wanted, str(stage_count), remedy)
            stages, size = key.stage_count, key.size or USUAL_SIZE
        elif set(held) == {"rotation", "small_bootstrap"}:
            stages, size = self._plan([kind], stage_count, "small").stages, "small"
        else:
            wanted = f"a {purpose} key, or a rotation key and a small bootstrap key"
            got = " and ".join(sorted(held)) or "neither"
            raise BadInput(op, wanted, got, "pass the one or the two")
        try:
            ready = self._prepare(kind, stages, size, values, [*own, *held.values()])
            return ready.run(lanes)
        except OutOfMemory as e:
            plan = self._plan([kind], stages, size)
            remedy = plan.of_stages(_native.free_memory(), _SMALLER)
            raise OutOfMemory(e.op, e.wanted, e.got, remedy) from None

    def _prepare(
        self, kind: str, stages: int | None, size: str, values: str, keys: list[Key]
    ) -> _native.CkksPrepared:
        """A bootstrap prepared for keys; those of the same keys share their matrices."""
        native, last = [key._native for key in keys], self._prepared
        if last is None or last[0] != native:
            self._prepared = last = None
            last = self._prepared = (native, Prepared(union(native), None))
        which = (kind, stages, size, values)
        return last[1].of(
            which, "", lambda: self._plan([kind], stages, size).record(kind, None, values)
        )

    def _plan(self, kinds: list[str], stages: int | None, size: str) -> _native.CkksPlan:
        name, form = self._machine.name, self._form
        return staged(
            stages,
            lambda n: _native.CkksPlan(name, self._slots, kinds, size, n, [], False, form),
        )

    def _require_bootstrap(self, op: str) -> None:
        if not self._bootstraps:
            remedy = "make it with Engine(use_bootstrap=True)"
            raise Unsupported(op, "an engine for bootstraps", "one without", remedy)

    def _require_merge(self, op: str) -> None:
        self._require_bootstrap(op)
        if not self._full:
            got, remedy = (
                f"{self._slots} slots",
                "bootstrap each by itself, or leave slot_count out",
            )
            raise Unsupported(op, "an engine of all slots", got, remedy)

    def _require_lossy(self, op: str) -> None:
        self._require_bootstrap(op)
        if self._machine.name != self._SETS[""]:
            remedy = "make it with Engine(use_bootstrap=True)"
            raise Unsupported(op, "an engine with use_bootstrap", self._machine.name, remedy)

    def __getattr__(self, name: str) -> NoReturn:
        raise missing(self, name)

    def __repr__(self) -> str:
        return f"<becalm.desilo.{type(self).__name__} of {self._machine.name}, {self._slots} slots>"


class ToyEngine(Engine):
    """`Engine` in a ring of 2048 slots, fast and insecure: for tests."""

    _SETS: ClassVar[dict[str, str]] = {
        "": "ckks_toy_slots_first",
        "14": "ckks_toy_14_levels",
        "17": "ckks_toy_17_levels",
    }
    _TOY = True
