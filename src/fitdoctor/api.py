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
    from fitdoctor.rewrites.optimized import Optimized

T = TypeVar("T")


class Watch:
    """A running observation of this process; `report` is there once it has ended."""

    def __init__(self, capture: str | os.PathLike[str] | None = None, *, show: bool = True) -> None:
        self._wanted = capture
        self._show = show
        self._owned: Session | None = None
        self.capture: Path | None = None
        self.report: Report | None = None

    def start(self) -> Watch:
        """Begin to observe, unless somebody does already (`fitdoctor run`, an outer watch)."""
        from fitdoctor.capture import places, session, store
        from fitdoctor.probes import recorder

        if recorder.current() is not None:
            return self
        script = Path(sys.argv[0]).stem or "session" if sys.argv else "session"
        self.capture = Path(self._wanted) if self._wanted else places.new_capture_path(script, time.time())
        writer = store.Writer(self.capture)
        writer.meta(
            {
                "command": sys.argv,
                "script": os.path.abspath(sys.argv[0]) if sys.argv else "",
                "cwd": os.getcwd(),
            }
        )
        self._owned = session.Session(
            writer, time.perf_counter_ns(), mode="watch", script=sys.argv[0] if sys.argv else ""
        )
        self._owned.start()
        return self

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
            self.report, source_of = pipeline.open_capture(self.capture)
        except FitdoctorError as error:
            sys.stderr.write(f"fitdoctor: {error}\n")
            return None
        if self._show:
            from rich.console import Console

            from fitdoctor.report import terminal

            # Talk goes to stderr: the script's stdout is its own.
            terminal.render(self.report, Console(stderr=True), source_of)
        return self.report

    def __enter__(self) -> Watch:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def watch(capture: str | os.PathLike[str] | None = None, *, show: bool = True) -> Watch:
    """Observe what happens inside a `with` block and say where the time went.

    ::

        with fitdoctor.watch() as seen:
            model.fit(x, y)
        seen.report.headline

    `capture` names the file to keep (by default a new one in fitdoctor's own folder), `show=False` prints nothing.
    """
    return Watch(capture, show=show)


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
        """

        async_safe = True

        def __init__(self, capture: str | os.PathLike[str] | None = None, *, show: bool = True) -> None:
            super().__init__()
            self._watch = Watch(capture, show=show).start()
            self._training = False
            session = sessions.current()
            if session is not None and self._watch.capture is not None:
                session.fit.after_fit.append(self._stop)

        def _stop(self) -> None:
            if self._training:
                self._watch.stop()

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
    if backends:
        pipeline.try_backends(options, ended.capture, lambda text: None)
    return pipeline.diagnose_file(ended.capture)


def diagnose(capture: str | os.PathLike[str]) -> Report:
    """Diagnose a capture file written earlier, on any machine."""
    from fitdoctor import pipeline

    return pipeline.diagnose_file(capture)


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


__all__ = ["Watch", "check", "diagnose", "optimize", "prove", "run", "steps", "watch"]
