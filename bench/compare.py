#!/usr/bin/env python3
"""Two wheels of becalm by turns, so that no row gets slower by accident.

    python3 bench/compare.py OLD.whl NEW.whl --rounds 15

Each wheel runs in a process of its own, on one thread, with the same calls. They take turns, who
begins changes, and a turn is long enough to be timed. A turn counts the processor time of its
process, so other work on the machine disturbs it little. The ratio of a row is the median over
rounds of new to old; its quartiles stand beside it. Every result is decrypted and checked once.
Calls are those that both versions have. numpy must be installed.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

with contextlib.suppress(ImportError):
    # A worker has both; the process that compares needs neither.
    import numpy as np

    import becalm

#: Least processor time of a turn, in seconds.
TURN = 0.4

#: A call that a row repeats, and the check of its result.
Row = tuple[Callable[[], Any], Callable[[Any], bool]]


def tfhe(name: str, count: int) -> dict[str, Row]:
    """Bootstraps: of one ciphertext, and of a batch."""
    secret, server = becalm.keygen(name, threads=1, device="cpu", progress=False)

    def row(values: list[int]) -> Row:
        x = secret.encrypt(values, below=2)
        wanted = [1 - v for v in values]

        def right(y: Any) -> bool:
            return bool(np.all(np.asarray(secret.decrypt(y)) == wanted))

        return lambda: server.bootstrap(x, lambda m: 1 - m % 2), right

    return {"one": row([1]), f"batch of {count}": row([i % 2 for i in range(count)])}


def integers(bits: int) -> dict[str, Row]:
    """Arithmetic on arrays of unsigned integers."""
    secret, server = becalm.keygen("tfhe_2_2", threads=1, device="cpu", progress=False)
    kind, most = becalm.uint(bits), 1 << bits
    a = np.array([most - 2, 3, most // 3, 7])
    b = np.array([5, 200, most // 5, most - 1])
    x, y = (kind.encrypt(secret, v.tolist()).on(server) for v in (a, b))

    def row(run: Callable[[], Any], wanted: Any) -> Row:
        return run, lambda z: bool(np.all(np.asarray(z.decrypt(secret)) == wanted))

    return {
        "add": row(lambda: x + y, (a + b) % most),
        "multiply": row(lambda: x * y, (a * b) % most),
        "compare": row(lambda: x > y, a > b),
        "greatest": row(lambda: x.max(), a.max()),
    }


def ckks(name: str, bootstrap: str | None) -> dict[str, Row]:
    """A bootstrap if there is one, products, rotations and what a client does."""
    keys = {"bootstrap": bootstrap, "threads": 1, "progress": False}
    secret, server = becalm.ckks.keygen(name, rotations=[1], **keys)
    values = np.linspace(-0.5, 0.5, 1024)
    x = secret.encrypt(np.resize(values, server.slots))
    given = secret.decrypt(x)

    def row(run: Callable[[], Any], wanted: Any) -> Row:
        return run, lambda z: bool(np.abs(secret.decrypt(z) - wanted).max() < 1e-3)

    rows = {
        "multiply": row(lambda: x * x, given * given),
        "rotate": row(lambda: server.rotate(x, 1), np.roll(given, -1)),
        "add": row(lambda: x + x, 2 * given),
        "encrypt": row(lambda: secret.encrypt(given), given),
    }
    if bootstrap:
        low = secret.encrypt(given, level=3)
        rows["bootstrap"] = row(lambda: server.bootstrap(low), given)
    return rows


#: Sets of TFHE with small rings.
SETS = ("tfhe_1_1", "tfhe_2_2", "tfhe_2_2_p", "tfhe_2_2_multi_bit_3", "tfhe_boolean", "fast_2_2")

#: What both versions make ready, by name.
GROUPS: dict[str, Callable[[], dict[str, Row]]] = {
    **{f"tfhe/{n}": functools.partial(tfhe, n, 16) for n in SETS},
    "tfhe/tfhe_3_3": functools.partial(tfhe, "tfhe_3_3", 4),
    **{f"integers/uint{n}": functools.partial(integers, n) for n in (8, 16, 32)},
    "ckks/ckks_n14": functools.partial(ckks, "ckks_n14", None),
    "ckks/ckks_regular": functools.partial(ckks, "ckks_regular", "small"),
}


def work() -> None:
    """Makes the groups and runs the rows that are asked for, line by line."""
    rows: dict[str, Row] = {}
    for line in sys.stdin:
        verb, what = line.rstrip("\n").split("\t")
        if verb == "group":
            rows = GROUPS[what]()
            print(json.dumps(list(rows)), flush=True)
            continue
        run, right = rows[what]
        if verb == "check":
            print(json.dumps(right(run())), flush=True)
            continue
        began, count = time.process_time(), 0
        while (spent := time.process_time() - began) < TURN or not count:
            run()
            count += 1
        print(json.dumps(spent / count), flush=True)


class Side:
    """A wheel, unpacked, and its process."""

    def __init__(self, wheel: pathlib.Path, folder: pathlib.Path) -> None:
        self.wheel, self.folder = wheel, folder
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(folder)

    def __enter__(self) -> Side:
        path = os.pathsep.join(filter(None, (str(self.folder), os.environ.get("PYTHONPATH"))))
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--work"],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()

    def ask(self, verb: str, what: str) -> Any:
        """The answer of the process to one line."""
        assert self.process.stdin and self.process.stdout
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{verb}\t{what}\n")
            self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.wheel.name} ended in {what}")
        return json.loads(answer)


def measured(sides: list[Side], group: str, case: str, rounds: int) -> Iterator[dict[str, Any]]:
    """The rows of a group."""
    names = [set(side.ask("group", group)) for side in sides]
    for row in sorted(name for name in names[0] & names[1] if case in f"{group}/{name}"):
        if not all(side.ask("check", row) for side in sides):
            raise SystemExit(f"{group}/{row}: a result is wrong")
        times: list[list[float]] = [[], []]
        for turn in range(rounds):
            for i in (0, 1) if turn % 2 else (1, 0):
                times[i].append(sides[i].ask("time", row))
        ratios = [new / old for old, new in zip(*times, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        old, new = (statistics.median(t) * 1e3 for t in times)
        facts = {"row": f"{group}/{row}", "old_ms": old, "new_ms": new}
        yield {**facts, "ratio": middle, "quartiles": [low, high], "rounds": rounds}


def main() -> None:
    """The table of ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheels", nargs="*", type=pathlib.Path, metavar="OLD.whl NEW.whl")
    parser.add_argument("--case", default="", help="only rows whose names contain this")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows here")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work()
    if len(args.wheels) != 2 or args.rounds < 2:
        parser.error("give two wheels, and at least two rounds")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        print("| row | old, ms | new, ms | new / old | quartiles |\n|---|--:|--:|--:|---|")
        named = [group for group in GROUPS if args.case in group]
        for group in named or [g for g in GROUPS if args.case.rpartition("/")[0] in g]:
            places = [pathlib.Path(folder, name) for name in ("old", "new")]
            pairs = zip(args.wheels, places, strict=True)
            with contextlib.ExitStack() as stack:
                sides = [stack.enter_context(Side(*pair)) for pair in pairs]
                for row in measured(sides, group, args.case, args.rounds):
                    low, high = row["quartiles"]
                    times = f"{row['old_ms']:.4g} | {row['new_ms']:.4g}"
                    spread = f"{low:.3f} to {high:.3f}"
                    print(f"| {row['row']} | {times} | {row['ratio']:.3f} | {spread} |", flush=True)
                    rows.append(row)
    if not rows:
        raise SystemExit(f"no row contains {args.case!r}; groups: {', '.join(GROUPS)}")
    if args.json:
        args.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
