"""The measured times of CKKS on a GPU in docs/performance/cuda_ckks.md, from bench/results.

python3 bench/cuda_ckks.py          writes the table of the page
python3 bench/cuda_ckks.py --check  fails if the page has another
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE, ROWS = ROOT / "docs/performance/cuda_ckks.md", ROOT / "bench/results/h100_ckks.json"
MARKS = "<!-- measured -->\n", "<!-- /measured -->\n"


def named(case: str) -> str:
    """A bootstrap for people."""
    return case.replace("slots_first", "SlotsToCoeffs first,").replace("regular ", "regular, ")


def table() -> str:
    """Bootstraps, then single instructions."""
    report = json.loads(ROWS.read_text(encoding="utf-8"))
    rows = report["rows"]
    lines = [
        "| bootstrap | set | security | levels | ms on the device | ms of the call | bits, mean |"
        " worst | keys, GB | matrices, GB |",
        "|---|---|--:|---|--:|--:|--:|--:|--:|--:|",
    ]
    for r in (r for r in rows if r["bits_formula"] and r.get("batch", 1) == 1):
        cells = [
            named(r["case"]),
            f"`{r['params']}`",
            f"{r['security_bits']:.1f}",
            f"{r['level_before']} to {r['level_after']}",
            f"**{r['device_ms']:.1f}**",
            f"{r['call_ms']:.1f}",
            f"{r['bits_mean']:.1f}",
            f"{r['bits_worst']:.1f}",
            f"{r['key_bytes'] / 1e9:.1f}",
            f"{r['matrix_bytes'] / 1e9:.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    batches = [r for r in rows if r.get("batch", 1) > 1]
    if batches:
        lines += [
            "",
            "| batch of | bootstrap | set | ms each | a second |",
            "|--:|---|---|--:|--:|",
        ]
    for r in batches:
        each = f"**{r['device_ms']:.1f}** | {r['per_second']:.0f}"
        lines.append(f"| {r['batch']} | {named(r['case'])} | `{r['params']}` | {each} |")
    lines += ["", "| instruction | set | µs on the device |", "|---|---|--:|"]
    for r in (r for r in rows if not r["bits_formula"]):
        lines.append(f"| {r['case']} | `{r['params']}` | {1e3 * r['device_ms']:.0f} |")
    return f"{report['device']}:\n\n" + "\n".join(lines) + "\n"


def main() -> int:
    """Writes or checks the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(MARKS[0])
    behind = rest.split(MARKS[1])[1]
    made = f"{before}{MARKS[0]}{table()}{MARKS[1]}{behind}"
    if "--check" in sys.argv:
        if made != text:
            print(f"{PAGE.name} has another table: run python3 bench/cuda_ckks.py", file=sys.stderr)
        return int(made != text)
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
