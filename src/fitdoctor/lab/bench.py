"""The experiments of a capped run, once `fit` was unwound.

Each changes one thing on the user's own model and data and compares it with the unchanged step in turns.  The process
ends afterwards, so nothing has to be put back for the script; each experiment still starts from the same weights.
"""

from __future__ import annotations

from typing import Any


def run(session: Any, call: Any, model: Any) -> None:
    """Run the experiments that could change the diagnosis of this run."""
    from fitdoctor.lab import compiled

    compiled.experiment(session.recorder, call, model)
