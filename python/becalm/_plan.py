"""CKKS before anything is made: parameter sets, what keys are for, and what they will take."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from becalm import _html, _native, _values
from becalm.errors import BadFile, BadInput, Error, OutOfMemory, WrongKey, WrongParams

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
#: The standard set for a kind, or for so many levels.
SET_OF_KIND = {"lossy": "ckks_slots_first", "sign": "ckks_slots_first", "precise": "ckks_precise"}
SET_OF_LEVELS = {10: "ckks_regular", 14: "ckks_14_levels", 17: "ckks_17_levels"}


@dataclass(frozen=True)
class Params(_html.Shown):
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

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        return f"becalm.ckks.Params {self.name}", [
            ("for", "use" if self.standard else "tests: it protects nothing"),
            ("slots", f"{self.slots:,}"),
            ("levels", self.levels),
            ("scale", f"2^{self.scale_bits:g}"),
            ("stages of a bootstrap", self.stage_count or "no bootstrap"),
            ("log2 of the modulus", f"{self.log2_modulus:.1f}"),
            ("security", f"{self.security_bits:.1f} bits, {self.security_source}"),
        ]


class ParamsList(list[Params]):
    """Parameter sets of CKKS, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        head = ("name", "for", "slots", "levels", "scale", "security", "log2 modulus")
        rows = (
            (
                *(p.name, "use" if p.standard else "tests", f"{p.slots:,}", p.levels),
                *(f"2^{p.scale_bits:g}", f"{p.security_bits:.1f} bits", f"{p.log2_modulus:.0f}"),
            )
            for p in self
        )
        return _html.table(head, rows)


@overload
def params() -> list[Params]: ...
@overload
def params(name: str) -> Params: ...
def params(name: str | None = None) -> Params | list[Params]:
    """The CKKS parameter sets: all of them, or the one of a name."""
    if name is not None:
        return Params(str(name), *_native.CkksContext.describe(str(name)))
    return ParamsList(params(n) for n in _native.CkksContext.names())


@dataclass(frozen=True)
class Price(_html.Shown):
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

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        rows: list[tuple[str, Any]] = [
            ("parameter set", self.params),
            ("slots", f"{self.slots:,}"),
            ("keys in a file", _values.megabytes(self.stored_bytes)),
            ("keys in memory", _values.megabytes(self.memory_bytes)),
            ("memory at the most, about", _values.megabytes(self.peak_bytes)),
        ]
        for kind in self.kinds:
            low, high = self.levels[kind]
            text = f"level {low} to {high}, {self.bits[kind]:.1f} bits"
            rows.append((f"{kind} bootstrap", text))
        return "becalm.ckks.Price", rows


