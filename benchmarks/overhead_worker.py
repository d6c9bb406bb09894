"""Train with and without an observer in turns, in one process; write the paired times as JSON.

usage: overhead_worker.py OBSERVER SIZE SECONDS

OBSERVER is `fitdoctor` (start it with `fitdoctor run --whole`), `traceml` (start it with `traceml run`; a torch loop
around a Keras model) or `tensorboard` (Keras's own profiling callback).  SIZE is `small` (a step of about 1 ms) or
`large` (about 50 ms).

On a shared machine the same step takes 10 to 20 % longer or shorter from one half second to the next, and two `fit`
calls differ by a few per cent for no better reason than where their buffers lie.  So observed and plain steps take
turns one by one inside one `fit`, on one model and one compiled train function, in pairs of random order: before every
step the hooks are put in place or taken away.  What works beside the steps (the thread that writes the capture, the
launcher that samples) cannot be switched so fast: the CPU time it takes is counted in full, as if every step waited
for it.

TensorBoard profiles a stretch of steps: its blocks take turns with plain ones.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np

OBSERVER, SIZE, SECONDS = sys.argv[1], sys.argv[2], float(sys.argv[3])
BACKEND = keras.config.backend()
BLOCK_SECONDS = 1.0
SETTLING_SECONDS = 6.0
"""The first seconds are watched more closely (clocks all the time, no rests): they are not what a long run costs."""
EPOCH_BEGIN_STEPS = 6
"""Left out: the first steps of an epoch find an empty prefetch buffer."""
WIDTHS = {"small": (64, 2), "large": (1024, 6)}
ROWS = 32 if SIZE == "small" else 64
"""Samples in a batch; scaled to the time a step should take once it was timed."""
TARGET_SECONDS = {"small": 0.001, "large": 0.05}[SIZE]
IN_EVERY_STEP = {
    "on_train_batch_end", "pythonify_logs", "__call__", "apply", "stateless_apply", "__next__", "_next_internal",
    "get_next_as_optional", "_numpy", "_value", "item", "block_until_ready",
}  # fmt: skip
"""Names of what fitdoctor replaces and a step may pass through."""

rng = np.random.default_rng(0)


def build() -> keras.Model:
    width, depth = WIDTHS[SIZE]
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(width, activation="relu") for _ in range(depth)]
    model = keras.Sequential([keras.Input((width,)), *layers, keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


def rows(steps: int) -> tuple[np.ndarray, np.ndarray]:
    x = rng.standard_normal((ROWS, WIDTHS[SIZE][0]), dtype="float32")
    return np.tile(x, (steps, 1)), np.tile(x[:, :1], (steps, 1))


def calibrate(block: Callable[[int], float]) -> int:
    """Scale the batch of the large step to the time it should take; return how many steps make a block."""
    global ROWS
    block(20)
    for _ in range(6):
        # A short step is made longer only: much of it does not depend on the batch.
        ROWS = max(32 if SIZE == "small" else 8, round(ROWS * TARGET_SECONDS / block(50 if SIZE == "small" else 10)))
        block(10)
    return max(10, int(BLOCK_SECONDS / block(20)))


# --- turns, step by step -------------------------------------------------------------------------------


class Turns:
    """Times steps one by one and chooses whether the next is observed: pairs in random order."""

    def __init__(self, switch: Callable[[bool], None], wait: Callable[[], None], rare: Callable[[], bool]) -> None:
        self.switch, self.wait, self.rare = switch, wait, rare
        self.steps: list[tuple[int, float, bool]] = []
        """Whether observed, seconds, whether fitdoctor did more than it does in every step."""
        self._next: list[int] = []

    def steps_of(self, epoch: Iterator[Any]) -> Iterator[Any]:
        """Hand on an epoch's steps; each lasts until the next is asked for."""
        self._next = []
        for number, step in enumerate(epoch):
            if not self._next:
                self._next = random.choice(([0, 1], [1, 0]))
            observed = self._next.pop()
            self.switch(bool(observed))
            start = time.perf_counter()
            yield step
            self.wait()
            seconds = time.perf_counter() - start
            rare = self.rare()
            self.switch(False)
            if number >= EPOCH_BEGIN_STEPS:
                self.steps.append((observed, seconds, rare))


