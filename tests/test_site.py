"""The documentation as a site: it builds strictly, is complete, and asks nobody for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml

import fitdoctor
from fitdoctor.cli.main import build_parser
from fitdoctor.rules import Rule, all_rules

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "tools" / "site"))

import hooks  # noqa: E402
import root_pages  # noqa: E402
import rule_pages  # noqa: E402

SECTIONS = ["What is wrong", "How it is established", "What to do", "When it is not worth it", "Example"]


@dataclass
class Page(HTMLParser):
    """What a built page points to, and what can be pointed to in it."""

    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name == "href" and tag == "a" and value:
                self.links.append(value)
            elif value and (name in ("src", "srcset", "data", "poster") or (name == "href" and tag != "a")):
                self.loaded.append(value)


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text("utf-8"))
    return page


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


def named_in_nav(items: Any) -> Iterator[str]:
    for item in items:
        for value in item.values() if isinstance(item, dict) else [item]:
            if isinstance(value, str):
                yield value
            else:
                yield from named_in_nav(value)


def test_every_page_is_in_the_navigation() -> None:
    nav = list(named_in_nav(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]))
    assert len(nav) == len(set(nav))
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    made = set(hooks.generated()) - {rule_pages.place(rule) for rule in all_rules()}
    assert not written & made, "a page is written by hand and by tools/site"
    assert set(nav) == written | made


def test_every_rule_has_its_page(site: Path) -> None:
    index = read(site / "rules" / "index.html")
    for rule in all_rules():
        text = (site / "rules" / f"{rule.name}.html").read_text("utf-8")
        assert f"{rule.name}.html" in index.links
        assert rule.family in text
        for title in SECTIONS:
            assert f'id="{title.lower().replace(" ", "-")}"' in text, f"{rule.name}: {title}"
    assert len(list((site / "rules").glob("*.html"))) == len(all_rules()) + 1


def test_the_example_of_every_rule_is_code() -> None:
    pages = hooks.generated()
    for rule in all_rules():
        example = pages[rule_pages.place(rule)].split("## Example")[1]
        assert re.search(r"^```(python|console)\n\S", example, re.MULTILINE), rule.name


def test_a_new_rule_needs_no_list(tmp_path: Path) -> None:
    text = "Too slow.\n\n## What is wrong\n\nSee python-map, or\n`retracing`.\n\n## Example\n\n    a = 1\n\n    b = 2\n"
    rule = Rule("brand-new", "input", "Too slow", text, *[None] * 3)  # type: ignore[arg-type]
    page = rule_pages.page(rule, [*all_rules(), rule], tmp_path)
    assert page.startswith("# brand-new\n\n**Too slow.**")
    assert "See [python-map](python-map.md), or\n[`retracing`](retracing.md)." in page
    assert page.endswith("## Example\n\n```python\na = 1\n\nb = 2\n```\n")
    assert "| [brand-new](brand-new.md) | Too slow |" in rule_pages.index([rule])


def test_every_command_and_option_is_in_the_reference(site: Path) -> None:
    text = re.sub(r"<[^>]+>", "", (site / "cli.html").read_text("utf-8"))
    _, commands = build_parser()
    for name in commands:
        assert f"fitdoctor {name}" in text
    assert {"--budget", "--redact", "--may-change"} <= set(re.findall(r"--[a-z-]+", text))


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    page = read(site / "api.html")
    for name in set(fitdoctor.__all__) - {"__version__"}:
        assert f"fitdoctor{name.lower()}" in page.ids, name


def test_links_resolve(site: Path) -> None:
    pages = {path: read(path) for path in site.rglob("*.html") if path.name != "404.html"}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            lost = parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids
            if not target.exists() or (lost and not parts.fragment.startswith("__")):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        away = [each for each in read(path).loaded if each.startswith(("http:", "https:", "//"))]
        assert not away, f"{path.relative_to(site)} loads {away}"
    for path in [*site.rglob("*.css"), *site.rglob("*.svg")]:
        found = re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\"']*", path.read_text("utf-8"))
        assert not found, f"{path.relative_to(site)} loads {found}"


def test_the_start_page_is_the_readme_and_search_is_there(site: Path) -> None:
    text = (site / "index.html").read_text("utf-8")
    assert "Why is my Keras training slow?" in text
    assert "assets/run.svg" in text
    assert "python-map" in (site / "search" / "search_index.json").read_text("utf-8")


def test_links_of_the_readme_are_moved() -> None:
    moved = root_pages.moved(
        "[a](docs/b.md#c) [log](CHANGELOG.md) [S.md](S.md) [s](src/s.json) [w](https://w) ![p](docs/p.svg)"
    )
    assert moved == "[a](b.md#c) [log](changelog.md) `S.md` s (`src/s.json`) [w](https://w) ![p](p.svg)"
