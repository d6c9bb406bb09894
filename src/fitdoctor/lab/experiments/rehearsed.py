"""The training itself on the data that other experiments found to come faster: what that gives beside the step."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from fitdoctor.lab.bench import FELT, Comparison, Seen
from fitdoctor.lab.job import Job, Offer
from fitdoctor.lab.rehearsal import ADAPTERS, FASTER, Rehearsal, block_seconds, epoch_seconds, rehearsal

NAME = "the training on changed data"
AFTER_OFFERS = True
MOST = 3
"""Changes that are rehearsed."""
MOSTLY = 0.6
"""A change that leaves less than this of the time removes most of the work."""


def worth(seen: Seen) -> float:
    """Weigh trainings that wait for their data, or begin many epochs."""
    if seen.info.get("adapter") not in (*ADAPTERS, "generator"):
        return 0.0
    return 9.0 if seen.shares["fetch"] > FELT or seen.shares["between epochs"] > FELT else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Train on each of the best offers, in turns with the training as it is."""
    chosen = best(job)
    if not chosen:
        return
    epoch = epoch_seconds(job, seen.step_ns)
    whole, block = epoch is not None, block_seconds(seen.step_ns, epoch)
    for offer in chosen:
        as_is, changed = rehearsal(job, whole=whole), rehearsal(job, whole=whole, **offer.given(whole))
        detail = {"unit": "ns per trained step", "whole": whole, "rehearses": offer.name}
        late = _end([changed, as_is], offer)
        yield Comparison(f"rehearsed: {offer.name}", changed.block, as_is.block, detail, late, block_seconds=block)


def best(job: Job) -> list[Offer]:
    """Return the offers that brought data fastest, one of each kind; in the order in which they are rehearsed."""
    kinds: dict[str, tuple[float, Offer]] = {}
    for offer in job.offers:
        ratio = job.results.get(offer.name, 0.0 if offer.overlaps else 1.0)
        if ratio < min(FASTER, kinds.get(offer.kind, (FASTER, offer))[0]):
            kinds[offer.kind] = ratio, offer
    ranked = sorted(kinds.values(), key=lambda each: (each[1].last, each[0]))
    return [offer for _, offer in ranked if kinds.get(offer.unless, (1.0, offer))[0] >= MOSTLY][:MOST]


def _end(rehearsals: list[Rehearsal], offer: Offer) -> Any:
    """Return what ends all of them, and tells how the first one begins its data."""

    def late() -> dict[str, Any]:
        for each in rehearsals:
            each.end()
        if offer.end is not None:
            offer.end()
        begun = getattr(rehearsals[0], "begun_ns", None)
        return {"begun_ns": statistics.median(begun)} if begun else {}

    return late
