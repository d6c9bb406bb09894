"""The pages: all projects, one project, one run, one run under way."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fitdoctor import units
from fitdoctor.facts.timeline import Timeline
from fitdoctor.model import Interval, Report
from fitdoctor.serve import chart
from fitdoctor.serve.diagnoses import SourceOf
from fitdoctor.serve.history import Project, Shift
from fitdoctor.serve.markup import Child, Html, el
from fitdoctor.serve.shelf import Entry

RUNS_AT_ONCE = 8
"""Runs of a project that the first page shows."""
REGRESSIONS_AT_ONCE = 3
STATES = {
    "running": "in progress",
    "silent": "no sign of life",
    "capped": "stopped as planned",
    "finished": "ran to its end",
    "exception": "ended by an error",
    "signal": "was killed",
}


@dataclass(frozen=True)
class Address:
    """Where the pages live: every link starts with the token."""

    base: str
    folder: str

    def run(self, entry: Entry) -> str:
        """Return the address of a run's page."""
        return f"{self.base}/run/{entry.id}"

    def project(self, project: Project) -> str:
        """Return the address of a project's page."""
        return f"{self.base}/project/{project.id}"


def page(at: Address, title: str, *body: Child, live: str | None = None) -> str:
    """Return a whole page; `live` names the data that the script asks for now and then."""
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{title} · fitdoctor"),
        el("link", rel="icon", href="data:,"),
        *(el("link", rel="stylesheet", href=f"{at.base}/{name}") for name in ("look.css", "serve.css")),
        el("script", src=f"{at.base}/serve.js", defer=""),
    )
    skip = el("a", "Skip to the runs", href="#main", class_="skip")
    home = el("strong", el("a", "fitdoctor", href=f"{at.base}/", class_="home"))
    top = el("header", el("p", home, " ", el("span", at.folder), class_="kicker"), el("h1", title), class_="top")
    main = el("main", *body, id="main", tabindex="-1", data_live=live)
    return f"<!doctype html>\n{el('html', head, el('body', skip, top, main), lang='en')}\n"


def index(at: Address, projects: Sequence[Project], broken: Sequence[Entry], now: float, stamp: str) -> str:
    """Return the page of all projects."""
    running = [run for project in projects for run in project.runs if run.state(now) == "running"]
    body: list[Child] = [_live_card(at, run) for run in running]
    for project in projects:
        body.append(_project(at, project, now, RUNS_AT_ONCE))
    if not projects:
        body.append(
            el(
                "section",
                el("h2", "No runs yet"),
                el("p", "Captures show up here as soon as there are some: ", el("code", "fitdoctor run train.py")),
            )
        )
    if broken:
        items = [el("li", el("b", each.name), " ", each.problem) for each in broken]
        body.append(el("section", el("h2", "Could not be read"), el("ul", *items), class_="broken"))
    changed = el("span", stamp, id="stamp", hidden="")
    return page(at, "Runs", *body, changed, live=f"{at.base}/live.json")


def one_project(at: Address, project: Project, now: float) -> str:
    """Return the page of one project with all its runs."""
    count = len(project.runs)
    title = el("h2", "1 run" if count == 1 else f"All {count} runs", " ", el("small", project.folder))
    return page(at, project.title, _project(at, project, now, count, title))


def _project(at: Address, project: Project, now: float, most: int, title: Html | None = None) -> Html:
    rows = [_row(at, run, project.shifts.get(run.id), now) for run in project.runs[:most]]
    names = ("run", "one step", "against the run before", "most to gain", "with", "took")
    table = el(
        "table",
        el("thead", el("tr", *(el("th", name, scope="col") for name in names))),
        el("tbody", *rows),
    )
    count = len(project.runs)
    more = el("p", el("a", f"all {count} runs", href=at.project(project)), class_="more") if count > most else None
    link = el("a", project.title, href=at.project(project))
    return el(
        "section",
        title or el("h2", link, " ", el("small", project.folder)),
        *_regressions(at, project, now),
        chart.history(project, at.run),
        table,
        more,
        class_="project",
    )


def _regressions(at: Address, project: Project, now: float) -> Iterator[Html]:
    """Say in which runs the step became slower, the last times it did."""
    found = [(run, project.shifts[run.id]) for run in project.runs if run.id in project.shifts]
    for run, shift in [each for each in found if each[1].kind == "slower"][:REGRESSIONS_AT_ONCE]:
        when = el("a", moment(run.started, now), href=at.run(run))
        news = f", with {', '.join(shift.news)}" if shift.news else ""
        words = el("span", shift_words(shift), class_="shift slower")
        yield el("p", words, " in the run of ", when, news, class_="regression")


def _row(at: Address, run: Entry, shift: Shift | None, now: float) -> Html:
    state = run.state(now)
    when = el("a", moment(run.started, now), href=at.run(run))
    how = el("span", STATES.get(state, state), class_=f"state {state}")
    words = el("small", run.arguments) if run.arguments else None
    return el(
        "tr",
        el("td", when, how, words),
        el("td", *_step(run), data_name="one step"),
        el("td", *_shift(shift), data_name="against the run before", class_=None if shift else "none"),
        el("td", *_top(run, state), data_name="most to gain"),
        el("td", el("small", stack(run)), data_name="with"),
        el("td", units.duration(run.seconds) if run.seconds else "–", data_name="took", class_="number"),
    )


