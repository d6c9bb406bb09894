"""Trains a small model through every data adapter and prints what must not change: losses and weights, bit for bit."""

import hashlib
import sys

import keras
import numpy as np

BATCH, BATCHES = 16, 12


def arrays():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((BATCH * BATCHES - 5, 8)).astype("float32")  # the last batch is short
    return x, x[:, :1] * 2 - x[:, 1:2]


def batches():
    x, y = arrays()
    for i in range(0, len(x), BATCH):
        yield x[i : i + BATCH], y[i : i + BATCH]


class Sequence(keras.utils.PyDataset):
    def __len__(self):
        return BATCHES

    def __getitem__(self, index):
        x, y = arrays()
        at = slice(index * BATCH, (index + 1) * BATCH)
        return x[at] + np.random.default_rng(index).standard_normal(x[at].shape).astype("float32") / 100, y[at]


def tf_data():
    import tensorflow as tf

    def noisy(x, y):
        return x + tf.random.stateless_normal(tf.shape(x), seed=(1, 2)) / 100, y

    return tf.data.Dataset.from_tensor_slices(arrays()).shuffle(50, seed=5).map(noisy).batch(BATCH)


def loader():
    import torch

    x, y = map(torch.from_numpy, arrays())
    generator = torch.Generator().manual_seed(7)
    dataset = torch.utils.data.TensorDataset(x, y)
    return torch.utils.data.DataLoader(dataset, batch_size=BATCH, shuffle=True, generator=generator)


def grain_data():
    import grain

    x, y = arrays()
    rows = [(x[i], y[i]) for i in range(len(x))]
    return grain.MapDataset.source(rows).shuffle(seed=9).to_iter_dataset().batch(BATCH)


def endless():
    while True:
        yield from batches()


class Tail(keras.callbacks.Callback):
    """A callback that forces Keras to dispatch in step."""

    def on_train_batch_end(self, batch, logs=None):
        self.last = logs["loss"]


CASES = {
    "arrays": lambda: dict(zip("xy", arrays(), strict=True), batch_size=BATCH, validation_split=0.2),
    "tf.data": lambda: {"x": tf_data()},
    "PyDataset": lambda: {"x": Sequence()},
    # Not shuffled, and one epoch: Keras shuffles in the pool's own thread with Python's global generator, and which
    # batch of a pool begins the second epoch differs from run to run, with or without us (4 plain runs: two outcomes).
    "PyDataset 2 workers": lambda: {"x": Sequence(workers=2), "shuffle": False, "epochs": 1},
    "generator": lambda: {"x": endless(), "steps_per_epoch": BATCHES},
    "DataLoader": lambda: {"x": loader()},
    "Grain": lambda: {"x": grain_data()},
}
SETTINGS = {
    "tensorflow": [{}, {"steps_per_execution": 4}, {"run_eagerly": True}, {"jit_compile": True}],
    "jax": [{}, {"steps_per_execution": 4}, {"jit_compile": False}],
    "torch": [{}],
}


def train(name, compile_args, callbacks):
    keras.utils.set_random_seed(11)
    model = keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.Dense(16, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse", metrics=["mae"], **compile_args)
    history = model.fit(**{"epochs": 2, **CASES[name]()}, verbose=2, callbacks=callbacks)
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(w).tobytes() for w in model.get_weights())).hexdigest()
    losses = {key: [float(v).hex() for v in values] for key, values in history.history.items()}
    print(name, compile_args, losses, digest[:32])


for case in CASES:
    train(case, {}, [])
for setting in SETTINGS[keras.config.backend()][1:]:
    train("arrays" if keras.config.backend() != "tensorflow" else "tf.data", setting, [])
train("arrays", {}, [Tail()])
if keras.config.backend() == "tensorflow":
    import tensorflow as tf

    # TensorFlow then refuses some ops, clocks among them.
    tf.config.experimental.enable_op_determinism()
    for case in ("arrays", "tf.data"):
        train(case, {}, [])
    train("tf.data", {"steps_per_execution": 4}, [])
print("done", sys.argv[1:])
