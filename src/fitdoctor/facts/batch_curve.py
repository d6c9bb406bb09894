"""What larger batches took: the lab's curve, as far as it was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import rows
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import FEWEST_TIMES, Trials
from fitdoctor.model import Change, Gap, Interval

EXPERIMENT = "batch size"
_PREFIX = "batch size x"
NEARLY = 1.05
"""The smallest batch within this of the best is as good."""


@dataclass(frozen=True, slots=True)
class BatchCurve:
    """How long steps on larger batches take, in steps on the user's own."""

    own: int
    """Samples in the user's batches."""
    steps: Mapping[int, Interval]
    """By how many times as large the batch is."""
    memory_ends_it: bool
    """A still larger batch was not tried because it may not fit into memory."""

    def per_sample(self, factor: int) -> Interval:
        """Return what a sample takes in a batch so many times as large, as a share of what it takes now."""
        return self.steps[factor].scale(1 / factor)

    @property
    def fixed(self) -> Interval:
        """The share of a step that does not depend on its samples: twice as many make it so much less than double."""
        two = self.steps[2]
        return Interval(2 - two.high, 2 - two.mid, 2 - two.low).clip(0.0, 1.0)

    def best(self, factors: Iterable[int]) -> int:
        """Return the smallest of these factors that gives nearly all there is."""
        tried = sorted(factors)
        lowest = min(self.per_sample(factor).mid for factor in tried)
        return next(factor for factor in tried if self.per_sample(factor).mid <= NEARLY * lowest)


def establish(training: Training, trials: Trials) -> BatchCurve:
    """Collect the curve; twice the batch must have been tried."""
    trials.ratio(f"{_PREFIX}2", experiment=EXPERIMENT)  # says why, where it was not
    found = [
        trial
        for trial in trials.trials
        if trial.name.startswith(_PREFIX) and len(trial.baseline_ns) >= FEWEST_TIMES <= len(trial.changed_ns)
    ]
    if not any(trial.name == f"{_PREFIX}2" for trial in found):
        why = f"they were compared fewer than {FEWEST_TIMES} times"
        raise MissingEvidence(Gap("larger batches", why, "give it more time with --budget"))
    return BatchCurve(
        own=next((int(trial.detail["own"]) for trial in found if trial.detail.get("own")), 0)
        or batch_of(training, trials)
        or 1,
        steps={
            int(trial.name.removeprefix(_PREFIX)): rows.paired(trial.baseline_ns, trial.changed_ns) for trial in found
        },
        memory_ends_it=any(bool(trial.detail.get("memory")) for trial in found),
    )


def batch_of(training: Training, trials: Trials) -> int | None:
    """Return the samples in a batch, as the input says or the lab saw; None where neither does."""
    if training.info.get("batch_size"):
        return int(training.info["batch_size"])
    cached = (trial.detail for trial in trials.trials if trial.name == "cached batch")
    return next((int(detail["rows"]) for detail in cached if detail.get("rows")), None)


def fewer_steps(per_sample: Interval, factor: int) -> Change:
    """Return what becomes of the steps: their work per sample shrinks, and callbacks run for each of the fewer ones."""
    return Change("work", per_sample.clip(0.0, 1.0), also=(Change("callbacks", Interval.exact(1 / factor)),))


def given_for_free(trials: Trials) -> Interval:
    """Return what stays of a step after changes that leave the batches alone: a product of what was tried."""
    stays = [1.0, 1.0, 1.0]
    for names in (("steps_per_execution=8", "steps_per_execution=32"), ("jit_compile=True",), ("metrics off",)):
        ratios = [ratio for name in names if (ratio := _tried(trials, name)) is not None]
        ends = (min([1.0, *each]) for each in zip(*(ratio.ends for ratio in ratios), strict=True)) if ratios else ()
        stays = [one * end for one, end in zip(stays, ends, strict=True)] if ratios else stays
    return Interval(*stays)


def _tried(trials: Trials, name: str) -> Interval | None:
    try:
        return trials.ratio(name)[0]
    except MissingEvidence:
        return None
