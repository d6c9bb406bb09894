"""Runs the experiments about the device: too large a pool, recurrent layers off their kernel, denormal numbers."""

import json
import sys
import time

import keras
import numpy as np

from fitdoctor.lab import bench
from fitdoctor.lab.experiments import flushed_denormals, recurrent_kernel, thread_pool
from fitdoctor.lab.job import AS_IS, Job
from fitdoctor.lab.snapshot import Snapshot
from fitdoctor.probes import asked
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.recorder import Nowhere, Recorder

BACKEND = keras.config.backend()
KIND = sys.argv[1]
THREADS = 6

if BACKEND == "torch":
    import torch

    torch.set_num_threads(THREADS)

keras.utils.set_random_seed(3)
if KIND == "threads":
    layers = [keras.Input((256,)), keras.layers.Dense(512, "relu"), keras.layers.Dense(512, "relu")]
    x = np.random.default_rng(0).standard_normal((640, 256), dtype="float32")
elif KIND == "denormals":
    # So many of them that gradients vanish: their squares, which Adam keeps, are denormal at once.
    small = keras.initializers.RandomNormal(stddev=0.02)
    deep = [keras.layers.Dense(128, "sigmoid", kernel_initializer=small) for _ in range(24)]
    layers = [keras.Input((64,)), *deep]
    x = np.random.default_rng(0).standard_normal((640, 64), dtype="float32")
else:
    kind = keras.layers.GRU if BACKEND == "jax" else keras.layers.LSTM
    layers = [keras.Input((24, 8)), kind(16, recurrent_dropout=0.3, dropout=0.1)]
    x = np.random.default_rng(0).standard_normal((640, 24, 8), dtype="float32")
model = keras.Sequential([*layers, keras.layers.Dense(1)])
model.compile("adam", "mse")
y = np.zeros((640, 1), "float32")
model.fit(x, y, batch_size=32, epochs=1, verbose=0)


def settings() -> list[object]:
    cells = [each.cell for each in model._flatten_layers() if hasattr(each, "cell")]
    threads = torch.get_num_threads() if BACKEND == "torch" else None
    return [
        model.train_function,
        threads,
        BACKEND == "torch" and flushed_denormals._flushes(torch),
        *((cell.recurrent_dropout, cell.activation) for cell in cells),
    ]


recorder = Recorder(Nowhere(), time.perf_counter_ns())
call = ActiveCall(1, "fit", None, None, 0)
call.info.update(backend=BACKEND, callbacks=[], epochs=3, **asked.of_model(model))
call.steady = 10
recorder.account.totals[15] = 10_000_000
recorder.account.totals[2] = 9_000_000
bench.MOST_PAIRS = bench.FEWEST_PAIRS
Job.block.__defaults__ = (AS_IS, 0.1)
chosen = (flushed_denormals,) if KIND == "denormals" else (recurrent_kernel, thread_pool)
bench.modules = lambda: iter(chosen)
seen = bench._seen(recorder, call)
worth = {module.NAME: module.worth(seen) > 0 for module in bench.modules()}
before, own = Snapshot(model), settings()
bench.run(recorder, call, model, ((x, y), {"batch_size": 32, "epochs": 3}), 60.0, lambda text: None)
print(
    json.dumps(
        {
            "differs": before.differs(),
            "settings": own == settings(),
            "worth": worth,
            "trials": {row[0]: [json.loads(row[2]), json.loads(row[3])] for row in recorder._rows.get("trials", [])},
            "gaps": [[what, reason] for what, reason in recorder._gaps],
        }
    )
)
