#!/usr/bin/env python3
"""The requirements of a wheel of becalm, and whether it has the kernels for GPUs.

    make cuda && make wheel
    python3 bench/wheel.py dist/becalm-*.whl

Fails if the wheel is not one for every Python from 3.10 on, wants glibc later than 2.36 or another
library than glibc's and gcc's, has not the code of every ring that target/cuda has, or does not
bootstrap by it. It is unpacked into a folder that goes afterwards, and asked there, without being
installed. For the last it gets an emulated driver, which knows the code by target/cuda and computes
with the same kernels on the CPU; `cargo test --release -p becalm --no-run` builds that.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
GLIBC = (2, 36)
PYTHON = (3, 10)
LIBRARIES = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libdl.so.2", "libpthread.so.0"}
LIBRARIES |= {"librt.so.1", "ld-linux-x86-64.so.2"}


#: Compiled ahead for every GPU, and small enough for an emulator.
SET = "tfhe_boolean"
#: The name by which programs look for a driver, given to the emulated one.
DRIVER = "libcuda.so"


class NotAsPromised(Exception):
    """The wheel differs from its documentation."""


def require(holds: bool, otherwise: str) -> None:
    """Fails with a message; also where Python leaves assertions out."""
    if not holds:
        raise NotAsPromised(otherwise)


def dotted(version: tuple[int, int]) -> str:
    """A version as people write it."""
    return ".".join(map(str, version))


def tags(wheel: pathlib.Path) -> None:
    """The file's name: abi3, and an old enough Python and glibc."""
    parts = wheel.stem.rsplit("-", 4)
    require(wheel.suffix == ".whl" and len(parts) == 5, f"{wheel.name} is not the name of a wheel")
    python, abi, platform = parts[2:]
    require(abi == "abi3", f"the wheel is for one Python: {abi}")
    named = re.fullmatch(r"cp(\d)(\d+)", python)
    require(named is not None, f"the wheel is for {python}, which is not CPython")
    version = (int(named[1]), int(named[2]))
    require(version <= PYTHON, f"the wheel is for Python {dotted(version)} and later")
    # Of several names the least demanding one counts.
    found = [(int(a), int(b)) for a, b in re.findall(r"manylinux_(\d+)_(\d+)", platform)]
    require(bool(found), f"the wheel is for {platform}, and says nothing of glibc")
    glibc = min(found)
    require(glibc <= GLIBC, f"the wheel is for glibc {dotted(glibc)} and later")
    size = wheel.stat().st_size / 1e6
    print(f"{wheel.name}: {size:.1f} MB, Python {dotted(version)}, glibc {dotted(glibc)}")


def symbols(library: pathlib.Path) -> None:
    """The same from the symbols that the library needs, not from its name."""
    asked = subprocess.run(
        ["readelf", "--dynamic", "--version-info", str(library)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", asked))
    foreign = ", ".join(sorted(needed - LIBRARIES))
    require(not foreign, f"{library.name} needs {foreign}, which not every machine has")
    versions = {(int(a), int(b)) for a, b in re.findall(r"GLIBC_(\d+)\.(\d+)", asked)}
    newest = max(versions, default=(0, 0))
    require(newest <= GLIBC, f"{library.name} has symbols of glibc {dotted(newest)}")
    print(f"{library.name}: glibc {dotted(newest)}, needs {', '.join(sorted(needed))}")


def kernels(folder: pathlib.Path) -> None:
    """Every file of target/cuda is in it, and was made of the same sources."""
    code = "import becalm; print(*(f'{n} {s}' for n, s in becalm._native.gpu_images()), sep='\\n')"
    asked = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=folder
    ).stdout
    found = {line.split()[0]: int(line.split()[1]) for line in asked.splitlines() if line}
    files = (HERE.parent / "target/cuda").glob("*.*")
    made = {file.name: file.stat().st_size for file in files if file.suffix != ".sources"}
    require(bool(made), "no target/cuda: run `make cuda`")
    others = [name for name, _ in sorted(found.items() ^ made.items())]
    require(not others, f"the wheel's kernels are not those of target/cuda: {others[:5]}")
    print(f"{len(found)} images, {sum(found.values()) / 1e6:.2f} MB, those of target/cuda")


def bootstraps(folder: pathlib.Path, emulator: pathlib.Path) -> None:
    """The command of a machine with a GPU, without NVRTC: embedded code, loaded and launched."""
    driver, out = folder / "driver", folder / "out.json"
    driver.mkdir()
    (driver / DRIVER).symlink_to(emulator.resolve())
    variables = {name: value for name, value in os.environ.items() if name != "BECALM_NVRTC"}
    variables["LD_LIBRARY_PATH"] = str(driver)
    variables["BECALM_CACHE"] = str(folder / "cache")
    variables["BECALM_EMULATOR_IMAGES"] = str(HERE.parent / "target/cuda")
    asked = [sys.executable, "-m", "becalm.bench", "--device", "cuda", "--params", SET]
    # The time is up before anything is timed: an emulator's times say nothing.
    asked += ["--bootstraps", "4", "--batch", "1", "--quick", "--minutes", "0.001"]
    subprocess.run(
        [*asked, "--json", str(out)],
        check=True,
        capture_output=True,
        text=True,
        cwd=folder,
        env=variables,
    )
    found = json.loads(out.read_text(encoding="utf-8"))
    (of_set,) = found["sets"]
    right = of_set["bootstraps"] == 4 and of_set["wrong"] == 0 and of_set["failed"] is None
    require(right and found["device"] == "emulator", f"{SET} on the emulator: {of_set}")
    require(not (folder / "cache").exists(), "code was compiled that should have been embedded")
    print(f"{SET}: 4 bootstraps by the embedded code on an emulated driver, all right")


def main() -> None:
    """Checks one wheel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=pathlib.Path)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target"))
    emulator = target / "release/deps/libbecalm_emulator.so"
    parser.add_argument("--emulator", type=pathlib.Path, default=emulator, help="its library")
    arguments = parser.parse_args()
    wheel = arguments.wheel
    try:
        check(wheel, arguments.emulator)
    except NotAsPromised as e:
        sys.exit(f"{wheel}: {e}")
    except (OSError, zipfile.BadZipFile, subprocess.CalledProcessError) as e:
        said = (getattr(e, "stderr", None) or "").strip()
        sys.exit(f"{wheel}: cannot be checked: {e}\n{said}".strip())


def check(wheel: pathlib.Path, emulator: pathlib.Path) -> None:
    """Everything, in turn."""
    tags(wheel)
    with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(wheel) as packed:
        packed.extractall(name)
        folder = pathlib.Path(name)
        libraries = sorted(folder.rglob("*.so"))
        require(bool(libraries), "the wheel has no library")
        for library in libraries:
            symbols(library)
        kernels(folder)
        no = f"no {emulator}: `cargo test --release -p becalm --no-run` builds it"
        require(emulator.exists(), no)
        bootstraps(folder, emulator)


if __name__ == "__main__":
    main()
