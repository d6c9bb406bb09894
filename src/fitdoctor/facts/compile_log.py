"""Every trace and compilation of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from fitdoctor.facts import rows
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture, Compile


@dataclass(frozen=True, slots=True)
class CompileLog:
    """What was traced or compiled, how often, and how much of it after warm-up should have been over."""

    entries: tuple[Compile, ...]
    seconds: float
    times: Mapping[str, int]
    """How often each name was traced or compiled."""
    late: tuple[Compile, ...]
    """Those that began after the first steady step of the leading training."""


def establish(capture: Capture, training: Training) -> CompileLog:
    """List the compilations; none is an answer too."""
    steps = [capture.steps[call.id] for call in training.calls if call.id in capture.steps]
    every = rows.joined(steps)
    begin = int(rows.choose(every, rows.steady(every)).start_ns[0])
    return CompileLog(
        entries=capture.compiles,
        seconds=sum(each.duration_ns for each in capture.compiles) / 1e9,
        times=Counter(each.name for each in capture.compiles),
        late=tuple(each for each in capture.compiles if each.call in training.call_ids and each.start_ns > begin),
    )
