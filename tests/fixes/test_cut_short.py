"""Fixes and undos that are killed, interrupted, out of disk: every file is old or new, and undo gives all back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixes.conftest import SRC, Project

# --- a kill in between --------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from fitdoctor.cli.main import main
count, replace = [0], os.replace
def killing(*args, **kwargs):
    count[0] += 1
    if count[0] == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(*args, **kwargs)
os.replace = killing
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("at", "written"), [(1, 0), (2, 1)], ids=["after the journal", "after the first of two"])
def test_killed_in_between(project: Project, at: int, written: int) -> None:
    before = project.bytes()
    words = [sys.executable, "-c", KILLED.format(at=at), "fix", "--apply", str(project.capture())]
    env = {**os.environ, "FITDOCTOR_HOME": str(project.home), "PYTHONPATH": str(SRC)}
    done = subprocess.run(words, cwd=project.folder, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGKILL
    now = project.bytes()
    assert sum(now[name] != before[name] for name in now) == written
    undone = project.fix("--undo")
    assert undone.returncode == 0, undone.stderr
    assert undone.stderr.count("was as before already") == 2 - written
    assert project.bytes() == before
    assert sorted(each.name for each in project.folder.iterdir() if each.is_file() and each.suffix != ".py") == []


def test_killed_while_undoing(project: Project) -> None:
    before = project.bytes()
    assert project.fix("--apply", str(project.capture())).returncode == 0
    words = [sys.executable, "-c", KILLED.format(at=2), "fix", "--undo"]
    env = {**os.environ, "FITDOCTOR_HOME": str(project.home), "PYTHONPATH": str(SRC)}
    done = subprocess.run(words, cwd=project.folder, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert project.bytes() != before
    assert project.fix("--undo").returncode == 0
    assert project.bytes() == before


FAILING = """
import os, sys
from fitdoctor.cli.main import main
count, replace = [0], os.replace
def failing(source, target, **kwargs):
    count[0] += 1
    if count[0] == 2:
        {what}
    return replace(source, target, **kwargs)
os.replace = failing
sys.exit(main(sys.argv[1:]))
"""


def test_a_disk_that_is_full_leaves_every_file_as_it_was(project: Project) -> None:
    before = project.bytes()
    failing = FAILING.format(what="raise OSError(28, 'No space left on device', str(target))")
    words = [sys.executable, "-c", failing, "fix", "--apply", str(project.capture())]
    env = {**os.environ, "FITDOCTOR_HOME": str(project.home), "PYTHONPATH": str(SRC)}
    done = subprocess.run(words, cwd=project.folder, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert "every file is as it was" in done.stderr
    assert project.bytes() == before
    assert "no fix was written" in project.fix("--undo").stderr


def test_an_interrupt_in_between_leaves_every_file_as_it_was(project: Project) -> None:
    before = project.bytes()
    # Whoever runs the tests in the background has it ignored, and children inherit that.
    heard = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    failing = heard + FAILING.format(what="os.kill(os.getpid(), signal.SIGINT)")
    words = [sys.executable, "-c", failing, "fix", "--apply", str(project.capture())]
    env = {**os.environ, "FITDOCTOR_HOME": str(project.home), "PYTHONPATH": str(SRC)}
    done = subprocess.run(words, cwd=project.folder, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 130, done.stderr
    assert "interrupted" in done.stderr
    assert project.bytes() == before
    assert "no fix was written" in project.fix("--undo").stderr


def test_where_not_even_that_can_be_taken_back_undo_is_named(project: Project) -> None:
    before = project.bytes()
    program = FAILING.replace("count[0] == 2", "count[0] >= 2")
    failing = program.format(what="raise OSError(30, 'Read-only file system', str(target))")
    words = [sys.executable, "-c", failing, "fix", "--apply", str(project.capture())]
    env = {**os.environ, "FITDOCTOR_HOME": str(project.home), "PYTHONPATH": str(SRC)}
    done = subprocess.run(words, cwd=project.folder, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert "not all of it could be taken back" in done.stderr
    assert "`fitdoctor fix --undo` does that" in done.stderr
    assert project.bytes() != before
    assert project.fix("--undo").returncode == 0
    assert project.bytes() == before


# --- killed at any moment -----------------------------------------------------------------------------------

AT_ANY_MOMENT = """
import os, signal, sys
from fitdoctor.fixes import writing
from fitdoctor.fixes.plan import FileChange

at, what, *paths = sys.argv[1:]
count = 0

def killing(real):
    def call(*args, **kwargs):
        global count
        count += 1
        if count == int(at):
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    return call

# Before each of these something is on the disk that was not there before.
for name in ("open", "write", "fsync", "rename", "replace", "mkdir", "unlink", "utime", "chmod", "chown"):
    setattr(os, name, killing(getattr(os, name)))
if what == "apply":
    changes = [FileChange(path, open(path, "rb").read(), open(path, "rb").read() + b"# fixed\\n") for path in paths]
    writing.write(changes, paths[0], ["some-rule"])
else:
    writing.undo()
"""


def killed(at: int, what: str, paths: list[Path], home: Path) -> bool:
    words = [sys.executable, "-c", AT_ANY_MOMENT, str(at), what, *map(str, paths)]
    env = {**os.environ, "FITDOCTOR_HOME": str(home), "PYTHONPATH": str(SRC)}
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


@pytest.mark.parametrize("what", ["apply", "undo"])
def test_killed_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    from fitdoctor.errors import CannotFix
    from fitdoctor.fixes import journal, writing
    from fitdoctor.fixes.plan import FileChange

    old = {"one.py": b"a = 1\r\n", "two.py": b"\xef\xbb\xbfb = 2"}
    moments, halfway = 0, 0
    for at in range(1, 200):
        folder, home = tmp_path / str(at), tmp_path / f"state{at}"
        folder.mkdir()
        monkeypatch.setenv("FITDOCTOR_HOME", str(home))
        paths = [folder / name for name in old]
        for path in paths:
            path.write_bytes(old[path.name])
        new = {name: text + b"# fixed\n" for name, text in old.items()}
        if what == "undo":
            writing.write([FileChange(str(each), old[each.name], new[each.name]) for each in paths], "one.py", ["rule"])
        if not killed(at, what, paths, home):
            break
        moments += 1
        states = {path.name: path.read_bytes() for path in paths}
        assert all(states[name] in (old[name], new[name]) for name in old), "never half a file"
        halfway += len({states[name] == old[name] for name in old}) == 2
        if journal.newest() is None:
            assert states == old, "what cannot be undone was not done, or is undone"
        else:
            writing.undo()
        assert {path.name: path.read_bytes() for path in paths} == old
        assert sorted(each.name for each in folder.iterdir()) == sorted(old), "nothing is left beside them"
        with pytest.raises(CannotFix, match="no fix"):
            writing.undo()
        left = [each.name for each in journal.folder().iterdir() if each.name.startswith(".new-")]
        assert left == [], "nor in the journals' folder"
    assert moments >= 10
    assert halfway >= 1
