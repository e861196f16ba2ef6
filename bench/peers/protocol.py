"""The messages of the workers of `becalm-bench -- ckks`: commands on standard input, a JSON
object a line on standard output, the first one when the keys are made.

    threads N             from now on so many; the answer is empty
    bootstrap MESSAGE     one bootstrap
    multiply | rotate | encrypt | decrypt [LEVEL]    at the highest level, or at LEVEL

MESSAGE: ramp (linspace -1 … 1), complex, ones, signs. A worker is an object with `ready`, what it
says first, and a method for each command, which returns seconds, what came out, what was wanted
and the level.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def message(kind: str, n: int) -> np.ndarray:
    """The values that are encrypted."""
    ramp = np.linspace(-1, 1, n)
    if kind == "complex":
        turn = np.arange(n) * 7 % n
        return ramp * np.exp(2j * np.pi * turn / n)
    return {"ones": np.ones(n), "signs": np.resize([-1.0, 1.0], n)}.get(kind, ramp)


def timed(work: Callable[[], Any]) -> tuple[Any, tuple[float, float]]:
    """Returns the result of `work` and its seconds: on the wall, and of the processor."""
    start = time.perf_counter(), time.process_time()
    made = work()
    return made, (time.perf_counter() - start[0], time.process_time() - start[1])


def resident() -> int:
    """Bytes of memory of this process, where the system tells."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            line = next(line for line in status if line.startswith("VmRSS:"))
    except (OSError, StopIteration):
        return 0
    return int(line.split()[1]) << 10


def answer(worker: Any, line: str) -> dict[str, Any]:
    """The answer to a command."""
    command, *rest = line.split()
    if command == "threads":
        worker.set_threads(int(rest[0]))
        return {}
    if command not in ("bootstrap", "multiply", "rotate", "encrypt", "decrypt"):
        return {"error": f"unknown command {line!r}"}
    if command == "bootstrap":
        seconds, got, wanted, level = worker.bootstrap(rest[0])
    else:
        seconds, got, wanted, level = worker.basic(command, int(rest[0]) if rest else None)
    errors = np.abs(np.asarray(got)[: len(wanted)] - wanted)
    mean, worst = float(np.mean(errors)), float(np.max(errors))
    wall, processor = seconds
    times = {"seconds": wall, "processor": processor}
    return times | {"mean": mean, "max": worst, "level": level}


def serve(make: Callable[[], Any]) -> None:
    """Makes the worker and answers until the input ends."""

    def say(value: dict[str, Any]) -> None:
        print(json.dumps(value), flush=True)

    # An error anywhere is an answer: the other side waits for one.
    try:
        worker = make()
        say(worker.ready)
    except Exception as error:
        say({"error": f"{type(error).__name__}: {error}"})
        return
    for line in filter(str.strip, sys.stdin):
        try:
            say(answer(worker, line))
        except Exception as error:
            say({"error": f"{type(error).__name__}: {error}"})
