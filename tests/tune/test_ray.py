"""A real Ray cluster on this machine: trials on its nodes, a worker that is killed, a resumed search."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import Doctor

pytest.importorskip("ray")
pytestmark = [pytest.mark.framework, pytest.mark.slow]

DRIVER = """
import json, sys
from fitdoctor.tune.attempt import Job
from fitdoctor.tune.on_ray import Cluster
from fitdoctor.tune.settings import Settings
from fitdoctor.capture.launch import Options

cluster = Cluster(sys.argv[1])
print("nodes", cluster.slots, flush=True)
result = cluster.run(Job("killed", Options(target="train.py", steps=int(sys.argv[2])), Settings()), lambda *told: False)
print(json.dumps({"failed": result.failed, "node": result.node, "seen": result.seen is not None}))
cluster.close()
"""
SCRIPT = """
import os, pathlib, time
pathlib.Path("started", str(os.getpid())).touch()
import keras
import numpy as np

class Slowly(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        time.sleep(0.02)

x = np.zeros((64, 4), "float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=16, epochs=2000, verbose=0, callbacks=[Slowly()])
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a cluster of one node."""
    folder = tmp_path_factory.mktemp("ray")
    env = {**os.environ, "RAY_TMPDIR": str(folder), "RAY_USAGE_STATS_ENABLED": "0"}
    port = "6399"
    words = ["start", "--head", "--block", "--port", port, "--num-cpus", "2", "--include-dashboard", "false"]
    words += ["--object-store-memory", "100000000", "--disable-usage-stats"]
    head = subprocess.Popen(
        [sys.executable, "-m", "ray.scripts.scripts", *words],
        env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        yield f"127.0.0.1:{port}"
    finally:
        every = [*psutil.Process(head.pid).children(recursive=True), psutil.Process(head.pid)]
        for each in every:
            each.terminate()
        for each in psutil.wait_procs(every, 10)[1]:
            each.kill()
        head.wait(10)


def test_a_worker_that_is_killed_is_survived(doctor: Doctor, address: str) -> None:
    doctor.script(SCRIPT)
    doctor.script(DRIVER, "driver.py")
    started = doctor.work / "started"
    started.mkdir()
    driver = subprocess.Popen(
        [sys.executable, "driver.py", address, "300"],
        cwd=doctor.work, env=doctor.env("jax"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 90
    while not any(started.iterdir()):
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    (first,) = (int(path.name) for path in started.iterdir())
    worker = psutil.Process(first).parent()
    assert worker is not None
    assert "ray::" in " ".join(worker.cmdline())
    os.kill(worker.pid, signal.SIGKILL)
    out, err = driver.communicate(timeout=120)
    told = json.loads(out.splitlines()[-1])
    assert told["seen"], (told, err)
    assert told["node"]
    assert len(list(started.iterdir())) == 2, "it was made again"
    assert not psutil.pid_exists(first), "what the killed worker had started is gone"


def test_the_whole_of_it_on_a_cluster(doctor: Doctor, address: str) -> None:
    (doctor.work / "started").mkdir()
    doctor.script(SCRIPT.replace("time.sleep(0.02)", "pass").replace("(64, 4)", "(640, 4)"))
    done = doctor.plain(
        *("-m", "fitdoctor", "tune", "--on", "ray", "--address", address, "--only", "steps_per_execution"),
        *("--trials", "1", "--steps", "60", "--budget", "10", "--json", "tuned.json", "train.py"),
        backend="jax",
        timeout=200,
    )
    assert done.code in (0, 1), done.out + done.err
    told = json.loads((doctor.work / "tuned.json").read_text())
    assert [each["state"] for each in told["trials"]][0] == "own"
    assert len(told["trials"]) == 2
    assert told["trials"][1]["node"]
    assert Path(told["search"]).exists()


def test_no_cluster(doctor: Doctor) -> None:
    doctor.script("print()")
    done = doctor.plain("-m", "fitdoctor", "tune", "--on", "ray", "--address", "127.0.0.1:1", "train.py", timeout=120)
    assert done.code == 2
    assert "expected a Ray cluster at 127.0.0.1:1, found none" in done.err
