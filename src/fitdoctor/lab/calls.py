"""Short calls that a script makes again and again, in turns with what could stand in their place.

Runs once the observed part of the run is over, on the model and the small input of the last such call.  Folklore says
that calling the model always wins; here it is measured.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.beside import quiet
from fitdoctor.lab.snapshot import Snapshot

BLOCK_NS = 250e6
MOST = 200
"""Calls in a block."""
_NAMES = {
    "predict": ("x", "batch_size", "verbose", "steps", "callbacks"),
    "evaluate": ("x", "y", "batch_size", "verbose", "sample_weight", "steps", "callbacks"),
}
_UNLIKE = ("steps", "callbacks", "sample_weight")
"""Arguments that the alternatives do not take."""


class ShortCall:
    """One such call: as it was made, and as it could be made."""

    def __init__(self, model: Any, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.model = model
        self.kind = kind
        self._args, self._kwargs = args, kwargs
        self.given: dict[str, Any] = {**dict(zip(_NAMES[kind], args, strict=False)), **kwargs}
        for name in _UNLIKE:
            if self.given.get(name) is not None:
                raise CannotRun(f"it is called with {name}, which no other call takes", do="try model(x) in the script")

    def as_is(self) -> Any:
        """Make the call as the script does."""
        return getattr(self.model, self.kind)(*self._args, **self._kwargs)

    def alternatives(self) -> dict[str, Callable[[], Any]]:
        """Return what could stand in its place, by name."""
        model, x = self.model, self.given["x"]
        if self.kind == "evaluate":
            return {"test_on_batch": lambda: model.test_on_batch(x, self.given.get("y"))}
        from keras import ops, tree

        def call() -> Any:
            return tree.map_structure(ops.convert_to_numpy, model(x, training=False))

        return {"model(x)": call, "predict_on_batch": lambda: model.predict_on_batch(x)}

    def agree(self, other: Callable[[], Any]) -> bool:
        """Tell whether an alternative computes what the call computes."""
        import numpy as np
        from keras import tree

        if self.kind != "predict":
            return True  # what a metric has summed up differs from call to call
        one, two = (tree.flatten(function()) for function in (self.as_is, other))
        return len(one) == len(two) and all(
            np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-2, atol=1e-3, equal_nan=True)
            for a, b in zip(one, two, strict=True)
        )


def timed(function: Callable[[], Any]) -> Callable[[], float]:
    """Return what runs a short block of calls and returns nanoseconds per call."""
    times = 0

    def block() -> float:
        nonlocal times
        if not times:
            # Compiles, then tells how many calls make a block.
            function()
            once = _ns(function, 1)
            times = max(1, min(MOST, int(BLOCK_NS / max(1.0, once))))
        return _ns(function, times)

    return block


def _ns(function: Callable[[], Any], times: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(times):
        function()
    return (time.perf_counter_ns() - start) / times


@contextlib.contextmanager
def prepared(model: Any) -> Iterator[None]:
    """Keep the model's state, and the calls' progress bars to ourselves."""
    snapshot = Snapshot(model)
    try:
        with quiet():
            yield
    finally:
        snapshot.restore()
