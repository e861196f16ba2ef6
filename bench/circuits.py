"""Circuits beside plain table mapping, and AES-128 on the processor's model.

python bench/circuits.py [--becalm COMMAND] [FOLDER]
Compiles every circuit of bench/untuned.py, and of FOLDER if it is given, for tfhe_2_2, for the
shortest path and for the fewest bootstraps, without ABC and with it, and maps it with ABC (the
package pyosys brings it) to tables of three and of four inputs (`strash; if -K 3`, `-K 4`) and by
the best of four scripts more, of seven where the inputs are few. Fails if becalm with ABC has more
bootstraps or a longer path than any of these; in tables of four inputs that the set has no room
for, by more than bench/untuned.py says. Rows go to bench/results/circuits.json, beside what they
were before.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import untuned

ROOT = Path(__file__).resolve().parent.parent
TABLES = {"AND": "11 1", "XOR": "01 1\n10 1", "INV": "0 1", "EQW": "1 1"}
WIDTHS = (2, 4, 8, 16, 32)
FOUND = importlib.util.find_spec("pyosys")
ABC = str(Path(FOUND.origin).parent / "yosys-abc") if FOUND else ""


def blif(text: str) -> str:
    """A circuit in Bristol Fashion as BLIF; one in BLIF as it is."""
    if any(line.lstrip().startswith(".model") for line in text.splitlines()):
        return text
    lines = [line.split() for line in text.splitlines() if line.strip()]
    wires, inputs, outputs = int(lines[0][1]), map(int, lines[1][1:]), map(int, lines[2][1:])
    names = [f"w{i}" for i in range(wires)]
    head = [".model m", ".inputs " + " ".join(names[: sum(inputs)])]
    head.append(".outputs " + " ".join(names[wires - sum(outputs) :]))
    gates = []
    for *numbers, kind in lines[3:]:
        places = [names[int(n)] for n in numbers[2:]]
        gates.append(f".names {' '.join(places)}\n{TABLES[kind]}")
    return "\n".join([*head, *gates, ".end\n"])


def cost(becalm: str, path: Path, *options: str, abc: str = "") -> dict:
    """The cost of a circuit as becalm reports it, with the command of ABC or without."""
    command = [becalm, "circuit", "cost", str(path), "--json", *options]
    began, environment = time.monotonic(), {**os.environ, "BECALM_ABC": abc}
    done = subprocess.run(command, capture_output=True, check=True, env=environment)
    found = json.loads(done.stdout)
    return {**found, "seconds": round(time.monotonic() - began, 2)}


def line(*cells: object) -> None:
    """A row of a Markdown table."""
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def mapping(becalm: str, circuits: list[tuple[str, str]], before: dict) -> tuple[list[dict], bool]:
    """The table of all circuits, and whether becalm is never worse."""
    kinds = [f"{goal}{tool}" for tool in ("", ", ABC") for goal in ("depth", "bootstraps")]
    line("circuit", "LUT3", "LUT4", "best script", "depth before", "bootstraps before", *kinds)
    line(*["---"] * 10)
    rows, good = [], True
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "circuit.blif"
        for name, text in circuits:
            copy.write_text(blif(text))
            scripts = untuned.scripts(blif(text))
            tried = [untuned.mapped(ABC, copy, script) for script in scripts]
            maps = [figures for figures in tried if figures]
            best = (min(n for n, _ in maps), min(d for _, d in maps))
            ours = {}
            for abc, kind in (("", "own"), (ABC, "abc")):
                for goal in ("depth", "bootstraps"):
                    found = cost(becalm, copy, "--goal", goal, abc=abc)
                    ours[f"{kind}_{goal}"] = (found["bootstraps"], found["depth"])
            old = before.get(name, {})
            row = {"circuit": name, "lut3": maps[0], "lut4": maps[1], "best": best}
            row |= {f"before_{g}": old.get(f"before_{g}") for g in ("depth", "bootstraps")} | ours
            rows.append(row)
            pairs = [row["lut3"], row["lut4"]]
            cells = [f"{count}, depth {depth}" for count, depth in pairs]
            cells.append(f"{best[0]}; depth {best[1]}")
            cells += ["–" if not p else f"{p[0]}, depth {p[1]}" for p in [*row.values()][4:]]
            line(name, *cells)
            more = untuned.REFRESHED.get(name, 0)
            good &= ours["abc_bootstraps"][0] <= best[0] + more
            good &= ours["abc_depth"][1] <= best[1] + more
    return rows, good


def processor(becalm: str, aes: Path) -> list[dict]:
    """AES-128 on the model of the processor, at the clocks that its paper reports."""
    print("\nAssumed clock, not measured.\n")
    line(
        *("program", "T", "bootstraps", "depth", "waves", "clocks", "assumed MHz", "s"),
        *("bootstrap unit busy", "key switches hidden", "ms of modelling a bootstrap"),
    )
    line(*["---"] * 11)
    rows, name = [], "Bristol aes_128, one block"
    for width in WIDTHS:
        found = cost(becalm, aes, "--device", "processor", "--width", str(width))
        p, count = found["processor"], found["bootstraps"]
        each = round(1000 * found["seconds"] / count, 3)
        line(
            *(name, width, count, found["depth"], found["waves"], p["clocks"]),
            *(round(p["megahertz"]), f"{p['seconds']:.2f}"),
            *(f"{p['bootstrap_busy']:.2%}", f"{p['key_switch_hidden']:.2%}", each),
        )
        rows.append({"program": name, "width": width, **found})
    return rows


def main() -> int:
    """Prints and keeps the tables."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "folder", nargs="?", type=Path, help="circuits in Bristol Fashion or BLIF"
    )
    arguments.add_argument("--becalm", default="becalm", help="the command")
    chosen = arguments.parse_args()
    if not ABC:
        print("circuits: skipped, no pyosys")
        return 0
    results = ROOT / "bench/results/circuits.json"
    kept = json.loads(results.read_text()) if results.exists() else {}
    before = {row["circuit"]: row for row in kept.get("mapping", [])}
    files = sorted(chosen.folder.glob("*")) if chosen.folder else []
    read = [(p.stem, p.read_text()) for p in files if p.suffix in (".txt", ".blif")]
    rows, good = mapping(chosen.becalm, [*untuned.circuits(), *read], before)
    aes = next((p for p in files if p.name == "aes_128.txt"), None)
    runs = processor(chosen.becalm, aes) if aes else kept.get("processor", [])
    rows += [row for name, row in before.items() if name not in {r["circuit"] for r in rows}]
    results.write_text(json.dumps({"mapping": rows, "processor": runs}, indent=1) + "\n")
    print(f"\ncircuits: {'never' if good else 'somewhere'} worse than plain mapping")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
