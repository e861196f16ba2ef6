"""The server of CKKS, which `becalm.ckks` has: evaluation keys, and what they compute."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from becalm import _html, _machine, _native, _progress, _values
from becalm._called import called
from becalm._ckks_arithmetic import Matrix
from becalm._ckks_ciphertext import Ciphertext, as_said, lanes_of, owned, require
from becalm._ckks_computes import Computes, named
from becalm._ckks_pack import Packs, gathered, spread
from becalm._ckks_packed import LooksUp, PackedArray, of_file
from becalm._ckks_prepared import Prepared
from becalm._ckks_program import Program, recorded
from becalm._ckks_secret_key import SecretKey
from becalm._ckks_sets import USUAL_SIZE, Params, params, staged
from becalm._ckks_vector import Plaintext, at_level, vector
from becalm._files import of_kind
from becalm._lock import Lock
from becalm._progress import Progress
from becalm.errors import BadInput, Unsupported

#: Programs of functions that a server keeps.
_KEPT = 8


class Server(Computes[Ciphertext, _native.CkksCiphertext], LooksUp, Packs, _html.Shown):
    """The side that computes: evaluation keys, and no secret.

    A bootstrap encodes its matrices when it first runs; those of the last kind are kept, and serve
    every table of as many bits. A server may be used from several threads.

    Examples
    --------
    >>> x = secret.encrypt([0.5, -0.25, 0.75, 1])
    >>> secret.decrypt(x * x).round(2).tolist()
    [0.25, 0.06, 0.56, 1.0]
    """

    __slots__ = (
        "_keys",
        "_lock",
        "_machine",
        "_plan",
        "_prepared",
        "_recorded",
        "_strict",
        "_warned",
    )

    def __init__(
        self,
        plan: _native.CkksPlan,
        machine: _native.CkksMachine,
        keys: _native.CkksKeys,
        matrices: int | None = None,
    ) -> None:
        self._plan = plan
        self._machine = machine
        self._keys = keys
        self._lock = Lock()
        self._prepared = Prepared(keys, matrices)
        self._recorded: dict[tuple[object, ...], Program] = {}
        self._strict = False
        self._warned = False

    @property
    def strict(self) -> bool:
        """Whether a result with few bits or none by its claim of error raises `TooNoisy`.

        Otherwise the first such result warns, with `PrecisionWarning`. A claim is an upper bound
        for every message, so that a result may be right where the claim leaves nothing.
        """
        return self._strict

    @strict.setter
    def strict(self, strict: bool) -> None:
        self._strict = bool(strict)

    @property
    def params(self) -> Params:
        """The parameter set."""
        return params(self._plan.name)

    @property
    def key_id(self) -> str:
        """Identity of the secret key; public."""
        return self._keys.key_id

    @property
    def slots(self) -> int:
        """Values in a ciphertext."""
        return self._plan.slots

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of bootstrap that the keys were made for, the usual one first."""
        return tuple(self._plan.kinds)

    @property
    def nbytes(self) -> int:
        """Bytes of the keys in memory; none of those that stay in their file."""
        return self._keys.nbytes

    @property
    def stored_nbytes(self) -> int:
        """Bytes of the keys in a file, but for the header."""
        return self._keys.stored_nbytes

    @property
    def _calls(self) -> _native.CkksKeys:
        return self._keys

    @property
    def _planned(self) -> _native.CkksPlan:
        return self._plan

    def _operand(self, op: str, x: object) -> Ciphertext:
        return require(x, op)

    def _vector(self, native: _native.CkksCiphertext) -> Ciphertext:
        return Ciphertext(native, self)

    def _product(self, matrix: Matrix, x: _native.CkksCiphertext) -> _native.CkksCiphertext:
        op = "matrix product"
        if x.key_id != self.key_id:
            owned(op, Ciphertext(x), self.key_id)
        rotations = matrix.rotations
        few = str(rotations) if len(rotations) < 5 else "M.rotations, M the matrix"
        with called(op), named(f"make keys with rotations={few}"):
            # Before the matrix is encoded, which takes time.
            self._keys.require_rotations(rotations, x.level)
            return self._keys.matmul([x], matrix._encoded(self._machine, x.level))[0]

    def evaluate(
        self, function: _native.CkksFunction, xs: Sequence[Ciphertext], auto: bool
    ) -> list[Ciphertext]:
        """Computes a function, which `ckks.sigmoid()(x)` and the like pass on.

        Parameters
        ----------
        function, xs, auto
            The function, its vectors, and whether it may bootstrap.

        Returns
        -------
        list of Ciphertext
            The results.

        Raises
        ------
        WrongKey, WrongParams
            For keys of no bootstrap.
        """
        own = [owned(function.name, require(x, function.name), self.key_id) for x in xs]
        if auto and not self.kinds:
            raise self._without()
        which = (function, auto, *((x.level, x.slots, x.real) for x in own))
        with self._lock:
            program = self._recorded.get(which)
        if program is None:
            program = recorded(self._plan, function, own, auto)
            with self._lock:
                # The oldest goes: programs of functions are used one after the other.
                while len(self._recorded) >= _KEPT:
                    self._recorded.pop(next(iter(self._recorded)))
                self._recorded[which] = program
        turns = function.rotations(own[0].slots)
        few = str(turns) if len(turns) < 9 else f"f.rotations({own[0].slots}), f the function"
        with named(f"make keys with rotations={few}{', and a bootstrap' if auto else ''}"):
            made = self.run(program, *own, progress=False)
        return list(made) if isinstance(made, tuple) else [made]

    def encode(self, values: npt.ArrayLike, *, level: int | None = None) -> Plaintext:
        """Encodes a vector, or one number for all slots, for ciphertexts at a level: the highest,
        unless another is given. It can be added and multiplied many times.

        Parameters
        ----------
        values
            Numbers, one for each slot, or one for all.
        level
            The level of the ciphertexts that it goes with.

        Returns
        -------
        Plaintext
            For sums and products.

        Examples
        --------
        >>> p = server.encode([1, 2, 3, 4])
        >>> secret.decrypt(secret.encrypt([1, 1, 1, 1]) * p).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        data, _ = vector("encode", values, self.slots, single=True)
        most = self.params.levels
        at = most if level is None else at_level("encode", level, most)
        return Plaintext(_native.CkksPlaintext(self._machine, data, at))

    def bootstrap(
        self,
        x: Ciphertext,
        kind: str | None = None,
        *,
        stage_count: int | None = None,
        iterations: int | None = None,
        progress: Progress = None,
    ) -> Ciphertext:
        """The same values with the levels of the set again. Vectors known to be real take half the
        approximations.

        Parameters
        ----------
        x
            A ciphertext. `slots_first` and `sign` take it at the level of `stage_count` or above.
        kind
            `"regular"`, `"sparse"`, `"slots_first"`, `"sign"` (for values near −1 and 1), or
            `"precise"` on a set made for it; by default the kind of the keys.
        stage_count
            Matrices of each of the two transforms, by default those of the keys.
        iterations
            2 bootstraps the error of the first result too: 45 bits or more for twice the time. It
            takes `slots_first` on a set whose scale holds them (`ckks_iterated`). By default as
            many as the keys were made for.
        progress
            As for `becalm.keygen`.

        Returns
        -------
        Ciphertext
            At the highest level.

        Raises
        ------
        WrongKey
            For another key, or keys that the server does not have.
        BadInput
            For too low a level, or too many slots.
        Interrupted
            If it was stopped.

        Examples
        --------
        >>> y = server.bootstrap(secret.encrypt([0.5, -0.25, 0.8, 1], level=0))
        >>> y.level, secret.decrypt(y).round(1)[2:].tolist()
        (10, [0.8, 1.0])
        """
        native = owned("bootstrap", require(x, "bootstrap"), self.key_id)
        values = "real" if native.real else "complex"
        made = self._run(kind, stage_count, values, iterations, [native], progress)
        return Ciphertext(made[0], self)

    @called("bootstrap_pair")
    def bootstrap_pair(
        self,
        a: Ciphertext,
        b: Ciphertext,
        kind: str | None = None,
        *,
        stage_count: int | None = None,
        iterations: int | None = None,
        progress: Progress = None,
    ) -> tuple[Ciphertext, Ciphertext]:
        """Two vectors of real numbers in the time of one complex one. Not for `"sparse"`, where
        a complex vector takes no longer than a real one.

        Parameters
        ----------
        a, b
            Ciphertexts of real values.
        kind, stage_count, iterations, progress
            As for `bootstrap`.

        Returns
        -------
        tuple of Ciphertext
            Both, at the highest level.

        Raises
        ------
        BadInput
            For the kind `"sparse"`, or values that are not known to be real.

        Examples
        --------
        >>> options = {"allow_insecure": True, "progress": False}
        >>> secret, server = becalm.keygen("ckks_toy_12", kinds="regular", **options)
        >>> a, b = secret.encrypt([0.5], level=0), secret.encrypt([-0.5], level=0)
        >>> pair = server.bootstrap_pair(a, b)
        >>> [(y.level, round(float(secret.decrypt(y)[0]), 2)) for y in pair]
        [(10, 0.5), (10, -0.5)]
        """
        pair = [owned("bootstrap", require(x, "bootstrap"), self.key_id) for x in (a, b)]
        made = self._run(kind, stage_count, "merged", iterations, pair, progress)
        return Ciphertext(made[0], self), Ciphertext(made[1], self)

    def check(self, values: npt.ArrayLike, kind: str | None = None) -> None:
        """Raises an error for plaintext values that a bootstrap would not bring back: the server
        cannot see them later.

        Parameters
        ----------
        values
            A vector.
        kind
            The kind of bootstrap, by default the one of the keys.

        Raises
        ------
        BadInput
            For such values.
        WrongKey
            For keys without this kind of bootstrap.

        Examples
        --------
        >>> server.check([0.5, -0.25, 0.75, 1])
        >>> try:
        ...     server.check([50, -0.25, 0.75, 1])
        ... except becalm.BadInput as e:
        ...     print("not brought back")
        not brought back
        """
        data, real = vector("bootstrap", values, self.slots, single=False)
        kind = self._kind(kind)
        if kind == "sign":
            # Slots that are only filled up may hold anything.
            given = np.asarray(values)
            filled = np.concatenate([given, np.ones(self.slots - given.size)])
            data, real = vector("bootstrap", filled, self.slots, single=False)
        program = self._plan.record(kind, None, "real" if real else "complex")
        with named(self._remedy(kind, None)):
            self._keys.require(program)
        program.check_values(data)

    def attach(self, x: Ciphertext) -> Ciphertext:
        """The ciphertext, knowing this server and computed with by its threads.

        Returns
        -------
        Ciphertext
            The same values.

        Raises
        ------
        WrongKey
            For a ciphertext of another key.

        Examples
        --------
        >>> sent = secret.encrypt([1, 2, 3, 4], bound=4).to_bytes()
        >>> x = becalm.from_bytes(sent, allow_insecure=True)
        >>> secret.decrypt(server.attach(x).rotate(1)).round(2).tolist()
        [2.0, 3.0, 4.0, 1.0]
        """
        own = owned("attach", require(x, "attach"), self.key_id)
        return Ciphertext(own._native.on(self._machine), self)

    @called("load")
    def load(
        self, path: str | os.PathLike[str], *, limit: int | None = None, real: bool = False
    ) -> Any:
        """Reads a ciphertext of at most `limit` bytes (1 GiB by default). Its file says whether its
        values are real, which saves half of a bootstrap's work. `real=True` says so of a file
        that leaves it open, as those of earlier versions do.

        Parameters
        ----------
        path
            The file.
        limit
            The largest number of bytes.
        real
            Whether the values are known to be real.

        Returns
        -------
        Ciphertext or PackedArray
            It knows this server.

        Raises
        ------
        BadFile
            For a file that was altered, cut, or is above the limit.
        WrongKey
            For a ciphertext of another key.

        Examples
        --------
        >>> secret.encrypt([1, 2, 3, 4], bound=4).save("x.becalm")
        >>> secret.decrypt(server.load("x.becalm")).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        most, file = _values.limit("load", limit), _values.path("load", path)
        with of_kind("load", file, "becalm.rlwe"):
            native, said = _native.CkksCiphertext.load(self._machine, file, most)
        return self._read("load", native, said, real)

    @called("from_bytes")
    def from_bytes(self, file: bytes, *, limit: int | None = None, real: bool = False) -> Any:
        """The ciphertext of `to_bytes`, as `load`.

        Parameters
        ----------
        file
            The bytes that `to_bytes` gave.
        limit
            The largest number of bytes, 1 GiB by default.
        real
            Whether the values are known to be real.

        Returns
        -------
        Ciphertext or PackedArray
            It knows this server.

        Raises
        ------
        BadFile
            For bytes that were altered, cut, or are above the limit.
        WrongKey
            For a ciphertext of another key.

        Examples
        --------
        >>> sent = secret.encrypt([1, 2, 3, 4], bound=4).to_bytes()
        >>> secret.decrypt(server.from_bytes(sent)).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        op = "from_bytes"
        data, most = _values.data(op, file), _values.limit(op, limit)
        native, said = _native.CkksCiphertext.from_bytes(self._machine, data, most)
        return self._read(op, native, said, real)

    def _read(self, op: str, native: _native.CkksCiphertext, said: bool | None, real: bool) -> Any:
        return owned(op, of_file(as_said(op, native, said, real), self), self.key_id)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the keys to a file, for `load_server`, with a note of their purpose.

        Examples
        --------
        >>> server.save("server.becalm")
        >>> becalm.load("server.becalm", allow_insecure=True).key_id == secret.key_id
        True
        """
        self._keys.save(_values.path("save", path), self._plan.note())

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        return "becalm.ckks.Server", [
            ("bootstraps", ", ".join(self.kinds) or "none"),
            ("slots", f"{self.slots:,}"),
            ("keys in memory", _values.megabytes(self.nbytes)),
            ("keys in a file", _values.megabytes(self.stored_nbytes)),
            ("machine", _machine.where(self._machine)),
            ("parameter set", self._plan.name),
            ("key", self.key_id),
        ]

    def __repr__(self) -> str:
        kinds = ", ".join(self.kinds) or "no"
        what = f"{self.key_id} of {self._plan.name}, {kinds} bootstrap"
        return f"<becalm.ckks.Server for key {what}, {_machine.where(self._machine)}>"

    def __reduce__(self) -> NoReturn:
        remedy = "save() the keys to a file and load_server() them there"
        raise Unsupported("copy", "an object that can be pickled", "a machine", remedy)

    def _remedy(self, kind: str, stage_count: int | None) -> str:
        """The arguments of `keygen` that make the keys of a bootstrap."""
        plan = self._plan
        words = [f'kinds="{kind}"', f'bootstrap="{plan.size or USUAL_SIZE}"']
        if kind == "sparse":
            words.append(f"slots={plan.slots}")
        stages = plan.stage_count if stage_count is None else stage_count
        if stages is not None:
            words.append(f"stage_count={stages}")
        return f"make keys with {', '.join(words)}"

    @called("bootstrap")
    def _run(
        self,
        kind: str | None,
        stage_count: int | None,
        values: str,
        iterations: int | None,
        inputs: list[Ciphertext],
        progress: Progress,
    ) -> list[_native.CkksCiphertext]:
        times = None if iterations is None else _values.count("bootstrap", "iterations", iterations)
        which = (self._kind(kind), stage_count, values, times)
        if inputs[0].slots > self.slots:
            wanted, got = f"a ciphertext of at most {self.slots} slots", str(inputs[0].slots)
            raise BadInput("bootstrap", wanted, got, f"make keys with slots={got}")

        def record() -> _native.CkksProgram:
            made = staged(stage_count, lambda n: self._plan.record(which[0], n, values, times))
            # Before matrices are encoded, which takes time.
            made.real([x.real for x in inputs])
            return made

        ready = self._prepared.of(which, self._remedy(which[0], stage_count), record)
        with _progress.shown(progress, "bootstrap", 1.0) as callback, named(""):
            return ready.run([[x._native for x in inputs]], callback)[0]

    def run(
        self,
        program: Program,
        *inputs: Ciphertext | PackedArray | Sequence[Ciphertext] | Sequence[PackedArray],
        progress: Progress = None,
    ) -> Any:
        """Runs a recorded program, each input one of its arguments.

        Parameters
        ----------
        program
            A `becalm.Program` of the set of this server.
        inputs
            A ciphertext for each argument, at the level of the argument or above; or a list of
            them, one for each lane. Lists have one length, and a single ciphertext beside lists
            goes to every lane. An argument of integers takes packed ones, all of one shape. Those
            of several ciphertexts have a lane for each, and no lists beside them.
        progress
            As for a bootstrap.

        Returns
        -------
        object
            A ciphertext, or a list with one for each lane; or packed integers. If the program has
            several outputs, a tuple of these.

        Raises
        ------
        WrongKey
            For keys that the program needs and the server does not have. `keygen` makes them:
            `becalm.keygen(name, needs=program.needs)`.
        BadInput
            For another number of inputs, too low a level, or another number of slots.
        Interrupted
            If it was stopped.

        Examples
        --------
        >>> import becalm
        >>> p = becalm.Program("ckks_toy_12", slots=2)
        >>> x = p.input(level=1)
        >>> p.output(x * x)
        >>> secret, server = becalm.keygen("ckks_toy_12", slots=2, needs=p.needs, progress=False,
        ...                                allow_insecure=True)
        >>> lanes = [secret.encrypt([a, 1.0], level=1, bound=2) for a in (0.5, 2.0)]
        >>> [secret.decrypt(y).round(3).tolist() for y in server.run(p, lanes)]
        [[0.25, 1.0], [4.0, 1.0]]
        """
        if not isinstance(program, Program):
            of_tfhe = isinstance(getattr(program, "_native", None), _native.Program)
            got = "one of TFHE" if of_tfhe else type(program).__name__
            remedy = f'record a becalm.Program("{self._plan.name}")'
            raise BadInput("run", "a program of CKKS", got, remedy)
        program._require_set("run", self._plan.name, "record it for the set of the server")
        if not program.outputs:
            raise BadInput("run", "a program with outputs", "none", "mark results with output()")
        if len(inputs) != program.inputs:
            wanted, got = f"{program.inputs} inputs", str(len(inputs))
            raise BadInput("run", wanted, got, "pass one for each argument")
        given, shape, listed = spread(inputs)
        lanes = lanes_of(given)
        own = [[owned("run", x, self.key_id) for x in lane] for lane in lanes]
        # Refused before matrices are encoded.
        program._native.real([all(lane[i].real for lane in own) for i in range(len(inputs))])
        ready = self._prepared.of_program(program._native, program.cost.diagonals)
        with _progress.shown(progress, "program", 1.0) as callback, named(""):
            made = ready.run(own, callback)
        before = {x.loss for lane in own for x in lane}

        def one(y: _native.CkksCiphertext) -> Ciphertext:
            lost = y.loss if y.doubt else None
            where = program._line(lost[2]) if lost and lost not in before else ""
            return Ciphertext(y, self, where)

        def result(lanes: Sequence[_native.CkksCiphertext]) -> Any:
            if lanes[0].integers:
                return gathered(lanes, shape, listed, self)
            return [one(y) for y in lanes] if listed or len(lanes) > 1 else one(lanes[0])

        results = [result(lanes) for lanes in zip(*made, strict=True)]
        return results[0] if len(results) == 1 else tuple(results)


SecretKey._serves = Server
