"""Errors in the name of the call that the user made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from becalm.errors import Error


@contextmanager
def called(op: str) -> Iterator[None]:
    """Gives errors of becalm that are raised inside, or by a decorated function, this name."""
    try:
        yield
    except Error as e:
        e.op = op
        e.args = (f"{op}: wanted {e.wanted}, got {e.got}; {e.remedy}",)
        raise
