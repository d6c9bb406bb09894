"""What MkDocs calls while it builds the documentation: pages that have no file are written here.

They come from the code itself (rules, parsers, public names) and from the Markdown files at the root, so that nothing
is written twice and a new rule or command has its page without touching a list.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
for _folder in (str(Path(__file__).parent), str(ROOT / "src")):
    if _folder not in sys.path:
        sys.path.insert(0, _folder)

import api_page  # noqa: E402
import cli_page  # noqa: E402
import root_pages  # noqa: E402
import rule_pages  # noqa: E402

RULES_INDEX = "rules/index.md"


def generated() -> dict[str, str]:
    """Return every page that is written while building, by its place in docs/."""
    return {
        **root_pages.pages(ROOT),
        **rule_pages.pages(ROOT / "corpus"),
        "cli.md": cli_page.page(),
        "api.md": api_page.page(ROOT / "src" / "fitdoctor"),
    }


def on_config(config: Any) -> Any:
    """Let the pages of all rules follow their index, family by family."""
    for section in config.nav:
        for items in section.values():
            if isinstance(items, list) and RULES_INDEX in items:
                items.extend(rule_pages.nav())
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages to those of docs/."""
    from mkdocs.structure.files import File

    for place, text in generated().items():
        files.append(File.generated(config, place, content=text))
    return files
