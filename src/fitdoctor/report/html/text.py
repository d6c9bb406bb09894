"""What goes into a page, made harmless: text, data, and the policy under which a browser reads them."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from fitdoctor.report.characters import harmless

LONGEST = 1000
"""Characters of one string that are shown."""
LONGEST_COPY = 200_000
"""Characters of one diff or command that can be copied."""


def shown(value: Any) -> Any:
    r"""Return text that shows what is in a string and does nothing else; what is cut off is said.

    >>> shown("a\x00b"), shown("x" * 1002)[-25:]
    ('a\\x00b', 'x… (2 characters cut off)')
    """
    if value is None:
        return ""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    text = harmless(value[:LONGEST])
    return f"{text}… ({len(value) - LONGEST:,} characters cut off)" if len(value) > LONGEST else text


def data(value: Any) -> Markup:
    """Return JSON for a script element: no character in it can end the element or begin another."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - what could be markup in it was escaped


@functools.cache
def environment() -> Environment:
    """Return the templates; everything that is put into them is escaped and made harmless."""
    return Environment(
        loader=PackageLoader("fitdoctor.report.html"),
        autoescape=True,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@functools.cache
def asset(name: str) -> str:
    """Return one of our own files: a style sheet or a script."""
    return resources.files("fitdoctor.report").joinpath("assets", *name.split("/")).read_text("utf-8").strip()


def policy(styles: tuple[str, ...], scripts: tuple[str, ...]) -> str:
    """Return the Content-Security-Policy: these very styles and scripts, and nothing from anywhere."""
    rules = {
        "default-src": ["'none'"],
        "style-src": [_hash(each) for each in styles],
        "script-src": [_hash(each) for each in scripts] or ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }
    return "; ".join(f"{name} {' '.join(values)}" for name, values in rules.items())


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def rendered(template: str, *, scripts: tuple[str, ...] = (), styles: tuple[str, ...] = (), **values: Any) -> str:
    """Fill a template in; `styles` and `scripts` name assets that stand in the page."""
    sheets, programs = tuple(map(asset, styles)), tuple(map(asset, scripts))
    return environment().get_template(template).render(
        policy=Markup(policy(sheets, programs)),  # noqa: S704 - our own words and hashes
        styles=[Markup(each) for each in sheets],  # noqa: S704 - our own files
        scripts=[Markup(each) for each in programs],  # noqa: S704 - our own files
        **values,
    )  # fmt: skip
