"""A map runs one element at a time while cores are idle.

## What is wrong

A `map` without `num_parallel_calls` is called for one element after the other.  TensorFlow makes such maps parallel by
itself where it can prove that nothing depends on their order.  It does not where the function draws random numbers
with stateful ops (`tf.image.random_*`, `tf.random.*`), reads or writes variables or tables, or calls Python; nor where
the pipeline's options turn its optimisations or its tuner off.  Then one core works and the others wait.

## How it is established

The lab built the pipeline again with the very same traced function, several calls at a time (as many as TensorFlow
chooses, 2 and 4), compared what comes out with the original where it can be compared, and pulled batches in turns with
the pipeline as it is.  The gain of the step follows from the step model.

A map that waits rather than computes gains more from many more calls than there are cores: that is starved-reads.

## What to do

`num_parallel_calls=tf.data.AUTOTUNE`.  Elements come in the same order.  For a function without state the model sees
the same data; random numbers of stateful ops are given to other elements than before, and Python must be safe to be
called from several threads.

## When it is not worth it

When the step does not wait for input; when every core is busy already; when the function holds the GIL (python-map).
Stateless maps with default options: TensorFlow does it itself, measured on TensorFlow 2.21.

## Example

    data.map(augment).batch(32)                                            # slow: augment draws random numbers
    data.map(augment, num_parallel_calls=tf.data.AUTOTUNE).batch(32)       # fast
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.facts import spots
from fitdoctor.facts.input_pipeline import InputPipeline
from fitdoctor.facts.rewrites import SERIAL, STARVED, best, felt, gains, only_in_turns, waits
from fitdoctor.facts.source_tree import FoundCall, SourceFile, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.trials import Trials, rewrite
from fitdoctor.model import Cost, Fix, Safety, Site
from fitdoctor.rules import Absent, Clear, Verdict

_RANDOM = ("tensorflow.image.random_", "tensorflow.random.")
_STATEFUL = (*_RANDOM, "tensorflow.py_function", "tensorflow.numpy_function")


SUSPICION = "may run one element at a time: TensorFlow does not parallelise a map that draws random numbers by itself"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find maps without parallel calls whose function draws random numbers or calls Python."""
    for file in source.files:
        for call in file.calls_of("map"):
            # Python in a map takes turns however many calls run at once: python-map suspects that.
            if _is_serial(call) and _stateful(file, call, _STATEFUL if source.ran else _RANDOM):
                yield call.site


def _is_serial(call: FoundCall) -> bool:
    return (
        isinstance(call.node.func, ast.Attribute)
        and len(call.node.args) == 1
        and call.keyword("num_parallel_calls") is None
    )


def _stateful(file: SourceFile, call: FoundCall, names: tuple[str, ...]) -> bool:
    given = call.node.args[0]
    function = file.functions.get(given.id) if isinstance(given, ast.Name) else given
    if function is None:
        return False
    named = (file.resolve(node.func) or "" for node in ast.walk(function) if isinstance(node, ast.Call))
    return any(name.startswith(names) and "stateless" not in name for name in named)


def measure(pipeline: InputPipeline, trials: Trials, model: StepModel) -> Verdict:
    """Take the rate from the lab's rewrites and the gain of the step from the model."""
    if pipeline.adapter != "tf.data" or pipeline.operators is None:
        return Absent(f"the input is {pipeline.adapter}, not tf.data")
    if not any(each.op == "Map" for each in pipeline.operators):
        return Absent("no map of the pipeline is called for one element after the other")
    serial = [each for each in pipeline.operators if each.op == "Map" and not pipeline.made_parallel(each)]
    if not serial:
        return Clear("TensorFlow makes every map of the pipeline parallel by itself")
    model.need("input")
    if not felt(trials, model, rewrite(SERIAL)):
        return Clear("the step does not wait for input")
    found = gains(trials, model, SERIAL)
    if not found:
        return Clear("batches do not come faster with several calls at a time")
    chosen = best(found)
    if only_in_turns(trials, chosen):
        return Clear("one call at a time is in time if it runs while the step computes: missing-prefetch judges that")
    if waits(trials, model):
        return Clear(f"the map waits rather than computes: {STARVED} judges that")
    return [
        Cost(
            saving=chosen.saving,
            because=(
                f"a map is called for one element after the other; with {chosen.trial.detail.get('settings')} "
                f"a batch took {units.percent_range(chosen.ratio)} of the time"
            ),
            site=chosen.site,
            change=chosen.change,
            evidence={
                "code": chosen.code,
                "safety": chosen.trial.detail.get("safety"),
                "equal": chosen.trial.detail.get("equal"),
                "ratios": {str(each.trial.detail.get("settings")): each.ratio.mid for each in found},
            },
        )
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    code = str(cost.evidence.get("code") or ".map(f, num_parallel_calls=tf.data.AUTOTUNE)")
    site = cost.site or (spots.the_only(locate(source)) if source is not None else None)
    safety: Safety = "same" if cost.evidence.get("safety") == "same" else "may change"
    return Fix(f"write {code}", safety, edits=spots.as_written(source, site, code))
