"""What a hook of a callback is said to cost: its own work, not what others count already."""

from __future__ import annotations

from typing import Any

from fitdoctor.probes import account as acc
from fitdoctor.probes.callbacks import CallbackTimer
from fitdoctor.probes.recorder import Nowhere, Recorder


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


class Scores:
    """Predicts at the end of an epoch, which compiles the first time; saves, and validates."""

    def __init__(self, recorder: Recorder, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock

    def on_train_end(self, logs: Any = None) -> None:
        self.on_epoch_end(0)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        account = self._recorder.account
        for bucket, took in ((acc.COMPILING, 500 if epoch == 0 else 0), (acc.VALIDATION, 30), (acc.SAVING, 7)):
            account.enter(bucket)
            self._clock.now += took
            account.leave()
        self._clock.now += 100


def test_what_is_compiled_or_validated_inside_of_a_hook_is_no_saving() -> None:
    clock = Clock()
    recorder = Recorder(Nowhere(), 0, clock)
    scores = Scores(recorder, clock)
    timer = CallbackTimer(recorder, 1, [scores])
    for epoch in range(3):
        scores.on_epoch_end(epoch)
    timer.detach()
    time = timer._times["Scores", "on_epoch_end", False]
    assert time.self_ns == 3 * 100
    assert time.total_ns - time.self_ns == 3 * 7, "saving"
    assert time.max_ns == 107


def test_what_is_evaluated_once_the_training_is_over_is_the_hooks() -> None:
    clock = Clock()
    recorder = Recorder(Nowhere(), 0, clock)
    scores = Scores(recorder, clock)
    timer = CallbackTimer(recorder, 1, [scores])
    del scores.__dict__["on_epoch_end"]
    scores.on_train_end()
    time = timer._times["Scores", "on_train_end", False]
    assert (time.self_ns, time.total_ns) == (130, 137)
