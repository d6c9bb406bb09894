"""Which layers stand out, read from objects that look like layers of Keras."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from fitdoctor.probes import model_layers


def layer(kind: str, name: str, *shapes: tuple[int, ...], module: str = "keras.src.layers", **attributes: Any) -> Any:
    made = type(kind, (), {"__module__": module})()
    made.name = name
    made.weights = [SimpleNamespace(shape=shape) for shape in shapes]
    for key, value in attributes.items():
        setattr(made, key, value)
    return made


def dense(name: str, inputs: int, units: int, activation: str = "relu") -> Any:
    function = SimpleNamespace(__name__=activation)
    return layer("Dense", name, (inputs, units), (units,), units=units, activation=function)


def conv(name: str, channels: int, filters: int, activation: str = "relu") -> Any:
    function = SimpleNamespace(__name__=activation)
    return layer("Conv2D", name, (3, 3, channels, filters), (filters,), filters=filters, activation=function)


def model(*layers: Any) -> Any:
    return layer("Sequential", "sequential", layers=list(layers))


def test_the_dense_layer_behind_flatten() -> None:
    found = model_layers.outline(
        model(
            conv("conv", 1, 32),
            layer("Flatten", "flatten"),
            layer("Dropout", "drop"),
            dense("big", 8192, 128),
            dense("out", 128, 10),
        )
    )
    assert found["flattened"] == {"name": "big", "units": 128, "params": 8192 * 128 + 128}
    assert found["kinds"] == {"Conv2D": 1, "Flatten": 1, "Dropout": 1, "Dense": 2}
    assert found["count"] == 5


def test_flatten_after_the_input_is_none() -> None:
    assert model_layers.outline(model(layer("Flatten", "flatten"), dense("big", 784, 512)))["flattened"] is None


def test_a_convolution_far_wider_than_the_others() -> None:
    wide = model(conv("a", 1, 32), conv("b", 32, 1024), conv("c", 1024, 64), dense("out", 64, 10))
    assert model_layers.outline(wide)["widest"] == {"name": "b", "kind": "Conv2D", "width": 1024, "next": 64}
    usual = model(conv("a", 1, 32), conv("b", 32, 64), conv("c", 64, 128), dense("out", 128, 10))
    assert model_layers.outline(usual)["widest"] is None


def test_the_last_layer_is_as_wide_as_the_task() -> None:
    upscaling = model(conv("a", 1, 32), conv("b", 32, 32), conv("out", 32, 1024))
    assert model_layers.outline(upscaling)["widest"] is None


def test_layers_inside_models_and_inside_layers_of_the_users_own() -> None:
    block = layer("Block", "block", module="__main__", layers=[dense("inner", 8, 8, "gelu"), layer("Dropout", "drop")])
    found = model_layers.outline(model(model(conv("conv", 1, 4)), block, dense("out", 8, 1, "sigmoid")))
    assert found["kinds"] == {"Conv2D": 1, "Dense": 2, "Dropout": 1}
    assert found["activations"] == {"inner": "gelu"}


def test_layers_of_keras_are_not_looked_into() -> None:
    attention = layer("MultiHeadAttention", "attention", layers=[dense("query", 8, 8)])
    assert model_layers.outline(model(attention))["kinds"] == {"MultiHeadAttention": 1}


def test_embeddings_recurrent_layers_and_activations() -> None:
    table = layer("Embedding", "table", (1000, 16), input_dim=1000)
    both = layer("Bidirectional", "both", (16, 8), forward_layer=layer("GRU", "gru"))
    found = model_layers.outline(model(table, both, layer("PReLU", "prelu", (8,)), dense("out", 8, 1)))
    assert found["embeddings"] == [{"name": "table", "rows": 1000, "params": 16_000}]
    assert found["recurrent"] == ["both"]
    assert found["activations"] == {"prelu": "PReLU"}


class Plain:
    def call(self, x: Any) -> Any:
        return x * 2


class WithNumpy:
    def call(self, x: Any) -> Any:
        return np.tanh(x)


class WithCallback:
    def call(self, x: Any) -> Any:
        return (lambda function: function.numpy_function(max, x))(self)


def test_python_in_a_layer_is_seen_in_its_code() -> None:
    assert not model_layers.calls_host(Plain())
    assert model_layers.calls_host(WithNumpy())
    assert model_layers.calls_host(WithCallback())


def test_a_model_without_layers() -> None:
    found = model_layers.outline(object())
    assert found["count"] == 0
    assert found["flattened"] is found["widest"] is None


def test_the_outline_of_a_model_is_read_once() -> None:
    made = model(dense("out", 8, 1))
    assert model_layers.known(made) is None, "it has no weights yet"
    made.built = True
    assert model_layers.known(made) is model_layers.known(made)


def test_a_model_that_is_never_called_has_layers_all_the_same() -> None:
    """A GAN: `train_step` calls its two networks, and nobody calls the whole."""
    gan = model(model(dense("a", 8, 4)), model(dense("b", 4, 8)))
    assert model_layers.known(gan) is None, "nothing says that there are weights"
    for part in model_layers.leaves(gan):
        part.built = True
    found = model_layers.known(gan)
    assert found is not None
    assert found["count"] == 2
