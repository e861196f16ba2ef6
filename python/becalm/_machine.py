"""The machine that computes, as people are told of it."""

from __future__ import annotations

from typing import Protocol

from becalm._called import warn


class Runs(Protocol):
    """Something native that runs programs on a machine."""

    @property
    def info(self) -> tuple[str, str, int]: ...
    @property
    def fallback(self) -> tuple[str, bool] | None: ...


def where(on: Runs) -> str:
    """The machine that computes, and why it is not a GPU where it might have been one."""
    name, description, _ = on.info
    fallback = on.fallback
    return f"on {name} ({description}{f'; no GPU: {fallback[0]}' if fallback else ''})"


def no_gpu(why: str) -> None:
    """Warns that a GPU of this computer is not used."""
    remedy = 'device="cpu" says that this is meant'
    warn(f"becalm computes on the CPU, not the GPU: {why}; {remedy}", RuntimeWarning)
