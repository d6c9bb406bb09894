"""A run in which files are read as something else: what Python sees, what tracebacks show, what stays on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fitdoctor.capture import overlay, store
from fitdoctor.capture.launch import Options, launch

SCRIPT = """\
import os, sys
import helper
from package import part

print(helper.WORD, part.WORD, "old script", __name__, os.path.basename(__file__), sys.argv[1:])
print(sys.path[0] == os.path.dirname(os.path.realpath(__file__)), "boot" in str(sys.path), globals().get("_run"))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / "package").mkdir(parents=True)
    (folder / "train.py").write_text(SCRIPT)
    (folder / "helper.py").write_text("WORD = 'old helper'\n")
    (folder / "package" / "__init__.py").write_text("")
    (folder / "package" / "part.py").write_text(
        "WORD = 'old part'\n\nif __name__ == '__main__':\n    print('ran as main', WORD)\n"
    )
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FITDOCTOR_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return folder


def seen(
    folder: Path, files: dict[str, str], capfd: pytest.CaptureFixture[str], **given: object
) -> tuple[int, str, str]:
    before = {path: path.read_bytes() for path in folder.rglob("*.py")}
    other = {str(folder / name): text.encode() for name, text in files.items()}
    options = Options(**{"target": "train.py", "args": ("a", "b"), "overlay": other, **given})  # type: ignore[arg-type]
    ended = launch(options, lambda text: None)
    assert {path: path.read_bytes() for path in folder.rglob("*.py")} == before, "no file was changed"
    out, err = capfd.readouterr()
    return ended.returncode, out, err


def test_the_script_and_its_modules_are_read_as_told(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = {"train.py": SCRIPT.replace("old script", "new script"), "package/part.py": "WORD = 'new part'\n"}
    code, out, err = seen(project, files, capfd)
    assert code == 0, err
    first, second = out.splitlines()
    assert first == "old helper new part new script __main__ train.py ['a', 'b']"
    assert second == "True False None", "as if Python had been started with the script itself"


def test_compiled_files_do_not_carry_it_into_the_next_run(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    seen(project, {"helper.py": "WORD = 'new helper'\n"}, capfd)
    _, out, _ = seen(project, {}, capfd)
    assert out.startswith("old helper old part old script")


def test_a_module_that_is_run(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = (project / "package" / "part.py").read_text().replace("old part", "new part")
    code, out, err = seen(project, {"package/part.py": text}, capfd, target="package.part", module=True)
    assert (code, out) == (0, "ran as main new part\n"), err


def test_source_is_the_text_that_ran(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """AutoGraph compiles what `inspect` gives it."""
    text = "import inspect\n\n\ndef step():\n    return 1  # as fixed\n\n\nWORD = inspect.getsource(step)\n"
    code, out, err = seen(project, {"helper.py": text}, capfd)
    assert code == 0, err
    assert out.startswith("def step():\n    return 1  # as fixed\n")


def test_an_exception_ends_it_as_it_would(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = seen(project, {"helper.py": "\n\nWORD = 1 / 0\n"}, capfd)
    assert code == 1
    assert 'helper.py", line 3' in err
    assert "ZeroDivisionError" in err


def test_a_script_behind_a_link(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (project / "scripts").mkdir()
    os.symlink(project / "train.py", project / "scripts" / "linked.py")
    files = {"train.py": SCRIPT.replace("old script", "new script")}
    code, out, err = seen(project, files, capfd, target="scripts/linked.py")
    assert code == 0, err
    assert "new script __main__ linked.py" in out


def test_what_is_said_survives_any_bytes() -> None:
    files = {"/nowhere/x.py": b"\xef\xbb\xbf# caf\xe9\r\n"}
    text = overlay.dumps(files)
    try:
        overlay.install(text)
        assert overlay.data_of("/nowhere/x.py") == files["/nowhere/x.py"]
        assert overlay.data_of("/nowhere/y.py") is None
    finally:
        import sys

        overlay._files.clear()
        sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, overlay.Finder)]


@pytest.mark.framework
def test_the_capture_keeps_the_text_that_ran(project: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = """
import os
os.environ["KERAS_BACKEND"] = "jax"
import keras, numpy as np
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")  # as fixed
model.fit(np.ones((256, 4), "float32"), np.ones((256, 1), "float32"), batch_size=8, epochs=3, verbose=0)
"""
    path = tmp_path / "run.fitdoctor"
    code, _, err = seen(project, {"train.py": text}, capfd, capture=path, lab=False, whole=True)
    assert code == 0, err
    kept = {os.path.basename(source.path): source.text for source in store.read(path).sources}
    assert kept["train.py"] == text
