"""The observed process of `fitdoctor run`: what the launcher tells it, how it starts, how its end is noted."""

from __future__ import annotations

import atexit
import functools
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fitdoctor.capture import scratch as scratching
from fitdoctor.capture import store
from fitdoctor.capture.session import Experiments, Session
from fitdoctor.probes.install import ImportWatch, Patches, strip

BOOT_VARIABLE = "FITDOCTOR_BOOT"

Turn = Callable[[Mapping[str, Any], ImportWatch, Patches], None]
"""Gives a training other settings than its script does."""


@dataclass(frozen=True, slots=True)
class Boot:
    """What the launcher tells the child."""

    capture: str
    started_ns: int
    whole: bool
    steps: int | None
    budget: float
    redact: bool
    scratch: str | None
    script: str
    lab: bool = True
    sooner: list[str] = field(default_factory=list)
    aligned: bool = False
    settings: dict[str, Any] | None = None

    def dumps(self) -> str:
        """Write it for the environment of the child."""
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Boot:
        """Read it back."""
        return cls(**json.loads(text))


def start_child(text: str, experiments: Experiments | None, turn: Turn | None = None) -> None:
    """Begin observing in a process made by `fitdoctor run`; called before the script's first line."""
    boot = Boot.loads(text)
    writer = store.Writer.reopen(boot.capture)
    session = Session(
        writer,
        boot.started_ns,
        mode="whole" if boot.whole else "capped",
        steps=boot.steps,
        budget=boot.budget,
        redact=boot.redact,
        script=boot.script,
        aligned=boot.aligned,
    )
    _hook_exit(session)
    if boot.scratch is not None:
        _redirect(session, Path(boot.scratch))
    if boot.lab and not boot.whole and experiments is not None:
        session.experiments = functools.partial(experiments, sooner=tuple(boot.sooner)) if boot.sooner else experiments
    session.start()
    if boot.settings is not None and turn is not None:
        # After the probes: what they see of a call is what the training gets.
        turn(boot.settings, session.watch, session.patches)


def _hook_exit(session: Session) -> None:
    """Keep our frames out of the last traceback, and note how the script ended."""
    ended: dict[str, Any] = {"reason": "finished", "code": 0}
    previous = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, tb: Any) -> None:
        ended.update(reason="exception", code=1, error=kind.__name__)
        strip(error)
        previous(kind, error, error.__traceback__ or tb)

    sys.excepthook = excepthook

    def at_exit() -> None:
        session.recorder.meta(error=ended.get("error"))
        session.finish(str(ended["reason"]), None)

    atexit.register(at_exit)


def _redirect(session: Session, root: Path) -> None:
    """Send what the script saves to a scratch folder."""
    capture = session.writer.path
    keep = [capture, *(Path(f"{capture}{tail}") for tail in ("-wal", "-shm", "-journal"))]
    scratch = scratching.Scratch(root, lambda: session.tracker.current is not None, keep=keep)
    scratch.install()
    for module in sorted(scratching.WATCHED):
        session.watch.when(module, functools.partial(scratch.applied, module))
    session.tracker.on_training.append(scratch.training_began)
    told = 0

    def note() -> None:
        nonlocal told
        files = scratch.files()
        if len(files) != told:
            told = len(files)
            session.recorder.meta(redirected=files)
        for gap in scratch.gaps:
            session.recorder.gap(gap.what, gap.reason, gap.remedy)

    session.recorder.on_flush.append(note)
