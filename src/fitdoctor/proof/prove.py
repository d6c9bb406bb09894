"""Two versions against each other: pairs of runs until their ratio is known well enough or the time is up."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

from fitdoctor.model import Proof
from fitdoctor.proof import equivalence, schedule, statistics
from fitdoctor.proof.runs import Run
from fitdoctor.proof.schedule import AFTER, BEFORE
from fitdoctor.proof.verdict import judge

FEWEST_PAIRS, MOST_PAIRS = 4, 12
TIGHT = 0.02
"""A speed-up that is known to within this is known well enough; so is one known to a tenth of itself."""
OF_EFFECT = 0.1

Once = Callable[..., Run]
"""Runs a version once; with `aligned=True` to a step at which the other can stop too."""


def prove(
    before: Once,
    after: Once,
    *,
    seconds: float,
    may_change: bool = False,
    incomparable: str = "",
    tell: Callable[[str], None] = lambda text: None,
    clock: Callable[[], float] = time.monotonic,
) -> Proof:
    """Run both in turns; the first run of each warms up what they share (files in memory) and does not count.

    `incomparable` says why losses are not compared, where they cannot be.
    """
    begun = clock()
    versions = {BEFORE: before, AFTER: after}
    warm = []
    for name, version in versions.items():
        tell(f"warming up: {name}")
        warm.append(version().learning)
    if not incomparable and all(warm) and equivalence.common(warm) is None:
        # One of them makes several steps at a time.
        versions = {name: functools.partial(version, aligned=True) for name, version in versions.items()}
    runs: dict[str, list[Run]] = {BEFORE: [], AFTER: []}
    order: list[str] = []
    for pair in schedule.pairs():
        for name in pair:
            tell(f"pair {len(runs[name]) + 1}: {name}")
            runs[name].append(versions[name]())
            order.append(name)
        count = len(runs[AFTER])
        each = (clock() - begun) / (count + 1)
        if count >= MOST_PAIRS or (count >= 3 and clock() - begun + each > seconds and count >= _least(seconds, each)):
            break
        if count >= FEWEST_PAIRS and _known(runs):
            break
    return _concluded(runs, tuple(order), may_change, incomparable)


def _least(seconds: float, each: float) -> int:
    """Return the fewest pairs to make: three, even where the time is short (two say nothing of how far they scatter);
    four where it allows.
    """
    return min(FEWEST_PAIRS, max(3, int(seconds / each) - 1))


def _times(runs: list[Run]) -> list[float]:
    return [run.training_s for run in runs]


def _known(runs: dict[str, list[Run]]) -> bool:
    """Tell whether more pairs would add little; asked of the width alone, which does not favour either answer."""
    found = statistics.speedup(_times(runs[BEFORE]), _times(runs[AFTER]))
    return statistics.half_width(found) <= max(TIGHT, OF_EFFECT * abs(found.mid - 1))


def _concluded(runs: dict[str, list[Run]], order: tuple[str, ...], may_change: bool, incomparable: str = "") -> Proof:
    found = statistics.speedup(_times(runs[BEFORE]), _times(runs[AFTER]))
    learning = equivalence.compare(*([run.learning for run in runs[name]] for name in (BEFORE, AFTER)))
    if incomparable:
        learning = equivalence.Learning("not compared", incomparable)
    verdict, because = judge(found, statistics.half_width(found), learning, may_change=may_change)
    return Proof(
        schedule=order,
        before_s=statistics.middle(_times(runs[BEFORE])),
        after_s=statistics.middle(_times(runs[AFTER])),
        before_ms=statistics.middle([run.step_s for run in runs[BEFORE]]).scale(1e3),
        after_ms=statistics.middle([run.step_s for run in runs[AFTER]]).scale(1e3),
        speedup=found,
        learning=learning.kind,
        losses=(learning.before, learning.after),
        verdict=verdict,
        runs_s=(tuple(_times(runs[BEFORE])), tuple(_times(runs[AFTER]))),
        because=f"{because}; {learning.because}" if verdict != "REFUTED" or learning.kind != "different" else because,
    )
