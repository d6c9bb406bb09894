"""Which files may be changed: the user's own, of this project, as they were when they ran."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from fitdoctor.errors import CannotFix, UsageError
from fitdoctor.probes.install import is_users

_MARKS = (".git", ".hg", "pyproject.toml", "setup.py", "setup.cfg")
"""A folder with one of these is a project."""


def project_of(script: str, cwd: str | None, named: str | None = None) -> str | None:
    """Return the folder below which files may be changed; None where the capture does not say where the script lies."""
    if named is not None:
        if not os.path.isdir(named):
            raise UsageError(f"expected a folder as --project, found {named!r}", do="name the folder of your project")
        return os.path.realpath(named)
    if not os.path.isabs(script):
        return os.path.realpath(cwd) if cwd else None
    folder, home = Path(os.path.realpath(script)).parent, Path(os.path.expanduser("~"))
    for each in (folder, *folder.parents):
        if each not in (home, Path(each.anchor)) and any((each / mark).exists() for mark in _MARKS):
            return str(each)
    start = os.path.realpath(cwd) if cwd else ""
    inside = bool(start) and _inside(str(folder), start) and Path(start) not in (home, Path(folder.anchor))
    return start if inside else str(folder)


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def refusal(path: str, sha256: str, project: str | None) -> str:
    """Say why a file is not changed; empty where it may be."""
    why = never(path, sha256)
    if why and why != changed(path):
        return why
    real = os.path.realpath(path)
    if project is None:
        return "the capture was redacted: it does not say where the script lies; run it again without --redact"
    if not _inside(real, project):
        where = f"{path} lies" if real == os.path.abspath(path) else f"{path} leads to {real}, which lies"
        return f"{where} outside of the project {project}; --project FOLDER allows another one"
    found = os.stat(real)
    if not found.st_mode & 0o222 or not os.access(real, os.W_OK):
        return f"{path} is read-only: chmod u+w, and again"
    if not os.access(os.path.dirname(real), os.W_OK | os.X_OK):
        return f"the folder of {path} cannot be written to"
    if found.st_nlink > 1:
        return f"{path} has {found.st_nlink} hard links: the others would keep the old text"
    return why


def never(path: str, sha256: str) -> str:
    """Say why a file is not even run as something else, which changes nothing on the disk; empty where it may be."""
    real = os.path.realpath(path)
    if not is_users(path) or not is_users(real):
        return f"{path} belongs to an installed package"
    try:
        regular = stat.S_ISREG(os.stat(real).st_mode)
        data = Path(real).read_bytes() if regular else b""
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}"
    if not regular:
        return f"{path} is no regular file"
    return "" if hashlib.sha256(data).hexdigest() == sha256 else changed(path)


def changed(path: str) -> str:
    """Say that a file is not what ran."""
    return f"{path} has changed since it ran: run it again, then fix"


def unchanged(path: str, expected: bytes) -> None:
    """Refuse to write over what somebody else has written meanwhile."""
    try:
        now = Path(path).read_bytes()
    except OSError as error:
        raise CannotFix(f"{path} cannot be read: {error.strerror or error}", do="nothing was written to it") from error
    if now != expected:
        raise CannotFix(f"{path} was changed by somebody else meanwhile", do="nothing was written to it; start again")
