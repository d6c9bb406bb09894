"""A layer's call made again, alone: forward, and backward as far as the step needs it.

Compiled as the step is: by `tf.function` (and XLA where the step has it), by `jax.jit`, op by op on torch.  So is the
optimizer's update of all weights, on gradients that are as large as the real ones.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fitdoctor.lab.job import wait_for
from fitdoctor.lab.layer_calls import LayerCall, tensors_of

Once = Callable[[], Any]
Run = Callable[[Sequence[Any]], list[Any]]

_SMALL = 1e-3
"""What every gradient is made of: neither zero nor so small that arithmetic takes longer."""


def replay(call: LayerCall, backend: str, *, xla: bool) -> Once:
    """Return what makes the call again, with the gradients that a step needs of it."""
    from keras import backend as keras_backend
    from keras import ops, tree

    leaves = tree.flatten((call.args, call.kwargs))
    places = [place for place, leaf in enumerate(leaves) if ops.is_tensor(leaf)]
    tensors = [leaves[place] for place in places]

    def is_float(tensor: Any) -> bool:
        return "float" in keras_backend.standardize_dtype(tensor.dtype)

    def run(given: Sequence[Any]) -> list[Any]:
        filled = list(leaves)
        for place, tensor in zip(places, given, strict=True):
            filled[place] = tensor
        args, kwargs = tree.pack_sequence_as((call.args, call.kwargs), filled)
        return [each for each in tensors_of(call.layer(*args, **kwargs)) if is_float(each)]

    needed = [call.learned_before and is_float(tensor) for tensor in tensors]
    if backend == "tensorflow":
        return _tensorflow(call.layer, run, tensors, needed, xla=xla)
    make = _jax if backend == "jax" else _torch
    return make(call.layer, run, tensors, needed)


def _learned(layer: Any) -> list[Any]:
    return list(getattr(layer, "trainable_variables", ()))


def _tensorflow(layer: Any, run: Run, tensors: list[Any], needed: list[bool], *, xla: bool) -> Once:
    tf = sys.modules["tensorflow"]
    variables = _learned(layer)

    def forward_and_backward(*given: Any) -> Any:
        watched = [each for each, wanted in zip(given, needed, strict=True) if wanted]
        with tf.GradientTape() as tape:
            for each in watched:
                tape.watch(each)
            outputs = run(given)
        sources = [*watched, *variables]
        return outputs, tape.gradient(outputs, sources) if outputs and sources else None

    compiled = tf.function(forward_and_backward, autograph=False, jit_compile=True if xla else None)
    # Traced here: TensorFlow warns of functions that are traced again and again when they are called.
    traced = compiled.get_concrete_function(*tensors)
    return lambda: traced(*tensors)


def _jax(layer: Any, run: Run, tensors: list[Any], needed: list[bool]) -> Once:
    jax, keras = sys.modules["jax"], sys.modules["keras"]
    variables, others = _learned(layer), list(getattr(layer, "non_trainable_variables", ()))

    def forward_and_backward(learned: list[Any], rest: list[Any], given: list[Any]) -> Any:
        def forward(learned: list[Any], watched: list[Any]) -> Any:
            new = iter(watched)
            every = [next(new) if wanted else each for each, wanted in zip(given, needed, strict=True)]
            mapping = [*zip(variables, learned, strict=True), *zip(others, rest, strict=True)]
            with keras.StatelessScope(state_mapping=mapping) as scope:
                outputs = run(every)
            return outputs, [scope.get_current_value(each) for each in others]

        watched = [each for each, wanted in zip(given, needed, strict=True) if wanted]
        if not variables and not watched:
            return forward(learned, watched)
        outputs, backward, state = jax.vjp(forward, learned, watched, has_aux=True)
        return outputs, backward([jax.numpy.ones_like(each) for each in outputs]), state

    compiled = jax.jit(forward_and_backward)
    values, rest = _copies(variables), _copies(others)
    return lambda: compiled(values, rest, tensors)


def _copies(variables: Sequence[Any]) -> list[Any]:
    """Copy values: a `fit` in between gives the buffers of the variables away."""
    jax = sys.modules["jax"]
    return [jax.numpy.array(each.value, copy=True) for each in variables]


def _torch(layer: Any, run: Run, tensors: list[Any], needed: list[bool]) -> Once:
    torch = sys.modules["torch"]
    variables = _learned(layer)
    given = [
        each.detach().requires_grad_() if wanted else each.detach()
        for each, wanted in zip(tensors, needed, strict=True)
    ]
    watched = [each for each, wanted in zip(given, needed, strict=True) if wanted]

    def once() -> Any:
        outputs = [each for each in run(given) if each.requires_grad]
        sources = [*watched, *(each.value for each in variables)]
        if not outputs or not sources:
            return outputs
        ones = [torch.ones_like(each) for each in outputs]
        return torch.autograd.grad(outputs, sources, ones, allow_unused=True)

    return once


# --- the optimizer ------------------------------------------------------------------------------------


def update(
    model: Any, variables: Sequence[Any], backend: str, *, xla: bool, rows: Mapping[int, Any] | None = None
) -> Once:
    """Return what lets the optimizer update these variables; `rows`: the rows used of tables, by the variable's id.

    On TensorFlow the gradient of a table is told row by row, as Keras gets it there; elsewhere it is as large as the
    table.
    """
    from keras import ops

    optimizer = model.optimizer
    if backend == "tensorflow":
        tf = sys.modules["tensorflow"]
        sparse = rows or {}
        gradients = [
            _row_gradient(each, sparse[id(each)]) if id(each) in sparse else tf.fill(each.shape, _as(each, _SMALL))
            for each in variables
        ]

        def apply(gradients: list[Any]) -> None:
            optimizer.apply(gradients, variables)

        compiled = tf.function(apply, autograph=False, jit_compile=True if xla else None)
        return lambda: compiled(gradients)
    gradients = [ops.full(each.shape, _SMALL, dtype=each.dtype) for each in variables]
    if backend == "jax":
        return _update_jax(_for(optimizer, model, variables), variables, gradients)
    torch = sys.modules["torch"]

    def once() -> None:
        with torch.no_grad():
            optimizer.apply(gradients, variables)

    return once


def _as(variable: Any, value: float) -> Any:
    return sys.modules["tensorflow"].constant(value, dtype=variable.dtype)


def _row_gradient(table: Any, used: Any) -> Any:
    tf = sys.modules["tensorflow"]
    indices = tf.reshape(tf.cast(used, tf.int32), [-1])
    values = tf.fill([tf.size(indices), table.shape[-1]], _as(table, _SMALL))
    return tf.IndexedSlices(values, indices, tf.constant([int(side) for side in table.shape]))


def _for(optimizer: Any, model: Any, variables: Sequence[Any]) -> Any:
    """Return the optimizer, or one like it that knows only some of the variables."""
    if len(variables) == len(model.trainable_variables):
        return optimizer
    twin = type(optimizer).from_config(optimizer.get_config())
    twin.build(list(variables))
    return twin


def _update_jax(optimizer: Any, variables: Sequence[Any], gradients: list[Any]) -> Once:
    jax = sys.modules["jax"]

    def apply(state: Any, gradients: list[Any]) -> Any:
        learned, own = state
        return optimizer.stateless_apply(own, gradients, learned)

    compiled = jax.jit(apply, donate_argnums=0)
    state = _copies(variables), _copies(optimizer.variables)

    def once() -> Any:
        nonlocal state
        state = compiled(state, gradients)
        return state

    return once


# --- the clock ----------------------------------------------------------------------------------------


def ns_of(once: Once, backend: str, times: int) -> float:
    """Return nanoseconds per call, each awaited."""
    start = time.perf_counter_ns()
    for _ in range(times):
        wait_for(backend, once())
    return (time.perf_counter_ns() - start) / times


def launch_ns(backend: str) -> float:
    """Return what it takes to call a compiled function that does nothing: a step pays it once, not for every layer."""
    if backend == "torch":
        return 0.0
    if backend == "tensorflow":
        tf = sys.modules["tensorflow"]
        nothing, given = tf.function(lambda value: value + 1), tf.constant(0)
    else:
        jax = sys.modules["jax"]
        nothing, given = jax.jit(lambda value: value + 1), jax.numpy.zeros(())
    once: Once = lambda: nothing(given)  # noqa: E731
    # The shortest: what others do on the machine meanwhile is no part of it.
    return min(ns_of(once, backend, 1) for _ in range(100))
