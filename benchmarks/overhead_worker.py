"""Train in short blocks, with and without an observer in turns, in one process; print the paired block times as JSON.

usage: overhead_worker.py OBSERVER SIZE PAIRS

OBSERVER is `fitdoctor` (start it with `fitdoctor run --whole`), `tensorboard` (Keras's own profiling callback) or
`traceml` (start it with `traceml run`; a torch loop around a Keras model).  SIZE is `small` (a step of about 1 ms) or
`large` (about 50 ms).  One model and, where the observer only wraps it, one compiled train function serve both kinds of
blocks: two models of the same shape, or one step compiled twice, differ by a few per cent of a short step for no better
reason than where they lie in memory.  For the same reason one process does not tell: `overhead.py` runs several.
Blocks are counted after the first six seconds under observation, which are watched more closely than a long run is.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable

import keras
import numpy as np

OBSERVER, SIZE, PAIRS = sys.argv[1], sys.argv[2], int(sys.argv[3])
BACKEND = keras.config.backend()
BLOCK_SECONDS = 1.0
"""As long as the rhythm of what happens once a second: flushing, sampling from beside."""
SETTLING_BLOCKS = 6
WIDTHS = {"small": (64, 2), "large": (1024, 6)}
ROWS = 32 if SIZE == "small" else 64
"""Samples in a batch; scaled to the time a step should take once it was timed."""
TARGET_SECONDS = {"small": 0.001, "large": 0.05}[SIZE]

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


class Fitdoctor:
    """Attach and detach the observation that `fitdoctor run` started."""

    def __init__(self) -> None:
        from fitdoctor.capture import session

        found = session.current()
        if found is None:
            raise SystemExit("start this with `fitdoctor run --whole`")
        self.session = found
        self.off()

    def on(self) -> None:
        # The launcher watches from beside, on the same cores: it belongs to what is measured.
        os.kill(os.getppid(), signal.SIGCONT)
        self.session.watch.install()
        for probe in self.session.probes:
            probe.attach(self.session.watch)

    def off(self) -> None:
        self.session.patches.undo()
        self.session.watch.uninstall()
        os.kill(os.getppid(), signal.SIGSTOP)

    def end(self) -> None:
        os.kill(os.getppid(), signal.SIGCONT)

    def callbacks(self) -> list[keras.callbacks.Callback]:
        return []


class TensorBoard:
    """Keras's own profiling: a TensorBoard callback that profiles the whole block."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp()

    def on(self) -> None: ...

    def off(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def end(self) -> None: ...

    def callbacks(self) -> list[keras.callbacks.Callback]:
        return [keras.callbacks.TensorBoard(self.folder, profile_batch=(2, 10_000), write_graph=False)]


def fit_block(
    model: keras.Model, data: tuple[np.ndarray, np.ndarray], callbacks: list[keras.callbacks.Callback]
) -> float:
    """Return seconds per step: between the epoch's begin and end, so that what a `fit` costs as a whole stays out."""
    times: list[float] = []

    class Edges(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            times.append(time.perf_counter())

        def on_epoch_end(self, epoch, logs=None):
            times.append(time.perf_counter())

    model.fit(*data, batch_size=ROWS, epochs=1, shuffle=False, verbose=0, callbacks=[*callbacks, Edges()])
    return (times[1] - times[0]) / (len(data[0]) // ROWS)


def calibrate(block: Callable[[int], float]) -> int:
    """Scale the batch of the large step to the time it should take; return how many steps make a block."""
    global ROWS
    block(20)
    for _ in range(6):
        # A short step is made longer only: much of it does not depend on the batch.
        ROWS = max(32 if SIZE == "small" else 8, round(ROWS * TARGET_SECONDS / block(50 if SIZE == "small" else 10)))
        block(10)
    return max(6, int(BLOCK_SECONDS / block(20)))


def _own(function: Callable[..., object]) -> Callable[..., object]:
    """Return Keras's own train function, without what an observer put around it."""
    for name in ("fitdoctor_original", "keras_own"):
        function = getattr(function, name, function)
    return function


def fits() -> tuple[list[float], list[float]]:
    observer = {"fitdoctor": Fitdoctor, "tensorboard": TensorBoard}[OBSERVER]()
    model = build()
    observer.off()
    steps = calibrate(lambda count: fit_block(model, rows(count), []))
    data = rows(steps)
    observer.on()
    if BACKEND == "tensorflow" and OBSERVER == "fitdoctor":
        # Made again under observation: its clocks run inside a twin of the train function.
        model.train_function = None
    # The first seconds are watched more closely (clocks all the time, no rests): they are not what a long run costs.
    for _ in range(SETTLING_BLOCKS if OBSERVER == "fitdoctor" else 1):
        fit_block(model, data, observer.callbacks())
    functions = [_own(model.train_function), model.train_function]
    observer.off()
    times: tuple[list[float], list[float]] = ([], [])
    for pair in range(PAIRS):
        for which in (0, 1) if pair % 2 else (1, 0):
            model.train_function = functions[which]
            if which:
                observer.on()
            times[which].append(fit_block(model, data, observer.callbacks() if which else []))
            if which:
                observer.off()
    observer.end()
    return times


def torch_loops() -> tuple[list[float], list[float]]:
    """TraceML has no Keras integration: its own step context around a torch loop on a Keras model."""
    import torch
    import traceml_ai as traceml

    traceml.init(mode="auto")
    model = build()
    optimizer = torch.optim.Adam(model.parameters())

    def batch() -> torch.Tensor:
        return torch.from_numpy(rng.standard_normal((ROWS, WIDTHS[SIZE][0]), dtype="float32"))

    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        ((model(x) - x[:, :1]) ** 2).mean().backward()
        optimizer.step()

    def block(steps: int, observed: bool) -> float:
        x = batch()
        start = time.perf_counter()
        for _ in range(steps):
            if observed:
                with traceml.trace_step(model):
                    step(x)
            else:
                step(x)
        return (time.perf_counter() - start) / steps

    steps = calibrate(lambda count: block(count, False))
    block(steps, True)
    times: tuple[list[float], list[float]] = ([], [])
    for pair in range(PAIRS):
        for which in (0, 1) if pair % 2 else (1, 0):
            times[which].append(block(steps, bool(which)))
    return times


plain_times, seen_times = torch_loops() if OBSERVER == "traceml" else fits()
with open(os.environ["OVERHEAD_RESULT"], "w") as file:
    json.dump({"plain": plain_times, "seen": seen_times}, file)
