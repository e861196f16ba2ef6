"""Bytes for the network: every object has them, and what reads them checks them as a file."""

import pickle

import numpy as np
import pytest

import becalm


@pytest.fixture(scope="module")
def things(toy):
    """One object of every class that has bytes, and what a reader must find in it again."""
    secret, server = toy
    p = becalm.Program("toy_2_2")
    p.output(p.lookup(p.input(below=4), lambda m: m * m % 16))
    u16 = secret.encrypt([[500, 3]], becalm.uint(16))
    return {
        "ciphertext": (secret.encrypt([[3, 1, 2]]), lambda x: secret.decrypt(x).tolist()),
        "integers": (u16, lambda x: secret.decrypt(x).tolist()),
        "booleans": (secret.encrypt([True, False], bool), lambda x: secret.decrypt(x).tolist()),
        "bytes": (secret.encrypt(b"becalm"), secret.decrypt),
        "aes key": (becalm.aes128(secret, bytes(range(16))), secret.decrypt),
        "table": (secret.encrypt_table(lambda m: m), lambda t: (len(t), t.out, t.key_id)),
        "program": (p, lambda q: (q.cost, q.inputs, q.outputs)),
        "secret key": (secret, lambda k: (k.key_id, k.decrypt(secret.encrypt(3)))),
        "server": (server, lambda s: s.key_id),
    }


NAMES = (
    *("ciphertext", "integers", "booleans", "bytes", "aes key", "table", "program"),
    *("secret key", "server"),
)


def flat(found):
    return np.asarray(found, dtype=object).ravel().tolist()


@pytest.mark.parametrize("name", NAMES)
def test_bytes_come_back_checked(things, tmp_path, name):
    thing, seen = things[name]
    file = thing.to_bytes()
    assert isinstance(file, bytes)
    # They are the bytes of the file.
    thing.save(tmp_path / "f.becalm")
    assert (tmp_path / "f.becalm").read_bytes() == file
    for read in (becalm.from_bytes, type(thing).from_bytes):
        again = read(file, allow_insecure=True)
        assert type(again) is type(thing)
        assert seen(again) == seen(thing)
        assert getattr(again, "shape", None) == getattr(thing, "shape", None)
        assert again.to_bytes() == file
        for kind in (bytearray, memoryview):
            assert type(read(kind(file), allow_insecure=True)) is type(thing)
        with pytest.raises(becalm.Insecure):
            read(file)
        damaged = bytearray(file)
        damaged[-9] ^= 1
        for wrong in (damaged, file[:-1], file + b"\0", b"", b"becalm", bytes(200), b"\xff" * 64):
            with pytest.raises(becalm.BadFile):
                read(bytes(wrong), allow_insecure=True)
        with pytest.raises(becalm.BadInput, match="bytes"):
            read(str(tmp_path / "f.becalm"), allow_insecure=True)


@pytest.mark.parametrize("name", NAMES)
def test_one_class_refuses_the_bytes_of_another(things, name):
    thing, _ = things[name]
    for other in NAMES:
        same = {name, other} in ({"integers", "booleans"}, {name})
        if not same:
            with pytest.raises(becalm.BadFile):
                type(thing).from_bytes(things[other][0].to_bytes(), allow_insecure=True)


@pytest.mark.parametrize("name", ["ciphertext", "integers", "booleans", "bytes", "aes key"])
def test_fresh_encryptions_travel_short(things, toy, name):
    thing, seen = things[name]
    file = thing.to_bytes(seeded=True)
    assert len(file) < len(thing.to_bytes())
    for read in (becalm.from_bytes, type(thing).from_bytes):
        again = read(file, allow_insecure=True)
        assert np.array_equal(flat(seen(again)), flat(seen(thing)))
        # The masks count before they are drawn.
        with pytest.raises(becalm.BadFile, match="at most"):
            read(file, allow_insecure=True, limit=len(file))
    results = toy.server.bootstrap(toy.secret.encrypt([1, 2]), lambda m: m)
    with pytest.raises(becalm.Unsupported, match="seed"):
        results.to_bytes(seeded=True)


