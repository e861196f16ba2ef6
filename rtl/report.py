"""Speed and area of the processor for T = 2 to 32 coefficients a clock, beside the paper's.

python rtl/report.py [--width T ...] [--only TEXT] [--fresh] [--tables]
Every figure is kept in bench/results/rtl.json as soon as it is found, with a digest of the sources
that it depends on: what is there already is not measured again unless --fresh, so a report that was
stopped goes on where it was. --only measures figures with TEXT in their names, --tables none.

Latencies are measured by Verilator; clocks of a batch come from the model that `rtl/run.py
processor` holds against the RTL. DSP, BRAM and URAM are what Yosys maps for UltraScale+
(`synth_xilinx -family xcup`, every module once, counted as often as it stands). LUT and FF are
estimates of Yosys: no tool of the vendor was run. MHz are the paper's for that T: assumed, not
measured.
"""

import argparse
import functools
import hashlib
import json
import re
import struct
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cells
import run

RTL = run.RTL
KEPT = run.ROOT / "bench" / "results" / "rtl.json"
# Its table 4: clock in MHz, bootstraps a second, delay in ms, LUT and FF in thousands, DSP, memory.
PAPER = {
    2: (575, 1123, 2.67, 61, 92, 342, "3 Mb"),
    4: (525, 2050, 1.95, 112, 177, 684, "4 Mb"),
    8: (450, 3516, 1.42, 201, 352, 1368, "6 Mb"),
    16: (400, 6250, 0.96, 388, 697, 2736, "10 Mb"),
    32: (325, 10156, 0.88, 781, 1391, 5472, "14 Mb"),
}
SET = {"LOGN": 10, "K": 1, "LEVEL": 2, "BASE_LOG": 10, "DIMENSION": 500}
# Its table 5: n = 800, N = 16384, l = 5, log beta = 6, T = 8.
LARGE = {"LOGN": 14, "LOGT": 3, "K": 1, "LEVEL": 5, "BASE_LOG": 6, "DIMENSION": 800, "BATCH": 4}
PAPER_LARGE = (400, 122, 25, 529, 939, 3744, "662 BRAM, 128 URAM")
# Its table 3: clocks of a transform, N = 1024, T = 2.
PAPER_NTT = 700
# Batches that the synthesised units are built for, and the smallest that keep the pipeline full.
BATCH = {2: 4, 4: 4, 8: 4, 16: 6, 32: 8}
LATENT = {2: 3, 4: 3, 8: 4, 16: 4, 32: 6, "large": 3}
KINDS = ("DSP48E2", "RAMB36E2", "RAMB18E2", "URAM288", "LUT", "FF", "LUTRAM")
SPEED = """Clocks. `every` is the loop with a full pipeline, the paper's MHz by bootstraps a second;
those of a batch include loading and writing. MHz, bootstraps/s, ms: assumed clock, not measured.
"""


class Kept:
    """Figures found so far, by name."""

    def __init__(self, fresh, only):
        self.rows = {}
        self.only = only
        if KEPT.exists() and not fresh:
            self.rows = json.loads(KEPT.read_text())["rows"]

    def get(self, name, sources, find):
        """The figure, measured now if it is not kept for these sources."""
        row = self.rows.get(name)
        if row is None or row["sources"] != sources:
            if self.only is None or self.only not in name:
                return None
            print(f"{name} …", end=" ", file=sys.stderr, flush=True)
            began = time.monotonic()
            found = find()
            seconds = round(time.monotonic() - began)
            print(f"{seconds} s", file=sys.stderr, flush=True)
            row = {"sources": sources, "seconds": seconds, "found": found}
            self.rows[name] = row
            # Another report may have found some meanwhile.
            rows = json.loads(KEPT.read_text())["rows"] if KEPT.exists() else {}
            rows[name] = row
            about = "make rtl-report: clocks by Verilator and the model, cells by Yosys"
            whole = {"command": about, "rows": dict(sorted(rows.items()))}
            KEPT.write_text(json.dumps(whole, indent=1) + "\n")
        return row["found"]


@functools.cache
def sources(top):
    """A digest of the source of a module and of all below it, or of the model of the clocks."""
    texts = {path: path.read_text() for path in sorted(RTL.glob("*/*.sv*"))}
    homes = {
        m: path for path, text in texts.items() for m in re.findall(r"^module (\w+)", text, re.M)
    }
    if top == "model":
        paths = sorted((run.ROOT / "crates/becalm/src/backend/processor").glob("*.rs"))
    else:
        found, open_ones = set(), [homes[top], RTL / "ntt" / "plan.svh"]
        while open_ones:
            path = open_ones.pop()
            found.add(path)
            used = re.findall(r"^\s*(?:else )?(\w+) +(?:#\(|\w+ *\()", texts[path], re.M)
            open_ones += {homes[m] for m in used if m in homes} - found
        paths = sorted(found)
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:16]


def area(top, until=None, **parameters):
    """Cells of a module and all below it; with `until` mapping stops there, before LUT and FF."""
    found = cells.Units(top, parameters, sources(top), until).count()
    count = dict.fromkeys(KINDS[:4] if until else KINDS, 0)
    for name, many in found.items():
        kind = name
        if name.startswith("LUT") and name[3:].isdigit():
            kind = "LUT"
        elif name.startswith("FD"):
            kind = "FF"
        elif name.startswith(("RAM32", "RAM64", "RAM128", "RAM256", "RAM512", "SRL")):
            kind = "LUTRAM"
        if kind in count:
            count[kind] += many
    return count


