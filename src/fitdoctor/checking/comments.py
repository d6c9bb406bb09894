"""Comments that silence a suspicion.

data = data.map(load)  # fitdoctor: ignore[python-map]     these rules, on this logical line
data = data.map(load)  # fitdoctor: ignore                 every rule, on this logical line
# fitdoctor: ignore[python-map]                            on a line of its own: the same for the line below
# fitdoctor: ignore-file[python-map]                       these rules in this file (without names: every rule)
"""

from __future__ import annotations

import difflib
import io
import re
import tokenize
from collections.abc import Collection
from dataclasses import dataclass

_COMMENT = re.compile(r"#\s*fitdoctor:\s*(?P<verb>[\w-]*)\s*(?:\[(?P<names>[^\]]*)\])?")
_BETWEEN = (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
ALL = "*"


@dataclass(frozen=True, slots=True)
class Silence:
    """Which rules a comment silences, from line to line (both included; no end: the whole file)."""

    rules: frozenset[str]
    first: int
    last: float

    def covers(self, rule: str, line: int) -> bool:
        """Tell whether a suspicion is silenced."""
        return self.first <= line <= self.last and (rule in self.rules or ALL in self.rules)


@dataclass(frozen=True, slots=True)
class Comments:
    """What the comments of a file say, and what is wrong with them, by line."""

    silences: tuple[Silence, ...] = ()
    faults: tuple[tuple[int, str], ...] = ()

    def silence(self, rule: str, line: int) -> bool:
        """Tell whether a suspicion is silenced by one of them."""
        return any(each.covers(rule, line) for each in self.silences)


def read(text: str, known: Collection[str]) -> Comments:
    """Find the comments of a file that are for us; strings that look like them are none."""
    if "fitdoctor:" not in text:
        return Comments()
    silences: list[Silence] = []
    faults: list[tuple[int, str]] = []
    for found, first, last in _comments(text):
        names = [name.strip() for name in (found["names"] or "").split(",") if name.strip()]
        if found["verb"] not in ("ignore", "ignore-file"):
            said = found.group().strip()
            faults.append((first, f"{said!r} is not understood: `# fitdoctor: ignore[rule]` is, and ignore-file[rule]"))
            continue
        faults += [(first, _unknown(name, known)) for name in names if name not in known]
        if found["names"] is not None and not names:
            faults.append((first, "a comment with empty brackets silences nothing: name a rule in them"))
        rules = frozenset(names) if found["names"] is not None else frozenset({ALL})
        whole = found["verb"] == "ignore-file"
        silences.append(Silence(rules, 1 if whole else first, float("inf") if whole else last))
    return Comments(tuple(silences), tuple(faults))


def _unknown(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"a comment names the rule {name!r}, which does not exist" + (f": did you mean {near[0]}?" if near else "")


def _comments(text: str) -> list[tuple[re.Match[str], int, int]]:
    """Return each comment for us with the first and last line of the logical line it belongs to."""
    found: list[tuple[re.Match[str], int, int]] = []
    waiting: list[re.Match[str]] = []
    start: int | None = None
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and (comment := _COMMENT.search(token.string)):
                waiting.append(comment)
            elif token.type == tokenize.NEWLINE and start is not None:
                found += [(comment, start, token.start[0]) for comment in waiting]
                waiting, start = [], None
            elif token.type not in _BETWEEN and start is None:
                start = token.start[0]
    except (tokenize.TokenError, SyntaxError, IndexError):
        pass  # the file does not parse: that is said elsewhere
    return [*found, *((comment, 1, 0) for comment in waiting)]
