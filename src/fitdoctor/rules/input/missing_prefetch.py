"""Input and compute take turns.

## What is wrong

A `tf.data` pipeline without anything that works ahead prepares a batch only when the step asks for it.  While
it prepares, the model waits; while the model computes, the pipeline rests.  A step costs input + compute,
where `prefetch` would make it cost the longer of the two.

## How it is established

Both must hold:

- the pipeline, *as TensorFlow really runs it*, has nothing that works ahead;
- the step was measured to wait for input, one after the other with computing.

TensorFlow repairs most pipelines, so a missing `prefetch` in the source proves nothing.  Measured on
TensorFlow 2.21 with 10 ms of input and 10 ms of compute (about 11 ms a step: overlapped; about 22 ms: in
turns):

| pipeline | step |
|---|---|
| default options, whatever is last (map, batch, generator, shuffle, ...) | 11 ms, a prefetch is injected |
| `autotune.enabled = False`, or set on an inner dataset and not set again outside | 22 ms |
| `experimental_optimization.inject_prefetch = False` | 22 ms |
| `experimental_optimization.apply_default_optimizations = False` | 22 ms |
| the same with `inject_prefetch = True` besides | 11 ms |
| last operator `prefetch(0)`, default options | 22 ms, nothing more is injected |
| autotune off, but a map, batch or interleave with `num_parallel_calls` is last | 11 ms, also with 1 |
| autotune or injection off, `map(f).batch(n)` | 11 ms, both are fused and run ahead, Python in `f` too |
| the same with `apply_default_optimizations = False` | 22 ms, not fused |
| injection off, a stateless `map` is last | 11 ms, made parallel; 22 ms with autotune off |
| injection off, `prefetch` upstream with only batch, shuffle, repeat or take after it | 11 ms |
| injection off, `prefetch` upstream with a map that works after it | 22 ms |
| `enable_op_determinism()` and a stateful or Python map | 22 ms, *with* `prefetch` too (strict-determinism) |

## What to do

End the pipeline with `.prefetch(tf.data.AUTOTUNE)`, after `batch`; or stop turning off autotune or the
default optimisations.  The model sees the same batches in the same order.

## When it is not worth it

When the step does not wait for input; when every core is already busy (the low end of the predicted saving
counts the CPU seconds of a step against the cores); when a prefetched batch does not fit into memory.

## Without a run

`fitdoctor check --fix` adds `.prefetch(1)`, the smallest one that overlaps, where the source alone shows two things.
First, that nothing works ahead: the options of this very pipeline turn the default optimisations off, or the tuner
where no `map` stands right before a `batch`, and no call has `num_parallel_calls`.  Second, that the model sees the
same batches: all functions compute with TensorFlow from their arguments alone (no Python while it runs, no random
numbers but stateless ones, no variables).  Small trainings took as much CPU time with it as without, to within the 10 %
that could be told apart on a busy machine.

## Example

    options = tf.data.Options()
    options.autotune.enabled = False
    data = data.batch(32).with_options(options)                              # slow
    data = data.batch(32).prefetch(tf.data.AUTOTUNE).with_options(options)   # fast
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Arguments, Chain, Edit
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import spots
from fitdoctor.facts.input_pipeline import InputPipeline
from fitdoctor.facts.provable.functions import is_bound_once, library
from fitdoctor.facts.provable.stateless import is_stateless
from fitdoctor.facts.provable.straight import is_straight
from fitdoctor.facts.rewrites import AHEAD, believed
from fitdoctor.facts.source_tree import FoundCall, SourceFile, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import Absent, Clear, Verdict

_JUDGED_BY = {
    "arrays": "large-array-copy",
    "PyDataset": "idle-workers",
    "DataLoader": "idle-workers",
    "Grain": "idle-workers",
    "generator": "per-sample-generator",
}
"""The lab's name for the pipeline with a prefetch."""
_TUNER, _DEFAULTS = "autotune.enabled", "apply_default_optimizations"
_SWITCHES = frozenset({"inject_prefetch", _DEFAULTS})
_STILL = frozenset(
    f"tensorflow.data.{name}"
    for name in ("Dataset.from_tensor_slices", "Dataset.from_tensors", "Dataset.list_files", "Dataset.range",
                 "FixedLengthRecordDataset", "TFRecordDataset", "TextLineDataset")
)  # fmt: skip
"""Sources that give the same whenever they are read: no Python."""
_FUNCTIONS = {"map": "map_func", "filter": "predicate", "flat_map": "map_func", "interleave": "map_func"}
_UNTOUCHED = frozenset(
    {"batch", "cache", "enumerate", "padded_batch", "rebatch", "repeat", "shard", "shuffle", "skip", "take", "unbatch"}
) | _FUNCTIONS.keys()  # fmt: skip


