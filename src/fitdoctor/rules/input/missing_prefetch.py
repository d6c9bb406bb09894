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

## Example

    options = tf.data.Options()
    options.autotune.enabled = False
    data = data.batch(32).with_options(options)                              # slow
    data = data.batch(32).prefetch(tf.data.AUTOTUNE).with_options(options)   # fast
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Arguments, Chain, Edit
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import spots
from fitdoctor.facts.input_pipeline import InputPipeline
from fitdoctor.facts.rewrites import believed
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
REWRITE = "rewrite: missing-prefetch [the next batch is prepared meanwhile]"
"""The lab's name for the pipeline with a prefetch."""
_SWITCHES = frozenset({"inject_prefetch", "apply_default_optimizations"})


SUSPICION = "may make input and compute take turns: no prefetch, and TensorFlow is told to add none"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find datasets given to `fit` without a prefetch, in files that turn TensorFlow's own repair off."""
    for file in source.files:
        if not _repair_off(file):
            continue
        for call in file.calls_of("fit"):
            data = call.argument(0, "x") if _is_fit(call) else None
            chain = file.chain(data) if data is not None else []
            last = next((each for each in reversed(chain) if _method(each) != "with_options"), None)
            if _from_tf_data(chain) and last is not None and _method(last) != "prefetch":
                yield last.site


def _method(call: FoundCall) -> str:
    return call.name.rpartition(".")[2]


def _is_fit(call: FoundCall) -> bool:
    return isinstance(call.node.func, ast.Attribute) and call.node.func.attr == "fit"


def _from_tf_data(chain: list[FoundCall]) -> bool:
    return bool(chain) and (
        chain[0].name.startswith("tensorflow.data.") or chain[0].name.endswith("_dataset_from_directory")
    )


def _repair_off(file: SourceFile) -> bool:
    if not any(word in file.text for word in (*_SWITCHES, "autotune.enabled")):
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
        change = believed(trials, REWRITE, change)
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
