"""The times of CKKS on GPUs in docs/performance/cuda_ckks.md: measured ones, from bench/results,
and those that a model predicts for other GPUs from a profile.

python3 bench/cuda_ckks.py          writes the tables of the page
python3 bench/cuda_ckks.py --check  fails if the page has others
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE, ROWS = ROOT / "docs/performance/cuda_ckks.md", ROOT / "bench/results/h100_ckks.json"
PROFILE = ROOT / "bench/results/h100_ckks_profile.json"


@dataclass(frozen=True)
class Machine:
    """A GPU: rate of doubles beside the H100's, terabytes a second of memory and of the
    second-level cache. Rates and memory are those of data sheets."""

    name: str
    doubles: float
    memory: float
    cache: float

    def floor(self, kernel: dict) -> float:
        """Milliseconds that a kernel takes at least."""
        doubles = kernel["doubles_ms"] / self.doubles
        return max(doubles, kernel["memory_gb"] / self.memory, kernel["cache_gb"] / self.cache)


#: The cache of the first is what `becalm bench --device cuda --micro` measured, of the second what
#: `key_product` reached. Those of the others are guesses.
H100, H200 = Machine("H100", 1.0, 3.35, 7.5), Machine("H200", 1.0, 4.8, 8.5)
OTHERS = (
    Machine("B200", 40 / 34, 8.0, 8.8),
    Machine("RTX 5090", 1.64 / 34, 1.79, 6.0),
    Machine("RTX 4090", 1.29 / 34, 1.01, 5.0),
)


def predicted(machine: Machine, kernel: dict) -> float:
    """Milliseconds of a kernel that comes as near to its floor as it did on the H100."""
    return machine.floor(kernel) * kernel["ms"] / H100.floor(kernel)


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


def profile_table() -> str:
    """The profile, kernel by kernel."""
    kernels = json.loads(PROFILE.read_text(encoding="utf-8"))["kernels"]
    all_ = sum(k["ms"] for k in kernels)
    lines = [
        "| kernel | launches | ms | share | memory, GB | TB/s | second-level cache, TB/s |"
        " arithmetic in doubles |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for k in kernels:
        lines.append(
            f"| `{k['kernel']}` | {k['launches']} | {k['ms']:.2f} | {k['ms'] / all_:.0%} |"
            f" {k['memory_gb']:.2f} | {k['memory_gb'] / k['ms']:.2f} |"
            f" {k['cache_gb'] / k['ms']:.2f} | {k['doubles_ms'] / k['ms']:.0%} |"
        )
    launches, memory = (sum(k[of] for k in kernels) for of in ("launches", "memory_gb"))
    lines.append(f"| all | {launches} | {all_:.2f} | | {memory:.1f} | | | |")
    return "\n".join(lines).replace("%", " %") + "\n"


def predictions_table() -> str:
    """The model beside one more machine that was measured, and what it says of others."""
    data = json.loads(PROFILE.read_text(encoding="utf-8"))
    older, measured = data["five_launches"]["kernels"], data["five_launches"]["h200_ms"]
    lines = ["| form of five launches, H200 | predicted, ms | measured, ms |", "|---|--:|--:|"]
    for k in older:
        name = k["kernel"]
        lines.append(f"| `{name}` | {predicted(H200, k):.2f} | {measured[name]:.2f} |")
    sums = sum(predicted(H200, k) for k in older), sum(measured.values())
    lines.append(f"| all | {sums[0]:.1f} | {sums[1]:.1f} |")
    lines += [
        "",
        "| today's form, sum of all launches | at least, ms | predicted, ms | measured, ms |",
        "|---|--:|--:|--:|",
    ]
    kernels = data["kernels"]
    for m in (H100, H200, *OTHERS):
        least = sum(m.floor(k) for k in kernels)
        found = f"{sum(k['ms'] for k in kernels):.1f}" if m is H100 else "–"
        guess = sum(predicted(m, k) for k in kernels)
        lines.append(f"| {m.name} | {least:.1f} | {guess:.1f} | {found} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Writes or checks the page."""
    made = text = PAGE.read_text(encoding="utf-8")
    tables = {"measured": table, "profile": profile_table, "predicted": predictions_table}
    for name, of in tables.items():
        marks = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
        before, rest = made.split(marks[0])
        made = f"{before}{marks[0]}{of()}{marks[1]}{rest.split(marks[1])[1]}"
    if "--check" in sys.argv:
        if made != text:
            print(f"{PAGE.name} has another table: run python3 bench/cuda_ckks.py", file=sys.stderr)
        return int(made != text)
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
