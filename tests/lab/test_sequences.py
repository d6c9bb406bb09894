"""Counting what is real in padded batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fitdoctor.lab.sequences import Padded, buckets, cut, padded, real_lengths


def batch(lengths: list[int], length: int, *, front: bool = False, value: int = 0) -> np.ndarray:
    rows = np.full((len(lengths), length), value)
    for place, real in enumerate(lengths, 1):
        # No two rows have a real value in common.
        rows[place - 1, slice(length - real, None) if front else slice(real)] = np.arange(1, real + 1) + 100 * place
    return rows


@settings(deadline=None)
@given(st.lists(st.integers(0, 20), min_size=2, max_size=12), st.booleans(), st.sampled_from([0, 7, -1]))
def test_lengths_are_counted_at_either_end(lengths: list[int], front: bool, value: int) -> None:
    rows = batch(lengths, 21, front=front, value=value)
    found = padded([rows])
    assert found is not None
    assert real_lengths(rows, found).tolist() == lengths
    assert found.value == value
    assert found.front is front or not any(lengths)


def test_zeros_inside_a_sequence_are_real() -> None:
    rows = np.array([[5, 0, 0, 6, 0, 0], [1, 2, 3, 0, 0, 0], [0, 0, 4, 0, 0, 0]])
    assert real_lengths(rows, Padded(0, False, 0.0, 6)).tolist() == [4, 3, 3]


def test_sequences_of_vectors_are_padded_where_the_whole_vector_is() -> None:
    rows = np.arange(1, 46, dtype="float32").reshape(3, 5, 3)
    rows[0, 3:] = rows[2, 2:] = 0
    rows[1, 4, :2] = 0
    found = padded([rows])
    assert found is not None
    assert real_lengths(rows, found).tolist() == [3, 5, 2]


@pytest.mark.parametrize(
    "leaf",
    [np.arange(1, 41).reshape(4, 10), np.ones((4,)), np.ones((4, 1)), np.array([["a", "b"]] * 4), None],
    ids=["no runs", "one number a row", "one position", "text", "nothing"],
)
def test_parts_without_padding(leaf: object) -> None:
    assert padded([leaf]) is None


@settings(deadline=None)
@given(st.lists(st.integers(1, 500), min_size=1, max_size=200), st.integers(1, 40))
def test_buckets_hold_all_and_never_pad_more_than_one_length_does(lengths: list[int], rows: int) -> None:
    found = buckets(np.array(lengths), rows)
    assert len(found) == -(-len(lengths) // rows)
    assert found.tolist() == sorted(found.tolist())
    assert found[-1] == max(lengths)


def test_everything_as_long_is_cut_and_the_rest_left_alone() -> None:
    rows, mask, label, target = batch([2, 3], 6), np.ones((2, 6, 4)), np.zeros((2,)), np.zeros((2, 3))
    found = padded([rows])
    assert found is not None
    short = cut([rows, mask, label, target, None], 3, found)
    assert [getattr(each, "shape", None) for each in short] == [(2, 3), (2, 3, 4), (2,), (2, 3), None]
    front = padded([batch([2, 3], 6, front=True)])
    assert front is not None
    assert cut([batch([2, 3], 6, front=True)], 3, front)[0].tolist() == [[0, 101, 102], [201, 202, 203]]
