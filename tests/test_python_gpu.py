"""GPUs from Python on a machine that may have none: names, refusals, and the way to the CPU."""

import importlib.metadata
import importlib.util
import inspect
import json
import os
import pathlib
import subprocess
import sys
import types
import warnings

import numpy as np
import pytest
from conftest import FULL

import becalm

TOY = {"allow_insecure": True, "progress": False}
ROOT = pathlib.Path(__file__).resolve().parent.parent


def script(name: str) -> types.ModuleType:
    """A script of bench/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"bench/{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def has_gpu() -> bool:
    try:
        return bool(becalm._native.gpus())
    except becalm.DeviceError as e:
        assert "cpu" in e.remedy
        return False


def test_auto_is_a_gpu_or_the_cpu() -> None:
    secret, server = becalm.keygen("toy_1_1", device="auto", **TOY)
    assert secret.decrypt(server.bootstrap(secret.encrypt([1, 2]), [3, 2, 1, 0])).tolist() == [2, 1]


def test_a_gpu_that_is_not_there_is_refused_before_keys_are_made(monkeypatch) -> None:
    secret, server = becalm.keygen("toy_1_1", **TOY)
    if has_gpu():
        pytest.skip("this machine has a GPU")

    def never(*_, **__):
        raise AssertionError("a key was made")

    monkeypatch.setattr(becalm.SecretKey, "generate", never)
    with pytest.raises(becalm.DeviceError, match="driver") as refusal:
        becalm.keygen("toy_1_1", device="cuda", **TOY)
    assert isinstance(refusal.value, RuntimeError)
    with pytest.raises(becalm.DeviceError, match="driver"):
        secret.server(device="cuda", progress=never)
    with pytest.raises(becalm.DeviceError, match="driver"):
        becalm.Server(server._key, device="cuda")
    # A machine that does not run the set, too.
    with pytest.raises(becalm.WrongParams):
        becalm.keygen("toy_1_1", device="processor", **TOY)


def test_devices_have_names() -> None:
    with pytest.raises(becalm.BadInput, match="cuda"):
        becalm.keygen("toy_1_1", device="gpu", **TOY)
    for name in ("cuda:1", "cuda:x", "gpu0"):
        with pytest.raises(becalm.BadInput, match="CUDA_VISIBLE_DEVICES"):
            becalm.keygen("toy_1_1", device=name, **TOY)
        with pytest.raises(becalm.BadInput, match="CUDA_VISIBLE_DEVICES"):
            becalm.keygen("ckks_toy_12", device=name, bootstrap=None, **TOY)
    for name in (1, None, "abacus"):
        with pytest.raises(becalm.BadInput, match="the device cpu, cuda, processor, reference or"):
            becalm.keygen("toy_1_1", device=name, **TOY)
        with pytest.raises(becalm.BadInput, match="the device cpu, cuda, processor, reference or"):
            becalm.keygen("ckks_toy_12", device=name, bootstrap=None, **TOY)


def test_a_machine_has_one_argument() -> None:
    calls = (
        becalm.keygen,
        becalm.load,
        becalm.from_bytes,
        becalm.cluster,
        becalm.Server,
        becalm.Server.from_bytes,
        becalm.SecretKey.server,
        becalm.ckks.keygen,
        becalm.ckks.load_server,
        becalm.ckks.aggregate,
        becalm.ckks.SecretKey.server,
    )
    for call in calls:
        names = inspect.signature(call).parameters
        assert names["device"].default == "auto" and "backend" not in names, call
    for name in ("toy_1_1", "ckks_toy_12"):
        with pytest.raises(TypeError, match="unexpected keyword argument 'backend'"):
            becalm.keygen(name, backend="cpu", **TOY)


def test_ckks_takes_the_machines_that_run_it(tmp_path) -> None:
    """The machine decides: no list of names stands in Python."""
    few = {"slots": 4, "bootstrap": None}
    # A set may be given by its name or as it is.
    toy = becalm.ckks.params("ckks_toy_12")
    secret, server = becalm.keygen(toy, device="reference", **few, **TOY)
    assert "reference" in server._repr_html_()
    x = secret.encrypt([0.5, -0.25, 0.0, 1.0], level=1)
    on_cpu = secret.server(rotations=[1], device="cpu", bootstrap=None, progress=False)
    # Where arithmetic is exact both have the same words.
    assert (x + x).to_bytes() == (on_cpu.attach(x) + on_cpu.attach(x)).to_bytes()
    server.save(tmp_path / "keys")
    again = becalm.load(tmp_path / "keys", device="reference", allow_insecure=True)
    square = again.attach(x) ** 2
    assert np.allclose(secret.decrypt(square)[:4], [0.25, 0.0625, 0.0, 1.0], atol=1e-6)
    with pytest.raises(becalm.Unsupported, match="a machine that runs CKKS, got processor"):
        becalm.keygen("ckks_toy_12", device="processor", **few, **TOY)
    with pytest.raises(becalm.Unsupported, match="a machine that runs CKKS, got processor"):
        secret.server(device="processor", bootstrap=None, progress=False)
    with pytest.raises(becalm.BadInput, match=r"arguments of becalm\.ckks\.keygen"):
        becalm.keygen("ckks", bits=4, progress=False)


def test_the_cpu_says_why_it_is_no_gpu() -> None:
    _, server = becalm.keygen("toy_1_1", **TOY)
    if has_gpu():
        pytest.skip("this machine has a GPU")
    with warnings.catch_warnings():
        # Without a GPU there is no such message with every server.
        warnings.simplefilter("error")
        server.open()
    assert "on cpu" in repr(server) and "no GPU: " in repr(server)
    _, server = becalm.keygen("toy_1_1", device="cpu", **TOY)
    assert "no GPU" not in repr(server.open())


def test_a_gpu_that_is_not_taken_is_a_warning() -> None:
    class Small:
        fallback = ("wanted 9.000 GB on a GPU, got 8.000 GB free", True)

    _, server = becalm.keygen("toy_1_1", **TOY)
    server._evaluator = Small()
    with pytest.warns(RuntimeWarning, match=r"not the GPU: wanted 9\.000 GB"):
        server._tell(None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        server._tell(Small.fallback)


def test_the_warning_is_of_the_line_that_asked(monkeypatch) -> None:
    class Leaving:
        """An evaluator that leaves the GPU for the CPU with the first program."""

        def __init__(self, evaluator, fallback) -> None:
            self.evaluator, self.fallback = evaluator, fallback

        def evaluate(self, *arguments):
            self.fallback = ("wanted 9.000 GB on a GPU, got 8.000 GB free", True)
            return self.evaluator.evaluate(*arguments)

    secret, server = becalm.keygen("toy_1_1", device="cpu", **TOY)
    other = becalm.Server(server._key, device="cpu")
    server._evaluator = Leaving(server._opened(), None)
    x = secret.encrypt([1, 2])
    with pytest.warns(RuntimeWarning, match="not the GPU") as told:
        server.bootstrap(x, [3, 2, 1, 0])
    assert [warning.filename for warning in told] == [__file__]
    small = Leaving(None, ("wanted 9.000 GB on a GPU, got 8.000 GB free", True))
    monkeypatch.setattr(becalm._native, "Evaluator", lambda *_: small)
    with pytest.warns(RuntimeWarning, match="not the GPU") as told:
        other.open()
    assert [warning.filename for warning in told] == [__file__]


def test_the_bench_without_a_gpu_says_so(tmp_path) -> None:
    if has_gpu():
        pytest.skip("this machine has a GPU")
    out = tmp_path / "out.json"
    asked = [sys.executable, "-m", "becalm.bench", "--device", "cuda", "--json", str(out)]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 6 and not out.exists()
    assert done.stderr.startswith("becalm: device: cuda: wanted a GPU with NVIDIA's driver")
    assert "--device cpu" in done.stderr and "Traceback" not in done.stderr


def test_the_page_has_what_the_compiler_and_the_model_say() -> None:
    for name in ("cuda_model", "cuda_ckks"):
        asked = [sys.executable, str(ROOT / f"bench/{name}.py"), "--check"]
        assert subprocess.run(asked, check=False).returncode == 0, name


def test_every_kernel_of_the_tables_is_held_to_the_report() -> None:
    model = script("cuda_model")
    kernels = model.report()
    whole = model.blocks(kernels)
    rotations = [
        (kernel, ring, code)
        for (ring, code), named in kernels.items()
        for name, kernel in named.items()
        if name.removeprefix("becalm_rotate_") in model.ROTATIONS
        if ring.removesuffix("_exact") in model.RINGS
        # Exact kernels stand there for one GPU alone.
        if ring.endswith("_exact") == (code == "sm_120a") and code != "compute_90"
    ]
    assert len(rotations) == 38
    for kernel, ring, code in rotations:
        kernel["registers"] += 1
        assert model.blocks(kernels)["compiler"] != whole["compiler"], (ring, code)
        kernel["registers"] -= 1
        kernel["step"]["NOP"] = kernel["step"].get("NOP", 0) + 1
        assert model.blocks(kernels)["compiler"] != whole["compiler"], (ring, code)
        kernel["step"]["NOP"] -= 1
        kernel["step"]["LDS"] += 1
        assert (model.blocks(kernels)["beside"] != whole["beside"]) == (code == "sm_90a")
        kernel["step"]["LDS"] -= 1
    assert model.blocks(kernels) == whole
    # A page that says another number in a table or in words is not the page.
    page = model.PAGE.read_text(encoding="utf-8")
    altered = page.replace("/ 887", "/ 888")
    assert model.page(page, kernels) == page != altered != model.page(altered, kernels)
    tensor = kernels["n11_k1_w1_b22_l1_g4_15", "sm_90a"]["becalm_bundle_tensor"]
    tensor["registers"] += 1
    assert not all(sentence in " ".join(page.split()) for sentence in model.sentences(kernels))


def test_the_model_counts_every_launch() -> None:
    model = script("cuda_model")
    ring = model.Ring("tfhe_2_2_multi_bit_4", model.H100, model.report())
    # 230 steps are 15 chunks of 16; beside them exponents, tables, the first bundles, extraction.
    assert (ring.steps, ring.chunk_of(1), ring.launches) == (230, 16, 19)
    assert model.Ring("tfhe_2_2", model.H100, model.report()).launches == 4
    assert model.predicted(100e-6, 19) == "219–289"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("becalm-1-cp310-cp310-manylinux_2_34_x86_64.whl", "for one Python"),
        ("becalm-1-cp311-abi3-manylinux_2_34_x86_64.whl", "Python 3.11"),
        ("becalm-1-cp310-abi3-manylinux_2_39_x86_64.whl", "glibc 2.39"),
        ("becalm-1-cp310-abi3-linux_x86_64.whl", "nothing of glibc"),
        ("becalm-1-py3-abi3-manylinux_2_34_x86_64.whl", "not CPython"),
        ("becalm.whl", "not the name"),
        ("becalm-1-cp310-abi3-manylinux_2_34_x86_64.whl", "cannot be checked"),
    ],
)
def test_a_wheel_that_is_not_as_promised_is_refused(name, why, tmp_path) -> None:
    wheel = tmp_path / name
    wheel.write_bytes(b"no archive")
    # As Python without assertions.
    asked = [sys.executable, "-O", str(ROOT / "bench/wheel.py"), str(wheel)]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and why in done.stderr and "Traceback" not in done.stderr


@pytest.fixture
def driver(tmp_path) -> dict[str, str]:
    """The environment of a machine whose driver and NVRTC are the emulator."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    emulator = target / "release/deps/libbecalm_emulator.so"
    if not emulator.exists():
        pytest.skip("no emulator: `cargo test --release -p becalm --no-run` builds it")
    folder = tmp_path / "driver"
    folder.mkdir()
    for name in ("libcuda.so", "libnvrtc.so.13", "libnvrtc-builtins.so.13.9999"):
        (folder / name).symlink_to(emulator)
    own = {"LD_LIBRARY_PATH": folder, "BECALM_NVRTC": folder, "BECALM_CACHE": tmp_path / "cache"}
    return {**os.environ, **{name: str(place) for name, place in own.items()}}


