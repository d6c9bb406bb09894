"""How a loader written in Python makes its batches: computing or waiting, in which lines, and what its workers do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import rows
from fitdoctor.facts.input_pipeline import InputPipeline
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Gap, Interval, Site, Trial

HOT_LINES = "hot lines"
EXPERIMENT = "hot lines of the loader"
WAITS = 0.5
"""A batch that spends less than this of its time on the CPU waits for something."""


@dataclass(frozen=True, slots=True)
class HotLine:
    """One line of the user's own and its share of the time that making a batch takes."""

    site: Site
    share: float


@dataclass(frozen=True, slots=True)
class HotLoop:
    """One loop of the user's own with everything that is called from it."""

    site: Site
    share: float
    python_s: float
    """Seconds per batch that the interpreter itself needs for the loop, at least."""
    small_s: float
    """The same with what NumPy needs for as many operations, however small the arrays."""
    arrays: bool
    """It goes over the items of NumPy arrays."""


@dataclass(frozen=True, slots=True)
class Loader:
    """The loader of the leading training."""

    adapter: str
    workers: int
    processes: bool
    batch: Interval | None
    """Seconds to make a batch on one thread, beside nothing else; None where it was not seen."""
    cpu_s: float | None
    """Of those on the CPU."""
    lines: tuple[HotLine, ...]
    loops: tuple[HotLoop, ...] | None
    """None where the lab did not look at lines."""
    ready: float | None
    """Batches that lay ready when the next was asked for, on average; None where there is no queue."""
    empty: float | None
    """Share of the batches that were not ready when they were asked for."""
    early: float | None
    """Share of those for which a later one was."""
    start_s: float | None
    """Seconds from the start of workers to their first batch, in the run."""
    stop_s: float | None
    """Seconds to stop them, in the run."""

    @property
    def computes(self) -> float | None:
        """Share of the time of making a batch that its thread is on the CPU."""
        if self.batch is None or self.cpu_s is None or self.batch.mid <= 0:
            return None
        return min(1.0, self.cpu_s / self.batch.mid)

    def least(self, model: StepModel) -> float:
        """Return the share of the loader's time that stays however many workers there are: the cores are shared.

        Workers bring batches sooner but need as many CPU seconds for one; so does the step.
        """
        alone, work = model.input_alone, model.work_alone
        if self.cpu_s is None or alone is None or work is None or not model.cores or alone.seconds.mid <= 0:
            return 0.0
        busy = (self.cpu_s + work.seconds.mid * min(work.cores, model.cores)) / model.cores
        return min(1.0, busy / alone.seconds.mid)


def establish(training: Training, pipeline: InputPipeline, trials: Trials | None) -> Loader:
    """Put together what was seen in the run and what the lab saw alone."""
    if pipeline.adapter not in ("PyDataset", "DataLoader", "generator", "Grain") and not _generator(pipeline):
        reason = f"the input is {pipeline.adapter}, not a loader written in Python"
        raise MissingEvidence(Gap("the loader", reason, Gap.DOES_NOT_APPLY))
    seen: Mapping[str, Any] = training.info.get("loader") or {}
    trial = _trial(trials)
    loops = trial.detail.get("loops") if trial is not None else None
    made, asked, empty = (int(seen.get(name) or 0) for name in ("made", "asked", "empty"))
    batch = rows.median(trial.changed_ns).scale(1e-9) if trial is not None else _made(seen, made)
    depths = seen.get("depths") or ()
    return Loader(
        adapter=pipeline.adapter,
        workers=int(training.info.get("workers") or 0),
        processes=bool(training.info.get("multiprocessing")),
        batch=batch,
        cpu_s=_cpu(seen, made, trial),
        lines=tuple(HotLine(_site(each), float(each["share"])) for each in (trial.detail.get("lines") or ()))
        if trial is not None
        else (),
        loops=None if loops is None else tuple(_loop(each) for each in loops),
        ready=sum(depths) / len(depths) if depths else None,
        empty=empty / asked if asked else None,
        early=int(seen.get("early") or 0) / empty if empty else None,
        start_s=_each(seen, "start"),
        stop_s=_each(seen, "stop"),
    )


def _generator(pipeline: InputPipeline) -> bool:
    return any(each.kind == "generator" for each in pipeline.functions)


def _trial(trials: Trials | None) -> Trial | None:
    every = trials.trials if trials is not None else ()
    return next((trial for trial in every if trial.name == HOT_LINES and trial.changed_ns), None)


def _made(seen: Mapping[str, Any], made: int) -> Interval | None:
    """Return seconds per batch from the run; beside the step, so how much they vary alone is not known: a fifth."""
    if not made:
        return None
    mean = float(seen["wall_ns"]) / made / 1e9
    return Interval(0.8 * mean, mean, 1.2 * mean)


def _cpu(seen: Mapping[str, Any], made: int, trial: Trial | None) -> float | None:
    if trial is not None and trial.detail.get("cpu_ns") is not None:
        return float(trial.detail["cpu_ns"]) / 1e9
    return float(seen["cpu_ns"]) / made / 1e9 if made else None


def _each(seen: Mapping[str, Any], name: str) -> float | None:
    count = int(seen.get(f"{name}s") or 0)
    return float(seen[f"{name}_ns"]) / count / 1e9 if count else None


def _site(found: Mapping[str, Any]) -> Site:
    return Site(str(found["path"]), int(found["line"]), found.get("end_line"), found.get("symbol"))


def _loop(found: Mapping[str, Any]) -> HotLoop:
    return HotLoop(
        site=_site(found),
        share=float(found["share"]),
        python_s=float(found["python_ns"]) / 1e9,
        small_s=float(found["small_ns"]) / 1e9,
        arrays=bool(found["arrays"]),
    )
