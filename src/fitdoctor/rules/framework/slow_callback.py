"""A callback takes time away from the training.

## What is wrong

Callbacks run on the training thread: while one writes histograms, draws images, predicts a few samples or
just computes, no step runs.  A hook that runs every step needs little to cost much.

## How it is established

Every hook of every callback is timed in the run.  What a callback costs is its own time per call, projected
to the whole training, as a share of it; and, where the lab's steps without callbacks were shorter by more than
that, what they leave behind for the next step to pay.  Work that other rules judge is left out: saving
(frequent-checkpoint) and the progress bar (chatty-progress).  Callbacks that Keras runs on its own thread
beside the step do not count.

## What to do

Do it less often (every N steps, or once per epoch), do less, or remove it.

## When it is not worth it

When the low end of the saving is below what the run can tell from noise.  That a callback switches off
asynchronous dispatch for everyone is another cause: synchronous-callback.

## Example

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.seen.append(self.model.get_weights())        # slow: every step

        def on_epoch_end(self, epoch, logs=None):
            self.seen.append(self.model.get_weights())        # fast: once per epoch
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import replace

from fitdoctor import units
from fitdoctor.edits import Define
from fitdoctor.facts import spots
from fitdoctor.facts.callback_costs import CallbackCosts, HookCost, freed
from fitdoctor.facts.provable.functions import library
from fitdoctor.facts.source_tree import SourceFile, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Site
from fitdoctor.rules import Absent, Clear, Verdict

_OTHERS_JUDGE = frozenset({"ModelCheckpoint", "BackupAndRestore", "ProgbarLogger", "CallbackList"})
_BATCH_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
_HEAVY = frozenset(
    {"predict", "evaluate", "get_weights", "save", "save_weights", "savefig", "summary_plot", "histogram"}
)


_AFTER_BATCH = ("on_train_batch_end", "on_batch_end")
_PLAIN = frozenset({"abs", "dict", "enumerate", "float", "int", "len", "list", "max", "min", "sum", "tuple", "zip"})
_READING = frozenset({"copy", "flatten", "get_weights", "items", "max", "mean", "min", "ravel", "std", "sum", "tolist"})
"""Methods of weights and models that change nothing."""


_LOOPS = (ast.For, ast.While, ast.ListComp)


SUSPICION = "may hold up the training in every batch: this hook does heavy work"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find per-batch hooks that run the model, save, copy weights or draw."""
    for file in source.files:
        for node in file.nodes(ast.ClassDef):
            if any(_is_callback(name) for name in file.bases(node)):
                yield from _heavy_hooks(file, node)


def _is_callback(name: str) -> bool:
    return name.startswith("keras.callbacks.") or name.endswith("Callback")


def _heavy_hooks(file: SourceFile, node: ast.ClassDef) -> Iterator[Site]:
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name in _BATCH_HOOKS:
            for inner in ast.walk(method):
                called = inner.func if isinstance(inner, ast.Call) else None
                runs = isinstance(called, ast.Attribute) and called.attr == "model" and _is_self(called.value)
                if isinstance(called, ast.Attribute) and (called.attr in _HEAVY or runs):
                    yield file.site(inner, f"{node.name}.{method.name}")


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def measure(training: Training, callbacks: CallbackCosts, model: StepModel, trials: Trials | None) -> Verdict:
    """Project each callback's own time to the whole training."""
    if training.kind != "fit":
        return Absent(f"{training.kind} runs no callbacks")
    judged = [each for each in callbacks.costs if each.name not in _OTHERS_JUDGE]
    if not judged:
        beside = f" ({', '.join(callbacks.beside)} run beside it)" if callbacks.beside else ""
        return Clear(f"no callback of its own runs on the training thread{beside}")
    return [_cost(each, _change(each, callbacks, trials, model), model) for each in judged]


def _change(hook: HookCost, callbacks: CallbackCosts, trials: Trials | None, model: StepModel) -> Change:
    return replace(callbacks.without(hook, model), also=freed(hook, trials, model) if trials is not None else ())


