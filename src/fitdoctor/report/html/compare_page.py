"""Two runs side by side, as one HTML file."""

from __future__ import annotations

import math
from typing import Any

from fitdoctor import units
from fitdoctor._version import __version__
from fitdoctor.model import PARTS, Report
from fitdoctor.proof.compare import Comparison
from fitdoctor.report import comparison
from fitdoctor.report.html import sections, text
from fitdoctor.report.html.drawing import Segment
from fitdoctor.report.terminal import interval_of

_LEAST = math.log(1.5)
"""The scale of a slowdown reaches at least so far."""


def page(found: Comparison, limit: float | None = None) -> str:
    """Return the whole page."""
    most = max(sum(each.breakdown.values()) for each in (found.before, found.after)) or 1.0
    values = {each.name: max(each.before or 0.0, each.after or 0.0) for each in found.parts}
    looks = sections.looks(values)
    return text.rendered(
        "compare.html",
        styles=("look.css", "page.css"),
        scripts=("page.js",),
        version=__version__,
        found=found,
        title=f"{sections.title(found.before.run)}: two runs",
        verdict=f"{found.verdict[:1].upper()}{found.verdict[1:]}.",
        bars=[
            (word, name, _step(report), _bar(report, looks, most))
            for word, name, report in zip(("before", "after"), found.names, (found.before, found.after), strict=True)
        ],
        looks=looks,
        rows=list(comparison.rows(found)),
        scale=_scale(found, limit),
        gate=comparison.gate(found, limit) if limit is not None else "",
        rules=(("gone", found.gone), ("new", found.new), ("in both", found.kept)),
        data=text.data({"copies": {}, "timeline": None}),
    )


def _step(report: Report) -> str:
    step = interval_of(report.run.get("step_ms"))
    return units.duration_range(step.scale(1e-3)) if step is not None else ""


def _bar(report: Report, looks: dict[str, str], most: float) -> list[Segment]:
    """Draw a step on the scale of the longer one of both."""
    x, found = 0.0, []
    for part in [*PARTS, *(each for each in report.breakdown if each not in PARTS)]:
        width = 100 * report.breakdown.get(part, 0.0) / most
        if width > 0:
            found.append(Segment(part, round(x, 3), round(width, 3), looks.get(part, "grey0")))
            x += width
    return found


def _scale(found: Comparison, limit: float | None) -> dict[str, Any]:
    """Place the slowdown on a scale on which half and twice as long are equally far from the middle."""
    ratio = found.slowdown
    ends = [each for each in (ratio.low, ratio.mid, ratio.high) if 0 < each < math.inf]
    reach = max(_LEAST, *(abs(math.log(each)) for each in ends)) * 1.1

    def at(value: float) -> float:
        place = math.log(value) / reach if 0 < value < math.inf else 1.0 if value > 1 else -1.0
        return round(min(100.0, max(0.0, 50 + 50 * place)), 2)

    return {
        "low": at(ratio.low), "width": round(max(0.3, at(ratio.high) - at(ratio.low)), 2), "mid": at(ratio.mid),
        "limit": at(1 + limit) if limit is not None else None,
        "ends": (f"{math.exp(-reach):.2g}×", "1×", f"{math.exp(reach):.2g}×"),
    }  # fmt: skip
