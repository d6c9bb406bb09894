"""The words of a diagnosis: what bounds the run, what to know about the measurement, what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from fitdoctor import units
from fitdoctor.facts import rows
from fitdoctor.facts.loader import HotLine, HotLoop
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.model import PARTS, Capture, Finding, Gap, Interval, Steps, Suspicion, Unknown

FEW_STEPS = 30
NOISY = 0.05
"""A step time known no better than this is said to be noisy."""
OUTLIER = 5.0
"""Steps this many times as long as the middle one are called pauses."""

STOLEN = 0.03
"""Processor time that others took is told from this share on."""

UNEXPLAINED = 0.1
"""A part of the step other than computing that takes more than this is not passed over in silence."""

_PART_WORDS = {
    "input": "waiting for input",
    "transfer": "copying to the device",
    "compute": "computing",
    "host": "preparing and launching the step in Python",
    "callbacks": "callbacks",
    "sync": "waiting for results",
    "other": "the loop's own Python",
}
_ELSEWHERE_WORDS = {
    "imports": "importing",
    "set-up": "set-up before the training",
    "compiling": "tracing and compiling",
    "validation": "validation",
    "epoch callbacks": "callbacks between epochs",
    "saving": "saving",
    "between epochs": "the time between epochs",
    "pause": "pauses between some epochs",
    "first epoch": "what only the first epoch took",
    "calls": "the fixed cost of each call",
    "between calls": "the script's own code between the calls",
    "other calls": "the other calls of the script",
    "short calls": "short calls of predict or evaluate in the loop",
    "compiling again": "tracing and compiling the same functions again",
}
_ONCE = frozenset({"set-up", "compiling", "first epoch"})
"""Paid once, however long the training is."""
_PLURAL = frozenset({"callbacks", "epoch callbacks", "other calls", "short calls"})


@dataclass(frozen=True, slots=True)
class Seen:
    """What the words are about."""

    capture: Capture
    training: Training | None
    model: StepModel | None
    gap: Gap | None
    """Why there is no training or no model."""
    findings: Sequence[Finding]
    unknown: Sequence[Unknown]
    suspicions: Sequence[Suspicion] = ()
    stolen: float | None = None
    """Share of the machine's processor time that others on the same host took."""
    hot: HotLine | HotLoop | None = None
    """Where most of the time goes that making a batch in Python takes, as far as that is known."""


def bound(model: StepModel) -> str:
    """Name what takes the most of the whole training: a part of the step or a name of `elsewhere`."""
    steps = {part: model.planned_steps * model.parts[part].mid for part in PARTS}
    # Importing is paid once per start whatever the training does: it never is what makes a training slow.
    candidates = {name: seconds for name, seconds in model.elsewhere.items() if name != "imports"}
    biggest, seconds = max(candidates.items(), key=lambda each: each[1], default=("", 0.0))
    if seconds > sum(steps.values()):
        return biggest
    if model.input_bound:
        # What computes meanwhile hides behind the input: a faster model would not make a faster training.
        return "input"
    return max(PARTS, key=lambda part: steps[part])


def sentence(seen: Seen) -> str:
    """Say in one plain sentence what bounds the run and by how much."""
    model, training = seen.model, seen.training
    if model is None or training is None:
        gap = seen.gap
        if gap is not None and gap.what == "training":
            return "No training was seen: the script ended without a fit or a training loop."
        return f"Too little was seen for a diagnosis: {gap.reason if gap else 'nothing was recorded'}."
    what = bound(model)
    if what not in PARTS:
        return _finish(seen, _elsewhere(what, training, model), at_work=False)
    if what == "compute" and "input" in model.gaps:
        share = units.percent(model.share(what).mid)
        text = f"computing and waiting for input, not told apart, take {share} of each step"
        return _finish(seen, text, at_work=False)
    share, step = units.percent_range(model.share(what)), units.duration(model.step.mid)
    return _finish(seen, f"{_PART_WORDS[what]} {_takes(what)} {share} of each {step} step", at_work=what == "compute")


def _takes(what: str) -> str:
    return "take" if what in _PLURAL else "takes"


