"""Collective keys: parties that make a key together, for `becalm.ckks`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

from becalm import _html, _native, _progress, _values
from becalm._called import called
from becalm._ckks_ciphertext import machine
from becalm._ckks_cost import Needs
from becalm._ckks_keygen import asked, machine_of
from becalm._ckks_secret_key import PublicKey
from becalm._ckks_server import Server
from becalm._ckks_sets import Params, params, planned
from becalm._ckks_threshold import KeyShare, file_of
from becalm._files import of_kind
from becalm._progress import Progress
from becalm.errors import BadInput, Unsupported

#: Bytes of a public seed.
SEED = 32


class Party(_html.Shown):
    """A party of a collective key, with fresh secrets of its own. Nobody ever has the key's secret,
    the sum of those of all parties.

    Every party makes one from the same facts and sends `first()` to all. It answers the first
    messages of all with `second`, and gets its share of the key from `share`. `aggregate` adds the
    messages of both rounds up to the keys of encryption and of a server.

    Parameters
    ----------
    name
        The parameter set. A set with a bootstrap gets keys for its other calls alone.
    index
        The number of this party, from 1 to `parties`.
    parties
        How many parties make the key: 2 to 32.
    threshold
        How many of them decrypt together: all, unless it is given.
    seed
        32 random bytes that all parties know, as of `secrets.token_bytes(32)`: all public masks
        come from it.
    slots
        How many values a ciphertext gets, by default all that fit.
    rotations
        Rotations that the server computes, as for `keygen`.
    conjugate
        Whether the server computes conjugates.
    needs
        The needs of a program: exactly its keys are made, and those of products and `rotations`.
    allow_insecure
        Whether sets below 128 bits are accepted.
    threads
        How many threads compute; 0 means all.

    Raises
    ------
    BadInput
        For numbers of parties that cannot be, or another seed than 32 bytes.
    Unsupported
        For the needs of a bootstrap.

    Examples
    --------
    >>> facts = {"parties": 2, "seed": bytes(32), "allow_insecure": True}
    >>> all = [ckks.Party("ckks_toy_12", index=i, **facts) for i in (1, 2)]
    >>> firsts = [party.first() for party in all]
    >>> seconds = [party.second(firsts) for party in all]
    >>> public, server = ckks.aggregate(firsts + seconds, allow_insecure=True)
    >>> x = public.encrypt([0.5, -0.25])
    >>> shares = [party.share(firsts) for party in all]
    >>> options = {"quorum": [1, 2], "precision_bits": -2, "queries": 1}
    >>> values = ckks.combine(x, [s.decrypt_partially(x, **options) for s in shares])
    >>> bool(abs(values[0] - 0.5) < 40)
    True
    """

    __slots__ = ("_name", "_native")

    def __init__(
        self,
        name: str,
        *,
        index: int,
        parties: int,
        threshold: int | None = None,
        seed: bytes,
        slots: int | None = None,
        rotations: Iterable[int] = (),
        conjugate: bool = True,
        needs: Needs | None = None,
        allow_insecure: bool = False,
        threads: int = 0,
    ) -> None:
        with called("Party"):
            if not isinstance(seed, bytes) or len(seed) != SEED:
                wanted, remedy = f"{SEED} bytes as seed", "as in seed=secrets.token_bytes(32)"
                length = f"{len(seed)} bytes" if isinstance(seed, bytes) else type(seed).__name__
                raise BadInput("Party", wanted, length, remedy)
            plan = asked(
                name,
                slots=slots,
                bootstrap=None,
                kinds=None,
                levels=None,
                stage_count=None,
                rotations=rotations,
                conjugate=conjugate,
                needs=needs,
            )
            own = machine_of(plan, allow_insecure, threads, "auto")
            count = _values.count("Party", "parties", parties)
            least = count if threshold is None else _values.count("Party", "threshold", threshold)
            number = _values.count("Party", "index", index)
            native = _native.CkksParty(own, plan.needs(), count, least, seed, number)
        self._name = own.name
        self._native = native

    @classmethod
    def _of(cls, name: str, native: _native.CkksParty) -> Party:
        made = cls.__new__(cls)
        made._name, made._native = name, native
        return made

    @property
    def params(self) -> Params:
        """The parameter set."""
        found: Params = params(self._name)
        return found

    @property
    def party(self) -> int:
        """Number of this party, from 1."""
        return self._native.party

    @property
    def parties(self) -> int:
        """How many parties make the key."""
        return self._native.parties

    @property
    def threshold(self) -> int:
        """How many of them decrypt together."""
        return self._native.threshold

    @property
    def agreement(self) -> str:
        """Digest of the facts that all parties agree on; equal for all of them."""
        return self._native.agreement

    def first(self, *, progress: Progress = None) -> PartyMessage:
        """The first message, for all parties and for whoever calls `aggregate`.

        Parameters
        ----------
        progress
            As for `keygen`.

        Returns
        -------
        PartyMessage
            It holds no secret. A party tells the same whenever it is asked.

        Examples
        --------
        >>> party.first().round
        1
        """
        with _progress.shown(progress, "first message", 0.5) as callback:
            return PartyMessage(self._native.first(callback))

    def second(
        self, messages: Sequence[PartyMessage], *, progress: Progress = None
    ) -> PartyMessage:
        """The second message: the answer to the first messages of all parties.

        The party adds these up itself. An answer to a sum that somebody chose would give its secret
        away.

        Parameters
        ----------
        messages
            The first message of every party, its own included, in any order.
        progress
            As for `keygen`.

        Returns
        -------
        PartyMessage
            It holds no secret.

        Raises
        ------
        BadInput
            Where a message is missing, given twice, or of another agreement or round.

        Examples
        --------
        >>> party.second([party.first(), other.first()]).round
        2
        """
        natives = _messages("second", messages)
        with _progress.shown(progress, "second message", 0.5) as callback:
            return PartyMessage(self._native.second(natives, callback))

    def deal(self) -> list[KeyShare]:
        """The parts of this party's secret, one for each party in order, where fewer than all
        decrypt. Each goes to its party over a secret channel. Where all decrypt there are none.

        Returns
        -------
        list of KeyShare
            A part by itself decrypts nothing: it is for `share`.

        Examples
        --------
        >>> party.deal()  # both parties decrypt
        []
        """
        return [KeyShare(self._name, part) for part in self._native.deal()]

    def share(self, messages: Sequence[PartyMessage], dealt: Sequence[KeyShare] = ()) -> KeyShare:
        """This party's share of the key, for `KeyShare.decrypt_partially`.

        Parameters
        ----------
        messages
            The first message of every party, its own included.
        dealt
            Where fewer than all decrypt: what every other party dealt to this one.

        Returns
        -------
        KeyShare
            The share.

        Raises
        ------
        BadInput
            Where a message or a part is missing, given twice, or does not belong to this party.

        Examples
        --------
        >>> party.share([party.first(), other.first()]).party
        1
        """
        op = "share"
        parts = []
        for part in dealt:
            if not isinstance(part, KeyShare):
                remedy = "pass what the other parties dealt: theirs.deal()[index - 1]"
                raise BadInput(op, "parts of the secrets of others", type(part).__name__, remedy)
            parts.append(part._native)
        return KeyShare(self._name, self._native.share(_messages(op, messages), parts))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the party to a file that only its owner can read, for `load_party`.

        Examples
        --------
        >>> party.save("party.becalm")
        >>> ckks.load_party("party.becalm", allow_insecure=True).first() == party.first()
        True
        """
        self._native.save(_values.path("save", path))

    def to_bytes(self) -> bytes:
        """The file of `save` in memory, not encrypted.

        Python wipes no memory: these bytes stay in it until something is written over them.

        Returns
        -------
        bytes
            The party with its secret.

        Examples
        --------
        >>> becalm.from_bytes(party.to_bytes(), allow_insecure=True).party
        1
        """
        return self._native.to_bytes()

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        number = f"{self.party} of {self.parties}, of whom {self.threshold} decrypt"
        rows = [("parameter set", self._name), ("party", number), ("agreement", self.agreement)]
        return "becalm.ckks.Party", [*rows, ("keep", "with the party; nobody else needs it")]

    def __repr__(self) -> str:
        return f"<becalm.ckks.Party {self.party} of {self.parties}, {self._name}>"

    def __reduce__(self) -> NoReturn:
        remedy = "use save() and load_party(), and mind where the file goes"
        raise Unsupported("copy", "an object that is not secret", "a party", remedy)