class Fitdoctor:
    """The observation that `fitdoctor run` started: its hooks around every step can be taken away and put back."""

    def __init__(self, model: keras.Model) -> None:
        from fitdoctor.capture import session
        from fitdoctor.probes import fit

        found = session.current()
        if found is None:
            raise SystemExit("start this with `fitdoctor run --whole`")
        self.session, self.model = found, model
        self.hooks = [each for each in found.patches._undo if each[1] in IN_EVERY_STEP]
        self.state = [ours for *_, ours in self.hooks]
        """What an observed step finds: in its rests fitdoctor takes some of its hooks away by itself."""
        self.on = True
        self._attention = 0.0
        observer = self

        class Switched(fit.TimedIterable):
            """Fetches through fitdoctor's iterator or past it."""

            def __iter__(self) -> Iterator[Any]:
                plain = iter(self._source)
                seen = iter(fit_timed(plain, self._tracker))
                while True:
                    try:
                        batch = next(seen) if observer.on else next(plain)
                    except StopIteration:
                        return
                    yield batch

        fit_timed = fit.TimedIterable
        fit.TimedIterable = Switched  # type: ignore[misc]

    def ready(self) -> None:
        """Call once the model has its train function, under observation."""
        own = _own(self.model.train_function)
        self.hooks.append((self.model, "train_function", own, self.model.train_function))
        self.state.append(self.model.train_function)

    def switch(self, on: bool) -> None:
        for number, (owner, name, original, ours) in enumerate(self.hooks):
            there = vars(owner)[name]
            # After an observed step: as fitdoctor left it.  After a plain one: it may have woken meanwhile.
            if self.on or there is ours:
                self.state[number] = there
            new = self.state[number] if on else original
            if owner is self.model:
                vars(owner)[name] = new
            else:
                setattr(owner, name, new)
        self.on = on

    def rare(self) -> bool:
        """Tell whether it looked at something since it was asked last."""
        before, self._attention = self._attention, self.session.tracker._attention_ns
        return before != self._attention

    def background(self) -> float:
        """Return CPU seconds so far of what works beside the steps: the launcher, and our threads in this process."""
        ours = [str(thread) for thread in _own_threads()]
        return _cpu_seconds(os.getppid(), None) + _cpu_seconds(os.getpid(), ours)


def _own_threads() -> list[int]:
    import threading

    return [t.native_id for t in threading.enumerate() if t.name.startswith("fitdoctor") and t.native_id]


def _cpu_seconds(process: int, threads: list[str] | None) -> float:
    tasks = Path(f"/proc/{process}/task")
    names = [each.name for each in tasks.iterdir()] if threads is None else threads
    return sum(int((tasks / name / "schedstat").read_text().split()[0]) for name in names) / 1e9


def _own(function: Callable[..., object]) -> Callable[..., object]:
    """Return Keras's own train function, without what an observer put around it."""
    for name in ("fitdoctor_original", "keras_own"):
        function = getattr(function, name, function)
    return function


def _wait_for(model: keras.Model, observer: Fitdoctor) -> Callable[[], None]:
    """Return what waits for the step's results, where a step only launches them."""
    if BACKEND != "jax":
        return lambda: None
    # JAX's own, past the observation.
    ready = next(original for _, name, original, _ in observer.hooks if name == "block_until_ready")

    def wait() -> None:
        ready(model._jax_state["metrics_variables"][0])

    return wait


def fits() -> dict[str, Any]:
    from keras.src.trainers.epoch_iterator import EpochIterator

    model = build()
    observer = Fitdoctor(model)

    def block(count: int) -> float:
        start = time.perf_counter()
        model.fit(*rows(count), batch_size=ROWS, epochs=1, shuffle=False, verbose=0)
        return (time.perf_counter() - start) / count

    steps = calibrate(block)
    data = rows(steps)
    model.fit(*data, batch_size=ROWS, epochs=int(SETTLING_SECONDS / BLOCK_SECONDS), shuffle=False, verbose=0)
    observer.ready()
    turns = Turns(observer.switch, _wait_for(model, observer), observer.rare)
    inner = EpochIterator._enumerate_iterator

    def _enumerate_iterator(iterator: Any) -> Iterator[Any]:
        # The last thing `fit` does with the epoch is to ask for one more step.
        yield from turns.steps_of(inner(iterator))
        observer.switch(True)

    EpochIterator._enumerate_iterator = _enumerate_iterator
    start, busy = time.perf_counter(), observer.background()
    while time.perf_counter() - start < SECONDS:
        model.fit(*data, batch_size=ROWS, epochs=5, shuffle=False, verbose=0)
    share = (observer.background() - busy) / (time.perf_counter() - start)
    return {**paired(turns.steps), "beside": share}


