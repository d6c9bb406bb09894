"""A compiled function is made anew inside the loop.

## What is wrong

What `tf.function` has traced belongs to the object it returns, and what `jax.jit` has compiled to the very function it
was given.  Made anew on every turn of a loop (a decorated function inside a function, a `lambda` or `partial` that is
jitted, `model.compile()` before every `fit`), the same code is traced and compiled again each time, with nothing new
about its arguments.  `jax.jit(f)` in a loop is harmless as long as `f` is the same function.

## How it is established

Every trace and compilation is timed, with its line.  One that belongs to a new object although the same code was traced
before, for the same model, is one that was not needed.  A model that is trained for the first time is not counted:
its step has to be compiled.  Neither is a function made anew less often than once per epoch, as for the folds of a
cross-validation, each of which has a model of its own.

## What to do

Make the function once, before the loop: results are the same.  Call `compile()` once and change what changes by other
means (`optimizer.learning_rate = ...`, two models that share layers instead of one compiled in two ways): a `compile()`
also makes a new optimizer, which forgets its state, so results may change.

## When it is not worth it

When it is made a few times in a long run.

## Example

    for batch in data:
        update = jax.jit(lambda state: step(state, batch))      # slow: another function, compiled for every batch
        state = update(state)

    update = jax.jit(step)                                      # fast
    for batch in data:
        state = update(state, batch)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from fitdoctor.edits import Hoist
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import spots
from fitdoctor.facts.again import Again
from fitdoctor.facts.compile_log import CompileLog
from fitdoctor.facts.source_tree import FoundCall, SourceFile, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture, Change, Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import Absent, Clear, Verdict
from fitdoctor.rules.compiled_again import cost_of

_MAKERS = ("tensorflow.function", "jax.jit")
_LOOPS = (ast.For, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


SUSPICION = "may trace and compile again in every turn: what is compiled is made inside the loop"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find what makes a compiled function in a loop, and `compile`; not of a model that the loop makes too."""
    for file in source.files if source.trains else ():
        found = [*_made_in_loops(file), *_decorated_in_loops(file)]
        yield from sorted(found, key=lambda site: site.line)
    for call in source.compile_calls():
        loop = _loop(call.file, call.node)
        receiver = call.node.func
        while isinstance(receiver, ast.Attribute):
            receiver = receiver.value
        if loop is not None and not (isinstance(receiver, ast.Name) and receiver.id in _assigned(loop)):
            yield call.site


def place(source: SourceTree) -> Iterator[Site]:
    """Find the calls of `compile`."""
    return (call.site for call in source.compile_calls())


def _loop(file: SourceFile, node: ast.AST) -> ast.For | ast.While | None:
    """Return the loop of its own function that a node stands in."""
    inner = node
    for around in file.inside(node):
        # A decorator runs where its function is defined, not in it.
        if isinstance(around, (*_FUNCTIONS, ast.Lambda)) and inner not in getattr(around, "decorator_list", ()):
            return None
        if isinstance(around, _LOOPS):
            return around
        inner = around
    return None


def _made_in_loops(file: SourceFile) -> Iterator[Site]:
    for call in file.calls(*_MAKERS):
        loop = _loop(file, call.node)
        given = call.argument(0, "fun")
        same = isinstance(given, ast.Name) and loop is not None and given.id not in _assigned(loop)
        if loop is not None and not (call.name == "jax.jit" and same):
            yield call.site


def _decorated_in_loops(file: SourceFile) -> Iterator[Site]:
    for function in file.functions.values():
        for decorator in function.decorator_list:
            # With options it is a call, and found as one.
            if file.resolve(decorator) in _MAKERS and _loop(file, function) is not None:
                yield file.site(function, function.name)


