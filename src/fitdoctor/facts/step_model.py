"""How long a step takes, what it is made of, and what it would take if something were changed."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import split
from fitdoctor.facts.device_use import DeviceUse
from fitdoctor.facts.epoch_starts import EpochStarts
from fitdoctor.facts.host_use import HostUse
from fitdoctor.facts.input_pipeline import InputPipeline
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import BETWEEN_RUNS, Alone, Trials, alone, drift, work_alone
from fitdoctor.model import PARTS, Capture, Change, Gap, Interval

SMALLEST_PROVABLE = 0.005
"""No comparison of two runs on a shared machine can confirm less than this fraction of the training time."""

HICCUP = 0.05
"""A pipeline that works ahead and still makes the step wait longer than this share of it cannot keep up."""

_WORK = frozenset(PARTS) - {"input", "callbacks"}

_DISJOINT = frozenset({"callbacks", "epoch callbacks", "short calls", "compiling again"})
"""Fixes to these remove different work each, so their shares add up; elsewhere they multiply."""

FRESH = Interval(1.5, 2.0, 2.7)
"""How many times as long as in the lab tracing takes in a process that has not traced before: 1.7, 2.0, 2.5 and 2.7
times on four models with TensorFlow."""


@dataclass(frozen=True, slots=True, eq=False)
class StepModel:
    """Seconds per optimizer step and their parts; the middles of the parts sum to the middle of the step.

    `with_change` answers what-ifs.  It looks at three worlds (every part at its low, middle and high end, the
    fix at its worst, middle and best), so a saving's low end is the worst fix on the smallest part.
    """

    step: Interval
    parts: Mapping[str, Interval]
    how: Mapping[str, str] = field(default_factory=dict)
    """One phrase per part on how it was obtained."""
    gaps: Mapping[str, Gap] = field(default_factory=dict)
    """Parts that could not be seen: their number is 0 because their time stands under another part."""
    works_ahead: bool = False
    """The next batch is prepared while the step runs: input and compute do not take turns."""
    keeps_up: bool = False
    """Batches are fetched while an asynchronous device computes, in less time than it computes."""
    cpu_s: float | None = None
    """CPU seconds per step, all threads and children."""
    cores: float | None = None
    planned_steps: float = 1.0
    epochs: int = 0
    begins_s: float = 0.0
    """Seconds that the first step of an epoch takes beyond an ordinary one."""
    elsewhere: Mapping[str, float] = field(default_factory=dict)
    """Projected seconds of the whole training outside its steps."""
    pauses_follow: bool = False
    """Pauses between some epochs are at most as long as an epoch (`pauses`): shorter steps make them shorter, too."""
    overhead: float = 0.0
    """Fraction of the time that watching cost."""
    input_alone: Alone | None = None
    work_alone: Alone | None = None
    """What the lab measured: the loader without the training, the training on one batch."""
    drift: float = 0.0
    """By how much the same work differed from one time of the lab to another."""
    changes: tuple[Change, ...] = ()
    origin: StepModel | None = None

    @property
    def whole_s(self) -> float:
        """Projected seconds of the whole training."""
        return self.planned_steps * self.step.mid + sum(self.elsewhere.values())

    @property
    def noise(self) -> float:
        """What this run cannot tell from nothing, as a fraction of training time."""
        base = self.origin or self
        share = base.planned_steps * base.step.mid / base.whole_s if base.whole_s else 0.0
        spread = (base.step.high - base.step.low) / 2 / base.step.mid if base.step.mid else 0.0
        return max(spread * share, base.overhead, SMALLEST_PROVABLE)

    @property
    def input_bound(self) -> bool:
        """Input works ahead and cannot keep up: a shorter rest of the step would only make it wait longer."""
        ahead = self.works_ahead or any(change.overlap for change in self.changes)
        waits = ahead and not self.keeps_up and self.share("input").low > HICCUP
        if waits and self.input_alone is not None and self.work_alone is not None:
            # Handing over a batch takes time too: in tiny steps that is a visible wait for a loader far ahead.
            return self.input_alone.seconds.high >= self.work_alone.seconds.low
        return waits

    def share(self, part: str) -> Interval:
        """Return a part as a fraction of the step."""
        if self.step.mid <= 0:
            return Interval.exact(0.0)
        return self.parts[part].scale(1 / self.step.mid).clip(0.0, 1.0)

    def need(self, *parts: str) -> None:
        """Raise MissingEvidence unless all these parts were seen."""
        for part in parts:
            if part in self.gaps:
                raise MissingEvidence(self.gaps[part])

    def with_change(self, change: Change) -> StepModel:
        """Return the model as it would be after a fix, on top of the fixes it already holds."""
        return _changed(self.origin or self, (*self.changes, change, *change.also))

    def stays_of_call(self, ratio: Interval, seconds: float) -> Interval:
        """Return what stays of the work if a call that takes `seconds` of it, made alone, takes `ratio` of its time.

        What the loop takes beyond that is Python around the call, or the call itself, slower there than alone.  That
        it is mostly the latter is a guess: chosen after one pair of the corpus (eager-replicas) had twice saved more
        than half of it would have.
        """
        return stays(ratio, seconds, self._work, same=0.75)

    def stays_untraced(self) -> Interval:
        """Return what stays of the work where every step seen was compiled for, once none is.

        What was never run before is also set up when it is first run.  Where the lab did not run the step again, how
        much of it that is is not known: none of it, all of it, in the middle half.
        """
        if self.work_alone is None or self._work <= 0:
            return Interval(0.0, 0.5, 1.0)
        return self.work_alone.seconds.scale(1 / self._work).clip(0.0, 1.0)

    def change_by_compiling(self, ratio: Interval, compile_s: float | None, *, instead: bool = True) -> Change:
        """Return the change after which the work takes `ratio` of its time, and is compiled, in the lab in `compile_s`.

        `instead`: that takes the place of the compiling which the run does now, and which the lab would do faster too.
        """
        alone, now = compile_s or 0.0, self.elsewhere.get("compiling", 0.0)
        times = (FRESH.low, FRESH.mid, FRESH.high)
        more = sorted(max(0.0, alone - now / each) if instead else alone * each for each in times)
        return Change("work", ratio.clip(0.0, 1.0), once=Interval(*more))

    def without_loader_beside(self) -> tuple[Change, ...]:
        """Return what becomes of the step's own work once making batches no longer holds the GIL or empties the caches.

        Alone it is shorter; how much of the difference is due to that is not known: none of it, all of it, in the
        middle half.  Where batches are prepared ahead the model of both sides says it already.
        """
        if self.works_ahead or self.work_alone is None or self._work <= self.work_alone.seconds.mid:
            return ()
        return (Change("work", stays(Interval.exact(self.work_alone.seconds.mid / self._work), 0.0, 1.0)),)

    @property
    def _work(self) -> float:
        return sum(self.parts[part].mid for part in _WORK)

    def saving(self) -> Interval:
        """Return what the changes save, as a fraction of the whole training's time."""
        base = self.origin or self
        if not self.changes or base.whole_s <= 0:
            return Interval.exact(0.0)
        return _saved(base, self.changes).scale(1 / base.whole_s).clip(0.0, 1.0)

    def in_another_run(self, saving: Interval) -> Interval:
        """Return a saving as another run would show it: the machine will be faster or slower than it was now."""
        if saving.high <= 0:
            return saving
        factor = math.exp(max(self.drift, BETWEEN_RUNS))
        low, high = 1 - (1 - saving.low) * factor, 1 - (1 - saving.high) / factor
        return Interval(min(low, saving.low), saving.mid, max(high, saving.high)).clip(0.0, 1.0)

    def speedup(self, *, without: Collection[str] = ()) -> Interval:
        """Return how many times as fast the whole training would be, `without` these phases of it, in another run."""
        base = self.origin or self
        counted = base.whole_s - sum(base.elsewhere.get(phase, 0.0) for phase in without)
        saving = self.saving().scale(base.whole_s / counted) if counted > 0 else Interval.exact(0.0)
        saving = self.in_another_run(saving).clip(0.0, 0.999)
        return Interval(1 / (1 - saving.low), 1 / (1 - saving.mid), 1 / (1 - saving.high))


