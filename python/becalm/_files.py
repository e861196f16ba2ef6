"""Kinds of file: the kind of a file that came in place of another, and the function to read it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from becalm import _native
from becalm.errors import BadFile, Error

#: For each file of CKKS: its kind, its writer, its reader. `becalm.load` reads those of TFHE.
KINDS = {
    "becalm.rlwe": ("a ciphertext of CKKS", "Ciphertext.save", "server.load(path)"),
    "becalm.ckks_secret_key": (
        "a secret key of CKKS",
        "SecretKey.save",
        "ckks.load_secret_key(path)",
    ),
    "becalm.ckks_public_key": (
        "a public key of CKKS",
        "PublicKey.save",
        "ckks.load_public_key(path)",
    ),
    "becalm.ckks_key_share": (
        "a share of a secret key of CKKS",
        "KeyShare.save",
        "ckks.load_key_share(path)",
    ),
    "becalm.ckks_partial_decryption": (
        "a partial decryption of CKKS",
        "PartialDecryption.save",
        "ckks.load_partial_decryption(path)",
    ),
    "becalm.ckks_party": (
        "a party's secret of a collective key of CKKS",
        "Party.save",
        "ckks.load_party(path)",
    ),
    "becalm.ckks_party_message": (
        "a party's message of a collective key of CKKS",
        "PartyMessage.save",
        "ckks.load_party_message(path)",
    ),
    "becalm.ckks_program": (
        "a program of CKKS",
        "Program.save",
        "becalm.load(path)",
    ),
    "becalm.ckks_evaluation_keys": (
        "evaluation keys of CKKS",
        "Server.save",
        "ckks.load_server(path)",
    ),
}


@contextlib.contextmanager
def of_kind(op: str, path: str, wanted: str) -> Iterator[None]:
    """Refuses another kind of file by that name, where it could not be read."""
    try:
        yield
    except Error as e:
        refused = _other(op, path, wanted)
        raise e if refused is None else refused from None


def _other(op: str, path: str, wanted: str) -> BadFile | None:
    """The refusal of another kind of file; none for one that is of the kind, or of none."""
    # Looked at only afterwards, and no pipe: what is read from one is gone.
    if not os.path.isfile(path):
        return None
    try:
        kind, _ = _native.kind_of_file(path)
    except Error:
        return None
    if kind == wanted:
        return None
    what, _, reads = KINDS.get(kind, (f"a file of TFHE ({kind})", "", "becalm.load(path)"))
    name, writes, _ = KINDS[wanted]
    return BadFile(op, name, what, f"choose what {writes} wrote; {reads} reads this one")
