from __future__ import annotations

import dataclasses
import io
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from fitdoctor.model import Finding, Gap, NotApplicable, Passed, Report, Site, Unknown
from fitdoctor.report.terminal import render, share_out
from tests.report import samples


def rendered(report: Report, width: int = 80, encoding: str = "utf-8", source_of: Any = samples.source_of) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="strict", newline="")
    render(report, Console(file=stream, width=width, highlight=False), source_of)
    stream.flush()
    return raw.getvalue().decode(encoding)


def command_line(text: str) -> str:
    return text.rstrip("\n").split("\n")[-1].strip()


def test_it_says_everything_that_matters() -> None:
    text = rendered(samples.SLOW)
    flat = " ".join(text.split())
    for expected in (
        samples.SLOW.headline,
        "62.5 ms (61.2 ms to 64.9 ms), over 212 steps",
        "44.4 ms 71 %",
        "keras 3.15.1 · tensorflow 2.21.0",
        "21.1 s from process start to end",
        "callbacks 2.00 ms <0.1 %",
        "Uncapped, the training takes about 3 min 28 s for 3,200 steps.",
        "fixing it saves 61 % (55 to 66)",
        samples.SLOW.findings[0].cost.because,
        "examples/slow_images.py:15, in augment",
        "(may change results)",
        "+data = data.map(augment, num_parallel_calls=tf.data.AUTOTUNE).batch(32)",
        "4.2× (3.1 to 5.4) faster; what limits it then is compute",
        "repeated-preprocessing examples/slow_images.py:5",
        "no NVIDIA driver answers on this machine → run it where the GPU is",
        "Fine eager-step, missing-prefetch",
        "Not applicable idle-workers, straggler",
        "8.40 µs per step",
        "2 of 214 steps were left out",
    ):
        assert expected in flat
    assert text.index("python-map") < text.index("slow-callback")


def with_the_whole() -> Report:
    def stretch(name: str, seconds: float) -> dict[str, Any]:
        share = seconds / 208
        return {
            "name": name,
            "seconds": {"low": 0.9 * seconds, "mid": seconds, "high": 1.1 * seconds},
            "share": {"low": share, "mid": share, "high": share},
            "how": "seen",
        }

    found = [stretch("imports", 4.21), stretch("steady steps", 183.4), stretch("other calls", 20.39)]
    whole = {"low": 190.0, "mid": 208.0, "high": 226.0}
    return dataclasses.replace(samples.SLOW, run=samples.run(whole=found, whole_s=whole, planned_steps=3200.0))


def test_a_long_list_of_causes_is_not_cut() -> None:
    gap = Gap("training", "no fit was seen", "")
    names = [f"a-cause-with-a-name-{number}" for number in range(90)]
    for report in (
        dataclasses.replace(samples.SLOW, unknown=tuple(Unknown(name, gap) for name in names)),
        dataclasses.replace(samples.SLOW, passed=tuple(Passed(name, "") for name in names)),
        dataclasses.replace(samples.SLOW, not_applicable=tuple(NotApplicable(name, "") for name in names)),
    ):
        assert ", ".join(names) in " ".join(rendered(report).split())


def test_a_capped_run_shows_the_whole_training_beside_what_was_watched() -> None:
    text = rendered(with_the_whole())
    lines = {line.split()[0]: " ".join(line.split()) for line in text.split("\n") if line.strip()}
    assert "watched uncapped" in " ".join(text.split())
    assert lines["imports"].startswith("imports 4.21 s 20 % 4.21 s 2.0 %")
    assert lines["steady"].startswith("steady steps 13.2 s 63 % 3 min 03 s 88 %")
    assert lines["rest"].startswith("rest 120 ms 0.6 % -")
    assert lines["other"].startswith("other calls - 20.4 s 9.8 %")
    assert "about 3 min 28 s (3 min 10 s to 3 min 46 s) for 3,200 steps" in " ".join(text.split())


