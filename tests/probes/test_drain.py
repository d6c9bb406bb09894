"""Which steps of an asynchronous backend are sampled."""

from __future__ import annotations

from fitdoctor.model import Site
from fitdoctor.probes import account as acc
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.drain import AGAIN_SAMPLES, EARLY_SAMPLES, MOST_TIMES, Drainer
from fitdoctor.probes.recorder import Nowhere, Recorder
from fitdoctor.probes.steps import Tracker


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def made() -> tuple[Recorder, Tracker, Drainer, Clock]:
    clock = Clock()
    recorder = Recorder(Nowhere(), 0, clock)
    tracker = Tracker(recorder)
    return recorder, tracker, Drainer(tracker, lambda result: None), clock


def trained(tracker: Tracker, drainer: Drainer, clock: Clock, steps: int) -> ActiveCall:
    """Train with a new train function, as the probe of `fit` does: a step of a millisecond each."""
    drainer.renew()
    call = tracker.begin("fit", Site("train.py", 3), acc.SETUP)
    assert call is not None
    call.warmth = [0]
    tracker.loop_started(call, 0)
    for _ in range(steps):
        clock.now += 1_000_000
        drainer.countdown -= 1
        if drainer.countdown <= 0:
            drainer.run(lambda: None, (), call)
        tracker.step_done(call)
    tracker.loop_ended(call)
    tracker.end(call, 1)
    return call


def sampled(recorder: Recorder, call: ActiveCall) -> int:
    return sum(row[0] == call.id for row in recorder._rows.get("drained", []))


def test_a_second_training_with_another_train_function_is_sampled_too() -> None:
    """A head is trained, then all of the model: what a step takes then, steps of the first do not tell."""
    recorder, tracker, drainer, clock = made()
    head = trained(tracker, drainer, clock, 200)
    assert sampled(recorder, head) == EARLY_SAMPLES
    whole = trained(tracker, drainer, clock, 200)
    assert sampled(recorder, whole) == AGAIN_SAMPLES


def test_not_every_one_of_many() -> None:
    recorder, tracker, drainer, clock = made()
    calls = [trained(tracker, drainer, clock, 60) for _ in range(MOST_TIMES + 20)]
    assert all(sampled(recorder, call) > 0 for call in calls[:MOST_TIMES])
    assert sum(sampled(recorder, call) for call in calls[MOST_TIMES:]) <= 20 * 60 / 400 + 1
