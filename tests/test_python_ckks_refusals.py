"""Refusals of CKKS, and arguments in another form: memory, keys of others, arguments."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import becalm
from becalm import ckks
from becalm.desilo import ToyEngine

TOY = {"allow_insecure": True, "progress": False}

#: Bootstraps while less and less memory is allowed from their start on, and one whose limit comes
#: later, when it may have all
#: that it needs: a result or the error, never an abort. That a piece refused in the middle is the
#: error: the tests of `math::buffer`.
MEMORY = """
import resource
import becalm

NEVER = resource.RLIM_INFINITY

def limit(more):
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (NEVER if more is None else size + more, NEVER))

def bootstrapped(secret, x, **options):
    try:
        y = x.bootstrap(**options)
        limit(None)
        assert abs(secret.decrypt(y)[0] - 0.5) < 1e-4
        return "made"
    except becalm.OutOfMemory as e:
        limit(None)
        assert e.remedy, e
        return "refused"

def fresh():
    # Read from a file: the work space of key generation is not there to be used again.
    server = becalm.load(path, allow_insecure=True, threads=2)
    return server, server.attach(x)

import sys
path = sys.argv[1]
secret, first = becalm.keygen("ckks_toy_12", allow_insecure=True, progress=False)
x = secret.encrypt([0.5], level=0)
first.save(path)
for more in (1 << 30, 64 << 20, 32 << 20, 24 << 20, 16 << 20, 8 << 20):
    server, y = fresh()
    limit(more)
    print(more >> 20, bootstrapped(secret, y))
server, y = fresh()
print("middle", bootstrapped(secret, y, progress=lambda done, of: limit(-(4 << 20))))
print("after", bootstrapped(secret, y))
low = becalm.ckks.load_server(path, memory="low", allow_insecure=True, threads=2)
y = low.attach(x)
limit(4 << 20)
try:
    y.bootstrap()
except becalm.OutOfMemory as e:
    limit(None)
    print("low", "told" if "file" in e.remedy or "load_server" in e.remedy else "left")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of addresses as Linux has them")
def test_memory_that_ends_is_an_error_and_no_abort(tmp_path):
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "keys")]
    # Small pieces cannot be refused (docs/bootstrap/ckks_regular.md): room for them is there.
    room = {**os.environ, "MALLOC_TOP_PAD_": str(32 << 20)}
    done = subprocess.run(command, capture_output=True, text=True, env=room)
    assert done.returncode == 0, f"{done.returncode}: {done.stdout}{done.stderr[-2000:]}"
    said = dict(line.split() for line in done.stdout.splitlines())
    assert said["1024"] == "made" and said["8"] == "refused" and said["after"] == "made", said
    assert said["middle"] in ("made", "refused"), said
    # Keys that stay in their file are not told to.
    assert said["low"] == "left", said


@pytest.fixture(scope="module")
def keys():
    return becalm.keygen("ckks_toy_12", slots=32, bootstrap="small", rotations=[1], **TOY)


@pytest.fixture(scope="module")
def other():
    return becalm.keygen("ckks_toy_12", slots=32, bootstrap=None, **TOY)


def test_ciphertexts_of_another_key_are_refused_where_they_come_in(keys, other, tmp_path):
    secret, server = keys
    x = other.secret.encrypt([0.5])
    x.save(tmp_path / "x")
    refused = [
        lambda: server.attach(x),
        lambda: server.load(tmp_path / "x"),
        lambda: server.from_bytes(x.to_bytes()),
        lambda: secret.load(tmp_path / "x"),
        lambda: secret.bits_to_share(x, queries=1),
    ]
    for i, call in enumerate(refused):
        with pytest.raises(becalm.WrongKey) as e:
            call()
        assert other.secret.key_id in e.value.got and secret.key_id in e.value.wanted, i
    assert other.server.load(tmp_path / "x").key_id == x.key_id


