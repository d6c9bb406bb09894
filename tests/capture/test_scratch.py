"""Plain files: what a script does to them is seen by the script and by nobody else."""

# ruff: noqa: SIM115

from __future__ import annotations

import bz2
import errno
import glob
import io
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest

from fitdoctor.capture.scratch import Scratch
from tests.capture.scratch_run import Run

# --- opening --------------------------------------------------------------------------------------


def test_a_new_file_in_training_is_seen_by_the_script_only(training: Run) -> None:
    with open("new.txt", "w") as f:
        f.write("hello")
        assert f.name == "new.txt"
    assert Path("new.txt").read_text() == "hello"
    assert os.path.getsize("new.txt") == 5
    assert training.scratch.files() == [{"path": str(training.folder / "new.txt"), "bytes": 5}]
    assert training.is_untouched()


@pytest.mark.parametrize("name", ["log.txt", b"log.txt", Path("log.txt"), "link.txt", "./data/../log.txt"])
@pytest.mark.parametrize("in_training", [False, True])
def test_append_copies_what_was_there(run: Run, name: object, in_training: bool) -> None:
    run.training = in_training
    with open(name, "a") as f:  # type: ignore[call-overload]
        f.write("new\n")
    with open(name) as f:  # type: ignore[call-overload]
        assert f.read() == "old\nnew\n"
    assert Path("log.txt").read_text() == "old\nnew\n"
    assert run.is_untouched()


@pytest.mark.parametrize(("mode", "expected"), [("r+", "NEW\n"), ("w", "NEW"), ("w+", "NEW"), ("a+", "old\nNEW")])
def test_every_mode_of_writing(run: Run, mode: str, expected: str) -> None:
    with open("log.txt", mode) as f:
        f.write("NEW")
    assert Path("log.txt").read_text() == expected
    assert run.is_untouched()


def test_exclusive_creation_sees_the_merged_view(training: Run) -> None:
    with pytest.raises(FileExistsError) as caught:
        open("log.txt", "x")
    assert caught.value.filename == "log.txt"
    with open("once.txt", "x") as f:
        f.write("1")
    with pytest.raises(FileExistsError):
        open("once.txt", "x")
    os.remove("log.txt")
    with open("log.txt", "x") as f:
        f.write("again")
    assert training.is_untouched()


def test_errors_name_the_path_the_script_gave(training: Run) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        open("none/x.txt", "w")
    assert missing.value.filename == "none/x.txt"
    assert missing.value.errno == errno.ENOENT
    with pytest.raises(FileNotFoundError) as update:
        open("none.txt", "r+")
    assert update.value.filename == "none.txt"
    with pytest.raises(IsADirectoryError):
        open("data", "w")
    with pytest.raises(NotADirectoryError):
        open("log.txt/x", "w")
    with pytest.raises(ValueError, match="mode"):
        open("log.txt", "rw")
    with pytest.raises(ValueError, match="null"):
        open("a\0b", "w")
    with pytest.raises(FileNotFoundError):
        open("", "w")
    assert training.is_untouched()


def test_a_failure_inside_never_writes_the_users_file(training: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: object) -> str:
        raise RuntimeError("boom")

    monkeypatch.setattr(training.scratch._files, "room", broken)
    with pytest.raises(OSError, match="could not redirect"):
        open("log.txt", "w")
    with pytest.raises(OSError, match="nothing was written"):
        os.mkdir("sub")
    assert training.is_untouched()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_what_the_user_may_not_write_stays_forbidden(run: Run) -> None:
    run.scratch.uninstall()
    os.chmod("log.txt", 0o400)
    run.before = run.snapshot()
    run.scratch = Scratch(run.root, lambda: True)
    run.scratch.install()
    with pytest.raises(PermissionError):
        open("log.txt", "w")
    assert run.is_untouched()


def test_os_open_and_file_descriptors(training: Run) -> None:
    fd = os.open("fd.bin", os.O_WRONLY | os.O_CREAT, 0o640)
    os.write(fd, b"xyz")
    with open(fd, "wb") as f:
        f.write(b"!")
    assert Path("fd.bin").read_bytes() == b"xyz!"
    assert stat.S_IMODE(os.stat("fd.bin").st_mode) == 0o640
    fd = os.open("log.txt", os.O_RDWR)
    os.pwrite(fd, b"OLD", 0)
    os.close(fd)
    assert Path("log.txt").read_text() == "OLD\n"
    assert training.is_untouched()


