"""The report as a person reads it in a terminal.

Top to bottom: what it is, in one sentence; where a step's time goes; where the run's time went; what to fix,
each with what it would save and the line to edit; how far it could get; what was suspected, what could not
be judged, what is fine; what the tool says of its own measurement; and, last line, the command to type next.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from rich.cells import chop_cells
from rich.console import Console

from fitdoctor import units
from fitdoctor.model import PARTS, PHASES, Finding, Fix, Interval, Report, Site
from fitdoctor.report.page import Page, Piece

SourceOf = Callable[[Site], "list[str] | None"]

_LOOKS = {  # part: colour, drawing character, ASCII stand-in
    "input": ("blue", "█", "#"),
    "transfer": ("cyan", "▚", "%"),
    "compute": ("green", "▓", "="),
    "host": ("yellow", "▒", "+"),
    "callbacks": ("magenta", "▞", "*"),
    "sync": ("red", "░", "~"),
    "validation": ("bright_blue", "▤", "v"),
    "other": ("bright_black", "·", "."),
}
_SAFETY = {
    "same": ("same results", "green"),
    "may change": ("may change results", "yellow"),
    "manual": ("by hand", "yellow"),
}
BOUNDS = {
    "other": "the loop's own Python",
    "between epochs": "the time between epochs",
    "pause": "pauses between some epochs",
    "first epoch": "what only the first epoch took",
    "calls": "the fixed cost of each call",
    "between calls": "the code between the calls",
    "other calls": "the script's other calls",
}
_BOTH = 64
"""Columns that a terminal needs to show two numbers beside each other for every phase."""
_NAME_MOST = 48
_FRAME_AROUND = 2
_FRAME_LEAST = 4
_FRAME_MOST = 9
_DIFF_MOST = 40


def render(report: Report, console: Console, source_of: SourceOf | None = None) -> None:
    """Print the report; `source_of` gives all lines of a site's file, or None where they are not known."""
    page = Page(console)
    _title(page, report)
    _step(page, report)
    _phases(page, report)
    if report.findings:
        _findings(page, report.findings, source_of)
    _ceiling(page, report)
    _suspicions(page, report)
    _unknown(page, report)
    _rest(page, report)
    _measurement(page, report)
    if report.next_command:
        page.heading("Type next")
        page.line("  ", (report.next_command, "bold cyan"))


def _title(page: Page, report: Report) -> None:
    dot = f" {page.glyph('·', '-')} "
    known = [word for word in (_subject(report.run), *_stack(report.run)) if word]
    words = dot.join(["fitdoctor", *(page.fit(word, _NAME_MOST) for word in known)])
    page.paragraph((words, "dim"))
    page.blank()
    page.paragraph((report.headline, "bold"))


def _subject(run: Mapping[str, Any]) -> str:
    script = run.get("script")
    if script:
        return PurePath(str(script)).name
    command = run.get("command")
    if isinstance(command, str):
        return command
    words = [str(word) for word in command or ()]
    return " ".join(words)


def _stack(run: Mapping[str, Any]) -> list[str]:
    versions = run.get("versions") or {}
    words = [f"keras {versions['keras']}"] if "keras" in versions else []
    backend = run.get("backend")
    if backend:
        version = versions.get(backend) or versions.get(f"{backend}-cpu")
        words.append(f"{backend} {version}" if version else str(backend))
    return words


def interval_of(value: Any) -> Interval | None:
    """Read an interval that is one, or the mapping it became in JSON."""
    if isinstance(value, Interval):
        return value
    if isinstance(value, Mapping):
        return Interval(value["low"], value["mid"], float("inf") if value["high"] is None else value["high"])
    return None


# --- where the time goes ------------------------------------------------------------------------------


