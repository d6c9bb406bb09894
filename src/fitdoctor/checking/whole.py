"""From paths to everything that is suspected below them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fitdoctor.checking import settings as project
from fitdoctor.checking.check import look, quick
from fitdoctor.checking.paths import collect
from fitdoctor.model import Checked
from fitdoctor.rules import all_rules


def check_paths(
    paths: Sequence[str] = (),
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> Checked:
    """Look at files, folders and globs (by default at the current folder), as the project's settings say."""
    paths = list(paths) or ["."]
    families = {rule.name: rule.family for rule in all_rules()}
    project.check_names((*select, *ignore), families, "the command line")
    settings = project.load(project.find(paths), families)
    settings = replace(settings, select=tuple(select) or settings.select, ignore=(*settings.ignore, *ignore))
    collected = collect(paths, (*settings.exclude, *exclude), settings.root)
    with quick():
        looked = [look(path, settings) for path in collected.files]
    return Checked(
        files=len(looked),
        spots=tuple(spot for each in looked for spot in each.spots),
        unchecked=(*collected.unchecked, *(problem for each in looked for problem in each.unchecked)),
        warnings=tuple(warning for each in looked for warning in each.warnings),
        suppressed=sum(each.suppressed for each in looked),
        titles={rule.name: rule.title for rule in all_rules() if settings.wants(rule.name, rule.family)},
    )
