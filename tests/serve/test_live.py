"""A run under way: shown as it goes on, while its writer notices nothing."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fitdoctor.capture import store
from fitdoctor.errors import NotACapture
from fitdoctor.serve import snapshot
from fitdoctor.serve.shelf import Entry, Shelf
from tests.captures.build import MS
from tests.conftest import Doctor
from tests.serve.conftest import Client
from tests.serve.growing import begun, grown


def looked(client: Client) -> dict[str, dict[str, object]]:
    """Ask for the runs under way, past the second for which a look is remembered."""
    client.server.answers.shelf._looked = float("-inf")
    runs: dict[str, dict[str, object]] = json.loads(client.get("live.json").body)["runs"]
    return runs


def test_a_run_under_way_is_shown_as_it_goes_on(client: Client, folder: Path) -> None:
    writer, run = begun(folder)
    (state,) = looked(client).values()
    assert state["now"] == "no steady step yet; 1.50 s since it started"
    assert state["findings"] == []
    grown(writer, run, 200, compute_ms=5.0, callbacks_ms=15.0)
    client.server.answers.diagnoses._kept.clear()  # as if some seconds had passed
    ((id_, state),) = looked(client).items()
    assert str(state["now"]).startswith("200 steady steps; 9.00 s")
    assert {"compute", "callbacks"} <= {each["name"] for each in state["parts"]}  # type: ignore[attr-defined]
    assert state["findings"][0]["rule"] == "slow-callback"  # type: ignore[index]
    page = client.get(f"run/{id_}").text
    assert f'data-run="{id_}"' in page
    assert "now.py" in client.get().text
    stamp = json.loads(client.get("live.json").body)["stamp"]
    writer.meta({"exit": {"reason": "finished", "code": 0}})
    writer.seal()
    assert looked(client) == {}
    assert json.loads(client.get("live.json").body)["stamp"] != stamp, "the page learns that it has to be renewed"
    assert "slow-callback" in client.get(f"run/{id_}").text


def test_the_writer_can_seal_while_it_is_read(folder: Path, client: Client) -> None:
    """With a reader inside, SQLite refuses to leave its write-ahead mode: there must never be one."""
    writer, run = begun(folder)
    grown(writer, run, 300, compute_ms=5.0, callbacks_ms=15.0)
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            looked(client)
            client.server.answers.diagnoses._kept.clear()

    readers = [threading.Thread(target=read) for _ in range(2)]
    for each in readers:
        each.start()
    try:
        for _ in range(20):
            writer.meta({"progress": {"steps": 300, "elapsed": 10.0}})
        writer.seal()
        assert sorted(each.name for each in folder.glob("live*")) == ["live.fitdoctor"]
    finally:
        stop.set()
        for each in readers:
            each.join()
    with sqlite3.connect(folder / "live.fitdoctor") as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    db.close()


def test_every_copy_is_whole_while_the_log_is_begun_anew_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "busy.fitdoctor"
    writer = store.Writer(path)
    writer._db.execute("PRAGMA wal_autocheckpoint=20")
    done = threading.Event()

    def write() -> None:
        for number in range(600):
            rows = [(1, 0, number * 40 + i, 1, i, 10, 2, 0, 7, 1, 0, 0) for i in range(40)]
            writer.write({"steps": rows, "meta": [("rows", json.dumps((number + 1) * 40))]})
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    copies, seen = 0, 0
    while not done.is_set() or copies < 5:
        try:
            with snapshot.readable(path) as file:
                assert file != path
                db = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
                counted = db.execute("SELECT count(*) FROM steps").fetchone()[0]
                (said,) = db.execute("SELECT value FROM meta WHERE key = 'rows'").fetchone() or ("0",)
                assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                db.close()
        except NotACapture:
            # A writer that never rests may be too fast for a busy machine: that is said, nothing wrong is shown.
            continue
        assert counted == int(said) >= seen, "one moment, and never an earlier one"
        seen, copies = counted, copies + 1
    thread.join()
    writer.seal()
    with snapshot.readable(path) as file:
        assert file == path


def test_a_run_that_was_killed_is_not_called_running_for_ever(tmp_path: Path) -> None:
    writer, _ = begun(tmp_path)
    entry = Shelf(tmp_path).entries()[0]
    assert entry.state(entry.written + 5) == "running"
    assert entry.state(entry.written + 600) == "silent"
    writer.close()


def test_a_capture_in_its_first_moment_is_no_trouble(client: Client, folder: Path) -> None:
    (folder / "new.fitdoctor").touch()
    db = sqlite3.connect(folder / "newer.fitdoctor")
    db.execute("PRAGMA journal_mode=WAL")
    db.execute(f"PRAGMA application_id={store.APPLICATION_ID}")
    assert looked(client) == {}
    assert client.get().status == 200
    db.close()


@pytest.mark.parametrize("meta", [{"exit": 3}, {"progress": []}, {"versions": "x"}, {"environment": 1}, {"command": 7}])
def test_strange_meta_is_no_trouble(client: Client, folder: Path, meta: dict[str, object]) -> None:
    writer = store.Writer(folder / "strange.fitdoctor")
    writer.meta({"script": "strange.py", **meta, "summary": {"schema": "fitdoctor.summary/1"}})
    writer.seal()
    assert client.get().status == 200
    assert client.get("live.json").status == 200


def test_entries_know_nothing_they_were_not_told() -> None:
    entry = Entry("0" * 16, Path("x"), "x.fitdoctor", (1, 5 * MS, 0, 0))
    assert (entry.title, entry.arguments, entry.step, entry.seconds, entry.started) == (
        "x.fitdoctor",
        "",
        None,
        None,
        0.005,
    )


TRAINING = """
import keras, numpy as np, time

class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)

x = np.random.default_rng(0).standard_normal((64_000, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, x[:, :1], epochs=9, verbose=0, callbacks=[Slow()])
"""


@pytest.mark.framework
def test_a_real_run_is_watched_live_and_left_alone(doctor: Doctor, client: Client, folder: Path) -> None:
    script = doctor.script(TRAINING)
    capture = folder / "real.fitdoctor"
    command = ["-m", "fitdoctor", "run", "--no-lab", "--steps", "400", "--capture", str(capture), str(script)]
    run = subprocess.Popen(
        [sys.executable, *command], env=doctor.env("jax"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    steps, rules = [0], set()
    while run.poll() is None:
        for state in looked(client).values():
            steps.append(int(str(state["steps"])))
            rules |= {each["rule"] for each in state["findings"]}  # type: ignore[attr-defined]
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.wait(0.3)
    out, err = run.communicate()
    assert run.returncode == 0, err
    assert steps == sorted(steps)
    assert steps[-1] > 0, "seen while it ran"
    assert "slow-callback" in rules, "found while it ran"
    assert sorted(each.name for each in folder.glob("real*")) == ["real.fitdoctor"], "sealed as without us"
    found = next(each for each in Shelf(folder).entries() if each.path == capture)
    assert found.ended == "capped"
    assert found.summary is not None
    assert found.summary["top"]["rule"] == "slow-callback"
    assert found.summary["headline"] in " ".join(out.split())
