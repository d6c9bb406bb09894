"""One version of a training, run once in a process of its own and watched as far as `fitdoctor run` watches."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fitdoctor import units
from fitdoctor.capture import store
from fitdoctor.capture.launch import Ended, Options, Stop, launch
from fitdoctor.errors import FitdoctorError, UsageError
from fitdoctor.facts import resolve
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture
from fitdoctor.proof.equivalence import Losses

BEFORE_TRAINING = ("imports", "set-up")
"""Phases that belong to no training: the same in both versions, and as long as the training is short."""

ENDED = (129, 130, 143)
"""Exit codes of a script that somebody asked to end: its terminal was closed, Ctrl-C, politely."""
LEAST_PATIENCE, PATIENCE = 300.0, 10.0
"""Seconds that every run may take, and how many times as long as the others: who waits for itself does so for ever."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one run says."""

    training_s: float
    """Seconds of the whole training, projected to its end."""
    step_s: float
    learning: Losses
    """Losses by epoch and step; an epoch that was ended has come to the step infinity."""
    planned: int = 0
    """Steps of the whole training."""
    length: tuple[int, int] | None = None
    """Steps of an epoch and epochs, where the script says both and calls fit once."""
    cut: int = 0
    """After how many steady steps its time was over; 0 where it came as far as it was to come."""
    first: Losses = field(default_factory=dict)
    """Losses of the very first steps."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What one run left behind."""

    capture: Capture
    training: Training
    model: StepModel

    @property
    def training_s(self) -> float:
        """Seconds of the whole training, projected to its end, without what comes before it."""
        before = sum(self.training.elsewhere.get(phase, 0.0) for phase in BEFORE_TRAINING)
        return self.model.whole_s - before

    @property
    def cut(self) -> int:
        """After how many steady steps the time for watching was over; 0 where something else ended it."""
        return self.training.steps if (self.capture.meta.get("cap") or {}).get("hit") == "budget" else 0

    @property
    def length(self) -> tuple[int, int] | None:
        """Steps of an epoch and epochs, as the script says them; None where it does not, or calls fit again."""
        info = self.training.info
        if self.training.kind != "fit" or self.training.call_count != 1:
            return None
        epochs = int(info.get("epochs") or 0) - int(info.get("initial_epoch") or 0)
        steps = int(info.get("steps_per_epoch") or 0)
        return (steps, epochs) if steps > 0 and epochs > 0 else None

    @property
    def learning(self) -> dict[tuple[int, float], float]:
        """Losses by epoch and step."""
        return learnt(self.capture.meta.get("learning"), self.training)

    @property
    def first(self) -> Losses:
        """Losses of the very first steps of the run; of no other training than that which is timed."""
        told = (call.info["first_losses"] for call in self.training.calls if call.info.get("first_losses"))
        return {(int(epoch), float(step)): float(loss) for epoch, step, loss in next(told, ())}


class CannotTime(UsageError):  # noqa: N818 - what was found
    """A version of a training that cannot be timed, though nobody asked it to end."""

    def __init__(self, problem: str, *, do: str, trained: bool) -> None:
        super().__init__(problem, do=do)
        self.trained = trained
        """Whether it trains, only not for long enough."""


class Patience:
    """How long a run may take before it is ended: many times as long as any other has taken; the first, for ever."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._longest, self._begun = clock, math.inf, 0.0

    @property
    def limit(self) -> float:
        """Seconds."""
        return max(LEAST_PATIENCE, PATIENCE * self._longest)

    def begin(self) -> None:
        """Note that a run begins."""
        self._begun = self._clock()

    def over(self, come: Mapping[str, Any] | None = None) -> bool:
        """Tell whether it has taken too long."""
        return self._clock() - self._begun > self.limit

    def end(self) -> None:
        """Note that it came to its end."""
        took = self._clock() - self._begun
        self._longest = took if self._longest == math.inf else max(took, self._longest)


def once(
    options: Options, *, aligned: bool = False, steps: int | None = None, patience: Patience | None = None
) -> Run:  # fmt: skip
    """Run a script once; raises where it does not train.

    `aligned`: to a step at which every version can stop; `steps`: so many, whatever the options say; `patience`: of
    all runs that are compared.
    """
    options = replace(options, steps=steps or options.steps)
    patience = patience or Patience()
    with tempfile.TemporaryDirectory(prefix="fitdoctor-") as folder:
        patience.begin()
        ended = start(options, Path(folder), aligned=aligned, stop=patience.over)
        do = f"try it: python {options.target}"
        if not trained(ended):
            if patience.over():
                late = f"{options.target} had not come to its end after {units.duration(patience.limit)}"
                raise CannotTime(late, do=do, trained=False)
            why = f"{options.target} could not be run: {ended.message or f'exit code {ended.returncode}'}"
            raise UsageError(why, do=do) if ended.returncode in ENDED else CannotTime(why, do=do, trained=False)
        patience.end()
        seen = observed(options, Path(folder))
    return Run(
        seen.training_s,
        seen.model.step.mid,
        seen.learning,
        int(seen.model.planned_steps),
        seen.length,
        seen.cut,
        seen.first,
    )


def start(options: Options, folder: Path, *, aligned: bool = False, stop: Stop | None = None) -> Ended:
    """Run a script once, unseen and without experiments, and leave its capture in this folder."""
    quiet = replace(
        options, capture=place(folder), silent=True, lab=False, quiet=True, whole=False, aligned=aligned
    )  # fmt: skip
    return launch(quiet, lambda text: None, stop)


def place(folder: Path) -> Path:
    """Return where the capture of a run is kept."""
    return folder / f"run{store.SUFFIX}"


def trained(ended: Ended) -> bool:
    """Tell whether a run came as far as it should."""
    return ended.training_seen and (ended.returncode == 0 or ended.reason == "capped")


def observed(options: Options, folder: Path) -> Observed:
    """Read what a run left in this folder."""
    capture = store.read(place(folder))
    facts = resolve(capture)
    try:
        return Observed(capture, facts.get(Training), facts.get(StepModel))
    except FitdoctorError as error:
        do = "let it train longer, or give it more --steps"
        raise CannotTime(f"{options.target}: {error.problem}", do=do, trained=True) from error


def learnt(last: Mapping[str, Any] | None, training: Training) -> dict[tuple[int, float], float]:
    """Return the losses of a run by where it stood: epoch and step, or the end of an epoch."""
    calls = [call for call in training.calls if call.info.get("losses")]
    ends = calls[-1].info["losses"] if calls else []
    found = {(int(epoch), math.inf): float(loss) for epoch, loss in ends}
    if last is not None:
        found[int(last["epoch"]), float(last["step"])] = float(last["loss"])
    return found
