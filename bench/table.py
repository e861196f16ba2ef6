"""Writes the rows of bench/results/tfhe*.json into the marked block of the README, and those of
ckks.json and ckks-tables.json into those of docs/performance/ckks.md.

`make bench` makes the rows. `python bench/table.py --check` only says whether the blocks are
theirs.
"""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"


def rows(name: str) -> list[dict]:
    """The rows of one file of results; none if it was not measured."""
    path = RESULTS / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def table() -> str:
    """The rows as a Markdown table."""
    plain, huge = rows("tfhe.json"), {r["case"]: r for r in rows("tfhe-huge.json")}
    lines = [
        "| case | becalm, ms | peer, ms | ratio | on huge pages | set | security | log2 p_fail |",
        "|---|--:|--:|--:|--:|---|--:|--:|",
    ]
    for r in plain:
        other = huge.get(r["case"])
        ratio = f"{other['ratio']:.2f}" if other else "–"
        lines.append(
            f"| {r['case']} | {r['ours_ms']:.2f} | {r['peer_ms']:.2f} | **{r['ratio']:.2f}** "
            f"| {ratio} | `{r['params']}` | {security(r['security_bits'])} "
            f"| {r['log2_pfail']:.1f} |"
        )
    r = plain[0]
    lines += [
        "",
        f"Medians of interleaved runs, {r['threads']} thread ({r['clock']} time), per ciphertext; "
        f"{r['simd']} here, {r['peer_simd']} there. Peer: {r['peer']} {r['peer_version']}. "
        "*On huge pages*: the ratio when the peer's heap lies on huge pages as becalm's keys do.",
    ]
    return "\n".join(lines) + "\n"


def security(bits: float) -> str:
    """Rounded down to a tenth, as every claim; `becalm::security::claimed` says the same."""
    return f"{math.floor(bits * 10 + 1e-9) / 10:.1f}"


HEAD = (
    "case | becalm, s | peer, s | ratio | bits: mean, worst | ±1 | level "
    "| keys, GB: stored, in memory | peak, GB | security | p_fail"
)


def ckks_cells(r: dict) -> list[str]:
    """A row of CKKS: both sides of every figure."""
    both = [side for side in (r["ours"], r["peer"]) if side]
    bootstrap = both[0]["bits_signs"] is not None

    def cells(show: Callable[[dict], str], when: bool = True) -> str:
        return " / ".join(show(side) for side in both) if when else ""

    def time(side: dict) -> float:
        wall = side["seconds"]["median"]
        return side.get("processor", wall) if r["threads"] == 1 else wall

    seconds = [f"{time(side):.4g}" for side in both]
    return [
        r["case"].removeprefix("ckks/"),
        *(seconds if r["peer"] else [seconds[0], ""]),
        f"**{r['ratio']:.2f}**" if r["peer"] else "",
        cells(lambda s: f"{s['bits_mean']:.1f}, {s['bits_worst']:.1f}"),
        cells(lambda s: f"{s['bits_signs']:.1f}", bootstrap),
        cells(lambda s: str(s["level"])),
        cells(
            lambda s: f"{s['stored_key_bytes'] / 1e9:.2f}, {s['key_bytes'] / 1e9:.2f}", bootstrap
        ),
        cells(lambda s: f"{(s['peak_bytes'] or 0) / 1e9:.1f}"),
        cells(lambda s: security(s["security_bits"])),
        cells(lambda s: s["pfail"]),
    ]


def ckks_table() -> str:
    """The rows of CKKS as a Markdown table, and the measurements left out."""
    every = rows("ckks.json")
    lines = [f"| {HEAD} |", "|---|--:|--:|--:|" + "---|" * 7]
    lines += [f"| {' | '.join(ckks_cells(r))} |" for r in every if r["ours"]]
    peers = [r["peer"] for r in every if r["peer"]]
    names = sorted({f"{s['name']} {s['version']} ({s['params']})" for s in peers})
    lines += ["", f"Medians of runs by turns; becalm / peer. Peers: {'; '.join(names)}."]
    apart = [r["case"] for r in every if r["peer"] and not r["by_turns"]]
    if apart:
        lines += [f"One after the other, because both together do not fit: {', '.join(apart)}."]
    missing = [r for r in every if r["left_out"]]
    for r in missing:
        what = f"{r['case']} beside its peer" if r["ours"] else r["case"]
        lines.append(f"Not measured: {what}, because {r['left_out']}.")
    said = sorted({r["acknowledgement"] for r in every if r["acknowledgement"]})
    return "\n".join([*lines, *(f"\n{line}." for line in said)]) + "\n"


def document_cells(r: dict) -> list[str]:
    """A row of the tables of the DESILO document; unknown cells are empty."""

    def bits(error: float | None) -> str:
        return f"{-math.log2(error):.1f}" if error else ""

    one, two = r["seconds"] or (None, None)
    document = bits(r["document_mean_error"]) or r["document_seconds"]
    return [
        r["table"],
        str(r["slots"] or "all"),
        r["key_size"],
        str(r["stage_count"]),
        f"{one:.2f}" if one else r["left_out"],
        f"{two:.2f}" if two else "",
        bits(r["mean_error"]),
        bits(r["claimed_error"]),
        "" if r["level"] is None else str(r["level"]),
        f"{r['stored_key_bytes'] / 1e9:.2f}" if r["stored_key_bytes"] else "",
        f"{document} bits" if r["document_mean_error"] else f"{document} s",
    ]


def document_tables() -> str:
    """The measurements of `becalm bench ckks --tables` as a Markdown table."""
    head = (
        "table | slots | keys | stages | s, 1 thread | 2 threads | bits | claimed | level "
        "| stored, GB | document (their machine)"
    )
    lines = [f"| {head} |", "|---|" + "--:|---|" + "--:|" * 8]
    lines += [f"| {' | '.join(document_cells(r))} |" for r in rows("ckks-tables.json")]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Rewrites the blocks, or compares them."""
    differ = 0
    performance = "docs/performance/ckks.md"
    blocks = (
        ("README.md", "bench", table),
        (performance, "bench", ckks_table),
        (performance, "tables", document_tables),
    )
    for page, name, made in blocks:
        path = ROOT / page
        text = path.read_text(encoding="utf-8")
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        head, rest = text.split(begin, 1)
        _, tail = rest.split(end, 1)
        wanted = head + begin + made() + end + tail
        differ |= text != wanted
        if "--check" not in sys.argv[1:]:
            path.write_text(wanted, encoding="utf-8")
    return int(differ) if "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
