from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking.conftest import EAGER, Check

BOTH = EAGER.replace("import keras\n", "import keras\nkeras.config.set_floatx('float64')\n")


def rules(check: Check, *words: str) -> list[str]:
    return [rule for rule, _ in check(*words, "--format", "json").found]


@pytest.fixture
def project(here: Path) -> Path:
    (here / "train.py").write_text(BOTH)
    return here / "pyproject.toml"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([], ["float64-data", "eager-step"]),
        (["--select", "eager-step"], ["eager-step"]),
        (["--select", "device"], ["float64-data"]),
        (["--select", "device,framework"], ["float64-data", "eager-step"]),
        (["--ignore", "eager-step"], ["float64-data"]),
        (["--ignore", "device", "--ignore", "framework"], []),
        (["--exclude", "tr*.py"], []),
        (["--exclude", "sub/*"], ["float64-data", "eager-step"]),
    ],
)
def test_the_command_line(check: Check, project: Path, words: list[str], found: list[str]) -> None:
    assert rules(check, *words) == found


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ('select = ["eager-step"]', ["eager-step"]),
        ('ignore = ["framework"]', ["float64-data"]),
        ('exclude = ["train.py"]', []),
        ('per-file-ignores = { "t*.py" = ["eager-step"], "other.py" = ["device"] }', ["float64-data"]),
    ],
)
def test_the_project(check: Check, project: Path, settings: str, found: list[str]) -> None:
    project.write_text(f"[tool.fitdoctor.check]\n{settings}\n")
    assert rules(check) == found


def test_the_command_line_comes_first(check: Check, project: Path) -> None:
    project.write_text('[tool.fitdoctor.check]\nselect = ["device"]\nignore = ["python-map"]\n')
    assert rules(check, "--select", "framework") == ["eager-step"]


def test_the_project_is_that_of_the_files(
    check: Check, project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write_text('[tool.fitdoctor.check]\nexclude = ["train.py"]\n')
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert rules(check, str(project.parent)) == []
    assert rules(check, str(project.parent / "train.py")) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[tool.fitdoctor.check]\nselect = ["eager-stop"]', "did you mean eager-step?"),
        ('[tool.fitdoctor.check]\nselect = "eager-step"', "expected a list of strings"),
        ("[tool.fitdoctor.check]\nexclude = [1]", "expected a list of strings"),
        ("[tool.fitdoctor.check]\nper-file-ignores = []", "expected a table of patterns"),
        ("[tool.fitdoctor.check]\nselekt = []", "no setting 'selekt'"),
        ("[tool.fitdoctor.check", "is no TOML"),
        ('tool.fitdoctor = "x"', "expected a table"),
    ],
)
def test_settings_that_cannot_be_used(check: Check, project: Path, text: str, said: str) -> None:
    project.write_text(text)
    done = check()
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "pyproject.toml" in done.err


def test_other_tools_settings_are_not_ours(check: Check, project: Path) -> None:
    project.write_text("[tool.ruff]\nline-length = 100\n")
    assert len(rules(check)) == 2


def test_a_rule_that_does_not_exist(check: Check, project: Path) -> None:
    done = check("--select", "eager-stop")
    assert (done.code, done.out) == (2, "")
    assert "did you mean eager-step?" in done.err
