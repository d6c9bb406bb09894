"""A generator that somebody else may still be drawing from: the lab takes its turn.

A training on a plain generator has one source.  When `fit` was unwound, the thread with which TensorFlow prepares the
next batches may still be inside the user's function; so may that of an experiment before.  Python lets nobody else in
meanwhile.
"""

from __future__ import annotations

import contextlib
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.probes.install import is_users

BUSY = "generator already executing"
PATIENCE_SECONDS = 30.0
_LOOK_SECONDS = 0.002
_HELD = "the generator is still making a batch for the training that was watched"
_REMEDY = "make it a keras.utils.PyDataset"
_turns: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
"""Held by whom the lab lets draw from a generator."""


def shared(data: Any) -> Any:
    """Return a generator of our own that draws from the user's; anything else as it is."""
    return _drawn(data) if isinstance(data, types.GeneratorType) else data


def _drawn(generator: Iterator[Any]) -> Iterator[Any]:
    while True:
        try:
            with _turns.setdefault(generator, threading.RLock()):
                element = draw(generator)
        except StopIteration:
            return
        yield element


def written_at(generator: Any) -> dict[str, Any]:
    """Return where the user wrote a generator; nothing where it is none, or somebody else's."""
    code: Any = getattr(generator, "gi_code", None)
    if code is None or not is_users(code.co_filename):
        return {}
    return {"path": code.co_filename, "line": code.co_firstlineno, "symbol": code.co_name}


@contextlib.contextmanager
def still(generator: Any, patience: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Keep all of the lab out of a generator, once whoever is inside of it has left: a fork copies it as it is."""
    until = time.monotonic() + patience
    with _turns.setdefault(generator, threading.RLock()):
        while generator.gi_running:
            if time.monotonic() > until:
                raise CannotRun(_HELD, do=_REMEDY)
            time.sleep(_LOOK_SECONDS)
        yield


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
                raise CannotRun(_HELD, do=_REMEDY) from None
            rest(_LOOK_SECONDS)
