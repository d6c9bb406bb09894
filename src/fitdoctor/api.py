"""fitdoctor from code: watch a block, a `fit`, or the turns of a hand-written loop."""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fitdoctor.errors import FitdoctorError, UsageError
from fitdoctor.model import Checked, Proof, Report

if TYPE_CHECKING:
    from fitdoctor.capture.session import Session
    from fitdoctor.fixes.plan import Plan
    from fitdoctor.pipeline import SourceOf
    from fitdoctor.rewrites.optimized import Optimized

T = TypeVar("T")


class Watch:
    """A running observation of this process; `report` is there once it has ended."""

    def __init__(
        self,
        capture: str | os.PathLike[str] | None = None,
        *,
        show: bool = True,
        steps: int | None = None,
        budget: float | None = None,
        script: str | None = None,
    ) -> None:
        self._wanted = capture
        self._show = show
        self._steps, self._budget = steps, budget
        self._script = (sys.argv[0] if sys.argv else "") if script is None else script
        """What is run, where it is not what Python was started with."""
        self._owned: Session | None = None
        self.capture: Path | None = None
        self.report: Report | None = None
        self.source_of: SourceOf | None = None
        """Gives the lines of a site's file as they were, once it has ended."""

    def start(self) -> Watch:
        """Begin to observe, unless somebody does already (`fitdoctor run`, an outer watch)."""
        from fitdoctor.capture import places, session, store
        from fitdoctor.probes import recorder

        if recorder.current() is not None:
            return self
        name = Path(self._script).stem or "session"
        self.capture = Path(self._wanted) if self._wanted else places.new_capture_path(name, time.time())
        writer = store.Writer(self.capture)
        writer.meta(
            {
                "command": sys.argv if sys.argv[:1] == [self._script] else [],
                "script": os.path.abspath(self._script) if self._script else "",
                "cwd": os.getcwd(),
            }
        )
        self._owned = session.Session(writer, time.perf_counter_ns(), mode="watch", script=self._script)
        if self._steps is not None or self._budget is not None:
            self._owned.watch_only(self._steps, self._budget)
        self._owned.start()
        return self

    def keep_source(self, path: str, text: str) -> None:
        """Keep code that stands in no file, such as a notebook's cell, as a source of the run."""
        if self._owned is not None:
            import hashlib

            from fitdoctor.capture import store

            digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
            self._owned.recorder.put("sources", path, store.source_row(path, digest, text))

    def stop(self) -> Report | None:
        """End the observation and diagnose it."""
        owned, self._owned = self._owned, None
        if owned is None or self.capture is None:
            return self.report
        from fitdoctor import pipeline
        from fitdoctor.capture import store

        owned.detach()
        owned.finish("finished", None)
        store.Writer.reopen(self.capture).seal()
        try:
            self.report, self.source_of = pipeline.open_capture(self.capture)
        except FitdoctorError as error:
            sys.stderr.write(f"fitdoctor: {error}\n")
            return None
        pipeline.keep_summary(self.capture, self.report)
        if self._show:
            from rich.console import Console

            from fitdoctor.report import terminal

            # Talk goes to stderr: the script's stdout is its own.
            terminal.render(self.report, Console(stderr=True), self.source_of)
        return self.report

    def __enter__(self) -> Watch:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def watch(
    capture: str | os.PathLike[str] | None = None,
    *,
    show: bool = True,
    steps: int | None = None,
    budget: float | None = None,
) -> Watch:
    """Observe what happens inside a `with` block and say where the time went.

    ::

        with fitdoctor.watch() as seen:
            model.fit(x, y)
        seen.report.headline

    `capture` names the file to keep (by default a new one in fitdoctor's own folder), `show=False` prints nothing.
    After `steps` steady steps, or `budget` seconds of training, it lets go: the training goes on, unobserved.
    """
    if steps is not None and steps < 1:
        raise UsageError(f"steps needs a whole number above 0, got {steps}")
    if budget is not None and not budget > 0:
        raise UsageError(f"budget needs a number of seconds above 0, got {budget}")
    return Watch(capture, show=show, steps=steps, budget=budget)