def _step(page: Page, report: Report) -> None:
    total = sum(report.breakdown.values())
    step = interval_of(report.run.get("step_ms"))
    if total <= 0 or step is None:
        return
    steps = report.run.get("steps")
    over = f", over {steps:,} steps" if isinstance(steps, int) else ""
    page.heading("One step", f"  {units.duration_range(step.scale(1e-3))}{over}")
    order = [*PARTS, *(part for part in report.breakdown if part not in PARTS)]
    parts = [(part, report.breakdown[part]) for part in order if report.breakdown.get(part, 0) > 0]
    page.line("  ", *_bar(page, parts, page.width - 4))
    rows: list[Sequence[Piece]] = []
    for part, ms in parts:
        mark, style = _look(page, part)
        rows.append(((mark, style), part, units.duration(ms / 1e3), _share(ms / total)))
    page.table(rows, right=lambda column: column >= 2)
    _roofline(page, report.run.get("roofline"))


def _roofline(page: Page, found: Mapping[str, Any] | None) -> None:
    """Say how near the work of a step comes to what the machine can do."""
    rate, share = (interval_of((found or {}).get(name)) for name in ("flops_per_s", "arithmetic"))
    memory = interval_of((found or {}).get("memory_at_least"))
    if rate is None or share is None or memory is None:
        return
    page.blank()
    page.paragraph(
        f"  Its work does {units.per_second(rate, 'FLOP')}: {units.percent_range(share)} of what large products reach "
        f"on this machine, and at least {units.percent_range(memory)} of its memory bandwidth."
    )


def _share(fraction: float) -> str:
    return units.percent(fraction) if fraction >= 0.0005 else f"<{units.percent(0.001)}"


def _look(page: Page, part: str) -> tuple[str, str]:
    colour, drawing, plain = _LOOKS.get(part, _LOOKS["other"])
    return page.glyph(drawing, plain), colour


def _bar(page: Page, parts: Sequence[tuple[str, float]], width: int) -> list[Piece]:
    cells = share_out([value for _, value in parts], width)
    bar: list[Piece] = []
    for (part, _), count in zip(parts, cells, strict=True):
        mark, style = _look(page, part)
        bar.append((mark * count, style))
    return bar


def share_out(values: Sequence[float], width: int) -> list[int]:
    """Divide a number of cells in proportion, by largest remainder, so that they add up exactly.

    >>> share_out([50, 30, 20], 5), share_out([1, 1, 1], 4)
    ([3, 1, 1], [2, 1, 1])
    """
    total = sum(values)
    exact = [value / total * width for value in values]
    cells = [int(value) for value in exact]
    by_remainder = sorted(range(len(values)), key=lambda i: (cells[i] - exact[i], i))
    for index in by_remainder[: width - sum(cells)]:
        cells[index] += 1
    return cells


def _phases(page: Page, report: Report) -> None:
    wall = sum(report.phases.values())
    if wall <= 0:
        return
    page.heading("The whole run", f"  {units.duration(wall)} from process start to end")
    capped = report.run.get("mode") == "capped"
    uncapped = {str(each["name"]): each for each in report.run.get("whole") or ()} if capped else {}
    _phase_table(page, {phase: seconds for phase, seconds in report.phases.items() if seconds > 0}, uncapped)
    whole, steps = report.run.get("projected_s"), report.run.get("planned_steps")
    if capped and isinstance(whole, int | float) and isinstance(steps, int | float):
        took, range_ = units.duration(whole), interval_of(report.run.get("whole_s"))
        if range_ is not None:
            took = units.duration_range(range_)
        page.paragraph(f"Uncapped, the training takes about {took} for {steps:,.0f} steps.", indent=2)


