"""A user's tf.data pipeline built again on top of something else: same functions, same sizes."""

from __future__ import annotations

from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.probes.dataset_tf import name_of

HANDS_ON = frozenset({"Shuffle", "Repeat", "Take", "Options", "Model", "IgnoreErrors"})
"""Left out: they change the order or the number of elements, not what is done to one."""


def rebuilt(data: Any, above: list[Any], rows: int, *, remedy: str, parallel: int | None = None) -> Any:
    """Put what the user does in the stages `above` (outermost first) on top of `data`.

    `parallel`: so many calls at once for maps that the user makes one by one.
    """
    for stage in reversed(above):
        name = name_of(stage)
        if name in ("Batch", "ParallelBatch"):
            data = data.batch(rows, drop_remainder=True)
        elif name in ("Map", "ParallelMap"):
            own = getattr(stage, "_num_parallel_calls", None)
            data = data.map(stage._map_func._func, num_parallel_calls=parallel if own is None else int(own))
        elif name == "Prefetch":
            data = data.prefetch(int(stage._buffer_size))
        elif name not in HANDS_ON:
            raise CannotRun(f"a {name} of this pipeline cannot be rebuilt here", do=remedy)
    return data