def _assigned(loop: ast.For | ast.While) -> set[str]:
    """Return the names that a loop gives to what it makes."""
    functions = {node.name for node in ast.walk(loop) if isinstance(node, _FUNCTIONS)}
    names = {node.id for node in ast.walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return functions | names


def measure(training: Training, log: CompileLog, model: StepModel, capture: Capture) -> Verdict:
    """Project what compiling the same thing again takes to the whole training."""
    if training.backend == "torch":
        return _torch(log)
    mine = [each for each in training.again if each.cause == "rebuilt"]
    if not mine:
        return Clear("no function was seen to be compiled again and again with nothing new about its arguments")
    epochs = _epochs(capture, training)
    often = [each for each in mine if each.count + 1 >= epochs]
    if not often:
        return Clear(f"{mine[0].name} was made anew {mine[0].count} times in {epochs} epochs: not on every turn")
    return [_cost(each, training, model) for each in often]


def _torch(log: CompileLog) -> Verdict:
    if not log.entries:
        return Absent("torch runs op by op: nothing was compiled")
    raise MissingEvidence(
        Gap(
            "functions made anew",
            "torch tells that it compiled, not for which object",
            "look whether torch.compile stands in a loop",
        )
    )


def _epochs(capture: Capture, training: Training) -> int:
    seen = [capture.steps[call.id] for call in training.calls if call.id in capture.steps]
    return sum(len(set(steps.epoch.tolist())) for steps in seen)


def _cost(again: Again, training: Training, model: StepModel) -> Cost:
    if training.kind != "fit" or again.site is not None:
        return cost_of(again, training, model, "made anew and compiled again with nothing new about its arguments")
    cost = cost_of(again, training, model, "made anew and compiled again after another compile()")
    assert cost.change is not None
    # A `fit` after `compile` sets up more than one that goes on, and `compile` itself takes time before it: how much of
    # both that is, is not known.  All of it, none, or most: a `fit` that went on took 5 ms, 61 ms after `compile`
    # (corpus), and the script's own time between the calls went from 12 ms to 0.5.
    also = tuple(Change(part, Interval(0.0, 0.2, 1.0)) for part in ("calls", "between calls"))
    change = replace(cost.change, also=(*cost.change.also, *also))
    cost = replace(cost, change=change, saving=model.with_change(change).saving())
    # The line that called is `fit`; the one to edit is found in the source.
    return replace(cost, site=None, evidence={**cost.evidence, "compile": True})


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    if cost.evidence.get("compile"):
        calls = [call for call in (source.compile_calls() if source is not None else ()) if _loop(call.file, call.node)]
        title = "call compile() once, before the loop: the optimizer then keeps what it has learnt"
        return Fix(title, "may change", edits=_hoisted(source, spots.the_only(calls)))
    made = [call for call in (source.calls(*_MAKERS) if source is not None else ()) if _loop(call.file, call.node)]
    title = f"make {cost.evidence.get('function', 'the function')} once, before the loop"
    return Fix(title, "same", edits=_hoisted(source, spots.the_only(made)))


def _hoisted(source: SourceTree | None, call: FoundCall | None) -> tuple[Hoist, ...]:
    """Move the statement of a call before its loop, where nothing in it depends on the loop."""
    statement = call.file.parents.get(call.node) if call is not None else None
    if source is None or call is None or not isinstance(statement, (ast.Expr, ast.Assign)):
        return ()
    loop = spots.loop_of(call.file, statement)
    if loop is None:
        return ()
    bound = [name for name in ast.walk(loop) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)]
    own = {name.id for name in ast.walk(statement) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
    again = any([name.id for name in bound].count(each) > 1 for each in own)
    used = {name.id for name in ast.walk(statement) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load)}
    if again or used & spots.stored(loop) or _varied(source, call.file, loop, statement):
        return ()
    return (Hoist(spots.start(call.file, statement)),)


def _varied(source: SourceTree, file: SourceFile, loop: ast.For | ast.While, statement: ast.Expr | ast.Assign) -> bool:
    """Tell whether a turn of a loop may change what a statement works with, be it in a function that it names.

    What is traced once keeps the model that it saw; layers that are frozen or freed count from the next `compile` on.
    """
    stored = spots.stored(loop)
    places = [node for node in ast.walk(loop) if isinstance(node, (ast.Attribute, ast.Subscript))]
    set_here: list[ast.expr] = [node for node in places if not isinstance(node.ctx, ast.Load)]
    set_here += [held for node in ast.walk(loop) if (held := spots.changed(node)) is not None]
    attributes = {node.attr for node in set_here if isinstance(node, ast.Attribute)}
    own = [(file, statement), *spots.reached(source, file, statement)]
    for _, body in own:
        parts = list(ast.walk(body))
        bound = {node.arg for node in parts if isinstance(node, ast.arg)}
        bound |= {node.id for node in parts if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        free = {node.id for node in parts if isinstance(node, ast.Name)} - bound
        looked_at = {node.attr for node in parts if isinstance(node, ast.Attribute)}
        if free & (stored | {_root(node) for node in set_here} - {"self"}) or looked_at & attributes:
            return True
    drawn = any(_draws(file, node) for node in ast.walk(statement) if isinstance(node, ast.Call))
    return drawn or "trainable" in attributes or _said_before(file, loop, statement)


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _draws(file: SourceFile, call: ast.Call) -> bool:
    """Tell a call that gives something else each time: `next(rates)`, `rates.pop()`, a random number."""
    words = file.resolve(call.func).split(".")
    return words[-1] in ("next", "pop", "popleft", "choice", "uniform", "randint") or "random" in words


def _said_before(file: SourceFile, loop: ast.For | ast.While, statement: ast.stmt) -> bool:
    """Tell whether what comes before a statement in its loop has to do with the same objects."""
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)} - set(file.aliases)
    before = loop.body[: loop.body.index(statement)]
    return any(isinstance(node, ast.Name) and node.id in names for each in before for node in ast.walk(each))
