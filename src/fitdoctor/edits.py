"""What a fix changes in the source, said without syntax trees: rules name edits, `fixes/` turns them into text.

Code in an edit names things in full (`tensorflow.data.AUTOTUNE`, `keras.callbacks.EarlyStopping`); in the file it is
written as the file's own imports spell it, and an import is added where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a file, exact to the byte: lines from 1, columns from 0 in UTF-8, as Python's `ast` counts them."""

    path: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Arguments:
    """Give a call these arguments, in the place of those it has, and take others away."""

    call: Spot
    """Where the name of what is called ends."""
    give: tuple[tuple[str, str], ...] = ()
    """Names and code."""
    drop: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    """The names of arguments that may stand there by position."""

    @property
    def path(self) -> str:
        """The file."""
        return self.call.path


@dataclass(frozen=True, slots=True)
class Chain:
    """Call a method of what a call returns, right there: `.map(f)` becomes `.map(f).cache()`."""

    call: Spot
    code: str

    @property
    def path(self) -> str:
        """The file."""
        return self.call.path


@dataclass(frozen=True, slots=True)
class Rename:
    """Call another method of the same object."""

    call: Spot
    name: str

    @property
    def path(self) -> str:
        """The file."""
        return self.call.path


@dataclass(frozen=True, slots=True)
class Wrap:
    """Put code around an argument, which stands for `{}` in it."""

    call: Spot
    argument: str
    code: str
    order: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The file."""
        return self.call.path


@dataclass(frozen=True, slots=True)
class Unwrap:
    """Put an argument of a call in the place of the call."""

    call: Spot
    argument: str
    order: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The file."""
        return self.call.path


@dataclass(frozen=True, slots=True)
class Listed:
    """Add an item to the list that a call is given."""

    call: Spot
    argument: str
    item: str
    order: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The file."""
        return self.call.path


@dataclass(frozen=True, slots=True)
class Swap:
    """Let the second of two calls that follow each other in a chain come first."""

    first: Spot
    second: Spot

    @property
    def path(self) -> str:
        """The file."""
        return self.first.path


@dataclass(frozen=True, slots=True)
class Decorate:
    """Put a decorator on a function."""

    function: Spot
    """Where its `def` begins."""
    code: str

    @property
    def path(self) -> str:
        """The file."""
        return self.function.path


@dataclass(frozen=True, slots=True)
class Define:
    """Give a function another name, and its parameters others."""

    function: Spot
    """Where its `def` begins."""
    name: str
    parameters: tuple[tuple[str, str], ...] = ()
    """Names before and after; nothing in the function says the former."""

    @property
    def path(self) -> str:
        """The file."""
        return self.function.path


@dataclass(frozen=True, slots=True)
class Remove:
    """Take a statement away."""

    statement: Spot
    """Where it begins."""

    @property
    def path(self) -> str:
        """The file."""
        return self.statement.path


@dataclass(frozen=True, slots=True)
class Hoist:
    """Move a statement out of the loop it stands in, right before it."""

    statement: Spot

    @property
    def path(self) -> str:
        """The file."""
        return self.statement.path


@dataclass(frozen=True, slots=True)
class Earlier:
    """Let a statement come before another one of the same block."""

    statement: Spot
    before: Spot

    @property
    def path(self) -> str:
        """The file."""
        return self.statement.path


@dataclass(frozen=True, slots=True)
class Insert:
    """Add a statement after the imports of a file, or several, one to a line."""

    path: str
    code: str


Edit = (
    Arguments | Chain | Rename | Wrap | Unwrap | Listed | Swap | Decorate | Define | Remove | Hoist | Earlier | Insert
)
