"""Which training leads, and what it costs as a whole: the observed part, projected to the end."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import again, pauses, rows
from fitdoctor.facts.again import Again
from fitdoctor.facts.epoch_looks import first_epoch_s, later_epochs, saving_per_step
from fitdoctor.facts.short_calls import ShortCalls
from fitdoctor.model import Call, CallbackTime, Capture, Gap, Interval, Site, Steps

ONE_OFF = ("imports", "set-up", "compiling")
FEWEST_STEADY_ROWS = 2


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """The leading training of the run: one call, or one group of many calls from the same line."""

    kind: str
    site: Site | None
    backend: str
    info: Mapping[str, Any]
    """Of the group's last call."""
    calls: tuple[Call, ...]
    call_count: int
    steps: int
    """Optimizer steps observed, warm-up left out."""
    warmup_steps: int
    step_s: float
    """Mean seconds per steady step."""
    steps_per_epoch: float | None
    """None where no epoch was seen to its end and the script does not say."""
    epochs: int
    planned_steps: float
    fixed_per_call: Interval | None
    """Seconds per call beyond its steps, validation and epoch work; None for a single call."""
    elsewhere: Mapping[str, float]
    """Projected seconds of the whole training outside its steps."""
    gaps: tuple[Gap, ...]
    unsteady_s: float = 0.0
    """Seconds of steps that stand for steady ones though something was compiled in each: there were no others."""
    again: tuple[Again, ...] = ()
    """What was traced or compiled again after the first steps, the costliest first."""

    @property
    def whole_s(self) -> float:
        """Projected seconds of the whole training as the user would run it."""
        return self.planned_steps * self.step_s + sum(self.elsewhere.values())

    @property
    def call_ids(self) -> frozenset[int]:
        """The ids of the group's calls."""
        return frozenset(call.id for call in self.calls)

    @property
    def where(self) -> str:
        """The leading call as people name it."""
        return f"{self.kind} at {self.site}" if self.site else self.kind


def establish(capture: Capture, short: ShortCalls) -> Training:
    """Choose the group with the largest projected time; what the others cost is kept in `elsewhere`."""
    groups = _groups(capture.calls)
    projected = [each for group in groups if (each := _project(capture, group)) is not None]
    if not projected:
        raise MissingEvidence(_nothing_seen(capture, groups))
    leader = max(projected, key=lambda each: each.whole_s)
    others = sum(each.whole_s for each in projected if each is not leader)
    between = leader.elsewhere.get("between calls", 0.0)
    one_off = {phase: float(capture.account.get(phase, 0.0)) for phase in ONE_OFF}
    capped = (capture.meta.get("exit") or {}).get("reason") == "capped"
    if leader.kind != "fit" and capped and not leader.info.get("planned_steps"):
        # A loop of unknown length: what is paid once is not weighed against the few steps that were watched.
        one_off = dict.fromkeys(ONE_OFF, 0.0)
        leader = replace(leader, gaps=(*leader.gaps, LENGTH))
    # What the script does between the calls of a loop happens once per call, not once per run.
    one_off["set-up"] = max(0.0, one_off["set-up"] - between)
    repeated = sum(each.seconds for each in leader.again)
    one_off["compiling"] = max(0.0, one_off["compiling"] - short.compiling_s - repeated - leader.unsteady_s)
    # A loop that goes on makes its short calls as often as before.
    observed = leader.steps + leader.warmup_steps
    on = max(1.0, leader.planned_steps / observed) if leader.kind != "fit" and observed else 1.0
    elsewhere = {**one_off, **leader.elsewhere, "other calls": others, "short calls": short.total_s * on}
    if leader.kind != "fit" and all(each.kind != "fit" for each in projected):
        elsewhere["between epochs"], elsewhere["pause"] = _between_passes(capture, leader.calls, on)
    return replace(leader, elsewhere={name: value for name, value in elsewhere.items() if value > 0})


LENGTH = Gap(
    "the length of the loop",
    "it was cut short and the script does not say: savings are of its steps, without what is paid once",
    "let it run to its end: --whole",
)


