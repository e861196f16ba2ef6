#!/usr/bin/env python3
"""Licences and a bill of materials of the other crates in becalm's binaries.

    python3 packaging/third_party.py notices          # writes THIRD_PARTY.txt
    python3 packaging/third_party.py notices --check  # fails if it is out of date
    python3 packaging/third_party.py sbom OUT.cdx.json [--target TRIPLE]

A crate is linked if cargo builds it into the Python package or the command: build scripts, tests
and macros, which run in the compiler, are not. The notices name the crates of every platform in
deny.toml. The bill of materials (CycloneDX) names those of the wheel for one platform, by default
the building one.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
#: In the crate of the command, which prints the file.
NOTICES = ROOT / "crates/becalm-cli/THIRD_PARTY.txt"
#: For crates that name the licence MIT and ship no text.
MIT = pathlib.Path(__file__).resolve().parent / "MIT.txt"
LICENCES = re.compile(r"(un)?licen[sc]e|copying|notice|copyright", re.I)
OTHER_NOTICES = re.compile(r"notice|copyright|.*third.?party", re.I)
RULE = "-" * 100

HEAD = """\
becalm is under the licence Apache-2.0. It links the crates below, and the standard library of Rust
(MIT OR Apache-2.0, the Rust Project Developers). The table shows the licence that each offers, as
an SPDX expression. Some are linked on Windows or macOS alone, some with the feature store alone.

becalm takes a crate under Apache-2.0 if the crate offers it. That licence comes first. The notices
of such crates and the licences of all others follow, each after the names of its crates.
"""


def cargo(*arguments: str) -> str:
    """The output of cargo, which leaves Cargo.lock as it is."""
    command = ["cargo", *arguments, "--locked"]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def linked(crates: list[str], platforms: list[str], features: tuple[str, ...] = ()) -> list[dict]:
    """The packages in the binaries of these crates, by name and version."""
    options = ["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"]
    options += [word for name in crates for word in ("--package", name)]
    options += [word for name in platforms for word in ("--target", name)]
    options += [word for name in features for word in ("--features", name)]
    tree = set(re.findall(r"^(\S+) v(\S+)", cargo("tree", *options), re.M))
    packages = json.loads(cargo("metadata", "--format-version", "1"))["packages"]
    found = [p for p in packages if (p["name"], p["version"]) in tree]
    return sorted(found, key=lambda p: (p["name"], p["version"]))


def expression(package: dict) -> str:
    """The licence of a package as SPDX writes it; some crates still write a slash."""
    if not package["license"]:
        sys.exit(f"{package['name']} names no licence: becalm cannot link it")
    return re.sub(r"\s*/\s*", " OR ", package["license"])


def texts(package: dict) -> list[str]:
    """The notices that a package needs besides the text of Apache-2.0."""
    offered = expression(package).split(" OR ")
    apache = "Apache-2.0" in offered
    wanted = OTHER_NOTICES if apache else LICENCES
    folder = pathlib.Path(package["manifest_path"]).parent
    files = [f for f in sorted(folder.iterdir()) if f.is_file() and wanted.match(f.name)]
    if not files and not apache:
        if "MIT" not in offered:
            sys.exit(f"{package['name']} ships no text of its licence {expression(package)}")
        files = [MIT]
    return [file.read_text(encoding="utf-8") for file in files]


def notices() -> str:
    """THIRD_PARTY.txt: a table of crates, then every text once."""
    told = re.search(r"^targets = \[(.*?)\]", (ROOT / "deny.toml").read_text(), re.M | re.S)
    platforms = re.findall(r'"(.+?)"', told[1])
    packages = linked(["becalm-python", "becalm-cli"], platforms, ("becalm-cli/store",))
    foreign = {f"{p['name']} {p['version']}": p for p in packages if p["source"]}
    wide = max(map(len, foreign))
    table = [f"{name:{wide}}  {expression(p)}" for name, p in foreign.items()]
    shared: dict[str, tuple[str, list[str]]] = {}
    for name, package in foreign.items():
        for text in texts(package):
            shared.setdefault(" ".join(text.split()), (text, []))[1].append(name)
    parts = [HEAD, *table, "", RULE, (ROOT / "LICENSE").read_text(encoding="utf-8")]
    for text, users in shared.values():
        parts += [RULE, ", ".join(users), "", text]
    return "".join(f"{line.rstrip()}\n" for part in parts for line in part.split("\n"))


def sbom(target: str | None = None) -> str:
    """The crates of the wheel as CycloneDX writes them, without a path or a machine's name."""
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.license import LicenseExpression
    from cyclonedx.output.json import JsonV1Dot5
    from packageurl import PackageURL

    told = subprocess.run(["rustc", "-vV"], check=True, stdout=subprocess.PIPE, text=True).stdout
    host = re.search(r"^host: (.+)$", told, re.M)[1]
    packages = linked(["becalm-python"], [target or host])
    lock = (ROOT / "Cargo.lock").read_text(encoding="utf-8")
    sums = re.findall(r'name = "(.+)"\nversion = "(.+)"\nsource = .+\nchecksum = "(.+)"', lock)
    checksums = {(name, version): value for name, version, value in sums}
    components = {}
    for package in packages:
        name, version = package["name"], package["version"]
        purl = PackageURL("cargo", None, name, version)
        value = checksums.get((name, version))
        components[package["id"]] = Component(
            type=ComponentType.LIBRARY,
            name=name,
            version=version,
            purl=purl,
            bom_ref=str(purl),
            licenses=[LicenseExpression(expression(package))],
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=value)] if value else [],
        )
    top = next(c for c in components.values() if c.name == "becalm-python")
    bom = Bom(components=[c for c in components.values() if c is not top])
    bom.metadata.component = top
    for node in json.loads(cargo("metadata", "--format-version", "1"))["resolve"]["nodes"]:
        if node["id"] in components:
            needed = [components[i] for i in node["dependencies"] if i in components]
            bom.register_dependency(components[node["id"]], needed)
    text = json.loads(JsonV1Dot5(bom).output_as_string())
    # The same Cargo.lock gives the same bill.
    del text["serialNumber"], text["metadata"]["timestamp"]
    return json.dumps(text, indent=1) + "\n"


def main() -> None:
    """Writes one of the two, or compares the notices."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["notices", "sbom"])
    parser.add_argument("out", nargs="?", type=pathlib.Path, default=NOTICES)
    parser.add_argument("--target", help="the platform of a bill of materials, as rustc names it")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    args = parser.parse_args()
    text = notices() if args.what == "notices" else sbom(args.target)
    if not args.check:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text, encoding="utf-8")
    elif not args.out.is_file() or args.out.read_text(encoding="utf-8") != text:
        sys.exit(f"{args.out.name} does not fit Cargo.lock: run `make notices` and commit it")


if __name__ == "__main__":
    main()
