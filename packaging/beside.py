"""Runs commands beside each other: `python3 packaging/beside.py "cargo test" "pytest -q tests"`.

The first prints as it goes. The output of the others follows when they have ended. Exits with 1 if
one of them fails. Python starts them, because commands in the background of a shell ignore Ctrl-C.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile


def run(commands: list[str]) -> int:
    """An exit status other than 0, if there is one."""
    status = 0
    with contextlib.ExitStack() as open_files:
        logs = [open_files.enter_context(tempfile.TemporaryFile()) for _ in commands[1:]]
        started = []
        for command, log in zip(commands, [None, *logs], strict=True):
            print(command, flush=True)
            started.append(subprocess.Popen(command, shell=True, stdout=log, stderr=log))
        for process, log in zip(started, [None, *logs], strict=True):
            status = process.wait() or status
            if log:
                log.seek(0)
                sys.stdout.buffer.write(log.read())
                sys.stdout.flush()
    return status


if __name__ == "__main__":
    try:
        sys.exit(int(run(sys.argv[1:]) != 0))
    except KeyboardInterrupt:
        sys.exit(130)