def test_the_installed_wheel_runs_on_a_driver(driver, tmp_path) -> None:
    out = tmp_path / "out.json"
    sets = ["--params", "toy_1_1,toy_1_1_multi_bit_2", "--allow-insecure"]
    asked = [sys.executable, "-m", "becalm.bench", "--device", "cuda", *sets]
    asked += ["--bootstraps", "32", "--batch", "2", "--quick", "--json", str(out)]
    subprocess.run(asked, check=True, capture_output=True, env=driver, cwd=tmp_path)
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["device"] == "emulator" and len(found["micro"]) > 8 and not found["micro_failed"]
    for of_set in found["sets"]:
        assert (of_set["bootstraps"], of_set["wrong"], of_set["failed"]) == (32, 0, None)
        assert len(of_set["rows"]) == 6


def test_python_computes_on_a_driver(driver, tmp_path) -> None:
    code = """
import becalm
for device in ("cuda", "auto"):
    secret, server = becalm.keygen("toy_1_1", device=device, allow_insecure=True, progress=False)
    found = server.bootstrap(secret.encrypt([1, 2]), [3, 2, 1, 0])
    assert secret.decrypt(found).tolist() == [2, 1]
    assert "cuda" in repr(server), repr(server)
"""
    asked = [sys.executable, "-W", "error", "-c", code]
    subprocess.run(asked, check=True, env=driver, cwd=tmp_path)


