"""What is turned in one trial: given to the process that trains, read back from what it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from fitdoctor.model import Safety


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that differ from the script's own; None is the script's own."""

    steps_per_execution: int | None = None
    jit_compile: bool | None = None
    workers: int | None = None
    prefetch: bool | None = None
    batch_size: int | None = None
    precision: str | None = None
    backend: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Settings:
        """Read them back from what `data` gave."""
        return cls(**given)

    def data(self) -> dict[str, Any]:
        """Return what differs, as plain data."""
        return {name: value for name in NAMES if (value := getattr(self, name)) is not None}

    @property
    def count(self) -> int:
        """How many settings differ from the script's own."""
        return len(self.data())

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.data().items()) or "as the script has it"


NAMES = tuple(each.name for each in fields(Settings))
SAFETY: dict[str, Safety] = {
    "steps_per_execution": "same",
    "jit_compile": "same",
    "workers": "same",
    "prefetch": "same",
    "batch_size": "may change",
    "precision": "may change",
    "backend": "may change",
}
"""Whether a training learns the same with it, up to rounding; a proof compares losses in any case."""


def not_applied(settings: Settings, about: Mapping[str, Any]) -> str:
    """Tell which setting a run did not have although it was asked for; nothing where it had all of them."""
    for name, wanted in settings.data().items():
        had = about.get(name)
        if had != wanted:
            return f"{name}={wanted} did not take effect: the run had {had}"
    return ""
