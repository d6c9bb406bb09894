"""Heat, power or a quota holds the device back.

## What is wrong

A GPU that gets too hot lowers its clocks, and so does a board that protects itself.  A control group with a CPU quota
(a container's `--cpus`, a Kubernetes limit) lets all threads run until the quota of the period is used up, then stops
every one of them until the next.

## How it is established

GPU: NVML says about once a second what holds the clocks down.  Steps while it did are compared with steps of the same
run while nothing did, and the saving is never more than the clocks explain.  A GPU that was hot all of the time leaves
nothing to compare with: that is a suspicion.  A power cap alone is what many GPUs do at full load, and counts only if
steps were faster without it.

Quota: the kernel counts the core-seconds for which threads that wanted to run were stopped.  Of the time in which they
wanted to run, that is the share which would not be lost with a larger quota, as far as there are cores.  (Half a core
for a process that wants one, four times: 45 to 48 % predicted so, 43 to 59 % lost in truth, on two busy cores.)

## What to do

Cooling, power settings, another place in the rack; a larger quota.  Where the quota is given, thread pools that fit it
(oversubscribed-threads).

## When it is not worth it

When clocks fall while the GPU has nothing to do; when the quota is not used up.

## Example

    docker run --cpus 1 …     # slow, where the training has work for four
    docker run --cpus 4 …     # fast
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.placement import Placement
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import SMALLEST_PROVABLE, StepModel
from fitdoctor.facts.throttling import HEAT, Quota, Slowed, Throttling
from fitdoctor.model import Change, Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import Absent, Clear, Suspect, Verdict

MORE = 1.2
"""What a stop costs beyond its time, at most: caches are cold afterwards."""


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: heat does not stand in the source."""
    del source
    return iter(())


def measure(placement: Placement, throttling: Throttling, model: StepModel) -> Verdict:
    """Judge the GPU that trains, else the quota."""
    costs: list[Cost] = []
    said: list[str] = []
    if throttling.limited is not None:
        quota = throttling.quota
        if quota is None:
            raise MissingEvidence(
                Gap(
                    "how long the CPU quota stops it",
                    "no two looks at the host fell within the steady steps",
                    Gap.LONGER,
                )
            )
        if quota.wanted > quota.used:
            costs.append(_of_quota(quota, model))
        said.append(
            f"its quota of {throttling.limited:g} cores was used up in {units.percent(quota.periods)} of the periods"
        )
    if not placement.why_not:
        slowed = throttling.slowed
        if slowed is None:
            raise MissingEvidence(Gap("the clocks of the GPU", "NVML gave none within the steady steps", Gap.LONGER))
        if slowed.held is not None and slowed.free is not None and slowed.clock and slowed.free_clock:
            least = slowed.clock / slowed.free_clock
            costs.append(_of_clocks(slowed, slowed.held, slowed.free, least, model))
        elif slowed.share > 0 and HEAT & {*slowed.reasons} and not costs:
            return Suspect(f"{_clocks(slowed)}, and no step was seen without it to compare with", placement.script)
        said.append(_clocks(slowed))
    if not said:
        return Absent("no GPU is used, and no quota limits the CPU")
    return costs or Clear("; ".join(said))


def _clocks(slowed: Slowed) -> str:
    if not slowed.share:
        return "nothing held the GPU's clocks down"
    at = f" at {slowed.clock:.0f} MHz" if slowed.clock is not None else ""
    return f"{' and '.join(slowed.reasons)} held the GPU{at} for {units.percent(slowed.share)} of the time"


def _of_clocks(slowed: Slowed, held: Interval, free: Interval, least: float, model: StepModel) -> Cost:
    """Compare steps with and without it; clocks, of which `least` was left, bound what it can explain."""
    pairs = ((free.low, held.high), (free.mid, held.mid), (free.high, held.low))
    ratios = (without / meanwhile if meanwhile > 0 else 1.0 for without, meanwhile in pairs)
    stays = [min(1.0, max(each, least)) for each in ratios]
    # Of the whole, only what was slowed gets shorter; by time, not by steps.
    change = Change("step", Interval(*(1 - slowed.share * (1 - each) for each in stays)))
    return Cost(
        saving=model.with_change(change).saving(),
        because=(
            f"{_clocks(slowed)}: a step took {units.duration(held.mid)} meanwhile and "
            f"{units.duration(free.mid)} at other times"
        ),
        change=change,
        evidence={
            "reasons": list(slowed.reasons),
            "share": slowed.share,
            "mhz": slowed.clock,
            "free_mhz": slowed.free_clock,
            "wanted": "cooling or power",
        },
        # Steps that differ for this very cause make the run as a whole look noisy.
        noise=SMALLEST_PROVABLE,
    )


def _of_quota(quota: Quota, model: StepModel) -> Cost:
    """Give back the time for which threads that wanted to run were stopped; at worst half, if others take the cores."""
    wanted = quota.wanted
    lost = 1 - quota.used / wanted
    change = Change("step", Interval(max(0.0, 1 - MORE * lost), 1 - lost, 1 - lost / 2))
    return Cost(
        saving=model.with_change(change).saving(),
        because=(
            f"the CPU quota of {quota.cores:g} cores was used up in {units.percent(quota.periods)} of its periods: "
            f"threads that wanted {wanted:.1f} cores ran on {quota.used:.1f} and were stopped for the rest"
        ),
        change=change,
        evidence={"quota": quota.cores, "wanted": wanted, "used": quota.used, "periods": quota.periods},
    )


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name what to do."""
    del source
    if "quota" not in cost.evidence:
        return Fix(
            "better cooling, or more power for the GPU: nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER", "manual"
        )
    cores = math.ceil(float(cost.evidence["wanted"]))
    return Fix(f"a CPU quota of {cores}: docker update --cpus {cores} CONTAINER, or limits.cpu in Kubernetes", "manual")
