"""What the user asked for: read from the arguments of a call and from the compiled model, never from the data."""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
import weakref
from typing import Any

from fitdoctor.probes import model_layers, recurrent, stack


def plan(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Read from the arguments of `fit` what the user asked for."""
    names = ("x", "y", "batch_size", "epochs", "verbose", "callbacks", "validation_split", "validation_data")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    plan: dict[str, Any] = {
        "epochs": whole(given.get("epochs"), 1),
        "verbose": str(given.get("verbose", "auto")),
    }
    if given.get("initial_epoch"):
        plan["initial_epoch"] = whole(given["initial_epoch"], 0)
    if given.get("shuffle") is not None:
        plan["shuffled"] = bool(given["shuffle"])
    if given.get("steps_per_epoch") is not None:
        plan["steps_given"] = True
    plan["validates"] = given.get("validation_data") is not None or bool(given.get("validation_split"))
    plan["validation_freq"] = whole(given.get("validation_freq"), 1)
    return plan


def samples(x: Any) -> tuple[int | None, int]:
    """Return the samples in arrays given to a call, and about how many bytes they are; None for other inputs."""
    first = x
    while isinstance(first, (list, tuple, dict)) and first:
        first = next(iter(first.values())) if isinstance(first, dict) else first[0]
    shape = getattr(first, "shape", None)
    try:
        samples = int(shape[0]) if shape is not None else None
        each = getattr(first, "dtype", None)
        size = functools.reduce(operator.mul, map(int, shape or ()), getattr(each, "itemsize", None) or 8)
    except (TypeError, ValueError, IndexError):
        return None, 0
    return samples, size


def whole(value: Any, default: int) -> int:
    """Return a whole number, or the default where it is none."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return default


def _metrics(model: Any) -> list[str]:
    """Name the metrics that `compile` was given: kept by Keras until the first batch shows what they are for."""
    given = getattr(getattr(model, "_compile_metrics", None), "_user_metrics", None)
    flat = given if isinstance(given, (list, tuple)) else list((given or {}).values()) if given else []
    return [str(getattr(each, "name", each)) for each in flat]


def _loss(model: Any) -> str | None:
    """Name the loss, where there is one."""
    given = getattr(model, "loss", None)
    if given is None or isinstance(given, (list, tuple, dict)):
        return None
    return given if isinstance(given, str) else str(getattr(given, "__name__", type(given).__name__))


def _schedule(model: Any) -> str | None:
    """Name the schedule of the learning rate, where there is one."""
    rate = getattr(getattr(model, "optimizer", None), "_learning_rate", None)
    return type(rate).__name__ if callable(rate) and hasattr(rate, "get_config") else None


def _deterministic() -> bool | None:
    """Tell whether TensorFlow was told to give the same results always; None where it is not there."""
    config = sys.modules.get("tensorflow.python.framework.config")
    return None if config is None else bool(config.is_op_determinism_enabled())


def _accumulation(model: Any) -> int | None:
    """Return how many batches the optimizer makes one update of, where it is more than one."""
    optimizer = getattr(model, "optimizer", None)
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    given = getattr(inner, "gradient_accumulation_steps", None) or getattr(
        optimizer, "gradient_accumulation_steps", None
    )
    return whole(given, 0) or None


def of_model(model: Any) -> dict[str, Any]:
    """Read from the model what was really compiled."""
    info: dict[str, Any] = {
        "run_eagerly": bool(getattr(model, "run_eagerly", False)),
        "jit_compile": bool(getattr(model, "jit_compile", False)),
        "steps_per_execution": int(getattr(model, "steps_per_execution", 1) or 1),
        "optimizer": type(getattr(model, "optimizer", None)).__name__,
        "schedule": _schedule(model),
        "accumulation": _accumulation(model),
        "metrics": _metrics(model),
        "loss": _loss(model),
        "dtype": str(getattr(model, "dtype", None)),
        "policy": getattr(getattr(model, "dtype_policy", None), "name", None),
        "custom_train_step": not type(model).train_step.__module__.startswith("keras."),
        "deterministic": _deterministic(),
    }
    try:
        info["parameters"] = int(model.count_params())
    except Exception:
        info["parameters"] = None
    with contextlib.suppress(Exception):
        info["layers"] = model_layers.known(model)
    return {**info, **_layout(model)}


_layouts: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


def _layout(model: Any) -> dict[str, Any]:
    """Read what a look at every layer tells, once for a model that is trained again and again."""
    with contextlib.suppress(Exception):
        known = _layouts.get(model)
        if known is None:
            held = stack.weights_on(model)
            known = {"weights_on": held, "recurrent": recurrent.describe(model, gpu="gpu" in (held or ()))}
            _layouts[model] = known
        return known
    return {}
