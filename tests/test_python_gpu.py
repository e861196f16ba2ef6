"""GPUs from Python on a machine that may have none: names, refusals, and the way to the CPU."""

import importlib.metadata

import pytest

import becalm

TOY = {"allow_insecure": True, "progress": False}


def has_gpu() -> bool:
    try:
        return bool(becalm._native.gpus())
    except becalm.DeviceError as e:
        assert "cpu" in e.remedy
        return False


def test_auto_is_a_gpu_or_the_cpu() -> None:
    secret, server = becalm.keygen("toy_1_1", device="auto", **TOY)
    assert secret.decrypt(server.bootstrap(secret.encrypt([1, 2]), [3, 2, 1, 0])).tolist() == [2, 1]


def test_a_gpu_that_is_not_there_is_a_typed_error() -> None:
    _, server = becalm.keygen("toy_1_1", device="cuda", **TOY)
    if has_gpu():
        pytest.skip("this machine has a GPU")
    with pytest.raises(becalm.DeviceError, match="driver") as refusal:
        server.open()
    assert isinstance(refusal.value, RuntimeError)


def test_devices_have_names() -> None:
    with pytest.raises(becalm.BadInput, match="cuda"):
        becalm.keygen("toy_1_1", device="gpu", **TOY)
    with pytest.raises(becalm.BadInput, match="leave one out"):
        becalm.keygen("toy_1_1", device="cuda", backend="processor", **TOY)


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
