"""Servers for a secret key that exists, and files that say whether values are real."""

import numpy as np
import pytest
from conftest import forged

import becalm
from becalm import ckks

TOY = {"allow_insecure": True, "progress": False}


@pytest.fixture(scope="module")
def secret():
    return becalm.keygen("ckks_toy_12", slots=64, bootstrap=None, **TOY).secret


def near(secret, x, wanted, bits=20):
    return abs(secret.decrypt(x)[: len(wanted)] - wanted).max() < 2.0**-bits


def test_a_secret_key_gets_servers_with_what_is_needed_later(secret):
    values = np.linspace(-0.9, 0.9, 64)
    x = secret.encrypt(values, level=1)
    with pytest.raises(becalm.WrongKey):
        x.rotate(3)
    second = secret.server(bootstrap="small", rotations=[3], progress=False)
    assert second.key_id == secret.key_id and second.kinds == ("sparse",) and second.slots == 64
    # Encrypted before: the new server computes with it.
    y = second.bootstrap(x)
    assert y.level == 10 and near(secret, y, values, 12)
    assert near(secret, second.attach(x).rotate(3), np.roll(values, -3))
    assert near(secret, (y * y).rotate(3), np.roll(values**2, -3), 10)
    # Encrypted since: it knows the new one.
    assert near(secret, secret.encrypt(values).rotate(3), np.roll(values, -3))


def test_a_server_has_its_own_slots_kinds_and_form(secret):
    wide = secret.server(slots=2048, bootstrap="small", progress=False)
    assert wide.kinds == ("regular",) and wide.slots == 2048
    packed = secret.server(bootstrap="small", compact=True, progress=False)
    ready = secret.server(bootstrap="small", progress=False)
    assert packed.nbytes < 0.85 * ready.nbytes
    x = secret.encrypt([0.5, 0.25], level=1)
    assert packed.bootstrap(x).nbytes < ready.bootstrap(x).nbytes
    p = becalm.Program("ckks_toy_12", slots=64)
    a = p.input(level=2)
    p.output((a * a).rotate(5))
    exact = secret.server(needs=p.needs, progress=False)
    assert near(secret, exact.run(p, secret.encrypt([0.5])), [0.0])
    assert exact.nbytes < ready.nbytes


def test_what_keygen_refuses_a_server_refuses(secret, monkeypatch):
    for kind, options in (
        (becalm.BadInput, {"bootstrap": "huge"}),
        (becalm.BadInput, {"slots": 3}),
        (becalm.BadInput, {"rotations": 1}),
        (becalm.BadInput, {"needs": "all"}),
        (becalm.BadInput, {"stage_count": 9}),
        (becalm.WrongParams, {"kinds": "precise"}),
        (becalm.BadInput, {"compact": "very"}),
    ):
        with pytest.raises(kind) as e:
            secret.server(progress=False, **options)
        assert e.value.remedy
    monkeypatch.setattr(ckks._native, "free_memory", lambda: 50_000_000)
    with pytest.raises(becalm.OutOfMemory, match=r"50\.0 MB free"):
        secret.server(slots=2048, bootstrap="large", progress=False)


def test_progress_is_told_and_can_stop(secret):
    told = []

    def tell(done, total):
        told.append((done, total))

    secret.server(bootstrap=None, rotations=[1, 2], progress=tell)
    assert told == sorted(told) and told[-1][0] == told[-1][1]
    with pytest.raises(becalm.Interrupted):
        secret.server(slots=2048, bootstrap="large", progress=lambda done, total: False)


def test_a_secret_key_from_a_file_gets_a_server(secret, tmp_path):
    secret.save(tmp_path / "secret")
    back = ckks.load_secret_key(tmp_path / "secret", slots=64, allow_insecure=True)
    with pytest.raises(becalm.WrongKey):
        back.encrypt([0.5]) * back.encrypt([0.5])
    server = back.server(bootstrap=None, rotations=[1], progress=False)
    assert near(secret, back.encrypt([0.5, 0.25]).rotate(1), [0.25])
    server.save(tmp_path / "server")
    there = becalm.load(tmp_path / "server", allow_insecure=True)
    assert there.slots == 64
    assert near(secret, there.attach(secret.encrypt([0.5, 0.25])).rotate(1), [0.25])


