"""Padded sequences in batches: how long they are really, and what batches of like lengths would be cut to.

Only counted: how many positions at an end of a row hold the value it is padded with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


GROUPS = 10
"""Of sequences of like length: more of them pad little less, and fill their batches later."""


@dataclass(frozen=True, slots=True, eq=False)
class Padded:
    """Which part of a batch is padded, at which end, and the real lengths of its rows."""

    leaf: int
    """Its place among the flat parts of a batch."""
    front: bool
    value: float
    """What it is padded with."""
    length: int
    """Positions in a row, padding included."""


def padded(leaves: Sequence[Any]) -> Padded | None:
    """Find the first part of a batch most of whose rows end, or begin, in the same value; None where there is none."""
    for place, leaf in enumerate(leaves):
        shape: tuple[int, ...] = getattr(leaf, "shape", ())
        if len(shape) < 2 or shape[0] < 2 or shape[1] < 2 or leaf.dtype.kind not in "iuf":
            continue
        found = [
            Padded(place, front, value, int(shape[1]))
            for front in (False, True)
            if (value := _end_value(leaf, front=front)) is not None
        ]
        if found:
            return min(found, key=lambda each: int(real_lengths(leaf, each).sum()))
    return None


def _end_value(rows: Any, *, front: bool) -> float | None:
    """Return the value that most rows have at an end; None where they differ."""
    import numpy as np

    ends = rows[:, 0 if front else -1].reshape(rows.shape[0], -1)
    values, counts = np.unique(ends[(ends == ends[:, :1]).all(axis=1), 0], return_counts=True)
    if values.size == 0 or 2 * counts.max() < rows.shape[0]:
        return None
    return float(values[counts.argmax()])


def real_lengths(rows: Any, found: Padded) -> Ints:
    """Return how long each row is without the run of padding at its end (or front)."""
    import numpy as np

    flat = rows.reshape(rows.shape[0], rows.shape[1], -1)
    real = (flat != found.value).any(axis=2)
    # From the end where the padding is to the first real position; an empty row has none.
    skipped = (real if found.front else real[:, ::-1]).argmax(axis=1)
    lengths: Ints = np.where(real.any(axis=1), rows.shape[1] - skipped, 0).astype(np.int64)
    return lengths


def buckets(lengths: Ints, rows: int) -> Ints:
    """Return what each batch would be padded to if sequences of like length came together."""
    import numpy as np

    ordered = np.sort(lengths)[::-1]
    return np.maximum(ordered[::rows][::-1], 1).astype(np.int64)


def bounds(lengths: Ints) -> list[int]:
    """Return lengths that part the sequences into groups of about the same number: below the first, below the next."""
    import numpy as np

    parts = np.quantile(lengths, np.linspace(0, 1, GROUPS + 1)[1:-1])
    return [int(each) for each in np.unique(np.ceil(parts).astype(np.int64) + 1)]


def cut(leaves: Sequence[Any], to: int, found: Padded) -> list[Any]:
    """Cut every part that is as long as the padded one to a length, at the end where the padding is."""
    import numpy as np

    def one(leaf: Any) -> Any:
        shape: tuple[int, ...] = getattr(leaf, "shape", ())
        if len(shape) < 2 or shape[1] != found.length:
            return leaf
        part = leaf[:, found.length - to :] if found.front else leaf[:, :to]
        return np.ascontiguousarray(part)

    return [one(leaf) for leaf in leaves]