def establish(
    capture: Capture,
    training: Training,
    pipeline: InputPipeline | None,
    host: HostUse | None,
    devices: DeviceUse | None,
    trials: Trials | None,
    starts: EpochStarts | None,
) -> StepModel:
    """Split the steady steps of the leading training, as its backend allows."""
    work = work_alone(trials) if trials is not None else None
    known = work.seconds if work is not None else None
    split_up = split.split(capture, training, accelerator=devices is not None, work_alone=known)
    step = split_up.step
    cores = (capture.meta.get("environment") or {}).get("cores")
    busy = host.cores_busy if host is not None else None
    overhead = (capture.meta.get("overhead") or {}).get("fraction") or 0.0
    return StepModel(
        step=step,
        parts=split_up.parts,
        how=split_up.how,
        gaps=split_up.gaps,
        works_ahead=_passes_unseen(split_up) or (pipeline is not None and pipeline.ahead),
        keeps_up=split_up.hidden > 0 and split_up.parts["input"].mid + split_up.hidden < split_up.parts["compute"].mid,
        cpu_s=busy * step.mid if busy is not None else None,
        cores=float(cores) if cores else None,
        planned_steps=training.planned_steps,
        epochs=training.epochs,
        begins_s=starts.pause.mid if starts is not None else 0.0,
        elsewhere=training.elsewhere,
        pauses_follow=training.backend == "tensorflow",
        overhead=max(0.0, float(overhead)),
        input_alone=alone(trials, "loader alone") if trials is not None else None,
        work_alone=work,
        drift=drift(trials) if trials is not None else 0.0,
    )


