"""What the lab tried on this very run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import rows
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture, Change, Gap, Interval, Trial

CAPPED = "run it capped (without --whole): fitdoctor run SCRIPT"
WITH_LAB = "run it without --no-lab: fitdoctor run SCRIPT"
BY_HAND = "try it in the script"
FEWEST_TIMES = 3
SIGMA_OF_DISTANCE = 1.4826
"""The standard deviation of normal values, in medians of their distance from the middle."""
MORE_TIME = "give it more time with --budget"
BETWEEN_RUNS = 0.05
"""By how much two runs of the same script differ even on a quiet machine: nothing measured in one of them shows it."""
CALLBACKS_OFF = "callbacks off"
REWRITTEN = "rewritten pipelines"
"""The lab's name for the experiment with changed tf.data pipelines."""
FEWER = "let it train longer, or watch fewer steps: --steps 50"


def callback_alone(name: str) -> str:
    """Return the name of the trial of one callback without the others."""
    return f"callback alone: {name}"


def rewrite(rule: str) -> str:
    """Return how the names of trials begin that rewrite the pipeline for a rule."""
    return f"rewrite: {rule} ["


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """A training on changed data, in turns with the training as it is."""

    ratio: Interval
    whole: bool
    """Whole epochs, with what is between them; else steps only."""
    changed_s: float = 0.0
    """What a step took on the changed data."""
    begins_s: float | None = None
    """Where only steps count: what beginning the changed data anew took, beyond a step; None: not seen."""

    def change(self, change: Change) -> Change:
        """Return what the same fix does to the training, by what was seen in place of what the model would say."""
        stays = self.ratio.clip(0.0, 1.0)
        between = (Change("between epochs", stays, rehearsed=True),) if self.whole else change.also
        return Change("step", stays, once=change.once, also=between, rehearsed=True)

    def beside(self, step_s: float) -> Rehearsed:
        """Return it for a run whose step, as it is, takes so long.

        Where the run's own step is shorter than the rehearsed one, the changed step is a larger share of it; where it
        is longer, what made it longer may stay.  Of the two the larger share is believed: trainings made fast by hand
        took longer than in rehearsals, where everything is warm, in four pairs of four.
        """
        mid = max(self.ratio.mid, self.changed_s / step_s if step_s > 0 else 0.0)
        return replace(self, ratio=Interval(self.ratio.low, mid, max(self.ratio.high, mid)))

    def later(self, epochs: int) -> Rehearsed:
        """Return what it is over all epochs, where the first stays as it was."""
        return replace(self, ratio=Interval(*(each + (1 - each) / max(1, epochs) for each in self.ratio.ends)))


@dataclass(frozen=True, slots=True)
class Trials:
    """The experiments on the leading training, and why others could not be made."""

    trials: tuple[Trial, ...]
    gaps: tuple[Gap, ...]
    mode: str
    finished: bool = False
    """The script ended by itself."""
    wanted: bool = True
    """Experiments were to be made."""

    def ratio(self, name: str, remedy: str = CAPPED, experiment: str = "") -> tuple[Interval, Trial]:
        """Return changed over baseline step time of a trial, or raise MissingEvidence.

        One comparison tells a large gain; that there is none, it does not.

        `experiment` is the lab's name for what the trial belongs to: a gap of that name says why it is missing.
        """
        for trial in self.trials:
            if trial.name == name and trial.baseline_ns and trial.changed_ns:
                found = rows.paired(trial.baseline_ns, trial.changed_ns)
                if len(trial.changed_ns) == 1 and found.high >= 1:
                    raise MissingEvidence(Gap(f"trial {name}", "it was compared once only", MORE_TIME))
                return found, trial
        for gap in self.gaps:
            if gap.what == f"experiment: {experiment or name}":
                raise MissingEvidence(gap)
        raise MissingEvidence(self.untried(f"trial {name}", remedy))

    def rewritten(self, rule: str) -> list[tuple[Interval, Trial]]:
        """Return changed over baseline of every way the pipeline was rewritten for a rule, or raise MissingEvidence."""
        found = [
            (rows.paired(trial.baseline_ns, trial.changed_ns), trial)
            for trial in self.trials
            if trial.name.startswith(rewrite(rule)) and trial.baseline_ns and trial.changed_ns
        ]
        if found:
            return found
        for what in (f"experiment: rewrite {rule}", f"experiment: {REWRITTEN}"):
            for gap in self.gaps:
                if gap.what == what:
                    raise MissingEvidence(gap)
        raise MissingEvidence(self.untried(f"rewrites for {rule}", CAPPED))

    def rehearsed(self, name: str) -> Rehearsed | None:
        """Return what the training took on the data of a trial, over the training as it is; None: not rehearsed."""
        for trial in self.trials:
            if trial.name == f"rehearsed: {name}" and trial.baseline_ns and trial.changed_ns:
                begun = trial.detail.get("begun_ns")
                changed = statistics.median(trial.changed_ns) / 1e9
                beyond = max(0.0, begun / 1e9 - changed) if begun is not None else None
                ratio = rows.paired(trial.baseline_ns, trial.changed_ns)
                return Rehearsed(ratio, bool(trial.detail.get("whole")), changed, beyond)
        return None

    def untried(self, what: str, remedy: str = CAPPED) -> Gap:
        """Say why nothing of the kind was tried."""
        if self.mode != "capped":
            return Gap(what, "experiments are made in capped runs only", remedy)
        if not self.wanted:
            return Gap(what, "no experiments were to be made in this run", WITH_LAB)
        if self.finished:
            return Gap(what, "the script ended before experiments could be made", FEWER)
        return Gap(what, "the lab did not try it on this job", BY_HAND if remedy == CAPPED else remedy)


