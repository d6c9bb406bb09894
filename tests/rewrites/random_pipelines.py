"""Random pipelines: every rewrite that is accepted gives the batches that the user's own code, run anew, gives."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from adversarial import how_to_compare, wrongly
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fitdoctor.rewrites.candidates import Refusal, Seen, found
from fitdoctor.rewrites.datasets import fresh
from fitdoctor.rewrites.equality import check

COUNTS = {"pipelines": 0, "candidates": 0, "accepted": 0}
WRONG: list[str] = []
Step = Callable[[Any], Any]
VALUES = np.random.default_rng(1).normal(size=(29, 3)).astype("float32")

FUNCTIONS: dict[str, Step] = {
    "scale": lambda x: x * 2.0 + 1.0,
    "centre": lambda x: x - tf.reduce_mean(x),
    "sort": lambda x: tf.sort(x, axis=-1),
    "largest first": lambda x: tf.reverse(x, [-1]),
    "seeded noise": lambda x: x + tf.random.normal(tf.shape(x), seed=2),
    "keyed noise": lambda x: x + tf.random.stateless_normal(tf.shape(x), (3, 4)),
    "through half": lambda x: tf.cast(tf.cast(x, tf.float16), tf.float32),
    "clip": lambda x: tf.clip_by_value(x, -0.5, 0.5),
    "cumsum": lambda x: tf.cumsum(x, axis=-1),
}
SOMETIMES = {"noise": lambda x: x + tf.random.normal(tf.shape(x)), **FUNCTIONS}
MAPS = st.tuples(st.just("map"), st.sampled_from(sorted(FUNCTIONS)), st.sampled_from([None, -1, 2]))
RANDOM = st.tuples(st.just("map"), st.just("noise"), st.none())
REST = st.one_of(
    st.tuples(st.just("shuffle"), st.integers(1, 40), st.sampled_from([None, 3])),
    st.tuples(st.just("take"), st.integers(1, 40)),
    st.tuples(st.just("skip"), st.integers(0, 5)),
    st.tuples(st.just("repeat"), st.integers(1, 2)),
    st.tuples(st.just("shard"), st.integers(1, 3)),
    st.tuples(st.just("prefetch"), st.integers(0, 2)),
    st.tuples(st.just("cache")),
    st.tuples(st.just("filter"), st.floats(-1, 1)),
    st.tuples(st.just("scan")),
    st.tuples(st.just("tuner off")),
)
BATCHES = st.tuples(st.just("batch"), st.integers(1, 7), st.booleans(), st.sampled_from([None, 2]))
PIPELINES = st.tuples(
    st.lists(st.one_of(MAPS, MAPS, REST), min_size=1, max_size=4),
    BATCHES,
    st.lists(st.one_of(MAPS, RANDOM, REST), max_size=2),
)


def add(data: Any, step: tuple[Any, ...]) -> Any:
    kind, *given_ = step
    if kind == "map":
        return data.map(SOMETIMES[given_[0]], num_parallel_calls=given_[1])
    if kind == "shuffle":
        return data.shuffle(given_[0], seed=given_[1])
    if kind == "shard":
        return data.shard(given_[0], 0)
    if kind == "filter":
        return data.filter(lambda x: tf.reduce_mean(x) > given_[0])
    if kind == "scan":
        return data.scan(np.float32(0), lambda state, x: (state + tf.reduce_sum(x), x + state))
    if kind == "batch":
        return data.batch(given_[0], drop_remainder=given_[1], num_parallel_calls=given_[2])
    if kind == "tuner off":
        options = tf.data.Options()
        options.autotune.enabled = False
        return data.with_options(options)
    return getattr(data, kind)(*given_)


def build(plan: tuple[Any, ...]) -> Any:
    below, batch, above = plan
    data = tf.data.Dataset.from_tensor_slices(VALUES)
    for step in (*below, batch, *above):
        data = add(data, step)
    return data


@settings(
    max_examples=int(sys.argv[1]),
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(PIPELINES)
def explore(plan: tuple[Any, ...]) -> None:
    data = build(plan)
    COUNTS["pipelines"] += 1
    again = fresh(data)
    if again.element_spec != data.element_spec or int(again.cardinality()) != int(data.cardinality()):
        WRONG.append(f"built again it is another: {plan}")
    tried: set[Any] = set()
    how = ""
    for candidate in found(data, Seen()):
        if isinstance(candidate, Refusal) or candidate.safety != "same" or (candidate.rule, candidate.path) in tried:
            continue
        tried.add((candidate.rule, candidate.path))
        COUNTS["candidates"] += 1
        verdict = check(build(plan), candidate)
        if not verdict or verdict.equal == "unchanged":
            continue
        COUNTS["accepted"] += 1
        how = how or how_to_compare(lambda: build(plan))
        problem = wrongly(lambda: build(plan), candidate, verdict, how)
        if problem:
            WRONG.append(f"{candidate.rule} [{candidate.settings}] {problem}: {plan}")


explore()
print(json.dumps({**COUNTS, "wrong": WRONG}))
