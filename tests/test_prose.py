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
