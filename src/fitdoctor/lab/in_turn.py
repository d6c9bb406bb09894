"""A generator that somebody else may still be drawing from: the lab takes its turn.

A training on a plain generator has one source.  When `fit` was unwound, the thread with which TensorFlow prepares the
next batches may still be inside the user's function; so may that of an experiment before.  Python lets nobody else in
meanwhile.
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.errors import CannotRun

BUSY = "generator already executing"
PATIENCE_SECONDS = 30.0
_LOOK_SECONDS = 0.002


def shared(data: Any) -> Any:
    """Return a generator of our own that draws from the user's; anything else as it is."""
    return _drawn(data) if isinstance(data, types.GeneratorType) else data


def _drawn(generator: Iterator[Any]) -> Iterator[Any]:
    while True:
        try:
            element = draw(generator)
        except StopIteration:
            return
        yield element


def draw(
    elements: Iterator[Any],
    patience: float = PATIENCE_SECONDS,
    clock: Callable[[], float] = time.monotonic,
    rest: Callable[[float], None] = time.sleep,
) -> Any:
    """Take the next element, when whoever is inside of the generator has left it."""
    until = clock() + patience
    while True:
        try:
            return next(elements)
        except ValueError as error:
            if str(error) != BUSY:
                raise
            if clock() > until:
                raise CannotRun(
                    "the generator is still making a batch for the training that was watched",
                    do="give a function that makes generators, or a keras.utils.PyDataset",
                ) from None
            rest(_LOOK_SECONDS)
