"""Replace attributes, and put them back exactly."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

_ABSENT = object()


class Patches:
    """Every attribute replaced so far, with what was there before."""

    def __init__(self) -> None:
        self._done: list[tuple[Any, str, object, object]] = []

    def put(self, holder: Any, name: str, value: object) -> None:
        """Replace one attribute of a module or class."""
        before = vars(holder).get(name, _ABSENT)
        if isinstance(before, staticmethod) and not isinstance(value, staticmethod):
            value = staticmethod(value)  # type: ignore[arg-type]
        setattr(holder, name, value)
        self._done.append((holder, name, before, value))

    def undo(self) -> None:
        """Put everything back, last first.  What somebody else has replaced since stays theirs."""
        while self._done:
            holder, name, before, value = self._done.pop()
            if inspect.getattr_static(holder, name, _ABSENT) is not value:
                continue
            with contextlib.suppress(AttributeError, TypeError):
                if before is _ABSENT:
                    delattr(holder, name)
                else:
                    setattr(holder, name, before)
