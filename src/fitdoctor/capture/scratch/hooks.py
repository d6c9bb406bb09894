"""Python's own file functions, replaced: `open`, the path functions of `os`, and `tempfile`."""

from __future__ import annotations

import builtins
import errno
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.capture.scratch import moves, real, temporary
from fitdoctor.capture.scratch.folders import Entry, Scan
from fitdoctor.capture.scratch.overlay import Overlay
from fitdoctor.capture.scratch.patches import Patches

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_UNNAMED = getattr(os, "O_TMPFILE", 0)
_READERS = ("stat", "access", "statvfs", "getxattr", "listxattr")
_CHANGERS = ("truncate", "utime", "chmod", "chown", "setxattr", "removexattr", "chflags")
_LINK_READERS = ("lstat", "readlink")
_LINK_CHANGERS = ("lchmod", "lchown", "lchflags")
_MAKERS = ("mkfifo", "mknod")
_SUPPORTS = ("supports_dir_fd", "supports_fd", "supports_follow_symlinks", "supports_effective_ids")

Hook = Callable[..., Any]


def install(files: Overlay, patches: Patches) -> None:
    """Replace them all, wherever a module imported so far holds one of them."""
    hooks = _Hooks(files)
    replaced: dict[Any, Hook] = {}
    for name, make in hooks.table():
        original = getattr(os, name, None)
        if original is not None:
            replaced[original] = _like(original, make(original), "os")
    replaced[builtins.open] = _like(builtins.open, hooks.opening(builtins.open), "io")
    patches.everywhere(replaced)
    _announce(replaced, patches)
    temporary.install(files, patches)


def _like(original: Hook, hook: Hook, module: str) -> Hook:
    functools.update_wrapper(hook, original)
    hook.__module__ = module  # pickle finds functions by where they say they live
    return hook


def _only_reads(mode: Any) -> bool:
    return not isinstance(mode, str) or not ("w" in mode or "a" in mode or "+" in mode or "x" in mode)


def _announce(replaced: dict[Any, Hook], patches: Patches) -> None:
    """Keep promises such as `os.stat in os.supports_dir_fd` true."""
    for name in _SUPPORTS:
        supported = getattr(os, name)
        patches.put(os, name, supported | {hook for original, hook in replaced.items() if original in supported})


