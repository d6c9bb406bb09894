"""Objects that were fetched over HTTP while the leading training ran."""

from __future__ import annotations

from dataclasses import dataclass

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture, Gap, Site


@dataclass(frozen=True, slots=True)
class Fetches:
    """How many, how large, and how long their answers were waited for."""

    per_step: float
    bytes_each: float
    wait_each: float
    """Seconds between a request and its answer, before the first byte of the object."""
    blocked_each: float
    """Seconds in which any answer was waited for, per object: less than a wait where they come side by side."""
    site: Site | None

    @property
    def at_once(self) -> float:
        """How many answers were waited for at a time."""
        return self.wait_each / self.blocked_each if self.blocked_each > 0 else 1.0


def establish(capture: Capture, training: Training) -> Fetches:
    """Read what the probe counted."""
    found = training.info.get("fetches") or {}
    count = int(found.get("count") or 0)
    if count == 0:
        raise MissingEvidence(
            Gap("fetched objects", "nothing was fetched over HTTP while it trained", Gap.DOES_NOT_APPLY)
        )
    steps = sum(int(capture.steps[call.id].count.sum()) for call in training.calls if call.id in capture.steps)
    per_step = count / max(1, steps)
    batch = training.info.get("batch_size")
    if batch:
        # What goes beyond a whole number of objects per sample was fetched for later steps.
        per_step = min(per_step, float(batch) * max(1, round(per_step / float(batch))))
    site = found.get("site")
    return Fetches(
        per_step=per_step,
        bytes_each=float(found.get("bytes") or 0) / count,
        wait_each=float(found["wait_ns"]) / count / 1e9,
        blocked_each=float(found["any_ns"]) / count / 1e9,
        site=Site(str(site[0]), int(site[1])) if site else None,
    )
