"""More workers make a `PyDataset` faster.

The same `PyDataset` with one worker and with four threads, given to the same training.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from claims_kit import Case, compiled, dense_net, rows, training

SAID = (
    "https://github.com/GantMan/nsfw_model/issues/13",
    "https://github.com/WeidiXie/VGG-Speaker-Recognition/issues/39",
)
BATCHES, BATCH = 60, 64


def cases() -> Iterator[Case]:
    import keras

    x, y = rows(BATCHES * BATCH)

    class Batches(keras.utils.PyDataset):
        def __init__(self, work, **options):
            super().__init__(**options)
            self.work = work

        def __len__(self):
            return BATCHES

        def __getitem__(self, at):
            self.work()
            return x[at * BATCH : (at + 1) * BATCH], y[at * BATCH : (at + 1) * BATCH]

    model = compiled(dense_net())
    for name, work in {
        "batches that wait 10 ms for a store": lambda: time.sleep(0.01),  # the round trip to a remote store
        "batches that compute 10 ms in Python": lambda: sum(i * i for i in range(130_000)),
        "batches that cost nothing": lambda: None,
    }.items():
        yield Case(
            name,
            training(model, Batches(work, workers=1), steps=BATCHES),
            training(model, Batches(work, workers=4, use_multiprocessing=False), steps=BATCHES),
        )
