"""Calls, epochs and steps: the state of the training that the hooks of every backend drive.

A step runs from the end of the previous step's hooks to the end of its own, so it holds its fetch, its launch and its
callbacks whatever the order in which a backend does them.  What happens after the last step of an epoch is no step.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from fitdoctor.model import Site, Steps
from fitdoctor.probes import account as acc
from fitdoctor.probes.calls import MANY, ActiveCall
from fitdoctor.probes.recorder import Recorder
from fitdoctor.probes.rests import AWAKE_NS, FORGOTTEN_NS, Rests

OWN_ROWS = 1000
"""So many calls from one line get a row each; later ones share the last row."""
UNSTEADY_STEPS = 2
"""The first steps of a train function pay for allocation, autotuning and cold caches."""
FOLDED_ROWS = 256
"""What the hot path left behind between two flushes becomes at most so many rows: neighbours share one."""
_RAW: Final = len(acc.STEP_BUCKETS) + 1


F = TypeVar("F", bound=Callable[..., Any])


def _lets_go(method: F) -> F:
    """Make a failure of ours end the observation instead of the training."""

    @functools.wraps(method)
    def safe(self: Tracker, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            self.recorder.fail("steps", error)
            return None

    return cast(F, safe)


class Tracker:
    """Turns the events of the hooks into rows; only the training thread calls it."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.account = recorder.account
        self.stack: list[ActiveCall] = []
        self.fitting: ActiveCall | None = None
        """The `fit` that is running, if one is."""
        self.loop: ActiveCall | None = None
        """The hand-written loop that is running, if one was recognised."""
        self.compiles = 0
        """How many traces and compilations have been seen: a step in which it changes is a warm-up step."""
        self.steady_steps = 0
        self.steady_ns = 0
        self.later_steps = 0
        """All but the very first, whether something was compiled in them or not."""
        self.epochs_seen = 0
        self.calls_seen = 0
        self.loops_ended: dict[Site | None, list[int]] = {}
        """How many steps each hand-written loop that was left had, by its line."""
        self.first_step_ns: int | None = None
        self.on_training: list[Callable[[], None]] = []
        """Told once, when the first training begins."""
        self.turns_before = 0
        """Turns of the account before the first step: imports, mostly."""
        self.compiled_before = 0
        """Nanoseconds of compiling until the first step was over."""
        self.on_step: Callable[[ActiveCall], None] | None = None
        """Told after every step: decides whether enough was seen."""
        self.looks: list[Callable[[ActiveCall], float]] = []
        """Probes that look at the framework now and then, between two steps; each returns when to come again."""
        self._due: dict[Callable[[ActiveCall], float], float] = {}
        """When each of them wants to come again."""
        self._due_ns = 0.0
        """The first of these."""
        self._attention_ns = 0.0
        """A step that ends before this needs no thought: nothing was compiled, nothing is due."""
        self._raw: list[int] = []
        """What the hot path left behind: after each step the totals of the step's buckets and the time."""
        self._raw_of: ActiveCall | None = None
        self._folding = threading.RLock()
        self.rests = Rests(recorder.clock)
        self.resting = False
        """Steps are only counted, for a while: hooks that run in every step are gone or let it pass."""
        self.rested_steps = 0
        self._running_at_end = 0
        """How many steps still ran when a rest was ended by a compilation, if they did not end since."""
        self.drain: Callable[[Any], None] | None = None
        """Waits for an asynchronous device, where there is one."""
        self._ids = 0
        self._sites: dict[tuple[str, Site | None], list[Any]] = {}
        self._extra_flags = 0
        recorder.on_flush.append(self.fold)
        recorder.on_tick.append(self.wake)

    # --- calls ------------------------------------------------------------------------------------

    @property
    def current(self) -> ActiveCall | None:
        """The innermost call that is running."""
        return self.stack[-1] if self.stack else self.loop

    def claim(self) -> bool:
        """Make the calling thread the observed one if nothing is being observed on another; tell whether it is."""
        recorder = self.recorder
        if not recorder.live:
            return False
        me = threading.get_ident()
        if me != recorder.owner:
            if self.stack or self.loop or recorder.account.depth > 1:
                return False
            recorder.owner = me
        return True

    @_lets_go
    def begin(self, kind: str, site: Site | None, bucket: int | None) -> ActiveCall | None:
        """Open a call; `bucket` owns its time until something more precise does.  None: we had to let go."""
        account = self.account
        if self.loop is not None and kind == "fit":
            self.end_loop()
        now = account.enter(bucket) if bucket is not None else account.settle()
        parent = self.stack[-1].id if self.stack else None
        count, last = self._sites.setdefault((kind, site), [0, None])
        if count >= OWN_ROWS and last is not None and parent is None:
            call: ActiveCall = last
            call.count += 1
            call.shared = True
            call.end_ns = None
        else:
            self._ids += 1
            call = ActiveCall(self._ids, kind, site, parent, now)
            self._sites[kind, site][1] = call
        self._sites[kind, site][0] += 1
        call.begun_ns = call.step_start_ns = now
        call.in_loop = False
        self.stack.append(call)
        self.calls_seen += 1
        if kind == "fit":
            self.fitting = call
            self._training_begins()
        if kind == "fit" and not call.shared:
            self.save(call)
        return call

    def _training_begins(self) -> None:
        while self.on_training:
            self.on_training.pop()()

    @_lets_go
    def end(self, call: ActiveCall, depth: int) -> None:
        """Close a call, however it ended."""
        account = self.account
        if call.in_loop:
            self.loop_ended(call)
        account.unwind(depth)
        now = account.settle()
        call.end_ns = now
        call.info["total_ns"] = call.info.get("total_ns", 0) + now - call.begun_ns
        if self.stack and self.stack[-1] is call:
            self.stack.pop()
        elif call in self.stack:
            del self.stack[self.stack.index(call) :]
        if self.fitting is call:
            self.fitting = None
        call.last_result = None
        self.save(call)
        if not self.stack and self.loop is None and call.kind in ("fit", "train_on_batch"):
            account.rebase(acc.REST)

    def repeated(self) -> list[ActiveCall]:
        """Return the last of many short calls from one line, for each line whose calls can be made again."""
        return [last for count, last in self._sites.values() if count >= MANY and last.model is not None]

    def save(self, call: ActiveCall) -> None:
        """Write the newest version of the call's row."""
        self.recorder.put("calls", call.id, call.row())

    # --- epochs and steps -------------------------------------------------------------------------

    def _collect_for(self, call: ActiveCall) -> None:
        self._complete()
        self._raw_of = call
        self._attention_ns = 0

    @_lets_go
    def loop_started(self, call: ActiveCall, epoch: int) -> None:
        """Note that the epoch's loop over batches begins now: making and dropping iterators comes first."""
        account = self.account
        self._collect_for(call)
        call.epoch_start_ns = call.step_start_ns = account.switch(acc.BETWEEN)
        account.step()
        call.epoch = epoch
        call.in_loop = True
        call.steps_end_ns = None
        call.validation_ns = 0
        call.compiles = self.compiles

    @_lets_go
    def loop_ended(self, call: ActiveCall) -> None:
        """Note that the last batch of the epoch is done: what was spent since is no step."""
        account = self.account
        self._complete()
        if self._running_at_end:
            # What was compiled was no part of a step: the last one had ended with the rest.
            with self._folding:
                self._commit(call, account.marks, call.step_start_ns, self._running_at_end, Steps.RESTED)
        call.drawn, self._running_at_end = None, 0
        if self.drain is not None and call.last_result is not None and call.step:
            self.settle_device(call)
        account.reclassify(acc.BETWEEN)
        call.steps_end_ns = account.switch(acc.BETWEEN)
        account.step()
        call.in_loop = False
        self._save_epoch(call, None)

    @_lets_go
    def settle_device(self, call: ActiveCall) -> None:
        """Wait for work already launched and count the wait to the steps that launched it."""
        assert self.drain is not None
        account = self.account
        account.enter(acc.SYNC)
        try:
            self.drain(call.last_result)
        finally:
            now = account.leave()
        call.last_result = None
        self._complete()
        with self._folding:
            self._commit(call, account.totals[:6], now, 0, Steps.CUT)

    @_lets_go
    def epoch_ended(self, call: ActiveCall) -> None:
        """Note that `on_epoch_end` has returned."""
        self.epochs_seen += 1
        self._save_epoch(call, self.account.settle())
        if self.on_step is not None:
            self.on_step(call)

    def _save_epoch(self, call: ActiveCall, end_ns: int | None) -> None:
        row = (call.id, call.epoch, call.epoch_start_ns, call.steps_end_ns, call.validation_ns, end_ns)
        self.recorder.put("epochs", (call.id, call.epoch), row)

    def step_done(self, call: ActiveCall) -> None:
        """Note the end of a step.  Called once per step: every line counts."""
        account = self.account
        totals = account.totals
        now = account.clock()
        if self.resting and now < self._attention_ns:
            return  # a hook that could not be taken away
        totals[account.stack[-1]] += now - account.last
        account.last = now
        if now < self._attention_ns:
            raw = self._raw
            raw += totals[:6]
            raw.append(now)
            return
        self._attend(call, now)

    @_lets_go
    def _attend(self, call: ActiveCall, now: int) -> None:
        """End a step that may not be an ordinary one: decide whether it was a steady one, look where looks are due."""
        if self.resting:
            self._complete()
        else:
            self._commit_one(call, now)
        account = self.account
        if now >= self._due_ns and self.looks:
            account.enter(acc.OWN)
            try:
                self._look(call, now)
            finally:
                account.leave()
        if self.on_step is not None:
            self.on_step(call)
        # What we did since belongs to us, not to the next step.
        end = account.clock()
        account.totals[acc.OWN] += end - account.last
        account.last = call.step_start_ns = end
        self._attention_ns = self._next_attention(call, end)

    def _look(self, call: ActiveCall, now: int) -> None:
        for look in self.looks:
            if now >= self._due.get(look, 0):
                self._due[look] = look(call)
        self._due_ns = min(self._due.values())

    def _commit_one(self, call: ActiveCall, now: int) -> None:
        self.fold()
        self._running_at_end = 0
        flags = self._extra_flags
        if self.compiles != call.compiles or call.warmth[0] < UNSTEADY_STEPS:
            flags |= Steps.WARMUP
            call.compiles = self.compiles
            call.warmth[0] += 1
        self._extra_flags = 0
        with self._folding:
            self._commit(call, self.account.totals[:6], now, 1, flags)

    def _next_attention(self, call: ActiveCall, now: int) -> float:
        """Return until when steps need no thought, and let them rest where they may."""
        if self.on_step is not None or call.warmth[0] < UNSTEADY_STEPS:
            return 0
        due = self._due_ns if self.looks else math.inf
        # A probe that comes again soon is in the middle of something.
        rests = self.rests
        if not rests.allowed(call) or due - now <= AWAKE_NS:
            return due
        if not rests.seen_enough(self.steady_steps, self.steady_ns):
            return min(due, now + rests.ask_again(self.steady_steps, self.steady_ns))
        if now < rests.awake_until:
            return min(due, rests.awake_until)
        self.resting = True
        rests.begin(call)
        return now + FORGOTTEN_NS

    def ask(self, told: Callable[[ActiveCall], None]) -> None:
        """Have somebody told after one of the next steps; called by the background thread, which asks again."""
        self.on_step = told
        self._attention_ns = 0

    def wake(self) -> None:
        """Watch for a while; called by the background thread."""
        self.rests.awake_until = self.rests.clock() + AWAKE_NS
        if self.resting and self.recorder.live:
            self._attention_ns = 0
            self.rests.end()

    def _complete(self, running: int = 0) -> None:
        """Make rows of all steps so far, of which so many still run; only on the training thread."""
        call = self._raw_of
        if self.resting and call is not None:
            self.resting, self._running_at_end = False, running
            self.rests.end()
            now = self.account.settle()
            rested = self.rests.rested(call) - running
            if rested > 0:
                self.rested_steps += rested * call.steps_per_row
                with self._folding:
                    self._commit(call, self.account.totals[:6], now, rested, Steps.RESTED)
        self.fold()

    def compiled(self) -> None:
        """Note a trace or a compilation: the step that is running is no steady one."""
        if self.stack and self.fitting is None:
            return  # inside a `predict` beside the loop, whose time is no part of a step
        if self.resting and self.recorder.mine():
            self._complete(running=1)
        self.compiles += 1
        self._attention_ns = 0

    def look_now(self) -> None:
        """Make the looks due after the step that is running."""
        self._due.clear()
        self._due_ns = self._attention_ns = 0

    @_lets_go
    def fold(self) -> None:
        """Turn what the hot path left behind into rows: by the background thread, or where rows must be complete."""
        with self._folding:
            raw, call = self._raw, self._raw_of
            steps = len(raw) // _RAW
            if not steps or call is None:
                return
            # Copy, then delete: what the training thread adds meanwhile stays.
            seen = raw[: steps * _RAW]
            del raw[: steps * _RAW]
            group = -(-steps // FOLDED_ROWS)
            for first in range(0, steps, group):
                end = min(first + group, steps) * _RAW
                self._commit(call, seen[end - _RAW : end - 1], seen[end - 1], min(group, steps - first), 0)

    def _commit(self, call: ActiveCall, totals: list[int], end_ns: int, rows: int, flags: int) -> None:
        """Make one row of `rows` executions whose last left the step's buckets at these totals."""
        count = rows * call.steps_per_row
        a, b, c, d, e, f = self.account.marks
        u, v, w, x, y, z = self.account.marks = totals
        fetch, transfer, run, callbacks, sync, loop = u - a, v - b, w - c, x - d, y - e, z - f
        wall = fetch + transfer + run + callbacks + sync + loop
        if call.op_by_op:
            # Python and kernels take turns in the user's own lines.
            run += loop
        start = call.step_start_ns
        self.recorder.step(
            (call.id, call.epoch, call.step, count, start, wall, fetch, transfer, run, callbacks, sync, flags)
        )
        call.step_start_ns = end_ns
        call.step += count
        if flags & Steps.WARMUP:
            self.account.totals[acc.COMPILING] += wall
        else:
            self.account.totals[acc.STEADY] += wall
            call.steady += count
            self.steady_steps += count
            self.steady_ns += wall
        if self.first_step_ns is not None:
            self.later_steps += count
        else:
            self.first_step_ns = self.recorder.clock()
            self.turns_before = self.account.turns
            self.compiled_before = self.account.totals[acc.COMPILING]

    def flag_next(self, flag: int) -> None:
        """Mark the step that is running."""
        self._extra_flags |= flag
        self._attention_ns = 0

    # --- hand-written loops -----------------------------------------------------------------------

    @_lets_go
    def begin_loop(self, site: Site | None, kind: str, **info: Any) -> ActiveCall | None:
        """Open a hand-written loop: from now on, time outside of everything else is its time.  None as in `begin`."""
        account = self.account
        self.end_loop()
        self._ids += 1
        call = ActiveCall(self._ids, kind, site, None, account.settle())
        call.info.update(info)
        call.op_by_op = kind == "loop" and not info.get("compiled", True)
        call.in_loop = True
        call.compiles = self.compiles
        account.rebase(acc.LOOP)
        self._collect_for(call)
        account.step()
        self.loop = call
        self.calls_seen += 1
        self._training_begins()
        self.save(call)
        return call

    @_lets_go
    def new_iterator(self) -> int | None:
        """Note that the data of a hand-written loop begins anew: an epoch has passed.  Returns who owns the making."""
        loop = self.loop
        assert loop is not None
        self.fold()
        if loop.step - loop.steps_at_iterator <= 1:
            # A new iterator for every step is not an epoch but a very dear way to fetch.
            loop.steps_at_iterator = loop.step
            return acc.FETCH
        loop.steps_at_iterator = loop.step
        self.account.reclassify(acc.BETWEEN)
        loop.epoch += 1
        self.epochs_seen += 1
        return acc.BETWEEN

    @_lets_go
    def end_loop(self) -> None:
        """Close the hand-written loop, if one is open: the time since its last step was not a step's."""
        call = self.loop
        if call is None:
            return
        self.fold()
        self.loop = None
        account = self.account
        account.reclassify(acc.REST)
        account.rebase(acc.REST)
        account.step()
        call.in_loop = False
        call.end_ns = call.step_start_ns
        call.info["total_ns"] = call.end_ns - call.start_ns
        call.last_result = None
        self.loops_ended.setdefault(call.site, []).append(call.step)
        self.save(call)
