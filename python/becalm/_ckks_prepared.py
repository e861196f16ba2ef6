"""The session of a server of CKKS: its keys on a machine, with encoded matrices."""

from __future__ import annotations

from collections.abc import Callable

from becalm import _native
from becalm._computes import named
from becalm._lock import Lock


class Sessions:
    """Sessions of the same keys. The last one with matrices is kept, and matrices of two programs
    are never in memory together.
    """

    __slots__ = ("_keys", "_last", "_lock", "_matrices")

    def __init__(self, keys: _native.CkksKeys, matrices: int | None) -> None:
        self._keys = keys
        self._matrices = matrices
        self._lock = Lock()
        self._last: tuple[tuple[object, ...], _native.CkksSession] | None = None

    def of_program(self, program: _native.CkksProgram, diagonals: int) -> _native.CkksSession:
        """A session of a user's program: the last one if that runs it."""
        if not diagonals:
            return self._opened(program, "make keys with needs=program.needs")
        with self._lock:
            last = self._last
            if last is not None and last[1].runs(program):
                return last[1]
            self._last = last = None
            session = self._opened(program, "make keys with needs=program.needs")
            self._last = (("program",), session)
            return session

    def of(
        self, which: tuple[object, ...], remedy: str, record: Callable[[], _native.CkksProgram]
    ) -> _native.CkksSession:
        """The session of a bootstrap or of tables: the last one if it is of the same, or one that
        takes its matrices if they are the same. `remedy` says how to make keys for it.
        """
        with self._lock:
            last = self._last
            if last is not None and last[0] == which:
                return last[1]
            program = record()
            with named(remedy):
                session = last[1].again(program) if last else None
            if session is None:
                self._last = last = None
                session = self._opened(program, remedy)
            self._last = (which, session)
            return session

    def _opened(self, program: _native.CkksProgram, remedy: str) -> _native.CkksSession:
        with named(remedy):
            return _native.CkksSession(self._keys, program, self._matrices)
