"""Several calls of a map at a time, where TensorFlow does not make them by itself."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any

from fitdoctor.probes.dataset_tf import name_of
from fitdoctor.probes.input_tf_built import built
from fitdoctor.rewrites import purity
from fitdoctor.rewrites.candidates import ANY_ORDER, IN_ORDER, Candidate, Refusal, Seen
from fitdoctor.rewrites.datasets import Path, at, fresh, parallel_map, paths, replaced
from fitdoctor.rewrites.stages import inputs

RULE = "serial-map"
AUTOTUNE = -1
TRIED = (AUTOTUNE, 2, 4)


def candidates(dataset: Any, seen: Seen) -> Iterator[Candidate | Refusal]:
    """Offer it for maps that hold state or Python, and for all maps where the options turn TensorFlow's own off."""
    del seen
    for path, stage in paths(dataset):
        if name_of(stage) != "Map":
            continue
        contents = purity.of_stage(stage)
        if not contents.marked and _made_parallel(dataset.options()):
            yield Refusal(RULE, "TensorFlow calls this map several times at once by itself")
        elif stage._force_synchronous:
            yield Refusal(RULE, "the script asks for a map that runs in the thread that reads it")
        elif contents.marked and _one_by_one():
            yield Refusal(RULE, "op determinism makes calls of this map wait for each other")
        else:
            yield from _candidates(dataset, path, stage, contents)


def _candidates(dataset: Any, path: Path, stage: Any, contents: purity.Contents) -> Iterator[Candidate]:
    for calls in TRIED:
        number = "tf.data.AUTOTUNE" if calls == AUTOTUNE else str(calls)
        yield Candidate(
            rule=RULE,
            path=path,
            op="Map",
            site=built(stage),
            settings="as many calls at a time as it tunes itself to"
            if calls == AUTOTUNE
            else f"{calls} calls at a time",
            code=f".map({name_of_function(stage)}, num_parallel_calls={number})",
            promise=ANY_ORDER if purity.reorders(dataset) else IN_ORDER,
            safety="same" if contents.pure else "may change",
            apply=functools.partial(with_calls, path=path, calls=calls),
        )


def with_calls(dataset: Any, *, path: Path, calls: int, unbounded: bool = False) -> Any:
    """Build a pipeline again with so many calls at a time of the map at a place."""
    dataset = fresh(dataset)
    stage = at(dataset, path)
    return replaced(dataset, path, parallel_map(stage, inputs(stage)[0], calls, unbounded=unbounded))


def name_of_function(stage: Any) -> str:
    """Return the name under which the user wrote the function of a stage."""
    name = getattr(getattr(stage, "_map_func", None), "_func", None)
    found = str(getattr(name, "__name__", "f"))
    return found if found.isidentifier() else "f"


def _made_parallel(options: Any) -> bool:
    """Tell whether TensorFlow makes stateless maps parallel by itself."""
    said = options.experimental_optimization.map_parallelization
    wanted = said if said is not None else options.experimental_optimization.apply_default_optimizations is not False
    return options.autotune.enabled is not False and bool(wanted)


def _one_by_one() -> bool:
    config: Any = sys.modules["tensorflow.python.framework.config"]
    return bool(config.is_op_determinism_enabled())
