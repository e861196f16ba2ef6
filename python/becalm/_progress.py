"""Progress: a bar of plain text on a terminal, an element of the page in a notebook."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from becalm.errors import BadInput

#: `None`: a bar if people are watching; `True`: a bar; `False`: none; or a function of steps done
#: and steps in all, 0 if nobody knows, which stops the work by returning `False` or raising.
Progress = bool | Callable[[int, int], object] | None

WIDTH = 32


def say(text: str, end: str = "\n") -> None:
    """Writes to standard error. Where nobody can read it, the work that it tells of goes on."""
    with suppress(OSError, ValueError):
        print(text, end=end, file=sys.stderr, flush=True)


class Bar:
    """A bar on standard error that redraws its line at most ten times a second."""

    def __init__(self, label: str, delay: float) -> None:
        self.label = label
        self.began = time.monotonic()
        self.next = self.began + delay
        self.drawn = 0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self.next:
            return
        self.next = now + 0.1
        share = done / max(total, 1)
        full = int(share * WIDTH)
        line = f"{self.label} [{'#' * full}{'.' * (WIDTH - full)}] {share:4.0%}{self.left(share)}"
        if total <= 0:
            line = f"{self.label} {done} done{self.spent(now)}"
        say(f"\r{line:<{self.drawn}}", end="")
        self.drawn = len(line)

    def left(self, share: float) -> str:
        """The seconds that are left, once they can be estimated."""
        if share <= 0.02:
            return ""
        return f"  {(time.monotonic() - self.began) * (1 - share) / share:.0f} s left"

    def spent(self, now: float) -> str:
        """The seconds since the beginning, where nobody knows the end."""
        return f"  {now - self.began:.0f} s"

    def end(self, whole: bool) -> None:
        """Leaves the line empty."""
        if self.drawn:
            say(f"\r{'':<{self.drawn}}\r", end="")


class NotebookBar(Bar):
    """A bar in the output of a notebook's cell. A line with the time of the work stays there."""

    shown: Any = None

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self.next:
            return
        self.next = now + 0.2
        share = done / max(total, 1)
        bar = f'<progress value="{share:.3f}" max="1"></progress> {share:.0%}{self.left(share)}'
        if total <= 0:
            bar = f"<progress></progress> {done} done{self.spent(now)}"
        self._show(f"{self.label} {bar}")

    def end(self, whole: bool) -> None:
        """Leaves a line of text."""
        if self.shown is not None:
            how = "done" if whole else "stopped"
            self._show(f"{self.label}: {how} after {time.monotonic() - self.began:.1f} s")

    def _show(self, html: str) -> None:
        # A notebook has this module.
        page: Any = importlib.import_module("IPython.display")
        if self.shown is None:
            self.shown = page.display(page.HTML(html), display_id=True)
        else:
            self.shown.update(page.HTML(html))


def in_notebook() -> bool:
    """Whether a kernel of IPython runs this and shows its output in a page."""
    # A notebook has imported IPython. Others should not wait for the import.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


@contextmanager
def shown(
    progress: Progress, label: str, delay: float
) -> Iterator[Callable[[int, int], object] | None]:
    """The callback for a choice of progress; the bar goes when the work ends, however it ends."""
    if callable(progress):
        yield progress
        return
    if not (progress is None or isinstance(progress, (bool, np.bool_))):
        wanted = "True, False, None or a function as progress"
        remedy = "a function takes the number of steps done and of all steps"
        raise BadInput(label, wanted, type(progress).__name__, remedy)
    notebook = in_notebook()
    if (progress is not None and not progress) or (
        progress is None and not notebook and not (sys.stderr and sys.stderr.isatty())
    ):
        yield None
        return
    bar = NotebookBar(label, delay) if notebook else Bar(label, delay)
    whole = False
    try:
        yield bar
        whole = True
    finally:
        bar.end(whole)