class PartyMessage(_html.Shown):
    """A message that a party of a collective key tells all others; it holds no secret.

    Examples
    --------
    >>> message = party.first()
    >>> message.party, message.parties, message.round
    (1, 2, 1)
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.CkksPartyMessage) -> None:
        self._native = native

    @property
    def params(self) -> Params:
        """The parameter set."""
        found: Params = params(self._native.params)
        return found

    @property
    def party(self) -> int:
        """Number of the party that tells it."""
        return self._native.party

    @property
    def parties(self) -> int:
        """How many parties make the key."""
        return self._native.parties

    @property
    def round(self) -> int:
        """1 for a first message, 2 for an answer to all first ones."""
        return self._native.round

    @property
    def agreement(self) -> str:
        """Digest of the facts that its party agreed on."""
        return self._native.agreement

    @property
    def digest(self) -> str:
        """Digest of the message. Parties that exchange the digests of their first messages before
        the messages know that nobody chose one with knowledge of the others.
        """
        return self._native.digest

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the message to a file, for `load_party_message`.

        Examples
        --------
        >>> party.first().save("first.becalm")
        >>> becalm.load("first.becalm", allow_insecure=True).party
        1
        """
        self._native.save(_values.path("save", path))

    def to_bytes(self) -> bytes:
        """The file of `save` in memory; `becalm.from_bytes` reads it.

        Returns
        -------
        bytes
            The message.

        Examples
        --------
        >>> becalm.from_bytes(party.first().to_bytes(), allow_insecure=True).round
        1
        """
        return self._native.to_bytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartyMessage) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        rows = [("parameter set", self._native.params), ("round", self.round)]
        number = f"{self.party} of {self.parties}"
        return "becalm.ckks.PartyMessage", [*rows, ("party", number), ("digest", self.digest)]

    def __repr__(self) -> str:
        return f"<becalm.ckks.PartyMessage {self.round} of party {self.party} of {self.parties}>"

    def __reduce__(self) -> NoReturn:
        remedy = "use to_bytes() and becalm.from_bytes()"
        raise Unsupported("copy", "an object that can be pickled", "a party's message", remedy)


