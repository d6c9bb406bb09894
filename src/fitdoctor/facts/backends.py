"""What the same script takes on the other Keras backends, where it was run on them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import BETWEEN_RUNS
from fitdoctor.model import Capture, Gap, Interval


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """One other backend against the script's own."""

    backend: str
    ratio: Interval | None
    """Time of a step there over that of a step here; None: it could not be told."""
    once_s: float
    """Seconds that importing and compiling take longer there."""
    losses: tuple[float, float] | None
    """The loss here and there after about as many steps of the same epoch; None: not to be compared."""
    why: str
    """Why it could not be told."""


@dataclass(frozen=True, slots=True)
class Backends:
    """The backends that the script was run on beside its own."""

    own: str
    others: tuple[Elsewhere, ...]


def establish(capture: Capture, training: Training) -> Backends:
    """Compare round by round: each round ran all of them one after the other."""
    found: Sequence[Mapping[str, Any]] | None = capture.meta.get("backends")
    if found is None:
        raise MissingEvidence(
            Gap(
                "the other backends",
                "the script was run on its own backend only; fitdoctor run --backends SCRIPT runs it on the others",
                Gap.DOES_NOT_APPLY,
            )
        )
    own = next((each for each in found if each["backend"] == training.backend), {"rounds": ()})
    others = [_elsewhere(each, own) for each in found if each["backend"] != training.backend]
    return Backends(training.backend, tuple(others))


def _elsewhere(other: Mapping[str, Any], own: Mapping[str, Any]) -> Elsewhere:
    rounds = list(zip(other.get("rounds") or (), own.get("rounds") or (), strict=False))
    name = str(other["backend"])
    if not rounds:
        why = str(other.get("why") or own.get("why") or "it was not run")
        return Elsewhere(name, None, 0.0, None, why)
    logs = [math.log(there["step_s"]["mid"] / here["step_s"]["mid"]) for there, here in rounds]
    mid = sum(logs) / len(logs)
    spread = (
        max(abs(each - mid) for each in logs) + BETWEEN_RUNS + max(_spread(each) for pair in rounds for each in pair)
    )
    once = sum(there["once_s"] - here["once_s"] for there, here in rounds) / len(rounds)
    ratio = Interval(math.exp(mid - spread), math.exp(mid), math.exp(mid + spread))
    return Elsewhere(name, ratio, once, _losses(*rounds[-1]), "")


def _spread(seen: Mapping[str, Any]) -> float:
    """Return how far the mean step of a run may be off, as a fraction."""
    step = seen["step_s"]
    return (step["high"] - step["low"]) / 2 / step["mid"] if step["mid"] > 0 else 0.0


def _losses(there: Mapping[str, Any], here: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return both losses, where both runs stopped at about the same step of the same epoch."""
    one, other = here.get("learning"), there.get("learning")
    if not one or not other or one["epoch"] != other["epoch"]:
        return None
    steps = sorted((int(one["step"]), int(other["step"])))
    near = steps[1] <= 1.25 * steps[0] + 5
    return (float(one["loss"]), float(other["loss"])) if near else None
