"""What the control groups of a Linux machine allow a process: CPU quota, memory limit, throttling.

Both hierarchies, mixed ones too.  A limit set on any ancestor binds, so every function walks from the
process's own group up to where the hierarchy is mounted.  In a container the mount shows only the
container's own part; what is set above it cannot be seen from inside.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

_NO_LIMIT = 1 << 60
"""Version 1 writes "no limit" as the largest number of bytes that is a multiple of the page size."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One mounted hierarchy: version 2, or the part of version 1 that holds some controllers."""

    version: int
    controllers: frozenset[str]
    root: str
    """Which group of the hierarchy is mounted."""
    point: Path


def cpu_quota(pid: int | str = "self", root: Path = Path("/")) -> float | None:
    """Return how many cores' worth of time the process may use per period, or None without a limit."""
    quotas = [quota for group in groups("cpu", pid, root) if (quota := _quota(group)) is not None]
    return min(quotas, default=None)


def memory_limit(pid: int | str = "self", root: Path = Path("/")) -> int | None:
    """Return how many bytes of memory the process and its group may use, or None without a limit."""
    limits = [limit for group in groups("memory", pid, root) if (limit := _memory(group)) is not None]
    return min(limits, default=None)


def free_memory() -> int:
    """Return the bytes this process may still take."""
    free = int(psutil.virtual_memory().available)
    limit = memory_limit()
    return free if limit is None else min(free, limit - int(psutil.Process().memory_info().rss))


def usable_cores() -> float:
    """Return how many cores this process may keep busy."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(float(cores), cpu_quota() or float(cores))


def throttling_files(pid: int | str = "self", root: Path = Path("/")) -> tuple[Path, ...]:
    """Return the `cpu.stat` files of the groups that have a quota: those that can throttle the process."""
    return tuple(group / "cpu.stat" for group in groups("cpu", pid, root) if _quota(group) is not None)


def parse_throttling(text: str) -> dict[str, float]:
    """Read a `cpu.stat`: periods seen, periods throttled, seconds throttled, all since the group was made.

    >>> parse_throttling("nr_periods 10\\nnr_throttled 3\\nthrottled_usec 250000\\n")
    {'periods': 10, 'throttled_periods': 3, 'throttled_s': 0.25}
    """
    values = dict(line.split(None, 1) for line in text.splitlines() if " " in line)
    seconds = int(values["throttled_usec"]) / 1e6 if "throttled_usec" in values else int(values["throttled_time"]) / 1e9
    return {
        "periods": int(values["nr_periods"]),
        "throttled_periods": int(values["nr_throttled"]),
        "throttled_s": seconds,
    }


def groups(controller: str, pid: int | str = "self", root: Path = Path("/")) -> list[Path]:
    """Return the folders of the process's group and of its visible ancestors, innermost first."""
    try:
        paths = _own_paths((root / "proc" / str(pid) / "cgroup").read_text())
        mounts = list(_mounts((root / "proc" / str(pid) / "mountinfo").read_text(), root))
    except OSError:
        return []
    found: list[Path] = []
    for mount in mounts:
        own = _own(controller, mount, paths)
        if own is not None:
            found.extend(_climb(mount, own))
    return found


def _own(controller: str, mount: Mount, paths: Mapping[str, str]) -> str | None:
    if mount.version == 2:
        return paths.get("")
    return paths.get(controller) if controller in mount.controllers else None


def _own_paths(text: str) -> dict[str, str]:
    """Read /proc/PID/cgroup: the group's path per controller, under "" for version 2."""
    paths: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path
    return paths


def _mounts(text: str, root: Path) -> Iterator[Mount]:
    for line in text.splitlines():
        left, separator, right = line.partition(" - ")
        fields, after = left.split(), right.split()
        if not separator or len(fields) < 5 or len(after) < 3 or after[0] not in ("cgroup", "cgroup2"):
            continue
        yield Mount(
            version=2 if after[0] == "cgroup2" else 1,
            controllers=frozenset(after[2].split(",")),
            root=_unescape(fields[3]),
            point=root / _unescape(fields[4]).lstrip("/"),
        )


def _unescape(path: str) -> str:
    return path.replace("\\040", " ")


def _climb(mount: Mount, own: str) -> Iterator[Path]:
    """Walk from a group up to the mount point.

    A path that is not below the mounted group (".." in a control group namespace, or a container started
    with the host's view of /proc) leaves the mount point itself: it shows the innermost group that can be
    seen.
    """
    base = mount.root.rstrip("/")
    inside = own[len(base) :] if (own + "/").startswith(base + "/") else ""
    names = [name for name in inside.split("/") if name]
    if ".." in names:
        names = []
    for depth in range(len(names), -1, -1):
        folder = mount.point.joinpath(*names[:depth])
        if folder.is_dir():
            yield folder


def _quota(group: Path) -> float | None:
    text = _text(group / "cpu.max")
    if text is not None:
        quota, _, period = text.partition(" ")
        return None if quota == "max" else int(quota) / int(period or 100_000)
    quota_v1, period_v1 = _text(group / "cpu.cfs_quota_us"), _text(group / "cpu.cfs_period_us")
    if quota_v1 is None or period_v1 is None or int(quota_v1) <= 0:
        return None
    return int(quota_v1) / int(period_v1)


def _memory(group: Path) -> int | None:
    text = _text(group / "memory.max")
    if text is None:
        text = _text(group / "memory.limit_in_bytes")
    if text is None or text == "max" or int(text) >= _NO_LIMIT:
        return None
    return int(text)


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
