"""What the lab tried on this very run."""

from __future__ import annotations

from dataclasses import dataclass

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import rows
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture, Gap, Interval, Trial

CAPPED = "run it capped (without --whole): fitdoctor run SCRIPT"
FEWER = "let it train longer, or watch fewer steps: --steps 50"


@dataclass(frozen=True, slots=True)
class Trials:
    """The experiments on the leading training, and why others could not be made."""

    trials: tuple[Trial, ...]
    gaps: tuple[Gap, ...]
    mode: str
    finished: bool = False
    """The script ended by itself."""

    def ratio(self, name: str, remedy: str = CAPPED, experiment: str = "") -> tuple[Interval, Trial]:
        """Return changed over baseline step time of a trial, or raise MissingEvidence.

        `experiment` is the lab's name for what the trial belongs to: a gap of that name says why it is missing.
        """
        for trial in self.trials:
            if trial.name == name and trial.baseline_ns and trial.changed_ns:
                return rows.paired(trial.baseline_ns, trial.changed_ns), trial
        for gap in self.gaps:
            if gap.what == f"experiment: {experiment or name}":
                raise MissingEvidence(gap)
        why = "the lab did not try it on this job"
        if self.mode != "capped":
            why = "experiments are made in capped runs only"
        elif self.finished:
            why, remedy = "the script ended before experiments could be made", FEWER
        raise MissingEvidence(Gap(f"trial {name}", why, remedy))


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


def establish(capture: Capture, training: Training) -> Trials:
    """Collect the trials that belong to the leading training."""
    return Trials(
        trials=tuple(trial for trial in capture.trials if trial.call in training.call_ids),
        gaps=capture.gaps,
        mode=str(capture.meta.get("mode", "")),
        finished=(capture.meta.get("exit") or {}).get("reason") == "finished",
    )