def test_files_of_another_kind_say_what_they_are_and_what_reads_them(keys, tmp_path):
    secret, server = keys
    names = {
        "ciphertext": ("a ciphertext of CKKS", "server.load(path)"),
        "secret": ("a secret key of CKKS", "ckks.load_secret_key(path)"),
        "public": ("a public key of CKKS", "ckks.load_public_key(path)"),
        "keys": ("evaluation keys of CKKS", "ckks.load_server(path)"),
        "tfhe": ("a file of TFHE (becalm.secret_key)", "becalm.load(path)"),
    }
    secret.encrypt([0.5]).save(tmp_path / "ciphertext")
    secret.save(tmp_path / "secret")
    secret.public_key().save(tmp_path / "public")
    server.save(tmp_path / "keys")
    becalm.SecretKey.generate("toy_2_2", allow_insecure=True).save(tmp_path / "tfhe")
    loads = {
        "ciphertext": [server.load, secret.load],
        "secret": [lambda path: ckks.load_secret_key(path, allow_insecure=True)],
        "public": [lambda path: ckks.load_public_key(path, allow_insecure=True)],
        "keys": [lambda path: ckks.load_server(path, allow_insecure=True)],
    }
    for wanted, calls in loads.items():
        for given, (what, reads) in names.items():
            for load in calls:
                if given == wanted:
                    assert load(tmp_path / given).key_id == secret.key_id
                    continue
                with pytest.raises(becalm.BadFile) as e:
                    load(tmp_path / given)
                found = e.value
                assert (found.wanted, found.got) == (names[wanted][0], what), (wanted, given)
                assert f"{reads} reads this one" in found.remedy
    # Other files, and files that were cut, are refused as before.
    (tmp_path / "junk").write_bytes(b"abc")
    cut = (tmp_path / "ciphertext").read_bytes()[:-100]
    (tmp_path / "cut").write_bytes(cut)
    for name in ("junk", "cut"):
        with pytest.raises(becalm.BadFile) as e:
            server.load(tmp_path / name)
        assert "reads this one" not in e.value.remedy
    with pytest.raises(becalm.IoError):
        server.load(tmp_path / "nothing")


def test_another_key_is_said_before_a_bootstrap_that_is_missing(keys, other):
    x = keys.secret.encrypt([0.5], level=0)
    arithmetic = becalm.keygen("ckks_n12", progress=False).server
    for server in (other.server, arithmetic):
        for call in (lambda s=server: s.bootstrap(x), lambda s=server: s.bootstrap_pair(x, x)):
            with pytest.raises(becalm.WrongKey) as e:
                call()
            assert keys.secret.key_id in e.value.got and server.key_id in e.value.wanted
    with pytest.raises(becalm.WrongKey, match="keys of a bootstrap"):
        other.server.bootstrap(other.secret.encrypt([0.5], level=0))


def test_integers_of_any_size_are_numbers(keys):
    secret, _ = keys
    x = secret.encrypt([0.5])
    for factor in (2**70, -(2**70), 3 * 2**68, np.uint64(2**63)):
        for y in (x * factor, factor * x, x * [factor]):
            assert abs(secret.decrypt(y)[0] / (0.5 * float(factor)) - 1) < 1e-6
    assert abs(secret.decrypt(x - 2**70)[0] / -(2.0**70) - 1) < 1e-6
    with pytest.warns(becalm.PrecisionWarning, match="exceeds 1"):
        y = secret.encrypt([2**70, 1j])
    assert abs(secret.decrypt(y)[0] / 2.0**70 - 1) < 1e-6
    huge = 10**400
    calls = [lambda: x * huge, lambda: x + huge, lambda: x - huge, lambda: x / huge]
    for call in [*calls, lambda: huge - x, lambda: secret.encrypt([huge, 1.5])]:
        with pytest.raises(becalm.BadInput, match=r"numbers below 2\^1024, got a larger integer"):
            call()
    with pytest.raises(becalm.BadInput, match="whose inverse is a double"):
        x / [1.0, 5e-324]
    for value in (2**1000, [2**1000]):
        with pytest.raises(becalm.BadInput, match="values below"):
            x * value
    for value in ("2", None, [None, 1], object()):
        with pytest.raises(becalm.BadInput):
            x * value


