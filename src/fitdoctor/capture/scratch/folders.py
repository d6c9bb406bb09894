"""What `os.scandir` gives for a folder of the merged view."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import TracebackType


class Entry:
    """One entry of a merged folder: the system's own, under the name the script expects."""

    __slots__ = ("_entry", "name", "path")

    def __init__(self, entry: os.DirEntry[str], prefix: str, as_bytes: bool) -> None:
        self._entry = entry
        path = prefix + entry.name
        self.name: str | bytes = os.fsencode(entry.name) if as_bytes else entry.name
        self.path: str | bytes = os.fsencode(path) if as_bytes else path

    def __fspath__(self) -> str | bytes:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def inode(self) -> int:
        """Return the inode number."""
        return self._entry.inode()

    def is_symlink(self) -> bool:
        """Whether it is a link."""
        return self._entry.is_symlink()

    def is_junction(self) -> bool:
        """Whether it is a junction: only Windows has them."""
        return False

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a folder."""
        if follow_symlinks and self._entry.is_symlink():
            return os.path.isdir(self.path)
        return self._entry.is_dir(follow_symlinks=follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a file."""
        if follow_symlinks and self._entry.is_symlink():
            return os.path.isfile(self.path)
        return self._entry.is_file(follow_symlinks=follow_symlinks)

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return its status."""
        if follow_symlinks and self._entry.is_symlink():
            return os.stat(self.path)
        return self._entry.stat(follow_symlinks=follow_symlinks)


class Scan:
    """What `os.scandir` returns: an iterator that can be closed."""

    def __init__(self, entries: Iterator[Entry]) -> None:
        self._entries = iter(list(entries))

    def __iter__(self) -> Scan:
        return self

    def __next__(self) -> Entry:
        return next(self._entries)

    def __enter__(self) -> Scan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the listing."""
        self._entries = iter(())
