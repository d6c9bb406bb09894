"""Watching must not change the run: same losses and weights bit for bit, same output, same files, same exit code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import Doctor

HERE = Path(__file__).parent


def without_times(text: str) -> str:
    """Drop what differs between any two runs: the times in Keras's own lines."""
    return re.sub(r"\d+(\.\d+)?(us|ms|s)(/step|/epoch)?", "T", text)


@pytest.mark.framework
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_every_adapter_learns_the_same_bit_for_bit(doctor: Doctor, backend: str) -> None:
    script = doctor.script((HERE / "every_adapter.py").read_text())
    plain = doctor.plain(str(script), "an", "--argument", backend=backend)
    assert plain.code == 0, plain.err
    seen = doctor.run("--whole", "--quiet", str(script), "an", "--argument", backend=backend)
    assert seen.code == 0, seen.err
    expected = without_times(plain.out).splitlines()
    found = without_times(seen.out).splitlines()
    assert found[: len(expected)] == expected
    capture = seen.capture
    fits = [call for call in capture.calls if call.kind == "fit"]
    assert [f.info["adapter"] for f in fits[:7]] == [
        "arrays", "tf.data", "PyDataset", "PyDataset", "generator", "DataLoader", "Grain",
    ]  # fmt: skip
    assert not [gap for gap in capture.gaps if "failed" in gap.reason], capture.gaps
    assert all(call.id in capture.steps for call in fits)


@pytest.mark.framework
def test_files_and_objects_are_read_the_same(doctor: Doctor) -> None:
    script = doctor.script((HERE / "files_and_objects.py").read_text())
    plain = doctor.plain(str(script), backend="jax")
    assert plain.code == 0, plain.err
    seen = doctor.run("--whole", "--quiet", str(script), backend="jax")
    assert seen.code == 0, seen.err
    expected = without_times(plain.out).splitlines()
    assert without_times(seen.out).splitlines()[: len(expected)] == expected
    (call,) = [each for each in seen.capture.calls if each.kind == "fit"]
    assert call.info["fetches"]["count"] == call.info["chunked"]["reads"] > 0
    assert not [gap for gap in seen.capture.gaps if "failed" in gap.reason], seen.capture.gaps


@pytest.mark.framework
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_every_setting_and_way_to_train_learns_the_same(doctor: Doctor, backend: str) -> None:
    script = doctor.script((HERE / "every_setting.py").read_text())
    plain = doctor.plain(str(script), backend=backend)
    assert plain.code == 0, plain.err
    seen = doctor.run("--whole", "--quiet", str(script), backend=backend)
    assert seen.code == 0, seen.err
    expected = plain.out.splitlines()
    assert expected[-1] == "done"
    assert len(expected) > 14
    assert seen.out.splitlines()[: len(expected)] == expected
    assert not [gap for gap in seen.capture.gaps if "failed" in gap.reason], seen.capture.gaps
