"""Every public circuit beside plain table mapping, and AES-128 on the processor's model.

python bench/circuits.py [--becalm COMMAND] FOLDER
Maps each circuit of FOLDER to tables of three and of four inputs with abc
(`strash; if -K 3`, `-K 4`; the package pyosys brings it) and compiles it with becalm for tfhe_2_2,
for the shortest path and for the fewest bootstraps. Fails if becalm's fewest bootstraps or its
shortest path are worse than a mapping's. Rows go to bench/results/circuits.json.
"""

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLES = {"AND": "11 1", "XOR": "01 1\n10 1", "INV": "0 1", "EQW": "1 1"}
WIDTHS = (2, 4, 8, 16, 32)


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


def mapped(path: Path, inputs: int) -> tuple[int, int]:
    """Tables, and the longest path, of abc's mapping."""
    home = Path(importlib.util.find_spec("pyosys").origin).parent
    script = f"read_blif {path}; strash; if -K {inputs}; print_stats"
    said = subprocess.run(
        [home / "yosys-abc", "-c", script], text=True, capture_output=True, check=True
    ).stdout
    plain = re.sub(r"\x1b\[[0-9;]*m", "", said)
    return int(re.search(r"nd\s*=\s*(\d+)", plain)[1]), int(re.search(r"lev\s*=\s*(\d+)", plain)[1])


def cost(becalm: str, path: Path, *options: str) -> dict:
    """The cost of a circuit, as becalm reports it."""
    command = [becalm, "circuit", "cost", str(path), "--json", *options]
    began = time.monotonic()
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return {**found, "seconds": round(time.monotonic() - began, 2)}


def line(*cells: object) -> None:
    """A row of a Markdown table."""
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def mapping(becalm: str, files: list[Path]) -> tuple[list[dict], bool]:
    """The table of all circuits, and whether becalm is never worse."""
    line("circuit", "LUT3", "LUT4", "`--goal depth`", "`--goal bootstraps`")
    line(*["---"] * 5)
    rows, good = [], True
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            copy = Path(folder) / "circuit.blif"
            copy.write_text(blif(file.read_text()))
            luts = [mapped(copy, k) for k in (3, 4)]
            found = [cost(becalm, file, "--goal", goal) for goal in ("depth", "bootstraps")]
            ours = [(f["bootstraps"], f["depth"]) for f in found]
            line(file.stem, *(f"{count}, depth {depth}" for count, depth in [*luts, *ours]))
            names = ("lut3", "lut4", "goal_depth", "goal_bootstraps")
            rows.append({"circuit": file.stem, **dict(zip(names, [*luts, *ours], strict=True))})
            fewest, shortest = min(o[0] for o in ours), min(o[1] for o in ours)
            good &= fewest <= min(n for n, _ in luts) and shortest <= min(d for _, d in luts)
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
        found = cost(becalm, aes, "--backend", "processor", "--width", str(width))
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
    arguments.add_argument("folder", type=Path, help="circuits in Bristol Fashion or BLIF")
    arguments.add_argument("--becalm", default="becalm", help="the command")
    chosen = arguments.parse_args()
    files = sorted(p for p in chosen.folder.glob("*") if p.suffix in (".txt", ".blif"))
    if not files or importlib.util.find_spec("pyosys") is None:
        print(f"circuits: skipped, no circuits in {chosen.folder} or no pyosys")
        return 0
    rows, good = mapping(chosen.becalm, files)
    aes = chosen.folder / "aes_128.txt"
    runs = processor(chosen.becalm, aes) if aes.exists() else []
    results = ROOT / "bench/results/circuits.json"
    results.write_text(json.dumps({"mapping": rows, "processor": runs}, indent=1) + "\n")
    print(f"\ncircuits: {'never' if good else 'somewhere'} worse than plain mapping")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
