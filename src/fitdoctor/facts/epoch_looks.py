"""What complete epochs took outside of their steps."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fitdoctor.facts.pauses import LEAST_STALL
from fitdoctor.model import Call, Capture, Compile, Steps

if TYPE_CHECKING:
    from fitdoctor.facts.rows import Mask

BATCH_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")


@dataclass(frozen=True, slots=True)
class Look:
    """Seconds of a complete epoch outside of its steps."""

    validation: float
    outside: float
    """Everything but validation and compiling, which is counted elsewhere."""
    freeing: float
    """Of it, on TensorFlow: at its beginning, where the loop lets go of the data of the epoch before (see `pauses`)."""

    @property
    def whole(self) -> float:
        """All of it."""
        return self.validation + self.outside


def later_epochs(capture: Capture, seen: Sequence[tuple[Call, Steps]]) -> list[Look]:
    """Return what each complete epoch took outside of its steps.

    The first epoch of a call holds what happens once; it counts only where no other was seen to its end.
    """
    saving = saving_per_step(capture, seen)
    looks = [_epoch_looks(capture, call, steps, saving) for call, steps in seen]
    return [look for each in looks for look in each[1:]] or [look for each in looks for look in each]


def first_epoch_s(capture: Capture, seen: Sequence[tuple[Call, Steps]]) -> float:
    """Return how many seconds longer the first epoch of a single call took outside of its steps than the others did.

    What was compiled in it is counted elsewhere.  Of many calls that is part of what each call takes.
    """
    if len(seen) != 1:
        return 0.0
    first, *others = _epoch_looks(capture, *seen[0], saving_per_step(capture, seen)) or [Look(0.0, 0.0, 0.0)]
    if not others:
        return 0.0
    longer = first.whole - statistics.fmean(each.whole - each.freeing for each in others)
    return longer if longer > LEAST_STALL else 0.0


def saving_per_step(capture: Capture, seen: Sequence[tuple[Call, Steps]]) -> float:
    """Seconds of saving per step: a checkpoint every so many batches is no part of the step that it follows."""
    ids = {call.id for call, _ in seen}
    nested = sum(
        each.total_ns - each.self_ns
        for each in capture.callbacks
        if each.call in ids and not each.threaded and each.hook in BATCH_HOOKS
    )
    return nested / 1e9 / max(1, sum(int(steps.count.sum()) for _, steps in seen))


def _epoch_looks(capture: Capture, call: Call, steps: Steps, saving_s: float) -> list[Look]:
    """Return what each complete epoch took outside of its steps.

    `saving_s`: seconds per step that go into saving after batches, which is no part of either.
    """
    epochs = [each for each in capture.epochs if each.call == call.id]
    looks = []
    for here, after in itertools.zip_longest(epochs, epochs[1:]):
        end = after.start_ns if after is not None else here.end_ns
        if end is None or here.steps_end_ns is None:
            continue
        mine = steps.epoch == here.epoch
        inside = float(steps.wall_ns[mine].sum())
        saved = saving_s * 1e9 * float(steps.count[mine].sum())
        # Keras validates right behind the steps; a callback that predicts comes after it.
        validated_ns = min(end, here.steps_end_ns + here.validation_ns)
        validation = here.validation_ns - _compiling(capture.compiles, here.steps_end_ns, validated_ns)
        first = _compiling(capture.compiles, here.start_ns, here.steps_end_ns)
        behind = _compiling(capture.compiles, validated_ns, end) + max(0.0, -validation)
        outside = end - here.start_ns - inside - here.validation_ns - saved - first - behind
        frees = call.info.get("backend") == "tensorflow"
        freeing = min(max(0.0, outside), _at_its_beginning(steps, mine) - first) if frees else 0.0
        looks.append(Look(max(0.0, validation) / 1e9, max(0.0, outside) / 1e9, max(0.0, freeing) / 1e9))
    return looks


def _at_its_beginning(steps: Steps, mine: Mask) -> float:
    """Return the nanoseconds from the start of an epoch's first row to that of its second that are no step's."""
    if int(mine.sum()) < 2:
        return 0.0
    start, wall = steps.start_ns[mine][:2], steps.wall_ns[mine][:1]
    return float(start[1] - start[0] - wall[0])


def _compiling(compiles: Sequence[Compile], start: int, end: int) -> float:
    """Tracing happens once, not every epoch."""
    return float(sum(each.duration_ns for each in compiles if start <= each.start_ns < end))
