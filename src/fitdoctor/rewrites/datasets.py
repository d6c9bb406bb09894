"""Stages of a tf.data pipeline put on top of another input: the same arguments, the very functions already traced.

A stage is copied as an object: everything it holds is shared with the user's own (his traced functions, seeds, sizes,
names), only its input differs, and its tensor is made anew by the same TensorFlow op.  Nothing of the user's is called.
A kind of stage that is not known here is refused, never guessed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.probes.dataset_tf import name_of
from fitdoctor.rewrites import stages
from fitdoctor.rewrites.stages import every, inputs

Path = tuple[int, ...]
"""Where a stage is: which input to follow, from the end of the pipeline towards its sources."""


def paths(dataset: Any) -> Iterator[tuple[Path, Any]]:
    """Yield every stage and where it is, outermost first; a stage that is used twice only once."""
    seen: set[int] = set()

    def walk(stage: Any, path: Path) -> Iterator[tuple[Path, Any]]:
        if id(stage) in seen:
            return
        seen.add(id(stage))
        yield path, stage
        for place, below in enumerate(inputs(stage)):
            yield from walk(below, (*path, place))

    return walk(dataset, ())


def at(dataset: Any, path: Path) -> Any:
    """Return the stage at a place."""
    for place in path:
        dataset = inputs(dataset)[place]
    return dataset


def fresh(dataset: Any) -> Any:
    """Build a pipeline again as it is: orders and caches begin anew, those of the user's own stay untouched."""
    return changed(dataset, {})


def changed(dataset: Any, change: dict[str, Callable[[Any], dict[str, Any]]]) -> Any:
    """Build a pipeline again; stages of the kinds named get the attributes that `change` returns for them."""
    made: dict[int, Any] = {}

    def build(stage: Any) -> Any:
        if id(stage) not in made:
            below = [build(each) for each in inputs(stage)]
            more = change[name_of(stage)](stage) if name_of(stage) in change else {}
            made[id(stage)] = on_top(stage, below, **more) if below else stage
        return made[id(stage)]

    return build(dataset)


def replaced(dataset: Any, path: Path, stage: Any) -> Any:
    """Build everything above a place again, on top of `stage`."""
    if not path:
        return stage
    times: dict[int, int] = {}
    for each in every(dataset):
        times[id(each)] = times.get(id(each), 0) + 1
    above, below = [], dataset
    for place in path:
        above.append((below, place))
        below = inputs(below)[place]
    if any(times[id(each)] > 1 for each in (*(each for each, _ in above), below)):
        raise CannotRun("a stage above it is used twice", do="split the pipeline in the script")
    for each, place in reversed(above):
        others = inputs(each)
        others[place] = stage
        stage = on_top(each, others)
    return stage


UNCHANGED = frozenset({"Shuffle", "Repeat", "Take", "Skip", "Prefetch", "Shard", "Options"})
"""Stages that hand their elements on, whatever they are."""


def on_top(stage: Any, below: list[Any], **more: Any) -> Any:
    """Put a copy of a stage on top of other inputs of the same structure; `more` are attributes that differ."""
    make = stages.MAKERS.get(name_of(stage))
    if make is None or len(below) != len(inputs(stage)):
        raise CannotRun(f"a {name_of(stage)} of this pipeline cannot be built again", do="try it in the script")
    alike = all(own.element_spec == other.element_spec for own, other in zip(inputs(stage), below, strict=True))
    if not alike and name_of(stage) not in UNCHANGED:
        raise CannotRun(f"a {name_of(stage)} of this pipeline needs elements of another kind")
    copy = _shell(type(stage), stage)
    vars(copy).update(more)
    _place(copy, below)
    return _born(copy, make(copy, below, stage), stage)


def _shell(kind: type, stage: Any) -> Any:
    """Make an object that holds what a stage holds, without running any constructor."""
    copy: Any = object.__new__(kind)
    vars(copy).update({key: value for key, value in vars(stage).items() if not key.startswith("_self_")})
    return copy


def _place(copy: Any, below: list[Any]) -> None:
    tf = sys.modules["tensorflow"]
    held = vars(copy)
    if "_datasets" in held:
        held["_datasets"] = tf.nest.pack_sequence_as(held["_datasets"], below)
    if "_input_datasets" in held:
        held["_input_datasets"] = list(below)
        held["_dataset_to_concatenate"] = below[1]
    held["_input_dataset"] = below[0]


def _born(copy: Any, variant: Any, stage: Any) -> Any:
    """Run the constructor that all datasets share; keep where the user built the stage."""
    from tensorflow.python.data.ops.dataset_ops import DatasetV2

    kept = dict(vars(stage))
    DatasetV2.__init__(copy, variant)
    for key in kept:
        if key.startswith("_fitdoctor_"):
            vars(copy)[key] = kept[key]
    if name_of(stage) == "Options":
        own = copy._options_attr
        own._set_mutable(True)
        copy._options_attr = own.merge(stage._options_attr)
        copy._options_attr._set_mutable(False)
    return copy


def parallel_map(stage: Any, below: Any, calls: int, *, unbounded: bool = False) -> Any:
    """Put a map on top of `below` with its calls made several at a time; order as the user has it."""
    tf = sys.modules["tensorflow"]
    from tensorflow.python.data.ops.map_op import _ParallelMapDataset

    if below.element_spec != inputs(stage)[0].element_spec:
        raise CannotRun("the map needs elements of another kind")
    copy = _shell(_ParallelMapDataset, stage)
    held = vars(copy)
    held.setdefault("_deterministic", "default")
    held["_num_parallel_calls"] = tf.constant(calls, tf.int64)
    held["_use_unbounded_threadpool"] = unbounded or bool(held.get("_use_unbounded_threadpool"))
    _place(copy, [below])
    return _born(copy, stages.parallel_map(copy, [below], copy), stage)


def parallel_interleave(stage: Any, below: Any, calls: int, cycle: int | None = None) -> Any:
    """Put an interleave (or, with a cycle length, a flat_map) on top of `below`, reading several at a time."""
    tf = sys.modules["tensorflow"]
    from tensorflow.python.data.ops.dataset_ops import AUTOTUNE
    from tensorflow.python.data.ops.interleave_op import _ParallelInterleaveDataset

    copy = _shell(_ParallelInterleaveDataset, stage)
    held = vars(copy)
    if cycle is not None:
        held["_cycle_length"] = tf.constant(cycle, tf.int64)
    held.setdefault("_block_length", tf.constant(1, tf.int64))
    held["_buffer_output_elements"] = held["_prefetch_input_elements"] = tf.constant(AUTOTUNE, tf.int64)
    held["_num_parallel_calls"] = tf.constant(calls, tf.int64)
    _place(copy, [below])
    return _born(copy, stages.interleaved(copy, [below], "default"), stage)
