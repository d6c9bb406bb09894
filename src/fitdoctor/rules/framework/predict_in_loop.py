"""`predict` or `evaluate` is called again and again on a few samples.

## What is wrong

`model.predict` and `model.evaluate` are made for much data: each call sets up an input pipeline, callbacks and a loop
over batches.  On a few samples that costs many times what the model itself takes.  Agents that ask their model for the
next action, and loops that look at one sample per step, pay it every time.

## How it is established

Every such call in the run was timed.  Once enough was watched, the lab made the last of them again, on the same few
samples, in turns with what could stand in its place: `model(x, training=False)` and `model.predict_on_batch(x)`, or
`model.test_on_batch(x, y)`.  The saving is the share of their time that the faster one does not need.  Without the
experiment there is no finding: which one is faster, and by how much, depends on the model.

## What to do

Call the model itself, `model(x, training=False)`, or `predict_on_batch`, whichever was measured to be faster.  If the
calls do not need each other's results, one call on all samples is better still.

## When it is not worth it

When each call gets many samples: then `predict` is the right tool.  Large models called op by op may be slower than
compiled; the experiment tells.

## Example

    action = model.predict(state[None], verbose=0).argmax()                                    # slow
    action = keras.ops.convert_to_numpy(model(state[None], training=False)).argmax()           # fast
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Arguments, Rename
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import spots
from fitdoctor.facts.short_calls import Repeated, ShortCalls
from fitdoctor.facts.source_tree import SourceFile, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.trials import CAPPED
from fitdoctor.model import Change, Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import Clear, Verdict

_CALLS = frozenset({"predict", "evaluate"})
_TRAINS = frozenset({"fit", "train_on_batch", "apply", "apply_gradients", "stateless_apply"})
_PREDICT = ("x", "batch_size", "verbose", "steps", "callbacks")
_TITLES = {
    "model(x)": "call the model itself: keras.ops.convert_to_numpy(model(x, training=False))",
    "predict_on_batch": "use model.predict_on_batch(x)",
    "test_on_batch": "use model.test_on_batch(x, y)",
}


SUSPICION = "may pay the fixed cost of a whole call in every turn of the training loop"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find `predict` and `evaluate` in the very loop that trains, or in a function that this loop calls."""
    for file in source.files:
        if not any(file.calls_of(*_CALLS)):
            continue
        loops = [loop for loop in _training_loops(file) if source.ran or _makes_steps(file, loop)]
        found = [node for loop in loops for node in _reached(file, loop) if _method(node) in _CALLS]
        yield from (file.site(node) for node in sorted(found, key=lambda node: node.lineno))


def _makes_steps(file: SourceFile, loop: ast.For | ast.While) -> bool:
    """Tell whether a turn of a loop is a step or one epoch, not a whole training (as for each fold of the data)."""
    trains = [node for node in _reached(file, loop) if _method(node) in _TRAINS]
    return any(
        _method(node) != "fit" or any(each.arg == "epochs" and file.constant(each.value) == 1 for each in node.keywords)
        for node in trains
    )


def _training_loops(file: SourceFile) -> Iterator[ast.For | ast.While]:
    for loop in file.loops:
        if any(_method(node) in _TRAINS for node in _reached(file, loop)):
            yield loop


def _reached(file: SourceFile, loop: ast.For | ast.While) -> list[ast.Call]:
    """Return the calls that each turn of a loop makes: its own, and those of the functions it names."""
    own = _calls(loop.body)
    functions = [
        function
        for node in own
        if isinstance(node.func, (ast.Name, ast.Attribute))
        and (function := file.functions.get(node.func.id if isinstance(node.func, ast.Name) else node.func.attr))
        is not None
    ]
    return own + [node for function in functions for node in _calls(function.body)]


def _calls(body: list[ast.stmt]) -> list[ast.Call]:
    """Return the calls in a body, without those of loops inside it."""
    found: list[ast.Call] = []
    queue: list[ast.AST] = list(body)
    while queue:
        node = queue.pop()
        if isinstance(node, ast.Call):
            found.append(node)
        if not isinstance(node, (ast.For, ast.While, ast.FunctionDef, ast.ClassDef)):
            queue.extend(ast.iter_child_nodes(node))
    return found


def _method(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def measure(calls: ShortCalls, model: StepModel) -> Verdict:
    """Take what the calls cost from the run, and what would stay of it from the experiment."""
    if not calls.groups:
        return Clear("neither predict nor evaluate was called many times from one line")
    few = [each for each in calls.groups if each.few]
    if not few:
        most = calls.groups[0]
        return Clear(f"{most.kind} was called {most.count} times, on {most.samples:.0f} samples each time")
    weight = model.elsewhere.get("short calls", 0.0) / (calls.total_s * model.whole_s) if calls.total_s > 0 else 0.0
    felt = [each for each in few if each.total_s * weight > model.noise]
    if not felt:
        share = units.percent(few[0].total_s * weight)
        return Clear(f"{few[0].count} calls of {few[0].kind} take {share} of the training")
    costs = [_cost(each, calls, model) for each in felt if each.alternatives]
    if not costs:
        raise MissingEvidence(felt[0].gap or _not_tried(felt[0], calls))
    return costs


def _not_tried(calls: Repeated, all_calls: ShortCalls) -> Gap:
    what = f"what could stand in the place of {calls.kind}"
    if all_calls.mode != "capped":
        return Gap(what, "experiments are made in capped runs only", CAPPED)
    if calls.samples is None:
        return Gap(what, "its input is no array: the call cannot be made again", "try model(x) in the script")
    return Gap(what, "the run ended before the experiment", "let it run longer, or give it more time with --budget")


def _cost(calls: Repeated, all_calls: ShortCalls, model: StepModel) -> Cost:
    best = calls.alternatives[0]
    share = calls.total_s / all_calls.total_s
    stays = best.ratio.clip(0.0, 1.0)
    # At the low end the calls themselves took no longer than the shortest mean that fits what was seen.
    shares = (share, share, share * calls.each.low / calls.each.mid)
    remaining = (1 - a * (1 - b) for a, b in zip(shares, (stays.low, stays.mid, stays.high), strict=True))
    # What a call leaves behind is cleared away after it, in the loop's own time: none of that, all, in the middle half.
    change = Change("short calls", Interval(*remaining), also=(Change("other", Interval(0.0, 0.5, 1.0)),))
    samples = f" on {calls.samples:.3g} samples" if calls.samples is not None else ""
    each = units.duration(calls.each.mid)
    return Cost(
        saving=model.with_change(change).saving(),
        because=(
            f"{calls.kind} is called {calls.count} times{samples} and takes {each} each time; "
            f"{best.name} took {units.percent_range(best.ratio)} of that"
        ),
        site=calls.site,
        change=change,
        evidence={
            "kind": calls.kind,
            "calls": calls.count,
            "samples_per_call": calls.samples,
            "ms_per_call": calls.each.mid * 1e3,
            "seconds": calls.total_s,
            "alternative": best.name,
            "ratios": {each.name: each.ratio.mid for each in calls.alternatives},
        },
    )


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    instead = str(cost.evidence["alternative"])
    call = spots.call_at(source, cost.site, "predict") if instead == "predict_on_batch" else None
    if call is None or any(each.arg is None for each in call.node.keywords):
        return Fix(_TITLES[instead], "same")
    place = spots.spot(call)
    # It takes one batch, and has nothing to say about it.
    fewer = Arguments(place, drop=("batch_size", "verbose", "steps", "callbacks"), order=_PREDICT)
    return Fix(_TITLES[instead], "same", edits=(fewer, Rename(place, instead)))
