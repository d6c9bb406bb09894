"""A capture while it is written, as a run writes it."""

from __future__ import annotations

import time
from pathlib import Path

from fitdoctor.capture import store
from tests.captures.build import Run

RUNNING = {"reason": "running", "code": None, "signal": None}


def begun(folder: Path, name: str = "live.fitdoctor") -> tuple[store.Writer, Run]:
    """Begin a capture as a run does, with nothing but its meta."""
    run = Run("jax", script="/home/me/now.py", started=time.time(), exit=RUNNING)
    writer = store.Writer(folder / name)
    writer.meta({**run.meta, "progress": {"steps": 0, "elapsed": 1.5, "training": False}})
    return writer, run


def grown(writer: store.Writer, run: Run, steps: int, **parts: float) -> None:
    """Write some steps more, as the recorder does."""
    run.tables = {}
    run._calls = 0
    run.fit(steps=steps, finished=False, epochs_planned=50, **parts).callback("Watch", ms=parts["callbacks_ms"])
    writer.write(run.tables)
    writer.meta({"progress": {"steps": steps, "elapsed": 9.0, "training": True}})


def ended(writer: store.Writer) -> None:
    """End the run."""
    writer.meta({"exit": {"reason": "finished", "code": 0}})
    writer.seal()
