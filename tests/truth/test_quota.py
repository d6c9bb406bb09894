"""A real control group with a CPU quota: what the kernel says it stops is what a training loses."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fitdoctor.facts.throttling import Quota
from fitdoctor.probes import cgroup
from fitdoctor.probes.host import HostSampler

PERIOD_US = 100_000
WORK = "for _ in range(45): sum(range(1_000_000))"
WAITS = f"import sys; sys.stdin.readline()\n{WORK}"


@pytest.fixture
def group() -> Iterator[Path]:
    """Make a group that may use half a core, where this user may."""
    name = f"fitdoctor-test-{os.getpid()}"
    mine = next((made for folder in reversed(cgroup.groups("cpu")) if (made := _limited(folder / name))), None)
    if mine is None:
        pytest.skip("no control group with a CPU quota can be made here")
    yield mine
    for _ in range(50):
        with contextlib.suppress(OSError):
            mine.rmdir()
            break
        time.sleep(0.1)


def _limited(folder: Path) -> Path | None:
    """Make a group with a quota; None where it cannot be made or this kernel gives it none."""
    try:
        folder.mkdir()
    except OSError:
        return None
    if (folder / "cpu.max").exists():
        (folder / "cpu.max").write_text(f"{PERIOD_US // 2} {PERIOD_US}")
        return folder
    if (folder / "cpu.cfs_quota_us").exists():
        (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (folder / "cpu.cfs_quota_us").write_text(str(PERIOD_US // 2))
        return folder
    folder.rmdir()
    return None


def test_what_a_quota_stops_is_what_is_lost(group: Path) -> None:
    free = _seconds(None)
    held, quota = _watched(group)
    lost = 1 - free / held
    assert quota.cores == 0.5
    assert quota.periods > 0.5
    # Others use this machine too, which stretches both alike: a wide margin.
    assert 1 - quota.used / (quota.used + quota.stopped) == pytest.approx(lost, abs=0.25)


def _seconds(group: Path | None) -> float:
    child = subprocess.Popen([sys.executable, "-c", WAITS], stdin=subprocess.PIPE, text=True)
    if group is not None:
        (group / "cgroup.procs").write_text(str(child.pid))
    start = time.monotonic()
    child.communicate("go\n", timeout=120)
    return time.monotonic() - start


def _watched(group: Path) -> tuple[float, Quota]:
    child = subprocess.Popen([sys.executable, "-c", WAITS], stdin=subprocess.PIPE, text=True)
    (group / "cgroup.procs").write_text(str(child.pid))
    cores = cgroup.cpu_quota(child.pid)
    assert cores is not None
    sampler = HostSampler(child.pid)
    assert child.stdin is not None
    start = time.monotonic()
    child.stdin.write("go\n")
    child.stdin.flush()
    first, began, last, at = sampler.sample(), start, {}, start
    while child.poll() is None:
        seen = sampler.sample()
        if "cpu_user" in seen and child.poll() is None:
            last, at = seen, time.monotonic()
        time.sleep(0.1)
    seconds = at - began
    used = last["cpu_user"] + last["cpu_system"] - first["cpu_user"] - first["cpu_system"]
    stopped, periods, used_up = (
        last["throttling"][name] - first["throttling"][name] for name in ("throttled_s", "periods", "throttled_periods")
    )
    child.stdin.close()
    return time.monotonic() - start, Quota(cores, stopped / seconds, used / seconds, used_up / max(1, periods), 2.0)