def _groups(calls: Sequence[Call]) -> list[tuple[Call, ...]]:
    """Put calls of the same kind from the same line together; nested calls belong to the call around them."""
    found: dict[Any, list[Call]] = {}
    for call in calls:
        if call.parent is None:
            key = (call.kind, call.site.path, call.site.line) if call.site else call.id
            found.setdefault(key, []).append(call)
    return [tuple(sorted(group, key=lambda call: call.start_ns)) for group in found.values()]


def _nothing_seen(capture: Capture, groups: Sequence[tuple[Call, ...]]) -> Gap:
    ended = (capture.meta.get("exit") or {}).get("reason", "running")
    if groups:
        seen = sum(rows.size(capture.steps[call.id]) for group in groups for call in group if call.id in capture.steps)
        return Gap(
            "steady steps",
            f"{seen} steps were seen, fewer than {FEWEST_STEADY_ROWS} of them after warm-up (run: {ended})",
            Gap.LONGER,
        )
    return Gap(
        "training",
        f"no fit, train_on_batch or training loop was seen (run: {ended})",
        "give the script that trains, or mark its loop: for batch in fitdoctor.steps(data):",
    )


def _project(capture: Capture, calls: tuple[Call, ...]) -> Training | None:
    """Project one group to its end; None where it has no steady steps."""
    seen = [(call, capture.steps[call.id]) for call in calls if call.id in capture.steps]
    if not seen:
        return None
    every = rows.joined([steps for _, steps in seen])
    mask = rows.steady(every)
    if int(mask.sum()) < FEWEST_STEADY_ROWS:
        return None
    chosen = rows.choose(every, mask)
    step_s = float(chosen.wall_ns.sum()) / float(chosen.count.sum()) / 1e9
    warm = rows.warm(every)
    call_count = sum(call.count for call in calls)
    plans = [_plan(capture, call, steps, last=call is _last(capture)) for call, steps in seen]
    epochs = sum(plan.epochs for plan in plans)
    per_epoch, pause, gaps = _per_epoch(capture, seen, epochs)
    elsewhere = {name: seconds * epochs for name, seconds in per_epoch.items()}
    pause += _after_last_epoch(capture, calls)
    if pause > 0:
        elsewhere["pause"] = pause
    if calls[-1].kind == "fit" and call_count == 1:
        elsewhere["first epoch"] = first_epoch_s(capture, seen)
    planned = sum(plan.steps for plan in plans)
    saving = saving_per_step(capture, seen)
    if saving > 0:
        elsewhere["saving"] = elsewhere.get("saving", 0.0) + saving * planned
    repeated = again.found(capture, seen, planned)
    if repeated:
        elsewhere["compiling again"] = sum(each.projected_s for each in repeated)
    per_call = sum(per_epoch.values())
    fixed = _fixed_per_call(capture, seen, step_s, per_call, repeated) if call_count > 1 else None
    if fixed is not None:
        elsewhere["calls"] = fixed.mid * call_count
        elsewhere["between calls"] = _between_calls(capture, calls)
    lengths = [plan.steps_per_epoch for plan in plans if plan.steps_per_epoch is not None]
    if calls[-1].kind == "fit" and not lengths:
        gaps += (
            Gap(
                "steps per epoch",
                "no epoch was seen to its end and the script does not say",
                "pass steps_per_epoch, or let it run longer: --steps and --budget",
            ),
        )
    info = calls[-1].info
    return Training(
        kind=calls[-1].kind,
        site=calls[-1].site,
        backend=str(info.get("backend") or capture.meta.get("backend") or "unknown"),
        info=info,
        calls=calls,
        call_count=call_count,
        steps=int(every.count[warm].sum()),
        warmup_steps=int(every.count[~warm].sum()),
        step_s=step_s,
        steps_per_epoch=statistics.median(lengths) if lengths else None,
        epochs=epochs,
        planned_steps=planned,
        fixed_per_call=fixed,
        elsewhere=elsewhere,
        gaps=gaps,
        unsteady_s=float(chosen.wall_ns[(chosen.flags & Steps.WARMUP) != 0].sum()) / 1e9,
        again=repeated,
    )


