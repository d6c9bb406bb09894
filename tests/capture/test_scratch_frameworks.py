"""Real training scripts: the working folder is the same before and after, and the script does not notice."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fitdoctor.capture.scratch
from fitdoctor.capture.scratch import cleanup

SCRIPTS = Path(__file__).parent / "scripts"
SOURCE = str(Path(fitdoctor.capture.scratch.__file__).parents[3])

pytestmark = pytest.mark.framework

MAKE_BACKUP = """
import h5py, keras, numpy as np, tensorflow as tf
keras.utils.set_random_seed(1)
x = np.random.rand(64, 4).astype("float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
model.compile("sgd", "mse")
keep = keras.callbacks.BackupAndRestore("backup", delete_checkpoint=False)
model.fit(x, x.sum(axis=1, keepdims=True), epochs=2, batch_size=16, callbacks=[keep], verbose=0)
model.save("best.keras")
model.save("old.h5")
model.export("exported", verbose=False)
with h5py.File("data.h5", "w") as f:
    f["old"] = 7
tf.train.CheckpointManager(tf.train.Checkpoint(v=tf.Variable(1.0)), "tf-checkpoints", max_to_keep=2).save()
open("history.csv", "w").write("epoch,loss\\n0,1.0\\n")
open("own.log", "w").write("an older run\\n")
open("old.csv", "w").write("old\\n")
open("old.pt", "w").write("old\\n")
"""


def python(folder: Path, *command: str, backend: str = "tensorflow", **extra: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": SOURCE,
        "KERAS_BACKEND": backend,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        **extra,
    }
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done


def snapshot(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture(scope="module")
def user_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("user")
    python(folder, "-c", MAKE_BACKUP)
    return folder


@pytest.mark.parametrize(("backend", "late"), [("tensorflow", ""), ("jax", ""), ("torch", ""), ("tensorflow", "1")])
def test_a_script_that_saves_everything(user_folder: Path, tmp_path: Path, backend: str, late: str) -> None:
    plain, ours, state = tmp_path / "plain", tmp_path / "ours", tmp_path / "state"
    shutil.copytree(user_folder, plain)
    shutil.copytree(user_folder, ours)
    before = snapshot(ours)
    script = str(SCRIPTS / "saves_everything.py")
    expected = python(plain, script, backend=backend)
    launcher = str(SCRIPTS / "with_scratch.py")
    done = python(ours, launcher, str(state), script, backend=backend, LATE=late)
    assert done.stdout == expected.stdout
    assert "epochs [2, 3]" in done.stdout  # went on from the older backup
    report = json.loads((state / "report.json").read_text())
    assert report["gaps"] == []
    (state / "report.json").unlink()
    cleanup(state)
    assert not state.exists()
    assert snapshot(ours) == before
    written = set(snapshot(plain)) - set(before)
    redirected = {os.path.relpath(entry["path"], ours) for entry in report["files"]}
    assert {"final.keras", "own.log", "own-new.log", "history.csv", "best.keras"} <= redirected
    drawn = ("tfevents", ".snapshot")  # a time or a random number is part of the name
    missed = {p for p in written if (plain / p).is_file() and not any(d in p for d in drawn)} - redirected
    assert missed == set()
    assert any("tfevents" in path for path in redirected)


def test_data_prepared_before_training_is_found_by_tensorflow(tmp_path: Path) -> None:
    plain, ours = tmp_path / "plain", tmp_path / "ours"
    plain.mkdir()
    ours.mkdir()
    script = str(SCRIPTS / "prepares_data.py")
    expected = python(plain, script)
    done = python(ours, str(SCRIPTS / "with_scratch.py"), str(tmp_path / "state"), script)
    assert done.stdout == expected.stdout
    assert set(snapshot(ours)) == set(snapshot(plain))
