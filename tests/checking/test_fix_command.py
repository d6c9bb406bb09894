"""`fitdoctor check --fix` as a user types it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fitdoctor.cli.main import main
from tests.checking.conftest import EAGER, FAST, FIXED, LINE, SLOW, Check


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("FITDOCTOR_HOME", str(home))
    return home


def test_it_mends_once_and_undo_gives_every_byte_back(check: Check, here: Path) -> None:
    one, two = here / "one.py", here / "deep" / "two.py"
    two.parent.mkdir()
    one.write_bytes(SLOW.encode())
    two.write_bytes(SLOW.replace("\n", "\r\n").encode())
    done = check("--fix")
    assert done.code == 0, done.out + done.err
    assert one.read_bytes() == FAST.encode()
    assert two.read_bytes() == FAST.replace("\n", "\r\n").encode()
    assert "mended one.py:3: per-element-map: batch first" in done.out
    assert done.out.endswith("Nothing suspicious, 2 files checked; 2 mended.\n")
    assert "`fitdoctor fix --undo` takes it back" in done.err

    again = check("--fix")
    assert (again.code, again.out, again.err) == (0, "Nothing suspicious, 2 files checked.\n", "")
    assert main(["fix", "--undo"]) == 0
    assert one.read_bytes() == SLOW.encode()
    assert two.read_bytes() == SLOW.replace("\n", "\r\n").encode()


def test_undo_of_one_file_among_those_that_were_mended(check: Check, here: Path) -> None:
    for name in ("one.py", "two.py"):
        (here / name).write_text(SLOW)
    assert check("--fix").code == 0
    assert main(["fix", "--undo", "two.py"]) == 0
    assert {(here / name).read_text() for name in ("one.py", "two.py")} == {SLOW}, "they were one fix"


def test_what_remains_is_told(check: Check, here: Path) -> None:
    (here / "train.py").write_text(EAGER + SLOW)
    done = check("--fix", "--format", "json")
    assert done.code == 1
    assert [rule for rule, _ in done.found] == ["eager-step"]
    (fixed,) = done.data["fixed"]
    assert (fixed["rule"], fixed["site"]["line"]) == ("per-element-map", 8)
    assert (here / "train.py").read_text() == EAGER + FAST


def test_without_it_nothing_is_written_and_it_is_spoken_of(check: Check, here: Path) -> None:
    (here / "train.py").write_text(EAGER + SLOW)
    done = check()
    assert done.code == 1
    assert done.out.count("--fix  ") == 1
    assert done.out.endswith("2 suspicions in 1 file, 1 file checked; --fix mends 1.\n")
    told = {each["rule"]: each["fix"] for each in check("--format", "json").data["suspicions"]}
    assert told == {"eager-step": None, "per-element-map": "batch first: the map is called once per batch"}
    assert (here / "train.py").read_text() == EAGER + SLOW


@pytest.mark.parametrize("words", [["--diff"], ["--fix", "--diff"]])
def test_a_diff_is_shown_instead(check: Check, here: Path, words: list[str], state: Path) -> None:
    (here / "train.py").write_text(EAGER + SLOW)
    done = check(*words)
    assert done.code == 1
    assert done.out.startswith("--- a/train.py\n+++ b/train.py\n@@ ")
    assert f"-{LINE}+{FIXED}" in done.out
    assert done.err == "fitdoctor: nothing was written; --fix would mend 1 of 2 suspicions\n"
    assert (here / "train.py").read_text() == EAGER + SLOW
    assert list(state.iterdir()) == []


def test_a_diff_goes_to_a_file(check: Check, here: Path) -> None:
    (here / "train.py").write_text(SLOW)
    assert check("--diff", "--output", "fix.patch").code == 1
    assert f"+{FIXED}" in (here / "fix.patch").read_text()


def test_a_diff_is_no_other_format(check: Check, here: Path) -> None:
    done = check("--diff", "--format", "json")
    assert done.code == 2
    assert "found --format json beside it" in done.err


def test_nothing_to_mend_is_an_empty_diff(check: Check, here: Path) -> None:
    (here / "train.py").write_text(FAST)
    done = check("--diff")
    assert (done.code, done.out) == (0, "")


@pytest.mark.parametrize(
    "words", [["--ignore", "per-element-map"], ["--ignore", "input"], ["--select", "framework"], ["--exclude", "tr*"]]
)
def test_what_is_not_looked_for_is_not_mended(check: Check, here: Path, words: list[str]) -> None:
    (here / "train.py").write_text(SLOW)
    assert check("--fix", *words).code == 0
    assert (here / "train.py").read_text() == SLOW


def test_the_settings_of_the_project_count(check: Check, here: Path) -> None:
    (here / "pyproject.toml").write_text('[tool.fitdoctor.check.per-file-ignores]\n"old/*" = ["per-element-map"]\n')
    for name in ("old", "new"):
        (here / name).mkdir()
        (here / name / "train.py").write_text(SLOW)
    assert check("--fix").code == 0
    assert (here / "old" / "train.py").read_text() == SLOW
    assert (here / "new" / "train.py").read_text() == FAST


def test_a_notebook_is_left_and_said(check: Check, here: Path) -> None:
    cells = [{"cell_type": "code", "source": SLOW, "outputs": [], "metadata": {}}]
    book = here / "train.ipynb"
    book.write_text(json.dumps({"cells": cells, "nbformat": 4}))
    before = book.read_bytes()
    done = check("--fix")
    assert done.code == 1
    assert "not mended: train.ipynb: notebooks are not edited" in done.err
    assert "--fix" not in done.out
    assert book.read_bytes() == before


def test_files_that_may_not_be_written(check: Check, here: Path) -> None:
    (here / "one.py").write_text(SLOW)
    os.link(here / "one.py", here / "two.py")
    elsewhere = here.parent / f"{here.name}-elsewhere"
    elsewhere.mkdir()
    (elsewhere / "three.py").write_text(SLOW)
    (here / "pyproject.toml").touch()
    (here / "three.py").symlink_to(elsewhere / "three.py")
    done = check("--fix")
    assert done.code == 1
    assert "2 hard links" in done.err
    assert "--fix" not in done.out, "what --fix cannot mend is not promised again"
    assert "outside of the project" in done.err
    assert {(here / name).read_text() for name in ("one.py", "two.py", "three.py")} == {SLOW}


def test_a_comment_in_the_way_is_told_with_its_line(check: Check, here: Path) -> None:
    text = (
        "import tensorflow as tf\n\ndata = (\n    tf.data.Dataset.range(1000)\n"
        "    .map(lambda n: tf.cast(n, tf.float32))  # why\n    .batch(32)\n)\n"
    )
    (here / "train.py").write_text(text)
    done = check("--fix")
    assert done.code == 1
    assert "not mended: train.py:5: per-element-map: the calls are written in a way" in done.err
    assert (here / "train.py").read_text() == text


def test_a_file_that_is_no_python_stops_nothing(check: Check, here: Path) -> None:
    (here / "bad.py").write_text("def (:\n")
    (here / "train.py").write_text(SLOW)
    done = check("--fix")
    assert done.code == 2
    assert (here / "train.py").read_text() == FAST
