"""Speed and area of the processor for T = 2 to 32 coefficients a clock, beside the paper's.

python rtl/report.py [T ...]
Latencies are measured by Verilator; clocks of a batch come from the model that `rtl/run.py
processor` holds against the RTL. DSP, BRAM and URAM are what Yosys maps for UltraScale+
(`synth_xilinx -family xcup`, every module once, counted as often as it stands). LUT and FF are
estimates of Yosys: no tool of the vendor was run. MHz are the paper's for that T: assumed, not
measured.
"""

import functools
import json
import re
import struct
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import run

RTL = run.RTL
# Its table 4: clock in MHz, bootstraps a second, delay in ms, LUT and FF in thousands, DSP.
PAPER = {
    2: (575, 1123, 2.67, 61, 92, 342),
    4: (525, 2050, 1.95, 112, 177, 684),
    8: (450, 3516, 1.42, 201, 352, 1368),
    16: (400, 6250, 0.96, 388, 697, 2736),
    32: (325, 10156, 0.88, 781, 1391, 5472),
}
SET = {"LOGN": 10, "K": 1, "LEVEL": 2, "BASE_LOG": 10, "DIMENSION": 500}
# Ciphertexts that keep the pipeline full.
BATCH = {2: 4, 4: 4, 8: 4, 16: 6, 32: 8}
KINDS = ("DSP48E2", "RAMB36E2", "RAMB18E2", "URAM288", "LUT", "FF", "LUTRAM")


@functools.cache
def area(top, **parameters):
    """Cells of a module and all below it."""
    from pyosys import libyosys

    with tempfile.TemporaryDirectory() as folder:
        stat = Path(folder) / "stat.json"
        design = libyosys.Design()
        sources = " ".join(run.sources())
        set_all = " ".join(f"-chparam {k} {v}" for k, v in parameters.items())
        for command in (
            f"read_verilog -sv -defer -I{RTL / 'ntt'} {sources}",
            f"hierarchy -check -top {top} {set_all}",
            "synth_xilinx -family xcup -noiopad",
        ):
            design.run_pass(f"tee -q {command}")
        design.run_pass(f"tee -q -o {stat} stat -json -hierarchy")
        cells = json.loads(stat.read_text())["design"]["num_cells_by_type"]
    count = dict.fromkeys(KINDS, 0)
    for name, many in cells.items():
        many = many if isinstance(many, int) else many.get("count", 0)
        if name in count:
            count[name] += many
        elif name.startswith("LUT") and name[3:].isdigit():
            count["LUT"] += many
        elif name.startswith("FD"):
            count["FF"] += many
        elif name.startswith(("RAM32", "RAM64", "RAM128", "RAM256", "RAM512", "SRL")):
            count["LUTRAM"] += many
    return count


def clocks(lanes, batch):
    """Of a full batch of bootstraps and one of key switches, alone, to the last word written."""
    with tempfile.TemporaryDirectory() as folder:
        run.vectors(Path(folder), "clocks", {"LOGT": lanes.bit_length() - 1, "BATCH": batch})
        return struct.unpack("<2Q", (Path(folder) / "vectors.bin").read_bytes())


def line(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def rule(columns):
    line(*["---"] * columns)


def speed(tool, widths):
    print("Set: n = 500, N = 1024, k = 1, l = 2, log beta = 10. Assumed clock, not measured.\n")
    line(
        "T",
        "NTT latency",
        "a polynomial every",
        "a bootstrap every",
        "a batch of bootstraps",
        "a batch of key switches",
        "assumed MHz",
        "bootstraps/s",
        "delay ms",
        "paper: bootstraps/s",
        "delay ms",
    )
    rule(11)
    for t in widths:
        logt = t.bit_length() - 1
        found = run.simulate(
            tool, "ntt", "ntt", {"LOGN": 10, "LOGT": logt, "INVERSE": 0, "count": 4}
        )
        latency = re.search(r"latency (\d+)", found)[1]
        mhz, rate, delay, *_ = PAPER[t]
        batch = BATCH[t]
        bootstrap, switch = clocks(t, batch)
        each = 500 * 2 * 1024 // t
        line(
            t,
            latency,
            1024 // t,
            each,
            f"{bootstrap} ({batch})",
            f"{switch} ({batch})",
            mhz,
            round(mhz * 1e6 / each),
            f"{bootstrap / mhz / 1e3:.2f}",
            rate,
            delay,
        )


def spaces(widths):
    print("\nArea by Yosys (LUT and FF: its estimate), beside the paper's (Vivado).\n")
    line("module", *KINDS, "paper: DSP", "LUT", "FF")
    rule(len(KINDS) + 4)
    rows = [("transform, N = 1024, T = 2", "ntt", {"LOGN": 10, "LOGT": 1}, (90, "12 K", "19 K"))]
    for t in widths:
        _, _, _, lut, ff, dsp = PAPER[t]
        sizes = {**SET, "LOGT": t.bit_length() - 1, "BATCH": BATCH[t]}
        rows.append((f"bootstrap, T = {t}", "bootstrap", sizes, (dsp, f"{lut} K", f"{ff} K")))
    common = {"LOGN": 10, "DIMENSION": 500, "BATCH": 4, "LEVEL": 12, "BASE_LOG": 1}
    rows.append(
        (
            "key switch, T = 2 (l = 12, log beta = 1)",
            "key_switch",
            {**common, "LOGT": 1},
            ("-",) * 3,
        )
    )
    rows.append(("sums, loads, stores, T = 2", "linear", {"LOGT": 1, "ROWS": 513}, ("-",) * 3))
    for name, top, sizes, paper in rows:
        cells = area(top, **sizes)
        line(name, *(cells[k] for k in KINDS), *paper)


def main():
    for module in ("pyosys", "verilator"):
        if not run.have(module):
            print(f"report: skipped, no {module} (`make rtl` installs it into .venv)")
            return 0
    widths = [int(a) for a in sys.argv[1:]] or list(PAPER)
    run.build()
    speed(run.verilator(), widths)
    spaces(widths)
    return 0


if __name__ == "__main__":
    sys.exit(main())
