"""Calls of every kind, each with a check of its results. `test_python_fork.py` makes them in forked
children.
"""

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import becalm
from becalm import _native, ckks

TOY = {"allow_insecure": True, "progress": False}
KINDS = {}


def kind(work):
    """One kind of call: it checks its results itself."""
    KINDS[work.__name__] = work
    return work


def near(got, wanted, most=1e-3):
    assert abs(np.asarray(got)[: len(wanted)] - wanted).max() < most


@kind
def tfhe(w):
    secret, server = w.toy
    p = secret.params
    x = secret.encrypt([1, 2, 3, 4])
    assert list(secret.decrypt(server.bootstrap(x, lambda m: (m + 1) % 16))) == [2, 3, 4, 5]
    assert list(secret.decrypt(3 * x - x + 1)) == [3, 5, 7, 9]
    assert len(secret.phases(x + x)) == 4
    lwe = x._lwe
    both = _native.Lwe.concat([lwe, lwe.trivial(bytes(8)), lwe.select(bytes(8))])
    assert len(both) == 6 and len(both.words()) > 6
    table = secret.encrypt_table(lambda m: 15 - m)
    assert list(secret.decrypt(server.bootstrap(x, table))) == [14, 13, 12, 11]
    fresh, again = becalm.keygen("toy_boolean", **TOY)
    a, b = fresh.encrypt_bool([0, 0, 1, 1]), fresh.encrypt_bool([0, 1, 0, 1])
    assert list(fresh.decrypt_bool(again.nand(a, b))) == [True, True, True, False]
    p.require_secure(True)
    p.require_keys(1 << 60)
    assert p.noise() and p.noise_report() and _native.Params.all()
    assert _native.Params.find(2, -40.0, "2^64", 1.0, 1).name


@kind
def programs(w):
    secret, server = w.toy
    p = _native.Program(secret.params)
    a, b = (p.input(16, True, 0, 1) for _ in range(2))
    regs = [p.gate("and", a, b), p.not_(a), p.mux(a, b, b)]
    regs.append(
        p.lookup(p.linear([(2, a), (1, b)], 1), becalm.Table(secret.params, range(16))._native)[0]
    )
    for r in regs:
        p.output(r)
    assert p.info(a) and not p.is_table(a) and p.needs() and p.cost() and p.noise([1e-12] * 2)
    assert len(_native.Program.from_bytes(p.to_bytes(), True, None)) == len(p)
    p.save(w.folder / "program")
    program = becalm.load(w.folder / "program", allow_insecure=True)
    found = server.run(program, secret.encrypt_bool([1]), secret.encrypt_bool([1]))
    assert [int(secret.decrypt(y)[0]) for y in found] == [1, 0, 1, 4]
    q = becalm.Program(secret.params)
    x, table = q.input(), q.input_table()
    q.output(q.lookup(x, table))
    hidden = secret.encrypt_table(lambda m: m ^ 1)
    assert int(secret.decrypt(server.run(q, secret.encrypt(2), hidden))) == 3


