"""Files and folders made through `tempfile` in the temporary folder are the script's own: they stay real."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable
from typing import Any

from fitdoctor.capture.scratch.overlay import Overlay
from fitdoctor.capture.scratch.patches import Patches

Hook = Callable[..., Any]


def install(files: Overlay, patches: Patches) -> None:
    """Hook the two functions of `tempfile` that all others are built on."""
    inner: Hook = tempfile._mkstemp_inner  # type: ignore[attr-defined]
    patches.put(tempfile, "_mkstemp_inner", _file(files, inner))
    patches.put(tempfile, "mkdtemp", _folder(files, tempfile.mkdtemp))


def _is_temporary_place(files: Overlay, folder: Any) -> bool:
    place = os.path.realpath(tempfile.gettempdir())
    wanted = os.path.realpath(os.fsdecode(folder)) if folder else place
    return wanted == place or (wanted.startswith(f"{place}/") and files.left_alone(wanted))


def _file(files: Overlay, original: Hook) -> Hook:
    @functools.wraps(original)
    def hook(dir: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A002 - the name is tempfile's
        if not _is_temporary_place(files, dir):
            return original(dir, *args, **kwargs)
        with files.temporary():
            fd, name = original(dir, *args, **kwargs)
        files.is_temporary(name)
        return fd, name

    return hook


def _folder(files: Overlay, original: Hook) -> Hook:
    @functools.wraps(original)
    def hook(suffix: Any = None, prefix: Any = None, dir: Any = None) -> Any:  # noqa: A002
        if not _is_temporary_place(files, dir):
            return original(suffix, prefix, dir)
        with files.temporary():
            name = original(suffix, prefix, dir)
        files.is_temporary(name)
        return name

    return hook
