"""Boolean circuits: from files or from traced Python functions to programs on encrypted bits.

>>> c = becalm.circuit.trace(lambda a, b: (a + b, a < b), 8, 8)
>>> c(200, 100)
(300, 0)
>>> p = c.compile("toy_2_2")
>>> sums = server.run(p, *c.encrypt(secret, 200, 100))
>>> c.decrypt(secret, sums)
(300, 0)
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from becalm import _html, _native, _progress, _public, _values
from becalm._bits import Bits, Gates, join, number, require_width, select
from becalm._called import called
from becalm.ciphertext import Ciphertext, require_bits
from becalm.errors import BadInput, Unsupported
from becalm.keys import SecretKey
from becalm.program import TfheProgram

__all__ = ["Bits", "Circuit", "join", "load", "parse", "select", "trace"]
__dir__ = _public.names(__all__)


class Circuit(_html.Shown):
    """A boolean circuit without memory; `load`, `parse` and `trace` make one.

    Called with an integer for each input, or an array of them, it is evaluated unencrypted and
    returns an integer or an array, or a tuple if there are several outputs.

    Examples
    --------
    >>> c = becalm.circuit.trace(lambda a, b: a + b, 4, 4)
    >>> c(9, 8), c.inputs
    (17, [('a', 4), ('b', 4)])
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.Circuit) -> None:
        self._native = native

    def __reduce__(self) -> NoReturn:
        remedy = "pickle the program of its `compile`, or load, parse or trace it again there"
        raise Unsupported("copy", "an object that can be pickled", "a circuit", remedy)

    def __copy__(self) -> Circuit:
        return self

    def __deepcopy__(self, memo: object) -> Circuit:
        return self

    @property
    def inputs(self) -> list[tuple[str, int]]:
        """Name and width in bits of each input."""
        return self._native.inputs

    @property
    def outputs(self) -> list[tuple[str, int]]:
        """Name and width in bits of each output."""
        return self._native.outputs

    @property
    def gates(self) -> tuple[int, int]:
        """How many AND and how many XOR gates there are."""
        return self._native.gates

    def compile(
        self,
        params: Any = "tfhe_2_2",
        *,
        goal: str | int = "depth",
        progress: _progress.Progress = None,
    ) -> TfheProgram:
        """The circuit as a program: an argument and a result for each bit, least significant first.

        Parameters
        ----------
        params
            A parameter set, its name, or a server.
        goal
            The figure to minimise: `"depth"`, bootstraps one after another, or `"bootstraps"`. A
            number n from 1 on asks for the fewest bootstraps with at most n one after another.
        progress
            False for no bar, True for one, or a function of the steps done and all steps; it stops
            the work by returning False or raising.

        Returns
        -------
        TfheProgram
            For `Server.run`.

        Raises
        ------
        BadInput
            For an unknown goal, or a number that is too small.
        TooNoisy
            For a program that could fail more often than the set claims.
        OutOfMemory
            For a circuit whose compilation may take more memory than is free.
        Interrupted
            If `progress` stops it.

        Examples
        --------
        >>> c = becalm.circuit.trace(lambda a, b: a + b, 4, 4)
        >>> fast, small = c.compile("tfhe_2_2"), c.compile("tfhe_2_2", goal="bootstraps")
        >>> fast.cost.depth <= small.cost.depth, fast.cost.bootstraps >= small.cost.bootstraps
        (True, True)
        """
        number = isinstance(goal, int) and not isinstance(goal, bool) and 0 < goal < 1 << 31
        if not number and goal not in ("depth", "bootstraps"):
            wanted = "depth, bootstraps or a number of bootstraps one after another, 1 or more"
            raise BadInput("compile", wanted, str(goal), "choose one of these")
        named = {"depth": 0, "bootstraps": None}
        limit = named[goal] if isinstance(goal, str) else goal
        native = _values.set_of("compile", params)
        with _progress.shown(progress, "compile", 1.0) as callback:
            return TfheProgram(self._native.compile(native, limit, callback))

    def encrypt(self, secret: SecretKey, *values: Any) -> list[Ciphertext]:
        """The arguments of the compiled program for these inputs: each bit encrypted.

        Parameters
        ----------
        secret
            The secret key.
        *values
            An integer for each input, or an array of them: the program then runs on all elements.

        Returns
        -------
        list of Ciphertext
            One for each bit.

        Raises
        ------
        BadInput
            For another number of inputs, an integer that does not fit its input, and a key of CKKS.

        Examples
        --------
        >>> c = becalm.circuit.trace(lambda a, b: a + b, 4, 4)
        >>> [int(secret.decrypt(bit)) for bit in c.encrypt(secret, 9, 8)]
        [1, 0, 0, 1, 0, 0, 0, 1]
        """
        _values.native_secret("encrypt", secret)
        bits, shape = self._bits(values)
        lanes = [np.array(bit, dtype=np.int64).reshape(shape) for bit in bits]
        return [secret.encrypt(bit, below=2) for bit in lanes]

    def decrypt(self, secret: SecretKey, results: Sequence[Ciphertext] | Ciphertext) -> Any:
        """The outputs that the results of the compiled program are.

        Parameters
        ----------
        secret
            The secret key.
        results
            The results of `Server.run`.

        Returns
        -------
        int, array or tuple
            A tuple if there are several outputs; arrays where the inputs were arrays, of Python's
            integers for an output of more than 64 bits.

        Raises
        ------
        BadInput
            For another number of results, and a key of CKKS.

        Examples
        --------
        >>> c = becalm.circuit.trace(lambda a, b: a + b, 4, 4)
        >>> sums = server.run(c.compile("toy_2_2"), *c.encrypt(secret, 9, 8))
        >>> c.decrypt(secret, sums)
        17
        """
        _values.native_secret("decrypt", secret)
        found = [results] if isinstance(results, Ciphertext) else results
        if not isinstance(found, Iterable):
            remedy = "give the results of server.run"
            raise BadInput("decrypt", "a list of encrypted bits", type(found).__name__, remedy)
        found = [require_bits(x, "give the results of the compiled program") for x in found]
        lanes = [np.asarray(secret.decrypt(x)) for x in found]
        shape = _values.common_shape("decrypt", *(lane.shape for lane in lanes))
        return self._values([np.broadcast_to(x, shape).ravel().tolist() for x in lanes], shape)

    def __call__(self, *values: Any) -> Any:
        bits, shape = self._bits(values)
        found: list[list[int]] = []
        # A word has 64 evaluations.
        for at in range(0, math.prod(shape), 64):
            words = [sum(v << i for i, v in enumerate(bit[at : at + 64])) for bit in bits]
            count = min(64, math.prod(shape) - at)
            parts = [[w >> i & 1 for i in range(count)] for w in self._native.evaluate(words)]
            found = [a + b for a, b in zip(found, parts, strict=True)] if found else parts
        return self._values(found or [[] for _ in range(self._outputs)], shape)

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        names, (both, one) = self._ports(), self.gates
        gates = [("AND gates", f"{both:,}"), ("XOR gates", f"{one:,}")]
        return "becalm.Circuit", [("inputs", names[0]), ("outputs", names[1]), *gates]

    def __repr__(self) -> str:
        names, (both, one) = self._ports(), self.gates
        return f"<becalm.Circuit {names[0]} -> {names[1]}, {both} AND, {one} XOR>"

    def _ports(self) -> list[str]:
        """Inputs and outputs in words."""
        return [
            " ".join(f"{_shown(name)}[{width}]" for name, width in ports)
            for ports in (self.inputs, self.outputs)
        ]

    @property
    def _outputs(self) -> int:
        return sum(width for _, width in self.outputs)

    def _bits(self, values: Sequence[Any]) -> tuple[list[list[int]], tuple[int, ...]]:
        """For each bit of the inputs its value in each lane, and the shape of the lanes."""
        if len(values) != len(self.inputs):
            wanted = f"{_values.counted(len(self.inputs), 'value')}, one for each input"
            raise BadInput("circuit", wanted, str(len(values)), "see Circuit.inputs")
        given = [_values.objects("circuit", value) for value in values]
        shape = _values.common_shape("circuit", *(x.shape for x in given))
        bits: list[list[int]] = []
        for (name, width), lanes in zip(self.inputs, given, strict=True):
            found = [number("circuit", x) for x in np.broadcast_to(lanes, shape).ravel().tolist()]
            wide = next((i for i, x in enumerate(found) if x >> width), None)
            if wide is not None:
                # The position is public, the value may be about to be encrypted.
                got = f"a longer number at position {wide}"
                wanted = f"{width} bits for {_shown(name)}"
                raise BadInput("circuit", wanted, got, "see Circuit.inputs")
            bits += [[x >> i & 1 for x in found] for i in range(width)]
        return bits, shape

    def _values(self, bits: Sequence[Sequence[int]], shape: tuple[int, ...]) -> Any:
        """The outputs that bits are, lane by lane."""
        if len(bits) != self._outputs:
            wanted = f"{self._outputs} results, one for each bit"
            raise BadInput("circuit", wanted, str(len(bits)), "give the results of server.run")
        found: list[Any] = []
        at = 0
        for _, width in self.outputs:
            lanes = zip(*bits[at : at + width], strict=True)
            words = [sum((bit & 1) << i for i, bit in enumerate(lane)) for lane in lanes]
            kind: Any = np.int64 if width < 64 else np.uint64 if width == 64 else object
            found.append(np.array(words, dtype=kind).reshape(shape) if shape else words[0])
            at += width
        return tuple(found) if len(found) > 1 else found[0]


