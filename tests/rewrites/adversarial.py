"""Hard pipelines: every rewrite that is accepted is checked again, independently, against the user's own code run anew.

`make()` stands for the user's script: it builds the pipeline from nothing, with counters and variables set back.  What
a rewrite gives is read from a pipeline made by one such call, what the original gives from another.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from pipelines import FILES, KINDS, X, elements, options

from fitdoctor.probes.dataset_tf import name_of
from fitdoctor.rewrites.candidates import ANY_ORDER, ROUNDED, Candidate, Refusal, Seen, found
from fitdoctor.rewrites.equality import check
from fitdoctor.rewrites.stages import every

Data = tf.data.Dataset
STATE: dict[str, Any] = {"count": 0}


def rows(count: int = 37) -> Any:
    return Data.from_tensor_slices(X[:count])


def python_counter(kind: Any) -> Any:
    STATE["count"] = 0

    def count(x: Any) -> Any:
        STATE["count"] += 1
        return np.float32(STATE["count"]) + np.asarray(x)

    def call(x: Any) -> Any:
        out = kind(count, [x], tf.float32)
        out.set_shape((4,))
        return out

    return rows().map(call).batch(5)


def variable_counter() -> Any:
    variable = tf.Variable(0, dtype=tf.int64)
    return rows().map(lambda x: x + tf.cast(variable.assign_add(1), tf.float32)).batch(5)


def variable_read() -> Any:
    variable = tf.Variable(3.0)
    return rows().map(lambda x: x * variable).batch(5)


def table_counter() -> Any:
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)

    def count(x: Any) -> Any:
        seen = table.lookup(tf.constant(1, tf.int64))
        with tf.control_dependencies([table.insert(tf.constant(1, tf.int64), seen + 1)]):
            return x + tf.cast(seen, tf.float32)

    STATE["table"] = table
    return rows().map(count).batch(5)


def generator_counter() -> Any:
    STATE["count"] = 0

    def samples() -> Any:
        for _ in range(9):
            STATE["count"] += 1
            yield np.full(2, STATE["count"], "float32")

    spec = tf.TensorSpec((2,), tf.float32)
    return Data.from_generator(samples, output_signature=spec).map(lambda x: x * 2).batch(4)


def file_cache() -> Any:
    name = os.path.join(tempfile.mkdtemp(), "cache")
    return rows().map(lambda x: x + 1).cache(name).map(lambda x: x * 2).batch(4)


def generator_object() -> Any:
    generator = tf.random.Generator.from_seed(1)
    return rows().map(lambda x: x + generator.normal((4,))).batch(5)


def keras_layers(*, counts: bool = False) -> Any:
    """Layers of Keras draw from variables of their own, which every pass moves on; a counter is no such variable."""
    import keras

    vary = keras.Sequential([keras.layers.GaussianNoise(0.5, seed=1), keras.layers.Dropout(0.2)])
    vary.build((None, 4))
    counter = tf.Variable(0.0)

    def change(x: Any) -> Any:
        x = vary(x[None], training=True)[0]
        return x + counter.assign_add(1.0) if counts else x

    STATE["vary"], STATE["counter"] = vary, counter
    return rows().map(change).batch(5)


def global_seed() -> Any:
    tf.random.set_seed(5)
    try:
        return rows().map(lambda x: x + tf.random.normal((4,))).shuffle(7).batch(5)
    finally:
        tf.random.set_seed(None)


def determinism() -> Any:
    return rows().map(lambda x: x + tf.random.normal((4,), seed=1)).batch(5)


def off(data: Any) -> Any:
    return data.with_options(options(autotune=False))


def dataset_of_files() -> Any:
    return tf.data.TFRecordDataset(Data.from_tensor_slices(FILES).shuffle(6)).map(tf.strings.length).batch(4)


def every_other() -> Any:
    """A filter that depends on earlier elements, by way of a scan."""
    counted = rows().scan(np.int64(0), lambda state, x: (state + 1, (state, x)))
    return counted.filter(lambda place, x: place % 2 == 0).map(lambda place, x: x * 2).batch(4)


CASES: dict[str, Callable[[], Any]] = {
    "shuffle with a seed": lambda: rows().map(lambda x: x + 1).shuffle(9, seed=3).batch(4),
    "shuffle without a seed": lambda: rows().map(lambda x: x + 1).shuffle(9).batch(4),
    "shuffle below the map": lambda: rows().shuffle(9).map(lambda x: x + 1).batch(4),
    "two maps above a shuffle": lambda: rows().map(tf.sort).shuffle(9, seed=3).map(tf.exp).map(tf.cumsum).batch(4),
    "shuffle that keeps its order": lambda: (
        rows().shuffle(9, seed=3, reshuffle_each_iteration=False).map(lambda x: x + 1).batch(4)
    ),
    "random map above one that follows a shuffle": lambda: (
        rows().shuffle(9, seed=3).map(tf.sort).map(lambda x: x + tf.random.normal((4,))).batch(5)
    ),
    "shuffle of a shuffle": lambda: rows().shuffle(9, seed=3).shuffle(5, seed=4).map(lambda x: x + 1).batch(4),
    "map of what was repeated and shuffled": lambda: rows().repeat(2).shuffle(9, seed=3).map(tf.sort).batch(4),
    "filter above a map that follows a shuffle": lambda: (
        rows().shuffle(9, seed=3).map(lambda x: x + 1).filter(lambda x: x[0] > 0).batch(4)
    ),
    "shuffle without a seed, options off": lambda: off(rows().shuffle(9).map(lambda x: x + 1).batch(4)),
    "random map with its own seed": lambda: rows().map(lambda x: x + tf.random.normal((4,), seed=1)).batch(5),
    "random map without a seed": lambda: rows().map(lambda x: x + tf.random.normal((4,))).batch(5),
    "random map with the global seed": global_seed,
    "layers of Keras": keras_layers,
    "layers of Keras and a counter": lambda: keras_layers(counts=True),
    "random map above a pure one": lambda: rows().map(tf.sort).map(lambda x: x + tf.random.normal((4,))).batch(5),
    "random map below a pure one": lambda: off(rows().map(lambda x: x + tf.random.normal((4,))).map(tf.sort).batch(5)),
    "stateless random map": lambda: rows().map(lambda x: x + tf.random.stateless_normal((4,), (1, 2))).batch(5),
    "a generator object": generator_object,
    "a variable that counts": variable_counter,
    "a variable that is read": variable_read,
    "a table that counts": table_counter,
    "Python that counts, numpy_function": lambda: python_counter(tf.numpy_function),
    "Python that counts, py_function": lambda: python_counter(tf.py_function),
    "a generator that counts": generator_counter,
    "flat_map": lambda: rows(9).flat_map(Data.from_tensor_slices).map(lambda x: x * 2).batch(4),
    "flat_map over files": lambda: Data.from_tensor_slices(FILES).flat_map(tf.data.TFRecordDataset).batch(4),
    "interleave over files": lambda: (
        Data.from_tensor_slices(FILES).interleave(tf.data.TFRecordDataset, cycle_length=3, block_length=2).batch(4)
    ),
    "interleave that shuffles inside": lambda: (
        Data.range(5).interleave(lambda x: Data.range(x * 3).shuffle(20), cycle_length=2).batch(4)
    ),
    "files in random order": dataset_of_files,
    "variable shapes": lambda: Data.range(1, 9).map(lambda x: tf.range(x)[:1] * 2).batch(3),
    "shapes made equal by the map": lambda: Data.range(1, 9).map(tf.range).map(lambda x: tf.reduce_sum(x)).batch(3),
    "ragged": lambda: KINDS["ragged"]().map(lambda x: x * 2).ragged_batch(2),
    "ragged rows": lambda: KINDS["ragged"]().map(lambda x: tf.reduce_sum(x)).batch(2),
    "sparse": lambda: KINDS["sparse"]().map(lambda x: x * 2.0),
    "infinite": lambda: rows().map(lambda x: x + 1).repeat().batch(4),
    "infinite with a shuffle": lambda: rows().map(lambda x: x + 1).shuffle(5).repeat().batch(4),
    "cache file": file_cache,
    "filter by an earlier element": every_other,
    "scan": lambda: rows().scan(tf.zeros(4), lambda state, x: (state + x, state * 2)).map(lambda x: x + 1).batch(4),
    "mean over an element": lambda: rows().map(lambda x: x - tf.reduce_mean(x)).batch(5),
    "norm and softmax over an element": lambda: rows().map(lambda x: tf.nn.softmax(x / tf.norm(x))).batch(5),
    "a number per row of another rank": lambda: (
        Data.from_tensor_slices((X[:36], X[:36, 0])).map(lambda x, y: x * y).batch(4)
    ),
    "a constant as long as the batch": lambda: rows(36).map(lambda x: x * tf.constant([1.0, 2, 3, 4])).batch(4),
    "a constant wider than the element": lambda: rows(36).map(lambda x: x * tf.ones((4, 4))).batch(4),
    "a result that is constant": lambda: rows().map(lambda x: (x + 1, tf.constant(2.0))).batch(4),
    "numbers of the shape": lambda: rows(36).map(lambda x: x / float(x.shape[0])).batch(6),
    "cumsum, sort, argmax": lambda: rows().map(lambda x: (tf.cumsum(x), tf.sort(x), tf.argmax(x))).batch(5),
    "a condition per element": lambda: rows().map(lambda x: tf.cond(x[0] > 0, lambda: x, lambda: -x)).batch(5),
    "a loop per element": lambda: (
        rows().map(lambda x: tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2), [0, x])[1]).batch(5)
    ),
    "a loop as long as the element says": lambda: (
        Data.range(9)
        .map(lambda x: tf.while_loop(lambda i, v: i < x, lambda i, v: (i + 1, v * 2), [tf.constant(0, tf.int64), x])[1])
        .batch(5)
    ),
    "elements exchanged in place": lambda: Data.from_tensor_slices((X, X[:, 0])).map(lambda x, y: (y, x)).batch(5),
    "nested structures": lambda: KINDS["nested"](),
    "strings": lambda: KINDS["strings"]().map(lambda s: tf.strings.join([s, "!"])).batch(2),
    "text to numbers": lambda: (
        Data.from_tensor_slices([b"1", b"22", b"3"]).map(lambda s: tf.strings.to_number(s)).batch(2)
    ),
    "empty": KINDS["empty"],
    "take, skip, repeat": lambda: rows().map(lambda x: x + 1).skip(2).take(20).repeat(2).batch(6),
    "take of a shuffle": lambda: rows().map(lambda x: x + 1).shuffle(37).take(10).batch(3),
    "repeat before the batch": lambda: rows().map(lambda x: x + 1).shuffle(5, seed=1).repeat(3).batch(6),
    "the user allows any order": lambda: (
        rows().map(lambda x: x + 1, num_parallel_calls=2, deterministic=False).map(tf.sort).batch(4)
    ),
    "the user allows any order by options": lambda: (
        rows().map(lambda x: x + 1).batch(4).with_options(options(deterministic=False, autotune=False))
    ),
    "no remainder": lambda: rows().map(lambda x: x + 1).batch(5, drop_remainder=True),
    "errors ignored": lambda: KINDS["ignore errors"]().map(lambda x: x + 1).batch(2),
    "batches of batches": lambda: rows().map(lambda x: x + 1).batch(2).map(tf.reduce_sum).batch(3),
    "enumerate": lambda: rows().map(lambda x: x + 1).enumerate().map(lambda i, x: x * tf.cast(i, tf.float32)).batch(4),
    "zip of one shuffle": lambda: (lambda d: Data.zip((d, d.map(lambda x: x + 1))))(rows().shuffle(9, seed=2)).batch(4),
    "concatenate": lambda: rows().map(lambda x: x + 1).concatenate(rows().map(lambda x: x - 1)).batch(4),
    "padded": lambda: Data.range(1, 9).map(tf.range).padded_batch(3).map(lambda x: x * 2),
    "window": KINDS["window"],
    "elements that are datasets": lambda: rows().map(lambda x: x + 1).window(4),
    "integer overflow": lambda: (
        Data.range(9).map(lambda x: tf.cast(x * 77, tf.int8) * tf.constant(5, tf.int8)).batch(2)
    ),
    "not a number": lambda: rows().map(lambda x: tf.sqrt(x)).batch(5),
    "half precision": lambda: rows().map(lambda x: tf.cast(x, tf.float16) / tf.constant(3, tf.float16)).batch(5),
}
MUST_REFUSE = {
    "a variable that counts", "a table that counts", "a generator object", "Python that counts, numpy_function",
    "Python that counts, py_function", "a generator that counts", "cache file", "files in random order",
    "layers of Keras", "layers of Keras and a counter",
    "elements that are datasets",
}  # fmt: skip
"""Cases in which nothing may be accepted without consent."""


def close(before: Any, after: Any) -> bool:
    """Compare floats within a millionth, all else exactly: not by the oracle's own arithmetic."""
    pairs = list(zip(before, after, strict=True))
    for one, other in pairs:
        for a, b in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
            left, right = a.numpy(), b.numpy()
            if getattr(left, "dtype", None) is not None and left.dtype.kind == "f":
                np.testing.assert_allclose(left, right, rtol=2e-3 if left.dtype == np.float16 else 1e-5, atol=1e-6)
            elif not np.array_equal(left, right):
                return False
    return True


