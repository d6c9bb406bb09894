"""Worker processes: what they do when something ends early."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys

import pytest

from fitdoctor.errors import CannotRun
from fitdoctor.lab.experiments.worker_processes import _first_batch
from fitdoctor.rewrites.processes import Crew

INTERRUPTED = """
import os, signal, threading, time
from fitdoctor.rewrites.processes import Crew


class Slow:
    def __getitem__(self, number):
        time.sleep(2 * number)
        return number


crew = Crew(Slow(), 2)
crew.make(0, 0)
signal.signal(signal.SIGINT, lambda *_: print("heard", flush=True))
threading.Timer(0.5, lambda: os.killpg(0, signal.SIGINT)).start()
print(crew.make(0, 1), flush=True)
crew.stop()
"""


def test_control_c_is_for_whoever_asks_for_batches() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        capture_output=True,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "heard\n1\n", "")


class UsedUp:
    def __getitem__(self, number: int) -> int:
        raise StopIteration


class Broken:
    def __getitem__(self, number: int) -> int:
        raise ValueError("no such picture")


def test_where_no_first_batch_comes_no_process_is_left() -> None:
    before = set(multiprocessing.active_children())
    with pytest.raises(CannotRun, match="used up"):
        _first_batch(Crew(UsedUp(), 2))
    with pytest.raises(ValueError, match="no such picture"):
        _first_batch(Crew(Broken(), 2))
    assert set(multiprocessing.active_children()) == before
