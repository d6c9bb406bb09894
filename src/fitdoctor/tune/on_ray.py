"""Runs on a Ray cluster: one at a time on each node, which it has for itself.

The script, its data and fitdoctor have to be there on every node, under the same path.  A worker that dies is replaced
by Ray, and the run made again; a node that dies is left out.  What was measured is kept by whoever asked, not by Ray.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fitdoctor.errors import UsageError
from fitdoctor.tune.attempt import Job, Look, Result, attempt

RETRIES = 3
"""So often a run is made again whose worker or node died."""
POLL_SECONDS = 0.5
ENDING_SECONDS = 15.0
CONNECT_SECONDS = 10.0
HANDED_ON = ("KERAS_", "TF_", "XLA_", "JAX_", "TORCH_", "PYTORCH_", "MKL_", "FITDOCTOR_DEBUG")
"""Variables of whoever asks that a run on another machine gets too."""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the cluster, with all that it has."""

    id: str
    name: str
    cpus: float
    gpus: float


class Board:
    """Where runs tell how far they have come and read whether to go on; lives on the cluster."""

    def __init__(self) -> None:
        self._news: dict[str, list[tuple[int, float]]] = {}
        self._ended: set[str] = set()

    def tell(self, name: str, chunk: int, step_s: float) -> bool:
        """Note how far a run has come; return whether it is to end."""
        self._news.setdefault(name, []).append((chunk, step_s))
        return name in self._ended

    def news(self, name: str) -> list[tuple[int, float]]:
        """Return what a run has told since it was last asked."""
        return self._news.pop(name, [])

    def end(self, name: str) -> None:
        """Have a run ended."""
        self._ended.add(name)


def work(job: Job, folder: str, environment: Mapping[str, str], board: Any) -> Result:
    """Make a run; called in a worker."""
    import ray

    os.environ.update(environment)
    try:
        os.chdir(folder)
    except OSError:
        return Result(failed=f"there is no folder {folder} on this node: the script has to be there on every node")

    def look(chunk: int, step_s: float) -> bool:
        return bool(ray.get(board.tell.remote(job.name, chunk, step_s)))

    return attempt(job, look, Path(tempfile.gettempdir()) / f"fitdoctor-{job.name}")


class Cluster:
    """The nodes of a Ray cluster."""

    def __init__(self, address: str | None = None, tell: Callable[[str], None] = lambda text: None) -> None:
        self._ray = _ray()
        self._tell = tell
        self._folder = os.getcwd()
        self._environment = {
            name: value for name, value in os.environ.items() if name.startswith(HANDED_ON) and name != "TF_CONFIG"
        }
        self._cancelled = threading.Event()
        self._connect(address)
        self._free: queue.Queue[Node] = queue.Queue()
        self._nodes = self._alive()
        if not self._nodes:
            raise UsageError("the Ray cluster has no node with a CPU", do="see `ray status`")
        for node in self._nodes:
            self._free.put(node)
        # Its worker may die as any other: it comes back then, and all that is lost is what was told last.
        lasting = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1}
        self._board = self._ray.remote(Board).options(**lasting).remote()
        self._work = self._ray.remote(work)

    def _connect(self, address: str | None) -> None:
        try:
            _reach(address)
            self._ray.init(address=address or "auto", log_to_driver=False, logging_level="ERROR", namespace="fitdoctor")
        except (OSError, RuntimeError, ValueError) as error:
            where = f" at {address}" if address else ""
            raise UsageError(
                f"expected a Ray cluster{where}, found none: {error}",
                do="start one with `ray start --head`, or give its --address",
            ) from error

    @property
    def slots(self) -> int:
        """How many runs it makes at a time: one on each node."""
        return len(self._nodes)

    def _alive(self) -> list[Node]:
        return [
            Node(each["NodeID"], each["NodeManagerAddress"], resources["CPU"], resources.get("GPU", 0.0))
            for each in self._ray.nodes()
            if each["Alive"] and (resources := each["Resources"]).get("CPU", 0.0) >= 1
        ]

    def run(self, job: Job, look: Look, *, together: bool = False) -> Result:
        """Make one, once more on another node where a node dies."""
        why = "no node is left"
        for number in range(RETRIES + 1):
            node = self._first() if together else self._next()
            if node is None:
                break
            try:
                # A name of its own for each attempt: what the last one had told is over.
                result = self._on(node, replace(job, name=f"{job.name}-{number}"), look)
                return replace(result, node=node.name)
            except self._ray.exceptions.OutOfMemoryError:
                return Result(failed="the node ran out of memory", node=node.name)
            except self._ray.exceptions.RayError as error:
                why = f"{type(error).__name__} on {node.name}: {next(iter(str(error).splitlines()), '')}"
                self._tell(f"{why}; once more")
            finally:
                if not together:
                    self._free.put(node)
        return Result(failed=why)

    def _next(self) -> Node | None:
        """Wait for a node that is free; None where all have died."""
        while True:
            alive = {each.id for each in self._alive()}
            if not alive:
                return None
            with contextlib.suppress(queue.Empty):
                node = self._free.get(timeout=POLL_SECONDS)
                if node.id in alive:
                    return node
                # It is gone, and stays out.

    def _first(self) -> Node | None:
        alive = {each.id for each in self._alive()}
        return next((each for each in self._nodes if each.id in alive), None)

    def _on(self, node: Node, job: Job, look: Look) -> Result:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        task = self._work.options(
            num_cpus=node.cpus,
            num_gpus=node.gpus,
            max_retries=RETRIES,
            name=f"fitdoctor {job.settings}",
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
        ).remote(job, self._folder, self._environment, self._board)
        ended = False
        try:
            while not self._ray.wait([task], timeout=POLL_SECONDS)[0]:
                news = self._ray.get(self._board.news.remote(job.name))
                unwanted = [look(chunk, step_s) for chunk, step_s in news]
                ended = ended or self._cancelled.is_set() or any(unwanted)
                if ended:  # again and again: a board that came back has forgotten it
                    self._board.end.remote(job.name)
        except KeyboardInterrupt:
            # Not left to Ray: it would end the worker, and not what the worker has started.
            self._board.end.remote(job.name)
            self._ray.wait([task], timeout=ENDING_SECONDS)
            raise
        result: Result = self._ray.get(task)
        return replace(result, interrupted=True) if self._cancelled.is_set() else result

    def cancel(self) -> None:
        """End the runs that are under way."""
        self._cancelled.set()

    def close(self) -> None:
        """Let go of the cluster, which stays."""
        self._ray.shutdown()


def _reach(address: str | None) -> None:
    """Find out in time that nobody is there: Ray would try for minutes."""
    host, _, port = (address or "").rpartition(":")
    if host and "/" not in host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()


def _ray() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise UsageError(f"--on ray needs Ray: {error}", do="pip install 'fitdoctor[ray]'") from error
    return ray
