"""Large batches on several workers: processes, machines that share a disk, Ray, or a service."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any, overload

from becalm import _cluster_batch, _cluster_stream, _native, _values
from becalm._called import called
from becalm._cluster_job import Job
from becalm._cluster_stream import Stream
from becalm._cluster_workers import Choice, Processes, RayWorkers, ServiceWorkers, Workers
from becalm._programs import Program
from becalm._progress import Progress
from becalm.errors import BadInput, Unsupported

#: The file beside the manifest of a job that says how Python reads the results.
SAID = "python.json"


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

    @overload
    def map(
        self,
        server: Any,
        program: Any,
        batch: Iterator[Any],
        *,
        ahead: int | None = ...,
        verify: float = ...,
        quorum: int = ...,
        retries: int = ...,
        progress: Progress = ...,
    ) -> Stream: ...
    @overload
    def map(
        self,
        server: Any,
        program: Any,
        batch: Any,
        *,
        chunk: int | str = ...,
        verify: float = ...,
        quorum: int = ...,
        retries: int = ...,
        folder: str | os.PathLike[str] | None = ...,
        progress: Progress = ...,
    ) -> Job: ...
    def map(
        self,
        server: Any,
        program: Any,
        batch: Any,
        *,
        chunk: int | str = "auto",
        ahead: int | None = None,
        verify: float = 0.0,
        quorum: int = 1,
        retries: int = 3,
        folder: str | os.PathLike[str] | None = None,
        progress: Progress = None,
    ) -> Any:
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
            ciphertext for each lane, or a tuple of lists. An iterator gives batches of this kind.
        chunk
            Lanes of a chunk: about five seconds of a core, or one lane of CKKS. A batch of an
            iterator is a chunk.
        ahead
            For an iterator: the most batches that wait in memory, by default four for each worker.
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
        Job or Stream
            Iterate over it. For an iterator it is a `Stream`, with results for each batch.

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
        if isinstance(batch, Iterator):
            if folder is not None or chunk != "auto":
                remedy = "leave folder and chunk out: every batch is a chunk"
                raise BadInput("map", "an iterator of batches alone", "more", remedy)
            most = _cluster_stream.ahead_of(ahead, self._choice["workers"])

            def prepare(each: Any) -> _cluster_stream.Item:
                return _cluster_stream.Item(*_cluster_batch.prepared(server, program, each))

            def begin(prepared: Any, lanes: int, step: Progress) -> Job:
                return self._begin(server, prepared, (lanes, share), None, retries, step)

            return Stream(batch, prepare, begin, most, progress)
        lanes = None if chunk == "auto" else _values.count("map", "chunk", chunk)
        prepared = _cluster_batch.prepared(server, program, batch)
        return self._begin(server, prepared, (lanes, share), folder, retries, progress)

    def _begin(
        self,
        server: Any,
        prepared: tuple[Program, list[Any], dict[str, Any]],
        division: tuple[int | None, float],
        folder: str | os.PathLike[str] | None,
        retries: int,
        progress: Progress,
    ) -> Job:
        """A job of a batch."""
        (recorded, inputs, said), (lanes, share) = prepared, division
        if self._service is not None:
            if folder is not None:
                remedy = "leave folder out: the service keeps the job"
                raise BadInput("map", "a job without a folder", "a folder", remedy)
            return self._sent(server, prepared, division, progress)
        if folder is None and self._shared:
            folder = os.path.join(self._where, f"job-{os.urandom(8).hex()}")
        keep = tempfile.mkdtemp(prefix="becalm-") if folder is None else None
        place = (
            _values.path("map", folder) if folder is not None else os.path.join(str(keep), "job")
        )
        beside = os.path.dirname(os.path.abspath(place))
        with tempfile.TemporaryDirectory(prefix=".becalm-", dir=beside) as files:
            keys, paths = _cluster_batch.saved(files, server, inputs)
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
            keys, paths = _cluster_batch.saved(files, server, inputs)
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
    device: str = "auto",
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
    device
        The machine that each computes on, as for `becalm.keygen`.
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
        "device": device,
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
