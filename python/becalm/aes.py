"""AES-128 on encrypted bits, and data that arrives encrypted by AES as encrypted integers."""

from __future__ import annotations

import os
from typing import Any

from becalm import _native, _values
from becalm._native import Lwe, Params
from becalm.ciphertext import Ciphertext
from becalm.errors import BadInput, Unsupported
from becalm.integers import Integers, IntegerType
from becalm.keys import SecretKey, Server
from becalm.program import Cost, Program

__all__ = ["AesKey", "EncryptedBytes", "aes128", "encrypt_bytes"]

#: Bytes of a block, and of a key.
BLOCK = 16


class EncryptedBytes:
    """Bytes, encrypted bit by bit."""

    __slots__ = ("_bits",)

    def __init__(self, bits: Lwe) -> None:
        self._bits = bits

    def __len__(self) -> int:
        return len(self._bits) // 8

    @property
    def params(self) -> Params:
        """The parameter set."""
        return self._bits.params

    def decrypt(self, secret: SecretKey) -> bytes:
        """The bytes."""
        return _native.decrypt_bits(secret._native, self._bits)

    def save(self, path: str | os.PathLike[str], *, seeded: bool = False) -> None:
        """Writes the bits to a file, which `becalm.load` gives back as a ciphertext of bits.

        `seeded` as in `Integers.save`.
        """
        self._bits.save(path, bool(seeded))

    def __repr__(self) -> str:
        return f"<becalm.EncryptedBytes, {len(self)} of them, {self.params.name}>"


class AesKey:
    """An encrypted key of AES-128; `aes128` makes it, `on(server)` says where it is used."""

    __slots__ = ("_bits", "_server")

    def __init__(self, bits: EncryptedBytes | Ciphertext, server: Server | None = None) -> None:
        lwe = bits._bits if isinstance(bits, EncryptedBytes) else bits._lwe
        if len(lwe) != 8 * BLOCK:
            got = f"{len(lwe) / 8:g}"
            raise BadInput("aes", f"a key of {BLOCK} bytes", got, "pass a key of AES-128")
        self._bits = EncryptedBytes(lwe)
        self._server = server

    def on(self, server: Server) -> AesKey:
        """The same key, to be used on a server."""
        return AesKey(self._bits, server)

    def ecb(self, blocks: EncryptedBytes) -> EncryptedBytes:
        """Encrypts encrypted blocks of 16 bytes, each alone: the building block of other modes."""
        if not isinstance(blocks, EncryptedBytes):
            got = type(blocks).__name__
            raise BadInput("ecb", "encrypted bytes", got, "use becalm.encrypt_bytes")
        if not len(blocks) or len(blocks) % BLOCK:
            remedy = "fill the last block up"
            raise BadInput("ecb", f"blocks of {BLOCK} bytes", f"{len(blocks)} bytes", remedy)
        program = _native.record_aes_ecb(self._machine("ecb").params, len(blocks) // BLOCK)
        return EncryptedBytes(Lwe.concat(self._run("ecb", program, blocks._bits)))

    def ctr(self, data: bytes, counter: bytes) -> EncryptedBytes:
        """Adds the keystream from a counter block on to clear data: what AES-CTR encrypted comes
        out decrypted, under becalm's key.

        >>> stored = key.ctr(arrived, counter)
        """
        program = self._ctr("ctr", data, counter, None)
        bits = self._run("ctr", program)[: 8 * len(data)]
        return EncryptedBytes(Lwe.concat(bits))

    def transcipher(self, data: bytes, counter: bytes, type_: IntegerType) -> Integers:
        """`ctr` to encrypted integers of 8, 16, 32, 64 or 128 bits, least significant byte first.

        >>> words = key.transcipher(arrived, counter, becalm.uint(32))
        """
        program = self._ctr("transcipher", data, counter, type_)
        if len(data) * 8 % type_.bits:
            remedy = "fill the data up before it is encrypted"
            raise BadInput("transcipher", f"whole {type_.name}", f"{len(data)} bytes", remedy)
        results = self._run("transcipher", program)
        n, count = (type_.bits + 1) // 2, len(data) * 8 // type_.bits
        digits = [Lwe.concat(results[i::n][:count]) for i in range(n)]
        return Integers(type_, digits, (count,), self._server)

    def cost(self, blocks: int = 1, type_: IntegerType | None = None) -> Cost:
        """What `ctr` on so many blocks takes, the key's expansion included; or `transcipher`.

        A block less or more some steps that it shares with the expansion, by its counter.

        >>> key.cost().depth
        50
        """
        size = BLOCK * _values.count("aes", "blocks", blocks)
        name = None if type_ is None else type_.name
        params = self._bits.params
        # Zeros would share whole S-boxes.
        counter = bytes(range(1, BLOCK + 1))
        program = _native.record_aes_ctr(params, counter, bytes(size), name)
        return Cost(**program.cost())

    def __repr__(self) -> str:
        where = "on no server" if self._server is None else "on a server"
        return f"<becalm.AesKey, encrypted, {self._bits.params.name}, {where}>"

    def _machine(self, op: str) -> Server:
        if self._server is None:
            raise Unsupported(op, "a key on a server", "none", "call key.on(server) first")
        return self._server

    def _ctr(
        self, op: str, data: bytes, counter: bytes, type_: IntegerType | None
    ) -> _native.Program:
        counter, data = _bytes(op, counter), _bytes(op, data)
        if len(counter) != BLOCK or not data:
            got = f"{len(counter)} and {len(data)} bytes"
            remedy = "pass the first counter block, and what was encrypted from it on"
            raise BadInput(op, f"a counter of {BLOCK} bytes and some data", got, remedy)
        whole = data + bytes(-len(data) % BLOCK)
        name = None if type_ is None else type_.name
        return _native.record_aes_ctr(self._machine(op).params, counter, whole, name)

    def _run(self, op: str, program: _native.Program, *blocks: Lwe) -> list[Lwe]:
        bits = [self._bits._bits, *blocks]
        inputs: list[Any] = [bit for b in bits for bit in Ciphertext(b, (len(b), 1))]
        return [c._lwe for c in self._machine(op)._results(Program(program), inputs, None)]


def aes128(secret: SecretKey, key: bytes) -> AesKey:
    """Encrypts a key of AES-128, for a server that shall turn AES-encrypted data into becalm's.

    >>> key = becalm.aes128(secret, b"becalm, 16 bytes").on(server)
    """
    return AesKey(encrypt_bytes(secret, key))


def encrypt_bytes(secret: SecretKey, data: bytes) -> EncryptedBytes:
    """Encrypts bytes bit by bit.

    >>> block = becalm.encrypt_bytes(secret, b"sixteen bytes ..")
    """
    return EncryptedBytes(_native.encrypt_bits(secret._native, _bytes("encrypt", data)))


def _bytes(op: str, data: Any) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise BadInput(op, "bytes", type(data).__name__, "encode it")
    return bytes(data)
