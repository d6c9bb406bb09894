"""What the training used of the GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitdoctor.errors import MissingEvidence
from fitdoctor.model import Capture, Gap


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """The GPUs of the machine and how busy they were; utilisation is None where NVML gave no samples."""

    gpus: tuple[Mapping[str, Any], ...]
    utilisation: tuple[float | None, ...]
    memory_peak: tuple[float | None, ...]
    """Share of the device's memory in use at most."""


def establish(capture: Capture) -> DeviceUse:
    """Average the samples of every GPU; without a GPU there is nothing to establish."""
    environment = capture.meta.get("environment") or {}
    gpus = tuple(environment.get("gpus") or ())
    if not gpus:
        reason = environment.get("gpus_why") or "this machine shows no GPU"
        raise MissingEvidence(Gap("GPU use", str(reason), "fitdoctor env tells what the machine offers"))
    looks = [sample.values.get("gpus") or () for sample in capture.host]
    return DeviceUse(
        gpus=gpus,
        utilisation=tuple(_average(looks, index, "utilisation") for index in range(len(gpus))),
        memory_peak=tuple(_memory(looks, index) for index in range(len(gpus))),
    )


def _of(looks: Sequence[Sequence[Mapping[str, Any]]], index: int) -> list[Mapping[str, Any]]:
    return [each for look in looks for each in look if each.get("index") == index]


def _average(looks: Sequence[Sequence[Mapping[str, Any]]], index: int, key: str) -> float | None:
    values = [float(each[key]) for each in _of(looks, index) if key in each]
    return sum(values) / len(values) if values else None


def _memory(looks: Sequence[Sequence[Mapping[str, Any]]], index: int) -> float | None:
    shares = [each["memory_used"] / each["memory_total"] for each in _of(looks, index) if each.get("memory_total")]
    return max(shares, default=None)
