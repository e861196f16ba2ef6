"""The pages are written in plain sentences, by the rules of packaging/prose.py."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "packaging"))
import prose  # noqa: E402

PHRASES = prose.phrases()


@pytest.mark.parametrize("page", prose.PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_sentences_are_short_and_plain(page):
    found = prose.faults(prose.text_of(page), PHRASES)
    wrong = [f"{page.name}:{line}: {rule}\n    {sentence}" for line, rule, sentence in found]
    assert not wrong, "\n".join(wrong)


def test_sentences_of_sources_are_plain():
    wrong = []
    for path in prose.SOURCES:
        source = path.read_text(encoding="utf-8")
        for line, rule, sentence in prose.faults_of_source(path.name, source, PHRASES):
            wrong.append(f"{path.relative_to(ROOT)}:{line}: {rule}\n    {sentence}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "name, source",
    [
        ("a.rs", "/// The kinds,\n/// by default that of the program.\nfn f() {}\n"),
        ("a.rs", "fn f() {}\n    /// What it records.\n    g: u8,\n"),
        ("a.rs", 'fn f() {\n    g("a key of others \\\n        is refused");\n}\n'),
        ("a.py", 'def f():\n    """A table.\n\n    What is left comes back."""\n'),
        ("a.py", 'raise BadInput("f", "a key", "none that is to be had", "make one")\n'),
        ("a.py", 'f"the key {k} is refused, too"\n'),
    ],
)
def test_a_source_that_breaks_a_rule_is_found(name, source):
    found = list(prose.faults_of_source(name, source, PHRASES))
    assert len(found) == 1, found


def test_unit_tests_and_code_are_no_sentences():
    source = "// What is refused.\nlet x = 1;\n#[cfg(test)]\nmod tests {\n/// What is refused.\n}\n"
    assert not list(prose.faults_of_source("a.rs", source, PHRASES))


@pytest.mark.parametrize(
    "sentence",
    [
        f"{'word ' * 40}end.",
        "What is refused has no effect.",
        "What has a key may pass.",
        "Programs run in the clear.",
        "A key that does not fit is refused.",
        "Other sets are refused, too.",
        "Numpy's functions give what there is.",
        "There is nothing to be had here.",
        "The set is by default that of the key.",
    ],
)
def test_a_sentence_that_breaks_a_rule_is_found(sentence):
    assert list(prose.faults(f"First. {sentence}\n", PHRASES))
    assert list(prose.faults(f"- An item\n- {sentence}\n", PHRASES))


def test_sentences_end_where_readers_see_their_end():
    table = "| What is | a |\n|---|---|\n"
    text = f"One, e.g. this. `code` begins another: it goes on.\n\n# What is it\n\n{table}"
    assert [s for _, s in prose.sentences(text)] == [
        "One, e.g. this",
        "code begins another: it goes on.",
    ]
    assert prose.words("`a` + b = 2 – c") == 4


def test_the_changelog_of_a_version_fits_a_page():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for version in text.split("\n## ")[1:]:
        assert len(version.splitlines()) <= 60, version.splitlines()[0]


def test_plain_text_keeps_the_lines():
    assert prose.bare("# Title\n\nA *word*\nand `code`.\n") == "\n\nA word and code.\n\n\n"
