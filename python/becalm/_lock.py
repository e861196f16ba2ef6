"""A lock that a forked child does not wait for."""

from __future__ import annotations

import os
import threading
from types import TracebackType


class Lock:
    """`threading.Lock`, one for each process: that of a forked child is not held by a thread that
    only its parent has.
    """

    __slots__ = ("_of_process",)

    def __init__(self) -> None:
        self._of_process: dict[int, threading.Lock] = {}

    def _mine(self) -> threading.Lock:
        # In one step, so that two threads do not get two.
        return self._of_process.setdefault(os.getpid(), threading.Lock())

    def __enter__(self) -> None:
        self._mine().acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._mine().release()
