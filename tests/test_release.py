"""Files of publishers and containers hold together: workflows, the Dockerfile, the devcontainer.
None of them runs here. Every file, target and stage that they name exists all the same."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PLATFORMS = re.search(r"^targets = \[(.*?)\]", (ROOT / "deny.toml").read_text(), re.M | re.S)[1]


def workflow(name):
    return yaml.safe_load((ROOT / ".github/workflows" / name).read_text(encoding="utf-8"))


def steps(workflow):
    """The steps of all jobs, in order."""
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def typed(workflow):
    """The commands of all steps, in order."""
    return [line for step in steps(workflow) for line in step.get("run", "").splitlines()]


def packages():
    """The packages of the workspace by name, as cargo describes them."""
    command = ["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return {p["name"]: p for p in json.loads(done.stdout)["packages"]}


def needed(package, published):
    """The published crates that must be in the registry before this one."""
    # Cargo leaves development dependencies without a version out of a published crate.
    for dependency in package["dependencies"]:
        kept = dependency["kind"] != "dev" or dependency["req"] != "*"
        if kept and dependency["name"] in published:
            yield dependency["name"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_names_what_exists(path):
    found = workflow(path.name)
    # `on` is a truth value to YAML 1.1.
    assert found["name"] and found.get("on", found.get(True)) and found["permissions"]
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.M))
    for line in typed(found):
        assert set(re.findall(r"\bmake ([a-z-]+)", line)) <= targets, line
        folders = r"(?:\.ci|bench|crates|docs|packaging|python|tests)/"
        for name in re.findall(rf"(?<![\w./-]){folders}[\w./-]+", line):
            assert (ROOT / name).exists(), line
        for name in re.findall(r"(?:-p|--bin) (becalm[\w-]*)", line):
            assert name in packages() or name == "becalm", line
    for step in steps(found):
        assert ("run" in step) != ("uses" in step), step
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+\.\d+\.\d+|[0-9a-f]{40})", step["uses"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_jobs_wait_for_jobs_that_exist(path):
    jobs = workflow(path.name)["jobs"]
    for job in jobs.values():
        assert set(job.get("needs", [])) <= set(jobs)
        assert job["runs-on"]


def test_the_checks_are_those_of_this_repository():
    assert "bash .ci/run" in typed(workflow("ci.yml"))
    assert "bash .ci/run" in typed(workflow("release.yml"))


def test_crates_are_published_in_the_order_of_their_dependencies():
    found = packages()
    published = {name for name, p in found.items() if p["publish"] is None}
    lines = typed(workflow("release.yml"))
    order = [
        m[1] for line in lines if (m := re.fullmatch(r"cargo publish --locked -p (\S+)", line))
    ]
    assert set(order) == published and len(order) == len(published)
    for name in order:
        assert set(needed(found[name], published)) <= set(order[: order.index(name)]), name
    [tried] = [line for line in lines if "publish --dry-run" in line]
    assert re.findall(r"-p (\S+)", tried) == order
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    count = ["no", "one", "two", "three", "four", "five", "six"][len(order)]
    assert f"for the {count} crates together" in page
    # Without a version a dependency of another kind cannot be published.
    for name in published:
        for dependency in found[name]["dependencies"]:
            assert dependency["kind"] == "dev" or dependency["req"] != "*", name


def test_crates_are_complete_packages():
    """Everything that does not need a registry; `cargo publish --dry-run` builds them too."""
    command = ["cargo", "package", "--offline", "--locked", "--allow-dirty", "--list"]
    for name, package in packages().items():
        if package["publish"] is None:
            done = subprocess.run(
                [*command, "-p", name], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
            )
            files = set(done.stdout.splitlines())
            assert {"Cargo.toml", "src/lib.rs"} <= files
            crate = Path(package["manifest_path"]).parent
            for source in crate.glob("src/**/*.rs"):
                text = source.read_text(encoding="utf-8")
                for named in re.findall(r"include_(?:str|bytes)!\(\"([^\"]+)\"\)", text):
                    # Pages are tests of the library, and no part of it.
                    if not named.endswith(".md"):
                        path = (source.parent / named).resolve().relative_to(crate)
                        assert str(path) in files, f"{source}: {named}"


def test_wheels_are_for_the_platforms_of_the_licences():
    matrix = workflow("release.yml")["jobs"]["wheels"]["strategy"]["matrix"]["include"]
    targets = {row["target"] for row in matrix}
    assert targets == set(re.findall(r'"(.+?)"', PLATFORMS))
    maturin = re.search(r"^maturin==(\S+)", (ROOT / "tests/requirements.txt").read_text(), re.M)[1]
    for step in steps(workflow("release.yml")):
        if step.get("uses", "").startswith("PyO3/maturin-action"):
            assert step["with"]["maturin-version"] == f"v{maturin}"


def stages():
    """The stages of the Dockerfile by name: base and instructions."""
    text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.M).replace("\\\n", " ")
    found = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found[name] = (base, instructions := [])
        else:
            instructions.append((word, rest.split()))
    return found


def test_the_dockerfile_has_its_stages():
    found = stages()
    assert list(found) == ["toolchain", "dev", "builder", "gpu", "runtime"]
    assert found["gpu"][0].startswith("nvidia/cuda:13.")
    known = {"RUN", "COPY", "ENV", "USER", "WORKDIR", "ENTRYPOINT", "CMD"}
    earlier = set()
    for name, (base, instructions) in found.items():
        assert base in earlier or re.fullmatch(r"[\w/]+:[\w.-]+", base), base
        assert not base.endswith(":latest")
        assert {word for word, _ in instructions} <= known
        earlier.add(name)


def test_files_that_the_dockerfile_copies_exist():
    found = stages()
    copied = set()
    for _, instructions in found.values():
        for word, rest in instructions:
            if word == "COPY" and rest[0].startswith("--from="):
                assert rest[0].removeprefix("--from=") in found
            elif word == "COPY":
                copied |= set(rest[:-1])
    assert copied and all((ROOT / name).exists() for name in copied), copied
    # Cargo wants every crate of the workspace, and maturin the texts of the wheel.
    assert {"Cargo.toml", "Cargo.lock", "pyproject.toml", "README.md", "LICENSE"} <= copied
    assert {"crates", "python"} <= copied


@pytest.mark.parametrize("stage", ["dev", "gpu", "runtime"])
def test_no_container_runs_as_root(stage):
    users = [rest for word, rest in stages()[stage][1] if word == "USER"]
    assert users and users[-1] == ["becalm"]
    created = [rest for word, rest in stages()[stage][1] if word == "RUN" and "useradd" in rest]
    assert created and any("becalm" in rest for rest in created)


def test_the_devcontainer_takes_a_stage_of_the_dockerfile():
    folder = ROOT / ".devcontainer"
    found = json.loads((folder / "devcontainer.json").read_text(encoding="utf-8"))
    dockerfile = (folder / found["build"]["dockerfile"]).resolve()
    assert dockerfile == ROOT / "deploy" / "Dockerfile"
    assert (folder / found["build"]["context"]).resolve() == ROOT
    assert found["build"]["target"] in stages()
    assert ["USER", [found["remoteUser"]]] in [[w, r] for w, r in stages()["dev"][1]]
    command, _, target = found["postCreateCommand"].partition(" ")
    assert command == "make" and re.search(rf"^{re.escape(target)}:", MAKEFILE, re.M)
