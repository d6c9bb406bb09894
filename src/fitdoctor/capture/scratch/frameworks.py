"""What Keras, TensorFlow, PyTorch, JAX, HDF5 and Orbax write and read by name from outside Python.

A table: which function, which argument is the name, and what happens to it.  A row is applied when its module
has been imported, so nothing here imports a framework.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from fitdoctor.capture.scratch import tf_files
from fitdoctor.capture.scratch.names import Names
from fitdoctor.capture.scratch.overlay import Overlay
from fitdoctor.capture.scratch.patches import Patches


@dataclass(frozen=True)
class Spot:
    """One function that saves or loads by name."""

    module: str
    name: str
    how: str
    """saves: Python writes, all of it redirected.  writes, reads: the argument is replaced.  writes in and
    reads in: a folder that must hold what it held before.  makes: as `open`, so that data prepared before
    training is real.  opens: the mode decides.  shares: memory shared with a file.  caches: for tf.data."""
    argument: str = ""
    position: int = 0


_KERAS = "keras.src."
_TF = "tensorflow.python."

SPOTS = (
    Spot(_KERAS + "saving.saving_lib", "save_model", "saves"),
    Spot(_KERAS + "saving.saving_lib", "save_weights_only", "saves"),
    Spot(_KERAS + "legacy.saving.legacy_h5_format", "save_model_to_hdf5", "saves"),
    Spot(_KERAS + "models.model", "Model.save", "saves"),
    Spot(_KERAS + "models.model", "Model.save_weights", "saves"),
    Spot(_KERAS + "models.model", "Model.export", "saves"),
    Spot(_KERAS + "callbacks.model_checkpoint", "ModelCheckpoint._save_model", "saves"),
    Spot(_KERAS + "callbacks.backup_and_restore", "BackupAndRestore._save_model", "saves"),
    Spot(_KERAS + "callbacks.csv_logger", "CSVLogger.on_train_begin", "saves"),
    Spot(_KERAS + "callbacks.tensorboard", "TensorBoard.set_model", "saves"),
    Spot(_TF + "ops.gen_summary_ops", "create_summary_file_writer", "writes", "logdir", 1),
    Spot(_TF + "checkpoint.functional_saver", "MultiDeviceSaver.save", "writes", "file_prefix", 1),
    Spot(_TF + "checkpoint.functional_saver", "MultiDeviceSaver.restore", "reads prefix", "file_prefix", 1),
    Spot(_TF + "checkpoint.checkpoint", "TrackableSaver.save", "saves"),
    Spot(_TF + "checkpoint.checkpoint", "Checkpoint.save", "saves"),
    Spot(_TF + "checkpoint.checkpoint", "Checkpoint.write", "saves"),
    Spot(_TF + "checkpoint.checkpoint", "CheckpointV1.save", "saves"),
    Spot(_TF + "checkpoint.checkpoint", "CheckpointV1.write", "saves"),
    Spot(_TF + "checkpoint.checkpoint_management", "CheckpointManager.save", "saves"),
    Spot(_TF + "checkpoint.checkpoint_management", "CheckpointManager.__init__", "saves"),
    Spot(_TF + "ops.gen_io_ops", "restore_v2", "reads prefix", "prefix", 0),
    Spot(_TF + "ops.io_ops", "restore_v2", "reads prefix", "prefix", 0),
    Spot(_TF + "training.py_checkpoint_reader", "NewCheckpointReader", "reads prefix", "filepattern", 0),
    Spot(_TF + "training.saver", "Saver.save", "writes", "save_path", 2),
    Spot(_TF + "training.saver", "Saver.restore", "reads prefix", "save_path", 2),
    Spot(_TF + "saved_model.save", "save_and_return_nodes", "writes", "export_dir", 1),
    Spot(_TF + "saved_model.load", "load_partial", "reads in", "export_dir", 0),
    Spot(_TF + "profiler.internal._pywrap_profiler", "ProfilerSession.start", "writes", "logdir", 1),
    Spot(_TF + "lib.io._pywrap_record_io", "RecordWriter.__init__", "makes", "filename", 1),
    Spot(_TF + "ops.gen_io_ops", "write_file", "makes", "filename", 0),
    Spot(_TF + "ops.gen_io_ops", "read_file", "reads", "filename", 0),
    Spot(_TF + "ops.io_ops", "write_file", "makes", "filename", 0),
    Spot(_TF + "ops.io_ops", "read_file", "reads", "filename", 0),
    Spot(_TF + "data.ops.readers", "_create_or_validate_filenames_dataset", "reads", "filenames", 0),
    Spot(_TF + "data.ops.dataset_ops", "DatasetV2.cache", "caches", "filename", 1),
    Spot(_TF + "data.ops.dataset_ops", "DatasetV2.save", "writes in", "path", 1),
    Spot(_TF + "data.ops.dataset_ops", "DatasetV2.load", "reads in", "path", 0),
    Spot(_TF + "data.ops.dataset_ops", "DatasetV2.snapshot", "writes in", "path", 1),
    Spot("tensorboard.summary.writer.event_file_writer", "EventFileWriter.__init__", "writes", "logdir", 1),
    Spot("h5py._hl.files", "File.__init__", "opens", "name", 1),
    Spot("torch.serialization", "_open_file_like", "opens", "name_or_buffer", 0),
    Spot("torch", "_C.PyTorchFileWriter.__init__", "writes", "file_name", 1),
    Spot("torch", "_C.PyTorchFileReader.__init__", "reads", "name", 1),
    Spot("torch", "UntypedStorage.from_file", "shares", "filename", 0),
    Spot("torch.jit._script", "RecursiveScriptModule.save", "writes", "f", 1),
    Spot("torch.jit", "save", "writes", "f", 1),
    Spot("torch.jit", "load", "reads", "f", 0),
    Spot("torch.profiler.profiler", "_KinetoProfile.export_chrome_trace", "writes", "path", 1),
    Spot("jax.profiler", "start_trace", "writes", "log_dir", 0),
    Spot("orbax.checkpoint.checkpoint_manager", "CheckpointManager.__init__", "writes in", "directory", 1),
    Spot("orbax.checkpoint", "Checkpointer.save", "writes", "directory", 1),
    Spot("orbax.checkpoint", "Checkpointer.restore", "reads in", "directory", 1),
    Spot("orbax.checkpoint", "AsyncCheckpointer.save", "writes", "directory", 1),
)

WATCHED: frozenset[str] = frozenset({spot.module for spot in SPOTS} | {tf_files.MODULE, tf_files.OPS})
"""Names of the modules after whose import `Scratch.applied` must be called."""


class Frameworks:
    """Applies the rows of a module once."""

    def __init__(self, files: Overlay, patches: Patches) -> None:
        self._files = files
        self._names = Names(files)
        self._patches = patches
        self._done: set[tuple[str, str]] = set()
        self._replaced: dict[Any, Callable[..., Any]] = {}

    def apply_all(self) -> None:
        """Hook every module that is imported already, under all names others have for its functions."""
        for name in WATCHED:
            self.apply(name)
        if self._replaced:
            self._patches.everywhere(self._replaced)

    def apply(self, module_name: str) -> None:
        """Hook what a module that is now imported saves and loads."""
        module = sys.modules.get(module_name)
        if module is None:
            return
        for spot in SPOTS:
            if spot.module == module_name and (module_name, spot.name) not in self._done:
                self._done.add((module_name, spot.name))
                self._hook(module, spot)
        if module_name in (tf_files.MODULE, tf_files.OPS) and (module_name, "") not in self._done:
            self._done.add((module_name, ""))
            tf_files.install(module_name, module, self._names, self._patches)

    def _hook(self, module: Any, spot: Spot) -> None:
        *path, last = spot.name.split(".")
        holder = functools.reduce(lambda at, name: getattr(at, name, None), path, module)
        original = getattr(holder, last, None)
        if original is None:
            return  # another version of the framework, without this function
        hook: Any = functools.wraps(original)(self._wrapped(original, spot))
        if spot.how == "shares":
            hook = staticmethod(hook)
        try:
            self._patches.put(holder, last, hook)
            if isinstance(holder, ModuleType):
                self._replaced[original] = hook
        except (AttributeError, TypeError) as error:
            self._files.gap(
                f"what {spot.module}.{spot.name} writes",
                f"the function cannot be replaced ({error})",
                "observe the whole run: fitdoctor run --whole",
            )

    def _wrapped(self, original: Callable[..., Any], spot: Spot) -> Callable[..., Any]:
        files, change = self._files, self._change(spot.how)
        only_reads = spot.how.startswith("reads")
        argument, position = spot.argument, spot.position

        def hook(*args: Any, **kwargs: Any) -> Any:
            if only_reads and not files.active:
                return original(*args, **kwargs)
            if argument in kwargs:
                kwargs[argument] = change(kwargs[argument], args, kwargs)
            elif argument and len(args) > position:
                args = (*args[:position], change(args[position], args, kwargs), *args[position + 1 :])
            with contextlib.nullcontext() if only_reads else files.saving():
                return original(*args, **kwargs)

        return hook

    def _change(self, how: str) -> Callable[[Any, Any, Any], Any]:
        names = self._names

        def opened(name: Any, args: Any, kwargs: Any) -> Any:
            mode = kwargs.get("mode", next((a for a in args[1:] if isinstance(a, str) and len(a) <= 3), "r"))
            return names.every(name, names.read if mode in ("r", "rb") else functools.partial(names.update, mode=mode))

        def shared(name: Any, args: Any, kwargs: Any) -> Any:
            writes = kwargs.get("shared", args[1] if len(args) > 1 else False)
            return names.every(name, functools.partial(names.update, mode="a") if writes else names.read)

        simple = {
            "writes": names.write,
            "reads": names.read,
            "reads prefix": names.read_prefix,
            "writes in": names.write_in,
            "reads in": names.read_in,
            "makes": names.make,
            "caches": names.cache,
        }
        if how in simple:
            return lambda name, _args, _kwargs: names.every(name, simple[how])
        return {"opens": opened, "shares": shared}.get(how, lambda name, _args, _kwargs: name)
