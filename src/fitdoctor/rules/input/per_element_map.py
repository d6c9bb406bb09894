"""A cheap map is called for every element, where calling it once per batch would do.

## What is wrong

Handing an element to a function and taking the result back costs tf.data some ten microseconds, however little the
function does.  A `map` that casts or scales a small element before `batch` pays that for each of its elements; after
`batch` it would pay it once, and compute on all rows together.

## How it is established

The lab built the pipeline again with the batch first and the very function that TensorFlow traced turned into one for
whole batches (as it is where it treats every number alike, else by `tf.vectorized_map`: what is per element stays per
element), compared the batches with the original, and
pulled batches in turns with the pipeline as it is.  The gain of the step follows from the step model.

Tiny maps became 43 to 58 times as fast, a map with real work 1.0 times: there is no rule of thumb, it is measured.

## What to do

Batch first: `data.batch(32).map(f)` where `f` works on batches as it does on elements (casting, scaling, arithmetic),
else `data.batch(32).map(lambda *rows: tf.vectorized_map(lambda row: f(*row), rows))`.  Beware: `batch().map(f)` is
*wrong* where `f` reduces over a whole element (`tf.reduce_mean(x)` becomes the mean of the batch).  Floats may differ
in their last bit.

## When it is not worth it

When the step does not wait for input; when the function's own work is the cost; when elements differ in shape.

## Without a run

`fitdoctor check --fix` lets the two change places where the source alone shows that the batches stay the same, to the
bit, and come no later.  The function casts, clips, adds once and scales once (two multiplications may be drawn together
for a single number and not for a batch), one tensor at a time, with numbers that stand in the source.  An element is
seen to have at most 4,096 numbers (`Dataset.range`, arrays whose shape is written, MNIST, CIFAR): with 1 to 3,072 in
batches of 8 to 512 batches came 2.5 to 29 times as fast on two cores, with 150,528 hardly faster.  A script that sets
options of `tf.data` is left alone: without TensorFlow's own repair, a map at the end takes turns with the step.

## Example

    data.map(lambda x, y: (tf.cast(x, tf.float32) / 255.0, y)).batch(64)     # slow
    data.batch(64).map(lambda x, y: (tf.cast(x, tf.float32) / 255.0, y))     # fast
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Edit, Swap, Wrap
from fitdoctor.facts import spots
from fitdoctor.facts.input_pipeline import InputPipeline
from fitdoctor.facts.mapped import calls_in, functions, method, upstream
from fitdoctor.facts.provable.arithmetic import is_by_number
from fitdoctor.facts.provable.functions import stands_for
from fitdoctor.facts.provable.rows import row_size
from fitdoctor.facts.provable.straight import is_straight
from fitdoctor.facts.rewrites import best, felt, gains
from fitdoctor.facts.source_tree import FoundCall, SourceFile, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.trials import Trials, rewrite
from fitdoctor.model import Cost, Fix, Site
from fitdoctor.rules import Absent, Clear, Verdict

NAME = "per-element-map"
_MAPS = ("Map", "ParallelMap")
_BATCHES = ("Batch", "ParallelBatch")
_ROWS = frozenset({"tensorflow.data.Dataset.from_tensor_slices", "tensorflow.data.Dataset.range"})
_ALIKE = frozenset(
    f"tensorflow.{name}"
    for name in ("abs", "add", "cast", "clip_by_value", "divide", "exp", "math.log", "math.log1p", "maximum", "minimum",
                 "multiply", "sqrt", "square", "subtract", "tanh", "where")
)  # fmt: skip
_KEEPING = frozenset({"cache", "prefetch", "repeat", "shard", "shuffle", "skip", "take"})
"""What gives elements as it gets them."""
_TUNED = frozenset({"tensorflow.data.AUTOTUNE", "tensorflow.data.experimental.AUTOTUNE"})
_BATCHED = ("batch_size", "drop_remainder")
_SMALL = 4_096
"""Numbers in an element; a call takes longer than to calculate with so many."""


SUSPICION = "may cost more per element than its arithmetic: one call per batch would do"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find maps over rows in memory that only calculate number by number, before a batch; most others are fine."""
    for file in source.files:
        for call in file.calls_of("batch"):
            before = upstream(file, call)
            if before and before[0].name in _ROWS and method(before[-1]) == "map" and _by_number(file, before[-1]):
                yield before[-1].site