def test_python_computes_ckks_on_a_driver(driver, tmp_path) -> None:
    code = """
import numpy as np
import becalm
from becalm import desilo
for device in ("cuda", "auto"):
    secret, server = becalm.keygen(
        "ckks_toy_12", rotations=[1], device=device, allow_insecure=True, progress=False
    )
    x = secret.encrypt([0.5, -0.25, 0.125, 1.0], level=1)
    y = np.roll(x * x, -1)
    assert np.allclose(secret.decrypt(y)[:3], [0.0625, 0.015625, 1.0], atol=1e-4)
    fresh = server.bootstrap(x.level_down(0))
    assert np.allclose(secret.decrypt(fresh)[:4], [0.5, -0.25, 0.125, 1.0], atol=1e-3)
    assert "cuda" in repr(server), repr(server)
engine = desilo.ToyEngine(mode="gpu", max_level=3)
secret = engine.create_secret_key()
key = engine.create_relinearization_key(secret)
x = engine.encrypt([0.5, -0.25], secret)
y = engine.decrypt(engine.multiply(x, x, key), secret)
assert np.allclose(y[:2], [0.25, 0.0625], atol=1e-4)
try:
    desilo.ToyEngine(mode="gpu", device_id=1)
except becalm.Unsupported as e:
    assert "CUDA_VISIBLE_DEVICES" in e.remedy
else:
    raise AssertionError("another GPU was taken")
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=driver, cwd=tmp_path)


def test_keys_for_a_gpu_need_no_room_for_the_work_of_a_cpu(driver, tmp_path) -> None:
    code = """
