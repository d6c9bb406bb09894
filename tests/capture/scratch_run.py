"""A user's folder, and a script's view of it."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from fitdoctor.capture.scratch import Scratch


class Run:
    """A user's folder, and a script's view of it."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        self.root = root
        self.training = False
        (folder / "data" / "deep").mkdir(parents=True)
        (folder / "log.txt").write_text("old\n")
        (folder / "data" / "a.txt").write_text("a")
        (folder / "data" / "b.txt").write_text("b")
        (folder / "data" / "deep" / "c.txt").write_text("c")
        (folder / "empty").mkdir()
        os.symlink("log.txt", folder / "link.txt")
        os.symlink("data", folder / "linked")
        self.before = self.snapshot()
        self.scratch = Scratch(root, lambda: self.training)

    def snapshot(self) -> dict[str, str]:
        found = {}
        for path in sorted(self.folder.rglob("*")):
            info = path.lstat()
            if stat.S_ISLNK(info.st_mode):
                content = f"-> {os.readlink(path)}"
            elif stat.S_ISDIR(info.st_mode):
                content = "folder"
            elif stat.S_ISFIFO(info.st_mode):
                content = "pipe"
            else:
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            mtime = info.st_mtime_ns if stat.S_ISREG(info.st_mode) else 0
            found[str(path.relative_to(self.folder))] = f"{content} {info.st_mode:o} {mtime}"
        return found

    def is_untouched(self) -> bool:
        self.scratch.uninstall()
        assert self.snapshot() == self.before
        return True
