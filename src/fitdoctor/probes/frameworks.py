"""Which frameworks are installed, and what each of them sees: asked in a process of its own.

A broken install may raise, crash or hang; it must not take the one who asks with it.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fitdoctor.probes.distributions import DISTRIBUTIONS, PLUGINS

_MARK = "fitdoctor-answer:"

_QUESTIONS = {
    "tensorflow": """
import tensorflow as tf
build = tf.sysconfig.get_build_info()
answer = {
    "gpus": len(tf.config.list_physical_devices("GPU")),
    "built_with_cuda": bool(build.get("is_cuda_build")) or tf.test.is_built_with_cuda(),
    "cuda": build.get("cuda_version"),
    "cudnn": build.get("cudnn_version"),
    "intra_threads": tf.config.threading.get_intra_op_parallelism_threads(),
    "inter_threads": tf.config.threading.get_inter_op_parallelism_threads(),
}
""",
    "jax": """
import jax
try:
    gpus, failure = len(jax.devices("gpu")), None
except RuntimeError as error:
    gpus, failure = 0, str(error)
answer = {"gpus": gpus, "gpu_failure": failure, "platform": jax.default_backend()}
""",
    "torch": """
import torch
answer = {
    "gpus": torch.cuda.device_count() if torch.cuda.is_available() else 0,
    "built_with_cuda": torch.version.cuda is not None,
    "cuda": torch.version.cuda,
    "cudnn": torch.backends.cudnn.version() if torch.version.cuda else None,
    "intra_threads": torch.get_num_threads(),
    "inter_threads": torch.get_num_interop_threads(),
}
mps = getattr(torch.backends, "mps", None)
if mps is not None and mps.is_available():
    answer["mps"] = True
""",
}


def version_of(distribution: str) -> str | None:
    """Return the installed version of a distribution, without importing it."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def installed() -> list[dict[str, Any]]:
    """List the installed frameworks without importing one: name, distributions, version, plugins."""
    found = []
    plugins = {name: version for name in PLUGINS if (version := version_of(name)) is not None}
    for name, candidates in DISTRIBUTIONS.items():
        versions = {each: version for each in candidates if (version := version_of(each)) is not None}
        if not versions and importlib.util.find_spec(name) is None:
            continue
        found.append(
            {
                "name": name,
                "distributions": list(versions),
                "version": next(iter(versions.values()), None),
                "plugins": {each: version for each, version in plugins.items() if each.startswith(name)},
            }
        )
    return found


def keras() -> dict[str, Any]:
    """Describe Keras: version and the backend it will use, from its settings, without importing it."""
    found: dict[str, Any] = {"version": version_of("keras"), "tf_keras": version_of("tf-keras")}
    home = Path(os.environ.get("KERAS_HOME") or os.path.expanduser("~/.keras"))
    found["backend"], found["backend_from"] = "tensorflow", "default"
    with contextlib.suppress(OSError, ValueError, AttributeError):
        backend = json.loads((home / "keras.json").read_text()).get("backend")
        if backend:
            found["backend"], found["backend_from"] = backend, "keras.json"
    if os.environ.get("KERAS_BACKEND"):
        found["backend"], found["backend_from"] = os.environ["KERAS_BACKEND"], "KERAS_BACKEND"
    return found


def ask(name: str, timeout: float = 90.0) -> dict[str, Any]:
    """Ask one framework what it sees: {"seen": {...}} or {"failure": why}."""
    return ask_code(_QUESTIONS[name], timeout)


def ask_all(names: Sequence[str], timeout: float = 90.0) -> dict[str, dict[str, Any]]:
    """Ask several frameworks at the same time."""
    with ThreadPoolExecutor(max_workers=max(1, len(names))) as pool:
        return dict(zip(names, pool.map(lambda name: ask(name, timeout), names), strict=True))


def ask_code(question: str, timeout: float) -> dict[str, Any]:
    """Run a question, Python code that sets `answer`, in a fresh process."""
    code = f"{question}\nimport json\nprint({_MARK!r} + json.dumps(answer), flush=True)\n"
    # Otherwise just looking would take most of a GPU's memory away from a training that is under way.
    environment = {
        **os.environ,
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return {"failure": f"no answer within {timeout:.0f} s"}
    for line in out.splitlines():
        if line.startswith(_MARK):
            return {"seen": json.loads(line[len(_MARK) :])}
    return {"failure": _failure(process.returncode, err)}


def _failure(code: int, err: str) -> str:
    lines = [line.strip() for line in err.splitlines() if line.strip()]
    last = lines[-1][:300] if lines else "no message"
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"crashed with {signal.Signals(-code).name}"
    return f"exit code {code}: {last}" if code != 1 else last
