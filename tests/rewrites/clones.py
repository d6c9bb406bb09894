"""Builds every kind of pipeline again as it is and prints what differs."""

from __future__ import annotations

import json
from typing import Any

import tensorflow as tf
from pipelines import KINDS, TRACES, elements

from fitdoctor.errors import CannotRun
from fitdoctor.rewrites.datasets import fresh

tf.config.set_visible_devices([], "GPU")


def differences(name: str) -> list[str]:
    make = KINDS[name]
    original = make()
    traced = TRACES.total()
    again = fresh(original)
    found = []
    if TRACES.total() != traced:
        found.append("traced")
    if type(again) is not type(original):
        found.append("type")
    if again.element_spec != original.element_spec:
        found.append("element_spec")
    if int(again.cardinality()) != int(original.cardinality()):
        found.append("cardinality")
    if again.options()._to_proto() != original.options()._to_proto():
        found.append("options")
    for epoch in (1, 2):
        if elements(original) != elements(again):
            found.append(f"elements of epoch {epoch}")
    # Building it again and reading it did not move on what the user's own shuffles and caches are at.
    third = elements(original)
    untouched = make()
    if [elements(untouched) for _ in range(3)][2] != third:
        found.append("the original was moved on")
    return found


def unseeded() -> dict[str, Any]:
    """A shuffle without a seed stays one: two copies differ from each other, each epoch from the one before."""
    data = tf.data.Dataset.range(1000).shuffle(1000)
    one, other = fresh(data), fresh(data)
    first, second, third = (elements(each) for each in (one, other, one))
    tf.random.set_seed(11)
    seeded = tf.data.Dataset.range(1000).shuffle(1000)
    tf.random.set_seed(None)
    return {
        "differ": first != second and first != third,
        "same elements": sorted(first) == sorted(second) == sorted(elements(data)),
        "global seed kept": elements(fresh(seeded)) == elements(seeded),
    }


def refused() -> list[str]:
    """Stages that are not known are not guessed at."""
    found = []
    window = tf.data.Dataset.range(9).group_by_window(lambda x: x % 2, lambda key, part: part.batch(4), window_size=4)
    for name, data in {"group_by_window": window, "unique": tf.data.Dataset.range(4).unique()}.items():
        try:
            fresh(data)
        except CannotRun as error:
            found.append(f"{name}: {error.problem}")
    return found


print(
    json.dumps(
        {"differences": {name: differences(name) for name in KINDS}, "unseeded": unseeded(), "refused": refused()}
    )
)
