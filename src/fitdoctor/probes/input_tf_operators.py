"""The operators of a running tf.data pipeline: what each has done so far, and what AUTOTUNE gave it.

TensorFlow keeps a model of every pipeline that it tunes.  Reading it takes a quarter of a millisecond and changes
nothing, so it is read between two steps: often at first, then about once a second, then ever more rarely.
"""

from __future__ import annotations

import contextlib
import json
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.probes import account as acc
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.dataset_tf import describe_dataset
from fitdoctor.probes.install import ImportWatch, Patches
from fitdoctor.probes.steps import Tracker

WHAT = "the operators of the running pipeline"
FIRST_NS, EVERY_NS = 250_000_000, 1_000_000_000
FIRST_READS = 4
RARELY = 500
"""Between two readings passes so many times what one takes: some ms where Python in the pipeline holds the GIL."""
LONG_RUN = 20
"""After so many seconds readings are further apart, so that twice the time needs a dozen more of them."""
KEPT = 3
"""Iterators of a hand-written loop that are looked at: which of them feeds the steps, their counters tell."""
_MODULE = "tensorflow.python.data.experimental.ops.iterator_model_ops"


class OperatorProbe:
    """Hook on the making of iterators; reads the newest ones between steps."""

    def __init__(self, tracker: Tracker, patches: Patches) -> None:
        self.tracker = tracker
        self.recorder = tracker.recorder
        self.patches = patches
        self._made = 0
        self._iterators: list[tuple[int, int, weakref.ref[Any]]] = []
        """Number, steps done when it was made, and iterator, newest first."""
        self._call = 0
        """Whose operators were read last, and how often."""
        self._reads = 0
        self._first_ns = 0
        self._last_ns = -EVERY_NS
        self._took_ns = 0
        self._lost = False
        self._counts: tuple[int, dict[int, int]] = (0, {})
        """At the last reading: steps done, and elements that each iterator had given."""

    def attach(self, watch: ImportWatch) -> None:
        """Wait for TensorFlow."""
        watch.when("tensorflow.python.data.ops.iterator_ops", self._wrap)

    def _wrap(self) -> None:
        from tensorflow.python.data.ops.iterator_ops import OwnedIterator

        if self.patches.wrap(OwnedIterator, "__init__", self._making):
            self.tracker.looks.append(self._look)
            self.tracker.look_now()

    def _making(self, original: Any) -> Callable[..., Any]:
        context = sys.modules["tensorflow.python.eager.context"]

        def __init__(iterator: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(iterator, *args, **kwargs)
            # One that is given its components is another name for an iterator that exists.
            if (args or kwargs.get("dataset") is not None) and self.recorder.mine() and context.executing_eagerly():
                self._note(iterator)

        return __init__

    def _note(self, iterator: Any) -> None:
        """Remember an iterator that may feed the training: weakly, it must die when it would without us."""
        tracker = self.tracker
        fit = tracker.fitting
        aside = {acc.VALIDATION, acc.CALLBACK, acc.HOOKS}.intersection(tracker.account.stack)
        if aside or (fit is not None and not fit.in_loop):
            return
        self._made += 1
        tracker.fold()
        since = tracker.current.step if tracker.current is not None else 0
        keep = self._iterators if fit is None else []
        self._iterators = [(self._made, since, weakref.ref(iterator)), *keep][:KEPT]

    def _look(self, call: ActiveCall) -> float:
        """Read between two steps; returns when to come again."""
        now = self.recorder.clock()
        if call.id != self._call and now - self._last_ns >= EVERY_NS:
            self._call, self._reads, self._first_ns = call.id, 0, now
        pause = FIRST_NS if self._reads < FIRST_READS else max(EVERY_NS, (now - self._first_ns) // LONG_RUN)
        due = self._last_ns + max(pause, RARELY * self._took_ns) if self._reads else now
        if now < due:
            # Asked again soon all the same: a reading that was held up must not keep us from looking at the next call.
            return min(due, now + EVERY_NS)
        if not self.read(call):
            return now + EVERY_NS
        self._reads += 1
        self._last_ns = self.recorder.clock()
        self._took_ns = self._last_ns - now
        return self._last_ns + FIRST_NS

    def read(self, call: ActiveCall) -> bool:
        """Read now and tell whether there was something to read; what cannot be read is a gap, and not tried again."""
        alive = [(number, since, found) for number, since, ref in self._iterators if (found := ref()) is not None]
        if self._lost or not alive:
            return False
        try:
            get = _reader()
        except ImportError as error:
            self._lost = True
            self.recorder.gap(WHAT, f"this TensorFlow does not tell: {error}", "use TensorFlow 2.17 or later")
            return False
        now = self.recorder.clock()
        counts: dict[int, int] = {}
        for number, since, iterator in alive:
            try:
                proto = get(iterator)
                counts[number] = proto.nodes[proto.output].num_elements
                for row in rows(proto):
                    self.recorder.add("operators", (call.id, call.step, now, number, since, *row))
            except Exception as error:
                self._iterators = [each for each in self._iterators if each[0] != number]
                self._cannot(error)
        if call.kind != "fit" and "dataset" not in call.info:
            self._describe(call, {number: iterator for number, _, iterator in alive}, counts)
        self._counts = call.step, counts
        return True

    def _describe(self, call: ActiveCall, iterators: dict[int, Any], counts: dict[int, int]) -> None:
        """Tell what a hand-written loop goes over: the dataset that gives an element for each of its steps."""
        step, before = self._counts
        grown = {number: counts[number] - before[number] for number in counts.keys() & before.keys()}
        if len(iterators) == 1:
            chosen = next(iter(iterators))
        elif any(grown.values()):
            chosen = min(grown, key=lambda number: abs(grown[number] - (call.step - step)))
        else:
            return
        call.info["dataset"] = None
        with contextlib.suppress(Exception):
            call.info.update(describe_dataset(iterators[chosen]._dataset))
        self.tracker.save(call)

    def _cannot(self, error: Exception) -> None:
        if type(error).__name__ == "NotFoundError":
            reason = "autotune is off: TensorFlow keeps no model of the pipeline"
            remedy = "leave options.autotune.enabled on"
        else:
            reason, remedy = f"{type(error).__name__} when they were asked for", "please report it"
        self.recorder.gap(WHAT, reason, remedy)


def _reader() -> Callable[[Any], Any]:
    """Return TensorFlow's own function: part of every TensorFlow that has it, so nothing new is imported."""
    module = sys.modules.get(_MODULE)
    if module is None:
        raise ImportError(f"no {_MODULE}")
    get: Callable[[Any], Any] = module.get_model_proto
    return get


def rows(proto: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the columns of the `operators` table from `node` on, for each operator of a model."""
    for node in proto.nodes.values():
        parameters = {
            each.name: {"value": each.value, "state": each.state_value, "max": each.max, "tunable": each.tunable}
            for each in node.parameters
        }
        yield (
            node.id, node.name, json.dumps(list(node.inputs)), node.num_elements, node.processing_time,
            node.bytes_produced, node.bytes_consumed, node.buffered_elements, node.buffered_bytes,
            json.dumps(parameters), int(node.id == proto.output),
        )  # fmt: skip
