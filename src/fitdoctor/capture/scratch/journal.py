"""What must be removed after the run, written down as it comes to be: any death of the run is covered."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from fitdoctor.capture.scratch import real

PREFIX = ".fitdoctor-scratch-"
FILES = "files"
JOURNAL = "journal"


def note(root: str, what: str, path: str) -> None:
    """Append one line."""
    line = json.dumps({what: path}) + "\n"
    fd = real.open_fd(f"{root}/{JOURNAL}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        real.write_all(fd, line.encode())
    finally:
        real.close(fd)


def cleanup(root: Path | str) -> None:
    """Remove every scratch folder of a run that has ended, however it ended.

    `root` is the folder given to `Scratch`, or the journal in it.  Folders the script made and left empty (it
    made them to save into, and what it saved was redirected) go too.  Safe to call twice.
    """
    folder = Path(root)
    if folder.name == JOURNAL and not folder.is_dir():
        folder = folder.parent
    made: list[str] = []
    with contextlib.suppress(OSError), (folder / JOURNAL).open(encoding="utf-8") as lines:
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # the process died while writing this line, so before making what it names
            if "scratch" in entry and os.path.basename(entry["scratch"]).startswith(PREFIX):
                real.remove_tree(entry["scratch"])
            elif "made" in entry:
                made.append(entry["made"])
    for path in reversed(made):
        with contextlib.suppress(OSError):
            real.rmdir(path)
    real.remove_tree(str(folder / FILES))
    with contextlib.suppress(OSError):
        real.unlink(str(folder / JOURNAL))
    with contextlib.suppress(OSError):
        real.rmdir(str(folder))
