"""A lock that a forked child does not wait for."""

from __future__ import annotations

import os
import threading
from types import TracebackType


class Lock:
    """A `threading.Lock` for each process: no thread of a parent holds the lock of a forked
    child.
    """

    __slots__ = ("_of_process",)

    def __init__(self) -> None:
        self._of_process: dict[int, threading.Lock] = {}

    def _mine(self) -> threading.Lock:
        # `setdefault` is one step: two threads get the same lock.
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
