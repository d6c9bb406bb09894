"""What the framework that trains sees of the machine: devices, CUDA, thread pools, and what its allocator holds.

Asked between two steps of a training, and only of the framework that trains: by then it has looked itself, and asking
again starts nothing.  Where it computes on a GPU, the peak of its own allocator is read now and then; NVML does not
tell it, because TensorFlow and JAX take most of the memory at once.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.install import ImportWatch
from fitdoctor.probes.steps import Tracker

EVERY_NS = 5_000_000_000
MOST_WEIGHTS = 64
"""So many weights are asked where they are."""


class StackProbe:
    """Writes what the framework sees into the capture's `stack`, and what it allocated into `device_memory`."""

    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker
        self._asked = ""
        self._accelerated = False

    def attach(self, watch: ImportWatch) -> None:
        """Ask after the first step."""
        del watch
        self.tracker.looks.append(self._look)

    def _look(self, call: ActiveCall) -> float:
        recorder, backend = self.tracker.recorder, str(call.info.get("backend"))
        if backend not in _ASK:
            return math.inf
        try:
            if backend != self._asked:
                self._asked = backend
                found = ask(backend)
                self._accelerated = bool(found.get("gpus"))
                recorder.meta(stack={"backend": backend, **found})
            if self._accelerated:
                recorder.meta(device_memory=memory(backend))
        except Exception as error:
            self._accelerated = False
            recorder.gap(
                f"what {backend} sees of the machine", f"{type(error).__name__}: {error}", "fitdoctor env asks it anew"
            )
        return recorder.clock() + EVERY_NS if self._accelerated else math.inf


def ask(backend: str) -> dict[str, Any]:
    """Ask a framework that is running what it sees."""
    return _ASK[backend]()


def _tensorflow() -> dict[str, Any]:
    tf = sys.modules["tensorflow"]
    build = tf.sysconfig.get_build_info()
    visible, there = len(tf.config.get_visible_devices("GPU")), len(tf.config.list_physical_devices("GPU"))
    return {
        "gpus": visible,
        "hidden_by_script": there > visible,
        "built_with_cuda": bool(build.get("is_cuda_build")),
        "cuda": build.get("cuda_version"),
        "cudnn": build.get("cudnn_version"),
        "intra_threads": tf.config.threading.get_intra_op_parallelism_threads(),
        "inter_threads": tf.config.threading.get_inter_op_parallelism_threads(),
    }


def _jax() -> dict[str, Any]:
    jax = sys.modules["jax"]
    return {
        "gpus": sum(device.platform in ("gpu", "cuda", "rocm") for device in jax.local_devices()),
        "platform": jax.default_backend(),
    }


def _torch() -> dict[str, Any]:
    torch = sys.modules["torch"]
    return {
        "gpus": torch.cuda.device_count() if torch.cuda.is_available() else 0,
        "built_with_cuda": torch.version.cuda is not None,
        "cuda": torch.version.cuda,
        "intra_threads": torch.get_num_threads(),
        "inter_threads": torch.get_num_interop_threads(),
    }


_ASK: dict[str, Callable[[], dict[str, Any]]] = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}


def memory(backend: str) -> dict[str, Any]:
    """Return what the framework's allocator took of the first GPU at most, of how much, and how often it had to retry.

    What the framework does not tell is None.
    """
    if backend == "tensorflow":
        found = sys.modules["tensorflow"].config.experimental.get_memory_info("GPU:0")
        return {"peak": found.get("peak"), "limit": None, "retries": None}
    if backend == "jax":
        found = sys.modules["jax"].local_devices()[0].memory_stats() or {}
        return {"peak": found.get("peak_bytes_in_use"), "limit": found.get("bytes_limit"), "retries": None}
    cuda = sys.modules["torch"].cuda
    found = cuda.memory_stats()
    return {
        "peak": found.get("allocated_bytes.all.peak"),
        "limit": int(cuda.get_device_properties(cuda.current_device()).total_memory),
        "retries": found.get("num_alloc_retries"),
    }


def weights_on(model: Any) -> list[str] | None:
    """Name the kinds of devices that hold the model's weights: cpu, gpu, tpu; None where they do not tell."""
    with contextlib.suppress(Exception):
        found = {"gpu" if kind in ("cuda", "rocm") else kind for kind in _kinds(model)}
        return sorted(found) or None
    return None


def _kinds(model: Any) -> Iterator[str]:
    for variable in itertools.islice(model.trainable_variables, MOST_WEIGHTS):
        value = getattr(variable, "value", variable)
        if callable(getattr(value, "devices", None)):  # JAX
            yield from (str(device.platform) for device in value.devices())
            continue
        device = value.device
        # torch: an object with a type; TensorFlow: /job:localhost/replica:0/task:0/device:GPU:0
        yield str(getattr(device, "type", "")) or str(device).lower().rpartition("device:")[2].partition(":")[0]
