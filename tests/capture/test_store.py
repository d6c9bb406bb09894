from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from fitdoctor.capture import store
from fitdoctor.errors import CannotWrite, NewerCapture, NotACapture


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.fitdoctor"


def filled(path: Path) -> store.Writer:
    writer = store.Writer(path)
    writer.write(
        {
            "calls": [(1, "fit", "train.py", 7, None, None, 0, None, 1, '{"backend": "jax"}')],
            "steps": [(1, 0, i, 1, i * 10, 10, 2, 0, 7, 1, 0, 0) for i in range(5)],
            "gaps": [("what", "why", "do")],
            "sources": [store.source_row("train.py", "00", "print('ä')\n")],
        }
    )
    return writer


def test_what_is_written_can_be_read_while_it_is_written(path: Path) -> None:
    writer = filled(path)
    seen = store.read(path)
    assert seen.steps[1].wall_ns.tolist() == [10] * 5
    assert seen.calls[0].info == {"backend": "jax"}
    assert seen.sources[0].text == "print('ä')\n"
    writer.write({"steps": [(1, 0, 5, 1, 50, 10, 2, 0, 7, 1, 0, 0)]})
    assert len(store.read(path).steps[1].step) == 6
    writer.seal()


def test_a_sealed_capture_is_one_file_and_readable_from_a_read_only_place(path: Path) -> None:
    filled(path).seal()
    assert os.listdir(path.parent) == [path.name]
    path.chmod(0o444)
    assert store.read(path).gaps[0].what == "what"


def test_a_killed_writer_leaves_a_readable_capture(path: Path) -> None:
    code = (
        "import sys, os, signal; sys.path.insert(0, sys.argv[2])\n"
        "from tests.capture.test_store import filled\n"
        "from pathlib import Path\n"
        "filled(Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code, str(path), str(root)], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(store.read(path).steps[1].step) == 5


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "is empty"),
        (b"hello, I am not a database" * 100, "not a readable capture"),
    ],
)
def test_a_foreign_file_is_refused_with_a_reason(path: Path, content: bytes, expected: str) -> None:
    path.write_bytes(content)
    with pytest.raises(NotACapture, match=expected):
        store.read(path)


def test_a_missing_file_and_a_folder_are_refused(path: Path) -> None:
    with pytest.raises(NotACapture, match="found nothing"):
        store.read(path)
    with pytest.raises(NotACapture, match="found a folder"):
        store.read(path.parent)


def test_another_sqlite_file_is_refused(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE x(y)")
    db.commit()
    db.close()
    with pytest.raises(NotACapture, match="not a capture of fitdoctor"):
        store.read(path)


@pytest.mark.parametrize("keep", [100, 5000, 20_000])
def test_a_truncated_capture_is_refused_or_read_never_a_traceback(path: Path, keep: int) -> None:
    writer = filled(path)
    writer.write({"steps": [(1, 0, i, 1, i * 10, 10, 2, 0, 7, 1, 0, 0) for i in range(2000)]})
    writer.seal()
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(NotACapture):
        store.read(path)


def test_a_capture_of_a_later_version_is_refused(path: Path) -> None:
    filled(path).seal()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=99")
    db.commit()
    db.close()
    with pytest.raises(NewerCapture, match="upgrade"):
        store.read(path)


def test_captures_are_never_overwritten(path: Path) -> None:
    filled(path).seal()
    with pytest.raises(CannotWrite, match="exists already"):
        store.Writer(path)


def test_an_unwritable_place_is_said(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(CannotWrite, match="--capture"):
        store.Writer(blocker / "a.fitdoctor")


def test_looks_at_a_running_pipeline_come_back_as_they_were(path: Path) -> None:
    writer = store.Writer(path)
    parameters = '{"parallelism": {"value": 2.0, "state": 2.0, "max": 4.0, "tunable": true}}'
    row = (1, 40, 10**9, 2, 30, 7, "ParallelMapV2", "[8, 9]", 1280, 5_000_000, 4096, 2048, 3, 96, parameters, 0)
    writer.write({"operators": [row, (1, 40, 10**9, 2, 30, 8, "Range", "[]", 9, 1, 0, 0, 0, 0, "{}", 1)]})
    writer.seal()
    first, second = store.read(path).operators
    assert (first.call, first.step, first.iterator, first.since, first.node) == (1, 40, 2, 30, 7)
    assert (first.name, first.inputs) == ("ParallelMapV2", (8, 9))
    assert (first.elements, first.processing_ns, first.produced, first.consumed) == (1280, 5_000_000, 4096, 2048)
    assert (first.buffered, first.buffered_bytes) == (3, 96)
    assert first.parameters["parallelism"]["tunable"] is True
    assert (first.root, second.root) == (False, True)


def test_a_capture_from_before_there_were_looks_is_read(path: Path) -> None:
    filled(path).seal()
    db = sqlite3.connect(path)
    db.execute("DROP TABLE operators")
    db.commit()
    db.close()
    seen = store.read(path)
    assert seen.operators == ()
    assert seen.calls[0].kind == "fit"
