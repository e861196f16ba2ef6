"""Large batches on several workers: processes, machines that share a disk, Ray, or a service."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import math
import os
import pathlib
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from becalm import _cluster_batch, _html, _native, _progress, _values
from becalm._called import called
from becalm._cluster_workers import Choice, Processes, RayWorkers, ServiceWorkers, Workers
from becalm._programs import Program
from becalm._progress import Progress
from becalm.errors import BadInput, DeviceError, Error, Interrupted, Unsupported

#: The file beside the manifest of a job that says how Python reads the results.
SAID = "python.json"
#: The longest time between two looks for results.
LOOK = 0.25


class Job(_html.Shown):
    """A batch that workers compute, in order. Iterate over it: each item has the results of one
    chunk.

    Results of finished chunks stand in `folder`. They stay when this process dies, and
    `Cluster.resume` goes on with the others. The memory of this process holds one chunk at a time,
    so a slow reader holds nobody up.

    Examples
    --------
    >>> cluster = becalm.cluster("local", workers=1, threads=1)
    >>> p = becalm.Program("toy_2_2")
    >>> p.output(p.lookup(p.input(), lambda m: m * m % 16))
    >>> job = cluster.map(server, p, secret.encrypt([3, 1, 2]), chunk=2, folder="squares")
    >>> [secret.decrypt(y).tolist() for y in job]
    [[9, 1], [4]]
    """

    __slots__ = (
        "__weakref__",
        "_cancelled",
        "_folder",
        "_native",
        "_progress",
        "_read",
        "_workers",
    )

    def __init__(
        self,
        native: _native.Job | _native.RemoteJob,
        folder: str,
        read: _cluster_batch.Reader,
        workers: Workers,
        progress: Progress,
    ) -> None:
        self._native = native
        self._folder = folder
        self._read = read
        self._workers = workers
        self._progress = progress
        self._cancelled = False

    @property
    def folder(self) -> str:
        """The folder of the job, or its address at a service."""
        return self._folder

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return self._native.facts()[4]

    @property
    def lanes(self) -> int:
        """How many times the program runs."""
        return self._native.facts()[2]

    @property
    def cost(self) -> Any:
        """The cost of the program on one lane, known before anything runs."""
        if isinstance(self._native, _native.RemoteJob):
            made = self._native.program()
        else:
            made = pathlib.Path(self.folder, "program.becalm").read_bytes()
        program: Any = Program.from_bytes(made, allow_insecure=True)
        return program.cost

    def status(self) -> dict[str, Any]:
        """The state of the job, as `becalm job status --json` tells it.

        Returns
        -------
        dict
            Numbers of chunks, the rate, the workers, failures, and workers that were left out.

        Examples
        --------
        >>> cluster = becalm.cluster("local", workers=1, threads=1)
        >>> p = becalm.Program("toy_2_2")
        >>> p.output(p.input() + 1)
        >>> cluster.map(server, p, secret.encrypt([3, 1]), chunk=1).status()["left"]
        2
        """
        found: dict[str, Any] = json.loads(self._native.status())
        return found

    def workers_for(self, seconds: float) -> int | None:
        """How many workers would finish the job in a time: a hint for an autoscaler.

        Parameters
        ----------
        seconds
            The time.

        Returns
        -------
        int or None
            The number of workers, or none while no chunk is done.

        Examples
        --------
        >>> cluster = becalm.cluster("local", workers=1, threads=1)
        >>> p = becalm.Program("toy_2_2")
        >>> p.output(p.input() + 1)
        >>> cluster.map(server, p, secret.encrypt([3, 1])).workers_for(60.0) is None
        True
        """
        status = self.status()
        each = status["seconds_per_chunk"]
        if each is None:
            return None
        missing = int(status["chunks"] - status["done"])
        wanted = math.ceil(missing * float(each) / max(seconds, 1e-3))
        return min(missing, max(1, wanted))

    def cancel(self) -> None:
        """Stops the work; whoever iterates gets `Interrupted`. Finished chunks stay.

        Examples
        --------
        >>> cluster = becalm.cluster("local", workers=1, threads=1)
        >>> p = becalm.Program("toy_2_2")
        >>> p.output(p.input() + 1)
        >>> job = cluster.map(server, p, secret.encrypt([3, 1]))
        >>> job.cancel()
        >>> try:
        ...     list(job)
        ... except becalm.Interrupted:
        ...     print("stopped")
        stopped
        """
        self._cancelled = True

    def __len__(self) -> int:
        return self.chunks

    def __iter__(self) -> Iterator[Any]:
        given: list[bytes] = []
        with _progress.shown(self._progress, "chunks", 1.0) as tell:
            self._workers.start()
            try:
                for chunk in range(self.chunks):
                    files = self._wait(functools.partial(self._native.results, chunk), tell, chunk)
                    given.append(_mark(files))
                    yield self._read(files)
                self._wait(lambda: self._native.is_complete() or None, tell, self.chunks)
            finally:
                self._workers.stop()
        self._require_given(given)

    def _wait(
        self,
        ask: Callable[[], Any],
        tell: Callable[[int, int], object] | None,
        done: int,
    ) -> Any:
        """What `ask` finds, once it finds it."""
        pause, stuck = 0.01, False
        while True:
            if self._cancelled or (tell is not None and tell(done, self.chunks) is False):
                remedy = f'cluster.resume("{self.folder}") goes on'
                raise Interrupted("map", "to finish the job", "a request to stop", remedy)
            found = ask()
            if found is not None:
                return found
            if stuck:
                raise self._stuck()
            # Asked once more, as the last worker may have finished just before.
            stuck = self._workers.idle()
            if not stuck:
                time.sleep(pause)
                pause = min(2 * pause, LOOK)

    def _stuck(self) -> Error:
        status, wanted = self.status(), "to finish the job"
        remedy = f'repair it, then cluster.resume("{self.folder}") goes on with what is left'
        for chunk, failure in status["failed"].items():
            return DeviceError("map", wanted, f"chunk {chunk} failed: {failure['error']}", remedy)
        if status["disputed"]:
            got = f"workers that differ on chunks {status['disputed']}"
            remedy = "resume with another worker, or run `becalm job verify --leave-out`"
            return DeviceError("map", wanted, got, remedy)
        got = f"no worker, {status['done']} of {status['chunks']} chunks done"
        last = self._workers.last_words()
        return DeviceError("map", wanted, f"{got}; {last}" if last else got, remedy)

    def _require_given(self, given: list[bytes]) -> None:
        """Refuses to end well if results that were given were replaced since."""
        if not self.status()["left_out"]:
            return
        wrong = [i for i, mark in enumerate(given) if _mark(self._native.results(i) or []) != mark]
        if wrong:
            got = f"wrong results of chunks {wrong}, which were given and have been replaced since"
            remedy = f'read them again with cluster.resume("{self.folder}")'
            raise DeviceError("map", "right results", got, remedy)

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        scheme, set_, lanes, chunk, chunks, _, exact = self._native.facts()
        return "becalm.Job", [
            ("folder", self.folder),
            ("parameter set", set_),
            ("scheme", scheme),
            ("lanes", f"{lanes:,}"),
            ("chunks", f"{chunks:,} of {chunk:,}"),
            ("results equal", "everywhere" if exact else "on one class of machine"),
        ]

    def __repr__(self) -> str:
        return f"<becalm.Job of {self.lanes} lanes in {self.chunks} chunks, in {self.folder}>"


class Cluster:
    """Workers for large batches. `becalm.cluster` makes one.

    Examples
    --------
    >>> becalm.cluster("local", workers=2, threads=1)
    <becalm.Cluster: 2 processes of this machine>
    """

    __slots__ = ("_choice", "_service", "_where")

    def __init__(
        self, where: str, choice: dict[str, Any], service: tuple[str, str, str | None] | None
    ) -> None:
        self._where = where
        self._choice = choice
        self._service = service

    def map(
        self,
        server: Any,
        program: Any,
        batch: Any,
        *,
        chunk: int | str = "auto",
        verify: float = 0.0,
        quorum: int = 1,
        retries: int = 3,
        folder: str | os.PathLike[str] | None = None,
        progress: Progress = None,
    ) -> Job:
        """A program on every lane of a batch. Nothing runs before somebody iterates over the job.

        Parameters
        ----------
        server
            The server of `becalm.keygen`: workers get its evaluation keys, which hold no secret.
        program
            A program of either scheme, among them compiled circuits; or the name of an operation
            on integers, as for `Integers.apply`.
        batch
            An encrypted array, or a tuple with one for each argument. For CKKS a list with a
            ciphertext for each lane, or a tuple of lists.
        chunk
            Lanes of a chunk: about five seconds of a core, or one lane of CKKS.
        verify
            The share of the chunks that a second worker computes too.
        quorum
            With 2 results count once two workers agree.
        retries
            How often a worker is started again, and how often a chunk may kill a worker.
        folder
            The folder of the job, which must not exist. Without one a temporary folder is used,
            which goes with the job. A service chooses its own.
        progress
            As for `Server.bootstrap`.

        Returns
        -------
        Job
            Iterate over it.

        Raises
        ------
        BadInput
            For a batch that does not fit the program, and for checks by a single worker.

        Examples
        --------
        >>> cluster = becalm.cluster("local", workers=1, threads=1)
        >>> x = becalm.uint(8).encrypt(secret, [200, 3, 7])
        >>> y = becalm.uint(8).encrypt(secret, [100, 4, 5])
        >>> job = cluster.map(server, "min", (x, y), chunk=2)
        >>> [z.decrypt(secret).tolist() for z in job]
        [[100, 3], [5]]
        """
        if quorum not in (1, 2):
            raise BadInput("map", "a quorum of 1 or 2", str(quorum), "2 computes everything twice")
        share = 1.0 if quorum == 2 else _values.real("map", "verify", verify)
        if share > 0 and not self._shared and self._choice["workers"] < 2:
            remedy = "give the cluster more workers"
            raise BadInput("map", "two workers, of which one checks the other", "one", remedy)
        lanes = None if chunk == "auto" else _values.count("map", "chunk", chunk)
        recorded, inputs, said = _cluster_batch.prepared(server, program, batch)
        if self._service is not None:
            if folder is not None:
                remedy = "leave folder out: the service keeps the job"
                raise BadInput("map", "a job without a folder", "a folder", remedy)
            return self._sent(server, (recorded, inputs, said), (lanes, share), progress)
        if folder is None and self._shared:
            folder = os.path.join(self._where, f"job-{os.urandom(8).hex()}")
        keep = tempfile.mkdtemp(prefix="becalm-") if folder is None else None
        place = (
            _values.path("map", folder) if folder is not None else os.path.join(str(keep), "job")
        )
        beside = os.path.dirname(os.path.abspath(place))
        with tempfile.TemporaryDirectory(prefix=".becalm-", dir=beside) as files:
            keys, paths = _saved(files, server, inputs)
            made = recorded.to_bytes()
            native = _native.Job.make(place, made, keys, paths, lanes, share, True)
        pathlib.Path(place, SAID).write_text(json.dumps(said), encoding="utf-8")
        read = _cluster_batch.reader(said, native.facts()[0], server)
        job = self._job(native, place, read, progress, retries)
        if keep is not None:
            weakref.finalize(job, shutil.rmtree, keep, ignore_errors=True)
        return job

    def _sent(self, server: Any, prepared: Any, division: Any, progress: Progress) -> Job:
        """A job of the service."""
        (recorded, inputs, said), (lanes, share) = prepared, division
        assert self._service is not None
        with tempfile.TemporaryDirectory(prefix="becalm-") as files:
            keys, paths = _saved(files, server, inputs)
            made, note = recorded.to_bytes(), json.dumps(said)
            service = self._service
            native = _native.RemoteJob.make(service, made, keys, paths, lanes, share, note)
        read = _cluster_batch.reader(said, native.facts()[0], server)
        return Job(native, native.address(), read, ServiceWorkers(native), progress)

    def resume(
        self,
        folder: str | os.PathLike[str],
        *,
        server: Any = None,
        allow_insecure: bool = False,
        retries: int = 3,
        progress: Progress = None,
    ) -> Job:
        """A job that another process has begun. Finished chunks are read and not computed again.

        Parameters
        ----------
        folder
            The folder of the job, or its address at the service.
        server
            The server, to compute with the results. CKKS needs it to read them.
        allow_insecure
            Whether sets below 128 bits are accepted.
        retries, progress
            As for `map`.

        Returns
        -------
        Job
            From its first chunk on.

        Raises
        ------
        BadFile
            For a damaged folder.
        Insecure
            For a set below 128 bits that was not allowed.
        IoError
            For one that is not there.

        Examples
        --------
        >>> cluster = becalm.cluster("local", workers=1, threads=1)
        >>> p = becalm.Program("toy_2_2")
        >>> p.output(p.input() + 1)
        >>> begun = cluster.map(server, p, secret.encrypt([3, 1]), folder="begun")
        >>> [secret.decrypt(y).tolist() for y in cluster.resume("begun", allow_insecure=True)]
        [[4, 2]]
        """
        place = _values.path("resume", folder)
        if self._service is not None:
            remote = _native.RemoteJob.open(self._service, place.rsplit("/", 1)[-1])
            Program.from_bytes(remote.program(), allow_insecure=allow_insecure)
            read = _cluster_batch.reader(json.loads(remote.note()), remote.facts()[0], server)
            return Job(remote, remote.address(), read, ServiceWorkers(remote), progress)
        native = _native.Job.open(place)
        # Refused here, before anything of the job is read or computed.
        program = pathlib.Path(place, "program.becalm").read_bytes()
        Program.from_bytes(program, allow_insecure=allow_insecure)
        path = pathlib.Path(place, SAID)
        if path.is_file():
            said = json.loads(path.read_text(encoding="utf-8"))
        else:
            # The command made it.
            said = {"outputs": native.facts()[5], "types": None}
        read = _cluster_batch.reader(said, native.facts()[0], server)
        return self._job(native, place, read, progress, retries)

    def _job(
        self,
        native: _native.Job,
        place: str,
        read: _cluster_batch.Reader,
        progress: Progress,
        retries: int,
    ) -> Job:
        choice = Choice(**self._choice, retries=_values.count("map", "retries", retries))
        workers: Workers
        if self._shared:
            workers = Workers()
        elif self._where == "local":
            workers = Processes(place, choice)
        else:
            address = None if self._where == "ray" else self._where
            workers = RayWorkers(native, place, address, choice)
        return Job(native, place, read, workers, progress)

    def __repr__(self) -> str:
        many = self._choice["workers"]
        if self._service is not None:
            return f"<becalm.Cluster: the service at {self._where}>"
        if self._shared:
            return f"<becalm.Cluster: workers on {self._where}>"
        kind = "processes of this machine" if self._where == "local" else f"actors of {self._where}"
        return f"<becalm.Cluster: {many} {kind}>"

    @property
    def _shared(self) -> bool:
        """Whether others start the workers, on a folder."""
        return self._where != "local" and not self._where.startswith("ray")


@called("cluster")
def cluster(
    where: str | os.PathLike[str] = "local",
    *,
    workers: int | None = None,
    threads: int = 1,
    backend: str = "auto",
    lease: float = 60.0,
    patience: float = 600.0,
    token: str | None = None,
    authorities: str | os.PathLike[str] | None = None,
) -> Cluster:
    """Workers for large batches.

    Parameters
    ----------
    where
        `"local"` for processes of this machine; `"ray"`, or an address such as
        `"ray://head:10001"`, for actors of Ray; the address of a service, such as
        `"https://host:8443"`; or a folder that machines share: jobs are made in it, and others run
        `becalm job work` there.
    workers
        How many, by default one for each core divided by `threads`.
    threads
        Threads of each.
    backend
        The machine that each computes on.
    lease
        Seconds after which a worker that gives no sign of life loses its chunk.
    patience
        Seconds without progress after which a worker counts as hanging.
    token
        For a service: the token that its keeper gave you.
    authorities
        For a service: a file of certificates in PEM that count instead of those of the system.

    Returns
    -------
    Cluster
        Its `map` takes a server, a program and a batch.

    Raises
    ------
    Unsupported
        For Ray, if it is not installed.
    BadInput
        For anything else.

    Examples
    --------
    >>> becalm.cluster("local", workers=2, threads=1)
    <becalm.Cluster: 2 processes of this machine>
    """
    if not isinstance(where, str | bytes | os.PathLike):
        remedy = 'pass "local", "ray", "ray://…", "https://…", or a folder'
        raise BadInput("cluster", "a kind of workers, or a folder", type(where).__name__, remedy)
    name = _values.path("cluster", where)
    remote = name.startswith(("https://", "http://"))
    if remote != (token is not None):
        remedy = 'pass both: becalm.cluster("https://host:8443", token=…)'
        got = f"{name} without a token" if remote else f"{name} with a token"
        raise BadInput("cluster", "the address of a service, and its token", got, remedy)
    if token is not None and not isinstance(token, str):
        remedy = "pass the text that the keeper gave you"
        raise BadInput("cluster", "a token", type(token).__name__, remedy)
    ray = name == "ray" or name.startswith("ray://")
    if not (name == "local" or ray or remote or os.path.isdir(name)):
        remedy = 'pass "local", "ray", "ray://…", "https://…", or make the folder first'
        raise BadInput("cluster", "a kind of workers, or a folder", name, remedy)
    if ray and importlib.util.find_spec("ray") is None:
        remedy = 'pip install "becalm[cluster]"'
        raise Unsupported("cluster", "Ray", "a Python without it", remedy)
    threads = _values.count("cluster", "threads", threads)
    many = max(1, (os.cpu_count() or 1) // max(threads, 1)) if workers is None else workers
    choice = {
        "workers": max(1, _values.count("cluster", "workers", many)),
        "threads": threads,
        "backend": backend,
        "lease": _values.real("cluster", "lease", lease),
        "patience": _values.real("cluster", "patience", patience),
    }
    service = None
    if token is not None:
        service = (
            name,
            token,
            None if authorities is None else _values.path("cluster", authorities),
        )
    return Cluster(name, choice, service)


def _saved(folder: str, server: Any, inputs: list[Any]) -> tuple[str, list[str]]:
    """Files of the keys and of the inputs."""
    paths = [os.path.join(folder, str(i)) for i in range(len(inputs))]
    for x, path in zip(inputs, paths, strict=True):
        x.save(path)
    keys = os.path.join(folder, "keys")
    server.save(keys)
    return keys, paths


def _mark(files: list[bytes]) -> bytes:
    return hashlib.sha256(b"".join(files)).digest()
