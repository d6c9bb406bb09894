"""The run along the clock: its stretches, every step, what stalled, what was compiled, what the machine did meanwhile.

Seconds count from the start of the process where the capture tells it, else from the first thing that was seen.  What
the lab does afterwards is no part of the run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import rows
from fitdoctor.model import Call, Capture, Epoch, Gap, HostSample, Steps

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

STALL = 5.0
"""Steps this many times as long as a typical one stand out."""
_NOT_STEADY = Steps.WARMUP | Steps.DRAINED | Steps.RESTED
MOST_BANDS = 2000
"""With more epochs than fit in here a call is one stretch."""
BEFORE, STEPS, VALIDATION, BETWEEN, OUTSIDE = (
    "imports and set-up", "steps", "validation", "between epochs", "outside of training",
)  # fmt: skip
KINDS = (BEFORE, STEPS, VALIDATION, BETWEEN, OUTSIDE)


@dataclass(frozen=True, slots=True)
class Band:
    """One stretch of the run."""

    kind: str
    """One of KINDS."""
    start: float
    end: float
    label: str


@dataclass(frozen=True, slots=True)
class Mark:
    """One trace or compilation."""

    start: float
    seconds: float
    label: str


@dataclass(frozen=True, slots=True)
class Track:
    """What one gauge of the machine showed, look by look."""

    name: str
    unit: str
    """cores, bytes or share"""
    at: tuple[float, ...]
    values: tuple[float, ...]
    limit: float | None = None
    """The most there is, where it is known."""


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """Everything that has a place on the clock."""

    seconds: float
    bands: tuple[Band, ...]
    at: Floats
    """When each row of steps began."""
    each: Floats
    """Seconds per optimizer step in it."""
    warmup: Bools
    stalls: Bools
    typical: float
    """Seconds of a steady step."""
    compiles: tuple[Mark, ...]
    tracks: tuple[Track, ...]


def establish(capture: Capture) -> Timeline:
    """Put everything on one clock."""
    import numpy as np

    start_ns = _origin(capture)
    if start_ns is None:
        raise MissingEvidence(Gap("the timeline", "nothing with a time was recorded", Gap.LONGER))
    several = [steps for steps in capture.steps.values() if rows.size(steps)]
    steps = _in_order(rows.joined(several)) if several else None
    at = each = np.zeros(0)
    warmup = steady = np.zeros(0, dtype=np.bool_)
    if steps is not None:
        steps = rows.choose(steps, steps.count > 0)
        at, each = (steps.start_ns - start_ns) / 1e9, steps.wall_ns / steps.count / 1e9
        warmup, steady = (steps.flags & Steps.WARMUP) != 0, (steps.flags & _NOT_STEADY) == 0
    typical = _typical(each[steady]) if steady.any() else 0.0
    seconds = _end(capture, start_ns)
    return Timeline(
        seconds=seconds,
        bands=tuple(_bands(capture, start_ns, seconds)),
        at=at,
        each=each,
        warmup=warmup,
        stalls=steady & (each > STALL * typical),
        typical=typical,
        compiles=tuple(
            Mark((each.start_ns - start_ns) / 1e9, each.duration_ns / 1e9, f"{each.kind} {each.name}".strip())
            for each in capture.compiles
            if each.start_ns - start_ns <= seconds * 1e9
        ),
        tracks=tuple(_tracks(capture, start_ns, seconds)),
    )


def _typical(each: Floats) -> float:
    """Return the middle one; where steps are launched ahead and a few wait for all of them, the mean."""
    import numpy as np

    middle, mean = float(np.median(each)), float(each.mean())
    return middle if middle > mean / 2 else mean


def _origin(capture: Capture) -> int | None:
    told = capture.meta.get("start_ns")
    first = [
        *(int(call.start_ns) for call in capture.calls),
        *(int(each.start_ns) for each in capture.compiles),
        *(int(each.t_ns) for each in capture.host[:1]),
        *(int(steps.start_ns.min()) for steps in capture.steps.values() if rows.size(steps)),
    ]
    if not first:
        return None
    return int(told) if isinstance(told, int) and told <= min(first) else min(first)


def _in_order(steps: Steps) -> Steps:
    import numpy as np

    order = np.argsort(steps.start_ns, kind="stable")
    return Steps(*(getattr(steps, name)[order] for name in Steps.__dataclass_fields__))


def _end(capture: Capture, start_ns: int) -> float:
    """Return when the watching ended: told by the capture, or the end of what was seen."""
    wall = capture.meta.get("wall_s")
    last = [(each.end_ns - start_ns) / 1e9 for each in capture.calls if each.end_ns is not None]
    last += [float((s.start_ns + s.wall_ns).max() - start_ns) / 1e9 for s in capture.steps.values() if rows.size(s)]
    if capture.meta.get("start_ns") is not None and isinstance(wall, int | float):
        return max(float(wall), *last, 0.0)
    if not last:
        last = [(sample.t_ns - start_ns) / 1e9 for sample in capture.host[-1:]]
        last += [(each.start_ns + each.duration_ns - start_ns) / 1e9 for each in capture.compiles[-1:]]
    return max(last, default=0.0)


# --- stretches ----------------------------------------------------------------------------------------


def _bands(capture: Capture, start_ns: int, seconds: float) -> Iterator[Band]:
    trained = [call for call in capture.calls if call.parent is None and call.id in capture.steps]
    trained = sorted((call for call in trained if rows.size(capture.steps[call.id])), key=lambda call: call.start_ns)
    epochs: dict[int, list[Epoch]] = {}
    for epoch in capture.epochs:
        epochs.setdefault(epoch.call, []).append(epoch)
    fine = len(capture.epochs) + len(trained) <= MOST_BANDS
    reached = 0.0
    for call in trained[:MOST_BANDS]:
        start = max(0.0, (call.start_ns - start_ns) / 1e9)
        if start > reached:
            yield Band(OUTSIDE if reached else BEFORE, reached, start, "")
        for band in _of_call(call, capture.steps[call.id], epochs.get(call.id, []) if fine else [], start_ns, start):
            yield band
            reached = max(reached, band.end)
    if trained and seconds > reached:
        yield Band(OUTSIDE, reached, seconds, "")


def _of_call(call: Call, steps: Steps, epochs: Sequence[Epoch], start_ns: int, start: float) -> Iterator[Band]:
    ended = float((steps.start_ns + steps.wall_ns).max() - start_ns) / 1e9
    if not epochs:
        yield Band(STEPS, start, ended, call.kind)
        return
    for epoch in epochs:
        name, began = f"epoch {epoch.epoch + 1}", (epoch.start_ns - start_ns) / 1e9
        if began > start:
            yield Band(BETWEEN, start, began, f"before {name}")
        done = (epoch.steps_end_ns - start_ns) / 1e9 if epoch.steps_end_ns is not None else max(began, ended)
        yield Band(STEPS, began, done, name)
        start = done
        if epoch.validation_ns > 0:
            start = done + epoch.validation_ns / 1e9
            yield Band(VALIDATION, done, start, name)
        if epoch.end_ns is not None and (epoch.end_ns - start_ns) / 1e9 > start:
            end = (epoch.end_ns - start_ns) / 1e9
            yield Band(BETWEEN, start, end, f"after {name}")
            start = end


# --- gauges -------------------------------------------------------------------------------------------


def _tracks(capture: Capture, start_ns: int, seconds: float) -> Iterator[Track]:
    samples = [sample for sample in capture.host if sample.t_ns - start_ns <= seconds * 1e9]
    environment: Mapping[str, Any] = capture.meta.get("environment") or {}
    cores = environment.get("cores")
    cpu = list(_rates(samples, _cpu_seconds, start_ns))
    yield from _track("CPU", "cores", cpu, float(cores) if isinstance(cores, int | float) else None)
    yield from _track("memory", "bytes", _levels(samples, start_ns, "rss"), None)
    indices = {int(gpu.get("index", 0)) for sample in samples for gpu in sample.values.get("gpus") or ()}
    for index in sorted(indices):
        name = "GPU" if len(indices) == 1 else f"GPU {index}"
        yield from _track(f"{name} busy", "share", _gpu(samples, start_ns, index, "utilisation"), 1.0)
        yield from _track(f"{name} memory", "bytes", _gpu(samples, start_ns, index, "memory_used"), None)
    yield from _track(
        "disk reads", "bytes/s", list(_rates(samples, lambda values: values.get("disk_read"), start_ns)), None
    )


def _track(name: str, unit: str, looks: Sequence[tuple[float, float]], limit: float | None) -> Iterator[Track]:
    if len(looks) > 1 and any(value for _, value in looks):
        yield Track(name, unit, tuple(at for at, _ in looks), tuple(value for _, value in looks), limit)


def _levels(samples: Sequence[HostSample], start_ns: int, key: str) -> list[tuple[float, float]]:
    return [((each.t_ns - start_ns) / 1e9, float(each.values[key])) for each in samples if key in each.values]


def _gpu(samples: Sequence[HostSample], start_ns: int, index: int, key: str) -> list[tuple[float, float]]:
    return [
        ((sample.t_ns - start_ns) / 1e9, float(gpu[key]))
        for sample in samples
        for gpu in sample.values.get("gpus") or ()
        if int(gpu.get("index", 0)) == index and isinstance(gpu.get(key), int | float)
    ]


def _rates(
    samples: Sequence[HostSample], counter: Callable[[Mapping[str, Any]], float | None], start_ns: int
) -> Iterator[tuple[float, float]]:
    known = [(sample.t_ns, float(value)) for sample in samples if (value := counter(sample.values)) is not None]
    for (before, low), (after, high) in itertools.pairwise(known):
        if after > before:
            yield (after - start_ns) / 1e9, max(0.0, high - low) / ((after - before) / 1e9)


def _cpu_seconds(values: Mapping[str, Any]) -> float | None:
    if "cpu_user" not in values:
        return None
    return float(values["cpu_user"] + values.get("cpu_system", 0.0) + (values.get("children_cpu") or 0.0))
