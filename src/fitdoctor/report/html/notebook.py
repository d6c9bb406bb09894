"""A report as a notebook shows it: short, without scripts, and without a word that could reach beyond its own box."""

from __future__ import annotations

from markupsafe import Markup

from fitdoctor.model import Report
from fitdoctor.report.html import sections, text


def fragment(report: Report) -> str:
    """Return a piece of HTML to embed; all its styles are for its own class alone."""
    bar, parts = sections.step_parts(report)
    found, most = sections.findings(report, None)
    return text.environment().get_template("notebook.html").render(
        style=Markup(text.asset("notebook.css")),  # noqa: S704 - our own file
        report=report,
        figures=list(sections.figures(report)),
        bar=bar,
        parts=parts,
        findings=found,
        most=most,
        bound=sections.bound(report),
        unknown=sections.unknown(report),
    )  # fmt: skip
