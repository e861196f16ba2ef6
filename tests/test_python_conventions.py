"""One way to encrypt and one to decrypt for every object, and messages for all other ways."""

import numpy as np
import pytest

import becalm


@pytest.fixture(scope="module")
def ckks():
    return becalm.keygen("ckks_toy_12", bootstrap=None, allow_insecure=True, progress=False)


def test_one_key_decrypts_everything_of_its_scheme(toy, ckks):
    secret, server = toy
    u8 = becalm.uint(8)
    x = u8.encrypt(secret, [[200, 3]]).on(server)
    key = bytes(range(16))
    cases = [
        (secret.encrypt([3, 1]), [3, 1]),
        (secret.encrypt(7), 7),
        (server.bootstrap(secret.encrypt([3, 1], below=4), lambda m: m + 1), [4, 2]),
        (x, [[200, 3]]),
        (x + 1, [[201, 4]]),
        (x > 100, [[True, False]]),
        (x.sum(), 203),
        (becalm.encrypt_bytes(secret, b"becalm"), b"becalm"),
        (becalm.aes128(secret, key), key),
        (becalm.aes128(secret, key).on(server).ctr(b"abcd", bytes(16)), None),
    ]
    for thing, wanted in cases:
        one, other = secret.decrypt(thing), thing.decrypt(secret)
        assert type(one) is type(other) and np.array_equal(one, other)
        if wanted is not None:
            assert np.array_equal(one, wanted)
    assert secret.decrypt(cases[-1][0]) == becalm.aes_ctr(key, b"abcd", bytes(16))
    # A tuple or list decrypts to a tuple or list.
    q, r = secret.decrypt(divmod(x, 7))
    assert q.tolist() == [[28, 0]] and r.tolist() == [[4, 3]]
    assert secret.decrypt([secret.encrypt(3), x[0, 0]]) == [3, 200]
    owner, _ = ckks
    y = owner.encrypt([0.5])
    assert np.array_equal(owner.decrypt(y), y.decrypt(owner))


def test_one_key_encrypts_everything(toy):
    secret, server = toy
    for type_, name in (
        *((becalm.uint(16), "uint16"), (np.uint16, "uint16"), (np.dtype("int8"), "int8")),
        *(("uint12", "uint12"), (bool, "bool"), (int, "int64")),
        *((becalm.boolean, "bool"), ("u1", "uint8")),
    ):
        x = secret.encrypt([1, 0], type_)
        assert x.type.name == name and secret.decrypt(x).tolist() == [1, 0]
        y = x.type.encrypt(secret, [1, 0])
        assert (y.type, y.shape) == (x.type, x.shape)
    assert secret.decrypt(secret.encrypt(b"abc")) == b"abc"
    assert secret.decrypt(secret.encrypt(bytearray(b"abc"))) == b"abc"
    cases = {
        "a type of integers, got float": lambda: secret.encrypt([1], float),
        "a type alone": lambda: secret.encrypt([1], becalm.uint(8), below=2),
        "0 to 255, got one that is more": lambda: secret.encrypt(256, np.uint8),
        "a secret key, got Server": lambda: becalm.uint(8).encrypt(server, 1),
    }
    for told, run in cases.items():
        with pytest.raises(becalm.BadInput, match=told):
            run()


def test_a_wrong_key_and_a_wrong_object_are_named(toy, stranger, ckks):
    secret, server = toy
    owner, machine = ckks
    x, y = secret.encrypt([3]), owner.encrypt([0.5])
    u8 = becalm.uint(8).encrypt(secret, [3]).on(server)
    cases = {
        r'one of CKKS; .*keygen\("ckks"\)': lambda: secret.decrypt(y),
        "Ciphertext of TFHE; use the keys of TFHE": lambda: owner.decrypt(x),
        "Integers of TFHE": lambda: owner.decrypt(u8),
        "an encrypted table; look": lambda: secret.decrypt(secret.encrypt_table(lambda m: m)),
        "got int; pass a Ciphertext": lambda: secret.decrypt(3),
        "got Server; servers have none": lambda: x.decrypt(server),
        "got NoneType; servers": lambda: u8.decrypt(None),
        "got Server; servers have": lambda: y.decrypt(machine),
        "operators and methods": lambda: server.bootstrap(u8, lambda m: m),
    }
    for told, run in cases.items():
        with pytest.raises(becalm.BadInput, match=told):
            run()
    for thing in (x, u8, secret.encrypt(b"a")):
        with pytest.raises(becalm.WrongKey):
            stranger.secret.decrypt(thing)
        with pytest.raises(becalm.WrongKey):
            thing.decrypt(stranger.secret)


