"""Parameter sets by need, and the checks before keys of TFHE are made."""

from __future__ import annotations

from typing import Any

import numpy as np

from becalm import _values
from becalm._native import Params
from becalm.errors import BadInput, WrongParams


def find(
    op: str,
    bits: Any,
    log2_pfail: Any,
    modulus: str | None = None,
    norm2: Any = None,
    slots: Any = None,
) -> Params:
    """The cheapest standard set that meets a need."""
    wanted = min(_values.at_least_one(op, "bits", bits), 2**32 - 1)
    pfail = _values.real(op, "log2_pfail", -128.0 if log2_pfail is None else log2_pfail)
    if not -float("inf") < pfail < 0:
        remedy = "as in log2_pfail=-128"
        raise BadInput(op, "log2 of a probability below 1", repr(log2_pfail), remedy)
    norm = _values.real(op, "norm2", 1.0 if norm2 is None else norm2)
    each = _values.at_least_one(op, "slots", 1 if slots is None else slots)
    try:
        return Params.find(wanted, pfail, "2^64" if modulus is None else str(modulus), norm, each)
    except WrongParams as e:
        wide = "; for wide integers take any set, and becalm.uint(bits) as their type"
        raise WrongParams(op, e.wanted, e.got, e.remedy + wide * (wanted > 8)) from None


def found(bits: Any, log2_pfail: Any, slots: Any) -> Params:
    """The set for what `keygen` is asked for: one table of 4 bits unless it says otherwise."""
    return find("keygen", 4 if bits is None else bits, log2_pfail, slots=slots)


def require_bits(**need: Any) -> None:
    """Refuses a part of a need where `bits` is not given."""
    given = ", ".join(f"{name}={value!r}" for name, value in need.items() if value is not None)
    if given:
        remedy = "add bits, as in params(bits=4, slots=2), or leave it out"
        raise BadInput("params", "bits, which a need begins with", given, remedy)


def announcement(p: Params) -> str:
    memory = p.bootstrap_key_bytes + p.key_switch_key_bytes
    slots = f" in each of {p.slots} slots" if p.slots > 1 else ""
    return (
        f"becalm: {p.name}, {p.security_bits:.1f} bits of security, failure 2^{p.log2_pfail:.1f} "
        f"per bootstrap, {p.values} values{slots}\n"
        f"becalm: making an evaluation key of {_values.megabytes(p.stored_key_bytes)} "
        f"({_values.megabytes(memory)} in memory when it computes)"
    )


def refuse_number(params: Any) -> None:
    """Raises for a number in the place of the name of a set."""
    if isinstance(params, (int, np.integer)) and not isinstance(params, bool):
        remedy = f"for the bits of a table, use keygen(bits={params})"
        if params > 8:
            remedy = "for wide integers keygen() suffices, and becalm.uint(bits) is their type"
        raise BadInput("keygen", "the name of a parameter set", f"the number {params}", remedy)
