"""`fitdoctor fix` as a user types it, on real files and a capture that was written by the real writer."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixes.conftest import FIXED_TRAIN, MODEL, SRC, TRAIN, Project

BOTH = b'model.compile(optimizer="adam", loss="mse", jit_compile=True, steps_per_execution=8)'


def test_it_shows_and_writes_nothing(project: Project) -> None:
    before = project.bytes()
    done = project.fix(str(project.capture()))
    assert done.returncode == 0, done.stderr
    assert '+    model.compile(optimizer="adam", loss="mse", jit_compile=True)' in done.stdout
    assert "--- a/model.py" in done.stdout
    assert "frequent-checkpoint" in done.stdout
    assert "same results" in done.stdout
    assert "may change results" in done.stdout
    assert "--unsafe includes it" in done.stdout
    assert "saves" in done.stdout
    assert "\x1b[" not in done.stdout
    assert "`fitdoctor fix --apply` writes 3 fixes" in done.stderr
    assert project.bytes() == before


def test_colours_where_they_are_wanted_and_not_where_they_are_not(project: Project) -> None:
    capture = str(project.capture())
    assert "\x1b[32m+" in project.fix(capture, FORCE_COLOR="1", TERM="xterm").stdout
    assert "\x1b[32m" not in project.fix(capture, FORCE_COLOR="1", NO_COLOR="1", TERM="xterm").stdout


def test_apply_composes_and_undo_restores(project: Project) -> None:
    before = project.bytes()
    capture = str(project.capture())
    done = project.fix("--apply", capture)
    assert done.returncode == 0, done.stderr
    after = project.bytes()
    assert after["train"] == FIXED_TRAIN
    assert BOTH in after["model"] or b"steps_per_execution=8, jit_compile=True" in after["model"]
    again = project.fix("--apply", capture)
    assert again.returncode == 0, again.stderr
    assert "written before; nothing was changed now" in again.stderr
    assert project.bytes() == after
    undone = project.fix("--undo")
    assert undone.returncode == 0, undone.stderr
    assert project.bytes() == before
    nothing = project.fix("--undo")
    assert nothing.returncode == 2
    assert "no fix was written that could be undone" in nothing.stderr


def test_unsafe_and_only(project: Project) -> None:
    capture = str(project.capture())
    done = project.fix("--apply", "--unsafe", "--only", "float64-data", capture)
    assert done.returncode == 0, done.stderr
    assert project.bytes() == {"model": MODEL, "train": TRAIN.replace(b"float64", b"float32")}
    assert "missing-xla" not in done.stdout


def test_only_what_is_unsafe_is_left_out(project: Project) -> None:
    done = project.fix("--apply", "--only", "float64-data", str(project.capture()))
    assert done.returncode == 0
    assert "--unsafe includes it" in done.stdout
    assert project.bytes()["train"] == TRAIN


def test_an_unknown_rule(project: Project) -> None:
    done = project.fix("--only", "mising-xla", str(project.capture()))
    assert done.returncode == 2
    assert "did you mean 'missing-xla'?" in done.stderr


def test_interactive_writes_what_was_agreed_to(project: Project) -> None:
    done = project.fix("--interactive", "--only", "missing-xla", "--only", "frequent-checkpoint",
                       str(project.capture()), stdin="what?\ny\nn\n")  # fmt: skip
    assert done.returncode == 0, done.stderr
    changed = [name for name, text in project.bytes().items() if text not in (TRAIN, MODEL)]
    assert len(changed) == 1
    assert done.stderr.count("write this?") == 3


@pytest.mark.parametrize(("said", "files"), [("", 0), ("q\n", 0), ("a\n", 2)])
def test_interactive_ends(project: Project, said: str, files: int) -> None:
    done = project.fix("--interactive", str(project.capture()), stdin=said)
    assert done.returncode == 0, done.stderr
    assert len([each for each in project.bytes().values() if each not in (TRAIN, MODEL)]) == files


@pytest.mark.skipif(os.name != "posix", reason="a shell of another kind")
def test_interactive_without_standard_input_writes_nothing(project: Project) -> None:
    words = [sys.executable, "-m", "fitdoctor", "fix", "--interactive", str(project.capture())]
    env = {**os.environ, "FITDOCTOR_HOME": str(project.home), "PYTHONPATH": str(SRC)}
    command = ["sh", "-c", f"{shlex.join(words)} <&-"]
    done = subprocess.run(command, cwd=project.folder, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert set(project.bytes().values()) == {TRAIN, MODEL}


def test_undo_with_other_options_is_refused(project: Project) -> None:
    done = project.fix("--undo", "--apply")
    assert done.returncode == 2
    assert "--apply means nothing beside it" in done.stderr


@pytest.mark.parametrize("word", ["--apply", "--undo", "--only=missing-xla"])
def test_an_option_after_the_script_is_not_handed_to_a_training(project: Project, word: str) -> None:
    done = project.fix("train.py", word)
    assert done.returncode == 2
    assert f"{word.partition('=')[0]} stands after the script" in done.stderr
    assert "watching" not in done.stderr, "nothing was run"


def test_what_the_script_itself_is_to_be_given() -> None:
    from fitdoctor.cli.fix import split

    assert split(["--unsafe", "--", "train.py", "--apply"]) == (["--unsafe"], ["train.py", "--apply"])
    assert split(["--apply", "train.py", "--epochs", "5"]) == (["--apply"], ["train.py", "--epochs", "5"])
    assert split(["-m", "pack.train", "--epochs", "--apply"]) == ([], ["-m", "pack.train", "--epochs", "--apply"])


# --- files that may not be written --------------------------------------------------------------------------


def refused(project: Project, capture: Path, *words: str) -> str:
    before = project.bytes()
    done = project.fix("--apply", "--only", "frequent-checkpoint", *words, str(capture))
    assert done.returncode == 2, done.stdout + done.stderr
    assert project.bytes() == before
    assert not list((project.home / "undo").glob("[!.]*")) if (project.home / "undo").exists() else True
    return done.stdout + done.stderr


def test_a_file_that_changed_since(project: Project) -> None:
    capture = project.capture()
    project.write(train=TRAIN + b"# mine\n")
    assert "has changed since it ran" in refused(project, capture)


def test_a_file_that_is_gone(project: Project) -> None:
    capture = project.capture()
    project.files.pop("train").unlink()
    assert "cannot be read: No such file" in refused(project, capture)


def test_a_read_only_file(project: Project) -> None:
    capture = project.capture()
    project.files["train"].chmod(0o444)
    assert "is read-only" in refused(project, capture)


def test_a_file_with_hard_links(project: Project) -> None:
    capture = project.capture()
    os.link(project.files["train"], project.folder / "other.py")
    assert "2 hard links" in refused(project, capture)


def test_a_file_outside_of_the_project(project: Project, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (project.folder / "pyproject.toml").touch()
    outside = elsewhere / "saving.py"
    outside.write_bytes(TRAIN)
    project.write(train=b"import saving\n")
    capture = project.capture(also=(outside,))
    said = refused(project, capture)
    assert "outside of the project" in said
    assert "--project" in said
    done = project.fix("--apply", "--project", str(tmp_path), "--only", "frequent-checkpoint", str(capture))
    assert done.returncode == 0, done.stderr
    assert outside.read_bytes() == FIXED_TRAIN


def test_a_file_of_an_installed_package(project: Project) -> None:
    library = project.folder / "venv" / "lib" / "python3" / "site-packages"
    library.mkdir(parents=True)
    theirs = library / "saving.py"
    theirs.write_bytes(TRAIN)
    project.write(train=b"import saving\n")
    assert "belongs to an installed package" in refused(project, project.capture(also=(theirs,)))
    assert theirs.read_bytes() == TRAIN


def test_a_project_in_git_and_one_without(project: Project) -> None:
    sub = project.folder / "scripts"
    sub.mkdir()
    (project.folder / ".git").mkdir()
    nested = sub / "saving.py"
    nested.write_bytes(TRAIN)
    project.write(train=b"import saving\n")
    done = project.fix("--apply", "--only", "frequent-checkpoint", str(project.capture(also=(nested,))))
    assert done.returncode == 0, done.stderr
    assert nested.read_bytes() == FIXED_TRAIN


def test_a_link_stays_a_link(project: Project) -> None:
    real = project.folder / "real.py"
    real.write_bytes(TRAIN)
    link = project.files["train"]
    link.unlink()
    link.symlink_to("real.py")
    real.chmod(0o750)
    done = project.fix("--apply", "--only", "frequent-checkpoint", str(project.capture()))
    assert done.returncode == 0, done.stderr
    assert link.is_symlink()
    assert os.readlink(link) == "real.py"
    assert real.read_bytes() == FIXED_TRAIN
    assert stat.S_IMODE(real.stat().st_mode) == 0o750
    assert project.fix("--undo", str(link)).returncode == 0
    assert link.is_symlink()
    assert real.read_bytes() == TRAIN


def test_a_redacted_capture_has_nothing_to_edit(project: Project) -> None:
    from tests.captures.build import Run

    run = Run(script="train.py", cwd=None)
    run.fit(compute_ms=20, epochs_planned=100).callback("ModelCheckpoint", ms=0.01, saving_ms=20, builtin=True)
    run.source(None)
    capture = run.capture(project.home.parent)
    done = project.fix("--apply", capture.path)
    assert done.returncode == 0, done.stderr
    assert "by hand" in done.stdout


def test_an_edit_made_while_we_think_is_not_lost(project: Project) -> None:
    from fitdoctor import pipeline
    from fitdoctor.errors import CannotFix
    from fitdoctor.fixes import writing
    from fitdoctor.fixes.plan import Wanted

    plan = pipeline.plan_fixes(project.capture(), Wanted())
    assert len(plan.files) == 2
    project.write(model=MODEL + b"# mine\n")
    with pytest.raises(CannotFix, match="changed by somebody else"):
        writing.apply(plan)
    assert project.bytes() == {"train": TRAIN, "model": MODEL + b"# mine\n"}
    assert not list((project.home / "undo").glob("[!.]*"))


# --- undo ---------------------------------------------------------------------------------------------------


def test_undo_refuses_over_later_edits(project: Project) -> None:
    assert project.fix("--apply", str(project.capture())).returncode == 0
    project.write(train=FIXED_TRAIN + b"# mine\n")
    after = project.bytes()
    done = project.fix("--undo")
    assert done.returncode == 2
    assert "was edited after the fix was written; nothing was undone" in done.stderr
    assert project.bytes() == after
    kept = Path(done.stderr.split("its text from before the fix is ")[1].strip())
    assert kept.read_bytes() == TRAIN
    project.write(train=FIXED_TRAIN)
    assert project.fix("--undo").returncode == 0
    assert project.bytes() == {"train": TRAIN, "model": MODEL}


def test_undo_where_a_file_is_gone(project: Project) -> None:
    assert project.fix("--apply", str(project.capture())).returncode == 0
    project.files.pop("train").unlink()
    done = project.fix("--undo")
    assert done.returncode == 2
    assert "cannot be read" in done.stderr


def test_undo_of_one_script_among_several(project: Project, tmp_path: Path) -> None:
    assert project.fix("--apply", str(project.capture())).returncode == 0
    other = Project(tmp_path / "second", project.home)
    other.folder.mkdir()
    other.write(train=TRAIN)
    assert other.fix("--apply", str(other.capture())).returncode == 0
    assert project.fix("--undo", str(project.files["model"])).returncode == 0
    assert project.bytes() == {"train": TRAIN, "model": MODEL}
    assert other.bytes()["train"] == FIXED_TRAIN
    assert project.fix("--undo", "nobody.py").returncode == 2


def test_a_damaged_journal_is_said_and_nothing_is_touched(project: Project) -> None:
    assert project.fix("--apply", str(project.capture())).returncode == 0
    after = project.bytes()
    (journal,) = (project.home / "undo").glob("*/journal.json")
    entry = json.loads(journal.read_text())["entries"][0]
    (journal.parent / entry["kept"]).write_bytes(b"other")
    done = project.fix("--undo")
    assert done.returncode == 2
    assert "is damaged" in done.stderr
    assert project.bytes() == after
    journal.write_text("{")
    assert project.fix("--undo").returncode == 2


def test_a_damaged_journal_does_not_stand_in_the_way_of_another_script(project: Project, tmp_path: Path) -> None:
    other = Project(tmp_path / "second", project.home)
    other.folder.mkdir()
    other.write(train=TRAIN)
    assert other.fix("--apply", str(other.capture())).returncode == 0
    (journal,) = (project.home / "undo").glob("*/journal.json")
    journal.write_text("{")
    capture = str(project.capture())
    assert project.fix("--apply", capture).returncode == 0
    assert "written before" in project.fix("--apply", capture).stderr
    assert project.fix("--undo").returncode == 2, "which is the last one nobody knows"
    assert project.fix("--undo", "train.py").returncode == 0
    assert project.bytes() == {"train": TRAIN, "model": MODEL}
    done = other.fix("--undo", "train.py")
    assert done.returncode == 2
    assert "cannot be read" in done.stderr


def test_no_place_for_the_journal(project: Project) -> None:
    before = project.bytes()
    project.home.write_text("a file where a folder should be")
    done = project.fix("--apply", str(project.capture()))
    assert done.returncode == 2
    assert "no file was changed" in done.stderr
    assert project.bytes() == before


# --- elsewhere ----------------------------------------------------------------------------------------------


def test_a_report_holds_the_diffs(project: Project) -> None:
    from fitdoctor import pipeline
    from fitdoctor.report import json as data

    report = data.to_dict(pipeline.diagnose_file(project.capture()))
    diffs = {each["rule"]: each["fix"]["diff"] for each in report["findings"]}
    assert diffs["frequent-checkpoint"].startswith("--- a/train.py\n+++ b/train.py\n@@ ")
    assert "jit_compile=True" in diffs["missing-xla"]
    assert report["next_command"] == "fitdoctor fix train.py"


def test_from_code(project: Project) -> None:
    import fitdoctor

    capture = project.capture()
    plan = fitdoctor.fix(capture, only=["frequent-checkpoint"])
    assert [each.rule for each in plan.ready] == ["frequent-checkpoint"]
    assert project.bytes()["train"] == TRAIN
    fitdoctor.fix(capture, only=["frequent-checkpoint"], apply=True)
    assert project.bytes() == {"train": FIXED_TRAIN, "model": MODEL}


def test_a_capture_and_more_words(project: Project) -> None:
    capture = str(project.capture())
    assert "expected nothing after the capture" in project.fix(capture, "more").stderr
    assert "--steps is about running a script" in project.fix("--steps", "5", capture).stderr


def test_a_capture_of_another_backend_is_none_of_this_command(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`KERAS_BACKEND=jax fitdoctor cure train.py` is not about what slowed it down on TensorFlow."""
    from fitdoctor.capture import store
    from fitdoctor.cli.fix import kept
    from fitdoctor.probes.host import SETTINGS

    monkeypatch.chdir(project.folder)
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    made = project.capture()
    place = project.home / "runs" / "20240229-120000-train.fitdoctor"
    place.parent.mkdir(parents=True)
    made.rename(place)
    assert kept(["train.py"]) == place, "one that does not tell its settings"
    writer = store.Writer.reopen(place)
    writer.meta({"environment": {"settings": {"KERAS_BACKEND": "tensorflow"}}})
    writer.seal()
    assert kept(["train.py"]) == place
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert kept(["train.py"]) is None
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert kept(["train.py"]) is None


def test_nothing_to_fix(project: Project) -> None:
    from tests.captures.build import Run

    run = Run(script=str(project.files["train"]), cwd=str(project.folder), noise=0.001)
    capture = run.fit(steps=400, compute_ms=20).capture(project.home.parent)
    done = project.fix("--apply", capture.path)
    assert done.returncode == 0
    assert "there is nothing to fix. Nothing worth fixing: computing takes" in done.stderr
    untrained = Run(script=str(project.files["train"])).capture(project.home.parent)
    assert "there is nothing to fix. No training was seen" in project.fix(untrained.path).stderr


def test_fixes_are_made_without_libcst_being_asked_for_help(project: Project) -> None:
    """`--help` and the commands that edit nothing do not pay for it."""
    program = (
        "import sys; from fitdoctor.cli.main import main; main(['fix', '--help']); main(['rules']);"
        "print('libcst' in sys.modules)"
    )
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.splitlines()[-1] == "False"
