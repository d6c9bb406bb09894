"""Steps take longer and longer.

## What is wrong

Something accumulates: a list that a callback or the loop goes through as a whole after every batch, arrays
concatenated to all arrays before them, results kept with everything they were computed from, a plot drawn with all
points so far.  Each step pays for all steps before it, so twice the steps take four times as long.

## How it is established

Steps are watched one by one and split into their parts.  For each part that runs in Python (fetching, callbacks,
reading results, the loop's own code, and the step itself where it runs op by op) the slope over the run is taken: the
median over all pairs of blocks of steps (Theil and Sen), with its interval at three sigmas.  A machine that becomes
slower makes all parts longer alike: only what a part grows beyond the rest of the step counts.  What fetches or
computes may take longer because later data is larger; that is told from growth by a second epoch, and stays unknown
without one.  A compiled step is not looked at: it does what it was compiled to do.

The saving is what the steps that were watched would have saved.  As it goes on growing, the whole training saves more:
how much more is not claimed.

## What to do

Keep running sums instead of lists, look at the last N values only, or do it once per epoch.  Call
`keras.backend.clear_session()` between models that are built in one process.  Results are the same.

## When it is not worth it

When the growth is below what the run can tell from noise.

## Example

    self.losses.append(logs["loss"])
    self.smooth = np.convolve(self.losses, window)[-1]                  # slow: all losses, after every batch
    self.smooth = np.dot(self.losses[-len(window):], window)            # fast: the last few
"""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.callback_costs import CallbackCosts
from fitdoctor.facts.growth import Growth
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import SMALLEST_PROVABLE, StepModel
from fitdoctor.facts.training import Training
from fitdoctor.model import Change, Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import Clear, Verdict

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


def measure(training: Training, growth: Growth, model: StepModel, callbacks: CallbackCosts | None) -> Verdict:
    """Take what the steps were longer for it from the slope."""
    if not growth.part:
        return Clear(
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
        raise MissingEvidence(
            Gap(
                "whether steps grow or their data does",
                f"{_WORDS[growth.part]} takes longer and longer, but only one epoch was seen",
                "let it run into a second epoch: --steps and --budget",
            )
        )
    end = growth.part_start_s + growth.own.mid * growth.steps
    name, site = _callback(callbacks) if in_callbacks else ("", training.site if training.kind != "fit" else None)
    return [
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
        )
    ]


def _callback(callbacks: CallbackCosts | None) -> tuple[str, Site | None]:
    """Name the callback that takes most of every step."""
    every_step = [each for each in (callbacks.costs if callbacks is not None else ()) if each.rhythm == "step"]
    if not every_step:
        return "", None
    most = max(every_step, key=lambda each: each.training_s.mid)
    return most.name, most.site


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del source
    where = cost.evidence.get("callback") or {"input": "the loader", "callbacks": "the callback"}.get(
        str(cost.evidence.get("part")), "the loop"
    )
    return Fix(f"let {where} keep running sums or the last N values instead of everything so far", "same")
