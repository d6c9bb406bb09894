"""From a capture to frozen facts, each a pure memoised function.

A fact is a frozen dataclass; the module that defines `establish(...) -> ThatFact` establishes it.  The
signature declares what it builds on: `capture: Capture` and other facts by type.  `SomeFact | None` accepts
that the other fact may be missing.  Nothing is registered anywhere: the package is walked once.

    facts = resolve(capture)
    facts.get(StepModel)             establishes it once, raises MissingEvidence where it cannot be
    facts.call(rule.measure)         calls any function with the facts its signature names
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fitdoctor.errors import MissingEvidence
from fitdoctor.model import Capture

Fact = TypeVar("Fact")


class Resolver:
    """Establishes the facts of one capture, each at most once."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self._known: dict[type, Any] = {Capture: capture}
        self._missing: dict[type, MissingEvidence] = {}
        self._under_way: list[type] = []

    def get(self, fact: type[Fact]) -> Fact:
        """Return a fact, or raise MissingEvidence with the reason why it cannot be established."""
        if fact in self._missing:
            raise self._missing[fact]
        if fact not in self._known:
            if fact in self._under_way:
                circle = " → ".join(each.__name__ for each in (*self._under_way, fact))
                raise TypeError(f"facts ask for each other in a circle: {circle}")
            self._under_way.append(fact)
            try:
                self._known[fact] = self.call(_establisher(fact))
            except MissingEvidence as error:
                self._missing[fact] = error
                raise
            finally:
                self._under_way.pop()
        return typing.cast("Fact", self._known[fact])

    def call(self, function: Callable[..., Any], **given: Any) -> Any:
        """Call a function with the facts its signature names by type; `given` overrides by name."""
        supplied = dict(given)
        for name, wanted in _parameters(function).items():
            if name in supplied:
                continue
            fact, optional = _unwrap(wanted)
            try:
                supplied[name] = self.get(fact)
            except MissingEvidence:
                if not optional:
                    raise
                supplied[name] = None
        return function(**supplied)


def resolve(capture: Capture) -> Resolver:
    """Return the facts of a capture, to be established when asked for."""
    return Resolver(capture)


@functools.cache
def _parameters(function: Callable[..., Any]) -> Mapping[str, Any]:
    hints = typing.get_type_hints(function)
    hints.pop("return", None)
    return hints


def _unwrap(wanted: Any) -> tuple[type, bool]:
    """Split `Fact | None` into the fact and whether it may be missing."""
    if typing.get_origin(wanted) in (typing.Union, types.UnionType):
        options = [each for each in typing.get_args(wanted) if each is not type(None)]
        return options[0], len(options) < len(typing.get_args(wanted))
    return wanted, False


@functools.cache
def _establishers() -> Mapping[type, Callable[..., Any]]:
    found: dict[type, Callable[..., Any]] = {}
    for module in pkgutil.iter_modules(__path__):
        establish = getattr(importlib.import_module(f"{__name__}.{module.name}"), "establish", None)
        if establish is not None:
            found[typing.get_type_hints(establish)["return"]] = establish
    return found


def _establisher(fact: type) -> Callable[..., Any]:
    try:
        return _establishers()[fact]
    except KeyError:
        known = ", ".join(sorted(each.__name__ for each in _establishers()))
        raise TypeError(f"no module of fitdoctor.facts establishes {fact.__name__}; known: {known}") from None
