"""Part of the model runs in Python on the host.

## What is wrong

NumPy inside `call`, `tf.numpy_function`, `tf.py_function` or `jax.pure_callback` take the numbers out of the compiled
step, hand them to Python, one thread of it, and take the result back.  The step waits meanwhile, and on a GPU the
numbers travel both ways.

## How it is established

The lab ran the layer alone on the very inputs it gets, forward and backward as in the step, and looked some hundred
times a second whether Python of yours ran, on any thread: in a compiled layer only such a function does.  On torch,
whose layers run op by op, only lines that call NumPy on the layer's inputs count.  In turns with it the lab timed one
pass of the framework's own over the same numbers (a multiplication and an addition, without what launching it takes).
What the function would take as operations of the framework is not known, so the saving is a range: as much as one such
pass at best, ten in the middle, thirty at worst.

## What to do

Write it with `keras.ops` (or the framework's own operations): nearly all of NumPy has the same names there.  Results
agree within floating-point tolerance.  Gradients then flow through it, which they did not through NumPy: put
`ops.stop_gradient` around it to learn exactly as now.

## When it is not worth it

`np.sqrt(self.size)` and the like are computed once, while the step is compiled: they cost nothing.  A function that
takes little of the step may stay.

## Example

    def call(self, x):
        return tf.numpy_function(lambda v: np.clip(v, -1, 1) ** 2, [x], tf.float32)    # slow
        return ops.square(ops.clip(x, -1, 1))                                          # fast
"""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from fitdoctor import units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.layers import EXPERIMENT, LayerCost, Layers, as_in_the_step, measured, outline
from fitdoctor.facts.layers import TRIAL as LAYERS
from fitdoctor.facts.source_tree import SourceFile, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Gap, Interval, Site, Trial
from fitdoctor.rules import INPUT_BOUND, Absent, Clear, Verdict

TRIAL = "one pass of the framework"
PASSES = (30, 10, 1)
"""How many passes over the numbers the framework's own operations may need: at worst, in the middle, at best."""
LEAST_PASS = 0.05
"""Share of the time of one pass, launched by itself, that is surely the pass."""
_CALLBACKS = frozenset(
    {"tensorflow.numpy_function", "tensorflow.py_function", "jax.pure_callback", "jax.experimental.io_callback"}
)
_FRAMEWORKS = ("torch.", "tensorflow.", "jax.", "keras.")
_SHAPES = frozenset({"shape", "ndim", "dtype", "rank", "len", "int_shape", "get_shape", "isinstance"})


SUSPICION = "may send every batch through Python on the host in the middle of the model"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find NumPy on the inputs of a layer's `call`, and functions that run Python in a graph."""
    for file in source.files:
        if "def call(" not in file.text or not any(
            word in file.text for word in ("numpy", "np.", "callback", "py_func")
        ):
            continue
        for node in file.nodes(ast.ClassDef):
            if any(name.split(".")[-1] in ("Layer", "Model") for name in file.bases(node)):
                yield from _in_class(file, node)


def _in_class(file: SourceFile, node: ast.ClassDef) -> Iterator[Site]:
    for function in _calls(node):
        names = _made_of(function)
        calls = [each for each in ast.walk(function) if isinstance(each, ast.Call)]
        for call in sorted(calls, key=lambda each: (each.lineno, each.col_offset)):
            if _on_host(file, call, names):
                yield file.site(call, "call")


def _calls(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "call"]


def _made_of(function: ast.FunctionDef) -> set[str]:
    """Return the names that hold the layer's inputs, or what was made of them."""
    known = {each.arg for each in (*function.args.args[1:], *function.args.kwonlyargs)}
    for node in _statements(function):
        if isinstance(node, ast.Assign) and _uses(node.value, known):
            known |= _targets(node)
    return known


def _statements(function: ast.FunctionDef) -> list[ast.stmt]:
    kinds = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr)
    return sorted((each for each in ast.walk(function) if isinstance(each, kinds)), key=lambda each: each.lineno)


def _targets(node: ast.Assign) -> set[str]:
    return {each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)}


def _host_statements(file: SourceFile, function: ast.FunctionDef) -> Iterator[Site]:
    """Yield the statements that work on arrays of NumPy: where they are made of the inputs, and what follows."""
    names, arrays = _made_of(function), set[str]()
    for statement in _statements(function):
        if any(_works_on(file, node, names, arrays) for node in ast.walk(statement)):
            yield file.site(statement)
            value = getattr(statement, "value", None)
            handed_back = isinstance(value, ast.Call) and file.resolve(value.func).startswith(_FRAMEWORKS)
            if isinstance(statement, ast.Assign) and not handed_back:
                arrays |= _targets(statement)


def _works_on(file: SourceFile, node: ast.AST, names: set[str], arrays: set[str]) -> bool:
    if isinstance(node, ast.Call):
        own = not file.resolve(node.func).startswith(_FRAMEWORKS)
        return _on_host(file, node, names) or (own and any(_uses(each, arrays) for each in node.args))
    return isinstance(node, ast.BinOp) and any(
        isinstance(side, ast.Name) and side.id in arrays for side in (node.left, node.right)
    )


def _uses(node: ast.AST, names: set[str]) -> bool:
    """Tell whether an expression reads the values of these names, not only their shapes."""
    if isinstance(node, ast.Attribute) and node.attr in _SHAPES:
        return False
    if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in _SHAPES:
        return False
    if isinstance(node, ast.Name):
        return node.id in names
    return any(_uses(child, names) for child in ast.iter_child_nodes(node))


