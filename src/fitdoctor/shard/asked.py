"""What a conversion is asked for, what it tells while it runs, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fitdoctor.shard.manifest import Entry


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of one conversion."""

    format: str = "tfrecord"
    shard_bytes: int = 128 << 20
    jobs: int = 16
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    skip_bad: bool = False
    seed: int | None = None

    def about(self, source: str) -> dict[str, Any]:
        """Return what decides on the result: a restart must be asked for the same."""
        return {
            "source": source,
            "format": self.format,
            "shard_bytes": self.shard_bytes,
            "include": list(self.include),
            "exclude": list(self.exclude),
            "seed": self.seed,
        }


class Tell(Protocol):
    """Whoever shows progress."""

    def total(self, shards: int, files: int, bytes_: int) -> None:
        """Learn how much there is to do in all."""

    def done(self, files: int, bytes_: int) -> None:
        """Learn that so much more is done."""


@dataclass(frozen=True, slots=True)
class Result:
    """A finished conversion."""

    files: int
    bytes: int
    shards: int
    bad: tuple[Entry, ...]
    written: int
    """Files written now, not before a restart."""
    labels: tuple[str, ...]
