"""A Python loop goes over arrays item by item.

## What is wrong

`for image in batch`, `[scale(row) for row in rows]`, two loops over the pixels of a picture: for every item the
interpreter runs some instructions and NumPy is called on something small.  One operation on the whole array does the
same hundreds of times as fast.

## How it is established

The lab made batches with the user's own code, alone, on one thread, and looked at that thread some hundred times a
second: which share of the time each loop takes, with all that is called from it.  In one more batch it counted the
instructions that ran there.  A loop is accused only if

- its items are NumPy's, or it takes items of arrays by their number (seen on the variables while it ran), and
- at least half of its time is what the interpreter and NumPy need for so many operations on arrays however small.

So a loop that decodes files, or works on large pictures one by one, is not: its time is spent in the calls it makes.

The saving is a range: at its low end half of what the operations take if each costs what NumPy's smallest one costs
here (some of those that were counted may be on plain numbers), or the interpreter's instructions if those are more; at
its high end the whole loop.  The gain of the step follows from the step model.

How much slower it makes the code it looks at was measured with Python 3.11 on two busy cores (medians of seven turns):
looks from another thread 2 to 10 %, `cProfile` 35 to 80 %, line events of `sys.settrace` 35 to 400 %, most in the very
loops in question.  So lines are sampled, and only counted under a trace.

## What to do

Write it on whole arrays: `batch / 255.0`, `batch.mean(axis=(1, 2))`, `np.where(...)`, fancy indexing instead of a loop
over indices.  The values are the same up to rounding of sums; check a batch with `np.testing.assert_allclose`.

## When it is not worth it

When the step does not wait for input; when the body is one call into a library that does the work in C.

## Example

    x = np.stack([(row - row.mean()) / row.std() for row in rows])                        # slow
    x = (rows - rows.mean(axis=1, keepdims=True)) / rows.std(axis=1, keepdims=True)       # fast
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.facts.loader import EXPERIMENT, HOT_LINES, HotLoop, Loader
from fitdoctor.facts.source_datasets import Function, datasets, generators, makes_batches, reached
from fitdoctor.facts.source_loops import calculates, loops_in, over_fields
from fitdoctor.facts.source_tree import SourceFile, SourceTree
from fitdoctor.facts.step_model import StepModel, input_change
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Interval, Site
from fitdoctor.rules import Clear, Verdict

_MOSTLY = 0.5
"""Share of a loop's time that must be the interpreter's and NumPy's cost per operation, not work in the calls."""


SUSPICION = "may spend most of a batch in the interpreter: a Python loop calculates item by item"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find loops that calculate with their items, in functions that make batches."""
    for file in source.files:
        if not any(word in file.text for word in ("__getitem", "__iter__", "yield")):
            continue
        found: list[ast.AST] = []
        for function in _makers(source, file):
            for node in loops_in(function):
                if not source.ran and over_fields(node):
                    continue
                inner = any(around in found for around in file.inside(node))
                if not inner and node not in found and calculates(file, node):
                    found.append(node)
        yield from (file.site(node) for node in sorted(found, key=lambda node: getattr(node, "lineno", 0)))


def _makers(source: SourceTree, file: SourceFile) -> list[Function]:
    """Return what makes items and batches: in a run every function that may, else those that a training is given."""
    if not source.ran:
        return [*makes_batches(file, datasets(file)), *generators(file)]
    every = [*file.functions.values()]
    yielding = {file.scope(node) for node in file.nodes(ast.Yield, ast.YieldFrom)}
    return reached(file, [each for each in every if each.name == "__getitem__" or each in yielding])


def measure(training: Training, loader: Loader, trials: Trials, model: StepModel) -> Verdict:
    """Weigh the loops over arrays by what they take of a batch."""
    model.need("input")
    if model.share("input").high <= model.noise:
        return Clear("the step does not wait for input")
    if loader.loops is None or loader.batch is None:
        trials.ratio(HOT_LINES, experiment=EXPERIMENT)
        return Clear("no batch was made")
    seconds = loader.batch.mid
    loops = [each for each in loader.loops if each.share > 0]
    if not loops:
        return Clear("no loop of the script's own takes time in making a batch")
    accused = [each for each in loops if each.arrays and each.small_s >= _MOSTLY * each.share * seconds]
    if not accused:
        most = loops[0]
        what = "goes over no arrays" if not most.arrays else "spends its time in the calls it makes"
        return Clear(f"the loop at {most.site} takes {units.percent(most.share)} of a batch and {what}")
    # Only TensorFlow makes batches on a thread of its own, beside the step.
    beside = model.without_loader_beside() if training.backend == "tensorflow" else ()
    return [_cost(each, seconds, model, beside) for each in accused]


def _cost(loop: HotLoop, seconds: float, model: StepModel, beside: tuple[Change, ...]) -> Cost:
    middle = min(loop.share, max(loop.python_s, loop.small_s) / seconds)
    # What an operation on a tiny array takes at least is a floor for those on arrays; some may be on single numbers.
    least = min(loop.share, max(loop.python_s, loop.small_s / 2) / seconds)
    change = input_change(Interval(1 - loop.share, 1 - middle, 1 - least), *beside)
    return Cost(
        saving=model.with_change(change).saving(),
        because=(
            f"the loop takes {units.percent(loop.share)} of the {units.duration(seconds)} that a batch takes, "
            f"at least {units.duration(loop.python_s)} of it in the interpreter itself; "
            f"each step waits {units.duration(model.parts['input'].mid)} for input"
        ),
        site=loop.site,
        change=change,
        evidence={
            "share": loop.share,
            "batch_ms": seconds * 1e3,
            "python_ms": loop.python_s * 1e3,
            "small_operations_ms": loop.small_s * 1e3,
        },
    )


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del cost, source
    return Fix("replace the loop by operations on whole arrays", "same")