SUSPICION = "may make input and compute take turns: no prefetch, and TensorFlow is told to add none"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find datasets given to `fit` without a prefetch, in files that turn TensorFlow's own repair off."""
    return (last.site for last, _ in _found(source))


def _found(source: SourceTree) -> Iterator[tuple[FoundCall, list[FoundCall]]]:
    """Yield the last call that makes such a dataset, and all of them with its options."""
    for file in source.files:
        if not _repair_off(file):
            continue
        for call in file.calls_of("fit"):
            data = call.argument(0, "x") if _is_fit(call) else None
            chain = file.chain(data) if data is not None else []
            last = next((each for each in reversed(chain) if _method(each) != "with_options"), None)
            if _from_tf_data(chain) and last is not None and _method(last) != "prefetch":
                yield last, chain


def provable(site: Site, source: SourceTree) -> Fix | None:
    """Add the smallest prefetch where nothing works ahead for sure, and nothing can tell when a batch was made."""
    last = spots.end_of_pipeline(source, site)
    chains = [chain for each, chain in _found(source) if last is not None and each.node is last.node]
    if last is None or not chains or not all(_takes_turns(chain) for chain in chains):
        return None
    made = [each for each in chains[0] if _method(each) != "with_options"]
    if not is_straight(made) or not _runs_any_time(made):
        return None
    return Fix("end the pipeline with .prefetch(1)", "same", edits=(Chain(spots.spot(last), ".prefetch(1)"),))


def _takes_turns(chain: list[FoundCall]) -> bool:
    """Tell whether a pipeline surely has nothing that works ahead, by its own options and calls (see the table)."""
    parallel = any(call.keyword("num_parallel_calls") is not None or len(call.node.args) > 1 for call in chain[1:])
    off = _turned_off(chain)
    names = [_method(each) for each in chain]
    fused = any(pair == ("map", "batch") for pair in itertools.pairwise(names))
    return not parallel and (_DEFAULTS in off or (_TUNER in off and not fused))


def _turned_off(chain: list[FoundCall]) -> set[str]:
    """Return what the options of this very pipeline turn off; nothing where that is not sure, or some is turned on."""
    given = [each for each in chain if _method(each) == "with_options"]
    named = [each.node.args[0] for each in given if len(each.node.args) == 1 and not each.node.keywords]
    if len(given) != 1 or len(named) != 1 or not isinstance(named[0], ast.Name):
        return set()
    file, options = given[0].file, named[0].id
    set_here = {node: name for node in file.nodes(ast.Assign) if (name := _switch(node, options)) is not None}
    sure = is_bound_once(file, options) and all(file.scope(node) is file.scope(given[0].node) for node in set_here)
    off = all(isinstance(node.value, ast.Constant) and node.value.value is False for node in set_here)
    return set(set_here.values()) if sure and off else set()


def _switch(node: ast.Assign, options: str) -> str | None:
    """Name what a statement sets of what TensorFlow's repair depends on."""
    for target in node.targets:
        words = ast.unparse(target)
        if words.startswith(f"{options}."):
            return next((name for name in (_TUNER, *_SWITCHES) if words.endswith(f".{name}")), None)
    return None


