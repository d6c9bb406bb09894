"""Saves in every way a Keras script does, reads it all back, prints what does not depend on the folder."""

# ruff: noqa: SIM115

import os
import sys

import keras
import numpy as np

backend = keras.config.backend()
keras.utils.set_random_seed(1)
x = np.random.rand(64, 4).astype("float32")
y = x.sum(axis=1, keepdims=True)

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
model.compile("sgd", "mse")


class OwnLog(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        with open("own.log", "a") as f:
            f.write(f"{epoch} {logs['loss']:.4f}\n")
        with open("own-new.log", "a") as f:
            f.write(f"{epoch}\n")


os.makedirs("checkpoints", exist_ok=True)
model.save("before.keras")
callbacks = [
    keras.callbacks.ModelCheckpoint("best.keras", monitor="loss", save_best_only=True),
    keras.callbacks.ModelCheckpoint("checkpoints/{epoch:02d}.weights.h5", save_weights_only=True),
    keras.callbacks.BackupAndRestore("backup"),
    keras.callbacks.CSVLogger("history.csv", append=True),
    keras.callbacks.TensorBoard("logs", histogram_freq=1),
    OwnLog(),
]
history = model.fit(x, y, epochs=4, batch_size=16, callbacks=callbacks, verbose=0)
print("epochs", history.epoch)
print("loss", [f"{value:.5f}" for value in history.history["loss"]])
print("own", open("own.log").read())
print("csv", open("history.csv").read().count("\n"))
print("checkpoints", sorted(os.listdir("checkpoints")))
print("backup", os.path.exists("backup"))
print("logs", sorted(os.listdir("logs")), len(os.listdir("logs/train")))

reference = model.predict(x, verbose=0)
best = keras.models.load_model("best.keras")
print("best", np.allclose(best.predict(x, verbose=0), reference))
model.load_weights("checkpoints/04.weights.h5")
print("weights", np.allclose(model.predict(x, verbose=0), reference))
model.save("final.keras")
model.save("old.h5")
model.save_weights("old.weights.h5")
print("h5", np.allclose(keras.models.load_model("old.h5", compile=False).predict(x, verbose=0), reference))
print("sizes", os.path.getsize("final.keras") > 1000, os.path.getsize("old.weights.h5") > 1000)
np.save("predictions.npy", reference)
print("npy", np.load("predictions.npy", mmap_mode="r").shape)

import h5py  # noqa: E402

with h5py.File("data.h5", "a") as f:
    f["more"] = np.arange(3)
with h5py.File("data.h5") as f:
    print("hdf5", sorted(f), f["old"][()].tolist())

if backend in ("tensorflow", "jax"):
    import tensorflow as tf

    model.export("exported", verbose=False)
    exported = tf.saved_model.load("exported")
    served = exported.serve(x)
    print("export", np.allclose(np.asarray(served), reference, atol=1e-5), sorted(os.listdir("exported")))

if backend == "tensorflow":
    v = tf.Variable(1.0)
    checkpoint = tf.train.Checkpoint(v=v)
    manager = tf.train.CheckpointManager(checkpoint, "tf-checkpoints", max_to_keep=2)
    print("latest before", os.path.basename(manager.latest_checkpoint or ""))
    for value in (2.0, 3.0, 4.0):
        v.assign(value)
        saved = manager.save()
    v.assign(0.0)
    checkpoint.restore(manager.latest_checkpoint).assert_consumed()
    print("checkpoint", float(v), os.path.relpath(saved), [os.path.basename(c) for c in manager.checkpoints])
    print("listed", sorted(os.path.basename(p) for p in tf.io.gfile.glob("tf-checkpoints/*")))
    print("variables", tf.train.list_variables(tf.train.latest_checkpoint("tf-checkpoints"))[0][0])
    path = checkpoint.write("written/one")
    v.assign(0.0)
    checkpoint.read(path)
    print("written", float(v), path)
    with tf.io.gfile.GFile("own.log", "a") as f:
        f.write("gfile\n")
    print("gfile", tf.io.gfile.GFile("own.log").read().splitlines()[-1], tf.io.gfile.exists("old.csv"))
    tf.io.gfile.remove("old.csv")
    tf.io.gfile.makedirs("made/deep")
    tf.io.gfile.copy("own.log", "made/deep/copy")
    tf.io.gfile.rename("made/deep/copy", "made/deep/moved")
    print(
        "gone",
        tf.io.gfile.exists("old.csv"),
        tf.io.gfile.listdir("made/deep"),
        tf.io.gfile.stat("made/deep/moved").length,
    )
    tf.io.gfile.rmtree("made")
    print("removed", tf.io.gfile.exists("made"), os.path.exists("made"))
    tf.io.write_file("op.txt", "content")
    print("op", tf.io.read_file("op.txt").numpy())
    with tf.io.TFRecordWriter("later.tfrecord") as writer:
        writer.write(b"late")
    print("record", [r.numpy() for r in tf.data.TFRecordDataset(["later.tfrecord"])])
    cached = tf.data.Dataset.range(5).cache("cached")
    print("cache", [int(i) for i in cached], [int(i) for i in cached])
    tf.data.Dataset.range(3).save("dataset")
    print("dataset", [int(i) for i in tf.data.Dataset.load("dataset")])

if backend == "torch":
    import torch

    torch.save({"a": torch.arange(3)}, "state.pt")
    torch.save({"a": torch.arange(3)}, "old.pt")
    print("torch", torch.load("state.pt")["a"].tolist(), torch.load("old.pt", mmap=True)["a"].tolist())
    torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 1), torch.zeros(1, 2)), "scripted.pt")
    print("jit", tuple(torch.jit.load("scripted.pt")(torch.zeros(1, 2)).shape))
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter("runs") as writer:
        writer.add_scalar("loss", 1.0, 0)
    print("runs", len(os.listdir("runs")))
sys.stdout.flush()
