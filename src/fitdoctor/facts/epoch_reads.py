"""The first epoch beside the later ones: how long their steps took, and how much came from the disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import rows
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture, Gap, Interval, Steps

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Marks = NDArray[np.bool_]

FEWEST = 3
"""Steps of an epoch that are compared, at least."""


@dataclass(frozen=True, slots=True)
class Epochs:
    """One or several epochs."""

    step: Interval
    """Seconds per step in the second half of each: by then pools and buffers have settled."""
    fetch: Interval
    """Seconds per step in which Python waited for the next batch; on TensorFlow that happens inside the graph."""
    disk_step: float
    """Bytes per step that came from a disk, not from the memory the system keeps of its files."""


@dataclass(frozen=True, slots=True)
class EpochReads:
    """What was seen of the first epoch and of all later ones."""

    first: Epochs
    later: Epochs | None
    """None where no second epoch was watched."""


def establish(capture: Capture, training: Training) -> EpochReads:
    """Compare epochs of the leading training's first call with more than one."""
    seen = [capture.steps[call.id] for call in training.calls if call.id in capture.steps]
    steps = max(seen, key=lambda each: int(each.epoch.max()), default=None)
    if steps is None:
        raise MissingEvidence(Gap("epochs", "no steps were seen", Gap.LONGER))
    times = [sample.t_ns for sample in capture.host if "disk_read" in sample.values]
    bytes_ = [float(sample.values["disk_read"]) for sample in capture.host if "disk_read" in sample.values]
    if len(times) < 2:
        raise MissingEvidence(
            Gap("bytes read from the disk", "the host samples do not hold them", "run where /proc/PID/io can be read")
        )
    first = _epochs(steps, steps.epoch == 0, times, bytes_)
    if first is None:
        raise MissingEvidence(
            Gap("the first epoch", f"fewer than {2 * FEWEST} of its steps were watched", "let it run longer: --budget")
        )
    return EpochReads(first, _epochs(steps, steps.epoch > 0, times, bytes_))


def _epochs(steps: Steps, mask: Marks, times: Sequence[int], bytes_: Sequence[float]) -> Epochs | None:
    import numpy as np

    chosen = rows.choose(steps, mask)
    settled = rows.choose(chosen, rows.steady(chosen) & _second_half(chosen)) if rows.size(chosen) else chosen
    if int(settled.count.sum()) < FEWEST:
        return None
    means = rows.means({"step": settled.wall_ns / 1e9, "fetch": settled.fetch_ns / 1e9}, settled.count)
    begin, end = (int(each) for each in (chosen.start_ns[0], chosen.start_ns[-1] + chosen.wall_ns[-1]))
    read = np.interp([begin, end], times, bytes_)
    return Epochs(means["step"], means["fetch"], float(read[1] - read[0]) / int(chosen.count.sum()))


def _second_half(steps: Steps) -> Marks:
    """Mark the later steps of each epoch."""
    import numpy as np

    marks: Marks = np.zeros(rows.size(steps), dtype=bool)
    for epoch in np.unique(steps.epoch):
        places = np.flatnonzero(steps.epoch == epoch)
        marks[places[len(places) // 2 :]] = True
    return marks
