"""What the training used of the GPUs, while its steps were steady."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import rows
from fitdoctor.facts.host_use import within
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture, Gap, Interval

Look = tuple[int, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """The GPUs of the machine, and what NVML said of the busiest of them: no other one trains more than it does."""

    gpus: tuple[Mapping[str, Any], ...]
    looks: tuple[Look, ...]
    """When, and what it said then; without looks, nothing is known."""
    busy: Interval | None
    """Share of the time in which something ran on it."""
    watts: float | None
    celsius: float | None
    """The most that was seen."""

    @property
    def name(self) -> str:
        """The GPU that the looks are of, as its driver calls it."""
        index = self.looks[0][1].get("index", 0) if self.looks else 0
        return str(next((each.get("name") for each in self.gpus if each.get("index") == index), None) or f"GPU {index}")


def establish(capture: Capture, training: Training) -> DeviceUse:
    """Take the looks that fell within the steady steps; without a GPU there is nothing to establish."""
    environment = capture.meta.get("environment") or {}
    gpus = tuple(environment.get("gpus") or ())
    if not gpus:
        reason = environment.get("gpus_why") or "this machine shows no GPU"
        raise MissingEvidence(Gap("GPU use", str(reason), "fitdoctor env tells what the machine offers"))
    every = [(sample.t_ns, each) for sample in within(capture, training) for each in sample.values.get("gpus") or ()]
    indices = {int(each.get("index", 0)) for _, each in every}
    looks = max((_of(every, index) for index in sorted(indices)), key=_load, default=())
    used = [float(each["utilisation"]) for _, each in looks if "utilisation" in each]
    busy = rows.means({"busy": used}, [1.0] * len(used))["busy"].clip(0.0, 1.0) if len(used) > 1 else None
    return DeviceUse(gpus, looks, busy, _most(looks, "watts"), _most(looks, "celsius"))


def _of(looks: Sequence[Look], index: int) -> tuple[Look, ...]:
    return tuple((at, each) for at, each in looks if int(each.get("index", 0)) == index)


def _load(looks: Sequence[Look]) -> float:
    return sum(float(each.get("utilisation", 0.0)) for _, each in looks)


def _most(looks: Sequence[Look], key: str) -> float | None:
    return max((float(each[key]) for _, each in looks if key in each), default=None)
