"""A second model, made from the description of the user's own: for what cannot be changed on a model that exists."""

from __future__ import annotations

from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.job import Job
from fitdoctor.lab.snapshot import free_memory

_STATE = 4
"""A trained copy takes about so many times its weights: gradients and the optimizer's own."""


def description(job: Job) -> Any:
    """Return the model's own description, as Keras would save it."""
    from keras import saving

    return saving.serialize_keras_object(job.model)


def made(job: Job, told: Any, batch: Any, *, step_ns: float) -> Job:
    """Make the model that is described, compiled as the user's is, ready to train on a batch."""
    from keras import saving

    if _STATE * 4 * int(job.model.count_params()) > free_memory():
        raise CannotRun("a second model does not fit into memory", do="run it on a machine with more memory")
    model = saving.deserialize_keras_object(told)
    if not getattr(model, "compiled", False):
        raise CannotRun("the model cannot be compiled from its own description", do="try it in the script")
    model.make_train_function()
    twin = Job(model, job.backend, (), {}, step_ns=step_ns)
    twin.keep(batch)
    return twin
