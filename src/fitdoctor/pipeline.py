"""The stages, composed: the only module that knows their order."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING

from fitdoctor.errors import CaptureError
from fitdoctor.model import Capture, Proof, Report, Site

if TYPE_CHECKING:
    from fitdoctor.capture.launch import Options
    from fitdoctor.facts.input_view import InputView

SourceOf = Callable[[Site], "list[str] | None"]


def observe_child(boot: str) -> None:
    """Probes → capture → lab, inside a process made by `fitdoctor run`."""
    from fitdoctor.capture import child
    from fitdoctor.lab import bench

    child.start_child(boot, bench.run)


def diagnose_file(path: str | os.PathLike[str]) -> Report:
    """Capture → facts → rules → findings → report, anywhere, later, without a framework."""
    return open_capture(path)[0]


def open_capture(path: str | os.PathLike[str]) -> tuple[Report, SourceOf]:
    """Do the same, and also give the user's source lines as they were when it ran."""
    from fitdoctor import diagnosis
    from fitdoctor.capture import store

    capture = store.read(path)
    return diagnosis.diagnose(capture), source_lines(capture)


def keep_summary(path: str | os.PathLike[str], report: Report) -> None:
    """Leave the answer in a few words in a capture that was just written, so that lists of many need not diagnose."""
    from fitdoctor.capture import store
    from fitdoctor.report import summary

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
    versions = [functools.partial(runs.once, each) for each in options]
    return prove(*versions, seconds=budget, may_change=may_change, tell=tell)


def source_lines(capture: Capture) -> SourceOf:
    """Return a look-up of the lines of a site's file."""
    texts = {source.path: source.text for source in capture.sources}

    def lines(site: Site) -> list[str] | None:
        text = texts.get(site.path)
        # Not splitlines(): Python counts lines by newlines alone, not by form feeds and the like.
        return None if text is None else text.replace("\r\n", "\n").replace("\r", "\n").split("\n")

    return lines
