"""A real Ray cluster on this machine: trials on its nodes, a worker that is killed, a resumed search."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
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


@pytest.fixture
def address() -> Iterator[str]:
    """Start a cluster of one node; its folder has a short name, since sockets are in it."""
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    with socket.socket() as free, socket.socket() as other:
        ports = []
        for each in (free, other):
            each.bind(("127.0.0.1", 0))
            ports.append(str(each.getsockname()[1]))
    port = ports[0]
    words = ["start", "--head", "--block", "--port", port, "--num-cpus", "2", "--include-dashboard", "false"]
    words += ["--node-ip-address", "127.0.0.1", "--temp-dir", folder, "--disable-usage-stats"]
    words += ["--ray-client-server-port", ports[1], "--object-store-memory", "100000000"]
    head = subprocess.Popen(
        [sys.executable, "-c", "from ray.scripts.scripts import main; main()", *words],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        # A token that this user keeps at home is not at the home of the processes under test.
        env={**os.environ, "RAY_AUTH_MODE": "disabled"},
    )  # fmt: skip
    try:
        wait_for(port, head)
        yield f"127.0.0.1:{port}"
    finally:
        every = [psutil.Process(head.pid)] if head.poll() is None else []
        every += every[0].children(recursive=True) if every else []
        for each in every:
            with contextlib.suppress(psutil.Error):
                each.terminate()
        for each in psutil.wait_procs(every, 10)[1]:
            with contextlib.suppress(psutil.Error):
                each.kill()
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(port: str, head: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and head.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(port)), 1):
            return
        time.sleep(0.2)
    raise AssertionError("no cluster could be started")


def test_on_a_cluster(doctor: Doctor, address: str) -> None:
    """One cluster for both: starting it takes longer than they do."""
    a_worker_that_is_killed_is_survived(doctor, address)
    the_whole_of_it(doctor, address)


def a_worker_that_is_killed_is_survived(doctor: Doctor, address: str) -> None:
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
    (board,) = (each for each in worker.parent().children() if "ray::Board" in " ".join(each.cmdline()))
    board.kill()
    os.kill(worker.pid, signal.SIGKILL)
    out, err = driver.communicate(timeout=120)
    # Ray may say its own words after those of the driver.
    told = json.loads([line for line in out.splitlines() if line.startswith("{")][-1])
    assert told["seen"], (told, err)
    assert told["node"]
    assert len(list(started.iterdir())) == 2, "it was made again"
    assert not psutil.pid_exists(first), "what the killed worker had started is gone"


def the_whole_of_it(doctor: Doctor, address: str) -> None:
    doctor.script(SCRIPT.replace("time.sleep(0.02)", "pass").replace("(64, 4)", "(640, 4)"))
    done = doctor.plain(
        *("-m", "fitdoctor", "tune", "--on", "ray", "--address", address, "--only", "steps_per_execution"),
        *("--trials", "1", "--steps", "60", "--budget", "10", "--json", "tuned.json", "train.py"),
        backend="jax",
        timeout=200,
    )
    assert done.code in (0, 1), done.out + done.err
    told = json.loads((doctor.work / "tuned.json").read_text())
    assert len(told["trials"]) == 2
    assert told["trials"][0]["state"] == "own"
    assert told["trials"][1]["node"]
    assert Path(told["search"]).exists()


def test_no_cluster(doctor: Doctor) -> None:
    doctor.script("print()")
    done = doctor.plain("-m", "fitdoctor", "tune", "--on", "ray", "--address", "127.0.0.1:1", "train.py", timeout=120)
    assert done.code == 2
    assert "expected a Ray cluster at 127.0.0.1:1, found none" in done.err
