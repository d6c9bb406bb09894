"""Replace attributes, and put them back exactly."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any

_ABSENT = object()
_FUNCTIONS = (FunctionType, type(os.stat))
_UNTOUCHED = frozenset({"posix", "_io", "_frozen_importlib_external", "importlib._bootstrap_external"})
"""Where the import system finds its own: it must not see scratch files."""
_CAPTURING = (
    ("pathlib", "_NormalAccessor"),
    ("glob", "_GlobberBase"),
    ("glob", "_Globber"),
    ("glob", "_StringGlobber"),
)
"""Classes of the standard library that keep file functions of their own, in some version of Python."""


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

    def everywhere(self, replaced: Mapping[Any, Callable[..., Any]]) -> None:
        """Replace functions under every name a module has for them (`from os import remove`)."""
        holders: list[Any] = [
            module
            for name, module in list(sys.modules.items())
            if isinstance(module, ModuleType) and name not in _UNTOUCHED and not name.startswith("fitdoctor.")
        ]
        holders += [getattr(sys.modules.get(module), name, None) for module, name in _CAPTURING]
        for holder in filter(None, holders):
            for name, value in list(vars(holder).items()):
                inner = value.__func__ if isinstance(value, staticmethod) else value
                hook = replaced.get(inner) if type(inner) in _FUNCTIONS else None
                if hook is not None:
                    self.put(holder, name, staticmethod(hook) if isinstance(holder, type) else hook)

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
