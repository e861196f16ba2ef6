#!/usr/bin/env python3
"""What the kernels for GPUs cannot be faster than, by the compiler's report and data sheets.

    python3 bench/cuda_model.py            # writes the marked block of docs/performance/cuda.md
    python3 bench/cuda_model.py --check    # only says whether the block is this

Nothing of it is measured. Instructions of a step are those of crates/becalm-cuda/report.json, the
parameters those of the installed becalm, and the formulas stand on the page beside the figures.
"""

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import becalm

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/performance/cuda.md"
BEGIN, END = "<!-- model -->\n", "<!-- /model -->"
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


H100 = Machine("H100 SXM", "sm_90a", 132, 1.98, 3.35e12, 50 << 20, 227 << 10, True, True)
RTX_4090 = Machine("RTX 4090", "sm_80", 128, 2.52, 1.008e12, 72 << 20, 99 << 10, False, False)
RTX_5090 = Machine("RTX 5090", "sm_120a", 170, 2.41, 1.792e12, 96 << 20, 99 << 10, True, False)


class Ring:
    """The sizes of `src/rings.rs` and the report's counts, for a set on a machine."""

    def __init__(self, name: str, machine: Machine, kernels: dict) -> None:
        """Of the set's parameters."""
        p = becalm.params(name)
        self.machine, self.n = machine, p.lwe_dimension
        self.group = int(name.split("multi_bit_")[1][0]) if "multi_bit" in name else 1
        self.ggsws = (1 << self.group) - 1 if self.group > 1 else 0
        self.k, self.size = p.glwe_dimension, p.polynomial_size
        (base, self.level), (_, self.ks_level) = p.pbs_gadget, p.ks_gadget
        self.columns, self.steps = self.k + 1, self.n // self.group
        self.word = p.ks_modulus_log2
        exact = not machine.doubles
        log2 = self.size.bit_length() - 1
        self.m = self.size if exact else self.size // 2
        self.point = 8 if exact else 16
        self.threads = self.m >> ((3 if log2 >= 9 else 2) + exact)
        ring = f"n{log2}_k{self.k}_w1_b{base}_l{self.level}_g{self.group}_{self.ggsws}"
        self.kernels = kernels[ring + ("_exact" if exact else ""), machine.code]

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
        """Bytes of the key switch's matrix: rows of whole 4 words."""
        return self.k * self.size * self.ks_level * ((self.n + 4) // 4 * 4) * self.word // 8

    @property
    def switch_clocks(self) -> float:
        """Clocks of a multiprocessor for a key switch: three products of 32 bits for 64."""
        products = self.k * self.size * self.ks_level * (self.n + 1)
        return products * (1 if self.word == 32 else 3) / 64

    @property
    def tile(self) -> int:
        """Ciphertexts that rotate at once, as `plan.rs` has it."""
        column = self.point * self.m * ((1 if self.threads > 32 else 2) * self.level + 2)
        bytes_of_one = self.columns * column
        pair = "becalm_rotate_pair" in self.kernels and 2 * bytes_of_one <= self.machine.shared
        of_block = bytes_of_one * (2 if pair else 1)
        return self.machine.sms * (self.machine.shared // (of_block + 1024)) * (2 if pair else 1)

    @property
    def chunk(self) -> int:
        """Steps of a launch in a large batch."""
        if not self.ggsws:
            return self.steps
        return min(max(int(self.machine.cache / 4 // (self.tile * self.ggsw)), 1), 16)

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


def latency(kernels: dict) -> list[str]:
    """One ciphertext on an H100."""
    lines = [
        "| one ciphertext, H100 | steps | key | its reading | steps' arithmetic | predicted "
        "| key switch, its reading | predicted with it | measured |",
        "|---|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for name in SETS:
        r = Ring(name, H100, kernels)
        read, chain, switch = r.key / H100.memory, r.chain(), r.switch_key / H100.memory
        floor = max(read, chain)
        low, high = (f * floor for f in SLOWER)
        with_low, with_high = (f * (floor + switch) for f in SLOWER)
        lines.append(
            f"| `{name}` | {r.steps} | {r.key / 1e6:.0f} MB | {micros(read)} µs "
            f"| {micros(chain)} µs | {micros(low, high)} µs "
            f"| {r.switch_key / 1e6:.1f} MB, {micros(switch)} µs "
            f"| {micros(with_low, with_high)} µs | not measured |"
        )
    return lines


def throughput(kernels: dict) -> list[str]:
    """Many ciphertexts on an H100, and on eight."""
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
            f"| {thousands(8 * min(both, cached))} | not measured |"
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
            predicted = micros(*(f * r.chain() for f in SLOWER))
            lines.append(
                f"| {machine.name} | `{name}` | {shown} | {micros(r.chain())} µs | {predicted} µs "
                f"| {rates[0]} | {rates[1]} | not measured |"
            )
    return lines


def block() -> str:
    """The tables of the page."""
    report = json.loads((ROOT / "crates/becalm-cuda/report.json").read_text(encoding="utf-8"))
    kernels: dict = {}
    for k in report["kernels"]:
        kernels.setdefault((k["ring"], k["architecture"]), {})[k["kernel"]] = k["step"]
    parts = [latency(kernels), throughput(kernels), desktops(kernels)]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def main() -> int:
    """Writes the block, or compares it."""
    text = PAGE.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    new = f"{text[:begin]}{block()}{text[end:]}"
    if "--check" in sys.argv[1:]:
        if new != text:
            print(f"{PAGE.name}: run `python bench/cuda_model.py`", file=sys.stderr)
        return int(new != text)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
