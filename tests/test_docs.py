"""The documents tell the truth: every command in them runs, every make target and link exists."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(console|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shell_lines(page: Path) -> list[str]:
    """Return what a reader would type: the `$` lines of a console block, all lines of a shell block."""
    lines = []
    for kind, block in BLOCK.findall(page.read_text("utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            if kind == "sh" and line.strip():
                lines.append(line.strip())
            elif line.startswith("$ "):
                lines.append(line[2:].strip())
    return lines


COMMANDS = [
    (page.name, line) for page in PAGES for line in shell_lines(page) if re.match(r"(\w+=\S+ )*fitdoctor\b", line)
]


def needs_framework(line: str) -> bool:
    """`run`, `input`, `fix` and `env` start one; `diagnose`, `report` and `compare` read what `run` left behind."""
    return bool(re.search(r"fitdoctor (run|input|fix|env|diagnose|report|compare)\b(?!.*--help)", line))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Give the commands the examples, a state folder and `fitdoctor`; they run in reading order."""
    folder = tmp_path_factory.mktemp("docs")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    programs = folder / "bin"
    programs.mkdir()
    program = programs / "fitdoctor"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fitdoctor "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    parts = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    env = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(os.path.abspath(part) for part in parts),
        "FITDOCTOR_HOME": str(folder / "state"),
    }
    return folder, env


@pytest.mark.parametrize(
    ("page", "line"),
    [
        pytest.param(page, line, marks=[pytest.mark.framework] if needs_framework(line) else [], id=line)
        for page, line in COMMANDS
    ],
)
def test_every_command_runs(page: str, line: str, workspace: tuple[Path, dict[str, str]]) -> None:
    folder, env = workspace
    done = subprocess.run(
        line,
        shell=True,
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
    )
    # `check` says with 1 that it suspects something: the examples are slow.
    expected = (0, 1) if "fitdoctor check" in line else (0,)
    assert done.returncode in expected, f"{page}: {line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def test_the_documents_show_commands() -> None:
    shown = {re.findall(r"fitdoctor (\S+)", line)[0] for _, line in COMMANDS}
    assert {"run", "diagnose", "report", "rules", "explain", "check"} <= shown


def test_every_inline_command_is_understood() -> None:
    """Those in tables and sentences are parsed, not run: their scripts do not exist."""
    from fitdoctor.cli.main import build_parser

    parser, commands = build_parser()
    found = 0
    for page in PAGES:
        prose = BLOCK.sub("", page.read_text("utf-8"))
        for words in re.findall(r"`fitdoctor ([a-z][^`]*)`", prose):
            name, *rest = words.split()
            if page.name == "CHANGELOG.md" and not rest:
                assert name in commands
                continue
            split = getattr(commands[name], "split", None)
            ours = split(rest)[0] if split else rest
            parser.parse_args([name, *ours])
            found += 1
    assert found >= 6


def test_every_make_target_exists() -> None:
    targets = {
        target
        for page in PAGES
        for target in re.findall(r"(?:^|`)make ([a-z][a-z-]*)", page.read_text("utf-8"), re.MULTILINE)
    }
    assert {"demo", "test", "venv"} <= targets
    for target in targets:
        done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_continuous_integration_is_make_test_and_nothing_else() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    commands = [line for line in script.read_text().splitlines() if line and not line.startswith(("#", "set ", "cd "))]
    assert commands == ["exec make test"]


def test_every_link_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.framework
def test_the_python_in_the_readme_runs(workspace: tuple[Path, dict[str, str]]) -> None:
    folder, env = workspace
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    said = ""
    for block in blocks:
        done = subprocess.run(
            [sys.executable, "-c", block],
            cwd=folder,
            env={**env, "KERAS_BACKEND": "jax"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        said += done.stderr
    assert said.count("One step") == 3, said
