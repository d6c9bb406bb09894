"""From what the lab measured on single elements to what stays of the input."""

from __future__ import annotations

from fitdoctor.facts import rows
from fitdoctor.facts.step_model import StepModel
from fitdoctor.model import Change, Interval, Site, Trial


def share_of_loader(trial: Trial, model: StepModel) -> float:
    """Return the share of the loader's time that goes into what a trial took for its elements as they are."""
    element = rows.median(trial.baseline_ns).mid / 1e9
    batch = element * float(trial.detail.get("rows") or 1)
    loader = model.input_alone.seconds.mid if model.input_alone is not None else model.parts["input"].mid
    return min(1.0, batch / loader) if loader > 0 else 1.0


def shorter_input(ratio: Interval, share: float) -> Change:
    """Return what becomes of the input if `share` of the loader's time shrinks to `ratio`."""
    stays = ratio.clip(0.0, 1.0)
    return Change("input", Interval(*(1 - share * (1 - each) for each in (stays.low, stays.mid, stays.high))))


def place_of(trial: Trial) -> Site | None:
    """Return the line of the user's that a trial is about."""
    path, line = trial.detail.get("path"), trial.detail.get("line")
    return Site(str(path), int(line), None, trial.detail.get("symbol")) if path and line else None
