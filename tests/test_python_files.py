"""Saved objects come back the same, by `becalm.load` alone. Damaged files are refused."""

import pickle
import stat

import numpy as np
import pytest

import becalm

P = 16


def load(path):
    return becalm.load(path, allow_insecure=True)


def test_keys_come_back(toy, tmp_path):
    secret_path, server_path = tmp_path / "secret.becalm", str(tmp_path / "server.becalm")
    toy.secret.save(secret_path)
    toy.server.save(server_path)
    assert stat.S_IMODE(secret_path.stat().st_mode) == 0o600
    secret, server = load(secret_path), load(server_path)
    assert isinstance(secret, becalm.SecretKey) and isinstance(server, becalm.Server)
    assert secret.key_id == server.key_id == toy.secret.key_id
    assert server.nbytes == toy.server.nbytes
    y = server.bootstrap(toy.secret.encrypt(range(P)), lambda m: P - 1 - m)
    assert secret.decrypt(y).tolist() == list(range(P))[::-1]


def test_ciphertexts_come_back_in_their_shape(toy, tmp_path):
    path = tmp_path / "x.becalm"
    x = toy.secret.encrypt([[1, 2, 3], [4, 5, 6]], message=8, below=7) + 1
    x.save(path)
    back = load(path)
    assert isinstance(back, becalm.Ciphertext) and back.shape == (2, 3)
    assert (back.message, back.range, back.noise_variance) == (8, (1, 7), x.noise_variance)
    assert toy.secret.decrypt(back).tolist() == [[2, 3, 4], [5, 6, 7]]


