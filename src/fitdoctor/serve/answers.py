"""What the server says to an address below the token: pure of sockets and headers."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from fitdoctor import units
from fitdoctor.errors import FitdoctorError
from fitdoctor.serve import pages
from fitdoctor.serve.diagnoses import Diagnoses, shown
from fitdoctor.serve.history import projects
from fitdoctor.serve.shelf import Entry, Shelf
from fitdoctor.serve.snapshot import readable

HTML, JSON = "text/html; charset=utf-8", "application/json; charset=utf-8"
CSS, SCRIPT = "text/css; charset=utf-8", "text/javascript; charset=utf-8"
ASSETS = {
    "look.css": (CSS, "fitdoctor.report"),
    "serve.css": (CSS, "fitdoctor.serve"),
    "serve.js": (SCRIPT, "fitdoctor.serve"),
}
"""Files that belong to the pages: what they are, and the package they lie in."""
EVENTS_AT_ONCE = 500
OWN_POLICY = "script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:"
_INLINE = re.compile(r"<(script|style)\b[^>]*>(.*?)</\1\s*>", re.DOTALL | re.IGNORECASE)
_ID = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class Answer:
    """One answer: whole, or in pieces."""

    status: int
    kind: str
    body: bytes | Iterable[bytes]
    policy: str = OWN_POLICY
    headers: Mapping[str, str] = field(default_factory=dict)


class Answers:
    """Answers for one folder of captures."""

    def __init__(self, folder: Path, token: str) -> None:
        self.shelf = Shelf(folder)
        self.diagnoses = Diagnoses(self.shelf)
        self.at = pages.Address(f"/{token}", str(folder))

    def to(self, path: str, query: str) -> Answer:
        """Answer an address: its path below the token, already free of the token itself."""
        if path == "":
            return self._index()
        if path in ASSETS:
            return Answer(200, ASSETS[path][0], asset(path))
        if path == "live.json":
            return self._live(parse_qs(query).get("run", [""])[0])
        kind, _, rest = path.partition("/")
        id_, _, part = rest.partition("/")
        if not _ID.fullmatch(id_):
            return self._nothing()
        if kind == "project" and not part:
            return self._project(id_)
        entry = self.shelf.entry(id_) if kind == "run" else None
        if entry is None:
            return self._nothing()
        try:
            return self._run(entry, part)
        except (FitdoctorError, OSError) as error:
            text = pages.message(self.at, "This run cannot be shown", str(error))
            return Answer(200 if not part else 404, HTML, encoded(text))

    def _index(self) -> Answer:
        entries = self.shelf.entries()
        broken = [each for each in entries if each.problem]
        text = pages.index(self.at, projects(entries), broken, time.time(), stamp(entries))
        return Answer(200, HTML, encoded(text))

    def _project(self, id_: str) -> Answer:
        found = next((each for each in projects(self.shelf.entries()) if each.id == id_), None)
        if found is None:
            return self._nothing()
        return Answer(200, HTML, encoded(pages.one_project(self.at, found, time.time())))

    def _run(self, entry: Entry, part: str) -> Answer:
        if part == "trace.json":
            return self._trace(entry)
        if part not in ("", "report.json"):
            return self._nothing()
        if not part and entry.state(time.time()) == "running":
            return Answer(200, HTML, encoded(pages.live_run(self.at, entry)))
        answer = self.diagnoses.of(entry)
        if part:
            from fitdoctor.report import json as as_json

            return Answer(200, JSON, encoded(as_json.dumps(answer.report)), headers=saved_as(entry, "report.json"))
        made = pages.render(answer.report, answer.source_of, answer.timeline)
        return Answer(200, HTML, encoded(pages.with_way_back(made, self.at, entry)), policy=policy_for(made))

    def _trace(self, entry: Entry) -> Answer:
        pieces = trace(entry)
        first = next(pieces)  # what cannot be read says so before the answer begins
        return Answer(200, JSON, itertools.chain([first], pieces), headers=saved_as(entry, "trace.json"))

    def _live(self, id_: str) -> Answer:
        """Say how far the runs under way are, or one of them; and whether anything in the list changed."""
        now = time.time()
        entries = self.shelf.entries()
        running = [each for each in entries if each.state(now) == "running" and id_ in ("", each.id)]
        runs = {each.id: {**progress(each), **shown(self.diagnoses.live(each))} for each in running}
        return Answer(200, JSON, encoded(json.dumps({"stamp": stamp(entries), "runs": runs}, allow_nan=False)))

    def _nothing(self) -> Answer:
        text = pages.message(self.at, "There is nothing here", "The capture may have been moved or deleted.")
        return Answer(404, HTML, encoded(text))


def trace(entry: Entry) -> Iterator[bytes]:
    """Yield the trace of a run in pieces of a size that is worth sending."""
    from fitdoctor.report import chrome

    with readable(entry.path) as file:
        kept: list[str] = []
        for piece in chrome.pieces(file):
            kept.append(piece)
            if len(kept) >= EVENTS_AT_ONCE:
                yield encoded("".join(kept))
                kept.clear()
        yield encoded("".join(kept))


def progress(entry: Entry) -> dict[str, Any]:
    """Say how far a run under way has come."""
    found = entry.meta.get("progress")
    seen: Mapping[str, Any] = found if isinstance(found, dict) else {}
    steps = seen.get("steps") or 0
    words = [f"{steps:,} steady steps" if isinstance(steps, int) and steps else "no steady step yet"]
    if entry.seconds:
        words.append(f"{units.duration(entry.seconds)} since it started")
    if seen.get("lab"):
        words.append(f"experiments: {seen['lab']}")
    return {"now": "; ".join(words), "steps": steps}


def stamp(entries: list[Entry]) -> str:
    """Return a text that changes whenever the list would look different, but not with each step of a run under way."""
    now = time.time()
    seen = [(each.id, each.state(now), each.summary is not None) for each in entries]
    return hashlib.sha256(repr(seen).encode()).hexdigest()[:16]


def saved_as(entry: Entry, name: str) -> dict[str, str]:
    """Return the header that names a download."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", Path(entry.name).stem) or "run"
    return {"Content-Disposition": f'attachment; filename="{safe}-{name}"'}


def policy_for(page: str) -> str:
    """Allow exactly the scripts and styles that stand in a page of our own making."""
    allowed: dict[str, list[str]] = {"script": [], "style": []}
    for kind, text in _INLINE.findall(page):
        digest = base64.b64encode(hashlib.sha256(text.encode("utf-8", "replace")).digest()).decode()
        allowed[kind.lower()].append(f"'sha256-{digest}'")
    scripts = " ".join(allowed["script"]) or "'none'"
    return f"script-src {scripts}; style-src 'unsafe-inline'; img-src data:; font-src data:"


def asset(name: str) -> bytes:
    """Return one of the files that belong to the pages."""
    return resources.files(ASSETS[name][1]).joinpath(f"assets/{name}").read_bytes()


def encoded(text: str) -> bytes:
    """Return text as bytes, whatever half characters a path may hold."""
    return text.encode("utf-8", "replace")
