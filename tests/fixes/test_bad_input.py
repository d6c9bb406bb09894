"""Files that cannot be edited, or not so easily: a clear word, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.captures.build import Run
from tests.fixes.conftest import FIXED_TRAIN, MODEL, SRC, TRAIN, Project

ONLY = ("--only", "frequent-checkpoint")
MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xff\xfe" + TRAIN, "it is not text that Python can read: invalid or missing encoding declaration"),
        (TRAIN + b"# \xe4\n", "it is not text that Python can read: 'utf-8' codec can't decode byte 0xe4"),
        (TRAIN + b"def broken(:\n", "it is not Python that can be read: invalid syntax (line 7)"),
        (TRAIN + b"\x00\n", "it is not Python that can be read: source code string cannot contain null bytes"),
        (b"# coding: martian\n" + TRAIN, "it is not text that Python can read: unknown encoding: martian"),
        (TRAIN.replace(b"\n", b"\r"), "its layout cannot be kept"),
        (b"\x0c" + TRAIN, "its layout cannot be kept"),
    ],
    ids=["garbage", "latin, not declared", "no Python", "null bytes", "unknown encoding", "old line ends", "form feed"],
)
def test_what_cannot_be_edited_is_said_and_left_alone(project: Project, data: bytes, words: str) -> None:
    project.write(train=data)
    done = project.fix("--apply", *ONLY, str(project.capture()))
    assert done.returncode == 0, done.stderr
    assert "by hand" in done.stdout
    assert words in done.stdout
    if "layout" not in words:
        assert "train.py cannot be edited: " in done.stdout
    assert "Traceback" not in done.stderr
    assert project.bytes()["train"] == data
    assert "nothing was written" in done.stderr


def test_a_file_that_is_no_python_does_not_stand_in_the_way_of_another(project: Project) -> None:
    project.write(model=b"def broken(:\n")
    done = project.fix("--apply", str(project.capture()))
    assert done.returncode == 0, done.stderr
    assert project.bytes() == {"train": FIXED_TRAIN, "model": b"def broken(:\n"}
    assert "model.py cannot be edited: it is not Python that can be read: invalid syntax (line 1)" in done.stdout


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (TRAIN.replace(b"\n", b"\r\n"), FIXED_TRAIN.replace(b"\n", b"\r\n")),
        (MARK + TRAIN, MARK + FIXED_TRAIN),
        (MARK + TRAIN.replace(b"\n", b"\r\n").rstrip(), MARK + FIXED_TRAIN.replace(b"\n", b"\r\n").rstrip()),
        (b"# coding: latin-1\n# \xe4\n" + TRAIN, b"# coding: latin-1\n# \xe4\n" + FIXED_TRAIN),
        (b"# -*- coding: cp1252 -*-\n# \x80\n" + TRAIN, b"# -*- coding: cp1252 -*-\n# \x80\n" + FIXED_TRAIN),
        (TRAIN.replace(b"\n", b"\r\n", 2), FIXED_TRAIN.replace(b"\n", b"\r\n", 2)),
    ],
    ids=["windows", "mark", "both, unended", "latin", "another code page", "mixed line ends"],
)
def test_bytes_that_are_no_part_of_the_fix_stay(project: Project, before: bytes, after: bytes) -> None:
    project.write(train=before)
    done = project.fix("--apply", *ONLY, str(project.capture()))
    assert done.returncode == 0, done.stdout + done.stderr
    assert project.bytes()["train"] == after
    assert project.fix("--undo").returncode == 0
    assert project.bytes()["train"] == before


def test_a_script_with_a_syntax_error_ends_as_python_ends_it(project: Project) -> None:
    project.write(train=b"def broken(:\n")
    done = project.fix("--apply", "train.py")
    assert done.returncode == 1
    assert "SyntaxError: invalid syntax" in done.stderr
    assert "No training was seen" in done.stderr
    assert project.bytes()["train"] == b"def broken(:\n"


# --- links ----------------------------------------------------------------------------------------------------


def test_a_link_that_leads_out_of_the_project_is_not_followed(project: Project, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    real = elsewhere / "shared.py"
    real.write_bytes(TRAIN)
    (project.folder / "pyproject.toml").touch()
    (project.folder / "saving.py").symlink_to(real)
    project.write(train=b"import saving\n")
    capture = str(project.capture(also=(project.folder / "saving.py",)))
    done = project.fix("--apply", *ONLY, capture)
    assert done.returncode == 2
    assert f"saving.py leads to {real}, which lies outside of the project" in " ".join(done.stdout.split())
    assert real.read_bytes() == TRAIN


def test_a_link_that_leads_nowhere(project: Project) -> None:
    capture = str(project.capture())
    script = project.files.pop("train")
    script.rename(project.folder / "moved.py")
    script.symlink_to("gone.py")
    done = project.fix("--apply", *ONLY, capture)
    assert done.returncode == 2
    assert "cannot be read: No such file" in done.stdout
    script.unlink()
    script.symlink_to("train.py")
    assert "cannot be read: Too many levels of symbolic links" in project.fix("--apply", *ONLY, capture).stdout


def test_a_folder_where_the_file_was(project: Project) -> None:
    capture = str(project.capture())
    project.files["train"].unlink()
    project.files.pop("train").mkdir()
    done = project.fix("--apply", *ONLY, capture)
    assert done.returncode == 2
    assert "is no regular file" in done.stdout


# --- the run-time form ----------------------------------------------------------------------------------------


def test_what_may_not_be_written_can_be_run_all_the_same(project: Project) -> None:
    from fitdoctor import pipeline
    from fitdoctor.fixes.plan import Wanted

    capture = project.capture()
    project.files["train"].chmod(0o444)
    done = project.fix("--apply", *ONLY, str(capture))
    assert done.returncode == 2
    assert "is read-only" in done.stdout
    assert "or  `fitdoctor run --whole --with-fixes` trains with it, and changes no file" in done.stdout
    unwritten = pipeline.plan_fixes(capture, Wanted(only=frozenset(ONLY[1:]), written=False))
    assert [(each.state, each.otherwise) for each in unwritten.items] == [("ready", "")]
    assert [each.after for each in unwritten.files] == [FIXED_TRAIN]
    project.files["train"].chmod(0o644)
    project.write(train=TRAIN + b"# mine\n")
    changed = project.fix("--apply", *ONLY, str(capture))
    assert "has changed since it ran" in changed.stdout
    assert "--with-fixes" not in changed.stdout, "what ran is not there any more"


def test_what_no_edit_makes_can_be_tried_on_the_data(tmp_path: Path) -> None:
    from fitdoctor.fixes import plan
    from fitdoctor.fixes.plan import OPTIMIZED, Wanted
    from fitdoctor.model import Cost, Finding, Fix, Interval, Report

    cost = Cost(Interval.exact(0.5), "")
    found = [Finding(rule, "input", None, cost, Fix("", "same")) for rule in ("per-sample-generator", "small-files")]
    report = Report("", {}, {}, {}, None, tuple(found), (), (), (), ())
    run = Run(script=str(tmp_path / "train.py"), cwd=str(tmp_path), command=["train.py"])
    made = plan.make(report, run.fit(compute_ms=20).capture(tmp_path), Wanted())
    assert [each.otherwise for each in made.items] == [OPTIMIZED, ""]


# --- others write too -----------------------------------------------------------------------------------------


def test_two_commands_at_once_write_once(project: Project) -> None:
    """Whoever comes second finds another file than the one that ran, and leaves it alone."""
    capture = str(project.capture())
    before = project.bytes()
    command = [sys.executable, "-m", "fitdoctor", "fix", "--apply", capture]
    env = {**os.environ, "FITDOCTOR_HOME": str(project.home), "PYTHONPATH": str(SRC)}
    started = [
        subprocess.Popen(command, cwd=project.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    ended = [(each.communicate(timeout=120)[1].decode(), each.returncode) for each in started]
    assert sum(": written. " in said for said, _ in ended) == 1, ended
    assert {code for _, code in ended} <= {0, 2}
    assert project.bytes()["train"] == FIXED_TRAIN
    assert project.fix("--undo").returncode == 0
    assert project.bytes() == before
    assert "no fix was written" in project.fix("--undo").stderr


EDITING = """
import os, sys
from fitdoctor.cli.main import main
from fitdoctor.fixes import guard
unchanged, count = guard.unchanged, [0]
def edited_meanwhile(path, expected):
    unchanged(path, expected)
    count[0] += 1
    if count[0] == {at}:  # an editor saves, right after we have looked
        with open({path!r}, "ab") as file:
            file.write(b"# mine\\n")
