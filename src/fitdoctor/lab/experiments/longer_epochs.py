"""Fewer, longer epochs: the way from one pass over the data to the next, with and without the end of an epoch."""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.epochs import Passes
from fitdoctor.lab.job import Job

NAME = "longer epochs"
LARGE_BYTES = 16 << 20
"""What is done to larger arrays between epochs is tried by itself."""
_LEAST = 5.0
"""Less time than so many epochs take, between all of them, is not worth judging the training more rarely."""
_ADAPTERS = ("arrays", "tf.data")


def worth(seen: Seen) -> float:
    """Weigh the time between epochs, where there are so many of them that fewer would do."""
    between = seen.shares.get("between epochs", 0.0)
    large = sum(int(each.get("bytes") or 0) for each in seen.info.get("arrays") or ()) >= LARGE_BYTES
    many = int(seen.info.get("epochs") or 1)
    # Epochs twice as long save half of it, and a stop comes three epochs later at worst.
    if seen.info.get("adapter") not in _ADAPTERS or large or many * between <= _LEAST:
        return 0.0
    return min(1.0, between)


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Train a few passes both ways."""
    steps = seen.info.get("steps_per_epoch")
    if not steps:
        raise CannotRun("the data does not say how long it is", do="try it in the script: data.repeat(10)")
    passes = Passes(job, seen.step_ns, int(steps))
    detail = {"unit": "ns per epoch"}
    yield Comparison(NAME, passes.as_one, passes.as_epochs, detail, block_seconds=passes.block_seconds)
