"""One version of a training, run once in a process of its own and watched as far as `fitdoctor run` watches."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fitdoctor.capture import store
from fitdoctor.capture.launch import Options, launch
from fitdoctor.errors import FitdoctorError, UsageError
from fitdoctor.facts import resolve
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training

BEFORE_TRAINING = ("imports", "set-up")
"""Phases that belong to no training: the same in both versions, and as long as the training is short."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one run says."""

    training_s: float
    """Seconds of the whole training, projected to its end."""
    step_s: float
    learning: Mapping[tuple[int, float], float]
    """Losses by epoch and step; an epoch that was ended has come to the step infinity."""


def once(options: Options, *, aligned: bool = False) -> Run:
    """Run a script once; raises where it does not train.  `aligned`: to a step at which every version can stop."""
    with tempfile.TemporaryDirectory(prefix="fitdoctor-") as folder:
        path = Path(folder) / f"run{store.SUFFIX}"
        quiet = replace(options, capture=path, silent=True, lab=False, quiet=True, whole=False, aligned=aligned)
        ended = launch(quiet, lambda text: None)
        if not ended.training_seen or (ended.returncode != 0 and ended.reason != "capped"):
            why = ended.message or f"exit code {ended.returncode}"
            raise UsageError(f"{options.target} could not be run: {why}", do=f"try it: python {options.target}")
        capture = store.read(path)
        facts = resolve(capture)
        try:
            training, model = facts.get(Training), facts.get(StepModel)
        except FitdoctorError as error:
            raise UsageError(f"{options.target}: {error}", do="let it train longer, or give it more --steps") from error
    before = sum(training.elsewhere.get(phase, 0.0) for phase in BEFORE_TRAINING)
    return Run(model.whole_s - before, model.step.mid, learnt(capture.meta.get("learning"), training))


def learnt(last: Mapping[str, Any] | None, training: Training) -> dict[tuple[int, float], float]:
    """Return the losses of a run by where it stood: epoch and step, or the end of an epoch."""
    calls = [call for call in training.calls if call.info.get("losses")]
    ends = calls[-1].info["losses"] if calls else []
    found = {(int(epoch), math.inf): float(loss) for epoch, loss in ends}
    if last is not None:
        found[int(last["epoch"]), float(last["step"])] = float(last["loss"])
    return found
