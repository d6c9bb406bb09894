"""One run: when it is given up, what is told of one that failed, what is done about one that was left behind."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from fitdoctor.capture import launch, store
from fitdoctor.capture.launch import Options
from fitdoctor.tune.attempt import Job, Watch, attempt, never
from fitdoctor.tune.settings import Settings


def job(steps: int = 200, patience: float = 60.0, target: str = "train.py") -> Job:
    return Job("name", Options(target=target, steps=steps), Settings(backend="jax"), patience=patience)


def test_looks_are_told_in_parts() -> None:
    told: list[tuple[int, float]] = []
    watch = Watch(job(), lambda chunk, step_s: told.append((chunk, step_s)) is not None)
    for steps in (0, 10, 60, 120, 400):
        assert not watch({"steps": steps, "steady_s": steps * 0.02} if steps else {})
    assert [chunk for chunk, _ in told] == [0, 0, 1, 2, 4]
    assert told[-1][1] == pytest.approx(0.02)


def test_long_steps_are_told_in_parts_of_the_time() -> None:
    told: list[int] = []
    watch = Watch(job(), lambda chunk, step_s: told.append(chunk) is not None)
    for steps in (1, 10, 20):
        watch({"steps": steps, "steady_s": steps * 1.8})
    assert told == [0, 1, 2]


def test_a_run_is_ended_where_nobody_wants_it() -> None:
    watch = Watch(job(), lambda chunk, step_s: chunk >= 2)
    assert not watch({"steps": 50, "steady_s": 1.0})
    assert watch({"steps": 100, "steady_s": 2.0})
    assert watch.stopped


def test_patience_ends() -> None:
    now = [0.0]
    watch = Watch(job(), never, lambda: now[0])
    now[0] = 59.0
    assert not watch({})
    now[0] = 61.0
    assert not watch({"steps": 1, "steady_s": 0.1}), "it trains"
    assert watch({})
    assert watch.failed.startswith("no steady step within")


def test_a_job_says_how_it_is_started() -> None:
    options = job().to_run
    assert (options.backend, options.settings) == ("jax", {"backend": "jax"})


def test_the_last_line_of_a_script_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("raise MemoryError('8 GiB are not there')\n")
    result = attempt(job())
    assert result.failed == "MemoryError: 8 GiB are not there"


def test_a_script_that_trains_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import sys\nprint('careful!', file=sys.stderr)\n")
    assert attempt(job()).failed.startswith("No training was seen")


def test_a_run_that_is_ended_takes_its_workers_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(
        "import subprocess, sys, time\n"
        "worker = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open('pids', 'w').write(str(worker.pid))\n"
        "time.sleep(600)\n"
    )
    started = time.monotonic()
    options = Options(target="train.py", silent=True, capture=tmp_path / f"a{store.SUFFIX}")
    ended = launch.launch(options, lambda text: None, lambda progress: (tmp_path / "pids").exists())
    assert time.monotonic() - started < 60
    assert (ended.reason, ended.returncode) == ("signal", 143)
    worker = int((tmp_path / "pids").read_text())
    assert not psutil.pid_exists(worker) or psutil.Process(worker).status() == psutil.STATUS_ZOMBIE


def test_what_an_attempt_that_was_killed_left_behind_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('no training')\n")
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    folder = tmp_path / "left"
    folder.mkdir()
    writer = store.Writer(folder / f"run{store.SUFFIX}")
    writer.meta({"pid": left.pid, "started": time.time()})
    writer.close()
    assert attempt(job(), folder=folder).failed.startswith("No training")
    assert left.wait(10) != 0
    assert not folder.exists()
