"""One trial of a search, as it is shown and kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fitdoctor.tune.seen import Seen
from fitdoctor.tune.settings import Settings

State = Literal["own", "measured", "stopped early", "failed", "interrupted"]

NEAR = 1.02
"""Trials this near to the best are as good: the one that changes least is taken."""
NOTHING = 1.01
"""A gain below this is none."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Settings, and what became of them."""

    number: int
    settings: Settings
    state: State
    seen: Seen | None = None
    training_s: float | None = None
    """Seconds of the whole training, for as many samples as the script's own has."""
    why: str = ""
    node: str = ""


def winner(trials: Sequence[Trial]) -> Trial | None:
    """Return the trial to prove: the fastest, or one nearly as fast that changes less; None where none is faster."""
    own = next((each.training_s for each in trials if each.state == "own"), None)
    timed = [(each.training_s, each) for each in trials if each.state == "measured" and each.training_s is not None]
    if own is None or not timed:
        return None
    best = min(seconds for seconds, _ in timed)
    if own < best * NOTHING:
        return None
    near = [(each.settings.count, seconds, each.number, each) for seconds, each in timed if seconds <= best * NEAR]
    return min(near, key=lambda each: each[:3])[-1]
