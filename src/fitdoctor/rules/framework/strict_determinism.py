"""Op determinism makes the step or its input take turns.

## What is wrong

`tf.config.experimental.enable_op_determinism()` (or `TF_DETERMINISTIC_OPS=1`) makes every run give the same bits.  For
that, kernels that add in any order are replaced by slower ones, XLA is no longer chosen by itself, and `tf.data` runs
stateful and Python functions one after the other.  It is meant for finding errors, and is often left on.

## How it is established

The lab trained the very model on one batch with and without it, in turns, and pulled batches from the very
pipeline with and without it.  No experiment, no finding.  On two cores without a GPU a dense net, a convolutional net,
and an embedding with an LSTM took 95, 104 and 95 % of their time without it, and batches through a `numpy_function` 94
to 99 %: on a machine that others used too, nothing that can be told from noise.

## What to do

Turn it on only where two runs have to agree bit for bit.  Seeds alone (`keras.utils.set_random_seed`) keep the random
numbers the same.  Results then differ in the last bits from run to run.

## When it is not worth it

When the experiment shows no gain, or when the bits matter more than the time.

## Example

    keras.utils.set_random_seed(1)
    tf.config.experimental.enable_op_determinism()      # slow, for some models and pipelines
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Remove
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import spots
from fitdoctor.facts.source_tree import SourceFile, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import Absent, Clear, Verdict

EXPERIMENT = "op determinism off"
LOADER = "loader without op determinism"
_SWITCH = "tensorflow.config.experimental.enable_op_determinism"
_VARIABLE = "TF_DETERMINISTIC_OPS"


SUSPICION = "may make the ops and the input of every step take turns"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find the switch, and the environment variable that does the same."""
    for file in source.files:
        yield from (call.site for call in file.calls(_SWITCH))
        yield from (file.site(node) for node in _assignments(file) if _sets_variable(file, node))


def _assignments(file: SourceFile) -> list[ast.Assign]:
    return file.nodes(ast.Assign) if _VARIABLE in file.text else []


def _sets_variable(file: SourceFile, node: ast.AST) -> bool:
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Subscript):
        return False
    target, value = node.targets[0], node.value
    named = isinstance(target.slice, ast.Constant) and target.slice.value == _VARIABLE
    on = isinstance(value, ast.Constant) and value.value not in ("0", "false", "")
    return named and on and file.resolve(target.value) == "os.environ"


def measure(training: Training, trials: Trials, model: StepModel, source: SourceTree | None) -> Verdict:
    """Take the gain of the step and of its input from the experiment."""
    if training.backend != "tensorflow":
        return Absent(f"it is a switch of TensorFlow, and {training.backend} trains")
    on = training.info.get("deterministic")
    if on is None and source is not None and next(locate(source), None) is not None:
        raise MissingEvidence(
            Gap(
                "what op determinism costs",
                f"it was not tried: experiments without it are made with fit, not with a {training.kind}",
                "time a few steps with and without it",
            )
        )
    if not on:
        return Absent("op determinism is off, as far as was seen")
    ratio, _ = trials.ratio(EXPERIMENT, experiment=EXPERIMENT)
    loader = _loader(trials)
    if ratio.mid >= 1 and (loader is None or loader.mid >= 1):
        return Clear(f"without op determinism a step took {units.percent_range(ratio)} of its time: no gain")
    faster = () if loader is None else (Change("input", loader.clip(0.0, 1.0)),)
    change = Change("work", ratio.clip(0.0, 1.0), also=faster)
    batches = f", making a batch {units.percent_range(loader)}" if loader is not None else ""
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=f"without op determinism a step took {units.percent_range(ratio)} of its time{batches}",
            change=change,
            evidence={
                "step": {"low": ratio.low, "mid": ratio.mid, "high": ratio.high},
                "batch": None if loader is None else {"low": loader.low, "mid": loader.mid, "high": loader.high},
            },
        )
    ]


def _loader(trials: Trials) -> Interval | None:
    try:
        return trials.ratio(LOADER, experiment=EXPERIMENT)[0]
    except MissingEvidence:
        return None


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del cost
    call = spots.the_only(source.calls(_SWITCH)) if source is not None else None
    line = spots.statement_of(call.file, call.node) if call is not None else None
    edits = (Remove(spots.start(call.file, line)),) if call is not None and line is not None else ()
    return Fix("turn op determinism on only where two runs have to agree bit for bit", "may change", edits=edits)
