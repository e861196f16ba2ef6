"""How jobs scale, and what their folder costs: `python bench/cluster.py [--set NAME]`.

One worker and two, of one thread each, compute the same chunks by turns. Where other programs have
the cores too, the clock tells little, so the table has processor time: two workers do as much as
twice one if a chunk takes each of them as much processor time as it takes one alone. The folder is
measured by itself: a process claims chunks, reads their inputs, and puts results in place that were
computed before. Its share is that of processor time too; the clock, which counts the disk and the
other programs, stands beside it. Medians count.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import becalm
from becalm import _native


def spent() -> float:
    """Processor seconds of the processes that have ended."""
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return use.ru_utime + use.ru_stime


def worked(folder: pathlib.Path, workers: int) -> tuple[float, float]:
    """Seconds by the clock and processor seconds of workers that do a job."""
    line = [sys.executable, "-m", "becalm", "job", "work", str(folder), "--allow-insecure"]
    line += ["--threads", "1", "--device", "cpu"]
    began, before = time.monotonic(), spent()
    names = [[*line, "--name", f"w{i}"] for i in range(workers)]
    null = subprocess.DEVNULL
    running = [subprocess.Popen(each, stdout=null, stderr=null) for each in names]
    statuses = [process.wait() for process in running]
    if any(statuses):
        raise SystemExit("a worker failed")
    return time.monotonic() - began, spent() - before


class Batch:
    """Keys, and jobs of chunks that take about so many seconds of a core."""

    def __init__(self, name: str, seconds: float, chunks: int, folder: pathlib.Path) -> None:
        self.secret, self.server = becalm.keygen(name, allow_insecure=True, progress=False)
        self.program = becalm.Program(name)
        x = self.program.input()
        self.program.output(self.program.lookup(x, lambda m: m))
        self.folder, self.chunks, self.made = folder, chunks, 0
        self.lanes = 16
        alone = self.measured(1)
        several = self.measured(65)
        each = max(1e-6, (several - alone) / (64 * self.lanes))
        self.lanes = max(1, round(seconds / each))
        #: Processor seconds of a worker without chunks: it starts and opens the keys.
        self.start = max(0.0, alone - 16 * each)

    def measured(self, chunks: int) -> float:
        """Processor seconds of a worker for so many chunks."""
        return worked(self.job(chunks), 1)[1]

    def job(self, chunks: int) -> pathlib.Path:
        """A new job."""
        self.made += 1
        folder = self.folder / f"job-{self.made}"
        x = self.secret.encrypt([1] * (chunks * self.lanes))
        cluster = becalm.cluster("local", workers=1)
        cluster.map(self.server, self.program, x, chunk=self.lanes, folder=folder)
        return folder


def scaling(batch: Batch, rounds: int) -> list[tuple[float, float, float, float]]:
    """Clock and processor seconds of a chunk, by one worker and by two, by turns."""
    rows = []
    for number in range(rounds):
        found: dict[int, tuple[float, float]] = {}
        for workers in (1, 2) if number % 2 == 0 else (2, 1):
            clock, processor = worked(batch.job(batch.chunks), workers)
            own = processor - workers * batch.start
            found[workers] = clock / batch.chunks, own / batch.chunks
        rows.append((*found[1], *found[2]))
    return rows


def overhead(batch: Batch) -> list[tuple[float, float]]:
    """Seconds that the folder takes for each chunk, by the clock and of the processor."""
    folder = batch.job(batch.chunks)
    job = _native.Job.open(str(folder))
    runner = _native.JobRunner(str(folder), "cpu", 1, True)
    kind, times = runner.class_of_results(), []
    made = runner.run(job.inputs(0))
    for _ in range(batch.chunks):
        began, before = time.perf_counter(), time.process_time()
        loan, _ = job.lend("folder", kind, 60.0, 600.0)
        if loan is None:
            raise SystemExit("no chunk is left")
        job.inputs(loan.chunk)
        job.finish(loan, kind, made)
        times.append((time.perf_counter() - began, time.process_time() - before))
    return times


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", default="toy_2_2_p")
    parser.add_argument("--seconds", type=float, default=2.0, help="processor time of a chunk")
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="becalm-bench-") as place:
        batch = Batch(args.set, args.seconds, args.chunks, pathlib.Path(place))
        rows, times = scaling(batch, args.rounds), overhead(batch)
    middle = [statistics.median(column) for column in zip(*rows, strict=True)]
    clock, folder = (statistics.median(column) for column in zip(*times, strict=True))
    found: dict[str, Any] = {
        "set": args.set,
        "lanes_of_a_chunk": batch.lanes,
        "processor_seconds_of_a_chunk": [round(middle[1], 3), round(middle[3], 3)],
        "two_workers_by_processor_time": round(2 * middle[1] / middle[3], 3),
        "two_workers_by_the_clock": round(middle[0] / middle[2], 3),
        "folder_milliseconds_by_the_clock": round(1e3 * clock, 2),
        "folder_milliseconds_by_processor": round(1e3 * folder, 2),
        "folder_share": round(folder / (folder + middle[1]), 5),
    }
    if args.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name.replace('_', ' '):32} {value}")


if __name__ == "__main__":
    main()
