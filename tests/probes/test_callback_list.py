"""What Keras's list of callbacks tells of the first steps, without Keras."""

from __future__ import annotations

from typing import Any

import pytest

from fitdoctor.probes.callback_list import CallbackListProbe
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.install import Patches
from fitdoctor.probes.recorder import Nowhere, Recorder
from fitdoctor.probes.steps import Tracker


class List:
    """Keras's list of callbacks."""

    model = None
    callbacks: tuple[Any, ...] = ()


def trained(
    tracker: Tracker, epochs: int, steps: int, *, at_once: int = 1, tells_last: bool = True
) -> list[list[float]] | None:
    """Train as Keras does: some versions tell the first of several steps that are made at once, others the last."""
    call = tracker.begin("fit", None, None)
    assert call is not None

    def begin(model: Any) -> ActiveCall:
        call.steps_per_row = at_once
        return call

    probe = CallbackListProbe(tracker, Patches(tracker.recorder), begin, lambda: None)
    told = probe.batch_end(lambda callbacks, batch, logs: None)
    probe._begin_training(List())
    for epoch in range(epochs):
        tracker.loop_started(call, epoch)
        for step in range(0, steps, at_once):
            told(List(), step + at_once - 1 if tells_last else step, {"loss": step + at_once})
        tracker.loop_ended(call)
    probe.end(call)
    tracker.end(call, tracker.account.depth)
    return call.info.get("first_losses")


@pytest.fixture
def tracker() -> Tracker:
    tracker = Tracker(Recorder(Nowhere(), 0))
    tracker.recorder.live = True
    tracker.on_step = lambda call: None
    return tracker


@pytest.mark.parametrize("tells_last", [True, False])
def test_several_steps_at_once_have_the_number_of_the_last(tracker: Tracker, tells_last: bool) -> None:
    assert trained(tracker, 1, 16, at_once=4, tells_last=tells_last) == [[0, 4, 4.0], [0, 8, 8.0]]


def test_only_the_first_training_of_a_run_tells(tracker: Tracker) -> None:
    """Later ones have weights that were trained, and their first steps are steady ones: nothing may wait in them."""
    assert trained(tracker, 2, 1) == [[0, 1, 1.0], [1, 2, 1.0]]
    assert trained(tracker, 1, 8) is None


def test_a_training_that_goes_on_tells_nothing(tracker: Tracker) -> None:
    tracker.on_step = None
    assert trained(tracker, 1, 8) is None
