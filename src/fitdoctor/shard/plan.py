"""Which file goes into which shard: known before the first byte is read, the same after every restart."""

from __future__ import annotations

import fnmatch
import random
from collections.abc import Sequence

from fitdoctor.errors import UsageError
from fitdoctor.shard.source import Found

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


def size_in_bytes(text: str) -> int:
    """Read a size as people write it.

    >>> size_in_bytes("128MiB"), size_in_bytes("1.5 GB"), size_in_bytes("4096")
    (134217728, 1500000000, 4096)
    """
    stripped = text.strip().replace("_", "")
    number = stripped.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    unit = stripped[len(number) :].strip().upper()
    try:
        value = float(number) * _UNITS[unit]
    except (ValueError, KeyError):
        value = 0.0
    if not 1 <= value < 1 << 50:
        raise UsageError(f"expected a size such as 128MiB, found {text!r}", do="use KB, MB, GB, KiB, MiB or GiB")
    return int(value)


def chosen(files: Sequence[Found], include: Sequence[str], exclude: Sequence[str]) -> list[Found]:
    """Keep the files that the user means; a pattern without a slash is about the name alone."""

    def matches(path: str, patterns: Sequence[str]) -> bool:
        name = path.rpartition("/")[2]
        return any(fnmatch.fnmatchcase(path if "/" in each else name, each) for each in patterns)

    return [each for each in files if (not include or matches(each.path, include)) and not matches(each.path, exclude)]


def ordered(files: Sequence[Found], seed: int | None) -> list[Found]:
    """Sort by path, or shuffle what is sorted."""
    result = sorted(files, key=lambda each: each.path)
    if seed is not None:
        random.Random(seed).shuffle(result)  # noqa: S311 - an order, not a secret
    return result


def shards(sizes: Sequence[int], shard_bytes: int) -> list[int]:
    """Return the shard of each file: neighbours together, a new one where the next file would not fit."""
    numbers: list[int] = []
    number, filled = 0, 0
    for size in sizes:
        if filled and filled + size > shard_bytes:
            number, filled = number + 1, 0
        numbers.append(number)
        filled += size
    return numbers
