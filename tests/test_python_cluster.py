"""Large batches on several workers: results in order, workers and drivers that die, checks, Ray."""

import importlib.util
import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import becalm

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the tests send signals")

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason='Ray is not installed: pip install "becalm[cluster]"',
)
#: Ray warns of its own plans; only warnings of becalm are defects here.
quiet = pytest.mark.filterwarnings("ignore")
WHERE = ["local", pytest.param("ray", marks=[needs_ray, quiet])]


@pytest.fixture(scope="module")
def ray():
    """A cluster of Ray on this machine."""
    module = pytest.importorskip("ray", reason='pip install "becalm[cluster]"')
    module.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield module
    module.shutdown()


def squares(secret):
    p = becalm.Program(secret.params)
    p.output(p.lookup(p.input(), lambda m: m * m % 16))
    return p


def of(request, where, **options):
    if where == "ray":
        request.getfixturevalue("ray")
    return becalm.cluster(where, **{"workers": 2, "threads": 1, **options})


def whole(parts):
    return np.concatenate([np.asarray(p) for p in parts]).tolist()


@pytest.mark.parametrize("where", WHERE)
def test_programs_integers_circuits_and_ckks_come_in_order(request, where, toy, tmp_path):
    secret, server = toy
    cluster = of(request, where)
    values = list(range(16)) * 2
    job = cluster.map(server, squares(secret), secret.encrypt(values), chunk=8)
    assert (job.chunks, job.lanes, len(job), job.cost.bootstraps) == (4, 32, 4, 1)
    assert job.status()["done"] == 0
    steps = []
    job._progress = lambda done, total: steps.append((done, total))
    parts = [secret.decrypt(y) for y in job]
    assert [len(p) for p in parts] == [8] * 4
    assert whole(parts) == [m * m % 16 for m in values]
    assert steps[-1] == (4, 4) and steps == sorted(steps)
    status = job.status()
    assert (status["done"], sum(status["workers"].values())) == (4, 4)
    assert job.workers_for(1e-9) == 0

    x, y = ([200, 3, 7, 255], [100, 4, 5, 1])
    a, b = (becalm.uint(8).encrypt(secret, v) for v in (x, y))
    job = cluster.map(server, "add", (a, b), chunk=3)
    assert whole(z.decrypt(secret) for z in job) == [
        (i + j) % 256 for i, j in zip(x, y, strict=True)
    ]

    circuit = becalm.circuit.trace(lambda a, b: a ^ b, 2, 2)
    bits = circuit.encrypt(secret, 1, 3)
    job = cluster.map(server, circuit.compile(secret.params), bits)
    (found,) = list(job)
    assert [int(secret.decrypt(f)[0]) for f in found] == [0, 1]


@pytest.mark.parametrize("where", WHERE)
def test_vectors(request, where):
    p = becalm.Program("ckks_toy_12", slots=4)
    x = p.input(level=2)
    p.output(x * x, x + 1)
    options = {"allow_insecure": True, "progress": False}
    secret, server = becalm.keygen("ckks_toy_12", slots=4, needs=p.needs, **options)
    lanes = [secret.encrypt([i / 4, 0.5, 0.25, 0.0], level=2) for i in range(3)]
    job = of(request, where, workers=1).map(server, p, lanes, chunk=2)
    found = list(job)
    assert [len(first) for first, _ in found] == [2, 1]
    products = [secret.decrypt(y) for first, _ in found for y in first]
    assert np.allclose([v[0] for v in products], [0, 1 / 16, 1 / 4], atol=1e-3)
    with pytest.raises(becalm.BadInput, match="lists of one length"):
        becalm.cluster("local").map(server, p, (lanes, lanes))


@pytest.mark.parametrize("where", WHERE)
def test_checks_name_workers_and_quorum(request, where, toy, tmp_path):
    secret, server = toy
    job = of(request, where).map(
        server, squares(secret), secret.encrypt([3, 1, 2, 0]), chunk=1, quorum=2
    )
    assert whole(secret.decrypt(y) for y in job) == [9, 1, 4, 0]
    status = job.status()
    assert (status["checked"], status["checks"], status["disputed"]) == (4, 4, [])
    assert status["left_out"] == {}