def sorted_elements(dataset: Any) -> list[Any]:
    """Read one epoch without its order, and without how it was cut into batches."""
    return sorted(map(str, elements(dataset.unbatch())))


def how_to_compare(make: Callable[[], Any]) -> str:
    """Tell by running the user's own code twice what of it is the same every time; few elements may be so by chance."""
    one, other = make(), make()
    drawn = any(name_of(stage) == "Shuffle" and not int(stage._seed) + int(stage._seed2) for stage in every(one))
    if one.cardinality() == tf.data.INFINITE_CARDINALITY:
        one, other = one.take(60), other.take(60)
        return "order" if not drawn and elements(one) == elements(other) else "nothing"
    if not drawn and elements(one) == elements(other):
        return "order"
    same = all(sorted_elements(one) == sorted_elements(make()) for _ in range(4 if drawn else 1))
    return "elements" if same else "nothing"


def wrongly(make: Callable[[], Any], candidate: Candidate, verdict: Any, how: str) -> str:
    """Read the original and the rewrite, each from the user's code run anew; say what is wrong."""
    original, rewritten = make(), candidate.apply(make())
    if original.element_spec != rewritten.element_spec:
        return "element_spec"
    if original.cardinality() == tf.data.INFINITE_CARDINALITY:
        original, rewritten = original.take(60), rewritten.take(60)
    try:
        for epoch in (1, 2):
            if how == "nothing":
                return ""
            if how == "elements" or candidate.promise == ANY_ORDER:
                if sorted_elements(original) != sorted_elements(rewritten):
                    return f"elements of epoch {epoch}"
            elif candidate.promise == ROUNDED and verdict.equal != "identical":
                if not close(original, rewritten):
                    return f"batches of epoch {epoch}"
            elif elements(original) != elements(rewritten):
                return f"batches of epoch {epoch}"
    except (AssertionError, ValueError) as error:
        return f"{type(error).__name__}"
    return ""


