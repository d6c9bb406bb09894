"""The sections of a report, worded and placed: what the templates only put into markup."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from fitdoctor import units
from fitdoctor.model import PARTS, PHASES, Finding, Fix, Interval, Report, Site
from fitdoctor.report.html.drawing import Segment, Span, scale, segments, span
from fitdoctor.report.terminal import BOUNDS, interval_of

SourceOf = Callable[[Site], "list[str] | None"]

SAFETY = {"same": "same results", "may change": "may change results", "manual": "by hand"}
_AROUND, _FRAME_MOST = 3, 14


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that stands out."""

    name: str
    value: str
    range: str


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table with a bar."""

    name: str
    look: str
    value: str
    share: str
    width: float
    how: str
    more: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of code."""

    number: int
    text: str
    marked: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """One finding."""

    rule: str
    family: str
    because: str
    saving: str
    range: str
    span: Span
    where: str
    symbol: str | None
    frame: tuple[Line, ...]
    fix: Fix | None
    safety: str
    diff: tuple[tuple[str, str], ...]
    copy: str
    evidence: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Drop:
    """One step of the waterfall: what is left, what went."""

    name: str
    took: str
    faster: str
    left: float
    gone: float
    span: Span | None


# --- the top ------------------------------------------------------------------------------------------


def title(run: Mapping[str, Any]) -> str:
    """Name the run."""
    script = run.get("script")
    if script:
        return PurePath(str(script)).name
    command = run.get("command")
    return command if isinstance(command, str) else " ".join(str(word) for word in command or ()) or "a run"


