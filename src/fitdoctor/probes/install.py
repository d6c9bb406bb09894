"""Attach to code that is not ours, and let go without a trace.

`Patches` replaces attributes and puts them back.  `ImportWatch` calls a function right after a module was imported, so
that a script needs no edit and nothing is imported that the script does not import itself.  `hide` keeps our frames out
of the user's tracebacks.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import threading
import types
from collections.abc import Callable, Sequence
from typing import Any

from fitdoctor.model import Site
from fitdoctor.probes import account as acc
from fitdoctor.probes.recorder import Recorder

OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def hide(error: BaseException) -> None:
    """Drop our own frame from the head of a traceback that passes through a wrapper of ours."""
    tb = error.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(OWN_FOLDER):
        tb = tb.tb_next
    if tb is not None:
        error.__traceback__ = tb


def strip(error: BaseException | None, seen: set[int] | None = None) -> None:
    """Drop all our frames from a traceback and from those chained to it."""
    seen = set() if seen is None else seen
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        hide(error)
        tb = error.__traceback__
        while tb is not None and tb.tb_next is not None:
            if tb.tb_next.tb_frame.f_code.co_filename.startswith(OWN_FOLDER):
                tb.tb_next = tb.tb_next.tb_next
            else:
                tb = tb.tb_next
        strip(error.__context__, seen)
        error = error.__cause__


class Patches:
    """Attributes of other people's objects that we replaced; `undo` puts every one back."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._undo: list[tuple[Any, str, Any, Any]] = []
        self._rests: list[tuple[Any, str, Any, Any]] = []
        self._lock = threading.Lock()

    def wrap(
        self, owner: Any, name: str, make: Callable[[Any], Callable[..., Any]], *, every_step: bool = False
    ) -> bool:
        """Replace `owner.name` by `make(original)`; a name that does not exist becomes a gap.

        `every_step`: a step passes through it, so it is taken away in rests.
        """
        original = vars(owner).get(name) if isinstance(owner, type) else getattr(owner, name, None)
        if original is None:
            where = getattr(owner, "__name__", repr(owner))
            self.recorder.gap(
                f"what {where}.{name} would tell",
                f"this version has no {where}.{name}",
                "use a version fitdoctor knows (see `fitdoctor env`), or report it",
            )
            return False
        wrapper = make(original)
        functools.update_wrapper(wrapper, original)
        setattr(owner, name, wrapper)
        self._undo.append((owner, name, original, wrapper))
        if every_step:
            self._rests.append((owner, name, original, wrapper))
        return True

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute until `undo`."""
        self._undo.append((owner, name, getattr(owner, name), value))
        setattr(owner, name, value)

    def rest(self, resting: bool) -> None:
        """Take away what every step passes through, or put it back; on any thread."""
        with self._lock:
            for owner, name, original, ours in self._rests:
                _exchange(owner, name, *((ours, original) if resting else (original, ours)))

    def undo(self) -> None:
        """Put back everything that is still ours, newest first."""
        with self._lock:
            self._rests.clear()
            while self._undo:
                owner, name, original, ours = self._undo.pop()
                _exchange(owner, name, ours, original)


def _exchange(owner: Any, name: str, old: Any, new: Any) -> None:
    """Set an attribute if it is what it should be: what somebody else put there meanwhile stays."""
    current = vars(owner).get(name) if isinstance(owner, type) else getattr(owner, name, None)
    if current is old:
        setattr(owner, name, new)


class _Notify(importlib.abc.Loader):
    """Runs the real loader, then tells the watch; leaves no trace on the module."""

    def __init__(self, watch: ImportWatch, loader: Any) -> None:
        self._watch = watch
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        module: types.ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._watch.imported(module.__name__)


class ImportWatch(importlib.abc.MetaPathFinder):
    """Calls functions right after the modules they wait for were imported."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        self._searching: set[str] = set()

    def when(self, module: str, function: Callable[[], None]) -> None:
        """Call `function` once `module` is there: at once if it is."""
        present = sys.modules.get(module)
        if present is not None and not getattr(getattr(present, "__spec__", None), "_initializing", False):
            self._call(module, function)
        else:
            self._waiting.setdefault(module, []).append(function)

    def imported(self, module: str) -> None:
        """Tell whoever waits for this module."""
        for function in self._waiting.pop(module, []):
            self._call(module, function)

    def _call(self, module: str, function: Callable[[], None]) -> None:
        if not self._recorder.live:
            return
        try:
            function()
        except Exception as error:
            self._recorder.gap(
                f"what a probe on {module} would tell",
                f"{type(error).__name__}: {error}",
                "use versions that fitdoctor knows (see `fitdoctor env`), or report it",
            )

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the module as everybody else would, and listen for the end of its import."""
        if fullname not in self._waiting or fullname in self._searching:
            return None
        self._searching.add(fullname)
        try:
            spec = None
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                if finder is self or find is None:
                    continue
                spec = find(fullname, path, target)
                if spec is not None:
                    break
        finally:
            self._searching.discard(fullname)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Notify(self, spec.loader)
        return spec

    def install(self) -> None:
        """Start listening."""
        sys.meta_path.insert(0, self)

    def uninstall(self) -> None:
        """Stop listening."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)