def test_limits_and_threads(things):
    for name in ("ciphertext", "integers", "bytes", "table", "program"):
        file = things[name][0].to_bytes()
        for read in (becalm.from_bytes, type(things[name][0]).from_bytes):
            with pytest.raises(becalm.BadFile, match="at most"):
                read(file, allow_insecure=True, limit=100)
            for wrong in (-1, "much"):
                with pytest.raises(becalm.BadInput, match="limit"):
                    read(file, limit=wrong)
    # The error names the factor: a reader takes 64 bytes for each byte of a program.
    with pytest.raises(becalm.BadFile, match=r"at most 62 bytes, a 64th of the limit of 4000, got"):
        becalm.from_bytes(things["program"][0].to_bytes(), allow_insecure=True, limit=4000)
    file = things["server"][0].to_bytes()
    with pytest.raises(becalm.BadInput, match="threads"):
        becalm.from_bytes(file, allow_insecure=True, threads=-1)


def test_keys_between_slots_travel():
    secret = becalm.SecretKey.generate("toy_cm_1_1_w2", allow_insecure=True)
    for key in (secret.pack_key(), secret.slot_map_key(np.eye(2, dtype=int))):
        for again in (
            becalm.from_bytes(key.to_bytes(), allow_insecure=True),
            becalm.SlotKey.from_bytes(key.to_bytes(), allow_insecure=True),
            pickle.loads(pickle.dumps(key)),
        ):
            assert (again.sums, again.key_id) == (key.sums, key.key_id)


def test_a_client_and_a_server_exchange_bytes_alone(toy):
    """The example of the page: keys and data travel as bytes, with no pickle and no file."""
    secret, server = toy
    sent = [server.to_bytes(), secret.encrypt([500, 3], becalm.uint(16)).to_bytes(seeded=True)]
    there = becalm.Server.from_bytes(sent[0], allow_insecure=True)
    x = becalm.Integers.from_bytes(sent[1], allow_insecure=True).on(there)
    answer = (x + 1).to_bytes()
    found = becalm.Integers.from_bytes(answer, allow_insecure=True)
    assert secret.decrypt(found).tolist() == [501, 4]


@pytest.mark.parametrize("name", ["ciphertext", "integers", "bytes", "aes key", "table", "program"])
def test_pickles_go_through_the_readers(things, name):
    """A pickle holds the bytes of a file, and a damaged one is refused as the file would be."""
    thing, seen = things[name]
    again = pickle.loads(pickle.dumps(thing))
    assert type(again) is type(thing) and seen(again) == seen(thing)
    rebuild, (file, *rest) = thing.__reduce__()
    damaged = bytearray(file)
    damaged[-9] ^= 1
    with pytest.raises(becalm.BadFile):
        rebuild(bytes(damaged), *rest)
    if name == "ciphertext":
        with pytest.raises(becalm.BadInput, match="shape"):
            rebuild(file, (7, 7), True)


def test_ckks_has_bytes_too():
    secret, server = becalm.keygen(
        "ckks_toy_12", bootstrap=None, allow_insecure=True, progress=False
    )
    x = secret.encrypt([0.5, -0.25])
    again = becalm.from_bytes(x.to_bytes(), allow_insecure=True)
    assert np.allclose(secret.decrypt(again)[:2], [0.5, -0.25], atol=1e-4)
    with pytest.raises(becalm.Insecure):
        becalm.from_bytes(secret.to_bytes())
    key = becalm.from_bytes(secret.to_bytes(), allow_insecure=True)
    assert key.key_id == secret.key_id
    assert np.allclose(key.decrypt(x)[:2], [0.5, -0.25], atol=1e-4)
    public = becalm.from_bytes(secret.public_key().to_bytes(), allow_insecure=True)
    assert np.allclose(secret.decrypt(public.encrypt([0.5]))[:1], [0.5], atol=1e-3)
    with pytest.raises(becalm.BadFile, match="at most"):
        becalm.from_bytes(x.to_bytes(), allow_insecure=True, limit=10)
    with pytest.raises(becalm.BadFile, match="at most"):
        server.from_bytes(x.to_bytes(), limit=10)
    with pytest.raises(becalm.Unsupported, match="to a file"):
        becalm.from_bytes(b"becalm ckks 0003" + bytes(100))
    with pytest.raises(becalm.BadFile):
        becalm.Ciphertext.from_bytes(x.to_bytes(), allow_insecure=True)
