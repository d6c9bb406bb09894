"""What the training had of the machine's memory, and how long it waited for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fitdoctor.facts.host_use import within
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture, Interval


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Rates over the steady steps, or over the whole run where that was too short; None where nobody looked."""

    steady: bool
    looks: int
    stalled: Interval | None
    """Share of the time in which what wanted to run waited for memory: all of it, and some of it."""
    swapped_in: float | None
    """Bytes per second that came back from swap, on the whole machine."""
    faults: float | None
    """Pages per second that this process had to wait for."""
    available: int | None
    """The least that was free."""
    swap: int | None
    """Bytes of swap that the machine has."""


def establish(capture: Capture, training: Training) -> MemoryUse:
    """Difference the first and the last look."""
    samples = within(capture, training)
    steady = len(samples) > 1
    samples = samples if steady else list(capture.host)
    environment: Mapping[str, Any] = capture.meta.get("environment") or {}
    free = [int(sample.values["memory_available"]) for sample in samples if "memory_available" in sample.values]
    swap = environment.get("swap_total")
    if len(samples) < 2:
        return MemoryUse(False, len(samples), None, None, None, min(free, default=None), swap)
    first, last = samples[0].values, samples[-1].values
    seconds = (samples[-1].t_ns - samples[0].t_ns) / 1e9
    return MemoryUse(
        steady=steady,
        looks=len(samples),
        stalled=_stalled(first.get("memory_stall"), last.get("memory_stall"), seconds),
        swapped_in=_rate(first, last, "swap_in", seconds),
        faults=_rate(first, last, "major_faults", seconds),
        available=min(free, default=None),
        swap=swap,
    )


def _stalled(first: Mapping[str, float] | None, last: Mapping[str, float] | None, seconds: float) -> Interval | None:
    """Everything stood still for at least one of them, and something did for the other: the truth lies between."""
    if not first or not last:
        return None
    low, high = ((last[name] - first[name]) / seconds for name in ("full", "some"))
    return Interval.around((low, (low + high) / 2, high)).clip(0.0, 1.0)


def _rate(first: Mapping[str, Any], last: Mapping[str, Any], key: str, seconds: float) -> float | None:
    if key not in first or key not in last:
        return None
    return max(0.0, float(last[key] - first[key]) / seconds)
