"""`fitdoctor compare` and the HTML of `fitdoctor report`, in real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fitdoctor.cli.main import main
from tests.captures.build import Run
from tests.cli.conftest import Cli


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / "captures"
    folder.mkdir()
    return {
        "before": Run().fit(compute_ms=10).capture(folder).path,
        "same": Run().fit(compute_ms=10.2).capture(folder).path,
        "slower": Run().fit(compute_ms=15).capture(folder).path,
        "jax": Run("jax").fit(compute_ms=10).capture(folder).path,
        "nothing": Run().capture(folder).path,
    }


def test_two_runs_side_by_side(cli: Cli, runs: dict[str, str]) -> None:
    done = cli("compare", runs["before"], runs["slower"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Slower: a step takes 1.5")
    assert done.stderr == ""


def test_a_terminal_without_unicode(cli: Cli, runs: dict[str, str]) -> None:
    done = cli("compare", runs["before"], runs["slower"], env={"PYTHONIOENCODING": "ascii"})
    assert done.stdout.isascii()
    assert "\\x" not in done.stdout


@pytest.mark.parametrize("width", [40, 80, 200])
def test_on_a_terminal_lines_break_between_words(
    runs: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["compare", runs["before"], runs["slower"], "--fail-over", "5%"]) == 1
    paths = {runs["before"], runs["slower"]}
    lines = [line for line in capsys.readouterr().out.split("\n") if not any(path in line for path in paths)]
    assert max(map(len, lines)) <= width
    told = " ".join(" ".join(lines).split())
    assert "each with the range of a moving-block bootstrap over its steps" in told


def test_the_gate(cli: Cli, runs: dict[str, str]) -> None:
    assert cli("compare", runs["before"], runs["slower"], "--fail-over", "5%").returncode == 1
    assert cli("compare", runs["before"], runs["slower"], "--fail-over", "80 %").returncode == 0
    passed = cli("compare", runs["before"], runs["same"], "--fail-over", "0")
    assert passed.returncode == 0
    assert "passed" in passed.stdout


@pytest.mark.parametrize("limit", ["five", "-1", "nan", ""])
def test_a_limit_that_is_none(cli: Cli, runs: dict[str, str], limit: str) -> None:
    done = cli("compare", runs["before"], runs["same"], f"--fail-over={limit}")
    assert done.returncode == 2
    assert "such as 5%" in done.stderr


def test_files_to_keep(cli: Cli, runs: dict[str, str], tmp_path: Path) -> None:
    data, page = tmp_path / "c.json", tmp_path / "c.html"
    done = cli("compare", runs["before"], runs["slower"], "--json", str(data), "--html", str(page), "--fail-over", "5%")
    assert done.returncode == 1
    assert json.loads(data.read_text("utf-8"))["failed"] is True
    assert "Slower: a step takes" in page.read_text("utf-8")
    to_stdout = cli("compare", runs["before"], runs["slower"], "--json", "-")
    assert json.loads(to_stdout.stdout)["verdict"].startswith("slower")
    assert "Slower" in to_stdout.stderr
    assert cli("compare", runs["before"], runs["slower"], "--html", "-").returncode == 2


def test_what_cannot_be_compared(cli: Cli, runs: dict[str, str], tmp_path: Path) -> None:
    done = cli("compare", runs["before"], runs["jax"])
    assert done.returncode == 2
    assert "backend: tensorflow before, jax after" in done.stderr
    assert cli("compare", "--anyway", runs["before"], runs["jax"]).returncode == 0
    assert "no steady step" in cli("compare", runs["before"], runs["nothing"]).stderr
    assert cli("compare", runs["before"], "missing.fitdoctor").returncode == 2
    bad = tmp_path / "bad.json"
    for text in ("{", '{"schema": "other"}', "{\xff"):
        bad.write_bytes(text.encode("latin-1"))
        found = cli("compare", runs["before"], str(bad))
        assert found.returncode == 2
        assert "Traceback" not in found.stderr
        assert "bug" not in found.stderr


def test_the_report_as_a_page(cli: Cli, runs: dict[str, str], capture: Path, tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    done = cli("report", runs["before"], "--format", "html", "-o", str(page))
    assert done.returncode == 0, done.stderr
    text = page.read_text("utf-8")
    assert text.startswith("<!doctype html>")
    assert 'id="timeline"' in text
    assert cli("report", runs["before"], "--format", "html").stdout == text
    empty = cli("report", str(capture), "--format", "html")
    assert empty.returncode == 0
    assert "No training was seen" in empty.stdout