def _step(run: Entry) -> list[Child]:
    step = run.step
    if step is None:
        return ["–"]
    low, high = units.duration(step.low), units.duration(step.high)
    if low.split()[1:] == high.split()[1:]:
        low = low.split()[0]
    between = f"{low} to {high}"
    parts = breakdown_of(run)
    drawn = chart.bar(parts)
    return [el("b", units.duration(step.mid)), " ", el("small", between), drawn, _largest(parts) if drawn else None]


def _largest(parts: Mapping[str, float]) -> Html:
    """Name the part that stands out in the bar."""
    name = max(parts, key=lambda part: parts[part])
    return el("small", f"{name} {units.percent(parts[name] / sum(parts.values()))}")


def breakdown_of(run: Entry) -> dict[str, float]:
    """Return where the time of a step goes, as far as it is told in numbers."""
    found = (run.summary or {}).get("breakdown")
    parts = found if isinstance(found, dict) else {}
    return {name: ms for name, ms in parts.items() if isinstance(ms, (int, float))}


def _shift(shift: Shift | None) -> list[Child]:
    if shift is None:
        return ["–"]
    news = el("small", "; ".join(shift.news)) if shift.news else None
    if shift.kind == "same":
        return [el("span", "no change that shows", class_="quiet"), news]
    return [el("span", shift_words(shift), class_=f"shift {shift.kind}"), news]


def shift_words(shift: Shift) -> str:
    """Say by how much the step became slower or faster."""
    more = [value - 1 for value in (shift.ratio.low, shift.ratio.mid, shift.ratio.high)]
    sign = "▲" if shift.kind == "slower" else "▼"
    return f"{sign} {units.percent_range(Interval(*sorted(map(abs, more))))} {shift.kind}"


def _top(run: Entry, state: str) -> list[Child]:
    summary = run.summary
    if summary is None:
        return [el("span", "still watched" if state == "running" else "not diagnosed yet", class_="quiet")]
    top = summary.get("top")
    if not top:
        return [el("span", str(summary.get("headline") or ""), class_="quiet")]
    saving = Interval(*(top["saving"][name] for name in ("low", "mid", "high")))
    others = int(summary.get("findings") or 1) - 1
    also = f" and {others} more" if others > 0 else ""
    return [el("b", str(top["rule"])), el("small", f" saves {units.percent_range(saving)}{also}")]


def stack(run: Entry) -> str:
    """Name the versions that matter most."""
    found = run.meta.get("versions")
    versions = found if isinstance(found, dict) else {}
    backend = str((run.summary or {}).get("backend") or run.meta.get("backend") or "")
    names = ["keras", *(name for name in (backend, f"{backend}-cpu") if backend)]
    words = [f"{name} {versions[name]}" for name in names if name in versions]
    return " · ".join(words if len(words) > 1 or not backend else [*words, backend])


def moment(at: float, now: float) -> str:
    """Say when something was: the time today, the date before."""
    then, today = time.localtime(at), time.localtime(now)
    if then[:3] == today[:3]:
        return time.strftime("%H:%M:%S", then)
    return time.strftime("%d %b %H:%M" if then[0] == today[0] else "%d %b %Y", then)


# --- a run under way ------------------------------------------------------------------------------------


def _live_card(at: Address, run: Entry, *, alone: bool = False) -> Html:
    """Return the place of a run under way; the script fills it in."""
    title = "In progress" if alone else el("a", run.title, href=at.run(run))
    words = run.arguments or ("" if alone else "in progress")
    return el(
        "section",
        el("h2", title, " ", el("small", words) if words else None),
        el("p", "waiting for the first steps", class_="now", role="status"),
        el("p", class_="headline"),
        el("div", class_="step"),
        el("ol", class_="found"),
        class_="running",
        data_run=run.id,
    )


def live_run(at: Address, run: Entry) -> str:
    """Return the page of a run under way."""
    words = "What is found firms up as more steps are seen; the report replaces this page at the end."
    card, note = _live_card(at, run, alone=True), el("p", words, class_="quiet note")
    return page(at, run.title, card, note, live=f"{at.base}/live.json?run={run.id}")


# --- a finished run -------------------------------------------------------------------------------------


def render(report: Report, source_of: SourceOf | None = None, timeline: Timeline | None = None) -> str:
    """Return the single-run report as a page of its own."""
    from fitdoctor.report import html as single

    return single.page(report, source_of, timeline)


def with_way_back(text: str, at: Address, run: Entry) -> str:
    """Put links to all runs and to this one as data in front of a page that knows nothing of this server."""
    links = [el("a", "← all runs", href=f"{at.base}/")]
    links += [
        el("a", words, href=f"{at.run(run)}/{name}", download="")
        for words, name in (("the report as JSON", "report.json"), ("the trace, for Perfetto", "trace.json"))
    ]
    dot = el("span", "·", class_="dot", aria_hidden="true")
    line = el("p", *[piece for link in links for piece in (" ", dot, " ", link)][3:], class_="kicker")
    # Inside of the page's own head where it has one: it brings its own looks, and lets no others in.
    place = re.search(r"<header\b[^>]*>", text) or re.search(r"<body\b[^>]*>", text)
    return text if place is None else text[: place.end()] + line + text[place.end() :]


def message(at: Address | None, title: str, text: str) -> str:
    """Return a page that says one thing."""
    if at is None:
        body = el("body", el("h1", title), el("p", text))
        return f"<!doctype html>\n{el('html', el('head', el('title', title)), body, lang='en')}\n"
    return page(at, title, el("p", text))
