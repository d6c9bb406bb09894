"""Which function of the user's own is one step of a hand-written loop, and what it was called with.

Asked once, where the loop is cut short, with the step still on the stack: the frame just inside the innermost loop of
the user's own lines belongs to the function that the loop calls for every batch.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

from fitdoctor.probes.frames import loops_around
from fitdoctor.probes.install import is_users

Called = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def find(frame: types.FrameType | None) -> Called | None:
    """Return the step's function with its arguments; None where the step is written inside the loop itself."""
    inside: types.FrameType | None = None
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            if loops_around(frame):
                break
            inside = frame
        frame = frame.f_back
    if frame is None or inside is None:
        return None
    function = _function(inside)
    try:
        return None if function is None else (function, *_arguments(inside, function))
    except KeyError:
        return None  # it deleted an argument


def _function(frame: types.FrameType) -> Callable[..., Any] | None:
    """Return the function, or bound method, whose call this frame is."""
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount]
    if names:
        bound = getattr(frame.f_locals.get(names[0]), code.co_name, None)
        if getattr(getattr(bound, "__func__", None), "__code__", None) is code:
            return bound
    caller = frame.f_back
    places = [frame.f_globals, *([caller.f_locals, caller.f_globals] if caller is not None else [])]
    for place in places:
        for value in list(place.values()):
            if isinstance(value, types.FunctionType) and value.__code__ is code:
                return value
    return None


def _arguments(frame: types.FrameType, function: Callable[..., Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what the function was called with, as far as it did not assign to its arguments."""
    found = inspect.getargvalues(frame)
    code = frame.f_code
    positional = code.co_varnames[: code.co_argcount]
    named = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    values = [found.locals[name] for name in positional]
    if inspect.ismethod(function):
        values = values[1:]
    more = found.locals[found.varargs] if found.varargs else ()
    keywords = {name: found.locals[name] for name in named}
    if found.keywords:
        keywords.update(found.locals[found.keywords])
    return (*values, *more), keywords
