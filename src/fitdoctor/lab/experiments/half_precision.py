"""The same model computing in 16 bits, where the hardware can: its weights stay as they are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BARE, Job, Variant
from fitdoctor.probes.host import has_bf16

NAME = "16-bit compute"


def worth(seen: Seen) -> float:
    """Weigh the step of models in single precision."""
    return 0.3 * seen.shares["run"] if seen.info.get("dtype") == "float32" else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Let every layer compute in 16 bits and keep its weights in 32."""
    del seen
    own = job.model.dtype_policy.name
    if own != "float32":
        raise CannotRun(f"the model computes in {own} already")
    policy = best(job.backend)
    if policy is None:
        raise CannotRun("neither a GPU nor this processor computes faster in 16 bits")
    other = Variant(precision=policy, callbacks=())
    yield Comparison(policy, lambda: job.block(other), lambda: job.block(BARE), {"own": own})


def best(backend: str, cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """Return the 16-bit policy that this machine has arithmetic for; None: it has none."""
    capability = _capability(backend)
    if capability is not None:
        return "mixed_bfloat16" if capability >= (8, 0) else "mixed_float16" if capability >= (7, 0) else None
    return "mixed_bfloat16" if has_bf16(cpuinfo) else None


def _capability(backend: str) -> tuple[int, int] | None:
    """Return the compute capability of the device in use; None where it is a CPU."""
    if backend == "torch":
        cuda = sys.modules["torch"].cuda
        return tuple(cuda.get_device_capability()) if cuda.is_available() else None
    if backend == "jax":
        device = sys.modules["jax"].devices()[0]
        if device.platform == "tpu":
            return (8, 0)
        found = str(getattr(device, "compute_capability", "")) if device.platform in ("gpu", "cuda") else ""
        return _version(found)
    config = sys.modules["tensorflow"].config
    gpus = config.list_physical_devices("GPU")
    details = config.experimental.get_device_details(gpus[0]) if gpus else {}
    return details.get("compute_capability")


def _version(text: str) -> tuple[int, int] | None:
    major, _, minor = text.partition(".")
    return (int(major), int(minor or 0)) if major.isdigit() else None
