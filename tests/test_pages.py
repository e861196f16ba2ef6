"""Runs the examples of every page as they are written.

`console` blocks: lines after `$ ` are commands, and the other lines their output, where `…` stands
for anything. A command without output lines need only succeed. `python` blocks are scripts; the
comment behind a `print(…)` is its output. All blocks of a page run in order in one folder, empty
but for the repository's `crates` and `dist`. `rust` blocks run with the library's own documentation
(`cargo test --doc`). `js` blocks run in Node (`tests/test_demo.py`). `text` is output, a formula or
a format, and is not run. There is no other kind of block.

A mark behind the language says when a block runs. `toy`: bootstraps by the thousand, which run with
keys that protect nothing, and as written under BECALM_FULL=1. `full`: runs only under
BECALM_FULL=1. `bench`: runs only in `make bench`. `never`: needs Docker, a bucket or a person, and
does not run. Names in these blocks and in the text must exist all the same.
"""

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from conftest import FULL
from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parent.parent
PAGES = [str(p.relative_to(ROOT)) for p in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])]
#: Names in these pages must exist. The other page tells of the past.
OF_TODAY = [page for page in PAGES if page != "CHANGELOG.md"]
#: Pages for beginners, which show Python, Rust and the command.
BEGINNING = ["README.md", "docs/tutorial.md", "docs/ckks.md"]
MARKS = {
    "console": {"", "full", "bench", "never"},
    "python": {"", "toy"},
    "rust": {""},
    "js": {""},
    "text": {""},
}
#: The beginning of a line of a shell or of a program.
PROGRAM = re.compile(
    r"^(\$ |(becalm|cargo|docker|make|pip|python3?|uv) [a-z-]|(import|const|let|use) .*[;'\"]$)",
    re.M,
)
BENCH = "BECALM_BENCH" in os.environ
#: Commands of the suite that these tests belong to.
RUN_BY_MAKE_TEST = re.compile(r"make test$|(BECALM_FULL=1 )?cargo test --release -p becalm\b")
#: Other commands of the repository, which run in its root.
OF_THE_REPOSITORY = re.compile(r"(\w+=\S+ )*(make|cargo|python3? bench/)\b")


@cache
def parsed(page):
    return MarkdownIt().parse((ROOT / page).read_text(encoding="utf-8"))


def blocks(page):
    """Language, mark, text and line of every block of code of a page, indented ones among them."""
    for token in parsed(page):
        if token.type in ("fence", "code_block"):
            language, _, mark = token.info.strip().partition(" ")
            yield language, mark, token.content, token.map[0] + 1


def code_in_text(page):
    """The code between backticks in sentences and tables."""
    inline = (token for token in parsed(page) if token.type == "inline")
    return [c.content for token in inline for c in token.children if c.type == "code_inline"]


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
            assert found, f"a line of output before any command: {line}"
            found[-1][1].append(line)
    return found


def unfit(language, mark, text):
    """The reason why a block would not run, if there is one."""
    if language not in MARKS:
        return f"{language or 'a block without a language'} is not of {', '.join(MARKS)}"
    if mark not in MARKS[language]:
        return f"{mark} is not a mark of {language}"
    if language == "console" and not commands(text):
        return "console without a command"
    if language == "text" and PROGRAM.search(text):
        return "commands or a program in a block that is not run"
    return None


@pytest.fixture(scope="session")
def shell(tmp_path_factory):
    """An environment in which `becalm` is the program built from this tree."""
    build = ["cargo", "build", "--release", "--quiet", "--bin", "becalm"]
    subprocess.run(build, cwd=ROOT, check=True)
    metadata = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
    answer = subprocess.run(metadata, cwd=ROOT, check=True, capture_output=True, text=True)
    built = Path(json.loads(answer.stdout)["target_directory"]) / "release"
    path = os.pathsep.join([str(built), str(Path(sys.executable).parent), os.environ["PATH"]])
    # `cargo install` writes here, and not among the programs of whoever runs the tests.
    installed = str(tmp_path_factory.mktemp("installed"))
    return {**os.environ, "PATH": path, "CARGO_INSTALL_ROOT": installed}


