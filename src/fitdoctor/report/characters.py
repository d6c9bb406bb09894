"""Strings from a user's program, made harmless for any terminal."""

from __future__ import annotations

import unicodedata

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_PLAIN = {
    "µ": "u", "μ": "u", "×": "x", "→": "->", "…": "...", "–": "-", "—": "-", "·": "-", "•": "-", "│": "|",
    "≤": "<=", "≥": ">=", "≈": "~", "±": "+-", "’": "'", "‘": "'", "“": '"', "”": '"', "\u00a0": " ",
}  # fmt: skip
_LONGEST = 1000
"""No sentence of ours is longer; a string that is would only fill the screen."""


def encodable(encoding: str, characters: str) -> bool:
    """Tell whether a terminal with this encoding can show all these characters."""
    try:
        characters.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def harmless(text: str, encoding: str = "utf-8") -> str:
    r"""Return one line that shows what is in a string and does nothing else to the terminal.

    >>> harmless("a\x1b[31mb\nc"), harmless("5 µs → 2×", "ascii")
    ('a\\x1b[31mb\\nc', '5 us -> 2x')
    """
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}…"
    if text.isascii() and text.isprintable():
        return text
    shown = []
    for character in text.replace("\t", "    "):
        if unicodedata.category(character) in _HIDDEN:
            character = character.encode("unicode_escape").decode("ascii")
        elif not encodable(encoding, character):
            plain = _PLAIN.get(character, character)
            character = plain.encode("ascii", "backslashreplace").decode("ascii")
        shown.append(character)
    return "".join(shown)
