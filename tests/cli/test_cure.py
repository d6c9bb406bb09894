"""The whole loop on a real training: found, edited, proved, written, undone; and a fix proved without being written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Doctor, at_a_terminal

SCRIPT = """
import keras
import numpy as np

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).standard_normal((2048, 32)).astype("float32")
y = x[:, :1] * 2
hidden = [keras.layers.Dense(32, activation="relu") for _ in range(4)]
model = keras.Sequential([keras.Input((32,)), *hidden, keras.layers.Dense(1)])
model.compile("adam", "mse", run_eagerly=True)  # to find the wrong shape
model.fit(x, y, batch_size=16, epochs=20, verbose=0, shuffle=False)
"""


def fitdoctor(doctor: Doctor, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fitdoctor", *words],
        cwd=doctor.work, env=doctor.env("tensorflow"), capture_output=True, text=True, timeout=400,
    )  # fmt: skip


@pytest.mark.framework
@pytest.mark.slow
def test_cure_finds_proves_writes_and_can_be_undone(doctor: Doctor) -> None:
    path = doctor.script(SCRIPT)
    before = path.read_bytes()
    ran = fitdoctor(doctor, "run", "--budget", "20", "--quiet", path.name)
    assert ran.returncode == 0, ran.stderr

    proved = fitdoctor(
        doctor, "prove", "--fix", "eager-step", "--steps", "50", "--quiet", "--json", "p.json", path.name
    )
    assert proved.returncode == 0, proved.stdout + proved.stderr
    assert path.read_bytes() == before, "a proof writes nothing"
    told: dict[str, Any] = json.loads((doctor.work / "p.json").read_text())
    assert (told["verdict"], told["rules"]) == ("PROVED", ["eager-step"])
    assert told["predicted"]["mid"] > 1
    # On a machine that does other things too: how much is for benchmarks to say.
    assert told["speedup"]["low"] > 1.01
    assert told["equivalence"]["kind"] in ("identical", "within rounding")

    tried = fitdoctor(doctor, "run", "--with-fixes", "--no-lab", "--steps", "50", "--json", "with.json", path.name)
    assert tried.returncode == 0, tried.stderr
    assert "with the fixes for eager-step; no file is changed" in tried.stderr
    assert path.read_bytes() == before
    report = json.loads((doctor.work / "with.json").read_text())
    assert not [each for each in report["findings"] if each["rule"] == "eager-step"]
    assert any("fixes that are not written" in note for note in report["notes"])

    cured = fitdoctor(doctor, "cure", "--steps", "50", "--quiet", "--json", "cure.json", path.name)
    assert cured.returncode == 0, cured.stdout + cured.stderr
    assert "reading" in cured.stderr, "the capture of the script as it is now is used"
    assert "run_eagerly" not in path.read_text()
    assert "# to find the wrong shape" in path.read_text(), "comments survive"
    assert "-model.compile" in cured.stdout
    assert json.loads((doctor.work / "cure.json").read_text())["kept"] == ["eager-step"]

    undone = fitdoctor(doctor, "fix", "--undo")
    assert undone.returncode == 0, undone.stderr
    assert path.read_bytes() == before

    fixed = fitdoctor(doctor, "fix", "--apply", "--prove", "--steps", "50", "--quiet", path.name)
    assert fixed.returncode == 0, fixed.stdout + fixed.stderr
    assert "-model.compile" in fixed.stdout
    assert "PROVED" in fixed.stdout
    assert "Kept  eager-step" in fixed.stdout
    assert "run_eagerly" not in path.read_text()
    assert fitdoctor(doctor, "fix", "--undo").returncode == 0
    assert path.read_bytes() == before


def test_a_rule_that_is_none_is_told(doctor: Doctor) -> None:
    path = doctor.script("print('no training')\n")
    for words in (["cure", "--only", "eager-stap"], ["prove", "--fix", "eager-stap"]):
        done = fitdoctor(doctor, *words, path.name)
        assert done.returncode == 2
        assert "did you mean 'eager-step'?" in done.stderr


def test_fixes_need_a_diagnosis(doctor: Doctor) -> None:
    path = doctor.script("print('no training')\n")
    done = fitdoctor(doctor, "run", "--with-fixes", path.name)
    assert done.returncode == 2
    assert "there is no diagnosis of this script as it is now" in done.stderr
    assert f"fitdoctor run {path.name}" in done.stderr


def test_two_scripts_or_a_fix(doctor: Doctor) -> None:
    path = doctor.script("print('no training')\n")
    done = fitdoctor(doctor, "prove", path.name)
    assert done.returncode == 2
    assert "expected two scripts, found 1" in done.stderr


def test_a_script_that_does_not_train(doctor: Doctor) -> None:
    path = doctor.script("print('no training')\n")
    done = fitdoctor(doctor, "cure", "--quiet", path.name)
    assert done.returncode == 4
    assert "No training was seen" in done.stderr


@pytest.mark.parametrize("words", [["cure"], ["fix", "--apply"], ["prove", "--fix", "eager-step"]])
@pytest.mark.parametrize("script", ["pause()", "try:\n    pause()\nexcept KeyboardInterrupt:\n    pass"])
def test_control_c_stops_the_loop(home: Path, tmp_path: Path, words: list[str], script: str) -> None:
    """Whatever the script makes of it: who stops the first run wants nothing proved and nothing written."""
    start = "import time\n\ndef pause():\n    print('running', flush=True)\n    time.sleep(60)\n\n"
    (tmp_path / "train.py").write_text(f"{start}{script}\n")
    process = at_a_terminal(*words, "train.py", cwd=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err.endswith("fitdoctor: interrupted\n")
