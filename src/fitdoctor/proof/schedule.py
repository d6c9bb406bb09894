"""Who runs when: in turns, the order turned around every time, so that drift hits both alike."""

from __future__ import annotations

from collections.abc import Iterator

BEFORE, AFTER = "before", "after"


def pairs() -> Iterator[tuple[str, str]]:
    """Yield the order of each pair: AB, BA, AB, BA …"""
    while True:
        yield BEFORE, AFTER
        yield AFTER, BEFORE
