"""Pictures as SVG: the bar of a step, and the step times of a project's runs with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fitdoctor import units
from fitdoctor.model import PARTS, Interval
from fitdoctor.report.html.drawing import segments
from fitdoctor.report.html.sections import looks
from fitdoctor.serve.history import Project
from fitdoctor.serve.markup import Html, el
from fitdoctor.serve.shelf import Entry

HEIGHT, MARGIN = 132.0, 10.0
BAR = 10.0
MOST_RUNS = 60
"""Runs that a picture of a history shows."""


def bar(breakdown: Mapping[str, float]) -> Html | None:
    """Draw where the time of a step goes, in the colours of the report: the largest part stands out."""
    order = [*PARTS, *(part for part in breakdown if part not in PARTS)]
    parts = {part: breakdown[part] for part in order if breakdown.get(part, 0.0) > 0}
    total = sum(parts.values())
    if total <= 0:
        return None
    pieces = [
        el(
            "rect", el("title", f"{each.name} {units.percent(each.width / 100)}"),
            x=f"{each.x}%", width=f"{each.width}%", height="100%", class_=each.look,
        )
        for each in segments(parts, looks(parts))
    ]  # fmt: skip
    said = ", ".join(f"{part} {units.percent(ms / total)}" for part, ms in parts.items() if ms / total >= 0.01)
    return el("svg", *pieces, width="100%", height=BAR, class_="bar", role="img", aria_label=f"one step: {said}")


def history(project: Project, link: Callable[[Entry], str]) -> Html | None:
    """Draw the step time of the runs, the oldest on the left, each with its interval and a link to its page."""
    known = [(run, run.step) for run in project.runs[:MOST_RUNS] if run.step is not None][::-1]
    if len(known) < 2:
        return None
    most = _ceiling([step for _, step in known])
    across = 100 / len(known)

    def height(seconds: float) -> float:
        return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * min(seconds / most, 1.0)

    pieces: list[Html] = [
        el("line", x1="0", y1=height(0), x2="100%", y2=height(0), class_="axis"),
        el("line", x1="0", y1=height(most), x2="100%", y2=height(most), class_="grid"),
    ]
    for place, (run, step) in enumerate(known):
        x = f"{across * (place + 0.5):.3f}%"
        kind = project.shifts[run.id].kind if run.id in project.shifts else "same"
        words = f"{units.duration_range(step)}{'' if kind == 'same' else ', ' + kind}"
        pieces.append(
            el(
                "a",
                el("title", words),
                el("rect", x=f"{across * place:.3f}%", y=0.0, width=f"{across:.3f}%", height=HEIGHT, class_="hit"),
                el("line", x1=x, y1=height(step.low), x2=x, y2=height(step.high), class_=f"range {kind}"),
                el("circle", cx=x, cy=height(step.mid), r=4.0, class_=f"dot {kind}"),
                href=link(run),
                aria_label=f"run {place + 1} of {len(known)}: {words}",
            )
        )
    picture = el("svg", *pieces, class_="history", role="group", aria_label=f"step time of {len(known)} runs")
    scale = el("div", el("span", units.duration(most)), el("span", "0"), class_="scale", aria_hidden="true")
    return el("figure", el("div", scale, picture), el("figcaption", "step time of each run, oldest to newest"))


def _ceiling(steps: Sequence[Interval]) -> float:
    """Choose the top of the scale: one wild run must not flatten all others."""
    middle = sorted(step.mid for step in steps)[len(steps) // 2]
    highest = max(step.high for step in steps) * 1.05
    return min(highest, 6 * middle) if middle > 0 else max(highest, 1e-9)
