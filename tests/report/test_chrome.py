"""The trace: loads, nests, and adds up to what the capture says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.capture import store
from fitdoctor.cli.main import main
from fitdoctor.model import Steps
from fitdoctor.report import chrome
from tests.captures.build import Run
from tests.conftest import Doctor


def trace(path: str | Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads("".join(chrome.pieces(path)))
    return loaded


def check(events: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """Assert what holds for every trace, and return its slices by track."""
    tracks: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        assert event["ph"] in ("M", "X", "C")
        if event["ph"] == "X":
            tracks[event["tid"]].append(event)
    named = {each["tid"] for each in events if each["name"] == "thread_name"}
    assert named == set(tracks)
    for slices in tracks.values():
        assert [each["ts"] for each in slices] == sorted(each["ts"] for each in slices), "in the order of time"
        open_: list[float] = []
        for each in slices:
            assert each["dur"] >= 0
            start, end = round(each["ts"] * 1000), round((each["ts"] + each["dur"]) * 1000)
            while open_ and open_[-1] <= start:
                open_.pop()
            assert not open_ or end <= open_[-1], f"{each} lies across another"
            open_.append(end)
    counters: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event["ph"] == "C":
            counters[event["name"]].append(event["ts"])
            assert all(isinstance(value, int | float) for value in event["args"].values())
    assert all(times == sorted(times) for times in counters.values())
    return tracks


def agrees(path: str | Path) -> list[dict[str, Any]]:
    """Assert that the sums of a trace are those of its capture."""
    capture = store.read(path)
    events = trace(path)["traceEvents"]
    tracks = check(events)
    slices = [each for each in events if each["ph"] == "X"]
    rows = [each for each in slices if "wall_ms" in each["args"]]
    wall = sum(int(steps.wall_ns.sum()) for steps in capture.steps.values()) / 1e6
    assert sum(each["args"]["wall_ms"] for each in rows) == pytest.approx(wall, abs=1e-3)
    assert sum(each["dur"] for each in rows) / 1e3 == pytest.approx(wall, rel=0.05)
    assert sum(each["args"]["steps"] for each in rows) == sum(int(s.count.sum()) for s in capture.steps.values())
    phases = tracks.get(chrome.PHASE_SUMS, [])
    assert sum(each["dur"] for each in phases) / 1e6 == pytest.approx(sum(capture.account.values()), abs=1e-4)
    compiles = [each for each in slices if chrome.COMPILES <= each["tid"] < chrome.COMPILES + 100]
    assert sum(each["dur"] for each in compiles) * 1e3 == pytest.approx(
        sum(c.duration_ns for c in capture.compiles), abs=100
    )
    sums = tracks.get(chrome.CALLBACK_SUMS, [])
    assert sum(each["dur"] for each in sums) * 1e3 == pytest.approx(sum(c.total_ns for c in capture.callbacks), abs=100)
    ended = [each for each in capture.calls if each.end_ns is not None]
    calls = [each for each in slices if each["args"].get("unfinished") is False]
    assert sum(each["dur"] for each in calls) * 1e3 == pytest.approx(sum(c.end_ns - c.start_ns for c in ended), abs=100)  # type: ignore[operator]
    epochs = [each for each in slices if each["name"].startswith("epoch ")]
    assert len(epochs) == len(capture.epochs)
    validation = [each for each in slices if each["name"] == "validation" and each["tid"] < chrome.STEPS]
    assert sum(each["args"]["seconds"] for each in validation) == pytest.approx(
        sum(each.validation_ns for each in capture.epochs if each.steps_end_ns is not None) / 1e9
    )
    return slices


def test_everything_a_capture_knows_is_in_it(tmp_path: Path) -> None:
    gpus = [[{"index": 0, "utilisation": 0.4, "memory_used": 2**30}], [{"index": 0, "utilisation": 0.9}]]
    samples = {"rates": {"disk_read": 2**20}, "gpus": gpus, "gil": {"looks": 10, "held": 4}, "memory_available": 2**31}
    run = Run("tensorflow", script="/home/me/train.py")
    parts = {"input_ms": 5, "compute_ms": 10, "callbacks_ms": 1, "validation_ms": 50, "between_ms": 5}
    run.fit(steps=100, epochs=3, cores_busy=2, samples=samples, **parts)
    run.callback("Watch", ms=1).callback("Saver", ms=5, hook="on_epoch_end").compiled("train_step", ms=300)
    capture = run.capture(tmp_path)
    slices = agrees(capture.path)
    names = {each["name"] for each in slices}
    assert {"fit", "epoch 3", "validation", "step 0", "train function", "callbacks", "trace train_step"} <= names
    assert {"Watch.on_train_batch_end", "Saver.on_epoch_end", "imports", "steady steps"} <= names
    whole = trace(capture.path)
    counters = {each["name"] for each in whole["traceEvents"] if each["ph"] == "C"}
    assert counters == {
        "CPU cores busy", "memory of the process", "memory left", "disk reads", "GIL held", "GPU 0", "GPU 0 memory",
        "inside the step (ms)",
    }  # fmt: skip
    inside = [e["args"] for e in whole["traceEvents"] if e["name"] == "inside the step (ms)"]
    assert inside[3] == pytest.approx({"waiting for input": 5, "computing": 10}, rel=0.2)
    assert min(each["ts"] for each in slices) >= 0
    assert whole["otherData"]["script"] == "/home/me/train.py"


def test_calls_at_the_same_time_and_rows_that_touch_still_nest(tmp_path: Path) -> None:
    writer = store.Writer(tmp_path / "x.fitdoctor")
    steps = []
    for call, shift in ((1, 0), (2, 4)):
        steps += [(call, 0, i, 1, 100 + i * 10 + shift, 12, 5, 0, 9, 2, 0, 0) for i in range(50)]
    steps += [(3, 0, 0, 8, 10_000, 80, 0, 0, 70, 0, 0, Steps.RESTED), (3, 0, 8, 0, 10_080, 5, 0, 0, 0, 0, 5, Steps.CUT)]
    writer.write(
        {
            "calls": [
                (1, "train_on_batch", None, None, None, None, 90, 700, 1, "{}"),
                (2, "train_on_batch", None, None, None, None, 94, 705, 1, "{}"),
                (3, "loop", "a.py", 3, None, None, 9_000, None, 1, "{}"),
            ],
            "steps": steps,
            "compiles": [(1, "trace", "a", 100, 50, None, None, "{}"), (1, "compile", "b", 120, 60, None, None, "{}"),
                         (1, "lower", "c", 125, 10, None, None, "{}")],
            "host": [(150, json.dumps({"rss": None, "cpu_user": 1.0})), (150, json.dumps({"cpu_user": 2.0}))],
        }
    )  # fmt: skip
    writer.seal()
    tracks = check(trace(tmp_path / "x.fitdoctor")["traceEvents"])
    assert {chrome.STEPS, chrome.STEPS + 1, chrome.CALLS + 1, chrome.COMPILES + 1} <= set(tracks)
    names = [each["name"] for each in tracks[chrome.STEPS]]
    assert "steps 0 to 7" in names


def test_an_empty_capture_is_a_trace_too(tmp_path: Path) -> None:
    writer = store.Writer(tmp_path / "x.fitdoctor")
    writer.seal()
    assert check(trace(tmp_path / "x.fitdoctor")["traceEvents"]) == {}


def test_numbers_that_are_none_stay_out(tmp_path: Path) -> None:
    writer = store.Writer(tmp_path / "x.fitdoctor")
    writer.meta({"script": "a.py", "started": float("nan")})
    writer.seal()
    text = "".join(chrome.pieces(tmp_path / "x.fitdoctor"))
    assert "NaN" not in text
    assert json.loads(text)["otherData"]["started"] is None


def test_the_command_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = Run("jax").fit(steps=50, compute_ms=5).capture(tmp_path)
    out = tmp_path / "trace.json"
    assert main(["report", capture.path, "--format", "chrome", "-o", str(out)]) == 0
    assert "perfetto" in capsys.readouterr().err
    check(json.loads(out.read_text())["traceEvents"])
    bad = tmp_path / "bad.fitdoctor"
    bad.write_text("no capture")
    assert main(["report", str(bad), "--format", "chrome", "-o", str(tmp_path / "none.json")]) == 2
    assert not (tmp_path / "none.json").exists(), "whole or not at all"


MEASURED = """
import resource, sys
from fitdoctor.report import chrome
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with open(sys.argv[2], "w") as out:
    out.writelines(chrome.pieces(sys.argv[1]))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def test_a_hundred_thousand_steps_need_little_memory(tmp_path: Path) -> None:
    capture = Run("jax").fit(steps=100_000, compute_ms=10, host_ms=1, callbacks_ms=1).capture(tmp_path)
    out = tmp_path / "trace.json"
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, capture.path, str(out)], capture_output=True, text=True, check=True
    )
    assert out.stat().st_size > 20 * 2**20
    assert float(done.stdout) < 40, "MiB"
    with out.open() as file:
        events = json.load(file)["traceEvents"]
    assert sum(each["name"].startswith("step ") for each in events) == 100_000


@pytest.mark.framework
def test_the_trace_of_a_real_run_agrees_with_its_capture(doctor: Doctor) -> None:
    script = doctor.script(
        """
import keras, numpy as np
x = np.random.default_rng(0).standard_normal((960, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, x[:, :1], epochs=3, verbose=0, validation_split=0.2)
model.predict(x, verbose=0)
"""
    )
    done = doctor.run("--whole", str(script), backend="tensorflow")
    assert done.code == 0, done.err
    slices = agrees(done.capture_path)
    assert {"fit", "predict", "validation", "imports"} <= {each["name"] for each in slices}
    imports = next(each for each in slices if each["name"] == "imports")
    assert imports["ts"] == 0
    first = min(each["ts"] for each in slices if each["name"] == "fit")
    assert first / 1e6 > 0.5 * imports["dur"] / 1e6, "the clock begins with the process, which had to import first"
    assert max(each["ts"] + each["dur"] for each in slices) / 1e6 <= done.capture.meta["wall_s"] + 1
