"""CKKS before anything is made: parameter sets, what keys are for, and what they will take."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from becalm import _native, _values
from becalm.errors import BadFile, BadInput, OutOfMemory, WrongKey, WrongParams

#: Baby steps of the matrices for each size of the keys.
SIZES = dict(_native.KEY_SIZES)
#: The same before files said so.
OLD_SIZES = {"small": 2, "medium": 4, "large": 8}
#: What keys are in memory, by what `compact` is.
FORMS: dict[bool | str, str] = {False: "ready", True: "packed", "seeded": "seeded"}
#: Bootstraps; `precise` is the regular one of a set with the arcsine.
KINDS = ("regular", "sparse", "lossy", "sign", "precise")
#: What stands for the size of the keys in their file.
AS_MADE = "as made"
#: Bytes that a bootstrap takes beside keys and matrices, for each coefficient of the ring: its
#: ciphertexts, work space and tables, at the most of what was measured at N = 2^16, whose moduli
#: have up to so many bits.
WORK, WORK_BITS = 22_000, 1745
#: The standard set for a kind, or for so many levels.
SET_OF_KIND = {"lossy": "ckks_slots_first", "sign": "ckks_slots_first", "precise": "ckks_precise"}
SET_OF_LEVELS = {10: "ckks_regular", 14: "ckks_14_levels", 17: "ckks_17_levels"}


@dataclass(frozen=True)
class Params:
    """A parameter set, and what is claimed of it."""

    #: Its name.
    name: str
    #: False for toys, which protect nothing.
    standard: bool
    #: log2 of the degree of the ring; half of that many values fit a ciphertext.
    log2_degree: int
    #: Multiplications that a bootstrap leaves, or all there are in a set without.
    levels: int
    #: log2 of what values are multiplied by.
    scale_bits: float
    #: Matrices of each of the two transforms of a bootstrap, unless another number is asked for;
    #: 0 for a set without a bootstrap.
    stage_count: int
    #: log2 of the largest modulus under which anything is encrypted.
    log2_modulus: float
    #: Bits of security.
    security_bits: float
    #: Where that number comes from.
    security_source: str

    @property
    def slots(self) -> int:
        """Most values in a ciphertext."""
        return 1 << (self.log2_degree - 1)


def params(name: str | None = None) -> Any:
    """The CKKS parameter sets: all of them, or the one of a name."""
    if name is not None:
        standard, *rest = _native.CkksContext.describe(str(name))
        return Params(str(name), standard, *rest)
    return [params(n) for n in _native.CkksContext.names()]


@dataclass(frozen=True)
class Price:
    """What keys and bootstraps will take, known before anything is made."""

    #: Name of the parameter set.
    params: str
    #: Kinds of bootstrap.
    kinds: tuple[str, ...]
    #: Values in a ciphertext.
    slots: int
    #: Rotations that get a key.
    rotations: int
    #: Bytes of the server's keys as stored.
    stored_bytes: int
    #: Bytes of the server's keys in memory.
    memory_bytes: int
    #: Bytes that the server takes at the most, about: keys, matrices and the work of a bootstrap.
    peak_bytes: int
    #: Level at which each kind takes a ciphertext, and the one that it leaves.
    levels: dict[str, tuple[int, int]]
    #: Precision of each kind in bits, by the formulas, for values without structure.
    bits: dict[str, float]
    #: Key switches of each kind.
    key_switches: dict[str, int]
    #: Whether keys are packed in memory, or `"seeded"`.
    compact: bool | str = False


class Plan:
    """A context, and the bootstraps that keys are to be made for."""

    def __init__(
        self,
        name: str,
        *,
        slots: int | None,
        bootstrap: str | None,
        kinds: Iterable[str] | str | None,
        levels: int | None,
        stage_count: int | None,
        allow_insecure: bool,
        threads: int,
        compact: bool | str = False,
    ) -> None:
        op = "keygen"
        listed = kinds_of(op, kinds)
        if bootstrap is not None:
            known("bootstrap", bootstrap, tuple(SIZES))
        self.name = set_for(name, listed, levels)
        found = params(self.name)
        if not found.stage_count:
            # The usual size of keys is what one gets who says nothing.
            if listed or stage_count is not None or bootstrap not in (None, "medium"):
                remedy = 'leave kinds, bootstrap and stage_count out, or make keys of "ckks"'
                raise WrongParams(op, "a set with a bootstrap", f"`{self.name}`", remedy)
            bootstrap = None
        self.slots = slots_of(op, slots, found.slots, 1 if bootstrap is None else 2)
        self.compact, self.form = compact, form_of(op, compact)
        first = "lossy" if "slots_first" in self.name else "regular"
        usual = "sparse" if first == "regular" and self.slots < found.slots else first
        self.kinds = (listed or (usual,)) if bootstrap is not None else ()
        self.size = "medium" if bootstrap is None else bootstrap
        self.stage_count = stage_count
        threads = _values.count(op, "threads", threads)
        self.context = _native.CkksContext(self.name, bool(allow_insecure), threads, bool(compact))
        self.programs = {k: self.record(k) for k in self.kinds}

    def without(self) -> Exception:
        """The refusal of a bootstrap by keys that were made for none."""
        if not params(self.name).stage_count:
            remedy = 'make keys of "ckks"; this set is for arithmetic alone'
            return WrongParams("bootstrap", "a set with a bootstrap", f"`{self.name}`", remedy)
        remedy = 'make them with bootstrap="medium"'
        return WrongKey("bootstrap", "keys of a bootstrap", "keys without", remedy)

    def record(
        self,
        kind: str,
        stage_count: int | None = None,
        values: str = "complex",
        size: str | None = None,
    ) -> _native.CkksProgram:
        stages = self.stage_count if stage_count is None else stage_count
        if known("kind", kind, KINDS) == "precise":
            if "precise" not in self.name:
                remedy = 'make keys with kinds="precise" and no other set than `ckks_precise`'
                raise WrongParams("bootstrap", "a precise set", f"`{self.name}`", remedy)
            kind = "regular"
        baby = SIZES[size or self.size]
        return recorded(self.context, kind, self.slots, stages, baby, values)

    def needs(
        self, rotations: Iterable[int], conjugate: bool, size: str | None = None
    ) -> _native.CkksNeeds:
        """The keys of the bootstraps, and those for what the user does at the user's levels."""
        turns = sorted({turn(by) % self.slots for by in _listed(rotations)} - {0})
        level = params(self.name).levels
        needs = _native.CkksNeeds(turns, level, level if conjugate else None)
        for kind, program in self.programs.items():
            needs = needs.union((self.record(kind, size=size) if size else program).needs())
        return needs

    def key_bytes(self, needs: _native.CkksNeeds, form: str | None = None) -> int:
        """Bytes of keys in memory."""
        return self.context.key_bytes(needs, form or self.form)

    def require_memory(self, rotations: Iterable[int], conjugate: bool) -> _native.CkksNeeds:
        """The keys to make, unless they do not fit the memory there is: the refusal tells the size
        that does.
        """
        free = _native.available_memory()
        turns = _listed(rotations)
        needs = self.needs(turns, conjugate)
        if free is None:
            return needs
        beside = self.beside()
        wanted = self.key_bytes(needs) + beside
        if wanted <= free:
            return needs
        remedy = "free memory, or ask for fewer slots or rotations"
        sizes = list(SIZES)[: list(SIZES).index(self.size)] if self.kinds else []
        smaller = {size: self.needs(turns, conjugate, size) for size in reversed(sizes)}
        packed = [] if self.compact else [("compact=True", needs, "packed")]
        # Seeded keys come last: they are slower than those of a smaller size.
        tries = packed + [(f'bootstrap="{s}"', found, self.form) for s, found in smaller.items()]
        if self.form != "seeded":
            seeded = 'compact="seeded"'
            tries.append((seeded, needs, "seeded"))
            tries += [(f'bootstrap="{s}", {seeded}', n, "seeded") for s, n in smaller.items()]
        for options, found, form in tries:
            least = self.key_bytes(found, form) + beside
            if least <= free:
                remedy = f"{options} takes {least / 1e9:.2f} GB"
                break
        got = f"{free / 1e9:.2f} GB free"
        what = f"{wanted / 1e9:.2f} GB for keys, matrices and the work of a bootstrap"
        raise OutOfMemory("keygen", what if beside else f"{wanted / 1e9:.2f} GB", got, remedy)

    def beside(self) -> int:
        """Bytes that the largest bootstrap takes beside its keys, about: its matrices, which do not
        depend on the size of the keys, its ciphertexts and its work space.
        """
        # Those of real values may be larger: they do not repeat along the slots.
        real = [self.record(k, values="real") for k in self.kinds if k in ("regular", "precise")]
        each = [self.context.matrix_bytes(p) for p in (*self.programs.values(), *real)]
        found = params(self.name)
        longer = max(1.0, found.log2_modulus / WORK_BITS)
        return max(each) + int(WORK * longer) * 2 * found.slots if each else 0

    def note(self) -> str:
        """What the keys are for, to be written into their file."""
        size = self.size if self.kinds else None
        baby = SIZES[self.size] if self.kinds else None
        note = {"slots": self.slots, "kinds": self.kinds, "bootstrap": size, "baby": baby}
        return json.dumps({**note, "stage_count": self.stage_count, "compact": self.compact})

    def remedy(self, kind: str, stage_count: int | None) -> str:
        """The arguments of `keygen` that make the keys of a bootstrap."""
        words = [f'kinds="{kind}"', f'bootstrap="{self.size}"']
        if kind == "sparse":
            words.append(f"slots={self.slots}")
        stages = self.stage_count if stage_count is None else stage_count
        if stages is not None:
            words.append(f"stage_count={stages}")
        return f"make keys with {', '.join(words)}"

    def price(self, needs: _native.CkksNeeds) -> Price:
        stored, memory = self.context.stored_key_bytes(needs), self.key_bytes(needs)
        each = self.programs.items()
        return Price(
            params=self.name,
            kinds=tuple(self.kinds),
            slots=self.slots,
            rotations=len(needs.rotations),
            stored_bytes=stored,
            memory_bytes=memory,
            peak_bytes=memory + self.beside(),
            levels={k: (p.inputs[0][0], p.level) for k, p in each},
            bits={k: -float(np.log2(p.error)) for k, p in each if p.error},
            key_switches={k: p.cost()[1] for k, p in each},
            compact=self.compact,
        )


