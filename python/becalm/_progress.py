"""Progress in plain text."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: `None`: a bar if people are watching; `True`: a bar; `False`: none; or a function of steps done
#: and steps in all, which stops the work by returning `False` or raising.
Progress = bool | Callable[[int, int], object] | None

WIDTH = 32


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
        left = (now - self.began) * (1 - share) / share if share > 0.02 else None
        line = f"{self.label} [{'#' * full}{'.' * (WIDTH - full)}] {share:4.0%}"
        line += f"  {left:.0f} s left" if left is not None else ""
        print(f"\r{line:<{self.drawn}}", end="", file=sys.stderr, flush=True)
        self.drawn = len(line)

    def clear(self) -> None:
        """Leaves the line empty."""
        if self.drawn:
            print(f"\r{'':<{self.drawn}}\r", end="", file=sys.stderr, flush=True)


@contextmanager
def shown(
    progress: Progress, label: str, delay: float
) -> Iterator[Callable[[int, int], object] | None]:
    """The callback for a choice of progress; the bar goes when the work ends, however it ends."""
    if callable(progress):
        yield progress
    elif progress is False or (progress is None and not (sys.stderr and sys.stderr.isatty())):
        yield None
    else:
        bar = Bar(label, delay)
        try:
            yield bar
        finally:
            bar.clear()
