"""Batches of unknown number on a cluster: a window of them at a time, results in order."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from becalm import _html, _native, _progress, _values
from becalm._progress import Progress
from becalm.ciphertext import Ciphertext, concatenate
from becalm.errors import BadInput, Interrupted

#: What hears of progress.
Tell = Callable[[int, int], object] | None


@dataclass(frozen=True)
class Item:
    """A batch that was drawn: the program, objects with a `save`, how results are read."""

    program: Any
    inputs: list[Any]
    said: dict[str, Any]

    def lanes(self) -> int:
        """How often the program runs."""
        first = self.inputs[0]
        if isinstance(first, Ciphertext):
            return len(first._lwe)
        return len(self.inputs) // int(self.program.inputs)

    def alike(self, other: Item) -> bool:
        """Whether a job can have both."""
        return self.said == other.said and len(self.inputs) == len(other.inputs)


def joined(items: list[Item]) -> tuple[Any, list[Any], dict[str, Any]]:
    """The batches of a window as one."""
    first = items[0]
    if isinstance(first.inputs[0], Ciphertext):
        columns = zip(*(item.inputs for item in items), strict=True)
        inputs: list[Any] = [concatenate([x.reshape(-1) for x in column]) for column in columns]
    else:
        inputs = [x for item in items for x in item.inputs]
    return first.program, inputs, first.said


class Stream(_html.Shown):
    """Results of batches that an iterator gives, in order: an item for each batch.

    At most `ahead` batches wait in memory. The iterator is asked for the next one only when a
    result was taken, so a slow reader slows it down. Each window of `ahead` batches is a job.

    Examples
    --------
    >>> cluster = becalm.cluster("local", workers=1, threads=1)
    >>> p = becalm.Program("toy_2_2")
    >>> p.output(p.input() + 1)
    >>> batches = (secret.encrypt([m, m + 1]) for m in range(3))
    >>> [secret.decrypt(y).tolist() for y in cluster.map(server, p, batches)]
    [[1, 2], [2, 3], [3, 4]]
    """

    __slots__ = ("_ahead", "_begin", "_cancelled", "_chunks", "_draw", "_progress", "_seconds")

    def __init__(
        self,
        batches: Iterator[Any],
        prepare: Callable[[Any], Item],
        begin: Callable[[tuple[Any, list[Any], dict[str, Any]], int, Progress], Iterable[Any]],
        ahead: int,
        progress: Progress,
    ) -> None:
        hint = operator.length_hint(batches, -1)
        self._chunks = None if hint < 0 else hint
        self._draw: Iterator[Item] = map(prepare, batches)
        self._begin = begin
        self._ahead = ahead
        self._progress = progress
        self._cancelled = False
        self._seconds: float | None = None

    @property
    def chunks(self) -> int | None:
        """How many batches there are, if the iterator says it."""
        return self._chunks

    @property
    def seconds(self) -> float | None:
        """About how many seconds of a core all batches take, from the first; or none.

        Asking draws the first batch. Without a number of batches it is the time of one.
        """
        if self._seconds is None:
            first = next(self._draw, None)
            if first is None:
                return 0.0
            self._draw = itertools.chain([first], self._draw)
            each = _seconds_of(first)
            self._seconds = None if each is None else each * (self._chunks or 1)
        return self._seconds

    def cancel(self) -> None:
        """Stops the work; whoever iterates gets `Interrupted`.

        Examples
        --------
        >>> cluster = becalm.cluster("local", workers=1, threads=1)
        >>> p = becalm.Program("toy_2_2")
        >>> p.output(p.input() + 1)
        >>> stream = cluster.map(server, p, iter([secret.encrypt([3, 1])]))
        >>> stream.cancel()
        >>> try:
        ...     list(stream)
        ... except becalm.Interrupted:
        ...     print("stopped")
        stopped
        """
        self._cancelled = True

    def __iter__(self) -> Iterator[Any]:
        done = 0
        with _progress.shown(self._progress, "chunks", 1.0) as tell:
            waiting = self._window([])
            while waiting:
                self._go_on(tell, done)
                window, waiting = self._split(waiting)
                step = functools.partial(self._told, tell, done)
                results = self._begin(joined(window), window[0].lanes(), step)
                # The batches are in the job now.
                del window
                for result in results:
                    done += 1
                    yield result
                    waiting += itertools.islice(self._draw, len(waiting) < self._ahead)
                waiting = self._window(waiting)
            self._go_on(tell, done)

    def _window(self, waiting: list[Item]) -> list[Item]:
        """Batches up to the most that wait."""
        room = max(0, self._ahead - len(waiting))
        return waiting + list(itertools.islice(self._draw, room))

    @staticmethod
    def _split(waiting: list[Item]) -> tuple[list[Item], list[Item]]:
        """The batches of a job, one for each chunk, and the others. Only the last may be short."""
        first = waiting[0]
        for i, item in enumerate(waiting):
            if not item.alike(first) or item.lanes() > first.lanes():
                return waiting[:i], waiting[i:]
            if item.lanes() < first.lanes():
                return waiting[: i + 1], waiting[i + 1 :]
        return waiting, []

    def _told(self, tell: Tell, before: int, done: int, _: int) -> bool:
        """Tells how many results there are; whether to go on. Nobody may know how many come."""
        shown = tell is None or tell(before + done, self._chunks or 0) is not False
        return shown and not self._cancelled

    def _go_on(self, tell: Tell, done: int) -> None:
        if not self._told(tell, done, 0, 0):
            remedy = "map what is left: results that were given stay"
            raise Interrupted("map", "every batch", "a request to stop before the last", remedy)

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        known = "unknown" if self._chunks is None else f"{self._chunks:,}"
        return "becalm.Stream", [("batches", known), ("most that wait", f"{self._ahead:,}")]

    def __repr__(self) -> str:
        return f"<becalm.Stream of {self._facts()[1][0][1]} batches, at most {self._ahead} waiting>"


def _seconds_of(item: Item) -> float | None:
    return _native.job_seconds(item.program.to_bytes(), item.lanes())


def ahead_of(ahead: Any, workers: int) -> int:
    """How many batches wait: four for each worker, if nobody says."""
    most = 4 * workers if ahead is None else _values.count("map", "ahead", ahead)
    if most < 1:
        raise BadInput("map", "at least one batch ahead", str(most), "leave ahead out")
    return most
