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
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
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


def python_blocks(page: Path) -> list[str]:
    """Return the Python of a page, block by block."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


COMMANDS = {
    page.relative_to(ROOT).as_posix(): lines
    for page in PAGES
    if (lines := [line for line in shell_lines(page) if re.match(r"(\w+=\S+ )*fitdoctor\b|sed ", line)])
}
"""What is typed, page by page: a reader of one page has not read the others."""
ANSWERS = {"prove": {0, 1}, "check": {0, 1}}
"""Exit codes that are answers: on a busy machine a short proof is inconclusive, and a suspicion is no failure."""


def needs_framework(line: str) -> bool:
    """These start one, or read what `run` left behind."""
    names = "run|input|fix|prove|env|diagnose|report|compare"
    return bool(re.search(rf"fitdoctor ({names})\b(?!.*--help)", line))


@pytest.fixture
def workspace(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """Give the commands of a page the examples, a state folder and `fitdoctor`."""
    folder = tmp_path
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
    ("page", "lines"),
    [
        pytest.param(page, lines, marks=[pytest.mark.framework] if any(map(needs_framework, lines)) else [], id=page)
        for page, lines in COMMANDS.items()
    ],
)
def test_every_command_runs(page: str, lines: list[str], workspace: tuple[Path, dict[str, str]]) -> None:
    """In reading order: later ones look at what earlier ones left."""
    folder, env = workspace
    for line in lines:
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
        command = re.search(r"fitdoctor (\w+)", line)
        wanted = ANSWERS.get(command[1], {0}) if command else {0}
        assert done.returncode in wanted, f"{page}: {line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def test_the_documents_show_commands() -> None:
    shown = {name for lines in COMMANDS.values() for line in lines for name in re.findall(r"fitdoctor (\S+)", line)}
    assert {"run", "diagnose", "report", "rules", "explain"} <= shown


def test_every_inline_command_is_understood() -> None:
    """Those in tables and sentences are parsed, not run: their scripts do not exist."""
    from fitdoctor.cli.main import build_parser

    parser, commands = build_parser()
    found = 0
    for page in PAGES:
        prose = BLOCK.sub("", page.read_text("utf-8"))
        for words in re.findall(r"`fitdoctor ([a-z][^`]*)`", prose):
            name, *rest = words.split()
            if not rest:  # a command that is spoken of
                assert name in commands, f"{page.name}: fitdoctor {name}"
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
            found = (page.parent / target).resolve()
            # Pages that are written while the site is built have no file; tests/test_site.py follows links to them.
            made = page.is_relative_to(DOCS) and found.is_relative_to(DOCS) and is_generated(found)
            assert found.exists() or made, f"{page.name} links to {target}"


def is_generated(path: Path) -> bool:
    """Tell whether a page of docs/ is written while the site is built."""
    sys.path.insert(0, str(ROOT / "tools" / "site"))
    try:
        import hooks
    finally:
        sys.path.pop(0)
    return path.relative_to(DOCS).as_posix() in hooks.generated()


@pytest.mark.framework
def test_the_python_in_the_documents_runs(workspace: tuple[Path, dict[str, str]]) -> None:
    folder, env = workspace
    pages = [ROOT / "README.md", DOCS / "from-code.md"]
    blocks = [block for page in pages for block in python_blocks(page)]
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
    assert said.count("One step") == 4, said