def noted(note: str) -> dict[str, Any]:
    """What `Plan.note` says, as far as it is of the right types; a plan checks the rest."""
    try:
        found = json.loads(note or "{}")
    except (ValueError, RecursionError):
        return {}
    kinds = found.get("kinds", []) if isinstance(found, dict) else None
    if not isinstance(kinds, list) or not all(isinstance(k, str) for k in kinds):
        return {}
    whole = {k: found[k] for k in ("slots", "stage_count") if type(found.get(k)) is int}
    size = found.get("bootstrap", "medium")
    if not (size is None or isinstance(size, str)):
        return {}
    bootstraps = kinds and size in SIZES and set(kinds) <= set(KINDS)
    if bootstraps and found.get("baby", OLD_SIZES[size]) != SIZES[size]:
        wanted = f"{size} keys of {SIZES[size]} baby steps"
        got, remedy = "keys of another number, from another version", "make the keys again"
        raise BadFile("load", wanted, got, remedy)
    compact = found.get("compact", False)
    if not isinstance(compact, bool | str) or compact not in FORMS:
        return {}
    return {**whole, "kinds": kinds, "bootstrap": size, "compact": compact}


def form_of(op: str, compact: object) -> str:
    """The form of keys in memory that `compact` names."""
    if isinstance(compact, bool | str) and compact in FORMS:
        return FORMS[compact]
    raise BadInput(op, 'compact as False, True or "seeded"', repr(compact), "choose one of these")