def paired(steps: list[tuple[int, float, bool]]) -> dict[str, Any]:
    """Lay neighbours side by side; a step that lacks its neighbour is left out."""
    found: dict[str, Any] = {"plain": [], "seen": [], "rare": []}
    number = 0
    while number + 1 < len(steps):
        one, other = steps[number], steps[number + 1]
        if one[0] == other[0]:
            number += 1
            continue
        plain, seen = (one, other) if other[0] else (other, one)
        found["plain"].append(plain[1])
        found["seen"].append(seen[1])
        found["rare"].append(seen[2])
        number += 2
    return found


def torch_loops() -> dict[str, Any]:
    """TraceML has no Keras integration: its own step context around a torch loop on a Keras model."""
    import torch
    import traceml_ai as traceml

    traceml.init(mode="auto")
    model = build()
    optimizer = torch.optim.Adam(model.parameters())

    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        ((model(x) - x[:, :1]) ** 2).mean().backward()
        optimizer.step()

    def batch() -> torch.Tensor:
        return torch.from_numpy(rng.standard_normal((ROWS, WIDTHS[SIZE][0]), dtype="float32"))

    def block(count: int) -> float:
        x = batch()
        start = time.perf_counter()
        for _ in range(count):
            step(x)
        return (time.perf_counter() - start) / count

    steps = calibrate(block)
    observed: list[bool] = [False]
    turns = Turns(lambda on: observed.__setitem__(0, on), lambda: None, lambda: False)
    x = batch()
    for _ in turns.steps_of(iter(range(int(SECONDS / BLOCK_SECONDS * steps)))):
        with traceml.trace_step(model) if observed[0] else contextlib.nullcontext():
            step(x)
    return {**paired(turns.steps), "beside": 0.0}


# --- turns, block by block -----------------------------------------------------------------------------


def blocks() -> dict[str, Any]:
    """Keras's own profiling: a TensorBoard callback that profiles a whole block."""
    model = build()

    def block(data: tuple[np.ndarray, np.ndarray], callbacks: list[keras.callbacks.Callback]) -> float:
        times: list[float] = []

        class Edges(keras.callbacks.Callback):
            # What a `fit` costs as a whole stays out.
            def on_epoch_begin(self, epoch, logs=None):
                times.append(time.perf_counter())

            def on_epoch_end(self, epoch, logs=None):
                times.append(time.perf_counter())

        model.fit(*data, batch_size=ROWS, epochs=1, shuffle=False, verbose=0, callbacks=[*callbacks, Edges()])
        return (times[1] - times[0]) / (len(data[0]) // ROWS)

    data = rows(calibrate(lambda count: block(rows(count), [])))
    found: dict[str, Any] = {"plain": [], "seen": [], "beside": 0.0}
    for pair in range(max(6, int(SECONDS / BLOCK_SECONDS / 4))):
        for which in ("plain", "seen") if pair % 2 else ("seen", "plain"):
            folder = tempfile.mkdtemp()
            profiling = keras.callbacks.TensorBoard(folder, profile_batch=(2, 10_000), write_graph=False)
            found[which].append(block(data, [profiling] if which == "seen" else []))
            shutil.rmtree(folder, ignore_errors=True)
    return {**found, "rare": [False] * len(found["plain"])}


MEASURED = {"fitdoctor": fits, "traceml": torch_loops, "tensorboard": blocks}
result = MEASURED[OBSERVER]()
with open(os.environ["OVERHEAD_RESULT"], "w") as file:
    json.dump(result, file)
