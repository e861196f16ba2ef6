"""Machines: their names, and what people are told of the one that computes."""

from __future__ import annotations

from typing import Protocol

from becalm import _native
from becalm._called import warn
from becalm._native import Params
from becalm.errors import BadInput


class Runs(Protocol):
    """Something native that runs programs on a machine."""

    @property
    def info(self) -> tuple[str, str, int]: ...
    @property
    def fallback(self) -> tuple[str, bool] | None: ...


def named(backend: str, device: str | None, params: Params | None = None) -> str:
    """The backend that a device or a backend names, but not both.

    With `params`, raises unless the machine is present and runs that set. Call this before making
    keys, which takes long.
    """
    name = str(backend)
    if device is not None:
        if device not in (known := _native.devices()):
            remedy = "name one of these, or a simulated machine as backend"
            if str(device).startswith(("cuda", "gpu")):
                remedy = "name all GPUs as cuda; CUDA_VISIBLE_DEVICES=1 makes that the second only"
            raise BadInput(
                "device", " or ".join(f'"{name}"' for name in known), repr(device), remedy
            )
        if name not in ("auto", device):
            got = f"{device} and {name}"
            raise BadInput("device", "a device or a backend", got, "leave one out")
        name = device
    if params is not None:
        _native.require_machine(name, params)
    return name


def where(on: Runs) -> str:
    """The machine that computes, and why it is not a GPU where it might have been one."""
    name, description, _ = on.info
    fallback = on.fallback
    return f"on {name} ({description}{f'; no GPU: {fallback[0]}' if fallback else ''})"


def no_gpu(why: str) -> None:
    """Warns that a GPU of this computer is not used."""
    remedy = 'device="cpu" says that this is meant'
    warn(f"becalm computes on the CPU, not the GPU: {why}; {remedy}", RuntimeWarning)
