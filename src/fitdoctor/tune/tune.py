"""The whole of it: the script as it is, the search, the proof of its winner."""

from __future__ import annotations

import functools
import hashlib
import os
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fitdoctor import backends
from fitdoctor.capture.cap import DEFAULT_STEPS
from fitdoctor.capture.launch import Options
from fitdoctor.errors import FitdoctorError, UsageError
from fitdoctor.model import Proof
from fitdoctor.proof.prove import prove
from fitdoctor.proof.runs import Run
from fitdoctor.tune import knobs, places
from fitdoctor.tune.attempt import Job, Look, Result, never
from fitdoctor.tune.executor import Executor
from fitdoctor.tune.knobs import Space
from fitdoctor.tune.search import Search, optuna
from fitdoctor.tune.seen import Seen
from fitdoctor.tune.settings import Settings
from fitdoctor.tune.trial import Trial, winner

SEARCHING = 0.6
"""The share of the time that the search may take; the rest is the proof's."""
LEAST_PATIENCE, PATIENCE = 60.0, 5.0
"""A run may take so many seconds, or so many times as long as the script by itself, to come to its first steps."""
OTHER_BATCHES = "batches are of another size: losses cannot be compared step by step"

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for."""

    options: Options
    trials: int
    budget: float
    unsafe: bool = False
    only: Collection[str] = ()
    resume: bool = False

    @property
    def identity(self) -> dict[str, Any]:
        """What a search has to have in common with another to be the same one."""
        given = self.options
        return {
            "command": [*(["-m"] if given.module else []), given.target, *given.args],
            "folder": os.path.realpath(os.getcwd()),
            "steps": given.steps,
            "unsafe": self.unsafe,
            "only": sorted(self.only),
        }


@dataclass(frozen=True, slots=True)
class Tuned:
    """What came of it."""

    command: tuple[str, ...]
    space: Space
    trials: tuple[Trial, ...]
    winner: Trial | None
    proof: Proof | None
    kept: Path
    """The search, to be resumed."""
    interrupted: bool = False
    unproved: str = ""
    """Why the proof could not be run."""

    @property
    def own(self) -> Trial:
        """The script as it is."""
        return self.trials[0]

    @property
    def proved(self) -> bool:
        """Whether something was found that is proved to be faster."""
        return self.proof is not None and self.proof.verdict == "PROVED"


def tune(
    wanted: Wanted, executor: Executor, *, tell: Tell = lambda text: None, clock: Callable[[], float] = time.monotonic
) -> Tuned:
    """Search and prove; what is known is returned also where it is interrupted."""
    optuna()
    work = _Work(wanted, executor, tell, clock)
    search, path = work.resumed() if wanted.resume else work.begun()
    interrupted, proof, unproved = False, None, ""
    try:
        work.search(search)
        best = winner(tuple(search.trials()))
        if best is not None:
            proof = work.prove(best, search)
    except KeyboardInterrupt:
        interrupted = True
    except CannotProve as error:
        unproved = error.problem
    trials = tuple(search.trials())
    command = tuple(wanted.identity["command"])
    return Tuned(command, search.space, trials, winner(trials), proof, path, interrupted, unproved)


class NoTraining(UsageError):  # noqa: N818 - what was found
    """The script by itself could not be measured."""


class CannotProve(FitdoctorError):  # noqa: N818
    """A run of the proof failed."""


class _Work:
    """What a search needs at every step of it."""

    def __init__(self, wanted: Wanted, executor: Executor, tell: Tell, clock: Callable[[], float]) -> None:
        self._wanted, self._executor, self._tell, self._clock = wanted, executor, tell, clock
        self._options = replace(wanted.options, steps=wanted.options.steps or DEFAULT_STEPS)
        self._begun = clock()
        self._name = uuid.uuid4().hex[:12]
        self._patience = float("inf")

    # --- the script as it is ----------------------------------------------------------------------

    def begun(self) -> tuple[Search, Path]:
        """Measure the script as it is, and begin a search with that."""
        wanted = self._wanted
        places.ready()
        self._tell("trial 0: as the script has it")
        result = self._run(Settings(), "own", never)
        if result.interrupted:
            raise KeyboardInterrupt
        if result.seen is None:
            raise NoTraining(
                f"{wanted.options.target} could not be measured: {result.failed}",
                do=f"try it: fitdoctor run {wanted.options.target}",
            )
        own = result.seen
        self._patience = max(LEAST_PATIENCE, PATIENCE * (self._clock() - self._begun))
        space = knobs.space(own, backends.installed(), unsafe=wanted.unsafe, only=wanted.only)
        path = places.new(wanted.identity, time.time())
        search = Search.begin(path, space, own)
        search.study.set_user_attr("patience", self._patience)
        search.study.set_user_attr("files", hashes(own.about.get("files") or ()))
        return search, path

    def resumed(self) -> tuple[Search, Path]:
        """Go on with the last search of this very command."""
        path = places.newest(self._wanted.identity)
        if path is None:
            raise UsageError(
                "there is no search of this very command, with the same options, to resume",
                do="begin one, without --resume",
            )
        search = Search.resume(path)
        then: Mapping[str, str] = search.study.user_attrs.get("files") or {}
        changed = [name for name, value in hashes(then).items() if value != then[name]]
        if changed:
            raise UsageError(f"{changed[0]} has changed since the search began", do="begin anew, without --resume")
        self._patience = float(search.study.user_attrs.get("patience") or LEAST_PATIENCE)
        self._tell(f"going on with {path}: {len(search.study.trials)} trials so far")
        return search, path

    # --- the search and the proof -----------------------------------------------------------------

    def search(self, search: Search) -> None:
        """Make trials."""
        if not search.space.knobs:
            return
        search.go(
            self._run,
            trials=self._wanted.trials,
            seconds=self._wanted.budget * SEARCHING - (self._clock() - self._begun),
            slots=self._executor.slots,
            cancel=self._executor.cancel,
            tell=self._tell,
            clock=self._clock,
        )

    def prove(self, best: Trial, search: Search) -> Proof:
        """Run the script with and without the best settings in turns, on one machine."""
        own, turned = search.own, best.settings.data()
        before = functools.partial(self._once, Settings(), own)
        after = functools.partial(self._once, best.settings, own)
        return prove(
            before,
            after,
            seconds=max(0.0, self._wanted.budget - (self._clock() - self._begun)),
            may_change=any(knob.safety != "same" for knob in search.space.knobs if knob.name in turned),
            incomparable=OTHER_BATCHES if best.settings.batch_size is not None else "",
            tell=lambda text: self._tell(f"proof of {best.settings}: {text}"),
            clock=self._clock,
        )

    def _once(self, settings: Settings, own: Seen, *, aligned: bool = False, steps: int | None = None) -> Run:
        name = uuid.uuid4().hex[:8]
        result = self._run(settings, name, never, aligned=aligned, steps=steps, together=True)
        if result.interrupted:
            raise KeyboardInterrupt
        if result.seen is None:
            raise CannotProve(f"a run of the proof failed ({settings}): {result.failed}")
        return result.seen.run_of(own)

    def _run(
        self,
        settings: Settings,
        name: str,
        look: Look,
        *,
        aligned: bool = False,
        steps: int | None = None,
        together: bool = False,
    ) -> Result:
        options = replace(self._options, steps=steps or self._options.steps)
        job = Job(f"{self._name}-{name}", options, settings, aligned, self._patience)
        return self._executor.run(job, look, together=together)


def hashes(files: Collection[str]) -> dict[str, str]:
    """Return what is in files, in short; nothing for one that is gone."""
    found = {}
    for name in files:
        try:
            found[name] = hashlib.sha256(Path(name).read_bytes()).hexdigest()
        except OSError:
            found[name] = ""
    return found