def _elsewhere(what: str, training: Training, model: StepModel) -> str:
    share = units.percent(model.elsewhere[what] / model.whole_s)
    if what == "calls" and training.fixed_per_call is not None:
        each = units.duration(training.fixed_per_call.mid)
        calls = f"each of {training.call_count} calls of {training.kind}"
        return f"{calls} costs {each} beyond its steps: {share} of the training"
    return f"{_ELSEWHERE_WORDS.get(what, what)} {_takes(what)} {share} of the training, more than its steps"


def _finish(seen: Seen, text: str, *, at_work: bool) -> str:
    capital = text[:1].upper() + text[1:]
    if seen.findings and at_work:
        fixed, stays = together(seen.model, seen.findings), fewer_steps(seen.findings)
        saved = fixed.in_another_run(fixed.saving())
        saving = Interval(
            1 - (1 - saved.low) * stays.high, 1 - (1 - saved.mid) * stays.mid, 1 - (1 - saved.high) * stays.low
        )
        return f"{capital}; fixing what was found would save {units.percent_range(saving)} of the training."
    if seen.findings:
        return f"{capital}."
    doubts = _doubts(seen)
    if doubts:
        return f"{capital}; nothing was found to fix, but {doubts}.{_where_made(seen)}"
    if seen.model is not None and bound(seen.model) in _ONCE:
        return f"{capital}; a longer one would not pay that again, and nothing else was found to fix."
    if not at_work:
        return f"{capital}; none of the rules explains it.{_where_made(seen)}"
    left = _unexplained(seen)
    if left:
        return f"{capital}; nothing was found to fix, but none of the rules explains {left}."
    return f"Nothing worth fixing: {text}."


def _where_made(seen: Seen) -> str:
    """Name the line that making a batch spends its time in, where the run waits for batches."""
    if seen.hot is None or seen.model is None or bound(seen.model) != "input":
        return ""
    site = seen.hot.site
    return f" {units.percent(seen.hot.share)} of making a batch is spent at {PurePath(site.path).name}:{site.line}."


def _doubts(seen: Seen) -> str:
    unknown = list(dict.fromkeys(each.rule for each in seen.unknown))
    suspected = [name for name in dict.fromkeys(each.rule for each in seen.suspicions) if name not in unknown]
    doubts = [f"{', '.join(unknown)} could not be judged"] if unknown else []
    if suspected:
        doubts.append(f"{', '.join(suspected)} {'is' if len(suspected) == 1 else 'are'} suspected")
    return ", and ".join(doubts)


def _unexplained(seen: Seen) -> str:
    assert seen.model is not None
    large = [
        f"{_PART_WORDS[part]} ({units.percent(seen.model.share(part).mid)})"
        for part in PARTS
        if part != "compute" and seen.model.share(part).mid > UNEXPLAINED
    ]
    return " and ".join(large)


def together(model: StepModel | None, findings: Sequence[Finding]) -> StepModel:
    """Return the step as it would be with everything fixed: savings overlap, so they are never summed."""
    assert model is not None
    for finding in findings:
        if finding.cost.change is not None:
            model = model.with_change(finding.cost.change)
    return model


def fewer_steps(findings: Sequence[Finding]) -> Interval:
    """Return the share of the steps that stays: some fixes change no step, and leave steps out."""
    stays = Interval.exact(1.0)
    for finding in findings:
        if finding.cost.change is None:
            left_out = finding.cost.saving.clip(0.0, 0.999)
            stays = Interval(
                stays.low * (1 - left_out.high), stays.mid * (1 - left_out.mid), stays.high * (1 - left_out.low)
            )
    return stays