class _Hooks:
    """Makes each hook from the function it replaces."""

    def __init__(self, files: Overlay) -> None:
        self.files = files

    def table(self) -> Iterator[tuple[str, Callable[[Hook], Hook]]]:
        for name in (*_READERS, *_LINK_READERS):
            yield name, functools.partial(self.reading, follow=name in _READERS)
        for name in (*_CHANGERS, *_LINK_CHANGERS):
            yield name, functools.partial(self.changing, follow=name in _CHANGERS)
        for name in _MAKERS:
            yield name, self.making
        yield "open", self.opening_fd
        yield "mkdir", self.making_folder
        yield "remove", functools.partial(self.removing, folder=False)
        yield "unlink", functools.partial(self.removing, folder=False)
        yield "rmdir", functools.partial(self.removing, folder=True)
        yield "rename", self.renaming
        yield "replace", self.renaming
        yield "link", self.linking
        yield "symlink", self.symlinking
        yield "listdir", self.listing
        yield "scandir", self.scanning
        yield "chdir", self.moving_in
        yield "getcwd", self.where

    def planned(self, plan: Callable[..., Any], shown: Any, *args: Any, **kwargs: Any) -> Any:
        """Ask the layers what to do.  Whatever goes wrong in there, nothing of the user's is written."""
        try:
            return plan(*args, **kwargs)
        except OSError as error:
            if error.filename is not None:
                error.filename = shown
            raise
        except Exception as error:
            raise OSError(
                errno.EIO,
                f"fitdoctor could not redirect this write ({error!r}); nothing was written. "
                "Run with --whole to let the script write for real",
                shown,
            ) from error

    def apply(self, original: Hook, target: str, shown: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the replaced function on a scratch file, with the script's own name in its errors."""
        try:
            return original(target, *args, **kwargs)
        except OSError as error:
            if error.filename is not None:
                error.filename = shown
            raise

    def found(self, logical: str, dir_fd: int | None) -> str | None:
        """Return the path to use for something real, None where the script's own name leads there."""
        return logical if self.files.astray(logical, dir_fd) else None

    def reading(self, original: Hook, *, follow: bool) -> Hook:
        files = self.files

        def hook(path: Any, *args: Any, **kwargs: Any) -> Any:
            if not files.active or isinstance(path, int):
                return original(path, *args, **kwargs)
            try:
                links = follow and kwargs.get("follow_symlinks", True)
                target = files.reading(path, kwargs.get("dir_fd"), follow=links)
            except Exception:
                target = None
            if target is None:
                return original(path, *args, **kwargs)
            kwargs.pop("dir_fd", None)
            return self.apply(original, target, path, *args, **kwargs)

        return hook

    def changing(self, original: Hook, *, follow: bool) -> Hook:
        files = self.files

        def hook(path: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(path, int):
                return original(path, *args, **kwargs)
            links = follow and kwargs.get("follow_symlinks", True)
            logical = self.planned(files.logical, path, path, kwargs.get("dir_fd"), follow=links)
            target = self.planned(files.for_change, path, logical)
            target = target or self.found(logical, kwargs.get("dir_fd"))
            if target is None:
                return original(path, *args, **kwargs)
            kwargs.pop("dir_fd", None)
            return self.apply(original, target, path, *args, **kwargs)

        return hook

    def making(self, original: Hook) -> Hook:
        files = self.files

        def hook(path: Any, *args: Any, **kwargs: Any) -> Any:
            logical = self.planned(files.logical, path, path, kwargs.get("dir_fd"), follow=False)
            target = self.planned(files.for_new, path, logical)
            new = target is None
            target = target or self.found(logical, kwargs.get("dir_fd")) or path
            if target is not path:
                kwargs.pop("dir_fd", None)
            result = self.apply(original, target, path, *args, **kwargs)
            if new:
                files.claim(logical)
            return result

        return hook

    def making_folder(self, original: Hook) -> Hook:
        files = self.files

        def hook(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
            logical = self.planned(files.logical, path, path, dir_fd, follow=False)
            target = self.planned(files.for_new, path, logical)
            if target is not None:
                self.apply(original, target, path, mode)
                return
            found = self.found(logical, dir_fd)
            original(found or path, mode, dir_fd=None if found else dir_fd)
            files.made_folder(logical)

        return hook

    def removing(self, original: Hook, *, folder: bool) -> Hook:
        files = self.files

        def hook(path: Any, *, dir_fd: int | None = None) -> None:
            logical = self.planned(files.logical, path, path, dir_fd, follow=False)
            if not self.planned(files.remove, path, logical, folder=folder):
                found = self.found(logical, dir_fd)
                original(found or path, dir_fd=None if found else dir_fd)

        return hook

    def renaming(self, original: Hook) -> Hook:
        files = self.files

        def hook(src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
            source = self.planned(files.logical, src, src, src_dir_fd, follow=False)
            target = self.planned(files.logical, dst, dst, dst_dir_fd, follow=False)
            try:
                if not self.planned(moves.rename, src, files, source, target):
                    original(source, target)
            except OSError as error:
                error.filename, error.filename2 = src, dst
                raise

        return hook

    def linking(self, original: Hook) -> Hook:
        files = self.files

        def hook(
            src: Any,
            dst: Any,
            *,
            src_dir_fd: Any = None,
            dst_dir_fd: Any = None,
            follow_symlinks: bool = True,
        ) -> None:
            source = self.planned(files.logical, src, src, src_dir_fd, follow=follow_symlinks)
            target = self.planned(files.logical, dst, dst, dst_dir_fd, follow=False)
            if not self.planned(moves.link, src, files, source, target):
                original(source, target, follow_symlinks=follow_symlinks)

        return hook

    def symlinking(self, original: Hook) -> Hook:
        files = self.files

        def hook(src: Any, dst: Any, target_is_directory: bool = False, *, dir_fd: int | None = None) -> None:
            target = self.planned(files.logical, dst, dst, dir_fd, follow=False)
            if not self.planned(moves.symlink, dst, files, os.fsdecode(src), target):
                original(src, target, target_is_directory)

        return hook

    # --- opening ---------------------------------------------------------------------------------------

    def opening_fd(self, original: Hook) -> Hook:
        files = self.files

        def hook(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            writes = flags & _WRITES
            if (not writes and not files.active) or (_UNNAMED and flags & _UNNAMED == _UNNAMED):
                return original(path, flags, mode, dir_fd=dir_fd)  # type: ignore[no-any-return]
            return self.open_fd(original, path, flags, mode, dir_fd)

        return hook

    def open_fd(self, original: Hook, path: Any, flags: int, mode: int, dir_fd: int | None) -> int:
        files = self.files
        follow = not flags & os.O_NOFOLLOW
        fd: int
        if not flags & _WRITES:
            target = self.planned(files.reading, path, path, dir_fd, follow=follow)
            if target is None:
                fd = original(path, flags, mode, dir_fd=dir_fd)
            else:
                fd = self.apply(original, target, path, flags, mode)
            return fd
        logical = self.planned(files.logical, path, path, dir_fd, follow=follow)
        target = self.planned(files.for_open, path, logical, flags)
        if target is not None:
            fd = self.apply(original, target, path, flags, mode)
            return fd
        new = flags & os.O_CREAT and real.kind(logical) is None
        found = self.found(logical, dir_fd)
        fd = self.apply(original, found or path, path, flags, mode, dir_fd=None if found else dir_fd)
        if new and not files.left_alone(logical):
            files.claim(logical)
        return fd

    def opening(self, original: Hook) -> Hook:
        """Hook `open` by its own `opener`: name, errors and checks of the mode stay those of the real one."""
        files = self.files

        def ours(path: Any, flags: int) -> int:
            return self.open_fd(real.open_fd, path, flags, 0o666, None)

        def hook(
            file: Any,
            mode: str = "r",
            buffering: int = -1,
            encoding: str | None = None,
            errors: str | None = None,
            newline: str | None = None,
            closefd: bool = True,
            opener: Any = None,
        ) -> Any:
            if opener is None and not isinstance(file, int) and (files.active or not _only_reads(mode)):
                opener = ours
            return original(file, mode, buffering, encoding, errors, newline, closefd, opener)

        return hook

    # --- folders ---------------------------------------------------------------------------------------

    def _folder(self, path: Any) -> tuple[str, bool] | None:
        """Return the merged folder to list and whether its names are bytes; None to list it as it stands."""
        files = self.files
        if not files.active:
            return None
        if isinstance(path, int):
            logical = files.logical(real.fd_path(path))
        else:
            logical = files.logical("." if path is None else path)
        if files.left_alone(logical):
            return None
        return logical, isinstance(path, bytes)

    def listing(self, original: Hook) -> Hook:
        def hook(path: Any = None) -> Any:
            folder = self._folder(path)
            if folder is None:
                return original(path)
            logical, as_bytes = folder
            names = self.planned(self.files.names, path, logical)
            return [os.fsencode(name) for name in names] if as_bytes else list(names)

        return hook

    def scanning(self, original: Hook) -> Hook:
        def hook(path: Any = None) -> Any:
            folder = self._folder(path)
            if folder is None:
                return original(path)
            logical, as_bytes = folder
            names = self.planned(self.files.names, path, logical)
            if isinstance(path, int) or path is None:
                prefix = "" if isinstance(path, int) else "./"
            else:
                prefix = os.path.join(os.fsdecode(path), "")
            return Scan(self._entries(names, prefix, as_bytes))

        return hook

    def _entries(self, names: dict[str, str], prefix: str, as_bytes: bool) -> Iterator[Entry]:
        for folder in dict.fromkeys(names.values()):
            with real.scandir(folder) as entries:
                for entry in entries:
                    if names.get(entry.name) == folder:
                        yield Entry(entry, prefix, as_bytes)

    def moving_in(self, original: Hook) -> Hook:
        files = self.files

        def hook(path: Any) -> None:
            target = None
            if files.active and not isinstance(path, int):
                logical = files.logical(path)
                target = files.actual(logical)
                target = logical if files.below(logical) is not None else target
            original(path if target is None else target)
            files.displaced = files.displaced or target is not None

        return hook

    def where(self, original: Hook) -> Hook:
        files = self.files

        def hook() -> str:
            here: str = original()
            return files.shown(here) if files.displaced else here

        return hook
