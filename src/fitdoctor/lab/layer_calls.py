"""Which layers one forward pass calls, with what, and which of those calls are alike.

The model is called once, as it is, on the cached batch; meanwhile every call of a layer passes by here.  Layers that
only call others are looked into; what they calculate beside them belongs to no layer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from fitdoctor.errors import CannotRun
from fitdoctor.lab.beside import quiet
from fitdoctor.lab.job import Job
from fitdoctor.lab.layer_work import Shapes
from fitdoctor.lab.snapshot import free_memory
from fitdoctor.probes.model_layers import is_container

Told = TypeVar("Told")
_UNLIKE = ("name", "seed", "trainable")
"""What may differ between two layers that do the same work."""


@dataclass(frozen=True, slots=True, eq=False)
class LayerCall:
    """One call of one layer, as it was made."""

    layer: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: Any
    learned_before: bool
    """A layer that learns came before it: the step needs gradients of its inputs too."""

    @property
    def name(self) -> str:
        """The layer's name."""
        return str(self.layer.name)

    @property
    def kind(self) -> str:
        """The name of its class."""
        return type(self.layer).__name__


def record(job: Job) -> list[LayerCall]:
    """Call the model once on the cached batch and return the calls of its layers, in their order."""
    given = _inputs(job)
    calls: list[LayerCall] = []
    with quiet(), _without_gradients(job.backend):
        if job.backend == "jax":
            calls = _as_one(job.model, given)
        else:
            with _listening(job.model, calls):
                _forward(job.model, given)
    return _some(calls)


def told_by_shapes(job: Job, tell: Callable[[list[LayerCall]], Told]) -> Told:
    """Return what `tell` says of the calls, which needs no more than the shapes in them: on JAX nothing is compiled."""
    if job.backend != "jax":
        return tell(record(job))
    values, forward, calls = _stateless(job.model)
    found: list[Told] = []

    def traced(values: list[Any], given: Any) -> None:
        forward(values, given)
        found.append(tell(_some(calls)))

    with quiet():
        sys.modules["jax"].eval_shape(traced, values, _inputs(job))
    return found[-1]


def _inputs(job: Job) -> Any:
    if not type(job.model).train_step.__module__.startswith("keras."):
        raise CannotRun("its train_step is its own: how it calls the layers is not known", do="time the layers by hand")
    from keras import ops, tree
    from keras.src.trainers.data_adapters import data_adapter_utils

    x, *_ = data_adapter_utils.unpack_x_y_sample_weight(job.batch)
    return tree.map_structure(lambda leaf: leaf if leaf is None else ops.convert_to_tensor(leaf), x)


def _some(calls: list[LayerCall]) -> list[LayerCall]:
    if not calls:
        raise CannotRun("no layer was called: the model calculates by itself")
    return calls


def _forward(model: Any, given: Any) -> None:
    if getattr(model, "_call_has_training_arg", True):
        model(given, training=True)
    else:
        model(given)


def _stateless(model: Any) -> tuple[list[Any], Callable[[list[Any], Any], None], list[LayerCall]]:
    """Return the values of the model's variables, its forward pass as a function of them, and what that notes."""
    import keras

    variables = list(model.variables)
    calls: list[LayerCall] = []

    def forward(values: list[Any], given: Any) -> None:
        calls.clear()
        scope = keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True)))
        with _listening(model, calls), scope:
            _forward(model, given)

    return [variable.value for variable in variables], forward, calls


def _as_one(model: Any, given: Any) -> list[LayerCall]:
    """Call the model as one compiled function that returns all its layers are given and hand on.

    Outside of such a function JAX compiles every operation by itself, which takes minutes for a hundred layers.
    """
    from keras import tree

    values, forward, calls = _stateless(model)

    def traced(values: list[Any], given: Any) -> list[list[Any]]:
        forward(values, given)
        return [tensors_of((call.args, call.kwargs, call.outputs)) for call in calls]

    found = sys.modules["jax"].jit(traced)(values, given)
    filled = []
    for call, tensors in zip(calls, found, strict=True):
        told = (call.args, call.kwargs, call.outputs)
        new = iter(tensors)
        leaves = [next(new) if _is_tensor(leaf) else leaf for leaf in tree.flatten(told)]
        args, kwargs, outputs = tree.pack_sequence_as(told, leaves)
        filled.append(LayerCall(call.layer, args, kwargs, outputs, call.learned_before))
    return filled


def _is_tensor(leaf: Any) -> bool:
    from keras import ops

    return bool(ops.is_tensor(leaf))


def _without_gradients(backend: str) -> Any:
    return sys.modules["torch"].no_grad() if backend == "torch" else nullcontext()


@contextmanager
def _listening(model: Any, calls: list[LayerCall]) -> Iterator[None]:
    """Note every call of a layer that is not made by another one that does work of its own."""
    from keras.src.ops.operation import Operation

    original = Operation.__call__
    inside: list[bool] = []
    room = free_memory() / 2
    learned = False

    def __call__(operation: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        nonlocal room, learned
        container = operation is model or is_container(operation)
        noted = not container and all(inside)
        inside.append(container)
        try:
            outputs = original(operation, *args, **kwargs)
        finally:
            inside.pop()
        if noted:
            room -= size_of((args, kwargs))
            if room < 0:
                raise CannotRun("what its layers hand on does not fit into memory twice", do="try smaller batches")
            calls.append(LayerCall(operation, args, kwargs, outputs, learned))
            learned = learned or bool(getattr(operation, "trainable_variables", ()))
        return outputs

    Operation.__call__ = __call__
    try:
        yield
    finally:
        Operation.__call__ = original


def tensors_of(structure: Any) -> list[Any]:
    """Return the tensors in a structure."""
    from keras import tree

    return [leaf for leaf in tree.flatten(structure) if _is_tensor(leaf)]


def shape_of(tensor: Any) -> tuple[int, ...]:
    """Return a tensor's shape; sides that are not known count once."""
    return tuple(int(side) if side is not None else 1 for side in tensor.shape)


def size_of(structure: Any) -> int:
    """Return the bytes of the tensors in a structure."""
    import numpy as np
    from keras import backend

    total = 0
    for tensor in tensors_of(structure):
        name = backend.standardize_dtype(tensor.dtype)
        width = 2 if name == "bfloat16" else 1 if name == "bool" else np.dtype(name).itemsize
        total += int(np.prod(shape_of(tensor), dtype=np.int64)) * width
    return total


def likeness(call: LayerCall) -> str:
    """Return what two calls share that do the same work on inputs of the same shape.

    Only layers of Keras's own are known by their configuration.
    """
    told = str(id(call.layer))
    if type(call.layer).__module__.split(".")[0] == "keras" and hasattr(call.layer, "weights"):
        config = {name: value for name, value in call.layer.get_config().items() if name not in _UNLIKE}
        told = json.dumps(config, sort_keys=True, default=str)
    shapes = [(shape_of(each), str(each.dtype)) for each in tensors_of((call.args, call.kwargs))]
    learns = len(getattr(call.layer, "trainable_variables", ()))
    return f"{call.kind} {told} {shapes} {call.learned_before} {learns}"


def shapes(call: LayerCall) -> Shapes:
    """Return what the shapes tell of a call."""
    config = call.layer.get_config() if call.kind == "MultiHeadAttention" else {}
    return Shapes(
        kind=call.kind,
        inputs=[shape_of(each) for each in tensors_of(call.args)],
        outputs=[shape_of(each) for each in tensors_of(call.outputs)],
        weights=[shape_of(each) for each in getattr(call.layer, "weights", ())],
        config=config,
    )
