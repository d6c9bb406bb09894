"""The HTML page in a real browser: Chromium, from disk, with everything it does watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.proof.compare import compare
from fitdoctor.report import html
from fitdoctor.report.html import compare_page, notebook
from tests.browsing import serious
from tests.report import pages, samples

FRAME_MS = 100
WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")


@dataclass
class Seen:
    """A page and what it did."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def check(self) -> None:
        """No word on the console, no error, no request but for the file itself."""
        assert self.said == []
        assert all(each.startswith("file:") for each in self.asked), self.asked
        assert len(self.asked) == 1


Open = Callable[..., Seen]


@pytest.fixture(scope="module")
def full_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return pages.full(tmp_path_factory.mktemp("full"))[1]


@pytest.fixture(scope="module")
def long_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return pages.long(tmp_path_factory.mktemp("long"))


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Open a page from disk; at the end of the test it must have kept quiet."""
    contexts, opened = [], []

    def call(text: str, *, width: int = 1280, scheme: str = "light", script: bool = True) -> Seen:
        file = tmp_path / f"page{len(opened)}.html"
        file.write_text(text, encoding="utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, java_script_enabled=script, offline=True,
            permissions=["clipboard-read", "clipboard-write"],
        )  # fmt: skip
        contexts.append(context)
        seen = Seen(context.new_page())
        seen.page.on("console", lambda message: seen.said.append(message.text))
        seen.page.on("pageerror", lambda error: seen.said.append(str(error)))
        seen.page.on("dialog", lambda dialog: (seen.said.append(dialog.message), dialog.dismiss()))
        seen.page.on("request", lambda request: seen.asked.append(request.url))
        seen.page.goto(file.as_uri())
        opened.append(seen)
        return seen

    yield call
    for seen in opened:
        seen.check()
    for context in contexts:
        context.close()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_section_is_there_and_fits(show: Open, full_page: str, width: int, scheme: str) -> None:
    page = show(full_page, width=width, scheme=scheme).page
    for section in page.locator("main > section").all():
        box = section.bounding_box()
        assert box is not None
        assert box["height"] > 40
        assert section.locator("h2").is_visible()
    assert page.locator("main > section").count() == 11
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    table = page.locator("#ceiling .scroll")
    assert table.evaluate("each => each.scrollWidth <= each.clientWidth"), "the way to the ceiling is not cut"
    assert page.locator(".charts .uplot").count() == 6
    light = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(253, 253, 252)"
    assert light == (scheme == "light")
    # What was drawn is not empty: the canvas of the steps holds more than one colour.
    assert (
        page.evaluate("""() => {
        const canvas = document.querySelector('.charts canvas');
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        const seen = new Set();
        for (let i = 0; i < data.length; i += 4) seen.add(data.slice(i, i + 4).join());
        return seen.size;
    }""")
        > 5
    )


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nothing_serious_for_those_who_cannot_see_it(show: Open, full_page: str, tmp_path: Path, scheme: str) -> None:
    both = compare(samples.SLOW, samples.HEALTHY, ("a", "b"), anyway=True)
    empty = html.page(samples.EMPTY)
    for text in (full_page, compare_page.page(both, 0.05), html.page(samples.SLOW, samples.source_of), empty):
        page = show(text, scheme=scheme).page
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        assert serious(page) == []


def test_copying(show: Open, full_page: str) -> None:
    page = show(full_page).page
    button = page.get_by_role("button", name="Copy the diff")
    button.click()
    page.wait_for_function("document.getElementById('said').textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()") == pages.DIFF
    command = page.get_by_role("button", name="Copy the command")
    command.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("navigator.clipboard.readText().then((text) => text.startsWith('fitdoctor '))")


def test_all_is_reached_by_keyboard(show: Open, full_page: str) -> None:
    page = show(full_page).page
    every = "[...document.querySelectorAll('a, button, summary, [tabindex=\"0\"]')]"
    wanted = page.evaluate(f"{every}.filter((each) => each.checkVisibility()).length")
    reached = 0
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    while page.evaluate("document.activeElement !== document.body"):
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
        reached += 1
        assert reached <= wanted
        page.keyboard.press("Tab")
    assert reached == wanted


def view(page: Any) -> tuple[float, float]:
    low, high = page.evaluate("[fitdoctor.view.min, fitdoctor.view.max]")
    return low, high


def test_the_timeline_zooms_by_keyboard_mouse_and_buttons(show: Open, full_page: str) -> None:
    page = show(full_page).page
    whole = view(page)
    page.locator(".charts").focus()
    page.keyboard.press("+")
    low, high = view(page)
    assert high - low == pytest.approx((whole[1] - whole[0]) / 2)
    page.keyboard.press("ArrowRight")
    assert view(page)[0] > low
    page.keyboard.press("0")
    assert view(page) == whole
    page.get_by_role("button", name="Zoom in").click()
    page.get_by_role("button", name="Zoom out").click()
    assert view(page) == whole
    page.locator(".charts .u-over").first.scroll_into_view_if_needed()
    box = page.locator(".charts .u-over").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 50, steps=4)
    page.mouse.up()
    low, high = view(page)
    assert low == pytest.approx(0.25 * whole[1], rel=0.03)
    assert high == pytest.approx(0.5 * whole[1], rel=0.03)
    assert " s · " in page.locator(".readout").inner_text()
    page.mouse.dblclick(box["x"] + 0.5 * box["width"], box["y"] + 50)
    assert view(page) == whole


@pytest.mark.parametrize("width", WIDTHS)
def test_a_hundred_thousand_steps_stay_fluid(show: Open, long_page: str, width: int) -> None:
    assert len(long_page) < 4_000_000
    page = show(long_page, width=width).page
    # Each frame shows another stretch, from the whole run down to some steps; uPlot draws in a microtask, and the time
    # of the middle frame is what a reader sees.  What others do on the machine may cost single frames more.
    took = page.evaluate("""async () => {
        const whole = fitdoctor.view.max, took = [];
        for (let i = 0; i < 60; i++) {
            const wide = whole * Math.pow(0.86, i);
            await new Promise(requestAnimationFrame);
            const start = performance.now();
            fitdoctor.show(whole / 3, whole / 3 + wide);
            await new Promise((done) => setTimeout(done));
            took.push(performance.now() - start);
        }
        return took.sort((a, b) => a - b);
    }""")
    assert took[len(took) // 2] < FRAME_MS, took
    assert took[int(0.9 * len(took))] < FRAME_MS, took
    low, high = view(page)
    assert high - low < 0.1


def test_without_scripts_it_can_still_be_read(show: Open, full_page: str) -> None:
    page = show(full_page, script=False).page
    assert page.locator(".outline").is_visible()
    assert page.locator(".charts").is_hidden()
    assert page.get_by_role("button").count() == 0


def test_on_paper(show: Open, full_page: str) -> None:
    seen = show(full_page, scheme="dark")
    seen.page.emulate_media(media="print", color_scheme="dark")
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert seen.page.locator(".outline").is_visible()
    assert seen.page.locator(".contents").is_hidden()
    assert len(seen.page.pdf()) > 20_000


def test_hostile_strings_do_nothing(show: Open) -> None:
    from tests.report.test_html import BAD, hostile

    page = show(html.page(hostile(BAD), lambda site: [BAD])).page
    assert page.locator("img").count() == 0
    assert BAD[:30] in page.locator("h1").inner_text()


def test_a_comparison_and_a_notebook(show: Open) -> None:
    both = compare(samples.SLOW, samples.HEALTHY, ("a.fitdoctor", "b.fitdoctor"), anyway=True)
    for width in WIDTHS:
        page = show(compare_page.page(both, 0.05), width=width).page
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("section").count() == 4
    page = show(f"<!doctype html><meta charset=utf-8>{notebook.fragment(samples.SLOW)}").page
    assert page.get_by_text("python-map").is_visible()
