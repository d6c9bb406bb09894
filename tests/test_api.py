"""fitdoctor from code."""

from __future__ import annotations

import html

import pytest

import fitdoctor
from tests.conftest import Doctor

HEAD = """
import keras, numpy as np, fitdoctor
keras.utils.set_random_seed(3)
x = np.random.default_rng(0).standard_normal((3200, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("adam", "mse")
"""


@pytest.mark.framework
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_watch_and_callback_report_and_change_nothing(doctor: Doctor, backend: str) -> None:
    script = doctor.script(
        HEAD
        + """
import sys
original = keras.Model.fit
with fitdoctor.watch(show=False) as seen:
    history = model.fit(x, x[:, :1], epochs=2, verbose=0)
assert keras.Model.fit is original, "everything is put back"
print(history.history["loss"])
print(seen.report.run["steps"], seen.capture.exists(), seen.report.headline)
callback = fitdoctor.Callback(show=False)
assert callback.async_safe
history = model.fit(x, x[:, :1], epochs=1, verbose=0, callbacks=[callback])
print(history.history["loss"])
print(callback.report.run["steps"], callback.report.run["site"].endswith("train.py:17"))
model.fit(x, x[:, :1], epochs=1, verbose=0, callbacks=[fitdoctor.Callback("inline.fitdoctor", show=False)])
again = fitdoctor.diagnose("inline.fitdoctor").run
print(again["steps"], again["adapter"], again["site"].endswith("train.py:20"), again["step_ms"]["mid"] > 0)
"""
    )
    plain = doctor.script(
        HEAD
        + """
print(model.fit(x, x[:, :1], epochs=2, verbose=0).history["loss"])
print(model.fit(x, x[:, :1], epochs=1, verbose=0).history["loss"])
""",
        "plain.py",
    )
    watched, expected = doctor.plain(str(script), backend=backend), doctor.plain(str(plain), backend=backend)
    assert watched.code == 0, watched.err
    lines = watched.out.splitlines()
    assert [lines[0], lines[2]] == expected.out.splitlines()
    assert lines[1].startswith("198 True")
    assert lines[3] == "98 True"
    assert lines[4] == "98 arrays True True"


@pytest.mark.framework
def test_inside_fitdoctor_run_they_join_the_run(doctor: Doctor) -> None:
    script = doctor.script(
        HEAD
        + """
with fitdoctor.watch() as seen:
    model.fit(x, x[:, :1], epochs=1, verbose=0, callbacks=[fitdoctor.Callback()])
print(seen.report)
"""
    )
    ran = doctor.run("--whole", str(script), backend="jax")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("None\n")
    assert ran.out.count("One step") == 1


@pytest.mark.framework
def test_run_and_diagnose_from_code(doctor: Doctor) -> None:
    doctor.script(HEAD.replace(", fitdoctor", "") + "model.fit(x, x[:, :1], epochs=100, verbose=0)\n")
    script = doctor.script(
        """
import fitdoctor
report = fitdoctor.run("train.py", steps=60, capture="a.fitdoctor")
again = fitdoctor.diagnose("a.fitdoctor")
print(report.run["steps"] >= 60, again.headline == report.headline, isinstance(again, fitdoctor.Report))
""",
        "outer.py",
    )
    ran = doctor.plain(str(script), backend="jax")
    assert ran.out == "True True True\n", ran.err


@pytest.mark.framework
def test_a_real_run_as_a_page_and_in_a_notebook(doctor: Doctor) -> None:
    script = doctor.script(HEAD.replace(", fitdoctor", "") + "model.fit(x, x[:, :1], epochs=100, verbose=0)\n")
    ran = doctor.run("--steps", "60", "--html", "page.html", str(script), backend="jax")
    assert ran.code == 0, ran.err
    page = (doctor.work / "page.html").read_text("utf-8")
    assert 'id="timeline"' in page
    assert "imports and set-up" in page
    report = fitdoctor.diagnose(ran.capture_path)
    assert report.headline in html.unescape(report._repr_html_())  # type: ignore[attr-defined]
    start, wall = ran.capture.meta["start_ns"], ran.capture.meta["wall_s"]
    steps = next(iter(ran.capture.steps.values()))
    assert start < steps.start_ns[0] < start + wall * 1e9
