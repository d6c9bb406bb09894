"""A conversion that is killed, at any moment, and started again, ends as if nothing had been."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fitdoctor.cli.main import main
from fitdoctor.errors import EXIT_OK
from tests.shard.conftest import fill, fingerprint

FILES = 3000
SIZE = "100KB"
KILLED_AT = """
import os, signal, sys
from pathlib import Path
from fitdoctor.shard import convert, manifest, records

def dies(owner, name, after, count):
    original = getattr(owner, name)
    calls = []
    def wrapper(*args, **kwargs):
        calls.append(1)
        if not after and len(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*args, **kwargs)
        if after and len(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(owner, name, wrapper)

dies({owner}, {name!r}, {after}, {count})
from fitdoctor.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
MOMENTS = {
    "before the plan": ("manifest.Manifest", "plan", False, 1),
    "after the plan": ("manifest.Manifest", "plan", True, 1),
    "within a shard": ("records._TFRecord", "write", True, 250),
    "before the checksums are known": ("manifest.Manifest", "written", False, 3),
    "before a shard has its name": ("Path", "rename", False, 3),
    "after a shard has its name": ("Path", "rename", True, 3),
    "before the last note of a shard": ("manifest.Manifest", "state", False, 4),
    "when all is there but not said": ("manifest.Manifest", "completed", False, 1),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("files") / "source", FILES, largest=1000)


@pytest.fixture(scope="module", params=["tfrecord", "array_record"])
def undisturbed(request: pytest.FixtureRequest, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / str(request.param)
    assert main(["shard", str(source), str(out), "--shard-size", SIZE, "--format", request.param]) == EXIT_OK
    return out


def words(source: Path, out: Path, format_: str = "tfrecord") -> list[str]:
    return ["shard", str(source), str(out), "--shard-size", SIZE, "--format", format_]


@pytest.mark.parametrize("undisturbed", ["tfrecord"], indirect=True)
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at(moment: str, source: Path, undisturbed: Path, tmp_path: Path) -> None:
    owner, name, after, count = MOMENTS[moment]
    script = KILLED_AT.format(owner=owner, name=name, after=after, count=count)
    out = tmp_path / "out"
    done = subprocess.run([sys.executable, "-c", script, *words(source, out)], capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert main(words(source, out)) == EXIT_OK
    assert fingerprint(out) == fingerprint(undisturbed)
    assert not list(out.glob(".part-*"))


def test_killed_again_and_again(source: Path, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    draw = random.Random(11)
    kills = 0
    start = time.perf_counter()
    whole = [sys.executable, "-m", "fitdoctor", *words(source, tmp_path / "whole", undisturbed.name)]
    subprocess.run(whole, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=60)
    took = time.perf_counter() - start  # a machine may be quick
    for _ in range(12):
        child = subprocess.Popen(
            [sys.executable, "-m", "fitdoctor", *words(source, out, undisturbed.name)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(draw.uniform(0.3, 0.9) * took)
        child.kill()
        kills += child.wait(timeout=60) == -signal.SIGKILL
    assert kills > 0
    assert main(words(source, out, undisturbed.name)) == EXIT_OK
    assert fingerprint(out) == fingerprint(undisturbed)


@pytest.mark.parametrize("undisturbed", ["tfrecord"], indirect=True)
def test_interrupted_by_its_user(source: Path, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = KILLED_AT.format(owner="manifest.Manifest", name="written", after=True, count=2).replace(
        "SIGKILL", "SIGINT"
    )
    # Started in the background by a shell, processes ignore the signal from the beginning.
    script = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n" + script
    done = subprocess.run([sys.executable, "-c", script, *words(source, out)], capture_output=True, timeout=60)
    assert done.returncode == 130
    assert b"interrupted" in done.stderr
    assert b"Traceback" not in done.stderr
    assert main(words(source, out)) == EXIT_OK
    assert fingerprint(out) == fingerprint(undisturbed)
