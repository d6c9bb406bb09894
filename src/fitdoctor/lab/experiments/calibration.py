"""What this machine can do: large products and large copies by the framework that trains, beside what the step does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab import layer_calls
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.calls import timed
from fitdoctor.lab.job import BARE, BLOCK_SECONDS, Job, wait_for
from fitdoctor.lab.layer_calls import LayerCall
from fitdoctor.lab.layer_work import flops

NAME = "what this machine can do"
PRODUCTS, COPIES = "large products", "large copies"
SIDE = 1024
COPIED = 64 << 20
"""Bytes: more than any cache holds."""


def worth(seen: Seen) -> float:
    """Weigh steps that compute."""
    busy = seen.shares["run"] + seen.shares["sync"]
    return 0.2 if busy > 0.5 and not seen.info.get("run_eagerly") else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Multiply matrices and copy memory, in turns with the step."""
    del seen
    detail = {
        "unit": "ns per call",
        **layer_calls.told_by_shapes(job, _work),
        "weight_bytes": 4 * int(job.model.count_params()),
    }
    product, copy = _compiled(job.backend)
    step = _step(job)
    yield Comparison(PRODUCTS, timed(product), step, {**detail, "flops": 2 * SIDE**3}, block_seconds=BLOCK_SECONDS)
    # Read once, written once.
    yield Comparison(COPIES, timed(copy), step, {**detail, "bytes": 2 * COPIED}, block_seconds=BLOCK_SECONDS)


def _work(calls: list[LayerCall]) -> dict[str, Any]:
    counted = [flops(layer_calls.shapes(call)) for call in calls]
    return {
        "forward_flops": sum(each or 0 for each in counted),
        "layers": len(calls),
        "not_counted": sorted({call.kind for call, each in zip(calls, counted, strict=True) if each is None}),
        "activation_bytes": sum(layer_calls.size_of(call.outputs) for call in calls),
    }


def _step(job: Job) -> Callable[[], float]:
    return lambda: job.block(BARE)


def _compiled(backend: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return a product of two matrices and a copy with one addition, compiled as the framework compiles."""
    from keras import ops

    # Functions of their own: AutoGraph reads their source, and complains about two lambdas in a line.
    def square(x: Any) -> Any:
        return ops.matmul(x, x)

    def one_more(x: Any) -> Any:
        return x + 1.0

    multiply: Callable[[Any], Any] = square
    add: Callable[[Any], Any] = one_more
    a = ops.full((SIDE, SIDE), 0.5, dtype="float32")
    long = ops.full((COPIED // 4,), 0.5, dtype="float32")
    if backend == "tensorflow":
        tf = sys.modules["tensorflow"]
        multiply, add = tf.function(multiply), tf.function(add)
    elif backend == "jax":
        jax = sys.modules["jax"]
        multiply, add = jax.jit(multiply), jax.jit(add)
    elif backend != "torch":
        raise CannotRun(f"nothing is known of the backend {backend}")

    def of(function: Any, given: Any) -> Callable[[], Any]:
        def once() -> Any:
            result = function(given)
            wait_for(backend, result)
            return result

        return once

    return of(multiply, a), of(add, long)
