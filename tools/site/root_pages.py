"""The Markdown files at the root of the project, as pages: one text for both readers."""

from __future__ import annotations

import re
from pathlib import Path

PLACES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
NAMED = re.compile(r"\[([^\]]+)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")


def pages(root: Path) -> dict[str, str]:
    """Return them by their place in the site."""
    return {place: moved((root / name).read_text("utf-8")) for name, place in PLACES.items()}


def moved(text: str) -> str:
    """Point links at where things stand in the site; what is not part of it is named without a link."""

    def point(match: re.Match[str]) -> str:
        name, target, anchor = match[1], match[2], match[3] or ""
        if target in PLACES:
            return f"[{name}]({PLACES[target]}{anchor})"
        if target.startswith("docs/"):
            return f"[{name}]({target.removeprefix('docs/')}{anchor})"
        return f"`{target}`" if name.strip("`") == target else f"{name} (`{target}`)"

    return NAMED.sub(point, text)
