"""The stages, composed: the only module that knows their order."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fitdoctor.errors import CaptureError
from fitdoctor.model import Capture, Proof, Report, Site

if TYPE_CHECKING:
    from fitdoctor.capture.launch import Options
    from fitdoctor.facts.input_view import InputView
    from fitdoctor.facts.timeline import Timeline
    from fitdoctor.fixes.plan import Plan, Wanted
    from fitdoctor.probes.install import ImportWatch, Patches
    from fitdoctor.proof.compare import Comparison
    from fitdoctor.proof.kept import Outcome
    from fitdoctor.tune.tune import Tuned
    from fitdoctor.tune.tune import Wanted as Tuning

SourceOf = Callable[[Site], "list[str] | None"]


def observe_child(boot: str) -> None:
    """Probes → capture → lab, inside a process made by `fitdoctor run`."""
    from fitdoctor.capture import child
    from fitdoctor.lab import bench

    child.start_child(boot, bench.run, _turn)


def _turn(settings: Mapping[str, Any], watch: ImportWatch, patches: Patches) -> None:
    from fitdoctor.tune import turning

    turning.install(settings, watch, patches)


def diagnose_file(path: str | os.PathLike[str]) -> Report:
    """Capture → facts → rules → findings → report, anywhere, later, without a framework."""
    return open_capture(path)[0]


def open_capture(path: str | os.PathLike[str]) -> tuple[Report, SourceOf]:
    """Do the same, and also give the user's source lines as they were when it ran."""
    from fitdoctor import diagnosis
    from fitdoctor.capture import store
    from fitdoctor.fixes import plan

    capture = store.read(path)
    return plan.with_diffs(diagnosis.diagnose(capture), capture), source_lines(capture)


def plan_fixes(path: str | os.PathLike[str], wanted: Wanted) -> Plan:
    """Capture → findings → fixes: what would be written for a recorded run."""
    from fitdoctor import diagnosis
    from fitdoctor.capture import store
    from fitdoctor.fixes import plan

    capture = store.read(path)
    return plan.make(diagnosis.diagnose(capture), capture, wanted)


def open_page(path: str | os.PathLike[str]) -> tuple[str, Report, SourceOf]:
    """Do the same, and also write the report as one HTML page, with what happened when."""
    from fitdoctor.capture import store
    from fitdoctor.report import html

    report, source_of, timeline = examined(store.read(path))
    return html.page(report, source_of, timeline), report, source_of


def examined(capture: Capture) -> tuple[Report, SourceOf, Timeline | None]:
    """Capture → facts → findings → fixes: all that a page of the run shows."""
    from fitdoctor import diagnosis
    from fitdoctor.errors import MissingEvidence
    from fitdoctor.facts import resolve
    from fitdoctor.facts.timeline import Timeline
    from fitdoctor.fixes import plan

    report = plan.with_diffs(diagnosis.diagnose(capture), capture)
    try:
        timeline: Timeline | None = resolve(capture).get(Timeline)
    except MissingEvidence:
        timeline = None
    return report, source_lines(capture), timeline


def open_report(path: str | os.PathLike[str]) -> Report:
    """Read a report from a capture, or from the JSON that `fitdoctor run --json` wrote."""
    import json
    from pathlib import Path

    from fitdoctor.errors import UsageError
    from fitdoctor.report.json import from_dict

    file = Path(path)
    try:
        with file.open("rb") as opened:
            is_json = opened.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
        if is_json:
            return from_dict(json.loads(file.read_text("utf-8-sig")))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UsageError(
            f"{file} begins as JSON does and is none: {error}",
            do="give a capture, or a report of `fitdoctor run --json`",
        ) from error
    except OSError:
        pass  # the reader of captures says what is wrong with the file
    return diagnose_file(file)


def compare_files(before: str, after: str, *, anyway: bool = False) -> Comparison:
    """Report → comparison: two recorded runs side by side."""
    from fitdoctor.proof.compare import compare

    return compare(open_report(before), open_report(after), (before, after), anyway=anyway)


def keep_summary(path: str | os.PathLike[str], report: Report) -> None:
    """Leave the answer in a few words in a capture that was just written, so that lists of many need not diagnose."""
    from fitdoctor.capture import store
    from fitdoctor.report import summary

    if not os.path.exists(path):
        return
    with contextlib.suppress(CaptureError, sqlite3.Error):  # a list works it out itself, then
        writer = store.Writer.reopen(path)
        try:
            writer.meta({summary.KEY: summary.of(report)})
        finally:
            writer.seal()