@pytest.mark.parametrize("where", WHERE)
def test_a_cancelled_job_is_resumed(request, where, toy, tmp_path):
    secret, server = toy
    cluster, folder = of(request, where), tmp_path / "job"
    job = cluster.map(server, squares(secret), secret.encrypt([3, 1, 2]), chunk=1, folder=folder)
    for y in job:
        assert secret.decrypt(y).tolist() == [9]
        job.cancel()
        break
    with pytest.raises(becalm.Interrupted, match="resume"):
        list(job)
    before = records(folder)
    with pytest.raises(becalm.Insecure):
        cluster.resume(folder)
    again = cluster.resume(folder, allow_insecure=True)
    assert whole(secret.decrypt(y) for y in again) == [9, 1, 4]
    assert {n: r for n, r in records(folder).items() if n in before} == before
    # Nothing is left, so nobody works: the results are read.
    assert whole(secret.decrypt(y) for y in cluster.resume(folder, allow_insecure=True)) == [
        9,
        1,
        4,
    ]


def records(folder):
    return {p.parent.name: p.read_bytes() for p in folder.glob("out/[0-9]*/done.json")}


def test_a_killed_driver_is_resumed(toy, tmp_path):
    secret, server = toy
    server.save(tmp_path / "server")
    secret.encrypt(list(range(16)) * 8).save(tmp_path / "x")
    squares(secret).save(tmp_path / "program")
    text = """
        import becalm
        server, x, p = (becalm.load(n, allow_insecure=True) for n in ("server", "x", "program"))
        job = becalm.cluster("local", workers=1, threads=1).map(server, p, x, chunk=4, folder="job")
        for y in job:
            print("one", flush=True)
    """
    line = [sys.executable, "-c", textwrap.dedent(text)]
    driver = subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.PIPE)
    assert driver.stdout.readline() == b"one\n"
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    before = records(tmp_path / "job")
    assert before
    job = becalm.cluster("local", workers=1, threads=1).resume(
        tmp_path / "job", allow_insecure=True
    )
    assert whole(secret.decrypt(y) for y in job) == [m * m % 16 for m in range(16)] * 8
    after = records(tmp_path / "job")
    assert len(after) == 32 and {n: after[n] for n in before} == before


def test_workers_that_are_killed_are_started_again(toy, tmp_path):
    secret, server = toy
    cluster = becalm.cluster("local", workers=1, threads=1, lease=0.5)
    x = secret.encrypt(list(range(16)) * 8)
    job = cluster.map(server, squares(secret), x, chunk=4, folder=tmp_path / "job")
    found = iter(job)
    parts = [secret.decrypt(next(found))]
    job._workers._running[0].kill()
    parts += [secret.decrypt(y) for y in found]
    assert whole(parts) == [m * m % 16 for m in range(16)] * 8


def test_a_damaged_chunk_is_named_and_repaired(toy, tmp_path):
    secret, server = toy
    cluster, folder = becalm.cluster("local", workers=1, threads=1), tmp_path / "job"
    x = secret.encrypt([3, 1, 2])
    job = cluster.map(server, squares(secret), x, chunk=1, folder=folder, retries=1)
    path = folder / "in" / "000001" / "000000.becalm"
    good = path.read_bytes()
    path.write_bytes(good[:100])
    with pytest.raises(becalm.DeviceError, match="chunk 1 failed"):
        list(job)
    path.write_bytes(good)
    assert whole(secret.decrypt(y) for y in cluster.resume(folder, allow_insecure=True)) == [
        9,
        1,
        4,
    ]


def test_others_work_on_a_shared_folder(toy, tmp_path):
    secret, server = toy
    job = becalm.cluster(tmp_path).map(server, squares(secret), secret.encrypt([3, 1]), chunk=1)
    line = [sys.executable, "-m", "becalm", "job", "work", job.folder, "--allow-insecure"]
    with subprocess.Popen([*line, "--threads", "1"], stdout=subprocess.DEVNULL):
        assert whole(secret.decrypt(y) for y in job) == [9, 1]
    status = subprocess.run(
        [*line[:4], "status", job.folder, "--json"], stdout=subprocess.PIPE, check=True
    )
    assert json.loads(status.stdout)["done"] == 2


