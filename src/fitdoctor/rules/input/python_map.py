"""Python inside the pipeline keeps the step waiting.

## What is wrong

`tf.py_function` and `tf.numpy_function` call back into Python for every element.  Python runs one thread at a
time (the GIL), so parallel calls and prefetching do not make it faster once it takes longer than the step:
the model waits.

## How it is established

Every such function is timed inside the run: how long its calls took and how much CPU time its thread used.
The cost is that part of the *measured* input wait which the function's CPU time explains.  A function that
takes little CPU time for its duration waits for something else (a disk, a network), and where the lab saw batches come
faster with many calls at a time it is not held up by the GIL: that is starved-reads, not this.

The saving is a range: at its low end the same Python in as many processes as there are cores, within the CPU
time the step leaves free; at its high end the function costs nothing, as TensorFlow ops often nearly do.

## What to do

In this order: write it with TensorFlow ops; call Python once per batch instead of once per element (move the
map after `batch` and use NumPy on whole arrays); prepare the data once, offline; use worker processes
(`keras.utils.PyDataset(workers=…, use_multiprocessing=True)` or a Grain/torch loader).

## When it is not worth it

When the step does not wait for input: Python that finishes while the model computes is free.

## Example

    data.map(lambda x: tf.numpy_function(augment, [x], tf.float32)).batch(32)    # slow
    data.batch(32).map(augment_with_tf_ops)                                      # fast
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.input_pipeline import InputPipeline, PythonFunction
from fitdoctor.facts.mapped import functions
from fitdoctor.facts.rewrites import waits
from fitdoctor.facts.source_tree import SourceFile, SourceTree, is_own
from fitdoctor.facts.step_model import StepModel, input_change
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import Absent, Clear, Verdict

_CALLS = (
    "tensorflow.py_function",
    "tensorflow.numpy_function",
    "tensorflow.compat.v1.py_func",
    "tensorflow.compat.v1.numpy_function",
)
_KINDS = ("py_function", "numpy_function")
_TAKES_FUNCTION = frozenset({"map", "filter", "flat_map", "interleave", "map_with_legacy_function"})


SUSPICION = "may keep the step waiting: this Python runs in the pipeline, one call at a time"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find Python calls in functions that a dataset runs, and where it is given one of another file that makes them."""
    for file in source.files:
        taken = (call for call in file.calls_of(*_TAKES_FUNCTION) if call.node.args)
        yield from (call.site for call in taken if file.resolve(call.node.args[0]) in _CALLS)
        calls = list(file.calls(*_CALLS))
        mapped = _mapped(file) if calls else set()
        for call in calls:
            if any(around in mapped for around in file.inside(call.node)):
                yield call.site


def _mapped(file: SourceFile) -> set[ast.AST]:
    """Return the functions, lambdas and expressions handed to map and its like."""
    found: set[ast.AST] = set()
    for call in file.calls_of(*_TAKES_FUNCTION):
        if isinstance(call.node.func, ast.Attribute) and call.node.args:
            todo = [call.node.args[0], *functions(file, call.node.args[0])]
            while todo:
                body = todo.pop()
                if body not in found:
                    found.add(body)
                    called = (node.func for node in ast.walk(body) if isinstance(node, ast.Call))
                    todo += [each for name in called if is_own(name) for each in functions(file, name)]
    return found


def measure(pipeline: InputPipeline, model: StepModel, trials: Trials | None) -> Verdict:
    """Compare the Python time of each function with the measured wait."""
    functions = [each for each in pipeline.functions if each.kind in _KINDS]
    if not functions:
        if pipeline.adapter == "tf.data" or pipeline.operators:
            return Clear("no Python runs inside the pipeline")
        return Absent(f"the input is {pipeline.adapter}, not tf.data")
    model.need("input")
    wait = model.parts["input"].mid
    busy = [each for each in functions if each.cpu_step > 0]
    if wait <= 0 or not busy:
        return Clear("the step does not wait for input: the Python in the pipeline runs while the model computes")
    idle = all(each.cpu_step < 0.5 * each.wall_step for each in busy)
    names = ", ".join(each.name for each in busy)
    if idle and pipeline.options.get("op_determinism"):
        return Clear(f"{names} waits, and op determinism makes its calls take turns: strict-determinism judges that")
    if trials is not None and idle and waits(trials, model):
        return Clear(
            f"{names} waits for something other than Python, more calls at a time help: starved-reads judges it"
        )
    if model.cores is None:
        raise MissingEvidence(
            Gap(
                "usable cores",
                "the capture does not say how many cores the run may use",
                "run again with this fitdoctor",
            )
        )
    return [_cost(each, model, model.cores) for each in busy]


def _cost(function: PythonFunction, model: StepModel, cores: float) -> Cost:
    wait = model.parts["input"].mid
    # Time beyond the CPU time is waiting for the GIL while Python is the bottleneck, for something else if
    # not.
    taken = function.wall_step if function.cpu_step >= 0.5 * function.wall_step else function.cpu_step
    free = min(wait, taken)
    processes = min(free, function.cpu_step * (1 - 1 / max(1.0, cores)))
    if model.cpu_s is not None:
        processes = min(processes, max(0.0, model.step.mid - model.cpu_s / cores))
    stays = [1 - saved / wait for saved in (free, (free + processes) / 2, processes)]
    change = input_change(Interval(*stays), *model.without_loader_beside())
    share = function.cpu_each / function.wall_each if function.wall_each > 0 else 0.0
    return Cost(
        saving=model.with_change(change).saving(),
        because=(
            f"Python function {function.name} takes {units.duration(function.wall_step)} per step "
            f"({units.percent(min(1.0, share))} of it on the CPU, holding the GIL); "
            f"each step waits {units.duration(wait)} for input"
        ),
        site=function.site,
        change=change,
        evidence={
            "function": function.name,
            "calls": function.count,
            "wall_us_per_call": function.wall_each * 1e6,
            "cpu_us_per_call": function.cpu_each * 1e6,
            "python_ms_per_step": function.wall_step * 1e3,
            "input_ms_per_step": wait * 1e3,
            "cores": cores,
        },
    )


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del source
    name = cost.evidence.get("function", "the function")
    return Fix(
        f"write {name} with TensorFlow ops, or call it once per batch, or move it to worker processes",
        "may change",
    )
