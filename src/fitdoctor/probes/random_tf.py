"""Which operators of a tf.data pipeline draw random numbers, and whether they can be drawn again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

SEEDED, UNSEEDED, STATELESS, GENERATOR = "seeded", "unseeded", "stateless", "generator"
"""A seed of its own or of the graph; none; numbers follow from an argument; a `tf.random.Generator` or its like."""

WITH_SEED = frozenset(
    {
        "RandomUniform", "RandomUniformInt", "RandomStandardNormal", "ParameterizedTruncatedNormal", "TruncatedNormal",
        "RandomShuffle", "Multinomial", "RandomGamma", "RandomGammaV2", "RandomPoisson", "RandomPoissonV2",
        "RandomCrop", "SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2",
    }
)  # fmt: skip
_GENERATORS = ("Stateful", "RngReadAndSkip", "RngSkip", "NonDeterministicInts")
_STATELESS = ("StatelessRandom", "StatelessMultinomial", "StatelessTruncated", "StatelessSample", "StatelessShuffle",
              "StatelessParameterized")  # fmt: skip
_ORDER = (UNSEEDED, GENERATOR, SEEDED, STATELESS)
"""The one that is hardest to repeat speaks for all."""


def of_dataset(dataset: Any, name: str) -> str | None:
    """Tell whether an operator itself draws: the order of a shuffle, a random source, a choice between datasets."""
    if name not in ("Shuffle", "Random", "SampleFrom", "ShuffleAndRepeat"):
        return None
    seeds = [_static(getattr(dataset, each, None)) for each in ("_seed", "_seed2")]
    return SEEDED if any(seeds) else UNSEEDED


def _static(seed: Any) -> int:
    try:
        return int(seed)
    except (TypeError, ValueError):
        return 0


def of_graphs(graphs: Iterable[Any]) -> str | None:
    """Tell how the functions of an operator draw; None where they do not."""
    found = {kind for graph in graphs for node in nodes(graph) if (kind := _of_node(node)) is not None}
    return next((kind for kind in _ORDER if kind in found), None)


def nodes(graph: Any) -> Iterator[Any]:
    """Yield the nodes of a function and of all functions it calls."""
    definition = graph.as_graph_def()
    yield from definition.node
    for function in definition.library.function:
        yield from function.node_def


def draws(op: str) -> bool:
    """Tell whether an op of this kind draws random numbers, however it is seeded."""
    called = op.startswith("StatefulPartitionedCall")
    return op in WITH_SEED or op.startswith(_STATELESS) or (op.startswith(_GENERATORS) and not called)


def _of_node(node: Any) -> str | None:
    if node.op in WITH_SEED:
        return SEEDED if node.attr["seed"].i or node.attr["seed2"].i else UNSEEDED
    if node.op.startswith(_GENERATORS):
        return None if node.op.startswith("StatefulPartitionedCall") else GENERATOR
    return STATELESS if node.op.startswith(_STATELESS) else None