def test_refusals(toy, tmp_path):
    secret, server = toy
    p, x = squares(secret), secret.encrypt([1])
    local = becalm.cluster("local", workers=1)
    for call, words in [
        (lambda: becalm.cluster("nowhere"), "a kind of workers"),
        (lambda: local.map(secret, p, x), "a server"),
        (lambda: local.map(server, lambda m: m, x), "a program"),
        (lambda: local.map(server, p, [1, 2]), "encrypted arrays"),
        (lambda: local.map(server, "add", x), "integers"),
        (lambda: local.map(server, p, (x, x)), "argument"),
        (lambda: local.map(server, p, x, quorum=3), "quorum"),
        (lambda: local.map(server, p, x, verify=0.5), "two workers"),
        (lambda: local.map(server, p, x, chunk=0), "chunk"),
    ]:
        with pytest.raises(becalm.BadInput, match=words):
            call()
    with pytest.raises(becalm.IoError):
        local.resume(tmp_path / "none")
    assert "2 processes" in repr(becalm.cluster("local", workers=2))


@needs_ray
@quiet
def test_actors_that_die_and_drivers_that_meet(request, ray, toy, tmp_path):
    secret, server = toy
    cluster = of(request, "ray")
    x, folder = secret.encrypt(list(range(16)) * 4), tmp_path / "job"
    job = cluster.map(server, squares(secret), x, chunk=2, folder=folder)
    found = iter(job)
    parts = [secret.decrypt(next(found))]
    ray.kill(job._workers._actors[0].handle)
    other = cluster.resume(folder, allow_insecure=True)
    second = [secret.decrypt(y) for y in other]
    parts += [secret.decrypt(y) for y in found]
    assert whole(parts) == whole(second) == [m * m % 16 for m in range(16)] * 4
    assert len(records(folder)) == 32


@needs_ray
@quiet
def test_an_actor_that_hangs_is_replaced(request, ray, toy, tmp_path):
    secret, server = toy
    cluster = of(request, "ray", workers=1, patience=10.0)
    x = secret.encrypt(list(range(16)) * 16)
    job = cluster.map(server, squares(secret), x, chunk=1)
    found = iter(job)
    parts = [secret.decrypt(next(found))]
    actor = job._workers._actors[0]
    pid = ray.get(actor.handle.__ray_call__.remote(lambda _: os.getpid()))
    os.kill(pid, signal.SIGSTOP)
    assert job.status()["left"] > 0, "the actor had nothing left to hang on"
    parts += [secret.decrypt(y) for y in found]
    assert whole(parts) == [m * m % 16 for m in range(16)] * 16
    assert len(job.status()["workers"]) == 2


@pytest.fixture
def service(tmp_path):
    """The address of a service, and its token."""
    token = "0123456789abcdef" * 2
    (tmp_path / "tokens").write_text(f"alice {token}\n")
    (tmp_path / "tokens").chmod(0o600)
    line = [sys.executable, "-m", "becalm", "serve", "served", "--tokens", "tokens"]
    line += ["--listen", "127.0.0.1:0", "--threads", "1", "--allow-insecure"]
    with subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        address = process.stdout.readline().split()[-1]
        yield address, token
        process.terminate()
        assert process.wait() == 0


def test_a_service_maps_integers_and_goes_on_from_its_address(toy, service):
    secret, server = toy
    address, token = service
    cluster = becalm.cluster(address, token=token)
    assert repr(cluster) == f"<becalm.Cluster: the service at {address}>"
    x = becalm.uint(8).encrypt(secret, [200, 3, 7])
    y = becalm.uint(8).encrypt(secret, [100, 4, 5])
    job = cluster.map(server, "min", (x, y), chunk=2)
    assert job.folder.startswith(f"{address}/v1/jobs/") and job.cost.bootstraps > 0
    assert [z.decrypt(secret).tolist() for z in job] == [[100, 3], [5]]
    assert job.status()["done"] == 2
    again = cluster.resume(job.folder, allow_insecure=True)
    assert [z.decrypt(secret).tolist() for z in again] == [[100, 3], [5]]
    with pytest.raises(becalm.errors.Insecure):
        cluster.resume(job.folder)
    with pytest.raises(becalm.errors.BadInput, match="token"):
        becalm.cluster(address, token="f" * 32).resume(job.folder, allow_insecure=True)
    for wrong in ({}, {"token": ""}):
        with pytest.raises(becalm.errors.BadInput, match="token"):
            becalm.cluster(address, **wrong).resume(job.folder)
    with pytest.raises(becalm.errors.BadInput, match="address of a service"):
        becalm.cluster("local", token=token)


def test_a_service_maps_vectors(service):
    address, token = service
    secret, server = becalm.keygen(
        "ckks_toy_12", bootstrap=None, allow_insecure=True, progress=False
    )
    p = becalm.Program(server.params.name)
    z = p.input()
    p.output(z * z)
    values = [np.array([0.5, 0.25]), np.array([-0.5, 0.125])]
    cluster = becalm.cluster(address, token=token)
    job = cluster.map(server, p, [secret.encrypt(v) for v in values])
    found = [x for part in job for x in part]
    for x, v in zip(found, values, strict=True):
        assert np.abs(secret.decrypt(x)[:2] - v * v).max() < 1e-3


