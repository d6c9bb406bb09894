"""One observed process: probes, recorder and capture file put together, started and ended.

Runs inside the user's process, for `fitdoctor run` (see `child.py`) and for `fitdoctor.watch()`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from fitdoctor._version import __version__
from fitdoctor.capture import store, taken_part
from fitdoctor.capture.cap import DEFAULT_BUDGET, Cap
from fitdoctor.probes import account as acc
from fitdoctor.probes import gil, host, loop_length, own_cost, step_function
from fitdoctor.probes import recorder as recording
from fitdoctor.probes.calls import ActiveCall, CapReached
from fitdoctor.probes.chunked import ChunkProbe
from fitdoctor.probes.compiles import CompileProbe
from fitdoctor.probes.fetches import FetchProbe
from fitdoctor.probes.fit import FitProbe
from fitdoctor.probes.input_tf import TensorFlowInput
from fitdoctor.probes.input_tf_built import BuiltProbe
from fitdoctor.probes.input_tf_generators import GeneratorProbe
from fitdoctor.probes.input_tf_operators import OperatorProbe
from fitdoctor.probes.install import ImportWatch, Patches, time_imports
from fitdoctor.probes.loaders import LoaderProbe
from fitdoctor.probes.loops import LoopProbe
from fitdoctor.probes.reads import ReadProbe
from fitdoctor.probes.recorder import Recorder
from fitdoctor.probes.saving import SavingProbe
from fitdoctor.probes.stack import StackProbe
from fitdoctor.probes.steps import Tracker
from fitdoctor.probes.strategies import StrategyProbe

Experiments = Callable[..., None]
"""Given the recorder, the call, its model and arguments, the seconds there are, and whom to tell: `lab.bench.run`."""

_current: Session | None = None


def current() -> Session | None:
    """Return the session that observes this process, if there is one."""
    return _current


class Session:
    """Observes this process from `start` to `finish`."""

    def __init__(
        self,
        sink: store.Writer,
        start_ns: int,
        *,
        mode: str,
        steps: int | None = None,
        budget: float = DEFAULT_BUDGET,
        redact: bool = False,
        script: str = "",
        aligned: bool = False,
    ) -> None:
        self.script = script
        self.writer = sink
        self.mode = mode
        self.redact = redact
        self.recorder = Recorder(sink, start_ns)
        self.start_ns = start_ns
        self.tracker = Tracker(self.recorder)
        self.cap = Cap(self.tracker, steps, budget, script, aligned)
        self.patches = Patches(self.recorder)
        self.watch = ImportWatch(self.recorder)
        self.fit = FitProbe(self.tracker, self.patches, self._cap_in_fit)
        self.tensorflow = TensorFlowInput(self.tracker, self.patches)
        self.loops = LoopProbe(self.tracker, self.patches)
        self.operators = OperatorProbe(self.tracker, self.patches)
        compiles = CompileProbe(self.tracker, self.patches)
        saving = SavingProbe(self.tracker, self.patches)
        built = BuiltProbe(self.recorder, self.patches)
        generators = GeneratorProbe(self.recorder, self.patches)
        reads = ReadProbe(self.tracker, self.patches)
        strategies = StrategyProbe(self.tracker, self.patches, self.loops)
        fetches = FetchProbe(self.tracker, self.patches)
        chunks = ChunkProbe(self.tracker, self.patches)
        loaders = LoaderProbe(self.tracker, self.patches)
        self.probes = (
            self.tensorflow, self.fit, compiles, saving, self.loops, self.operators, built, generators, reads,
            strategies, fetches, chunks, loaders, StackProbe(self.tracker),
        )  # fmt: skip
        self.experiments: Experiments | None = None
        """The lab: run once `fit` was unwound, before the process ends."""
        self.activity = ""
        """What the lab is doing."""
        self._lab_since: float | None = None
        """When it began, in seconds since the run did."""
        self._measured: dict[str, Any] | None = None
        """Where the time went until the lab began, or until it was let go."""
        self.before_exit: list[Callable[[], None]] = []
        self.hit: str | None = None
        self.finished = False

    # --- start ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Attach everything and begin to write."""
        global _current
        _current = self
        recording.set_current(self.recorder)
        recorder = self.recorder
        recorder.meta(
            fitdoctor=__version__,
            mode=self.mode,
            started=time.time(),
            start_ns=self.start_ns,
            pid=os.getpid(),
            cap={"steps": self.cap.steps, "budget": self.cap.budget, "hit": None},
            exit={"code": None, "signal": None, "reason": "running"},
        )
        self._host()
        recorder.settles = self.mode != "capped"
        if self.mode == "capped":
            self.cap.experiments = self.experiments is not None
            self.tracker.on_step = self._check_cap
        time_imports(recorder, self.patches)
        self.watch.install()
        for probe in self.probes:
            probe.attach(self.watch)
        recorder.on_flush.append(self._progress)
        os.register_at_fork(after_in_child=self._forked)
        recorder.start()

    def _host(self) -> None:
        """Describe the machine and sample it, where no launcher does it from beside."""
        recorder = self.recorder
        if self.mode != "watch":
            where = gil.locate()
            recorder.meta(gil=asdict(where))
            return
        recorder.meta(environment=host.environment())
        sampler = host.HostSampler()
        recorder.samplers.append(sampler.sample)
        recorder.gap(
            "share of time the GIL is held",
            "it is watched from beside, by the launcher",
            "run the script with `fitdoctor run`",
        )

    def _forked(self) -> None:
        """Let go in a forked child: it is a worker, not the training."""
        self.recorder.abandon()
        self.finished = True

    # --- while it runs ----------------------------------------------------------------------------

    def _progress(self) -> None:
        tracker = self.tracker
        call = tracker.current
        self.recorder.meta(
            progress={
                "steps": tracker.steady_steps,
                "steady_s": tracker.steady_ns / 1e9,
                "calls": tracker.calls_seen,
                "training": tracker.first_step_ns is not None,
                "kind": call.kind if call else None,
                "site": str(call.site) if call and call.site else None,
                "lab": self.activity,
                "lab_since": self._lab_since,
                "elapsed": (self.recorder.clock() - self.start_ns) / 1e9,
            }
        )

    def _check_cap(self, call: ActiveCall) -> None:
        """Stop once enough was seen."""
        self.hit = self.cap.hit(call, self.recorder.account.settle())
        if self.hit is None:
            return
        if self.tracker.fitting is not None:
            raise CapReached
        self._cap_in_place(call)

    def watch_only(self, steps: int | None, seconds: float | None) -> None:
        """Let go after so many steady steps, or seconds of training: it goes on, unobserved, to its own end."""
        tracker, recorder = self.tracker, self.recorder

        def look() -> None:
            if tracker.first_step_ns is None or not recorder.live:
                return
            spent = (recorder.clock() - tracker.first_step_ns) / 1e9
            if (steps is not None and tracker.steady_steps >= steps) or (seconds is not None and spent >= seconds):
                tracker.ask(self._let_go)

        recorder.on_tick.append(look)

    def _let_go(self, call: ActiveCall) -> None:
        """Close the account and keep nothing more of the training; called on its own thread, between two steps."""
        self.tracker.on_step = None
        with contextlib.suppress(Exception):
            self.tensorflow.read(call)
            self.operators.read(call)
        self._measured, self.hit = self._account(), "enough"
        recorder = self.recorder
        recorder.flush()
        recorder.sink = recording.OnlyAbout(recorder.sink)
        recorder.live = False

    # --- the end ----------------------------------------------------------------------------------

    def _cap_in_fit(self, call: ActiveCall, model: Any) -> None:
        """End the process from inside our own frame of `fit`: no further line of the script runs."""
        with self._until_interrupted():
            self.detach()
            self._keep_loss(call, model)
            if self.experiments is not None and self.recorder.live:
                with self._lab():
                    self._experiment_with_calls(1 / 4 if call.arguments is not None else 1.0)
                    if call.arguments is not None:
                        self._experiment(call, model, self._left)
        self._exit_capped()

    @contextlib.contextmanager
    def _until_interrupted(self) -> Iterator[None]:
        """Let Ctrl-C, or a callback that exits, end what is left to do: beyond, it would be the script's to handle."""
        try:
            yield
        except BaseException as error:
            self.activity = ""
            if isinstance(error, KeyboardInterrupt):
                why, remedy = "they were interrupted", "let them run to their end"
            else:
                why, remedy = f"they were ended by {type(error).__name__}", "try it in the script"
            if self.experiments is not None:
                self.recorder.gap("the rest of the experiments", why, remedy)

    def _keep_loss(self, call: ActiveCall, model: Any) -> None:
        """Note the loss that Keras kept of the epoch under way: the same script may be run on another backend."""
        with contextlib.suppress(Exception):
            loss = float(model.get_metrics_result()["loss"])
            self.recorder.meta(learning={"loss": loss, "epoch": call.epoch, "step": call.step})

    @contextlib.contextmanager
    def _lab(self) -> Iterator[None]:
        """Close the account of what was watched, and note how long the experiments took of what was left for them."""
        self._measured = self._account()
        given, start = self._left, self.recorder.clock()
        self._lab_since = (start - self.start_ns) / 1e9
        try:
            yield
        finally:
            self.recorder.meta(lab_time={"given_s": given, "spent_s": (self.recorder.clock() - start) / 1e9})

    @property
    def _left(self) -> float:
        """Seconds of the budget that are left."""
        first = self.tracker.first_step_ns or self.start_ns
        return self.cap.budget - (self.recorder.clock() - first) / 1e9

    def _experiment_with_calls(self, share: float) -> None:
        """Make the short calls that the script makes many times again, within a share of the time left."""
        repeated = self.tracker.repeated()
        for place, call in enumerate(repeated):
            self._experiment(call, call.model, self._left * share / (len(repeated) - place))

    def _experiment(self, call: ActiveCall, model: Any, seconds: float) -> None:
        assert self.experiments is not None
        try:
            self.experiments(self.recorder, call, model, call.arguments, seconds, self._tell)
        except Exception as error:
            self.recorder.gap("the experiments", f"{type(error).__name__}: {error}", "please report it as a bug")

    def _tell(self, activity: str) -> None:
        self.activity = activity

    def _account(self) -> dict[str, Any]:
        """Say where the time went until now."""
        self.tracker.fold()
        recorder = self.recorder
        return {
            "account": recorder.account.phases(),
            "wall_s": (recorder.clock() - self.start_ns) / 1e9,
            "own_s": recorder.account.totals[acc.OWN] / 1e9,
            "overhead": own_cost.overhead(self.tracker, self.fit.backend),
        }

    def _cap_in_place(self, call: ActiveCall) -> None:
        """End the process where it stands: a hand-written loop has no frame of ours around it."""
        with self._until_interrupted():
            self._ask_length()
            self.detach()
            if self.experiments is not None and self.recorder.live:
                eager = call.op_by_op and call.info.get("backend") in ("tensorflow", "jax")
                if eager:
                    call.arguments = step_function.find(sys._getframe(1)) or call.arguments
                step = eager or (call.kind == "loop" and call.arguments is not None)
                with self._lab():
                    self._experiment_with_calls(1 / 2 if step else 1.0)
                    if step:
                        self._experiment(call, None, self._left)
        self._exit_capped()

    def _ask_length(self) -> None:
        """Note how many steps the loop would have had, while its frames are there to be asked."""
        tracker, loop = self.tracker, self.tracker.loop
        if loop is None or tracker.loops_ended.keys() - {loop.site}:
            return  # which of several loops goes on, and how often, nobody says
        with contextlib.suppress(Exception):
            tracker.fold()
            before = tracker.loops_ended.get(loop.site, [])
            passes = loop.epoch or len(before)
            per_pass = round((loop.steps_at_iterator if loop.epoch else sum(before)) / passes) if passes else None
            found = loop_length.planned(sys._getframe(1), sum(before) + loop.step, per_pass)
            loop.info["planned_steps"] = None if found is None else found - sum(before)
            tracker.save(loop)

    def _exit_capped(self) -> None:
        with contextlib.suppress(ValueError):  # only the main thread may say so, and only it hears Ctrl-C
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left that it could end
        self.finish("capped", 0)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        for function in self.before_exit:
            with contextlib.suppress(Exception):
                function()
        _end_workers()
        os._exit(0)

    def detach(self) -> None:
        """Put every hook back."""
        call = self.tracker.current
        self.tracker.fold()
        if call is not None and call.step:
            with contextlib.suppress(Exception):
                self.tensorflow.read(call)
                self.operators.read(call)
        self.tensorflow.detach()
        self.patches.undo()
        self.watch.uninstall()

    def finish(self, reason: str, code: int | None) -> None:
        """Write what is left and close the file."""
        global _current
        if self.finished:
            return
        self.finished = True
        recorder, tracker = self.recorder, self.tracker
        with contextlib.suppress(Exception):
            tracker.end_loop()
        recorder.meta(
            **(self._measured or self._account()),
            cap={"steps": self.cap.steps, "budget": self.cap.budget, "hit": self.hit},
            exit={"code": code, "signal": None, "reason": reason},
            versions=taken_part.versions(),
        )
        for path, sha, text in taken_part.sources(self.script, self.redact):
            recorder.put("sources", path, store.source_row(path, sha, text))
        recorder.close()
        recorder.live = False
        lost = recorder.lost
        if lost is None:
            self.writer.close()
        recording.set_current(None)
        _current = None


def _end_workers() -> None:
    """End worker processes as Python would have at its own exit."""
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is None:
        return

    def refuse() -> int:
        raise OSError("the observed part of the run is over")

    # A pool's own thread would replace the workers we end.
    os.fork = refuse
    with contextlib.suppress(Exception):
        children = multiprocessing.active_children()
        for child in children:
            child.terminate()
        for child in children:
            child.join(2)
            if child.is_alive():
                child.kill()
