"""What stays real, what is put back, and what a killed run leaves."""

from __future__ import annotations

import builtins
import contextlib
import glob
import io
import json
import logging
import os
import pickle
import subprocess
import sys
import tarfile
import tempfile
import threading
from pathlib import Path

import pytest

import fitdoctor.capture.scratch
from fitdoctor.capture.scratch import WATCHED, Scratch, cleanup
from tests.capture.scratch_run import Run

SOURCE = str(Path(fitdoctor.capture.scratch.__file__).parents[3])
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE}
HOOKED = (
    "open",
    "stat",
    "lstat",
    "mkdir",
    "remove",
    "unlink",
    "rmdir",
    "rename",
    "replace",
    "link",
    "symlink",
)


# --- what stays real ------------------------------------------------------------------------------


def test_data_prepared_before_training_is_real(run: Run) -> None:
    os.makedirs("prepared/part")
    Path("prepared/part/1.bin").write_bytes(b"1")
    Path("prepared/gone").write_text("x")
    os.remove("prepared/gone")
    os.rename("prepared/part", "prepared/p")
    run.training = True
    Path("prepared/p/1.bin").write_bytes(b"22")
    Path("prepared/p/2.bin").write_bytes(b"2")
    assert sorted(os.listdir("prepared/p")) == ["1.bin", "2.bin"]
    run.training = False
    Path("result.json").write_text("{}")
    run.scratch.uninstall()
    assert os.listdir("prepared/p") == ["1.bin"]
    assert Path("prepared/p/1.bin").read_bytes() == b"22"
    assert not os.path.exists("result.json")


def test_folders_made_only_to_save_into_disappear(run: Run) -> None:
    os.makedirs("checkpoints/best", exist_ok=True)
    run.training = True
    Path("checkpoints/best/m.bin").write_bytes(b"m")
    run.scratch.uninstall()
    assert os.path.isdir("checkpoints/best")
    cleanup(run.root)
    assert run.snapshot() == run.before
    assert not run.root.exists()
    cleanup(run.root)


def test_temporary_files_stay_real(training: Run) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x")
        Path(path).write_text("x")
        assert training.scratch.redirect(path) == path
        assert subprocess.run(["cat", path], capture_output=True, check=True).stdout == b"x"
        with tempfile.NamedTemporaryFile(dir=folder) as f:
            f.write(b"1")
    with tempfile.NamedTemporaryFile() as f, tempfile.TemporaryFile() as g:
        f.write(b"1")
        g.write(b"1")
    fd, name = tempfile.mkstemp()
    os.close(fd)
    os.remove(name)
    assert training.scratch.files() == []
    assert training.is_untouched()


