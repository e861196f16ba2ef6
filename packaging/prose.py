"""Rules for the sentences of the pages: `python packaging/prose.py` prints those that break one.
With a folder it writes the sentences there too, each on its line, for tools that read plain text.

A sentence has at most LONGEST words, does not begin with "What", and has none of the phrases of
words.txt. Tables, headings, code blocks and formulas are no sentences; code between backticks is
one word.
"""

import json
import re
import sys
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/**/*.ipynb")])
LONGEST = 40
#: The end of a sentence, and the space behind it. Abbreviations, numbers and names end none.
END = re.compile(
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\bal)(?<!\bcf)(?<!\bvs)(?<!\betc)(?:[.!?]|(?<=\s)…)[)\"”*]*\s+"
)
WORD = re.compile(r"[^\W_]")
OPENING = re.compile(r"(?:What|Whatever)\b")


def phrases():
    """The phrases of words.txt: a pattern, and the words to write instead."""
    lines = (ROOT / "packaging" / "words.txt").read_text(encoding="utf-8").splitlines()
    rows = (line.split(" | ") for line in lines if line and not line.startswith("#"))
    return [(re.compile(rf"\b{pattern}\b", re.I), instead) for pattern, instead in rows]


def text_of(page):
    """The text of a page. A notebook has it in cells."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".md":
        return text
    cells = (cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")
    return "\n\n".join("".join(cell["source"]) for cell in cells) + "\n"


def prose(text):
    """Line and text of every paragraph and item of a list; tables and headings are left out."""
    tokens = MarkdownIt().enable("table").parse(text)
    for before, token in pairwise(tokens):
        if token.type == "inline" and before.type == "paragraph_open":
            yield token.map[0] + 1, "".join(plain(child) for child in token.children)


def plain(token):
    """The text that a reader sees; code is one word."""
    if token.type in ("softbreak", "hardbreak"):
        return " "
    if token.type == "code_inline":
        return "code"
    return token.content if token.type == "text" else ""


def sentences(text):
    """Line of the paragraph, and text, of every sentence of a page."""
    for line, paragraph in prose(text):
        for sentence in END.split(paragraph):
            yield line, sentence.strip()


def words(sentence):
    """How many words a sentence has: signs and operators alone count as none."""
    return sum(bool(WORD.search(word)) for word in sentence.split())


def faults(text, banned):
    """Line, rule and text of every sentence that breaks a rule."""
    for line, sentence in sentences(text):
        if words(sentence) > LONGEST:
            yield line, f"{words(sentence)} words, at most {LONGEST}", sentence
        if OPENING.match(sentence):
            yield line, "begin with the subject", sentence
        for pattern, instead in banned:
            if found := pattern.search(sentence):
                yield line, f"“{found[0]}”: {instead}", sentence


def bare(text):
    """The prose of a page alone, every paragraph on the line where it begins."""
    lines = [""] * (text.count("\n") + 1)
    for line, paragraph in prose(text):
        lines[line - 1] = paragraph
    return "\n".join(lines) + "\n"


def main(folder=None):
    banned, found = phrases(), 0
    for page in PAGES:
        text, name = text_of(page), str(page.relative_to(ROOT))
        for line, rule, sentence in faults(text, banned):
            found += 1
            print(f"{name}:{line}: {rule}\n    {sentence}")
        if folder:
            written = Path(folder) / name
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_text(bare(text), encoding="utf-8")
    return f"{found} sentences to write anew" if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