def _phase_table(page: Page, seen: Mapping[str, float], uncapped: Mapping[str, Mapping[str, Any]]) -> None:
    """Show where the time of this run went and, where it was stopped, where that of the whole training would go."""
    order = dict.fromkeys([*(phase for phase in PHASES if phase in seen or phase in uncapped), *seen, *uncapped])
    wall = sum(seen.values())
    both = bool(uncapped) and page.width >= _BOTH
    room = max(page.width - (64 if both else 44), 0)
    rows: list[Sequence[Piece]] = []
    if both:
        dim = [(word, "dim") for word in ("", "watched", "", "uncapped", "", "")]
        rows.append(dim)
    for phase in order:
        share = seen.get(phase, 0.0) / wall
        here: tuple[str, ...] = (units.duration(seen[phase]), _share(share)) if phase in seen else ("-", "")
        if both:
            there = uncapped.get(phase)
            share = there["share"]["mid"] if there else 0.0
            here += (units.duration(there["seconds"]["mid"]), _share(share)) if there else ("-", "")
        elif phase not in seen:
            continue
        rows.append((phase, *here, (page.glyph("▪", "-") * round(share * room), "dim")))
    page.table(rows, right=lambda column: 1 <= column <= (4 if both else 2))


# --- what to do about it ------------------------------------------------------------------------------


def _findings(page: Page, findings: Sequence[Finding], source_of: SourceOf | None) -> None:
    count = "1 cause" if len(findings) == 1 else f"{len(findings)} causes"
    page.heading("What slows it down", f"  {count}; savings are shares of the training time")
    for number, finding in enumerate(findings, 1):
        page.blank()
        _finding(page, number, finding, source_of)


def _finding(page: Page, number: int, finding: Finding, source_of: SourceOf | None) -> None:
    rule = page.fit(finding.rule, _NAME_MOST)
    saving = f"fixing it saves {units.percent_range(finding.cost.saving)}"
    label = f"{number}  "
    margin = len(label)
    family = f"  {finding.family}"
    gap = page.width - len(label + rule + family) - len(saving)
    title: list[Piece] = [(label, "bold"), (rule, "bold red"), (family, "dim")]
    if gap >= 2:
        page.line(*title, " " * gap, (saving, "bold green"))
    else:
        page.paragraph(*title, hang=margin)
        page.paragraph((saving, "bold green"), indent=margin)
    page.paragraph(finding.cost.because, indent=margin)
    if finding.site:
        frame(page, finding.site, source_of, margin)
    if finding.fix:
        _fix(page, finding.fix, margin)


def frame(page: Page, site: Site, source_of: SourceOf | None, margin: int) -> None:
    """Show a site: its place, and the lines around it where they are known."""
    page.blank()
    page.paragraph((_where(page, site), "cyan"), (inside(page, site), "dim"), indent=margin)
    lines = source_of(site) if source_of else None
    if lines and 1 <= site.line <= len(lines):
        code_frame(page, site, lines, margin)


def inside(page: Page, site: Site) -> str:
    """Name the function that a site stands in."""
    return f", in {page.fit(site.symbol, _NAME_MOST)}" if site.symbol else ""


def code_frame(page: Page, site: Site, lines: Sequence[str], margin: int) -> None:
    """Show the lines of a site, marked, and some around them."""
    last = min(max(site.end_line or site.line, site.line), site.line + _FRAME_MOST - 1 - _FRAME_AROUND)
    first_shown = max(site.line - _FRAME_AROUND, 1)
    while first_shown < site.line and not lines[first_shown - 1].strip():
        first_shown += 1
    last_shown = min(max(last + 1, first_shown + _FRAME_LEAST - 1), len(lines))
    while last_shown > last and not lines[last_shown - 1].strip():
        last_shown -= 1
    digits = len(str(last_shown))
    rail = page.glyph("│", "|")
    for number in range(first_shown, last_shown + 1):
        marked = site.line <= number <= last
        pointer = page.glyph("▸", ">") if marked else " "
        gutter = f"{' ' * (margin - 1)}{pointer} {number:>{digits}} {rail} "
        code = page.fit(lines[number - 1].rstrip(), page.width - len(gutter))
        page.line((gutter, "red" if marked else "dim"), (code, "bold" if marked else "dim"))


def _where(page: Page, site: Site) -> str:
    """Show a path below the working folder the way the user would type it."""
    path = site.path
    with contextlib.suppress(OSError):  # the working folder may be gone
        path = path.removeprefix(os.path.join(os.getcwd(), ""))
    return f"{page.tail(path, _NAME_MOST)}:{site.line}"