def judge(name: str) -> dict[str, Any]:
    make = CASES[name]
    accepted: list[str] = []
    wrong: list[str] = []
    how = "" if name in MUST_REFUSE else how_to_compare(make)
    STATE["count"] = 0
    tried: set[Any] = set()
    for candidate in found(make(), Seen()):
        if isinstance(candidate, Refusal) or candidate.safety != "same" or (candidate.rule, candidate.path) in tried:
            continue
        tried.add((candidate.rule, candidate.path))
        verdict = check(make(), candidate)
        if not verdict:
            continue
        title = f"{candidate.rule} [{candidate.settings}]: {verdict.equal}"
        accepted.append(title)
        problem = "" if verdict.equal == "unchanged" else wrongly(make, candidate, verdict, how)
        if problem:
            wrong.append(f"{title}: {problem}")
    return {"accepted": accepted, "wrong": wrong, "calls": STATE["count"] if name in MUST_REFUSE else 0}


def with_consent(name: str) -> list[dict[str, Any]]:
    """Return what is offered to call a map several times at once, where the user allows the data to be read twice."""
    make = CASES[name]
    offered = [each for each in found(make(), Seen()) if not isinstance(each, Refusal) and each.rule == "serial-map"]
    verdicts = [(each.safety, check(make(), each, consents=True)) for each in offered]
    return [{"safety": safety, "differs": verdict.differs, "why": verdict.why} for safety, verdict in verdicts]


def main() -> None:
    if sys.argv[1] == "consent":
        print(json.dumps({name: with_consent(name) for name in ("layers of Keras", "layers of Keras and a counter")}))
        return
    if sys.argv[1] == "determinism":
        tf.config.experimental.enable_op_determinism()
        tf.random.set_seed(3)
        CASES["op determinism"] = determinism
    half = {"first": slice(0, None, 2), "second": slice(1, None, 2), "determinism": slice(-1, None)}[sys.argv[1]]
    seen = {name: judge(name) for name in list(CASES)[half]}
    print(json.dumps({"seen": seen, "must refuse": sorted(MUST_REFUSE)}))


if __name__ == "__main__":
    main()
