"""HTML as values: text is escaped unless it is markup already, so that nothing from a capture becomes markup."""

from __future__ import annotations

import html

VOID = frozenset({"meta", "link"})
"""Elements without an end tag."""


class Html(str):
    """Text that is markup."""

    __slots__ = ()


Child = str | None


def el(name: str, /, *children: Child, **attributes: str | float | None) -> Html:
    """Return an element; an attribute's trailing underscore is dropped, others become hyphens, None leaves it out.

    >>> el("a", "x < y", href="/?a&b", class_="quiet", aria_label="more")
    '<a href="/?a&amp;b" class="quiet" aria-label="more">x &lt; y</a>'
    """
    words = [name]
    for key, value in attributes.items():
        if value is not None:
            text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
            words.append(f'{key.rstrip("_").replace("_", "-")}="{html.escape(text)}"')
    start = f"<{' '.join(words)}>"
    return Html(start if name in VOID else f"{start}{join(*children)}</{name}>")


def join(*children: Child) -> Html:
    """Return pieces after each other, text escaped."""
    return Html("".join(each if isinstance(each, Html) else clean(each) for each in children if each is not None))


def clean(text: str) -> str:
    """Escape text; what is no character (half a surrogate, a control) is shown as such."""
    shown = "".join(each if each.isprintable() or each in "\n\t" else "\N{REPLACEMENT CHARACTER}" for each in text)
    return html.escape(shown)
