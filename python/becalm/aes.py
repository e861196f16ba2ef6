"""AES-128 on encrypted bits, and data that arrives encrypted by AES as encrypted integers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from becalm import _html, _integer_types, _native, _public, _values
from becalm._encrypted import Encrypted
from becalm._native import Lwe, Params
from becalm.ciphertext import Ciphertext
from becalm.errors import BadFile, BadInput, Unsupported
from becalm.integers import Integers, IntegerType
from becalm.program import Cost, TfheProgram
from becalm.server import Server, server_for

if TYPE_CHECKING:
    from becalm.keys import SecretKey

__all__ = ["AesKey", "EncryptedBytes", "aes128", "aes_ctr", "encrypt_bytes"]
__dir__ = _public.names(__all__)

#: Bytes of a block, and of a key.
BLOCK = 16
#: Blocks that a circuit takes at most.
MOST_BLOCKS = 1024


class EncryptedBytes(Encrypted, _html.Shown):
    """Bytes, encrypted bit by bit; slices and `+` are those of `bytes`.

    Examples
    --------
    >>> x = secret.encrypt(b"calm") + secret.encrypt(b" again")
    >>> x[2:6].decrypt(secret)
    b'lm a'
    """

    __slots__ = ("_bits",)
    _scheme = "TFHE"
    _what = "encrypted bytes"

    def __init__(self, bits: EncryptedBytes | Ciphertext | Lwe) -> None:
        self._bits = _bits_of(bits)
        _native.check_bits(self._bits, False)

    def __len__(self) -> int:
        return len(self._bits) // 8

    def __getitem__(self, key: int | slice) -> EncryptedBytes:
        rows = Ciphertext(self._bits, (len(self), 8))[key]
        return EncryptedBytes(rows.reshape(-1))

    def __iter__(self) -> Iterator[EncryptedBytes]:
        return (self[i] for i in range(len(self)))

    def __add__(self, other: EncryptedBytes) -> EncryptedBytes:
        if not isinstance(other, EncryptedBytes):
            return NotImplemented
        return EncryptedBytes(Lwe.concat([self._bits, other._bits]))

    @property
    def params(self) -> Params:
        """The parameter set."""
        return self._bits.params

    @property
    def key_id(self) -> str:
        """Identity of the secret key; public."""
        return self._bits.key_id

    def decrypt(self, secret: SecretKey) -> bytes:
        """The bytes: the same as `secret.decrypt(x)`.

        Returns
        -------
        bytes
            The bytes.

        Examples
        --------
        >>> secret.encrypt(b"calm").decrypt(secret)
        b'calm'
        """
        found: bytes = _values.decrypted(self, secret)
        return found

    def _decrypted(self, secret: _native.SecretKey) -> bytes:
        return _native.decrypt_bits(secret, self._bits)

    def save(self, path: str | os.PathLike[str], *, seeded: bool = False) -> None:
        """Writes the bytes to a file, for `becalm.load`; `seeded` as in `Integers.save`.

        Parameters
        ----------
        path
            The file.
        seeded
            Whether masks are written as a seed, which suits fresh encryptions alone.

        Examples
        --------
        >>> secret.encrypt(b"calm").save("bytes.becalm", seeded=True)
        >>> becalm.load("bytes.becalm", allow_insecure=True).decrypt(secret)
        b'calm'
        """
        _native.save_bits(self._bits, False, _values.path("save", path), bool(seeded))

    def to_bytes(self, *, seeded: bool = False) -> bytes:
        """The file of `save` in memory; `from_bytes` reads it.

        Returns
        -------
        bytes
            The file, still encrypted.

        Examples
        --------
        >>> sent = secret.encrypt(b"calm").to_bytes()
        >>> becalm.from_bytes(sent, allow_insecure=True).decrypt(secret)
        b'calm'
        """
        return _native.bits_to_bytes(self._bits, False, bool(seeded))

    @classmethod
    def from_bytes(
        cls, file: bytes, *, allow_insecure: bool = False, limit: int | None = None
    ) -> EncryptedBytes:
        """Encrypted bytes from the bytes of a file, checked as by `becalm.load`.

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
        EncryptedBytes
            The same bytes.

        Raises
        ------
        BadFile
            For bytes that were altered, are of another kind or above the limit.
        Insecure
            For a set below 128 bits that was not allowed.

        Examples
        --------
        >>> sent = secret.encrypt(b"calm").to_bytes()
        >>> becalm.EncryptedBytes.from_bytes(sent, allow_insecure=True).decrypt(secret)
        b'calm'
        """
        return cls(_read(file, False, allow_insecure, limit))

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels as the bytes of its file."""
        return _restored, (self.to_bytes(), False, self.params.kind != "standard")

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        size = _values.megabytes(self._bits.nbytes)
        rows = [("bytes", len(self)), ("size", size), ("parameter set", self.params.name)]
        return "becalm.EncryptedBytes", [*rows, ("key", self.key_id)]

    def __repr__(self) -> str:
        return f"<becalm.EncryptedBytes, {len(self)} of them, {self.params.name}>"


