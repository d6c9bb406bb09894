"""Which files are meant: files, folders and globs, without what is nobody's source."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from fitdoctor.model import Unchecked

SUFFIXES = (".py", ".ipynb")
_NEVER = frozenset({"__pycache__", "node_modules", "site-packages", "dist-packages"})
_BUILT = frozenset({"build", "dist"})


@dataclass(frozen=True, slots=True)
class Collected:
    """The files to look at, each once, in the order of the command line; and what cannot be looked at."""

    files: tuple[str, ...]
    unchecked: tuple[Unchecked, ...]


def collect(paths: Sequence[str], exclude: Sequence[str] = (), root: str = ".") -> Collected:
    """Find the Python files and notebooks below these paths; what is named itself is never skipped as built or hidden.

    A pattern in `exclude` is one of a path relative to `root`, or of any single part of it.
    """
    problems: list[Unchecked] = []
    found: dict[str, str] = {}
    root = os.path.abspath(root)
    for path in paths:
        for file in _named(path, exclude, root, problems):
            found.setdefault(os.path.realpath(file), file)
    return Collected(tuple(found.values()), tuple(problems))


def _named(path: str, exclude: Sequence[str], root: str, problems: list[Unchecked]) -> Iterator[str]:
    if os.path.isdir(path):
        yield from _below(path, exclude, root, problems)
    elif os.path.exists(path):
        if not excluded(path, exclude, root):
            yield path
    elif glob.has_magic(path) and (matches := sorted(glob.glob(path, recursive=True))):
        for match in matches:
            if os.path.isdir(match):
                yield from _below(match, exclude, root, problems)
            elif match.endswith(SUFFIXES) and not excluded(match, exclude, root):
                yield from _plain(match, problems)
    else:
        what = "nothing matches" if glob.has_magic(path) else "there is no such file or folder"
        problems.append(Unchecked(path, None, what))


def _below(folder: str, exclude: Sequence[str], root: str, problems: list[Unchecked]) -> Iterator[str]:
    def failed(error: OSError) -> None:
        problems.append(Unchecked(str(error.filename or folder), None, f"cannot be read: {error.strerror or error}"))

    for here, folders, files in os.walk(folder, onerror=failed):
        folders[:] = sorted(
            name
            for name in folders
            if not _is_skipped(here, name) and not excluded(os.path.join(here, name), exclude, root)
        )
        for name in sorted(files):
            path = os.path.normpath(os.path.join(here, name))
            if name.endswith(SUFFIXES) and not name.startswith(".") and not excluded(path, exclude, root):
                yield from _plain(path, problems)


def _plain(path: str, problems: list[Unchecked]) -> Iterator[str]:
    """Yield a path, unless reading it could wait for ever: only who names a pipe means it."""
    if os.path.isfile(path) or not os.path.exists(path):
        yield path
    else:
        problems.append(Unchecked(path, None, "is no plain file"))


def _is_skipped(here: str, name: str) -> bool:
    path = os.path.join(here, name)
    return (
        name.startswith(".")
        or name in _NEVER
        or (name in _BUILT and not os.path.exists(os.path.join(path, "__init__.py")))
        or os.path.exists(os.path.join(path, "pyvenv.cfg"))
    )


def excluded(path: str, patterns: Sequence[str], root: str) -> bool:
    """Tell whether a path, a folder it lies in, or one of its parts matches a pattern."""
    return bool(patterns) and any(matches(path, pattern, root) for pattern in patterns)


def matches(path: str, pattern: str, root: str) -> bool:
    """Tell whether a path below `root` matches a pattern: as a whole, up to a folder, or in one of its parts."""
    parts = PurePath(os.path.relpath(os.path.abspath(path), root)).parts
    pattern = pattern.replace(os.sep, "/").removeprefix("./").rstrip("/")
    if "/" not in pattern:
        return any(fnmatch.fnmatchcase(part, pattern) for part in parts)
    return any(fnmatch.fnmatchcase("/".join(parts[:count]), pattern) for count in range(1, len(parts) + 1))