def _passes_unseen(found: split.Split) -> bool:
    """Input was seen to pass while the device computed."""
    return found.hidden > 0.5 * min(found.parts["input"].mid + found.hidden, found.parts["compute"].mid)


def stays(ratio: Interval, seconds: float, whole: float, same: float = 0.5) -> Interval:
    """Return what stays of `whole` seconds in the run if what took `seconds` of them in the lab takes `ratio` of that.

    The rest is something else, or the same thing, slower in the run than alone: at worst, at best, in the middle the
    share `same` of it.
    """
    least = min(1.0, seconds / whole) if whole > 0 else 0.0
    pairs = zip((1.0, least + same * (1 - least), least), (ratio.low, ratio.mid, ratio.high), strict=True)
    return Interval(*(1 - share * (1 - each) for share, each in pairs)).clip(0.0, 1.0)


def input_change(remaining: Interval, *also: Change) -> Change:
    """Return the change after which so much of the input's time stays.

    Between epochs the first batch is made and the old iterator torn down, with all that it had under way; and Python
    that makes batches keeps the training thread from the GIL.  How much of that time is the input's is not known: none
    of it, all of it, in the middle half.
    """
    return Change("input", remaining, also=(Change("between epochs", stays(remaining, 0.0, 1.0)), *also))


# --- what-ifs -----------------------------------------------------------------------------------------

_WORLDS = ("low", "mid", "high")
_WORST = {"low": "high", "mid": "mid", "high": "low"}
"""Which end of what a fix leaves or costs belongs to which world."""


def _at(interval: Interval, world: str) -> float:
    return {"low": interval.low, "mid": interval.mid, "high": interval.high}[world]


def _remaining(changes: tuple[Change, ...], part: str, world: str) -> float:
    """Return the share of a part that stays; the fix is at its worst in the low world."""
    end = _WORST[world]
    mine = [(each.rehearsed, min(1.0, max(0.0, _at(each.remaining, end)))) for each in changes if each.part == part]
    shares, rehearsed = ([share for was, share in mine if was is seen] for seen in (False, True))
    if part in _DISJOINT:
        return max(0.0, 1 - sum(1 - share for share in shares))
    return math.prod(shares) * min(rehearsed, default=1.0)


def _parts_after(base: StepModel, changes: tuple[Change, ...], world: str) -> dict[str, float]:
    modelled = tuple(change for change in changes if not change.rehearsed)
    parts = _parts_modelled(base, modelled, world)
    seen = tuple(change for change in changes if change.rehearsed and change.part == "step")
    if not seen:
        return parts
    # What was rehearsed is believed; what the model says of other changes to the input does not come on top of it.
    others = tuple(change for change in modelled if change.part != "input" and not change.overlap)
    beside = _parts_modelled(base, others, world)
    least = _remaining(seen, "step", world) * (sum(beside.values()) - beside["callbacks"])
    return _shortened(parts, least + parts["callbacks"])