SHAPES = [(), (1,), (4,), (2, 2), (1, 4, 1), (0,), (0, 3), (3, 0, 2)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("type_", [None, becalm.uint(5), becalm.boolean])
def test_files_keep_shapes(toy, tmp_path, shape, type_):
    values = np.ones(shape, dtype=np.int64)
    x = toy.secret.encrypt(values) if type_ is None else toy.secret.encrypt(values, type_)
    for seeded in (False, True):
        x.save(tmp_path / "x.becalm", seeded=seeded)
        sent = x.to_bytes(seeded=seeded)
        for back in (load(tmp_path / "x.becalm"), becalm.from_bytes(sent, allow_insecure=True)):
            assert back.shape == shape == pickle.loads(pickle.dumps(back)).shape
            assert np.array_equal(toy.secret.decrypt(back), toy.secret.decrypt(x))


def test_a_file_of_too_many_axes_is_refused(toy, tmp_path):
    x = toy.secret.encrypt([1]).reshape(*[1] * 33)
    with pytest.raises(becalm.BadInput, match="at most 32 axes of 1 elements"):
        x.save(tmp_path / "x.becalm")


def test_a_secret_key_is_not_replaced_by_accident(toy, stranger, tmp_path):
    ckks = [becalm.keygen("ckks_toy_12", bootstrap=None, allow_insecure=True, progress=False)]
    ckks.append(becalm.keygen("ckks_toy_12", bootstrap=None, allow_insecure=True, progress=False))
    path = tmp_path / "secret.becalm"
    for keys, others in ((toy, stranger), ckks):
        path.unlink(missing_ok=True)
        keys.secret.save(path)
        keys.secret.save(path)
        for save in (
            keys.secret.encrypt([1, 0]).save,
            keys.server.save,
            others.secret.save,
            becalm.Program("toy_2_2").save,
        ):
            with pytest.raises(becalm.IoError, match="holds a secret key"):
                save(path)
        assert load(path).key_id == keys.secret.key_id
        others.secret.save(path, overwrite=True)
        assert load(path).key_id == others.secret.key_id


def test_evaluation_keys_are_replaced_by_their_kind_alone(toy, tmp_path):
    ckks = becalm.keygen("ckks_toy_12", bootstrap=None, allow_insecure=True, progress=False)
    path = tmp_path / "server.becalm"
    program = becalm.Program("toy_2_2")
    for keys in (toy, ckks):
        path.unlink(missing_ok=True)
        keys.server.save(path)
        keys.server.save(path)
        for save in (keys.secret.encrypt([1, 0]).save, keys.secret.save, program.save):
            with pytest.raises(becalm.IoError, match=r"server\.becalm, which holds a key"):
                save(path)
        with pytest.raises(becalm.IoError, match="which holds a key"):
            keys.save(path, tmp_path / "other.becalm", overwrite=True)
        assert load(path).key_id == keys.secret.key_id
    assert [found.name for found in tmp_path.iterdir()] == ["server.becalm"]


def test_a_missing_file_of_keys_is_named(tmp_path):
    with pytest.raises(becalm.IoError, match=r"wanted to read .*nofile, got .*; check the name"):
        becalm.ckks.load_server(tmp_path / "nofile")


def test_encrypted_tables_and_programs_come_back(toy, tmp_path):
    table_path, program_path = tmp_path / "table.becalm", tmp_path / "program.becalm"
    toy.secret.encrypt_table(lambda m: (m + 3) % P).save(table_path)
    p = becalm.Program("toy_2_2")
    a = p.input()
    p.output(p.lookup(a, lambda m: (5 * m) % P), a)
    p.save(program_path)
    table, program = load(table_path), load(program_path)
    assert isinstance(table, becalm.EncryptedTable) and isinstance(program, becalm.Program)
    x = toy.secret.encrypt([4, 14])
    assert toy.secret.decrypt(toy.server.bootstrap(x, table)).tolist() == [7, 1]
    y, same = toy.server.run(program, x)
    assert toy.secret.decrypt(y).tolist() == [4, 6]
    assert toy.secret.decrypt(same).tolist() == [4, 14]
    assert program.cost == p.cost


def test_several_encrypted_tables_come_back_as_they_were(toy, tmp_path):
    path = tmp_path / "tables.becalm"
    kept = toy.secret.encrypt_table([lambda m: m % 3, lambda m: 2 - m % 3], message=8, out=3)
    kept.save(path)
    back = load(path)
    assert (back.message, back.below, back.out, len(back)) == (8, 4, 3, 2)
    assert repr(back) == repr(kept)
    x = toy.secret.encrypt([0, 1, 2, 3], message=8, below=4)
    a, b = toy.server.bootstrap(x, back)
    assert (a.message, a.range, b.message) == (3, (0, 2), 3)
    assert toy.secret.decrypt(a).tolist() == [0, 1, 2, 0]
    assert toy.secret.decrypt(b).tolist() == [2, 1, 0, 2]
    with pytest.raises(becalm.BadInput, match="8"):
        toy.server.bootstrap(toy.secret.encrypt([0, 1], below=4), back)


def test_ciphertexts_programs_and_sets_can_be_pickled(toy):
    x = toy.secret.encrypt(np.arange(6).reshape(2, 3))
    back = pickle.loads(pickle.dumps(x))
    assert back.shape == (2, 3)
    assert np.array_equal(toy.secret.decrypt(back), np.arange(6).reshape(2, 3))
    p = becalm.Program("toy_2_2")
    p.output(p.lookup(p.input(), lambda m: m))
    assert pickle.loads(pickle.dumps(p)).cost == p.cost
    assert pickle.loads(pickle.dumps(toy.secret.params)) == toy.secret.params


def test_insecure_sets_are_refused_unless_allowed(toy, tmp_path):
    p = becalm.Program("toy_2_2")
    p.output(p.input())
    things = (toy.secret, toy.server, toy.secret.encrypt(1), p)
    for i, thing in enumerate((*things, toy.secret.encrypt_table(lambda m: m))):
        path = tmp_path / f"{i}.becalm"
        thing.save(path)
        with pytest.raises(becalm.Insecure):
            becalm.load(path)


def test_damaged_files_are_refused(toy, tmp_path):
    path = tmp_path / "x.becalm"
    toy.secret.encrypt([1, 2, 3]).save(path)
    good = path.read_bytes()
    middle = len(good) // 2
    flipped = good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :]
    for bad in (b"", b"hello", good[:-1], good + b"\0", good[:100], flipped, bytes(len(good))):
        path.write_bytes(bad)
        with pytest.raises(becalm.BadFile) as e:
            load(path)
        assert e.value.op == "load" and e.value.remedy
    path.write_bytes(good)
    with pytest.raises(becalm.BadFile, match="100"):
        becalm.load(path, allow_insecure=True, limit=100)
    with pytest.raises(becalm.BadFile, match="which is a folder; name a file in it"):
        becalm.load(tmp_path)
    assert load(path).shape == (3,)


def test_what_the_system_refuses(toy, tmp_path):
    x = toy.secret.encrypt(1)
    with pytest.raises(becalm.IoError):
        becalm.load(tmp_path / "nothing")
    with pytest.raises(becalm.IoError):
        x.save(tmp_path / "no" / "such" / "folder")
    with pytest.raises((becalm.IoError, becalm.BadFile)):
        becalm.load(tmp_path)
    with pytest.raises(OSError):
        toy.secret.save(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(becalm.BadInput, match="the path of a file, got int"):
        becalm.load(3)
