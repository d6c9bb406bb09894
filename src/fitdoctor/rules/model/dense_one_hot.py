"""Targets are one-hot rows where class numbers would do.

## What is wrong

A one-hot row of many classes is a row of zeros that is stored, fetched, copied to the device and multiplied with the
prediction.  `sparse_categorical_crossentropy` takes the number of the class and computes the same loss.

## How it is established

The lab trained the very model with class numbers and the sparse loss, in turns with its own targets; on the user's own
arrays where he passes arrays, so that fetching counts too.  Arrays in another precision (`to_categorical` makes rows of
64 bits) are cast as a whole at the beginning of every epoch: that was tried with both kinds of targets as well.

## What to do

Leave out `to_categorical` (or take `argmax` once) and use the sparse loss, and the sparse form of metrics
(`accuracy` chooses by itself).  The loss is the same up to rounding.

## When it is not worth it

With few classes.  With label smoothing or soft targets there is no sparse form.

## Example

    model.compile("adam", "categorical_crossentropy")           # slow
    model.fit(x, keras.utils.to_categorical(y, 10_000))
    model.compile("adam", "sparse_categorical_crossentropy")    # fast
    model.fit(x, y)
"""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Arguments, Edit, Unwrap
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import spots
from fitdoctor.facts.source_tree import FoundCall, SourceFile, SourceTree
from fitdoctor.facts.step_model import StepModel, stays
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Site
from fitdoctor.rules import INPUT_BOUND, Absent, Clear, Verdict

EXPERIMENT = "class numbers as targets"
_LOSSES = ("categorical_crossentropy", "CategoricalCrossentropy")
_MANY = 1000
"""Classes from which on a row of targets is longer than most inputs."""
_MAKERS = ("keras.utils.to_categorical", "tensorflow.keras.utils.to_categorical")


SUSPICION = "may move and compute long rows of zeros: class numbers would do as targets"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find one-hot targets of very many classes; with few classes they are free."""
    for file in source.files if any(_takes_one_hot(call) for call in source.compile_calls()) else ():
        for call in file.calls(*_MAKERS):
            classes = file.constant(call.argument(1, "num_classes"))
            if isinstance(classes, int) and classes >= _MANY:
                yield call.site


def _takes_one_hot(call: FoundCall) -> bool:
    loss = call.argument(1, "loss")
    name = call.file.resolve(loss.func if isinstance(loss, ast.Call) else loss) if loss is not None else ""
    return (call.file.constant(loss) or name.rpartition(".")[2]) in _LOSSES


def place(source: SourceTree) -> Iterator[Site]:
    """Find where one-hot targets are made, else where the loss is chosen."""
    made = [call.site for file in source.files for call in file.calls(*_MAKERS)]
    yield from made or (call.site for call in source.compile_calls())


def measure(training: Training, trials: Trials, model: StepModel) -> Verdict:
    """Take the gain from the experiment."""
    loss = training.info.get("loss")
    if training.kind != "fit" or loss not in _LOSSES:
        return Absent("the loss does not take one-hot targets")
    ratio, trial = trials.ratio("sparse targets", experiment=EXPERIMENT)
    with_input = bool(trial.detail.get("arrays"))
    if model.input_bound and not with_input:
        return INPUT_BOUND
    between = _between(training, trials, model)
    if ratio.mid >= 1 and not between:
        return Clear("with class numbers as targets a step was measured to take just as long")
    # Where the targets are an array, what was tried held fetching them too.
    change = Change("step" if with_input else "work", ratio.clip(0.0, 1.0), also=between)
    classes = trial.detail.get("classes")
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"with class numbers instead of one-hot rows of {classes:,} a step took "
                f"{units.percent_range(ratio)} of its time"
                + (f", and the time between epochs {units.percent_range(between[0].remaining)}" if between else "")
            ),
            change=change,
            evidence={"classes": classes, "ratio": {"low": ratio.low, "mid": ratio.mid, "high": ratio.high}},
        )
    ]


def _between(training: Training, trials: Trials, model: StepModel) -> tuple[Change, ...]:
    """Return what becomes of the time between epochs: rows in another precision are cast anew in every epoch."""
    try:
        ratio, trial = trials.ratio("epoch begun on sparse targets", experiment=EXPERIMENT)
    except MissingEvidence:
        return ()
    now = model.elsewhere.get("between epochs", 0.0) / max(1, training.epochs)
    if now <= 0 or ratio.mid >= 1:
        return ()
    return (Change("between epochs", stays(ratio, statistics.fmean(trial.baseline_ns) / 1e9, now)),)


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del cost
    title = "pass class numbers and use sparse_categorical_crossentropy"
    return Fix(title, "same", edits=tuple(_sparse(source)) if source is not None else ())


def _sparse(source: SourceTree) -> Iterator[Edit]:
    """Leave the class numbers as they are, where nothing but `fit` is given the rows that are made of them."""
    compiled, made = spots.the_compile(source), spots.the_only(source.calls(*_MAKERS))
    fit = spots.the_only(call for call in source.calls_of("fit") if call.argument(1, "y") is not None)
    if compiled is None or made is None or fit is None or made.file is not fit.file:
        return
    loss, metrics = compiled.argument(1, "loss"), compiled.argument(3, "metrics")
    plain = isinstance(loss, ast.Constant) and loss.value == "categorical_crossentropy"
    if not plain or not _take_both(metrics) or compiled.keyword("weighted_metrics") is not None:
        return
    others = ("validation_data", "class_weight")
    if any(each.arg is None for each in fit.node.keywords) or any(
        fit.argument(spots.FIT.index(each), each) is not None for each in others
    ):
        return
    if _is_list(made.file, made.argument(0, "x")):
        return
    if any(source.calls_of("evaluate", "train_on_batch", "test_on_batch")):
        return
    if _only_for(fit.argument(1, "y"), made):
        yield Unwrap(spots.spot(made), "x", order=("x",))
        yield Arguments(spots.spot(compiled), (("loss", '"sparse_categorical_crossentropy"'),), order=spots.COMPILE)


def _is_list(file: SourceFile, given: ast.expr | None) -> bool:
    """Tell whether the class numbers are a plain list, which `fit` does not take."""
    if isinstance(given, ast.Name):
        before = [each for each in file.assigned.get(given.id, ()) if each.line < given.lineno]
        last = max(before, key=lambda each: each.line).value if before else None
        return last is not None and last is not given and _is_list(file, last)
    if isinstance(given, ast.Call):
        return file.resolve(given.func).rpartition(".")[2] in ("list", "tolist", "sorted", "map")
    return given is None or isinstance(given, (ast.List, ast.ListComp, ast.Tuple, ast.GeneratorExp))


def _take_both(metrics: ast.expr | None) -> bool:
    """Tell whether Keras chooses the metrics by the targets it sees."""
    if metrics is None:
        return True
    named = metrics.elts if isinstance(metrics, (ast.List, ast.Tuple)) else [metrics]
    return all(isinstance(each, ast.Constant) and each.value in ("accuracy", "acc") for each in named)


def _only_for(target: ast.expr | None, made: FoundCall) -> bool:
    """Tell whether the rows are made for this argument and used nowhere else."""
    if target is made.node:
        return True
    statement = made.file.parents.get(made.node)
    if not isinstance(target, ast.Name) or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    named = statement.targets[0]
    uses = [node for node in made.file.nodes(ast.Name) if node.id == target.id]
    return isinstance(named, ast.Name) and len(uses) == 2 and named in uses and target in uses
