"""Keys of CKKS on request: from the arguments of `keygen` to a plan, and from a plan to keys."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from becalm import _native, _progress, _values
from becalm._ckks_cost import Needs
from becalm._ckks_sets import Price, Usual, params, planned, priced
from becalm._progress import Progress
from becalm.errors import BadInput


def asked(
    name: str,
    *,
    bootstrap: str | None,
    kinds: Iterable[str] | str | None,
    stage_count: int | None,
    conjugate: bool,
    needs: Needs | None,
    device: str = "cpu",
    made: bool = False,
    **others: Any,
) -> _native.CkksPlan:
    """The plan of keys that fit the memory beside the work of a machine; for a secret key that is
    `made` already, of its set.
    """
    if needs is not None:
        _require_alone(bootstrap, kinds, stage_count)
        bootstrap, conjugate = None, False
    plan = planned(
        name,
        bootstrap=bootstrap,
        kinds=kinds,
        stage_count=stage_count,
        conjugate=conjugate,
        needs=_needed(needs),
        **others,
    )
    plan.require(_native.free_memory(), str(device), made)
    return plan


def machine_of(
    plan: _native.CkksPlan, allow_insecure: bool, threads: int, device: str
) -> _native.CkksMachine:
    """The set of a plan on a machine; raises where the machine does not run it."""
    count = _values.count("keygen", "threads", threads)
    compact = plan.form != "ready"
    return _native.CkksMachine(plan.name, bool(allow_insecure), count, compact, str(device))


def keys_of(
    native: _native.CkksSecretKey,
    plan: _native.CkksPlan,
    machine: _native.CkksMachine,
    progress: Progress,
) -> _native.CkksKeys:
    """The keys of a plan, made now."""
    if progress is not False and sys.stderr:
        _progress.say(_announcement(priced(plan)))
    with _progress.shown(progress, "keys", 0.0) as callback:
        return native.keys(plan.needs(), None, callback, plan.form, machine)


def _needed(needs: object) -> _native.CkksNeeds | None:
    if needs is None or isinstance(needs, Needs):
        return None if needs is None else needs._native
    got, remedy = type(needs).__name__, "as in needs=program.needs"
    raise BadInput("keygen", "the needs of a program", got, remedy)


def _require_alone(bootstrap: str | None, kinds: object, stage_count: object) -> None:
    """Refuses arguments of bootstraps beside the needs of a program."""
    given = [n for n, v in (("kinds", kinds), ("stage_count", stage_count)) if v is not None]
    given += ["bootstrap"] * (bootstrap is not None and not isinstance(bootstrap, Usual))
    if given:
        got, remedy = ", ".join(given), "leave it out: the program says which bootstraps it has"
        raise BadInput("keygen", "needs of a program alone", got, remedy)


def _announcement(p: Price) -> str:
    claims = params(p.params)
    return (
        f"becalm: {p.params}, {claims.security_bits:.1f} bits of security, {p.slots} slots\n"
        f"becalm: making evaluation keys of {_values.megabytes(p.stored_bytes)} "
        f"({_values.megabytes(p.memory_bytes)} in memory{', compact' if p.compact else ''})"
    )