def _last(capture: Capture) -> Call:
    return max((call for call in capture.calls if call.parent is None), key=lambda call: call.start_ns)


@dataclass(frozen=True, slots=True)
class _Plan:
    steps: float
    epochs: int
    steps_per_epoch: float | None


def _plan(capture: Capture, call: Call, steps: Steps, *, last: bool) -> _Plan:
    """Tell how many steps and epochs a call has when it is let run to its end."""
    observed = int(steps.count.sum())
    seen = max(1, len(set(steps.epoch.tolist())))
    finished = _finished(capture, call, last=last)
    lengths = _complete_epochs(capture, call, steps)
    said = call.info.get("steps_per_epoch")
    per_epoch = float(said) if said else statistics.median(lengths) if lengths else None
    if call.kind != "fit":
        return _Plan(max(observed, int(call.info.get("planned_steps") or 0)), 0, None)
    if finished:
        return _Plan(observed, seen, per_epoch if per_epoch is not None else observed / seen)
    epochs = max(seen, int(call.info.get("epochs") or 0) - int(call.info.get("initial_epoch") or 0))
    # With an epoch of unknown length, what was seen of it is the least it can be.
    return _Plan(max(float(observed), epochs * (per_epoch or observed / seen)), epochs, per_epoch)


def _finished(capture: Capture, call: Call, *, last: bool) -> bool:
    """Tell whether a call came to its own end: the last one of a run that was cut short did not."""
    ended = (capture.meta.get("exit") or {}).get("reason", "running")
    return call.end_ns is not None and not (last and ended != "finished")


def _complete_epochs(capture: Capture, call: Call, steps: Steps) -> list[float]:
    return [
        float(steps.count[steps.epoch == each.epoch].sum())
        for each in capture.epochs
        if each.call == call.id and each.steps_end_ns is not None
    ]


def _per_epoch(
    capture: Capture, seen: Sequence[tuple[Call, Steps]], epochs: int
) -> tuple[dict[str, float], float, tuple[Gap, ...]]:
    """Return the seconds per epoch outside its steps, by what they went to; and those of all pauses of `epochs`."""
    looked = later_epochs(capture, seen)
    ids = {call.id for call, _ in seen}
    if not looked:
        if seen[-1][0].kind != "fit":
            return {}, 0.0, ()
        gap = Gap(
            "validation and the time between epochs",
            "no epoch was seen to its end",
            Gap.LONGER,
        )
        return {}, 0.0, (gap,)
    # The mean: not every epoch validates, and in some of them memory is given back.
    validation = statistics.fmean(look.validation for look in looked)
    hooks = [
        each
        for each in merged(each for each in capture.callbacks if each.call in ids and not each.threaded)
        if each.hook in ("on_epoch_begin", "on_epoch_end")
    ]
    own = sum(each.self_ns / max(1, each.count) for each in hooks) / 1e9
    nested = sum((each.total_ns - each.self_ns) / max(1, each.count) for each in hooks) / 1e9
    lab = pauses.in_the_lab(each for each in capture.trials if each.call in ids)
    freeing = pauses.stalls([look.freeing for look in looked], lab)
    rests = [look.outside - stall for look, stall in zip(looked, freeing, strict=True)]
    pause = pauses.seen_once(rests, by_hooks=own + nested)
    rest = (sum(rests) - pause) / len(rests) - own - nested
    split = {
        "validation": validation,
        "epoch callbacks": own,
        "saving": nested,
        "between epochs": max(0.0, rest),
    }
    # What the first epoch of a single call held stands by itself.
    later = epochs - 1 if len(seen) == 1 else epochs
    return split, pause + pauses.projected(freeing, later, lab), ()


