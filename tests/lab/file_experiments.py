"""Runs the experiments about files on small jobs, and tells what they found and what they left behind."""

import builtins
import hashlib
import io
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import keras
import numpy as np

from fitdoctor.lab import bench
from fitdoctor.lab.experiments import chunk_order, small_files
from fitdoctor.lab.job import AS_IS, Job
from fitdoctor.lab.snapshot import Snapshot
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.chunked import ChunkProbe
from fitdoctor.probes.install import ImportWatch, Patches
from fitdoctor.probes.recorder import Nowhere, Recorder
from fitdoctor.probes.steps import Tracker

KIND = sys.argv[1]
ROWS, BATCH = 256, 16
folder = Path("samples")
folder.mkdir()
draw = np.random.default_rng(0)
x = draw.standard_normal((ROWS, 64)).astype("float32")
for row in range(ROWS):
    np.save(folder / f"{row:04d}.npy", x[row])


def fingerprint():
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in Path(".").rglob("*") if path.is_file()}


class Saved(keras.utils.PyDataset):
    def __len__(self):
        return ROWS // BATCH

    def __getitem__(self, index):
        rows = range(BATCH * index, BATCH * (index + 1))
        loaded = np.stack([self.load(row) for row in rows])
        return loaded, loaded[:, :1]

    def load(self, row):
        return np.load(folder / f"{row:04d}.npy")


class Drawn(Saved):
    def load(self, row):
        return x[row]


class Chunked(Saved):
    order = np.random.default_rng(1).permutation(ROWS)

    def load(self, row):
        return file["x"][int(self.order[row])]


keras.utils.set_random_seed(3)
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(1)])
model.compile("adam", "mse")
recorder = Recorder(Nowhere(), time.perf_counter_ns())
tracker = Tracker(recorder)
patches = Patches(recorder)
info = {"backend": keras.config.backend(), "adapter": "PyDataset", "epochs": 3, "workers": 1}
if KIND == "tf.data":
    import tensorflow as tf

    from fitdoctor.probes.dataset_tf import describe_dataset

    def load(path):
        row = tf.io.decode_raw(tf.io.read_file(path), tf.float32, little_endian=True)[-64:]
        row = tf.ensure_shape(row, (64,))
        return row, row[:1]

    paths = sorted(str(each) for each in folder.iterdir())
    data = tf.data.Dataset.from_tensor_slices(paths).map(load, num_parallel_calls=2).batch(BATCH)
    info |= {"adapter": "tf.data", **describe_dataset(data)}
elif KIND == "hdf5":
    import h5py

    with h5py.File("x.h5", "w") as made:
        made.create_dataset("x", data=np.repeat(x, 16, axis=1), chunks=(64, 1024), compression="gzip")
    file = h5py.File("x.h5", "r")
    model = keras.Sequential([keras.Input((1024,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    data = Chunked()
    ChunkProbe(tracker, patches).attach(ImportWatch(recorder))
else:
    data = Saved() if KIND == "npy" else Drawn()

before_files = fingerprint()
if KIND == "hdf5":
    tracker.begin_loop(None, "loop", compiled=True)
model.fit(data, epochs=1, verbose=0)
if KIND == "hdf5":
    recorder.flush()
    info["chunked"] = tracker.loop.info["chunked"]
    patches.undo()

call = ActiveCall(1, "fit", None, None, 0)
call.info.update(info)
call.steady = 10
recorder.account.totals[15] = 10_000_000
recorder.account.totals[2] = 9_000_000
bench.MOST_PAIRS = bench.FEWEST_PAIRS
Job.block.__defaults__ = (AS_IS, 0.05)
bench.modules = lambda: iter((small_files, chunk_order))
opens = builtins.open, io.open
temporary = set(os.listdir(tempfile.gettempdir()))
before = Snapshot(model)
bench.run(recorder, call, model, ((data,), {"epochs": 3}), 60.0, lambda text: None)
print(
    json.dumps(
        {
            "differs": before.differs(),
            "files": fingerprint() == before_files,
            "opens": opens == (builtins.open, io.open),
            "left": [each for each in set(os.listdir(tempfile.gettempdir())) - temporary if "fitdoctor" in each],
            "trials": {
                row[0]: {**json.loads(row[4]), "ratio": sum(json.loads(row[3])) / sum(json.loads(row[2]))}
                for row in recorder._rows.get("trials", [])
            },
            "gaps": [[what, reason] for what, reason in recorder._gaps],
        }
    )
)
