"""Run a script with redirection on: with_scratch.py ROOT SCRIPT."""

import importlib.abc
import importlib.machinery
import json
import os
import runpy
import sys
from pathlib import Path

from fitdoctor.capture.scratch import WATCHED, Scratch

fitting = 0
root, script = sys.argv[1:3]
scratch = Scratch(Path(root), lambda: fitting > 0)


class Watcher(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name not in WATCHED and name != "keras.src.models.model":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                scratch.applied(name)
                if name == "keras.src.models.model":
                    mark_training(module.Model)

            spec.loader.exec_module = exec_module
        return spec


def mark_training(model):
    original = model.fit

    def fit(*args, **kwargs):
        global fitting
        fitting += 1
        scratch.training_began()
        try:
            return original(*args, **kwargs)
        finally:
            fitting -= 1

    model.fit = fit


if os.environ.get("LATE"):
    import h5py  # noqa: F401
    import keras
    import tensorflow  # noqa: F401
    import torch  # noqa: F401

    mark_training(keras.Model)
sys.meta_path.insert(0, Watcher())
scratch.install()
sys.argv = [script]
try:
    runpy.run_path(script, run_name="__main__")
finally:
    report = {"files": scratch.files(), "gaps": [gap.reason for gap in scratch.gaps]}
    scratch.uninstall()
    Path(root, "report.json").write_text(json.dumps(report))