def _by_number(file: SourceFile, call: FoundCall) -> bool:
    """Tell whether a map's function is nothing but calculations that treat every number alike."""
    calls = calls_in(file, call)
    bodies = list(functions(file, call.node.args[0])) if call.node.args else []
    taken = any(isinstance(node, (ast.Subscript, ast.For, ast.While)) for body in bodies for node in ast.walk(body))
    return bool(calls) and not taken and all(file.resolve(node.func) in _ALIKE for node in calls)


def provable(site: Site, source: SourceTree) -> Fix | None:
    """Let map and batch change places where that is the same for sure, and elements are small."""
    call = spots.call_at(source, site, "map")
    batch = spots.next_in_chain(call, "batch") if call is not None else None
    if call is None or batch is None or not _plain(call, batch) or not is_by_number(call.file, call.node.args[0]):
        return None
    before = upstream(call.file, call)
    if not is_straight([*before, call, batch]) or any(method(each) not in _KEEPING for each in before[1:]):
        return None
    size = row_size(call.file, before[0].node)
    # With other options than TensorFlow's own, a map at the end may wait for its turn, or elements come in any order.
    if size is None or size > _SMALL or "Options" in call.file.text or "with_options" in call.file.text:
        return None
    return Fix(
        "batch first: the map is called once per batch", "same", edits=(Swap(spots.spot(call), spots.spot(batch)),)
    )


def _plain(call: FoundCall, batch: FoundCall) -> bool:
    """Tell whether both are given what is understood, and nothing else."""
    many = call.keyword("num_parallel_calls")
    tuned = many is None or stands_for(call.file, many) in _TUNED
    ours = len(call.node.args) == 1 and tuned and {each.arg for each in call.node.keywords} <= {"num_parallel_calls"}
    theirs = {each.arg for each in batch.node.keywords} <= {*_BATCHED}
    return ours and theirs and len(batch.node.args) <= len(_BATCHED)


def measure(pipeline: InputPipeline, trials: Trials, model: StepModel) -> Verdict:
    """Take the rate from the lab's rewrite and the gain of the step from the model."""
    if pipeline.adapter != "tf.data" or pipeline.operators is None:
        return Absent(f"the input is {pipeline.adapter}, not tf.data")
    names = [each.op for each in pipeline.operators]
    batch = next((place for place, name in enumerate(names) if name in _BATCHES), None)
    if batch is None or not any(name in _MAPS for name in names[batch:]):
        return Absent("no map comes before a batch")
    model.need("input")
    if not felt(trials, model, rewrite(NAME)):
        return Clear("the step does not wait for input")
    found = gains(trials, model, NAME)
    if not found:
        return Clear("batches do not come faster when the map is called once per batch")
    chosen = best(found)
    detail = chosen.trial.detail
    return [
        Cost(
            saving=chosen.saving,
            because=(
                f"a map is called for each of {detail.get('rows', 'many')} elements of a batch; called once per batch, "
                f"a batch took {units.percent_range(chosen.ratio)} of the time ({detail.get('equal')} to the original)"
            ),
            site=chosen.site,
            change=chosen.change,
            evidence={
                "code": chosen.code,
                "equal": detail.get("equal"),
                "compared": detail.get("compared"),
                "maps": detail.get("maps"),
            },
        )
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    code = str(cost.evidence.get("code") or ".batch(n).map(f)")
    title = f"batch first: {code}, or .map(f) where f takes whole batches"
    return Fix(title, "same", edits=_edits(cost, source, code))


def _edits(cost: Cost, source: SourceTree | None, code: str) -> tuple[Edit, ...]:
    """Swap the one map that was tried with the batch right after it."""
    call = spots.call_at(source, cost.site, "map")
    batch = spots.next_in_chain(call, "batch") if call is not None else None
    if call is None or batch is None or not call.node.args or cost.evidence.get("maps") != 1:
        return ()
    name, given = ast.unparse(call.node.args[0]), code.partition(".map(")[2].removesuffix(")")
    swap = Swap(spots.spot(call), spots.spot(batch))
    if given == name:
        return (swap,)
    around = re.sub(rf"\b{re.escape(name)}\b", "{}", spots.full(given))
    # A function without a name cannot be called on rows without being written anew.
    if not name.isidentifier() or around.count("{}") != 1:
        return ()
    return Wrap(spots.spot(call), "map_func", around, order=spots.ORDERS["map"]), swap
