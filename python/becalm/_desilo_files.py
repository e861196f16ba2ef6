"""Files of an `Engine` of `becalm.desilo`, so that client and server can be separate processes."""

from __future__ import annotations

import json
import os
from typing import Any, TypeAlias

from becalm import _native, _values
from becalm._ckks_sets import SIZES
from becalm._desilo import Ciphertext, Key, PublicKey, SecretKey, cipher, key_for, kind_of, named
from becalm._files import of_kind
from becalm.errors import BadFile, BadInput, WrongKey

Path: TypeAlias = str | os.PathLike[str]


class Files:
    """The calls of an engine that write and read: becalm's own files, not those of desilofhe.

    Evaluation keys leave out the half that a seed gives. A key that was read shares the key of
    multiplication with the relinearization key, if that was read before.
    """

    _machine: _native.CkksMachine
    _form: str
    #: The relinearization keys that were read, by the secret key.
    _read_bases: dict[str, _native.CkksKeys]

    def _require_own(self, op: str, key: SecretKey | PublicKey, what: str) -> None:
        raise NotImplementedError

    def serialize_ciphertext(self, ciphertext: Ciphertext) -> list[bytes]:
        """The bytes of a file for each block.

        Returns
        -------
        list of bytes
            One for each block.

        Examples
        --------
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> y = engine.deserialize_ciphertext(engine.serialize_ciphertext(x))
        >>> engine.decrypt(y, secret_key).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        x = cipher("serialize_ciphertext", ciphertext)
        return [b.to_bytes() for b in x._blocks]

    def deserialize_ciphertext(self, blocks: list[bytes]) -> Ciphertext:
        """Reads the bytes of `serialize_ciphertext`.

        Returns
        -------
        Ciphertext
            The same values.

        Raises
        ------
        BadInput
            For anything but a list of bytes.

        Examples
        --------
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> y = engine.deserialize_ciphertext(engine.serialize_ciphertext(x))
        >>> engine.decrypt(y, secret_key).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        listed = isinstance(blocks, (list, tuple)) and len(blocks) > 0
        if not listed or not all(isinstance(b, bytes) for b in blocks):
            remedy = "pass the result of serialize_ciphertext"
            got = type(blocks).__name__ if blocks else "nothing"
            raise BadInput("deserialize_ciphertext", "a list of bytes", got, remedy)
        read = [_native.CkksCiphertext.from_bytes(self._machine, b, None) for b in blocks]
        return Ciphertext([x for x, _ in read])

    def write_ciphertext(self, ciphertext: Ciphertext, file_path: Path) -> None:
        """Writes a ciphertext of one block to a file.

        Parameters
        ----------
        ciphertext
            A ciphertext of at most `slot_count` values.
        file_path
            The file.

        Raises
        ------
        BadInput
            For several blocks.

        Examples
        --------
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> engine.write_ciphertext(x, "x.becalm")
        >>> y = engine.read_ciphertext("x.becalm")
        >>> engine.decrypt(y, secret_key).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        x = cipher("write_ciphertext", ciphertext)
        file = _values.path("write_ciphertext", file_path)
        if len(x._blocks) != 1:
            got = f"{len(x._blocks)} blocks"
            raise BadInput("write_ciphertext", "one block", got, "write parts of the message")
        x._blocks[0].save(file)

    def read_ciphertext(self, file_path: Path) -> Ciphertext:
        """Reads the file of `write_ciphertext`.

        Returns
        -------
        Ciphertext
            The same values.

        Examples
        --------
        >>> x = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> engine.write_ciphertext(x, "x.becalm")
        >>> y = engine.read_ciphertext("x.becalm")
        >>> engine.decrypt(y, secret_key).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        file = _values.path("read_ciphertext", file_path)
        with of_kind("read_ciphertext", file, "becalm.rlwe"):
            block, _ = _native.CkksCiphertext.load(self._machine, file, None)
        return Ciphertext([block])

    def serialize_public_key(self, public_key: PublicKey) -> bytes:
        """The bytes of a file.

        Returns
        -------
        bytes
            The key.

        Examples
        --------
        >>> public_key = engine.create_public_key(secret_key)
        >>> data = engine.serialize_public_key(public_key)
        >>> again = engine.deserialize_public_key(data)
        >>> y = engine.encrypt([1, 2, 3, 4], again)
        >>> engine.decrypt(y, secret_key).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        return self._public("serialize_public_key", public_key).to_bytes()

    def deserialize_public_key(self, data: bytes) -> PublicKey:
        """Reads the bytes of `serialize_public_key`.

        Returns
        -------
        PublicKey
            The same key.

        Examples
        --------
        >>> public_key = engine.create_public_key(secret_key)
        >>> data = engine.serialize_public_key(public_key)
        >>> again = engine.deserialize_public_key(data)
        >>> y = engine.encrypt([1, 2, 3, 4], again)
        >>> engine.decrypt(y, secret_key).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        file = _values.data("deserialize_public_key", data)
        return PublicKey(
            _native.CkksPublicKey.from_bytes(self._machine, file, None), self._machine.name
        )

    def write_public_key(self, public_key: PublicKey, file_path: Path) -> None:
        """Writes a public key to a file, for those who encrypt.

        Parameters
        ----------
        public_key
            The key.
        file_path
            The file.

        Examples
        --------
        >>> public_key = engine.create_public_key(secret_key)
        >>> engine.write_public_key(public_key, "public.becalm")
        >>> again = engine.read_public_key("public.becalm")
        >>> y = engine.encrypt([1, 2, 3, 4], again)
        >>> engine.decrypt(y, secret_key).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        native = self._public("write_public_key", public_key)
        native.save(_values.path("write_public_key", file_path))

    def read_public_key(self, file_path: Path) -> PublicKey:
        """Reads the file of `write_public_key`. A file cannot prove whose key it is.

        Returns
        -------
        PublicKey
            The same key.

        Examples
        --------
        >>> public_key = engine.create_public_key(secret_key)
        >>> engine.write_public_key(public_key, "public.becalm")
        >>> again = engine.read_public_key("public.becalm")
        >>> y = engine.encrypt([1, 2, 3, 4], again)
        >>> engine.decrypt(y, secret_key).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        file = _values.path("read_public_key", file_path)
        with of_kind("read_public_key", file, "becalm.ckks_public_key"):
            return PublicKey(
                _native.CkksPublicKey.load(self._machine, file, None), self._machine.name
            )

    def serialize_secret_key(self, secret_key: SecretKey) -> bytes:
        """The bytes of a file, not encrypted. Python wipes no memory: they stay in it until
        something is written over them.

        Returns
        -------
        bytes
            The key.

        Examples
        --------
        >>> data = engine.serialize_secret_key(secret_key)
        >>> again = engine.deserialize_secret_key(data)
        >>> y = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> engine.decrypt(y, again).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        return self._private("serialize_secret_key", secret_key).to_bytes()

    def deserialize_secret_key(self, data: bytes) -> SecretKey:
        """Reads the bytes of `serialize_secret_key`.

        Returns
        -------
        SecretKey
            The same key.

        Examples
        --------
        >>> data = engine.serialize_secret_key(secret_key)
        >>> again = engine.deserialize_secret_key(data)
        >>> y = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> engine.decrypt(y, again).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        file = _values.data("deserialize_secret_key", data)
        return SecretKey(_native.CkksSecretKey.from_bytes(self._machine, file), self._machine.name)

    def write_secret_key(self, secret_key: SecretKey, file_path: Path) -> None:
        """Writes a secret key to a file that only its owner can read. It is not encrypted.

        Parameters
        ----------
        secret_key
            The key.
        file_path
            The file.

        Examples
        --------
        >>> engine.write_secret_key(secret_key, "own.becalm")
        >>> again = engine.read_secret_key("own.becalm")
        >>> y = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> engine.decrypt(y, again).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        native = self._private("write_secret_key", secret_key)
        native.save(_values.path("write_secret_key", file_path), False)

    def read_secret_key(self, file_path: Path) -> SecretKey:
        """Reads the file of `write_secret_key`.

        Returns
        -------
        SecretKey
            The same key.

        Examples
        --------
        >>> engine.write_secret_key(secret_key, "own.becalm")
        >>> again = engine.read_secret_key("own.becalm")
        >>> y = engine.encrypt([1, 2, 3, 4], secret_key)
        >>> engine.decrypt(y, again).round(2).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        file = _values.path("read_secret_key", file_path)
        with of_kind("read_secret_key", file, "becalm.ckks_secret_key"):
            return SecretKey(_native.CkksSecretKey.load(self._machine, file), self._machine.name)

    def write_relinearization_key(self, relinearization_key: Key, file_path: Path) -> None:
        """Writes the key to a file, for the server.

        Parameters
        ----------
        relinearization_key
            The key.
        file_path
            The file.

        Examples
        --------
        >>> key = engine.create_relinearization_key(secret_key)
        >>> engine.write_relinearization_key(key, "key.becalm")
        >>> engine.read_relinearization_key("key.becalm").purpose
        'relinearization'
        """
        self._write(relinearization_key, "relinearization", file_path)

    def read_relinearization_key(self, file_path: Path) -> Key:
        """Reads the file of `write_relinearization_key`.

        Returns
        -------
        Key
            The same key.

        Examples
        --------
        >>> key = engine.create_relinearization_key(secret_key)
        >>> engine.write_relinearization_key(key, "key.becalm")
        >>> engine.read_relinearization_key("key.becalm").purpose
        'relinearization'
        """
        return self._read("relinearization", file_path)

    def write_conjugation_key(self, conjugation_key: Key, file_path: Path) -> None:
        """Writes the key to a file, for the server.

        Parameters
        ----------
        conjugation_key
            The key.
        file_path
            The file.

        Examples
        --------
        >>> key = engine.create_conjugation_key(secret_key)
        >>> engine.write_conjugation_key(key, "key.becalm")
        >>> engine.read_conjugation_key("key.becalm").purpose
        'conjugation'
        """
        self._write(conjugation_key, "conjugation", file_path)

    def read_conjugation_key(self, file_path: Path) -> Key:
        """Reads the file of `write_conjugation_key`.

        Returns
        -------
        Key
            The same key.

        Examples
        --------
        >>> key = engine.create_conjugation_key(secret_key)
        >>> engine.write_conjugation_key(key, "key.becalm")
        >>> engine.read_conjugation_key("key.becalm").purpose
        'conjugation'
        """
        return self._read("conjugation", file_path)

    def write_rotation_key(self, rotation_key: Key, file_path: Path) -> None:
        """Writes the key to a file, for the server.

        Parameters
        ----------
        rotation_key
            The key.
        file_path
            The file.

        Examples
        --------
        >>> key = engine.create_rotation_key(secret_key)
        >>> engine.write_rotation_key(key, "key.becalm")
        >>> engine.read_rotation_key("key.becalm").purpose
        'rotation'
        """
        self._write(rotation_key, "rotation", file_path)

    def read_rotation_key(self, file_path: Path) -> Key:
        """Reads the file of `write_rotation_key`.

        Returns
        -------
        Key
            The same key.

        Examples
        --------
        >>> key = engine.create_rotation_key(secret_key)
        >>> engine.write_rotation_key(key, "key.becalm")
        >>> engine.read_rotation_key("key.becalm").purpose
        'rotation'
        """
        return self._read("rotation", file_path)

    def write_fixed_rotation_key(self, fixed_rotation_key: Key, file_path: Path) -> None:
        """Writes the key and its `delta` to a file, for the server.

        Parameters
        ----------
        fixed_rotation_key
            The key.
        file_path
            The file.

        Examples
        --------
        >>> key = engine.create_fixed_rotation_key(secret_key, delta=1)
        >>> engine.write_fixed_rotation_key(key, "key.becalm")
        >>> engine.read_fixed_rotation_key("key.becalm").purpose
        'fixed_rotation'
        """
        self._write(fixed_rotation_key, "fixed_rotation", file_path)

    def read_fixed_rotation_key(self, file_path: Path) -> Key:
        """Reads the file of `write_fixed_rotation_key`.

        Returns
        -------
        Key
            The same key.

        Examples
        --------
        >>> key = engine.create_fixed_rotation_key(secret_key, delta=1)
        >>> engine.write_fixed_rotation_key(key, "key.becalm")
        >>> engine.read_fixed_rotation_key("key.becalm").purpose
        'fixed_rotation'
        """
        return self._read("fixed_rotation", file_path)

    def write_matrix_multiplication_key(
        self, matrix_multiplication_key: Key, file_path: Path
    ) -> None:
        """Writes the key to a file, for the server.

        Parameters
        ----------
        matrix_multiplication_key
            The key.
        file_path
            The file.

        Examples
        --------
        >>> key = engine.create_matrix_multiplication_key(secret_key)
        >>> engine.write_matrix_multiplication_key(key, "key.becalm")
        >>> engine.read_matrix_multiplication_key("key.becalm").purpose
        'matrix_multiplication'
        """
        self._write(matrix_multiplication_key, "matrix_multiplication", file_path)

    def read_matrix_multiplication_key(self, file_path: Path) -> Key:
        """Reads the file of `write_matrix_multiplication_key`.

        Returns
        -------
        Key
            The same key.

        Examples
        --------
        >>> key = engine.create_matrix_multiplication_key(secret_key)
        >>> engine.write_matrix_multiplication_key(key, "key.becalm")
        >>> engine.read_matrix_multiplication_key("key.becalm").purpose
        'matrix_multiplication'
        """
        return self._read("matrix_multiplication", file_path)

    def _write(self, key: object, purpose: str, file_path: Path) -> None:
        op = f"write_{purpose}_key"
        own = key_for(op, key, purpose)
        facts = {"purpose": purpose, "stage_count": own.stage_count, "size": own.size}
        note = json.dumps({**facts, "delta": own.delta})
        own._native.save(_values.path(op, file_path), note)

    def _read(self, purpose: str, file_path: Path) -> Key:
        op = f"read_{purpose}_key"
        file = _values.path(op, file_path)
        with of_kind(op, file, "becalm.ckks_evaluation_keys"):
            _, note = _native.ckks_keys_of_file(file)
        # The file can wait for its digest no longer than the note can lie: it is checked here.
        facts = _noted(op, note, purpose)
        native = _native.CkksKeys.load(self._machine, file, False, self._form)
        base = self._read_bases.get(native.key_id)
        if purpose == "relinearization":
            self._read_bases[native.key_id] = native
        elif base is not None:
            native = base.union(native)
        return Key(native, purpose, **facts)

    def _public(self, op: str, key: object) -> _native.CkksPublicKey:
        if not isinstance(key, PublicKey):
            raise WrongKey(op, "a public key", kind_of(key), "use create_public_key")
        self._require_own(op, key, "a public key")
        return key._native

    def _private(self, op: str, key: object) -> _native.CkksSecretKey:
        if not isinstance(key, SecretKey):
            raise WrongKey(op, "a secret key", kind_of(key), "use create_secret_key")
        self._require_own(op, key, "a secret key")
        return key._native


