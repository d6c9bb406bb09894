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
    original = (CORPUS / "frequent-checkpoint" / "slow.py").read_bytes()
    # So often that it shows on a machine which others use too; in fewer epochs, and as Windows writes it.
    original = original.replace(b"save_freq=10", b"save_freq=2").replace(b"EPOCHS = 8", b"EPOCHS = 3")
    original = original.replace(b"\n", b"\r\n")
    script = doctor.work / "train.py"
    script.write_bytes(original)

    def fix(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "fitdoctor", "fix", *words]
        env = doctor.env("jax")
        return subprocess.run(command, cwd=doctor.work, env=env, capture_output=True, text=True, timeout=300)

    shown = fix("--no-lab", "--only", "frequent-checkpoint", "train.py")
    assert shown.returncode == 0, shown.stderr
    assert 'os.path.join(folder, "last.keras"), save_freq=20)' in shown.stdout, shown.stdout + shown.stderr
    assert script.read_bytes() == original
    written = fix("--apply", "--only", "frequent-checkpoint", "train.py")
    assert written.returncode == 0, written.stderr
    assert "a capture of the script as it is now" in written.stderr
    assert script.read_bytes() == original.replace(b"save_freq=2", b"save_freq=20")
    ran = doctor.plain("train.py", backend="jax")
    assert ran.code == 0, ran.err
    assert "trained in" in ran.out
    undone = fix("--undo", "train.py")
    assert undone.returncode == 0, undone.stderr
    assert script.read_bytes() == original