def notes(seen: Seen) -> tuple[str, ...]:
    """Say what the reader must know about the measurement itself."""
    said: list[str] = []
    if seen.capture.meta.get("overlay"):
        said.append("The script ran with fixes that are not written: lines are those of the fixed files.")
    if seen.model is not None and seen.training is not None:
        said += _about_steps(seen.capture, seen.training, seen.model)
        said += _about_the_machine(seen.stolen)
        said += [_gap_note(gap) for gap in (*seen.training.gaps, *seen.model.gaps.values())]
    elif seen.gap is not None:
        said.append(_gap_note(seen.gap))
    said += [_gap_note(gap) for gap in seen.capture.gaps if gap.remedy != Gap.DOES_NOT_APPLY]
    ended = seen.capture.meta.get("exit") or {}
    if ended.get("reason") in ("exception", "signal"):
        said.append(f"The script ended early ({ended['reason']}): this is what was seen until then.")
    if ended.get("reason") == "running":
        said.append("The script was still running, or was killed: this is what was seen until then.")
    overhead = seen.capture.meta.get("overhead") or {}
    if overhead.get("fraction") is not None:
        mid = float(overhead.get("us_per_step") or 0.0)
        ends = [float(overhead.get(f"us_per_step_{end}", mid)) / 1e6 for end in ("low", "high")]
        cost = " to ".join(dict.fromkeys(map(units.duration, ends)))
        share = units.percent(float(overhead["fraction"]))
        said.append(f"Watching cost {cost} per step, about {share} of it ({overhead.get('how', 'how is not told')}).")
    else:
        said.append("What watching cost this run is not known.")
    return tuple(dict.fromkeys(said))


def _gap_note(gap: Gap) -> str:
    stop = "" if gap.remedy.endswith((".", ":", ")")) else "."
    return f"Not seen: {gap.what}: {gap.reason}. To see it: {gap.remedy}{stop}"


def _about_steps(capture: Capture, training: Training, model: StepModel) -> list[str]:
    said = []
    if training.steps < FEW_STEPS:
        said.append(f"Only {training.steps} steady steps were seen: the numbers are rough.")
    half = (model.step.high - model.step.low) / 2
    if model.step.mid > 0 and half > NOISY * model.step.mid:
        said.append(f"Step times vary a lot: {units.duration_range(model.step)}.")
    pauses, share = _pauses(capture, training)
    if pauses:
        said.append(
            f"{pauses} steps took more than {OUTLIER:g} times as long as the middle one; "
            f"they are {units.percent(share)} of the steps' time."
        )
    return said


def _about_the_machine(stolen: float | None) -> list[str]:
    if stolen is None or stolen <= STOLEN:
        return []
    return [
        f"Others on the same host took {units.percent(stolen)} of this virtual machine's processor time (steal): steps "
        "take longer for it, and vary. On a burstable instance that is what running out of CPU credits looks like."
    ]


def _pauses(capture: Capture, training: Training) -> tuple[int, float]:
    import numpy as np

    every = rows.joined([capture.steps[call.id] for call in training.calls if call.id in capture.steps])
    steady = rows.choose(every, (every.flags & (Steps.WARMUP | Steps.DRAINED | Steps.RESTED)) == 0)
    if not rows.size(steady):
        return 0, 0.0
    steady = rows.choose(steady, steady.count > 0)
    each = steady.wall_ns / steady.count
    long = each > OUTLIER * np.median(each)
    return int(long.sum()), float(steady.wall_ns[long].sum() / max(1, steady.wall_ns.sum()))


def next_command(seen: Seen) -> str:
    """Return the next command to type."""
    command = [str(each) for each in seen.capture.meta.get("command") or ()]
    if not command:
        return "fitdoctor env"
    rough = seen.training is not None and (seen.training.steps < FEW_STEPS or _is_noisy(seen.model))
    if seen.model is None and seen.gap is not None and seen.gap.what == "training":
        return "fitdoctor run --help"
    if seen.model is not None and seen.unknown and seen.capture.meta.get("mode") != "capped":
        # Experiments tell more than more of the same.
        return shlex.join(["fitdoctor", "run", *command])
    if seen.model is None or rough:
        steps = max(200, 4 * (seen.training.steps if seen.training else 0))
        return shlex.join(["fitdoctor", "run", "--steps", str(steps), *command])
    if seen.findings:
        editable = any(each.fix is not None and each.fix.edits for each in seen.findings)
        return shlex.join(["fitdoctor", "fix" if editable else "run", *command])
    return shlex.join(["fitdoctor", "report", seen.capture.path, "--format", "json"])


def _is_noisy(model: StepModel | None) -> bool:
    step = model.step if model is not None else Interval.exact(0.0)
    return step.mid > 0 and (step.high - step.low) / 2 > NOISY * step.mid