def _noted(op: str, note: str, purpose: str) -> dict[str, Any]:
    """The stages, the size and the delta of a key for a purpose, as the note in its file says."""
    try:
        facts = json.loads(note)
    except ValueError:
        facts = None
    if not isinstance(facts, dict) or "purpose" not in facts:
        remedy = f"choose what write_{purpose}_key wrote"
        raise BadFile(op, named(purpose), "keys that no Engine wrote", remedy)
    found, stages, size, delta = (
        facts.get(name) for name in ("purpose", "stage_count", "size", "delta")
    )
    if found != purpose:
        what = str(found)[:32]
        raise WrongKey(op, named(purpose), named(what), f"use read_{what}_key")
    whole = all(x is None or type(x) is int for x in (stages, delta))
    fixed = (purpose == "fixed_rotation") == (delta is not None)
    sized = (size is None or size in SIZES) and (size is None) == (stages is None)
    staged = (stages is not None) == (purpose.endswith("bootstrap") and purpose != _SMALL)
    if not (whole and fixed and sized and staged and (stages is None or 1 <= stages <= 5)):
        remedy = "copy the file again from where it was made, or make it again"
        raise BadFile(op, f"the facts of {named(purpose)}", "others", remedy)
    return {"stage_count": stages, "size": size, "delta": delta}


_SMALL = "small_bootstrap"
