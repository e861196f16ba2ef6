"""AES in Python: a client encrypts by AES, a server computes; what travels, and what is refused."""

import copy
import pickle

import numpy as np
import pytest

import becalm


def test_aes_turns_what_arrives_into_integers(toy):
    """SP 800-38A, F.5.1: the first block, as words."""
    counter = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
    arrived = bytes.fromhex("874d6191b620e3261bef6864990db6ce")
    message = bytes.fromhex("6bc1bee22e409f96e93d7e117393172a")
    clear = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
    assert becalm.aes_ctr(clear, message, counter) == arrived
    assert becalm.aes_ctr(clear, arrived[:5], counter) == message[:5]
    secret, key = toy.secret, becalm.aes128(toy.secret, clear).on(toy.server)
    assert 5000 < key.cost().bootstraps <= 5200 and key.cost().depth == 50
    words = key.transcipher(arrived[:12], counter, becalm.uint(32))
    wanted = np.frombuffer(message[:12], dtype="<u4")
    assert words.decrypt(secret).tolist() == wanted.tolist()
    # They are integers like any other.
    assert (words + 1).decrypt(secret).tolist() == (wanted + np.uint32(1)).tolist()


def test_aes_of_encrypted_blocks(toy):
    """FIPS 197, appendix C.1; key and block travel first."""
    key = becalm.aes128(toy.secret, bytes(range(16)))
    block = becalm.encrypt_bytes(toy.secret, bytes.fromhex("00112233445566778899aabbccddeeff"))
    assert block.decrypt(toy.secret)[:2] == b"\x00\x11" and len(block) == 16
    wanted = bytes.fromhex("69c4e0d86a7b0430d8cdb78070b4c55a")
    key, block = pickle.loads(pickle.dumps((key, block)))
    result = key.on(toy.server).ecb(block)
    assert result.decrypt(toy.secret) == wanted
    # A result travels as what was encrypted does.
    assert pickle.loads(pickle.dumps(result)).decrypt(toy.secret) == wanted
    assert (result[4:] + result[:4]).decrypt(toy.secret) == wanted[4:] + wanted[:4]


def test_keys_and_bytes_travel(toy, stranger, tmp_path):
    secret, path = toy.secret, tmp_path / "bits.becalm"
    key, text = becalm.aes128(secret, bytes(range(16))), becalm.encrypt_bytes(secret, b"any length")
    for seeded in (False, True):
        key.save(path, seeded=seeded)
        back = becalm.load(path, allow_insecure=True)
        assert isinstance(back, becalm.AesKey) and back.key_id == secret.key_id
        assert becalm.EncryptedBytes(back).decrypt(secret) == bytes(range(16))
        text.save(path, seeded=seeded)
        back = becalm.load(path, allow_insecure=True)
        assert isinstance(back, becalm.EncryptedBytes) and len(back) == 10
        assert back.decrypt(secret) == b"any length"
        with pytest.raises(becalm.WrongKey):
            back.decrypt(stranger.secret)
    # Seeded: a word for each of 80 bits, and a header.
    assert path.stat().st_size < 80 * 8 + 3000
    with pytest.raises(becalm.Insecure):
        becalm.load(path)
    assert b"".join(x.decrypt(secret) for x in text) == b"any length"
    assert copy.deepcopy(text)[::-1].decrypt(secret) == b"htgnel yna"
    with pytest.raises(becalm.Unsupported, match="without a seed"):
        text[::-1].save(path, seeded=True)
    cut = tmp_path / "cut.becalm"
    cut.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(becalm.BadFile):
        becalm.load(cut, allow_insecure=True)
    # A key that is loaded waits for a server.
    with pytest.raises(becalm.Unsupported, match="on\\(server\\)"):
        pickle.loads(pickle.dumps(key.on(toy.server))).ctr(b"x", bytes(16))


def test_no_data_is_data_too(toy):
    key = becalm.aes128(toy.secret, bytes(16)).on(toy.server)
    none = key.ctr(b"", bytes(16))
    assert len(none) == 0 and none.decrypt(toy.secret) == b"" and len(none + none) == 0
    words = key.transcipher(b"", bytes(16), becalm.uint(32))
    assert words.shape == (0,) and words.decrypt(toy.secret).tolist() == []
    assert (words + 1).sum().decrypt(toy.secret) == 0


def test_aes_refuses(toy, stranger):
    secret, u32 = toy.secret, becalm.uint(32)
    key, block = becalm.aes128(secret, bytes(16)), becalm.encrypt_bytes(secret, bytes(16))
    with pytest.raises(becalm.Unsupported, match="on\\(server\\)"):
        key.ecb(block)
    with pytest.raises(becalm.WrongKey):
        key.on(stranger.server)
    with pytest.raises(becalm.BadIndex, match="shape \\(16"):
        block[16]
    key = key.on(toy.server)
    cases = {
        "16 bytes, got 24": lambda: becalm.aes128(secret, bytes(24)),
        "16 bytes, got 0": lambda: becalm.aes128(secret, b""),
        "16 bytes, got 15": lambda: becalm.aes_ctr(bytes(15), b"", bytes(16)),
        "counter of 16 bytes, got 12": lambda: becalm.aes_ctr(bytes(16), b"", bytes(12)),
        "encode it": lambda: becalm.aes128(secret, "becalm, 16 bytes"),
        "a secret key, got Server": lambda: becalm.aes128(toy.server, bytes(16)),
        "a server of TFHE, got SecretKey": lambda: key.on(secret),
        "blocks of 16 bytes, got 17": lambda: key.ecb(becalm.encrypt_bytes(secret, bytes(17))),
        "fill the last block up": lambda: key.ecb(becalm.encrypt_bytes(secret, b"")),
        "encrypt_bytes": lambda: key.ecb(bytes(16)),
        "a counter of 16": lambda: key.ctr(bytes(16), bytes(15)),
        "a counter of 16 bytes, got 0": lambda: key.ctr(b"", b""),
        "a width|integers of 8, 16": lambda: key.transcipher(b"", bytes(16), becalm.uint(24)),
        "got str": lambda: key.ctr("text", bytes(16)),
        "whole uint32, got 3 bytes": lambda: key.transcipher(bytes(3), bytes(16), u32),
        "8, 16, 32, 64": lambda: key.transcipher(bytes(6), bytes(16), becalm.uint(24)),
        "a type of integers": lambda: key.transcipher(bytes(8), bytes(16), "float32"),
        "type of integers, got int": lambda: key.cost(type_=32),
        "1 to 1024 blocks": lambda: key.ctr(bytes(16 * 1025), bytes(16)),
        "a key of 16 bytes.*got 15": lambda: becalm.AesKey(becalm.encrypt_bytes(secret, bytes(15))),
        "whole bytes": lambda: becalm.EncryptedBytes(secret.encrypt([1, 0, 1])),
        "use becalm.encrypt_bytes": lambda: becalm.EncryptedBytes(b"clear"),
    }
    for remedy, refused in cases.items():
        with pytest.raises(becalm.BadInput, match=remedy):
            refused()
