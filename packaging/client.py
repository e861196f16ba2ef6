"""Builds the client for wasm32 and its npm package into target/client.

The standard library for wasm32 comes with the compiler (rustup target add wasm32-unknown-unknown),
or is built from its source (rustup component add rust-src, or Debian's rustc-web and rust-web-src).
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = "wasm32-unknown-unknown"
OUT = ROOT / "target" / "client"
#: Bytes of the module, the page and its scripts together, at most.
LIMIT = 3_000_000

HELP = """no compiler on this machine has the standard library of Rust for wasm32, or its source.
One of these helps:
  rustup target add wasm32-unknown-unknown
  rustup component add rust-src
  apt-get install rustc-web rust-web-src lld-22
Then run `make client` again. All the rest of becalm builds without it."""


def said(*command):
    """The output of a command, or none if it fails."""
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def compilers():
    """The compilers of this machine, by path."""
    found = [os.environ.get("RUSTC"), shutil.which("rustc"), "/usr/bin/rustc"]
    return [path for path in dict.fromkeys(found) if path and shutil.which(path)]


def toolchain():
    """A compiler, its root, and whether it must build the standard library."""
    for rustc in compilers():
        if (root := said(rustc, "--print", "sysroot")) is None:
            continue
        library = Path(root) / "lib" / "rustlib"
        if any((library / TARGET / "lib").glob("libstd-*.rlib")):
            return rustc, library, False
        if (library / "src" / "rust" / "library" / "std").is_dir():
            return rustc, library, True
    return None


def linkers(library):
    """The linkers for wasm32 of this machine, the compiler's first."""
    usual = said("rustc", "--print", "sysroot")
    roots = [library] + ([Path(usual) / "lib" / "rustlib"] if usual else [])
    for root in roots:
        yield from sorted(root.glob("*/bin/rust-lld"))
    for name in ["wasm-ld", "rust-lld", *(f"wasm-ld-{n}" for n in range(30, 13, -1))]:
        if path := shutil.which(name):
            yield Path(path)


def build(rustc, library, from_source):
    """Compiles the module and returns its path."""
    linker = next(linkers(library), None)
    if linker is None:
        sys.exit("no linker for wasm32: install lld")
    home = os.environ.get("CARGO_HOME") or Path.home() / ".cargo"
    flags = [f"--remap-path-prefix={home}/registry/src=registry", "-Ctarget-feature=+simd128"]
    flags += [f"--remap-path-prefix={library}=rustlib", '--cfg=getrandom_backend="custom"']
    # A client has no use for some functions of the library, and another compiler may warn of more.
    flags += ["-Awarnings"]
    env = {
        **os.environ,
        "RUSTC": rustc,
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
        f"CARGO_TARGET_{TARGET.upper().replace('-', '_')}_LINKER": str(linker),
        # blake3 is built without its C.
        "CARGO_FEATURE_PURE": "1",
        "BECALM_CLIENT": "",
    }
    command = ["cargo", "rustc", "--locked", "--quiet", "--profile", "client"]
    command += ["-p", "becalm-client", "--crate-type", "cdylib"]
    command += ["--target", TARGET, "--target-dir", ROOT / "target" / "wasm"]
    if from_source:
        # It is the compiler's own source, so what a stable compiler refuses there is right.
        env["RUSTC_BOOTSTRAP"] = "1"
        command += ["-Zbuild-std=std,panic_abort"]
    if subprocess.run(command, cwd=ROOT, env=env).returncode != 0:
        sys.exit("the client for wasm32 was not built")
    return ROOT / "target" / "wasm" / TARGET / "client" / "becalm_client.wasm"


def main(*options):
    """Builds, puts the package together, and tells its size. `--find` only names the compiler."""
    if (found := toolchain()) is None:
        sys.exit(HELP)
    if options == ("--find",):
        print(found[0])
        return
    module = build(*found)
    package = ROOT / "crates" / "becalm-client" / "npm"
    OUT.mkdir(parents=True, exist_ok=True)
    texts = [package / "package.json", package / "README.md", ROOT / "LICENSE"]
    for path in [module, *package.glob("index.*"), *texts]:
        # What did not change keeps its time, so that cargo embeds nothing again.
        if not (OUT / path.name).exists() or (OUT / path.name).read_bytes() != path.read_bytes():
            shutil.copyfile(path, OUT / path.name)
    size = (OUT / module.name).stat().st_size
    print(f"{OUT.relative_to(ROOT) / module.name}: {size:,} bytes")
    if size > LIMIT:
        sys.exit(f"wanted at most {LIMIT:,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
