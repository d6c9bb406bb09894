"""What becomes of iterators that came to their end: letting go of them may take seconds."""

from __future__ import annotations

from typing import Any

from fitdoctor.lab.job import _Kept


def test_an_iterator_is_kept_from_its_end_on() -> None:
    used_up: list[Any] = []
    inner = iter([1, 2])
    batches = _Kept(inner, used_up)
    assert next(batches) == 1
    assert not used_up, "one that is let go in the middle may hold much"
    assert list(batches) == [2]
    assert used_up == [inner]