def test_results_have_the_types_of_numpy(toy):
    secret = toy.secret
    for signed in (False, True):
        make = becalm.int_ if signed else becalm.uint
        for bits in (2, 7, 8, 9, 16, 31, 32, 33, 63, 64, 65, 256):
            type_ = make(bits)
            values = [type_.min, 0, 1, type_.max]
            x = secret.encrypt([values], type_)
            found = secret.decrypt(x)
            width = min((w for w in (8, 16, 32, 64) if w >= bits), default=None)
            wanted = np.dtype(object if width is None else f"{'' if signed else 'u'}int{width}")
            assert found.dtype == x.dtype == type_.dtype == wanted
            assert found.tolist() == [values]
            one = secret.decrypt(secret.encrypt(type_.max, type_))
            assert type(one) is int and one == type_.max
    b = secret.encrypt([True, False], becalm.boolean)
    assert secret.decrypt(b).dtype == b.dtype == np.dtype(bool)
    assert secret.decrypt(b[0]) is True
    # An array of numpy comes back equal.
    a = np.array([[1, -2], [3, 4]], dtype=np.int16)
    found = secret.decrypt(secret.encrypt(a, a.dtype))
    assert found.dtype == a.dtype and np.array_equal(found, a)


def test_a_single_number_is_a_vector_of_one(ckks):
    secret, _ = ckks
    public = secret.public_key()
    for value in (2, 0.5, 1 - 1j, np.float32(0.25), np.array(2.0), True):
        for key in (secret, public):
            found = secret.decrypt(key.encrypt(value, bound=2))
            assert abs(found[0] - value) < 1e-3 and np.abs(found[1:]).max() < 1e-3
    with pytest.raises(becalm.BadInput, match="each row by itself"):
        secret.encrypt([[1.0]])


def test_operators_of_tables_name_the_integers(toy):
    x = toy.secret.encrypt([3, 1])
    for run in (
        *(lambda: x**2, lambda: 2**x, lambda: x % 2, lambda: x // 2, lambda: x / 2, lambda: x * x),
        *(lambda: x > 1, lambda: x == 1, lambda: x << 1, lambda: 5 % x, lambda: divmod(x, 2)),
        *(lambda: abs(x), lambda: x @ x, lambda: bool(x)),
    ):
        with pytest.raises(becalm.Unsupported, match=r"becalm\.uint\(8\)"):
            run()
    for params, told in ((16, "becalm.uint"), (4, r"keygen\(bits=4\)"), (np.int64(2), "bits=2")):
        with pytest.raises(becalm.BadInput, match=told):
            becalm.keygen(params)


def test_pairs_of_keys_are_saved_alike(toy, ckks, tmp_path):
    for name, keys in {"tfhe": becalm.Keys(*toy), "ckks": ckks}.items():
        secret, server = keys
        assert (keys.secret, keys.server) == (secret, server) and "secret=<" in repr(keys)
        paths = [tmp_path / f"{name}-{part}" for part in ("secret", "server")]
        keys.save(*paths)
        before = [path.read_bytes() for path in paths]
        with pytest.raises(becalm.IoError, match=r"a new name, got .*-secret, which exists"):
            keys.save(*paths)
        assert [path.read_bytes() for path in paths] == before
        keys.save(*paths, overwrite=True)
