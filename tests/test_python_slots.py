"""Common-mask sets from Python: shapes, tables for each slot, packing, maps, files and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import becalm


@pytest.fixture(scope="module", params=["toy_cm_1_1_w2", "toy_cm_1_1_w3_p"])
def keys(request):
    return becalm.keygen(request.param, allow_insecure=True, progress=False)


def test_a_need_for_slots_finds_a_set_of_so_many():
    assert becalm.params(bits=2, slots=8).name == "cm_1_1_w8"
    assert becalm.params(bits=2).slots == 1
    with pytest.raises(becalm.WrongParams):
        becalm.params(bits=2, slots=3)
    budget = becalm.params("cm_1_1_w8").noise()
    assert budget["log2_pfail_any_slot"] == budget["log2_pfail"] + 3


def test_the_last_axis_is_slots(keys):
    secret, _ = keys
    w = secret.params.slots
    x = secret.encrypt(np.arange(6 * w).reshape(2, 3, w) % 4)
    assert (x.shape, x.ndim, x.size, x.slots) == ((2, 3, w), 3, 6 * w, w)
    assert np.array_equal(secret.decrypt(x), np.arange(6 * w).reshape(2, 3, w) % 4)
    assert secret.decrypt(x[1, 2]).shape == (w,)
    assert x.reshape(6, w).shape == x.reshape(-1, w).shape == (6, w)
    with pytest.raises(becalm.BadInput, match="slots stay together"):
        x.reshape(6 * w)
    # Fewer in a row, a flat array of more, one value: filled with zeros.
    assert secret.decrypt(secret.encrypt([[3], [1]]))[:, 1:].tolist() == [[0] * (w - 1)] * 2
    flat = secret.decrypt(secret.encrypt(np.ones(2 * w + 1, dtype=int)))
    assert flat.shape == (3, w) and flat.sum() == 2 * w + 1
    assert secret.decrypt(secret.encrypt(2)).tolist() == [2] + [0] * (w - 1)
    with pytest.raises(becalm.BadInput, match="at most"):
        secret.encrypt(np.zeros((2, w + 1), dtype=int))


def test_constants_and_joins(keys):
    secret, _ = keys
    w = secret.params.slots
    x = secret.encrypt(np.ones((2, w), dtype=int), below=2)
    assert (secret.decrypt(2 * x + np.arange(w) % 2) == 2 + np.arange(w) % 2).all()
    assert (secret.decrypt(3 - x) == 2).all()
    rows = secret.decrypt(x * np.array([[1], [3]]))
    assert (rows == [[1] * w, [3] * w]).all()
    with pytest.raises(becalm.Unsupported, match="slot_map"):
        x * (1 + np.arange(w))
    with pytest.raises(becalm.BadInput):
        x + np.ones(w + 1, dtype=int)
    assert becalm.concatenate([x, x]).shape == (4, w)
    assert becalm.stack([x, x], axis=-2).shape == (2, 2, w)
    with pytest.raises(becalm.BadInput, match="axis of slots"):
        becalm.concatenate([x, x], axis=-1)


def test_a_table_for_each_slot(keys):
    secret, server = keys
    w = secret.params.slots
    values = np.arange(4 * w).reshape(4, w) % 4
    x = secret.encrypt(values)
    tables = [lambda m, j=j: (m + j) % 4 for j in range(w)]
    assert (secret.decrypt(server.bootstrap(x, tables)) == (values + np.arange(w)) % 4).all()
    assert (secret.decrypt(server.bootstrap(x, [3, 2, 1, 0])) == 3 - values).all()
    listed = [[j % 4] * 4 for j in range(w)]
    assert (secret.decrypt(server.bootstrap(x, listed)) == np.arange(w) % 4).all()
    with pytest.raises(becalm.BadInput, match=f"{w} tables"):
        server.bootstrap(x, tables[:1])
    with pytest.raises(becalm.BadInput, match="entries"):
        server.bootstrap(x, [[0] * 5] * w)
    with pytest.raises(becalm.Unsupported):
        secret.encrypt_table(lambda m: m)


def test_extract_pack_and_maps(keys, tmp_path):
    secret, server = keys
    w = secret.params.slots
    values = np.arange(2 * w).reshape(2, w) % 2
    x = secret.encrypt(values, below=2)
    one = server.extract(x, 1)
    assert (one.shape, one.slot, one.slots) == ((2,), 1, 1)
    assert (secret.decrypt(one) == values[:, 1]).all()
    with pytest.raises(becalm.BadInput):
        server.extract(x, w)
    plain = secret.encrypt(values, slot=0)
    with pytest.raises(becalm.WrongKey):
        server.pack(plain)
    turn = np.roll(np.eye(w, dtype=int), 1, axis=0)
    for name, key in {"pack": secret.pack_key(), "map": secret.slot_map_key(turn)}.items():
        key.save(tmp_path / name)
        again = becalm.load(tmp_path / name, allow_insecure=True)
        assert again.sums == key.sums
        server.add_key(again)
    assert (secret.decrypt(server.pack(plain)) == values).all()
    assert (secret.decrypt(server.slot_map(x)) == values @ turn.T).all()
    with pytest.raises(becalm.BadInput):
        server.slot_map(x, 1)
    with pytest.raises(becalm.BadInput):
        secret.slot_map_key([[1]])


def test_programs_and_files(keys, tmp_path):
    secret, server = keys
    w = secret.params.slots
    p = becalm.Program(secret.params)
    a = p.input(below=2)
    y = p.lookup(p.add_slots(2 * a, [0] * w), [lambda m: m % 4] * w)
    p.output(y, p.extract(y, 0))
    assert p.cost.bootstraps == 1 and p.check() < -128
    p.save(tmp_path / "p")
    p = becalm.load(tmp_path / "p", allow_insecure=True)
    x = secret.encrypt(np.ones((3, w), dtype=int), below=2)
    x.save(tmp_path / "x")
    x = becalm.load(tmp_path / "x", allow_insecure=True)
    all_of_them, first = server.run(p, x)
    assert (secret.decrypt(all_of_them) == 2).all() and first.shape == (3,)