guard.unchanged = edited_meanwhile
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_editor_that_saves_meanwhile_loses_nothing(project: Project, at: int) -> None:
    """The last file is saved by somebody else while the first ones are checked, noted down and written."""
    capture = str(project.capture())
    # The files are checked in the order of their fixes; the one that is written last is edited.
    from fitdoctor import pipeline
    from fitdoctor.fixes.plan import Wanted

    last = pipeline.plan_fixes(capture, Wanted()).files[-1].path
    before = {str(path): path.read_bytes() for path in project.files.values()}
    program = EDITING.format(at=at, path=last)
    env = {**os.environ, "FITDOCTOR_HOME": str(project.home), "PYTHONPATH": str(SRC)}
    words = [sys.executable, "-c", program, "fix", "--apply", capture]
    done = subprocess.run(words, cwd=project.folder, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert "was changed by somebody else meanwhile" in done.stderr
    before[last] += b"# mine\n"
    assert {str(path): path.read_bytes() for path in project.files.values()} == before
    assert not [each for each in project.folder.iterdir() if ".fitdoctor-" in each.name]


UNDONE = """
import sys
from fitdoctor.cli.main import main
from fitdoctor.fixes import writing
sweep, edited = writing._sweep, []
def edited_meanwhile(target):
    if target.name == {name!r} and not edited:  # an editor saves, after all files were looked at
        edited.append(target)
        with open(target, "ab") as file:
            file.write(b"# mine\\n")
    sweep(target)
writing._sweep = edited_meanwhile
sys.exit(main(["fix", "--undo"]))
"""


@pytest.mark.parametrize("name", ["train.py", "model.py"])
def test_an_editor_that_saves_while_it_is_undone_loses_nothing(project: Project, name: str) -> None:
    assert project.fix("--apply", str(project.capture())).returncode == 0
    fixed = project.bytes()
    env = {**os.environ, "FITDOCTOR_HOME": str(project.home), "PYTHONPATH": str(SRC)}
    words = [sys.executable, "-c", UNDONE.format(name=name)]
    done = subprocess.run(words, cwd=project.folder, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert "was changed by somebody else meanwhile" in done.stderr
    now = project.bytes()
    fixed[Path(name).stem] += b"# mine\n"
    assert now == fixed, "the edit is there, and the other file is as the fix left it"
    project.write(**{Path(name).stem: fixed[Path(name).stem].removesuffix(b"# mine\n")})
    assert project.fix("--undo").returncode == 0
    assert project.bytes() == {"train": TRAIN, "model": MODEL}


def test_a_command_waits_for_one_that_is_writing(project: Project) -> None:
    import fcntl

    undo = project.home / "undo"
    undo.mkdir(parents=True)
    capture = str(project.capture())
    with open(undo / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [sys.executable, "-m", "fitdoctor", "fix", "--apply", capture]
        env = {**os.environ, "FITDOCTOR_HOME": str(project.home), "PYTHONPATH": str(SRC)}
        waiting = subprocess.Popen(command, cwd=project.folder, env=env, stderr=subprocess.DEVNULL, stdout=-3)
        blocked = f"{waiting.pid} "
        until = time.monotonic() + 60
        while f"-> FLOCK  ADVISORY  WRITE {blocked}" not in Path("/proc/locks").read_text():
            assert waiting.poll() is None, "it did not wait"
            assert time.monotonic() < until
        assert project.bytes() == {"train": TRAIN, "model": MODEL}
    assert waiting.wait(timeout=60) == 0
    assert project.bytes()["train"] == FIXED_TRAIN
