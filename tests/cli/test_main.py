from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from fitdoctor._version import __version__
from fitdoctor.capture import store
from fitdoctor.cli import main as main_module
from fitdoctor.cli.main import build_parser, main
from fitdoctor.errors import UsageError
from tests.captures.build import Run
from tests.cli.conftest import Cli

HEAVY = ("tensorflow", "keras", "jax", "torch", "numpy", "rich", "psutil", "sqlite3", "grain")


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_start_up_imports_nothing_heavy(option: str) -> None:
    program = (
        "import sys; from fitdoctor.cli.main import main; code = main(sys.argv[1:]);"
        f"print([name for name in {HEAVY!r} if name in sys.modules]); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program, option], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().split("\n")[-1] == "[]"


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_start_up_is_quick(option: str) -> None:
    def seconds(command: list[str]) -> float:
        start = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        return time.perf_counter() - start

    rounds = [
        (seconds([sys.executable, "-m", "fitdoctor", option]), seconds([sys.executable, "-c", "pass"]))
        for _ in range(7)
    ]
    ours = statistics.median(our for our, _ in rounds)
    bare = statistics.median(python for _, python in rounds)
    # 0.3 s on an idle machine; a busy one also slows the bare interpreter down, and is given that much more.
    assert ours < max(0.3, 8 * bare)


def test_version(cli: Cli) -> None:
    done = cli("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"fitdoctor {__version__}\n", "")


def test_help_names_every_command(cli: Cli) -> None:
    done = cli("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for command in ("run", "diagnose", "report", "rules", "explain"):
        assert re.search(rf"^ +{command} +\S", done.stdout, re.MULTILINE)


def test_every_command_has_help() -> None:
    parser, commands = build_parser()
    for name in commands:
        out = io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            assert main([name, "--help"]) == 0
        assert out.getvalue().startswith("usage: fitdoctor")
    assert parser.prog == "fitdoctor"


def test_without_a_command_it_shows_help_on_stderr(cli: Cli) -> None:
    done = cli()
    assert (done.returncode, done.stdout) == (2, "")
    assert "commands" in done.stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["dagnose", "x"], "did you mean `fitdoctor diagnose x`?"),
        (["train.py", "--lr", "1e-3"], "did you mean `fitdoctor run train.py --lr 1e-3`?"),
        (["qqqqqq"], "the commands are:"),
        (["--nonsense"], "see `fitdoctor --help`"),
        (["report", "--format", "poem"], "see `fitdoctor report --help`"),
        (["rules", "--verb"], "see `fitdoctor"),
        (["cure"], "for example: fitdoctor cure train.py"),
        (["prove", "--fix", "serial-map"], "for example: fitdoctor prove --fix RULE train.py"),
        (["env", "--timeout", "nan"], "--timeout needs a number of seconds"),
    ],
)
def test_a_wrong_command_line_is_explained(words: list[str], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert hint in err
    assert "Traceback" not in err


def fake(monkeypatch: pytest.MonkeyPatch, run: object) -> None:
    """Make `fitdoctor rules` do something else."""
    monkeypatch.setattr("fitdoctor.cli.rules.run", run)


def test_a_bug_is_ours_and_its_details_are_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(args: object) -> int:
        raise ZeroDivisionError("so many\nlines")

    fake(monkeypatch, broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("FITDOCTOR_DEBUG", raising=False)
    assert main(["rules"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert "bug in fitdoctor" in err
    assert "ZeroDivisionError: so many lines" in err
    (log,) = tmp_path.glob("fitdoctor-bug-*.log")
    assert str(log) in err
    assert "Traceback" in log.read_text()
    assert __version__ in log.read_text()


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(args: object) -> int:
        raise ZeroDivisionError

    fake(monkeypatch, broken)
    monkeypatch.setenv("FITDOCTOR_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(["rules"])


def test_a_known_error_is_a_message_and_its_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuses(args: object) -> int:
        raise UsageError("expected a, found b", do="give a")

    fake(monkeypatch, refuses)
    assert main(["rules"]) == 2
    assert capsys.readouterr().err == "fitdoctor: expected a, found b\n  → give a\n"


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(args: object) -> int:
        raise KeyboardInterrupt

    fake(monkeypatch, interrupted)
    assert main(["rules"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    program = (
        "import sys; from fitdoctor.cli import main, rules\n"
        "def run(args):\n    for i in range(100000): print('line', i)\n    return 0\n"
        "rules.run = run\nsys.exit(main.main(['rules']))"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    assert child.stderr.read() == ""
    assert child.wait(60) == 141


@pytest.mark.parametrize("words", [["rules"], ["diagnose"], ["report", "--format", "json"], ["fix"], ["input"]])
def test_one_that_has_left_before_the_answer_is_none_either(home: Path, tmp_path: Path, words: list[str]) -> None:
    """Some answers are printed by rich, which makes something else of a broken pipe."""
    run = Run("jax").fit(compute_ms=20, callbacks_ms=5).callback("Watch", ms=5)
    (home / "runs").mkdir(parents=True)
    shutil.copy(run.capture(tmp_path).path, home / "runs" / f"run{store.SUFFIX}")
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as gone:
        command = [sys.executable, "-m", "fitdoctor", *words]
        done = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 141, done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
@pytest.mark.parametrize("words", [["rules"], ["check", __file__], ["check", __file__, "--format", "json"]])
def test_a_full_disk_is_no_bug(home: Path, words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "fitdoctor", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 2
    assert "cannot write the answer: No space left on device" in done.stderr
    assert "bug" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.parametrize("error", ["UsageError('no')", "KeyboardInterrupt", "ValueError('no')"])
def test_an_error_that_nobody_hears_has_its_exit_code(tmp_path: Path, error: str) -> None:
    """1 would say that nothing was proved, or that something is suspected."""
    program = (
        "import sys; from fitdoctor.cli import main, rules; from fitdoctor.errors import UsageError\n"
        f"def run(args):\n    print('an answer')\n    raise {error}\n"
        "rules.run = run\nsys.exit(main.main(['rules']))"
    )
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as gone:
        command = [sys.executable, "-c", program]
        env = {**os.environ, "TMPDIR": str(tmp_path)}
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=gone, text=True, timeout=120, env=env)
    assert done.returncode == {"U": 2, "K": 130, "V": 3}[error[0]]
    assert done.stdout == "an answer\n"


@pytest.mark.skipif(os.name != "posix", reason="such a folder cannot be removed")
@pytest.mark.parametrize("words", [["check"], ["run", __file__], ["rules"]])
def test_a_folder_that_is_gone_is_no_bug(home: Path, tmp_path: Path, words: list[str]) -> None:
    program = (
        "import os, sys; from fitdoctor.cli.main import main; folder = sys.argv[1]; os.mkdir(folder); os.chdir(folder);"
        "os.rmdir(folder); sys.exit(main(sys.argv[2:]))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "gone"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if words == ["rules"]:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode == 2, done.stderr
        assert "the folder this was started in is gone" in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="a shell of another kind")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_no_bug(home: Path, closed: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m fitdoctor explain nothing-like-it {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stdout == ""


def test_a_terminal_without_unicode_gets_escapes(cli: Cli) -> None:
    done = cli("explain", "café", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "there is no rule 'caf\\xe9'\n  -> list them" in done.stderr


def test_a_command_is_found_by_being_there(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def add_parser(subparsers: object) -> None:
        subparsers.add_parser("hello").add_argument("name")  # type: ignore[attr-defined]

    def run(args: SimpleNamespace) -> int:
        seen.append(args.name)
        return 7

    module = SimpleNamespace(add_parser=add_parser, run=run)
    monkeypatch.setattr(main_module.pkgutil, "iter_modules", lambda path: [SimpleNamespace(name="hello")])
    monkeypatch.setattr(main_module.importlib, "import_module", lambda name: module)
    assert main(["hello", "you"]) == 7
    assert seen == ["you"]
