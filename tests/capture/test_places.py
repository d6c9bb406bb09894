from __future__ import annotations

import os
from pathlib import Path

import pytest

from fitdoctor.capture import places
from fitdoctor.capture.store import SUFFIX
from fitdoctor.errors import UsageError

NOON = 1_700_000_000.0


@pytest.fixture(autouse=True)
def _user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FITDOCTOR_HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_the_state_folder_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert places.runs_folder() == tmp_path / ".local" / "state" / "fitdoctor" / "runs"
    monkeypatch.setenv("XDG_STATE_HOME", "relative/is/invalid")
    assert places.runs_folder() == tmp_path / ".local" / "state" / "fitdoctor" / "runs"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert places.runs_folder() == tmp_path / "xdg" / "fitdoctor" / "runs"
    monkeypatch.setenv("FITDOCTOR_HOME", "~/own")
    assert places.runs_folder() == tmp_path / "own" / "runs"


def test_without_a_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container, under a number that is nobody's."""
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.raises(UsageError, match="FITDOCTOR_HOME"):
        places.home()
    monkeypatch.setenv("FITDOCTOR_HOME", "~nobody/runs")
    assert places.home() == Path.cwd() / "~nobody" / "runs"


def test_the_newest_by_time_not_by_name() -> None:
    assert places.newest() is None
    places.runs_folder().mkdir(parents=True)
    for name, age in (("a", 1), ("b", 3), ("c", 2)):
        path = places.runs_folder() / f"{name}{SUFFIX}"
        path.touch()
        os.utime(path, (NOON - age, NOON - age))
    (places.runs_folder() / "newer.txt").touch()
    (places.runs_folder() / f"gone{SUFFIX}").symlink_to("nothing")
    newest = places.newest()
    assert newest is not None
    assert newest.name == f"a{SUFFIX}"


def test_a_new_capture_never_takes_the_name_of_another() -> None:
    first = places.new_capture_path("/some/where/my train.py", NOON)
    assert first.parent == places.runs_folder()
    assert first.name.endswith(f"-my_train{SUFFIX}")
    first.parent.mkdir(parents=True)
    first.touch()
    second = places.new_capture_path("/some/where/my train.py", NOON)
    assert second.name.endswith(f"-my_train-2{SUFFIX}")


@pytest.mark.parametrize("name", ["", "/", "..", "é\x1b[2J/\n", "x" * 500, "-m", "pkg.train"])
def test_any_script_name_gives_a_plain_file_name(name: str) -> None:
    path = places.new_capture_path(name, NOON)
    assert path.parent == places.runs_folder()
    assert path.name.isascii()
    assert path.name.isprintable()
    assert len(path.name) < 120