def open_input(path: str | os.PathLike[str]) -> tuple[InputView, SourceOf]:
    """Capture → facts: the input alone, with the user's source lines; raises MissingEvidence where none was seen."""
    from fitdoctor.capture import store
    from fitdoctor.facts import resolve
    from fitdoctor.facts.input_view import InputView

    capture = store.read(path)
    return resolve(capture).get(InputView), source_lines(capture)


def try_backends(options: Options, path: str | os.PathLike[str], progress: Callable[[str], None]) -> None:
    """Capture → facts, once more on every Keras backend: what the same script takes there is kept in its capture."""
    from fitdoctor import backends
    from fitdoctor.capture import store

    found = backends.compare(options, store.read(path), progress)
    writer = store.Writer.reopen(path)
    writer.meta({"backends": found})
    writer.seal()


def prove_scripts(
    before: str,
    after: str,
    *,
    args: tuple[str, ...] = (),
    steps: int | None = None,
    budget: float = 600.0,
    may_change: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> Proof:
    """Proof: run two versions of a script in turns, each time in a fresh process."""
    import functools

    from fitdoctor.capture.cap import DEFAULT_STEPS
    from fitdoctor.capture.launch import Options
    from fitdoctor.proof import runs
    from fitdoctor.proof.prove import prove

    # As many steps in both: what they have learnt by then can be compared.
    options = [Options(target=each, args=args, steps=steps or DEFAULT_STEPS) for each in (before, after)]
    patience = runs.Patience()
    versions = [functools.partial(runs.once, each, patience=patience) for each in options]
    watched = DEFAULT_STEPS if steps is None else None
    return prove(*versions, seconds=budget, may_change=may_change, watched=watched, tell=tell)


def source_lines(capture: Capture) -> SourceOf:
    """Return a look-up of the lines of a site's file."""
    texts = {source.path: source.text for source in capture.sources}

    def lines(site: Site) -> list[str] | None:
        text = texts.get(site.path)
        # Not splitlines(): Python counts lines by newlines alone, not by form feeds and the like.
        return None if text is None else text.replace("\r\n", "\n").replace("\r", "\n").split("\n")

    return lines


def prove_fixes(
    path: str | os.PathLike[str],
    wanted: Wanted,
    *,
    steps: int | None = None,
    budget: float = 600.0,
    one_by_one: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> tuple[Plan, Outcome | None]:
    """Capture → findings → fixes → proof: run the script with its fixes, none written, in turns with it as it is.

    Return what would be written of what was asked for, and what the proof says; None where there is nothing to prove.
    """
    from dataclasses import replace

    from fitdoctor import diagnosis
    from fitdoctor.capture import store
    from fitdoctor.errors import CannotFix
    from fitdoctor.fixes import plan
    from fitdoctor.proof import fixed
    from fitdoctor.proof.kept import Places, decide

    capture = store.read(path)
    report = diagnosis.diagnose(capture)
    whole = plan.make(report, capture, wanted)
    places = [item.place for item in whole.ready]
    if not places:
        return whole, None

    # What is not tried now stays what it is: a fix that stood back for another one does not take its place unasked.
    others = {item.place: item for item in whole.items if item.state != "ready"}

    def only(chosen: Places) -> Plan:
        refused = frozenset(item.place for item in whole.items) - chosen
        made = plan.make(report, capture, replace(wanted, refused=wanted.refused | refused))
        lost = next((item for item in made.items if item.place in chosen and item.state != "ready"), None)
        if lost is not None:
            raise CannotFix(f"{lost.rule} was ready, and is not any more: {lost.why}", do="nothing was written")
        return replace(made, items=tuple(others.get(item.place, item) for item in made.items))

    def proved(chosen: Places, seconds: float) -> Proof:
        return fixed.prove_plan(only(chosen), capture, steps=steps, seconds=seconds, tell=tell)

    outcome = decide(places, proved, seconds=budget, one_by_one=one_by_one)
    return only(outcome.kept.places if outcome.kept is not None else frozenset()), outcome


def tune_script(
    wanted: Tuning,
    *,
    on: str = "local",
    address: str | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Tuned:
    """Search → proof: run a script with other settings than its own, and prove the best of them."""
    from fitdoctor.tune import executor, tune
    from fitdoctor.tune.on_ray import Cluster

    made: executor.Executor = Cluster(address, tell) if on == "ray" else executor.Local()
    try:
        return tune.tune(wanted, made, tell=tell)
    finally:
        made.close()
