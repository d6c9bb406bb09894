"""From what was diagnosed and what was measured to docs/accuracy.md: pure functions."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pairs
from fitdoctor import units
from fitdoctor.facts.step_model import StepModel
from fitdoctor.model import Finding, Interval


@dataclass(frozen=True)
class Found:
    """One finding of a report."""

    rule: str
    line: int | None
    end_line: int | None
    saving: Interval
    """As a share of the training, which is what the scripts time."""
    steady: float | None = None
    """The same of what grows with the number of steps: what is paid once, however long a training is, is in neither."""

    @classmethod
    def of(
        cls, finding: Finding, run: Mapping[str, Any], compiled_outside: float = 0.0, model: StepModel | None = None
    ) -> Found:
        """Read it.

        fitdoctor predicts what the user waits for, imports and making data and model included (`compiled_outside`:
        seconds of compiling in that); on scripts as short as these that is a visible part, and no fix changes it.
        """
        cost, site = finding.cost, finding.site
        projected = run.get("projected") or {}
        whole = sum(projected.values())
        training = whole - sum(projected.get(phase, 0.0) for phase in ("imports", "set-up"))
        training -= min(compiled_outside, projected.get("compiling", 0.0))
        scale = whole / training if training > 0 else 1.0
        if model is not None and cost.change is not None:
            steady: float | None = 1 - _steady(model.with_change(cost.change)) / max(_steady(model), 1e-9)
        else:
            steps = training - pairs.paid_once(run, compiled_outside)
            steady = cost.saving.mid * whole / steps if steps > 0 else None
        return cls(
            finding.rule,
            site.line if site else None,
            site.end_line if site else None,
            cost.saving.scale(scale).clip(0.0, 1.0),
            None if steady is None else min(1.0, steady),
        )


ONCE = ("imports", "set-up", "compiling", *pairs.PAID_ONCE, "paid once")
"""What a longer training would not pay again."""


def _steady(model: StepModel) -> float:
    """Return the seconds of a training that grow with the number of its steps."""
    beyond = sum(seconds for name, seconds in model.elsewhere.items() if name not in ONCE)
    return model.planned_steps * model.step.mid + beyond


@dataclass(frozen=True)
class Diagnosis:
    """What fitdoctor said of a script, largest saving first; or why it said nothing."""

    findings: tuple[Found, ...]
    problem: str = ""
    lab_spent: float | None = None
    """What the experiments took of the time left for them, as a fraction; None without experiments."""


@dataclass(frozen=True)
class Row:
    """One pair: what was diagnosed and what the fast version really saved."""

    cause: str
    backend: str
    lines: tuple[int, ...]
    diagnosis: Diagnosis
    realised: Interval | None
    problem: str = ""
    runs: int = 0
    """How often slow and fast were timed against each other."""
    steady: Interval | None = None
    """What was realised of what grows with the number of steps."""
    repeat: float | None = None
    """How far two timings of what is left of a step are apart: no prediction could be nearer to both."""
    timed: str = ""
    """The day on which they were timed last."""

    @property
    def first(self) -> Found | None:
        """Return the first finding."""
        return self.diagnosis.findings[0] if self.diagnosis.findings else None

    @property
    def right_first(self) -> bool:
        """Tell whether the cause stands first."""
        return self.first is not None and self.first.rule == self.cause

    @property
    def found(self) -> Found | None:
        """Return the finding of the cause, wherever it stands."""
        return next((each for each in self.diagnosis.findings if each.rule == self.cause), None)

    @property
    def right_line(self) -> bool | None:
        """Tell whether the finding of the cause points where a person would edit; None without a finding."""
        found = self.found
        if found is None:
            return None
        if found.line is None:
            return False
        within = found.end_line is not None and found.line <= self.lines[0] <= found.end_line
        return found.line in self.lines or within

    @property
    def inside(self) -> bool | None:
        """Tell whether the realised saving lies in the predicted interval; None where one of them is missing."""
        if self.found is None or self.realised is None:
            return None
        return self.found.saving.low <= self.realised.mid <= self.found.saving.high

    @property
    def points(self) -> float | None:
        """Return how far the predicted saving is off, as a fraction of the training time before the fix."""
        if self.found is None or self.realised is None:
            return None
        return self.found.saving.mid - self.realised.mid

    @property
    def error(self) -> float | None:
        """Return how far the predicted training time after the fix is off, as a fraction of the realised one."""
        return _off(self.found.saving.mid if self.found else None, self.realised)

    @property
    def step_error(self) -> float | None:
        """Return how far the predicted step time after the fix is off, as a fraction of the realised one."""
        return _off(self.found.steady if self.found else None, self.steady)


def _off(saving: float | None, realised: Interval | None) -> float | None:
    if saving is None or realised is None or realised.mid >= 1:
        return None
    predicted, real = 1 - saving, 1 - realised.mid
    return (predicted - real) / real


@dataclass(frozen=True)
class Healthy:
    """One script that has nothing worth fixing."""

    name: str
    diagnosis: Diagnosis

    @property
    def false_alarm(self) -> bool:
        """Tell whether something was found all the same."""
        return bool(self.diagnosis.findings)


@dataclass(frozen=True)
class Summary:
    """The accuracy in a few numbers; shares are (how many, of how many)."""

    right_first: tuple[int, int]
    right_line: tuple[int, int]
    inside: tuple[int, int]
    median_step_error: float | None
    median_repeat: float | None
    median_error: float | None
    median_points: float | None
    false_alarms: tuple[int, int]
    lab_spent: float | None
    """The most that the experiments took of the time left for them."""
    unanswered: int
    """Pairs without a prediction of their cause, or without a measured gain: in no error and no interval above."""


def summary(rows: Sequence[Row], healthy: Sequence[Healthy]) -> Summary:
    """Count."""
    lines = [each.right_line for each in rows if each.right_line is not None]
    inside = [each.inside for each in rows if each.inside is not None]
    step_errors = [abs(each.step_error) for each in rows if each.step_error is not None]
    repeats = [each.repeat for each in rows if each.repeat is not None]
    errors = [abs(each.error) for each in rows if each.error is not None]
    points = [abs(each.points) for each in rows if each.points is not None]
    judged = [each for each in healthy if not each.diagnosis.problem]
    spent = [each.diagnosis.lab_spent for each in (*rows, *healthy)]
    return Summary(
        right_first=(sum(each.right_first for each in rows), len(rows)),
        right_line=(sum(lines), len(lines)),
        inside=(sum(inside), len(inside)),
        median_step_error=statistics.median(step_errors) if step_errors else None,
        median_repeat=statistics.median(repeats) if repeats else None,
        median_error=statistics.median(errors) if errors else None,
        median_points=statistics.median(points) if points else None,
        false_alarms=(sum(each.false_alarm for each in judged), len(judged)),
        lab_spent=max((each for each in spent if each is not None), default=None),
        unanswered=sum(each.inside is None or each.step_error is None for each in rows),
    )


def said(diagnosis: Diagnosis) -> str:
    """Return a diagnosis in a few words."""
    if diagnosis.problem:
        return f"no report ({diagnosis.problem})"
    return ", ".join(each.rule for each in diagnosis.findings) or "no finding"


def line(row: Row) -> str:
    """Return a row for the terminal."""
    predicted = units.percent_range(row.found.saving) if row.found else "no prediction"
    real = _real(row) if row.realised else row.problem or "not measured"
    return f"{row.cause}: found {said(row.diagnosis)}; predicted {predicted}, realised {real}"


def page(
    rows: Sequence[Row],
    healthy: Sequence[Healthy],
    *,
    machine: str,
    versions: Mapping[str, str],
    date: str,
    again: bool = False,
) -> str:
    """Return docs/accuracy.md."""
    stack = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    parts = [
        "# How accurate it is",
        "Written by `make bench-accuracy`; do not edit. Each pair of the corpus is a slow script with one known\n"
        "cause, and the same training made fast by hand. fitdoctor sees the slow script only. *Predicted* is the\n"
        "share of the training time it says the fix saves; *realised* is what the fast script really saved, timed\n"
        "against the slow one in turns: the median of so many runs with its 95 % interval. While they are timed\n"
        "both are watched, without experiments, which costs microseconds a step.",
        "*Time off by* compares the training time that is left, predicted against realised. These trainings are\n"
        "short: where a fix saves nine tenths, a second of compiling is most of what is left, and a longer training\n"
        "would not pay it again; and TensorFlow stands still at the beginning of some epochs and not of others,\n"
        "whoever watches. *Step off by* leaves both out on both sides: it is how far the predicted time of a step\n"
        "(with what lies between steps and epochs, over all steps of the slow script) is off. The machine is shared:\n"
        "*two timings differ by* says how far what is left of a step was off from itself, minutes apart. A run during\n"
        f"which the hypervisor gave more than {units.percent(pairs.STOLEN)} of the processor to others was made again.",
        f"Measured on {date}: {machine}; {stack or 'versions unknown'}."
        + (" Captures of earlier runs were judged anew." if again else "")
        + _earlier(rows, date),
        "## In short",
        _summary(summary(rows, healthy)),
        "## Pairs",
        _pairs(rows),
        *_wrong(rows, healthy),
        "## Healthy scripts",
        _healthy(healthy),
    ]
    return "\n\n".join(parts) + "\n"


def _earlier(rows: Sequence[Row], date: str) -> str:
    """Say where slow and fast were not timed on the day of the diagnosis."""
    days = sorted({each.timed for each in rows if each.timed and each.timed != date})
    if not days:
        return ""
    count = sum(each.timed in days for each in rows)
    return f" {count} of {len(rows)} pairs were timed on another day ({', '.join(days)})."


def _of(share: tuple[int, int]) -> str:
    count, total = share
    return f"{count} of {total} ({units.percent(count / total)})" if total else "none to judge"


def _summary(found: Summary) -> str:
    medians = (found.median_step_error, found.median_repeat, found.median_error, found.median_points)
    step, repeat, error, points = ("nothing to judge" if each is None else units.percent(each) for each in medians)
    spent = "no experiments" if found.lab_spent is None else units.percent(found.lab_spent)
    return "\n".join(
        [
            "| | result | wanted |",
            "|---|---|---|",
            f"| right cause first | {_of(found.right_first)} | at least 90 % |",
            f"| its line is where a person would edit | {_of(found.right_line)} | |",
            f"| median error of the predicted step time, as a share of the realised | {step} | at most 10 % |",
            f"| two timings of the same step differ by, in the median | {repeat} | |",
            f"| median error of the predicted training time, compiling once included | {error} | |",
            f"| the same, as a share of the training time before the fix | {points} | |",
            f"| realised saving inside the predicted interval | {_of(found.inside)} | at least 80 % |",
            f"| pairs without a prediction or a measured gain, in neither line above | {found.unanswered} | 0 |",
            f"| healthy scripts with a false alarm | {_of(found.false_alarms)} | 0 |",
            f"| the most that experiments took of the time they had | {spent} | at most 110 % |",
        ]
    )


def _mark(value: bool | None) -> str:
    return {True: "yes", False: "**no**", None: "–"}[value]


def _signed(error: float | None) -> str:
    return "–" if error is None else f"{'+' if error >= 0 else ''}{units.percent(error)}"


def _real(row: Row) -> str:
    """Return the realised saving; one run has no interval."""
    if row.realised is None:
        return "not measured"
    return units.percent_range(row.realised) if row.runs > 1 else units.percent(row.realised.mid)


def _pairs(rows: Sequence[Row]) -> str:
    if not rows:
        return "None was run."
    table = [
        "| cause | backend | diagnosed first | line | predicted saving | realised | runs | inside | step off by "
        "| time off by |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row.diagnosis.problem:
            first = "**no report**"
        elif row.first is None:
            first = "**no finding**"
        else:
            first = row.first.rule if row.right_first else f"**{row.first.rule}**"
        predicted = units.percent_range(row.found.saving) if row.found else "–"
        real, runs, off = _real(row), str(row.runs or "–"), (_signed(row.step_error), _signed(row.error))
        cells = [row.cause, row.backend, first, _mark(row.right_line), predicted, real, runs, _mark(row.inside), *off]
        table.append(f"| {' | '.join(cells)} |")
    return "\n".join(table)


def _wrong(rows: Sequence[Row], healthy: Sequence[Healthy]) -> list[str]:
    """Return a section on everything that is not as it should be."""
    lines = []
    for row in rows:
        if row.diagnosis.problem:
            lines.append(f"- {row.cause}: fitdoctor gave no report: {row.diagnosis.problem}")
        elif not row.right_first:
            place = "the cause is not among the findings" if row.found is None else "the cause stands further down"
            lines.append(f"- {row.cause}: {place}; found: {said(row.diagnosis)}")
        if row.inside is False and row.found and row.realised:
            way = "too little" if row.realised.mid > row.found.saving.high else "too much"
            lines.append(
                f"- {row.cause}: {way} was promised: {units.percent_range(row.found.saving)} predicted, "
                f"{_real(row)} realised"
            )
        if row.right_line is False:
            at = row.found.line if row.found and row.found.line is not None else "no line"
            lines.append(f"- {row.cause}: points at {at}, a person would edit {row.lines[0]}")
        if row.problem:
            lines.append(f"- {row.cause}: the gain could not be measured: {row.problem}")
    for each in healthy:
        if each.diagnosis.problem:
            lines.append(f"- {each.name} (healthy): fitdoctor gave no report: {each.diagnosis.problem}")
        elif each.false_alarm:
            lines.append(f"- {each.name} (healthy): false alarm: {said(each.diagnosis)}")
    return ["## Where it is wrong", "\n".join(lines)] if lines else []


def _healthy(healthy: Sequence[Healthy]) -> str:
    if not healthy:
        return "None was run."
    rows = []
    for each in healthy:
        alarms = [f"{found.rule} {units.percent_range(found.saving)}" for found in each.diagnosis.findings]
        rows.append(f"| {each.name} | {', '.join(alarms) or said(each.diagnosis)} |")
    return "\n".join(["| script | findings |", "|---|---|", *rows])


def raw(rows: Sequence[Row], healthy: Sequence[Healthy]) -> dict[str, Any]:
    """Return every number as plain data."""
    return {
        "pairs": [
            {**asdict(row), **{key: getattr(row, key) for key in ("right_first", "inside", "error", "step_error")}}
            for row in rows
        ],
        "healthy": [asdict(each) for each in healthy],
    }
