"""`diagnose` and `report` on real capture files, in real processes."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from fitdoctor.capture import store
from tests.cli.conftest import Cli
from tests.report.contract import assert_contract


def test_diagnose_prints_the_report(cli: Cli, capture: Path) -> None:
    done = cli("diagnose", str(capture))
    assert done.returncode == 0, done.stderr
    assert "imports" in done.stdout
    assert done.stderr == ""


def test_diagnose_without_a_name_takes_the_newest(cli: Cli, capture: Path, home: Path) -> None:
    none = cli("diagnose")
    assert none.returncode == 2
    assert str(home / "runs") in none.stderr
    assert "fitdoctor run" in none.stderr
    (home / "runs").mkdir(parents=True)
    for age, name in enumerate(("b", "a", "c")):
        shutil.copy(capture, home / "runs" / f"{name}{store.SUFFIX}")
        os.utime(home / "runs" / f"{name}{store.SUFFIX}", (1e9 - age, 1e9 - age))
    done = cli("diagnose")
    assert done.returncode == 0
    assert str(home / "runs" / f"b{store.SUFFIX}") in done.stderr


def test_diagnose_json_to_stdout_and_to_a_file(cli: Cli, capture: Path, tmp_path: Path) -> None:
    done = cli("diagnose", str(capture), "--json", "-")
    assert done.returncode == 0, done.stderr
    data = assert_contract(done.stdout)
    assert "imports" in done.stderr
    assert data["phases"]["imports"] == 2.0
    done = cli("diagnose", str(capture), "--json", str(tmp_path / "r.json"))
    assert assert_contract((tmp_path / "r.json").read_text("utf-8")) == data
    assert "r.json" in done.stderr


def test_report_in_each_format_to_each_place(cli: Cli, capture: Path, tmp_path: Path) -> None:
    shown = cli("report", str(capture))
    file = tmp_path / "report.txt"
    cli("report", str(capture), "-o", str(file))
    assert shown.stdout
    assert file.read_text("utf-8") == shown.stdout
    assert_contract(cli("report", str(capture), "--format", "json").stdout)
    cli("report", str(capture), "--format", "json", "-o", str(file))
    assert_contract(file.read_text("utf-8"))


def test_a_terminal_without_unicode(cli: Cli, capture: Path) -> None:
    done = cli("report", str(capture), env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert done.stdout.isascii()


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "empty", "text", "foreign", "truncated", "newer"])
@pytest.mark.parametrize("command", ["diagnose", "report"])
def test_a_file_that_is_no_capture(cli: Cli, capture: Path, tmp_path: Path, kind: str, command: str) -> None:
    file = tmp_path / "file"
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "empty":
        file.touch()
    elif kind == "text":
        file.write_text("not a database\n" * 1000)
    elif kind == "foreign":
        sqlite3.connect(file).execute("CREATE TABLE t(x)")
    elif kind == "truncated":
        file.write_bytes(capture.read_bytes()[:5000])
    elif kind == "newer":
        shutil.copy(capture, file)
        with sqlite3.connect(file) as db:
            db.execute(f"PRAGMA user_version={store.VERSION + 1}")
    done = cli(command, str(file))
    assert done.returncode == 2
    assert done.stdout == ""
    assert str(file) in done.stderr
    assert "→" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [["diagnose"], ["report", "--format", "chrome"]])
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE meta SET value='{' WHERE key='exit'",
        "ALTER TABLE callbacks ADD COLUMN more INT; INSERT INTO callbacks(call) VALUES(1)",
        """UPDATE meta SET value='"fitdoctor.capture/2"' WHERE key='schema'""",
        "INSERT INTO steps(call) VALUES(1)",
    ],
)
def test_a_damaged_capture_is_no_bug_of_ours(cli: Cli, capture: Path, words: list[str], change: str) -> None:
    with sqlite3.connect(capture) as db:
        db.executescript(change)
    done = cli(*words, str(capture))
    assert done.returncode == 2
    assert str(capture) in done.stderr
    assert "bug" not in done.stderr


def test_a_call_that_tells_a_list_is_a_damaged_one(cli: Cli, capture: Path) -> None:
    with sqlite3.connect(capture) as db:
        db.execute("INSERT INTO calls(id, kind, start_ns, count, info) VALUES(1, 'fit', 0, 1, '[]')")
    done = cli("diagnose", str(capture))
    assert done.returncode == 2
    assert "is damaged: expected a table, found []" in done.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_no_bug_of_ours(cli: Cli, capture: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    capture.chmod(0)
    for words, said in (
        (["diagnose", str(closed / "x.fitdoctor")], "a folder that may not be searched"),
        (["report", str(capture), "-o", str(closed / "x.html")], "Permission denied"),
        (["diagnose", str(capture)], "permission denied"),
        (["serve", "--no-open", str(closed)], "may not be read"),
    ):
        done = cli(*words)
        assert done.returncode == 2
        assert said in done.stderr


def test_an_output_that_cannot_be_written_is_said_first(cli: Cli, capture: Path, tmp_path: Path) -> None:
    for words in (["diagnose", str(capture), "--json"], ["report", str(capture), "-o"]):
        done = cli(*words, str(tmp_path / "no" / "folder" / "x"))
        assert done.returncode == 2
        assert done.stdout == ""
        assert "No such file or directory" in done.stderr


@pytest.mark.parametrize("command", ["run", "cure", "tune"])
def test_a_state_folder_that_cannot_be_written_is_said_before_anything_runs(
    cli: Cli, home: Path, tmp_path: Path, command: str
) -> None:
    home.write_text("a file, where a folder should be")
    (tmp_path / "train.py").write_text("print('it ran')\n")
    done = cli(command, str(tmp_path / "train.py"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "→ name a folder you can write to in FITDOCTOR_HOME" in done.stderr
