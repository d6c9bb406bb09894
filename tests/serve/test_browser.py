"""The pages of `fitdoctor serve` in a real browser, with everything they do watched."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.serve import diagnoses
from tests.browsing import serious
from tests.captures.build import Run
from tests.serve.conftest import Client
from tests.serve.growing import begun, ended, grown

WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
SOON = 60_000
"""Milliseconds; a page asks every two seconds, but the machine may do other things too."""


@dataclass
class Seen:
    """A page and what it did."""

    page: Any
    host: str
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def check(self) -> None:
        """No word on the console, no error, no request to anybody else."""
        assert self.said == []
        assert all(each.startswith((f"http://{self.host}/", "data:")) for each in self.asked), self.asked


Open = Callable[..., Seen]


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Diagnose a run under way as often as it is asked for: there is no training to leave the machine to."""
    monkeypatch.setattr(diagnoses, "LIVE_SECONDS", 0.1)
    monkeypatch.setattr(diagnoses, "LIVE_SHARE", 1.0)


@pytest.fixture
def shelf(client: Client, folder: Path) -> Client:
    """Serve a few runs of three scripts: one became slower, one ended by an error, one file is none."""
    for number, ms in enumerate((12.0, 12.1, 11.9, 19.0, 18.8)):
        run = Run(
            "tensorflow", script="/home/me/wines/train.py", command=["train.py", "--epochs", "5"], wall_s=61.0,
            started=time.time() - 9000 + 900 * number, versions={"keras": f"3.{15 + number // 3}.1"},
        )  # fmt: skip
        run.fit(steps=200, input_ms=ms / 2, compute_ms=ms / 2).pyfunc(wall_ms=ms / 2, cpu_ms=ms / 2)
        run.source("def augment(x):\n    pass\n").capture(folder)
    broken = Run("jax", script="/home/me/tiles/cracks.py", exit={"reason": "exception", "code": 1}, started=time.time())
    broken.fit(steps=80, compute_ms=3).capture(folder)
    (folder / "half.fitdoctor").write_bytes(b"SQLite format 3\0 and no more")
    while client.server.answers.diagnoses.work():
        pass
    return client


@pytest.fixture
def show(browser: Any, client: Client) -> Iterator[Open]:
    """Open a page below the token; at the end of the test all must have kept quiet."""
    contexts, opened = [], []

    def call(path: str = "", *, width: int = 1280, scheme: str = "light") -> Seen:
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        contexts.append(context)
        seen = Seen(context.new_page(), client.host)
        seen.page.on("console", lambda message: seen.said.append(message.text))
        seen.page.on("pageerror", lambda error: seen.said.append(str(error)))
        seen.page.on("request", lambda request: seen.asked.append(request.url))
        seen.page.goto(f"http://{client.host}/{client.server.token}/{path}")
        opened.append(seen)
        return seen

    yield call
    for seen in opened:
        seen.check()
    for context in contexts:
        context.close()


def fits(page: Any, width: int) -> bool:
    found: int = page.evaluate("document.documentElement.scrollWidth")
    return found <= width


def run_of(client: Client, script: str) -> str:
    return next(each.id for each in client.server.answers.shelf.entries() if each.script.endswith(script))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_list_of_runs(show: Open, shelf: Client, width: int, scheme: str) -> None:
    page = show(width=width, scheme=scheme).page
    assert page.locator("h1").inner_text() == "Runs"
    assert page.locator("section.project").count() == 3
    for section in page.locator("main > section").all():
        box = section.bounding_box()
        assert box is not None
        assert box["height"] > 40
    assert page.get_by_text("half.fitdoctor").is_visible()
    assert page.locator(".shift.slower").first.is_visible()
    assert page.locator("svg.history circle.dot").count() >= 5
    assert page.locator("td svg.bar rect.accent").count() >= 5
    assert fits(page, width)
    light = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(253, 253, 252)"
    assert light == (scheme == "light")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_project_and_what_is_not_there(show: Open, shelf: Client, width: int) -> None:
    page = show(width=width).page
    page.get_by_role("link", name="train.py").first.click()
    assert page.locator("h2").first.inner_text().startswith("All 5 runs")
    assert fits(page, width)
    page.get_by_role("link", name="fitdoctor").click()
    assert page.locator("h1").inner_text() == "Runs"


