"""The facts of this machine, and a check of its arithmetic."""

from __future__ import annotations

import os
import platform
from typing import Any

import numpy as np

from becalm import _native, _public
from becalm._native import Params
from becalm._progress import shown
from becalm._values import megabytes
from becalm.errors import DeviceError, OutOfMemory, Unsupported
from becalm.keys import SecretKey

__all__ = ["Report", "doctor"]
__dir__ = _public.names(__all__)


class Report(dict[str, Any]):
    """The findings of `doctor`, by name; `ok` says whether every check passed. A
    check has its result as `ok`; `refused` says that it did not run, and `detail` why.

    Examples
    --------
    >>> report = becalm.doctor(quiet=True)
    >>> report.ok
    True
    """

    @property
    def ok(self) -> bool:
        """True if every check ran and had the right result."""
        return all(check["ok"] for check in self["checks"])

    def __str__(self) -> str:
        facts = {
            "becalm": self["becalm"],
            "Python": f"{self['python']}, numpy {self['numpy']}",
            "system": self["system"],
            "processor": f"{self['processor']}, {self['threads']} threads",
            "instructions": f"{', '.join(self['instructions'])} (the first is used)",
            "free memory": megabytes(self["memory"]) if self["memory"] else "unknown",
            "GPUs": "; ".join(self["gpus"]),
            "GPU kernels": _kernels(self["gpu_images"]),
            "NVRTC": self["nvrtc"] or "none",
        }
        lines = [f"{name:<14}{value}" for name, value in facts.items()]
        for c in self["checks"]:
            lines.append(f"  {_mark(c):<7} {c['what']}: {c['detail']}")
        if self.ok:
            lines.append("all checks passed")
        elif all(c["ok"] or c["refused"] for c in self["checks"]):
            lines.append("the checks that were refused say nothing of this machine")
        else:
            lines.append("results on this machine are not to be trusted")
        return "\n".join(lines)


def doctor(*, quiet: bool = False) -> Report:
    """Describes this machine and checks a bootstrap with each of its instruction sets.

    The report comes back as a dictionary with an attribute `ok`; `quiet` only returns it.

    Returns
    -------
    Report
        The facts by name.

    Examples
    --------
    >>> report = becalm.doctor(quiet=True)
    >>> report.ok, report["becalm"] == becalm.__version__
    (True, True)
    """
    toys = [p for p in Params.all() if p.kind == "toy"]
    pairs = [(instructions, p) for instructions in _native.instructions() for p in toys]
    faults: dict[str, list[tuple[bool, str]]] = {instructions: [] for instructions, _ in pairs}
    with shown(False if quiet else None, "doctor", delay=1.0) as tell:
        for done, (instructions, params) in enumerate(pairs):
            if tell is not None:
                tell(done, len(pairs))
            faults[instructions] += _fault(params, instructions)
    report = Report(
        becalm=_native.__version__,
        python=platform.python_version(),
        numpy=np.__version__,
        system=platform.platform(),
        processor=_processor(),
        threads=len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        instructions=_native.instructions(),
        memory=_native.available_memory(),
        gpus=_gpus(),
        gpu_images=_native.gpu_images(),
        nvrtc=_native.nvrtc(),
        checks=[_check(len(toys), *found) for found in faults.items()],
    )
    if not quiet:
        print(report)
    return report


def _gpus() -> list[str]:
    """One line for each GPU, or why there is none."""
    try:
        return _native.gpus()
    except DeviceError as e:
        return [f"none: {e.got}"]


def _kernels(images: list[tuple[str, int]]) -> str:
    """The number of rings with kernels, their GPUs, and the size."""
    if not images:
        return "none in this build"
    names = [name.split(".") for name, _ in images]
    rings, kinds = {parts[0] for parts in names}, sorted({parts[1] for parts in names})
    size = megabytes(sum(size for _, size in images))
    return f"{len(images)} of {len(rings)} rings for {', '.join(kinds)}, {size}"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            line = next(line for line in f if line.startswith("model name"))
        return line.split(":", 1)[1].strip()
    except (OSError, StopIteration, IndexError):
        return platform.processor() or platform.machine() or "unknown"


def _mark(check: dict[str, Any]) -> str:
    return "ok" if check["ok"] else "refused" if check["refused"] else "WRONG"


def _check(toys: int, instructions: str, faults: list[tuple[bool, str]]) -> dict[str, Any]:
    what = f"bootstraps of {toys} toy sets with {instructions}"
    refused = bool(faults) and all(refused for refused, _ in faults)
    # A refusal is the same for every set.
    detail = "; ".join(dict.fromkeys(text for _, text in faults)) or "right"
    return {"what": what, "ok": not faults, "refused": refused, "detail": detail}


def _fault(params: Params, instructions: str) -> list[tuple[bool, str]]:
    """Every value of a toy set through a table that turns them round: whether that was refused, and
    what was wrong.
    """
    try:
        secret = SecretKey.generate(params, allow_insecure=True)
        server = secret.server(progress=False)
        server._evaluator = _native.Evaluator(server._key, "cpu", 0, instructions)
        values = np.arange(params.values)
        results = secret.decrypt(server.bootstrap(secret.encrypt(values), values[::-1]))
        results = results.reshape(-1)[: params.values]  # the last ciphertext may have empty slots
    except (OutOfMemory, Unsupported) as e:
        return [(True, str(e))]
    except Exception as e:
        return [(False, f"{params.name}: {e}")]
    right = np.array_equal(results, values[::-1])
    return [] if right else [(False, f"{params.name}: wrong results")]