_IMPORT_WRAPPER = """
def _find_and_load(name, import_):
    if not mine():
        return original(name, import_)
    enter(bucket)
    try:
        return original(name, import_)
    finally:
        leave()
"""


def time_imports(recorder: Recorder, patches: Patches) -> None:
    """Account the time spent importing modules, whoever imports them.

    The wrapper claims to be a frame of importlib so that Python trims it from import errors as it trims its own.
    """
    bootstrap = importlib._bootstrap
    account = recorder.account

    def make(original: Any) -> Callable[..., Any]:
        scope = {
            "original": original, "mine": recorder.mine, "enter": account.enter, "leave": account.leave,
            "bucket": acc.IMPORTS,
        }  # fmt: skip
        exec(compile(_IMPORT_WRAPPER, "<frozen importlib._bootstrap>", "exec"), scope)  # noqa: S102
        wrapper: Callable[..., Any] = scope["_find_and_load"]
        return wrapper

    patches.wrap(bootstrap, "_find_and_load", make)


_LIBRARY_MARKS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}", "<frozen ", OWN_FOLDER)
_STDLIB = os.path.dirname(os.__file__) + os.sep


@functools.lru_cache(maxsize=4096)
def is_users(filename: str) -> bool:
    """Tell whether a file is the user's own: not a library, not Python's, not ours."""
    if filename.startswith("<") and not filename.startswith("<ipython"):
        return False
    absolute = os.path.abspath(filename)
    return not absolute.startswith(_STDLIB) and not any(mark in absolute for mark in _LIBRARY_MARKS)


_sites: dict[tuple[types.CodeType, int], Site] = {}


def user_site(depth: int = 2) -> Site | None:
    """Return the innermost line of the user's own code that led here."""
    frame: types.FrameType | None = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        if is_users(code.co_filename):
            key = (code, frame.f_lineno)
            site = _sites.get(key)
            if site is None:
                symbol = None if code.co_name == "<module>" else code.co_name
                site = _sites[key] = Site(os.path.abspath(code.co_filename), frame.f_lineno, None, symbol)
            return site
        frame = frame.f_back
    return None


def code_site(function: Any) -> Site | None:
    """Return where a function or class of the user's own is defined."""
    function = getattr(function, "__wrapped__", function)
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None and hasattr(function, "__call__"):  # noqa: B004 - we want the code of __call__
        code = getattr(getattr(type(function).__call__, "__func__", type(function).__call__), "__code__", None)
    if code is None or not is_users(code.co_filename):
        return None
    return Site(os.path.abspath(code.co_filename), code.co_firstlineno, None, code.co_name)