def recorded(
    context: _native.CkksContext,
    kind: str,
    slots: int,
    stage_count: Any,
    baby: int,
    values: str,
) -> _native.CkksProgram:
    """A bootstrap recorded. What cannot be a count of stages is refused with those that can."""
    try:
        negative = stage_count is not None and stage_count < 0
    except TypeError:
        negative = False
    if negative:
        try:
            context.program(kind, slots, 0, baby, values)
        except BadInput as e:
            raise BadInput(e.op, e.wanted, str(stage_count), e.remedy) from None
    if stage_count is not None:
        stage_count = _values.count("bootstrap", "stage_count", stage_count)
    return context.program(kind, slots, stage_count, baby, values)


def kinds_of(op: str, kinds: Iterable[str] | str | None) -> tuple[str, ...]:
    """Kinds of bootstrap, each once; none where they are left out."""
    if kinds is None:
        return ()
    try:
        listed = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    except TypeError:
        got, remedy = type(kinds).__name__, 'as in kinds="regular" or kinds=("regular", "lossy")'
        raise BadInput(op, "a kind of bootstrap, or several", got, remedy) from None
    if not listed:
        remedy = "leave it out for the usual kind; bootstrap=None makes keys of none"
        raise BadInput(op, "a kind of bootstrap, or several", "none of them", remedy)
    for kind in listed:
        known("kind", kind, KINDS)
    return tuple(dict.fromkeys(listed))


