"""Names as frameworks pass them: strings, bytes, paths, tensors, lists of those, with or without a scheme."""

from __future__ import annotations

import os
import stat as st
import sys
from collections.abc import Callable
from typing import Any

from fitdoctor.capture.scratch import moves, real
from fitdoctor.capture.scratch.overlay import Overlay

_LOCAL = "file://"
_IN_MEMORY = ("ram://", "mem://", "memory://")


class Names:
    """Turns a name into the one to write to or to read from."""

    def __init__(self, files: Overlay) -> None:
        self.files = files

    def every(self, value: Any, change: Callable[[str], str]) -> Any:
        """Apply a change to a name or to each of several; anything else is returned untouched."""
        if isinstance(value, str):
            return change(value)
        if isinstance(value, bytes):
            return os.fsencode(change(os.fsdecode(value)))
        if isinstance(value, os.PathLike):
            return change(os.fsdecode(os.fspath(value)))
        if isinstance(value, list | tuple):
            return [self.every(item, change) for item in value]
        return self._tensor(value, change)

    def _tensor(self, value: Any, change: Callable[[str], str]) -> Any:
        constant = getattr(sys.modules.get("tensorflow.python.framework.constant_op"), "constant", None)
        if constant is None or getattr(getattr(value, "dtype", None), "name", "") != "string":
            return value
        try:
            content = value.numpy()
        except (AttributeError, NotImplementedError):
            return value  # a symbol in a graph: its value is not known here
        if isinstance(content, bytes):
            return constant(self.every(content, change))
        changed = [self.every(item, change) for item in content.ravel().tolist()]
        return constant(changed, shape=content.shape)

    # --- one name --------------------------------------------------------------------------------------

    def _remote(self, name: str) -> str | None:
        """Return the scratch name for a path on a remote store, None for a local one."""
        if "://" not in name or name.startswith((_LOCAL, *_IN_MEMORY)):
            return None
        return f"{self.files._base}/.remote/{name.replace('://', '/', 1)}"

    def local(self, name: str) -> str | None:
        """Return the path of a local name, None for anything else."""
        if name.startswith(_LOCAL):
            return name[len(_LOCAL) :]
        return None if "://" in name else name

    def _write(self, name: str, local: Callable[[str], str]) -> str:
        remote = self._remote(name)
        if remote is not None:
            self.files.gap(
                "the cost of saving",
                f"what the script saves to {name.partition('://')[0]}:// went to a local folder instead",
                "observe the whole run: fitdoctor run --whole",
            )
            real.make_folders(os.path.dirname(remote))
            self.files.active = True
            return remote
        path = self.local(name)
        return name if path is None or not path else local(path)

    def write(self, name: str) -> str:
        """Where a saver writes instead, whatever is there now."""
        return self._write(name, self.files.forced)

    def write_in(self, name: str) -> str:
        """Where a saver writes into a folder that keeps what it holds."""
        return self._write(name, lambda path: moves.raised(self.files, path))

    def update(self, name: str, *, mode: str) -> str:
        """Where a saver writes with a mode such as "a" or "r+" that keeps the content, whenever it does."""

        def local(path: str) -> str:
            flags = os.O_RDWR if mode.startswith("r") else os.O_RDWR | os.O_CREAT
            flags |= os.O_TRUNC if mode.startswith("w") else 0
            flags |= os.O_EXCL if "x" in mode or "-" in mode else 0
            with self.files.saving():
                return self.files.for_open(self.files.logical(path), flags) or path

        return self._write(name, local)

    def make(self, name: str, flags: int = os.O_WRONLY | os.O_CREAT | os.O_TRUNC) -> str:
        """Where Python's own `open` would write: a new file made before training is real."""

        def local(path: str) -> str:
            logical = self.files.logical(path)
            new = real.kind(logical) is None
            target = self.files.for_open(logical, flags)
            if target is None and new and not self.files.left_alone(logical):
                self.files.claim(logical)
            return target or path

        return self._write(name, local)

    def cache(self, name: str) -> str:
        """Where a tf.data cache goes: a finished one is read where it lies."""
        finished = real.kind(f"{name}.index") is not None
        return name if not name or finished else self.write(name)

    def read(self, name: str) -> str:
        """Which file to read."""
        remote = self._remote(name)
        if remote is not None:
            return remote if real.kind(remote) is not None else name
        path = self.local(name)
        if path is None or not self.files.active:
            return name
        return self.files.reading(path) or name

    def read_prefix(self, name: str) -> str:
        """Which checkpoint to read: its name is the beginning of several files."""
        index = self.read(f"{name}.index")
        return index[: -len(".index")] if index != f"{name}.index" else self.read(name)

    def read_in(self, name: str) -> str:
        """Which folder to read, all of it in one place."""
        path = self.local(name)
        if path is None or not self.files.active:
            return self.read(name)
        logical = self.files.logical(path)
        split = self.files.above(logical) is not None and self.files.below(logical) == st.S_IFDIR
        return moves.raised(self.files, path) if split else self.read(name)
