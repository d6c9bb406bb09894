"""The GPU stands idle for part of every step.

## What is wrong

A GPU computes only while it is given work.  It stands idle while the next batch is made, while Python launches the
step, while callbacks run, while results are read.  That the GPU is idle is a symptom, not a cause: which of these it
waits for says where to look.

## How it is established

NVML says, about once a second, for which share of the time something ran on the GPU.  Of several GPUs the busiest is
taken, so that none is called idle that works.  Only looks within the steady steps count.  The parts of a step say what
the training thread did meanwhile.  It is a suspicion: the saving stands with the cause, not here.

## What to do

Look at the findings about the phase that is named: input, launching, callbacks, results.

## When it is not worth it

When it is busy nearly all of the time.  A busy GPU need not be a well used one: one small kernel at a time is enough to
count as busy.

## Example

    batches = data.map(decode).batch(64)                                          # the GPU waits for each batch
    batches = data.map(decode, num_parallel_calls=AUTOTUNE).batch(64).prefetch(AUTOTUNE)
"""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.device_use import DeviceUse
from fitdoctor.facts.placement import Placement
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.model import PARTS, Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import Absent, Clear, Suspect, Verdict

RESOLUTION = 0.05
"""NVML counts in per cent of its own sampling periods: less than this it does not tell from nothing."""
_WAITS_FOR = {
    "input": "the next batch",
    "transfer": "copies to it",
    "host": "Python to launch the step",
    "callbacks": "callbacks",
    "sync": "results to be read",
    "other": "the loop's own Python",
}


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: that a device waits does not stand in the source."""
    del source
    return iter(())


def measure(placement: Placement, devices: DeviceUse | None, model: StepModel) -> Verdict:
    """Compare the looks at the GPU with the parts of a step."""
    if placement.why_not or devices is None:
        return Absent(placement.why_not or "no GPU is there")
    if devices.busy is None:
        raise MissingEvidence(
            Gap(
                "how busy the GPU is",
                f"{len(devices.looks)} looks of NVML fell within the steady steps, two are needed",
                "let it run longer, with fitdoctor run: --steps and --budget",
            )
        )
    busy = devices.busy
    idle = Interval(1 - busy.high, 1 - busy.mid, 1 - busy.low)
    looks = f"{devices.name} was busy for {units.percent_range(busy)} of the time ({len(devices.looks)} looks)"
    if idle.low <= max(RESOLUTION, model.noise):
        return Clear(looks)
    part = max((each for each in PARTS if each in _WAITS_FOR), key=lambda each: model.parts[each].mid)
    share = model.share(part)
    if share.mid <= model.noise:
        told = "no part of the step but computing is seen to take time: its kernels leave gaps, see dispatch-bound"
    else:
        told = f"it waits mostly for {_WAITS_FOR[part]}, {units.percent_range(share)} of each step"
    return Suspect(f"{looks}; {told}", placement.script)


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Nothing: the cause has its own fix."""
    del cost, source
    return None
