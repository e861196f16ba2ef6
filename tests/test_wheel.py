"""The installed wheel and the command carry licences and a bill of materials besides code, and no
trace of the machine that built them."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

import becalm

ROOT = Path(__file__).resolve().parent.parent


def carried(name):
    """A file of the installed wheel's metadata."""
    files = importlib.metadata.distribution("becalm").files
    [found] = [f for f in files if f.name == name and ".dist-info" in f.parts[0]]
    return found.read_text(encoding="utf-8")


def linked():
    """Name and version of every crate in the extension, by cargo."""
    command = ["cargo", "tree", "--locked", "-p", "becalm-python", "--prefix", "none"]
    command += ["-e", "normal,no-proc-macro"]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return set(re.findall(r"^(\S+) v(\S+)", done.stdout, re.M))


def ours(crates):
    return {(name, version) for name, version in crates if name.startswith("becalm")}


def test_the_wheel_carries_the_licence_of_every_crate_that_it_links():
    notices = carried("THIRD_PARTY.txt")
    crates = linked()
    assert len(crates) > 50 and len(ours(crates)) == 6
    for name, version in crates - ours(crates):
        assert re.search(rf"^{re.escape(f'{name} {version}')} +\S", notices, re.M), name
    assert "Apache License" in carried("LICENSE") and "Apache License" in notices
    # Of those that do not offer Apache-2.0 there is the very text.
    for line in re.findall(r"^(\S+ \d\S*) +(.+)$", notices.partition("-" * 100)[0], re.M):
        if "Apache-2.0" not in line[1].split(" OR "):
            heads = re.findall(r"^-{100}\n(.+)$", notices, re.M)
            assert any(line[0] in head.split(", ") for head in heads), line[0]


def test_the_wheel_carries_a_bill_of_materials():
    text = carried("becalm.cdx.json")
    assert JsonStrictValidator(SchemaVersion.V1_5).validate_str(text) is None
    bill = json.loads(text)
    parts = [*bill["components"], bill["metadata"]["component"]]
    assert {(part["name"], part["version"]) for part in parts} == linked()
    lock = (ROOT / "Cargo.lock").read_text(encoding="utf-8")
    for part in parts:
        if not part["name"].startswith("becalm"):
            assert part["licenses"] and part["hashes"][0]["content"] in lock
    refs = {part["bom-ref"] for part in parts}
    assert {d["ref"] for d in bill["dependencies"]} == refs
    assert {x for d in bill["dependencies"] for x in d.get("dependsOn", [])} < refs


def test_the_notices_fit_the_lock_file():
    script = ROOT / "packaging/third_party.py"
    subprocess.run([sys.executable, str(script), "notices", "--check"], check=True)


@pytest.fixture(scope="module")
def command():
    """The command as `make run` builds it."""
    build = ["cargo", "build", "--release", "--bin", "becalm", "--message-format", "json"]
    done = subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    made = [json.loads(line).get("executable") for line in done.stdout.splitlines()]
    return Path(next(filter(None, made)))


def places():
    """The folders that this machine builds in."""
    home = Path.home()
    cargo = Path(os.environ.get("CARGO_HOME", home / ".cargo"))
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], check=True, stdout=subprocess.PIPE)
    rustup = Path(sysroot.stdout.decode().strip())
    return [f"{place}/".encode() for place in {home, cargo, rustup, ROOT} if len(place.parts) > 1]


@pytest.mark.parametrize("binary", ["extension", "command"])
def test_no_binary_names_the_machine_that_built_it(binary, request):
    path = (
        Path(becalm._native.__file__) if binary == "extension" else request.getfixturevalue(binary)
    )
    code = path.read_bytes()
    for place in places():
        at = code.find(place)
        assert at < 0, code[at : at + 150]
    # Panics say where they are all the same, by the crate.
    assert b"/rayon-core-" in code


def test_the_command_prints_the_licences(command):
    said = subprocess.run([str(command), "licences"], check=True, stdout=subprocess.PIPE, text=True)
    assert said.stdout.rstrip() == carried("THIRD_PARTY.txt").rstrip()


def test_the_wheel_works_in_a_bare_environment():
    """Installed by pip, the wheel of `make wheel` bootstraps, and its command runs."""
    numpy = importlib.metadata.version("numpy")
    script = [sys.executable, str(ROOT / "packaging/smoke.py"), str(ROOT / "dist"), numpy]
    done = subprocess.run(script, check=False, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip() == "[10  2  5]"
