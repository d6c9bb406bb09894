"""One run of a version: what becomes of it where it fails, hangs, or is asked to end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.capture.launch import Ended, Options
from fitdoctor.errors import UsageError
from fitdoctor.proof import runs
from fitdoctor.proof.runs import LEAST_PATIENCE, PATIENCE, CannotTime, Patience

OPTIONS = Options(target="train.py", steps=200)


def starting(code: int, message: str = "", took: Callable[[Callable[[Any], bool]], None] = lambda stop: None) -> Any:
    def start(options: Options, folder: Path, *, aligned: bool, stop: Callable[[Any], bool]) -> Ended:
        took(stop)
        return Ended(folder, code, "signal" if code > 128 else "exception", True, message)

    return start


@pytest.mark.parametrize(("code", "message"), [(1, "The script ended with exit code 1."), (137, "out of memory")])
def test_a_run_that_fails_says_so(monkeypatch: pytest.MonkeyPatch, code: int, message: str) -> None:
    monkeypatch.setattr(runs, "start", starting(code, message))
    with pytest.raises(CannotTime, match=message) as raised:
        runs.once(OPTIONS)
    assert not raised.value.trained


@pytest.mark.parametrize("code", [129, 130, 143])
def test_a_run_that_somebody_ended_is_no_failure_of_the_change(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(runs, "start", starting(code))
    with pytest.raises(UsageError) as raised:
        runs.once(OPTIONS)
    assert not isinstance(raised.value, CannotTime)


def test_a_run_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    patience = Patience(lambda: now[0])

    def hang(stop: Callable[[Any], bool]) -> None:
        while not stop({}):
            now[0] += 0.5
            assert now[0] < 1000, "nobody ended it"

    monkeypatch.setattr(runs, "start", starting(143, took=hang))
    patience.begin()
    now[0] = 20.0
    patience.end()
    with pytest.raises(CannotTime, match=r"train\.py had not come to its end after 5 min 00 s"):
        runs.once(OPTIONS, patience=patience)


def test_patience_is_that_of_the_longest_run() -> None:
    now = [0.0]
    patience = Patience(lambda: now[0])

    def run(seconds: float) -> bool:
        patience.begin()
        now[0] += seconds
        over = patience.over()
        if not over:
            patience.end()
        return over

    assert not run(100_000), "the first may take as long as it likes"
    now[0], patience = 0.0, Patience(lambda: now[0])
    assert not run(1)
    assert not run(LEAST_PATIENCE)
    assert not run(LEAST_PATIENCE * PATIENCE - 1)
    assert run(LEAST_PATIENCE * PATIENCE * PATIENCE)
