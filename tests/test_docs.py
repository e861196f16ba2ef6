"""The pages hold together: every link leads somewhere, every `make` target in them exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
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
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            files = [(page.parent / x.partition("#")[0]).resolve() for x in links(page)]
            todo.extend(f for f in files if f.is_file())
    assert not set(PAGES) - reached


def test_the_readme_shows_the_measured_rows():
    script = ROOT / "bench" / "table.py"
    assert subprocess.run([sys.executable, str(script), "--check"], check=False).returncode == 0