class CollectiveKeys(NamedTuple):
    """The keys that parties made together: `public, server = keys`.

    Examples
    --------
    >>> firsts = [party.first(), other.first()]
    >>> seconds = [party.second(firsts), other.second(firsts)]
    >>> keys = ckks.aggregate(firsts + seconds, allow_insecure=True)
    >>> keys.public.key_id == keys.server.key_id
    True
    """

    public: PublicKey
    server: Server


@called("aggregate")
def aggregate(
    messages: Sequence[PartyMessage],
    *,
    slots: int | None = None,
    compact: bool | str | None = None,
    allow_insecure: bool = False,
    device: str = "auto",
    threads: int = 0,
    progress: Progress = None,
) -> CollectiveKeys:
    """The keys that the messages of all parties add up to: that of encryption, and a server's.

    Anyone can add them up, for no message holds a secret. Equal messages make equal keys. A party
    that does not trust whoever adds them up does it itself, and compares.

    Parameters
    ----------
    messages
        The messages of both rounds of every party, in any order.
    slots
        How many values a ciphertext gets, by default all that fit.
    compact
        The form of the keys in memory, as for `keygen`.
    allow_insecure
        Whether sets below 128 bits are accepted.
    device, threads
        The machine of the server, as for `keygen`.
    progress
        As for `keygen`.

    Returns
    -------
    CollectiveKeys
        `public, server`.

    Raises
    ------
    BadInput
        Where a message is missing, given twice or of another agreement, and where second messages
        answer other first ones.

    Examples
    --------
    >>> firsts = [party.first(), other.first()]
    >>> seconds = [party.second(firsts), other.second(firsts)]
    >>> public, server = ckks.aggregate(firsts + seconds, allow_insecure=True)
    >>> public.encrypt([0.5]).level
    10
    """
    natives = _messages("aggregate", messages)
    if not natives:
        remedy = "pass the messages of both rounds, of all parties"
        raise BadInput("aggregate", "the messages of all parties", "none", remedy)
    plan = planned(
        natives[0].params,
        slots=slots,
        bootstrap=None,
        kinds=None,
        levels=None,
        stage_count=None,
        compact=compact,
    )
    on = machine_of(plan, allow_insecure, threads, device)
    with _progress.shown(progress, "keys", 0.5) as callback:
        public, keys = _native.ckks_aggregate(on, natives, plan.form, callback)
    server = Server(plan, on, keys)
    return CollectiveKeys(PublicKey(public, params(on.name).levels, plan.slots, server), server)


