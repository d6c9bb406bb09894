"""Steps take longer and longer.

## What is wrong

Something accumulates: a list that a callback or the loop goes through as a whole after every batch, arrays
concatenated to all arrays before them, results kept with everything they were computed from, a plot drawn with all
points so far.  Each step pays for all steps before it, so twice the steps take four times as long.

On PyTorch there is another way: numbers that fade away (Adam's mean of squared gradients, where gradients vanish) end
below 1e-38, as denormal numbers, on which a processor takes some operations slowly.

## How it is established

Steps are watched one by one and split into their parts.  For each part that runs in Python (fetching, callbacks,
reading results, the loop's own code, and the step itself where it runs op by op) the slope over the run is taken: the
median over all pairs of blocks of steps (Theil and Sen), with its interval at three sigmas.  A machine that becomes
slower makes all parts longer alike: only what a part grows beyond the rest of the step counts.  What fetches or
computes may take longer because later data is larger; that is told from growth by a second epoch, and stays unknown
without one.  A compiled step is not looked at: it does what it was compiled to do.

The saving is what the steps that were watched would have saved.  As it goes on growing, the whole training saves more:
how much more is not claimed.

On PyTorch, where a part of the weights or of the optimizer's own numbers is denormal, the lab trains the very model
with and without `torch.set_flush_denormal(True)`, in turns, on one thread and from the same state.  Measured in turns
with torch 2.13 on one core of an AMD EPYC that others used too, as CPU time: a square root of denormal numbers took 35
times as long; adding, multiplying and matrix products took no longer.  With Adam's mean of squares set to such numbers
a step took 40 to 62 % of its time with the switch on; with its mean of gradients or the momentum of SGD set to them, no
gain could be told from noise; 24 sigmoid layers, as they were after 20 steps (4 % denormal), took 78 to 89 %.

## What to do

Keep running sums instead of lists, look at the last N values only, or do it once per epoch.  Call
`keras.backend.clear_session()` between models that are built in one process.  Results are the same.  For denormal
numbers call `torch.set_flush_denormal(True)` at the very start: threads that run already do not hear of it.  Only
numbers below 1e-38 change; gradients that vanish are a reason to look at the model too.

## When it is not worth it

When the growth is below what the run can tell from noise.

## Example

    self.losses.append(logs["loss"])
    self.smooth = np.convolve(self.losses, window)[-1]                  # slow: all losses, after every batch
    self.smooth = np.dot(self.losses[-len(window):], window)            # fast: the last few
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.callback_costs import CallbackCosts
from fitdoctor.facts.growth import Growth
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import SMALLEST_PROVABLE, StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import Clear, Verdict

DENORMALS = "denormals flushed"
_OF_DATA = frozenset({"input", "work"})
"""Parts that larger data makes longer."""
_WORDS = {
    "input": "fetching a batch",
    "callbacks": "what callbacks do after a batch",
    "sync": "reading results",
    "other": "the loop's own code",
    "work": "the step itself, which runs op by op,",
}


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: what accumulates looks like anything else."""
    del source
    return iter(())


