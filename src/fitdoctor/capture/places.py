"""Where captures live when the user does not say.

`$FITDOCTOR_HOME`, else `$XDG_STATE_HOME/fitdoctor`, else `~/.local/state/fitdoctor`; captures in its
folder `runs`.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from fitdoctor.capture.store import SUFFIX
from fitdoctor.errors import UsageError


def home() -> Path:
    """Return the folder of everything fitdoctor keeps."""
    own = os.environ.get("FITDOCTOR_HOME")
    if own:
        return Path(os.path.abspath(os.path.expanduser(own)))
    state = os.environ.get("XDG_STATE_HOME", "")
    # The XDG specification: a relative path is invalid and has to be ignored.
    if os.path.isabs(state):
        return Path(state) / "fitdoctor"
    user = os.path.expanduser("~")
    if user == "~":  # as in a container, under a number that is nobody's
        raise UsageError("there is no home folder to keep captures in", do="name a folder in FITDOCTOR_HOME")
    return Path(os.path.abspath(user)) / ".local" / "state" / "fitdoctor"


def runs_folder() -> Path:
    """Return the folder of captures, which may not exist yet."""
    return home() / "runs"


def newest() -> Path | None:
    """Return the capture written last in the default folder."""
    return next(iter(_by_age(f"*{SUFFIX}")), None)


def newest_of(script_name: str) -> list[Path]:
    """Return the captures in the default folder that are named after a script or module, newest first."""
    return _by_age(f"*-{_safe(script_name)}*{SUFFIX}")


def _by_age(pattern: str) -> list[Path]:
    found = []
    for path in runs_folder().glob(pattern):
        try:
            found.append((path.stat().st_mtime_ns, path.name, path))
        except OSError:  # removed meanwhile
            continue
    return [path for _, _, path in sorted(found, reverse=True)]


def _safe(script_name: str) -> str:
    name = Path(script_name).name.removesuffix(".py")
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[:60] or "run"


def new_capture_path(script_name: str, now: float) -> Path:
    """Return a free path for a capture of this script or module, started at this unix time."""
    stem = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{_safe(script_name)}"
    path = runs_folder() / f"{stem}{SUFFIX}"
    number = 2
    while os.path.exists(path):
        path = runs_folder() / f"{stem}-{number}{SUFFIX}"
        number += 1
    return path
