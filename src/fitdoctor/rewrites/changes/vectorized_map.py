"""A cheap map called once per batch instead of once per element: batch first, then the same function on all rows.

The function that TensorFlow traced is not traced again.  One that treats every number alike works on stacked elements
as it is; any other is turned into one that does (`tf.vectorized_map`), which knows what is per element and what is not,
where calling the function itself on a batch would be wrong (a mean over an element becomes one over the batch).
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.probes.dataset_tf import name_of
from fitdoctor.probes.input_tf_built import built
from fitdoctor.rewrites import purity
from fitdoctor.rewrites.candidates import ROUNDED, Candidate, Refusal, Seen
from fitdoctor.rewrites.changes.parallel_map import AUTOTUNE, name_of_function
from fitdoctor.rewrites.datasets import UNCHANGED, Path, at, fresh, on_top, paths, replaced
from fitdoctor.rewrites.elementwise import on_stacked, works_number_by_number
from fitdoctor.rewrites.stages import every, inputs

RULE = "per-element-map"


def candidates(dataset: Any, seen: Seen) -> Iterator[Candidate | Refusal]:
    """Offer it for every batch that has pure maps of equal, known shapes below it."""
    del seen
    if any(name_of(stage) == "IgnoreErrors" for stage in every(dataset)):
        yield Refusal(RULE, "errors are ignored: an element that fails would take its whole batch along")
        return
    for path, stage in paths(dataset):
        if name_of(stage) not in ("Batch", "ParallelBatch"):
            continue
        between, why = _between(stage)
        maps = [each for each in between if name_of(each) not in UNCHANGED]
        if not maps:
            yield Refusal(RULE, why or "no map lies right below the batch")
            continue
        try:
            vectorized(dataset, path=path)
        except CannotRun as error:
            yield Refusal(RULE, error.problem)
            continue
        last = maps[0]
        yield Candidate(
            rule=RULE,
            path=path,
            op=name_of(last),
            site=built(last),
            settings="once per batch instead of once per element",
            code=f".batch({int(stage._batch_size)}).map({_on_rows(last)})",
            promise=ROUNDED,
            safety="same",
            apply=functools.partial(vectorized, path=path),
            detail=(("maps", len(maps)), ("rows", int(stage._batch_size))),
        )


def _on_rows(stage: Any) -> str:
    name = name_of_function(stage)
    if works_number_by_number(stage._map_func.function) and not _looks_at_shapes(stage._map_func._func):
        return name
    if type(inputs(stage)[0].element_spec) is tuple:
        return f"lambda *rows: tf.vectorized_map(lambda row: {name}(*row), rows)"
    return f"lambda rows: tf.vectorized_map({name}, rows)"


def _looks_at_shapes(function: Any) -> bool:
    """Tell whether a function may do something else when it is written for batches; yes where its text is not known."""
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        return True
    return any(word in text for word in ("shape", "size", "rank", "len(", "ndim"))


def _between(batch: Any) -> tuple[list[Any], str]:
    """Return the stages below a batch down to its last map that can be vectorised, outermost first; else why not."""
    found: list[Any] = []
    until, why = 0, ""
    stage = inputs(batch)[0]
    while True:
        if name_of(stage) in ("Map", "ParallelMap"):
            why = _unfit(stage)
            if why:
                break
            found.append(stage)
            until = len(found)
        elif name_of(stage) in UNCHANGED:
            found.append(stage)
        else:
            break
        stage = inputs(stage)[0]
    return found[:until], why


def _unfit(stage: Any) -> str:
    """Say why a map cannot be called on whole batches; empty where it can."""
    tf = sys.modules["tensorflow"]
    contents = purity.of_stage(stage)
    if not contents.pure:
        return f"the map cannot be called on whole batches: {contents.why}"
    if stage._map_func.function.captured_inputs and any(
        each.dtype in (tf.resource, tf.variant) for each in stage._map_func.function.captured_inputs
    ):
        return "the map cannot be called on whole batches: it uses something made outside of it"
    for spec in tf.nest.flatten((inputs(stage)[0].element_spec, stage.element_spec)):
        if not isinstance(spec, tf.TensorSpec) or not spec.shape.is_fully_defined():
            return "the map cannot be called on whole batches: its elements differ in shape, or TensorFlow cannot tell"
    return ""


def vectorized(dataset: Any, *, path: Path) -> Any:
    """Build a pipeline again with the maps below the batch at a place called on whole batches."""
    dataset = fresh(dataset)
    batch = at(dataset, path)
    between, _ = _between(batch)
    data = inputs(between[-1])[0]
    maps = []
    for stage in reversed(between):
        if name_of(stage) in UNCHANGED:
            data = on_top(stage, [data])
        else:
            maps.append(stage)
    data = _batched(batch, data)
    for stage in maps:
        data = _mapped(stage, data)
    if data.element_spec != batch.element_spec:
        raise CannotRun("called on whole batches the map gives elements of another kind")
    return replaced(dataset, path, data)


def _batched(batch: Any, data: Any) -> Any:
    settings: dict[str, Any] = {"drop_remainder": bool(batch._drop_remainder), "name": batch._name}
    if name_of(batch) == "ParallelBatch":
        settings["num_parallel_calls"] = int(batch._num_parallel_calls)
        settings["deterministic"] = {"true": True, "false": False}.get(batch._deterministic)
    return data.batch(int(batch._batch_size), **settings)


def _mapped(stage: Any, data: Any) -> Any:
    """Call the function of a map on whole batches; in as many batches at a time as the user calls it on elements."""
    tf = sys.modules["tensorflow"]
    from tensorflow.python.data.util import nest

    function, given, wanted = stage._map_func.function, inputs(stage)[0].element_spec, stage.element_spec

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def on_batch(*args: Any) -> Any:
        rows = nest.flatten(args if type(given) is tuple else args[0])
        if works_number_by_number(function):
            outputs = on_stacked(function, rows)
        else:
            outputs = tf.vectorized_map(lambda row: function(*row), rows, fallback_to_while_loop=False)
        shaped = [
            tf.ensure_shape(output, rows[0].shape[:1].concatenate(spec.shape))
            for output, spec in zip(outputs, nest.flatten(wanted), strict=True)
        ]
        return nest.pack_sequence_as(wanted, shaped)

    settings: dict[str, Any] = {}
    if name_of(stage) == "ParallelMap":
        settings["num_parallel_calls"] = AUTOTUNE
        settings["deterministic"] = {"true": True, "false": False}.get(stage._deterministic)
    try:
        return data.map(on_batch, **settings)
    except (ValueError, TypeError, NotImplementedError, AssertionError) as error:
        # Not the message: it may hold values.
        raise CannotRun(f"TensorFlow has no form of this map for whole batches ({type(error).__name__})") from None
