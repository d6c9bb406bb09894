"""Steps wait for memory.

## What is wrong

When a machine runs out of memory it writes pages to swap, or drops pages of files that are in use, and reads them back
when they are needed: microseconds become milliseconds.  On a GPU the allocator gives back everything it kept and begins
anew when a batch hardly fits.

## How it is established

Linux counts the time in which what wanted to run waited for memory (`/proc/pressure/memory`): the time in which some of
it waited, and the time in which all of it did.  The cost of a steady step lies between the two.  Counted for the whole
machine, it is this training's only if this process itself had to wait for pages.  Where the kernel does not count it,
swapping alone is no number, and the answer is unknown.

A GPU's allocator that had to retry (PyTorch counts it) is a suspicion: what that cost was not measured.

## What to do

Free memory: fewer worker processes, a smaller shuffle buffer or cache, data on disk instead of in arrays; on a GPU a
smaller batch with `gradient_accumulation_steps` in the optimizer.

## When it is not worth it

When swap holds only what nobody uses: pages that lie there cost nothing until they are read back.

## Example

    data.cache().shuffle(1_000_000)              # slow, where that does not fit
    data.cache("folder").shuffle(10_000)         # fast
"""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.memory_use import MemoryUse
from fitdoctor.facts.placement import Placement
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.model import Change, Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import Absent, Clear, Suspect, Verdict


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: what does not fit here fits elsewhere."""
    del source
    return iter(())


def measure(memory: MemoryUse, placement: Placement, model: StepModel) -> Verdict:
    """Take the time for which steps waited for memory."""
    if memory.looks < 2:
        if memory.swap == 0:
            return Absent("there is no swap, and the run was too short to see more")
        raise MissingEvidence(
            Gap("waiting for memory", f"{memory.looks} looks at the host, two are needed", Gap.LONGER),
        )
    waits = memory.faults is None or memory.faults > 0
    stalled = memory.stalled or Interval.exact(0.0)
    swapped = memory.swapped_in or 0.0
    if waits and stalled.high > 0 and stalled.mid > model.noise:
        if not memory.steady:
            reason = "only the beginning of the run was looked at, and it waited for memory then"
            raise MissingEvidence(Gap("waiting for memory in steady steps", reason, Gap.LONGER))
        return [_cost(memory, stalled, swapped, model)]
    if waits and swapped > 0 and memory.stalled is None:
        reason = f"{units.size(swapped)} per second came back from swap, and this kernel does not count the time"
        raise MissingEvidence(Gap("waiting for memory", reason, "boot with psi=1, or free memory and compare"))
    if placement.retries and not placement.why_not:
        return Suspect(
            f"the GPU's allocator had to give back all it kept {placement.retries} times to go on; what that costs was "
            "not measured: try a smaller batch",
            placement.script,
        )
    free = f", {units.size(memory.available)} were free at the least" if memory.available is not None else ""
    return Clear(f"no step waited for memory{free}")


def _cost(memory: MemoryUse, stalled: Interval, swapped: float, model: StepModel) -> Cost:
    change = Change("step", Interval(1 - stalled.high, 1 - stalled.mid, 1 - stalled.low))
    swap = f"; {units.size(swapped)} per second came back from swap" if swapped else ""
    return Cost(
        saving=model.with_change(change).saving(),
        because=f"what wanted to run waited for memory for {units.percent_range(stalled)} of the time{swap}",
        change=change,
        evidence={
            "stalled": {"low": stalled.low, "mid": stalled.mid, "high": stalled.high},
            "swapped_in": memory.swapped_in,
            "faults": memory.faults,
            "available": memory.available,
        },
    )


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name what to do."""
    del cost, source
    return Fix("free memory: fewer workers, a smaller shuffle buffer or cache, or a smaller batch", "may change")
