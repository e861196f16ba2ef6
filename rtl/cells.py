"""Cells of a module by Yosys, unit by unit: every distinct module is mapped once, in a small design
in which the modules that it uses are black boxes, and counted as often as it stands.

That is what mapping the whole design does too, because nothing is flattened; but abc9 and its
neighbours walk over the whole design for each of its modules, which takes hours at T = 32. Results
are kept in the build folder, by the digest of a module's sources and its parameters.

The tables of a barrier are computed here and read from files: Yosys needs minutes for 2048 words of
them and the time grows faster than their number. Their words are those of `barrier.sv`.
"""

import hashlib
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import run

PRIME, ROOT = 2**64 - 2**32 + 1, 0xE2AF70635744FD26
PLACE = """{{"{folder}/", 8'(48 + LOGN / 10), 8'(48 + LOGN % 10), 8'(48 + LOGT),
          8'(48 + LAYER / 10), 8'(48 + LAYER % 10), 8'(48 + INVERSE),
          8'(48 + l / 10), 8'(48 + l % 10)}}"""
TABLE = "      localparam [64*M-1:0] FACTORS = factors_of(l);\n"
FILL = "      initial for (t = 0; t < M; t = t + 1) factors[t] = FACTORS[64*t+:64];\n"


def groups(logn):
    """The first layer of each group, as plan.svh has them."""
    first = min(logn, 5)
    barriers = (logn - first + 5) // 6
    sizes = [(logn - first) // barriers + (g < (logn - first) % barriers) for g in range(barriers)]
    return [0] + [first + sum(sizes[:g]) for g in range(barriers)]


def factors(logn, logt, layer, inverse, lane):
    """The factors of a barrier for the values of a lane, one after another; see barrier.sv."""
    n, m, size = 1 << logn, 1 << (logn - logt), 1 << (logn - layer)
    psi = pow(ROOT, 1 << (31 - logn), PRIME)
    group = max(g for g in groups(logn) if g < layer)
    words = []
    for t in range(m):
        if layer <= logt:
            place = lane * m + t
        else:
            place = (2 * (lane // 2 * (m // size) + t // size) + lane % 2) * size + t % size
        exponent = n if group == 0 else 0
        for i in range(layer - group - 1, -1, -1):
            exponent = exponent // 2 + (n if place // size >> i & 1 else 0)
        exponent = exponent // size * (-1 if inverse else 1)
        words.append(pow(psi, exponent * (place % size) % (2 * n), PRIME))
    return words


def with_tables(folder, logn, logt):
    """The sources, with barriers that read their tables from files in the folder."""
    paths = []
    for path in map(Path, run.sources()):
        if path.name != "barrier.sv":
            paths.append(str(path))
            continue
        text = path.read_text()
        if text.count(TABLE) != 1 or text.count(FILL) != 1:
            raise ValueError(f"{path} no longer fills its tables as cells.py expects")
        place = PLACE.format(folder=folder)
        text = text.replace(TABLE, "").replace(
            FILL, f"      initial $readmemh({place}, factors);\n"
        )
        (folder / "barrier.sv").write_text(text)
        paths.append(str(folder / "barrier.sv"))
        for layer in groups(logn)[1:]:
            for inverse in (0, 1):
                for lane in range(1 << logt):
                    words = factors(logn, logt, layer, inverse, lane)
                    name = f"{logn:02}{logt}{layer:02}{inverse}{lane:02}"
                    (folder / name).write_text("\n".join(f"{w:016x}" for w in words))
    return paths


# Modules that are mapped in one design, and how many cells make one that is mapped alone.
TOGETHER, LARGE = 16, 2000


class Units:
    """The distinct modules of a design, and the cells of each of its own."""

    def __init__(self, top, parameters, digest, until=None):
        from pyosys import libyosys

        self.design, self.top, self.until = libyosys.Design(), top, until
        self.parameters, self.digest = parameters, digest
        self.kept = run.BUILD / "units.json"
        self.log = run.BUILD / "yosys.log"  # of the last command
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            sizes = parameters.get("LOGN"), parameters.get("LOGT")
            paths = run.sources() if None in sizes else with_tables(folder, *sizes)
            self.run(f"read_verilog -sv -defer -I{run.RTL / 'ntt'} {' '.join(paths)}")
            set_all = " ".join(f"-chparam {k} {v}" for k, v in parameters.items())
            self.run(f"hierarchy -check -top {top} {set_all}")
        self.run("proc")
        self.own = self.stat()
        # Every module as a black box, beside the cells of the family.
        self.run("design -save all")
        self.run("blackbox")
        self.run("setattr -mod -unset top *")
        self.run("read_verilog -lib -specify +/xilinx/cells_sim.v")
        self.run("read_verilog -lib +/xilinx/cells_xtra.v")
        self.run("design -save boxes")

    def run(self, command):
        self.design.run_pass(f"tee -q -o {self.log} {command}")

    def stat(self):
        """The cells of every module by type."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "stat.json"
            self.run(f"tee -q -o {path} stat -json")
            modules = json.loads(path.read_text())["modules"]
        return {
            name: {
                kind: int(many["count"] if isinstance(many, dict) else many)
                for kind, many in found["num_cells_by_type"].items()
            }
            for name, found in modules.items()
        }

    def key(self, module):
        own = self.parameters if module == "\\" + self.top else None
        text = f"{self.digest} {module} {own} {self.until}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def map(self, modules):
        """Maps some modules, the others being black boxes, and keeps their cells."""
        self.run("design -load boxes")
        for module in modules:
            self.run(f"delete {module}")
            self.run(f"design -copy-from all -as {module} {module}")
        # For a delay of 2048 rows Yosys 0.70 chooses a LUTRAM that its own map refuses.
        blocks = "-nolutram" if any(self.size(m) >= LARGE for m in modules) else ""
        part = f"prepare:{self.until or 'finalize'}"
        self.run(f"synth_xilinx -family xcup -noiopad {blocks} -run {part}")
        self.run("clean")
        found = self.stat()
        known = json.loads(self.kept.read_text()) if self.kept.exists() else {}
        known |= {self.key(m): found[m] for m in modules}
        self.kept.parent.mkdir(parents=True, exist_ok=True)
        self.kept.write_text(json.dumps(known))

    def count(self):
        """Cells by type of the whole design, every module counted as often as it stands."""
        known = json.loads(self.kept.read_text()) if self.kept.exists() else {}
        # The large ones alone: the time of a module grows with the whole design.
        missing = sorted((m for m in self.own if self.key(m) not in known), key=self.size)
        while missing:
            some = [m for m in missing[:TOGETHER] if self.size(m) < LARGE] or missing[:1]
            print(f"{len(missing)}", end=" ", file=sys.stderr, flush=True)
            self.map(some)
            missing = [m for m in missing if m not in some]
        known = json.loads(self.kept.read_text())
        total, todo = Counter(), [("\\" + self.top, 1)]
        while todo:
            module, times = todo.pop()
            for kind, many in known[self.key(module)].items():
                inner = kind if kind in self.own else "\\" + kind
                if inner in self.own:
                    todo.append((inner, times * many))
                else:
                    total[kind] += times * many
        return total

    def size(self, module):
        return sum(self.own[module].values())