def _shortened(parts: Mapping[str, float], total: float) -> dict[str, float]:
    """Return the parts with a shorter sum: the wait for input goes first."""
    now = sum(parts.values())
    rest = now - parts["input"] - parts["callbacks"]
    if total >= now:
        return dict(parts)
    if total >= now - parts["input"]:
        return {**parts, "input": parts["input"] - (now - total)}
    factor = max(0.0, total - parts["callbacks"]) / rest if rest > 0 else 0.0
    kept = {part: seconds * factor for part, seconds in parts.items()}
    return {**kept, "input": 0.0, "callbacks": parts["callbacks"]}


def _parts_modelled(base: StepModel, changes: tuple[Change, ...], world: str) -> dict[str, float]:
    # A fix of the whole step shortens waiting and working alike, whatever bounds it.
    step = _remaining(changes, "step", world)
    parts = _parts_apart(base, changes, world)
    return {part: seconds * (1.0 if part == "callbacks" else step) for part, seconds in parts.items()}


def _parts_apart(base: StepModel, changes: tuple[Change, ...], world: str) -> dict[str, float]:
    work = _remaining(changes, "work", world)
    parts = {
        part: _at(base.parts[part], world) * _remaining(changes, part, world) * (work if part in _WORK else 1.0)
        for part in PARTS
    }
    if base.works_ahead and changes and base.input_alone is not None and base.work_alone is not None and base.cores:
        faster = _remaining(changes, "input", world)
        return _beside(base, base.input_alone, base.work_alone, parts, faster, world)
    if base.input_bound:
        rest = sum(seconds for part, seconds in parts.items() if part != "input")
        before = sum(_at(base.parts[part], world) for part in PARTS if part != "input")
        parts["input"] = max(0.0, parts["input"] + before - rest)
    elif any(change.overlap for change in changes) and not base.works_ahead:
        parts["input"] = max(0.0, parts["input"] - _gain_of_overlap(base, parts, world))
    return parts


def _gain_of_overlap(base: StepModel, parts: Mapping[str, float], world: str) -> float:
    """Seconds of input that would pass unseen beside the rest of the step.

    A background thread works while the step computes and, at best, during everything else the step does.
    Where both need the same cores, the step cannot be shorter than its CPU seconds over the cores.  CPU
    seconds also count threads that only spin, so the bound is full at the pessimistic end and half in the
    middle.
    """
    serial = sum(parts.values())
    if base.input_alone is not None and base.work_alone is not None and base.cores:
        return _gain_by_experiment(base, base.input_alone, base.work_alone, parts, world)
    beside = parts["compute"] if world == "low" else serial - parts["input"]
    gain = min(parts["input"], beside)
    if world == "high":
        return gain
    if base.cpu_s is None or not base.cores:
        # Nothing says that a core is free.
        return gain / 2 if world == "low" else gain
    bounded = min(gain, max(0.0, serial - base.cpu_s / base.cores))
    return bounded if world == "low" else (gain + bounded) / 2


_CONTENTION = {"low": 1.1, "mid": 1.0, "high": 0.0}
"""Two sides that fill the cores together take as long as their CPU seconds say, at worst a tenth longer; at best the
CPU seconds were only spinning."""


def _gain_by_experiment(base: StepModel, input_: Alone, work: Alone, parts: Mapping[str, float], world: str) -> float:
    """Seconds of input that would pass unseen, from what each side takes and uses alone.

    Side by side the step is as long as the longer side, and no shorter than what both keep busy over the cores.
    """
    assert base.cores
    serial = sum(parts.values())
    rest = serial - parts["input"]
    # A fix that makes the input cheaper makes it cheaper alone too.
    before = _at(base.parts["input"], world)
    share = parts["input"] / before if before > 0 else 1.0
    loader = _at(input_.seconds, _WORST[world]) * share
    busy = (loader * min(input_.cores, base.cores) + rest * min(work.cores, base.cores)) / base.cores
    together = max(rest, loader, busy * _CONTENTION[world])
    return min(parts["input"], max(0.0, serial - together))


