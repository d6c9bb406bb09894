"""A user's folder under redirection, before and during training."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capture.scratch_run import Run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    folder = tmp_path / "home"
    folder.mkdir()
    run = Run(folder, tmp_path / "state")
    monkeypatch.chdir(folder)
    run.scratch.install()
    try:
        yield run
    finally:
        run.scratch.uninstall()
        os.chdir(tmp_path)


@pytest.fixture
def training(run: Run) -> Run:
    run.training = True
    return run
