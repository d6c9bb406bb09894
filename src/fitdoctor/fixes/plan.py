"""From findings to what would be written: each fix alone as a diff, and all that are wanted together as files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fitdoctor.fixes import guard, render
from fitdoctor.fixes.document import CannotEdit, Document, opened
from fitdoctor.model import Capture, Finding, Fix, Report, Source

State = Literal["ready", "by hand", "not asked for", "refused"]
BY_HAND = "no edit of the source is sure to be the right one"
OVERLAID = "`fitdoctor run --whole --with-fixes` trains with it, and changes no file"
OPTIMIZED = "`fitdoctor.optimize(data).dataset`, given to fit, tries it on the data itself while the script runs"


@dataclass(frozen=True, slots=True)
class Item:
    """One finding and what becomes of it."""

    finding: Finding
    fix: Fix
    """With its diff, made alone."""
    state: State
    why: str = ""
    """Why it is not written."""
    otherwise: str = ""
    """How to have it without an edit of the source, where that is possible."""
    place: int = 0
    """In the report's list of findings."""

    @property
    def rule(self) -> str:
        """The name of its rule."""
        return self.finding.rule


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file as it is and as it would be."""

    path: str
    """Where it really lies: the target of a link."""
    before: bytes
    after: bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """What `fitdoctor fix` would do."""

    items: tuple[Item, ...]
    files: tuple[FileChange, ...]
    """What the items that are ready make of the files, together."""
    script: str
    capture: str

    @property
    def ready(self) -> tuple[Item, ...]:
        """The items that would be written."""
        return tuple(each for each in self.items if each.state == "ready")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user asks for."""

    unsafe: bool = False
    """Also what may change results."""
    only: frozenset[str] = frozenset()
    """Names of rules; none: all."""
    project: str | None = None
    """The folder below which files may be changed; None: the script's own project."""
    refused: frozenset[int] = frozenset()
    """Places in the report's list of findings that the user said no to."""
    written: bool = True
    """Whether the files are to be changed; False: they are only run as they would be."""


def with_diffs(report: Report, capture: Capture) -> Report:
    """Fill in the diff of every fix whose edits are sure."""
    if not any(each.fix is not None and each.fix.edits for each in report.findings):
        return report
    originals = sources_of(capture)
    base = capture.meta.get("cwd")
    findings, notes = [], list(report.notes)
    for finding in report.findings:
        try:
            diff, _ = alone(finding, originals, base)
        except Exception as error:  # the diagnosis is worth having without it
            diff = None
            notes.append(f"the edit for {finding.rule} could not be made: {type(error).__name__}: {error}")
        fix = replace(finding.fix, diff=diff) if finding.fix is not None else None
        findings.append(replace(finding, fix=fix))
    return replace(report, findings=tuple(findings), notes=tuple(notes))


def sources_of(capture: Capture) -> dict[str, bytes]:
    """Return the user's files as they were when they ran, as far as the capture holds them."""
    return {each.path: data for each in capture.sources if (data := _bytes(each)) is not None}


def _bytes(source: Source) -> bytes | None:
    if source.text is None:
        return None
    data = source.text.encode("utf-8", "surrogateescape")
    return data if hashlib.sha256(data).hexdigest() == source.sha256 else None


def alone(finding: Finding, originals: Mapping[str, bytes], base: str | None) -> tuple[str | None, str]:
    """Return the diff of one fix by itself, and why there is none."""
    if finding.fix is None or not finding.fix.edits:
        return None, _unreadable(finding, originals, base) or BY_HAND
    try:
        before = _opened(finding.fix, originals, base)
        after = render.edited(before, finding.fix.edits)
    except CannotEdit as error:
        return None, str(error)
    diffs = [
        render.diff(originals[path], after[path].data, label(path, base))
        for path in before
        if after[path] != before[path]
    ]
    return ("".join(diffs), "") if diffs else (None, "the source has it already")


def _opened(fix: Fix, originals: Mapping[str, bytes], base: str | None) -> dict[str, Document]:
    paths = dict.fromkeys(edit.path for edit in fix.edits)
    missing = [path for path in paths if path not in originals]
    if missing:
        raise CannotEdit(f"the capture does not hold the text of {missing[0]}")
    return {path: _read(path, originals[path], base) for path in paths}


