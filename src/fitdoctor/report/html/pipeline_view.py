"""The input pipeline and the layers of the model, as the page shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from fitdoctor import units
from fitdoctor.model import Interval, Site
from fitdoctor.report.terminal import interval_of

SourceOf = Callable[[Site], "list[str] | None"]
LAYERS_AT_ONCE = 15
"""The costliest are shown at once, the rest on request."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of the pipeline."""

    name: str
    code: str
    where: str
    branch: bool
    slowest: bool
    joins: str
    """Which branches come together in it."""
    rate: str
    """What the pipeline up to here gives alone."""
    own: str
    width: float
    """Its own time, over that of the costliest, in percent; nothing where it is paid in the first epoch only."""
    once: bool
    facts: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer, or several alike."""

    name: str
    kind: str
    took: str
    share: str
    width: float
    params: str
    names: str


def nodes(found: Mapping[str, Any], source_of: SourceOf | None) -> list[Node]:
    """Return the operators as elements pass them; settings, through which nothing passes, are left out."""
    stages = [each for each in found.get("stages") or () if each["op"] != "Options"]
    # What is cached further on is done in the first epoch only.
    most = max((each["wall_ms"]["mid"] for each in stages if each.get("wall_ms") and not each.get("cached")), default=0)
    by_place = {each["place"]: each["op"] for each in stages if each.get("place") is not None}
    found_nodes, line = [], None
    for each in stages:
        # A line that built several operators is shown once.
        found_nodes.append(_node(each, most, by_place, source_of if each.get("site") != line else None))
        line = each.get("site")
    return found_nodes


def _node(stage: Mapping[str, Any], most: float, by_place: Mapping[int, str], source_of: SourceOf | None) -> Node:
    own, rate, site = interval_of(stage.get("wall_ms")), interval_of(stage.get("per_second")), stage.get("site")
    inputs = [by_place.get(each, "?") for each in stage.get("inputs") or ()]
    return Node(
        name=str(stage["op"]),
        code=_code(site, source_of),
        where=f"{PurePath(str(site['path'])).name}:{site['line']}" if site else "",
        branch=bool(stage.get("branch")),
        slowest=bool(stage.get("slowest")),
        joins=" and ".join(inputs) if len(inputs) > 1 else "",
        rate=f"{units.count(rate.mid)}/s" if rate is not None else "",
        own=units.duration_short(own.scale(1e-3)) if own is not None and own.high > 0 else "",
        width=100 * own.mid / most if own is not None and most > 0 and not stage.get("cached") else 0.0,
        once=bool(stage.get("cached")),
        facts=tuple(_facts(stage)),
        notes=tuple(str(each) for each in stage.get("notes") or ()),
    )


def _code(site: Mapping[str, Any] | None, source_of: SourceOf | None) -> str:
    if not site or source_of is None:
        return ""
    lines = source_of(Site(site["path"], site["line"]))
    return lines[site["line"] - 1].strip() if lines and 1 <= site["line"] <= len(lines) else ""


def _facts(stage: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, key in (("on the CPU", "cpu_ms"), ("waiting", "waiting_ms")):
        value = interval_of(stage.get(key))
        if value is not None and value.mid > 0:
            yield name, f"{units.duration(value.mid / 1e3)} per step"
    for name, key in (("at once", "parallel"), ("buffer", "buffer")):
        setting = stage.get(key)
        if setting:
            auto = " (AUTOTUNE)" if setting.get("tuned") else ""
            fill = f", {units.percent(stage['fill'])} full" if key == "buffer" and stage.get("fill") is not None else ""
            yield name, f"{setting['value']:.0f}{auto}{fill}"
    if stage.get("per_step") and stage["per_step"] != 1:
        yield "elements", f"{units.count(stage['per_step'])} per step"
    if stage.get("bytes"):
        yield "size", f"{units.size(stage['bytes'])} each"


def loader(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return how a loader written in Python is set up."""
    it = found.get("loader")
    if not it:
        return
    yield "loader", str(it.get("name") or it.get("kind"))
    if it.get("workers") is not None:
        kind = "processes" if it.get("processes") else "threads"
        yield "workers", f"{it['workers']} {kind}" if it["workers"] else "none: the training thread loads"
    if it.get("queue") is not None:
        yield "queue", f"at most {it['queue']} batches ready"
    yield "ahead", "the next batch is prepared while the step runs" if it.get("ahead") else "no: they take turns"
    for name, key in (("one batch", "batch_ms"), ("of it on the CPU", "cpu_ms"), ("of it waiting", "waiting_ms")):
        value = interval_of(it.get(key))
        if value is not None:
            yield name, units.duration_range(value.scale(1e-3))
    if it.get("batch_size") is not None:
        yield "batch", f"{it['batch_size']:,} samples"
    if it.get("batches") is not None:
        yield "epoch", f"{it['batches']:,} batches"
    if it.get("bytes"):
        yield "arrays", units.size(it["bytes"])


def functions(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the Python inside of the pipeline."""
    return [
        (
            str(each["name"]),
            f"{units.duration(each['wall_ms'] / 1e3)} per call, {units.duration(each['cpu_ms'] / 1e3)} of it on the "
            f"CPU, {each['calls']:,} calls timed",
        )
        for each in found.get("functions") or ()
    ]


def training_node(found: Mapping[str, Any]) -> dict[str, str]:
    """Return the end of the pipeline: the step, and how long it waits."""
    step, wait = interval_of(found.get("step_ms")), interval_of(found.get("wait_ms"))
    return {
        "step": units.duration_range(step.scale(1e-3)) if step is not None else "",
        "wait": units.duration_range(wait.scale(1e-3)) if wait is not None else "",
    }


def layers(run: Mapping[str, Any]) -> list[Layer]:
    """Return the layers, the costliest first."""
    found: Sequence[Mapping[str, Any]] = (run.get("model") or {}).get("layers") or ()
    most = max((each["share"]["mid"] for each in found if each.get("share")), default=0.0)
    return [_layer(each, most) for each in found]


def _layer(found: Mapping[str, Any], most: float) -> Layer:
    took, share = interval_of(found.get("ms")), interval_of(found.get("share"))
    count = int(found.get("count") or 1)
    why = str(found.get("not_measured") or "not measured")
    return Layer(
        name=str(found["name"]) + (f" and {count - 1} like it" if count > 1 else ""),
        kind=str(found["kind"]),
        took=units.duration_range(took.scale(1e-3)) if took is not None else why,
        share=units.percent_range(share) if share is not None else "",
        width=100 * share.mid / most if share is not None and most > 0 else 0.0,
        params=f"{int(found.get('params') or 0):,}",
        names=", ".join(str(each) for each in (found.get("names") or ())[:50]) if count > 1 else "",
    )


def layers_note(run: Mapping[str, Any]) -> str:
    """Say what the layers were measured against."""
    model = run.get("model") or {}
    accounted, optimizer = interval_of(model.get("accounted")), interval_of(model.get("optimizer_ms"))
    if not isinstance(accounted, Interval) or optimizer is None:
        return ""
    return (
        f"Together with the optimizer ({units.duration(optimizer.mid / 1e3)}) they take "
        f"{units.percent_range(accounted)} of the step on one batch; {model.get('how', '')}."
    )