@called("load_party")
def load_party(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    allow_insecure: bool = False,
    threads: int = 0,
) -> Party:
    """Reads a party. Its parameter set stands in the file; a `name` is held against it.

    Parameters
    ----------
    path
        The file.
    name
        The parameter set that the file must have.
    allow_insecure
        Whether sets below 128 bits are accepted.
    threads
        How many threads compute; 0 means all.

    Returns
    -------
    Party
        The party.

    Raises
    ------
    BadFile
        For a file that was altered, cut, or is of another kind.

    Examples
    --------
    >>> party.save("party.becalm")
    >>> ckks.load_party("party.becalm", allow_insecure=True).parties
    2
    """
    kind = "becalm.ckks_party"
    file, found = file_of(path, kind, name)
    own = machine(found, bool(allow_insecure), _values.count("load", "threads", threads))
    with of_kind("load", file, kind):
        return Party._of(own.name, _native.CkksParty.load(own, file))


@called("load_party_message")
def load_party_message(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    allow_insecure: bool = False,
    threads: int = 0,
    limit: int | None = None,
) -> PartyMessage:
    """Reads a message of a party, of at most `limit` bytes (1 GiB by default).

    No file can say whose message it is: take it from the party.

    Parameters
    ----------
    path
        The file.
    name
        The parameter set that the file must have.
    allow_insecure
        Whether sets below 128 bits are accepted.
    threads
        How many threads compute; 0 means all.
    limit
        The largest number of bytes.

    Returns
    -------
    PartyMessage
        The message.

    Raises
    ------
    BadFile
        For a file that was altered, cut, or is of another kind.

    Examples
    --------
    >>> party.first().save("first.becalm")
    >>> ckks.load_party_message("first.becalm", allow_insecure=True) == party.first()
    True
    """
    kind = "becalm.ckks_party_message"
    file, found = file_of(path, kind, name)
    most = _values.limit("load", limit)
    own = machine(found, bool(allow_insecure), _values.count("load", "threads", threads))
    with of_kind("load", file, kind):
        return PartyMessage(_native.CkksPartyMessage.load(own, file, most))


def _messages(op: str, messages: object) -> list[_native.CkksPartyMessage]:
    """The native messages of a list."""
    remedy = "pass a list of what first() and second() returned"
    if isinstance(messages, PartyMessage) or not isinstance(messages, Iterable):
        raise BadInput(op, "messages of parties", type(messages).__name__, remedy)
    found = []
    for message in messages:
        if not isinstance(message, PartyMessage):
            raise BadInput(op, "messages of parties", type(message).__name__, remedy)
        found.append(message._native)
    return found


def of_bytes(
    file: bytes, kind: str, on: _native.CkksMachine, limit: int | None
) -> Party | PartyMessage | None:
    """The object in the bytes of a file; none for one of another kind."""
    if kind == "becalm.ckks_party":
        return Party._of(on.name, _native.CkksParty.from_bytes(on, file))
    if kind == "becalm.ckks_party_message":
        return PartyMessage(_native.CkksPartyMessage.from_bytes(on, file, limit))
    return None
