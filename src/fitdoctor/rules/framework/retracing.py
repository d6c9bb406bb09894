"""A compiled function is traced again and again.

## What is wrong

`tf.function` makes a graph for every new combination of argument types.  A Python number is a type of its own: a
counter, a learning rate or a probability passed as `int` or `float` means a new graph for every value.  So does every
new shape of a tensor, unless the function may leave sides open.  Tracing runs the Python of the step, builds the graph
and optimises it.  On JAX the same happens for every new value of an argument named in `static_argnums` or
`static_argnames`.

## How it is established

Every trace of the run is timed, with the line that called and what was new against the trace before: the argument, and
the shape or value it changed from and to.  What comes after the first steps, more than a few times, is tracing that was
not needed.  How often it will happen until the end is projected from how often it did in the first and in the second
half of what was watched: a counter never repeats itself, lengths between 10 and 60 do after a while.  The low end takes
it that all lengths were seen.  Where no step went without, the lab runs the step of a hand-written loop once more on
arguments it was traced for: what a step takes longer is what a new graph costs beside tracing.

Keras's own `fit` leaves sides of batches open once it has seen two shapes, so this is mostly a cause of hand-written
loops.

## What to do

Pass what changes as a tensor, `tf.constant(step)`, or keep it outside; give the function an `input_signature` whose
sides may vary, or `reduce_retracing=True`.  On JAX take the argument out of the static ones.  Results are the same.

## When it is not worth it

When a handful of shapes come once each (the last, smaller batch); when the value is really a switch with two or three
positions, which is what tracing by value is for.

## Example

    for step, (x, y) in enumerate(data):
        train_step(x, y, step)                  # slow: a trace per step
        train_step(x, y, tf.constant(step))     # fast
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor.edits import Wrap
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import spots
from fitdoctor.facts.source_tree import FoundCall, SourceFile, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.model import Cost, Fix, Gap, Site
from fitdoctor.rules import Absent, Clear, Verdict
from fitdoctor.rules.compiled_again import cost_of, told

_BY_VALUE = ("value", "object", "structure")
_OF_NUMBERS = frozenset({"abs", "float", "int", "max", "min", "pow", "round"})
_COUNTERS = ("range", "enumerate")


SUSPICION = "may trace again in every turn: a Python number that changes is given to a tf.function"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find calls of a `tf.function` that are given the counter of the loop they stand in."""
    for file in source.files:
        decorated = {name for name, node in file.functions.items() if _traced_by_value(file, node)}
        for call in file.calls_of(*decorated):
            if isinstance(call.node.func, ast.Name):
                counters = {name for loop in file.inside(call.node) for name in _counters(file, loop)}
                given = [*call.node.args, *(each.value for each in call.node.keywords)]
                if any(_is_counted(each, counters) for each in given):
                    yield call.site


def _traced_by_value(file: SourceFile, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    for decorator in function.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        options = {each.arg for each in decorator.keywords} if isinstance(decorator, ast.Call) else set()
        if file.resolve(target) == "tensorflow.function" and "input_signature" not in options:
            return True
    return False


def _is_counted(given: ast.expr, counters: set[str]) -> bool:
    """Tell whether an expression is a plain number that differs from turn to turn: made of a counter and numbers."""
    parts = list(ast.walk(given))
    names = {each.id for each in parts if isinstance(each, ast.Name)}
    numbers = all(isinstance(each.value, (int, float)) for each in parts if isinstance(each, ast.Constant))
    allowed = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Call, ast.operator, ast.unaryop, ast.Load)
    return (
        bool(names & counters)
        and names <= counters | _OF_NUMBERS
        and numbers
        and not any(not isinstance(each, allowed) for each in parts)
    )


def _counters(file: SourceFile, loop: ast.AST) -> list[str]:
    """Return the names that hold plain numbers in a loop: its counter, and what it adds to in every turn."""
    if not isinstance(loop, (ast.For, ast.While)):
        return []
    added = [
        each.target.id for each in loop.body if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name)
    ]
    return [*_turns(loop), *(name for name in added if _starts_as_number(file, name))]


def _starts_as_number(file: SourceFile, name: str) -> bool:
    values = [each.value for each in file.assigned.get(name, ())]
    return bool(values) and all(
        isinstance(each, ast.Constant) and isinstance(each.value, (int, float)) for each in values
    )


def _turns(loop: ast.For | ast.While) -> list[str]:
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return []
    made = loop.iter.func.id if isinstance(loop.iter.func, ast.Name) else ""
    target = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) and made == "enumerate" else loop.target
    return [target.id] if made in _COUNTERS and isinstance(target, ast.Name) else []


def measure(training: Training, model: StepModel) -> Verdict:
    """Project what tracing for new arguments takes to the whole training."""
    if training.backend == "torch":
        return Absent("torch traces nothing that is not compiled; recompiling judges what is")
    shapes = () if training.backend == "jax" else ("shape", "dtype")
    mine = [each for each in training.again if each.cause in (*_BY_VALUE, *shapes)]
    if mine:
        return [cost_of(each, training, model, f"traced for {told(each)}") for each in mine]
    unknown = [each for each in training.again if each.cause == "unknown"]
    if unknown and unknown[0].projected_s > model.noise * model.whole_s:
        raise MissingEvidence(
            Gap(
                "what changed between two traces",
                f"{unknown[0].name} was traced {unknown[0].count} times more and the capture does not say for what",
                "run it again with this version of fitdoctor",
            )
        )
    return Clear("after the first steps no function was traced again and again for other arguments")


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    argument = cost.evidence.get("argument") or "what changes"
    if cost.evidence.get("cause") in _BY_VALUE:
        title = f"pass {argument} as a tensor, or keep it outside of the compiled function"
        return Fix(title, "same", edits=_as_tensor(cost, source))
    return Fix(f"let the shape of {argument} vary: input_signature with None, or reduce_retracing=True", "same")


def _as_tensor(cost: Cost, source: SourceTree | None) -> tuple[Wrap, ...]:
    """Hand a number over as a tensor, where the function only computes with it and it is no whole number.

    A whole number may be a length or a place, which have to be plain; and as a tensor it no longer mixes with floats.
    """
    name, argument = str(cost.evidence.get("function")), str(cost.evidence.get("argument"))
    call = spots.call_at(source, cost.site, name)
    function = call.file.functions.get(name) if call is not None else None
    if call is None or function is None or not _traced_by_value(call.file, function):
        return ()
    order = _order(call, function)
    numbers = [str(cost.evidence.get(each)) for each in ("was", "now")]
    uses = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == argument]
    plain = argument in order and all(map(_fraction, numbers))
    if not plain or not all(_computes(call.file, node) for node in uses):
        return ()
    return (Wrap(spots.spot(call), argument, "tensorflow.constant({})", order=order),)


def _order(call: FoundCall, function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, ...]:
    """Return the parameters that a call may give by position; a method is given its object without saying so."""
    names = tuple(each.arg for each in (*function.args.posonlyargs, *function.args.args))
    called = call.node.func
    if names[:1] not in (("self",), ("cls",)) or not isinstance(called, ast.Attribute):
        return names
    by_class = isinstance(called.value, ast.Name) and called.value.id in call.file.classes
    return names if by_class and names[0] == "self" else names[1:]


def _fraction(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not text.lstrip("+-").isdigit()


def _computes(file: SourceFile, name: ast.Name) -> bool:
    around = file.parents.get(name)
    return isinstance(around, ast.BinOp) or (isinstance(around, ast.Call) and isinstance(around.func, ast.Attribute))
