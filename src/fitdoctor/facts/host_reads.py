"""Which lines of a hand-written loop read results back, how often, and how long they block."""

from __future__ import annotations

from dataclasses import dataclass

from fitdoctor.facts.training import Training
from fitdoctor.model import Capture, Site

NEARLY = 0.9
"""A line that reads in this share of the steps keeps every step from running ahead."""


@dataclass(frozen=True, slots=True)
class ReadLine:
    """One line that reads."""

    site: Site
    count: int
    per_step: float
    """Reads per step."""
    blocked_s: float
    """Seconds per read."""


@dataclass(frozen=True, slots=True)
class HostReads:
    """The lines that read, the longest blocked first."""

    lines: tuple[ReadLine, ...]

    @property
    def waiting(self) -> ReadLine | None:
        """The line at which (nearly) every step waits, if there is one."""
        return next((line for line in self.lines if line.per_step >= NEARLY), None)


def establish(capture: Capture, training: Training) -> HostReads:
    """Add up the reads of the leading training."""
    steps = max(1, training.steps + training.warmup_steps)
    found: dict[Site, list[int]] = {}
    for each in capture.reads:
        if each.call in training.call_ids:
            seen = found.setdefault(each.site, [0, 0])
            seen[0] += each.count
            seen[1] += each.total_ns
    lines = [
        ReadLine(site, count, count / steps, total / max(1, count) / 1e9) for site, (count, total) in found.items()
    ]
    return HostReads(tuple(sorted(lines, key=lambda line: -line.blocked_s * line.count)))