def test_dir_fd_arguments(training: Run) -> None:
    folder = os.open("data", os.O_RDONLY)
    try:
        os.close(os.open("n.txt", os.O_WRONLY | os.O_CREAT, dir_fd=folder))
        os.mkdir("sub", dir_fd=folder)
        os.rename("a.txt", "sub/a.txt", src_dir_fd=folder, dst_dir_fd=folder)
        os.unlink("b.txt", dir_fd=folder)
        assert os.stat("sub/a.txt", dir_fd=folder).st_size == 1
        assert sorted(os.listdir(folder)) == ["deep", "n.txt", "sub"]
        assert sorted(entry.name for entry in os.scandir(folder)) == ["deep", "n.txt", "sub"]
    finally:
        os.close(folder)
    assert sorted(os.listdir("data")) == ["deep", "n.txt", "sub"]
    assert training.is_untouched()


def test_names_captured_before_are_hooked_too(training: Run) -> None:
    with tarfile.open("t.tar", "w") as archive:
        archive.add("log.txt")
    with bz2.open("b.bz2", "wt") as f:
        f.write("z")
    with zipfile.ZipFile("z.zip", "w") as z:
        z.writestr("inside", "z")
    with io.open("io.txt", "w") as f:  # noqa: UP020
        f.write("io")
    with tarfile.open("t.tar") as archive:
        assert archive.getnames() == ["log.txt"]
    assert zipfile.is_zipfile("z.zip")
    assert bz2.open("b.bz2", "rt").read() == "z"
    assert training.is_untouched()


# --- removing, renaming, linking ------------------------------------------------------------------


@pytest.mark.parametrize("in_training", [False, True])
def test_delete_then_recreate(run: Run, in_training: bool) -> None:
    run.training = in_training
    os.remove("log.txt")
    assert not os.path.exists("log.txt")
    assert not Path(run.scratch.resolve("log.txt")).exists()
    assert "log.txt" not in os.listdir()
    with pytest.raises(FileNotFoundError):
        open("log.txt")
    with pytest.raises(FileNotFoundError):
        os.unlink("log.txt")
    with open("log.txt", "a") as f:
        f.write("fresh")
    assert Path("log.txt").read_text() == "fresh"
    assert run.is_untouched()


def test_rename_over_an_existing_file(training: Run) -> None:
    Path("log.tmp").write_text("better")
    os.replace("log.tmp", "log.txt")
    assert Path("log.txt").read_text() == "better"
    assert not os.path.exists("log.tmp")
    os.rename("data/a.txt", "data/b.txt")
    assert Path("data/b.txt").read_text() == "a"
    assert sorted(os.listdir("data")) == ["b.txt", "deep"]
    assert training.is_untouched()


def test_an_atomic_save_with_a_temporary_file_beside_it(training: Run) -> None:
    with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as f:
        f.write("safe")
    os.replace(f.name, "log.txt")
    assert Path("log.txt").read_text() == "safe"
    assert training.is_untouched()


def test_rename_folders(training: Run) -> None:
    Path("data/new.txt").write_text("n")
    os.rename("data", "moved")
    assert sorted(os.listdir("moved")) == ["a.txt", "b.txt", "deep", "new.txt"]
    assert Path("moved/deep/c.txt").read_text() == "c"
    assert not os.path.exists("data")
    os.mkdir("data")
    assert os.listdir("data") == []
    with pytest.raises(OSError, match="not empty"):
        os.rename("data", "moved")
    os.rename("data", "empty")
    with pytest.raises(NotADirectoryError):
        os.rename("moved", "log.txt")
    with pytest.raises(IsADirectoryError):
        os.rename("log.txt", "moved")
    with pytest.raises(FileNotFoundError) as caught:
        os.rename("nowhere", "there")
    assert (caught.value.filename, caught.value.filename2) == ("nowhere", "there")
    assert training.is_untouched()


def test_remove_whole_trees(training: Run) -> None:
    Path("data/new").mkdir()
    Path("data/new/x").write_text("x")
    shutil.rmtree("data")
    assert not Path("data").exists()
    Path("data/deep").mkdir(parents=True)
    assert list(Path("data").rglob("*")) == [Path("data/deep")]
    with pytest.raises(OSError, match="not empty"):
        os.rmdir("data")
    os.rmdir("data/deep")
    os.rmdir("data")
    with pytest.raises(NotADirectoryError):
        os.rmdir("log.txt")
    with pytest.raises(OSError, match=r".") as caught:
        os.unlink("empty")
    assert caught.value.errno in (errno.EISDIR, errno.EPERM)
    assert training.is_untouched()


