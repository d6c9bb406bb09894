"""The user's callbacks: none of them, and each alone."""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BARE, Job, Variant

NAME = "callbacks off"
_VISIBLE = 0.002


def worth(seen: Seen) -> float:
    """Weigh what callbacks were seen to take, and that their mere presence may change the dispatch."""
    if not [name for name in seen.info.get("callbacks", ()) if name not in ("History", "ProgbarLogger")]:
        return 0.0
    hidden = 0.05 if not seen.info.get("async_callbacks", True) else 0.0
    return max(seen.shares["callbacks"], hidden, _VISIBLE)


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Leave all out, then add each alone to none."""
    del seen
    names = [type(each).__name__ for each in job.callbacks]
    yield Comparison("callbacks off", lambda: job.block(BARE), job.block, {"callbacks": names})
    if len(names) < 2:
        return
    for place, name in enumerate(names):
        alone = Variant(callbacks=(place,))
        yield Comparison(
            f"callback alone: {name}",
            lambda alone=alone: job.block(alone),  # type: ignore[misc]
            lambda: job.block(BARE),
            {"callback": name, "place": place},
        )