@pytest.mark.parametrize("width", [40, 63, 64, 80])
def test_the_whole_training_fits_every_terminal(width: int) -> None:
    text = rendered(with_the_whole(), width)
    assert max(cell_len(line) for line in text.rstrip("\n").split("\n")[:-1]) <= width
    assert ("watched" in text) is (width >= 64)


def test_a_run_watched_to_its_end_needs_no_second_number() -> None:
    whole = with_the_whole()
    text = rendered(dataclasses.replace(whole, run={**whole.run, "mode": "whole"}))
    assert "watched" not in text


def test_the_last_line_is_the_next_command_whole_on_one_line() -> None:
    long = "fitdoctor diagnose " + "x" * 200
    for width in (40, 80, 200):
        text = rendered(dataclasses.replace(samples.SLOW, next_command=long), width)
        assert command_line(text) == long


def test_the_line_to_edit_is_marked() -> None:
    marked = [line for line in rendered(samples.SLOW).split("\n") if line.lstrip().startswith("▸")]
    assert [re.findall(r"▸ (\d+) │", line)[0] for line in marked] == ["15", "16"]


@pytest.mark.parametrize("line", [0, 999])
def test_a_site_outside_its_file_has_no_frame(line: int) -> None:
    first = samples.SLOW.findings[0]
    site = Site("examples/slow_images.py", line)
    finding = Finding(first.rule, first.family, site, first.cost, None)
    text = rendered(dataclasses.replace(samples.SLOW, findings=(finding,)))
    assert f"slow_images.py:{line}" in text
    assert "│" not in text


def test_without_sources_there_is_no_frame_but_the_place() -> None:
    text = rendered(samples.SLOW, source_of=None)
    assert "│" not in text
    assert "examples/slow_images.py:15" in text


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1", "cp437"])
@pytest.mark.parametrize("width", [40, 80, 132])
@pytest.mark.parametrize("name", samples.ALL)
def test_every_report_fits_every_terminal(name: str, width: int, encoding: str) -> None:
    report = samples.ALL[name]
    lines = rendered(report, width, encoding).rstrip("\n").split("\n")
    if report.next_command:  # one logical line, whatever its length: people copy it
        lines = lines[:-1]
    assert max(cell_len(line) for line in lines) <= width
    assert all(line == line.rstrip() for line in lines)


def test_an_ascii_terminal_still_sees_the_bar_and_the_numbers() -> None:
    text = rendered(samples.SLOW, 80, "ascii")
    assert text.isascii()
    assert "#" * 40 in text
    assert "600 us" in text
    assert "4.2x (3.1 to 5.4) faster" in text


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_hostile_strings_are_shown_and_do_nothing(encoding: str) -> None:
    evil = ["\x1b[2J\x9b31m\t[bold]evil[/bold]\u202e"] * 12
    text = rendered(samples.HOSTILE, 80, encoding, source_of=lambda _: evil)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert "[bold red]x[/]" in text
    assert "[bold]evil[/bold]" in text
    assert r"\x1b[31m" in text


def test_colour_only_where_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    def coloured(**options: Any) -> str:
        stream = io.StringIO()
        console = Console(file=stream, width=80, highlight=False, **options)
        render(samples.SLOW, console, samples.source_of)
        return stream.getvalue()

    for variable in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    assert "\x1b" not in coloured()
    assert "\x1b[34m" in coloured(force_terminal=True, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", coloured(force_terminal=True, color_system="standard"))


def test_nothing_observed_claims_nothing() -> None:
    text = rendered(samples.EMPTY)
    assert "No training step was observed." in text
    assert "Nothing worth fixing" not in text
    assert "%" not in text


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=8), st.integers(1, 200))
def test_the_bar_is_always_full(values: list[float], width: int) -> None:
    cells = share_out(values, width)
    assert sum(cells) == width
    assert all(abs(cell - value / sum(values) * width) <= 1 for cell, value in zip(cells, values, strict=True))


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=200), st.integers(40, 100))
def test_any_text_fits(text: str, width: int) -> None:
    report = dataclasses.replace(samples.SLOW, headline=text, notes=(text,), next_command="")
    assert max(cell_len(line) for line in rendered(report, width).split("\n")) <= width
