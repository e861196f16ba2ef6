"""`python -m becalm`: the same command as `becalm`, in one process with the library."""

from __future__ import annotations

import signal
import sys

from becalm import _native


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; its exit status."""
    # The command runs outside the interpreter, which would only notice Ctrl-C when it is over.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.main(["becalm", *(sys.argv[1:] if arguments is None else arguments)])


if __name__ == "__main__":
    sys.exit(main())
