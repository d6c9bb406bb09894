"""Root causes: one module each, found by walking this package.

A rule is a module `rules/<family>/<rule>.py` with three functions; its docstring is its documentation page.

    locate(source: SourceTree) -> Iterator[Site]             where the source has the pattern
    measure(<facts by type>) -> list[Cost] | Clear | Absent  what it costs this run (a defect without a cost: Suspect)
    fix(cost: Cost, source: SourceTree | None) -> Fix | None what to do about it

What the pattern may cost, in the words of `fitdoctor check`, is its `SUSPICION`: "may ...", one line.
A cause that no pattern in the source gives away also has `place(source)`: where the edit would go, once measured.
A rule whose edit needs no run also has `provable(site, source) -> Fix | None`: where the source alone shows that
results stay the same, to the bit, and that nothing gets slower, `fitdoctor check --fix` writes it.

`measure` gets the facts its signature names.  A fact that cannot be established makes the outcome `Unknown`.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fitdoctor.model import FAMILIES, Cost, Fix, Site


@dataclass(frozen=True, slots=True)
class Clear:
    """The rule looked and there is nothing to gain."""

    because: str


@dataclass(frozen=True, slots=True)
class Absent:
    """The question does not arise on this run."""

    because: str


@dataclass(frozen=True, slots=True)
class Suspect:
    """Something is wrong that costs no time: it was seen, but there is no saving to speak of."""

    why: str
    """One sentence with what was seen."""
    site: Site


Verdict = list[Cost] | Clear | Absent | Suspect

INPUT_BOUND = Clear("the step waits for its input: a shorter rest of it would only wait longer")
"""What rules about the work of a step say where batches come beside it and do not keep up."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One root cause."""

    name: str
    family: str
    title: str
    """First line of its page: what is wrong."""
    page: str
    locate: Callable[[Any], Iterator[Site]]
    measure: Callable[..., Verdict]
    fix: Callable[..., Fix | None]
    place: Callable[[Any], Iterator[Site]] | None = None
    """Where the edit would go, for causes that no pattern in the source gives away."""
    suspicion: str = ""
    """What the pattern may cost, where nobody has measured it."""
    provable: Callable[[Site, Any], Fix | None] | None = None
    """What to do about a site of `locate`, where the source alone shows that it is the same and never slower."""


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    """Return every rule, family by family in the order of the catalogue, then by name."""
    return tuple(
        _rule(family, module.name)
        for family in FAMILIES
        for module in sorted(_modules(family), key=lambda each: each.name)
    )


def _modules(family: str) -> list[pkgutil.ModuleInfo]:
    try:
        package = importlib.import_module(f"{__name__}.{family}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{family}":
            raise
        return []
    return list(pkgutil.iter_modules(package.__path__))


def _rule(family: str, name: str) -> Rule:
    module = importlib.import_module(f"{__name__}.{family}.{name}")
    page = (module.__doc__ or "").strip()
    return Rule(
        name=name.replace("_", "-"),
        family=family,
        title=page.splitlines()[0].rstrip(".") if page else "",
        page=page,
        locate=module.locate,
        place=getattr(module, "place", None),
        measure=module.measure,
        fix=module.fix,
        suspicion=getattr(module, "SUSPICION", ""),
        provable=getattr(module, "provable", None),
    )