class AesKey(Encrypted, _html.Shown):
    """A key of AES-128, encrypted by becalm; `aes128` makes it, `on(server)` says where it is used.

    It is saved, loaded and pickled like any ciphertext: only becalm's secret key can read it.

    Examples
    --------
    >>> key = becalm.aes128(secret, b"becalm, 16 bytes").on(server)
    >>> arrived = becalm.aes_ctr(b"becalm, 16 bytes", b"calm", bytes(16))
    >>> key.ctr(arrived, bytes(16)).decrypt(secret)
    b'calm'
    """

    __slots__ = ("_bits", "_server")

    def __init__(
        self, bits: EncryptedBytes | Ciphertext | Lwe, server: Server | None = None
    ) -> None:
        self._bits = _bits_of(bits)
        _native.check_bits(self._bits, True)
        self._server = server

    @property
    def params(self) -> Params:
        """The parameter set."""
        return self._bits.params

    @property
    def key_id(self) -> str:
        """Identity of the secret key of becalm; public."""
        return self._bits.key_id

    def save(self, path: str | os.PathLike[str], *, seeded: bool = False) -> None:
        """Writes the encrypted key to a file, for `becalm.load`; `seeded` as in `Integers.save`.

        Parameters
        ----------
        path
            The file.
        seeded
            Whether masks are written as a seed, which suits fresh encryptions alone.

        Examples
        --------
        >>> key.save("aes.becalm")
        >>> becalm.load("aes.becalm", allow_insecure=True).decrypt(secret)
        b'becalm, 16 bytes'
        """
        _native.save_bits(self._bits, True, _values.path("save", path), bool(seeded))

    def to_bytes(self, *, seeded: bool = False) -> bytes:
        """The file of `save` in memory; `from_bytes` reads it.

        Returns
        -------
        bytes
            The file, still encrypted.

        Examples
        --------
        >>> becalm.from_bytes(key.to_bytes(), allow_insecure=True).decrypt(secret)
        b'becalm, 16 bytes'
        """
        return _native.bits_to_bytes(self._bits, True, bool(seeded))

    @classmethod
    def from_bytes(
        cls, file: bytes, *, allow_insecure: bool = False, limit: int | None = None
    ) -> AesKey:
        """An encrypted key from the bytes of a file, checked as by `becalm.load`.

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
        AesKey
            The same key, on no server.

        Raises
        ------
        BadFile
            For bytes that were altered, are of another kind or above the limit.
        Insecure
            For a set below 128 bits that was not allowed.

        Examples
        --------
        >>> becalm.AesKey.from_bytes(key.to_bytes(), allow_insecure=True).decrypt(secret)
        b'becalm, 16 bytes'
        """
        return cls(_read(file, True, allow_insecure, limit))

    def decrypt(self, secret: SecretKey) -> bytes:
        """The key of AES: the same as `secret.decrypt(x)`.

        Returns
        -------
        bytes
            The 16 bytes of the key.

        Examples
        --------
        >>> key.decrypt(secret)
        b'becalm, 16 bytes'
        """
        found: bytes = _values.decrypted(self, secret)
        return found

    def _decrypted(self, secret: _native.SecretKey) -> bytes:
        return _native.decrypt_bits(secret, self._bits)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels as the bytes of its file."""
        return _restored, (self.to_bytes(), True, self.params.kind != "standard")

    def _facts(self) -> tuple[str, list[tuple[str, Any]]]:
        where = "none yet: key.on(server)" if self._server is None else repr(self._server)
        rows = [("parameter set", self.params.name), ("key", self.key_id), ("server", where)]
        return "becalm.AesKey, encrypted", rows

    def on(self, server: Server) -> AesKey:
        """The same key, to be used on a server.

        Returns
        -------
        AesKey
            It knows the server.

        Raises
        ------
        WrongParams, WrongKey
            For a server of another set or key of becalm.

        Examples
        --------
        >>> becalm.aes128(secret, b"becalm, 16 bytes").on(server)
        <becalm.AesKey, encrypted, toy_2_2, on a server>
        """
        return AesKey(self._bits, server_for("on", server, self))

    def ecb(self, blocks: EncryptedBytes) -> EncryptedBytes:
        """Encrypts encrypted blocks of 16 bytes, each alone: the building block of other modes.

        Returns
        -------
        EncryptedBytes
            As many blocks.

        Raises
        ------
        BadInput
            For bytes that are not whole blocks.

        Examples
        --------
        >>> key.ecb(secret.encrypt(bytes(16))).decrypt(secret) == becalm.aes_ctr(
        ...     b"becalm, 16 bytes", bytes(16), bytes(16)
        ... )
        True
        """
        if not isinstance(blocks, EncryptedBytes):
            got = type(blocks).__name__
            raise BadInput("ecb", "encrypted bytes", got, "use becalm.encrypt_bytes")
        if not len(blocks) or len(blocks) % BLOCK:
            remedy = "fill the last block up"
            raise BadInput("ecb", f"blocks of {BLOCK} bytes", f"{len(blocks)} bytes", remedy)
        program = _ecb(self._machine("ecb").params, len(blocks) // BLOCK)
        return EncryptedBytes(Lwe.concat(self._run("ecb", program, blocks._bits)))

    def ctr(self, data: bytes, counter: bytes) -> EncryptedBytes:
        """Adds the keystream from a counter block on to plain data. Data encrypted by AES-CTR comes
        out decrypted by AES, and encrypted under becalm's key.

        Parameters
        ----------
        data
            At most 1024 blocks, of any length.
        counter
            The counter block of the first block.

        Returns
        -------
        EncryptedBytes
            As long as the data.

        Examples
        --------
        >>> arrived = becalm.aes_ctr(b"becalm, 16 bytes", b"calm", bytes(16))
        >>> key.ctr(arrived, bytes(16)).decrypt(secret)
        b'calm'
        """
        program, blocks = self._ctr("ctr", data, counter, None)
        if not data:
            return EncryptedBytes(Ciphertext(self._bits, (len(self._bits),))[:0])
        bits = self._run("ctr", program, blocks)[: 8 * len(data)]
        return EncryptedBytes(Lwe.concat(bits))

    def transcipher(self, data: bytes, counter: bytes, type_: IntegerType) -> Integers:
        """`ctr` to a list of encrypted integers, least significant byte first.

        Parameters
        ----------
        data
            At most 1024 blocks.
        counter
            The counter block of the first block.
        type_
            A type of 8, 16, 32, 64 or 128 bits.

        Returns
        -------
        Integers
            A list of them.

        Raises
        ------
        BadInput
            For data that is not a whole number of integers.

        Examples
        --------
        >>> sent = np.array([500, 3], dtype="<u4").tobytes()
        >>> arrived = becalm.aes_ctr(b"becalm, 16 bytes", sent, bytes(16))
        >>> key.transcipher(arrived, bytes(16), becalm.uint(32)).decrypt(secret).tolist()
        [500, 3]
        """
        type_ = _integer_types.named("transcipher", type_)
        program, blocks = self._ctr("transcipher", data, counter, type_)
        if len(data) * 8 % type_.bits:
            remedy = "fill the data up before it is encrypted"
            raise BadInput("transcipher", f"whole {type_.name}", f"{len(data)} bytes", remedy)
        if not data:
            return type_.trivial(self._machine("transcipher"), [])
        results = self._run("transcipher", program, blocks)
        n, count = (type_.bits + 1) // 2, len(data) * 8 // type_.bits
        digits = [Lwe.concat(results[i::n][:count]) for i in range(n)]
        return Integers(type_, digits, (count,), self._server)

    def cost(self, blocks: int = 1, type_: IntegerType | None = None) -> Cost:
        """The cost of `ctr` on `blocks` blocks, the key's expansion included; or of `transcipher`.

        Parameters
        ----------
        blocks
            How many blocks, 1 to 1024.
        type_
            The type of `transcipher`.

        Returns
        -------
        Cost
            For each lane.

        Raises
        ------
        BadInput
            For another number of blocks.

        Examples
        --------
        >>> key.cost().depth
        50
        """
        number = _values.count("aes", "blocks", blocks)
        if not 1 <= number <= MOST_BLOCKS:
            got = str(number)
            raise BadInput("aes", f"1 to {MOST_BLOCKS} blocks", got, "split the data")
        name = None if type_ is None else _integer_types.named("aes", type_).name
        return Cost(**_ctr(self.params, number, name).cost())

    def __repr__(self) -> str:
        where = "on no server" if self._server is None else "on a server"
        return f"<becalm.AesKey, encrypted, {self.params.name}, {where}>"

    def _machine(self, op: str) -> Server:
        if self._server is None:
            raise Unsupported(op, "a key on a server", "none", "call key.on(server) first")
        return self._server

    def _ctr(
        self, op: str, data: bytes, counter: bytes, type_: IntegerType | None
    ) -> tuple[_native.Program, Lwe]:
        data = _bytes(op, data)
        counter = _block(op, "counter", counter)
        # Empty data has no block; one is recorded all the same, so that bad arguments are refused.
        whole = data + bytes(-len(data) % BLOCK) if data else bytes(BLOCK)
        name = None if type_ is None else type_.name
        program = _ctr(self._machine(op).params, len(whole) // BLOCK, name)
        return program, _native.aes_ctr_blocks(self._bits, counter, whole)

    def _run(self, op: str, program: _native.Program, *blocks: Lwe) -> list[Lwe]:
        inputs: Any = [x for b in (self._bits, *blocks) for x in Ciphertext(b, (len(b), 1))]
        made = self._machine(op)._results(op, TfheProgram(program), inputs, None)
        return [c._lwe for c in made]


_ecb = lru_cache(maxsize=8)(_native.record_aes_ecb)
_ctr = lru_cache(maxsize=8)(_native.record_aes_ctr)


def aes128(secret: SecretKey, key: bytes) -> AesKey:
    """Encrypts a key of AES-128, for a server that shall turn AES-encrypted data into becalm's.

    Parameters
    ----------
    secret
        The secret key of becalm.
    key
        The key of AES, 16 bytes.

    Returns
    -------
    AesKey
        On no server yet.

    Examples
    --------
    >>> key = becalm.aes128(secret, b"becalm, 16 bytes").on(server)
    >>> key.decrypt(secret)
    b'becalm, 16 bytes'
    """
    key = _block("aes", "key", key)
    return AesKey(_native.encrypt_bits(_values.native_secret("aes", secret), key))


def encrypt_bytes(secret: SecretKey, data: bytes) -> EncryptedBytes:
    """Encrypts bytes bit by bit: the same as `secret.encrypt(data)`.

    Parameters
    ----------
    secret
        The secret key.
    data
        The bytes.

    Returns
    -------
    EncryptedBytes
        As long as the data.

    Examples
    --------
    >>> becalm.encrypt_bytes(secret, b"calm").decrypt(secret)
    b'calm'
    """
    native = _values.native_secret("encrypt", secret)
    return EncryptedBytes(_native.encrypt_bits(native, _bytes("encrypt", data)))


def aes_ctr(key: bytes, data: bytes, counter: bytes) -> bytes:
    """Unencrypted AES-128 in counter mode (SP 800-38A), for the client. It is its own inverse.
    `AesKey.ctr` and `AesKey.transcipher` take its result.

    Parameters
    ----------
    key
        The key of AES, 16 bytes.
    data
        Bytes of any length.
    counter
        The first counter block: a number of 128 bits, most significant byte first. Each block takes
        the next number, and none may serve twice under one key.

    Returns
    -------
    bytes
        As long as the data.

    Examples
    --------
    >>> arrived = becalm.aes_ctr(b"becalm, 16 bytes", b"any length", bytes(16))
    >>> becalm.aes_ctr(b"becalm, 16 bytes", arrived, bytes(16))
    b'any length'
    """
    key, counter = _block("aes", "key", key), _block("aes", "counter", counter)
    return _native.aes_ctr(key, counter, _bytes("aes", data))


def loaded(found: tuple[bool, Lwe]) -> AesKey | EncryptedBytes:
    """The object in a file of bits."""
    is_key, bits = found
    return AesKey(bits) if is_key else EncryptedBytes(bits)


def _read(file: bytes, key: bool, allow_insecure: bool, limit: int | None) -> Lwe:
    """The bits of a file in memory. Refuses a file of the other kind."""
    data, most = _values.data("from_bytes", file), _values.limit("from_bytes", limit)
    is_key, bits = _native.bits_from_bytes(data, bool(allow_insecure), most)
    if is_key != key:
        kinds = ("encrypted bytes", "an encrypted key of AES")
        raise BadFile("from_bytes", kinds[key], kinds[is_key], "read it as that")
    return bits


def _restored(file: bytes, key: bool, insecure: bool) -> AesKey | EncryptedBytes:
    kind = AesKey if key else EncryptedBytes
    return kind.from_bytes(file, allow_insecure=insecure)


def _bits_of(bits: Any) -> Lwe:
    found = getattr(bits, "_lwe", getattr(bits, "_bits", bits))
    if not isinstance(found, Lwe):
        got, remedy = type(bits).__name__, "use becalm.encrypt_bytes or becalm.aes128"
        raise BadInput("aes", "encrypted bytes", got, remedy)
    return found


def _block(op: str, name: str, data: Any) -> bytes:
    found = _bytes(op, data)
    if len(found) != BLOCK:
        remedy = "pass a key of AES-128" if name == "key" else "pass the first counter block"
        raise BadInput(op, f"a {name} of {BLOCK} bytes", f"{len(found)}", remedy)
    return found


def _bytes(op: str, data: Any) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise BadInput(op, "bytes", type(data).__name__, "encode it: text.encode(), data.tobytes()")
    return bytes(data)
