"""Ctrl-C while experiments run: never lost.

Python raises KeyboardInterrupt wherever it happens to be.  Inside a finaliser or a function that a framework calls back
it is printed and forgotten, or comes back as the framework's own error: the experiments would go on.  So it is kept in
mind, too, and raised again between two blocks; and it is not printed.  Native code may have taken the signal for itself
meanwhile, without Python's knowledge: between two blocks it is taken back.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType

_heard = False
_listening: Callable[[int, FrameType | None], None] | None = None


@contextlib.contextmanager
def kept_in_mind() -> Iterator[None]:
    """Listen for Ctrl-C beside whoever listens now; for `check`."""
    global _heard, _listening
    _heard, _listening = False, None
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):  # nobody listens: it is ignored, or ends the process
        yield
        return

    def heard(number: int, frame: FrameType | None) -> None:
        global _heard
        _heard = True
        before(number, frame)

    try:
        signal.signal(signal.SIGINT, heard)
    except ValueError:  # only the main thread hears signals
        yield
        return
    _listening = heard
    try:
        with _not_printed():
            yield
    finally:
        _listening = None
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _not_printed() -> Iterator[None]:
    """Keep to ourselves that a finaliser, or a function called by the garbage collector, was interrupted."""
    before = sys.unraisablehook

    def told(what: sys.UnraisableHookArgs) -> None:
        if not (_heard and issubclass(what.exc_type, KeyboardInterrupt)):
            before(what)

    sys.unraisablehook = told
    try:
        yield
    finally:
        if sys.unraisablehook is told:
            sys.unraisablehook = before


def check() -> None:
    """Raise KeyboardInterrupt where one came since the experiments began; listen on for the next."""
    if _listening is not None and signal.getsignal(signal.SIGINT) is _listening:
        with contextlib.suppress(ValueError):  # only the main thread hears signals
            signal.signal(signal.SIGINT, _listening)
    if _heard:
        raise KeyboardInterrupt
