"""The state an experiment may change: taken once, put back after each, compared at the end.

Weights, optimizer, metrics and seed generators are Keras variables; beside them the generators of Python, NumPy,
TensorFlow and torch.  One copy on the host is all the lab holds (and half a one more while it tries a model in 32
instead of 64 bits).  Where it does not fit, only what reads the input without training is tried.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.probes.cgroup import free_memory as free_memory

SPARE = 1.5
"""The copy must fit this many times into the memory that is free."""


class Snapshot:
    """A copy of everything that training changes; without a model, of the random generators alone."""

    def __init__(self, model: Any) -> None:
        self._variables = list(_variables(model)) if model is not None else []
        need = sum(_bytes(variable) for variable in self._variables)
        free = free_memory()
        if need * SPARE > free:
            raise CannotRun(
                f"a copy of the model's state takes {need / 1e9:.1f} GB, {free / 1e9:.1f} GB are free",
                do="run it on a machine with more memory",
            )
        self.bytes = need
        self._values = [_value(variable) for variable in self._variables]
        self._generators = dict(_generators())

    def restore(self) -> None:
        """Put everything back as it was."""
        for variable, value in zip(self._variables, self._values, strict=True):
            variable.assign(value)
        for name, (_, put) in _known_generators().items():
            if name in self._generators:
                put(self._generators[name])

    def differs(self) -> list[str]:
        """Name what is not as it was, bit for bit."""
        import numpy as np

        found = [
            str(getattr(variable, "path", variable))
            for variable, value in zip(self._variables, self._values, strict=True)
            if not np.array_equal(_value(variable), value, equal_nan=value.dtype.kind in "fc")
        ]
        for name, state in _generators():
            if not _same(state, self._generators.get(name)):
                found.append(f"the generator of {name}")
        return found


def _variables(model: Any) -> Iterator[Any]:
    seen: set[int] = set()
    optimizer = getattr(model, "optimizer", None)
    for group in (model.variables, getattr(model, "metrics_variables", ()), getattr(optimizer, "variables", ())):
        for variable in group:
            if id(variable) not in seen:
                seen.add(id(variable))
                yield variable
    shared = sys.modules.get("keras.src.random.seed_generator")
    if shared is not None:
        generator = sys.modules["keras"].src.backend.common.global_state.get_global_attribute("global_seed_generator")
        if generator is not None and id(generator.state) not in seen:
            yield generator.state


def _bytes(variable: Any) -> int:
    import numpy as np

    count = int(np.prod([int(side) for side in variable.shape])) if len(variable.shape) else 1
    try:
        return count * np.dtype(str(variable.dtype)).itemsize
    except TypeError:
        return count * 2  # bfloat16 and its like


def _value(variable: Any) -> Any:
    import numpy as np

    convert = sys.modules["keras"].ops.convert_to_numpy
    return np.array(convert(variable.value if hasattr(variable, "value") else variable))


# --- generators outside of Keras ----------------------------------------------------------------------


def _known_generators() -> dict[str, tuple[Any, Any]]:
    known: dict[str, tuple[Any, Any]] = {"Python": (random.getstate, random.setstate)}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        known["NumPy"] = (numpy.random.get_state, numpy.random.set_state)
    torch = sys.modules.get("torch")
    if torch is not None:
        known["torch"] = (torch.get_rng_state, torch.set_rng_state)
    context = sys.modules.get("tensorflow.python.eager.context")
    if context is not None:
        inner = context.context()
        known["TensorFlow"] = (lambda: inner._rng.getstate(), lambda state: inner._rng.setstate(state))
    return known


def _generators() -> Iterator[tuple[str, Any]]:
    for name, (take, _) in _known_generators().items():
        try:
            yield name, take()
        except AttributeError:
            continue  # TensorFlow makes its generator when it is first asked


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    equal: Any = one == other
    return bool(equal.all()) if hasattr(equal, "all") else bool(equal)
