"""Small tables of public facts for notebooks, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from becalm._native import Params
from becalm._values import megabytes


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table with a line of titles."""
    titles = "".join(f"<th>{escape(str(cell))}</th>" for cell in head)
    lines = "".join(f"<tr>{_cells(row)}</tr>" for row in rows)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table>"


def facts(title: str, rows: Iterable[tuple[str, Any]]) -> str:
    """The facts about one thing: a name and a value on each line."""
    lines = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th>{_cells([value])}</tr>'
        for name, value in rows
        if value is not None
    )
    return f"<table><caption><b>{escape(title)}</b></caption><tbody>{lines}</tbody></table>"


def _cells(values: Iterable[Any]) -> str:
    return "".join(f'<td style="text-align:left">{escape(str(v))}</td>' for v in values)


class Shown:
    """An object that a notebook shows as a table of its `_facts`. A terminal shows its `repr`."""

    __slots__ = ()

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return facts(*self._facts())


def of_params(p: Params) -> str:
    """A parameter set of TFHE."""
    rows = [
        ("kind", p.kind),
        ("values", f"{p.values} in each of {p.slots} slots" if p.slots > 1 else p.values),
        ("security", f"{p.security_bits:.1f} bits"),
        ("failure of a bootstrap", f"2^{p.log2_pfail:.1f}"),
        ("modulus", p.modulus),
        ("LWE dimension", p.lwe_dimension),
        ("GLWE dimension", p.glwe_dimension),
        ("polynomial size", p.polynomial_size),
        ("ciphertext", megabytes(p.ciphertext_bytes)),
        ("evaluation key in a file", megabytes(p.stored_key_bytes)),
        ("evaluation key in memory", megabytes(p.bootstrap_key_bytes + p.key_switch_key_bytes)),
        ("source", p.source),
    ]
    return facts(f"becalm.Params {p.name}", rows)


class ParamsList(list[Params]):
    """Parameter sets of TFHE, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        head = ("name", "kind", "values", "slots", "security", "failure", "modulus", "key")
        rows = (
            (
                *(p.name, p.kind, p.values, p.slots, f"{p.security_bits:.1f} bits"),
                *(f"2^{p.log2_pfail:.1f}", p.modulus, megabytes(p.stored_key_bytes)),
            )
            for p in self
        )
        return table(head, rows)
