#!/usr/bin/env python3
"""What a wheel of becalm asks of a machine, and whether it has the kernels for GPUs.

    make cuda && make wheel
    python3 bench/wheel.py dist/becalm-*.whl

Fails if the wheel is not one for every Python from 3.10 on, wants glibc later than 2.36 or another
library than glibc's and gcc's, or has not the code of every ring that target/cuda has. It is
unpacked beside itself and asked, without being installed.
"""

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


def tags(wheel: pathlib.Path) -> None:
    """The file's name: abi3, and an old enough Python and glibc."""
    _, _, python, abi, platform = wheel.stem.rsplit("-", 4)
    assert abi == "abi3", f"the wheel is for one Python: {abi}"
    version = (int(python[2]), int(python[3:]))
    assert version <= PYTHON, f"the wheel is for Python {version} and later"
    found = re.search(r"manylinux_(\d+)_(\d+)", platform)
    assert found, f"the wheel is for {platform}, and says nothing of glibc"
    glibc = (int(found[1]), int(found[2]))
    assert glibc <= GLIBC, f"the wheel is for glibc {glibc} and later"
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, Python {version}, glibc {glibc}")


def symbols(library: pathlib.Path) -> None:
    """The same by what the library asks for, whatever its name says."""
    asked = subprocess.run(
        ["readelf", "--dynamic", "--version-info", str(library)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", asked))
    assert needed <= LIBRARIES, f"{needed - LIBRARIES} are not on every machine"
    versions = {(int(a), int(b)) for a, b in re.findall(r"GLIBC_(\d+)\.(\d+)", asked)}
    assert max(versions) <= GLIBC, f"symbols of glibc {max(versions)}"
    print(f"{library.name}: glibc {max(versions)}, needs {', '.join(sorted(needed))}")


def kernels(folder: pathlib.Path) -> None:
    """Every file of target/cuda is in it, and was made of the same sources."""
    code = "import becalm; print(*(f'{n} {s}' for n, s in becalm._native.gpu_images()), sep='\\n')"
    asked = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=folder
    ).stdout
    found = {line.split()[0]: int(line.split()[1]) for line in asked.splitlines() if line}
    files = (HERE.parent / "target/cuda").glob("*.*")
    made = {file.name: file.stat().st_size for file in files if file.suffix != ".sources"}
    assert made, "no target/cuda: run `make cuda`"
    assert found == made, f"not those of target/cuda: {sorted(found.items() ^ made.items())[:5]}"
    print(f"{len(found)} images, {sum(found.values()) / 1e6:.2f} MB, those of target/cuda")


def main() -> None:
    """Checks one wheel."""
    wheel = pathlib.Path(sys.argv[1])
    tags(wheel)
    with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(wheel) as packed:
        packed.extractall(name)
        folder = pathlib.Path(name)
        for library in folder.rglob("*.so"):
            symbols(library)
        kernels(folder)


if __name__ == "__main__":
    main()
