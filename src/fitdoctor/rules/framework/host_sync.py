"""A result is read back after every step, so the host waits for the device and then the device for the host.

## What is wrong

On JAX, and on any backend with an accelerator, starting a step returns at once: Python could prepare the next batch
while the device computes.  `float(loss)`, `loss.item()` or `loss.numpy()` waits until the step is done.  Read after
every step, computing and preparing take turns.

## How it is established

The time blocked was measured at every line that reads a result, and the device's own time in sampled steps.  What a
read costs is *not* the time blocked there, most of which the device needs anyway: without it, a step takes as long as
the longer of computing and the rest, instead of their sum; on a CPU both need the same cores.  So, once enough was
watched, the lab runs the very step in turns with, and beside, as much work as the loop's own Python is.  On a CPU there
is no finding without that experiment.  `np.asarray(loss)` reads past Python on the CPU and is not seen.

## What to do

Keep the results as they are, and read them together every N steps: `losses.append(loss)`, later
`jax.device_get(losses)`.  The learning is the same.

## When it is not worth it

When Python does next to nothing between two steps, when the cores are busy already, or on a CPU with TensorFlow or
torch, where a step is done when its call returns.

## Example

    losses.append(float(loss))                                   # slow: every step
    losses.append(loss)                                          # fast
    if step % 100 == 99:
        print(np.mean(jax.device_get(losses[-100:])))
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Edit, Unwrap, Wrap
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import spots
from fitdoctor.facts.device_use import DeviceUse
from fitdoctor.facts.host_reads import HostReads, ReadLine
from fitdoctor.facts.host_use import HostUse
from fitdoctor.facts.provable.functions import is_bound_once
from fitdoctor.facts.source_tree import FoundCall, SourceFile, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import Absent, Clear, Verdict

_METHODS = frozenset({"item", "numpy", "block_until_ready"})
_FUNCTIONS = frozenset({"float", "int", "jax.device_get", "jax.block_until_ready"})
_BESIDE = ("input", "transfer", "callbacks", "other")
"""Parts of the step that could pass while the device computes."""
TRIAL = "Python beside the device"
CONTENTION = 1.1
"""Both sides on the same cores take at worst this much longer than their CPU seconds say."""


SUSPICION = "may make the device wait in every step: the result is read back right away"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find what a step returned, turned into a number right in the loop that makes the steps."""
    for file in source.files:
        if not any(word in file.text for word in ("step", "update", "apply")):
            continue  # nothing that may be a step
        results = {loop: _results(file, loop) for loop in file.loops}
        found = {
            node
            for loop in results
            if results[loop]
            for node in _always(loop.body)
            if isinstance(node, ast.Call) and _reads(file, node, results[loop])
        }
        yield from (file.site(node) for node in sorted(found, key=lambda node: (node.lineno, node.col_offset)))


def _always(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield what every turn of a loop runs: nothing under a condition, nothing of loops inside it."""
    queue: list[ast.AST] = list(body)
    while queue:
        node = queue.pop()
        yield node
        if not isinstance(node, (ast.If, ast.IfExp, ast.For, ast.While, ast.FunctionDef, ast.ClassDef, ast.Lambda)):
            queue.extend(ast.iter_child_nodes(node))


def _results(file: SourceFile, loop: ast.For | ast.While) -> frozenset[str]:
    """Return the names that a step's results are given in a loop."""
    names: set[str] = set()
    for node in _always(loop.body):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _is_step(file, node.value):
            names.update(each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name))
    return frozenset(names)


def _is_step(file: SourceFile, call: ast.Call) -> bool:
    """Tell whether a call may be a training step: a function of the user's own, or one named like it."""
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if name in file.functions and any(
        isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("apply", "apply_gradients", "stateless_apply")
        for node in ast.walk(file.functions[name])
    ):
        return True
    return "step" in name or "update" in name


def _reads(file: SourceFile, call: ast.Call, results: frozenset[str]) -> bool:
    if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS and not call.args:
        return isinstance(call.func.value, ast.Name) and call.func.value.id in results
    read = file.resolve(call.func) in _FUNCTIONS and len(call.args) == 1
    return read and isinstance(call.args[0], ast.Name) and call.args[0].id in results


def measure(
    training: Training,
    reads: HostReads,
    model: StepModel,
    trials: Trials,
    host: HostUse | None,
    devices: DeviceUse | None,
) -> Verdict:
    """Work out what a step would take if the device computed beside the rest of it."""
    if training.kind == "fit":
        return Absent("fit reads its own results; callbacks that make it wait are judged by themselves")
    if training.backend != "jax" and devices is None:
        return Absent(
            f"on the CPU a step of {training.backend} is done when its call returns: reading waits for nothing"
        )
    if training.backend == "torch":
        raise MissingEvidence(
            Gap("time blocked reading results", "it is not measured on torch", "try it: read the loss every 100 steps")
        )
    line = reads.waiting
    if line is None:
        return Clear("no result was seen to be read in every step")
    if "host" in model.gaps:
        return Clear(f"{model.gaps['host'].reason}: a result is there as soon as it can be read")
    model.need("compute")
    most = min(_beside(model), model.parts["compute"].mid)
    if most * model.planned_steps < model.noise * model.whole_s:
        return Clear(f"every step waits for its result, but only {units.duration(most)} could pass meanwhile")
    if devices is not None:
        return [_cost(line, model, _gain_beside_a_gpu(model, most, host), None)]
    # On a CPU, Python beside the computing slows it down: nobody knows how much without trying.
    ratio, _ = trials.ratio(TRIAL, experiment=TRIAL)
    gain = Interval(*((1 - each) * model.step.mid for each in (ratio.high, ratio.mid, ratio.low))).clip(0.0, most)
    return [_cost(line, model, gain, ratio)]


