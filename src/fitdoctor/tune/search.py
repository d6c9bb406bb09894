"""The search itself is Optuna's: which settings come next, which runs are hopeless, what is kept.

Every trial is in an SQLite file from its first moment on, so that a search can be resumed.  Its value is the time of
the whole training, projected, for as many samples as the script's own has; while it runs, that of its steady steps.
"""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fitdoctor.errors import UsageError
from fitdoctor.tune.attempt import CHUNKS, Look, Result
from fitdoctor.tune.knobs import Space, Value
from fitdoctor.tune.seen import Seen
from fitdoctor.tune.settings import Settings
from fitdoctor.tune.trial import State, Trial

SEED = 20240229
NAME = "tune"
BEFORE_STOPPING = 2
"""So many trials are measured, the script's own among them, and so many parts of a run, before it is stopped early."""
ASKED_AGAIN = 4
"""Of so many proposals for each trial that is wanted, some may be what was tried already."""

Runner = Callable[[Settings, str, Look], Result]
"""Makes a run with these settings, under this name."""


class Failed(Exception):  # noqa: N818 - what became of a trial
    """A run did not train."""


def optuna() -> Any:
    """Return the library, or say how to get it."""
    try:
        import optuna as library
    except ImportError as error:
        raise UsageError(f"fitdoctor tune needs Optuna: {error}", do="pip install 'fitdoctor[tune]'") from error
    library.logging.set_verbosity(library.logging.ERROR)
    warnings.filterwarnings("ignore", category=library.exceptions.ExperimentalWarning)
    return library


def open_study(path: Path, *, new: bool) -> Any:
    """Return the study that is kept in a file."""
    library = optuna()
    storage = library.storages.RDBStorage(f"sqlite:///{path}", engine_kwargs={"connect_args": {"timeout": 60}})
    if new:
        return library.create_study(study_name=NAME, storage=storage, direction="minimize")
    try:
        return library.load_study(study_name=NAME, storage=storage)
    except KeyError as error:
        raise UsageError(f"{path} holds no search", do="begin anew, without --resume") from error


