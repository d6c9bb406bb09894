"""What the training used of the machine while its steps were steady."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import rows
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture, Gap, HostSample


@dataclass(frozen=True, slots=True)
class HostUse:
    """Averages over the steady window; None where the machine does not tell."""

    seconds: float
    cores_busy: float
    """Cores kept busy on average by the process and its children."""
    gil_held: float | None
    """Share of the time somebody held the GIL."""
    gil_main: float | None
    """Share of the time the main thread did."""
    rss_growth: float | None
    """Bytes of resident memory gained per second."""
    swapped_in: float | None
    """Bytes swapped in per second, by the whole machine."""
    throttled: float | None
    """Share of the time the CPU quota held the process back."""
    reads: float | None
    """Bytes read from disk per second."""
    crowding: float = 1.0
    """Threads of the whole machine that want to run, per logical core; 1 while there is a core for each."""
    stolen: float | None = None
    """Share of the processor time of this virtual machine that others on the same host took."""


def establish(capture: Capture, training: Training) -> HostUse:
    """Difference the first and last look at the host within the steady steps."""
    samples = within(capture, training)
    if len(samples) < 2:
        raise MissingEvidence(
            Gap(
                "host use",
                f"{len(samples)} looks at the host fell within the steady steps, two are needed",
                Gap.LONGER,
            )
        )
    first, last = samples[0].values, samples[-1].values
    seconds = (samples[-1].t_ns - samples[0].t_ns) / 1e9
    cpu = [_cpu(values) for values in (first, last)]
    if cpu[0] is None or cpu[1] is None:
        raise MissingEvidence(Gap("CPU use", "the host samples hold no CPU seconds", "run where /proc can be read"))
    return HostUse(
        seconds=seconds,
        cores_busy=max(0.0, cpu[1] - cpu[0]) / seconds,
        gil_held=_gil(samples, "held"),
        gil_main=_gil(samples, "main"),
        rss_growth=_rate(first, last, seconds, "rss", floor=None),
        swapped_in=_rate(first, last, seconds, "swap_in"),
        throttled=_rate(first.get("throttling") or {}, last.get("throttling") or {}, seconds, "throttled_s"),
        reads=_rate(first, last, seconds, "disk_read"),
        crowding=_crowding(capture, samples),
        stolen=_stolen(first, last),
    )


def _crowding(capture: Capture, samples: Sequence[HostSample]) -> float:
    cores = (capture.meta.get("environment") or {}).get("logical_cores")
    loads = [float(sample.values["load"]) for sample in samples if sample.values.get("load") is not None]
    return max(1.0, sum(loads) / len(loads) / float(cores)) if cores and loads else 1.0


def _stolen(first: Mapping[str, Any], last: Mapping[str, Any]) -> float | None:
    if "machine_cpu" not in first or "machine_cpu" not in last:
        return None
    passed = float(last["machine_cpu"]) - float(first["machine_cpu"])
    return max(0.0, float(last["machine_stolen"]) - float(first["machine_stolen"])) / passed if passed > 0 else None


def within(capture: Capture, training: Training) -> list[HostSample]:
    """Return the looks at the host that fell within the steady steps."""
    steps = [capture.steps[call.id] for call in training.calls if call.id in capture.steps]
    every = rows.joined(steps)
    chosen = rows.choose(every, rows.steady(every))
    start, end = int(chosen.start_ns[0]), int(chosen.start_ns[-1] + chosen.wall_ns[-1])
    return [sample for sample in capture.host if start <= sample.t_ns <= end]


def _cpu(values: Mapping[str, Any]) -> float | None:
    if "cpu_user" not in values:
        return None
    return float(values["cpu_user"] + values.get("cpu_system", 0.0) + values.get("children_cpu", 0.0))


def _gil(samples: Sequence[HostSample], what: str) -> float | None:
    """The watcher counts its looks since the previous sample."""
    counts = [sample.values["gil"] for sample in samples if sample.values.get("gil")]
    looks = sum(each.get("looks", 0) for each in counts)
    return sum(each.get(what, 0) for each in counts) / looks if looks else None


def _rate(
    first: Mapping[str, Any], last: Mapping[str, Any], seconds: float, key: str, floor: float | None = 0.0
) -> float | None:
    if key not in first or key not in last:
        return None
    rate = float(last[key] - first[key]) / seconds
    return rate if floor is None else max(floor, rate)
