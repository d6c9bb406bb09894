"""Two versions against each other: pairs of runs until their ratio is known well enough or the time is up."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fitdoctor.model import Interval, Proof
from fitdoctor.proof import equivalence, schedule, statistics
from fitdoctor.proof.runs import CannotTime, Run
from fitdoctor.proof.schedule import AFTER, BEFORE
from fitdoctor.proof.verdict import judge

FEWEST_PAIRS, MOST_PAIRS = 4, 12
TIGHT = 0.02
"""A speed-up that is known to within this is known well enough; so is one known to a tenth of itself."""
OF_EFFECT = 0.1
IN_A_ROW = 2
WIDER = 1.15
"""Who looks after every pair and stops where the interval is tight stops where it is so by chance: it must be tight
twice in a row, and is made wider.  With both it holds the truth in 92 to 98 of 100 proofs (`tests/proof`); without, in
88.
"""
LEAST_S, MOST_S = 2.0, 8.0
"""So long every run is watched, if it may be, so that a moment's noise is not all there is; the slower version at most
so long.
"""
WITHIN = 0.7
"""The share of the steps that came into a run's time which all others come to, so that losses can be compared."""
FEWEST_STEPS = 4
OF_TRAINING = 0.7
"""The share of a training after which a run is stopped at the latest."""

Once = Callable[..., Run]
"""Runs a version once; with `aligned=True` to a step at which the other can stop too, with `steps` so many of them."""


def prove(
    before: Once,
    after: Once,
    *,
    seconds: float,
    may_change: bool = False,
    incomparable: str = "",
    watched: int | None = None,
    tell: Callable[[str], None] = lambda text: None,
    clock: Callable[[], float] = time.monotonic,
) -> Proof:
    """Run both in turns; the first run of each warms up what they share (files in memory) and does not count.

    `incomparable` says why losses are not compared, where they cannot be; `watched` how many steps the versions watch
    by themselves, where it may be more.
    """
    begun = clock()
    versions: dict[str, Once] = {BEFORE: before, AFTER: after}
    warm: list[Run] = []
    for name, version in versions.items():
        tell(f"warming up: {name}")
        warm.append(version())
    learnt = [run.learning for run in warm]
    cut = [run.cut for run in warm if run.cut]
    how: dict[str, Any] = {}
    if not incomparable and all(learnt) and equivalence.common(learnt) is None:
        # Time ended them, anywhere; or one of them makes several steps at a time.
        how = {"steps": max(FEWEST_STEPS, int(WITHIN * min(cut)))} if cut else {"aligned": True}
    if watched is not None and not cut and (steps := long_enough(warm, watched)) > watched:
        how["steps"] = steps
    versions = {name: functools.partial(version, **how) for name, version in versions.items()}
    runs: dict[str, list[Run]] = {BEFORE: [], AFTER: []}
    order: list[str] = []
    tight = 0
    for pair in schedule.pairs():
        for name in pair:
            tell(f"pair {len(runs[name]) + 1}: {name}")
            runs[name].append(versions[name]())
            order.append(name)
        count = len(runs[AFTER])
        each = (clock() - begun) / (count + 1)
        if count >= MOST_PAIRS or (count >= 3 and clock() - begun + each > seconds and count >= _least(seconds, each)):
            break
        tight = tight + 1 if count >= FEWEST_PAIRS and _known(runs) else 0
        if tight >= IN_A_ROW:
            break
    wider = WIDER if tight >= IN_A_ROW else 1.0
    return _concluded(runs, tuple(order), may_change, incomparable, wider)


def long_enough(warm: Sequence[Run], watched: int) -> int:
    """Return how many steps to watch: more where they are so short that they are over in a moment."""
    steps = min(LEAST_S / min(run.step_s for run in warm), MOST_S / max(run.step_s for run in warm))
    planned = min(run.planned for run in warm)
    return max(watched, int(min(steps, OF_TRAINING * planned)))


def _least(seconds: float, each: float) -> int:
    """Return the fewest pairs to make: three, even where the time is short (two say nothing of how far they scatter);
    four where it allows.
    """
    return min(FEWEST_PAIRS, max(3, int(seconds / each) - 1))


def _times(runs: Sequence[Run]) -> list[float]:
    return [run.training_s for run in runs]


def _known(runs: dict[str, list[Run]]) -> bool:
    """Tell whether more pairs would add little; asked of the width alone, which does not favour either answer."""
    found = statistics.speedup(_times(runs[BEFORE]), _times(runs[AFTER]), wider=WIDER)
    return statistics.half_width(found) <= max(TIGHT, OF_EFFECT * abs(found.mid - 1))


def failed(before: Sequence[Run], why: CannotTime) -> Proof:
    """Return what is known of a change with which the training cannot be run, or not for long enough."""
    never = Interval.exact(math.inf)
    return Proof(
        schedule=(),
        before_s=statistics.middle(_times(before)),
        after_s=never,
        before_ms=statistics.middle([run.step_s for run in before]).scale(1e3),
        after_ms=never,
        speedup=Interval.exact(0.0),
        learning="not compared",
        losses=((), ()),
        verdict="INCONCLUSIVE" if why.trained else "REFUTED",
        runs_s=(tuple(_times(before)), ()),
        because=f"with the change it cannot be timed: {why.problem.rstrip('.')}",
    )


def _learning(runs: Mapping[str, Sequence[Run]], incomparable: str) -> equivalence.Learning:
    """Compare what both have learnt, of trainings that are as long; of epochs too, or what they come to together."""
    here, there = (_length(runs[name]) for name in (BEFORE, AFTER))
    learnt = [[run.learning for run in runs[name]] for name in (BEFORE, AFTER)]
    untold = incomparable
    why = ""
    if not incomparable and here is not None and there is not None:
        one, other = here[0], there[0]
        if math.prod(here) != math.prod(there):
            why = f"the training has {math.prod(here):,} steps before, {math.prod(there):,} after"
        elif max(one, other) % min(one, other):
            untold = f"epochs are of {one:,} steps before, of {other:,} after"
        elif one != other and not equivalence.ends(*learnt).lost:
            longer, told = max(one, other), all(map(all, learnt))
            learnt = [
                [equivalence.passes(run, longer // each) for run in every]
                for each, every in zip((one, other), learnt, strict=True)
            ]
            if told and not all(map(all, learnt)):
                untold = f"the runs did not come to the end of an epoch of {longer:,} steps"
    found = equivalence.compare(*learnt, incomparable=untold)
    if not incomparable:
        found = equivalence.begun(found, *([run.first for run in runs[name]] for name in (BEFORE, AFTER)))
    return replace(found, kind="different", because=why) if why and not found.lost else found


def _length(runs: Sequence[Run]) -> tuple[int, int] | None:
    """Return steps per epoch and epochs, where all runs say the same."""
    found = {run.length for run in runs}
    return found.pop() if len(found) == 1 else None


def _concluded(
    runs: dict[str, list[Run]], order: tuple[str, ...], may_change: bool, incomparable: str, wider: float
) -> Proof:
    found = statistics.speedup(_times(runs[BEFORE]), _times(runs[AFTER]), wider=wider)
    learning = _learning(runs, incomparable)
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
