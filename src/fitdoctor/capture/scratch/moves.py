"""Renames and links across the two layers."""

from __future__ import annotations

import errno
import os
import stat as st

from fitdoctor.capture.scratch import real
from fitdoctor.capture.scratch.overlay import Overlay


def rename(files: Overlay, source: str, target: str) -> bool:
    """Move a file or folder within the merged view; False where it is to be moved as it stands."""
    with files.lock:
        kind = files.kind(source)
        if kind is None:
            raise real.error(errno.ENOENT, source)
        if source == target:
            return True
        alone = files.left_alone(target)
        above = None if files.left_alone(source) else files.above(source)
        own = above is None and (files.left_alone(source) or files.mine(source))
        if own and (alone or (files.above(target) is None and not files.redirects(target))):
            _rename_own(files, source, target)
            return False
        _check_target(files, kind, target)
        if not alone:
            files.check_parent(target)
        place = target if alone else files.room(target)
        below = files.below(source)
        users = below is not None and not own
        if users:
            if not real.access(os.path.dirname(source), os.W_OK | os.X_OK):
                raise real.error(errno.EACCES, source)
            above = _raised(files, source) if kind == st.S_IFDIR else (above or files.copied(source))
        real.rename(above or source, place)
        if users:
            files.hide(source)
        if files.below(target) == st.S_IFDIR and not alone:
            files.hide(target)
        files.own.discard(source)
        files.own_folders.discard(source)
        _move_links(files, source, target)
        files.forget_names()
        return True


def _rename_own(files: Overlay, source: str, target: str) -> None:
    for known in (files.own, files.own_folders):
        for path in [p for p in known if p == source or p.startswith(f"{source}/")]:
            known.discard(path)
            known.add(target + path[len(source) :])
    if not files.left_alone(target):
        files.own.add(target)
    files.forget_names()


def _check_target(files: Overlay, kind: int, target: str) -> None:
    """Raise what the system would raise for a file moved over a folder and the like."""
    existing = files.kind(target)
    if existing is None:
        return
    if kind == st.S_IFDIR and existing != st.S_IFDIR:
        raise real.error(errno.ENOTDIR, target)
    if kind != st.S_IFDIR and existing == st.S_IFDIR:
        raise real.error(errno.EISDIR, target)
    if existing == st.S_IFDIR and files.names(target):
        raise real.error(errno.ENOTEMPTY, target)


def _raised(files: Overlay, folder: str) -> str:
    """Bring all of a folder into the upper layer."""
    above = files.above(folder) or files.copied(folder)
    for name in files.names(folder):
        child = f"{folder}/{name}"
        if files.kind(child) == st.S_IFDIR:
            _raised(files, child)
        elif files.above(child) is None:
            files.copied(child)
    return above


def raised(files: Overlay, path: str) -> str:
    """Return a scratch folder that holds all of a merged folder, for readers outside Python."""
    logical = files.logical(path)
    with files.lock:
        if files.kind(logical) == st.S_IFDIR and not files.left_alone(logical):
            return _raised(files, logical)
    return files.forced(path)


def _move_links(files: Overlay, source: str, target: str) -> None:
    for path in [p for p in files.links if p == source or p.startswith(f"{source}/")]:
        files.links[target + path[len(source) :]] = files.links.pop(path)


def link(files: Overlay, source: str, target: str) -> bool:
    """Make a second name for a file; a copy where it is the user's, so that no write can reach it."""
    with files.lock:
        if files.kind(source) is None:
            raise real.error(errno.ENOENT, source)
        place = files.for_new(target)
        above = None if files.left_alone(source) else files.above(source)
        own = above is None and (files.left_alone(source) or files.mine(source))
        if own and place is None:
            files.claim(target)
            return False
        if place is None:
            place = files.room(target)
        if above or own:
            real.link(above or source, place, follow_symlinks=False)
        else:
            real.copy_file(source, place)
        return True


def symlink(files: Overlay, points_to: str, target: str) -> bool:
    """Make a link; False where it is to be made as it stands."""
    with files.lock:
        place = files.for_new(target)
        files.forget_names()
        if place is None:
            files.claim(target)
            return False
        real.symlink(points_to, place)
        files.links[target] = points_to
        return True
