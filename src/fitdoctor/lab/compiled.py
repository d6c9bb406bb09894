"""Experiment: the very same step, compiled, against the step as it ran op by op."""

from __future__ import annotations

import json
import time
from typing import Any

from fitdoctor.probes.recorder import Recorder

BLOCKS = 6
SECONDS = 4.0


def experiment(recorder: Recorder, call: Any, model: Any) -> None:
    """Measure what compiling the step would give, if it ran eagerly."""
    if not call.info.get("run_eagerly") or call.info.get("backend") not in ("tensorflow", "jax"):
        return
    batch = call.batch
    if batch is None:
        recorder.gap("the step compiled", "no batch was kept to measure with", "please report it")
        return
    make = _tensorflow if call.info["backend"] == "tensorflow" else _jax
    try:
        eager, compiled = make(model, True), make(model, False)
        for step in (eager, compiled, compiled):
            step(batch)
        before, after = _in_turns(lambda: eager(batch), lambda: compiled(batch))
    except Exception as error:
        recorder.gap(
            "the step compiled",
            f"the step does not run compiled: {type(error).__name__}: {str(error)[:300]}",
            "make the step compile first (see the message), then run again",
        )
        return
    row = ("compiled", call.id, json.dumps(before), json.dumps(after), json.dumps({"unit": "ns per step"}))
    recorder.add("trials", row)


def _in_turns(one: Any, other: Any) -> tuple[list[int], list[int]]:
    """Time two steps in short alternating blocks (ABBA), so that drift hits both alike."""
    clock = time.perf_counter_ns
    start = clock()
    one()
    inner = max(1, min(20, int(SECONDS * 1e9 / (4 * BLOCKS) / max(1, clock() - start))))
    times: tuple[list[int], list[int]] = ([], [])
    for block in range(BLOCKS):
        for which in (0, 1) if block % 2 else (1, 0):
            step = (one, other)[which]
            begun = clock()
            for _ in range(inner):
                step()
            times[which].append((clock() - begun) // inner)
        if block >= 2 and clock() - start > SECONDS * 1e9:
            break
    return times


def _tensorflow(model: Any, eager: bool) -> Any:
    model.run_eagerly = eager
    model.make_train_function(force=True)
    function = model.train_function
    return lambda batch: function(iter([batch]))


def _jax(model: Any, eager: bool) -> Any:
    import jax

    model.run_eagerly = eager
    model.make_train_function(force=True)
    function = model.train_function

    def step(batch: Any) -> None:
        state = model._get_jax_state(
            trainable_variables=True,
            non_trainable_variables=True,
            optimizer_variables=True,
            metrics_variables=True,
            purge_model_variables=False,
        )
        state = jax.tree_util.tree_map(jax.numpy.copy, state)
        jax.block_until_ready(function(state, iter([batch])))

    return step
