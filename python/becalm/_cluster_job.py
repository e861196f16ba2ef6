"""A batch that workers compute: its state, and its results in order."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from becalm import _cluster_batch, _html, _native, _progress
from becalm._cluster_workers import Workers
from becalm._programs import Program
from becalm._progress import Progress
from becalm.errors import DeviceError, Error, Interrupted

#: The longest time between two looks for results.
LOOK = 0.25


class Job(_html.Shown):
    """A batch that workers compute, in order. Iterate over it: each item has the results of one
    chunk.

    Results of finished chunks stand in `folder`. They stay when this process dies, and
    `Cluster.resume` goes on with the others. The memory of this process holds one chunk at a time,
    so a slow reader holds nobody up.

    Examples
    --------
    >>> cluster = becalm.cluster("local", workers=1, threads=1)
    >>> p = becalm.Program("toy_2_2")
    >>> p.output(p.lookup(p.input(), lambda m: m * m % 16))
    >>> job = cluster.map(server, p, secret.encrypt([3, 1, 2]), chunk=2, folder="squares")
    >>> [secret.decrypt(y).tolist() for y in job]
    [[9, 1], [4]]
    """

    __slots__ = (
        "__weakref__",
        "_cancelled",
        "_folder",
        "_native",
        "_progress",
        "_read",
        "_workers",
    )

    def __init__(
        self,
        native: _native.Job | _native.RemoteJob,
        folder: str,
        read: _cluster_batch.Reader,
        workers: Workers,
        progress: Progress,
    ) -> None:
        self._native = native
        self._folder = folder
        self._read = read
        self._workers = workers
        self._progress = progress
        self._cancelled = False

    @property
    def folder(self) -> str:
        """The folder of the job, or its address at a service."""
        return self._folder

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return self._native.facts()[4]

    @property
    def lanes(self) -> int:
        """How many times the program runs."""
        return self._native.facts()[2]

    @property
    def cost(self) -> Any:
        """The cost of the program on one lane, known before anything runs."""
        program: Any = Program.from_bytes(self._program(), allow_insecure=True)
        return program.cost

    @property
    def seconds(self) -> float | None:
        """About how many seconds the whole job takes one worker, finished chunks included.

        Before the first chunk is done it is an estimate for one core, and `None` for CKKS.
        """
        each = self.status()["seconds_per_chunk"]
        if each is not None:
            return float(each) * self.chunks
        return _native.job_seconds(self._program(), self.lanes)

    def _program(self) -> bytes:
        if isinstance(self._native, _native.RemoteJob):
            return self._native.program()
        return pathlib.Path(self.folder, "program.becalm").read_bytes()

    def status(self) -> dict[str, Any]:
        """The state of the job, as `becalm job status --json` tells it.

        Returns
        -------
        dict
            Numbers of chunks, the rate, the workers, failures, and workers that were left out.

        Examples
        --------
        >>> cluster = becalm.cluster("local", workers=1, threads=1)
        >>> p = becalm.Program("toy_2_2")
        >>> p.output(p.input() + 1)
        >>> cluster.map(server, p, secret.encrypt([3, 1]), chunk=1).status()["left"]
        2
        """
        found: dict[str, Any] = json.loads(self._native.status())
        return found

    def workers_for(self, seconds: float) -> int | None:
        """How many workers would finish the job in a time: a hint for an autoscaler.

        Parameters
        ----------
        seconds
            The time.

        Returns
        -------
        int or None
            The number of workers, or none while no chunk is done.

        Examples
        --------
        >>> cluster = becalm.cluster("local", workers=1, threads=1)
        >>> p = becalm.Program("toy_2_2")
        >>> p.output(p.input() + 1)
        >>> cluster.map(server, p, secret.encrypt([3, 1])).workers_for(60.0) is None
        True
        """
        status = self.status()
        each = status["seconds_per_chunk"]
        if each is None:
            return None
        missing = int(status["chunks"] - status["done"])
        wanted = math.ceil(missing * float(each) / max(seconds, 1e-3))
        return min(missing, max(1, wanted))

    def cancel(self) -> None:
        """Stops the work; whoever iterates gets `Interrupted`. Finished chunks stay.

        Examples
        --------
        >>> cluster = becalm.cluster("local", workers=1, threads=1)
        >>> p = becalm.Program("toy_2_2")
        >>> p.output(p.input() + 1)
        >>> job = cluster.map(server, p, secret.encrypt([3, 1]))
        >>> job.cancel()
        >>> try:
        ...     list(job)
        ... except becalm.Interrupted:
        ...     print("stopped")
        stopped
        """
        self._cancelled = True

    def __len__(self) -> int:
        return self.chunks

    def __iter__(self) -> Iterator[Any]:
        given: list[bytes] = []
        with _progress.shown(self._progress, "chunks", 1.0) as tell:
            self._workers.start()
            try:
                for chunk in range(self.chunks):
                    files = self._wait(functools.partial(self._native.results, chunk), tell, chunk)
                    given.append(_mark(files))
                    yield self._read(files)
                self._wait(lambda: self._native.is_complete() or None, tell, self.chunks)
            finally:
                self._workers.stop()
        self._require_given(given)

    def _wait(
        self,
        ask: Callable[[], Any],
        tell: Callable[[int, int], object] | None,
        done: int,
    ) -> Any:
        """Waits until `ask` finds something, and returns it."""
        pause, stuck = 0.01, False
        while True:
            if self._cancelled or (tell is not None and tell(done, self.chunks) is False):
                remedy = f'cluster.resume("{self.folder}") goes on'
                raise Interrupted("map", "to reach the end", "a request to stop before it", remedy)
            found = ask()
            if found is not None:
                return found
            if stuck:
                raise self._stuck()
            # Asked once more, as the last worker may have finished just before.
            stuck = self._workers.idle()
            if not stuck:
                time.sleep(pause)
                pause = min(2 * pause, LOOK)

    def _stuck(self) -> Error:
        status, wanted = self.status(), "to finish the job"
        remedy = f'repair it, then cluster.resume("{self.folder}") goes on with what is left'
        for chunk, failure in status["failed"].items():
            return DeviceError("map", wanted, f"chunk {chunk} failed: {failure['error']}", remedy)
        if status["disputed"]:
            got = f"workers that differ on chunks {status['disputed']}"
            remedy = "resume with another worker, or run `becalm job verify --leave-out`"
            return DeviceError("map", wanted, got, remedy)
        got = f"no worker, {status['done']} of {status['chunks']} chunks done"
        last = self._workers.last_words()
        return DeviceError("map", wanted, f"{got}; {last}" if last else got, remedy)

    def _require_given(self, given: list[bytes]) -> None:
        """Refuses to end well if results that were given were replaced since."""
        if not self.status()["left_out"]:
            return
        wrong = [i for i, mark in enumerate(given) if _mark(self._native.results(i) or []) != mark]
        if wrong:
            got = f"wrong results of chunks {wrong}, which were given and have been replaced since"
            remedy = f'read them again with cluster.resume("{self.folder}")'
            raise DeviceError("map", "right results", got, remedy)

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        scheme, set_, lanes, chunk, chunks, _, exact = self._native.facts()
        return "becalm.Job", [
            ("folder", self.folder),
            ("parameter set", set_),
            ("scheme", scheme),
            ("lanes", f"{lanes:,}"),
            ("chunks", f"{chunks:,} of {chunk:,}"),
            ("results equal", "everywhere" if exact else "on one class of machine"),
        ]

    def __repr__(self) -> str:
        return f"<becalm.Job of {self.lanes} lanes in {self.chunks} chunks, in {self.folder}>"


def _mark(files: list[bytes]) -> bytes:
    return hashlib.sha256(b"".join(files)).digest()
