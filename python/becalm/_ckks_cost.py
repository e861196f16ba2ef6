"""The cost of a program of CKKS, and the keys that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from becalm import _html, _native, _values
from becalm._values import counted
from becalm.errors import BadInput


@dataclass(frozen=True)
class Cost(_html.Shown):
    """The cost of a program of CKKS.

    Examples
    --------
    >>> p = becalm.Program("ckks_toy_12", slots=4)
    >>> x = p.input(level=2)
    >>> p.output(x * x)
    >>> p.cost.products
    1
    """

    #: Bootstraps for each lane.
    bootstraps: int
    #: Key switches for each lane; those of products and matrices count.
    key_switches: int
    #: Products of two ciphertexts for each lane.
    products: int
    #: Number-theoretic transforms of one polynomial modulo one prime for each lane, about.
    transforms: int
    #: Diagonals of all matrices, each multiplied once for each lane.
    diagonals: int
    #: Instructions, each of them one step.
    instructions: int
    #: Bootstraps on the longest path.
    depth: int
    #: Most bytes of ciphertexts at once for each lane.
    bytes_per_lane: int
    #: Vectors computed side by side.
    lanes: int = 1

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        return "becalm.ckks.Cost", [
            ("bootstraps", f"{self.bootstraps:,}"),
            ("bootstraps one after another", f"{self.depth:,}"),
            ("key switches", f"{self.key_switches:,}"),
            ("products", f"{self.products:,}"),
            ("transforms, about", f"{self.transforms:,}"),
            ("diagonals of matrices", f"{self.diagonals:,}"),
            ("instructions", f"{self.instructions:,}"),
            ("memory for each lane", _values.megabytes(self.bytes_per_lane)),
            ("lanes", f"{self.lanes:,}"),
        ]

    def __str__(self) -> str:
        return (
            f"{counted(self.bootstraps, 'bootstrap')} (depth {self.depth}), "
            f"{counted(self.key_switches, 'key switch')}, {counted(self.products, 'product')}, "
            f"about {counted(self.transforms, 'transform')}, "
            f"{counted(self.instructions, 'instruction')}, {self.bytes_per_lane} bytes per lane, "
            f"{counted(self.lanes, 'lane')}"
        )


class Needs(_html.Shown):
    """The keys that a program needs, and its slots: `becalm.keygen(name, needs=program.needs)`
    makes them. The needs of two programs, `p.needs | q.needs`, have the slots of the larger.

    A server always has the key of products at the levels of the user.

    Examples
    --------
    >>> p = becalm.Program("ckks_toy_12", slots=4)
    >>> p.output(p.input(level=2).rotate(1))
    >>> p.needs.rotations
    [1]
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.CkksNeeds) -> None:
        if not isinstance(native, _native.CkksNeeds):
            remedy = "use the needs of a program"
            raise BadInput("needs", "the needs of a program", type(native).__name__, remedy)
        self._native = native

    @property
    def rotations(self) -> list[int]:
        """Rotations by these numbers of slots to the left."""
        return self._native.rotations

    @property
    def conjugate(self) -> bool:
        """Whether it needs the key of conjugation."""
        return self._native.conjugate is not None

    @property
    def bootstrap(self) -> bool:
        """Whether it needs the keys to and from the ephemeral secret of a bootstrap."""
        return self._native.bootstrap is not None

    @property
    def slots(self) -> int:
        """Values in the longest vector that it takes."""
        return self._native.slots

    def __or__(self, other: Needs) -> Needs:
        """The needs of both."""
        if not isinstance(other, Needs):
            return NotImplemented
        return Needs(self._native.union(other._native))

    def __eq__(self, other: object) -> bool:
        """Whether the same keys are needed, at the same levels and for as many slots."""
        return self._native == other._native if isinstance(other, Needs) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        turns = ", ".join(map(str, self.rotations[:8])) + (", …" if len(self.rotations) > 8 else "")
        return "becalm.ckks.Needs", [
            ("slots", f"{self.slots:,}"),
            ("rotations", f"{len(self.rotations)}{f' by {turns}' if turns else ''}"),
            ("conjugation", "yes" if self.conjugate else "no"),
            ("products", "yes" if self._native.multiply else "no"),
            ("bootstrap", "yes" if self.bootstrap else "no"),
        ]

    def __repr__(self) -> str:
        words = [counted(len(self.rotations), "rotation")]
        words += ["conjugation"] * self.conjugate + ["a bootstrap"] * self.bootstrap
        words += ["products"] * bool(self._native.multiply)
        return f"<becalm.ckks.Needs: {', '.join(words)}>"