def _shown(name: str) -> str:
    """A name of a file. `repr` leaves it no power over a terminal."""
    return repr(name)[1:-1]


@called("parse")
def parse(text: str) -> Circuit:
    """A circuit from text in Bristol Fashion or BLIF.

    Returns
    -------
    Circuit
        The circuit.

    Raises
    ------
    BadInput
        For anything but a text, and for a text that is no circuit.

    Examples
    --------
    >>> both = ".model both\\n.inputs a b\\n.outputs c\\n.names a b c\\n11 1\\n.end\\n"
    >>> becalm.circuit.parse(both)(1, 1)
    1
    """
    if not isinstance(text, str):
        raise BadInput("circuit", "a text", type(text).__name__, "read the file as text")
    return Circuit(_native.Circuit.parse(text))


@called("load")
def load(
    path: str | os.PathLike[str],
    *,
    top: str | None = None,
    limit: int | None = None,
    seconds: int | None = None,
) -> Circuit:
    """A circuit from a file in Bristol Fashion or BLIF; in Verilog (`.v`, `.sv`) if Yosys is
    installed, or the package pyosys.

    Parameters
    ----------
    path
        The file. One longer than a 64th of the limit raises `BadFile`.
    top
        The module of a Verilog file, where several are contained in no other.
    limit
        The memory that reading may take, in bytes, 1 GiB by default.
    seconds
        The processor time that Yosys may take, 60 by default.

    Returns
    -------
    Circuit
        The circuit.

    Raises
    ------
    BadInput
        For a fault in the file, with the path and the line.
    BadFile
        For a file that is too long, empty or not text.
    OutOfMemory
        For a file that may take more memory than is free.
    IoError
        For a file that cannot be read.

    Examples
    --------
    >>> becalm.circuit.load("adder.txt", limit=1 << 20)
    <becalm.Circuit in0[1] in1[1] -> out0[2], 1 AND, 1 XOR>
    """
    file, most = _values.path("circuit", path), _values.limit("circuit", limit)
    time = None if seconds is None else _values.count("circuit", "seconds", seconds)
    if top is not None and not isinstance(top, str):
        raise BadInput("circuit", "the name of a module as top", type(top).__name__, "pass a str")
    return Circuit(_native.Circuit.load(file, most, time, top))