def _beside(
    base: StepModel, input_: Alone, work: Alone, parts: Mapping[str, float], faster: float, world: str
) -> dict[str, float]:
    """Return the parts of a step beside which batches are prepared, from what each side takes and uses alone.

    The wait is what is left of the longer side: it does not shrink in proportion.  The model is asked for the step as
    it is and as it would be; where the measured step is shorter than the model says, both are scaled.  Where it is
    longer, the two sides were in each other's way (the GIL, caches, memory), which takes both of them: at worst that
    stays in proportion to the step, in the middle to the side that shrinks more, at best to its square.
    """
    before = {part: _at(base.parts[part], world) for part in PARTS}
    rest, rest_before = (sum(each.values()) - each["input"] for each in (parts, before))
    shorter = rest / rest_before if rest_before > 0 else 1.0
    now = _side_by_side(base, input_, work, 1.0, 1.0, world)
    then = _side_by_side(base, input_, work, faster, shorter, world)
    step = sum(before.values())
    total = step * (min(1.0, then / now) if now > 0 else 1.0)
    if step > now > 0 and world != "low":
        less = min(1.0, faster, shorter)
        total = min(total, then + (step - now) * (less if world == "mid" else less**2))
    if total >= rest:
        return {**parts, "input": total - rest}
    # The batches no longer take cores from the step.
    return {part: 0.0 if part == "input" else seconds * total / rest for part, seconds in parts.items()}


def _side_by_side(base: StepModel, input_: Alone, work: Alone, faster: float, shorter: float, world: str) -> float:
    assert base.cores
    loader, step = input_.seconds.mid * faster, work.seconds.mid * shorter
    busy = (loader * min(input_.cores, base.cores) + step * min(work.cores, base.cores)) / base.cores
    return max(step, loader, busy * _CONTENTION[world])


def _saved_per_step(base: StepModel, changes: tuple[Change, ...], world: str) -> float:
    before = sum(_at(base.parts[part], world) for part in PARTS)
    return before - sum(_parts_after(base, changes, world).values())


def _saved(base: StepModel, changes: tuple[Change, ...]) -> Interval:
    """Seconds of the whole training that the changes save."""
    totals = []
    for world in _WORLDS:
        beyond = sum(seconds - each for seconds, each in _beyond(base, changes, world).values())
        once = sum(_at(change.once, _WORST[world]) for change in changes)
        totals.append(base.planned_steps * _saved_per_step(base, changes, world) + beyond - once)
    return _interval(*totals)


def _beyond(base: StepModel, changes: tuple[Change, ...], world: str) -> dict[str, tuple[float, float]]:
    """Return the seconds outside of the steps before and after the changes, by what they go to."""
    found = {name: (each, each * _remaining(changes, name, world)) for name, each in base.elsewhere.items()}
    pause = base.elsewhere.get("pause", 0.0)
    step = base.step.mid
    if base.pauses_follow and pause > 0 and step > 0 and world != "low":
        # Of the same step in every world: wider evidence on other parts must not make the same seconds a smaller share.
        shorter = min(1.0, max(0.0, 1 - _saved_per_step(base, changes, world) / step))
        found["pause"] = pause, found["pause"][1] * shorter
    return found


def _interval(low: float, mid: float, high: float) -> Interval:
    """Keep the middle world in the middle, whatever rounding does to the other two."""
    return Interval(min(low, mid, high), mid, max(low, mid, high))


def _changed(base: StepModel, changes: tuple[Change, ...]) -> StepModel:
    low, mid, high = (_parts_after(base, changes, world) for world in _WORLDS)
    saved = _interval(*(_saved_per_step(base, changes, world) for world in _WORLDS))
    now = sum(mid.values())
    elsewhere = {name: after for name, (_, after) in _beyond(base, changes, "mid").items()}
    once = sum(change.once.mid for change in changes)
    if once > 0:
        elsewhere["paid once"] = once
    return replace(
        base,
        step=_interval(max(0.0, base.step.mid - saved.high), now, base.step.mid - saved.low),
        parts={part: _interval(low[part], mid[part], high[part]) for part in PARTS},
        elsewhere=elsewhere,
        changes=changes,
        origin=base,
    )