import becalm
from becalm import _native
options = {"slots": 32, "allow_insecure": True, "progress": False}
free = becalm.ckks.price("ckks_toy_12", slots=32).peak_bytes - 1
_native.free_memory = lambda: free
secret, server = becalm.keygen("ckks_toy_12", device="cuda", **options)
assert secret.server(device="cuda", progress=False).kinds == ("sparse",)
for device in ("cpu", "auto", "reference"):
    try:
        becalm.keygen("ckks_toy_12", device=device, **options)
    except becalm.OutOfMemory as e:
        assert "the work of a bootstrap" in e.wanted
    else:
        raise AssertionError(device)
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=driver, cwd=tmp_path)


def test_ckks_that_leaves_the_gpu_says_so_once(driver, tmp_path) -> None:
    code = """
import pathlib
import warnings
import becalm

def keys(device, threads=0):
    return becalm.keygen("ckks_toy_12", bootstrap=None, device=device, threads=threads,
                         allow_insecure=True, progress=False)

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    secret, server = keys("auto")
    assert "on cuda" in repr(server), repr(server)
    x = secret.encrypt([0.5, -0.25], level=2)
    assert not told
    y = server.multiply(x, x)  # the line
    z = y * y + y
    p = becalm.Program("ckks_toy_12")
    p.output(p.input(level=1) * 2)
    server.run(p, y)
assert abs(secret.decrypt(z)[0] - 0.3125) < 1e-4
[warning] = told
assert warning.category is RuntimeWarning
said = str(warning.message)
assert "on the CPU, not the GPU: wanted" in said and said.endswith("says that this is meant"), said
lines = pathlib.Path(__file__).read_text().splitlines()
assert (warning.filename, lines[warning.lineno - 1][-10:]) == (__file__, "# the line")
assert "on cpu" in repr(keys("auto", threads=1).server)
for text in (repr(server), server._repr_html_()):
    assert "on cpu" in text and "no GPU: wanted" in text and "cuda" not in text, text
secret, server = keys("cuda")
try:
    secret.encrypt([0.5], level=2) ** 2
except becalm.OutOfMemory as e:
    assert "cpu" in e.remedy, e
else:
    raise AssertionError("a GPU without memory computed")
"""
    script = tmp_path / "small.py"
    script.write_text(code, encoding="utf-8")
    small = {**driver, "BECALM_EMULATOR_DRIVER": f"memory={4 << 20}"}
    subprocess.run([sys.executable, str(script)], check=True, env=small, cwd=tmp_path)
    # Without a driver there is nothing to say, and one that is too old is said.
    quiet = """
import becalm
secret, server = becalm.keygen("ckks_toy_12", bootstrap=None, allow_insecure=True, progress=False)
secret.encrypt([0.5], level=2) ** 2
assert "on cpu" in repr(server) and "no GPU: " in repr(server), repr(server)
"""
    asked = [sys.executable, "-W", "error::RuntimeWarning", "-c", quiet]
    none = {**driver, "BECALM_EMULATOR_DRIVER": "devices=0"}
    subprocess.run(asked, check=True, env=none, cwd=tmp_path)
    old = {**driver, "BECALM_EMULATOR_DRIVER": "version=12080"}
    done = subprocess.run(asked, capture_output=True, text=True, env=old, cwd=tmp_path)
    assert done.returncode == 1 and "RuntimeWarning: becalm computes on the CPU" in done.stderr
    assert "CUDA 12.8" in done.stderr and "update the driver" in done.stderr