def trace(function: Callable[..., Any], *widths: int) -> Circuit:
    """The circuit of a Python function of numbers without sign, which have these widths in bits.

    The function is called once, with `Bits`; it returns one, a tuple or list of them, or a
    dictionary whose keys name the outputs. Loops and branches on clear values are unrolled.

    Parameters
    ----------
    function
        A function of `Bits`.
    *widths
        The width of each argument in bits.

    Returns
    -------
    Circuit
        The circuit of the function.

    Raises
    ------
    BadInput
        For a function of other arguments or results, or one that branches on a bit.

    Examples
    --------
    >>> c = becalm.circuit.trace(lambda a, b: {"sum": a + b, "less": a < b}, 8, 8)
    >>> c(200, 100), c.outputs
    ((300, 0), [('sum', 9), ('less', 1)])
    """
    gates = Gates()
    names = _parameters(function, len(widths))
    ports = [(n, _values.count("trace", "width", w)) for n, w in zip(names, widths, strict=True)]
    require_width(sum(width for _, width in ports))
    if not ports or not all(width for _, width in ports):
        raise BadInput("trace", "inputs of at least one bit", str(widths), "give their widths")
    wires = [[f"{name}[{i}]" for i in range(width)] for name, width in ports]
    found = function(*(Bits(gates, bits) for bits in wires))
    if not isinstance(found, dict):
        several = isinstance(found, (tuple, list))
        found = {f"out{i}": x for i, x in enumerate(found if several else [found])}
    if not found:
        remedy = "let the function return bits"
        raise BadInput("trace", "at least one output", "a function without one", remedy)
    outputs, lines = [], []
    for name, value in found.items():
        if not isinstance(value, Bits) or value._gates is not gates:
            got = f"{type(value).__name__} as {name}"
            raise BadInput("trace", "bits", got, "compute them from the arguments")
        if not str(name).isidentifier():
            raise BadInput("trace", "a name for each output", str(name), "choose another name")
        if name in names:
            remedy = "return a dictionary whose keys name the outputs, or rename the parameter"
            raise BadInput("trace", "outputs that no input is called", str(name), remedy)
        for i, wire in enumerate(value._names):
            outputs.append(f"{name}[{i}]")
            lines.append(f".names {wire} {name}[{i}]\n1 1")
    inputs = " ".join(bit for bits in wires for bit in bits)
    head = [".model traced", f".inputs {inputs}", ".outputs " + " ".join(outputs)]
    constants = [".names $zero", ".names $one\n1"]
    return parse("\n".join([*head, *constants, *gates.lines, *lines, ".end\n"]))


def _parameters(function: Callable[..., Any], count: int) -> list[str]:
    """Names of the inputs: those of the function's parameters, if it tells them."""
    try:
        inspect.signature(function).bind(*range(count))
        kinds = inspect.signature(function).parameters.values()
    except TypeError as why:
        wanted = f"a function of {_values.counted(count, 'argument')}, one for each width"
        raise BadInput("trace", wanted, str(why), "give a width for each argument") from None
    except ValueError:
        return [f"in{i}" for i in range(count)]
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in kinds if p.kind in plain][:count]
    return names + [f"in{i}" for i in range(len(names), count)]
