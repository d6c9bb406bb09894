"""The machine and the process: what there is to use (`environment`), what is used (`HostSampler`)."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fitdoctor.model import Gap
from fitdoctor.probes import cgroup, device, procfs

SETTINGS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_USE_LEGACY_KERAS",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_DETERMINISTIC_OPS",
    "XLA_FLAGS",
    "JAX_PLATFORMS",
    "JAX_ENABLE_X64",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING",
    "NVIDIA_VISIBLE_DEVICES",
    "KERAS_BACKEND",
    "KERAS_HOME",
    "PYTHONDEVMODE",
)
"""Environment variables that change how fast a training runs."""

_PRIVATE = frozenset({"XLA_FLAGS", "KERAS_HOME"})
"""Those that may hold paths: only their presence is kept."""

_SLOW_READ_S = 0.001
_BF16 = re.compile(r"\b(amx_bf16|avx512_bf16|bf16)\b")


def settings() -> dict[str, str]:
    """Return the environment variables that change how fast a training runs, as far as they are set."""
    return {name: "(set)" if name in _PRIVATE else os.environ[name] for name in SETTINGS if name in os.environ}


def environment(root: Path = Path("/")) -> dict[str, Any]:
    """Describe the machine, the process's share of it and the settings; what cannot be known is left out."""
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "os": platform.system(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "settings": settings(),
    }
    optional: dict[str, Callable[[], Any]] = {
        "cpu": lambda: _cpu_model(root),
        "bf16": lambda: has_bf16(root / "proc/cpuinfo"),
        "logical_cores": os.cpu_count,
        "physical_cores": lambda: _physical_cores(root),
        "affinity": lambda: len(os.sched_getaffinity(0)),
        "affinity_cores": _affinity_cores,
        "cpu_quota": lambda: cgroup.cpu_quota(root=root),
        "memory_limit": lambda: cgroup.memory_limit(root=root),
        "nvidia_cards": lambda: device.nvidia_cards(root),
    }
    for key, read in optional.items():
        with contextlib.suppress(Exception):
            value = read()
            if value is not None:
                found[key] = value
    with contextlib.suppress(Exception):
        found.update(_memory(root))
    found["gpus"], found["gpus_why"] = device.look()
    limits = [found[key] for key in ("logical_cores", "affinity", "cpu_quota") if key in found]
    if limits:
        found["cores"] = min(limits)
    return found


def _affinity_cores() -> list[int] | None:
    """List the cores of the affinity mask where it leaves some out."""
    cores = sorted(os.sched_getaffinity(0))
    return None if len(cores) == os.cpu_count() else cores


def _cpu_model(root: Path) -> str | None:
    if sys.platform == "darwin":
        import subprocess

        return subprocess.run(
            ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, timeout=2
        ).stdout.strip()
    for line in (root / "proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model"):
            return value.strip()
    return None


def has_bf16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool | None:
    """Tell whether the processor has arithmetic for 16 bits; None where it does not say."""
    try:
        return bool(_BF16.search(cpuinfo.read_text()))
    except OSError:
        return None


def _physical_cores(root: Path) -> int | None:
    # /sys instead of psutil: psutil reads /proc/cpuinfo again, which takes milliseconds on machines with
    # many cores.
    topology = root / "sys/devices/system/cpu"
    pairs = set()
    for folder in topology.glob("cpu[0-9]*/topology"):
        pairs.add((folder / "thread_siblings_list").read_text().strip())
    if pairs:
        return len(pairs)
    import psutil

    return psutil.cpu_count(logical=False)


def _memory(root: Path) -> dict[str, int]:
    if (root / "proc/meminfo").exists():
        return procfs.parse_meminfo(procfs.read(os.fsencode(root / "proc/meminfo")))
    import psutil

    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    return {
        "memory_total": memory.total,
        "memory_available": memory.available,
        "swap_total": swap.total,
        "swap_used": swap.used,
    }


