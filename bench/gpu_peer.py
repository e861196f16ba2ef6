#!/usr/bin/env python3
"""The peer on a GPU: tfhe-rs's CUDA sources and its CPU code, as one program to run beside ours.

    make cuda                                   # nvcc, into .venv
    python3 bench/gpu_peer.py target/gpu-peer   # fetches, compiles, links; again: what is missing
    target/gpu-peer/peer 8192                   # on the GPU: JSON by set, case and batch

Of crate tfhe-cuda-backend the sources of the bootstraps and of the key switch are compiled, with
the options of its own CMakeLists for one architecture and without cmake; keys, encryption and
decryption are those of crate tfhe without its feature gpu. All else of either is integers and more.
The program needs the driver, glibc and libgcc_s, which Rust's unwinding takes: CUDA's run time and
C++'s library are linked in.
"""

import argparse
import concurrent.futures
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
BACKEND, COMMON = "tfhe-cuda-backend-0.16.0", "tfhe-cuda-common-0.1.1"
HEADERS = "nvidia-cuda-cccl==13.0.85"
SOURCES = [
    "pbs/programmable_bootstrap.cu",
    "pbs/programmable_bootstrap_classic.cu",
    "pbs/programmable_bootstrap_multibit.cu",
    "pbs/bootstrapping_key.cu",
    "crypto/keyswitch.cu",
    "fft/twiddles.cu",
    "fft/fft16x4x16_twiddles.cu",
    "fft128/twiddles.cu",
]
COMMON_SOURCES = ["src/device.cu", "src/helper_profile.cu"]


def toolkit() -> pathlib.Path:
    """The folder of the pip wheels' toolkit that `make cuda` installs."""
    found = os.environ.get("CUDA_HOME")
    places = [pathlib.Path(found)] if found else []
    places += HERE.parent.glob(".venv/lib/python3*/site-packages/nvidia/cu13")
    for place in places:
        if (place / "bin/nvcc").exists():
            return place
    sys.exit("no nvcc: run `make cuda` first, or set CUDA_HOME")


def registry(name: str) -> pathlib.Path:
    """The unpacked sources of a crate."""
    home = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
    found = sorted(home.glob(f"registry/src/*/{name}"))
    if not found:
        sys.exit(f"no {name} in cargo's registry: run this again with --fetch")
    return found[0]


def compiler(nvcc: str) -> str:
    """The compilers: nvcc's version, and that of the C++ compiler behind it."""
    asked = [[nvcc, "--version"], [os.environ.get("CXX", "c++"), "--version"]]
    answers = [subprocess.run(a, check=True, capture_output=True, text=True) for a in asked]
    return "".join(answer.stdout for answer in answers)


def key(parts: list[str], files: list[pathlib.Path]) -> str:
    """A name for the product of these words and of these files, whose paths do not matter."""
    digest = hashlib.sha256()
    for part in [*parts, *(file.name for file in files)]:
        digest.update(part.encode() + b"\0")
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def headers(folder: pathlib.Path) -> pathlib.Path:
    """CUDA's C++ headers, which our kernels do without, of the toolkit's version."""
    out = folder / HEADERS
    if not out.exists():
        half = out.with_suffix(".part")
        shutil.rmtree(half, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--target", str(half), HEADERS], check=True)
        half.rename(out)
    found = sorted(out.glob("nvidia/*/include/cccl")) + sorted(out.glob("nvidia/*/include"))
    for place in found:
        if (place / "nv/target").exists():
            return place
    sys.exit(f"no headers in {out}: remove it and run this again")


def objects(cuda: pathlib.Path, folder: pathlib.Path, capability: str, jobs: int) -> list[str]:
    """Compiles the objects that are missing for these sources, headers, options and compilers."""
    backend, common = registry(BACKEND) / "cuda", registry(COMMON) / "cuda"
    options = [
        str(cuda / "bin/nvcc"),
        f"-gencode=arch=compute_{capability},code=sm_{capability}",
        f"-DCUDA_ARCH={capability.rstrip('a')}0",
        "-O3",
        "-std=c++17",
        "--no-exceptions",
        "--expt-relaxed-constexpr",
        "-rdc=true",
        "--use_fast_math",
        "-Xcompiler=-fPIC",
        # Every function on its own, so that the linker can leave out functions that are not called.
        "-Xcompiler=-ffunction-sections",
        "--diag-suppress=177",
        f"-I{backend / 'include'}",
        f"-I{backend / 'src'}",
        f"-I{common / 'include'}",
        f"-I{headers(folder)}",
    ]

    # Any header may be in any of them. Paths are not part of it: folders may move.
    near = [file for root in (backend, common) for file in sorted(root.rglob("*.[ch]*"))]
    told = [option for option in options[1:] if not option.startswith("-I")]
    common_key = key([compiler(options[0]), HEADERS, *told], near)

    def build(source: pathlib.Path) -> str:
        digest = key([common_key], [source])
        out = folder / f"{source.parent.name}_{source.stem}.{capability}.{digest}.o"
        if not out.exists():
            began = time.monotonic()
            half = out.with_suffix(".part.o")
            subprocess.run([*options, "-c", str(source), "-o", str(half)], check=True)
            half.rename(out)
            print(f"{source.name}: {time.monotonic() - began:.0f} s", flush=True)
        return str(out)

    sources = [backend / "src" / name for name in SOURCES]
    sources += [common / name for name in COMMON_SOURCES]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        made = list(pool.map(build, sources))
    # Kernels of one file call those of another: the device code has its own linker.
    linked = folder / f"device.{capability}.o"
    subprocess.run(
        [*options[:2], "-Xcompiler=-fPIC", "-dlink", *made, "-o", str(linked)], check=True
    )
    return [*made, str(linked)]


def libraries(cuda: pathlib.Path, folder: pathlib.Path, made: list[str]) -> pathlib.Path:
    """A folder of archives alone: the linker finds no shared library in it."""
    out = folder / "lib"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    subprocess.run(["ar", "rcs", str(out / "libpeer_kernels.a"), *made], check=True)
    asked = ["c++", "-print-file-name=libstdc++.a"]
    answer = subprocess.run(asked, check=True, capture_output=True, text=True)
    (out / "libstdc++.a").symlink_to(answer.stdout.strip())
    (out / "libcudart_static.a").symlink_to(cuda / "lib/libcudart_static.a")
    return out


def main() -> None:
    """Compiles, links, and prints the requirements of the program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default="target/gpu-peer", type=pathlib.Path)
    parser.add_argument("--capability", default="90", help="of the GPU: 80, 90 (or 90a), 100, 120")
    parser.add_argument("--jobs", default=os.cpu_count() or 1, type=int)
    parser.add_argument("--fetch", action="store_true", help="only fetch the crates")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("Cargo.toml", "Cargo.lock", "main.rs", "build.rs"):
        shutil.copy2(HERE / "gpu_peer" / name, folder / name)
    subprocess.run(["cargo", "fetch", "--locked"], cwd=folder, check=True)
    if arguments.fetch:
        return
    cuda = toolkit()
    made = objects(cuda, folder, arguments.capability, arguments.jobs)
    variables = {
        **os.environ,
        "PEER_LIBRARIES": str(libraries(cuda, folder, made)),
        "CARGO_TARGET_DIR": str(folder / "target"),
    }
    subprocess.run(
        ["cargo", "build", "--release", "--locked"], cwd=folder, env=variables, check=True
    )
    shutil.copy2(folder / "target/release/peer", folder / "peer")
    print(folder / "peer")
    subprocess.run(["ldd", str(folder / "peer")], check=False)


if __name__ == "__main__":
    main()
