"""The file functions as the interpreter came with them: the redirection itself calls these."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat as st
import sys

access = os.access
chdir = os.chdir
chmod = os.chmod
close = os.close
getcwd = os.getcwd
link = os.link
listdir = os.listdir
lstat = os.lstat
mkdir = os.mkdir
open_fd = os.open
readlink = os.readlink
rename = os.rename
rmdir = os.rmdir
scandir = os.scandir
stat = os.stat
symlink = os.symlink
unlink = os.unlink
utime = os.utime

_F_GETPATH = 50  # macOS: the path of an open file
_CHUNK = 1 << 20
_LINUX = sys.platform.startswith("linux")


def kind(path: str) -> int | None:
    """Return the file type bits of what lies at a path (a link is a link), or None where nothing is."""
    try:
        return st.S_IFMT(lstat(path).st_mode)
    except OSError:
        return None


def make_folders(path: str) -> None:
    """Make a folder and whatever is missing above it."""
    try:
        mkdir(path)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_folders(os.path.dirname(path))
        with contextlib.suppress(FileExistsError):
            mkdir(path)


def write_all(fd: int, data: bytes) -> None:
    """Write every byte."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def copy_file(source: str, target: str) -> None:
    """Copy content, mode and times; nothing is left behind where it fails."""
    src = open_fd(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        info = os.fstat(src)
        dst = open_fd(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _copy_bytes(src, dst)
            with contextlib.suppress(OSError):
                os.fchmod(dst, st.S_IMODE(info.st_mode))
                utime(dst, ns=(info.st_atime_ns, info.st_mtime_ns))
        except BaseException:
            with contextlib.suppress(OSError):
                unlink(target)
            raise
        finally:
            close(dst)
    finally:
        close(src)


def _copy_bytes(src: int, dst: int) -> None:
    ranged = getattr(os, "copy_file_range", None)
    try:
        while ranged is not None:
            if not ranged(src, dst, 1 << 30):
                # Some file systems answer zero for files with content: the plain loop below makes sure.
                break
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
    while chunk := os.read(src, _CHUNK):
        write_all(dst, chunk)


def remove_tree(path: str) -> None:
    """Remove a folder and all below it, as far as that is possible."""
    with contextlib.suppress(OSError):
        chmod(path, 0o700)
    try:
        with scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    remove_tree(entry.path)
                else:
                    with contextlib.suppress(OSError):
                        unlink(entry.path)
        rmdir(path)
    except OSError:
        pass


def fd_path(fd: int) -> str:
    """Return the path of an open folder."""
    if _LINUX:
        return readlink(f"/proc/self/fd/{fd}")
    return fcntl.fcntl(fd, _F_GETPATH, b"\0" * 1024).rstrip(b"\0").decode(errors="surrogateescape")


def error(number: int, path: str) -> OSError:
    """Build the exception the system would raise (the right subclass comes from the number)."""
    return OSError(number, os.strerror(number), path)
