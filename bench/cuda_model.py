#!/usr/bin/env python3
"""The compiler's report on the kernels for GPUs, a model of their times, and measured times.

    python3 bench/cuda_model.py            # writes the marked blocks of docs/performance/cuda.md
    python3 bench/cuda_model.py --check    # only says whether the page has these, and sentences

It also keeps the figures of the roofline in bench/results/roofline.json, for the site's picture.

Registers and instructions of a step are those of crates/becalm-cuda/report.json, the parameters
those of the installed becalm, measured times those of bench/results/h100.json (`becalm bench
--device cuda --json`). The rest is from data sheets, and the formulas stand on the page.
"""

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import becalm

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cuda_runs import CHUNKS, measured, micro_table, spaced, times_table

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/performance/cuda.md"
ROOFLINE = ROOT / "bench/results/roofline.json"
FP64 = ("DFMA", "DADD", "DMUL", "DMMA")
SETS = (
    "tfhe_2_2_multi_bit_4",
    "tfhe_2_2_multi_bit_4_gaussian",
    "tfhe_1_1_multi_bit_4",
    "tfhe_1_1_multi_bit_4_gaussian",
    "tfhe_2_2",
    "tfhe_1_1",
)
#: Times of the floor that a kernel of this kind takes: see the page.
SLOWER = (2.0, 2.7)
#: Bytes a second of the second-level cache: the lower end of what is expected of it.
CACHE = 5e12
#: Seconds of a recorded launch: what the microbenchmark is expected to find.
LAUNCH = 1e-6
#: Steps of a launch at most: `Tuning::chunk`.
CHUNK = 16
#: Rings of the page's tables: what people call them, their names, and what else stands in a row.
RINGS = {
    "n11_k1_w1_b22_l1_g4_15": "N = 2048, multi-bit 4",
    "n11_k1_w1_b23_l1_g1_0": "N = 2048, classic",
    "n9_k4_w1_b23_l1_g1_0": "booleans: N = 512, k = 4, classic (`tfhe_1_1`)",
    "n9_k3_w1_b17_l1_g1_0": "gates: N = 512, k = 3, classic (`tfhe_boolean`)",
}
ROTATIONS = ("cluster", "block", "pair")
DOUBLES = ("sm_80", "sm_90a", "sm_100a")


@dataclass(frozen=True)
class Machine:
    """A GPU as its data sheet has it: multiprocessors, GHz, memory bytes a second, cache bytes."""

    name: str
    code: str
    sms: int
    ghz: float
    memory: float
    cache: float
    shared: int
    clusters: bool
    doubles: bool
    #: Multiply-adds of bytes in tensor cores, a clock and multiprocessor.
    bytes: int


H100 = Machine("H100 SXM", "sm_90a", 132, 1.98, 3.35e12, 50 << 20, 227 << 10, True, True, 4096)
RTX_4090 = Machine("RTX 4090", "sm_80", 128, 2.52, 1.008e12, 72 << 20, 99 << 10, False, False, 1024)
RTX_5090 = Machine(
    "RTX 5090", "sm_120a", 170, 2.41, 1.792e12, 96 << 20, 99 << 10, True, False, 1024
)