def _read(path: str, data: bytes, base: str | None) -> Document:
    try:
        return opened(data)
    except CannotEdit as error:
        raise CannotEdit(f"{label(path, base)} cannot be edited: {error}") from error


def _unreadable(finding: Finding, originals: Mapping[str, bytes], base: str | None) -> str:
    """Say which file could not be looked into, where that may be why no edit was found."""
    for path, data in originals.items():
        if finding.site is None or finding.site.path == path:
            try:
                _read(path, data, base)
            except CannotEdit as error:
                return str(error)
    return ""


def label(path: str, base: str | None) -> str:
    """Return a path as a diff names it: below the folder the script was started in, where it lies there."""
    inside = base is not None and path.startswith(os.path.join(base, ""))
    return (os.path.relpath(path, base) if inside else path.lstrip(os.sep)).replace(os.sep, "/")


def make(report: Report, capture: Capture, wanted: Wanted) -> Plan:
    """Decide for every finding whether its fix is written, and compose those that are."""
    originals = sources_of(capture)
    base = capture.meta.get("cwd")
    script = str(capture.meta.get("script") or "")
    project = guard.project_of(script, base, wanted.project)
    documents: dict[str, Document] = {}
    items: list[Item] = []
    for place, finding in enumerate(report.findings):
        if finding.fix is None or (wanted.only and finding.rule not in wanted.only):
            continue
        diff, why = alone(finding, originals, base)
        item = Item(finding, replace(finding.fix, diff=diff), "ready", place=place)
        state: State = "by hand"
        otherwise = _optimized(finding.rule)
        if diff is not None:
            (state, why), otherwise = _asked_for(finding.fix, wanted, place), ""
        if state == "ready" and (why := _beside(finding, items)):
            state = "refused"
        if state == "ready" and (why := _refusal(finding.fix, capture.sources, project, wanted)):
            state, otherwise = "refused", _overlaid(finding.fix, capture.sources, project)
        if state == "ready":
            try:
                documents |= render.edited(_opened(finding.fix, originals, base) | documents, finding.fix.edits)
            except CannotEdit as error:
                state, why = "refused", f"together with the fixes above: {error}"
        items.append(replace(item, state=state, why=why, otherwise=otherwise))
    return Plan(tuple(items), _files(documents, originals), script, capture.path)


def _asked_for(fix: Fix, wanted: Wanted, place: int) -> tuple[State, str]:
    if place in wanted.refused:
        return "not asked for", "you said no"
    if fix.safety != "same" and not wanted.unsafe:
        return "not asked for", "it may change results: --unsafe includes it"
    return "ready", ""


def _beside(finding: Finding, items: Sequence[Item]) -> str:
    """Say which of the fixes above this one must not stand beside."""
    assert finding.fix is not None
    for other in items:
        if other.state == "ready" and (other.rule in finding.fix.apart or finding.rule in other.fix.apart):
            return f"not together with {other.rule}, which saves more: run it again with that one written"
    return ""


def _refusal(fix: Fix, sources: Sequence[Source], project: str | None, wanted: Wanted) -> str:
    hashes = {each.path: each.sha256 for each in sources}
    for path in dict.fromkeys(edit.path for edit in fix.edits):
        held = hashes.get(path, "")
        why = guard.refusal(path, held, project) if wanted.written else guard.never(path, held)
        if why:
            return why
    return ""


def _optimized(rule: str) -> str:
    """Say how to have a fix that no edit makes while the script runs."""
    from fitdoctor.rewrites import candidates

    return OPTIMIZED if rule in candidates.rules() else ""


def _overlaid(fix: Fix, sources: Sequence[Source], project: str | None) -> str:
    """Say how to have a fix that is not written for the sake of the files on the disk alone."""
    return "" if _refusal(fix, sources, project, Wanted(written=False)) else OVERLAID


def _files(documents: Mapping[str, Document], originals: Mapping[str, bytes]) -> tuple[FileChange, ...]:
    return tuple(
        FileChange(os.path.realpath(path), originals[path], document.data)
        for path, document in documents.items()
        if document.data != originals[path]
    )
