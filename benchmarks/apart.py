"""Where predictions are off: seconds of the training, part by part, predicted beside what the fast script really took.

    python benchmarks/apart.py NAME ...

After `make bench-accuracy`: reads the capture of the diagnosed slow script, and of the last watched runs of both.  A
prediction compares shares: where the two slow columns differ, the run was watched at another speed than it was timed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import accuracy
import pairs
from fitdoctor import diagnosis
from fitdoctor.capture import store
from fitdoctor.facts.step_model import StepModel
from fitdoctor.model import PARTS

LEFT_OUT = ("imports", "set-up")


def model_of(capture: Path) -> StepModel | None:
    return pairs.model_of(store.read(capture)) if capture.exists() else None


def seconds(model: StepModel | None) -> dict[str, float]:
    """Return what the training takes, by what it goes to."""
    if model is None:
        return {}
    steps = {f"step: {part}": model.parts[part].mid * model.planned_steps for part in PARTS}
    return {**steps, **{name: each for name, each in model.elsewhere.items() if name not in LEFT_OUT}}


def show(name: str) -> None:
    slow = accuracy.kept(pairs.CORPUS / name / "slow.py")
    report = diagnosis.diagnose(store.read(slow))
    before = model_of(slow)
    found = next((each for each in report.findings if each.rule == name), None)
    change = found.cost.change if found else None
    after = before.with_change(change) if before and change else None
    watched = [model_of(pairs.WATCHED / f"{name}.{which}.fitdoctor") for which in ("slow", "fast")]
    columns: list[Mapping[str, float]] = [seconds(each) for each in (before, watched[0], after, watched[1])]
    print(f"\n{name}: {found.cost.because if found else 'not found'}")
    print(f"{'seconds':24}{'slow, seen':>14}{'slow, timed':>14}{'predicted':>14}{'fast, timed':>14}")
    for row in dict.fromkeys(key for column in columns for key in column):
        values = [column.get(row, 0.0) for column in columns]
        if max(values) > 0.005 * sum(columns[0].values()):
            print(f"{row:24}" + "".join(f"{each:14.3f}" for each in values))
    print(f"{'all':24}" + "".join(f"{sum(column.values()):14.3f}" for column in columns))
    steps = [each.planned_steps if each else 0 for each in (before, watched[0], after, watched[1])]
    print(f"{'steps':24}" + "".join(f"{each:14.0f}" for each in steps))
    print(f"change: {change}")


if __name__ == "__main__":
    for each in sys.argv[1:]:
        show(each)
