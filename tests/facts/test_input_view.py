"""The input as it is shown, from what was recorded."""

from __future__ import annotations

from pathlib import Path

from fitdoctor.facts import resolve
from fitdoctor.facts.input_stages import Stage
from fitdoctor.facts.input_view import InputView
from tests.captures.build import Run
from tests.report import inputs


def view(run: Run, folder: Path) -> InputView:
    return resolve(run.capture(folder)).get(InputView)


def stage(shown: InputView, op: str) -> Stage:
    return next(each for each in shown.stages if each.op == op)


def test_stages_come_as_elements_pass_them(tmp_path: Path) -> None:
    shown = view(inputs.pipeline(), tmp_path)
    assert [(each.op, each.branch, each.place is None) for each in shown.stages] == [
        ("TensorSlice", 0, False),
        ("Map", 0, False),
        ("Cache", 0, False),
        ("Shuffle", 0, False),
        ("Range", 1, False),
        ("Zip", 0, False),
        ("ParallelMap", 0, False),
        ("Map", 0, False),
        ("Batch", 0, False),
        ("Prefetch", 0, True),
    ]
    assert stage(shown, "Prefetch").fill == 0
    assert stage(shown, "Prefetch").notes == ("TensorFlow added this",)


def test_the_slowest_stage_is_not_one_that_a_cache_makes_up_for(tmp_path: Path) -> None:
    shown = view(inputs.pipeline(), tmp_path)
    below, above = (each for each in shown.stages if each.op == "Map")
    assert below.cached
    assert below.wall is not None
    assert above.wall is not None
    slowest = stage(shown, "ParallelMap")
    assert slowest.slowest
    assert slowest.wall is not None
    assert below.wall.mid > slowest.wall.mid > above.wall.mid
    assert shown.bound is not None
    assert "The input is slower than the step" in shown.bound
    assert "ParallelMap at train.py:5" in shown.bound
    assert "on 1.9 cores" in shown.bound


def test_who_waits_for_whom(tmp_path: Path) -> None:
    assert "A step waits 30." in view(inputs.pipeline(), tmp_path).waits
    assert "the step could take 12" in view(inputs.pipeline(), tmp_path).waits
    unseen = view(Run().fit(compute_ms=10, snapshots=False, dataset=inputs.DATASET), tmp_path)
    assert unseen.waits == "How long a step waits for its input could not be seen."
    assert any("fetched inside the compiled step" in gap.reason for gap in unseen.gaps)


def test_an_input_that_is_fast_enough_bounds_nothing(tmp_path: Path) -> None:
    run = Run().fit(compute_ms=50).trial("loader alone", changed_ms=5, cores=1.0)
    shown = view(run.trial("cached batch", changed_ms=50, cores=1.0), tmp_path)
    assert shown.bound == "The input is faster than the step: the step bounds the training."


def test_a_stage_that_waits_is_said_to_wait(tmp_path: Path) -> None:
    dataset = [{"op": "Map", "inputs": [1]}, {"op": "TensorSlice", "inputs": []}]
    run = Run(noise=0.001).fit(input_ms=30, compute_ms=5, dataset=dataset)
    run.trial("loader alone", changed_ms=36, cores=0.1).trial("cached batch", changed_ms=5, cores=1.0)
    for place, (op, ms) in enumerate((("TensorSlice", 0.01), ("Map", 36))):
        run.trial(f"prefix {place}: {op}", changed_ms=ms, cores=0.1, stage=place, op=op, of=2)
    shown = view(run, tmp_path)
    assert shown.bound is not None
    assert shown.bound.endswith("most of it waiting.")


def test_what_autotune_chose(tmp_path: Path) -> None:
    shown = view(inputs.pipeline(), tmp_path)
    assert shown.autotune == (
        "ParallelMapV2 at train.py:3: 1 of at most 2 calls at once",
        "ParallelMapV2 at train.py:5: 2 of at most 2 calls at once",
        "MapAndBatch at train.py:6: 2 of at most 2 calls at once",
        "Prefetch (TensorFlow added this): 8 elements in its buffer",
    )
    off = view(inputs.pipeline(looked=False, dataset_options={"autotune": False}), tmp_path)
    assert off.autotune == ("nothing: options.autotune.enabled is off",)
    left = Run().fit(dataset=[{"op": "Range", "inputs": []}]).live({"name": "Range"})
    assert view(left, tmp_path).autotune == ("nothing: no operator of this pipeline is left to it",)


def test_what_nobody_saw_is_said_with_its_remedy(tmp_path: Path) -> None:
    shown = view(inputs.pipeline(lab=False, looked=False), tmp_path)
    assert shown.bound is None
    assert shown.autotune == ()
    assert [gap.what for gap in shown.gaps] == [
        "the operators of the running pipeline",
        "what each operator costs",
        "the input without the training",
    ]
    assert all(gap.remedy for gap in shown.gaps)
    told = inputs.pipeline(looked=False).gap("the operators of the running pipeline", "autotune is off", "turn it on")
    assert [gap.reason for gap in view(told, tmp_path).gaps] == ["autotune is off"]


def test_a_cache_is_an_idea_only_where_elements_repeat(tmp_path: Path) -> None:
    shown = view(inputs.pipeline(), tmp_path)
    assert stage(shown, "Map").repeats
    assert stage(shown, "Map").cache_bytes == 512 * 27648
    assert not stage(shown, "Shuffle").repeats
    assert not stage(shown, "ParallelMap").repeats


def test_a_loader_in_python(tmp_path: Path) -> None:
    loader = view(inputs.loader(), tmp_path).loader
    assert loader is not None
    assert (loader.kind, loader.name, loader.workers, loader.processes, loader.queue) == (
        "PyDataset", "Pictures", 2, False, 10,
    )  # fmt: skip
    assert loader.ahead
    assert loader.batch is not None
    assert loader.waiting is not None
    assert 0.027 < loader.waiting.mid < 0.030
    processes = view(inputs.loader(multiprocessing=True), tmp_path).loader
    assert processes is not None
    assert processes.cpu is None, "the lab does not see the CPU time of other processes"
    torch = inputs.loader(adapter="DataLoader", queue=None, prefetch_factor=2, multiprocessing=True)
    assert getattr(view(torch, tmp_path).loader, "queue", None) == 4


def test_two_operators_that_take_from_one(tmp_path: Path) -> None:
    dataset = [
        {"op": "Zip", "inputs": [3, 1]},
        {"op": "Map", "inputs": [2]},
        {"op": "Range", "inputs": []},
        {"op": "Shuffle", "inputs": [2]},
    ]
    assert [each.op for each in view(Run().fit(dataset=dataset), tmp_path).stages] == ["Range", "Shuffle", "Map", "Zip"]


def test_a_hand_written_loop_that_does_not_tell(tmp_path: Path) -> None:
    shown = view(Run("torch").fit(kind="loop", adapter="loop", input_ms=5), tmp_path)
    assert (shown.loader, shown.stages) == (None, ())
    assert [gap.what for gap in shown.gaps] == [
        "where the batches come from",
        "what the input and each of its stages cost alone",
    ]
