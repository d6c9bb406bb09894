"""Runs the experiments on loaders and tells what they found and whether everything is as it was."""

import json
import multiprocessing
import sys
import time

import keras
import numpy as np

from fitdoctor.lab import bench, loading
from fitdoctor.lab.experiments import cast_arrays, hot_lines, kept_workers, rehearsed, worker_processes, workers
from fitdoctor.lab.job import AS_IS, Job
from fitdoctor.lab.snapshot import Snapshot
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.recorder import Nowhere, Recorder

KIND = sys.argv[1]


class Rows(keras.utils.PyDataset):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.rng = np.random.default_rng(4)

    def __len__(self):
        return 10

    def __getitem__(self, index):
        rows = np.tile(x[index * 16 : index * 16 + 16], (1, 8))
        for place in range(len(rows)):  # the loop
            for column in range(rows.shape[1]):
                rows[place, column] = (rows[place, column] - 0.1) * 2.0
        return rows[:, :64] + self.rng.standard_normal() + np.random.rand(), y[index * 16 : index * 16 + 16]


def endless():
    while True:
        for start in range(0, 160, 16):
            yield np.stack([row * 2.0 - row.mean() for row in x[start : start + 16]]), y[start : start + 16]  # the loop


def loader():
    import torch

    rows = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    order = torch.Generator().manual_seed(1)
    return torch.utils.data.DataLoader(rows, batch_size=16, shuffle=True, generator=order, num_workers=2)


keras.utils.set_random_seed(3)
x = np.random.default_rng(0).standard_normal((160, 64)).astype("float32")
y = x[:, :1]
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(1)])
model.compile("adam", "mse")
info = {"backend": keras.config.backend(), "epochs": 3, "callbacks": [], "run_eagerly": False, "metrics": []}
fits = {"epochs": 1, "verbose": 0}
if KIND == "arrays":
    x, y = np.random.default_rng(0).standard_normal((40_000, 64)), np.zeros((40_000, 1), "float32")
    arguments = ((x, y), {"batch_size": 8_000, "epochs": 3})
    info.update(adapter="arrays", arrays=[{"dtype": "float64", "bytes": x.nbytes}])
    chosen = (cast_arrays,)
elif KIND == "loader":
    arguments = ((loader(),), {"epochs": 3})
    info.update(adapter="DataLoader", workers=2, persistent_workers=False)
    chosen = (hot_lines, kept_workers)
elif KIND == "generator":
    arguments = ((endless(),), {"epochs": 3, "steps_per_epoch": 10})
    info.update(adapter="generator", steps_per_epoch=10)
    chosen = (hot_lines, worker_processes, rehearsed)
else:
    arguments = ((Rows(workers=2),), {"epochs": 3})
    info.update(adapter="PyDataset", workers=2, multiprocessing=False)
    chosen = (hot_lines, kept_workers, worker_processes, *((workers,) if keras.config.backend() == "torch" else ()))
data = arguments[0][0]
model.fit(*arguments[0], **{**arguments[1], **fits})

recorder = Recorder(Nowhere(), time.perf_counter_ns())
call = ActiveCall(1, "fit", None, None, 0)
call.info.update(info)
call.steady = 10
recorder.account.totals[15] = 10_000_000
recorder.account.totals[2] = 9_000_000
recorder.account.totals[0] = 9_000_000 if KIND == "generator" else 0

# About whether they run and what they leave behind, not about how exactly they measure.
bench.MOST_PAIRS = bench.FEWEST_PAIRS
loading.BETWEEN_SECONDS = 0.05
Job.block.__defaults__ = (AS_IS, 0.05)
bench.modules = lambda: iter(chosen)


def state():
    own = getattr(data, "rng", None)
    order = getattr(data, "generator", None)
    return [
        own and str(own.bit_generator.state), order is not None and order.get_state().tolist(),
        sys.gettrace() is None, sys.getswitchinterval(), getattr(data, "workers", None),
        {name: id(value) for name, value in getattr(data, "__dict__", {}).items()},
    ]  # fmt: skip


before, own = Snapshot(model), state()
bench.run(recorder, call, model, arguments, 60.0, lambda text: None)
print(
    json.dumps(
        {
            "differs": before.differs() + ([] if own == state() else [str(own), str(state())]),
            "trials": {row[0]: json.loads(row[4]) for row in recorder._rows.get("trials", [])},
            "times": {row[0]: [json.loads(row[2]), json.loads(row[3])] for row in recorder._rows.get("trials", [])},
            "gaps": [[what, reason] for what, reason in recorder._gaps],
            "children": len(multiprocessing.active_children()),
        }
    )
)
