"""Hot lines: loops are found where they run, time is weighed, instructions are counted."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fitdoctor.lab import hot_lines
from fitdoctor.lab.hot_lines import Counter, Sampler, instruction_ns, small_operation_ns
from fitdoctor.probes.code_loops import outermost

HERE = __file__


def line_of(text: str) -> int:
    with open(HERE) as file:
        return next(number for number, line in enumerate(file, 1) if text in line and "line_of" not in line)


def pixels(rows: Any, look: Callable[[], Any]) -> None:
    for row in rows:  # outer loop over arrays
        for place in range(len(row)):
            row[place] = row[place] / 2
    look()


def helper(row: Any, look: Callable[[], Any]) -> Any:
    look()
    return row * 2


def comprehension(rows: Any, look: Callable[[], Any]) -> Any:
    first = [helper(row, look) for row in rows]  # rows in a comprehension
    return np.stack(first)


def batches(rows: Any, look: Callable[[], Any]) -> Iterator[Any]:
    while True:
        for start in range(0, len(rows), 2):
            look()
            yield [row + 1 for row in rows[start : start + 2]]  # inside a generator


def words(text: str) -> int:
    count = 0
    for word in text.split():  # a loop over words
        count += len(word) * 2
    return count


def loop_seen_by(work: Callable[[Callable[[], Any]], Any]) -> Any:
    """Return the outermost loop at the place where `work` looks, or None."""
    seen = []

    def look() -> None:
        seen.append(outermost(list(hot_lines.user_stack(sys._getframe(1)))))

    work(look)
    return seen[0]


def counted(work: Callable[[], Any]) -> dict[int, tuple[int, int, bool]]:
    counter = Counter()
    counter.count(work)
    return {
        loop.line: (*counts, counter.arrays.get(loop, False))
        for loop, counts in counter.counts.items()
        if loop.path == HERE
    }


def test_a_comprehension_is_a_loop_of_the_function_it_stands_in() -> None:
    loop = loop_seen_by(lambda look: comprehension(np.ones((2, 3)), look))
    assert (loop.line, loop.symbol) == (line_of("# rows in a comprehension"), "comprehension")


def test_the_loop_that_hands_out_batches_is_none() -> None:
    assert loop_seen_by(lambda look: next(batches(np.ones((4, 3)), look))) is None


def test_behind_a_loop_is_not_in_it() -> None:
    assert loop_seen_by(lambda look: pixels(np.ones((2, 3)), look)) is None


def test_instructions_are_counted_in_the_outermost_loop() -> None:
    few = counted(lambda: pixels(np.ones((4, 10)), lambda: None))
    many = counted(lambda: pixels(np.ones((4, 40)), lambda: None))
    line = line_of("# outer loop over arrays")
    assert set(few) == {line}
    assert many[line][0] > 3 * few[line][0]
    assert few[line][1] > 4 * 10, "every item is taken, divided and put back"
    assert few[line][2], "its items are arrays"


def test_what_a_loop_calls_counts_to_it() -> None:
    seen = counted(lambda: comprehension(np.ones((5, 3)), lambda: None))
    instructions, _, arrays = seen[line_of("# rows in a comprehension")]
    assert instructions > 5 * 4
    assert arrays


def test_a_generator_s_inner_loop_is_counted() -> None:
    seen = counted(lambda: next(batches(np.ones((4, 3)), lambda: None)))
    assert set(seen) == {line_of("# inside a generator")}


def test_words_are_no_arrays() -> None:
    assert counted(lambda: words("one two three"))[line_of("# a loop over words")][2] is False


def test_counting_leaves_no_trace_function() -> None:
    before = sys.gettrace()
    with pytest.raises(ZeroDivisionError):
        Counter().count(lambda: 1 / 0)
    assert sys.gettrace() is before


def test_a_look_weighs_the_time_since_the_last() -> None:
    clock = iter([10, 1010])
    sampler = Sampler(lambda: next(clock))
    frame = sys._getframe()
    last = sampler.look(frame, 0)
    sampler.look(frame, last)
    assert sampler.total == 1010
    assert sum(sampler.weights.values()) == 1010


def test_the_line_that_works_is_seen() -> None:
    def work() -> None:
        total = 0
        for step in range(3_000_000):
            total += step * step  # the line that works

    sampler = Sampler()
    interval = sys.getswitchinterval()
    sampler.watch(work)
    assert sys.getswitchinterval() == interval
    assert not [each for each in threading.enumerate() if each.name == "fitdoctor-lines"]
    lines: dict[int, int] = {}
    for stack, weight in sampler.weights.items():
        if stack and stack[-1][0].co_name == "work":
            lines[stack[-1][1]] = lines.get(stack[-1][1], 0) + weight
    here = line_of("# the line that works")
    assert sum(lines.get(each, 0) for each in (here, here - 1)) > 0.6 * sampler.total


def test_what_the_machine_takes_at_least() -> None:
    assert 0.5 < instruction_ns() < 200
    assert small_operation_ns() > 5 * instruction_ns()
