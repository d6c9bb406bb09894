"""A script with its fixes against the script as it is: the very command of the capture, its files read as edited."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from fitdoctor.capture.cap import DEFAULT_STEPS
from fitdoctor.capture.launch import Options
from fitdoctor.errors import FitdoctorError, UsageError
from fitdoctor.facts import resolve
from fitdoctor.facts.step_model import StepModel
from fitdoctor.fixes.plan import Plan
from fitdoctor.model import Capture, Finding, Interval, Proof
from fitdoctor.proof import runs
from fitdoctor.proof.prove import failed, prove


def prove_plan(
    plan: Plan, capture: Capture, *, steps: int | None, seconds: float, tell: Callable[[str], None]
) -> Proof:
    """Prove what a plan would write, without writing it; what makes the training fail is refuted, and no error."""
    options, patience = options_of(capture, steps), runs.Patience()
    edited = replace(options, overlay={each.path: each.after for each in plan.files})
    seen: list[runs.Run] = []

    def before(**how: Any) -> runs.Run:
        seen.append(runs.once(options, patience=patience, **how))
        return seen[-1]

    def after(**how: Any) -> runs.Run:
        try:
            return runs.once(edited, patience=patience, **how)
        except runs.CannotTime as error:
            raise _Fails(error) from error

    findings = [item.finding for item in plan.ready]
    may_change = any(item.fix.safety != "same" for item in plan.ready)
    names = tuple(dict.fromkeys(each.rule for each in findings))
    try:
        found = prove(
            before,
            after,
            seconds=seconds,
            may_change=may_change,
            watched=options.steps if steps is None else None,
            tell=lambda text: tell(f"{text} ({_told(names)})"),
        )
    except _Fails as fails:
        found = failed(seen[1:] or seen, fails.why)
    return replace(found, rules=names, predicted=predicted(capture, findings))


class _Fails(Exception):  # noqa: N818 - what became of a run
    """A run of the edited script cannot be timed."""

    def __init__(self, why: runs.CannotTime) -> None:
        super().__init__(why.problem)
        self.why = why


def _told(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} fixes"


def predicted(capture: Capture, findings: Sequence[Finding]) -> Interval | None:
    """Return how many times as fast these fixes were expected to make the training, together: of what a proof times."""
    try:
        model = resolve(capture).get(StepModel)
    except FitdoctorError:
        return None
    for finding in findings:
        if finding.cost.change is None:
            return None
        model = model.with_change(finding.cost.change)
    return model.speedup(without=runs.BEFORE_TRAINING)


def options_of(capture: Capture, steps: int | None) -> Options:
    """Return how to run the script of a capture again, as it was run."""
    command = [str(word) for word in capture.meta.get("command") or ()]
    folder = capture.meta.get("cwd")
    if not command or folder is None:
        raise UsageError("the capture does not say how its script was started", do="run the script again, not redacted")
    if os.path.realpath(str(folder)) != os.path.realpath(os.getcwd()):
        raise UsageError(f"the script was run in {folder}, and this is {os.getcwd()}", do=f"cd {folder}")
    module = command[0] == "-m"
    target, *args = command[1:] if module else command
    # As many steps in both: what they have learnt by then can be compared.
    return Options(target=target, module=module, args=tuple(args), steps=steps or DEFAULT_STEPS)
