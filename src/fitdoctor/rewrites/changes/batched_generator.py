"""A Python generator whose samples are stacked before TensorFlow sees them: one call back into Python per batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fitdoctor.probes.dataset_tf import name_of
from fitdoctor.probes.input_tf_built import built
from fitdoctor.rewrites.candidates import IN_ORDER, Candidate, Refusal, Seen
from fitdoctor.rewrites.datasets import Path, at, fresh, paths, replaced

RULE = "per-sample-generator"
_MODULE = "tensorflow.python.data.ops.from_generator_op"
_BATCHES = frozenset({"Batch", "ParallelBatch"})


@dataclass(frozen=True, slots=True)
class Source:
    """What `from_generator` was given."""

    generator: Callable[..., Any]
    args: tuple[Any, ...]
    signature: Any
    name: Any


def candidates(dataset: Any, seen: Seen) -> Iterator[Candidate | Refusal]:
    """Offer it for generators that are batched as they are."""
    del seen
    for path, stage in paths(dataset):
        source = source_of(stage)
        if source is None:
            continue
        batch = at(dataset, path[:-1]) if path else None
        if batch is None or name_of(batch) not in _BATCHES:
            yield Refusal(RULE, "its samples are not put into batches as they come")
        elif not _stackable(source.signature):
            yield Refusal(RULE, "its samples are not arrays of one shape each")
        else:
            yield Candidate(
                rule=RULE,
                path=path[:-1],
                op=name_of(stage),
                site=built(stage),
                settings="whole batches",
                code="yield whole batches, and drop .batch()",
                promise=IN_ORDER,
                safety="same",
                apply=functools.partial(stacked, path=path[:-1]),
            )


def source_of(stage: Any) -> Source | None:
    """Return what a dataset made by `from_generator` was made of; None for any other."""
    function = getattr(getattr(stage, "_map_func", None), "_func", None)
    if name_of(stage) != "FlatMap" or getattr(function, "__module__", "") != _MODULE:
        return None
    held = _held(function)
    begin = _held(held.get("get_iterator_id_fn"))
    if not {"output_signature", "name"} <= held.keys() or not {"args", "generator_state"} <= begin.keys():
        return None
    return Source(begin["generator_state"]._generator, tuple(begin["args"]), held["output_signature"], held["name"])


def _held(function: Any) -> dict[str, Any]:
    """Return what a function keeps of the one it was defined in."""
    cells = getattr(function, "__closure__", None) or ()
    return {name: cell.cell_contents for name, cell in zip(function.__code__.co_freevars, cells, strict=True)}


def _stackable(signature: Any) -> bool:
    import tensorflow as tf

    return all(isinstance(spec, tf.TensorSpec) and spec.shape.is_fully_defined() for spec in tf.nest.flatten(signature))


def stacked(dataset: Any, *, path: Path) -> Any:
    """Build a pipeline again with the generator and the batches of its samples made in one place."""
    import tensorflow as tf

    dataset = fresh(dataset)
    batch = at(dataset, path)
    source = source_of(batch._input_dataset)
    assert source is not None
    size, whole = int(batch._batch_size), bool(batch._drop_remainder)
    made = tf.data.Dataset.from_generator(
        functools.partial(_batches, source, size, whole),
        output_signature=batch.element_spec,
        args=source.args or None,
        name=source.name,
    )
    return replaced(dataset, path, made)


def _batches(source: Source, size: int, whole: bool, *args: Any) -> Iterator[Any]:
    """Yield what the user's generator yields, so many at a time, each converted and checked as TensorFlow does."""
    import numpy as np
    import tensorflow as tf

    specs = tf.nest.flatten(source.signature)
    rows: list[list[Any]] = [[] for _ in specs]
    for sample in source.generator(*args):
        for column, value in zip(rows, _converted(source.signature, specs, sample), strict=True):
            column.append(value)
        if len(rows[0]) == size:
            yield tf.nest.pack_sequence_as(source.signature, [np.stack(column) for column in rows])
            rows = [[] for _ in specs]
    if rows[0] and not whole:
        yield tf.nest.pack_sequence_as(source.signature, [np.stack(column) for column in rows])


def _converted(signature: Any, specs: list[Any], sample: Any) -> Iterator[Any]:
    from tensorflow.python.data.util import nest
    from tensorflow.python.ops.script_ops import FuncRegistry

    for spec, value in zip(specs, nest.flatten_up_to(signature, sample), strict=True):
        array = FuncRegistry._convert(value, dtype=spec.dtype.as_numpy_dtype)
        if array.dtype != spec.dtype.as_numpy_dtype or not spec.shape.is_compatible_with(array.shape):
            raise TypeError(
                f"the generator yielded {array.dtype} of shape {array.shape} where {spec.dtype.name} of shape "
                f"{spec.shape} was expected"
            )
        yield array
