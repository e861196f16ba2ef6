"""Errors in the name of the call that the user made."""

from __future__ import annotations

import functools
from collections.abc import Callable
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
