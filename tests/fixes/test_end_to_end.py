"""A real training: observed, fixed, run again, and undone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Doctor

CORPUS = Path(__file__).resolve().parents[2] / "corpus"


@pytest.mark.framework
def test_a_slow_script_is_fixed_runs_and_is_as_before_again(doctor: Doctor) -> None:
    original = (CORPUS / "missing-prefetch" / "slow.py").read_bytes()
    # As slow, and a third of the work.
    script = doctor.work / "train.py"
    original = original.replace(b"BLOCKS = 96", b"BLOCKS = 48").replace(b"EPOCHS = 6", b"EPOCHS = 4")
    original = original.replace(b"\n", b"\r\n")
    script.write_bytes(original)

    def fix(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "fitdoctor", "fix", *words]
        env = doctor.env("tensorflow")
        return subprocess.run(command, cwd=doctor.work, env=env, capture_output=True, text=True, timeout=300)

    shown = fix("--no-lab", "--only", "missing-prefetch", "train.py")
    assert shown.returncode == 0, shown.stderr
    assert ".map(read).prefetch(tf.data.AUTOTUNE)" in shown.stdout, shown.stdout + shown.stderr
    assert script.read_bytes() == original
    written = fix("--apply", "--only", "missing-prefetch", "train.py")
    assert written.returncode == 0, written.stderr
    assert "a capture of the script as it is now" in written.stderr
    assert script.read_bytes() == original.replace(b".map(read)", b".map(read).prefetch(tf.data.AUTOTUNE)")
    ran = doctor.plain("train.py", backend="tensorflow")
    assert ran.code == 0, ran.err
    assert "trained in" in ran.out
    undone = fix("--undo", "train.py")
    assert undone.returncode == 0, undone.stderr
    assert script.read_bytes() == original
