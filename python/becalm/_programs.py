"""The common part of programs of both schemes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar, overload

from becalm import _html, _native, _values
from becalm._called import called
from becalm._names import CkksName, TfheName
from becalm.errors import BadInput

if TYPE_CHECKING:
    from becalm._ckks_cost import Cost as CkksCost
    from becalm._ckks_cost import Needs as CkksNeeds
    from becalm._ckks_program import Program as CkksProgram
    from becalm._ckks_sets import Params as CkksParams
    from becalm._native import Params
    from becalm._tfhe_registers import Cost, Needs
    from becalm.program import TfheProgram


class Program(_html.Shown):
    """Instructions for one parameter set, recorded one by one and run at once by `Server.run`.

    The name of a set of CKKS gives a `becalm.ckks.Program`, of which the registers are vectors.
    Both have `params`, `input`, `output`, `cost`, `needs`, `save`, `to_bytes` and `from_bytes`.

    Parameters
    ----------
    params
        A parameter set or its name.
    **options
        Those of `becalm.ckks.Program`.

    Raises
    ------
    BadInput
        For options of the other scheme.

    Examples
    --------
    >>> p = becalm.Program("toy_2_2")
    >>> a, b = p.input(below=4), p.input(below=4)
    >>> p.output(p.lookup(a + b, lambda m: m // 2))
    >>> p.cost.bootstraps
    1
    >>> secret.decrypt(server.run(p, secret.encrypt([1, 3], below=4), secret.encrypt(3, below=4)))
    array([2, 3])
    """

    __slots__ = ("_native",)
    _native: _native.Program | _native.CkksProgram
    _schemes: ClassVar[dict[str, type[Program]]] = {}

    def __init_subclass__(cls, scheme: str, **more: Any) -> None:
        super().__init_subclass__(**more)
        Program._schemes[scheme] = cls

    @overload
    def __new__(
        cls,
        params: CkksName | CkksParams,
        *,
        slots: int | None = ...,
        bootstrap: str = ...,
        auto: bool = ...,
    ) -> CkksProgram: ...
    @overload
    def __new__(cls, params: TfheName | Params = ...) -> TfheProgram: ...
    @overload
    def __new__(cls, params: str) -> Program: ...
    def __new__(cls, params: Any = "tfhe_2_2", **options: Any) -> Any:
        name = getattr(params, "name", params)
        scheme = _native.scheme_of(name) if isinstance(name, str) else "tfhe"
        found = Program._schemes[scheme]
        unknown = [name for name in options if name not in ("slots", "bootstrap", "auto")]
        if unknown:
            # The words of Python: no scheme has these arguments.
            raise TypeError(f"Program() got an unexpected keyword argument {unknown[0]!r}")
        if scheme == "tfhe" and options:
            remedy = 'they go with Program("ckks")'
            raise BadInput("program", "arguments of TFHE", ", ".join(options), remedy)
        return object.__new__(found)

    if TYPE_CHECKING:

        @property
        def params(self) -> Params | CkksParams: ...
        @property
        def cost(self) -> Cost | CkksCost: ...
        @property
        def needs(self) -> Needs | CkksNeeds: ...

    @property
    def inputs(self) -> int:
        """Number of arguments."""
        return len(self._native.inputs)

    @property
    def outputs(self) -> int:
        """Number of results."""
        return len(self._native.outputs)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program to a file, for `becalm.load`.

        Examples
        --------
        >>> p = becalm.Program("toy_2_2")
        >>> p.output(p.lookup(p.input(), lambda m: m // 2))
        >>> p.save("halves.becalm")
        >>> becalm.load("halves.becalm", allow_insecure=True).cost == p.cost
        True
        """
        self._native.save(_values.path("save", path))

    def to_bytes(self) -> bytes:
        """The file of `save` in memory, for the network; `from_bytes` reads it.

        Returns
        -------
        bytes
            The instructions.

        Examples
        --------
        >>> p = becalm.Program("toy_2_2")
        >>> p.output(p.lookup(p.input(), lambda m: m // 2))
        >>> becalm.Program.from_bytes(p.to_bytes(), allow_insecure=True).cost == p.cost
        True
        """
        return self._native.to_bytes()

    @classmethod
    @called("from_bytes")
    def from_bytes(
        cls, file: bytes, *, allow_insecure: bool = False, limit: int | None = None
    ) -> Program:
        """A program of either scheme from the bytes of a file, checked as by `becalm.load`.

        Parameters
        ----------
        file
            The bytes that `to_bytes` gave.
        allow_insecure
            Whether sets below 128 bits are accepted.
        limit
            The largest number of bytes, 1 GiB by default.

        Returns
        -------
        Program
            It is recorded again.

        Raises
        ------
        BadFile
            For bytes that were altered, are of another kind or above the limit.
        Insecure
            For a set below 128 bits that was not allowed.

        Examples
        --------
        >>> p = becalm.Program("toy_2_2")
        >>> p.output(p.input() + 1)
        >>> becalm.Program.from_bytes(p.to_bytes(), allow_insecure=True).outputs
        1
        """
        kind, _ = _native.kind_of_bytes(_values.data("from_bytes", file))
        found = Program._schemes["ckks" if kind == "becalm.ckks_program" else "tfhe"]
        return found.from_bytes(file, allow_insecure=allow_insecure, limit=limit)

    def __len__(self) -> int:
        return len(self._native)