def test_links(training: Run) -> None:
    os.link("log.txt", "hard.txt")
    with open("hard.txt", "a") as f:
        f.write("more")
    Path("model-1").write_text("1")
    os.symlink("model-1", "latest")
    assert Path("latest").read_text() == "1"
    assert os.readlink("latest") == "model-1"
    assert os.path.islink("latest")
    os.symlink(os.path.abspath("data"), "view")
    assert Path("view/a.txt").read_text() == "a"
    Path("view/a.txt").write_text("changed")
    assert Path("data/a.txt").read_text() == "changed"
    assert Path("linked/a.txt").read_text() == "changed"
    os.unlink("latest")
    os.symlink("data/b.txt", "latest")
    assert Path("latest").read_text() == "b"
    with pytest.raises(FileExistsError):
        os.symlink("x", "latest")
    assert training.is_untouched()


def test_modes_times_and_lengths(run: Run) -> None:
    os.chmod("log.txt", 0o600)
    os.utime("data/a.txt", (1, 1))
    os.truncate("data/b.txt", 0)
    Path("data/deep/c.txt").touch()
    assert stat.S_IMODE(os.stat("log.txt").st_mode) == 0o600
    assert os.path.getmtime("data/a.txt") == 1
    assert os.path.getsize("data/b.txt") == 0
    with pytest.raises(FileNotFoundError):
        os.chmod("none", 0o600)
    assert run.is_untouched()


# --- looking --------------------------------------------------------------------------------------


def test_folders_are_merged(training: Run) -> None:
    Path("data/z.txt").write_text("z")
    os.remove("data/a.txt")
    os.makedirs("data/deep/er/est")
    assert sorted(os.listdir("data")) == ["b.txt", "deep", "z.txt"]
    assert sorted(os.listdir(b"data")) == [b"b.txt", b"deep", b"z.txt"]
    assert sorted(glob.glob("data/*.txt")) == ["data/b.txt", "data/z.txt"]
    assert sorted(map(str, Path("data").glob("*.txt"))) == ["data/b.txt", "data/z.txt"]
    assert sorted(glob.glob("**/c.txt", recursive=True)) == ["data/deep/c.txt", "linked/deep/c.txt"]
    walked = {folder: (sorted(folders), sorted(files)) for folder, folders, files in os.walk("data")}
    assert walked["data"] == (["deep"], ["b.txt", "z.txt"])
    assert walked["data/deep"] == (["er"], ["c.txt"])
    with os.scandir("data") as entries:
        by_name = {entry.name: entry for entry in entries}
    assert by_name["z.txt"].path == "data/z.txt"
    assert by_name["z.txt"].is_file()
    assert by_name["deep"].is_dir()
    assert os.access("data/z.txt", os.R_OK)
    assert not os.access("data/a.txt", os.R_OK)
    assert training.is_untouched()


def test_copying(training: Run) -> None:
    shutil.copytree("data", "copy")
    shutil.copy2("log.txt", "copy/a.txt")
    shutil.copytree("copy", "second")
    shutil.move("second", "third")
    assert Path("third/a.txt").read_text() == "old\n"
    assert Path("third/deep/c.txt").read_text() == "c"
    assert not os.path.exists("second")
    assert training.is_untouched()


def test_relative_paths_and_chdir(training: Run) -> None:
    os.chdir("data")
    Path("a.txt").write_text("A")
    os.chdir("..")
    assert Path("data/a.txt").read_text() == "A"
    os.makedirs("out/run1")
    os.chdir("out/run1")
    assert os.getcwd() == str(training.folder / "out" / "run1")
    Path("m.txt").write_text("m")
    assert Path("../../log.txt").read_text() == "old\n"
    assert os.path.abspath("m.txt") == str(training.folder / "out/run1/m.txt")
    os.chdir(training.folder)
    assert Path("out/run1/m.txt").read_text() == "m"
    assert training.is_untouched()


def test_redirect_and_resolve(training: Run) -> None:
    target = training.scratch.redirect("data/model.bin")
    assert training.scratch.redirect("data/model.bin") == target == training.scratch.redirect(target)
    assert training.scratch.resolve("data/model.bin") == str(training.folder / "data/model.bin")
    Path("data/model.bin").write_text("m")
    assert training.scratch.resolve(b"data/model.bin") == target
    assert training.scratch.resolve(Path("data/a.txt")) == str(training.folder / "data/a.txt")
    assert training.is_untouched()