def slots_of(op: str, slots: Any, most: int, least: int = 1) -> int:
    """A number of slots: a power of two."""
    if slots is None:
        return most
    try:
        count = int(slots.__index__())
    except AttributeError:
        got = type(slots).__name__
        raise BadInput(op, "an integer as slots", got, "pass an int") from None
    if not least <= count <= most or count & (count - 1):
        wanted = f"a power of two of {least} to {most} slots"
        remedy = "choose one of these: vectors that are shorter are filled with zeros"
        raise BadInput(op, wanted, str(count), remedy)
    return count


def _listed(rotations: Iterable[int]) -> list[int]:
    try:
        return list(rotations)
    except TypeError:
        got, remedy = type(rotations).__name__, "as in rotations=[1, 2]"
        raise BadInput("keygen", "a list of rotations", got, remedy) from None


def known(what: str, name: object, names: tuple[str, ...]) -> str:
    if name not in names:
        wanted = f"{', '.join(names[:-1])} or {names[-1]} as {what}"
        raise BadInput("bootstrap", wanted, repr(name), "choose one of these")
    return str(name)


def set_for(name: str, kinds: tuple[str, ...], levels: int | None) -> str:
    """The set that `"ckks"` stands for, or the name as it is."""
    if name != "ckks":
        if levels is not None:
            remedy = "leave one of them out"
            raise BadInput("keygen", "a set by name or by its levels", "both", remedy)
        return name
    if levels is not None and levels not in SET_OF_LEVELS:
        wanted = f"one of {sorted(SET_OF_LEVELS)} levels"
        raise BadInput("keygen", wanted, str(levels), "choose one of these")
    sets = {SET_OF_KIND.get(k, SET_OF_LEVELS[10 if levels is None else levels]) for k in kinds}
    if levels is not None and sets and SET_OF_LEVELS[levels] not in sets:
        wanted, got = f"kinds of bootstrap that leave {levels} levels", ", ".join(kinds)
        remedy = "leave `levels` out: these kinds have a set of their own"
        raise BadInput("keygen", wanted, got, remedy)
    if sets == {"ckks_regular", "ckks_slots_first"}:
        return "ckks_slots_first"
    if len(sets) > 1:
        got = " and ".join(sorted(sets))
        remedy = "make keys for each of them"
        raise BadInput("keygen", "kinds of bootstrap that share a set", got, remedy)
    return sets.pop() if sets else SET_OF_LEVELS[10 if levels is None else levels]


def turn(by: Any) -> int:
    try:
        return int(by.__index__())
    except AttributeError:
        raise BadInput("rotate", "an integer", type(by).__name__, "pass an int") from None


def turns(by: Any) -> tuple[list[int], bool]:
    """One number of slots to rotate by, or several, and which of these it was."""
    if hasattr(by, "__index__") and getattr(by, "ndim", 0) == 0:
        return [turn(by)], False
    try:
        return [turn(k) for k in by], True
    except TypeError:
        got, remedy = type(by).__name__, "pass an int, or a list of them"
        raise BadInput("rotate", "an integer", got, remedy) from None