def steps(data: Iterable[T]) -> Iterator[T]:
    """Iterate over `data`, telling fitdoctor that each turn of the loop is one training step.

    Needed only for hand-written loops that are not recognised by themselves.  Outside of `fitdoctor run` and `watch` it
    starts an observation of its own, reported when the program ends.
    """
    from fitdoctor.capture import session as sessions
    from fitdoctor.probes import recorder

    if recorder.current() is None:
        atexit.register(Watch().start().stop)
    session = sessions.current()
    if session is None:
        yield from data
        return
    yield from session.loops.steps(data)


def _repr_html(report: Report) -> str:
    """Return a report as a notebook shows it."""
    from fitdoctor.report.html import notebook

    return notebook.fragment(report)


# Given here and not in `model.py`, which imports nothing: whoever gets a report from code gets it through this module.
Report._repr_html_ = _repr_html  # type: ignore[attr-defined]


def __getattr__(name: str) -> Any:
    if name == "Callback":
        return _callback_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _callback_class() -> type:
    """Build the callback class on first use: only then is Keras needed."""
    existing = globals().get("_Callback")
    if existing is not None:
        return existing  # type: ignore[no-any-return]
    import keras

    from fitdoctor.capture import session as sessions

    class Callback(keras.callbacks.Callback):  # type: ignore[misc]
        """Observe one `fit` and report when it ends: ``model.fit(..., callbacks=[fitdoctor.Callback()])``.

        It overrides no batch hook, so that Keras dispatches the user's callbacks as it would without it.
        `tensorboard` names a folder for TensorBoard: where a step's time goes as scalars, the findings as text.
        """

        async_safe = True

        def __init__(
            self,
            capture: str | os.PathLike[str] | None = None,
            *,
            show: bool = True,
            tensorboard: str | os.PathLike[str] | None = None,
        ) -> None:
            super().__init__()
            self._board = None if tensorboard is None else _board(tensorboard)
            self._watch = Watch(capture, show=show).start()
            self._training = False
            session = sessions.current()
            if session is not None and self._watch.capture is not None:
                session.fit.after_fit.append(self._stop)
            elif self._board is not None:
                sys.stderr.write("fitdoctor: somebody watches already and will report: nothing goes to TensorBoard\n")

        def _stop(self) -> None:
            if self._training:
                report = self._watch.stop()
                if self._board is not None and report is not None and self._watch.capture is not None:
                    _write_board(report, self._watch.capture, self._board)

        @property
        def report(self) -> Report | None:
            """The diagnosis, once training has ended."""
            return self._watch.report

        @property
        def capture(self) -> Path | None:
            """The capture file."""
            return self._watch.capture

        def on_train_begin(self, logs: Any = None) -> None:
            """Note that the `fit` which now begins is ours; its report comes when it has returned."""
            self._training = True

    Callback.__module__ = "fitdoctor"
    globals()["_Callback"] = Callback
    return Callback


def _board(folder: str | os.PathLike[str]) -> Path:
    """Find out that nothing can be written for TensorBoard before the training begins."""
    from fitdoctor.report import tensorboard

    return tensorboard.checked(Path(folder))


def _write_board(report: Report, capture: Path, folder: Path) -> None:
    """Write it; what goes wrong now is said, and leaves the training alone."""
    from fitdoctor.capture import store
    from fitdoctor.report import tensorboard

    try:
        tensorboard.write(report, store.read(capture), folder)
    except (FitdoctorError, OSError) as error:
        sys.stderr.write(f"fitdoctor: nothing was written for TensorBoard: {error}\n")


def run(
    script: str | os.PathLike[str],
    *args: str,
    whole: bool = False,
    steps: int | None = None,
    budget: float | None = None,
    capture: str | os.PathLike[str] | None = None,
    lab: bool = True,
    backends: bool = False,
) -> Report | None:
    """Run a script as `fitdoctor run` does and return the diagnosis, None if no training was seen."""
    from fitdoctor import pipeline
    from fitdoctor.capture.cap import DEFAULT_BUDGET
    from fitdoctor.capture.launch import Options, launch

    if whole and backends:
        raise UsageError(
            "backends=True needs a run that may be stopped and started again: not whole=True", do="drop one"
        )
    options = Options(
        target=os.fspath(script),
        args=args,
        whole=whole,
        steps=steps,
        budget=DEFAULT_BUDGET if budget is None else budget,
        capture=None if capture is None else Path(capture),
        quiet=True,
        lab=lab,
    )
    ended = launch(options, lambda text: None)
    if ended.capture is None or not ended.training_seen:
        return None
    if backends and not ended.interrupted:
        pipeline.try_backends(options, ended.capture, lambda text: None)
    report = pipeline.diagnose_file(ended.capture)
    pipeline.keep_summary(ended.capture, report)
    return report


