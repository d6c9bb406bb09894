"""Which operator of the user's pipeline did what TensorFlow ran: it fuses, injects and removes operators.

The two are laid side by side, in order, so that as many as possible correspond: what the user wrote and finds no
partner was optimised away; what ran and finds none is TensorFlow's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fitdoctor.facts.live_pipeline import Node, Path, plain

_READERS = frozenset({"TFRecord", "TextLine", "FixedLengthRecord"})
_READ_BY = frozenset({"FlatMap", "Interleave"})
"""A reader of files runs as one of these over the names of the files."""


class Written(Protocol):
    """An operator of the user's: its name, and which others it takes its elements from."""

    @property
    def op(self) -> str: ...  # noqa: D102
    @property
    def inputs(self) -> tuple[int, ...]: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Matched:
    """Which node stands for which of the user's operators, by place; and those that stand for none."""

    runs_as: dict[int, Node]
    added: tuple[Node, ...]


def match(operators: Sequence[Written], nodes: Sequence[Node]) -> Matched:
    """Lay the user's operators and what ran side by side."""
    by_path = {node.path: node for node in nodes}
    found: dict[int, Node] = {}
    if operators and () in by_path:
        _align(operators, 0, by_path, (), found)
    taken = {node.path for node in found.values()}
    return Matched(found, tuple(node for node in nodes if node.path not in taken))


def _align(
    operators: Sequence[Written], first: int, nodes: dict[Path, Node], root: Path, found: dict[int, Node]
) -> None:
    written, ran = _chain(operators, first), _ran(nodes, root)
    # A fused operator does the work of several: the last of them to be written comes first.
    parts = [(part, node) for node in ran for part in reversed(plain(node.name).split("And"))]
    pairs = _longest([operators[place].op for place in written], [part for part, _ in parts])
    found.update({written[left]: parts[right][1] for left, right in pairs})
    end = written[-1]
    if end in found and found[end] is ran[-1] and len(operators[end].inputs) > 1:
        for below, path in zip(operators[end].inputs, sorted(ran[-1].inputs), strict=False):
            _align(operators, below, nodes, path, found)


def _chain(operators: Sequence[Written], first: int) -> list[int]:
    """Follow the user's operators until they end or branch."""
    chain = [first]
    while len(operators[chain[-1]].inputs) == 1:
        chain.append(operators[chain[-1]].inputs[0])
    return chain


def _ran(nodes: dict[Path, Node], root: Path) -> list[Node]:
    chain = [nodes[root]]
    while len(chain[-1].inputs) == 1:
        chain.append(nodes[chain[-1].inputs[0]])
    return chain


def _alike(written: str, ran: str) -> bool:
    return plain(written) == ran or (written in _READERS and ran in _READ_BY)


def _longest(written: Sequence[str], ran: Sequence[str]) -> list[tuple[int, int]]:
    """Return the pairs of the longest common subsequence."""
    best = [[0] * (len(ran) + 1) for _ in range(len(written) + 1)]
    for left in reversed(range(len(written))):
        for right in reversed(range(len(ran))):
            both = best[left + 1][right + 1] + 1 if _alike(written[left], ran[right]) else 0
            best[left][right] = max(both, best[left + 1][right], best[left][right + 1])
    pairs, left, right = [], 0, 0
    while left < len(written) and right < len(ran):
        if _alike(written[left], ran[right]) and best[left][right] == best[left + 1][right + 1] + 1:
            pairs.append((left, right))
            left, right = left + 1, right + 1
        elif best[left + 1][right] >= best[left][right + 1]:
            left += 1
        else:
            right += 1
    return pairs
