"""Writes the rows of bench/results/tfhe*.json into the marked block of the README.

`make bench` makes the rows. `python bench/table.py --check` only says whether the block is theirs.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
README = ROOT / "README.md"
BEGIN, END = "<!-- bench -->\n", "<!-- /bench -->"


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
            f"| {ratio} | `{r['params']}` | {r['security_bits']:.1f} | {r['log2_pfail']:.1f} |"
        )
    r = plain[0]
    lines += [
        "",
        f"Medians of interleaved runs, {r['threads']} thread ({r['clock']} time), per ciphertext; "
        f"{r['simd']} here, {r['peer_simd']} there. Peer: {r['peer']} {r['peer_version']}. "
        "*On huge pages*: the ratio when the peer's heap lies on huge pages as becalm's keys do.",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Rewrites the block, or compares it."""
    text = README.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN, 1)
    _, tail = rest.split(END, 1)
    wanted = head + BEGIN + table() + END + tail
    if "--check" in sys.argv[1:]:
        return int(text != wanted)
    README.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