def test_files_say_whether_values_are_real(secret, tmp_path):
    server = secret.server(bootstrap="small", progress=False)
    real, complex_ = secret.encrypt([0.5], level=1), secret.encrypt([0.5j], level=1)
    for x in (real, complex_):
        x.save(tmp_path / "x")
        for y in (
            server.load(tmp_path / "x"),
            secret.load(tmp_path / "x"),
            server.from_bytes(x.to_bytes()),
            becalm.from_bytes(x.to_bytes(), allow_insecure=True),
            becalm.load(tmp_path / "x", allow_insecure=True),
        ):
            assert y.real == x.real
    loaded = server.from_bytes(complex_.to_bytes())
    assert near(secret, loaded.bootstrap(), [0.5j], 12)
    for call in (
        lambda: server.load(tmp_path / "x", real=True),
        lambda: server.from_bytes(complex_.to_bytes(), real=True),
    ):
        with pytest.raises(becalm.BadInput, match="says its values are complex"):
            call()
    assert server.from_bytes(real.to_bytes(), real=True).real


def test_no_value_decides_whether_a_ciphertext_says_real(secret):
    """A file's header is public. Of the values it tells their type alone."""

    def header(file):
        said = []
        forged(file, said.append)
        return {**said[0], "checksum": ""}

    for encrypt in (secret.encrypt, secret.public_key().encrypt):
        said = []
        for values in ([0.5 + 0j, 0.25 + 0j], [0.5 + 1e-300j, 0.25], np.zeros(2, complex)):
            x = encrypt(values, level=1)
            assert not x.real and secret.decrypt(x).dtype.kind == "c"
            said.append(header(x.to_bytes()))
        assert said[0] == said[1] == said[2]
    assert secret.encrypt(np.array([0.5 + 0j, 0.25]).real, level=1).real


def test_a_file_that_leaves_it_open_goes_by_the_caller(secret):
    server = secret.server(bootstrap=None, progress=False)
    file = secret.encrypt([0.5], level=1).to_bytes()
    old = forged(file, lambda metadata: metadata.pop("values"))
    assert not server.from_bytes(old).real and server.from_bytes(old, real=True).real
    assert near(secret, server.from_bytes(old, real=True), [0.5])
    for word in ("", "Real", "imaginary"):
        with pytest.raises(becalm.BadFile, match="complex or real"):
            server.from_bytes(
                forged(file, lambda metadata, word=word: metadata.update(values=word))
            )
    with pytest.raises(becalm.BadFile):
        server.from_bytes(forged(file, lambda metadata: metadata.update(kind="real")))


def test_keys_from_a_file_are_no_ground_to_share_on(tmp_path):
    """Whoever wrote the file could have made keys whose errors give the secret key away."""
    secret, server = becalm.keygen("ckks_toy_12", bootstrap=None, rotations=[1], **TOY)
    public = secret.public_key()
    server.save(tmp_path / "keys")
    read = becalm.from_bytes(public.to_bytes(), allow_insecure=True)
    loaded = becalm.load(tmp_path / "keys", allow_insecure=True)
    x = secret.encrypt([0.5, -0.25])
    for fine in (public.encrypt([0.5]), x.rotate(1), loaded.attach(x) + 0.5):
        assert fine.account.shareable
    for other in (read.encrypt([0.5], bound=2), loaded.attach(x).rotate(1)):
        assert not other.account.shareable
        with pytest.raises(becalm.BadInput, match="keys from a file"):
            secret.decrypt_to_share(other, precision_bits=-20, queries=3)
        # They are the owner's own.
        assert secret.bits_to_share(other.vouched(), queries=3) > 0
    large = secret.encrypt([1e3], bound=1e3) ** 12
    assert not large.account.shareable and large.account.values > large.largest
