"""A report in TensorBoard's event files: where a step's time went as scalars, what was found as text.

Written with TensorBoard's own records and messages, which need no TensorFlow; its `EventFileWriter` would import one.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fitdoctor import units
from fitdoctor.errors import CannotWrite, UsageError
from fitdoctor.facts.course import course
from fitdoctor.model import PARTS, Capture, Report

TAG = "fitdoctor"
_MARKED = str.maketrans({each: f"\\{each}" for each in "\\`*_<>#[]|"})


def checked(folder: Path) -> Path:
    """Return a folder that can be written to; raises where it cannot, or where TensorBoard is missing."""
    _protocol()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(
            f"cannot make the folder {folder} for TensorBoard: {error.strerror or error}", do="name another one"
        ) from error
    if not os.access(folder, os.W_OK):
        raise CannotWrite(f"cannot write to {folder}", do="name a folder for TensorBoard that can be written to")
    return folder


def write(report: Report, capture: Capture, folder: Path) -> Path:
    """Write one event file and return its path."""
    record, event_pb2, summary_pb2 = _protocol()
    now = time.time()
    name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}.{TAG}"
    path = folder / name
    with path.open("xb") as file:
        out = record.RecordWriter(file)
        out.write(event_pb2.Event(wall_time=now, file_version="brain.Event:2").SerializeToString())
        last = 0
        for step, tag, number in scalars(capture):
            value = summary_pb2.Summary.Value(tag=f"{TAG}/{tag}", simple_value=number)
            _add(out, event_pb2, summary_pb2, now, step, value)
            last = max(last, step)
        for tag, words in (("headline", report.headline), ("findings", findings(report))):
            _add(out, event_pb2, summary_pb2, now, last, _text(summary_pb2, f"{TAG}/{tag}", words))
    return path


def scalars(capture: Capture) -> Iterator[tuple[int, str, float]]:
    """Yield step, tag and value: the step time with its interval, and the share of each part, along the training."""
    for step, model in course(capture):
        yield from (
            (step, f"step_ms/{name}", value * 1e3)
            for name, value in (("low", model.step.low), ("mid", model.step.mid), ("high", model.step.high))
        )
        yield from ((step, f"share/{part}", model.share(part).mid) for part in PARTS if part not in model.gaps)


def findings(report: Report) -> str:
    """Return what was found as Markdown, the largest saving first."""
    if not report.findings:
        return "nothing worth fixing was measured"
    lines = []
    for place, each in enumerate(report.findings, 1):
        where = f" at {_plain(str(each.site))}" if each.site is not None else ""
        fix = f" Fix: {_plain(each.fix.title)}." if each.fix is not None else ""
        saves = units.percent_range(each.cost.saving)
        lines.append(f"{place}. **{_plain(each.rule)}**{where} saves {saves}. {_plain(each.cost.because)}.{fix}")
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Keep text from being taken for Markdown."""
    return " ".join(text.split()).translate(_MARKED)


def _text(summary_pb2: Any, tag: str, words: str) -> Any:
    from tensorboard.compat.proto import tensor_pb2, tensor_shape_pb2, types_pb2
    from tensorboard.plugins.text import metadata

    shape = tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=1)])
    tensor = tensor_pb2.TensorProto(
        dtype=types_pb2.DT_STRING, string_val=[words.encode("utf-8", "replace")], tensor_shape=shape
    )
    about = metadata.create_summary_metadata(display_name="", description="")
    return summary_pb2.Summary.Value(tag=f"{tag}/text_summary", metadata=about, tensor=tensor)


def _add(out: Any, event_pb2: Any, summary_pb2: Any, now: float, step: int, value: Any) -> None:
    event = event_pb2.Event(wall_time=now, step=step, summary=summary_pb2.Summary(value=[value]))
    out.write(event.SerializeToString())


def _protocol() -> tuple[Any, Any, Any]:
    try:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer import record_writer
    except ImportError as error:
        raise UsageError(
            f"Callback(tensorboard=...) needs TensorBoard's own package, which cannot be imported ({error})",
            do="pip install tensorboard, or leave tensorboard=... out",
        ) from error
    return record_writer, event_pb2, summary_pb2
