"""Workers of a job: those that others start, those of a service, processes, actors of Ray."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from typing import Any

from becalm import _native
from becalm.errors import Error, Unsupported

#: Seconds after which a process that was asked to end is killed.
GRACE = 10.0


@dataclass(frozen=True)
class Choice:
    """How workers of a job work."""

    #: How many.
    workers: int
    #: Threads of each; 0 for all.
    threads: int
    #: Name of the machine.
    device: str
    #: Seconds after which the claim of a worker that gives no sign of life is stale.
    lease: float
    #: Seconds without a step, or for a chunk on Ray, after which a worker counts as hanging.
    patience: float
    #: How often a worker is started again, and how often a chunk may fail.
    retries: int


class Workers:
    """Workers that others start on the folder."""

    def start(self) -> None:
        """Starts them."""

    def stop(self) -> None:
        """Ends them; their chunks are given back."""

    def idle(self) -> bool:
        """Whether nobody will work on what is left."""
        return False

    def last_words(self) -> str:
        """The last line of a worker that ended, or nothing."""
        return ""


class ServiceWorkers(Workers):
    """Workers of a service, which tries a chunk that failed again when others are done."""

    def __init__(self, job: _native.RemoteJob) -> None:
        self._job = job

    def idle(self) -> bool:
        status = json.loads(self._job.status())
        return bool(status["failed"] or status["disputed"])


class Processes(Workers):
    """Processes of this machine that run `becalm job work`."""

    def __init__(self, folder: str, choice: Choice) -> None:
        self._folder, self._choice = folder, choice
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._starts = [0] * choice.workers
        self._errors: Any = None

    def start(self) -> None:
        if self._errors is None:
            # Open as long as the processes are; `stop` closes it.
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        for index in range(self._choice.workers):
            if index not in self._running:
                self._open(index)

    def _open(self, index: int) -> None:
        choice = self._choice
        line = [sys.executable, "-m", "becalm", "job", "work", self._folder, "--allow-insecure"]
        line += ["--name", f"local-{index}", "--threads", str(choice.threads)]
        line += ["--device", choice.device, "--lease", str(choice.lease)]
        line += ["--patience", str(choice.patience)]
        null = subprocess.DEVNULL
        process = subprocess.Popen(line, stdin=null, stdout=null, stderr=self._errors)
        self._running[index] = process
        self._starts[index] += 1

    def idle(self) -> bool:
        for index, process in list(self._running.items()):
            if process.poll() is not None and self._starts[index] <= self._choice.retries:
                self._open(index)
        return all(process.poll() is not None for process in self._running.values())

    def last_words(self) -> str:
        self._errors.seek(0)
        lines: list[str] = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def stop(self) -> None:
        for process in self._running.values():
            process.terminate()
        until = time.monotonic() + GRACE
        for process in self._running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
            if process.poll() is None:
                process.kill()
                process.wait()
        self._running.clear()
        self._starts = [0] * self._choice.workers
        if self._errors is not None:
            self._errors.close()
            self._errors = None


class Host:
    """A session of a job in an actor: program and keys stand in one folder of each host."""

    def __init__(self, job: str, files: dict[str, Any], device: str, threads: int) -> None:
        import ray

        folder = os.path.join(tempfile.gettempdir(), f"becalm-{os.getuid()}-{job}")
        if not os.path.isdir(folder):
            made = tempfile.mkdtemp(prefix="becalm-")
            for name, reference in files.items():
                # The array lies in the memory that processes of a host share.
                pathlib.Path(made, name).write_bytes(memoryview(ray.get(reference)))
            try:
                os.rename(made, folder)
            except OSError:
                # Another actor was first.
                shutil.rmtree(made)
        if os.stat(folder).st_uid != os.getuid():
            remedy = "remove it, or set another TMPDIR"
            raise Unsupported("cluster", "a folder of this user", folder, remedy)
        self._runner = _native.JobRunner(folder, device, threads, True)

    def class_of_results(self) -> str:
        """The class of arithmetic."""
        return self._runner.class_of_results()

    def run(self, *inputs: bytes) -> tuple[str, list[bytes]]:
        """The class of arithmetic, and the results of a chunk."""
        results = self._runner.run(list(inputs))
        return self._runner.class_of_results(), results


@dataclass
class _Actor:
    handle: Any
    name: str
    kind: str = ""
    loan: _native.JobLoan | None = None
    began: float = 0.0
    ended: bool = False


class RayWorkers(Workers):
    """Actors of Ray. The driver claims chunks for them and puts results in place, so the machines
    need not share a disk."""

    def __init__(self, job: _native.Job, folder: str, address: str | None, choice: Choice) -> None:
        self._job, self._folder, self._address = job, folder, address
        self._choice = choice
        self._actors: list[_Actor] = []
        self._running: dict[Any, _Actor] = {}
        self._deaths: dict[int, int] = {}
        self._started = 0
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self) -> None:
        if self._thread is not None:
            return
        import numpy as np
        import ray

        if not ray.is_initialized():
            ray.init(address=self._address, log_to_driver=False)
        names = [n for n in os.listdir(self._folder) if n.endswith((".json", ".becalm"))]
        places = {n: os.path.join(self._folder, n) for n in names}
        self._files = {n: ray.put(np.fromfile(p, np.uint8)) for n, p in places.items()}
        self._id = hashlib.sha256(pathlib.Path(places["job.json"]).read_bytes()).hexdigest()[:32]
        gpus = int(self._choice.device == "cuda")
        # A worker that died is replaced here: Ray would give it the task of before again.
        cpus = max(self._choice.threads, 1)
        self._class = ray.remote(num_cpus=0 if gpus else cpus, num_gpus=gpus)(Host)
        for _ in range(self._choice.workers):
            self._open()
        self._thread = threading.Thread(target=self._lead, name="becalm-cluster", daemon=True)
        self._thread.start()

    def _open(self) -> None:
        choice = self._choice
        handle: Any = self._class.remote(self._id, self._files, choice.device, choice.threads)
        actor = _Actor(handle, f"ray-{self._started}", began=time.monotonic())
        self._started += 1
        self._actors.append(actor)
        self._running[handle.class_of_results.remote()] = actor

    def _lead(self) -> None:
        import ray

        try:
            while not self._end.is_set():
                self._feed()
                if not self._running:
                    self._end.wait(0.1)
                    continue
                ready, _ = ray.wait(list(self._running), timeout=0.2)
                for reference in ready:
                    self._take(reference, self._running.pop(reference))
                self._look()
        except BaseException as e:
            self._error = e

    def _feed(self) -> None:
        """A chunk for each actor that has none."""
        busy = {id(actor) for actor in self._running.values()}
        for actor in [a for a in self._actors if id(a) not in busy]:
            choice = self._choice
            # The driver notes a step while it looks, and judges by time itself.
            try:
                loan, actor.ended = self._job.lend(actor.name, actor.kind, choice.lease, 60.0)
            except Error:
                # It returned wrong results and is left out.
                self._close(actor)
                continue
            if loan is None:
                continue
            try:
                inputs = self._job.inputs(loan.chunk)
            except Error as e:
                self._job.fail(loan, str(e))
                continue
            actor.loan, actor.began = loan, time.monotonic()
            self._running[actor.handle.run.remote(*inputs)] = actor

    def _take(self, reference: Any, actor: _Actor) -> None:
        import ray

        loan, actor.loan = actor.loan, None
        try:
            made = ray.get(reference)
        except ray.exceptions.RayActorError as e:
            self._died(actor, loan, str(e))
        except Exception as e:
            if loan is None:
                raise
            self._job.fail(loan, str(e))
        else:
            if loan is None:
                actor.kind = made
                return
            actor.kind, results = made
            with contextlib.suppress(Error):
                # An error of the disk gives the chunk back, and so does one of a worker left out.
                self._job.finish(loan, actor.kind, results)

    def _died(self, actor: _Actor, loan: _native.JobLoan | None, why: str) -> None:
        self._close(actor)
        chunk = -1 if loan is None else loan.chunk
        self._deaths[chunk] = self._deaths.get(chunk, 0) + 1
        many = self._deaths[chunk] > self._choice.retries
        if loan is not None and many:
            self._job.fail(loan, f"{self._deaths[chunk]} workers died of it: {why}")
            return self._open()
        if loan is not None:
            loan.give_back()
        if not many:
            self._open()

    def _look(self) -> None:
        """Renews claims, and replaces actors that hang."""
        now = time.monotonic()
        for reference, actor in list(self._running.items()):
            if actor.loan is not None:
                actor.loan.step()
            if now - actor.began > self._choice.patience:
                del self._running[reference]
                loan, actor.loan = actor.loan, None
                self._died(actor, loan, f"no results after {self._choice.patience:g} s")

    def _close(self, actor: _Actor) -> None:
        import ray

        if actor in self._actors:
            self._actors.remove(actor)
        with contextlib.suppress(Exception):
            ray.kill(actor.handle)

    def idle(self) -> bool:
        if self._error is not None:
            raise self._error
        return not self._running and all(actor.ended for actor in self._actors)

    def stop(self) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        for actor in list(self._actors):
            if actor.loan is not None:
                actor.loan.give_back()
            self._close(actor)
        self._running.clear()
