"""What the facts about a run look like in a capture; what looks otherwise is left out, and said.

A capture may have been changed by hand, damaged, or written by another program.  Whoever reads a fact may rely on its
shape: it is as described here, or it is not there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fitdoctor.model import Gap

_YEAR_9999 = 250_000_000_000


@dataclass(frozen=True, slots=True)
class Kind:
    """A plain value, and how it is called where another one is found."""

    name: str
    fits: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Each:
    """A table of any names, or a list, whose values are all of one shape."""

    shape: Shape
    listed: bool = False
    whole: bool = False
    """One value that is none takes all others with it: a command without one of its words is another one."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with these names; others may be there too.  Without one that is `needed`, it is left out as a whole."""

    shapes: Mapping[str, Shape]
    needed: frozenset[str] = frozenset()


Shape = Kind | Each | Table


def _number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


TEXT = Kind("a text", lambda value: isinstance(value, str))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
NUMBER = Kind("a number", _number)
COUNT = Kind("a number that is not negative", lambda value: _number(value) and value >= 0)
WHOLE = Kind("a whole number", lambda value: type(value) is int)
SOME = Kind("a number above zero", lambda value: _number(value) and value > 0)
MOMENT = Kind("seconds since 1970", lambda value: _number(value) and 0 <= value < _YEAR_9999)
LOSS = Kind("a number", lambda value: type(value) in (int, float))
"""A training that fails has a loss that is none."""
OF_EXIT = Kind("a whole number or nothing", lambda value: value is None or type(value) is int)


def _all_needed(**shapes: Shape) -> Table:
    return Table(shapes, frozenset(shapes))


_STEP = _all_needed(low=SOME, mid=SOME, high=SOME)
_LEARNING = _all_needed(loss=LOSS, epoch=WHOLE, step=WHOLE)
_ROUND = Table({"step_s": _STEP, "once_s": NUMBER, "learning": _LEARNING}, frozenset({"step_s", "once_s"}))
_GPU = Table(
    {"name": TEXT, "index": WHOLE, "uuid": TEXT, "driver": TEXT, "memory_total": COUNT, "compute_capability": TEXT}
)
_ENVIRONMENT = Table(
    {
        **dict.fromkeys(("cores", "logical_cores", "physical_cores", "affinity", "cpu_quota"), SOME),
        **dict.fromkeys(("memory_total", "memory_available", "memory_limit", "swap_total", "swap_used"), COUNT),
        **dict.fromkeys(("python", "implementation", "os", "kernel", "machine", "cpu", "gpus_why"), TEXT),
        "bf16": FLAG,
        "nvidia_cards": COUNT,
        "affinity_cores": Each(WHOLE, listed=True),
        "settings": Each(TEXT),
        "gpus": Each(_GPU, listed=True),
    }
)
_STACK = Table(
    {
        **dict.fromkeys(("backend", "cuda", "cudnn", "platform"), TEXT),
        **dict.fromkeys(("hidden_by_script", "built_with_cuda"), FLAG),
        **dict.fromkeys(("gpus", "intra_threads", "inter_threads"), COUNT),
    }
)
META = Table(
    {
        **dict.fromkeys(("schema", "fitdoctor", "mode", "script", "cwd", "backend"), TEXT),
        **dict.fromkeys(("wall_s", "own_s"), COUNT),
        "started": MOMENT,
        "start_ns": WHOLE,
        "ranks": SOME,
        "command": Each(TEXT, listed=True, whole=True),
        "overlay": Each(TEXT, listed=True),
        "account": Each(COUNT),
        "versions": Each(TEXT),
        "environment": _ENVIRONMENT,
        "stack": _STACK,
        "exit": Table({"reason": TEXT, "code": OF_EXIT, "signal": OF_EXIT}),
        "overhead": Table(
            {
                **dict.fromkeys(("fraction", "us_per_step", "us_per_step_low", "us_per_step_high"), COUNT),
                "how": TEXT,
            }
        ),
        "learning": _LEARNING,
        "device_memory": Table(dict.fromkeys(("peak", "limit", "retries"), COUNT)),
        "backends": Each(
            Table({"backend": TEXT, "why": TEXT, "rounds": Each(_ROUND, listed=True)}, frozenset({"backend"})),
            listed=True,
        ),
        "progress": Table({"steps": COUNT, "elapsed": COUNT, "training": FLAG}),
        "redirected": Each(Table({"path": TEXT, "bytes": COUNT}), listed=True),
        "experiments": FLAG,
        "lab": Table({"state_bytes": COUNT, "spent_s": Each(COUNT)}),
        "lab_time": Table({"given_s": COUNT, "spent_s": COUNT}),
    }
)
"""What `Capture.meta` holds, as far as anybody reads it."""


def fitted(meta: Mapping[str, Any]) -> tuple[dict[str, Any], list[Gap]]:
    """Return the facts that have their shape, and what is said about the others."""
    problems: list[Gap] = []
    found = _table(meta, META, "", problems)
    return found if found is not None else {}, problems


def _fitted(value: Any, shape: Shape, name: str, problems: list[Gap]) -> Any:
    """Return a value as far as it has its shape; None where it has not."""
    if isinstance(shape, Kind):
        if shape.fits(value):
            return value
        return _missing(value, shape.name, name, problems)
    if isinstance(shape, Each) and shape.listed:
        if not isinstance(value, list):
            return _missing(value, "a list", name, problems)
        found = [_fitted(each, shape.shape, f"{name}[{place}]", problems) for place, each in enumerate(value)]
        return None if shape.whole and None in found else [each for each in found if each is not None]
    if not isinstance(value, dict):
        return _missing(value, "a table", name, problems)
    return _table(value, shape, name, problems)


def _table(value: Mapping[str, Any], shape: Each | Table, name: str, problems: list[Gap]) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for key, shape_of, each in _shapes(value, shape):
        kept = each if shape_of is None else _fitted(each, shape_of, f"{name}.{key}" if name else key, problems)
        if kept is not None or shape_of in (None, OF_EXIT):
            found[key] = kept
    lacking = sorted(shape.needed - found.keys()) if isinstance(shape, Table) else []
    if lacking:
        problems.append(_gap(name, f"it lacks {lacking[0]}"))
        return None
    return found


def _shapes(value: Mapping[str, Any], shape: Each | Table) -> Iterator[tuple[str, Shape | None, Any]]:
    for key, each in value.items():
        yield key, (shape.shape if isinstance(shape, Each) else shape.shapes.get(key)), each


def _missing(value: Any, expected: str, name: str, problems: list[Gap]) -> None:
    """Say what was found instead; nothing at all is no fault: it was not known."""
    if value is not None:
        problems.append(_gap(name, f"expected {expected}, found {_told(value)}"))


def _gap(name: str, reason: str) -> Gap:
    return Gap(f"{name} of the capture", reason, "run the script again; this capture was changed or damaged")


def _told(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "a table" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
