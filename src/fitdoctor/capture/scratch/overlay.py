"""What a write, a removal or a rename does when the user's files must stay as they are."""

from __future__ import annotations

import contextlib
import errno
import os
import stat as st
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from fitdoctor.capture.scratch import journal, real
from fitdoctor.capture.scratch.paths import Paths, within


class _Thread(threading.local):
    saving = 0
    """How many savers of a framework this thread is in: all it writes there is redirected."""
    temporary = 0
    """How many functions of `tempfile` this thread is in: what they make is left alone."""


def _after_fork(files: Overlay) -> None:
    """Give a forked worker a lock of its own: another thread may have held it at that moment."""
    known = weakref.ref(files)

    def renew() -> None:
        overlay = known()
        if overlay is not None:
            overlay.lock = threading.RLock()

    os.register_at_fork(after_in_child=renew)


class Overlay(Paths):
    """The two layers, and every way to change the upper one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.thread = _Thread()
        self.trained = False
        self.gone: dict[str, int] = {}
        """Redirected files that the script has removed again, with their size."""
        _after_fork(self)

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Redirect everything this thread writes."""
        self.thread.saving += 1
        try:
            yield
        finally:
            self.thread.saving -= 1

    @contextlib.contextmanager
    def temporary(self) -> Iterator[None]:
        """Leave alone what this thread makes."""
        self.thread.temporary += 1
        try:
            yield
        finally:
            self.thread.temporary -= 1

    def is_temporary(self, path: Any) -> None:
        """Leave a file or folder made by `tempfile` alone, and all that will be in it."""
        self._temporary.add(self.logical(path, follow=False))

    # --- decisions -------------------------------------------------------------------------------------

    def _busy(self) -> bool:
        """Whether every write is to be redirected: in training, in a saver, or after training (results)."""
        if self._in_training():
            self.trained = True
        return self.trained or self.thread.saving > 0

    def mine(self, logical: str) -> bool:
        """Whether the script made this itself, for real, so that it may change it for real."""
        if logical in self.own:
            return True
        return within(logical, self.own_folders) and not self._busy()

    def redirects(self, logical: str) -> bool:
        """Whether a write to a path that has no scratch version yet goes to the upper layer."""
        if self.thread.temporary or self.left_alone(logical) or logical in self.own:
            return False
        if self._busy() or self.hidden(logical):
            return True
        if real.kind(logical) is not None:
            return not within(logical, self.own_folders)
        parent = os.path.dirname(logical)
        return self.below(parent) is None and self.above(parent) is not None

    def check_parent(self, logical: str) -> None:
        """Raise what the system would raise if nothing could be made at this path."""
        parent = os.path.dirname(logical)
        kind = self.below(parent)
        above = self.above(parent)
        if above is None and kind is None:
            raise real.error(errno.ENOENT, logical)
        if kind == st.S_IFDIR and not real.access(parent, os.W_OK | os.X_OK):
            raise real.error(errno.EACCES, logical)
        if above is None and kind != st.S_IFDIR:
            raise real.error(errno.ENOTDIR, logical)

    def room(self, logical: str) -> str:
        """Return the scratch name of a path, with the folders that exist below mirrored above it."""
        target = self.base(logical) + logical
        missing = []
        folder = os.path.dirname(logical)
        while folder != "/" and real.kind(self.base(logical) + folder) is None:
            missing.append(folder)
            folder = os.path.dirname(folder)
        for folder in reversed(missing):
            if self.below(folder) != st.S_IFDIR:
                break
            with contextlib.suppress(FileExistsError):
                real.mkdir(self.base(logical) + folder)
        self.active = True
        return target

    def hide(self, logical: str) -> None:
        """Let the user's version count as removed."""
        self._hidden.add(logical)
        self.active = True
        self.forget_names()

    # --- files -----------------------------------------------------------------------------------------

    def forced(self, path: Any) -> str:
        """Return where a saver that is given a path must write instead."""
        logical = self.logical(path)
        if self.left_alone(logical):
            return os.fspath(path) if isinstance(path, str | os.PathLike) else os.fsdecode(path)
        with self.lock:
            return self.above(logical) or self.room(logical)

    def for_open(self, logical: str, flags: int) -> str | None:
        """Return what to open for writing instead of a path; None to open it as it stands."""
        with self.lock:
            if self.left_alone(logical):
                return None
            above = self.above(logical)
            if above:
                return above
            if not self.redirects(logical):
                return None
            below = self.below(logical)
            if below is None:
                if not flags & os.O_CREAT:
                    raise real.error(errno.ENOENT, logical)
                self.check_parent(logical)
                return self.room(logical)
            if below == st.S_IFDIR:
                raise real.error(errno.EISDIR, logical)
            if below != st.S_IFREG:
                return None  # pipes, sockets and devices hold nothing
            if flags & os.O_CREAT and flags & os.O_EXCL:
                raise real.error(errno.EEXIST, logical)
            if not real.access(logical, os.W_OK):
                raise real.error(errno.EACCES, logical)
            return self.copied(logical, empty=bool(flags & os.O_TRUNC))

    def claim(self, logical: str) -> None:
        """Remember a file the script has just made for real."""
        self.own.add(logical)

    def copied(self, logical: str, *, empty: bool = False) -> str:
        """Bring the user's version into the upper layer."""
        target = self.room(logical)
        below = self.below(logical)
        if below == st.S_IFDIR:
            if real.kind(target) is None:
                real.mkdir(target)
        elif below == st.S_IFLNK:
            real.symlink(real.readlink(logical), target)
            self.links[logical] = real.readlink(logical)
        elif empty:
            mode = st.S_IMODE(real.lstat(logical).st_mode)
            real.close(real.open_fd(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, mode))
        else:
            real.copy_file(logical, target)
        return target

    def for_change(self, logical: str) -> str | None:
        """Return what to change (mode, times, length) instead of a path; None to change it as it stands."""
        with self.lock:
            if self.left_alone(logical):
                return None
            above = self.above(logical)
            if above:
                return above
            below = self.below(logical)
            if below is None:
                raise real.error(errno.ENOENT, logical)
            if not self.redirects(logical) or below not in (st.S_IFREG, st.S_IFDIR, st.S_IFLNK):
                return None
            return self.copied(logical)

    def for_new(self, logical: str) -> str | None:
        """Return where to make something new; None to make it as it stands.  Raises if the name is taken."""
        with self.lock:
            if self.left_alone(logical) or self.thread.temporary:
                return None
            if self.kind(logical) is not None:
                raise real.error(errno.EEXIST, logical)
            if not self.redirects(logical):
                return None
            self.check_parent(logical)
            return self.room(logical)

    def made_folder(self, logical: str) -> None:
        """Remember a folder the script has just made for real."""
        if not self.thread.temporary and not self.left_alone(logical):
            self.own.add(logical)
            self.own_folders.add(logical)
            journal.note(self.root, "made", logical)

    def remove(self, logical: str, *, folder: bool) -> bool:
        """Remove a file or an empty folder from the merged view; False to remove it as it stands."""
        with self.lock:
            if self.left_alone(logical):
                return False
            above, below = self.above(logical), self.below(logical)
            if above is None and below is not None and self.mine(logical):
                self.own.discard(logical)
                self.own_folders.discard(logical)
                self.forget_names()
                return False
            kind = self.kind(logical)
            if kind is None:
                raise real.error(errno.ENOENT, logical)
            if folder and kind != st.S_IFDIR:
                raise real.error(errno.ENOTDIR, logical)
            if not folder and kind == st.S_IFDIR:
                raise real.error(errno.EISDIR, logical)
            if folder and self.names(logical):
                raise real.error(errno.ENOTEMPTY, logical)
            if below is not None and not real.access(os.path.dirname(logical), os.W_OK | os.X_OK):
                raise real.error(errno.EACCES, logical)
            self._drop(logical, above, below)
            return True

    def _drop(self, logical: str, above: str | None, below: int | None) -> None:
        if above:
            info = real.lstat(above)
            if st.S_ISDIR(info.st_mode):
                real.rmdir(above)
            else:
                self.gone[logical] = info.st_size
                real.unlink(above)
        self.links.pop(logical, None)
        if below is not None and self.mine(logical):
            self.own.discard(logical)
            self.own_folders.discard(logical)
            (real.rmdir if below == st.S_IFDIR else real.unlink)(logical)
        elif below is not None:
            self.hide(logical)
        self.forget_names()

    def found(self) -> list[dict[str, Any]]:
        """List what was redirected: the path the script used, and bytes."""
        sizes = dict(self.gone)
        for base in self._bases:
            pending = [base]
            while pending:
                folder = pending.pop()
                with contextlib.suppress(OSError), real.scandir(folder) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(entry.path)
                        else:
                            sizes[self.shown(entry.path)] = entry.stat(follow_symlinks=False).st_size
        return [{"path": path, "bytes": size} for path, size in sorted(sizes.items())]