def measure(
    training: Training,
    growth: Growth,
    model: StepModel,
    callbacks: CallbackCosts | None,
    trials: Trials | None,
    source: SourceTree | None,
) -> Verdict:
    """Take what the steps were longer for it from the slope; for numbers that fade away, from the experiment."""
    faded = _faded(trials, model)
    if not growth.part:
        return faded or Clear(
            f"over {growth.steps:.0f} steps no part of a step that runs in Python grew more than the rest of it "
            f"(the step began at {units.duration(growth.whole.start_s)})"
        )
    in_callbacks = growth.part == "callbacks"
    seconds = model.parts["callbacks"].mid if in_callbacks else model.step.mid - model.parts["callbacks"].mid
    gone = growth.excess.scale(1 / max(seconds, 1e-12)).clip(0.0, 1.0)
    change = Change("callbacks" if in_callbacks else "step", Interval(1 - gone.high, 1 - gone.mid, 1 - gone.low))
    saving = model.with_change(change).saving()
    # Steps that grow differ for this very cause: that the slope is no chance was seen already.
    noise = max(model.overhead, SMALLEST_PROVABLE)
    if growth.part in _OF_DATA and growth.epochs < 2 and saving.low > noise:
        if faded:
            return faded
        raise MissingEvidence(
            Gap(
                "whether steps grow or their data does",
                f"{_WORDS[growth.part]} takes longer and longer, but only one epoch was seen",
                "let it run into a second epoch: --steps and --budget",
            )
        )
    end = growth.part_start_s + growth.own.mid * growth.steps
    name, site = _callback(callbacks) if in_callbacks else ("", training.site if training.kind != "fit" else None)
    if growth.part == "other":
        site = _goes_through(source, site) or site
    return [
        *faded,
        Cost(
            saving=saving,
            because=(
                f"{_WORDS[growth.part]} takes longer and longer: {units.duration(max(0.0, growth.part_start_s))} per "
                f"step at first, {units.duration(end)} {growth.steps:.0f} steps later"
                f"{f' (most of it in {name})' if name else ''}"
            ),
            site=site,
            change=change,
            evidence={
                "part": growth.part,
                "callback": name,
                "start_ms": growth.part_start_s * 1e3,
                "ns_per_step": {
                    "low": growth.own.low * 1e9,
                    "mid": growth.own.mid * 1e9,
                    "high": growth.own.high * 1e9,
                },
                "steps": growth.steps,
            },
            noise=noise,
        ),
    ]


def _faded(trials: Trials | None, model: StepModel) -> list[Cost]:
    """Take from the experiment what numbers next to zero cost; it is made only where there are many of them."""
    if trials is None or not any(trial.name == DENORMALS for trial in trials.trials) or model.input_bound:
        return []
    ratio, trial = trials.ratio(DENORMALS)
    if ratio.mid >= 1:
        return []
    change, share = Change("work", ratio.clip(0.0, 1.0)), float(trial.detail["share"])
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"{units.percent(share)} of the weights and of the optimizer's own numbers have faded to denormal "
                "ones, on which a processor computes slowly; taken as zero, a step on one thread took "
                f"{units.percent_range(ratio)} of its time"
            ),
            change=change,
            evidence={"denormal": share, "ratio": {"low": ratio.low, "mid": ratio.mid, "high": ratio.high}},
        )
    ]


def _callback(callbacks: CallbackCosts | None) -> tuple[str, Site | None]:
    """Name the callback that takes most of every step."""
    every_step = [each for each in (callbacks.costs if callbacks is not None else ()) if each.rhythm == "step"]
    if not every_step:
        return "", None
    most = max(every_step, key=lambda each: each.training_s.mid)
    return most.name, most.site


def _goes_through(source: SourceTree | None, site: Site | None) -> Site | None:
    """Find where the loop hands all that it has put into a list to a function."""
    if source is None or site is None:
        return None
    file = next((each for each in source.files if each.path == site.path), None)
    around = [loop for loop in file.loops if loop.lineno <= site.line <= (loop.end_lineno or 0)] if file else []
    if file is None or not around:
        return None
    calls = [node for node in ast.walk(max(around, key=lambda loop: loop.lineno)) if isinstance(node, ast.Call)]
    filled = {name for name in map(_filled, calls) if name}
    through = [each for each in calls if not _filled(each) and file.resolve(each.func) != "len"]
    found = [each for each in through if any(isinstance(given, ast.Name) and given.id in filled for given in each.args)]
    return file.site(min(found, key=lambda call: call.lineno)) if found else None


def _filled(call: ast.Call) -> str:
    """Name the list that a call puts something into."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("append", "extend"):
        return ""
    return call.func.value.id if isinstance(call.func.value, ast.Name) else ""


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del source
    if "denormal" in cost.evidence:
        return Fix("call torch.set_flush_denormal(True) at the very start of the script", "may change")
    where = cost.evidence.get("callback") or {"input": "the loader", "callbacks": "the callback"}.get(
        str(cost.evidence.get("part")), "the loop"
    )
    return Fix(f"let {where} keep running sums or the last N values instead of everything so far", "same")
