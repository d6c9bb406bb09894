"""Readers of Linux's /proc, cheap enough to be called inside a training process."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
_CHILDREN_EVERY = 5


# These calls keep the GIL.  A file of /proc is read in a few microseconds; giving the lock up around each
# of the some hundred calls a sample needs would cost a busy training thread as many forced switches, and
# stretch the sample over a third of a second.
_libc = ctypes.PyDLL(None, use_errno=True)


def read(path: bytes) -> bytes:
    """Read a whole file of /proc without giving up the GIL."""
    handle = _libc.open(path, os.O_RDONLY | os.O_CLOEXEC)
    if handle < 0:
        raise _error(path)
    try:
        buffer = ctypes.create_string_buffer(8192)
        data = b""
        while True:
            count = _libc.read(handle, buffer, 8192)
            if count < 0:
                raise _error(path)
            data += ctypes.string_at(buffer, count)
            # The kernel hands long lists out by the page; what comes in less than half a page is all there
            # is.
            if count < 2048:
                return data
    finally:
        _libc.close(handle)


def _error(path: bytes) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), os.fsdecode(path))


def pick(text: bytes, separator: bytes, names: dict[bytes, str], factor: int = 1) -> dict[str, int]:
    """Take some numbers out of a list of names and values; ValueError names those that are missing."""
    values = {}
    for line in text.splitlines():
        name, _, value = line.partition(separator)
        if name in names:
            values[names[name]] = int(value.split()[0]) * factor
    missing = set(names.values()) - set(values)
    if missing:
        raise ValueError(f"expected {', '.join(sorted(missing))}, found none")
    return values


def parse_machine(stat: bytes) -> dict[str, float]:
    """Read the first line of /proc/stat: CPU seconds of all cores, and those that others on the same host took."""
    words = stat.partition(b"\n")[0].split()
    if not words or words[0] != b"cpu" or len(words) < 9:
        raise ValueError("expected eight counters behind cpu, found fewer")
    counters = [int(each) / _TICKS for each in words[1:9]]
    return {"machine_cpu": sum(counters), "machine_stolen": counters[7]}


def parse_process(stat: bytes) -> dict[str, Any]:
    """Read /proc/PID/stat: CPU seconds, faults, memory, threads."""
    fields = stat[stat.rindex(b")") + 2 :].split()
    return {
        "cpu_user": int(fields[11]) / _TICKS,
        "cpu_system": int(fields[12]) / _TICKS,
        "children_ended_cpu": (int(fields[13]) + int(fields[14])) / _TICKS,
        "major_faults": int(fields[9]),
        "thread_count": int(fields[17]),
        "vms": int(fields[20]),
        "rss": int(fields[21]) * PAGE,
    }


def parse_meminfo(text: bytes) -> dict[str, int]:
    """Read /proc/meminfo: bytes of memory and of swap, there and in use."""
    names = {
        b"MemTotal": "memory_total",
        b"MemAvailable": "memory_available",
        b"SwapTotal": "swap_total",
        b"SwapFree": "swap_free",
    }
    values = pick(text, b":", names, 1024)
    values["swap_used"] = values["swap_total"] - values.pop("swap_free")
    return values


def parse_pressure(text: bytes) -> dict[str, Any]:
    """Read /proc/pressure/memory: seconds for which some, and for which all, that wanted to run waited for memory.

    >>> parse_pressure(b"some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\\nfull avg10=0.00 total=1000000\\n")
    {'memory_stall': {'some': 2.5, 'full': 1.0}}
    """
    totals = {line.split()[0].decode(): int(line.rpartition(b"total=")[2]) / 1e6 for line in text.splitlines()}
    return {"memory_stall": {name: totals[name] for name in ("some", "full")}}


def main_thread(pid: int, base: bytes) -> dict[str, Any]:
    """Read how often the main thread waited and was preempted, its CPU seconds and its wait for a core."""
    # status and schedstat of the process's folder are those of its main thread.
    values: dict[str, Any] = dict(
        pick(
            read(base + b"/status"),
            b":",
            {b"voluntary_ctxt_switches": "main_waits", b"nonvoluntary_ctxt_switches": "main_preempted"},
        )
    )
    with contextlib.suppress(OSError, ValueError):
        cpu, delay, _ = read(base + b"/task/" + str(pid).encode() + b"/schedstat").split()
        values["main_cpu"] = int(cpu) / 1e9
        values["main_run_delay"] = int(delay) / 1e9
    return values


class Threads:
    """CPU seconds per group of threads: "main", and the others by name without digits.

    Threads that end keep counting in their group, so that the numbers never fall.
    """

    def __init__(self, pid: int, base: bytes) -> None:
        self._main = str(pid)
        self._folder = base + b"/task"
        self._last: dict[tuple[str, bytes], tuple[str, float]] = {}
        self._ended: dict[str, float] = {}

    def read(self) -> dict[str, Any]:
        """Return {"threads": {group: seconds}}."""
        now: dict[tuple[str, bytes], tuple[str, float]] = {}
        for tid in os.listdir(self._folder):
            try:
                stat = read(self._folder + b"/" + tid + b"/stat")
            except OSError:
                continue  # it ended meanwhile
            end = stat.rindex(b")")
            fields = stat[end + 2 :].split()
            name = stat[stat.index(b"(") + 1 : end].decode("utf-8", "replace")
            group = "main" if tid.decode() == self._main else group_name(name)
            # A thread id may be given again; together with the start time it may not.
            now[tid.decode(), fields[19]] = group, (int(fields[11]) + int(fields[12])) / _TICKS
        for key, (group, seconds) in self._last.items():
            if key not in now:
                self._ended[group] = self._ended.get(group, 0.0) + seconds
        self._last = now
        totals = dict(self._ended)
        for group, seconds in now.values():
            totals[group] = totals.get(group, 0.0) + seconds
        return {"threads": totals}


@functools.lru_cache(maxsize=4096)
def group_name(name: str) -> str:
    """Put threads of a pool under one name.

    >>> group_name("tf_data_private_12"), group_name("Thread-3 (work"), group_name("12")
    ('tf_data_private', 'Thread (work', 'unnamed')
    """
    return re.sub(r"[-_:/ ]*\d+", "", name).strip("-_:/ ") or "unnamed"


class Children:
    """Worker processes: how many live, and the CPU seconds of them all, ended ones included.

    The list is made anew only every few samples: it needs one look at every thread of every process of the
    family.
    """

    def __init__(self, proc: bytes, pid: int) -> None:
        self._proc = proc
        self._pid = str(pid).encode()
        self._known: list[bytes] = []
        self._last: dict[tuple[bytes, bytes], float] = {}
        self._ended = 0.0
        self._calls = 0
        self._listed = os.path.exists(proc + b"/" + self._pid + b"/task/" + self._pid + b"/children")

    def read(self) -> dict[str, Any]:
        """Return {"children": count, "children_cpu": seconds}."""
        if self._calls % _CHILDREN_EVERY == 0:
            self._known = self._descendants()
        self._calls += 1
        now: dict[tuple[bytes, bytes], float] = {}
        for pid in self._known:
            with contextlib.suppress(OSError, ValueError):
                stat = read(self._proc + b"/" + pid + b"/stat")
                fields = stat[stat.rindex(b")") + 2 :].split()
                if fields[0] != b"Z":
                    now[pid, fields[19]] = (int(fields[11]) + int(fields[12])) / _TICKS
        self._ended += sum(seconds for key, seconds in self._last.items() if key not in now)
        self._last = now
        return {"children": len(now), "children_cpu": self._ended + sum(now.values())}

    def _descendants(self) -> list[bytes]:
        if not self._listed:  # a kernel built without these lists: look at every process of the machine instead
            import psutil

            return [str(each.pid).encode() for each in psutil.Process(int(self._pid)).children(recursive=True)]
        found: list[bytes] = []
        queue = [self._pid]
        while queue:
            folder = self._proc + b"/" + queue.pop() + b"/task"
            try:
                tids = os.listdir(folder)
            except OSError:
                continue
            for tid in tids:
                with contextlib.suppress(OSError):  # it ended meanwhile
                    children = read(folder + b"/" + tid + b"/children").split()
                    found.extend(children)
                    queue.extend(children)
        return found
