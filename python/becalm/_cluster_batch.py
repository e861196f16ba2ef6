"""Batches of a job: what its files hold, and what the files of results become."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from becalm import _ckks_server, _integer_operations, _integer_types, _native, _values
from becalm._ckks_program import Program as CkksProgram
from becalm._programs import Program
from becalm.ciphertext import Ciphertext
from becalm.errors import BadInput
from becalm.integers import Integers
from becalm.program import TfheProgram
from becalm.server import Server

#: From the files of a chunk's results to what the caller gets.
Reader = Callable[[list[bytes]], Any]


def prepared(server: Any, program: Any, batch: Any) -> tuple[Program, list[Any], dict[str, Any]]:
    """The program, objects with a `save` for its arguments, and how results are read."""
    if isinstance(server, Server):
        return _tfhe(server, program, batch)
    if isinstance(server, _ckks_server.Server):
        return _ckks(program, batch)
    remedy = "pass the server of becalm.keygen"
    raise BadInput("map", "a server", type(server).__name__, remedy)


def _tfhe(server: Server, program: Any, batch: Any) -> tuple[Program, list[Any], dict[str, Any]]:
    arguments = list(batch) if isinstance(batch, (list, tuple)) else [batch]
    types: list[str] | None = None
    if isinstance(program, str):
        _integer_operations.known(program)
        native, types = _integer_operations.record(server.params, program, False, _kinds(arguments))
        program = TfheProgram(native)
    if not isinstance(program, TfheProgram):
        wanted = "a program of TFHE, or the name of an operation on integers"
        remedy = "record a becalm.Program, or compile a circuit"
        raise BadInput("map", wanted, type(program).__name__, remedy)
    digits: list[Ciphertext] = []
    for x in arguments:
        if isinstance(x, Integers):
            digits += [Ciphertext(d, x._shape) for d in x._digits]
        elif isinstance(x, Ciphertext):
            digits.append(x)
        else:
            remedy = "encrypt it, and pass a tuple with one array for each argument"
            raise BadInput("map", "encrypted arrays", type(x).__name__, remedy)
    shape = _values.common_shape("map", *(d._shape for d in digits))
    inputs = [d._broadcast(shape) for d in digits]
    return program, inputs, {"outputs": program.outputs, "types": types}


def _kinds(arguments: list[Any]) -> tuple[tuple[str, bytes | None], ...]:
    """The operands of an operation: integers, and plain numbers of the type of the first."""
    first = next((x for x in arguments if isinstance(x, Integers)), None)
    if first is None:
        remedy = "pass arrays of becalm.uint or becalm.int_"
        raise BadInput("map", "encrypted integers", "none", remedy)
    kinds: list[tuple[str, bytes | None]] = []
    for x in list(arguments):
        if isinstance(x, Integers):
            kinds.append((x.type.name, None))
        else:
            kinds.append((first.type.name, _integer_operations.word("map", first.type, x)))
    arguments[:] = [x for x in arguments if isinstance(x, Integers)]
    return tuple(kinds)


def _ckks(program: Any, batch: Any) -> tuple[Program, list[Any], dict[str, Any]]:
    if not isinstance(program, CkksProgram):
        got, remedy = type(program).__name__, "record one: becalm.Program(server.params.name)"
        raise BadInput("map", "a program of CKKS", got, remedy)
    columns: Sequence[Any] = batch if isinstance(batch, tuple) else (batch,)
    each = [list(c) if isinstance(c, (list, tuple)) else [c] for c in columns]
    if len({len(c) for c in each}) != 1 or len(each) != program.inputs:
        wanted = f"{program.inputs} lists of one length"
        got = f"lists of {', '.join(str(len(c)) for c in each)}"
        raise BadInput("map", wanted, got, "pass a tuple with a list for each argument")
    inputs = [x for lane in zip(*each, strict=True) for x in lane]
    return program, inputs, {"outputs": program.outputs, "types": None}


def reader(said: dict[str, Any], scheme: str, server: Any) -> Reader:
    """How the files of a chunk are read."""
    outputs, types = int(said["outputs"]), said["types"]
    if scheme == "ckks":
        if server is None:
            remedy = "pass resume(folder, server=server)"
            raise BadInput("resume", "the server of a job of CKKS", "none", remedy)

        def vectors(files: list[bytes]) -> Any:
            each = [[server.from_bytes(f) for f in files[i::outputs]] for i in range(outputs)]
            return each[0] if outputs == 1 else tuple(each)

        return vectors

    def arrays(files: list[bytes]) -> Any:
        digits = [_native.Lwe.from_bytes(f, True, None)[0] for f in files]
        if types is None:
            found: list[Any] = [Ciphertext(d, (len(d),)) for d in digits]
        else:
            found = []
            for name in types:
                count, shape = _native.integer_type(name)[1], (len(digits[0]),)
                type_ = _integer_types.IntegerType(name)
                found.append(Integers(type_, digits[:count], shape, server))
                digits = digits[count:]
        return found[0] if len(found) == 1 else tuple(found)

    return arrays


def saved(folder: str, server: Any, inputs: list[Any]) -> tuple[str, list[str]]:
    """Files of the keys and of the inputs."""
    paths = [os.path.join(folder, str(i)) for i in range(len(inputs))]
    for x, path in zip(inputs, paths, strict=True):
        x.save(path)
    keys = os.path.join(folder, "keys")
    server.save(keys)
    return keys, paths