def run(command, where, env, stdin=None):
    """The output of a command. Fails with the command's own words."""
    done = subprocess.run(
        command,
        cwd=where,
        env=env,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=14400 if FULL or BENCH else 900,
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def help_of(shell):
    """The text of `becalm help …` for a command, which must exist."""
    return cache(lambda *words: run(["becalm", "help", *words], ROOT, shell))


def run_console(text, mark, where, env):
    for command, expected in commands(text):
        if RUN_BY_MAKE_TEST.match(command) or (mark == "bench" and command in typed_by("bench")):
            continue
        at_root = OF_THE_REPOSITORY.match(command)
        got = run(["bash", "-c", command], ROOT if at_root else where, env)
        assert not expected or matches(expected, got), f"$ {command}\n{got}"


def outputs(text):
    """The comments behind `print(…)`, which may stand in a block and end in a later line."""
    return re.findall(r"^ *(?:print\(.*)?\)\s+# (.*)$", text, re.M)


def run_python(text, mark, where, env):
    if mark == "toy" and not FULL:
        keygen, load = r"becalm\.keygen\(bits=4", r"becalm\.load\(([^)]*)\)"
        text, keys = re.subn(keygen, 'becalm.keygen("toy_2_2", allow_insecure=True', text)
        text, loads = re.subn(load, r"becalm.load(\1, allow_insecure=True)", text)
        assert keys or loads, "no keys here that a toy's could stand for"
    expected = outputs(text)
    got = run([sys.executable, "-"], where, env, stdin=text)
    assert not expected or matches(expected, got), got


def typed_by(target):
    """The commands of a target of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.M)[1]
    plain = recipe.replace("$(CARGO)", "cargo").replace("$(PYTHON)", "python3")
    return [line.strip() for line in plain.splitlines()]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_how_it_is_run(page):
    wrong = [
        (line, why) for lang, mark, text, line in blocks(page) if (why := unfit(lang, mark, text))
    ]
    assert not wrong, "\n".join(f"{page}:{line}: {why}" for line, why in wrong)


@pytest.mark.parametrize("page", PAGES)
def test_examples_run_as_written(page, shell, tmp_path):
    runners = {"console": run_console, "python": run_python}
    for folder in ("crates", "dist"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    for language, mark, text, line in blocks(page):
        due = mark == "bench" if BENCH else mark in ("", "toy") or (FULL and mark == "full")
        if language in runners and due:
            try:
                runners[language](text, mark, tmp_path, shell)
            except AssertionError as error:
                pytest.fail(f"{page}:{line}: {error}", pytrace=False)


@pytest.mark.parametrize("page", BEGINNING)
def test_a_page_for_beginners_shows_every_front_end(page):
    assert {"console", "python", "rust"} <= {language for language, *_ in blocks(page)}


def test_the_library_compiles_the_rust_blocks():
    lib = (ROOT / "crates/becalm/src/lib.rs").read_text(encoding="utf-8")
    for page in PAGES:
        if any(language == "rust" for language, *_ in blocks(page)):
            assert f'include_str!("../../../{page}")' in lib, (
                f"{page} is not a doc test of the library"
            )


def named(page):
    """Code that a page names in its text, and the commands of its blocks."""
    shown = (text for language, _, text, _ in blocks(page) if language == "console")
    return code_in_text(page) + [command for text in shown for command, _ in commands(text)]


@pytest.mark.parametrize("page", OF_TODAY)
def test_files_and_tests_that_a_page_names_exist(page):
    folders = "bench|crates|docs|fuzz|packaging|python|rtl|tests"
    for code in named(page):
        assert "../" not in code, f"{code}: a place outside of the repository"
        for path in re.findall(rf"(?<![\w./-])(?:{folders})/[\w./*-]+", code):
            # Pages of the library name its tests from its crate on.
            found = [p for base in ("", "crates/*/") for p in ROOT.glob(base + path.rstrip("/."))]
            assert found, f"{code}: {path} does not exist"
        for name, part in re.findall(r"--test (\w+)(?: (\w+)\b)?", code):
            tests = [p.read_text(encoding="utf-8") for p in ROOT.glob(f"crates/*/tests/{name}.rs")]
            assert tests and part in tests[0], f"{code}: no such test"


@pytest.mark.parametrize("page", OF_TODAY)
def test_commands_and_options_that_a_page_names_exist(page, help_of):
    for code in named(page):
        if command := re.match(r"becalm((?: [a-z]+)*)(?: |$)(.*)", code, re.S):
            words = [word for word in command[1].split() if word != "help"]
            words = words[: 2 if words[:1] in (["circuit"], ["job"], ["threshold"]) else 1]
            for option in re.findall(r"(?<!\S)--[a-z][a-z0-9-]*", command[2]):
                assert re.search(rf"{option}\b", help_of(*words)), f"{code}: no option {option}"
            assert help_of(*words), code


def test_continuous_integration_types_the_commands_of_the_readme():
    """The script adds nothing that would hide the output a newcomer sees."""
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    typed = re.findall(r"^ *stage (?:'[^']+'|\S+) (make [^.].*)$", script, re.M)
    block = next(text for language, _, text, _ in blocks("README.md") if language == "console")
    readme = [command for command, _ in commands(block)]
    assert readme == ["make run", "make test"]
    assert set(readme) | {"make lint", "make docs"} == set(typed)


@pytest.mark.parametrize("options", [[], ["-w"], ["-C", str(ROOT)]], ids=["plain", "-w", "-C"])
def test_make_below_make_prints_what_it_prints_at_a_prompt(options, tmp_path):
    """`make test` runs `make run` and compares its output with the page."""
    probe = tmp_path / "probe.mk"
    probe.write_text(
        f"include {ROOT}/Makefile\nprobe:\n\t@make -C {ROOT} help\n\t@cd {ROOT} && make help\n"
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    below = run(["make", *options, "-f", str(probe), "probe"], ROOT, env)
    said = [line for line in below.splitlines() if not line.startswith("make: ")]
    alone = run(["make", "help"], ROOT, env).splitlines()
    assert said == alone * 2


def test_a_block_that_does_not_run_is_found():
    assert (
        unfit("", "", "becalm keygen") and unfit("sh", "", "ls") and unfit("python", "no_run", "")
    )
    assert unfit("text", "", "$ becalm keygen\n") and unfit("console", "", "")
    assert unfit("text", "", "becalm job work s3://bucket\n")
    assert unfit("text", "", "import { load } from 'becalm-client';\n")
    assert not unfit("text", "", "a = b") and not unfit("console", "full", "$ make test\n")
    indented = MarkdownIt().parse("Run:\n\n    becalm keygen\n")
    assert [token.type for token in indented if token.type == "code_block"]


def test_every_printed_line_is_compared():
    text = (
        "print(1)  # 1\nwith f():\n    print(\n        2\n    )  # 2\n    print(3)  # 3\nx = (4)\n"
    )
    assert outputs(text) == ["1", "2", "3"]


def test_matching_finds_a_difference():
    assert matches(["9, …, 4"], "9, 1, 4\n")
    assert not matches(["9, 1, 4"], "9, 1, 5\n")
    assert not matches(["9"], "9\n9")
    assert commands("$ a \\\n  b\nout\n$ c\n") == [("a \\\n  b", ["out"]), ("c", [])]
