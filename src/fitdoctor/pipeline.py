"""The stages, composed: the only module that knows their order.

probes → capture → lab → facts → rules → findings → fixes → proof → report
"""

from __future__ import annotations

import os
from collections.abc import Callable

from fitdoctor.capture import store
from fitdoctor.diagnose import diagnose
from fitdoctor.model import Capture, Report, Site


def diagnose_file(path: str | os.PathLike[str]) -> Report:
    """Read a capture and say what slows the run down; needs no framework."""
    return diagnose(store.read(path))


def open_capture(path: str | os.PathLike[str]) -> tuple[Report, Callable[[Site], list[str] | None]]:
    """Read a capture: its diagnosis, and the user's source lines as they were when it ran."""
    capture = store.read(path)
    return diagnose(capture), source_lines(capture)


def source_lines(capture: Capture) -> Callable[[Site], list[str] | None]:
    """Return a look-up of the lines of a site's file."""
    texts = {source.path: source.text for source in capture.sources}

    def lines(site: Site) -> list[str] | None:
        text = texts.get(site.path)
        # Not splitlines(): Python counts lines by newlines alone, not by form feeds and the like.
        return None if text is None else text.replace("\r\n", "\n").replace("\r", "\n").split("\n")

    return lines
