"""From paths to everything that is suspected below them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fitdoctor.checking import packages
from fitdoctor.checking import settings as project
from fitdoctor.checking.check import Looked, look, quick
from fitdoctor.checking.paths import collect
from fitdoctor.checking.settings import Settings
from fitdoctor.model import Checked, Unchecked
from fitdoctor.rules import all_rules

_PAYS = 300
"""Files; for fewer, starting processes takes longer than they save."""
_AT_A_TIME = 24


@dataclass(frozen=True, slots=True)
class Scope:
    """What is looked at, and what for."""

    files: tuple[str, ...]
    settings: Settings
    unchecked: tuple[Unchecked, ...] = ()


def scope(
    paths: Sequence[str] = (),
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> Scope:
    """Find what is below files, folders and globs (by default the current folder), as the project's settings say."""
    paths = list(paths) or ["."]
    families = {rule.name: rule.family for rule in all_rules()}
    project.check_names((*select, *ignore), families, "the command line")
    settings = project.load(project.find(paths), families)
    settings = replace(settings, select=tuple(select) or settings.select, ignore=(*settings.ignore, *ignore))
    collected = collect(paths, (*settings.exclude, *exclude), settings.root)
    return Scope(collected.files, settings, collected.unchecked)


def check_paths(
    paths: Sequence[str] = (),
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    exclude: Sequence[str] = (),
    jobs: int = 1,
) -> Checked:
    """Look at files, folders and globs (by default at the current folder), as the project's settings say."""
    return check_files(scope(paths, select=select, ignore=ignore, exclude=exclude), jobs=jobs)


def check_files(asked: Scope, *, jobs: int = 1) -> Checked:
    """Look at these files."""
    packages.forget()
    settings = asked.settings
    looked = _looked(asked.files, settings, jobs)
    return Checked(
        files=sum(each.read for each in looked),
        spots=tuple(spot for each in looked for spot in each.spots),
        unchecked=(*asked.unchecked, *(problem for each in looked for problem in each.unchecked)),
        warnings=tuple(warning for each in looked for warning in each.warnings),
        suppressed=sum(each.suppressed for each in looked),
        titles={rule.name: rule.title for rule in all_rules() if settings.wants(rule.name, rule.family)},
    )


def _looked(files: Sequence[str], settings: Settings, jobs: int) -> list[Looked]:
    if jobs > 1 and len(files) >= _PAYS:
        from concurrent.futures import ProcessPoolExecutor
        from concurrent.futures.process import BrokenProcessPool

        try:
            with ProcessPoolExecutor(jobs) as pool:
                return list(pool.map(functools.partial(_alone, settings=settings), files, chunksize=_AT_A_TIME))
        except (OSError, BrokenProcessPool):
            pass  # where processes cannot be started, or one was killed, this one does it all
    with quick():
        return [look(path, settings) for path in files]


def _alone(path: str, settings: Settings) -> Looked:
    with quick():
        return look(path, settings)
