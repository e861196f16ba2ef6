"""The boolean gates of a server of TFHE."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from becalm._called import called
from becalm._progress import Progress
from becalm.ciphertext import Ciphertext, require

if TYPE_CHECKING:
    from becalm.program import TfheProgram


class Gates:
    """Gates on booleans, lane by lane: one bootstrap each, but for `not_`."""

    __slots__ = ()

    def _recorded(
        self,
        op: str,
        inputs: tuple[Ciphertext, ...],
        record: Callable[[TfheProgram, list[Any]], Any],
        progress: Progress,
    ) -> Ciphertext:
        raise NotImplementedError

    def gate(self, name: str, a: Ciphertext, b: Ciphertext) -> Ciphertext:
        """A boolean gate lane by lane: `and`, `nand`, `or`, `nor`, `xor` or `xnor`.

        Parameters
        ----------
        name
            Name of the gate.
        a, b
            Booleans, from `SecretKey.encrypt_bool`; their shapes broadcast.

        Returns
        -------
        Ciphertext
            Booleans.

        Examples
        --------
        >>> a, b = secret.encrypt_bool([1, 1, 0, 0]), secret.encrypt_bool([1, 0, 1, 0])
        >>> secret.decrypt_bool(server.gate("xor", a, b))
        array([False,  True,  True, False])
        """
        return self._recorded("gate", (a, b), lambda p, r: p.gate(name, *r), None)

    @called("and_")
    def and_(self, a: Ciphertext, b: Ciphertext) -> Ciphertext:
        """Both, lane by lane.

        Parameters
        ----------
        a, b
            Booleans; their shapes broadcast.

        Returns
        -------
        Ciphertext
            Booleans.

        Examples
        --------
        >>> a, b = secret.encrypt_bool([1, 1, 0, 0]), secret.encrypt_bool([1, 0, 1, 0])
        >>> secret.decrypt_bool(server.and_(a, b))
        array([ True, False, False, False])
        """
        return self.gate("and", a, b)

    @called("nand")
    def nand(self, a: Ciphertext, b: Ciphertext) -> Ciphertext:
        """Not both, lane by lane.

        Parameters
        ----------
        a, b
            Booleans; their shapes broadcast.

        Returns
        -------
        Ciphertext
            Booleans.

        Examples
        --------
        >>> a, b = secret.encrypt_bool([1, 1, 0, 0]), secret.encrypt_bool([1, 0, 1, 0])
        >>> secret.decrypt_bool(server.nand(a, b))
        array([False,  True,  True,  True])
        """
        return self.gate("nand", a, b)

    @called("or_")
    def or_(self, a: Ciphertext, b: Ciphertext) -> Ciphertext:
        """At least one, lane by lane.

        Parameters
        ----------
        a, b
            Booleans; their shapes broadcast.

        Returns
        -------
        Ciphertext
            Booleans.

        Examples
        --------
        >>> a, b = secret.encrypt_bool([1, 1, 0, 0]), secret.encrypt_bool([1, 0, 1, 0])
        >>> secret.decrypt_bool(server.or_(a, b))
        array([ True,  True,  True, False])
        """
        return self.gate("or", a, b)

    @called("nor")
    def nor(self, a: Ciphertext, b: Ciphertext) -> Ciphertext:
        """None, lane by lane.

        Parameters
        ----------
        a, b
            Booleans; their shapes broadcast.

        Returns
        -------
        Ciphertext
            Booleans.

        Examples
        --------
        >>> a, b = secret.encrypt_bool([1, 1, 0, 0]), secret.encrypt_bool([1, 0, 1, 0])
        >>> secret.decrypt_bool(server.nor(a, b))
        array([False, False, False,  True])
        """
        return self.gate("nor", a, b)

    @called("xor")
    def xor(self, a: Ciphertext, b: Ciphertext) -> Ciphertext:
        """Exactly one, lane by lane.

        Parameters
        ----------
        a, b
            Booleans; their shapes broadcast.

        Returns
        -------
        Ciphertext
            Booleans.

        Examples
        --------
        >>> a, b = secret.encrypt_bool([1, 1, 0, 0]), secret.encrypt_bool([1, 0, 1, 0])
        >>> secret.decrypt_bool(server.xor(a, b))
        array([False,  True,  True, False])
        """
        return self.gate("xor", a, b)

    @called("xnor")
    def xnor(self, a: Ciphertext, b: Ciphertext) -> Ciphertext:
        """Both or none, lane by lane.

        Parameters
        ----------
        a, b
            Booleans; their shapes broadcast.

        Returns
        -------
        Ciphertext
            Booleans.

        Examples
        --------
        >>> a, b = secret.encrypt_bool([1, 1, 0, 0]), secret.encrypt_bool([1, 0, 1, 0])
        >>> secret.decrypt_bool(server.xnor(a, b))
        array([ True, False, False,  True])
        """
        return self.gate("xnor", a, b)

    def not_(self, a: Ciphertext) -> Ciphertext:
        """The negation of booleans; no bootstrap. The same as `~a`.

        Returns
        -------
        Ciphertext
            Booleans.

        Examples
        --------
        >>> secret.decrypt_bool(server.not_(secret.encrypt_bool([1, 0])))
        array([False,  True])
        """
        return ~require(a, "not")

    def mux(self, s: Ciphertext, x: Ciphertext, y: Ciphertext) -> Ciphertext:
        """`x` where `s`, else `y`, for booleans, lane by lane.

        Parameters
        ----------
        s
            Booleans that choose.
        x, y
            Booleans to choose from; shapes broadcast.

        Returns
        -------
        Ciphertext
            Booleans.

        Examples
        --------
        >>> s, x, y = (secret.encrypt_bool(b) for b in ([1, 0], [1, 1], [0, 0]))
        >>> secret.decrypt_bool(server.mux(s, x, y))
        array([ True, False])
        """
        return self._recorded("mux", (s, x, y), lambda p, r: p.mux(*r), None)
