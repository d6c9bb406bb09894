"""What several commands share: which capture is meant, and where their answer goes."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from fitdoctor.errors import CannotWrite, UsageError

if TYPE_CHECKING:
    from fitdoctor.model import Report, Site
    from fitdoctor.report.page import Page

STDOUT = "-"


def chosen_capture(path: str | None) -> Path:
    """Return the capture the user named, or the newest one."""
    if path:
        return Path(path)
    from fitdoctor.capture import places

    newest = places.newest()
    if newest is None:
        raise UsageError(
            f"no capture was named and there is none in {places.runs_folder()}",
            do="make one with `fitdoctor run your_script.py`",
        )
    talk(f"reading the newest capture, {newest}")
    return newest


def talk(message: str) -> None:
    """Say something that is not the answer."""
    from fitdoctor.cli.main import say

    say(f"fitdoctor: {message}")


def show(report: Report, source_of: Callable[[Site], list[str] | None] | None, stream: TextIO) -> None:
    """Render a report for a person."""
    from rich.console import Console

    from fitdoctor.report.terminal import render

    render(report, Console(file=stream, highlight=False), source_of)
    stream.flush()


def columns(stream: TextIO) -> int | None:
    """Return how wide a terminal is; None: it is none, and lines may be as long as they are."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def lines(text: str, stream: TextIO) -> None:
    """Print plain text in the characters that are there; where it is a terminal, broken between words."""
    from fitdoctor.report.characters import harmless

    width = columns(stream)
    for line in text.split("\n"):
        line = harmless(line, getattr(stream, "encoding", None) or "utf-8")
        if width is not None and len(line) > width:
            # What follows hangs below the text beside a label, or a little.
            label = re.match(r" *\S+ {2,}", line)
            hang = label.end() if label else len(line) - len(line.lstrip()) + 2
            line = textwrap.fill(
                line, width, subsequent_indent=" " * min(hang, width // 2),
                break_on_hyphens=False, break_long_words=False,
            )  # fmt: skip
        print(line, file=stream)


def page() -> Page:
    """Return standard output as lines for a person."""
    from rich.console import Console

    from fitdoctor.report.page import Page

    return Page(Console(file=sys.stdout, highlight=False))


def check_writable(path: str | None) -> None:
    """Find out that an answer cannot be written before any work is done for it."""
    if path is None or path == STDOUT or _special(Path(path)):
        return
    target = Path(path)
    if os.path.isdir(target):
        raise CannotWrite(f"expected a file name for the output, found the folder {target}", do="name a file in it")
    try:
        with tempfile.TemporaryFile(dir=target.absolute().parent):
            pass
    except OSError as error:
        raise CannotWrite(
            f"cannot write {target}: {error.strerror or error}", do="name a file in a folder you can write to"
        ) from error


def write(text: str, path: str) -> None:
    """Write text as UTF-8 to a file, whole or not at all, or to standard output."""
    write_pieces((text,), path)


def write_pieces(pieces: Iterable[str], path: str) -> None:
    """Write text that comes in pieces, and is perhaps too long to be held as a whole, in the same way."""
    if path == STDOUT:
        sys.stdout.flush()
        sys.stdout.buffer.writelines(_encoded(pieces))
        sys.stdout.buffer.flush()
        return
    target = Path(path)
    try:
        if _special(target):
            with target.open("wb") as file:
                file.writelines(_encoded(pieces))
            return
        target = Path(os.path.realpath(target))  # a link stays a link
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with open(handle, "wb") as file:
                file.writelines(_encoded(pieces))
            os.chmod(temporary, _mode(target))
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise CannotWrite(
            f"cannot write {path}: {error.strerror or error}", do="name a file in a folder you can write to"
        ) from error


def _encoded(pieces: Iterable[str]) -> Iterator[bytes]:
    for text in pieces:
        yield text.encode("utf-8", "backslashreplace")


def _special(path: Path) -> bool:
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _mode(target: Path) -> int:
    if target.exists():
        return target.stat().st_mode & 0o7777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
