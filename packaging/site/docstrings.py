"""Fits docstrings to the site: `>>>` examples become blocks of code, brackets stay."""

import re
from typing import Any

from griffe import Extension, Object

SESSION = re.compile(r"^( *)>>> .*(?:\n\1(?! *$).+)*", re.M)
CODE = re.compile(r"(```.*?```|`[^`]*`)", re.S)


def fitted(text: str) -> str:
    """The docstring as Markdown."""
    if "```" not in text:
        text = SESSION.sub(r"\1```pycon\n\g<0>\n\1```", text)
    parts = CODE.split(text)
    return "".join(p if i % 2 else p.replace("][", r"]\[") for i, p in enumerate(parts))


class Docstrings(Extension):
    """Runs on every object that griffe reads."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = fitted(obj.docstring.value)
