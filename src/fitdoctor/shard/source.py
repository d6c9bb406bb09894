"""What there is to convert: a folder of this machine, or any place fsspec can list and read."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fitdoctor.errors import FitdoctorError, UsageError

LARGEST = 1 << 30
"""Bytes of the largest file a record may hold: protobuf allows messages of less than 2 GiB."""
EMPTY = "it is empty"
TOO_LARGE = "it is larger than 1 GiB, more than a record holds"
_SHOWN = 10
_NAMES = {errno.ENOENT: "it vanished", errno.EACCES: "permission denied", errno.EPERM: "permission denied"}


@dataclass(frozen=True, slots=True)
class Found:
    """One file of the source, as it was listed."""

    path: str
    """Below the source, with slashes; names that are not UTF-8 keep their bytes as surrogates."""
    size: int
    stamp: str
    """Differs when the file was changed: the time of its change, or its entity tag."""
    problem: str | None = None
    """Why it cannot be taken over, where the listing tells."""


class Unreadable(Exception):  # noqa: N818 - says what the file is
    """A file that cannot be taken over; the message says why."""


class Source(Protocol):
    """A place with files."""

    name: str
    """How it is told from other sources."""
    at_once: int
    """Files one task reads: more than one where reading a file takes less time than handing out the task."""

    def files(self) -> list[Found]:
        """List all files, in no particular order."""

    def read(self, found: Found) -> bytes:
        """Return the content of a file, or raise Unreadable."""


def opened(where: str, options: Mapping[str, Any]) -> Source:
    """Return the source a user named: a path, or a URL of fsspec's."""
    if "://" not in where or where.startswith("file://"):
        if options:
            raise UsageError("--option is for stores, and SRC is a folder", do="leave it out, or give a URL as SRC")
        return Folder(where.removeprefix("file://"))
    return Store(where, options)


def judged(path: str, size: int, stamp: str) -> Found:
    """Return a listed file with what its size says against it."""
    problem = EMPTY if size == 0 else TOO_LARGE if size > LARGEST else None
    return Found(path, size, stamp, problem)


class Folder:
    """A folder; links are followed, but not in circles."""

    at_once = 32

    def __init__(self, path: str) -> None:
        self.root = os.path.abspath(path)
        if not os.path.isdir(self.root):
            found = "a file" if os.path.exists(self.root) else "nothing"
            raise UsageError(f"expected a folder at {path}, found {found}", do="give the folder that holds the files")
        self.name = self.root

    def files(self) -> list[Found]:
        """Walk the folder."""
        return list(self._walk(self.root, "", frozenset()))

    def _walk(self, folder: str, below: str, around: frozenset[tuple[int, int]]) -> Iterator[Found]:
        try:
            here = os.stat(folder)
            entries = list(os.scandir(folder))
        except OSError as error:
            # Not even its names are known: nothing of it may be left out in silence.
            yield Found(below.rstrip("/") or ".", 0, "", f"this folder cannot be listed: {reason(error)}")
            return
        inside = around | {(here.st_dev, here.st_ino)}
        for entry in entries:
            path = below + entry.name
            try:
                seen = entry.stat()
            except OSError as error:
                broken = entry.is_symlink() and error.errno == errno.ENOENT
                yield Found(path, 0, "", "it is a link to nothing" if broken else reason(error))
                continue
            if stat.S_ISDIR(seen.st_mode):
                if (seen.st_dev, seen.st_ino) not in inside:
                    yield from self._walk(entry.path, f"{path}/", inside)
            elif stat.S_ISREG(seen.st_mode):
                yield judged(path, seen.st_size, _stamp(seen))
            else:
                yield Found(path, 0, "", "it is neither a file nor a folder")

    def read(self, found: Found) -> bytes:
        """Read one file and make sure that it stayed as it was listed meanwhile."""
        try:
            handle = os.open(os.path.join(self.root, found.path), os.O_RDONLY | os.O_CLOEXEC)
            try:
                content = os.read(handle, found.size + 1)
                while len(content) <= found.size and (more := os.read(handle, found.size + 1 - len(content))):
                    content += more
                after = os.fstat(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise Unreadable(reason(error)) from error
        if len(content) != found.size or after.st_size != found.size or _stamp(after) != found.stamp:
            raise Unreadable("it was changed after it was listed")
        return content


def _stamp(seen: os.stat_result) -> str:
    return str(seen.st_mtime_ns)


class Store:
    """A place of fsspec's: a bucket, another machine, memory."""

    at_once = 1

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        from fitdoctor.shard.records import needed

        self.name = url.rstrip("/")
        try:
            self._system, root = needed("fsspec").core.url_to_fs(url, **options)
        except FitdoctorError:
            raise
        except ImportError as error:
            raise UsageError(f"{url} needs a package that is not installed: {error}", do="install it") from error
        except Exception as error:
            raise UsageError(f"cannot open {url}: {said(error)}", do="check the URL and each --option") from error
        self._root = str(root).rstrip("/")

    def files(self) -> list[Found]:
        """List everything below the URL."""
        try:
            self._system.invalidate_cache()
            listed = self._system.find(self._root, detail=True)
        except Exception as error:
            raise UsageError(
                f"cannot list {self.name}: {said(error)}", do="check the URL, your credentials and each --option"
            ) from error
        prefix = f"{self._root}/" if self._root else ""
        return [
            judged(str(name).removeprefix(prefix), int(info.get("size") or 0), _tag(info))
            for name, info in listed.items()
            # Buckets hold empty objects that stand for folders.
            if not str(name).endswith("/") and str(name) != self._root
        ]

    def read(self, found: Found) -> bytes:
        """Read one object, and make sure that it has the size it was listed with."""
        try:
            content: bytes = self._system.cat_file(f"{self._root}/{found.path}" if self._root else found.path)
        except FileNotFoundError as error:
            raise Unreadable(_NAMES[errno.ENOENT]) from error
        except Exception as error:
            raise Unreadable(said(error)) from error
        if len(content) != found.size:
            raise Unreadable("it was changed after it was listed")
        return content


def _tag(info: Mapping[str, Any]) -> str:
    for name in ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "created"):
        if info.get(name):
            return str(info[name])
    return ""


def reason(error: OSError) -> str:
    """Say in a few words why the system refused."""
    return _NAMES.get(error.errno or 0, error.strerror or said(error))


def said(error: BaseException) -> str:
    """Return what an error of somebody else's says, in one line."""
    text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def differences(before: Sequence[Found], now: Sequence[Found]) -> list[str]:
    """Say which files came, went or were changed."""
    old, new = ({each.path: each for each in files} for files in (before, now))
    found = [f"{shown(path)}: it is new" for path in sorted(new.keys() - old.keys())]
    found += [f"{shown(path)}: it vanished" for path in sorted(old.keys() - new.keys())]
    found += [
        f"{shown(path)}: it was changed"
        for path in sorted(old.keys() & new.keys())
        if (old[path].size, old[path].stamp) != (new[path].size, new[path].stamp)
    ]
    return found


def shown(path: str) -> str:
    """Return a path that does nothing to a terminal."""
    return path if path.isprintable() else path.encode("unicode_escape").decode("ascii")


def some(lines: Sequence[str]) -> str:
    """Join the first lines, and say how many more there are."""
    more = [f"… and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return "\n".join(f"  {each}" for each in [*lines[:_SHOWN], *more])
