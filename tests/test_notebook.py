"""`%%fitdoctor` in a real kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.notebook import parser
from tests.conftest import Doctor

SET_UP = """
import keras, numpy as np
keras.utils.set_random_seed(3)
x = np.random.default_rng(0).standard_normal((3200, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("adam", "mse")
"""
DRIVER = """
import json, sys
import nbformat
from nbclient import NotebookClient
cells = json.load(sys.stdin)
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
NotebookClient(book, timeout=240, kernel_name="python3", allow_errors=True).execute()
print(json.dumps([each.outputs for each in book.cells]))
"""


def executed(doctor: Doctor, *cells: str, backend: str | None = None) -> list[list[dict[str, Any]]]:
    """Run a notebook and return what its cells put out."""
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps(cells),
        cwd=doctor.work,
        env=doctor.env(backend, JPY_SESSION_NAME=str(doctor.work / "study.ipynb")),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outputs: list[list[dict[str, Any]]] = json.loads(done.stdout.splitlines()[-1])
    return outputs


def text_of(outputs: list[dict[str, Any]]) -> str:
    """Return all text of one cell."""
    return "\n".join(
        each.get("text", "") + each.get("data", {}).get("text/plain", "") + "\n".join(each.get("traceback", ()))
        for each in outputs
    )


@pytest.mark.framework
def test_a_cell_runs_as_it_would_and_its_report_is_shown_below(doctor: Doctor) -> None:
    train = 'history = model.fit(x, x[:, :1], epochs=2, verbose=0)\nhistory.history["loss"]'
    loaded, _, watched, after, *_ = executed(
        doctor,
        "%load_ext fitdoctor\nimport sys\nprint([n for n in ('keras', 'numpy', 'rich') if n in sys.modules])",
        SET_UP,
        f"%%fitdoctor --into found --capture cell.fitdoctor\n{train}",
        "import keras, fitdoctor\n"
        "print(found.run['steps'], keras.Model.fit.__module__, found.run['script'])\n"
        "print(found.run['site'])\n"
        "print([s.text for s in __import__('fitdoctor.capture.store', fromlist=['x']).read('cell.fitdoctor').sources"
        " if 'history = model.fit' in (s.text or '')] != [])",
        backend="jax",
    )
    assert text_of(loaded).strip() == "[]"
    plain = executed(doctor, SET_UP, train, backend="jax")
    result, report = [each for each in watched if each["output_type"] != "stream"]
    assert result["output_type"] == "execute_result"
    assert result["data"] == plain[1][0]["data"], "the same losses, shown in the same way"
    assert "One step" in report["data"]["text/plain"]
    assert "text/html" in report["data"]
    steps, site, kept = text_of(after).splitlines()
    assert steps == f"198 keras.src.backend.jax.trainer {doctor.work / 'study.ipynb'}"
    assert site.endswith(":1"), "the line of the cell, the magic left out"
    assert kept == "True"


@pytest.mark.framework
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_letting_go_after_some_steps_changes_nothing(doctor: Doctor, backend: str) -> None:
    train = 'history = model.fit(x, x[:, :1], epochs={epochs}, verbose=0)\nprint(history.history["loss"][-1])\n'
    epochs = {"tensorflow": 60, "jax": 60, "torch": 25}[backend]
    watched = doctor.script(
        SET_UP
        + "import fitdoctor\nwith fitdoctor.watch('cut.fitdoctor', show=False, steps=40) as seen:\n    "
        + train.format(epochs=epochs).replace("\n", "\n    ").rstrip()
        + "\nrun = seen.report.run\nprint(run['steps'], run['step_ms'] is not None, run['planned_steps'])\n"
    )
    plain = doctor.script(SET_UP + train.format(epochs=epochs), "plain.py")
    seen = doctor.plain(str(watched), backend=backend)
    assert seen.code == 0, seen.err
    loss, about = seen.out.splitlines()
    assert loss == doctor.plain(str(plain), backend=backend).out.strip()
    steps, judged, planned = about.split()
    assert 40 <= int(steps) < 100 * epochs, "it let go before the end"
    assert judged == "True"
    assert float(planned) == 100 * epochs


@pytest.mark.framework
def test_errors_of_the_cell_and_of_the_magic_reach_the_notebook(doctor: Doctor) -> None:
    outputs = executed(
        doctor,
        "%load_ext fitdoctor",
        SET_UP,
        "%%fitdoctor --steps none\nran = True",
        "print('ran' in globals())",
        "%%fitdoctor --quiet\nvalue = 1\nraise ValueError('mine')",
        "print(value)",
        "%%fitdoctor\nvalue = (\n",
        "%%fitdoctor --help\nvalue = 3",
        "print(value)",
        backend="jax",
    )
    assert "expected a whole number above 0, got none" in text_of(outputs[2])
    assert text_of(outputs[3]).strip() == "False"
    assert outputs[4][-1]["output_type"] == "error"
    assert (outputs[4][-1]["ename"], outputs[4][-1]["evalue"]) == ("ValueError", "mine")
    assert text_of(outputs[5]).strip() == "1"
    assert outputs[6][-1]["ename"] == "SyntaxError"
    assert "--budget" in text_of(outputs[7])
    assert text_of(outputs[8]).strip() == "1"


def test_the_magic_knows_its_options() -> None:
    args = parser().parse_args(["--steps", "20", "--budget", "1.5", "--into", "found"])
    assert (args.steps, args.budget, args.into, args.quiet) == (20, 1.5, "found", False)


def test_loading_it_needs_no_ipython(tmp_path: Path) -> None:
    program = (
        "import sys, fitdoctor, fitdoctor.notebook;"
        "print('IPython' in sys.modules, callable(fitdoctor.load_ipython_extension))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path, env={**os.environ}
    )
    assert done.stdout == "False True\n"
