"""The pre-commit hook and the GitHub Action: their files are read as their readers do, and what they run is run."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.checking.conftest import EAGER, FAST, SLOW

ROOT = Path(__file__).resolve().parents[2]
PYTHONPATH = os.pathsep.join(
    os.path.abspath(part) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part
)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Put `fitdoctor` on the path."""
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "fitdoctor"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fitdoctor "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": PYTHONPATH}


def test_the_hook_runs_on_the_files_it_is_given(here: Path, env: dict[str, str]) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert {"id", "name", "entry", "language"} <= set(hook)
    assert (hook["id"], hook["language"], hook["types_or"]) == ("fitdoctor-check", "python", ["python", "jupyter"])
    (here / "train.py").write_text(EAGER)
    (here / "clean.py").write_text("import keras\n")
    codes = [
        subprocess.run([*hook["entry"].split(), *files], cwd=here, env=env, capture_output=True).returncode
        for files in (["train.py", "clean.py"], ["clean.py"])
    ]
    assert codes == [1, 0]


def test_the_hook_mends_with_the_arguments_of_the_documentation(here: Path, env: dict[str, str]) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    shown = re.findall(r"^```yaml\n(repos:.*?)^```", (ROOT / "docs" / "check.md").read_text("utf-8"), re.M | re.S)
    (repository,) = yaml.safe_load(shown[0])["repos"]
    (asked,) = repository["hooks"]
    assert asked["id"] == hook["id"]
    (here / "train.py").write_text(SLOW)
    words = [*hook["entry"].split(), *asked["args"], "train.py"]
    state = {"FITDOCTOR_HOME": str(here / "state")}
    done = subprocess.run(words, cwd=here, env={**env, **state}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (here / "train.py").read_text() == FAST


def action() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    return data


def test_the_action_is_a_composite_one() -> None:
    data = action()
    assert data["runs"]["using"] == "composite"
    assert all(step["shell"] == "bash" and step["run"] for step in data["runs"]["steps"])
    # What a user gives is never pasted into a script: it comes in variables.
    assert not any("${{" in step["run"] for step in data["runs"]["steps"])
    used = {value for step in data["runs"]["steps"] for value in step["env"].values() if "inputs." in value}
    assert used == {f"${{{{ inputs.{name} }}}}" for name in data["inputs"]}


@pytest.mark.skipif(shutil.which("bash") is None, reason="the action runs in bash")
@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ({}, 0),
        ({"fail-on-suspicion": "true"}, 1),
        ({"fail-on-suspicion": "true", "select": "input"}, 0),
        ({"fail-on-suspicion": "true", "ignore": "eager-step"}, 0),
        ({"paths": "train.py nothing.py"}, 2),
        ({"format": "sarif", "output": "out.sarif"}, 0),
    ],
)
def test_what_the_action_checks(here: Path, env: dict[str, str], inputs: dict[str, str], code: int) -> None:
    (here / "train.py").write_text(EAGER)
    data = action()
    step = data["runs"]["steps"][1]
    given = {name: inputs.get(name, setting["default"]) for name, setting in data["inputs"].items()}
    variables = {name: given[value.split("inputs.")[1].rstrip(" }")] for name, value in step["env"].items()}
    (here / "fitdoctor-program").write_text(f"{shutil.which('fitdoctor', path=env['PATH'])}\n")
    done = in_bash(step["run"], here, {**env, **variables, "RUNNER_TEMP": str(here)})
    assert done.returncode == code, done.stderr
    if "output" in inputs:
        assert (here / "out.sarif").exists()
    elif not {"select", "ignore"} & set(inputs):
        assert "::notice file=train.py,line=4" in done.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="the action runs in bash")
def test_the_action_installs_what_lies_beside_it_into_a_folder_of_its_own(here: Path) -> None:
    step = action()["runs"]["steps"][0]
    assert step["env"] == {"ACTION_PATH": "${{ github.action_path }}"}
    project = here / "a project"  # as small as one can be, so that nothing is fetched: only the way is looked at
    project.mkdir()
    (project / "pyproject.toml").write_text(SMALLEST)
    (project / "backend.py").write_text(BACKEND)
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = in_bash(step["run"], here, {**plain, "RUNNER_TEMP": str(here), "ACTION_PATH": str(project)})
    assert done.returncode == 0, done.stderr
    program = Path((here / "fitdoctor-program").read_text().strip())
    assert program.parent.parent == here / "fitdoctor"
    said = subprocess.run([program], capture_output=True, text=True, env=plain, check=True).stdout
    assert said == "installed\n"


SMALLEST = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
BACKEND = """\
import zipfile


def build_wheel(folder, settings=None, metadata=None):
    name = "fitdoctor-0-py3-none-any.whl"
    info = "fitdoctor-0.dist-info"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.writestr("fitdoctor.py", "def main():\\n    print('installed')\\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: fitdoctor\\nVersion: 0\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/entry_points.txt", "[console_scripts]\\nfitdoctor = fitdoctor:main\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""


def in_bash(script: str, folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a step as GitHub does."""
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)


# --- how quick it starts ------------------------------------------------------------------------------


def test_it_starts_without_what_it_does_not_need(here: Path) -> None:
    (here / "clean.py").write_text("import keras\n")
    code = (
        "import sys; from fitdoctor.cli.main import main; main(['check', '.']);"
        "print(sorted({*sys.modules, *(name.split('.')[0] for name in sys.modules)}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=here, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
    )  # fmt: skip
    loaded = set(eval(done.stdout.splitlines()[-1]))
    assert not {"numpy", "rich", "keras", "tensorflow", "jax", "torch", "libcst", "asyncio"} & loaded
    commands = {name.removeprefix("fitdoctor.cli.") for name in loaded if name.startswith("fitdoctor.cli.")}
    assert commands == {"main", "check", "output"}
