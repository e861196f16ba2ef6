"""The names that a module shows: its public ones, without those that it imports."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def names(public: Sequence[str]) -> Callable[[], list[str]]:
    """A module's `__dir__` for the names of its `__all__`."""

    def __dir__() -> list[str]:
        return sorted([*public, "__doc__", "__file__", "__name__"])

    return __dir__
