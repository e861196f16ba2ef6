"""A model of a job on 1 to 1024 workers: `python bench/cluster_model.py JOB`.

The times of chunks and the bytes of files are those of a finished job. What the disk does, and how
often workers die, are assumptions, which the options name. Nothing here is a measurement of many
workers.
"""

from __future__ import annotations

import argparse
import heapq
import json
import pathlib
import random

#: Operations on files for a chunk: its claim, reads, writes, names and the rename.
OWN = 12
#: Operations for each chunk of another worker that a worker steps over: a look and a claim.
STEP = 2
#: After so many in a row it lists the folders instead.
MISSES = 8
#: Names that a disk lists in one operation.
NAMES = 100
WORKERS = (1, 8, 16, 64, 256, 1024)


class Station:
    """A disk that serves one request after another."""

    def __init__(self) -> None:
        self.free = 0.0

    def serve(self, now: float, seconds: float) -> float:
        """When a request that takes so long is served."""
        self.free = max(self.free, now) + seconds
        return self.free


def measured(job: pathlib.Path) -> tuple[list[float], float]:
    """Seconds of each chunk, and mean bytes that a chunk moves."""
    seconds = [
        json.loads(path.read_text())["milliseconds"] / 1e3
        for path in sorted(job.glob("out/[0-9]*/done.json"))
    ]
    if not seconds:
        raise SystemExit(f"{job}: no chunk is done")
    files = [p for place in ("in", "out") for p in job.glob(f"{place}/[0-9]*/*")]
    return seconds, sum(p.stat().st_size for p in files) / len(seconds)


def simulated(seconds: list[float], size: float, workers: int, said: argparse.Namespace) -> float:
    """The time from the first claim to the last result."""
    dice, disk, last = random.Random(said.seed), Station(), 0.0
    left, chunk = said.chunks, 0
    # When each worker wants the disk, how far it has looked, and whether it has results to write.
    queue = [(0.0, worker, 0, False) for worker in range(workers)]
    stale: list[float] = []
    while left:
        now, worker, at, writes = heapq.heappop(queue)
        if writes:
            last, left = disk.serve(now, size / said.bandwidth / 2), left - 1
            heapq.heappush(queue, (last, worker, at, False))
            continue
        if chunk < said.chunks:
            steps, chunk = chunk - at, chunk + 1
        elif stale and stale[0] <= now:
            heapq.heappop(stale)
            steps = 0
        else:
            # It waits for others, and looks every half second.
            heapq.heappush(queue, (now + 0.5, worker, at, False))
            continue
        # It lists results and claims: about as many names as chunks were taken so far.
        listing = chunk / NAMES if steps > MISSES else 0.0
        operations = OWN + STEP * min(steps, MISSES) + listing
        now = disk.serve(now, operations / said.operations + size / said.bandwidth / 2)
        work = said.factor * dice.choice(seconds)
        if dice.random() < work / said.lifetime:
            # It dies in the middle. Its chunk is free after the lease, and another worker starts.
            heapq.heappush(stale, now + work / 2 + said.lease)
            heapq.heappush(queue, (now + work / 2 + said.restart, worker, chunk, False))
            continue
        heapq.heappush(queue, (now + work, worker, chunk, True))
    return last


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("job", type=pathlib.Path, help="the folder of a finished job")
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--factor", type=float, default=1.0, help="larger chunks: times and bytes")
    parser.add_argument("--operations", type=float, default=20_000.0, help="of files a second")
    parser.add_argument("--bandwidth", type=float, default=1e9, help="bytes a second of the disk")
    parser.add_argument("--lifetime", type=float, default=864_000.0, help="seconds of a worker")
    parser.add_argument("--lease", type=float, default=60.0)
    parser.add_argument("--restart", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    said = parser.parse_args()
    seconds, size = measured(said.job)
    mean = said.factor * sum(seconds) / len(seconds)
    print(f"{said.chunks} chunks of {mean:.3g} s and {said.factor * size:.3g} bytes (assumed disk:")
    print(f"{said.operations:g} operations and {said.bandwidth:g} bytes a second)\n")
    print("| workers | seconds | of the ideal |\n|--:|--:|--:|")
    for workers in WORKERS:
        time = simulated(seconds, said.factor * size, workers, said)
        print(f"| {workers} | {time:.0f} | {mean * said.chunks / workers / time:.0%} |")


if __name__ == "__main__":
    main()
