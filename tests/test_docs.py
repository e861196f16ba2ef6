"""The pages hold together: every link leads somewhere, every `make` target in them exists, and
tables show what was measured."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/**/*.ipynb")])
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)


def anchors(text):
    """The names that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text), re.M)
    words = [re.sub(r"[^\w\- ]", "", h.lower()) for h in headings]
    return {w.replace(" ", "-") for w in words}


def links(page):
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    found = [a or b for a, b in LINK.findall(text)]
    return [x for x in found if not re.match(r"(https?|mailto):", x)]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link}: no such file"
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), f"{link}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_make_targets_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = set(re.findall(r"(?:`|\$ )make ([a-z-]+)", page.read_text(encoding="utf-8")))
    assert named <= targets, f"no such target: {named - targets}"


def test_every_page_of_docs_is_reachable():
    reached, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page not in reached and page.suffix in (".md", ".ipynb"):
            reached.add(page)
            files = [(page.parent / x.partition("#")[0]).resolve() for x in links(page)]
            todo.extend(f for f in files if f.is_file())
    assert not set(PAGES) - reached


def test_the_readme_shows_the_measured_rows():
    script = ROOT / "bench" / "table.py"
    assert subprocess.run([sys.executable, str(script), "--check"], check=False).returncode == 0


def cells(page, head):
    """The rows of the table with this head: their cells, without spaces."""
    lines = page.partition(head)[2].splitlines()[2:]
    end = next((i for i, line in enumerate(lines) if not line.startswith("|")), len(lines))
    plain = (line.replace(" ", "") for line in lines[:end])
    return [line.strip("|").split("|") for line in plain]


def test_the_page_of_the_processor_shows_what_was_measured():
    kept = json.loads((ROOT / "bench/results/rtl.json").read_text(encoding="utf-8"))["rows"]
    page = (ROOT / "docs/processor.md").read_text(encoding="utf-8")
    speed = cells(page, "| set | T | transform: latency ")
    assert len(speed) == 6
    for name, t, latency, every, bootstrap, _, batch, clocks, each, switch, *_ in speed:
        size, params = {"n=500": (1024, "standard"), "n=800": (16384, "large")}[name]
        found = kept.get(f"latency, N = {size}, T = {t}", {"found": ""})["found"]
        assert latency == str(found), f"latency at T = {t}"
        assert every == str(size // int(t))
        model = kept[f"clocks, {params}, T = {t}, batch = {batch}"]["found"]
        shown = [bootstrap, clocks, switch]
        assert shown == [str(model[k]) for k in ("bootstrap", "bootstraps", "switch")]
        assert each == str(round(model["bootstraps"] / int(batch)))
    area = cells(page, "| module | DSP48E2 | RAMB36 | RAMB18 ")
    assert len(area) == 9
    for name, *shown in area:
        found = next(
            row["found"]
            for key, row in reversed(kept.items())
            if key.startswith("area, ") and same_module(name, key.removeprefix("area, "))
        )
        kinds = ("DSP48E2", "RAMB36E2", "RAMB18E2", "LUT", "FF")
        wanted = [str(found.get(k, "")) for k in kinds]
        assert [*shown[:3], *shown[4:6]] == wanted, name


def same_module(shown, key):
    """Whether a row of the page is a kept figure's; the page leaves the usual dimension out."""
    plain = key.replace(" ", "").replace(",toLUTandFF", "").replace("l=", "ℓ=")
    return plain.replace("logbeta", "logβ") == re.sub(r",n=\d+", "", shown)


def test_the_page_of_the_architecture_names_every_file_of_bootstraps():
    rows = (ROOT / "docs/architecture.md").read_text().splitlines()
    row = next(row for row in rows if row.startswith("| bootstrap |"))
    for scheme in ("tfhe", "ckks"):
        for file in (ROOT / "crates/becalm/src/bootstrap" / scheme).glob("*.rs"):
            assert file.stem == "mod" or f"`{file.stem}`" in row, file


def test_the_page_of_the_architecture_has_the_whole_contract_of_a_machine():
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").splitlines()
    source = (ROOT / "crates/becalm/src/backend/mod.rs").read_text(encoding="utf-8")
    for trait in ("Backend", "Runs<F", "Session<F"):
        body = source.split(f"pub trait {trait}", 1)[1].split("\n}", 1)[0]
        row = next(row for row in page if row.startswith(f"| `{trait}"))
        methods = dict(re.findall(r"^    fn (\w+)[^;{]*([;{])", body, re.MULTILINE))
        assert [name for name in methods if f"`{name}`" not in row] == [], trait
        required = {name for name, end in methods.items() if end == ";"}
        must = row.split("|")[2]
        assert set(re.findall(r"`(\w+)`", must)) - {"Setup"} == required, trait


def test_no_script_names_a_place_outside_of_the_repository():
    scripts = [*ROOT.glob("bench/**/*.py"), *ROOT.glob("packaging/**/*.py"), *ROOT.glob("rtl/*.py")]
    assert len(scripts) > 8
    for script in scripts:
        text = script.read_text(encoding="utf-8")
        assert not re.search(r"\.\./shared|ROOT\.parent", text), script.name


def test_two_versions_are_compared_by_turns():
    spec = importlib.util.spec_from_file_location("compare", ROOT / "bench/compare.py")
    compare = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compare)
    asked = []

    class Side:
        def __init__(self, name, rows, times, right=True):
            self.name, self.rows, self.times, self.right = name, rows, iter(times), right

        def ask(self, verb, what):
            if verb == "group":
                return self.rows
            asked.append((self.name, verb, what))
            return self.right if verb == "check" else next(self.times)

    sides = [Side("old", ["add", "gone"], [1, 2, 4]), Side("new", ["add"], [2, 2, 2])]
    (row,) = compare.measured(sides, "g", "", 3)
    assert (row["row"], row["ratio"], row["old_ms"], row["new_ms"]) == ("g/add", 1, 2000, 2000)
    turns = [name for name, verb, _ in asked if verb == "time"]
    assert turns == ["new", "old", "old", "new", "new", "old"]
    assert list(compare.measured(sides, "g", "g/multiply", 3)) == []
    with pytest.raises(SystemExit, match="g/add: a result is wrong"):
        list(compare.measured([sides[0], Side("new", ["add"], [], False)], "g", "", 3))
