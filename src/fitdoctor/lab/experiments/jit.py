"""XLA on where it is off, off where it is on."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BARE, Job, Variant
from fitdoctor.lab.rehearsal import with_settings

NAME = "jit_compile"


def worth(seen: Seen) -> float:
    """Weigh the compiled step."""
    return 0.0 if seen.info.get("run_eagerly") else 0.4 * seen.shares["run"]


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Turn it the other way."""
    if job.backend == "torch":
        raise CannotRun("torch.compile needs a C++ compiler and minutes", do="try model.compile(jit_compile=True) once")
    other = Variant(jit_compile=not job.own.jit_compile, callbacks=())
    if job.backend == "jax" and job.own.jit_compile:
        raise CannotRun("on JAX the step without jit runs op by op: nobody wants that")
    name, detail = f"jit_compile={other.jit_compile}", {"own": job.own.jit_compile}
    late = functools.partial(job.compiling, other)
    yield Comparison(name, lambda: job.block(other), lambda: job.block(BARE), detail, late)
    if other.jit_compile:
        yield from with_settings(job, seen.step_ns, str(seen.info.get("adapter")), {name: other})
