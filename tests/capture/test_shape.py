"""A capture whose facts were changed by hand or damaged: what has its shape is read, the rest said, nothing fails."""

from __future__ import annotations

import copy
import io
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from fitdoctor.capture import store
from fitdoctor.capture.shape import fitted
from fitdoctor.cli.main import main
from tests.captures.build import Run

META: dict[str, Any] = json.loads((Path(__file__).parents[1] / "captures" / "meta.json").read_text("utf-8"))
"""Of a real run, with a GPU and other backends besides."""
GONE = object()
STRANGE = ("x", "", 7, -3.5, 0, True, None, [], {}, [1, "a"], {"a": 1}, float("nan"), float("inf"), 10**30, "7")
Path_ = tuple[Any, ...]


def places(value: Any, here: Path_ = ()) -> Iterator[Path_]:
    """Yield the way to every value in a table."""
    if here:
        yield here
    if isinstance(value, (dict, list)):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(each, (*here, key))


PLACES = [each for each in places(META) if each != ("schema",)]


def changed(meta: dict[str, Any], place: Path_, value: Any) -> dict[str, Any]:
    """Put another value in a place, or take away what is there; where the place is gone, nothing is changed."""
    found = copy.deepcopy(meta)
    here: Any = found
    try:
        for key in place[:-1]:
            here = here[key]
        if value is GONE:
            del here[place[-1]]
        else:
            here[place[-1]] = value
    except (LookupError, TypeError):
        return meta
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a small run that was slow for some causes."""
    run = Run("tensorflow")
    run.meta = {**run.meta, **META}
    run.fit(steps=60, input_ms=10, compute_ms=5, callbacks_ms=2).callback("Watch", ms=2).pyfunc(wall_ms=5, cpu_ms=5)
    run.trial("jit_compile=True", baseline_ms=10, changed_ms=5)
    run.source("import keras\nmodel.compile('adam', 'mse')\nmodel.fit(x)\n")
    return Path(run.capture(tmp_path_factory.mktemp("whole")).path)


def diagnosed(whole: Path, meta: dict[str, Any], *words: str) -> tuple[int, str, str]:
    """Run a command on the capture with other facts."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.fitdoctor"
        shutil.copy(whole, path)
        with sqlite3.connect(path) as db:
            db.execute("DELETE FROM meta")
            db.executemany("INSERT INTO meta VALUES(?,?)", [(key, json.dumps(value)) for key, value in meta.items()])
        db.close()
        told = io.BytesIO()
        with redirect_stdout(io.TextIOWrapper(told, "utf-8")) as out, redirect_stderr(io.StringIO()) as err:
            code = main([*(words or ("diagnose",)), str(path)])
            out.flush()
            return code, told.getvalue().decode(), err.getvalue()


def test_a_real_one_has_its_shape() -> None:
    found, problems = fitted(META)
    assert problems == []
    assert found == META


def test_what_is_not_known_is_no_fault() -> None:
    found, problems = fitted({**META, "cwd": None, "stack": None, "wall_s": None, "new": {"later": [None]}})
    assert problems == []
    assert not {"cwd", "stack", "wall_s"} & found.keys()
    assert found["new"] == {"later": [None]}, "what a later fitdoctor adds is kept"


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("exit",), "capped", "exit of the capture: expected a table, found 'capped'"),
        (("exit", "reason"), 3, "exit.reason of the capture: expected a text, found 3"),
        (("account", "imports"), "long", "account.imports of the capture: expected a number that is not negative"),
        (("environment", "cores"), 0, "environment.cores of the capture: expected a number above zero, found 0"),
        (("environment", "gpus"), {}, "environment.gpus of the capture: expected a list, found a table"),
        (("environment", "gpus", 0), 7, "environment.gpus[0] of the capture: expected a table, found 7"),
        (("backends", 1, "rounds", 0, "once_s"), GONE, "backends[1].rounds[0] of the capture: it lacks once_s"),
        (("started",), 10**30, "started of the capture: expected seconds since 1970"),
        (("command", 1), 5, "command[1] of the capture: expected a text, found 5"),
    ],
)
def test_what_has_another_shape_is_left_out_and_said(whole: Path, place: Path_, value: Any, said: str) -> None:
    meta = changed(META, place, value)
    code, out, err = diagnosed(whole, meta)
    assert code == 0, err
    assert said in " ".join(out.split())
    assert "this capture was changed or damaged" in " ".join(out.split())


def test_a_command_without_one_of_its_words_is_not_run_again() -> None:
    assert "command" not in fitted(changed(META, ("command", 0), None))[0]


def test_another_schema_is_refused(whole: Path) -> None:
    code, _, err = diagnosed(whole, {**META, "schema": ["fitdoctor.capture/1"]})
    assert code == 2
    assert "expected 'fitdoctor.capture/1'" in err


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from((*STRANGE, GONE))), min_size=1, max_size=4),
    st.sampled_from([("diagnose",), ("report", "--format", "json"), ("report", "--format", "html")]),
)
def test_no_change_of_it_is_a_bug(whole: Path, changes: list[tuple[Path_, Any]], words: tuple[str, ...]) -> None:
    meta = META
    for place, value in changes:
        meta = changed(meta, place, value)
    code, out, err = diagnosed(whole, meta, *words)
    assert code in (0, 2), err
    assert "bug" not in err
    assert "Traceback" not in err + out
    assert out or code == 2


def test_the_list_of_runs_reads_it_too(whole: Path) -> None:
    for place, value in ((("exit",), 3), (("progress",), []), (("environment",), "x"), (("versions",), [1])):
        assert fitted(changed(META, place, value))[0].get(place[0]) is None
    assert store.read_meta(whole)["exit"] == META["exit"]