def _on_host(file: SourceFile, call: ast.Call, names: set[str]) -> bool:
    name = file.resolve(call.func)
    if name in _CALLBACKS:
        return True
    if name.startswith("numpy."):
        return any(_uses(each, names) for each in (*call.args, *(keyword.value for keyword in call.keywords)))
    return isinstance(call.func, ast.Attribute) and call.func.attr == "numpy" and _uses(call.func.value, names)


def measure(
    training: Training, trials: Trials, model: StepModel, layers: Layers | None, source: SourceTree | None
) -> Verdict:
    """Weigh the time that Python runs in each such layer."""
    named: Mapping[str, str] = outline(training).get("host") or {}
    names = [name for name, kind in named.items() if source is None or _sites(source, kind) or _is_leaf(layers, name)]
    if not names:
        return Absent("no layer hands its numbers to Python")
    if training.info.get("run_eagerly"):
        return Clear("the step is not even compiled: eager-step judges that")
    if model.input_bound:
        return INPUT_BOUND
    costs = measured(layers, trials, model)
    found = [cost for name in names if (cost := _judged(name, training, trials, model, costs, source)) is not None]
    return found or Clear(f"{', '.join(names)} name NumPy, and none of their time was seen to go into Python")


def _judged(
    name: str, training: Training, trials: Trials, model: StepModel, costs: Layers, source: SourceTree | None
) -> Cost | None:
    here = costs.named(name)
    if here is None:
        reason = "it holds other layers, and only layers without any are timed alone"
        raise MissingEvidence(Gap(f"the time of {name}", reason, "put its NumPy part into a layer of its own"))
    trial = _trial(trials, here, name)
    if trial is None:
        return None  # too small to be tried
    classes = _classes(source, here.kind)
    sites = _sites(source, here.kind)
    lines: list[Mapping[str, Any]] = list(trial.detail.get("lines") or ())
    if training.backend == "torch":
        # Op by op the layer's own lines are on the stack all the time.
        hosts = [site for file, node in classes for each in _calls(node) for site in _host_statements(file, each)]
        lines = [each for each in lines if any(_led(site, each) for site in hosts)]
    share = min(1.0, sum(float(each["share"]) for each in lines))
    alone, one_pass = statistics.median(trial.baseline_ns) / 1e9, statistics.median(trial.changed_ns) / 1e9
    # Inside the step nothing is launched for a pass.
    one_pass = max(LEAST_PASS * one_pass, one_pass - _launch_s(trials))
    host = share * alone
    low, mid, high = ((host - passes * one_pass) * here.count for passes in PASSES)
    if mid <= 0:
        return None
    # What the step takes beside its layers is something else, or waiting for Python and back, which no layer alone has:
    # none of it, all of it, in the middle half.
    beside = share * max(0.0, 1 - costs.accounted.mid) * costs.step.mid
    gone = as_in_the_step(Interval(low, mid, high), here, trial)
    change = Change("work", costs.stays(Interval(gone.low, gone.mid + beside / 2, gone.high + beside)))
    whole = costs.share(as_in_the_step(Interval.exact(alone * here.count), here, trial))
    return Cost(
        saving=model.with_change(change).saving(),
        because=(
            f"{name} ({here.kind}) takes {units.percent(whole.mid)} of a step and runs Python for "
            f"{units.percent(share)} of that, {units.duration(host)} at a time; one pass of the framework over the "
            f"same numbers took {units.duration(one_pass)}"
        ),
        site=sites[0] if sites else _line(lines[0]),
        change=change,
        evidence={
            "layer": name,
            "class": here.kind,
            "host_share": share,
            "layer_ms": alone * 1e3,
            "one_pass_ms": one_pass * 1e3,
            "lines": [f"{each['path']}:{each['line']}" for each in lines],
        },
    )


def _trial(trials: Trials, here: LayerCost, name: str) -> Trial | None:
    for each in here.names:
        for trial in trials.trials:
            if trial.name == f"{TRIAL}: {each}" and trial.baseline_ns and trial.changed_ns:
                return trial
    for gap in trials.gaps:
        if gap.what in (f"experiment: {TRIAL}: {name}", f"experiment: {EXPERIMENT}"):
            raise MissingEvidence(gap)
    if here.seconds is None:
        raise MissingEvidence(Gap(f"the time of {name}", here.why, "give it more time with --budget"))
    return None


def _launch_s(trials: Trials) -> float:
    """Return the seconds that calling anything compiled takes by itself."""
    found = [float(trial.detail.get("launch_ns") or 0.0) for trial in trials.trials if trial.name == LAYERS]
    return found[0] / 1e9 if found else 0.0


def _classes(source: SourceTree | None, kind: str) -> list[tuple[SourceFile, ast.ClassDef]]:
    return [
        (file, node)
        for file in (source.files if source is not None else ())
        for node in ast.walk(file.tree)
        if isinstance(node, ast.ClassDef) and node.name == kind
    ]


def _sites(source: SourceTree | None, kind: str) -> list[Site]:
    return [site for file, node in _classes(source, kind) for site in _in_class(file, node)]


def _is_leaf(layers: Layers | None, name: str) -> bool:
    """Tell whether a layer was timed alone: of a model that only names NumPy its source tells enough."""
    return layers is not None and layers.named(name) is not None


def _led(site: Site, line: Mapping[str, Any]) -> bool:
    """Tell whether a statement led to a line: it is the line, or what called it."""
    path, number = line["from"]
    return str(path) == site.path and site.line <= int(number) <= (site.end_line or site.line)


def _line(line: Mapping[str, Any]) -> Site:
    return Site(str(line["path"]), int(line["line"]), None, line.get("symbol"))


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del cost, source
    return Fix("write it with keras.ops, in ops.stop_gradient where no gradient flowed before", "same")
