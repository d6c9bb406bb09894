"""Loaders are watched: what a batch takes, what lies ready, what workers cost to start and stop."""

from __future__ import annotations

import pytest

from fitdoctor.probes.loaders import MOST_DEPTHS, LoaderTimes
from tests.conftest import Doctor

SCRIPT = """
import keras
import numpy as np
import sys

KIND = sys.argv[1]
x = np.random.default_rng(0).standard_normal((96, 6)).astype("float32")
y = x[:, :1]


class Rows(keras.utils.PyDataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        rows = slice(index * 8, index * 8 + 8)
        total = sum(step * step for step in range(20_000))
        return x[rows] + 0 * (total % 2), y[rows]


def loader(**settings):
    import torch

    rows = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    return torch.utils.data.DataLoader(rows, batch_size=8, **settings)


data = {
    "one": lambda: Rows(),
    "threads": lambda: Rows(workers=2),
    "loader": lambda: loader(),
    "processes": lambda: loader(num_workers=2),
}[KIND]()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=4, verbose=0)
"""


def test_depths_are_thinned_not_cut() -> None:
    times = LoaderTimes()
    for number in range(4 * MOST_DEPTHS):
        times.ready(number // MOST_DEPTHS, early=False)
    kept = times.summary()["depths"]
    assert MOST_DEPTHS // 2 <= len(kept) <= MOST_DEPTHS
    assert [kept.count(depth) for depth in range(4)] == pytest.approx([len(kept) / 4] * 4, abs=2)
    assert times.summary()["asked"] == 4 * MOST_DEPTHS


def test_a_batch_that_is_not_next_is_early() -> None:
    times = LoaderTimes()
    for count, early in ((0, False), (2, True), (1, False)):
        times.ready(count, early)
    seen = times.summary()
    assert (seen["asked"], seen["empty"], seen["early"]) == (3, 2, 1)


def test_a_summary_forgets_nothing() -> None:
    times = LoaderTimes()
    times.made += [(10, 4), (20, 6)]
    assert [times.summary()[name] for name in ("made", "wall_ns", "cpu_ns")] == [2, 30, 10]
    times.made.append((5, 5))
    assert [times.summary()[name] for name in ("made", "wall_ns", "cpu_ns")] == [3, 35, 15]


@pytest.mark.framework
@pytest.mark.parametrize(
    ("backend", "kind"),
    [("jax", "one"), ("jax", "threads"), ("tensorflow", "threads"), ("torch", "loader"), ("torch", "processes")],
)
def test_a_loader_is_watched(doctor: Doctor, backend: str, kind: str) -> None:
    doctor.script(SCRIPT)
    ran = doctor.run("--whole", "--quiet", "train.py", kind, backend=backend)
    assert ran.code == 0, ran.err
    call = next(call for call in ran.capture.calls if call.kind == "fit")
    seen = call.info["loader"]
    if kind == "processes":
        assert seen["made"] == 0, "what other processes do is not seen from here"
    else:
        # Keras looks at the first two batches to learn their shapes, and TensorFlow reads ahead.
        assert 44 <= seen["made"] <= 60
        assert 0 < seen["cpu_ns"] <= 1.2 * seen["wall_ns"]
    if kind in ("threads", "processes"):
        assert seen["asked"] >= 44
        assert seen["empty"] <= seen["asked"]
        assert seen["depths"]
        assert 3 <= seen["starts"] <= 8
        assert 3 <= seen["stops"] <= 8
    if kind == "threads":
        assert seen["stop_ns"] / seen["stops"] >= 0.1e9, "Keras polls an empty queue for a tenth of a second"
    assert not [gap for gap in ran.capture.gaps if "failed" in gap.reason], ran.capture.gaps
