"""Copies functions that tf.data calls and compares what both return; tells how often the user's own was traced."""

import json

import keras
import numpy as np
import tensorflow as tf

from fitdoctor.rewrites.graphs import inlined, mapped

traced = {"user": 0}
table = tf.lookup.StaticHashTable(
    tf.lookup.KeyValueTensorInitializer(tf.constant([0, 1, 2, 3]), tf.constant([7, 5, 3, 1])), default_value=-1
)
weights = tf.Variable(np.arange(4, dtype="float32"))
offset = tf.constant([[0.5, 1.5, 2.5, 3.5]])


@tf.function
def scaled(x):
    return x * weights + offset


@tf.function
def twice(x):
    return scaled(x) + scaled(-x)


def plain(x, n):
    traced["user"] += 1
    return x * 2 + tf.cast(n, tf.float32), n


def nested(x, n):
    return twice(x)[0], n


def branches(x, n):
    if n > 1:
        x = tf.sort(x)
    for _ in tf.range(n):
        x = x + 1.0
    return {"x": x, "n": table.lookup(n)}


def python(x, n):
    return tf.ensure_shape(tf.numpy_function(lambda a: a[::-1].copy(), [x], tf.float32), (4,)), n


def several(x, n):
    parts = tf.split(x, 2)
    return parts[1], parts[0], tf.strings.as_string(n)


def seeded(x, n):
    return x + tf.random.stateless_normal((4,), seed=tf.stack([n, n])), n


def flat(element):
    return [np.asarray(leaf).tolist() for leaf in keras.tree.flatten(element)]


x = np.random.default_rng(0).standard_normal((6, 4)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, np.arange(6, dtype="int32") % 4))
same, lines = {}, {}
for function in (plain, nested, branches, python, several, seeded):
    own = data.map(function)
    copied = inlined([own._map_func.function])
    theirs = [flat(each) for each in own]
    ours = [flat(each) for each in mapped(data, copied, copied.outputs)]
    same[function.__name__] = theirs == ours
    sites = {node.site.line for node in copied.nodes if node.site is not None}
    first = function.__code__.co_firstlineno
    lines[function.__name__] = any(first < line <= first + 6 for line in sites)
    if function is nested:
        # Inlined: the lines are those of the functions that are called.
        inner = scaled.python_function.__code__.co_firstlineno
        lines["called"] = any(inner < line <= inner + 2 for line in sites)
        calls = [node.kind for node in copied.nodes if "Call" in node.kind]

chained = data.map(plain).map(several)
both = inlined([chained._input_dataset._map_func.function, chained._map_func.function])
same["one after the other"] = [flat(each) for each in chained] == [
    flat(each) for each in mapped(data, both, both.outputs)
]
product = next(node for node in both.nodes if node.kind == "Mul")
tripled = {product.output(): ((product.inputs[0],), lambda x: 3 * x)}
replaced = [flat(each)[0] for each in mapped(data, both, both.outputs, tripled)]
expected = [(3 * row + number % 4)[2:] for number, row in enumerate(x)]
same["replaced"] = bool(np.allclose(replaced, expected))
print(json.dumps({"same": same, "lines": lines, "calls": calls, "traced": traced["user"]}))
