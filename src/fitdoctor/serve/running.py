"""Keeping the server up until somebody stops it, and opening a browser on it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fitdoctor.serve.markup import el
from fitdoctor.serve.server import Server

NICENESS = 10


def until_stopped(server: Server, *, opened: bool) -> None:
    """Serve until Ctrl-C or a polite kill."""
    with contextlib.suppress(OSError, AttributeError):
        os.nice(NICENESS)  # a training on this machine comes first
    server.answers.diagnoses.start()
    try:
        with _polite_kill(), _browser(server.url if opened else None), contextlib.suppress(KeyboardInterrupt):
            server.serve_forever(poll_interval=0.2)
    finally:
        server.answers.diagnoses.stop()


@contextlib.contextmanager
def _polite_kill() -> Iterator[None]:
    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before: Any = None
    with contextlib.suppress(ValueError):  # not in the main thread
        before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _browser(url: str | None) -> Iterator[None]:
    """Open a browser by way of a file that only this user can read: command lines are seen by everybody."""
    if url is None:
        yield
        return
    folder = Path(tempfile.mkdtemp(prefix="fitdoctor-open-"))
    try:
        with contextlib.suppress(OSError, webbrowser.Error):
            file = folder / "open.html"
            refresh = el("meta", http_equiv="refresh", content=f"0; url={url}")
            file.write_text(f"<!doctype html>\n{refresh}{el('a', 'fitdoctor', href=url)}\n")
            webbrowser.open(file.as_uri())
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
