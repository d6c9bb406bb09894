"""That there is a callback changes how all steps run.

## What is wrong

On JAX and torch Keras hands what is done after each batch to a thread of its own, and the next step begins at once.
One callback with `on_train_batch_end` (or `on_batch_end`) that does not say `async_safe = True` turns that off: after
every step all results are read before the next one begins, whatever the callback does with them.  On very short steps
it is the other way round: handing over costs more than waiting.

## How it is established

The lab trained the very model on one batch with a callback that does nothing and without any, in turns.  What the
callback itself does is another cause: slow-callback.

Measured with Keras 3.15 on two cores, a small dense network on JAX: 0.13 s an epoch of 625 steps with a callback that
does nothing, 0.19 s without.  On TensorFlow this Keras runs callbacks between the steps in any case.

## What to do

Move the work to `on_epoch_end`, or set `async_safe = True` on a callback that may run while the next step does (it then
must not touch the model).  Where handing over is what costs: pass a callback that does nothing, as below.

## When it is not worth it

When the experiment shows no gain: steps of some milliseconds on a CPU usually show none.

## Example

    class Watch(keras.callbacks.Callback):                                    # slow
        def on_train_batch_end(self, batch, logs=None):
            self.losses.append(logs["loss"])

    class Watch(keras.callbacks.Callback):                                    # fast
        async_safe = True
        def on_train_batch_end(self, batch, logs=None):
            self.losses.append(logs["loss"])

    wait = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: None)    # for very short steps
"""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Listed
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import spots
from fitdoctor.facts.callback_costs import CallbackCosts, HookCost
from fitdoctor.facts.device_use import DeviceUse
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Interval, Site
from fitdoctor.rules import INPUT_BOUND, Absent, Clear, Verdict

EXPERIMENT = "a callback that does nothing"
_AFTER_BATCH = frozenset({"on_train_batch_end", "on_batch_end"})
_KERAS_ADDS = frozenset({"ProgbarLogger", "History"})
_BESIDE = ("input", "transfer", "callbacks", "other")
"""Parts of the step that could pass while the device computes."""
SHORT_S = 0.005
"""Longer steps do not feel what handing over takes."""


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: whether waiting costs depends on the step."""
    del source
    return iter(())


def measure(
    training: Training, callbacks: CallbackCosts, trials: Trials, model: StepModel, devices: DeviceUse | None
) -> Verdict:
    """Take what a callback's presence does to a step from the experiment."""
    if training.kind != "fit":
        return Absent(f"{training.kind} runs no callbacks")
    possible = training.info.get("async_possible")
    if possible is False or (possible is None and training.backend == "tensorflow"):
        return Absent("on this backend Keras runs callbacks between the steps in any case")
    waits = training.info.get("async_callbacks") is False
    # Only what runs between the steps can make them wait.
    forcing = [each for each in callbacks.costs if _AFTER_BATCH & {*each.hooks} and each.name not in _KERAS_ADDS]
    if waits and not forcing:
        return Clear("no callback of its own runs after every batch")
    if waits and training.backend == "torch" and devices is None:
        return Absent("on the CPU a step of torch is done when its call returns: reading its results waits for nothing")
    beside = sum(model.parts[part].mid for part in _BESIDE)
    if waits and beside * model.planned_steps <= model.noise * model.whole_s:
        return Clear(f"every step waits for its results, but only {units.duration(beside)} could pass meanwhile")
    if not waits and (model.step.mid > SHORT_S or training.info.get("verbose") not in ("0", "2")):
        return Clear("Keras runs the callbacks beside the steps")
    if model.input_bound:
        return INPUT_BOUND
    try:
        ratio, _ = trials.ratio(EXPERIMENT, experiment=EXPERIMENT)
    except MissingEvidence:
        if waits:
            raise
        return Clear("Keras runs the callbacks beside the steps")
    told = f"with a callback that does nothing a step took {units.percent_range(ratio)} of its time"
    if (ratio.mid <= 1) if waits else (ratio.mid >= 1):
        return Clear(f"{told}: no gain in another way")
    stays = Interval(1 / ratio.high, 1 / ratio.mid, 1 / ratio.low) if waits else ratio
    change = Change("work", stays.clip(0.0, 1.0))
    return [_cost(forcing[0] if waits else None, training, told, change, model)]


def _cost(hook: HookCost | None, training: Training, told: str, change: Change, model: StepModel) -> Cost:
    because = (
        f"{hook.name} makes Keras read the results of every step before the next one begins: {told}"
        if hook is not None
        else f"after every step its results are handed to another thread: {told}"
    )
    return Cost(
        saving=model.with_change(change).saving(),
        because=because,
        site=(hook.site if hook is not None else None) or training.site,
        change=change,
        evidence={"callback": hook.name if hook is not None else None},
    )


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    name = cost.evidence.get("callback")
    if name is None:
        idle = "LambdaCallback(on_train_batch_end=lambda batch, logs: None)"
        call = spots.fit_at(source, cost.site)
        item = f"keras.callbacks.{idle}"
        edits = (Listed(spots.spot(call), "callbacks", item, order=spots.FIT),) if call is not None else ()
        return Fix(f"pass a callback that does nothing: {idle}", "same", edits=edits)
    return Fix(
        f"let {name} work in on_epoch_end, or set async_safe = True on it if it does not touch the model", "same"
    )
