"""Most of the GPU's memory is empty, and larger batches would use the GPU better.

## What is wrong

A GPU computes a large batch in hardly more time than a small one until its units are full.  While most of its memory is
empty there is room for that.

## How it is established

Two things must hold.  The framework's own allocator took at most half of the GPU's memory (not what NVML shows:
TensorFlow and JAX take most of it at once, used or not).  And the lab trained the very model on this GPU with batches
2, 4, 8, … times as large, in turns with the batch as it is, until a sample was no longer computed faster or memory
became scarce; the smallest batch that gives nearly all of the gain is proposed, so it is known to fit.

## What to do

A larger `batch_size`, with a learning rate that goes with it: many people scale it with the batch, and warm it up.
The model makes fewer updates per epoch, so compare what it learns per epoch, not per step.

## When it is not worth it

When the step waits for input; when a larger batch learns worse and no learning rate mends it.

## Example

    model.fit(x, y, batch_size=32)     # 2 of 24 GiB used
    model.fit(x, y, batch_size=256)
"""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.placement import Placement
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import INPUT_BOUND, Absent, Clear, Verdict

EXPERIMENT = "batch size"
FACTORS = (2, 4, 8, 16, 32)
USUAL = 32
"""What Keras takes as a batch by itself."""
MOSTLY = 0.5
"""Memory is mostly unused if less than this share of it was taken."""
NEARLY = 1.05
"""A sample that takes no more than this many times the shortest time takes nearly the shortest."""


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: what a batch takes of a GPU's memory no source tells."""
    del source
    return iter(())


def measure(training: Training, placement: Placement, trials: Trials, model: StepModel) -> Verdict:
    """Take the gain from the experiment, where there is room for it."""
    if training.kind != "fit":
        return Absent(f"the batch of a {training.kind} is not the lab's to change")
    if placement.why_not:
        return Absent(placement.why_not)
    peak, limit = placement.memory_peak, placement.memory_limit
    if not peak or not limit:
        raise MissingEvidence(
            Gap(
                "the GPU's memory in use",
                f"{training.backend} did not say how much of it its allocator took",
                Gap.LONGER,
            )
        )
    used = f"{units.size(peak)} of {units.size(limit)} of the GPU's memory were in use at most"
    if peak > MOSTLY * limit:
        return Clear(used)
    if model.input_bound:
        return INPUT_BOUND
    found, own = _per_sample(trials)
    own = int(training.info.get("batch_size") or own)
    if own and 2 * own <= USUAL:
        return Clear(f"batches of {own} are small on any device: tiny-batch judges that")
    best = min(ratio.mid for ratio in found.values())
    factor, ratio = next((factor, ratio) for factor, ratio in found.items() if ratio.mid <= NEARLY * best)
    if ratio.mid >= 1:
        return Clear(f"{used}, and larger batches were measured not to compute a sample faster")
    change = Change("work", ratio.clip(0.0, 1.0))
    sizes = f"of {own * factor} instead of {own}" if own else f"{factor} times as large"
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=f"{used}; in batches {sizes} a sample took {units.percent_range(ratio)} of its time",
            site=training.site,
            change=change,
            evidence={
                "peak": peak,
                "limit": limit,
                "factor": factor,
                "batch_size": own * factor if own else None,
                "ratios": {str(n): {"low": r.low, "mid": r.mid, "high": r.high} for n, r in found.items()},
            },
        )
    ]


def _per_sample(trials: Trials) -> tuple[dict[int, Interval], int]:
    """Return what a sample takes in batches so many times as large, of what it takes now; and the batch as it is."""
    found: dict[int, Interval] = {}
    own = 0
    missing: MissingEvidence | None = None
    for factor in FACTORS:
        try:
            ratio, trial = trials.ratio(f"batch size x{factor}", experiment=EXPERIMENT)
            found[factor], own = ratio.scale(1 / factor), int(trial.detail.get("own") or own)
        except MissingEvidence as error:
            missing = missing or error
    if not found:
        raise missing or AssertionError
    return found, own


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del source
    size, factor = cost.evidence.get("batch_size"), cost.evidence["factor"]
    wanted = f"batch_size={size}" if size else f"batches {factor} times as large"
    return Fix(f"{wanted}, with a learning rate to match (often {factor} times as large, warmed up)", "may change")
