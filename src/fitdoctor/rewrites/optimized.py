"""What `fitdoctor.optimize` returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Optimized:
    """A faster input that gives the same data, and how it came to be."""

    dataset: Any
    """Use this in place of the one that was given."""
    explanation: str
    """What was tried, what each change gave, what was dropped and why."""
    kept: tuple[str, ...]
    """The changes that were kept, by the cause they remove."""
    dropped: tuple[tuple[str, str], ...]
    """The changes that were not, each with the reason."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.explanation}>"
