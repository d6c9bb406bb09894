"""Where runs are made: on this machine one after the other, or on a cluster."""

from __future__ import annotations

from typing import Protocol

from fitdoctor.tune.attempt import Job, Look, Result, attempt


class Executor(Protocol):
    """Makes runs."""

    @property
    def slots(self) -> int:
        """How many runs it makes at a time."""
        ...

    def run(self, job: Job, look: Look, *, together: bool = False) -> Result:
        """Make one; `together`: on the machine where all others that are made together run too."""
        ...

    def cancel(self) -> None:
        """End the runs that are under way."""
        ...

    def close(self) -> None:
        """Let go."""
        ...


class Local:
    """Runs in processes of this machine, one at a time: they would slow each other down."""

    slots = 1

    def run(self, job: Job, look: Look, *, together: bool = False) -> Result:
        """Make one."""
        return attempt(job, look)

    def cancel(self) -> None:
        """Do nothing: whoever interrupts has interrupted the run too."""

    def close(self) -> None:
        """Do nothing."""