@dataclass(frozen=True, slots=True)
class Alone:
    """What one side of the step takes without the other, and how many cores it keeps busy meanwhile."""

    seconds: Interval
    cores: float


def alone(trials: Trials, name: str) -> Alone | None:
    """Return what the lab measured without a baseline; None where it did not."""
    for trial in trials.trials:
        cores = trial.detail.get("cores")
        if trial.name == name and trial.changed_ns and cores is not None:
            return Alone(rows.median(trial.changed_ns).scale(1e-9), float(cores))
    return None


def work_alone(trials: Trials) -> Alone | None:
    """Return what the step takes on one batch, by every experiment that ran it as it is, all through the lab's time."""
    first = alone(trials, "cached batch")
    if first is None:
        return None
    found = _as_it_is(trials)[0]
    if len(found) < FEWEST_TIMES:
        return first
    middle, tenths = statistics.median(found), statistics.quantiles(found, n=10, method="inclusive")
    return Alone(Interval(min(tenths[0], middle), middle, max(middle, tenths[-1])).scale(1e-9), first.cores)


def drift(trials: Trials) -> float:
    """Return by how much the same step differed from one time of the lab to another, as a fraction.

    Machines are shared, processors change their clock: what was measured now will not be quite true in the next run.
    One sigma between stretches of some seconds, which is about two between runs of half a minute.  Taken from the
    median of the distances: one stretch that was disturbed is no drift.
    """
    apart = [
        abs(math.log(each / statistics.median(same)))
        for same in _as_it_is(trials)
        for each in same
        if len(same) > 1 and each > 0
    ]
    return SIGMA_OF_DISTANCE * statistics.median(apart) if len(apart) >= FEWEST_TIMES else 0.0


def _as_it_is(trials: Trials) -> tuple[list[float], list[float]]:
    """Return what each experiment measured of the step as the user has it, and of the step without callbacks."""
    own: list[float] = []
    bare: list[float] = []
    for trial in trials.trials:
        step = trial.detail.get("unit") == "ns per step"
        if trial.name == "cached batch":
            own.extend(_middle(trial.changed_ns))
        elif trial.name == CALLBACKS_OFF:
            own.extend(_middle(trial.baseline_ns))
            bare.extend(_middle(trial.changed_ns))
        elif step:
            bare.extend(_middle(trial.baseline_ns))
    if any(trial.name == CALLBACKS_OFF for trial in trials.trials):
        return own, bare
    return [*own, *bare], []


def _middle(values: Sequence[float]) -> Iterator[float]:
    if len(values) > 0:
        yield float(statistics.median(values))


def establish(capture: Capture, training: Training) -> Trials:
    """Collect the trials that belong to the leading training."""
    return Trials(
        trials=tuple(trial for trial in capture.trials if trial.call in training.call_ids),
        gaps=capture.gaps,
        mode=str(capture.meta.get("mode", "")),
        finished=(capture.meta.get("exit") or {}).get("reason") == "finished",
        wanted=capture.meta.get("experiments") is not False,
    )