def test_batches_of_an_iterator_come_in_order_and_few_wait(toy):
    secret, server = toy
    cluster = becalm.cluster("local", workers=2, threads=1)
    drawn, steps = [], []

    def batches():
        for i in range(7):
            drawn.append(i)
            yield secret.encrypt([(i + j) % 4 for j in range(3 if i == 6 else 4)])

    stream = cluster.map(
        server, squares(secret), batches(), ahead=3, progress=lambda *step: steps.append(step)
    )
    assert (stream.chunks, drawn, repr(stream)) == (
        None,
        [],
        "<becalm.Stream of unknown batches, at most 3 waiting>",
    )
    given = []
    for results in stream:
        given.append(secret.decrypt(results).tolist())
        # A window is computed, and at most as many wait.
        assert len(drawn) <= 3 + len(given) + 2
    squared = [[((i + j) % 4) ** 2 for j in range(4)] for i in range(7)]
    assert given == [*squared[:6], squared[6][:3]]
    assert steps[0] == (0, 0) and steps[-1] == (7, 0)


def test_batches_of_integers_of_any_sizes_and_none(toy):
    secret, server = toy
    cluster = becalm.cluster("local", workers=1, threads=1)
    u = becalm.uint(8)
    pairs = [
        (u.encrypt(secret, [i] * n), u.encrypt(secret, [10] * n)) for i, n in enumerate([2, 3, 1])
    ]
    stream = cluster.map(server, "add", iter(pairs))
    assert stream.chunks == 3
    assert 0 < stream.seconds < 3600
    got = [z.decrypt(secret).tolist() for z in stream]
    assert got == [[10, 10], [11, 11, 11], [12]]
    assert list(cluster.map(server, squares(secret), iter([]))) == []


def test_lanes_of_ckks_come_from_an_iterator(tmp_path):
    secret, server = becalm.ckks.keygen("ckks_toy_12", allow_insecure=True, progress=False)
    p = becalm.Program("ckks_toy_12")
    x = p.input(level=1)
    p.output(x + x)
    lanes = ([secret.encrypt([0.25, i / 8], level=1)] for i in range(3))
    cluster = becalm.cluster("local", workers=1, threads=1)
    stream = cluster.map(server, p, lanes)
    got = [secret.decrypt(results[0])[:2].real for results in stream]
    assert np.allclose(got, [[0.5, i / 4] for i in range(3)], atol=1e-3)


def test_an_iterator_that_fails_or_is_stopped_leaves_no_worker(toy):
    secret, server = toy
    cluster = becalm.cluster("local", workers=1, threads=1)

    def broken():
        yield secret.encrypt([1])
        yield secret.encrypt([2])
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        list(cluster.map(server, squares(secret), broken(), ahead=1))
    endless = (secret.encrypt([m % 4]) for m in itertools.count())
    stream = cluster.map(server, squares(secret), endless, ahead=2)
    with pytest.raises(becalm.Interrupted):
        for i, _ in enumerate(stream):
            if i == 2:
                stream.cancel()
    found = subprocess.run(["ps", "-o", "args=", "--ppid", str(os.getpid())], capture_output=True)
    assert b"job work" not in found.stdout
    wrong = iter([secret.encrypt([1]), "no batch"])
    with pytest.raises(becalm.BadInput, match="str"):
        list(cluster.map(server, squares(secret), wrong))
    for options in ({"chunk": 2}, {"folder": "here"}, {"ahead": 0}):
        with pytest.raises(becalm.BadInput):
            cluster.map(server, squares(secret), iter([]), **options)


def test_the_price_is_an_estimate_and_then_a_measurement(toy, tmp_path):
    secret, server = toy
    cluster = becalm.cluster("local", workers=1, threads=1)
    x = secret.encrypt([1, 2, 3, 0])
    job = cluster.map(server, squares(secret), x, chunk=2, folder=tmp_path / "job")
    more = cluster.map(server, squares(secret), secret.encrypt([1] * 8), chunk=2)
    assert more.seconds == pytest.approx(2 * job.seconds)
    list(job)
    done = job.status()["seconds_per_chunk"]
    assert job.seconds == pytest.approx(2 * done)