def _cost(hook: HookCost, change: Change, model: StepModel) -> Cost:
    return Cost(
        saving=model.with_change(change).saving(),
        because=(
            f"{hook.name} takes {units.duration(hook.each.mid)} every {hook.rhythm} on the training thread "
            f"({', '.join(hook.hooks)})"
        ),
        site=hook.site,
        change=change,
        evidence={
            "callback": hook.name,
            "hooks": list(hook.hooks),
            "calls_seen": hook.count,
            "ms_per_call": hook.each.mid * 1e3,
            "training_s": hook.training_s.mid,
            "builtin": hook.builtin,
        },
    )


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    name = cost.evidence.get("callback", "the callback")
    if cost.change is None or cost.change.part != "callbacks":
        line = _predicts_in_turns(source, str(name), cost.evidence.get("hooks", ())) if source is not None else None
        if line is not None:
            once = f"call `predict` once on all samples, not in a loop (line {line}): each call has a fixed cost"
            return Fix(f"{once}; or let {name} work every few epochs", "same")
        return Fix(f"let {name} work every few epochs, or remove it", "same")
    found = _hook(source, str(name)) if source is not None else None
    if found is None:
        return Fix(f"let {name} work every N steps or once per epoch, or remove it", "same")
    file, hook = found
    batch = hook.args.args[1].arg
    edit = Define(spots.start(file, hook), "on_epoch_end", ((batch, "epoch"),) if batch != "epoch" else ())
    return Fix(f"let {name} work once per epoch: what it keeps is then kept per epoch", "same", edits=(edit,))


def _predicts_in_turns(source: SourceTree, name: str, hooks: Collection[str]) -> int | None:
    """Return the line on which a hook of a callback calls `predict` in every turn of a loop."""
    node = spots.the_only([file.classes[name] for file in source.files if name in file.classes])
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef)] if node is not None else []
    loops = [
        each for method in methods if method.name in hooks for each in ast.walk(method) if isinstance(each, _LOOPS)
    ]
    turns = [part for loop in loops for part in _every_turn(loop)]
    called = [inner for part in turns for inner in ast.walk(part) if isinstance(inner, ast.Call)]
    found = [each.lineno for each in called if isinstance(each.func, ast.Attribute) and each.func.attr == "predict"]
    return min(found, default=None)


def _every_turn(loop: ast.For | ast.While | ast.ListComp) -> Iterator[ast.AST]:
    """Yield what a loop does in every turn: what it goes through is made once."""
    if isinstance(loop, ast.ListComp):
        first, *inner = loop.generators
        yield from (loop.elt, *first.ifs, *inner)
    else:
        yield from loop.body
        if isinstance(loop, ast.While):
            yield loop.test


def _hook(source: SourceTree, name: str) -> tuple[SourceFile, ast.FunctionDef] | None:
    """Return the hook of a callback that only looks and keeps what it sees, whenever it is called."""
    named = [(file, file.classes[name]) for file in source.files if name in file.classes]
    found = spots.the_only(named)
    if found is None:
        return None
    file, node = found
    defined = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    hooks = [each for each in defined if each.name.startswith(("on_", "set_"))]
    only = spots.the_only(hooks)
    direct = any(_is_callback(file.resolve(base)) for base in node.bases) and len(node.bases) == 1
    if only is None or only.name not in _AFTER_BATCH or not direct or only.decorator_list:
        return None
    # Whoever calls the hook himself, or inherits it, counts on its name.
    called = any(each.attr == only.name for other in source.files for each in other.nodes(ast.Attribute))
    inherited = any(name in other.bases(each) for other in source.files for each in other.classes.values())
    return (file, only) if not called and not inherited and _only_looks(file, only) else None


def _only_looks(file: SourceFile, hook: ast.FunctionDef) -> bool:
    """Tell whether a hook reads weights, computes with NumPy and keeps what it got in attributes of its own."""
    arguments = hook.args
    if len(arguments.args) != 3 or arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs:
        return False
    given = {each.arg for each in arguments.args[1:]}
    for node in ast.walk(hook):
        if isinstance(node, ast.Name) and node.id in given:
            return False  # it asks which batch it is, or how that went
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load) and not _own(node):
            return False
        if isinstance(node, ast.Call) and not _looks(file, node.func):
            return False
        if isinstance(node, ast.AugAssign) and _own(node.target):
            return False  # it counts, and may act on every so manyth
        if isinstance(node, (ast.Global, ast.Nonlocal, ast.Delete, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await)):
            return False
    return True


def _own(node: ast.expr) -> bool:
    """Tell `self.name`, which is the callback's, from what belongs to others: `self.model.name`, `self.model`."""
    return isinstance(node, ast.Attribute) and _is_self(node.value) and node.attr not in ("model", "params")


def _looks(file: SourceFile, called: ast.expr) -> bool:
    """Tell whether a call changes nothing but what the callback keeps."""
    if isinstance(called, ast.Name):
        return called.id in _PLAIN and called.id not in file.functions
    if not isinstance(called, ast.Attribute):
        return False
    known = library(file, called)
    if known:
        return known.startswith("numpy.") and not known.startswith("numpy.random.")
    if called.attr in ("append", "extend"):
        return _own(called.value)
    return called.attr in _READING
