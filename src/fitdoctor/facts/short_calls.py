"""Calls without steps of their own, made again and again from one line: `predict` or `evaluate` in a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fitdoctor.facts import rows
from fitdoctor.model import Call, Capture, Gap, Interval, Site
from fitdoctor.probes.calls import MANY

KINDS = ("predict", "evaluate")
ONE_BATCH = 32
"""What Keras takes as a batch when the script does not say."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """What the lab measured in place of the call."""

    name: str
    ratio: Interval
    """Its time over the call's."""
    times: int


@dataclass(frozen=True, slots=True)
class Repeated:
    """All calls of one kind from one line."""

    kind: str
    site: Site | None
    count: int
    each: Interval
    """Seconds per call, without the first, which compiles."""
    samples: float | None
    """Per call; None where the input does not say."""
    batch_size: int
    alternatives: tuple[Alternative, ...]
    gap: Gap | None
    """Why nothing could be measured in its place."""
    ids: frozenset[int]

    @property
    def total_s(self) -> float:
        """Seconds of all calls."""
        return self.each.mid * self.count

    @property
    def few(self) -> bool:
        """One batch holds all samples of a call, as far as is known."""
        return self.samples is None or self.samples <= self.batch_size


@dataclass(frozen=True, slots=True)
class ShortCalls:
    """The lines that call often, the costliest first."""

    groups: tuple[Repeated, ...]
    compiling_s: float
    """Seconds of tracing that come again with every call: no one-off cost."""
    mode: str

    @property
    def total_s(self) -> float:
        """Seconds of all of them."""
        return sum(each.total_s for each in self.groups)


def establish(capture: Capture) -> ShortCalls:
    """Put the calls of each line together."""
    lines: dict[tuple[str, str], list[Call]] = {}
    for call in capture.calls:
        if call.kind in KINDS and call.parent is None and call.site is not None and "total_ns" in call.info:
            lines.setdefault((call.kind, str(call.site)), []).append(call)
    groups = [_group(capture, calls) for calls in lines.values() if sum(call.count for call in calls) >= MANY]
    first = {min(group.ids) for group in groups}
    again = frozenset().union(*(group.ids for group in groups)) - first
    return ShortCalls(
        groups=tuple(sorted(groups, key=lambda group: -group.total_s)),
        compiling_s=sum(each.duration_ns for each in capture.compiles if each.call in again) / 1e9,
        mode=str(capture.meta.get("mode", "")),
    )


def _group(capture: Capture, calls: Sequence[Call]) -> Repeated:
    kind, site = calls[0].kind, calls[0].site
    ids = frozenset(call.id for call in calls)
    later = calls[1:] or calls
    seconds = [float(call.info["total_ns"]) / 1e9 for call in later]
    told = [call for call in calls if call.info.get("samples") is not None]
    return Repeated(
        kind=kind,
        site=site,
        count=sum(call.count for call in calls),
        each=rows.means({"each": seconds}, [float(call.count) for call in later])["each"],
        samples=sum(call.info["samples"] for call in told) / sum(call.count for call in told) if told else None,
        batch_size=int(calls[-1].info.get("batch_size") or ONE_BATCH),
        alternatives=_alternatives(capture, ids),
        gap=next((gap for gap in capture.gaps if gap.what == f"experiment: {kind} at {site}"), None),
        ids=ids,
    )


def _alternatives(capture: Capture, ids: frozenset[int]) -> tuple[Alternative, ...]:
    found = []
    for trial in capture.trials:
        if trial.call in ids and trial.baseline_ns and trial.changed_ns:
            ratio = rows.paired(trial.baseline_ns, trial.changed_ns)
            found.append(Alternative(trial.name, ratio, len(trial.changed_ns)))
    return tuple(sorted(found, key=lambda each: each.ratio.mid))
