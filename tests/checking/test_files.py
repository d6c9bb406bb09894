"""Which files are looked at, and what becomes of those that cannot be."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import fitdoctor
from tests.checking.conftest import EAGER, Check


def places(check: Check, *words: str) -> list[str]:
    data = check(*words, "--format", "json").data
    return [each["site"]["path"] for each in data["suspicions"]]


def test_what_is_nobodys_source_is_skipped_unless_it_is_named(check: Check, here: Path) -> None:
    for name in (".venv/lib/python3.11/site-packages/pkg", ".hidden", "build", "env", "sub/__pycache__", "src/build"):
        (here / name).mkdir(parents=True)
        (here / name / "train.py").write_text(EAGER)
    (here / "env" / "pyvenv.cfg").write_text("")
    (here / "src" / "build" / "__init__.py").write_text("")
    (here / "train.py").write_text(EAGER)
    (here / "train.txt").write_text(EAGER)
    assert places(check) == ["train.py", "src/build/train.py"]
    assert places(check, "build") == ["build/train.py"]
    assert places(check, ".venv/lib/python3.11/site-packages/pkg/train.py") == [
        ".venv/lib/python3.11/site-packages/pkg/train.py"
    ]
    assert places(check, "train.txt") == ["train.txt"]


def test_folders_globs_and_files_and_each_file_once(check: Check, here: Path) -> None:
    (here / "a").mkdir()
    for name in ("a/one.py", "a/two.py", "three.py"):
        (here / name).write_text(EAGER)
    assert places(check, "a/one.py", "a", "./a/t*.py", "three.py") == ["a/one.py", "a/two.py", "three.py"]
    assert places(check, "**/*.py") == ["a/one.py", "a/two.py", "three.py"]


def test_a_link_that_goes_in_circles(check: Check, here: Path) -> None:
    (here / "a").mkdir()
    (here / "a" / "train.py").write_text(EAGER)
    (here / "a" / "again").symlink_to(here / "a")
    assert places(check) == ["a/train.py"]


@pytest.mark.parametrize("path", ["nothing.py", "no/folder", "*.nothing"])
def test_a_path_that_does_not_exist(check: Check, here: Path, path: str) -> None:
    (here / "train.py").write_text(EAGER)
    done = check(path, "train.py")
    assert done.code == 2
    assert path in done.err
    assert "eager-step" in done.out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"import keras\ndef f(:\n", "bad.py:2: is no Python: invalid syntax"),
        (b"import keras\n\xff\xfe = 1\n", "cannot be decoded"),
        (b"# -*- coding: no-such-encoding -*-\nimport keras\n", "cannot be decoded"),
        (b"import keras\n\0", "is no Python"),
        (b"import keras\nx = " + b"(" * 500 + b")" * 500, "is no Python"),
        (b"import keras\nx = " + b"-" * 50_000 + b"1", "is no Python"),
        (b"import keras\nx = keras" + b".a" * 20_000, "it is nested too deeply for Python to parse"),
    ],
)
def test_a_bad_file_is_told_and_stops_nothing(check: Check, here: Path, content: bytes, said: str) -> None:
    (here / "bad.py").write_bytes(content)
    (here / "train.py").write_text(EAGER)
    done = check("--format", "json")
    assert done.code == 2
    assert done.found == [("eager-step", 4)]
    assert said in done.err
    assert len(done.data["unchecked"]) == 1
    assert done.data["files"] == 1
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "content",
    [
        EAGER.encode("utf-8-sig"),
        EAGER.replace("\n", "\r\n").encode(),
        EAGER.replace("\n", "\r").encode(),
        b"# coding: latin-1\n" + EAGER.replace("import keras", "import keras  # \xe9").encode("latin-1"),
        EAGER.replace("import keras\n", "import keras\nx = '\\d'\n").encode(),
        EAGER.replace("import keras\n", "import keras\n\x0c\n").encode(),
    ],
)
def test_unusual_files_are_read_as_python_does(check: Check, here: Path, content: bytes) -> None:
    (here / "train.py").write_bytes(content)
    done = check("--format", "json")
    assert (done.code, len(done.found), done.err) == (1, 1, "")


def test_an_empty_file_and_one_without_a_framework(check: Check, here: Path) -> None:
    (here / "empty.py").write_text("")
    (here / "other.py").write_text("model.compile('adam', 'mse', run_eagerly=True)\nmodel.fit(x)\n")
    assert check().code == 0


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(check: Check, here: Path) -> None:
    (here / "secret.py").write_text(EAGER)
    (here / "secret.py").chmod(0)
    done = check()
    assert done.code == 2
    assert "cannot be read" in done.err


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_searched(check: Check, here: Path) -> None:
    (here / "secret").mkdir(mode=0)
    done = check("secret")
    assert done.code == 2
    assert "cannot be read" in done.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
@pytest.mark.parametrize("words", [[], ["*.py"]])
def test_a_pipe_that_lies_there_is_not_waited_for(check: Check, here: Path, words: list[str]) -> None:
    os.mkfifo(here / "pipe.py")
    (here / "train.py").write_text(EAGER)
    done = check(*words, "--format", "json")
    assert (done.code, done.found) == (2, [("eager-step", 4)])
    assert "pipe.py: is no plain file" in done.err


@pytest.mark.skipif(os.name != "posix", reason="names of another kind")
@pytest.mark.parametrize("form", ["text", "json", "sarif", "junit", "github"])
def test_a_name_that_is_hostile(check: Check, here: Path, form: str) -> None:
    """Neither UTF-8, nor without lines that GitHub takes for commands, nor without those that colour a terminal."""
    for name in (b"\xff.py", b"x\n::error::y.py", b"\x1b[31m.py"):
        with open(os.path.join(os.fsencode(here), name), "wb") as file:
            file.write(EAGER.encode())
    (here / "bad\n::error::\x1b[31m.py").write_text("def f(:\n")
    done = check("--format", form)
    assert done.code == 2
    if form in ("json", "sarif"):
        assert done.data
    assert not any(line.startswith("::") for line in done.err.split("\n"))
    assert "\x1b" not in done.err


def test_a_rule_that_fails_is_told_and_stops_nothing(check: Check, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from fitdoctor.checking import check as checking

    def fails(source: object) -> Any:
        raise RuntimeError("oh")

    rules = [replace(rule, locate=fails) if rule.name == "python-map" else rule for rule in checking.all_rules()]
    monkeypatch.setattr(checking, "_wanted", lambda select, ignore: tuple(rules))
    (here / "train.py").write_text(EAGER)
    done = check("--format", "json")
    assert (done.code, done.found) == (2, [("eager-step", 4)])
    assert "the rule python-map failed, please report it: RuntimeError: oh" in done.err


def test_many_files_are_shared_out_with_the_same_result(check: Check, here: Path) -> None:
    for number in range(320):
        (here / f"train{number:03}.py").write_text(EAGER if number % 10 == 0 else "import keras\n")
    alone, shared = check("--jobs", "1", "--format", "json"), check("--jobs", "2", "--format", "json")
    assert (alone.code, len(alone.found)) == (1, 32)
    assert shared == alone


def test_a_number_of_processes_that_is_none(check: Check, here: Path) -> None:
    assert check("--jobs", "0").code == 2


# --- notebooks ----------------------------------------------------------------------------------------


def notebook(*cells: str, **more: Any) -> str:
    made = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    return json.dumps({"nbformat": 4, "cells": [{"cell_type": "markdown", "source": ["# Training"]}, *made], **more})


def test_a_notebook_is_one_program_told_by_cell_and_line(check: Check, here: Path) -> None:
    cells = (
        "%matplotlib inline\n!pip install keras\nimport keras\n",
        "%%bash\nfor i in *; do echo $i; done\n",
        "files = !ls\nwhere = %pwd\nmodel?\n",
        "%%time\nmodel = make()\nif True:\n    %timeit f()\nmodel.compile('adam', 'mse', run_eagerly=True)\n",
        "model.fit(x,\n    y % 3)\n",
    )
    (here / "train.ipynb").write_text(notebook(*cells))
    done = check("--format", "json")
    assert (done.code, done.err) == (1, "")
    (suspicion,) = done.data["suspicions"]
    assert (suspicion["site"]["cell"], suspicion["site"]["line"]) == (5, 5)
    text = check().out
    assert "train.ipynb:cell 5:5" in text
    assert "▸ 5 │ model.compile" in text
    assert "cell 5, line 5" in check("--format", "github").out
    assert "cell 5, line 5" in check("--format", "sarif").out


@pytest.mark.parametrize("magic", ["%%fitdoctor", "%%time", "%%capture out"])
def test_cells_under_a_magic_that_runs_them_are_looked_at(check: Check, here: Path, magic: str) -> None:
    (here / "train.ipynb").write_text(notebook("%load_ext fitdoctor\nimport keras\n", f"{magic}\n{EAGER}"))
    assert check("--format", "json").found == [("eager-step", 5)]


def test_what_only_looks_like_a_magic_is_python(check: Check, here: Path) -> None:
    cell = '!ls \\\n  -l \\\n  -a\nx = (a\n  % b)\ntext = """\n%no magic\n"""\n%matplotlib inline\n' + EAGER
    (here / "train.ipynb").write_text(notebook(cell))
    done = check("--format", "json")
    assert (done.found, done.err) == ([("eager-step", 13)], "")


def test_a_broken_cell_leaves_the_others(check: Check, here: Path) -> None:
    (here / "train.ipynb").write_text(notebook("def f(:\n  pass\n", EAGER))
    done = check("--format", "json")
    assert done.code == 2
    assert "train.ipynb:cell 2:1: invalid syntax" in done.err
    assert done.found == [("eager-step", 4)]


def test_comments_silence_in_notebooks_too(check: Check, here: Path) -> None:
    cell = EAGER.replace("=True)", "=True)  # fitdoctor: ignore[eager-step, nothing]")
    (here / "train.ipynb").write_text(notebook("x = 1\n", cell))
    done = check("--format", "json")
    assert (done.code, done.found) == (0, [])
    assert "train.ipynb:cell 3:4: a comment names the rule 'nothing'" in done.err


def test_an_old_notebook(check: Check, here: Path) -> None:
    sheet = {"cells": [{"cell_type": "code", "input": EAGER}]}
    (here / "train.ipynb").write_text(json.dumps({"nbformat": 3, "worksheets": [sheet]}))
    assert check("--format", "json").found == [("eager-step", 4)]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"cells": 3}', '{"cells": [3, {"cell_type": "code"}]}'])
def test_a_notebook_that_is_none(check: Check, here: Path, content: str) -> None:
    (here / "train.ipynb").write_text(content)
    done = check()
    assert done.code == (0 if "code" in content else 2)
    assert "Traceback" not in done.err


# --- from code ----------------------------------------------------------------------------------------


def test_from_code(here: Path) -> None:
    (here / "train.py").write_text(EAGER)
    checked = fitdoctor.check(here / "train.py", select=["framework"])
    assert [(spot.suspicion.rule, spot.suspicion.site.line) for spot in checked.spots] == [("eager-step", 4)]
    assert checked.spots[0].where.endswith("train.py:4")
    with pytest.raises(Exception, match="there is no rule or family 'none'"):
        fitdoctor.check(ignore=["none"])
