"""An installed version is on record as slow for just this.

## What is wrong

Frameworks have had releases in which something was slow that was fast before or after: a kernel that silently was not
used, a setting that did nothing.  No edit of the script helps; another version does.

## How it is established

By a small table that comes with fitdoctor (`stale_stack.json`), dated, each entry with links to the public reports.  A
run is named only if the version lies within a range that was reported and everything else holds that the report depends
on: backend, GPU, layers, settings, all of them seen in this run.  A version that is not in the table is never accused.
What another version would save was not measured, so it is a suspicion.

## What to do

Upgrade as the entry says, in an environment of its own, and compare.

## When it is not worth it

When the part that was slow is a small part of this model.

## Example

    keras==3.11.3, PyTorch, a GPU, LSTM layers      # without cuDNN
    keras==3.15.1
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from typing import Any

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.placement import Placement
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture, Cost, Fix, Gap, Site
from fitdoctor.rules import Absent, Clear, Suspect, Verdict

Entry = Mapping[str, Any]


@functools.cache
def table() -> Mapping[str, Any]:
    """Return the table: when it was checked, and its entries."""
    text = resources.files(__package__).joinpath("stale_stack.json").read_text("utf-8")
    found: Mapping[str, Any] = json.loads(text)
    return found


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: versions do not stand in the source."""
    del source
    return iter(())


def measure(capture: Capture, training: Training, placement: Placement) -> Verdict:
    """Look the versions up."""
    versions: Mapping[str, str] = capture.meta.get("versions") or {}
    if not versions:
        reason = "they are written down when a run ends, and this one was ended before"
        raise MissingEvidence(Gap("versions in use", reason, "let it run to its end, or to its cap"))
    if not {entry["package"] for entry in table()["entries"]} & {*versions}:
        return Absent("nothing that the table names is installed")
    for entry in table()["entries"]:
        version = versions.get(entry["package"])
        if version is not None and within(version, entry) and _holds(entry["when"], training, placement):
            return Suspect(
                f"{entry['package']} {version}: {entry['slow']}; what another version saves was not measured: "
                f"{entry['do']} ({', '.join(entry['links'])})",
                placement.script,
            )
    return Clear(f"no version in use is on record as slow for such a run (table of {table()['checked']})")


def within(version: str, entry: Entry) -> bool:
    """Tell whether a release lies within an entry's range; one that is no plain release never does.

    >>> within("3.5.0", {"first": "3.4.1", "last": "3.11.3"}), within("3.5.0rc1", {"first": "3.4.1", "last": "3.11.3"})
    (True, False)
    """
    if not re.fullmatch(r"\d+(\.\d+)*", version):
        return False
    first, here, last = (_numbers(each) for each in (entry["first"], version, entry["last"]))
    return first <= here <= last


def _numbers(version: str) -> tuple[int, ...]:
    numbers = tuple(map(int, version.split(".")))
    return numbers + (0,) * (4 - len(numbers))


def _holds(when: Entry, training: Training, placement: Placement) -> bool:
    """Tell whether everything an entry depends on was seen."""
    layers = {each["kind"] for each in training.info.get("recurrent") or ()}
    seen: dict[str, Callable[[Any], bool]] = {
        "backend": lambda wanted: training.backend == wanted,
        "gpu": lambda wanted: placement.on_gpu is wanted,
        "layer": lambda wanted: wanted in layers,
        "steps_per_execution": lambda wanted: int(training.info.get("steps_per_execution") or 1) >= wanted,
    }
    return all(seen[name](wanted) for name, wanted in when.items())


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Nothing: a suspicion has no cost to mend."""
    del cost, source
    return None
