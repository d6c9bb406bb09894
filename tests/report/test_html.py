"""The HTML page as text: what is in it, and what cannot get into it."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fitdoctor import pipeline
from fitdoctor.facts.timeline import BEFORE, KINDS, STEPS, VALIDATION
from fitdoctor.model import Cost, Finding, Fix, Interval, Report, Site
from fitdoctor.report import html
from fitdoctor.report.html import drawing, notebook, text, timeline_view
from tests.captures.build import Run
from tests.report import pages, samples

ASSETS = Path(html.__file__).parents[1] / "assets"
VOID = {"meta", "br", "link", "img", "input", "hr"}


class Tree(HTMLParser):
    """Reads a page as a browser would: elements, ids, text outside of scripts and styles, what the scripts hold."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {}
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)
        if tag in ("dd", "dt", "li", "p", "td", "th"):
            self.text += " "
        if tag in ("script", "style"):
            self.inside.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack, f"</{tag}> ends nothing"
        assert self.stack.pop() == tag, f"</{tag}> after {self.stack[-3:]}"

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] in self.inside:
            self.inside[self.stack[-1]][-1] += data
        else:
            self.text += data


def check(page: str) -> Tree:
    """Every page: well nested, no reference to anything outside, only scripts and styles whose hash it names."""
    tree = Tree(page)
    assert tree.stack == []
    policy = next(attrs["content"] for tag, attrs in tree.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    data = [attrs for tag, attrs in tree.tags if tag == "script" and attrs.get("type") == "application/json"]
    assert [attrs["id"] for attrs in data] == ["fitdoctor-data"]
    programs = [each for each in tree.inside["script"] if not each.startswith("{")]
    for each in (*programs, *tree.inside["style"]):
        assert base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() in policy
    for _, attrs in tree.tags:
        assert not {name for name in attrs if name.startswith("on") or name in ("style", "src", "srcset", "action")}
        assert (attrs.get("href") or "#").startswith("#")
    ids = [attrs["id"] for _, attrs in tree.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    return tree


def data_of(tree: Tree) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(next(each for each in tree.inside["script"] if each.startswith("{")))
    return found


@pytest.mark.parametrize("report", samples.ALL.values(), ids=samples.ALL)
def test_every_report_becomes_a_page(report: Report) -> None:
    tree = check(html.page(report, samples.source_of))
    assert "How it was measured" in tree.text
    assert [tag for tag, _ in tree.tags].count("h1") == 1


def test_it_says_everything_that_matters() -> None:
    tree = check(html.page(samples.SLOW, samples.source_of))
    flat = " ".join(tree.text.split())
    for expected in (
        samples.SLOW.headline, "62.5 ms (61.2 ms to 64.9 ms), over 212 steps", "44.4 ms 71 %", "saves 61 % 55 to 66 %",
        samples.SLOW.findings[0].cost.because, "examples/slow_images.py:15, in augment", "may change results",
        "+data = data.map(augment, num_parallel_calls=tf.data.AUTOTUNE).batch(32)", "4.2×", "3.1× to 5.4×",
        "no NVIDIA driver answers on this machine → run it where the GPU is", "8.40 µs per step", "gil share 0.93",
        "repeated-preprocessing", "input and compute overlap", "no PyDataset", "fitdoctor fix examples/slow_images.py",
    ):  # fmt: skip
        assert expected in flat, expected


def test_a_section_without_data_is_left_out() -> None:
    shown = {attrs.get("id") for tag, attrs in check(html.page(samples.EMPTY)).tags if tag == "section"}
    assert shown == {"findings", "measured"}


def test_every_section(tmp_path: Path) -> None:
    report, page = pages.full(tmp_path)
    tree = check(page)
    shown = [attrs.get("id") for tag, attrs in tree.tags if tag == "section"]
    assert shown == ["step", "findings", "ceiling", "proofs", "whole", "timeline", "input", "layers", "unknown",
                     "passed", "measured"]  # fmt: skip
    assert {attrs["href"][1:] for tag, attrs in tree.tags if tag == "a"} >= {*shown} - {"passed"}
    flat = " ".join(tree.text.split())
    assert "1.90 (1.70 to 2.10) times" in flat
    assert "1.80 (1.40 to 2.60) times" in flat
    assert "training step takes" in flat
    assert "conv_20" in flat
    assert report.ceiling is not None
    assert report.run["waterfall"][-1]["speedup"]["mid"] == pytest.approx(report.ceiling.speedup.mid)
    assert data_of(tree)["copies"]["diff-0"] == pages.DIFF


def test_a_name_stands_in_a_bar_only_where_it_has_room() -> None:
    parts = {"input": 50.0, "callbacks": 20.0, "compute": 12.0, "sync": 5.0}
    bar = drawing.segments(parts, dict.fromkeys(parts, "grey0"))
    assert [each.name for each in bar if each.width > each.name_fits] == ["input", "callbacks", "compute"]
    assert [each.name for each in bar if each.width > each.name_fits_narrow] == ["input"]


def test_one_colour_is_explained_once(tmp_path: Path) -> None:
    shown = timeline_view.view(pages.timeline_of(pages.busy().capture(tmp_path)))["kinds"]
    looks = [look for _, look in shown]
    assert len(looks) == len(set(looks))
    told = {kind for kinds, _ in shown for kind in kinds.split(", ")}
    assert {"steps", "validation", "between epochs"} <= told <= {*KINDS}


def test_the_waterfall_goes_down_to_the_ceiling(tmp_path: Path) -> None:
    serial = {"dataset": [{"op": "Batch"}, {"op": "Range"}], "dataset_options": {"autotune": False}}
    run = Run(account={}).fit(steps=400, input_ms=30, compute_ms=18.4, callbacks_ms=20, **serial)
    report = pipeline.diagnose_file(run.callback("Watch", ms=20).capture(tmp_path).path)
    assert len(report.findings) == 2
    assert report.ceiling is not None
    left = [step["seconds"]["mid"] for step in report.run["waterfall"]]
    assert report.run["projected_s"] > left[0] > left[1]
    assert report.run["projected_s"] / left[1] == pytest.approx(report.ceiling.speedup.mid)


# --- hostile strings ----------------------------------------------------------------------------------

BAD = (
    "</script></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'`\x00\x1b[31m\u2028\u202egpj{{ 7*7 }}<!--"
)


def hostile(bad: str) -> Report:
    site = Site(bad, 1, 1, bad)
    return dataclasses.replace(
        samples.HOSTILE,
        headline=bad,
        run=samples.run(script=bad, backend=bad, versions={bad: bad}, command=[bad], how={"input": bad},
                        site=bad, adapter=bad, machine={"cpu": bad, "gpus": [bad], "cores": 2.0}),
        findings=(Finding(bad, bad, site, Cost(Interval(0.1, 0.2, 0.3), bad, evidence={bad: bad}),
                          Fix(bad, "manual", f"+{bad}\n-{bad}")),),
        notes=(bad,),
        next_command=bad,
        input={"adapter": bad, "waits": bad, "bound": bad, "autotune": [bad], "functions": [],
               "stages": [{"op": bad, "place": 0, "site": {"path": bad, "line": 1}, "notes": [bad]}],
               "unknown": [{"what": bad, "reason": bad, "remedy": bad}], "loader": {"kind": bad, "name": bad}},
    )  # fmt: skip


@pytest.mark.parametrize("bad", [BAD, "x" * 10_000_000, "\ud800\udfff", "\r\n\t", ""])
def test_hostile_strings_are_only_shown(bad: str) -> None:
    page = html.page(hostile(bad), lambda site: [bad])
    tree = check(page)
    assert len(page) < 1_500_000
    assert [tag for tag, _ in tree.tags].count("script") == 3
    assert "img" not in [tag for tag, _ in tree.tags]
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u2028\u202e\ud800-\udfff]", page)
    assert "49" not in tree.text.split()
    if len(bad) > 1000:
        assert "9,999,000 characters cut off" in tree.text
    check_fragment(notebook.fragment(hostile(bad)))


@settings(max_examples=40)
@given(st.text(max_size=60))
def test_any_string(bad: str) -> None:
    check(html.page(hostile(bad), lambda site: [bad]))


def test_names_in_the_capture_are_harmless_too(tmp_path: Path) -> None:
    run = pages.busy()
    run._add("compiles", 1, "trace", BAD * 100, 2_000_000_000, 1_000_000, None, None, "{}")
    page, _, _ = pipeline.open_page(run.capture(tmp_path).path)
    tree = check(page)
    assert [tag for tag, _ in tree.tags].count("script") == 3


def check_fragment(fragment: str) -> Tree:
    tree = Tree(fragment)
    assert tree.stack == []
    assert "script" not in [tag for tag, _ in tree.tags]
    assert not any("id" in attrs for _, attrs in tree.tags)
    (style,) = tree.inside["style"]
    rules = re.sub(r"@media[^{]*\{(.*)\}", r"\1", style)
    for selector in re.findall(r"([^{}]+)\{", rules):
        assert all(each.strip().startswith(".fitdoctor-report") for each in selector.split(","))
    return tree


@pytest.mark.parametrize("report", samples.ALL.values(), ids=samples.ALL)
def test_a_notebook_shows_it_in_short(report: Report) -> None:
    import fitdoctor.api  # noqa: F401 - gives reports their method

    tree = check_fragment(report._repr_html_())  # type: ignore[attr-defined]
    if report is samples.SLOW:
        assert report.headline in tree.text
        assert "python-map" in tree.text


# --- the timeline -------------------------------------------------------------------------------------


def test_the_timeline_of_a_run(tmp_path: Path) -> None:
    found = pages.timeline_of(pages.busy().capture(tmp_path))
    assert found.at.size == 600
    assert {band.kind for band in found.bands} >= {STEPS, VALIDATION}
    assert [track.name for track in found.tracks] == ["CPU", "memory", "GPU busy", "GPU memory", "disk reads"]
    assert [mark.label for mark in found.compiles] == ["trace one_step_on_data"]
    ends = [0.0, *(band.end for band in found.bands)]
    for before, band in zip(ends, found.bands, strict=False):
        assert before <= band.start + 1e-9
        assert band.start <= band.end
    assert found.bands[-1].end <= found.seconds + 1e-9
    assert found.typical == pytest.approx(0.038, rel=0.1)
    cpu = found.tracks[0]
    assert np.mean(cpu.values) == pytest.approx(1.4, rel=0.01)


def test_the_clock_starts_with_the_process_where_that_is_known(tmp_path: Path) -> None:
    found = pages.timeline_of(Run(start_ns=0, wall_s=9.0).fit().capture(tmp_path))
    assert found.bands[0].kind == BEFORE
    assert (found.bands[0].start, found.bands[0].end) == (0.0, 1.0)
    assert found.seconds == 9.0


def test_a_run_without_steps_has_a_page(tmp_path: Path) -> None:
    page, report, _ = pipeline.open_page(Run().capture(tmp_path).path)
    assert "timeline" not in [attrs.get("id") for _, attrs in check(page).tags]
    assert report.headline in Tree(page).text


def test_steps_that_stall_stand_out(tmp_path: Path) -> None:
    tree = check(pages.long(tmp_path, 20_000))
    assert "2 steps took over 5 times a typical one" in " ".join(tree.text.split())
    packed = data_of(tree)["timeline"]
    assert sum(base64.b64decode(packed["stalls"])) == 2
    gaps = np.frombuffer(base64.b64decode(packed["gaps"]), "<f8")
    each = np.frombuffer(base64.b64decode(packed["each"]), "<f4")
    assert gaps.size == each.size == 20_000
    # The first two steps of the capture are warm-up and take 20 times as long as the rest.
    assert np.median(each) == pytest.approx(3.0, rel=0.1)
    assert np.cumsum(gaps)[-1] / 1e6 < packed["seconds"]


def test_more_steps_than_the_limit_keep_their_shortest_and_longest() -> None:
    each = np.random.default_rng(3).random(10_007)
    at = np.cumsum(each)
    kept_at, kept, stalls = timeline_view.thinned(at, each, each > 0.9999, 1000)
    assert kept.size <= 1000 + 20
    assert kept.max() == each.max()
    assert kept.min() == each.min()
    assert (np.diff(kept_at) > 0).all()
    assert stalls.sum() == (each > 0.9999).sum()
    same = timeline_view.thinned(at, each, each > 2, 20_000)
    assert same[0] is at


def test_the_outline_holds_every_point() -> None:
    at, values = np.arange(1000) / 100, np.ones(1000)
    values[500] = 4.0
    path = drawing.outline(at, values, 10.0, 4.0, width=100, height=100)
    assert path.count("M") == 1
    assert "50 0.0H51" in path
    assert drawing.outline(at[:0], values[:0], 10.0, 4.0, width=100, height=100) == ""


# --- what it is made of -------------------------------------------------------------------------------


def test_the_charting_library_is_the_one_written_down() -> None:
    told = (ASSETS / "uplot" / "README.md").read_text("utf-8")
    for name in ("uPlot.iife.min.js", "uPlot.min.css"):
        assert f"| `{name}` | `{hashlib.sha256((ASSETS / 'uplot' / name).read_bytes()).hexdigest()}` |" in told
    version = re.search(r"uPlot ([\d.]+),", told)
    assert version is not None
    assert f"(v{version[1]})" in text.asset("uplot/uPlot.iife.min.js")[:100]
    assert "MIT" in (ASSETS / "uplot" / "LICENSE").read_text("utf-8")


def test_data_cannot_leave_its_script() -> None:
    told = {"a": "</script><!--&\u2028", "b": [1.5, None]}
    packed = str(text.data(told))
    assert not set(packed) & set("<>&\u2028")
    assert json.loads(packed) == told
