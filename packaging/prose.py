"""Rules for the sentences of the pages and of the sources: `python packaging/prose.py` prints those
that break one. With a folder it writes the sentences of the pages there too, each on its line, for
tools that read plain text.

A sentence of a page has at most LONGEST words, does not begin with "What", and has none of the
phrases of words.txt. Tables, headings, code blocks and formulas are no sentences; code between
backticks is one word. The same phrases and openings are wrong in sources: in comments that become
documentation or the text of `--help`, in docstrings, and in texts of LEAST words or more, such as
those of errors. Their sentences may be longer, and tests are left out.
"""

import ast
import inspect
import json
import re
import sys
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/**/*.ipynb")])
SOURCES = sorted(
    [
        *(p for p in ROOT.glob("crates/*/src/**/*.rs") if "tests" not in (p.parent.name, p.stem)),
        *ROOT.glob("python/becalm/*.py"),
    ]
)
LONGEST = 40
#: Words of a text in a source that is taken for a sentence.
LEAST = 3
#: A comment of Rust that documents, and a text in its source.
DOCUMENTS = re.compile(r"\s*//[/!] ?(.*)")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.|\\\n\s*)*)"')
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


def faults(text, banned, longest=LONGEST):
    """Line, rule and text of every sentence that breaks a rule."""
    for line, sentence in sentences(text):
        if words(sentence) > longest:
            yield line, f"{words(sentence)} words, at most {longest}", sentence
        if OPENING.match(sentence):
            yield line, "begin with the subject", sentence
        for pattern, instead in banned:
            if found := pattern.search(sentence):
                yield line, f"“{found[0]}”: {instead}", sentence


def texts_of_rust(source):
    """Line and text of what documents, and of what is a text itself, before the unit tests."""
    source = source.split("#[cfg(test)]\nmod ")[0]
    block, begun = [], 0
    for number, line in enumerate([*source.split("\n"), ""], 1):
        if found := DOCUMENTS.fullmatch(line):
            begun = begun if block else number
            block.append(found[1])
        elif block:
            yield begun, "\n".join(block) + "\n"
            block = []
    code = "\n".join("" if DOCUMENTS.fullmatch(line) else line for line in source.split("\n"))
    for found in LITERAL.finditer(code):
        yield code.count("\n", 0, found.start()) + 1, re.sub(r"\\\n\s*", "", found[1])


def texts_of_python(source):
    """Line and text of every docstring and every other text."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, inspect.cleandoc(node.value)


def faults_of_source(name, source, banned):
    """The same of the texts of a source, whatever their length."""
    texts = texts_of_rust if name.endswith(".rs") else texts_of_python
    for line, text in texts(source):
        if words(text) < LEAST:
            continue
        for at, rule, sentence in faults(text, banned, sys.maxsize):
            yield line + at - 1, rule, sentence


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
    for path in SOURCES:
        source, name = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))
        for line, rule, sentence in faults_of_source(name, source, banned):
            found += 1
            print(f"{name}:{line}: {rule}\n    {sentence}")
    return f"{found} sentences to write anew" if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
