"""The input on a terminal and as JSON."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.cells import cell_len
from rich.console import Console

from fitdoctor import diagnosis
from fitdoctor.facts import resolve
from fitdoctor.facts.input_view import InputView
from fitdoctor.pipeline import source_lines
from fitdoctor.report import json as report_json
from fitdoctor.report.input import render
from tests.captures.build import Run
from tests.report import inputs
from tests.report.contract import assert_contract

RUNS = {
    "pipeline": inputs.pipeline,
    "unseen": lambda: inputs.pipeline(lab=False, looked=False),
    "loader": inputs.loader,
    "unmeasured loader": lambda: inputs.loader(lab=False, workers=0, adapter="DataLoader", queue=None),
    "arrays": lambda: Run().fit(adapter="arrays", dataset=None, arrays=[{"bytes": 4096}]).live(*inputs.NODES),
    "hostile": lambda: Run().fit(dataset=[{"op": "\x1b[31mMap\u202e" * 9, "built": ["/tmp/\x07" * 30, 3]}]),
}


def rendered(run: Run, folder: Path, width: int = 80, encoding: str = "utf-8", **options: Any) -> str:
    capture = run.capture(folder)
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="strict", newline="")
    console = Console(file=stream, width=width, highlight=False, **options)
    render(resolve(capture).get(InputView), console, source_lines(capture))
    stream.flush()
    return raw.getvalue().decode(encoding)


def test_it_says_everything_that_matters(tmp_path: Path) -> None:
    text = rendered(inputs.pipeline(), tmp_path)
    flat = " ".join(text.split())
    for expected in (
        "fitdoctor input · train.py · tf.data · tensorflow",
        "A step waits 30.",
        "batches/s",
        "Most of it is ParallelMap at train.py:5",
        "alone gives own per step CPU waits at once buffer",
        "train.py:5 data = both.map(augment, num_parallel_calls=tf.data.AUTOTUNE)",
        "calls Python, which holds the GIL",
        "random, stateless",
        "keeps elements in memory",
        "ran together with Batch, as MapAndBatch",
        "TensorFlow added this",
        "0 % of 8",
        "What did AUTOTUNE choose?",
        "MapAndBatch at train.py:6: 2 of at most 2 calls at once",
        "enhance at train.py:3",
    ):
        assert expected in flat, expected
    marked = [line for line in text.split("\n") if line.startswith("▸")]
    assert len(marked) == 1
    assert re.match(r"▸  ParallelMap +1,6\d\d/s +18\.\d ms ±\d+ % +3\d\.\d ms +0 +2 auto +-$", marked[0]), marked


def test_a_loader(tmp_path: Path) -> None:
    flat = " ".join(rendered(inputs.loader(), tmp_path).split())
    assert "The loader Pictures train.py:4 workers 2 threads queue at most 10 batches ready" in flat
    assert "waiting 28." in flat
    assert "AUTOTUNE" not in flat
    for expected in (
        "Making a batch alone, on one thread takes 6",
        "on the CPU 9.0",
        "held at least 40 % of the time of the steps, 10 % by the training thread",
        "0.5 batches when the next was asked for",
        "80 % of the batches were not ready, 25 % of those while a later one was",
        "40.0 ms from the start of workers to their first batch",
        "110 ms to end the workers",
        "80 % in fetch train.py:5",
    ):
        assert expected in flat, (expected, flat)


def test_a_loader_that_was_seen_in_the_run_alone(tmp_path: Path) -> None:
    flat = " ".join(rendered(inputs.loader(lab=False), tmp_path).split())
    assert "Making a batch in the run, beside the step" in flat
    assert "in fetch" not in flat
    view = resolve(inputs.loader().capture(tmp_path)).get(InputView)
    data = json.loads(report_json.dumps_input(view))["making"]
    assert (data["gil_held"], data["gil_training"], data["ready"], data["late"]) == (0.4, 0.1, 0.5, 0.8)
    assert (data["out_of_order"], data["start_ms"], data["stop_ms"]) == (0.25, 40.0, 110.0)
    assert data["lines"][0]["site"]["line"] == 5
    assert data["cpu_ms"]["mid"] + data["waiting_ms"]["mid"] == pytest.approx(data["batch_ms"]["mid"])


def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    text = rendered(inputs.pipeline(lab=False, looked=False), tmp_path)
    assert "Not known" in text
    assert "→ record it again with this version" in text
    assert "0 s" not in text


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp437"])
@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("name", RUNS)
def test_it_fits_every_terminal(name: str, width: int, encoding: str, tmp_path: Path) -> None:
    text = rendered(RUNS[name](), tmp_path, width, encoding)
    lines = text.rstrip("\n").split("\n")
    assert max(cell_len(line) for line in lines) <= width
    assert all(line == line.rstrip() for line in lines)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_colour_only_where_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    assert "\x1b[1;31m" in rendered(inputs.pipeline(), tmp_path, force_terminal=True, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    plain = rendered(inputs.pipeline(), tmp_path, force_terminal=True, color_system="standard")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", plain)


# --- as data ------------------------------------------------------------------------------------------


def check(data: dict[str, Any]) -> None:
    schema = report_json.schema()
    whole = {"$ref": "#/$defs/input", "$defs": schema["$defs"]}
    jsonschema.validate(data, whole, jsonschema.Draft202012Validator)


@pytest.mark.parametrize("name", RUNS)
def test_the_data_keeps_to_its_schema(name: str, tmp_path: Path) -> None:
    view = resolve(RUNS[name]().capture(tmp_path)).get(InputView)
    data = json.loads(report_json.dumps_input(view))
    assert data.pop("schema") == "fitdoctor.input/1"
    assert "script" in data
    data.pop("script")
    check(data)


def test_the_data_says_what_the_page_says(tmp_path: Path) -> None:
    data = json.loads(report_json.dumps_input(resolve(inputs.pipeline().capture(tmp_path)).get(InputView)))
    slowest = next(each for each in data["stages"] if each["slowest"])
    assert (slowest["op"], slowest["ran"], slowest["site"]["line"]) == ("ParallelMap", "ParallelMapV2", 5)
    assert slowest["wall_ms"]["low"] < slowest["wall_ms"]["mid"] < slowest["wall_ms"]["high"]
    assert slowest["parallel"] == {"value": 2.0, "most": 2.0, "tuned": True}
    assert slowest["per_step"] == 32
    assert data["alone"]["cores"] == 1.4
    assert data["functions"][0]["name"] == "enhance"


def test_it_is_part_of_every_report(tmp_path: Path) -> None:
    report = diagnosis.diagnose(inputs.pipeline().capture(tmp_path))
    data = assert_contract(report_json.dumps(report))
    check(data["input"])
    assert report_json.dumps(report_json.from_dict(data)) == report_json.dumps(report)
    nothing = diagnosis.diagnose(Run().capture(tmp_path))
    assert "input" not in assert_contract(report_json.dumps(nothing))
