"""The machine has too few CPU cores for its GPU and this job.

## What is wrong

A GPU is as fast as the batches come.  Making them takes CPU time; where the cores of the machine together cannot make
a batch in the time in which the GPU computes one, the GPU waits however well the pipeline is written.  Cloud machines
come in fixed shapes, and a fast GPU beside a few cores suits some jobs only.

## How it is established

The lab pulled batches without the training, and trained on one batch without the input, and counted the cores each kept
busy.  CPU seconds per step of both, over the seconds in which the GPU computes a step, are the cores this job needs.
Where that is more than there are, it is this.  What the step model says of an input that keeps up is the saving.

It is about the machine; exhausted-host says the same of the work.  One of the two is enough.

## What to do

A machine with as many cores per GPU as are named, or a slower and cheaper GPU; or less work per batch (exhausted-host).

## When it is not worth it

When cores are idle: then the pipeline does not use what is there.

## Example

    1 GPU, 4 cores: the GPU waits 70 % of the time         # this job needs 13 cores
    1 GPU, 16 cores
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.placement import Placement
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Gap, Site
from fitdoctor.rules import Absent, Clear, Verdict


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: the machine does not stand in the source."""
    del source
    return iter(())


def measure(training: Training, placement: Placement, trials: Trials, model: StepModel) -> Verdict:
    """Compare the CPU seconds of a step with the cores and with what the GPU takes."""
    if placement.why_not:
        return Absent(placement.why_not)
    model.need("input")
    if model.share("input").high <= model.noise:
        return Clear("the GPU does not wait for batches")
    if training.info.get("multiprocessing") and training.info.get("workers"):
        raise MissingEvidence(
            Gap(
                "CPU time of the worker processes", "the lab does not see it", "try it with threads, or without workers"
            )
        )
    if model.input_alone is None:
        trials.ratio("loader alone", experiment="the loader alone")
    if model.work_alone is None:
        trials.ratio("cached batch", experiment="one cached batch")
    if model.input_alone is None or model.work_alone is None or not model.cores:
        raise MissingEvidence(
            Gap("cores that were busy", "the capture does not say how many the run may use and used", "run it again")
        )
    input_, work, cores = model.input_alone, model.work_alone, model.cores
    # The GPU's driver threads need their share too, and mostly spin: they count once at most.
    step_cpu = work.seconds.mid * min(1.0, work.cores)
    batch_cpu = input_.seconds.mid * min(input_.cores, cores)
    needed = (batch_cpu + step_cpu) / work.seconds.mid if work.seconds.mid > 0 else 0.0
    has = f"{len(placement.gpus)} GPU{'s' if len(placement.gpus) > 1 else ''} and {cores:g} cores"
    if (batch_cpu + step_cpu) / cores <= work.seconds.high:
        return Clear(f"{needed:.1f} cores would keep up with the GPU, and there are {cores:g}")
    change = Change("input")
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"the GPU computes a step in {units.duration(work.seconds.mid)} and its batch takes "
                f"{units.duration(batch_cpu)} of CPU time: that needs {needed:.1f} cores, and there are {has}"
            ),
            site=training.site,
            change=change,
            evidence={
                "cores_needed": needed,
                "cores": cores,
                "batch_cpu_ms": batch_cpu * 1e3,
                "step_ms": work.seconds.mid * 1e3,
            },
        )
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the shape that would balance."""
    del source
    return Fix(
        f"a machine with {math.ceil(cost.evidence['cores_needed'])} cores per GPU, or less work per batch", "manual"
    )