def test_devices_pipes_caches_and_kept_paths(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run.scratch.uninstall()
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "cache"))
    os.mkdir(tmp_path / "cache")
    os.mkfifo("pipe")
    run.before = run.snapshot()
    run.scratch = Scratch(run.root, lambda: True, keep=[tmp_path / "capture.fitdoctor"])
    run.scratch.install()
    with open(os.devnull, "w") as f:
        f.write("x")
    (tmp_path / "cache" / "download").write_text("d")
    (tmp_path / "capture.fitdoctor").write_text("c")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    with open("pipe", "w") as f:
        f.write("through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert run.scratch.files() == []
    assert sys.dont_write_bytecode
    assert run.is_untouched()
    assert (tmp_path / "cache" / "download").read_text() == "d"
    assert (tmp_path / "capture.fitdoctor").read_text() == "c"


def test_saving_is_redirected_on_every_thread_and_in_forked_workers(training: Run) -> None:
    def write(i: int) -> None:
        for j in range(20):
            with open(f"t{i}-{j}.txt", "w") as f:
                f.write("x")
            os.replace(f"t{i}-{j}.txt", f"t{i}.txt")

    threads = [threading.Thread(target=write, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            write(99)
        os._exit(0)
    os.waitpid(pid, 0)
    assert sorted(glob.glob("t*.txt")) == sorted(f"t{i}.txt" for i in [*range(8), 99])
    assert training.is_untouched()


def test_logging_over_an_existing_file(run: Run) -> None:
    handler = logging.FileHandler("log.txt")
    handler.emit(logging.LogRecord("n", 20, "p", 1, "message", None, None))
    handler.close()
    assert Path("log.txt").read_text() == "old\nmessage\n"
    assert run.is_untouched()


# --- putting back ---------------------------------------------------------------------------------


def test_uninstall_restores_everything_exactly(tmp_path: Path) -> None:
    before = {name: getattr(os, name) for name in HOOKED}
    others = (builtins.open, io.open, tempfile.mkdtemp, tarfile.bltn_open, sys.dont_write_bytecode,
              os.supports_dir_fd, tempfile._mkstemp_inner)  # fmt: skip
    scratch = Scratch(tmp_path / "state", lambda: True)
    scratch.install()
    hooked_open, hooked_remove = open, os.remove
    assert all(getattr(os, name) is not function for name, function in before.items())
    assert pickle.loads(pickle.dumps(os.remove)) is os.remove
    assert os.stat in os.supports_dir_fd
    scratch.uninstall()
    assert all(getattr(os, name) is function for name, function in before.items())
    after = (builtins.open, io.open, tempfile.mkdtemp, tarfile.bltn_open, sys.dont_write_bytecode,
             os.supports_dir_fd, tempfile._mkstemp_inner)  # fmt: skip
    assert all(a is b for a, b in zip(others, after, strict=True))
    with hooked_open(tmp_path / "plain", "w") as f:
        f.write("a function somebody still holds writes for real again")
    assert (tmp_path / "plain").exists()
    hooked_remove(tmp_path / "plain")
    assert not (tmp_path / "plain").exists()


def test_a_killed_run_leaves_nothing_after_cleanup(tmp_path: Path) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from fitdoctor.capture.scratch import Scratch
Scratch(Path(sys.argv[1]), lambda: True).install()
open("log.txt", "a").write("x")
open("new.txt", "w").write("x")
os.makedirs("deep/er")
os.kill(os.getpid(), signal.SIGKILL)
"""
    home = tmp_path / "home"
    home.mkdir()
    (home / "log.txt").write_text("old")
    command = [sys.executable, "-c", script, str(tmp_path / "state")]
    done = subprocess.run(command, cwd=home, env=ENVIRONMENT, check=False)
    assert done.returncode == -9
    assert (tmp_path / "state" / "files").is_dir()
    cleanup(tmp_path / "state" / "journal")
    assert not (tmp_path / "state").exists()
    assert [p.name for p in home.iterdir()] == ["log.txt"]
    assert (home / "log.txt").read_text() == "old"


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="needs a second file system")
def test_another_file_system_gets_a_scratch_folder_of_its_own(run: Run) -> None:
    # Everything below /dev is left alone, so the state lies on the other file system.
    run.scratch.uninstall()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as root:
        if os.stat(root).st_dev == os.stat(run.folder).st_dev:
            pytest.skip("one file system only")
        run.scratch = Scratch(Path(root), lambda: True)
        run.scratch.install()
        Path("data/a.txt").write_text("A")
        target = run.scratch.redirect("data/a.txt")
        assert os.stat(target).st_dev == os.stat(run.folder).st_dev
        assert os.path.commonpath([target, run.folder / "data"]) == str(run.folder / "data")
        assert sorted(os.listdir("data")) == ["a.txt", "b.txt", "deep"]
        assert run.scratch.gaps == []
        run.scratch.uninstall()
        noted = [json.loads(line) for line in Path(root, "journal").read_text().splitlines()]
        assert [list(entry) for entry in noted] == [["scratch"]]
        assert os.path.isdir(noted[0]["scratch"])
        cleanup(root)
        assert run.snapshot() == run.before
        os.makedirs(root, exist_ok=True)


def test_no_room_for_a_scratch_folder_is_a_gap(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    files = run.scratch._files
    monkeypatch.setattr(files, "_by_device", {})
    monkeypatch.setattr("fitdoctor.capture.scratch.real.access", lambda *_: False)
    assert files.base(str(run.folder / "x")) == str(run.root / "files")
    assert "another file system" in run.scratch.gaps[0].reason


def test_watched_modules_are_names_and_nothing_is_imported() -> None:
    code = (
        "import sys\nfrom fitdoctor.capture.scratch import WATCHED, Scratch\n"
        "loaded = {n.partition('.')[0] for n in sys.modules}\n"
        "assert not loaded & {'keras', 'tensorflow', 'torch', 'jax', 'h5py', 'numpy'}, loaded"
    )
    subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, check=True)
    assert "h5py._hl.files" in WATCHED
