"""Ctrl-C in a real search: it ends at once, nothing runs on, and what was tried is not lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import Doctor
from tests.tune.test_live import ARRAYS

PATIENCE = 120.0


@contextmanager
def searching(doctor: Doctor, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Start a search as a terminal does: in a group of processes that all get what is typed."""
    said = doctor.folder / f"said{len(words)}.txt"
    command = [sys.executable, "-m", "fitdoctor", "tune", "--only", "steps_per_execution", "--steps", "40", *words]
    with open(said, "wb") as log:
        started = subprocess.Popen(
            [*command, "train.py"],
            cwd=doctor.work,
            env=doctor.env("jax"),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # Whoever runs the tests in the background has it ignored, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        try:
            yield started, said
        finally:
            if members(started.pid):
                os.killpg(started.pid, signal.SIGKILL)
            started.wait()


def members(group: int) -> list[int]:
    """Return the processes of a group that are still running."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # ended meanwhile
            continue
        if int(its_group) == group and state != "Z":
            found.append(int(stat.parent.name))
    return found


def until(started: subprocess.Popen[bytes], said: Path, words: str) -> None:
    """Wait for a word of the search, and for the process of the trial that it tells of."""
    end = time.monotonic() + PATIENCE
    while words not in said.read_text("utf-8", "replace") or len(members(started.pid)) < 2:
        assert started.poll() is None, said.read_text("utf-8", "replace")
        assert time.monotonic() < end, said.read_text("utf-8", "replace")
        time.sleep(0.05)


def test_steps_that_may_take_no_time_have_no_highest_rate() -> None:
    from fitdoctor.model import Interval
    from fitdoctor.report import tuned
    from fitdoctor.tune.seen import Seen

    fields = dict.fromkeys(Seen.__dataclass_fields__) | {"step_s": Interval(0.0, 0.5, 1.0), "batch": 2.0}
    rate = Seen(**fields).rate  # type: ignore[arg-type]
    assert (rate.low, rate.mid, rate.high) == (2.0, 4.0, float("inf"))
    assert tuned._rate(rate) == {"low": 2.0, "mid": 4.0, "high": None}


@pytest.mark.framework
def test_a_search_is_interrupted_and_goes_on_later(doctor: Doctor) -> None:
    script = doctor.script(ARRAYS)
    with searching(doctor) as (started, said):
        until(started, said, "trial 1")
        os.killpg(started.pid, signal.SIGINT)
        assert started.wait(timeout=60) == 130, said.read_text("utf-8", "replace")
        assert members(started.pid) == [], "nothing runs on"
    told = said.read_text("utf-8", "replace")
    assert "interrupted; `fitdoctor tune --resume` with the same options goes on" in told
    assert "Traceback" not in told
    with searching(doctor, "--resume") as (started, said):
        until(started, said, "trials so far")
        assert "going on with " in said.read_text("utf-8", "replace")
        assert "trial 0: as the script has it" not in said.read_text("utf-8", "replace"), "that is known"
        os.killpg(started.pid, signal.SIGINT)
        assert started.wait(timeout=60) == 130, said.read_text("utf-8", "replace")
        assert members(started.pid) == []
    assert script.read_text() == ARRAYS
    assert sorted(path.name for path in doctor.work.iterdir()) == ["train.py"], "nothing is saved"
