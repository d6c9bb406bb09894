"""A tf.data pipeline made faster: changes are tried one by one, and kept where they are faster and equal.

In rounds: every candidate is timed in turns with the best pipeline so far (at first: the user's own, as TensorFlow runs
it); the fastest is compared with the original, and kept if it gives the same data.  Then what is left is tried on top
of it, until nothing is faster or the time is used up.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fitdoctor import units
from fitdoctor.errors import CannotRun, UsageError
from fitdoctor.model import Interval
from fitdoctor.probes.cgroup import usable_cores
from fitdoctor.probes.dataset_tf import name_of
from fitdoctor.rewrites import purity
from fitdoctor.rewrites.candidates import Candidate, Refusal, Seen, found
from fitdoctor.rewrites.datasets import fresh
from fitdoctor.rewrites.equality import Verdict, check
from fitdoctor.rewrites.optimized import Optimized
from fitdoctor.rewrites.pulling import LEAD_SECONDS, Pace, Puller, in_turns, pace
from fitdoctor.rewrites.stages import every

WORTH = 0.97
"""A change must take less than this share of the time, at the slow end of its interval."""
MOST_ROUNDS = 5
FILL_SECONDS = 5.0
MUCH = 0.5
"""A change after which a batch takes less than this share of the time."""
RESERVE_SECONDS = 8.0
"""What comparing one change and timing another takes."""
TURNS_SECONDS = 3.0
"""How long a candidate is timed at most."""


@dataclass
class _Work:
    """What was kept, dropped and said so far."""

    kept: list[Candidate] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def drop(self, name: str, reason: str) -> None:
        if self.dropped.get(name) != reason:
            self.lines.append(f"- dropped {name}: {reason}")
        self.dropped[name] = reason


def optimize_dataset(dataset: Any, *, unsafe: bool, budget: float, cache_dir: str | None) -> Optimized:
    """Try every change there is on a tf.data pipeline, within `budget` seconds."""
    if cache_dir is not None and not os.path.isdir(cache_dir):
        raise UsageError(f"cache_dir is no folder: {cache_dir}", do="make it first, or leave it out")
    deadline = time.monotonic() + budget
    work = _Work()
    contents = purity.of_pipeline(dataset)
    if contents.touches and not unsafe:
        return _untouched(dataset, contents.touches)
    if (name := purity.unwritten_cache(dataset)) is not None:
        return _untouched(dataset, f"its cache file {name} is not complete: reading part of the data would spoil it")
    try:
        as_is = pace(_blocks(fresh(dataset)))
    except CannotRun as error:
        return _untouched(dataset, error.problem)
    first = as_is
    for _ in range(MOST_ROUNDS):
        best = _round(_applied(dataset, work.kept), Seen(as_is, usable_cores(), cache_dir), work, unsafe, deadline)
        if best is None:
            break
        work.kept.append(best)
        try:
            as_is = pace(_blocks(_applied(dataset, work.kept)))
        except CannotRun as error:
            work.lines.append(f"- no more was tried: {error.problem}")
            break
    return _result(dataset, work, first)


def _round(dataset: Any, seen: Seen, work: _Work, unsafe: bool, deadline: float) -> Candidate | None:
    """Return the fastest change that is equal, if there is one."""
    faster: list[tuple[Interval, Candidate]] = []
    # A cache has to be filled to be timed: what is changed without one is tried first.
    for candidate in sorted(found(dataset, seen), key=lambda each: isinstance(each, Candidate) and bool(each.sample)):
        if isinstance(candidate, Refusal):
            if all(candidate.rule != each.rule for each in work.kept):
                work.drop(candidate.rule, candidate.reason)
        elif any(candidate.rule == each.rule and candidate.site == each.site for each in work.kept):
            continue
        elif candidate.safety != "same" and not unsafe:
            work.drop(_name(candidate), "it may change what the model sees: unsafe=True lets it")
        elif time.monotonic() > deadline:
            work.drop(_name(candidate), "the time was used up before it was tried")
        else:
            ratio = _timed(dataset, candidate, seen.pace, work)
            if ratio is not None and ratio.high < WORTH:
                faster.append((ratio, candidate))
            elif ratio is not None:
                work.drop(_name(candidate), f"not faster: a batch takes {units.percent_range(ratio)} of the time")
    # A cache comes last, where there is time or much to gain without: until it is full, data comes as fast as what lies
    # below it.
    last = time.monotonic() < deadline - RESERVE_SECONDS or any(
        ratio.mid < MUCH and candidate.sample is None for ratio, candidate in faster
    )
    for ratio, candidate in sorted(faster, key=lambda each: (each[1].sample is not None and last, each[0].mid)):
        verdict = _checked(dataset, candidate, unsafe, seen.cache_dir)
        if verdict and not verdict.whole and _endless(candidate):
            work.drop(_name(candidate), "how many elements there are, and so how much memory they take, is not known")
        elif verdict or (unsafe and candidate.safety != "same" and not verdict.differs):
            work.dropped.pop(_name(candidate), None)
            work.lines.append(_kept_line(candidate, ratio, verdict))
            return candidate
        else:
            work.drop(_name(candidate), f"not proved equal: {verdict.why}")
    return None


def _endless(candidate: Candidate) -> bool:
    """Tell whether nobody knows how much there is to be kept."""
    return candidate.sample is not None and dict(candidate.detail).get("elements") is None


def _timed(dataset: Any, candidate: Candidate, now: Pace | None, work: _Work) -> Interval | None:
    pause = now.seconds if candidate.overlaps and now is not None else 0.0
    try:
        before = _blocks(fresh(dataset), pause)
        sample = candidate.sample
        after = _blocks(sample(dataset), pause, warm=False) if sample else _blocks(candidate.apply(dataset), pause)
        before()
        after()
        return in_turns(before, after, TURNS_SECONDS)
    except CannotRun as error:
        work.drop(_name(candidate), error.problem)
    except Exception as error:
        work.drop(_name(candidate), f"it fails here: {type(error).__name__}")
    return None


def _blocks(dataset: Any, pause: float = 0.0, *, warm: bool = True) -> Callable[[], float]:
    """Return what pulls a block of batches; a cache is filled before, which takes an epoch."""
    if warm and any(name_of(stage) == "Cache" for stage in every(dataset)):
        until = time.monotonic() + FILL_SECONDS
        for _ in dataset:
            if time.monotonic() > until:
                raise CannotRun("the cache below it takes too long to fill to try more")
    puller = Puller(lambda: iter(dataset))
    return lambda: puller.block(pause=pause, lead=LEAD_SECONDS)


def _checked(dataset: Any, candidate: Candidate, unsafe: bool, cache_dir: str | None) -> Verdict:
    """Compare, and leave nothing in the folder for caches."""
    there = set(os.listdir(cache_dir)) if cache_dir else set()
    try:
        return check(dataset, candidate, consents=unsafe)
    finally:
        for name in (set(os.listdir(cache_dir)) if cache_dir else set()) - there:
            shutil.rmtree(os.path.join(str(cache_dir), name), ignore_errors=True)


def _applied(dataset: Any, kept: list[Candidate]) -> Any:
    for candidate in kept:
        dataset = candidate.apply(dataset)
    return fresh(dataset) if not kept else dataset


def _result(dataset: Any, work: _Work, first: Pace) -> Optimized:
    head = [f"As it is a batch takes {units.duration(first.seconds)} and keeps {first.cores:.1f} cores busy."]
    if not work.kept:
        head.append("Nothing that keeps the data as it is makes it faster.")
    return Optimized(
        dataset=_applied(dataset, work.kept) if work.kept else dataset,
        explanation="\n".join([*head, *work.lines]),
        kept=tuple(candidate.rule for candidate in work.kept),
        dropped=tuple(work.dropped.items()),
    )


def _untouched(dataset: Any, reason: str) -> Optimized:
    why = f"{reason}; unsafe=True reads it all the same" if "Python" in reason or "state" in reason else reason
    return Optimized(dataset, f"Left as it is: {why}.", (), (("everything", reason),))


def _name(candidate: Candidate) -> str:
    where = f" at {candidate.site}" if candidate.site else ""
    return f"{candidate.rule} [{candidate.settings}]{where}"


def _kept_line(candidate: Candidate, ratio: Interval, verdict: Verdict) -> str:
    beside = " beside a step as long as itself" if candidate.overlaps else ""
    if verdict:
        proof = f"{verdict.equal} over {verdict.compared} {'elements' if verdict.whole else 'elements, not to the end'}"
    else:
        proof = f"not compared ({verdict.why}), as unsafe=True allows"
    took = units.percent_range(ratio)
    return f"- kept {_name(candidate)}: {candidate.code}; a batch takes {took} of the time{beside}; {proof}"
