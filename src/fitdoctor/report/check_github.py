"""Suspicions as workflow commands of GitHub Actions: notices beside the lines of a pull request."""

from __future__ import annotations

from fitdoctor.model import Checked, Spot, Unchecked
from fitdoctor.report.check_text import summary


def dumps(checked: Checked) -> str:
    """Return one command per line, and last a line for the log."""
    lines = [*map(_problem, checked.unchecked), *map(_spot, checked.spots), _data(summary(checked))]
    return "\n".join(lines) + "\n"


def _spot(spot: Spot) -> str:
    suspicion = spot.suspicion
    site = suspicion.site
    place = {"file": site.path}
    said = suspicion.why
    if spot.cell is None:
        place.update(line=str(site.line), endLine=str(max(site.end_line or site.line, site.line)))
    else:
        said = f"cell {spot.cell}, line {site.line}: {said}"
    place["title"] = f"fitdoctor suspicion: {suspicion.rule}"
    return _command("notice", place, f"{said}. To know whether it does: {spot.tell}")


def _problem(problem: Unchecked) -> str:
    place = {"file": problem.path, "title": "fitdoctor could not check this"}
    if problem.line and problem.cell is None:
        place["line"] = str(problem.line)
    return _command("error", place, str(problem))


def _command(kind: str, place: dict[str, str], message: str) -> str:
    properties = ",".join(f"{name}={_property(value)}" for name, value in place.items())
    return f"::{kind} {properties}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
