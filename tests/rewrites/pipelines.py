"""Pipelines of every kind of stage, each made anew when asked for, with how often their functions were traced."""

from __future__ import annotations

import collections
import os
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

FOLDER = tempfile.mkdtemp()
TRACES: collections.Counter[str] = collections.Counter()
Point = collections.namedtuple("Point", "x y")
X = np.random.default_rng(0).normal(size=(37, 4)).astype("float32")
FILES = []
for number in range(6):
    FILES.append(os.path.join(FOLDER, f"{number}.tfrecord"))
    with tf.io.TFRecordWriter(FILES[-1]) as writer:
        for row in range(3 + number):
            writer.write(f"{number}/{row}".encode())


def traced(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Count how often a function is traced."""

    def wrapped(*args: Any) -> Any:
        TRACES[name] += 1
        return function(*args)

    return wrapped


def options(**settings: Any) -> Any:
    made = tf.data.Options()
    if "autotune" in settings:
        made.autotune.enabled = settings["autotune"]
    if "deterministic" in settings:
        made.deterministic = settings["deterministic"]
    if "threads" in settings:
        made.threading.private_threadpool_size = settings["threads"]
    return made


def numbers(count: int = 23) -> Any:
    return tf.data.Dataset.range(count)


def rows() -> Any:
    return tf.data.Dataset.from_tensor_slices(X)


def double(x: Any) -> Any:
    return x * 2


def failing(x: Any) -> Any:
    return tf.debugging.check_numerics(1.0 / tf.cast(x % 3, tf.float32), "every third")


def noisy(x: Any) -> Any:
    return x + tf.random.uniform((), 0, 99, tf.int64, seed=3)


def samples() -> Any:
    for each in range(7):
        yield each, np.full(each % 3 + 1, each, "float32")


def generated() -> Any:
    spec = (tf.TensorSpec((), tf.int32), tf.TensorSpec((None,), tf.float32))
    return tf.data.Dataset.from_generator(samples, output_signature=spec)


def ragged() -> Any:
    return tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1, 2], [3], [], [4, 5, 6], [7]]))


def sparse() -> Any:
    values = tf.sparse.from_dense(np.eye(9, 5, dtype="float32"))
    return tf.data.Dataset.from_tensor_slices(values)


def nested() -> Any:
    data = tf.data.Dataset.from_tensor_slices({"a": X, "b": (X[:, 0], Point(X[:, 1], X[:, 2:]))})
    return data.map(traced("nested", lambda each: {"b": each["b"], "c": each["a"] + 1.0}))


def scanned() -> Any:
    return numbers().scan(np.int64(0), traced("scan", lambda state, x: (state + x, state * x)))


def with_file_cache() -> Any:
    name = os.path.join(tempfile.mkdtemp(dir=FOLDER), "cache")
    data = numbers().map(traced("file cache", double)).cache(name)
    list(data)
    return data.batch(4)


def files() -> Any:
    return tf.data.Dataset.from_tensor_slices(FILES)


KINDS: dict[str, Callable[[], Any]] = {
    "map": lambda: numbers().map(traced("map", double), name="named"),
    "parallel map": lambda: numbers().map(
        traced("parallel", double), num_parallel_calls=3, deterministic=True, use_unbounded_threadpool=True
    ),
    "batch": lambda: rows().batch(5),
    "batch without remainder": lambda: rows().batch(5, drop_remainder=True),
    "parallel batch": lambda: rows().batch(5, num_parallel_calls=2, deterministic=True),
    "padded batch": lambda: generated().padded_batch(3, padded_shapes=((), (4,)), padding_values=(None, -1.0)),
    "prefetch": lambda: rows().prefetch(3),
    "prefetch by itself": lambda: rows().prefetch(tf.data.AUTOTUNE),
    "shuffle with a seed": lambda: numbers().shuffle(9, seed=4),
    "shuffle once": lambda: numbers().shuffle(9, seed=4, reshuffle_each_iteration=False),
    "repeat": lambda: numbers(4).repeat(3),
    "take and skip": lambda: numbers().skip(3).take(9),
    "cache": lambda: numbers().map(traced("cached", double)).cache().shuffle(23, seed=1).batch(4),
    "file cache": with_file_cache,
    "filter": lambda: numbers().filter(traced("filter", lambda x: x % 3 == 0)),
    "flat_map": lambda: numbers(5).flat_map(traced("flat", lambda x: tf.data.Dataset.range(x))),
    "interleave": lambda: files().interleave(traced("interleave", tf.data.TFRecordDataset), cycle_length=3),
    "parallel interleave": lambda: files().interleave(
        traced("parallel interleave", tf.data.TFRecordDataset), cycle_length=2, block_length=2, num_parallel_calls=2
    ),
    "options": lambda: rows().with_options(options(autotune=False, threads=2)).batch(4),
    "options twice": lambda: rows()
    .with_options(options(deterministic=True))
    .map(traced("twice", double))
    .with_options(options(autotune=False)),
    "shard": lambda: numbers().shard(4, 1),
    "enumerate": lambda: rows().enumerate(start=5),
    "zip": lambda: tf.data.Dataset.zip((numbers(), {"rows": rows(), "more": numbers().map(traced("zip", double))})),
    "zip of one": lambda: (lambda data: tf.data.Dataset.zip((data, data)))(numbers().shuffle(23, seed=5)),
    "concatenate": lambda: numbers(4).concatenate(numbers(9).map(traced("concatenate", double))),
    "unbatch": lambda: rows().batch(4).unbatch(),
    "rebatch": lambda: rows().batch(6).rebatch([4, 3]),
    "window": lambda: numbers().window(4, shift=2, drop_remainder=True).flat_map(
        traced("window", lambda part: part.batch(4))
    ),
    "scan": scanned,
    "take_while": lambda: numbers().take_while(traced("while", lambda x: x < 11)),
    "ignore errors": lambda: numbers(9)
    .map(traced("errors", failing))
    .ignore_errors(),
    "generator": generated,
    "ragged": ragged,
    "sparse": lambda: sparse().batch(2),
    "strings": lambda: tf.data.Dataset.from_tensor_slices([b"a", b"bc", b""]).map(traced("strings", tf.strings.upper)),
    "nested": lambda: nested().batch(5),
    "records": lambda: tf.data.TFRecordDataset(FILES).batch(3),
    "random with a seed": lambda: numbers().map(traced("random", noisy)),
    "empty": lambda: numbers(0).map(traced("empty", double)).batch(4),
    "all together": lambda: rows()
    .map(traced("first", lambda x: x + 1))
    .shuffle(11, seed=2)
    .repeat(2)
    .batch(4)
    .map(traced("last", tf.reduce_sum))
    .prefetch(2),
}  # fmt: skip


def elements(dataset: Any) -> list[Any]:
    """Read one epoch, as plain Python values that can be compared."""
    return [plain(element) for element in dataset]


def plain(element: Any) -> Any:
    found = []
    for leaf in tf.nest.flatten(element, expand_composites=True):
        array = leaf.numpy()
        if isinstance(array, bytes) or array.dtype == object:
            found.append((str(np.shape(array)), repr(np.asarray(array).tolist())))
        else:
            found.append((str(array.dtype), str(array.shape), array.tobytes().hex()))
    return tuple(found)