def test_what_is_no_polynomial_is_refused_with_what_is_one(keys):
    x = keys.secret.encrypt([0.5])
    for p in ("x", b"x", np.sin, None, {1: 2}, ["x"]):
        for call in (x.polynomial, ckks.depth, lambda p: keys.server.polynomial(x, p)):
            with pytest.raises(becalm.BadInput) as e:
                call(p)
            assert e.value.op == "polynomial" and e.value.remedy
    with pytest.raises(becalm.BadInput, match=r"numpy\.polynomial, got a str; as in \[0, 1"):
        x.polynomial("x")


def test_a_ciphertext_that_travelled_is_computed_with_by_the_threads_of_its_server(keys):
    secret, server = keys
    x = pickle.loads(pickle.dumps(secret.encrypt([0.5])))
    with pytest.raises(becalm.WrongKey, match="attach"):
        x.rotate(1)
    y = server.attach(x)
    assert abs(secret.decrypt(y * y)[0] - 0.25) < 1e-6
    with pytest.raises(becalm.WrongParams, match="one set"):
        x._native.on(ckks._native.CkksMachine("ckks_toy_precise", True, 1))


def test_rotations_of_any_size_are_taken_modulo_the_slots(keys):
    secret, _ = keys
    values = np.arange(32) / 32
    x = secret.encrypt(values)
    for by in (1, 1 - 32, 2**63 + 1, -(2**70) + 1, 10**30 * 32 + 1):
        assert abs(secret.decrypt(x.rotate(by)) - np.roll(values, -1)).max() < 1e-6, by
    with pytest.raises(becalm.WrongKey, match="rotations="):
        x.rotate(2**63 + 5)


def test_arguments_that_cannot_be(keys):
    secret, server = keys
    x = secret.encrypt([0.5])
    refused = [
        ("none of them", lambda: becalm.keygen("ckks", kinds=[])),
        ("slots from 0 to 2^63 - 1", lambda: becalm.keygen("ckks_toy_12", slots=-1, **TOY)),
        ("a power of two from 2 to 2048", lambda: becalm.keygen("ckks_toy_12", slots=0, **TOY)),
        ("got 33; choose one of these", lambda: becalm.keygen("ckks_toy_12", slots=33, **TOY)),
        ("an integer as slots", lambda: becalm.keygen("ckks_toy_12", slots="all", **TOY)),
        ("numbers", lambda: x - [[1], [1, 2]]),
        ("numbers", lambda: x / [[1], [1, 2]]),
        ("wanted one ciphertext, got two at once", lambda: server.bootstrap_pair(x, x)),
        ("a level from 0 to 10, got -1", lambda: x.level_down(-1)),
        ("the bytes of a file, got str", lambda: server.from_bytes("abc")),
        ("the path of a file, got NoneType", lambda: x.save(None)),
        ("the path of a file, got NoneType", lambda: server.save(None)),
        ("the path of a file, got NoneType", lambda: secret.save(None)),
        ("the path of a file, got int", lambda: server.load(3)),
        ("limit from 0 to 2^63 - 1", lambda: server.load("x", limit=-1)),
        ("limit from 0 to 2^63 - 1", lambda: secret.load("x", limit=1 << 70)),
        ("the path of a file, got int", lambda: ckks.load_server(3)),
        ("queries of 1 or more, got -1", lambda: secret.bits_to_share(x, queries=-1)),
        ("queries of 1 or more, got 0", lambda: secret.bits_to_share(x, queries=0)),
    ]
    refused += [
        ("values within 2^-60 to 2^60", lambda b=b: x.vouched(values=b))
        for b in (float("nan"), 0.0, -3, float("inf"))
    ]
    for words, call in refused:
        with pytest.raises(becalm.BadInput) as e:
            call()
        assert words in str(e.value) and e.value.remedy, str(e.value)
    for name in ("ckks", "tfhe_2_2", None):
        with pytest.raises(TypeError, match="'foo'"):
            becalm.keygen(name, foo=1)
    assert ckks.price("ckks_toy_12", kinds=("slots_first", "slots_first")).kinds == ("slots_first",)
    with pytest.raises(becalm.WrongParams, match="did you mean `ckks_regular`"):
        ckks.params("ckks_regula")
    # The beginning of several names is a family of sets.
    for call in (ckks.params, ckks.price, becalm.params):
        with pytest.raises(becalm.WrongParams, match="a family of them") as e:
            call("ckks_toy")
        assert "`ckks_toy_12`" in e.value.remedy and "`ckks_n12`" not in e.value.remedy
    with pytest.raises(becalm.WrongParams, match="a family of them"):
        becalm.params("ckks")
    with pytest.raises(becalm.WrongParams, match=r"becalm\.ckks\.params"):
        becalm.params("ckks_regular")
    with pytest.raises(becalm.WrongParams, match="choose one of `ckks_regular`"):
        becalm.keygen("ckks_tfhe_2_2", progress=False)