class HostSampler:
    """Looks at a process and its machine, about once a second.  Never raises.

    All times and counts are cumulative: difference two samples.  A reading that fails is left out from then
    on and stands once in `gaps`.  `pid` may be another process of the same user; watching from outside
    leaves the watched process entirely alone, and is to be preferred where there is a parent to do it.
    """

    def __init__(self, pid: int | None = None, root: Path = Path("/")) -> None:
        self.pid = os.getpid() if pid is None else pid
        self.gaps: list[Gap] = []
        folder = root / "proc" / str(self.pid)
        try:
            linux = (folder / "stat").exists()
            self._readings = _linux(self.pid, folder, root) if linux else _portable(self.pid)
        except Exception as error:
            self._readings = {}
            self.gaps.append(Gap("host readings", f"{type(error).__name__}: {error}", _REMEDY))

    def sample(self) -> dict[str, Any]:
        """Take one look."""
        values: dict[str, Any] = {}
        for name, reading in list(self._readings.items()):
            try:
                values.update(reading())
            except Exception as error:
                del self._readings[name]
                self.gaps.append(Gap(f"host: {name}", f"{type(error).__name__}: {error}", _REMEDY))
        return values


_REMEDY = "run on Linux with /proc readable by this user"


def _linux(pid: int, folder: Path, root: Path) -> dict[str, Callable[[], dict[str, Any]]]:
    base, proc = os.fsencode(folder), os.fsencode(root / "proc")
    readings: dict[str, Callable[[], dict[str, Any]]] = {
        "process": lambda: procfs.parse_process(procfs.read(base + b"/stat")),
        "threads": procfs.Threads(pid, base).read,
        "main thread": lambda: procfs.main_thread(pid, base),
        "memory": lambda: procfs.parse_meminfo(procfs.read(proc + b"/meminfo")),
        "swapping": lambda: procfs.pick(
            procfs.read(proc + b"/vmstat"), b" ", {b"pswpin": "swap_in", b"pswpout": "swap_out"}, procfs.PAGE
        ),
        "disk": lambda: procfs.pick(
            procfs.read(base + b"/io"),
            b": ",
            {b"read_bytes": "disk_read", b"write_bytes": "disk_write", b"rchar": "read"},
        ),
        "children": procfs.Children(proc, pid).read,
        "load": lambda: {"load": os.getloadavg()[0]},
        "stolen": lambda: procfs.parse_machine(procfs.read(proc + b"/stat")),
    }
    pressure = root / "proc/pressure/memory"
    if pressure.exists():  # a kernel that accounts for it
        readings["memory pressure"] = lambda: procfs.parse_pressure(procfs.read(os.fsencode(pressure)))
    throttled = cgroup.throttling_files(pid, root)
    if throttled:
        readings["throttling"] = lambda: _throttling(throttled)
    frequency = root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"
    if _is_quick(frequency):
        readings["frequency"] = lambda: {"cpu_mhz": int(frequency.read_text()) / 1000}
    return readings


def _is_quick(path: Path) -> bool:
    """Tell whether a file can be read in no time: some kernels wait 20 ms to measure a frequency."""
    start = time.perf_counter()
    try:
        path.read_text()
    except OSError:
        return False
    return time.perf_counter() - start < _SLOW_READ_S


def _throttling(files: tuple[Path, ...]) -> dict[str, Any]:
    worst = max((cgroup.parse_throttling(path.read_text()) for path in files), key=lambda each: each["throttled_s"])
    return {"throttling": worst}


def _portable(pid: int) -> dict[str, Callable[[], dict[str, Any]]]:
    """What psutil can tell on any system."""
    import psutil

    process = psutil.Process(pid)

    def used() -> dict[str, Any]:
        with process.oneshot():
            cpu, memory = process.cpu_times(), process.memory_info()
            return {
                "cpu_user": cpu.user,
                "cpu_system": cpu.system,
                "rss": memory.rss,
                "vms": memory.vms,
                "thread_count": process.num_threads(),
            }

    def children() -> dict[str, Any]:
        count, seconds = 0, 0.0
        for child in process.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                cpu = child.cpu_times()
                count, seconds = count + 1, seconds + cpu.user + cpu.system
        return {"children": count, "children_cpu": seconds}

    def memory() -> dict[str, Any]:
        swap = psutil.swap_memory()
        return {
            "memory_available": psutil.virtual_memory().available,
            "swap_used": swap.used,
            "swap_in": swap.sin,
            "swap_out": swap.sout,
        }

    return {
        "process": used,
        "children": children,
        "memory": memory,
        "load": lambda: {"load": os.getloadavg()[0]},
    }