def diagnose(capture: str | os.PathLike[str]) -> Report:
    """Diagnose a capture file written earlier, on any machine."""
    from fitdoctor import pipeline

    return pipeline.diagnose_file(capture)


def fix(
    capture: str | os.PathLike[str],
    *,
    apply: bool = False,
    unsafe: bool = False,
    only: Iterable[str] = (),
) -> Plan:
    """Return what `fitdoctor fix` would change for a recorded run, each fix with its diff; `apply=True` writes it.

    ::

        plan = fitdoctor.fix("run.fitdoctor")
        print(*(item.fix.diff for item in plan.ready))

    Only what leaves results as they are, unless `unsafe=True`; `only` names rules.  `fitdoctor fix --undo` takes back
    what was written.
    """
    from fitdoctor import pipeline
    from fitdoctor.fixes import writing
    from fitdoctor.fixes.plan import Wanted

    plan = pipeline.plan_fixes(capture, Wanted(unsafe, frozenset(only)))
    if apply:
        writing.apply(plan)
    return plan


def prove(
    before: str | os.PathLike[str],
    after: str | os.PathLike[str],
    *args: str,
    steps: int | None = None,
    budget: float = 600.0,
    may_change: bool = False,
) -> Proof:
    """Run two versions of a script in turns, as `fitdoctor prove` does, and return what that shows.

    ::

        proof = fitdoctor.prove("train.py", "train_faster.py")
        print(proof.verdict, proof.speedup)
    """
    from fitdoctor import pipeline

    scripts = [os.fspath(each) for each in (before, after)]
    return pipeline.prove_scripts(*scripts, args=args, steps=steps, budget=budget, may_change=may_change)


def check(
    *paths: str | os.PathLike[str],
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> Checked:
    """Look for suspicious patterns in source files, as `fitdoctor check` does, without running or importing them.

    ::

        for spot in fitdoctor.check("src").spots:
            print(spot.where, spot.suspicion.rule, spot.suspicion.why)
    """
    from fitdoctor.checking.whole import check_paths

    return check_paths([os.fspath(path) for path in paths], select=select, ignore=ignore, exclude=exclude)


def optimize(
    dataset: Any,
    *,
    unsafe: bool = False,
    budget: float = 60.0,
    cache_dir: str | os.PathLike[str] | None = None,
) -> Optimized:
    """Return an input that gives the same data faster, with an explanation: for a `tf.data` pipeline, or a loader.

    ::

        data = fitdoctor.optimize(data).dataset
        model.fit(data)

    What could be better is tried out in turns with the pipeline as it is, for `budget` seconds in all, and kept only
    where it is faster and its batches were equal over two epochs.  Where Python functions or state are involved
    nothing is read or changed unless `unsafe=True` says that this may be; then also changes that draw random numbers in
    another order are tried.  A cache that does not fit into memory is written to `cache_dir`, if there is one.

    A `keras.utils.PyDataset` or a torch `DataLoader` comes back with the workers that make it fastest.
    """
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None and isinstance(dataset, tensorflow.data.Dataset):
        from fitdoctor.rewrites.optimizing import optimize_dataset

        folder = None if cache_dir is None else os.fspath(cache_dir)
        return optimize_dataset(dataset, unsafe=unsafe, budget=budget, cache_dir=folder)
    from fitdoctor.rewrites.loader_copies import is_dataloader, is_pydataset

    if is_pydataset(dataset) or is_dataloader(dataset):
        from fitdoctor.rewrites.workers import optimize_loader

        return optimize_loader(dataset, unsafe=unsafe, budget=budget)
    kind = f"{type(dataset).__module__}.{type(dataset).__qualname__}"
    raise UsageError(
        f"optimize takes a tf.data.Dataset, a keras.utils.PyDataset or a torch DataLoader, got {kind}",
        do="pass what fit is given",
    )


__all__ = ["Watch", "check", "diagnose", "fix", "optimize", "prove", "run", "steps", "watch"]
