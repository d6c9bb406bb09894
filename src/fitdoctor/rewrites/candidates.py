"""What could be changed in a pipeline: one candidate per change and place, each with what it promises."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from fitdoctor.errors import CannotRun
from fitdoctor.model import Safety, Site
from fitdoctor.rewrites import changes
from fitdoctor.rewrites.datasets import Path
from fitdoctor.rewrites.pulling import Pace

Promise = Literal["in order, bit for bit", "same elements in any order", "in order, within rounding"]
IN_ORDER: Promise = "in order, bit for bit"
ANY_ORDER: Promise = "same elements in any order"
ROUNDED: Promise = "in order, within rounding"


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of the pipeline before anything is changed."""

    pace: Pace | None = None
    cores: float = 1.0
    cache_dir: str | None = None
    """Where a cache that does not fit into memory may be written."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One change at one place."""

    rule: str
    """The cause it removes."""
    path: Path
    """From here on down the pipeline differs; what comes out here must be equal."""
    op: str
    site: Site | None
    """The user's line that built the stage."""
    settings: str
    """In words."""
    code: str
    """As the user would write it."""
    promise: Promise
    safety: Safety
    apply: Callable[[Any], Any]
    """Changes any pipeline of this shape; never the one it is given."""
    sample: Callable[[Any], Any] | None = None
    """Makes what is timed, where the changed pipeline itself would have to be read to its end first."""
    overlaps: bool = False
    """Its gain shows only beside a step that takes time."""
    hides: bool = False
    """Makes what lies below it free, whatever that costs and why: it says nothing of a cause, so the lab leaves it."""
    detail: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """A change that would not be safe, or would do nothing, here."""

    rule: str
    reason: str


def _modules() -> Iterator[Any]:
    for found_module in pkgutil.iter_modules(changes.__path__):
        yield importlib.import_module(f"{changes.__name__}.{found_module.name}")


def rules() -> frozenset[str]:
    """Return the causes that `fitdoctor.optimize` can remove at run time, in a pipeline of tf.data."""
    return frozenset(module.RULE for module in _modules())


def found(dataset: Any, seen: Seen) -> Iterator[Candidate | Refusal]:
    """Yield what every known change could do to a pipeline."""
    for module in _modules():
        try:
            yield from module.candidates(dataset, seen)
        except CannotRun as error:
            yield Refusal(module.RULE, error.problem)
