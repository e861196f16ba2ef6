"""CKKS before anything is made: parameter sets, prices, and the arguments that ask for keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import numpy as np

from becalm import _html, _native, _values
from becalm.errors import BadInput

#: Sizes of the keys of a bootstrap.
SIZES = tuple(name for name, _ in _native.KEY_SIZES)
#: The form of keys in memory, by the value of `compact`.
FORMS: dict[bool | str, str] = {False: "ready", True: "packed", "seeded": "seeded"}
#: Stands for the size of the keys in their file.
AS_MADE = "as made"


class Usual(str):
    """A name that stands where nobody chose one. It equals that name."""

    __slots__ = ()


#: The size of keys where none is asked for.
USUAL_SIZE = Usual(_native.USUAL_KEY_SIZE)
_T = TypeVar("_T")


@dataclass(frozen=True)
class Params(_html.Shown):
    """A parameter set, and its claims.

    Examples
    --------
    >>> ckks.params("ckks_n14").slots
    8192
    """

    #: Its name.
    name: str
    #: False for toys, which protect nothing.
    standard: bool
    #: log2 of the degree of the ring; half of that many values fit a ciphertext.
    log2_degree: int
    #: Multiplications that a bootstrap leaves; of a set without one, all that a ciphertext has.
    levels: int
    #: log2 of the factor of the values.
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
    """The CKKS parameter sets: all of them, or the one of a name.

    Returns
    -------
    Params or list of Params
        One set, or all of them.

    Raises
    ------
    WrongParams
        For a name that no set has.

    Examples
    --------
    >>> ckks.params("ckks_toy_12").levels
    10
    """
    if name is not None:
        return Params(str(name), *_native.CkksMachine.describe(str(name)))
    return ParamsList(params(n) for n in _native.CkksMachine.names())


@dataclass(frozen=True)
class Price(_html.Shown):
    """The cost of keys and bootstraps, known before anything is made.

    Examples
    --------
    >>> ckks.price("ckks_toy_12", slots=4, bootstrap=None).kinds
    ()
    """

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


def planned(
    name: str,
    *,
    slots: int | None,
    bootstrap: str | None,
    kinds: Iterable[str] | str | None,
    levels: int | None,
    stage_count: int | None,
    rotations: Iterable[int] = (),
    conjugate: bool = False,
    compact: bool | str | None = None,
    needs: _native.CkksNeeds | None = None,
    iterations: int = 1,
) -> _native.CkksPlan:
    """The keys that the arguments of `keygen` ask for."""
    op = "keygen"
    listed = kinds_of(op, kinds)
    times = _values.count(op, "iterations", iterations)
    if name == "ckks":
        count = None if levels is None else _values.count(op, "levels", levels)
        name = _native.CkksPlan.set_for(listed, count, times)
    elif levels is not None:
        remedy = "leave one of them out"
        raise BadInput(op, "a set by name or by its levels", "both", remedy)
    size = None if bootstrap is None else known("bootstrap", bootstrap, SIZES)
    count = None if slots is None else _values.count(op, "slots", slots)
    # Modulo a multiple of every number of slots.
    turns = [turn(by) % (1 << 62) for by in rotations_of(rotations)]
    arguments = (turns, bool(conjugate), form_of(op, compact), needs, times)
    return staged(stage_count, lambda n: _native.CkksPlan(name, count, listed, size, n, *arguments))


def noted(
    name: str,
    note: str,
    *,
    slots: int | None,
    kinds: Iterable[str] | str | None,
    bootstrap: str | None,
    stage_count: int | None,
    compact: bool | str | None,
) -> _native.CkksPlan:
    """The keys of a file by its note, but for what the arguments of `load_server` ask for."""
    listed, as_made = kinds_of("keygen", kinds), bootstrap == AS_MADE
    size = None if as_made or bootstrap is None else known("bootstrap", bootstrap, SIZES)
    count = None if slots is None else _values.count("keygen", "slots", slots)
    form, make = form_of("keygen", compact), _native.CkksPlan.noted
    return staged(stage_count, lambda n: make(name, note, count, listed, size, n, form, as_made))


def priced(plan: _native.CkksPlan) -> Price:
    """The cost of the keys of a plan and of their bootstraps."""
    stored, memory, peak = plan.price()
    each = dict(zip(plan.kinds, plan.programs, strict=True))
    return Price(
        params=plan.name,
        kinds=tuple(each),
        slots=plan.slots,
        rotations=len(plan.needs().rotations),
        stored_bytes=stored,
        memory_bytes=memory,
        peak_bytes=peak,
        levels={k: (p.inputs[0][0], p.outputs[0][0]) for k, p in each.items()},
        bits={k: -float(np.log2(p.error)) for k, p in each.items() if p.error},
        key_switches={k: p.cost()["key_switches"] for k, p in each.items()},
        compact=compact_of(plan.form),
    )


def compact_of(form: str) -> bool | str:
    """The argument `compact` for a form of keys in memory."""
    return next(compact for compact, name in FORMS.items() if name == form)


def staged(stage_count: Any, make: Callable[[int | None], _T]) -> _T:
    """The result of `make` for a count of stages. The error for a negative one gives the range."""
    try:
        negative = stage_count is not None and stage_count < 0
    except TypeError:
        negative = False
    if negative:
        try:
            make(0)
        except BadInput as e:
            raise BadInput(e.op, e.wanted, str(stage_count), e.remedy) from None
    if stage_count is not None:
        stage_count = _values.count("bootstrap", "stage_count", stage_count)
    return make(stage_count)


def form_of(op: str, compact: object) -> str | None:
    """The form of keys in memory that `compact` names; none for the usual one of the set."""
    if compact is None:
        return None
    if isinstance(compact, bool | str) and compact in FORMS:
        return FORMS[compact]
    raise BadInput(op, 'compact as False, True or "seeded"', repr(compact), "choose one of these")


def kinds_of(op: str, kinds: Iterable[str] | str | None) -> list[str]:
    """Kinds of bootstrap, each once; none where they are left out."""
    if kinds is None:
        return []
    try:
        listed = [kinds] if isinstance(kinds, str) else [str(kind) for kind in kinds]
    except TypeError:
        got = type(kinds).__name__
        remedy = 'as in kinds="regular" or kinds=("regular", "slots_first")'
        raise BadInput(op, "a kind of bootstrap, or several", got, remedy) from None
    if not listed:
        remedy = "leave it out for the usual kind; bootstrap=None makes keys of none"
        raise BadInput(op, "a kind of bootstrap, or several", "none of them", remedy)
    return list(dict.fromkeys(listed))


def slots_of(op: str, slots: Any, name: str) -> int:
    """Values in a ciphertext of a set, as many as fit unless a number is given."""
    if slots is None:
        return params(name).slots
    try:
        return _native.CkksPlan(name, _values.count(op, "slots", slots)).slots
    except BadInput as e:
        raise BadInput(op, e.wanted, e.got, e.remedy) from None


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
