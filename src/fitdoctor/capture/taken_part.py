"""What took part in a run: the user's own files and the versions of what they stand on."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from fitdoctor._version import __version__
from fitdoctor.capture import overlay
from fitdoctor.probes.distributions import DISTRIBUTIONS, PLUGINS
from fitdoctor.probes.install import is_users

PACKAGES = (
    "keras",
    *(name for names in DISTRIBUTIONS.values() for name in names),
    *PLUGINS,
    "grain",
    "numpy",
    "tf-keras",
)
MAX_SOURCE = 1_000_000
"""Longer files are named by their hash alone."""


def versions() -> dict[str, str]:
    """Return the versions of Python, fitdoctor and the packages that training stands on."""
    found = {"python": sys.version.split()[0], "fitdoctor": __version__}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def sources(script: str, redact: bool) -> Iterable[tuple[str, str, str | None]]:
    """Yield path, hash and text of the user's own files that took part."""
    # At exit Python has already forgotten where `__main__` came from.
    files = {os.path.abspath(script)} if script.endswith(".py") else set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(".py") and is_users(file):
            files.add(os.path.abspath(file))
    for file in sorted(files):
        try:
            data = overlay.data_of(file) or Path(file).read_bytes()
        except OSError:
            continue
        text = None if redact or len(data) > MAX_SOURCE else data.decode("utf-8", "surrogateescape")
        yield file, hashlib.sha256(data).hexdigest(), text
