"""Where a name leads: from what a script wrote down to one absolute path, and from there to the layers.

Two layers lie over each other.  Below: the user's files, never written.  Above: scratch folders that mirror
the whole path of what was redirected (`<base>/home/me/run/model.keras`), one base per file system.  `_hidden`
are paths of the lower layer that the script believes to have removed.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat as st
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fitdoctor.capture.scratch import journal, real
from fitdoctor.model import Gap

_MOST_LINKS = 40
_CACHES = ("~/.keras", "~/.cache", "~/Library/Caches")
_CACHE_VARIABLES = ("KERAS_HOME", "XDG_CACHE_HOME", "TORCH_HOME", "HF_HOME", "MPLCONFIGDIR")
_NEVER = ("/dev", "/proc", "/sys")


class Paths:
    """The two layers and the names that lead into them."""

    def __init__(self, root: Path | str, in_training: Callable[[], bool], keep: Iterable[Path | str] = ()) -> None:
        self.root = os.path.realpath(os.fspath(root))
        real.make_folders(f"{self.root}/{journal.FILES}")
        self.active = False
        """Whether anything was redirected or removed: until then readers need no look at the upper layer."""
        self.on = True
        self.gaps: list[Gap] = []
        self.lock = threading.RLock()
        self._in_training = in_training
        self._base = f"{self.root}/{journal.FILES}"
        self._bases = [self._base]
        self._device = real.stat(self.root).st_dev
        self._by_device = {self._device: self._base}
        self._by_folder: dict[str, str] = {}
        self._folders: dict[str, str] = {}
        self._hidden: set[str] = set()
        self.own: set[str] = set()
        self.own_folders: set[str] = set()
        self._temporary: set[str] = set()
        self.links: dict[str, str] = {}
        self.displaced = False
        caches = [os.environ[v] for v in _CACHE_VARIABLES if os.environ.get(v)] + list(_CACHES)
        never = [
            *_NEVER,
            self.root,
            *(os.path.realpath(os.path.expanduser(p)) for p in caches),
            *(str(p) for p in keep),
        ]
        self._never = tuple(f"{os.path.abspath(p)}/" for p in never)

    # --- names -----------------------------------------------------------------------------------------

    def logical(self, path: Any, dir_fd: int | None = None, *, follow: bool = True) -> str:
        """Return the absolute name of a path: links followed, the last on request; scratch names undone."""
        name = os.fspath(path)
        if isinstance(name, bytes):
            name = os.fsdecode(name)
        if not name or "\0" in name:
            return ""
        if name[0] != "/":
            name = f"{real.getcwd() if dir_fd is None else real.fd_path(dir_fd)}/{name}"
        head, _, last = name.rstrip("/").rpartition("/")
        if last in ("", ".", ".."):
            return self._canonical(name)
        folder = self._folders.get(head)
        if folder is None:
            folder = self._folders[head] = self._canonical(head).rstrip("/")
        full = self._undo(f"{folder}/{last}")
        if follow and self._link(full) is not None:
            return self._canonical(full)
        return full

    def _undo(self, path: str) -> str:
        """Turn the name of a scratch file back into the name it stands for."""
        for base in self._bases:
            if path.startswith(base) and path[len(base) : len(base) + 1] in ("", "/"):
                return path[len(base) :] or "/"
        return path

    def shown(self, path: str) -> str:
        """Return the name a script should see for a path."""
        return self._undo(path)

    def _link(self, path: str) -> str | None:
        """Return where a link of the merged view points, None for anything else."""
        if path in self.links:
            return self.links[path]
        try:
            if not st.S_ISLNK(real.lstat(path).st_mode):
                return None
            return None if self.hidden(path) or self.above(path) else real.readlink(path)
        except OSError:
            return None

    def _canonical(self, path: str) -> str:
        path = self._undo(path)
        rest = path.split("/")[::-1]
        out, followed = "", 0
        while rest:
            part = rest.pop()
            if part in ("", "."):
                continue
            if part == "..":
                out = out.rpartition("/")[0]
                continue
            target = self._link(f"{out}/{part}")
            if target is None:
                out = f"{out}/{part}"
                continue
            followed += 1
            if followed > _MOST_LINKS:
                raise real.error(errno.ELOOP, path)
            if target.startswith("/"):
                out, target = "", self._undo(target)
            rest.extend(target.split("/")[::-1])
        return out or "/"

    def forget_names(self) -> None:
        """Drop what is remembered about folders: a link may have come or gone."""
        self._folders.clear()

    # --- layers ----------------------------------------------------------------------------------------

    def left_alone(self, logical: str) -> bool:
        """Whether a path is never redirected."""
        return (
            not self.on
            or not logical
            or f"{logical}/".startswith(self._never)
            or "/__pycache__" in logical
            or within(logical, self._temporary)
        )

    def hidden(self, logical: str) -> bool:
        """Whether the script has removed what lies below at this path."""
        return within(logical, self._hidden)

    def above(self, logical: str) -> str | None:
        """Return the scratch version of a path, if there is one."""
        for base in self._bases:
            try:
                real.lstat(base + logical)
            except OSError:
                continue
            return base + logical
        return None

    def below(self, logical: str) -> int | None:
        """Return the file type of the user's version, None where there is none or it counts as removed."""
        return None if self.hidden(logical) else real.kind(logical)

    def kind(self, logical: str) -> int | None:
        """Return the file type a script should see."""
        above = self.above(logical)
        return real.kind(above) if above else self.below(logical)

    def actual(self, logical: str) -> str:
        """Return the file a reader must open."""
        if self.left_alone(logical):
            return logical
        above = self.above(logical)
        return above or (self._base + logical if self.hidden(logical) else logical)

    def reading(self, path: Any, dir_fd: int | None = None, *, follow: bool = True) -> str | None:
        """Return what to read instead of `path`; None where the path as it stands is right."""
        logical = self.logical(path, dir_fd, follow=follow)
        actual = self.actual(logical)
        return actual if actual != logical or self.astray(logical, dir_fd) else None

    def astray(self, logical: str, dir_fd: int | None) -> bool:
        """Whether the system would not find this path by the name the script gave."""
        return bool(logical) and (dir_fd is not None or bool(self.links) or self.displaced)

    def names(self, logical: str) -> dict[str, str]:
        """List a folder of the merged view: name → the folder that really holds it."""
        found: dict[str, str] = {}
        kind = self.kind(logical)
        if kind is None:
            raise real.error(errno.ENOENT, logical)
        if not st.S_ISDIR(kind):
            raise real.error(errno.ENOTDIR, logical)
        prefix = logical.rstrip("/")
        if self.below(logical) == st.S_IFDIR:
            for name in real.listdir(logical):
                if f"{prefix}/{name}" not in self._hidden and not name.startswith(journal.PREFIX):
                    found[name] = logical
        for base in self._bases:
            if real.kind(base + prefix) == st.S_IFDIR:
                found.update(dict.fromkeys(real.listdir(base + prefix), base + prefix))
        return found

    def base(self, logical: str) -> str:
        """Return the scratch folder on the file system of a path."""
        folder = os.path.dirname(logical)
        known = self._by_folder.get(folder)
        if known is not None:
            return known
        nearest = folder
        while real.kind(nearest) != st.S_IFDIR:
            nearest = os.path.dirname(nearest)
        device = real.stat(nearest).st_dev
        if device not in self._by_device:
            self._by_device[device] = self._new_base(nearest)
        self._by_folder[folder] = self._by_device[device]
        return self._by_folder[folder]

    def _new_base(self, nearest: str) -> str:
        path = f"{nearest.rstrip('/')}/{journal.PREFIX}{secrets.token_hex(4)}"
        try:
            if not real.access(nearest, os.W_OK | os.X_OK):
                raise real.error(errno.EACCES, nearest)
            journal.note(self.root, "scratch", path)
            real.mkdir(path, 0o700)
        except OSError as error:
            self.gap(
                "the cost of saving",
                f"what the script saves below {nearest} went to another file system, because a scratch "
                f"folder could not be made there ({error.strerror})",
                "make that folder writable, or observe the whole run: fitdoctor run --whole",
            )
            return self._base
        self._bases.append(path)
        self._never = (*self._never, f"{path}/")
        return path

    def gap(self, what: str, reason: str, remedy: str) -> None:
        """Record once what could not be done."""
        gap = Gap(what, reason, remedy)
        if gap not in self.gaps:
            self.gaps.append(gap)


def within(path: str, folders: set[str]) -> bool:
    """Whether a path or a folder above it is in a set."""
    if not folders:
        return False
    while path and path != "/":
        if path in folders:
            return True
        path = path.rpartition("/")[0]
    return False