@dataclass
class Search:
    """A study, the space it searches and what the script does by itself."""

    study: Any
    space: Space
    own: Seen

    @classmethod
    def begin(cls, path: Path, space: Space, own: Seen) -> Search:
        """Keep what the script does by itself as the first trial of a new search."""
        library = optuna()
        study = open_study(path, new=True)
        study.set_user_attr("space", space.data())
        steady = own.step_s.mid / (own.batch or 1.0) * own.work
        study.add_trial(
            library.trial.create_trial(
                params=space.own,
                distributions={
                    knob.name: library.distributions.CategoricalDistribution(knob.values) for knob in space.knobs
                },
                value=own.training_of(own),
                intermediate_values=dict.fromkeys(range(1, CHUNKS + 1), steady),
                user_attrs={"seen": own.data()},
            )
        )
        return cls(study, space, own)

    @classmethod
    def resume(cls, path: Path) -> Search:
        """Go on with a search; trials that were under way when it ended are made again."""
        library = optuna()
        study = open_study(path, new=False)
        if not study.trials:
            raise UsageError(f"{path} holds no trial", do="begin anew, without --resume")
        found = cls(study, Space.of(study.user_attrs["space"]), Seen.of(study.trials[0].user_attrs["seen"]))
        again = _made_again(study)
        for trial in study.trials:
            cut_short = bool(trial.user_attrs.get("interrupted")) and trial.number not in again
            if trial.state == library.trial.TrialState.RUNNING:
                study._storage.set_trial_user_attr(trial._trial_id, "interrupted", True)
                study.tell(trial.number, state=library.trial.TrialState.FAIL)
                cut_short = True
            if cut_short and trial.params:
                study.enqueue_trial(trial.params, user_attrs={"again": trial.number})
        return found

    # --- searching --------------------------------------------------------------------------------

    def go(
        self,
        run: Runner,
        *,
        trials: int,
        seconds: float = float("inf"),
        slots: int = 1,
        cancel: Callable[[], None] = lambda: None,
        tell: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make trials until there are so many, all was tried, or the time is up."""
        library = optuna()
        wanted = min(trials, self.space.size - 1)
        if self._made() >= wanted:
            return
        small = self.space.size <= trials + 1
        self.study.sampler = (
            library.samplers.BruteForceSampler(seed=SEED)
            if small
            else library.samplers.TPESampler(
                seed=SEED + len(self.study.trials), n_startup_trials=max(3, trials // 3), constant_liar=slots > 1
            )
        )
        self.study.pruner = library.pruners.MedianPruner(
            n_startup_trials=BEFORE_STOPPING, n_warmup_steps=BEFORE_STOPPING
        )
        deadline = clock() + seconds
        most = ASKED_AGAIN * trials + len(self.study.trials)

        def over() -> bool:
            return self._made() >= trials or len(self.study.trials) >= most or clock() >= deadline

        def enough(study: Any, trial: Any) -> None:
            if over():
                study.stop()

        def objective(trial: Any) -> float:
            return self._objective(trial, run, tell)

        def optimize() -> None:
            while True:
                made = self._made()
                self.study.optimize(objective, n_jobs=slots, callbacks=[enough], catch=(Failed,))
                # Of several at a time the last may end it while another has yet to choose among what is left.
                if over() or not made < self._made() < wanted:
                    return

        if slots == 1:
            optimize()
        else:
            _beside(optimize, cancel)

    def _objective(self, trial: Any, run: Runner, tell: Callable[[str], None]) -> float:
        library = optuna()
        settings = self.space.settings(self._choose(trial))
        before = self._same(trial)
        if before is not None:
            trial.set_user_attr("same as", before.number)
            if before.value is None or before.state != library.trial.TrialState.COMPLETE:
                raise library.TrialPruned
            return float(before.value)
        tell(f"trial {trial.number}: {settings}")
        each = settings.batch_size or self.own.batch or 1.0
        told: set[int] = set()

        def value(step_s: float) -> float:
            return step_s / each * self.own.work

        def look(chunk: int, step_s: float) -> bool:
            if chunk < 1 or chunk in told:
                return False
            told.add(chunk)
            trial.report(value(step_s), chunk)
            # What is over cannot be stopped.
            return chunk < CHUNKS and bool(trial.should_prune())

        try:
            result = run(settings, f"trial{trial.number}", look)
        except KeyboardInterrupt:
            trial.set_user_attr("interrupted", True)
            raise
        if result.node:
            trial.set_user_attr("node", result.node)
        if result.interrupted:
            trial.set_user_attr("interrupted", True)
            raise KeyboardInterrupt
        if result.stopped:
            raise library.TrialPruned
        if result.seen is None:
            trial.set_user_attr("failed", result.failed)
            raise Failed(result.failed)
        trial.set_user_attr("seen", result.seen.data())
        for chunk in set(range(1, CHUNKS + 1)) - told:
            # It was over between two looks.
            trial.report(value(result.seen.step_s.mid), chunk)
        return result.seen.training_of(self.own)

    def _choose(self, trial: Any) -> dict[str, Value]:
        """Let the library choose, the backend first: some knobs are not there on every one."""
        chosen: dict[str, Value] = {}
        for knob in sorted(self.space.knobs, key=lambda each: each.name != "backend"):
            if self.space.applies(knob.name, chosen.get("backend", self.space.backend)):
                chosen[knob.name] = trial.suggest_categorical(knob.name, knob.values)
        return chosen

    def _same(self, trial: Any) -> Any:
        """Return an earlier trial of the very same settings."""
        for each in self.study.get_trials(deepcopy=False):
            other = each.number != trial.number and each.state.is_finished()
            if other and each.params == trial.params and _counts(each):
                return each
        return None

    # --- what is known ----------------------------------------------------------------------------

    def _made(self) -> int:
        """Count the trials beside the script's own."""
        return sum(_counts(each) and each.state.is_finished() for each in self.study.get_trials(deepcopy=False)[1:])

    def trials(self) -> Iterator[Trial]:
        """Yield what was tried, in order."""
        states = optuna().trial.TrialState
        again = _made_again(self.study)
        for each in self.study.get_trials(deepcopy=False):
            unknown = each.number > 0 and not each.params
            if each.state == states.WAITING or "same as" in each.user_attrs or unknown:
                continue
            given = each.user_attrs
            state: State = "own" if each.number == 0 else "measured"
            if given.get("interrupted") or each.state == states.RUNNING:
                if each.number in again:
                    continue
                state = "interrupted"
            elif each.state == states.PRUNED:
                state = "stopped early"
            elif each.state == states.FAIL:
                state = "failed"
            yield Trial(
                number=each.number,
                settings=self.space.settings(each.params),
                state=state,
                seen=Seen.of(given["seen"]) if "seen" in given else None,
                training_s=float(each.value) if state in ("own", "measured") else None,
                why=str(given.get("failed") or _how_far(each.intermediate_values, self.own, state)),
                node=str(given.get("node") or ""),
            )


def _how_far(values: Mapping[int, float], own: Seen, state: State) -> str:
    """Say why a trial was stopped."""
    if state != "stopped early" or not values:
        return ""
    last = max(values)
    steady = own.step_s.mid / (own.batch or 1.0) * own.work
    return f"after {last} of {CHUNKS} parts, at {steady / values[last]:.2f} times the script's own speed"


def _made_again(study: Any) -> set[int]:
    """Return the numbers of trials that were cut short and are made again by others."""
    return {each.user_attrs["again"] for each in study.get_trials(deepcopy=False) if "again" in each.user_attrs}


def _counts(trial: Any) -> bool:
    return "same as" not in trial.user_attrs and not trial.user_attrs.get("interrupted")


def _beside(work: Callable[[], None], cancel: Callable[[], None]) -> None:
    """Do the work on a thread, so that Ctrl-C is heard while runs are under way elsewhere."""
    raised: list[BaseException] = []

    def do() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=do, name="fitdoctor-search", daemon=True)
    thread.start()
    interrupted = False
    while thread.is_alive():
        try:
            thread.join(0.2)
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
            cancel()
    if interrupted:
        raise KeyboardInterrupt
    with contextlib.suppress(IndexError):
        raise raised[0]
