"""The side that computes: evaluation keys and the machines that they run on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from becalm import _html, _machine, _native, _progress, _public, _tfhe_gates, _values
from becalm._called import called
from becalm._lock import Lock
from becalm._native import Params
from becalm._progress import Progress
from becalm._tfhe_slot_key import SlotKey
from becalm._values import TableSource
from becalm.ciphertext import Ciphertext, EncryptedTable, require
from becalm.errors import BadInput, Unsupported, WrongKey, WrongParams
from becalm.program import Cost, Program, Register, Table, TfheProgram, cost_of

__all__ = ["Server", "SlotKey"]
__dir__ = _public.names(__all__)


class Server(_tfhe_gates.Gates, _html.Shown):
    """The side that computes: an evaluation key, and the machine that it runs on.

    The first bootstrap loads the key onto the machine, or `open` does. Long runs show a bar
    when people are watching, and Ctrl-C stops them; the arguments stay as they were. A server may
    be used from several threads; it computes one batch at a time with all its own threads.

    Examples
    --------
    >>> secret, server = becalm.keygen("toy_2_2", allow_insecure=True, progress=False)
    >>> secret.decrypt(server.bootstrap(secret.encrypt([3, 1]), lambda m: m * m % 16))
    array([9, 1])
    """

    __slots__ = ("_device", "_evaluator", "_key", "_lock", "_seconds_each", "_threads")

    def __init__(
        self,
        key: _native.EvaluationKey,
        *,
        device: str = "auto",
        threads: int = 0,
    ) -> None:
        if not isinstance(key, _native.EvaluationKey):
            remedy = "use becalm.keygen(), SecretKey.server() or becalm.load()"
            raise BadInput("server", "an evaluation key", type(key).__name__, remedy)
        self._key = key
        self._device = str(device)
        _native.require_machine(self._device, key.params)
        self._threads = _values.count("server", "threads", threads)
        self._evaluator: _native.Evaluator | None = None
        self._lock = Lock()
        self._seconds_each: float | None = None

    @property
    def params(self) -> Params:
        """The parameter set."""
        return self._key.params

    @property
    def key_id(self) -> str:
        """Identity of the secret key; public."""
        return self._key.key_id

    @property
    def nbytes(self) -> int:
        """Bytes of the evaluation key as stored."""
        return self._key.nbytes

    @property
    def seconds_per_bootstrap(self) -> float | None:
        """Seconds for each bootstrap of the last run; `None` before the first."""
        return self._seconds_each

    def open(self) -> Server:
        """Loads the key onto the machine now.

        Returns
        -------
        Server
            The server itself.

        Examples
        --------
        >>> server.open() is server
        True
        """
        self._opened()
        return self

    def _opened(self) -> _native.Evaluator:
        with self._lock:
            if self._evaluator is None:
                self._evaluator = _native.Evaluator(self._key, self._device, self._threads)
                self._tell(None)
            return self._evaluator

    def _tell(self, before: Any) -> None:
        """Warns when a GPU of this machine is not used, or no longer used."""
        fallback = self._evaluator.fallback if self._evaluator else None
        if fallback and fallback[1] and fallback != before:
            _machine.no_gpu(fallback[0])

    @called("bootstrap")
    def bootstrap(
        self,
        x: Ciphertext,
        table: TableSource | Table | EncryptedTable,
        *,
        message: int | None = None,
        progress: Progress = None,
    ) -> Any:
        """Looks every value of `x` up in a table and removes the noise.

        Parameters
        ----------
        x
            Ciphertexts.
        table
            A function of one value, the list of its entries, a `Table` or an `EncryptedTable`. Of a
            list of these, t tables are looked up together by one rotation, and the values of `x`
            must lie below `message` / t. In a common-mask set a list has one table for each slot.
            Functions are asked only for values that `x` may have.
        message
            Results are modulo this, by default as `x`; those of an `EncryptedTable` as it says.
        progress
            `True` shows a bar, `False` none. A function is called with the steps done and all.

        Returns
        -------
        Ciphertext or tuple
            Fresh ciphertexts in the shape of `x`, a tuple of them for several tables.

        Raises
        ------
        BadInput
            For values or entries out of range, or results that the encrypted table does not have.
        TooNoisy
            For ciphertexts too noisy for the claimed probability of failure.
        WrongKey, WrongParams
            For ciphertexts of another key or set.
        Interrupted
            If the progress function asked to stop.

        Examples
        --------
        >>> x = secret.encrypt([3, 1, 2])
        >>> secret.decrypt(server.bootstrap(x, lambda m: m * m % 16))
        array([9, 1, 4])
        >>> tables = [lambda m: m % 4, lambda m: m // 4]
        >>> low, high = server.bootstrap(secret.encrypt([3, 6], below=8), tables)
        >>> secret.decrypt(low), secret.decrypt(high)
        (array([3, 2]), array([0, 1]))
        """
        program = self._program_for("bootstrap", x)
        reg = _like(program, x)
        if not isinstance(table, EncryptedTable):
            found = program.lookup(reg, table, message=message)
            program.output(found)
            results = self._results("bootstrap", program, [x], progress)
            return tuple(results) if isinstance(found, tuple) else results[0]
        if message not in (None, table.out):
            remedy = "leave `message` out, or encrypt the table with another `out`"
            raise BadInput("bootstrap", f"results modulo {table.out}", str(message), remedy)
        encrypted = program.input_table(message=table.message, below=table.below)
        for r in program._lookup_encrypted(reg, encrypted, table._glwe.outputs):
            program._native.output(r)
        results = self._results("bootstrap", program, [x, table], progress)
        return tuple(results) if len(table) > 1 else results[0]

    def add_key(self, key: SlotKey) -> Server:
        """Gives the server a key between slots: the packing key, or one more private map.

        Returns
        -------
        Server
            The server itself.

        Raises
        ------
        BadInput
            For an object that is no such key.

        Examples
        --------
        >>> secret, server = becalm.keygen("toy_cm_1_1_w2", allow_insecure=True, progress=False)
        >>> server.add_key(secret.pack_key()) is server
        True
        """
        if not isinstance(key, SlotKey):
            remedy = "use SecretKey.pack_key or SecretKey.slot_map_key"
            raise BadInput("add_key", "a key between slots", type(key).__name__, remedy)
        with self._lock:
            self._key = self._key.with_slot_key(key._native)
            self._evaluator = None
        return self

    def extract(self, x: Ciphertext, slot: int) -> Ciphertext:
        """One slot of every ciphertext, as plain values under the slot's key; no bootstrap.

        Parameters
        ----------
        x
            Ciphertexts of a common-mask set.
        slot
            Number of the slot, from 0.

        Returns
        -------
        Ciphertext
            One value for each ciphertext.

        Examples
        --------
        >>> secret, server = becalm.keygen("toy_cm_1_1_w2", allow_insecure=True, progress=False)
        >>> secret.decrypt(server.extract(secret.encrypt([[1, 2], [3, 0]]), 1))
        array([2, 0])
        """
        return self._recorded("extract", (x,), lambda p, r: p.extract(r[0], slot), None)

    def pack(self, x: Ciphertext) -> Ciphertext:
        """Plain values of slot 0 (`encrypt(..., slot=0)`) whose last axis is slots, packed.

        Needs the packing key; no bootstrap.

        Returns
        -------
        Ciphertext
            Ciphertexts of a common mask, of the same values.

        Raises
        ------
        BadInput
            For ciphertexts of another shape.

        Examples
        --------
        >>> secret, server = becalm.keygen("toy_cm_1_1_w2", allow_insecure=True, progress=False)
        >>> server = server.add_key(secret.pack_key())
        >>> secret.decrypt(server.pack(secret.encrypt([[1, 2], [3, 0]], slot=0))).tolist()
        [[1, 2], [3, 0]]
        """
        slots = self.params.slots
        if require(x, "pack").shape[-1:] != (slots,) or x.slots > 1:
            remedy = "encrypt with slot=0 in the shape (…, slots)"
            wanted = f"plain values with a last axis of {slots}"
            raise BadInput("pack", wanted, f"shape {x.shape}", remedy)
        inputs = tuple(x._selected(x._lanes()[..., j]) for j in range(slots))
        return self._recorded("pack", inputs, lambda p, r: p.pack(r), None)

    def slot_map(self, x: Ciphertext, which: int = 0) -> Ciphertext:
        """Applies private map number `which` of the server's key between the slots of `x`.

        The sums must fit the encoding before a table takes them: encrypt with `below=`. No
        bootstrap.

        Parameters
        ----------
        x
            Ciphertexts of a common-mask set.
        which
            Number of the map, in the order of `add_key`.

        Returns
        -------
        Ciphertext
            In the shape of `x`.

        Raises
        ------
        BadInput
            For a map that the server does not have.

        Examples
        --------
        >>> secret, server = becalm.keygen("toy_cm_1_1_w2", allow_insecure=True, progress=False)
        >>> server = server.add_key(secret.slot_map_key([[0, 1], [1, 0]]))
        >>> secret.decrypt(server.slot_map(secret.encrypt([1, 2])))
        array([2, 1])
        """
        sums = self._key.slot_maps()
        if not 0 <= _values.count("slot_map", "which", which) < len(sums):
            remedy = "add_key(secret.slot_map_key(matrix)) first"
            raise BadInput("slot_map", f"one of {len(sums)} maps", str(which), remedy)
        return self._recorded(
            "slot_map", (x,), lambda p, r: p.slot_map(r[0], which, sums[which]), None
        )

    @called("bootstrap2")
    def bootstrap2(
        self,
        a: Ciphertext,
        b: Ciphertext,
        f: Callable[[int, int], int],
        *,
        message: int | None = None,
        progress: Progress = None,
    ) -> Ciphertext:
        """`f(a, b)` lane by lane, by one bootstrap each.

        The two ranges together must fit the encoding: encrypt with `below=`.

        Parameters
        ----------
        a, b
            Ciphertexts, whose shapes broadcast.
        f
            A function of two values.
        message
            Results are modulo this, by default as `a`.
        progress
            As for `bootstrap`.

        Returns
        -------
        Ciphertext
            Fresh ciphertexts.

        Examples
        --------
        >>> a, b = secret.encrypt([1, 2, 3], below=4), secret.encrypt([3, 3, 1], below=4)
        >>> secret.decrypt(server.bootstrap2(a, b, lambda a, b: a * b))
        array([3, 6, 3])
        """
        return self._recorded(
            "bootstrap2", (a, b), lambda p, r: p.lookup2(r[0], r[1], f, message=message), progress
        )

    def run(
        self, program: Program, *inputs: Ciphertext | EncryptedTable, progress: Progress = None
    ) -> Any:
        """Runs a program on every lane of the common shape of its inputs.

        Parameters
        ----------
        program
            A `becalm.Program` of TFHE.
        *inputs
            A ciphertext or an encrypted table for each argument.
        progress
            As for `bootstrap`.

        Returns
        -------
        Ciphertext or tuple
            A tuple if the program has several outputs.

        Raises
        ------
        BadInput
            For something else than a program, a program without outputs, or unfit inputs.
        WrongParams
            For a program of another scheme or set.

        Examples
        --------
        >>> p = becalm.Program("toy_2_2")
        >>> a, b = p.input(below=4), p.input(below=4)
        >>> p.output(p.lookup(a + b, lambda m: m // 2))
        >>> x, y = secret.encrypt([1, 3], below=4), secret.encrypt(3, below=4)
        >>> secret.decrypt(server.run(p, x, y))
        array([2, 3])
        """
        if not isinstance(program, Program):
            remedy = "record a becalm.Program, or use bootstrap for one table"
            raise BadInput("run", "a program", type(program).__name__, remedy)
        if not isinstance(program, TfheProgram):
            remedy = "run it on the server of becalm.keygen for a set of CKKS"
            raise WrongParams("run", "a program of TFHE", "one of CKKS", remedy)
        if not program.outputs:
            raise BadInput("run", "a program with outputs", "none", "mark results with output()")
        results = self._results("run", program, list(inputs), progress)
        return tuple(results) if len(results) > 1 else results[0]

    def cost(self, what: TfheProgram | TableSource | Table, *, lanes: int = 1) -> Cost:
        """The cost of a program, or of one bootstrap through a table, on `lanes` lanes.

        Parameters
        ----------
        what
            A program, or anything that `becalm.Table` takes.
        lanes
            Values computed side by side.

        Returns
        -------
        Cost
            `seconds` is an estimate from the last run; `None` before it.

        Examples
        --------
        >>> server.cost(lambda m: m, lanes=8).lanes
        8
        """
        found = cost_of(what, self.params, lanes)
        if self._seconds_each is None:
            return found
        return replace(found, seconds=self._seconds_each * found.bootstraps * found.lanes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the evaluation key to a file, for `becalm.load` on the server.

        Examples
        --------
        >>> server.save("server.becalm")
        >>> becalm.load("server.becalm", allow_insecure=True, threads=1).key_id == secret.key_id
        True
        """
        self._key.save(_values.path("save", path))

    def to_bytes(self) -> bytes:
        """The file of `save` in memory: the evaluation key; `from_bytes` makes a server of it.

        Returns
        -------
        bytes
            The evaluation key, which holds no secret.

        Examples
        --------
        >>> again = becalm.Server.from_bytes(server.to_bytes(), allow_insecure=True)
        >>> again.key_id == secret.key_id
        True
        """
        return self._key.to_bytes()

    @classmethod
    @called("from_bytes")
    def from_bytes(
        cls,
        file: bytes,
        *,
        allow_insecure: bool = False,
        device: str = "auto",
        threads: int = 0,
    ) -> Server:
        """A server from the bytes of its evaluation key, which are copied.

        A file takes less memory, because `becalm.load` maps it.

        Parameters
        ----------
        file
            The bytes that `to_bytes` gave.
        allow_insecure
            Whether sets below 128 bits are accepted.
        device, threads
            The machine, as for `becalm.keygen`.

        Returns
        -------
        Server
            With the same key.

        Raises
        ------
        BadFile
            For bytes that were altered or are of another kind.
        Insecure
            For a set below 128 bits that was not allowed.

        Examples
        --------
        >>> again = becalm.Server.from_bytes(server.to_bytes(), allow_insecure=True)
        >>> secret.decrypt(again.bootstrap(secret.encrypt([3, 1]), lambda m: m * m % 16))
        array([9, 1])
        """
        data = _values.data("from_bytes", file)
        key = _native.EvaluationKey.from_bytes(data, bool(allow_insecure))
        return cls(key, device=device, threads=threads)

    def _where(self) -> str:
        if self._evaluator is None:
            return f"not opened yet on {self._device}"
        return _machine.where(self._evaluator)

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        each = self._seconds_each
        return "becalm.Server", [
            ("machine", self._where()),
            ("evaluation key", _values.megabytes(self.nbytes)),
            ("seconds for a bootstrap", None if each is None else f"{each:.3g}"),
            ("parameter set", self.params.name),
            ("key", self.key_id),
        ]

    def __repr__(self) -> str:
        return f"<becalm.Server for key {self.key_id} of {self.params.name}, {self._where()}>"

    def __reduce__(self) -> NoReturn:
        remedy = "save() the key to a file and becalm.load() it there: the file is mapped"
        raise Unsupported("copy", "an object that can be pickled", "a machine", remedy)

    def _program_for(self, op: str, *inputs: object) -> TfheProgram:
        for x in inputs:
            require(x, op)
        return TfheProgram(self.params)

    def _recorded(
        self,
        op: str,
        inputs: tuple[Ciphertext, ...],
        record: Callable[[TfheProgram, list[Any]], Any],
        progress: Progress,
    ) -> Ciphertext:
        program = self._program_for(op, *inputs)
        program.output(record(program, [_like(program, x) for x in inputs]))
        return self._results(op, program, list(inputs), progress)[0]

    def _results(
        self,
        op: str,
        program: TfheProgram,
        inputs: list[Ciphertext | EncryptedTable],
        progress: Progress,
    ) -> list[Ciphertext]:
        batches = [x for x in inputs if not isinstance(x, EncryptedTable)]
        shape = _values.common_shape(op, *(require(x, op)._shape for x in batches))
        arguments = [
            x._glwe if isinstance(x, EncryptedTable) else x._broadcast(shape)._lwe for x in inputs
        ]
        evaluator = self._opened()
        before = evaluator.fallback
        began = time.perf_counter()
        with _progress.shown(progress, "bootstraps", 1.0) as callback:
            found = evaluator.evaluate(op, program._native, arguments, callback)
        self._tell(before)
        lanes = int(np.prod(shape))
        bootstraps = program._native.bootstraps * lanes
        if bootstraps:
            self._seconds_each = (time.perf_counter() - began) / bootstraps
        return [Ciphertext(lwe, shape) for lwe in found]


def server_for(op: str, server: Any, x: Any = None) -> Server:
    """Checks that `server` is a server, and one of the set and key of `x` if that is given."""
    if not isinstance(server, Server):
        remedy = "becalm.keygen makes one, and becalm.load reads one"
        raise BadInput(op, "a server of TFHE", _values.named(server), remedy)
    remedy = "use the server that was made with their secret key"
    if x is not None and x.params != server.params:
        raise WrongParams(op, f"a server of {x.params.name}", server.params.name, remedy)
    if x is not None and x.key_id != server.key_id:
        raise WrongKey(op, f"a server of key {x.key_id}", f"one of {server.key_id}", remedy)
    return server


def _like(program: TfheProgram, x: Ciphertext) -> Register:
    return Register(program, program._native.input_like(x._lwe))
