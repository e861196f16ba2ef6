"""Runs the examples of the pages as they are written.

`console` blocks: lines after `$ ` are commands, the other lines are what they print, where `…`
stands for anything; a command without such lines need only succeed. `python` blocks are scripts;
the comment behind a `print(…)` is what it prints. All blocks of a page run in order in one empty
folder. `rust` blocks run with the library's own documentation (`cargo test --doc`); blocks marked
`console bench` run in `make bench`.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["README.md", "docs/tutorial.md", "docs/ckks.md"]
BENCH = "BECALM_BENCH" in os.environ
FENCE = re.compile(r"^```(\w+)(?:,\w+)?(?: (\w+))?\n(.*?)^```$", re.M | re.S)


def blocks(page):
    """Language, mark, text and line of every fenced block of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for m in FENCE.finditer(text):
        yield m[1], m[2], m[3], text.count("\n", 0, m.start()) + 1


def matches(expected, got):
    """Whether `got` is the lines of `expected`, `…` standing for anything."""
    pattern = ".*".join(re.escape(part) for part in "\n".join(expected).strip().split("…"))
    return re.fullmatch(pattern, got.strip(), re.S) is not None


def commands(text):
    """Command and expected lines, in order; a backslash at its end carries a line on."""
    found = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found and found[-1][0].endswith("\\"):
            found[-1] = (f"{found[-1][0]}\n{line}", [])
        else:
            found[-1][1].append(line)
    return found


@pytest.fixture(scope="session")
def shell():
    """An environment in which `becalm` is the program built from this tree."""
    build = ["cargo", "build", "--release", "--quiet", "-p", "becalm-cli"]
    subprocess.run(build, cwd=ROOT, check=True)
    metadata = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
    answer = subprocess.run(metadata, cwd=ROOT, check=True, capture_output=True, text=True)
    built = Path(json.loads(answer.stdout)["target_directory"]) / "release"
    path = os.pathsep.join([str(built), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path}


def run(command, where, env, stdin=None):
    """What a command prints; fails with its own words if it does."""
    done = subprocess.run(
        command, cwd=where, env=env, input=stdin, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def run_console(text, where, env):
    for command, expected in commands(text):
        if command.startswith("make ") and command != "make run":
            continue  # `make test` is what runs this; test_docs.py looks that the target exists
        got = run(["bash", "-c", command], ROOT if command == "make run" else where, env)
        assert not expected or matches(expected, got), f"$ {command}\n{got}"


def run_python(text, where, env):
    expected = re.findall(r"^print\(.*\)\s+# (.*)$", text, re.M)
    got = run([sys.executable, "-"], where, env, stdin=text)
    assert not expected or matches(expected, got), got


@pytest.mark.parametrize("page", PAGES)
def test_examples_run_as_written(page, shell, tmp_path):
    runners = {"console": run_console, "python": run_python}
    for language, mark, text, line in blocks(page):
        if language in runners and (mark == "bench") == BENCH:
            try:
                runners[language](text, tmp_path, shell)
            except AssertionError as error:
                pytest.fail(f"{page}:{line}: {error}", pytrace=False)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_every_front_end(page):
    assert {"console", "python", "rust"} <= {language for language, *_ in blocks(page)}


def test_the_library_compiles_the_rust_blocks():
    lib = (ROOT / "crates/becalm/src/lib.rs").read_text(encoding="utf-8")
    for page in PAGES:
        assert f'include_str!("../../../{page}")' in lib, f"{page} is not a doc test of the library"


def test_matching_finds_a_difference():
    assert matches(["9, …, 4"], "9, 1, 4\n")
    assert not matches(["9, 1, 4"], "9, 1, 5\n")
    assert not matches(["9"], "9\n9")
    assert commands("$ a \\\n  b\nout\n$ c\n") == [("a \\\n  b", ["out"]), ("c", [])]