class Plan:
    """A parameter set, and the bootstraps that keys are to be made for."""

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
        self._machine = (bool(allow_insecure), _values.count(op, "threads", threads))
        self.chain = _native.CkksChain(self.name)
        self.programs = {k: self.record(k) for k in self.kinds}

    @functools.cached_property
    def context(self) -> _native.CkksContext:
        """What computes: made when it is first asked for."""
        insecure, threads = self._machine
        return _native.CkksContext(self.name, insecure, threads, bool(self.compact))

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
        return recorded(self.chain, kind, self.slots, stages, baby, values)

    def needs(
        self, rotations: Iterable[int], conjugate: bool, size: str | None = None
    ) -> _native.CkksNeeds:
        """The keys of the bootstraps, and those for what the user does at the user's levels."""
        turns = sorted({turn(by) % self.slots for by in rotations_of(rotations)} - {0})
        level = params(self.name).levels
        needs = _native.CkksNeeds(turns, level, level if conjugate else None)
        for kind, program in self.programs.items():
            needs = needs.union((self.record(kind, size=size) if size else program).needs())
        return needs

    def key_bytes(self, needs: _native.CkksNeeds, form: str | None = None) -> int:
        """Bytes of keys in memory."""
        return self.chain.key_bytes(needs, form or self.form)

    def require_memory(self, rotations: Iterable[int], conjugate: bool) -> _native.CkksNeeds:
        """The keys to make, unless they do not fit the memory there is: the refusal tells the size
        that does.
        """
        free = _native.available_memory()
        turns = rotations_of(rotations)
        needs = self.needs(turns, conjugate)
        if free is None:
            return needs
        wanted = self.key_bytes(needs) + self.beside()
        if wanted <= free:
            return needs
        remedy = next(self._fitting(free, turns, conjugate), None)
        remedy = remedy or self._otherwise(free, turns, conjugate, self._low(free))
        got = f"{free / 1e9:.2f} GB free"
        parts = "keys, matrices and the work of a bootstrap" if self.kinds else "keys and tables"
        raise OutOfMemory("keygen", f"{wanted / 1e9:.2f} GB for {parts}", got, remedy)

    def _fitting(
        self, free: int, turns: list[int], conjugate: bool, *, as_asked: bool = False
    ) -> Iterator[str]:
        """Arguments of `keygen` with which keys of this set fit, and the bytes that they take, the
        fastest first: those `as_asked`, packed ones, smaller ones, seeded ones.
        """
        beside, needs = self.beside(), self.needs(turns, conjugate)
        sizes = list(SIZES)[: list(SIZES).index(self.size)] if self.kinds else []
        smaller = {size: self.needs(turns, conjugate, size) for size in reversed(sizes)}
        tries = [("", needs, self.form)] if as_asked else []
        if not self.compact:
            tries.append(("compact=True", needs, "packed"))
        tries += [(f'bootstrap="{s}"', found, self.form) for s, found in smaller.items()]
        # Seeded keys come last: they are slower than those of a smaller size.
        if self.form != "seeded":
            seeded = 'compact="seeded"'
            tries.append((seeded, needs, "seeded"))
            tries += [(f'bootstrap="{s}", {seeded}', n, "seeded") for s, n in smaller.items()]
        for options, found, form in tries:
            least = self.key_bytes(found, form) + beside
            if least <= free:
                yield f"{options} takes {least / 1e9:.2f} GB"

    def _otherwise(self, free: int, turns: list[int], conjugate: bool, *more: str) -> str:
        """What is left where no keys of this set fit: a smaller ring, and what else there is."""
        own = params(self.name)
        seen: set[int] = set()
        found: list[str] = []
        for p in sorted(params(), key=lambda p: -p.log2_degree):
            if not p.standard or p.log2_degree in {own.log2_degree, *seen} or found:
                continue
            if p.log2_degree > own.log2_degree or (self.kinds and not p.stage_count):
                continue
            try:
                plan = Plan(
                    p.name,
                    slots=min(self.slots, p.slots),
                    bootstrap=self.size if self.kinds else None,
                    kinds=self.kinds or None,
                    levels=None,
                    stage_count=None,
                    allow_insecure=False,
                    threads=1,
                    compact=self.compact,
                )
                takes = next(plan._fitting(free, turns, conjugate, as_asked=True), "")
            except Error:  # A kind of bootstrap that the set does not have.
                continue
            # The usual set of a ring says it for all of them.
            seen.add(p.log2_degree)
            if takes:
                options, _, size = takes.partition(" takes ")
                beside = f" with {options}" if options else ""
                what = f"{plan.slots} slots and {p.levels} levels"
                found.append(f'"{p.name}"{beside} has {what} and takes {size}')
        found += [text for text in more if text]
        return "; or ".join([*found, "free memory, or ask for fewer slots or rotations"])

    def low_bytes(self, size: str | None = None) -> int:
        """Bytes that a bootstrap by keys of a size takes, of which keys and matrices stay in their
        file.
        """
        least = [self.chain.least_bytes(self.record(k, size=size)) for k in self.kinds]
        if least:
            return max(least) + self.chain.work_bytes
        # The key of multiplication, which every set has.
        return self.key_bytes(_native.CkksNeeds([], 0), "ready")

    def _low(self, free: int) -> str:
        """What runs here where keys can be made on another machine."""
        for size in reversed(list(SIZES)[: list(SIZES).index(self.size) + 1]):
            least = self.low_bytes(size)
            if least <= free:
                keys = f'keys of bootstrap="{size}"' if self.kinds else "keys"
                how = f'ckks.load_server(path, memory="low") takes {least / 1e9:.2f} GB here'
                return f"make {keys} on a larger machine: {how}"
        return ""

    def too_large(self, error: OutOfMemory, file: str) -> OutOfMemory:
        """The refusal of keys of a file that do not fit, with the ways of reading them that do,
        whose bootstraps fit too.
        """
        free = _native.available_memory() or 0
        keys, beside = self.context.load_keys(file, True), self.beside()
        forms = [("compact=True", "packed"), ('compact="seeded"', "seeded")]
        smaller = [] if self.form == "seeded" else forms[self.form == "packed" :]
        tries = [(options, keys.bytes_as(form) + beside) for options, form in smaller]
        tries.append(('memory="low"', self.low_bytes()))
        fits = [f"{options} takes {size / 1e9:.2f} GB" for options, size in tries if size <= free]
        otherwise = 'free memory, or make keys of bootstrap="small" or of a smaller set'
        remedy = "; or ".join(fits) or otherwise
        return OutOfMemory(error.op, error.wanted, error.got, remedy)

    def beside(self) -> int:
        """Bytes that the largest bootstrap takes beside its keys, about: its matrices, which do not
        depend on the size of the keys, its ciphertexts, its work space and the tables of the
        context. Without a bootstrap the tables alone.
        """
        each = [self.chain.matrix_bytes(p) for p in self.programs.values()]
        # Those of real values may be larger: they do not repeat along the slots.
        for kind in self.kinds:
            if kind in ("regular", "precise"):
                each.append(self.chain.matrix_bytes(self.record(kind, values="real")))
        return max(each) + self.chain.work_bytes if each else self.chain.table_bytes

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
        stored, memory = self.chain.stored_key_bytes(needs), self.key_bytes(needs)
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
    if bootstraps and size is not None and found.get("baby", OLD_SIZES[size]) != SIZES[size]:
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
    chain: _native.CkksChain,
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
            chain.program(kind, slots, 0, baby, values)
        except BadInput as e:
            raise BadInput(e.op, e.wanted, str(stage_count), e.remedy) from None
    if stage_count is not None:
        stage_count = _values.count("bootstrap", "stage_count", stage_count)
    return chain.program(kind, slots, stage_count, baby, values)


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


def rotations_of(rotations: Iterable[int]) -> list[int]:
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