class Ring:
    """The sizes of `src/rings.rs` and the report's counts, for a set on a machine."""

    def __init__(self, name: str, machine: Machine, kernels: dict) -> None:
        """Takes the set's parameters."""
        p = becalm.params(name)
        self.machine, self.n = machine, p.lwe_dimension
        self.group = int(name.split("multi_bit_")[1][0]) if "multi_bit" in name else 1
        self.ggsws = (1 << self.group) - 1 if self.group > 1 else 0
        self.k, self.size = p.glwe_dimension, p.polynomial_size
        (base, self.level), (ks_base, ks_level) = p.pbs_gadget, p.ks_gadget
        # Whole steps of 32 rows, 8 columns; a digit of more than 7 bits has several rows.
        rows = self.k * self.size * ks_level * math.ceil(ks_base / 7)
        self.switch_words = math.ceil(rows / 32) * 32 * math.ceil((self.n + 1) / 8) * 8
        self.columns, self.steps = self.k + 1, self.n // self.group
        self.word = p.ks_modulus_log2
        exact = not machine.doubles
        log2 = self.size.bit_length() - 1
        self.m = self.size if exact else self.size // 2
        self.point = 8 if exact else 16
        self.threads = self.m >> ((3 if log2 >= 9 else 2) + exact)
        ring = f"n{log2}_k{self.k}_w1_b{base}_l{self.level}_g{self.group}_{self.ggsws}"
        found = kernels[ring + ("_exact" if exact else ""), machine.code]
        self.kernels = {name: kernel["step"] for name, kernel in found.items()}

    def count(self, kernel: str) -> tuple[int, int]:
        """Instructions of a step of a thread, and those of FP64 units or tensor cores."""
        step = self.kernels[kernel]
        return sum(step.values()), sum(v for k, v in step.items() if k in FP64)

    def clocks(self, kernel: str, warps: float) -> float:
        """Clocks of a multiprocessor for a step of so many warps."""
        every, fp64 = self.count(kernel)
        return warps * max(every / 4, fp64 / 2 if self.machine.doubles else 0)

    @property
    def ggsw(self) -> int:
        """Bytes of a GGSW or a bundle, transformed."""
        return self.level * self.columns**2 * self.m * self.point

    @property
    def key(self) -> int:
        """Bytes of the bootstrapping key."""
        return self.steps * max(self.ggsws, 1) * self.ggsw

    @property
    def switch_key(self) -> int:
        """Bytes of the key switch's matrix."""
        return self.switch_words * self.word // 8

    @property
    def switch_clocks(self) -> float:
        """Clocks of a multiprocessor for a key switch: a product for each byte of the key."""
        return self.switch_key / self.machine.bytes

    @property
    def tile(self) -> int:
        """Ciphertexts that rotate at once, as `tiling.rs` has it."""
        column = self.point * self.m * ((1 if self.threads > 32 else 2) * self.level + 2)
        bytes_of_one = self.columns * column
        pair = "becalm_rotate_pair" in self.kernels and 2 * bytes_of_one <= self.machine.shared
        of_block = bytes_of_one * (2 if pair else 1)
        return self.machine.sms * (self.machine.shared // (of_block + 1024)) * (2 if pair else 1)

    @property
    def chunk(self) -> int:
        """Steps of a launch in a large batch."""
        return self.chunk_of(self.tile)

    def chunk_of(self, tile: int) -> int:
        """Steps of a launch for so many ciphertexts at once."""
        if not self.ggsws:
            return self.steps
        return min(max(int(self.machine.cache / 4 // (tile * self.ggsw)), 1), CHUNK)

    @property
    def launches(self) -> int:
        """Launches of one ciphertext that wait for each other.

        Exponents, tables, extraction, every chunk's rotation, and the first chunk's bundles.
        """
        return 3 + math.ceil(self.steps / self.chunk_of(1)) + (1 if self.ggsws else 0)

    def chain(self) -> float:
        """Seconds of one rotation by the instructions of its steps alone."""
        alone = self.machine.clusters
        kernel = "becalm_rotate_cluster" if alone else "becalm_rotate_block"
        warps = self.threads // 32 * (1 if alone else self.columns)
        # A quarter of a multiprocessor has whole warps, and one warp has no more than a quarter.
        whole = 4 * math.ceil(warps / 4)
        return self.steps * self.clocks(kernel, whole) / self.machine.ghz / 1e9

    def together(self) -> tuple[float, float]:
        """Clocks for a step of one of many: rotation, and bundle on vector units."""
        pair = "becalm_rotate_pair"
        kernel = pair if pair in self.kernels else "becalm_rotate_block"
        rotation = self.clocks(kernel, self.threads / 32 * self.columns)
        if not self.ggsws:
            return rotation, 0.0
        products = self.ggsws * self.level * self.columns**2 * self.m
        if self.machine.doubles:
            # Complex ones, four multiply-adds each.
            return rotation, products * 4 / 64
        # A lane has all columns of a row at a point, for eight ciphertexts.
        return rotation, self.clocks("becalm_bundle_many", products / self.columns / 32 / 8)

    def tensor(self) -> float:
        """The same for bundles by tensor cores: 8 ciphertexts, 4 leaves, 4 polynomials a count."""
        every, _ = self.count("becalm_bundle_tensor")
        products = self.kernels["becalm_bundle_tensor"]["DMMA"]
        tiles = math.ceil(self.level * self.columns**2 / 4)
        return self.m / 4 * tiles / 8 * max(every / 4, products * 256 / 128)

    def operations(self) -> float:
        """FP64 operations of a bootstrap in a large batch; a multiply-add is one."""
        pair = "becalm_rotate_pair"
        _, fp64 = self.count(pair if pair in self.kernels else "becalm_rotate_block")
        products = 4 * self.ggsws * self.level * self.columns**2 * self.m
        return self.steps * (fp64 * self.threads * self.columns + products)

    def rate(self, clocks_of_a_step: float, switch: bool) -> float:
        """Bootstraps a second of the whole GPU."""
        clocks = self.steps * clocks_of_a_step + (self.switch_clocks if switch else 0)
        return self.machine.sms * self.machine.ghz * 1e9 / clocks

    def traffic(self) -> float:
        """Bytes of a bootstrap through the second-level cache, in a large batch."""
        accumulators = 2 * self.columns * self.size * 8 * math.ceil(self.steps / self.chunk)
        if not self.ggsws:
            # A block reads the key for its two.
            return self.key / 2 + accumulators
        readers = math.ceil(self.tile / (64 if self.machine.doubles else 8))
        return 2 * self.steps * self.ggsw + accumulators + self.key * readers / self.tile


def micros(low: float, high: float | None = None) -> str:
    """Seconds as microseconds for people, in figures that they deserve."""
    ends = [1e6 * x for x in (low, high or low)]
    show = [f"{x if x < 1000 else round(x, -1):.0f}" for x in ends]
    return "–".join(dict.fromkeys(show))


def thousands(rate: float) -> str:
    """A rate for people."""
    return f"{rate / 1e3:,.0f} 000".replace(",", " ")


def predicted(floor: float, launches: int) -> str:
    """A floor as a prediction, with the launches that wait for each other."""
    return micros(*(f * floor + launches * LAUNCH for f in SLOWER))


def latency(kernels: dict) -> list[str]:
    """One ciphertext on an H100, bundles in chunks."""
    times = measured(CHUNKS)
    lines = [
        "| one ciphertext, H100 | steps | key | its reading | steps' arithmetic | launches "
        "| predicted | key switch, its reading | predicted with it | measured |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for name in SETS:
        r = Ring(name, H100, kernels)
        read, chain, switch = r.key / H100.memory, r.chain(), r.switch_key / H100.memory
        floor = max(read, chain)
        lines.append(
            f"| `{name}` | {r.steps} | {r.key / 1e6:.0f} MB | {micros(read)} µs "
            f"| {micros(chain)} µs | {r.launches} | {predicted(floor, r.launches)} µs "
            f"| {r.switch_key / 1e6:.1f} MB, {micros(switch)} µs "
            f"| {predicted(floor + switch, r.launches + 2)} µs "
            f"| {spaced(times[name]['pbs', 1]['median_us'])} µs, "
            f"with key switch {spaced(times[name]['ks_pbs', 1]['median_us'])} |"
        )
    return lines


def throughput(kernels: dict) -> list[str]:
    """Many ciphertexts on an H100, and on eight, bundles in chunks."""
    times = measured(CHUNKS)
    lines = [
        "| many ciphertexts, H100 | clocks of a step: rotation, bundle, by tensor cores "
        "| at most a second | with key switch | by the cache "
        "| at most, 8 GPUs with key switch | measured |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for name in SETS:
        r = Ring(name, H100, kernels)
        rotation, bundle = r.together()
        least = min(bundle, r.tensor()) if bundle else 0.0
        pbs, both = r.rate(rotation + least, False), r.rate(rotation + least, True)
        cached = CACHE / r.traffic()
        shown = f"{rotation:.0f}" + (f", {bundle:.0f}, {r.tensor():.0f}" if bundle else ", –, –")
        lines.append(
            f"| `{name}` | {shown} | {thousands(pbs)} | {thousands(both)} "
            f"| {r.traffic() / 1e6:.1f} MB: {thousands(cached)} "
            f"| {thousands(8 * min(both, cached))} "
            f"| {thousands(times[name]['pbs', 8192]['per_second'])}, "
            f"with key switch {thousands(times[name]['ks_pbs', 8192]['per_second'])} |"
        )
    return lines


#: Clocks of a step of one ciphertext whose leaves a cluster of 16 blocks splits: two exchanges over
#: the cluster, as measured alone; arithmetic and exchanges inside, by the ceilings, from and to.
EXCHANGES, INSIDE = 2 * 408, (1150, 1400)
#: Seconds around the rotation: launches, exponents, the first bundle, extraction.
AROUND = 30e-6
#: Accesses of 128 bytes to shared memory in a step of a batch of 64: on each multiprocessor that
#: rotates one ciphertext, on each that makes bundles; and the part of the bandwidth they get.
BATCH, ACCESSES, OF_BANDWIDTH = 64, (3_800, 2_500), (0.7, 1.0)


def ahead(kernels: dict) -> list[str]:
    """Bundles made ahead on an H100: predicted and measured."""
    times = measured()
    lines = [
        "| bundles made ahead, H100 | clocks of a step, one | predicted | measured "
        "| accesses of a step of 64: rotation, bundles | predicted, a second | measured |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name in SETS:
        if "multi_bit" not in name:
            continue
        steps, hertz = Ring(name, H100, kernels).steps, H100.ghz * 1e9
        clocks = [EXCHANGES + inside for inside in INSIDE]
        one = micros(*(steps * c / hertz + AROUND for c in clocks))
        many = [BATCH * part * hertz / (steps * max(ACCESSES)) for part in OF_BANDWIDTH]
        lines.append(
            f"| `{name}` | {clocks[0]}–{clocks[1]} | {one} µs "
            f"| {spaced(times[name]['pbs', 1]['median_us'])} µs "
            f"| {spaced(ACCESSES[0])}, {spaced(ACCESSES[1])} "
            f"| {thousands(many[0])}–{thousands(many[1])} "
            f"| {thousands(times[name]['pbs', 256]['per_second'])} |"
        )
    return lines


def desktops(kernels: dict) -> list[str]:
    """The exact arithmetic on GPUs with slow doubles."""
    lines = [
        "| exact arithmetic | set | clocks of a step: rotation, bundle "
        "| one ciphertext, steps' arithmetic | predicted "
        "| many, at most a second | with key switch | measured |",
        "|---|---|--:|--:|--:|--:|--:|---|",
    ]
    for machine in (RTX_4090, RTX_5090):
        for name in ("tfhe_2_2_multi_bit_4", "tfhe_1_1_multi_bit_4", "tfhe_2_2", "tfhe_1_1"):
            r = Ring(name, machine, kernels)
            rotation, bundle = r.together()
            shown = f"{rotation:.0f}" + (f", {bundle:.0f}" if bundle else ", –")
            rates = [thousands(r.rate(rotation + bundle, switch)) for switch in (False, True)]
            lines.append(
                f"| {machine.name} | `{name}` | {shown} | {micros(r.chain())} µs "
                f"| {predicted(r.chain(), r.launches)} µs | {rates[0]} "
                f"| {rates[1]} | not measured |"
            )
    return lines


#: Their own figures for booleans and for 4 bits, with the number and the kind of GPUs.
THEIRS = (
    ("one ciphertext, one H100: article", "796 µs", "945 µs"),
    ("one ciphertext, one H100: poster", "811 µs", "962 µs"),
    ("many a second, one H100: poster", "28 620", "24 170"),
    ("many a second, 8 H100: article", "223 440", "189 000"),
    ("many a second, 8 H100: poster", "224 450", "190 000"),
    ("many a second, one RTX 4090: poster, VeloFHE", "11 378", "3 249"),
    ("many a second, one RTX 4090: poster, their kernel", "10 059", "3 972"),
)


def theirs(kernels: dict) -> list[str]:
    """Their figures of their kernels, beside the model and the measured times of ours."""
    times = measured()
    sets = ("tfhe_1_1_multi_bit_4_gaussian", "tfhe_2_2_multi_bit_4_gaussian")
    lines = [
        "| theirs, from the document | booleans | 4 bits "
        f"| ours, modelled: `{sets[0]}` | `{sets[1]}` | ours, measured |",
        "|---|--:|--:|--:|--:|---|",
    ]

    def modelled(title: str, name: str) -> str:
        if "RTX" in title:
            r = Ring(name, RTX_4090, kernels)
            return f"{thousands(r.rate(sum(r.together()), False))} at most"
        r = Ring(name, H100, kernels)
        if "one ciphertext" in title:
            return f"{predicted(max(r.key / H100.memory, r.chain()), r.launches)} µs"
        rotation, bundle = r.together()
        arithmetic = r.rate(rotation + min(bundle, r.tensor()), False)
        least = min(arithmetic, CACHE / r.traffic())
        return f"{thousands(least * (8 if '8 H100' in title else 1))} at most"

    def ours_measured(title: str) -> str:
        if "one H100" not in title:
            return "not measured"
        if "one ciphertext" in title:
            return ", ".join(f"{times[s]['pbs', 1]['median_us']:.0f} µs" for s in sets)
        return ", ".join(thousands(times[s]["pbs", 8192]["per_second"]) for s in sets)

    for title, booleans, four in THEIRS:
        ours = " | ".join(modelled(title, name) for name in sets)
        lines.append(f"| {title} | {booleans} | {four} | {ours} | {ours_measured(title)} |")
    return lines


def roofline(kernels: dict) -> str:
    """The text of the file: operations and bytes of a bootstrap, and what the run measured."""
    found = json.loads((ROOT / "bench/results/h100.json").read_text(encoding="utf-8"))
    micro = {row["what"]: row["value"] for row in found["micro"]}
    clocks, times = H100.sms * H100.ghz * 1e9, measured()
    roofs = {
        "cache_bytes_per_second": 1e9 * micro["reading 12800 KB again and again"],
        "operations_per_second": clocks * micro["multiply-adds"],
        "data_sheet_operations_per_second": clocks * 64,
    }
    sets = [
        {
            "params": name,
            "operations": round(ring.operations()),
            "cache_bytes": round(ring.traffic()),
            "batch": 8192,
            "per_second": times[name]["pbs", 8192]["per_second"],
        }
        for name, ring in ((name, Ring(name, H100, kernels)) for name in SETS)
    ]
    kept = {"device": found["device"], "version": found["version"], "roofs": roofs, "sets": sets}
    return json.dumps(kept, indent=1) + "\n"


def kernel_of(kernels: dict, ring: str, code: str, name: str) -> dict | None:
    """The report's row of a kernel."""
    return kernels.get((ring, code), {}).get(f"becalm_{name}")


def step(kernel: dict, *names: str) -> int:
    """Instructions of these names in a step, or all."""
    return sum(v for k, v in kernel["step"].items() if not names or k in names)


def compiled(kernels: dict) -> list[str]:
    """The compiler's report on the rotations."""
    lines = [
        "| ring | kernel | " + " | ".join(DOUBLES) + " | FP64 | sm_120a, exact |",
        "|---|---|---|---|---|---|---|",
    ]

    def cell(kernel: dict | None) -> str:
        if kernel is None:
            return "–"
        spilled = f", {kernel['spills']} B spilled" if kernel["spills"] else ""
        return f"{kernel['registers']} / {step(kernel)}{spilled}"

    for ring, title in RINGS.items():
        shown = title
        for rotation in ROTATIONS:
            found = [kernel_of(kernels, ring, code, f"rotate_{rotation}") for code in DOUBLES]
            exact = kernel_of(kernels, f"{ring}_exact", "sm_120a", f"rotate_{rotation}")
            fp64 = {str(step(kernel, *FP64)) for kernel in found if kernel}
            cells = [*map(cell, found), ", ".join(sorted(fp64)) or "–", cell(exact)]
            lines.append(f"| {shown} | {rotation} | " + " | ".join(cells) + " |")
            shown = ""
    return lines


def beside(kernels: dict) -> list[str]:
    """The other costs of a step on an H100."""
    lines = [
        "| ring | kernel | shared memory: reads, writes | another block's: reads "
        "| global memory: reads | barriers of the block | registers to memory and back |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for ring, title in RINGS.items():
        shown = title
        for rotation in ROTATIONS:
            kernel = kernel_of(kernels, ring, "sm_90a", f"rotate_{rotation}")
            if kernel is None:
                continue
            counts = [
                f"{step(kernel, 'LDS')}, {step(kernel, 'STS')}",
                step(kernel, "LD"),
                step(kernel, "LDG"),
                step(kernel, "BAR"),
                step(kernel, "LDL", "STL"),
            ]
            lines.append(f"| {shown} | {rotation} | " + " | ".join(map(str, counts)) + " |")
            shown = ""
    return lines


def blocks(kernels: dict) -> dict[str, str]:
    """The marked blocks of the page, by their names."""
    parts = {
        "compiler": [compiled(kernels)],
        "beside": [beside(kernels)],
        "model": [latency(kernels), throughput(kernels), desktops(kernels)],
        "ahead": [ahead(kernels)],
        "theirs": [theirs(kernels)],
        "times": [times_table(), micro_table()],
    }
    tables = {name: ["\n".join(part) for part in all_] for name, all_ in parts.items()}
    return {name: "\n\n".join(found) + "\n" for name, found in tables.items()}


def sentences(kernels: dict) -> list[str]:
    """The page's sentences about the report's figures."""
    second, first, third = list(RINGS)[:3]
    exact = {
        name: kernel_of(kernels, f"{second}_exact", "sm_120a", name)
        for name in ("rotate_cluster", "rotate_block", "bundle_many")
    }
    cluster, block = exact["rotate_cluster"], exact["rotate_block"]
    tensor = kernel_of(kernels, second, "sm_90a", "bundle_tensor")
    here = kernel_of(kernels, second, "sm_90a", "rotate_cluster")
    old = [
        step(kernel_of(kernels, f"{ring}_exact", "sm_80", "rotate_block"))
        for ring in (first, second, third)
    ]
    desktop = Ring("tfhe_2_2_multi_bit_4", RTX_5090, kernels)
    rotation, bundle = desktop.together()
    one = Ring("tfhe_2_2_multi_bit_4", H100, kernels)
    turn, _ = one.together()
    whole = (1 << one.group) * one.ggsw * one.steps
    products = one.m * (1 << one.group) * one.level * one.columns**2 * 4 / 128
    every, fp64 = step(here), step(here, *FP64)
    clocks = max(every, 2 * fp64)
    grouped, classic = beyond(kernels)
    return [
        f"the cluster has {step(cluster)} instructions a thread and step and "
        f"{cluster['registers']} registers, the block {step(block)} and {block['registers']}; "
        f"bundles take {step(exact['bundle_many'])} for each GGSW",
        f"`bundle_tensor` of the second ring: {tensor['registers']} registers and {step(tensor)} "
        f"instructions for four leaves and eight ciphertexts on sm_90a, of which "
        f"{step(tensor, 'DMMA')} are products",
        f"({tensor['registers']} registers, {'no' if not tensor['spills'] else 'some'} spills",
        f"{step(tensor)}: {step(tensor) / 4:.0f} clocks |",
        f"they take {spaced(round(min(old), -2))} to {spaced(round(max(old), -2))} "
        "instructions a step",
        f"{every} instructions are {every} clocks of issue, {fp64} FP64 operations of 4 warps "
        f"{2 * fp64} clocks, which is {clocks / H100.ghz / 1e3:.2f} µs a step",
        f"takes {spaced(round(rotation, -2))} clocks to rotate and "
        f"{spaced(round(bundle, -2))} for its bundle, so {desktop.steps} steps "
        f"{desktop.steps * (rotation + bundle) / 1e6:.1f} million clocks",
        f"{one.steps} × {1 << one.group} × {one.ggsw >> 10} KiB = {whole / 1e6:.0f} MB at 3.0 TB/s",
        f"are {one.ggsws}: {one.key / 1e6:.0f} MB, {micros(one.key / 3e12)} µs at 3.0 TB/s and "
        f"{micros(one.key / H100.memory)} µs at the data sheet's",
        f"products ({products:.0f})",
        f"{turn:.0f} and {one.tensor():.0f} clocks: "
        f"{thousands(one.rate(turn + one.tensor(), False))} a second",
        f"{one.chunk_of(1)} steps, {math.ceil(one.steps / one.chunk_of(1))} chunks, "
        f"{3 + 2 * math.ceil(one.steps / one.chunk_of(1))} launches",
        f"{grouped} times the upper end of its prediction on multi-bit sets, {classic} times on "
        "classic ones",
    ]


def beyond(kernels: dict) -> tuple[str, str]:
    """Measured times of one ciphertext over the upper end of predictions: multi-bit, classic."""

    def ratios(multi: bool) -> str:
        found = []
        for name in SETS:
            r = Ring(name, H100, kernels)
            upper = SLOWER[1] * max(r.key / H100.memory, r.chain()) + r.launches * LAUNCH
            if ("multi_bit" in name) == multi:
                found.append(measured(CHUNKS)[name]["pbs", 1]["median_us"] / (upper * 1e6))
        return " to ".join(dict.fromkeys(f"{x:.1f}" for x in (min(found), max(found))))

    return ratios(True), ratios(False)


def page(text: str, kernels: dict) -> str:
    """The page with its blocks as they should be."""
    for name, block in blocks(kernels).items():
        mark, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        begin = text.index(mark) + len(mark)
        text = f"{text[:begin]}{block}{text[text.index(end) :]}"
    return text


def report() -> dict:
    """The kernels of the report by ring and architecture, then by name."""
    found = json.loads((ROOT / "crates/becalm-cuda/report.json").read_text(encoding="utf-8"))
    kernels: dict = {}
    for k in found["kernels"]:
        kernels.setdefault((k["ring"], k["architecture"]), {})[k["kernel"]] = k
    return kernels


def main() -> int:
    """Writes the blocks, or compares them; says which sentences are not so."""
    text, kernels = PAGE.read_text(encoding="utf-8"), report()
    new = page(text, kernels)
    words = " ".join(text.split())
    missing = [s for s in sentences(kernels) if s not in words]
    for sentence in missing:
        print(f"{PAGE.name} does not say: {sentence}", file=sys.stderr)
    if "--check" in sys.argv[1:]:
        if new != text:
            print(f"{PAGE.name}: run `python bench/cuda_model.py`", file=sys.stderr)
        same = ROOFLINE.read_text(encoding="utf-8") == roofline(kernels)
        if not same:
            print(f"{ROOFLINE.name}: run `python bench/cuda_model.py`", file=sys.stderr)
        return int(new != text or not same or bool(missing))
    PAGE.write_text(new, encoding="utf-8")
    ROOFLINE.write_text(roofline(kernels), encoding="utf-8")
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
