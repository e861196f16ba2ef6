"""Programs of CKKS prepared for the keys of a server: checked, with encoded matrices."""

from __future__ import annotations

from collections.abc import Callable

from becalm import _native
from becalm._ckks_computes import named
from becalm._lock import Lock


class Prepared:
    """Prepared programs of the same keys. The last one with matrices is kept, and matrices of two
    programs are never in memory together.
    """

    __slots__ = ("_keys", "_last", "_lock", "_matrices")

    def __init__(self, keys: _native.CkksKeys, matrices: int | None) -> None:
        self._keys = keys
        self._matrices = matrices
        self._lock = Lock()
        self._last: tuple[tuple[object, ...], _native.CkksPrepared] | None = None

    def of_program(self, program: _native.CkksProgram, diagonals: int) -> _native.CkksPrepared:
        """A user's program: the last one if it is that."""
        if not diagonals:
            return self._prepare(program, "make keys with needs=program.needs")
        with self._lock:
            last = self._last
            if last is not None and last[1].runs(program):
                return last[1]
            self._last = last = None
            ready = self._prepare(program, "make keys with needs=program.needs")
            self._last = (("program",), ready)
            return ready

    def of(
        self, which: tuple[object, ...], remedy: str, record: Callable[[], _native.CkksProgram]
    ) -> _native.CkksPrepared:
        """A bootstrap or tables: the last one if it is the same, or one that takes its matrices if
        they are the same. `remedy` says how to make keys for it.
        """
        with self._lock:
            last = self._last
            if last is not None and last[0] == which:
                return last[1]
            program = record()
            with named(remedy):
                ready = last[1].again(program) if last else None
            if ready is None:
                self._last = last = None
                ready = self._prepare(program, remedy)
            self._last = (which, ready)
            return ready

    def _prepare(self, program: _native.CkksProgram, remedy: str) -> _native.CkksPrepared:
        with named(remedy):
            return _native.CkksPrepared(self._keys, program, self._matrices)
