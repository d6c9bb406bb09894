"""Every rule asks the source of every file; what it finds is a suspicion, never more."""

from __future__ import annotations

import functools
import gc
import hashlib
import os
import re
import shlex
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from fitdoctor.checking import comments, packages, reading
from fitdoctor.checking.settings import Settings
from fitdoctor.facts.source_tree import SourceFile, SourceTree
from fitdoctor.model import Fix, Site, Spot, Suspicion, Unchecked
from fitdoctor.rules import Rule, all_rules

_FRAMEWORK = re.compile("keras|tensorflow|torch|jax")
_SCRIPT = re.compile(r"""^(?:if __name__ == ['"]__main__['"]|[^\s#][^#\n]*\.fit\()|^for .*:$""", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Looked:
    """What one file gave."""

    read: bool = True
    """It could be read, as Python or as a notebook."""
    spots: tuple[Spot, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()
    warnings: tuple[str, ...] = ()
    suppressed: int = 0


def look(path: str, settings: Settings) -> Looked:
    """Look at one file; never raises for what is in it."""
    return look_at(reading.read(path), settings)


def look_at(text: reading.Text | Unchecked, settings: Settings) -> Looked:
    """Look at what a file says."""
    if isinstance(text, Unchecked):
        return Looked(read=False, unchecked=(text,))
    path = text.path
    file = SourceFile(path, text.text, packages.given(path, text.text))
    unchecked: list[Unchecked] = []
    if text.notebook is not None:
        unchecked = [Unchecked(path, line, reason, cell) for cell, line, reason in text.notebook.broken]
    elif file.fault is not None:
        problem = Unchecked(path, file.fault.line, f"is no Python: {file.fault.reason}")
        return Looked(read=False, unchecked=(problem,))
    said = comments.read(text.text, _names())
    faults = tuple(f"{_shown(text, line)}: {fault}" for line, fault in said.faults)
    if not file.given and not _FRAMEWORK.search(text.text):
        return Looked(unchecked=tuple(unchecked), warnings=faults)
    found = list(_suspected(file, _wanted(settings.select, settings.ignore), unchecked))
    ignored = settings.ignored_in(path) if found else frozenset()
    kept = [
        (rule, site)
        for rule, site in found
        if not said.silence(rule.name, site.line) and not ignored & {rule.name, rule.family}
    ]
    spots = tuple(_spots(text, SourceTree((file,), ran=False), kept, settings.root)) if kept else ()
    return Looked(True, spots, tuple(unchecked), faults, len(found) - len(kept))


@functools.cache
def _wanted(select: tuple[str, ...], ignore: tuple[str, ...]) -> tuple[Rule, ...]:
    settings = Settings(select, ignore)
    return tuple(rule for rule in all_rules() if settings.wants(rule.name, rule.family))


@functools.cache
def _names() -> frozenset[str]:
    return frozenset(rule.name for rule in all_rules())


def _suspected(file: SourceFile, rules: Sequence[Rule], unchecked: list[Unchecked]) -> Iterator[tuple[Rule, Site]]:
    source = SourceTree((file,), ran=False)
    for rule in rules:
        try:
            sites = list(rule.locate(source))
        except Exception as error:  # a rule that fails takes nothing else down with it
            reason = f"the rule {rule.name} failed, please report it: {type(error).__name__}: {error}"
            unchecked.append(Unchecked(file.path, None, reason))
            continue
        yield from ((rule, site) for site in {site.line: site for site in reversed(sites)}.values())


def _spots(text: reading.Text, source: SourceTree, found: Sequence[tuple[Rule, Site]], root: str) -> Iterator[Spot]:
    whole = text.text.split("\n")
    tell = _tell(text)
    seen: Counter[tuple[str, ...]] = Counter()
    for rule, site in sorted(found, key=lambda each: (each[1].line, each[0].name)):
        key = (rule.name, site.symbol or "", " ".join(whole[site.line - 1].split()))
        seen[key] += 1
        where, lines, cell = site, whole, None
        if text.notebook is not None:
            holder = text.notebook.cell(site.line)
            cell, lines = holder.number, list(holder.lines)
            last = min((site.end_line or site.line) - holder.first + 1, len(lines))
            where = replace(site, line=site.line - holder.first + 1, end_line=last)
        suspicion = Suspicion(rule.name, rule.family, where, worded(rule))
        fingerprint = _fingerprint(text.path, root, *key, str(seen[key]))
        yield Spot(suspicion, cell, lines, tell, fingerprint, _proved(rule, site, source))


def _proved(rule: Rule, site: Site, source: SourceTree) -> Fix | None:
    """Return the edit that the source alone shows to be right, if the rule knows one."""
    if rule.provable is None:
        return None
    try:
        return rule.provable(site, source)
    except Exception:  # a suspicion without an edit is still one
        return None


def worded(rule: Rule) -> str:
    """Say what a pattern may cost, in the rule's own words or in those of its title."""
    return rule.suspicion or f"may be a case of: {rule.title[:1].lower()}{rule.title[1:]}"


def _fingerprint(path: str, root: str, *key: str) -> str:
    """Name a suspicion by what it is about and by its place in the project, not by its line number."""
    place = os.path.relpath(os.path.abspath(path), os.path.abspath(root)).replace(os.sep, "/")
    return hashlib.sha256("\0".join((place, *key)).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _tell(text: reading.Text) -> str:
    """Return the command that would tell: with this very file where it is a script."""
    script = text.notebook is None and _SCRIPT.search(text.text)
    return shlex.join(["fitdoctor", "run", text.path if script else "your_script.py"])


def _shown(text: reading.Text, line: int) -> str:
    if text.notebook is None or not text.notebook.cells:
        return f"{text.path}:{line}"
    cell = text.notebook.cell(line)
    return f"{text.path}:cell {cell.number}:{line - cell.first + 1}"


@contextmanager
def quick() -> Iterator[None]:
    """Parse without garbage collections, which find nothing, and without Python's warnings about the user's code."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if collecting:
            gc.enable()
