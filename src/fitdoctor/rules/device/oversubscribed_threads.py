"""More threads compute than there are cores for them.

## What is wrong

A pool of threads is sized for a machine, or by hand, and the process may use less of it: a container with a CPU quota,
an affinity mask (`taskset`, a job scheduler), a number copied from another machine.  Threads of a pool wait for each
other, often spinning; those that get no core hold up all others.

## How it is established

The size of the pool that runs a step's operations, asked in the very run, is compared with the cores that affinity mask
and quota leave.  Where there are more threads than cores, the lab trained the very model with as many threads as cores,
in turns with the pool as it is.  That works on PyTorch, whose pool can be changed while it runs.  The pools of
TensorFlow and of XLA cannot: there the answer is unknown, with the command that tries it.

TensorFlow and JAX size their pools by the affinity mask; none of the three looks at a quota.

## What to do

As many threads as cores: `torch.set_num_threads`, `TF_NUM_INTRAOP_THREADS` and `OMP_NUM_THREADS`, an affinity mask for
JAX.  The numbers stay the same but for the order of floating-point sums.

Measured with PyTorch and six threads on one core: with one thread a step of dense layers took about half of its time,
one of an LSTM, with its many small operations, a fifth.

## When it is not worth it

When the step was measured to take just as long; when it waits for input.

## Example

    torch.set_num_threads(os.cpu_count())                      # slow under a quota or an affinity mask
    torch.set_num_threads(len(os.sched_getaffinity(0)))        # fast
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Arguments
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import spots
from fitdoctor.facts.source_tree import FoundCall, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.thread_pools import ThreadPools
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Gap, Site
from fitdoctor.rules import INPUT_BOUND, Absent, Clear, Verdict

EXPERIMENT = "a thread per core"
_SETTERS = (
    "torch.set_num_threads",
    "tensorflow.config.threading.set_intra_op_parallelism_threads",
)
_OF_THE_HOST = frozenset({"os.cpu_count", "multiprocessing.cpu_count", "psutil.cpu_count"})


SUSPICION = "may start more threads than the process has cores: a quota or an affinity is not asked"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find pools that are sized by the machine's cores, whatever the process may use of them."""
    for call in source.calls(*_SETTERS):
        if any(call.file.resolve(each.func) in _OF_THE_HOST for each in _inner_calls(call)):
            yield call.site


def _inner_calls(call: FoundCall) -> Iterator[ast.Call]:
    for argument in (*call.node.args, *(each.value for each in call.node.keywords)):
        yield from (node for node in ast.walk(argument) if isinstance(node, ast.Call))


def place(source: SourceTree) -> Iterator[Site]:
    """Find where pools are sized."""
    return (call.site for call in source.calls(*_SETTERS))


def measure(training: Training, pools: ThreadPools, trials: Trials, model: StepModel) -> Verdict:
    """Take the gain from the experiment."""
    many = f"{training.backend} computes with {pools.threads} threads on {pools.cores:g} cores"
    if not pools.too_many:
        return Clear(many)
    if training.kind != "fit" and training.backend == "torch":
        return Absent(f"{many}; the lab cannot make a {training.kind} again")
    if model.input_bound:
        return INPUT_BOUND
    if training.backend != "torch":
        raise MissingEvidence(
            Gap(
                "what a thread per core would save",
                f"{many} ({pools.bound}), and its pool cannot be changed while it runs",
                _try(training.backend, pools.fitting),
            )
        )
    ratio, _ = trials.ratio(f"threads={pools.fitting}", experiment=EXPERIMENT)
    gain = units.percent_range(ratio)
    if ratio.mid >= 1:
        return Clear(f"{many}, and with {pools.fitting} a step was measured to take just as long")
    change = Change("work", ratio.clip(0.0, 1.0))
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=f"{many} ({pools.bound}); with {pools.fitting} a step took {gain} of its time",
            change=change,
            evidence={
                "threads": pools.threads,
                "cores": pools.cores,
                "fitting": pools.fitting,
                "ratio": {"low": ratio.low, "mid": ratio.mid, "high": ratio.high},
            },
        )
    ]


def _try(backend: str, threads: int) -> str:
    if backend == "jax":
        return (
            f"try it: taskset -c 0-{threads - 1} python train.py"
            if threads > 1
            else "try it: taskset -c 0 python train.py"
        )
    return f"try it: TF_NUM_INTRAOP_THREADS={threads} OMP_NUM_THREADS={threads} python train.py"


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    count = cost.evidence["fitting"]
    call = spots.the_only(source.calls("torch.set_num_threads")) if source is not None else None
    edits = (Arguments(spots.spot(call), (("int", str(count)),), order=("int",)),) if call is not None else ()
    return Fix(f"torch.set_num_threads({count}), or OMP_NUM_THREADS={count}", "same", edits=edits)
