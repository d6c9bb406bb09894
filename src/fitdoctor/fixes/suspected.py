"""Suspicions that the source alone shows how to mend: file by file, until nothing is left to do in it."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace

from fitdoctor.checking import reading
from fitdoctor.checking.check import look_at, quick
from fitdoctor.checking.settings import Settings
from fitdoctor.fixes import guard, render
from fitdoctor.fixes.document import CannotEdit, opened
from fitdoctor.fixes.plan import FileChange, label
from fitdoctor.model import Checked, Spot

_ROUNDS = 20
"""An edit may stand in the way of another one, which is made in the next round; so many are never needed."""


@dataclass(frozen=True, slots=True)
class Mended:
    """What would become of some files."""

    files: tuple[FileChange, ...] = ()
    spots: tuple[Spot, ...] = ()
    """What is mended by that."""
    left: tuple[tuple[str, str], ...] = ()
    """Files or lines that are left as they are although something could be mended, and why."""

    @property
    def diff(self) -> str:
        """What would be written, as `git apply` understands it."""
        base = os.path.realpath(os.getcwd())
        return "".join(render.diff(each.before, each.after, label(each.path, base)) for each in self.files)


def mend(checked: Checked, settings: Settings) -> Mended:
    """Work out what the edits of all suspicions make of their files; nothing is written."""
    found = Mended()
    for path in dict.fromkeys(spot.suspicion.site.path for spot in checked.spots if spot.fix is not None):
        why = _refusal(path)
        each = Mended(left=((path, why),)) if why else _mended(path, settings)
        found = Mended(found.files + each.files, found.spots + each.spots, found.left + each.left)
    return found


def _refusal(path: str) -> str:
    if path.endswith(".ipynb"):
        return "notebooks are not edited: what their cells show would no longer be what they ran"
    try:
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}"
    # What a link leads to may belong to others: it has to lie in the project that the link lies in.
    beside = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(path))), "__init__.py")
    return guard.refusal(path, digest, guard.project_of(beside, os.getcwd()))


def _mended(path: str, settings: Settings) -> Mended:
    """Return a file with all edits that are sure, in as many rounds as that takes."""
    with open(path, "rb") as file:
        before = file.read()
    found = Mended()
    now = before
    for _ in range(_ROUNDS):
        after, spots, left = _round(path, now, settings)
        found = Mended(spots=found.spots + spots, left=left)
        if after == now:
            break
        now = after
    return replace(found, files=(FileChange(os.path.realpath(path), before, now),)) if now != before else found


def _round(path: str, data: bytes, settings: Settings) -> tuple[bytes, tuple[Spot, ...], tuple[tuple[str, str], ...]]:
    """Make every edit that the file as it is now has a place for; return what was made, and what could not be."""
    with quick():
        found = look_at(reading.understood(path, data), settings).spots
    wanted = [spot for spot in found if spot.fix is not None]
    document = opened(data) if wanted else None
    done: list[Spot] = []
    left: list[tuple[str, str]] = []
    for spot in wanted:
        assert document is not None
        assert spot.fix is not None
        try:
            after = render.edited({path: document}, spot.fix.edits)[path]
        except CannotEdit as error:
            left.append((f"{path}:{spot.suspicion.site.line}", f"{spot.suspicion.rule}: {error}"))
            continue
        if after.data != document.data:
            document = after
            done.append(spot)
    return (document.data if document is not None else data), tuple(done), tuple(left)
