"""The losses of the first steps: read where waiting for them is counted for no time."""

from __future__ import annotations

from typing import Any

from fitdoctor.probes import account as acc
from fitdoctor.probes.callback_list import CallbackListProbe
from fitdoctor.probes.install import Patches
from fitdoctor.probes.recorder import Nowhere, Recorder
from fitdoctor.probes.steps import Tracker


class Loss:
    """A result that a device still works on."""

    waited = 0

    def __float__(self) -> float:
        Loss.waited += 1
        return 0.5


def nothing(*_: Any) -> None:
    return None


def test_those_of_a_second_fit_with_the_same_train_function_are_not_waited_for() -> None:
    recorder = Recorder(Nowhere(), 0)
    tracker = Tracker(recorder)
    tracker.on_step = nothing
    ends = CallbackListProbe(tracker, Patches(recorder), nothing, nothing).batch_end(nothing)
    kept, warmth = [], [0]
    for _ in range(2):
        depth = tracker.account.depth
        call = tracker.begin("fit", None, acc.SETUP)
        assert call is not None
        call.told, call.warmth = 0, warmth
        tracker.loop_started(call, 0)
        tracker.account.switch(acc.LOOP)
        for batch in range(5):
            ends(None, batch, {"loss": Loss()})
        tracker.end(call, depth)
        kept.append(call.info.get("first_losses"))
    assert kept == [[[0, 1, 0.5], [0, 2, 0.5]], None]
    assert Loss.waited == 2
