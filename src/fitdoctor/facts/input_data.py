"""The input as data: what stands under `input` in a report, and what `fitdoctor input --json` writes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fitdoctor.facts.batch_making import BatchMaking
from fitdoctor.facts.input_pipeline import PythonFunction
from fitdoctor.facts.input_stages import Stage
from fitdoctor.facts.input_view import InputView
from fitdoctor.facts.live_pipeline import Setting
from fitdoctor.facts.loader_setup import LoaderSetup
from fitdoctor.facts.trials import Alone
from fitdoctor.model import Interval, Site

INPUT_SCHEMA = "fitdoctor.input/1"


def as_data(view: InputView) -> dict[str, Any]:
    """Return plain data: times in milliseconds, sizes in bytes, null for what is not known."""
    return {
        "adapter": view.adapter,
        "backend": view.backend,
        "step_ms": _ms(view.step),
        "wait_ms": _ms(view.wait),
        "alone": _alone(view.alone),
        "work": _alone(view.work),
        "waits": view.waits,
        "bound": view.bound,
        "autotune": list(view.autotune),
        "stages": [_stage(each) for each in view.stages],
        "loader": _loader(view.loader) if view.loader is not None else None,
        "making": _making(view.making) if view.making is not None else None,
        "functions": [_function(each) for each in view.functions],
        "unknown": [asdict(each) for each in view.gaps],
    }


def _stage(stage: Stage) -> dict[str, Any]:
    return {
        "op": stage.op,
        "place": stage.place,
        "branch": stage.branch,
        "inputs": list(stage.inputs),
        "site": _site(stage.site),
        "ran": stage.ran,
        "per_step": stage.per_step,
        "elements": stage.elements,
        "per_second": _interval(stage.rate),
        "wall_ms": _ms(stage.wall),
        "cpu_ms": _ms(stage.cpu),
        "waiting_ms": _ms(stage.waiting),
        "busy_ms": _ms(stage.busy),
        "bytes": stage.bytes_each,
        "cache_bytes": stage.cache_bytes,
        "parallel": _setting(stage.parallel),
        "buffer": _setting(stage.buffer),
        "fill": stage.fill,
        "repeats": stage.repeats,
        "cached": stage.cached,
        "slowest": stage.slowest,
        "notes": list(stage.notes),
    }


def _loader(loader: LoaderSetup) -> dict[str, Any]:
    return {
        "kind": loader.kind,
        "name": loader.name,
        "site": _site(loader.site),
        "batch_size": loader.batch_size,
        "batches": loader.batches,
        "workers": loader.workers,
        "processes": loader.processes,
        "queue": loader.queue,
        "bytes": loader.bytes,
        "ahead": loader.ahead,
        "batch_ms": _ms(loader.batch),
        "cpu_ms": _ms(loader.cpu),
        "waiting_ms": _ms(loader.waiting),
    }


def _making(making: BatchMaking) -> dict[str, Any]:
    return {
        "batch_ms": _ms(making.batch),
        "cpu_ms": _ms(making.cpu),
        "waiting_ms": _ms(making.waiting),
        "alone": making.alone,
        "gil_held": making.gil_held,
        "gil_training": making.gil_training,
        "lines": [{"site": _site(each.site), "share": each.share} for each in making.lines],
        "ready": making.ready,
        "late": making.late,
        "out_of_order": making.out_of_order,
        "start_ms": making.start_s * 1e3 if making.start_s is not None else None,
        "stop_ms": making.stop_s * 1e3 if making.stop_s is not None else None,
    }


def _function(function: PythonFunction) -> dict[str, Any]:
    return {
        "name": function.name,
        "kind": function.kind,
        "site": _site(function.site),
        "calls": function.count,
        "wall_ms": function.wall_each * 1e3,
        "cpu_ms": function.cpu_each * 1e3,
    }


def _alone(side: Alone | None) -> dict[str, Any] | None:
    return None if side is None else {"ms": _ms(side.seconds), "cores": side.cores}


def _setting(setting: Setting | None) -> dict[str, Any] | None:
    return None if setting is None else asdict(setting)


def _site(site: Site | None) -> dict[str, Any] | None:
    return None if site is None else asdict(site)


def _ms(seconds: Interval | None) -> dict[str, float] | None:
    return None if seconds is None else _interval(seconds.scale(1e3))


def _interval(interval: Interval | None) -> dict[str, float] | None:
    return None if interval is None else {"low": interval.low, "mid": interval.mid, "high": interval.high}
