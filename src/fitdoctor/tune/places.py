"""Where searches are kept: one SQLite file each, in the folder `searches` beside the captures."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fitdoctor.capture import places
from fitdoctor.errors import CannotWrite

SUFFIX = ".search"


def folder() -> Path:
    """Return the folder, which may not exist yet."""
    return places.home() / "searches"


def ready() -> None:
    """Make the folder, or say that a search cannot be kept there."""
    try:
        folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder()):
            pass
    except OSError as error:
        raise CannotWrite(
            f"searches cannot be kept in {folder()}: {error.strerror or error}",
            do="name a folder you can write to in FITDOCTOR_HOME",
        ) from error


def _stem(what: Mapping[str, Any]) -> str:
    told = json.dumps(what, sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def new(what: Mapping[str, Any], now: float) -> Path:
    """Return a free path for a search of `what`, begun at this unix time."""
    ready()
    stem = f"{_stem(what)}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}"
    path, number = folder() / f"{stem}{SUFFIX}", 2
    while path.exists():
        path, number = folder() / f"{stem}-{number}{SUFFIX}", number + 1
    return path


def newest(what: Mapping[str, Any]) -> Path | None:
    """Return the last search of the very same."""
    found = sorted(folder().glob(f"{_stem(what)}-*{SUFFIX}"), key=lambda path: (path.stat().st_mtime_ns, path.name))
    return found[-1] if found else None
