"""What our hooks cost a step: the very hooks replayed around nothing, with warm and with cold caches.

Between two steps of a real training the model's own work empties the caches, so that the same few lines of Python take
several times as long as in a tight loop.  The truth lies between the two.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

from fitdoctor.probes import account as acc
from fitdoctor.probes.callback_list import CallbackListProbe
from fitdoctor.probes.fetch import timed
from fitdoctor.probes.fit import FitProbe
from fitdoctor.probes.install import Patches
from fitdoctor.probes.recorder import Nowhere, Recorder
from fitdoctor.probes.steps import UNSTEADY_STEPS, Tracker

WARM_STEPS = 300
WARM_TIMES = 5
COLD_STEPS = 50
CACHE_BYTES = 16 << 20


def overhead(tracker: Tracker, backend: str | None) -> dict[str, Any]:
    """Say what observing cost this very run, from what its own hooks take when replayed."""
    account = tracker.account
    # Where steps compile again and again, hardly any is a steady one.
    steps = max(1, tracker.steady_steps, tracker.later_steps)
    # On TensorFlow the batch is fetched inside the step: no hook of ours there.
    fetches = backend != "tensorflow"
    rested = tracker.rested_steps / steps
    awake = per_step_ns(fetches=fetches)
    asleep = per_step_ns(fetches=fetches, resting=True, keeps=tracker.drain is not None) if rested else (0.0, 0.0)
    warm, cold = ((1 - rested) * up + rested * down for up, down in zip(awake, asleep, strict=True))
    # Turns of the stack cost about as much as a step's hooks: callbacks by name, hand-written loops.
    turns = (account.turns - tracker.turns_before) / steps
    own = account.totals[acc.OWN] / steps
    low, high = (own + each * (1 + turns) for each in (warm, cold))
    later = account.totals[acc.COMPILING] - tracker.compiled_before
    step = max(1.0, (account.totals[acc.STEADY] + later) / steps)
    how = "our hooks replayed in this process with warm and with cold caches, and what they were seen to wait for"
    if backend == "tensorflow":
        how += "; clocks inside compiled steps not included"
    return {
        "us_per_step": (low + high) / 2e3,
        "us_per_step_low": low / 1e3,
        "us_per_step_high": high / 1e3,
        "fraction": (low + high) / 2 / step,
        "how": how,
    }


def per_step_ns(*, fetches: bool, resting: bool = False, keeps: bool = False) -> tuple[float, float]:
    """Return what one ordinary step's hooks take with warm and with cold caches.

    `fetches`: batches come in Python.  `resting`: the steps are only counted.  `keeps`: their results are kept even so.
    """
    step, plain = _steps(fetches=fetches, resting=resting, keeps=keeps)
    warm = max(0.0, min(_warm(step) for _ in range(WARM_TIMES)) - min(_warm(plain) for _ in range(WARM_TIMES)))
    return warm, max(warm, _cold(step) - _cold(plain))


def _steps(*, fetches: bool, resting: bool, keeps: bool) -> tuple[Callable[[], None], Callable[[], None]]:
    """Make a step with our hooks around nothing, and the same nothing without them."""
    recorder = Recorder(Nowhere(), time.perf_counter_ns())
    tracker = Tracker(recorder)
    patches = Patches(recorder)
    fit = FitProbe(tracker, patches, _nothing)
    call = tracker.begin("fit", None, acc.SETUP)
    if call is None:
        raise RuntimeError("the probe of steps does not begin")
    call.warmth = [UNSTEADY_STEPS]
    tracker.loop_started(call, 0)
    tracker.account.switch(acc.LOOP)
    batches: Any = itertools.repeat(None)
    fetch = timed(batches, tracker).__next__ if fetches else _nothing
    run = fit.timed_run(_nothing)
    end = CallbackListProbe(tracker, patches, _nothing, _nothing).batch_end(_nothing)
    if resting:
        tracker.resting = True
        run, end = run if keeps else _nothing, _nothing

    def step() -> None:
        fetch()
        run(None)
        end(None, 0, None)

    def plain() -> None:
        next(batches)
        _nothing(None)
        _nothing(None, 0, None)

    return step, plain


def _nothing(*_: Any) -> None:
    return None


def _warm(step: Callable[[], None]) -> float:
    start = time.perf_counter_ns()
    for _ in range(WARM_STEPS):
        step()
    return (time.perf_counter_ns() - start) / WARM_STEPS


def _cold(step: Callable[[], None]) -> float:
    """Return the median time of a step after something else has used the caches."""
    other = bytearray(CACHE_BYTES)
    times = []
    for _ in range(COLD_STEPS):
        other[::64] = other[::64]
        start = time.perf_counter_ns()
        step()
        times.append(time.perf_counter_ns() - start)
    return float(sorted(times)[COLD_STEPS // 2])
