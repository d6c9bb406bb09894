"""How long the device really computes, where launching returns before the work is done.

Timing a launch on an asynchronous backend measures nothing; waiting for every step would change the run.  So a few
steps are sampled: the device is idle before them and awaited after them.  The waiting before belongs to the steps that
launched the work, and is counted to them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from fitdoctor.model import Steps
from fitdoctor.probes import account as acc
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.install import hide
from fitdoctor.probes.steps import Tracker

EARLY_SAMPLES = 16
AGAIN_SAMPLES, MOST_TIMES = 8, 20
"""Early samples of each train function that follows the first, and of how many of them: each may be another model."""
EARLY_EVERY = 5
LATE_EVERY = 400
LATE_SECONDS = 0.5


class Drainer:
    """Samples steps of an asynchronous backend."""

    def __init__(self, tracker: Tracker, wait: Callable[[Any], None]) -> None:
        self._tracker = tracker
        self._wait = wait
        self._samples = 0
        self._early = EARLY_SAMPLES
        self._functions = 0
        self._last_ns = 0
        self.countdown = EARLY_EVERY
        """Train function calls until the next one that may be sampled."""
        tracker.drain = self._drain

    @classmethod
    def of(cls, backend: str, tracker: Tracker) -> Drainer | None:
        """Return one where launching and computing are two things, None where they are one."""
        wait = waiting(backend)
        return None if wait is None else cls(tracker, wait)

    def renew(self) -> None:
        """Sample early again: another train function follows, whose steps may be quite different ones."""
        self._functions += 1
        if 1 < self._functions <= MOST_TIMES:
            self._samples, self._early = 0, AGAIN_SAMPLES
            self.countdown = EARLY_EVERY

    def run(self, original: Any, args: tuple[Any, ...], call: ActiveCall) -> Any:
        """Run one train function call with the device awaited before and after, if the time for it has come."""
        tracker = self._tracker
        account = tracker.account
        clock = tracker.recorder.clock
        early = self._samples < self._early
        self.countdown = EARLY_EVERY if early else LATE_EVERY
        sampled = call.warmth[0] >= 2 and (early or clock() - self._last_ns >= LATE_SECONDS * 1e9)
        if sampled and call.last_result is not None:
            tracker.settle_device(call)
        if not sampled:
            account.enter(acc.RUN)
            try:
                result = original(*args)
            except BaseException as error:
                hide(error)
                raise
            finally:
                account.leave()
            call.last_result = light(result)
            return result
        tracker.fold()
        tracker.flag_next(Steps.DRAINED)
        fetched = account.totals[acc.FETCH]
        start = account.enter(acc.RUN)
        try:
            result = original(*args)
            launched = clock()
            self._await(result)
        except BaseException as error:
            hide(error)
            raise
        finally:
            done = account.leave()
        fetched = account.totals[acc.FETCH] - fetched
        call.last_result = None
        self._samples += 1
        self._last_ns = done
        tracker.recorder.add("drained", (call.id, call.step, launched - start - fetched, done - start - fetched))
        return result

    def _drain(self, result: Any) -> None:
        self._wait(light(result))

    def _await(self, result: Any) -> None:
        try:
            self._wait(light(result))
        except Exception as error:
            self._tracker.recorder.fail("drain", error)


def light(result: Any) -> Any:
    """Return the smallest part of a train function's result that is ready only when all of it is.

    Only this is kept until the next step: it does not keep a model's whole state alive.
    """
    return result[0] or result if type(result) is tuple and result else result


def waiting(backend: str) -> Callable[[Any], None] | None:
    """Return how to wait for work that was only launched, None where launching returns when it is done."""
    if backend == "jax":
        return _wait_jax
    if backend == "torch" and _accelerated_torch():
        return _wait_torch
    if backend == "tensorflow" and _accelerated_tensorflow():
        return _wait_tensorflow
    return None


def _wait_jax(result: Any) -> None:
    sys.modules["jax"].block_until_ready(result)


def _wait_torch(result: Any) -> None:
    torch = sys.modules["torch"]
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    elif torch.backends.mps.is_available():
        torch.mps.synchronize()


def _wait_tensorflow(result: Any) -> None:
    sys.modules["tensorflow"].test.experimental.sync_devices()


def _accelerated_torch() -> bool:
    torch = sys.modules["torch"]
    return bool(torch.cuda.is_available() or torch.backends.mps.is_available())


def _accelerated_tensorflow() -> bool:
    return bool(sys.modules["tensorflow"].config.list_physical_devices("GPU"))
