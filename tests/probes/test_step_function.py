"""The function that a hand-written loop calls for every batch is found on the stack."""

from __future__ import annotations

import sys
from typing import Any

from fitdoctor.probes.step_function import Called, find


def update() -> Called | None:
    """Stands for an optimizer: asks who called."""
    return find(sys._getframe(1))


def step(x: Any, *more: Any, scale: int = 1, **rest: Any) -> Called | None:
    del x, scale, rest, more
    return update()


def kept(x: Any, *more: Any, scale: int = 1, **rest: Any) -> Called | None:
    for _ in range(2):
        pass  # a loop that is over
    return inner()


def inner() -> Called | None:
    return update()


class Trainer:
    def step(self, x: Any) -> Called | None:
        return update()


def test_the_function_and_its_arguments() -> None:
    found = None
    for value in range(2):
        found = kept(value, "a", scale=3, key="b")
    assert found == (kept, (1, "a"), {"scale": 3, "key": "b"})


def test_a_bound_method() -> None:
    trainer, found = Trainer(), None
    while found is None:
        found = trainer.step(5)
    assert found == (trainer.step, (5,), {})


def test_a_function_of_the_loops_own_scope() -> None:
    def local(x: Any) -> Called | None:
        return update()

    found = None
    for value in range(2):
        found = local(value)
    assert found == (local, (1,), {})


def test_a_step_inside_the_loop_itself_is_no_function() -> None:
    found: Called | None = (step, (), {})
    for _ in range(1):
        found = update()
    assert found is None


def test_without_a_loop_there_is_none() -> None:
    def once() -> Called | None:
        return find(sys._getframe())

    # Whoever runs the tests has loops of his own, but they are no user's.
    found = once()
    assert found is None or found[0] is not once


def test_a_function_that_deleted_its_arguments_cannot_be_called_again() -> None:
    found: Called | None = (step, (), {})
    for value in range(1):
        found = step(value)
    assert found is None