@pytest.mark.parametrize("width", WIDTHS)
def test_a_diagnosis_and_the_way_back(show: Open, shelf: Client, width: int) -> None:
    page = show(f"run/{run_of(shelf, 'wines/train.py')}", width=width).page
    assert page.locator("#findings").is_visible()
    assert page.get_by_text("python-map").first.is_visible()
    assert page.locator(".charts .uplot").count() >= 1, "its script runs under the server's policy"
    assert fits(page, width)
    with page.expect_download() as download:
        page.get_by_role("link", name="the report as JSON").click()
    assert download.value.suggested_filename.endswith("-report.json")
    page.get_by_role("link", name="← all runs").click()
    assert page.locator("h1").inner_text() == "Runs"


@pytest.mark.parametrize("width", WIDTHS)
def test_a_run_under_way_goes_on_before_the_readers_eyes(show: Open, client: Client, folder: Path, width: int) -> None:
    writer, run = begun(folder)
    client.server.answers.shelf._looked = float("-inf")
    seen = show(f"run/{run_of(client, 'now.py')}", width=width)
    page = seen.page
    page.get_by_text("no steady step yet").wait_for(timeout=SOON)
    assert page.locator(".step svg").count() == 0
    grown(writer, run, 200, compute_ms=5.0, callbacks_ms=15.0)
    page.get_by_text("200 steady steps").wait_for(timeout=SOON)
    page.locator(".found li").first.wait_for(timeout=SOON)
    assert "slow-callback" in page.locator(".found li").first.inner_text()
    assert page.locator(".step svg rect.accent").count() == 1
    assert "callbacks" in page.locator(".step svg text").all_text_contents()
    assert fits(page, width)
    assert serious(page) == []
    ended(writer)
    page.locator("#findings").wait_for(timeout=SOON)
    assert "slow-callback" in page.locator("#findings").inner_text()


def test_the_list_renews_itself(show: Open, client: Client, folder: Path) -> None:
    page = show().page
    assert page.locator("section.running").count() == 0
    writer, run = begun(folder)
    page.locator("section.running").wait_for(timeout=SOON)
    grown(writer, run, 150, compute_ms=5.0, callbacks_ms=15.0)
    page.get_by_text("150 steady steps").wait_for(timeout=SOON)
    link = page.locator("section.project a").first
    link.focus()
    ended(writer)
    page.locator("section.running").wait_for(state="detached", timeout=SOON)
    assert page.locator("section.project").count() == 2
    assert page.evaluate("document.activeElement.tagName") == "A", "who reads with the keyboard is not thrown back"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nothing_serious_for_those_who_cannot_see_it(show: Open, shelf: Client, folder: Path, scheme: str) -> None:
    writer, run = begun(folder)
    grown(writer, run, 200, compute_ms=5.0, callbacks_ms=15.0)
    shelf.server.answers.shelf._looked = float("-inf")
    project = show().page.locator("section.project h2 a").first.get_attribute("href").split("/", 2)[2]
    live, done = (f"run/{run_of(shelf, name)}" for name in ("now.py", "wines/train.py"))
    for path in ("", project, live, done):
        page = show(path, scheme=scheme).page
        if path in ("", live):
            page.locator(".found li").first.wait_for(timeout=SOON)
        assert serious(page) == [], path
    writer.close()


def test_all_is_reached_by_keyboard(show: Open, shelf: Client) -> None:
    page = show().page
    wanted = page.evaluate("document.querySelectorAll('a').length")
    reached = set()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    while page.evaluate("document.activeElement !== document.body") and len(reached) <= wanted:
        reached.add(page.evaluate("[...document.querySelectorAll('a')].indexOf(document.activeElement)"))
        page.keyboard.press("Tab")
    assert len(reached) == wanted


SHARED = {
    "body": ("fontFamily", "fontSize", "lineHeight", "color", "backgroundColor"),
    "h1": ("fontWeight", "letterSpacing", "color"),
    "h2": ("fontSize", "fontWeight"),
    "main": ("maxWidth", "paddingLeft"),
    ".kicker": ("color", "fontSize"),
    ".kicker a": ("color",),
    "td": ("borderBottomColor", "fontSize"),
    "rect.accent": ("fill",),
}
"""What both kinds of pages have: how it has to look."""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_it_looks_as_the_report_does(show: Open, shelf: Client, scheme: str) -> None:
    looks = [
        {
            (what, how): page.evaluate(f"getComputedStyle(document.querySelector('{what}')).{how}")
            for what, names in SHARED.items()
            for how in names
        }
        for page in (show(path, scheme=scheme).page for path in ("", f"run/{run_of(shelf, 'wines/train.py')}"))
    ]
    assert looks[0] == looks[1]