def _runs_any_time(made: list[FoundCall]) -> bool:
    """Tell whether a pipeline gives the same batches, now and later, when it is run a little ahead."""
    source, *rest = made
    names = [_method(each) for each in rest]
    if library(source.file, source.node.func) not in _STILL or not set(names) <= _UNTOUCHED:
        return False
    # One that begins anew by itself may draw the next epoch's order, ahead of a `fit` that does not get there.
    drawing = _method(source) == "list_files" or "shuffle" in names
    if drawing and "repeat" in names:
        return False
    functions = [each.argument(0, _FUNCTIONS[_method(each)]) for each in rest if _method(each) in _FUNCTIONS]
    return all(each is not None and is_stateless(source.file, each) for each in functions)


def _method(call: FoundCall) -> str:
    return call.name.rpartition(".")[2]


def _is_fit(call: FoundCall) -> bool:
    return isinstance(call.node.func, ast.Attribute) and call.node.func.attr == "fit"


def _from_tf_data(chain: list[FoundCall]) -> bool:
    return bool(chain) and (
        chain[0].name.startswith("tensorflow.data.") or chain[0].name.endswith("_dataset_from_directory")
    )


def _repair_off(file: SourceFile) -> bool:
    if not any(word in file.text for word in (*_SWITCHES, _TUNER)):
        return False
    for node in file.nodes(ast.Assign):
        if isinstance(node.value, ast.Constant) and node.value.value is False:
            for target in node.targets:
                if isinstance(target, ast.Attribute) and (
                    target.attr in _SWITCHES or ast.unparse(target).endswith("autotune.enabled")
                ):
                    return True
    return False


def measure(pipeline: InputPipeline, model: StepModel, trials: Trials | None) -> Verdict:
    """Predict what overlapping saves, where nothing works ahead and the step waits."""
    if pipeline.adapter != "tf.data":
        judge = _JUDGED_BY.get(pipeline.adapter)
        other = f"; {judge} judges that" if judge else ""
        return Absent(f"the input is {pipeline.adapter}, not tf.data{other}")
    ahead = pipeline.works_ahead() if pipeline.operators is not None else None
    if ahead is not None:
        return Clear(f"the next batch is prepared while the step computes, by {ahead}")
    if pipeline.options.get("op_determinism"):
        return Clear("op determinism makes a prefetch wait its turn too: strict-determinism judges that")
    model.need("input")
    wait = model.parts["input"]
    if model.works_ahead:
        return Clear("nothing in the pipeline works ahead, yet input passes while the step computes")
    change = Change("input", Interval.exact(1.0), overlap=True)
    # A rehearsal says how much; whether there is anything to overlap, what each side takes in the run says.
    if trials is not None and model.with_change(change).saving().low > model.noise:
        change = believed(trials, AHEAD, change, model)
    after = model.with_change(change)
    if pipeline.operators is None and after.saving().high > model.noise:
        raise MissingEvidence(
            Gap(
                "the operators of the pipeline",
                "the dataset could not be looked into",
                "pass the tf.data.Dataset itself to fit",
            )
        )
    return [
        Cost(
            saving=after.saving(),
            because=(
                f"nothing prepares the next batch while the step computes: each step waits "
                f"{units.duration(wait.mid)} for input and then computes "
                f"{units.duration(model.parts['compute'].mid)}"
            ),
            site=next((each.site for each in pipeline.operators or () if each.op != "Options"), None),
            change=change,
            evidence={
                "input_ms": wait.mid * 1e3,
                "compute_ms": model.parts["compute"].mid * 1e3,
                "step_ms": model.step.mid * 1e3,
                "predicted_step_ms": after.step.mid * 1e3,
                "operators": [each.op for each in pipeline.operators or ()],
                "options": dict(pipeline.options),
            },
        )
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    return Fix("end the pipeline with .prefetch(tf.data.AUTOTUNE)", "same", edits=_edits(cost, source))


def _edits(cost: Cost, source: SourceTree | None) -> tuple[Edit, ...]:
    site = cost.site or (spots.the_only(locate(source)) if source is not None else None)
    last = spots.end_of_pipeline(source, site)
    if last is None:
        return ()
    if _method(last) == "prefetch":
        give = (("buffer_size", "tensorflow.data.AUTOTUNE"),)
        return (Arguments(spots.spot(last), give, order=("buffer_size",)),)
    return (Chain(spots.spot(last), ".prefetch(tensorflow.data.AUTOTUNE)"),)
