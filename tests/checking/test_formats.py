from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from tests.checking.conftest import EAGER, Check

SARIF = json.loads((Path(__file__).parents[1] / "report" / "data" / "sarif-2.1.0-rtm.4.json").read_text("utf-8"))
"""The official schema."""


def test_text_shows_the_line_and_the_command_that_would_tell(check: Check, here: Path) -> None:
    (here / "train.py").write_text(EAGER)
    done = check("train.py")
    assert (done.code, done.err) == (1, "")
    assert "eager-step  framework  suspicion" in done.out
    assert "may run every step op by op" in done.out
    assert "train.py:4" in done.out
    assert re.search(r"4 │ model\.compile\(.adam., .mse., run_eagerly=True\)", done.out)
    assert "fitdoctor run train.py" in done.out
    assert "1 suspicion in 1 file, 1 file checked." in done.out
    assert "finding" not in done.out.replace("not findings", "")


def test_a_place_is_never_cut(check: Check, here: Path) -> None:
    folder = here / "a folder whose name is long enough" / "that no terminal of 80 columns" / "has room for it all"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(EAGER)
    place = f"{(folder / 'train.py').relative_to(here)}:4"
    assert f"   {place}" in check(".").out.splitlines()


def test_nothing_suspicious_is_one_line(check: Check, here: Path) -> None:
    (here / "clean.py").write_text("import keras\n")
    done = check()
    assert (done.code, done.out, done.err) == (0, "Nothing suspicious, 1 file checked.\n", "")


def test_json(check: Check, here: Path) -> None:
    (here / "train.py").write_text(EAGER)
    done = check("--format", "json")
    assert done.code == 1
    (suspicion,) = done.data["suspicions"]
    assert done.data["schema"] == "fitdoctor.check/1"
    assert suspicion["site"] == {"path": "train.py", "cell": None, "line": 4, "end_line": 4, "symbol": None}
    assert (suspicion["rule"], suspicion["family"]) == ("eager-step", "framework")
    assert suspicion["tell"] == "fitdoctor run train.py"


def sarif(check: Check, *words: str) -> dict[str, Any]:
    data: dict[str, Any] = check(*words, "--format", "sarif").data
    jsonschema.Draft4Validator(SARIF).validate(data)
    return data


def test_sarif_is_valid(check: Check, here: Path) -> None:
    (here / "sub folder").mkdir()
    (here / "sub folder" / "träin.py").write_text(EAGER)
    (here / "broken.py").write_text("import keras\n(\n")
    run = sarif(check)["runs"][0]
    (result,) = run["results"]
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": "sub%20folder/tr%C3%A4in.py", "uriBaseId": "SRCROOT"}
    assert location["region"]["startLine"] == 4
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "eager-step"
    assert (result["level"], "Suspicion" in result["message"]["text"]) == ("note", True)
    assert run["invocations"][0]["executionSuccessful"] is False
    assert "broken.py" in run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]


def test_sarif_of_nothing_is_valid(check: Check, here: Path) -> None:
    assert sarif(check)["runs"][0]["results"] == []


def test_the_schema_refuses_what_is_no_sarif() -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft4Validator(SARIF).validate({"version": "2.1.0", "runs": [{"results": []}]})


def test_fingerprints_do_not_move_with_the_lines(check: Check, here: Path) -> None:
    def fingerprints() -> list[str]:
        return [each["fingerprint"] for each in check("--format", "json").data["suspicions"]]

    twice = EAGER + EAGER.replace("import keras\n", "")
    (here / "train.py").write_text(twice)
    before = fingerprints()
    assert len(set(before)) == 2
    (here / "train.py").write_text("# one\n# two\n\n" + twice.replace('"mse", run', '"mse",  run'))
    assert fingerprints() == before
    (here / "train.py").rename(here / "other.py")
    assert not {*fingerprints()} & {*before}


def test_fingerprints_are_those_of_the_project(check: Check, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "sub").mkdir()
    (here / "pyproject.toml").write_text("")
    (here / "sub" / "train.py").write_text(EAGER)
    (from_above,) = check("--format", "json").data["suspicions"]
    monkeypatch.chdir(here / "sub")
    (from_within,) = check("train.py", "--format", "json").data["suspicions"]
    assert from_within["fingerprint"] == from_above["fingerprint"]


def test_the_command_that_would_tell_names_scripts_only(check: Check, here: Path) -> None:
    module = "import keras\n\n\ndef train(model, x):\n    model.compile('adam', run_eagerly=True)\n    model.fit(x)\n"
    (here / "module.py").write_text(module)
    (here / "script.py").write_text(f"{module}\n\nif __name__ == '__main__':\n    train(make(), read())\n")
    tells = [each["tell"] for each in check("--format", "json").data["suspicions"]]
    assert tells == ["fitdoctor run your_script.py", "fitdoctor run script.py"]


def test_junit(check: Check, here: Path) -> None:
    (here / "train.py").write_text(EAGER.replace("import keras", "import keras  # <&> \x0c"))
    (here / "broken.py").write_text("(")
    root = ElementTree.fromstring(check("--format", "junit").out)
    suite = root.find("testsuite")
    assert suite is not None
    assert [suite.get(name) for name in ("tests", "failures", "errors")] == ["2", "1", "1"]
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.get("type") == "eager-step"
    assert "run_eagerly=True" in (failure.text or "")


def test_junit_of_nothing_passes(check: Check, here: Path) -> None:
    root = ElementTree.fromstring(check("--format", "junit").out)
    assert (root.get("tests"), root.get("failures")) == ("1", "0")


def test_github(check: Check, here: Path) -> None:
    (here / "a,b.py").write_text(EAGER)
    notice, last = check("--format", "github").out.splitlines()
    assert notice.startswith("::notice file=a%2Cb.py,line=4,endLine=4,title=fitdoctor suspicion%3A eager-step::may run")
    assert last == "1 suspicion in 1 file, 1 file checked."


@pytest.mark.parametrize("form", ["text", "json", "sarif", "junit", "github"])
def test_every_format_goes_to_a_file(check: Check, here: Path, form: str) -> None:
    (here / "train.py").write_text(EAGER)
    shown = check("train.py", "--format", form).out
    done = check("train.py", "--format", form, "--output", "out")
    assert (done.code, done.out) == (1, "")
    assert (here / "out").read_text("utf-8") == shown


def test_an_output_that_cannot_be_written(check: Check, here: Path) -> None:
    assert check("--output", "no/such/folder/out").code == 2