def test_values_are_checked_for_every_kind_of_a_set():
    secret, server = becalm.keygen("ckks_toy_precise", kinds="precise", **TOY)
    signs = np.where(np.arange(2048) % 2, -1.0, 1.0)
    for kind in (None, "precise", "regular"):
        server.check(signs, kind)
        with pytest.raises(becalm.BadInput, match=r"at most 1\.25"):
            server.check(2 * signs, kind)
    y = secret.encrypt(signs, level=0).bootstrap("precise")
    assert abs(secret.decrypt(y) - signs).max() < 1e-5


def test_a_check_needs_the_keys_that_the_bootstrap_needs():
    secret, server = becalm.keygen("ckks_toy_slots_first", **TOY)
    server.check(np.full(2048, 0.5))
    x = secret.encrypt(np.full(2048, 0.5), level=3)
    errors = []
    for call in (lambda: server.check([0.5], "regular"), lambda: server.bootstrap(x, "regular")):
        with pytest.raises(becalm.WrongKey, match='make keys with kinds="regular"') as e:
            call()
        errors.append((str(e.value), e.value.missing))
    assert errors[0] == errors[1]


RLIMITED = """
import resource, sys, becalm
folder = sys.argv[1]
options = dict(slots=16, kinds="sparse", bootstrap="small", allow_insecure=True, progress=False)
keys = becalm.keygen("ckks_toy_12", **options)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
for save in (keys.server.save, lambda path: keys.save(f"{folder}/secret.becalm", path)):
    try:
        save(f"{folder}/server.becalm")
    except becalm.IoError as e:
        print(e)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of file sizes")
def test_keys_beyond_the_limit_of_file_sizes_are_refused_with_path_and_remedy(tmp_path):
    command = [sys.executable, "-c", RLIMITED, str(tmp_path)]
    out = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = out.stdout.splitlines()
    assert len(lines) == 2, out
    for line in lines:
        assert f"to write {tmp_path / 'server.becalm'}" in line and "ulimit -f" in line, line
        assert "file too large" in line, line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("compact", "most"), [(True, 0.8), ("seeded", 0.6)])
def test_compact_keys_stay_compact(tmp_path, rng, compact, most):
    options = {"slots": 32, "bootstrap": "small", "rotations": [5]}
    secret, server = becalm.keygen("ckks_toy_12", compact=compact, **options, **TOY)
    packed, whole = (ckks.price("ckks_toy_12", compact=c, **options) for c in (compact, False))
    assert packed.compact == compact
    assert packed.memory_bytes == server.nbytes < most * whole.memory_bytes
    assert packed.stored_bytes == whole.stored_bytes
    assert whole.peak_bytes - packed.peak_bytes == whole.memory_bytes - packed.memory_bytes
    server.save(tmp_path / "keys")
    again = becalm.load(tmp_path / "keys", allow_insecure=True)
    ready = ckks.load_server(tmp_path / "keys", allow_insecure=True, compact=False)
    assert (again.nbytes, ready.nbytes) == (server.nbytes, whole.memory_bytes)
    ready.save(tmp_path / "ready")
    assert ckks.load_server(tmp_path / "ready", allow_insecure=True).nbytes == ready.nbytes
    x = secret.encrypt(rng.uniform(-1, 1, 32), level=0)
    made = [s.attach(x).bootstrap().to_bytes() for s in (server, again, ready)]
    assert made[0] == made[1] == made[2]
    with pytest.raises(becalm.BadInput, match="both"):
        ckks.load_server(tmp_path / "keys", compact=compact, memory="low")
    low = ckks.load_server(tmp_path / "keys", allow_insecure=True, memory="low")
    assert low.nbytes == 0


def test_secret_keys_say_their_set(keys, tmp_path):
    secret, server = keys
    secret.save(tmp_path / "secret")
    server.save(tmp_path / "server")
    again = ckks.load_secret_key(tmp_path / "secret", slots=32, allow_insecure=True)
    assert (again.key_id, again.params.name, again.slots) == (secret.key_id, "ckks_toy_12", 32)
    with pytest.raises(becalm.Insecure):
        ckks.load_secret_key(tmp_path / "secret")
    with pytest.raises(becalm.WrongParams, match="ckks_toy_precise"):
        ckks.load_secret_key(tmp_path / "secret", "ckks_toy_precise", allow_insecure=True)
    with pytest.raises(becalm.BadFile, match="a secret key of CKKS"):
        ckks.load_secret_key(tmp_path / "server", allow_insecure=True)
    public = secret.public_key()
    public.save(tmp_path / "public")
    for load in (ckks.load_public_key, becalm.load):
        anyone = load(tmp_path / "public", allow_insecure=True)
        assert isinstance(anyone, ckks.PublicKey)
        assert anyone.key_id == secret.key_id
        np.testing.assert_allclose(
            secret.decrypt(anyone.encrypt([0.5, -1.0]))[:2], [0.5, -1.0], atol=1e-5
        )
    with pytest.raises(becalm.Insecure):
        ckks.load_public_key(tmp_path / "public")
    with pytest.raises(becalm.BadFile, match=r"a public key of CKKS.*PublicKey\.save"):
        ckks.load_public_key(tmp_path / "secret", allow_insecure=True)
    with pytest.raises(becalm.BadFile):
        ckks.load_public_key(tmp_path / "public", allow_insecure=True, limit=1000)
    with pytest.raises(becalm.Unsupported, match="load_public_key"):
        pickle.dumps(public)
    with pytest.raises(becalm.BadInput, match="a power of two"):
        ckks.load_secret_key(tmp_path / "secret", slots=33, allow_insecure=True)
    whole = (tmp_path / "server").read_bytes()
    (tmp_path / "server").write_bytes(whole[:-10])
    with pytest.raises(becalm.BadFile, match=f"{len(whole)} bytes, got {len(whole) - 10} bytes"):
        ckks.load_server(tmp_path / "server", allow_insecure=True)
    command = [sys.executable, "-m", "becalm", "inspect", str(tmp_path / "server")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"NOT WHOLE: {len(whole)} bytes wanted" in said and "10 are missing" in said, said
    assert '"kinds":["sparse"]' in said, "the note"


def test_a_constant_without_room_is_refused_when_it_is_recorded():
    program = becalm.Program("ckks_toy_13")
    x = program.input()
    for call in (lambda: x * 1e300, lambda: x + 1e300, lambda: x * [1e300], lambda: x - 1e300):
        with pytest.raises(becalm.BadInput, match="values below 2"):
            call()
    assert (x * 1e6).level == x.level - 1


def test_what_a_level_holds_is_known(keys):
    secret, _ = keys
    x = secret.encrypt([0.5], level=1)
    for level, bits in ((0, 6), (1, 49), (2, 92), (10, 92)):  # as docs/ckks.md has them
        assert abs(np.log2(secret.encrypt([0.5], level=level).largest) - bits) < 0.1, level
    assert secret.encrypt([50.0], level=1, bound=50).largest == x.largest
    with pytest.warns(becalm.PrecisionWarning, match="exceeds 1, so .* `bound`"):
        y = secret.encrypt([50.0], level=1) * 1
    assert y.largest > 50 and abs(secret.decrypt(y)[0] - 50) < 1e-3
    # An error that grows with the values says nothing against them; a number without room does.
    z = secret.encrypt([0.5])
    for _ in range(8):
        z = z * 1e18
    assert z.error > 1e100 and z.account.values / z.error > 2**20
    with pytest.raises(becalm.BadInput, match="values below"):
        (z * 1e18) * 1e18


def test_slot_counts_and_long_messages_are_as_desilofhe_has_them():
    engine = ToyEngine(slot_count=33)
    assert engine.slot_count == 64
    secret = engine.create_secret_key()
    x = engine.encrypt(np.ones(65), secret)
    assert len(engine.decrypt(x, secret)) == 128 and "128 real values" in repr(x)
    with pytest.raises(becalm.BadInput, match="a level from 0 to"):
        engine.level_down(x, -1)


def test_sharing_says_which_reason_applies():
    """Only one, and `within` is one of them."""
    secret, server = becalm.keygen("ckks_toy_12", slots=8, bootstrap=None, **TOY)
    x = secret.encrypt([0.5])
    with pytest.warns(becalm.PrecisionWarning):
        beyond = secret.encrypt([3.0])
    for y, told in (
        (x.within(0.75), "that `within` stated"),
        (beyond, "beyond the bound that they were encrypted with"),
        (server.from_bytes(x.to_bytes()), "one that a file states"),
        (server.polynomial(x, [0, 1, 1]), "a polynomial"),
    ):
        with pytest.raises(becalm.BadInput, match=told) as e:
            secret.decrypt_to_share(y, precision_bits=2, queries=10)
        assert "vouch" in e.value.remedy
        assert sum(word in e.value.got for word in ("within", "beyond", "file", "polynomial")) == 1
    assert secret.spent == 0


def test_an_owner_vouches_for_a_bootstrap_and_for_small_values():
    secret, server = becalm.keygen("ckks_toy_12", slots=8, **TOY)
    x, dry = (secret.encrypt([v], level=0).bootstrap() for v in (0.5, 0.0))
    with pytest.raises(becalm.BadInput, match=r"behind a bootstrap .*vouched"):
        secret.bits_to_share(x, queries=1)
    own = x.vouched(values=1, worst=2**-8)
    like = x.vouched(like=dry.vouched(values=1, worst=2**-8))
    assert own.account == like.account and own.account.shareable
    assert secret.bits_to_share(own, queries=1) == secret.bits_to_share(like, queries=1)
    # A bootstrap bounds neither without the other.
    for bounds in ({}, {"values": 1}, {"worst": 2**-8}):
        assert not x.vouched(**bounds).account.shareable
    # A file may state any scale, behind a bootstrap too.
    with pytest.raises(becalm.BadInput, match="like="):
        server.from_bytes(x.to_bytes()).vouched()
    small = secret.encrypt([0.25]).within(0.5)
    assert not small.account.shareable
    assert not small.vouched().account.shareable
    small = small.vouched(values=0.5)
    assert small.account.shareable and small.account.values == 0.5


def test_errors_name_the_function_and_keep_the_remedy():
    secret, _ = becalm.keygen("ckks_toy_12", slots=8, bootstrap=None, **TOY)
    x = secret.encrypt([0.5], level=0)
    for call, told in (
        (lambda: x.mean(), "^mean: .*level 0; bootstrap it first, or encrypt at a higher level$"),
        (lambda: np.mean(x), "^np.mean: "),
        (lambda: x.replicate(1), "^replicate: "),
        (lambda: ckks.sigmoid()(x), "^sigmoid: .*level . or above, got level 0"),
        (lambda: ckks.sort(4)(x), "^sort: .*or above, got level 0"),
        (lambda: x * x, "^multiply: .* encrypt at a higher level$"),
    ):
        with pytest.raises(becalm.BadInput, match=told):
            call()
    with pytest.raises(becalm.WrongKey, match=r"; make keys with rotations=\[3\]$"):
        x.rotate(3)
