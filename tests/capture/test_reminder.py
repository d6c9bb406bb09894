"""Experiments that did not hear Ctrl-C are told again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from fitdoctor.capture.reminder import DEAF_SECONDS, Reminder
from tests.conftest import Doctor, at_a_terminal

SECOND = 1_000_000_000


class Run:
    """A run whose experiments were begun in its second 10, looked at by a clock that is set by hand."""

    def __init__(self, *, heard: float | None) -> None:
        self.now = 10.0
        self.sent: list[float] = []
        came = None if heard is None else round(heard * SECOND)
        self._reminder = Reminder(
            0, lambda: came, lambda: self.sent.append(self.now), clock=lambda: round(self.now * SECOND)
        )

    def look(self, at: float, lab: str = "experiment 1 of 9: jit", told: float | None = None) -> None:
        self.now = at
        self._reminder.look({"lab": lab, "lab_since": 10.0, "elapsed": at if told is None else told})


def test_who_goes_on_is_told_again_and_again() -> None:
    run = Run(heard=12.0)
    for second in range(11, 30):
        run.look(float(second))
    assert run.sent == [12.0 + DEAF_SECONDS + 1, 12.0 + 2 * (DEAF_SECONDS + 1)]


def test_what_was_told_before_says_nothing() -> None:
    run = Run(heard=12.0)
    run.look(30.0, told=12.5)
    assert run.sent == []


def test_who_has_heard_makes_no_experiments_any_more() -> None:
    run = Run(heard=12.0)
    run.look(30.0, lab="")
    assert run.sent == []


def test_without_it_nothing_is_sent() -> None:
    run = Run(heard=None)
    run.look(30.0)
    assert run.sent == []


def test_one_that_was_for_the_script_is_no_business_of_the_experiments() -> None:
    run = Run(heard=9.0)
    run.look(30.0)
    assert run.sent == []


DEAF = """
import os, signal, time
from fitdoctor.capture import session

signal.signal(signal.SIGINT, signal.SIG_IGN)
with session.current()._lab():
    session.current()._tell("experiment 1 of 2: a long one")
    while not os.path.exists("sent"):
        time.sleep(0.05)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        print("heard", flush=True)
"""


def test_a_process_that_lost_it_gets_it_once_more(doctor: Doctor, tmp_path: Path) -> None:
    script = doctor.script(DEAF)
    words = ("run", "--capture", str(tmp_path / "c.fitdoctor"), str(script))
    process = at_a_terminal(*words, cwd=doctor.work, env=doctor.env())
    assert process.stderr is not None
    for line in process.stderr:
        if "experiment 1 of 2" in line:
            break
    else:
        pytest.fail("the experiment was not seen")
    os.killpg(process.pid, signal.SIGINT)
    (doctor.work / "sent").touch()
    out, err = process.communicate(timeout=60)
    assert "heard" in out, err
