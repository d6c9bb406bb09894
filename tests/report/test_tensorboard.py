"""The report in TensorBoard's event files, read back by TensorBoard's own reader."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from fitdoctor import pipeline
from fitdoctor.capture import store
from fitdoctor.model import PARTS
from fitdoctor.report import tensorboard
from tests.captures.build import Run
from tests.conftest import Doctor

READ = """
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
board = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})
board.Reload()
tags = board.Tags()
scalars = {tag: [(e.step, e.value) for e in board.Scalars(tag)] for tag in tags["scalars"]}
texts = {tag: board.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in tags["tensors"]}
plugins = {tag: board.SummaryMetadata(tag).plugin_data.plugin_name for tag in tags["tensors"]}
print(repr((scalars, texts, plugins)))
"""


def read(folder: Path) -> tuple[dict[str, list[tuple[int, float]]], dict[str, str], dict[str, str]]:
    done = subprocess.run([sys.executable, "-c", READ, str(folder)], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    scalars, texts, plugins = ast.literal_eval(done.stdout.splitlines()[-1])
    return scalars, texts, plugins


@pytest.mark.framework
def test_a_report_is_read_back_as_scalars_and_text(tmp_path: Path) -> None:
    run = Run("jax").fit(steps=300, compute_ms=6, callbacks_ms=14, slower_after=(0.5, 2.0)).callback("Watch_me", ms=14)
    capture = run.source("class Watch_me: pass\n").capture(tmp_path)
    report = pipeline.diagnose_file(capture.path)
    board = tmp_path / "logs" / "run"
    path = tensorboard.write(report, capture, tensorboard.checked(board))
    assert path.name.startswith("events.out.tfevents.")
    scalars, texts, plugins = read(board)
    shares = {tag.rpartition("/")[2]: values for tag, values in scalars.items() if tag.startswith("fitdoctor/share/")}
    assert set(shares) <= set(PARTS)
    assert len(shares["callbacks"]) >= 4, "along the training"
    for place, (step, _) in enumerate(shares["callbacks"]):
        assert sum(values[place][1] for values in shares.values()) == pytest.approx(1, abs=0.02)
        assert 0 < step < 300
    mids = [value for _, value in scalars["fitdoctor/step_ms/mid"]]
    assert mids[-1] == pytest.approx(2 * mids[1], rel=0.2), "a training that becomes slower is seen to"
    assert texts["fitdoctor/headline/text_summary"] == report.headline
    found = texts["fitdoctor/findings/text_summary"]
    assert "**slow-callback**" in found
    assert "Watch\\_me" in found
    assert set(plugins.values()) == {"text"}


@pytest.mark.framework
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_the_callback_writes_it_without_tensorflow(doctor: Doctor, backend: str) -> None:
    # Not `set_random_seed`: it imports TensorFlow wherever one is installed.
    head = """
import keras, numpy as np, sys
x = np.random.default_rng(0).standard_normal((3200, 8)).astype("float32")
dense = [keras.layers.Dense(n, kernel_initializer=keras.initializers.GlorotUniform(seed=n)) for n in (8, 1)]
model = keras.Sequential([keras.Input((8,)), *dense])
model.compile("adam", "mse")
"""
    watched = doctor.script(
        head
        + """
import fitdoctor
had = "tensorflow" in sys.modules
seen = fitdoctor.Callback(show=False, tensorboard="logs")
print(model.fit(x, x[:, :1], epochs=2, verbose=0, shuffle=False, callbacks=[seen]).history["loss"])
assert had == ("tensorflow" in sys.modules)
print(had, seen.report.headline)
"""
    )
    train = 'print(model.fit(x, x[:, :1], epochs=2, verbose=0, shuffle=False).history["loss"])'
    plain = doctor.script(head + train, "plain.py")
    done = doctor.plain(str(watched), backend=backend)
    assert done.code == 0, done.err
    losses, said = done.out.splitlines()
    assert losses == doctor.plain(str(plain), backend=backend).out.strip()
    had, _, headline = said.partition(" ")
    assert had == "False"
    scalars, texts, _ = read(doctor.work / "logs")
    assert len(scalars["fitdoctor/step_ms/mid"]) >= 2
    assert texts["fitdoctor/headline/text_summary"] == headline


def test_without_tensorboard_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [each for each in sys.modules if each.split(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(Exception, match="needs TensorBoard's own package") as told:
        tensorboard.checked(tmp_path)
    assert "pip install tensorboard" in str(told.value)


def test_a_folder_that_cannot_be_made_is_said_before_the_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Exception, match="cannot make the folder"):
        tensorboard.checked(tmp_path / "file" / "logs")


def test_nothing_found_is_an_answer_too(tmp_path: Path) -> None:
    capture = Run("jax").fit(steps=200, compute_ms=10).capture(tmp_path)
    report = pipeline.diagnose_file(capture.path)
    assert tensorboard.findings(report) == "nothing worth fixing was measured"
    assert list(tensorboard.scalars(capture))
    writer = store.Writer(tmp_path / "empty.fitdoctor")
    writer.seal()
    assert list(tensorboard.scalars(store.read(tmp_path / "empty.fitdoctor"))) == []
