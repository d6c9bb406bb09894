"""The input as `fitdoctor input` shows it: stage by stage, what bounds it, who waits for whom, what AUTOTUNE chose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from fitdoctor import units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.batch_making import BatchMaking, describe
from fitdoctor.facts.host_use import HostUse
from fitdoctor.facts.input_pipeline import InputPipeline, PythonFunction
from fitdoctor.facts.input_stages import Stage, inverse, stages
from fitdoctor.facts.loader import Loader
from fitdoctor.facts.loader_setup import LoaderSetup
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Alone, Trials
from fitdoctor.model import Capture, Gap, Interval, Site

LIVE = "the operators of the running pipeline"
"""What the probe calls them where it could not see them."""
MOSTLY = 0.5
"""A stage that keeps less than this of one core busy mostly waits."""


@dataclass(frozen=True, slots=True)
class InputView:
    """All there is to show of the leading training's input."""

    adapter: str
    backend: str
    script: str
    step: Interval | None
    wait: Interval | None
    """Seconds per step that the training waits for input; None where that could not be seen."""
    alone: Alone | None
    work: Alone | None
    """What the lab measured: the input without the training, the training on one batch."""
    waits: str
    """Who waits for whom, in a sentence."""
    bound: str | None
    """What bounds the input and whether that bounds the training, in a sentence; None where it is not known."""
    autotune: tuple[str, ...]
    """What AUTOTUNE chose, line by line; empty where the question does not arise or nothing is known."""
    stages: tuple[Stage, ...]
    loader: LoaderSetup | None
    """None for tf.data."""
    making: BatchMaking | None
    """How Python makes a batch; None where it does not."""
    functions: tuple[PythonFunction, ...]
    gaps: tuple[Gap, ...]


def establish(
    capture: Capture,
    training: Training,
    pipeline: InputPipeline,
    loader: Loader | None,
    host: HostUse | None,
    model: StepModel | None,
    trials: Trials | None,
) -> InputView:
    """Put together what is known."""
    found = stages(pipeline)
    step = model.step if model is not None else None
    wait = model.parts["input"] if model is not None and "input" not in model.gaps else None
    alone = model.input_alone if model is not None else None
    work = model.work_alone if model is not None else None
    return InputView(
        adapter=pipeline.adapter,
        backend=training.backend,
        script=PurePath(str(capture.meta.get("script") or "")).name,
        step=step,
        wait=wait,
        alone=alone,
        work=work,
        waits=_waits(step, wait, alone, work),
        bound=_bound(alone, work, found),
        autotune=tuple(_autotune(pipeline, found)) if found else (),
        stages=found,
        loader=pipeline.loader,
        making=describe(loader, host) if loader is not None else None,
        functions=pipeline.functions,
        gaps=tuple(_gaps(capture, training, pipeline, model, trials)),
    )


def _waits(step: Interval | None, wait: Interval | None, alone: Alone | None, work: Alone | None) -> str:
    if step is None or wait is None:
        said = "How long a step waits for its input could not be seen"
    else:
        said = f"A step waits {units.duration_range(wait)} of its {units.duration(step.mid)} for input"
    rates = [inverse(each.seconds) for each in (alone, work) if each is not None]
    if len(rates) < 2 or rates[0] is None or rates[1] is None:
        return f"{said}."
    gives, takes = units.rate(rates[0], "batches"), units.rate(rates[1], "batches")
    return f"{said}. Alone, the input could give {gives} and the step could take {takes}."


def _bound(alone: Alone | None, work: Alone | None, found: tuple[Stage, ...]) -> str | None:
    if alone is None or work is None:
        return None
    if alone.seconds.high < work.seconds.low:
        return "The input is faster than the step: the step bounds the training."
    if alone.seconds.low > work.seconds.high:
        verdict = "The input is slower than the step: it bounds the training"
    else:
        verdict = "Neither input nor step is clearly the slower one"
    slowest = next((stage for stage in found if stage.slowest), None)
    if slowest is None or slowest.wall is None:
        return f"{verdict}."
    return f"{verdict}. Most of it is {slowest.op}{_at(slowest.site)}, {_doing(slowest)}."


def _at(site: Site | None) -> str:
    return f" at {PurePath(site.path).name}:{site.line}" if site is not None else ""


def _doing(stage: Stage) -> str:
    assert stage.wall is not None
    took = f"with {units.duration_range(stage.wall)} per step"
    if stage.cpu is None or stage.wall.mid <= 0:
        return took
    cores = stage.cpu.mid / stage.wall.mid
    return f"{took}, most of it waiting" if cores < MOSTLY else f"{took} on {cores:.1f} cores"


def _autotune(pipeline: InputPipeline, found: tuple[Stage, ...]) -> Iterator[str]:
    if pipeline.options.get("autotune") is False:
        yield "nothing: options.autotune.enabled is off"
        return
    chosen = list(_choices(found))
    yield from chosen
    if not chosen and any(stage.ran is not None for stage in found):
        yield "nothing: no operator of this pipeline is left to it"


def _choices(found: tuple[Stage, ...]) -> Iterator[str]:
    named: set[int] = set()
    for stage in found:
        whose = _at(stage.site) if stage.place is not None else f" ({stage.notes[0]})"
        for setting, one, rest in ((stage.parallel, "call", "at once"), (stage.buffer, "element", "in its buffer")):
            # Operators that were fused share one setting.
            if setting is not None and setting.tuned and id(setting) not in named:
                named.add(id(setting))
                most = f" of at most {setting.most:.0f}" if setting.most is not None else ""
                several = "" if setting.value == 1 and not most else "s"
                yield f"{stage.ran}{whose}: {setting.value:.0f}{most} {one}{several} {rest}"


def _gaps(
    capture: Capture, training: Training, pipeline: InputPipeline, model: StepModel | None, trials: Trials | None
) -> Iterator[Gap]:
    if model is not None and "input" in model.gaps:
        yield model.gaps["input"]
    if pipeline.operators is None and pipeline.adapter == "tf.data":
        yield Gap("the operators", "the dataset could not be looked into", "pass the tf.data.Dataset itself to fit")
    elif pipeline.operators is None and pipeline.loader is None:
        yield Gap(
            "where the batches come from",
            "a hand-written loop does not say, and no tf.data iterator of it was seen",
            "train with fit, or go over a tf.data.Dataset",
        )
    if pipeline.operators is not None and not any(each.runs_as for each in pipeline.operators):
        said = [gap for gap in capture.gaps if gap.what == LIVE]
        why = "no iterator of it was seen that could be asked"
        yield from said or [Gap(LIVE, why, "record it again with this version: fitdoctor input SCRIPT")]
    if training.kind != "fit":
        yield _LOOP
        return
    if trials is None:
        return
    if pipeline.operators is not None and not any(each.cost for each in pipeline.operators):
        yield from _untried(trials, "prefix 0", "each pipeline prefix", "what each operator costs")
    yield from _untried(trials, "loader alone", "the loader alone", "the input without the training")


_LOOP = Gap(
    "what the input and each of its stages cost alone",
    "the lab pulls the data of a fit, not of a hand-written loop",
    "train with fit, or read how long each operator worked in the run",
)


def _untried(trials: Trials, name: str, experiment: str, named: str) -> Iterator[Gap]:
    if any(trial.name.startswith(name) for trial in trials.trials):
        return
    try:
        trials.ratio(name, experiment=experiment)
    except MissingEvidence as error:
        yield Gap(named, error.gap.reason, error.gap.remedy)
