"""The site builds without a warning, needs no other host, and shows what was measured."""

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "packaging" / "site"))
import plots  # noqa: E402
import shots  # noqa: E402

#: A browser fetches scripts, pictures and styles by itself, and follows no links.
FETCHED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"([^\"]+)\"|<link\b([^>]*)>")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A site built from this tree, in which every warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


def fetched(text):
    """The addresses that a page makes a browser fetch."""
    for source, link in FETCHED.findall(text):
        if source:
            yield source
        elif re.search(r"rel=\"(?:stylesheet|icon|preload|preconnect)\"", link):
            yield re.search(r"href=\"([^\"]+)\"", link)[1]


def test_a_page_fetches_nothing_from_other_hosts(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        for address in fetched(page.read_text(encoding="utf-8")):
            assert not re.match(r"(?:\w+:)?//", address), f"{page.name}: {address}"


def test_what_a_page_fetches_is_there(site):
    for page in site.rglob("*.html"):
        # Addresses of 404.html begin at the root of a server, and rustdoc makes its own by script.
        if page.name != "404.html" and page.relative_to(site).parts[0] != "rust":
            for address in fetched(page.read_text(encoding="utf-8")):
                path = address.partition("?")[0].partition("#")[0]
                assert (page.parent / path).is_file(), f"{page.name}: {address}"


def test_search_knows_the_pages(site):
    text = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("var __index = "))
    titles = {entry["title"] for entry in index["docs"]}
    assert {
        "Encrypt a CSV column",
        "What becalm does not do",
        "Decryption by several parties",
    } <= titles


def test_the_reference_has_every_public_name(site):
    import becalm
    from becalm import ckks

    for page, module in (("python", becalm), ("python_ckks", ckks)):
        text = (site / "reference" / f"{page}.html").read_text(encoding="utf-8")
        for name in module.__all__:
            if name not in ("__version__", "ckks"):
                # The function `doctor` hides the module that it stands in.
                path = "doctor.doctor" if name == "doctor" else name
                assert f'id="{module.__name__}.{path}"' in text, name


def test_blocks_of_code_and_tables_are_shown_as_such(site):
    for page in site.rglob("*.html"):
        text = re.sub(r"<(pre|code)\b.*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.S)
        body = text.partition("<article")[2].partition("</article>")[0]
        assert "```" not in body and "|---" not in body, page.name
        assert "<!-- plot" not in body, page.name


def test_a_notebook_is_a_page_with_what_its_code_showed(site):
    text = (site / "notebooks" / "first_steps.html").read_text(encoding="utf-8")
    assert "x + y = [3 4 5]" in text and "<svg" in text and "largest 1200" in text
    assert 'href="first_steps.ipynb" download' in text and 'href="private_retrieval.html"' in text
    assert (site / "notebooks" / "first_steps.ipynb").is_file()


def test_every_recipe_is_listed():
    folder = ROOT / "docs" / "recipes"
    listed = (folder / "index.md").read_text(encoding="utf-8")
    pages = [page for page in folder.glob("*.md") if page.name != "index.md"]
    heads = [
        (page.name, head)
        for page in pages
        for head in re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.M)
    ]
    for name, head in heads:
        assert f"[{head}]({name}#" in listed, head
    assert f"[{len(heads)} recipes]" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", plots.PLOTS)
def test_a_picture_is_drawn_from_the_stored_figures(name):
    draw, words = plots.PLOTS[name]
    drawn = draw()
    assert draw() == drawn and words
    texts = ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")
    for text in texts:  # No label is cut at the border.
        wide = 0.56 * float(text.get("font-size")) * len(text.text)
        start = {"end": wide, "middle": wide / 2}.get(text.get("text-anchor"), 0)
        assert float(text.get("x")) - start >= 0, text.text
        assert float(text.get("x")) - start + wide <= plots.WIDTH, text.text


def test_no_set_is_above_the_roof():
    found = plots.kept("roofline")
    roofs = found["roofs"]
    for row in found["sets"]:
        for what in ("operations", "cache_bytes"):
            assert row[what] * row["per_second"] < roofs[f"{what}_per_second"], row["params"]
        assert f">{row['params']}<" in plots.roofline()


def test_a_browser_shows_five_pages(site, tmp_path):
    program = shots.browser()
    if program is None:
        pytest.skip("no Chromium: install the package chromium of your system")
    pictures = shots.shoot(program, site, tmp_path)
    assert len(pictures) == 5
    for picture in pictures:
        data = picture.read_bytes()
        # The signature, then width and height in the first chunk.
        assert data[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", data[16:24])[0] == 1300
        assert len(data) > 40_000, f"{picture.name}: an empty page"
    assert len({picture.read_bytes() for picture in pictures}) == 5


def test_the_timeline_is_that_of_the_model():
    script = ROOT / "bench" / "timeline.py"
    assert subprocess.run([sys.executable, str(script), "--check"], check=False).returncode == 0


def test_the_bars_of_tfhe_are_the_rows():
    drawn = plots.tfhe()
    rows = json.loads((ROOT / "bench/results/tfhe.json").read_text(encoding="utf-8"))
    for row in rows:
        if not row["case"].startswith("keygen"):
            assert f">{row['case']}<" in drawn
            for side in ("ours_ms", "peer_ms"):
                assert f">{plots.short(row[side])} ms<" in drawn
    assert f"tfhe {rows[0]['peer_version']}" in drawn