def _beside(model: StepModel) -> float:
    return sum(model.parts[part].mid for part in _BESIDE)


def _gain_beside_a_gpu(model: StepModel, most: float, host: HostUse | None) -> Interval:
    """Seconds per step that would pass while the device computes, as far as the host has a core for them."""
    if host is None or model.cpu_s is None or not model.cores:
        return Interval(0.0, most / 2, most)
    free = min(most, max(0.0, model.step.mid - CONTENTION * model.cpu_s / model.cores * host.crowding))
    return Interval(free, (most + free) / 2, most)


def _cost(line: ReadLine, model: StepModel, gain: Interval, tried: Interval | None) -> Cost:
    # The step model takes it from the largest part that would pass unseen.
    part = max(_BESIDE, key=lambda each: model.parts[each].mid)
    seconds = max(model.parts[part].mid, 1e-12)
    gone = gain.scale(1 / seconds).clip(0.0, 1.0)
    change = Change(part, Interval(1 - gone.high, 1 - gone.mid, 1 - gone.low))
    beside = _beside(model)
    told = (
        f"side by side a step was measured to take {units.percent_range(tried)} of its time"
        if tried is not None
        else "they could pass while the device computes"
    )
    return Cost(
        saving=model.with_change(change).saving(),
        because=(
            f"every step waits here for its result ({units.duration(line.blocked_s)}), and only then "
            f"{units.duration(beside)} of Python go on; {told}"
        ),
        site=line.site,
        change=change,
        evidence={
            "reads_per_step": line.per_step,
            "blocked_ms": line.blocked_s * 1e3,
            "compute_ms": model.parts["compute"].mid * 1e3,
            "beside_ms": beside * 1e3,
            "gain_ms": {"low": gain.low * 1e3, "mid": gain.mid * 1e3, "high": gain.high * 1e3},
            "tried": tried is not None,
        },
    )


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    title = "keep the results as they are and read them together every N steps"
    return Fix(title, "same", edits=tuple(_later(source, cost.site)) if source is not None else ())


def _later(source: SourceTree, site: Site | None) -> list[Edit]:
    """Keep what is appended to a list as the device has it, and read it where the list is looked at, now and then."""
    call = spots.call_at(source, site, "append")
    read = call.node.args[0] if call is not None and len(call.node.args) == 1 else None
    if call is None or not isinstance(read, ast.Call) or call.file.resolve(read.func) != "float":
        return []
    file, kept = call.file, call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
    loop = next((each for each in file.inside(call.node) if isinstance(each, (ast.For, ast.While))), None)
    if loop is None or not isinstance(kept, ast.Name) or not _reads(file, read, _results(file, loop)):
        return []
    # A buffer that is given away with a step must not be read after it.
    if "donate" in file.text or not is_bound_once(file, kept.id) or not _begins_empty(file, kept.id):
        return []
    uses = [node for node in file.nodes(ast.Name) if node.id == kept.id and isinstance(node.ctx, ast.Load)]
    edits: list[Edit] = [Unwrap(spots.spot(FoundCall(file, read, "float")), "x", order=("x",))]
    always = set(_always(loop.body))
    for use in uses:
        if use is kept:
            continue
        reader = _reader(file, use)
        if reader is None or reader.node in always or _empties(reader):
            return []
        if reader.name != "len":
            edits.append(Wrap(spots.spot(reader), "given", "[float(each) for each in {}]", order=("given",)))
    return edits


def _empties(reader: FoundCall) -> bool:
    """Tell whether a function of the file changes the list it is given, or one of a library may."""
    function = reader.file.functions.get(reader.name.rpartition(".")[2])
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)] if function is not None else []
    for node in ast.walk(function) if function is not None else ():
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.value, ast.Name):
            changes = isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load)
            if changes and node.value.id in names and node.value.id != "self":
                return True
    return reader.name.rpartition(".")[2] in ("shuffle", "heapify")


def _begins_empty(file: SourceFile, name: str) -> bool:
    value = spots.the_only(each.value for each in file.assigned.get(name, ()))
    return isinstance(value, ast.List) and not value.elts


def _reader(file: SourceFile, use: ast.Name) -> FoundCall | None:
    """Return the call that is given a list, or a part of it, as its first argument; None for any other use."""
    given: ast.AST = use
    around = file.parents.get(use)
    if isinstance(around, ast.Subscript) and around.value is use and isinstance(around.slice, ast.Slice):
        given, around = around, file.parents.get(around)
    if not isinstance(around, ast.Call) or not around.args or around.args[0] is not given:
        return None
    return FoundCall(file, around, file.resolve(around.func))
