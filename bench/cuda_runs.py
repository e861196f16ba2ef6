"""Measured times of GPUs, from bench/results, for the tables of `cuda_model.py`."""

import json
from pathlib import Path

import becalm

ROOT = Path(__file__).resolve().parent.parent
#: The run on an H100 of today's kernels, and the first one, whose bundles came in chunks of steps.
TODAY, CHUNKS = "h100.json", "h100_chunks.json"
#: Columns of the measured times: case, batch, and whether a second's rate or microseconds.
COLUMNS = (
    *(("pbs", 1, False), ("ks_pbs", 1, False), ("pbs", 16, False), ("pbs", 64, False)),
    *(("pbs", 256, True), ("pbs", 8192, True), ("ks_pbs", 8192, True)),
    *(("ks", 1, False), ("ks", 8192, True)),
)


def measured(run: str = TODAY) -> dict[str, dict[tuple[str, int], dict]]:
    """Rows of a run on an H100, by set, then by case and batch."""
    found = json.loads((ROOT / "bench/results" / run).read_text(encoding="utf-8"))
    return {s["params"]: {(r["case"], r["batch"]): r for r in s["rows"]} for s in found["sets"]}


def spaced(number: float) -> str:
    """A whole number with spaces between thousands."""
    return f"{number:,.0f}".replace(",", " ")


def times_table() -> list[str]:
    """The measured times on an H100."""
    names = {"pbs": "bootstrap", "ks_pbs": "with key switch", "ks": "key switch"}
    heads = (f"{names[c]}, {b}: {'a second' if rate else 'µs'}" for c, b, rate in COLUMNS)
    lines = [
        f"| set | security | log2 p_fail | {' | '.join(heads)} |",
        "|---|--:|--:|" + "--:|" * len(COLUMNS),
    ]
    for name, rows in measured().items():
        p = becalm.params(name)

        def cell(case: str, batch: int, rate: bool, rows: dict = rows) -> str:
            row = rows.get((case, batch))
            return "–" if row is None else spaced(row["per_second" if rate else "median_us"])

        cells = " | ".join(cell(*column) for column in COLUMNS)
        lines.append(f"| `{name}` | {p.security_bits:.1f} | {p.log2_pfail:.1f} | {cells} |")
    return lines


def micro_table() -> list[str]:
    """The microbenchmarks on an H100, beside the expectation."""
    found = json.loads((ROOT / "bench/results" / TODAY).read_text(encoding="utf-8"))
    lines = ["| microbenchmark | measured | unit | expected |", "|---|--:|---|---|"]
    for m in found["micro"]:
        value = f"{m['value']:.1f}" if m["value"] < 100 else spaced(m["value"])
        lines.append(f"| {m['what']} | {value} | {m['unit']} | {m['expected_of_an_h100']} |")
    return lines