def _fix(page: Page, fix: Fix, margin: int) -> None:
    words, style = _SAFETY.get(fix.safety, (fix.safety, "yellow"))
    page.blank()
    page.paragraph(fix.title, "  ", (f"({words})", style), indent=margin, lead=("fix  ", "bold green"))
    if not fix.diff:
        return
    lines = fix.diff.rstrip("\n").split("\n")
    for text in lines[:_DIFF_MOST]:
        for piece in _diff_line(page, text.rstrip("\r"), page.width - margin - 5):
            page.line(" " * (margin + 5), (piece, _diff_style(text)))
    if len(lines) > _DIFF_MOST:
        page.line(" " * (margin + 5), (f"and {len(lines) - _DIFF_MOST} more lines", "dim"))


def _diff_line(page: Page, line: str, width: int) -> list[str]:
    """Break a line that changes where it is too long: what is new in it may stand at its end."""
    if _diff_style(line) not in ("green", "red"):
        return [page.fit(line, width)]
    text = page.clean(line)
    first, *rest = chop_cells(text, max(width, 20)) or [""]
    return [first, *(f"    {each}" for each in chop_cells("".join(rest), max(width - 4, 20)))] if rest else [first]


def _diff_style(line: str) -> str:
    if line.startswith(("---", "+++", "@@")):
        return "dim"
    return {"+": "green", "-": "red"}.get(line[:1], "")


def _ceiling(page: Page, report: Report) -> None:
    if report.ceiling is None:
        return
    speedup, bound = report.ceiling.speedup, BOUNDS.get(report.ceiling.bound, report.ceiling.bound)
    if report.findings:
        faster = units.times(speedup) if math.isfinite(speedup.high) else f"at least {speedup.low:.1f}×"
        page.heading("If all of this were fixed", f"  {faster} faster; what limits it then is {bound}")
    else:
        none = "No cause could be measured yet" if report.unknown else "Nothing worth fixing was measured"
        page.heading(none, f"  what limits the run is {bound}")


# --- what else was looked at ---------------------------------------------------------------------------


def _suspicions(page: Page, report: Report) -> None:
    if not report.suspicions:
        return
    page.heading("Suspected, without a measured cost")
    for suspicion in report.suspicions:
        title: list[Piece] = [(suspicion.rule, "yellow"), "  ", (_where(page, suspicion.site), "cyan")]
        page.paragraph(*title, "  ", suspicion.why, indent=2, hang=4)


def _unknown(page: Page, report: Report) -> None:
    if not report.unknown:
        return
    page.heading("Could not be judged")
    arrow = page.glyph("→", "->")
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for unknown in report.unknown:
        gap = unknown.gap
        grouped.setdefault((gap.what, gap.reason, gap.remedy), []).append(unknown.rule)
    for (what, reason, remedy), rules in grouped.items():
        page.paragraph(*_listed(rules, "yellow"), f"  {what}: {reason}", indent=2, hang=4)
        if remedy:
            page.paragraph(remedy, indent=4, lead=(f"{arrow} ", "dim"))


def _rest(page: Page, report: Report) -> None:
    if report.passed or report.not_applicable:
        page.blank()
    if report.passed:
        page.entry("Fine", *_listed((passed.rule for passed in report.passed), "green"), style="bold")
    if report.not_applicable:
        page.entry("Not applicable", *_listed((other.rule for other in report.not_applicable), "dim"), style="bold")


def _listed(names: Iterable[str], style: str) -> list[Piece]:
    """Return names one by one, each once: a single string of them all could be longer than any is shown."""
    *before, last = dict.fromkeys(names)
    return [*((f"{name}, ", style) for name in before), (last, style)]


def _measurement(page: Page, report: Report) -> None:
    if not report.notes:
        return
    page.heading("About this measurement")
    for note in report.notes:
        page.paragraph(note, indent=2, lead=(f"{page.glyph('·', '-')} ", "dim"))
