"""Two runs side by side as a person reads them, and as data."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fitdoctor import units
from fitdoctor.model import Interval
from fitdoctor.proof.compare import Change, Comparison
from fitdoctor.report.characters import harmless
from fitdoctor.report.terminal import interval_of

SCHEMA = "fitdoctor.compare/1"


def gate(found: Comparison, limit: float) -> str:
    """Say whether the limit holds."""
    told = units.percent(limit)
    if found.disturbed:
        return "passed, not judged: other programs took the cores; compare runs on a quiet machine"
    if found.slower_than(limit):
        return f"FAILED: all of the range lies above the {told} allowed"
    if found.slowdown.mid > 1 + limit:
        return f"passed: the middle is above the {told} allowed, but two runs of the same could differ by as much"
    return f"passed: at most {told} slower is allowed"


def rows(found: Comparison) -> Iterator[tuple[str, str, str, str]]:
    """Yield every number of both runs with its change."""
    steps = [interval_of(report.run.get("step_ms")) for report in (found.before, found.after)]
    ratio = found.slowdown
    high = f"{100 * (ratio.high - 1):+.0f}" if math.isfinite(ratio.high) else "?"
    change = f"{100 * (ratio.mid - 1):+.0f} % ({100 * (ratio.low - 1):+.0f} to {high})"
    yield "a step", _step(steps[0]), _step(steps[1]), change
    for each in found.parts:
        yield each.name, *_both(each, lambda ms: units.duration(ms / 1e3))
    yield found.whole.name, *_both(found.whole, units.duration)
    for each in found.memory:
        yield each.name, *_both(each, units.size)


def _step(step: Interval | None) -> str:
    return units.duration_range(step.scale(1e-3)) if step is not None else "not known"


def _both(change: Change, format_: Callable[[float], str]) -> tuple[str, str, str]:
    one, other = change.before, change.after
    told = [format_(each) if each is not None else "not known" for each in (one, other)]
    if one is None or other is None or one <= 0:
        return told[0], told[1], ""
    return told[0], told[1], f"{100 * (other / one - 1):+.0f} %"


def text(found: Comparison, limit: float | None = None, width: int | None = None) -> str:
    """Return the comparison in a few lines; where the table would be too wide, its ranges stand below it."""
    verdict = found.verdict
    lines = [
        f"{verdict[:1].upper()}{verdict[1:]}.",
        "",
        f"  before  {found.names[0]}",
        f"  after   {found.names[1]}",
        "",
    ]
    table = _table(rows(found))
    if width is not None and max(map(len, table)) > width:
        name, before, after, change = next(rows(found))
        table = _table(tuple(cell.partition(" (")[0] for cell in row) for row in rows(found))
        table += ["", f"  {name}  {before} before, {after} after: {change}"]
    lines += [*table, ""]
    for word, rules in (("gone", found.gone), ("new", found.new), ("in both", found.kept)):
        lines.append(f"  {word:8} {', '.join(rules) or 'none'}")
    lines.append("")
    lines += [f"  disturbed {each}" for each in found.disturbed]
    lines += [f"  not the same: {each}" for each in (*found.obstacles, *found.notes)]
    lines.append(f"  measured: {found.how}")
    if limit is not None:
        lines += ["", gate(found, limit)]
    return "\n".join(harmless(line) for line in lines)


def _table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    table = [("", "before", "after", "change"), *rows]
    widths = [max(len(row[column]) for row in table) for column in range(4)]
    lines = []
    for name, *cells in table:
        line = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        lines.append(f"  {name:{widths[0]}}  {line}".rstrip())
    return lines


def data(found: Comparison, limit: float | None = None) -> dict[str, Any]:
    """Return it as plain data; times in milliseconds, sizes in bytes, null for what is not known."""
    steps = [interval_of(report.run.get("step_ms")) for report in (found.before, found.after)]
    return {
        "schema": SCHEMA,
        "before": found.names[0],
        "after": found.names[1],
        "verdict": found.verdict,
        "step_ms": {"before": _plain(steps[0]), "after": _plain(steps[1])},
        "slowdown": _plain(found.slowdown),
        "how": found.how,
        "breakdown": [_change(each) for each in found.parts],
        "training_s": _change(found.whole),
        "memory_bytes": [_change(each) for each in found.memory],
        "findings": {"gone": list(found.gone), "new": list(found.new), "kept": list(found.kept)},
        "comparable": not found.obstacles,
        "not_the_same": [*found.obstacles, *found.notes],
        "disturbed": list(found.disturbed),
        "limit": limit,
        "failed": found.slower_than(limit) if limit is not None else None,
    }


def dumps(found: Comparison, limit: float | None = None) -> str:
    """Return it as JSON text."""
    return json.dumps(data(found, limit), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _plain(interval: Interval | None) -> dict[str, float | None] | None:
    if interval is None:
        return None
    return {"low": interval.low, "mid": interval.mid, "high": interval.high if math.isfinite(interval.high) else None}


def _change(change: Change) -> dict[str, Any]:
    return {"name": change.name, "before": change.before, "after": change.after}
