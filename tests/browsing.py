"""Chromium for the tests of pages, and what is wrong with a page for those who cannot see it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = os.environ.get("FITDOCTOR_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@contextmanager
def started() -> Iterator[Any]:
    """Start Chromium; where it is not installed, the test is skipped."""
    api = pytest.importorskip("playwright.sync_api", reason="the Python package playwright is not installed")
    with api.sync_playwright() as playwright:
        program = CHROMIUM or playwright.chromium.executable_path
        if not os.path.exists(program):
            pytest.skip("no Chromium here: install it (make browser), or name one in FITDOCTOR_CHROMIUM")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


def serious(page: Any) -> list[tuple[str, str]]:
    """Return what axe finds on a page, but for trifles."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    found = axe.Axe().run(page).response["violations"]
    return [
        (each["id"], each["nodes"][0]["html"][:200])
        for each in found
        if each["impact"] in ("serious", "critical", "moderate")
    ]