def _after_last_epoch(capture: Capture, calls: Sequence[Call]) -> float:
    """Seconds that a single `fit` stood still after its last epoch, where it lets go of its data for the last time.

    Of many calls that is part of what each call takes.
    """
    call = calls[0]
    single = call.kind == "fit" and sum(each.count for each in calls) == 1
    if not single or call.end_ns is None or not _finished(capture, call, last=call is _last(capture)):
        return 0.0
    ends = [each.end_ns for each in capture.epochs if each.call == call.id and each.end_ns is not None]
    hooks = sum(each.total_ns for each in capture.callbacks if each.call == call.id and each.hook == "on_train_end")
    last = max(ends, default=call.end_ns)
    compiling = sum(each.duration_ns for each in capture.compiles if last <= each.start_ns < call.end_ns)
    after = (call.end_ns - last - hooks - compiling) / 1e9
    return after if after > pauses.LEAST_STALL else 0.0


def _between_passes(capture: Capture, calls: Sequence[Call], on: float) -> tuple[float, float]:
    """Seconds between the passes of hand-written loops over their data, in `on` times as many steps as were seen.

    And those of pauses: data that is freed, a stall that was seen once.
    """
    seen = float(capture.account.get("between epochs", 0.0))
    gaps: list[float] = []
    for steps in (capture.steps[call.id] for call in calls if call.id in capture.steps):
        between = (steps.start_ns[1:] - steps.start_ns[:-1] - steps.wall_ns[:-1]).clip(0) / 1e9
        # What passes at the beginning of a pass lies inside its first row, and is no part of what that row took.
        ends = [int(each) for each in (steps.epoch[1:] != steps.epoch[:-1]).nonzero()[0]]
        gaps += [float(between[each : each + 2].sum()) for each in ends]
    frees = calls[-1].info.get("backend") == "tensorflow"
    stalls = pauses.stalls(gaps) if frees else [0.0] * len(gaps)
    once = pauses.seen_once([gap - stall for gap, stall in zip(gaps, stalls, strict=True)])
    paused = min(seen, sum(stalls) + once)
    pause = pauses.projected(stalls, round(len(gaps) * on)) + once
    return (seen - paused) * on, min(pause, paused * on)


def merged(times: Iterable[CallbackTime]) -> list[CallbackTime]:
    """Add up the rows of one hook over several calls."""
    found: dict[tuple[str, str], CallbackTime] = {}
    for each in times:
        before = found.get((each.name, each.hook))
        if before is not None:
            each = replace(
                each,
                count=before.count + each.count,
                total_ns=before.total_ns + each.total_ns,
                self_ns=before.self_ns + each.self_ns,
                max_ns=max(before.max_ns, each.max_ns),
            )
        found[each.name, each.hook] = each
    return list(found.values())


def _fixed_per_call(
    capture: Capture,
    seen: Sequence[tuple[Call, Steps]],
    step_s: float,
    per_epoch: float,
    repeated: Sequence[Again],
) -> Interval | None:
    """Seconds a call costs beyond its steps; calls that compiled do not count while others remain."""
    compiled = {each.call for each in capture.compiles} | {seen[0][0].id}
    costs = []
    for call, steps in [each for each in seen if each[0].id not in compiled] or seen:
        total = call.info.get("total_ns")
        if total is None and call.end_ns is not None:
            total = call.end_ns - call.start_ns
        if total is not None:
            epochs = len(set(steps.epoch.tolist())) if call.kind == "fit" else 0
            work = float(steps.count.sum()) * step_s + epochs * per_epoch
            work += sum(each.by_call.get(call.id, 0.0) for each in repeated)
            costs.append(max(0.0, total / 1e9 - work) / call.count)
    return rows.means({"fixed": costs}, [1.0] * len(costs))["fixed"] if costs else None


def _between_calls(capture: Capture, calls: Sequence[Call]) -> float:
    """Seconds of the script's own code between the calls of a group."""
    total = 0.0
    for before, after in itertools.pairwise(calls):
        if before.end_ns is None:
            continue
        others = sum(
            (other.end_ns or after.start_ns) - other.start_ns
            for other in capture.calls
            if other.parent is None and before.end_ns <= other.start_ns < after.start_ns
        )
        total += max(0, after.start_ns - before.end_ns - others)
    return total / 1e9
