"""The report as one HTML file: it opens from disk, asks nobody for anything, and reads on a phone and on paper."""

from __future__ import annotations

from typing import Any

from fitdoctor import units
from fitdoctor._version import __version__
from fitdoctor.facts.timeline import Timeline
from fitdoctor.model import Report
from fitdoctor.report.html import pipeline_view, sections, text, timeline_view
from fitdoctor.report.terminal import interval_of

STYLES = ("uplot/uPlot.min.css", "look.css", "page.css")
SCRIPTS = ("uplot/uPlot.iife.min.js", "page.js")
_NOT_SEEN = "Not seen: "


def page(report: Report, source_of: sections.SourceOf | None = None, timeline: Timeline | None = None) -> str:
    """Return the whole page; `source_of` gives the lines of a site's file, `timeline` what happened when."""
    bar, parts = sections.step_parts(report)
    found, most = sections.findings(report, source_of)
    step = interval_of(report.run.get("step_ms"))
    layers = pipeline_view.layers(report.run)
    return text.rendered(
        "report.html",
        styles=STYLES,
        scripts=SCRIPTS,
        version=__version__,
        report=report,
        title=sections.title(report.run),
        stack=list(sections.stack(report.run)),
        figures=list(sections.figures(report)),
        step=units.duration_range(step.scale(1e-3)) if step is not None else "",
        bar=bar,
        parts=parts,
        roofline=sections.roofline(report.run),
        phases=sections.phases(report),
        capped=report.run.get("mode") == "capped",
        whole=bool(report.run.get("whole")),
        findings=found,
        most=units.percent(most),
        waterfall=sections.waterfall(report),
        bound=sections.bound(report),
        proofs=list(sections.proofs(report)),
        timeline=timeline_view.view(timeline) if timeline is not None and timeline.seconds > 0 else None,
        input=_input(report, source_of),
        layers=layers[: pipeline_view.LAYERS_AT_ONCE],
        more_layers=layers[pipeline_view.LAYERS_AT_ONCE :],
        layers_note=pipeline_view.layers_note(report.run),
        where=sections.where,
        unknown=sections.unknown(report),
        notes=[each for each in report.notes if not each.startswith(_NOT_SEEN)],
        not_seen=[each for each in report.notes if each.startswith(_NOT_SEEN)],
        about=list(sections.about(report.run)),
        data=text.data(_data(report, timeline)),
    )


def _input(report: Report, source_of: sections.SourceOf | None) -> dict[str, Any] | None:
    found = report.input
    if found is None:
        return None
    return {
        "waits": found.get("waits"),
        "bound": found.get("bound"),
        "nodes": pipeline_view.nodes(found, source_of),
        "training": pipeline_view.training_node(found),
        "loader": list(pipeline_view.loader(found)),
        "functions": pipeline_view.functions(found),
        "autotune": found.get("autotune") or (),
        "unknown": found.get("unknown") or (),
    }


def _data(report: Report, timeline: Timeline | None) -> dict[str, Any]:
    copies = {
        f"diff-{place}": finding.fix.diff[: text.LONGEST_COPY]
        for place, finding in enumerate(report.findings)
        if finding.fix is not None and finding.fix.diff
    }
    copies["next"] = report.next_command[: text.LONGEST_COPY]
    drawn = timeline is not None and timeline.seconds > 0
    return {"copies": copies, "timeline": timeline_view.packed(timeline) if timeline is not None and drawn else None}
