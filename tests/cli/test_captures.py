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


@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "text", "foreign", "truncated", "newer"])
@pytest.mark.parametrize("command", ["diagnose", "report"])
def test_a_file_that_is_no_capture(cli: Cli, capture: Path, tmp_path: Path, kind: str, command: str) -> None:
    file = tmp_path / "file"
    if kind == "folder":
        file.mkdir()
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


def test_an_output_that_cannot_be_written_is_said_first(cli: Cli, capture: Path, tmp_path: Path) -> None:
    for words in (["diagnose", str(capture), "--json"], ["report", str(capture), "-o"]):
        done = cli(*words, str(tmp_path / "no" / "folder" / "x"))
        assert done.returncode == 2
        assert done.stdout == ""
        assert "No such file or directory" in done.stderr
