"""`python -m becalm`: the same command as `becalm`, in one process with the library."""

from __future__ import annotations

import os
import signal
import sys

from becalm import _native


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; its exit status."""
    # A file that takes the place of a closed standard stream would get what is printed.
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(opened)
    # The command runs outside the interpreter, which would only notice Ctrl-C when it is over.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.main(["becalm", *(sys.argv[1:] if arguments is None else arguments)])


if __name__ == "__main__":
    sys.exit(main())