def test_a_driver_that_is_too_old_is_said_with_what_to_do(driver, tmp_path) -> None:
    code = """
import warnings
import becalm

TOY = {"allow_insecure": True, "progress": False}
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    secret, server = becalm.keygen("toy_1_1", device="auto", **TOY)
    found = server.bootstrap(secret.encrypt([1, 2]), [3, 2, 1, 0])
assert secret.decrypt(found).tolist() == [2, 1]
[warning] = told
assert "CUDA 12.8" in str(warning.message) and "update the driver" in str(warning.message)
try:
    becalm.keygen("toy_1_1", device="cuda", **TOY)
except becalm.DeviceError as e:
    assert "CUDA 13.0, 580 or later" in str(e) and "CUDA 12.8" in str(e) and "cpu" in e.remedy
else:
    raise AssertionError("a driver that is too old was taken")
"""
    old = {**driver, "BECALM_EMULATOR_DRIVER": "version=12080"}
    subprocess.run([sys.executable, "-c", code], check=True, env=old, cwd=tmp_path)


@pytest.mark.skipif(not FULL, reason="minutes: BECALM_FULL=1")
def test_a_wheel_with_kernels_runs_alone(driver) -> None:
    wheels = sorted((ROOT / "dist").glob("becalm-*.whl"))
    if not wheels or not (ROOT / "target/cuda/kernels.sources").exists():
        pytest.skip("no wheel with kernels: `make cuda wheel`")
    asked = [sys.executable, str(ROOT / "bench/wheel.py"), str(wheels[-1])]
    subprocess.run(asked, check=True)


def test_objects_of_the_peer_are_named_by_what_they_are_made_of(tmp_path) -> None:
    peer = script("gpu_peer")
    source, header = tmp_path / "a.cu", tmp_path / "a.h"
    source.write_text("one")
    header.write_text("two")
    before = peer.key(["nvcc 13.0", "-O3"], [source, header])
    assert before == peer.key(["nvcc 13.0", "-O3"], [source, header])
    assert before != peer.key(["nvcc 13.1", "-O3"], [source, header])
    assert before != peer.key(["nvcc 13.0", "-O2"], [source, header])
    header.write_text("three")
    assert before != peer.key(["nvcc 13.0", "-O3"], [source, header])


def test_doctor_tells_of_gpus() -> None:
    lines = becalm.doctor(quiet=True)["gpus"]
    assert lines
    assert has_gpu() or lines[0].startswith("none: ")


def test_doctor_tells_of_kernels_and_their_compiler() -> None:
    report = becalm.doctor(quiet=True)
    images = report["gpu_images"]
    assert all(name.endswith((".cubin", ".ptx")) and size > 0 for name, size in images)
    assert "GPU kernels" in str(report)
    assert ("none in this build" in str(report)) == (not images)


def test_nvrtc_is_found_where_pip_puts_it() -> None:
    try:
        importlib.metadata.version("nvidia-cuda-nvrtc")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("no wheel nvidia-cuda-nvrtc here")
    assert becalm.doctor(quiet=True)["nvrtc"].startswith("NVRTC 13")
