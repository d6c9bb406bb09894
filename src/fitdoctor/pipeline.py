"""The stages, composed: the only module that knows their order."""

from __future__ import annotations

import os

from fitdoctor.model import Report


def observe_child(boot: str) -> None:
    """Probes → capture → lab, inside a process made by `fitdoctor run`."""
    from fitdoctor.capture import session
    from fitdoctor.lab import bench

    session.start_child(boot, bench.run)


def diagnose_file(path: str | os.PathLike[str]) -> Report:
    """Capture → facts → rules → findings → report, anywhere, later, without a framework."""
    from fitdoctor import diagnosis
    from fitdoctor.capture import store

    return diagnosis.diagnose(store.read(path))