def stack(run: Mapping[str, Any]) -> Iterator[str]:
    """Name what ran, where and when."""
    versions = run.get("versions") or {}
    if "keras" in versions:
        yield f"Keras {versions['keras']}"
    backend = run.get("backend")
    if backend:
        version = versions.get(backend) or versions.get(f"{backend}-cpu")
        yield f"{backend} {version}" if version else str(backend)
    machine = run.get("machine") or {}
    for name in dict.fromkeys(machine.get("gpus") or ()):
        yield str(name)
    if machine.get("cores"):
        yield f"{machine['cores']:g} {'core' if machine['cores'] == 1 else 'cores'}"
    started = run.get("started")
    if isinstance(started, int | float):
        yield datetime.datetime.fromtimestamp(started, datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def figures(report: Report) -> Iterator[Figure]:
    """Return the numbers to remember."""
    step, whole = interval_of(report.run.get("step_ms")), interval_of(report.run.get("whole_s"))
    if step is not None:
        yield _figure("a step", step.scale(1e-3))
    if whole is not None:
        yield _figure("the whole training", whole)
    if report.ceiling is not None and report.findings:
        speedup = report.ceiling.speedup
        most = f"{speedup.high:.1f}×" if math.isfinite(speedup.high) else "more"
        mid = f"{speedup.mid:.1f}×" if math.isfinite(speedup.mid) else f"over {speedup.low:.1f}×"
        yield Figure("faster, if all is fixed", mid, f"{speedup.low:.1f}× to {most}")


def _figure(name: str, seconds: Interval) -> Figure:
    high = units.duration(seconds.high) if math.isfinite(seconds.high) else "more"
    return Figure(name, units.duration(seconds.mid), f"{units.duration(seconds.low)} to {high}")


# --- where the time goes ------------------------------------------------------------------------------


def looks(values: Mapping[str, float]) -> dict[str, str]:
    """Give the largest part the accent and the others greys that differ from their neighbours."""
    if not values:
        return {}
    largest = max(values, key=lambda name: values[name])
    others = [name for name in values if name != largest]
    return {largest: "accent", **{name: f"grey{place % 4}" for place, name in enumerate(others)}}


def step_parts(report: Report) -> tuple[list[Segment], list[Row]]:
    """Return the bar of a step and its table."""
    order = [*PARTS, *(part for part in report.breakdown if part not in PARTS)]
    parts = {part: report.breakdown[part] for part in order if report.breakdown.get(part, 0) > 0}
    total, how = sum(parts.values()), report.run.get("how") or {}
    colours = looks(parts)
    table = [
        Row(part, colours[part], units.duration(ms / 1e3), percent(ms / total), 100 * ms / total, how.get(part, ""))
        for part, ms in parts.items()
    ]
    return segments(parts, colours), table


def phases(report: Report) -> list[Row]:
    """Return where the time of what was watched went, beside that of the whole training."""
    seen = {phase: seconds for phase, seconds in report.phases.items() if seconds > 0}
    wall = sum(seen.values())
    whole = {str(each["name"]): each for each in report.run.get("whole") or ()}
    order = dict.fromkeys([*(phase for phase in PHASES if phase in seen or phase in whole), *seen, *whole])
    found = []
    for phase in order:
        there = whole.get(phase)
        share = there["share"]["mid"] if there else 0.0 if whole else seen[phase] / wall
        watched = units.duration(seen[phase]) if phase in seen else "–"
        later = (units.duration(there["seconds"]["mid"]), percent(share)) if there else ("–", "–")
        look = "accent" if phase == "steady steps" else "grey0"
        here = percent(seen.get(phase, 0.0) / wall) if wall and phase in seen else "–"
        found.append(Row(phase, look, watched, here, 100 * share, there["how"] if there else "", later))
    return found


def percent(fraction: float) -> str:
    """Format a share, however small."""
    return units.percent(fraction) if fraction >= 0.0005 else f"< {units.percent(0.001)}"


def roofline(run: Mapping[str, Any]) -> str:
    """Say how near the work of a step comes to what the machine can do."""
    found = run.get("roofline") or {}
    rate, share, memory = (interval_of(found.get(name)) for name in ("flops_per_s", "arithmetic", "memory_at_least"))
    if rate is None or share is None or memory is None:
        return ""
    return (
        f"Its work does {units.per_second(rate, 'FLOP')}: {units.percent_range(share)} of what large products reach "
        f"on this machine, and at least {units.percent_range(memory)} of its memory bandwidth."
    )


# --- findings -----------------------------------------------------------------------------------------


def findings(report: Report, source_of: SourceOf | None) -> tuple[list[Shown], float]:
    """Return all findings and the end of the scale that their savings are drawn on."""
    most = scale([each.cost.saving.high for each in report.findings])
    return [_finding(place, each, source_of, most) for place, each in enumerate(report.findings)], most


def _finding(place: int, finding: Finding, source_of: SourceOf | None, most: float) -> Shown:
    saving, site, fix = finding.cost.saving, finding.site, finding.fix
    digits = 1 if saving.high < 0.0995 else 0
    return Shown(
        rule=finding.rule,
        family=finding.family,
        because=finding.cost.because,
        saving=units.percent(saving.mid),
        range=f"{100 * saving.low:.{digits}f} to {100 * saving.high:.{digits}f} %",
        span=span(saving, most),
        where=where(site) if site is not None else "",
        symbol=site.symbol if site is not None else None,
        frame=tuple(frame(site, source_of)) if site is not None else (),
        fix=fix,
        safety=SAFETY.get(fix.safety, fix.safety) if fix is not None else "",
        diff=tuple(diff_lines(fix.diff)) if fix is not None and fix.diff else (),
        copy=f"diff-{place}",
        evidence=tuple(evidence(finding.cost.evidence)),
    )


def where(site: Site) -> str:
    """Show the end of a path: the folder and the file."""
    return f"{'/'.join(PurePath(site.path).parts[-2:]).lstrip('/')}:{site.line}"


def frame(site: Site, source_of: SourceOf | None) -> Iterator[Line]:
    """Return the lines around a site, as they were when the script ran."""
    lines = source_of(site) if source_of is not None else None
    if not lines or not 1 <= site.line <= len(lines):
        return
    last = min(max(site.end_line or site.line, site.line), site.line + _FRAME_MOST, len(lines))
    first_shown, last_shown = max(1, site.line - _AROUND), min(len(lines), last + _AROUND)
    for number in range(first_shown, site.line):
        if not lines[number - 1].strip():
            first_shown = number + 1  # what stands before an empty line is something else
    while last_shown > last and not lines[last_shown - 1].strip():
        last_shown -= 1
    for number in range(first_shown, last_shown + 1):
        yield Line(number, lines[number - 1].rstrip(), site.line <= number <= last)


def diff_lines(diff: str) -> Iterator[tuple[str, str]]:
    """Return each line of a diff with the class of its look."""
    for line in diff.rstrip("\n").split("\n"):
        head = line.startswith(("---", "+++", "@@"))
        yield ("head" if head else {"+": "plus", "-": "minus"}.get(line[:1], "same")), line


def evidence(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return what was measured as names and values."""
    for name, value in found.items():
        if isinstance(value, Mapping) and not {"low", "mid", "high"} <= set(value):
            yield from ((f"{name}, {inner}", text) for inner, text in evidence(value))
        else:
            words = str(name).split("_")
            yield " ".join("µs" if word == "us" else word for word in words), _value(value)


def _value(value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, Interval):
        return f"{_number(value.mid)} ({_number(value.low)} to {_number(value.high)})"
    if isinstance(value, Mapping):
        return f"{_value(value['mid'])} ({_value(value['low'])} to {_value(value['high'])})"
    if isinstance(value, list | tuple):
        return ", ".join(map(_value, value[:20])) + (f" and {len(value) - 20:,} more" if len(value) > 20 else "")
    return str(value)


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "not known"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def waterfall(report: Report) -> list[Drop]:
    """Return how long the training takes now, and as one finding after the other is fixed."""
    steps, now = report.run.get("waterfall") or (), report.run.get("projected_s")
    if not steps or not isinstance(now, int | float) or now <= 0:
        return []
    whole = float(now)
    found = [Drop("now", units.duration(whole), "", 100.0, 0.0, None)]
    before = whole
    for step in steps:
        left, faster = interval_of(step["seconds"]), interval_of(step["speedup"])
        if left is None or faster is None:
            continue
        gone = max(0.0, before - left.mid)
        took = units.duration(left.mid)
        told = units.times(faster) if math.isfinite(faster.high) else f"at least {faster.low:.1f}×"
        found.append(Drop(step["rule"], took, told, 100 * left.mid / whole, 100 * gone / whole, span(left, whole)))
        before = left.mid
    return found


def bound(report: Report) -> str:
    """Name what limits the run once everything is fixed."""
    return BOUNDS.get(report.ceiling.bound, report.ceiling.bound) if report.ceiling is not None else ""


def unknown(report: Report) -> list[tuple[str, str, str, str]]:
    """Return what could not be judged, rules with the same reason together: rules, what, reason, remedy."""
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for each in report.unknown:
        grouped.setdefault((each.gap.what, each.gap.reason, each.gap.remedy), []).append(each.rule)
    return [(", ".join(rules), *gap) for gap, rules in grouped.items()]


def proofs(report: Report) -> Iterator[Mapping[str, Any]]:
    """Return each proof with what was predicted beside what was measured, on one scale."""
    for each in report.proofs:
        measured, predicted = interval_of(each.get("speedup")), interval_of(each.get("predicted"))
        if measured is None:
            continue
        known = [one for one in (measured, predicted) if one is not None and math.isfinite(one.high)]
        most = scale([one.high for one in known], 0.5)
        before, after = interval_of(each.get("before_ms")), interval_of(each.get("after_ms"))
        yield {
            "rules": ", ".join(each.get("rules") or ()) or "the change",
            "verdict": each.get("verdict"),
            "most": f"{most:.1f}×",
            "rows": [
                (name, units.times_exact(one), span(one, most))
                for name, one in (("predicted", predicted), ("measured", measured))
                if one is not None
            ],
            "before": units.duration_range(before.scale(1e-3)) if before is not None else "",
            "after": units.duration_range(after.scale(1e-3)) if after is not None else "",
            "learning": (each.get("equivalence") or {}).get("kind", ""),
        }


def about(run: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the particulars of the run."""
    command = run.get("command")
    words: Sequence[str] = [command] if isinstance(command, str) else [str(each) for each in command or ()]
    if words:
        yield "command", " ".join(words)
    machine = run.get("machine") or {}
    for name, value in (
        ("processor", machine.get("cpu")),
        ("training", run.get("site")),
        ("input", run.get("adapter")),
    ):
        if value:
            yield name, str(value)
    if run.get("steps"):
        warm = f", after {run['warmup_steps']:,} to warm up" if run.get("warmup_steps") else ""
        yield "steps watched", f"{run['steps']:,}{warm}"
    memory = run.get("memory") or {}
    for name, key in (("memory, at most", "resident_bytes"), ("GPU memory, at most", "gpu_bytes")):
        if memory.get(key):
            yield name, units.size(memory[key])
    versions = run.get("versions") or {}
    if versions:
        yield "versions", ", ".join(f"{name} {version}" for name, version in versions.items())
    if run.get("capture"):
        yield "capture", str(run["capture"])