@kind
def packed_integers(w):
    secret, server = w.tables
    x = secret.encrypt_packed([3, 1, 15], bits=4)
    y = 3 * x + [1, 2, 3]
    assert secret.decrypt(server.lookup(y, lambda m: 15 - m)).tolist() == [5, 10, 15]
    many = secret.encrypt_packed(np.full(5000, 7), bits=4)
    assert (secret.decrypt(1 - many * 3) == (1 - 21) % 16).all()
    public = secret.public_key().encrypt_packed([1, 2], bits=2)
    assert secret.decrypt(public).tolist() == [1, 2]
    assert server._plan.tables(4, [list(range(16))])
    # Another table keeps the matrices of the last.
    assert secret.decrypt(server.lookup(y, lambda m: m // 2)).tolist() == [5, 2, 0]
    p = becalm.Program(secret.params.name)
    p.output(p.input(bits=4).lookup(lambda m: 15 - m) + 1)
    assert secret.decrypt(server.run(p, x)).tolist() == [13, 15, 1]
    numbers = server.pack(secret.encrypt([3, 1, 15], level=3, bound=16), bits=4)
    assert secret.decrypt(numbers)[:3].tolist() == [3, 1, 15]
    [halves] = server.unpack(numbers, lambda m: m / 2)
    assert abs(secret.decrypt(halves)[:3] - [1.5, 0.5, 7.5]).max() < 0.01


@kind
def bridge(w):
    (many, _), (one, server) = w.tables, becalm.keygen("toy_2_2", **TOY)
    key = becalm.bridge_key(many, one)
    key.save(w.folder / "bridge")
    key = becalm.load(w.folder / "bridge", allow_insecure=True)
    key = becalm.from_bytes(key.to_bytes(), allow_insecure=True)
    assert (key.source, key.key_id) == ((many.params.name, many.key_id), one.key_id)
    assert key.params.name == "toy_2_2" and key.nbytes and key.noise < 1e-3
    y = key.unpack(many.encrypt_packed([3, 1, 7], bits=4), 1, below=8)
    assert one.decrypt(server.bootstrap(y, lambda m: m // 2)).tolist() == [0, 3]
    back = becalm.packing_key(one, many)
    back.save(w.folder / "packing")
    back = becalm.load(w.folder / "packing", allow_insecure=True)
    back = becalm.from_bytes(back.to_bytes(), allow_insecure=True)
    assert (back.source, back.key_id) == ((one.params.name, one.key_id), many.key_id)
    assert back.params.name == many.params.name and back.nbytes and back.noise < 1e-3
    assert many.decrypt(back.pack(one.encrypt([3, 1, 7]), bits=4)).tolist() == [3, 1, 7]


@kind
def slots(w):
    secret, _ = w.slots
    server = secret.server(progress=False)
    turn = np.array([[0, 1], [1, 0]])
    values = np.array([[1, 0], [0, 1]])
    server.add_key(secret.slot_map_key(turn))
    server.add_key(secret.pack_key())
    x = secret.encrypt(values, below=2)
    assert (secret.decrypt(server.slot_map(x)) == values @ turn.T).all()
    assert (secret.decrypt(server.pack(secret.encrypt(values, slot=0))) == values).all()
    assert (secret.decrypt(server.extract(x, 1)) == values[:, 1]).all()
    key = secret.pack_key()
    key.save(w.folder / "pack")
    assert becalm.load(w.folder / "pack", allow_insecure=True).key_id == secret.key_id
    p = becalm.Program(secret.params)
    a = p.input(below=2)
    y = p.lookup(p.add_slots(2 * a, [0, 0]), [lambda m: m % 4] * 2)
    p.output(y, p.extract(y, 0))
    assert (secret.decrypt(server.run(p, x)[0]) == 2 * values).all()
    assert _native.Program(secret.params).input_slot(0, 4, 0, 1) == 0


@kind
def integers(w):
    secret, server = w.toy
    x = becalm.uint(8).encrypt(secret, [7, 200]).on(server)
    y = becalm.uint(8).trivial(server, [3, 4])
    assert [int(v) for v in (x + y).decrypt(secret)] == [10, 204]
    x.save(w.folder / "integers")
    assert len(becalm.load(w.folder / "integers", allow_insecure=True)) == 2
    name, digits, shape = _native.integers_from_bytes(
        _native.integers_to_bytes("uint8", x._digits, [2, 1], False), True, None
    )
    assert (name, len(digits), shape) == ("uint8", len(x._digits), [2, 1])
    name, operands = _native.integer_operations()[0]
    forms = _native.IntegerForms(secret.params, name, [("uint8", None)] * operands)
    assert forms.program(None, False)


@kind
def circuits(w):
    secret, _ = w.toy
    circuit = becalm.circuit.trace(lambda a, b: a & b, 2, 2)
    assert circuit(3, 2) == 2 and circuit.compile(secret.params).cost.bootstraps
    one_gate = "1 3\n2 1 1\n1 1\n\n2 1 0 1 2 AND\n"
    assert becalm.circuit.parse(one_gate)(1, 1) == 1


@kind
def aes(w):
    secret, _ = w.toy
    key, text = becalm.aes128(secret, bytes(16)), becalm.encrypt_bytes(secret, b"any length")
    assert text.decrypt(secret) == b"any length"
    for x in (key, text):
        x.save(w.folder / "bits")
        assert becalm.load(w.folder / "bits", allow_insecure=True) is not None
    bits = _native.bits_to_bytes(text._bits, False, False)
    assert _native.bits_from_bytes(bits, True, None)[0] is False
    assert _native.record_aes_ecb(secret.params, 1) and becalm.aes_ctr(bytes(16), b"x", bytes(16))
    assert _native.record_aes_ctr(secret.params, 1, None)
    assert _native.aes_ctr_blocks(key._bits, bytes(16), bytes(16))


@kind
def files(w):
    secret, server = w.toy
    secret.save(w.folder / "secret")
    server.save(w.folder / "server")
    becalm.Keys(secret, server).save(w.folder / "a", w.folder / "b", overwrite=True)
    for name in ("a", "secret", "b", "server"):
        assert becalm.load(w.folder / name, allow_insecure=True).key_id == secret.key_id
    x, table = secret.encrypt([1, 2]), secret.encrypt_table(lambda m: m)
    for y in (x, table):
        y.save(w.folder / "y")
        becalm.load(w.folder / "y", allow_insecure=True)
    assert _native.Lwe.from_bytes(x._lwe.to_bytes([2], False), True, None)[1] == [2]
    assert _native.Glwe.from_bytes(table._glwe.to_bytes(), True, None)
    small, packed = w.small, w.packed
    ckks.Keys(*small).save(w.folder / "c", w.folder / "d", overwrite=True)
    small.secret.save(w.folder / "e")
    for name in ("c", "e"):
        assert ckks.load_secret_key(w.folder / name, allow_insecure=True).key_id
    public = small.secret.public_key()
    public.save(w.folder / "public")
    public = ckks.load_public_key(w.folder / "public", allow_insecure=True)
    near(small.secret.decrypt(public.encrypt(w.values)), w.values)
    w.x.save(w.folder / "x")
    near(small.secret.decrypt(small.server.load(w.folder / "x")), w.values)
    near(small.secret.decrypt(small.server.from_bytes(w.x.to_bytes())), w.values)
    for form in ({}, {"compact": True}, {"memory": "low"}):
        name = w.folder / ("packed" if form.get("compact") else "small")
        assert ckks.load_server(name, allow_insecure=True, **form).key_id
    packed.server.save(w.folder / "f")
    assert _native.kind_of_file(w.folder / "x")[0] == "becalm.rlwe"


@kind
def arithmetic(w):
    secret, server = w.small
    x, v = secret.encrypt(w.values), w.values
    near(secret.decrypt(x + x), 2 * v)
    near(secret.decrypt(-(x - x * 2)), v)
    near(secret.decrypt(1 - (x - v)), np.ones(16))
    near(secret.decrypt(ckks.dot(x, x)), np.full(16, v @ v))
    near(secret.decrypt(np.dot(x, v)), np.full(16, v @ v))
    near(secret.decrypt(ckks.concatenate([x], 3)), v[:3])
    near(secret.decrypt(x * x), v * v)
    near(secret.decrypt(x * v + v), v * v + v)
    near(secret.decrypt(x.times_i()), 1j * v)
    near(secret.decrypt(ckks.dot([x, x], [x, x])), 2 * v * v)
    near(secret.decrypt(server.rotate(x, 3)), np.roll(v, -3))
    near(secret.decrypt(server.rotate(x, [1, 2])[1]), np.roll(v, -2))
    near(secret.decrypt(server.sum(x))[:1], [v.sum()])
    near(secret.decrypt(server.conjugate(x)), v)
    near(secret.decrypt(server.polynomial(x, [0, 0, 1])), v * v)
    near(secret.decrypt(ckks.Matrix(np.eye(16)[::-1]) @ x), v[::-1])
    plain = server.encode(v)
    near(plain.decode(), v)
    near(secret.decrypt(x * plain + plain), v * v + v)
    x._native.level_down(1)
    assert x._native.largest > 1 and x._native.bits_to_share(1)
    near(secret.decrypt(server.attach(x)), v)
    secret._native.decrypt_to_share(x._native, 2.0, 1 << 10)
    secret.public_key()._native.to_bytes()


@kind
def packed(w):
    secret, server = w.packed
    x = secret.encrypt(w.values)
    near(secret.decrypt(server.rotate(x + x, 1)), 2 * np.roll(np.append(w.values, 0), -1)[:15])


@kind
def bootstraps(w):
    secret, server = w.large
    x = secret.encrypt(np.full(server.slots, 0.25), level=0)
    near(secret.decrypt(server.bootstrap(x)), np.full(9, 0.25), 0.05)
    pair = server.bootstrap_pair(x, x)
    near(secret.decrypt(pair[1]), np.full(9, 0.25), 0.05)
    near(secret.decrypt(w.stored.bootstrap(w.stored.attach(x))), np.full(9, 0.25), 0.05)
    server.check(np.full(9, 0.25))


@kind
def ckks_programs(w):
    secret, server = w.small
    v, plain = w.values, server.encode(w.values, level=4)
    p = becalm.Program("ckks_toy_12", slots=16)
    x = p.input(level=4)
    p.output(x + x, x - 1, x - (x + x), -x, x * 0.5, x + v, x * v, x * plain + plain, x.times_i())
    p.output(x * x, x.level_down(1), x.rotate([1, 2])[1], x.rotate(3), x.conjugate(), x.sum())
    p.output(ckks.dot([x, x], [x, x]), x.polynomial([0, 0, 1]), ckks.Matrix(np.eye(16)[::-1]) @ x)
    p.output(1 - (x - v), ckks.dot(x, x), np.dot(x, v))
    # The engine of desilo records these.
    assert p._native.rotate_by_powers(x._native, [2]) and x._native.multiple(3)
    p.save(w.folder / f"program-{os.getpid()}")
    p = becalm.load(w.folder / f"program-{os.getpid()}", allow_insecure=True)
    p = ckks.Program.from_bytes(p.to_bytes(), allow_insecure=True)
    for _ in range(2):
        made = server.run(p, secret.encrypt(v, level=4))
    wanted = [2 * v, v - 1, -v, -v, v / 2, 2 * v, v * v, v * v + v, 1j * v]
    wanted += [v * v, v, np.roll(v, -2), np.roll(v, -3), v, np.full(1, v.sum())]
    wanted += [2 * v * v, v * v, v[::-1], np.ones(16), np.full(16, v @ v), np.full(16, v @ v)]
    for got, one in zip(made, wanted, strict=True):
        near(secret.decrypt(got), one)
    refreshed = becalm.Program("ckks_toy_13", bootstrap="large")
    refreshed.output(refreshed.input(level=0).bootstrap())
    assert refreshed.cost.bootstraps == 1


@kind
def functions(w):
    secret, _server = w.small
    x = secret.encrypt(w.values)
    near(secret.decrypt(ckks.approximate(np.cos, domain=(-1, 1), bits=12)(x)), np.cos(w.values))
    near(secret.decrypt(x**3), w.values**3)
    near(secret.decrypt(x.mean()), np.full(1, w.values.mean()))
    near(secret.decrypt(x.sum(2, stride=8)), w.values[:1] + w.values[8:9])
    near(secret.decrypt(x.replicate(2)), np.full(1, w.values[2]))
    near(secret.decrypt(x[2:5]), w.values[2:5])
    square = w.values.reshape(4, 4)
    made = secret.decrypt(ckks.matrix_product(4)(x, x)).reshape(4, 4)
    near(made, square @ square)
    assert secret.decrypt(ckks.matrix_vector(4)(x, x)).size == 16
    assert ckks.sigmoid().levels and ckks.sign().levels
    assert ckks.largest(4).levels and ckks.argmax(4).levels
    p = becalm.Program("ckks_toy_13", bootstrap="large", auto=True)
    p.output(ckks.sigmoid()(p.input(level=8)), p.input(level=2) ** 2)
    assert p.cost.products
    f = ckks.approximate(np.sin, domain=(-1, 1), bits=8)
    x = w.large.secret.encrypt(w.values, level=1)
    assert f.bootstraps(x) == 1
    f(x, auto=True)
    p = becalm.Program("ckks_toy_12", slots=16)
    p.output(p.input(level=2) ** 2)
    own = becalm.keygen("ckks_toy_12", slots=16, bootstrap=None, **TOY).secret
    context = own.server(rotations=[1], bootstrap=None, progress=False)._machine
    assert context.info[0] in ("cpu", "cuda") and context.fallback is None
    assert _native.sum_rotations(8) == [1, 2, 4]
    assert ckks.depth([0, 1, 1, 1]) == 2
    assert ckks.Matrix(np.eye(2), slots=16).slots == 16


@kind
def keys(w):
    chain, context = _native.CkksChain("ckks_toy_12"), _native.CkksMachine("ckks_toy_12", True, 2)
    secret = _native.CkksSecretKey.generate(context)
    needs = _native.CkksNeeds({1: {3}}).union(_native.CkksNeeds({2: {3}}))
    for form in ("ready", "packed", "seeded"):
        made = secret.keys(needs, form=form)
        assert made.bytes_as(form) and chain.packed(needs, form, None, 1 << 60, "others")
    assert chain.require_tables(1 << 60, "others") is None
    assert made.union(made).nbytes
    x = secret.encrypt(bytes(16 * 16), 2, True)
    assert secret.decrypt(x.multiply_plain(2.0).on(_native.CkksMachine("ckks_toy_12", True, 1)))
    _native.CkksPublicKey.from_bytes(context, secret.public_key().to_bytes(), None)
    for name in _native.CkksMachine.names()[:1]:
        assert _native.CkksMachine.describe(name) and _native.CkksChain(name).table_bytes
    plan = w.large.server._plan
    assert plan.of_stages(1 << 60, "others")
    program = plan.record(plan.kinds[0], None, "complex")
    assert program.needs() and program.cost() and chain.top_level and chain.tier_tops
    assert (
        plan.price() and plan.programs and plan.needs() and plan.noted(plan.name, plan.note()).slots
    )
    plan.require(None)
    assert plan.reading(w.large.server._keys, 1 << 40)
    assert plan.of_engine(w.large.server._keys, 1 << 40, "less")
    assert plan.set_for(["regular"], None)
    assert _native.scheme_of("ckks") == "ckks" and _native.integer_most("sum", "uint8")
    w.small.server._keys.require_rotations([1], 1)


@kind
def threshold(w):
    parts = []
    for share in w.small.secret.split(parties=2, threshold=2):
        path = w.folder / f"share-{os.getpid()}-{share.party}"
        share.save(path)
        share = ckks.load_key_share(path, allow_insecure=True)
        share = becalm.from_bytes(share.to_bytes(), allow_insecure=True)
        assert share.bits_to_decrypt_partially(w.x, queries=4) > 2
        part = share.decrypt_partially(w.x, quorum=[1, 2], precision_bits=2, queries=4)
        part.save(f"{path}-part")
        part = ckks.load_partial_decryption(f"{path}-part", allow_insecure=True)
        parts.append(becalm.from_bytes(part.to_bytes(), allow_insecure=True))
    near(ckks.combine(w.x, parts), w.values, 8)


@kind
def collective_keys(w):
    facts = {"parties": 2, "seed": bytes(32), "slots": 16, "allow_insecure": True}
    parties = [ckks.Party("ckks_toy_12", index=i, **facts) for i in (1, 2)]
    path = w.folder / f"party-{os.getpid()}"
    parties[0].save(path)
    parties[0] = ckks.load_party(path, allow_insecure=True)
    parties[1] = becalm.from_bytes(parties[1].to_bytes(), allow_insecure=True)
    firsts = [party.first() for party in parties]
    firsts[0].save(f"{path}-first")
    firsts[0] = ckks.load_party_message(f"{path}-first", allow_insecure=True)
    firsts[1] = becalm.from_bytes(firsts[1].to_bytes(), allow_insecure=True)
    seconds = [party.second(firsts) for party in parties]
    public, server = ckks.aggregate(firsts + seconds, slots=16, allow_insecure=True)
    shares = [party.share(firsts) for party in parties]
    assert not parties[0].deal() and server.key_id == shares[0].key_id
    x = public.encrypt(w.values)
    bits = shares[0].bits_to_decrypt_partially(x * x, queries=1)
    options = {"quorum": [1, 2], "precision_bits": bits, "queries": 1}
    values = ckks.combine(x * x, [share.decrypt_partially(x * x, **options) for share in shares])
    assert values.shape == w.values.shape
    for thing in (*parties, *firsts):
        assert thing.party and thing.parties == 2 and thing.agreement == parties[0].agreement
    assert firsts[0].round == 1 and firsts[0].digest and parties[0].threshold == 2
    assert firsts[0].params.name == "ckks_toy_12"


@kind
def engines(w):
    engine = w.engine
    secret = engine.create_secret_key()
    x = engine.encrypt([0.5, -0.25], secret)
    relinearization = engine.create_relinearization_key(secret)
    near(engine.decrypt(engine.multiply(x, x, relinearization), secret), [0.25, 0.0625])
    near(engine.decrypt(engine.add(x, x), secret), [1.0, -0.5])


@kind
def read_back(w):
    secret, _server = w.toy
    native = secret._native
    own = native.to_bytes()
    assert type(native).from_bytes(own, True).key_id == native.key_id
    assert _native.kind_of_bytes(own)
    keys = native.evaluation_key()
    assert type(keys).from_bytes(keys.to_bytes(), True) is not None
    packing = w.slots.secret.pack_key()
    assert becalm.from_bytes(packing.to_bytes(), allow_insecure=True) is not None
    assert secret.params._repr_html_()
    (w.folder / "and.txt").write_text("1 3\n2 1 1\n1 1\n\n2 1 0 1 2 AND\n")
    assert _native.Circuit.load(w.folder / "and.txt", None, None).gates == (1, 0)
    other = w.small.secret
    assert w.x._native.vouched(1.0, 1e-6) is not None
    assert w.x._native.within(0.5) is not None and w.x._native.require_precise() is None
    assert w.x._native.as_real().real
    assert _native.megabytes(1 << 20) == "1.0 MB" and _native.counted(2, "key") == "2 keys"
    assert _native.CkksSecretKey.from_bytes(other._machine, other._native.to_bytes()) is not None


@contextlib.contextmanager
def served(folder):
    """A service of becalm: its address and its token."""
    token = "0123456789abcdef" * 2
    (folder / "tokens").write_text(f"alice {token}\n")
    (folder / "tokens").chmod(0o600)
    line = [sys.executable, "-m", "becalm", "serve", "served", "--tokens", "tokens"]
    line += ["--listen", "127.0.0.1:0", "--threads", "1", "--allow-insecure"]
    with subprocess.Popen(line, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().split()[-1], token, None
        finally:
            process.terminate()


@kind
def jobs_of_a_service(w):
    secret, server = w.toy
    folder = pathlib.Path(tempfile.mkdtemp(dir=w.folder))
    server.save(folder / "keys")
    secret.encrypt([3, 1]).save(folder / "x")
    p = becalm.Program(secret.params)
    p.output(p.input() + 1)
    made = p.to_bytes()
    with served(folder) as service:
        job = _native.RemoteJob.make(
            service, made, folder / "keys", [folder / "x"], 1, 0.0, "a note"
        )
        assert job.facts()[2:5] == (2, 1, 2) and job.note() == "a note" and job.program() == made
        for chunk, wanted in enumerate([4, 2]):
            while (files := job.results(chunk)) is None:
                pass
            y = becalm.from_bytes(files[0], allow_insecure=True)
            assert secret.decrypt(y).tolist() == [wanted]
        again = _native.RemoteJob.open(service, job.address().rsplit("/", 1)[-1])
        assert again.is_complete() and '"done":2' in again.status()
        again.delete()


@kind
def jobs(w):
    secret, server = w.toy
    folder = pathlib.Path(tempfile.mkdtemp(dir=w.folder))
    server.save(folder / "keys")
    secret.encrypt([3, 1]).save(folder / "x")
    p = becalm.Program(secret.params)
    p.output(p.input() + 1)
    made = p.to_bytes()
    assert _native.job_seconds(made, 2) is not None
    _native.Job.make(folder / "job", made, folder / "keys", [folder / "x"], 1, 0.0, True)
    job, runner = (
        _native.Job.open(folder / "job"),
        _native.JobRunner(folder / "job", "cpu", 1, True),
    )
    arithmetic = runner.class_of_results()
    loan, _ = job.lend("a", arithmetic, 60.0, 60.0)
    loan.step()
    loan.give_back()
    loan, _ = job.lend("a", arithmetic, 60.0, 60.0)
    job.fail(loan, "a test")
    for _ in range(2):
        loan, _ = job.lend("b", arithmetic, 60.0, 60.0)
        assert job.finish(loan, arithmetic, runner.run(job.inputs(loan.chunk))) == "finished"
    assert job.is_complete() and job.facts()[2:5] == (2, 1, 2) and '"done":2' in job.status()
    for chunk, wanted in enumerate([4, 2]):
        (result,) = job.results(chunk)
        assert secret.decrypt(becalm.from_bytes(result, allow_insecure=True)).tolist() == [wanted]


@kind
def others(w):
    assert (
        _native.instructions() and _native.available_memory() and _native.gpu_images() is not None
    )
    assert _native.main(["becalm", "estimate", "--params", "tfhe_2_2"]) == 0
    _native.require_machine("cpu", w.toy.secret.params)
    assert isinstance(_native.nvrtc(), (str, type(None)))
    with contextlib.suppress(becalm.DeviceError):
        _native.gpus()
