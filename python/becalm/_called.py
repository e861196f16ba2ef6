"""Errors and warnings about the call that the user made: its name, its line."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

from becalm.errors import Error

F = TypeVar("F", bound=Callable[..., Any])


class called:
    """Gives errors of becalm that are raised inside, or by a decorated function, this name."""

    def __init__(self, op: str) -> None:
        self.op = op

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, e: BaseException | None, trace: object) -> None:
        if isinstance(e, Error):
            e.op = self.op
            e.args = (f"{self.op}: wanted {e.wanted}, got {e.got}; {e.remedy}",)

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def named(*given: Any, **more: Any) -> Any:
            with self:
                return function(*given, **more)

        return named  # type: ignore[return-value]


def warn(text: str, category: type[Warning]) -> None:
    """A warning about the line of the user."""
    warnings.warn(text, category, stacklevel=_outside()[0] - 1)


def line() -> tuple[str, int]:
    """The file and the number of the line of the user."""
    frame = _outside()[1]
    return frame.f_code.co_filename, frame.f_lineno


def _outside() -> tuple[int, FrameType]:
    """The first line on the way here that is not of this package, and how far it is."""
    level, frame = 1, sys._getframe()
    while frame.f_globals.get("__name__", "").partition(".")[0] == "becalm" and frame.f_back:
        level, frame = level + 1, frame.f_back
    return level, frame