def clocks(params, lanes, batch):
    """Clocks of a full batch of bootstraps and one of key switches, alone, to the last write."""
    run.build()
    with tempfile.TemporaryDirectory() as folder:
        sizes = {"LOGT": lanes.bit_length() - 1, "BATCH": batch, "LARGE": int(params == "large")}
        run.vectors(Path(folder), "clocks", sizes)
        found = struct.unpack("<4Q", (Path(folder) / "vectors.bin").read_bytes())
    return dict(zip(("bootstraps", "switches", "bootstrap", "switch"), found, strict=True))


def latency(logn, t):
    """Clocks from first coefficient in to first value out, as Verilator finds them."""
    run.build()
    sizes = {"LOGN": logn, "LOGT": t.bit_length() - 1, "INVERSE": 0, "count": 4}
    return int(
        re.search(r"latency (\d+)", run.simulate(run.verilator(), "ntt", "ntt", sizes, "-O0"))[1]
    )


def line(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def head(*cells):
    line(*cells)
    line("---", *["--:"] * (len(cells) - 1))


def speed(kept, widths):
    """Clocks, and bootstraps a second at the paper's clock."""
    print(SPEED)
    names = "set, T, NTT latency, NTT every, paper: NTT, bootstrap every, paper: every, batch"
    names += ", clocks of the batch, for each, key switch every, clocks of a batch, assumed MHz"
    names += ", bootstraps/s, paper: bootstraps/s, ms of the batch, paper: ms"
    head(*names.split(", "))
    rows = [("n = 500", "standard", 10, t, LATENT[t], PAPER[t]) for t in widths]
    rows += [("n = 800", "large", 14, 8, LATENT["large"], PAPER_LARGE)] if 8 in widths else []
    for name, params, logn, t, batch, (mhz, rate, delay, *_) in rows:
        measure = functools.partial(latency, logn, t)
        model = functools.partial(clocks, params, t, batch)
        found = kept.get(f"latency, N = {1 << logn}, T = {t}", sources("ntt"), measure) or "-"
        spent = kept.get(f"clocks, {params}, T = {t}, batch = {batch}", sources("model"), model)
        if spent is None:
            continue
        paper = PAPER_NTT if (params, t) == ("standard", 2) else "-"
        line(
            *(name, t, found, (1 << logn) // t, paper, spent["bootstrap"], round(mhz * 1e6 / rate)),
            *(batch, spent["bootstraps"], round(spent["bootstraps"] / batch)),
            *(spent["switch"], spent["switches"], mhz, round(mhz * 1e6 / spent["bootstrap"]), rate),
            *(f"{spent['bootstraps'] / mhz / 1e3:.2f}", delay),
        )


def modules(widths):
    """The units to synthesise: name, until, top, parameters, the paper's DSP, LUT, FF and memory.

    A bootstrap is mapped twice: DSP and blocks are known long before LUT and FF.
    """
    none, ntt = ("-",) * 4, {"LOGN": 10, "LOGT": 1}
    yield "transform, N = 1024, T = 2", None, "ntt", ntt, (90, "12 K", "19 K", "8 BRAM")
    switch = {**ntt, "DIMENSION": 500, "BATCH": 4, "LEVEL": 12, "BASE_LOG": 1}
    yield "key switch, T = 2 (l = 12, log beta = 1)", None, "key_switch", switch, none
    yield "sums, loads, stores, T = 2", None, "linear", {"LOGT": 1, "ROWS": 513}, none
    for t in widths:
        _, _, _, lut, ff, dsp, memory = PAPER[t]
        sizes = {**SET, "LOGT": t.bit_length() - 1, "BATCH": BATCH[t]}
        paper = (dsp, f"{lut} K", f"{ff} K", memory)
        yield f"bootstrap, T = {t}", "map_ffram", "bootstrap", sizes, paper
        yield f"bootstrap, T = {t}, to LUT and FF", None, "bootstrap", sizes, paper
    if 8 in widths:
        _, _, _, lut, ff, dsp, memory = PAPER_LARGE
        paper = (dsp, f"{lut} K", f"{ff} K", memory)
        yield "bootstrap, N = 16384, l = 5, T = 8", "map_ffram", "bootstrap", LARGE, paper


def spaces(kept, widths):
    """Cells."""
    print("\nCells by Yosys (LUT and FF: its estimate), beside the paper's (Vivado).\n")
    head("module", *KINDS, "Mb of blocks", "paper: DSP", "LUT", "FF", "memory")
    for name, until, top, sizes, paper in modules(widths):
        found = kept.get(
            f"area, {name}", sources(top), functools.partial(area, top, until, **sizes)
        )
        if found is not None:
            # A block of each kind holds so many Kb.
            kilobits = zip((36, 18, 288), KINDS[1:4], strict=True)
            blocks = sum(size * found[kind] for size, kind in kilobits) / 1024
            line(name, *(found.get(k, "-") for k in KINDS), f"{blocks:.1f}", *paper)


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--width", type=int, nargs="+", choices=PAPER, default=list(PAPER))
    arguments.add_argument("--fresh", action="store_true", help="measure all again")
    arguments.add_argument("--tables", action="store_true", help="only print the kept figures")
    arguments.add_argument("--only", default="", metavar="TEXT", help="measure only such figures")
    chosen = arguments.parse_args()
    missing = [m for m in ("pyosys", "verilator") if not run.have(m)]
    if missing and not chosen.tables:
        print(f"report: skipped, no {missing[0]} (`make rtl` installs it into .venv)")
        return 0
    kept = Kept(chosen.fresh, None if chosen.tables else chosen.only)
    speed(kept, chosen.width)
    spaces(kept, chosen.width)
    return 0


if __name__ == "__main__":
    sys.exit(main())
