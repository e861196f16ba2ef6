"""Fits docstrings to the site: `>>>` examples become blocks of code, brackets stay."""

import re
from typing import Any

from griffe import Extension, Module, Object

SESSION = re.compile(r"^( *)>>> .*(?:\n\1(?! *$).+)*", re.M)
CODE = re.compile(r"(```.*?```|`[^`]*`)", re.S)


def fitted(text: str) -> str:
    """The docstring as Markdown."""
    if "```" not in text:
        text = SESSION.sub(r"\1```pycon\n\g<0>\n\1```", text)
    parts = CODE.split(text)
    return "".join(p if i % 2 else p.replace("][", r"]\[") for i, p in enumerate(parts))


def fit(found: Object) -> None:
    """Fits the docstrings of an object and of everything defined in it."""
    if found.docstring:
        found.docstring.value = fitted(found.docstring.value)
    for member in found.members.values():
        if not member.is_alias:
            fit(member)


class Docstrings(Extension):
    """Runs when griffe has read a package."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        fit(pkg)
