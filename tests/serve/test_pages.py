"""What the pages say: newest first, histories, regressions, what cannot be read; and quickly."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

from fitdoctor import pipeline
from fitdoctor.capture import store
from fitdoctor.model import Interval
from fitdoctor.report import summary as summaries
from fitdoctor.serve import history, pages
from fitdoctor.serve.answers import Answers
from fitdoctor.serve.shelf import Entry, Shelf, id_of
from tests.captures.build import Run
from tests.serve.conftest import Client


def entry(number: int, ms: tuple[float, float, float] | None, **more: object) -> Entry:
    """Return a run of train.py with this step time."""
    meta = {
        "script": "/home/me/train.py",
        "command": ["train.py"],
        "started": float(number),
        "exit": {"reason": "capped"},
    }
    known = None if ms is None else {"step_ms": dict(zip(("low", "mid", "high"), ms, strict=True)), "backend": "jax"}
    name = f"{number}.fitdoctor"
    return Entry(id_of(name), Path(name), name, (1, 1, 0, 0), {**meta, **more}, known)


def test_only_what_the_intervals_tell_apart_is_a_change() -> None:
    times = [(9.9, 10, 10.1), (10.0, 10.3, 10.5), None, (14, 15, 16), (9, 11, 18), (4.9, 5, 5.1)]
    runs = [entry(number, ms) for number, ms in enumerate(times)]
    found = history.shifts(runs[::-1])
    assert [found[run.id].kind for run in runs if run.id in found] == ["same", "slower", "same", "faster"]
    slower = found[runs[3].id]
    assert slower.before is runs[1], "a run without steps is passed over"
    assert slower.ratio.low > 1
    assert pages.shift_words(slower).startswith("▲ 46 %")
    assert "slower" in pages.shift_words(slower)
    assert pages.shift_words(found[runs[5].id]).startswith("▼ 55 %")


def test_runs_that_differ_in_more_than_time_are_not_compared() -> None:
    first = entry(1, (9.9, 10, 10.1))
    for other in (
        entry(2, (19, 20, 21), command=["train.py", "--big"]),
        entry(2, (19, 20, 21), environment={"cpu": "another", "cores": 2}),
        entry(2, (19, 20, 21), environment={"gpus": [{"name": "one"}]}),
    ):
        assert history.shifts([other, first]) == {}
    newer = entry(2, (19, 20, 21), versions={"keras": "3.15.1"})
    assert history.shifts([newer, first])[newer.id].news == ("keras none → 3.15.1",)


def test_the_ratio_holds_what_two_runs_of_the_same_thing_differ_by() -> None:
    same = history.ratio(Interval.exact(10), Interval.exact(10))
    assert same.low < 1 < same.high


def test_the_list_is_newest_first_and_says_what_was_found(client: Client, folder: Path) -> None:
    slow = Run("tensorflow", script="/home/me/other.py", started=1_800_000_000.0, wall_s=12.0)
    slow.fit(steps=200, input_ms=30, compute_ms=10).pyfunc(wall_ms=30, cpu_ms=28).source(
        "def augment(x):\n    pass\n"
    ).capture(folder)
    assert "not diagnosed yet" in client.get().text
    while client.server.answers.diagnoses.work():
        pass
    text = client.get().text
    assert text.index("other.py") < text.index("train.py")
    assert "not diagnosed yet" not in text
    assert "python-map" in text
    assert re.search(r"▲ 100 % \(\d+ to \d+\) slower", text)
    assert text.count('class="dot') == 2
    for link in set(re.findall(r'href="(/[^"]+)"', text)):
        assert client.ask(link).status == 200, link


def test_a_project_has_a_page_with_all_its_runs(client: Client, folder: Path) -> None:
    for number in range(12):
        os.link(folder / "run-0.fitdoctor", folder / f"again-{number}.fitdoctor")
    assert "all 14 runs" in client.get().text
    project = history.projects(client.server.answers.shelf.entries())[0]
    assert client.get(f"project/{project.id}").text.count("<tr>") == 15
    assert client.get("project/0123456789abcdef").status == 404


def test_a_run_has_a_report_as_page_as_json_and_as_trace(client: Client) -> None:
    found = client.server.answers.shelf.entries()[0]
    page = client.get(f"run/{found.id}")
    assert page.status == 200
    assert "each" in page.text
    report = json.loads(client.get(f"run/{found.id}/report.json").body)
    assert report["schema"] == "fitdoctor.report/1"
    assert report["run"]["capture"] == str(found.path)
    trace = json.loads(client.get(f"run/{found.id}/trace.json").body)
    assert len(trace["traceEvents"]) > 200
    assert client.get(f"run/{found.id}/other.json").status == 404


def test_the_single_report_is_one_call_away(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    made = "<!doctype html><html><body class='x'><script>go()</script><p>whole</p></body></html>"
    monkeypatch.setattr(pages, "render", lambda report, source_of, timeline: made)
    found = client.server.answers.shelf.entries()[0]
    said = client.get(f"run/{found.id}")
    assert "<p>whole</p>" in said.text
    assert f'<a href="/{client.server.token}/">← all runs</a>' in said.text
    assert f"run/{found.id}/report.json" in said.text
    assert "'sha256-" in said.headers["content-security-policy"]


def test_what_cannot_be_read_is_said_and_stands_in_nobodys_way(client: Client, folder: Path) -> None:
    whole = (folder / "run-0.fitdoctor").read_bytes()
    (folder / "empty.fitdoctor").write_bytes(b"")
    (folder / "half.fitdoctor").write_bytes(whole[: len(whole) // 3])
    (folder / "text.fitdoctor").write_text("no database")
    damaged = bytearray(whole)
    damaged[4096 : 4096 * 4] = b"\xff" * 4096 * 3
    (folder / "damaged.fitdoctor").write_bytes(bytes(damaged))
    (folder / "dir.fitdoctor").mkdir()
    said = client.get()
    assert said.status == 200
    assert "Could not be read" in said.text
    assert "empty.fitdoctor" in said.text
    assert said.text.count("train.py") >= 1
    for found in client.server.answers.shelf.entries():
        assert client.get(f"run/{found.id}").status == 200, "a page that says what is wrong"
    while client.server.answers.diagnoses.work():
        pass
    assert client.get("live.json").status == 200


def test_an_empty_folder_says_what_to_do(tmp_path: Path) -> None:
    answer = Answers(tmp_path, "t").to("", "")
    assert b"fitdoctor run train.py" in bytes(answer.body)  # type: ignore[arg-type]


def test_a_run_leaves_its_summary_for_the_list(tmp_path: Path) -> None:
    capture = Run("jax").fit(steps=200, compute_ms=10, callbacks_ms=10).callback("Watch", ms=10).capture(tmp_path)
    report = pipeline.diagnose_file(capture.path)
    pipeline.keep_summary(capture.path, report)
    found = Shelf(tmp_path).entries()[0]
    assert found.summary is not None
    assert found.summary["top"]["rule"] == report.findings[0].rule == "slow-callback"
    assert found.step is not None
    assert found.step.mid * 1e3 == report.run["step_ms"]["mid"]
    assert len(json.dumps(found.summary)) < 4000
    assert [each.name for each in tmp_path.iterdir()] == [Path(capture.path).name], "one plain file, as before"
    assert pipeline.diagnose_file(capture.path).findings == report.findings
    assert not summaries.valid({**found.summary, "fitdoctor": "0.0.1"}), "another fitdoctor may judge otherwise"


def test_a_summary_that_cannot_be_kept_is_no_error(tmp_path: Path) -> None:
    capture = Run("jax").fit(steps=200).capture(tmp_path)
    report = pipeline.diagnose_file(capture.path)
    Path(capture.path).unlink()
    pipeline.keep_summary(tmp_path / "gone" / "x.fitdoctor", report)


@pytest.mark.parametrize("known", [True, False], ids=["with summaries", "without"])
def test_two_hundred_captures_of_a_hundred_thousand_steps_list_in_under_a_second(tmp_path: Path, known: bool) -> None:
    built = tmp_path / "built"
    built.mkdir()
    run = Run("jax", script="/home/me/train.py", started=1_700_000_000.0, wall_s=1000.0)
    capture = run.fit(steps=100_000, compute_ms=10).capture(built)
    assert len(capture.steps[1].step) == 100_000
    if known:
        pipeline.keep_summary(capture.path, pipeline.diagnose_file(capture.path))
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(200):
        os.link(capture.path, folder / f"{number}{store.SUFFIX}")
    took = []
    for _ in range(3):
        answers = Answers(folder, "token")
        start = time.perf_counter()
        page = answers.to("", "")
        took.append(time.perf_counter() - start)
        assert b"all 200 runs" in bytes(page.body)  # type: ignore[arg-type]
        assert len(answers.shelf.entries()) == 200
    assert min(took) < 1.0, took
